/*
 * The binary interface of the CUDA driver, as far as Mend uses it, so that no CUDA header is
 * needed. tests/abi compares each type, value and function with cuda.h.
 */
#ifndef MEND_DRIVER_CUDA_ABI_H
#define MEND_DRIVER_CUDA_ABI_H

#include <stddef.h>

#include "driver/driver.h"

typedef unsigned long long mend_cu_address; /* CUdeviceptr */
typedef unsigned long long mend_cu_chunk;   /* CUmemGenericAllocationHandle */
typedef uint64_t mend_cu_id;                /* cuuint64_t */
typedef int mend_cu_device;                 /* CUdevice */

/* Enumerations of the driver. Each is an int wide. */
typedef int mend_cu_attribute;      /* CUdevice_attribute */
typedef int mend_cu_granularity;    /* CUmemAllocationGranularity_flags */
typedef int mend_cu_share_type;     /* CUmemAllocationHandleType */
typedef int mend_cu_capture_mode;   /* CUstreamCaptureMode */
typedef int mend_cu_capture_status; /* CUstreamCaptureStatus */
typedef int mend_cu_symbol_status;  /* CUdriverProcAddressQueryResult */

/* X(name here, name in cuda.h, value) */
#define MEND_CU_CONSTANTS(X)                                                                       \
    X(MEND_CU_INTEGRATED, CU_DEVICE_ATTRIBUTE_INTEGRATED, 18)                                      \
    X(MEND_CU_COMPUTE_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 75)                     \
    X(MEND_CU_COMPUTE_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 76)                     \
    X(MEND_CU_HAS_HOST_REGISTER, CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 99)                  \
    X(MEND_CU_HAS_VIRTUAL_MEMORY, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 102)    \
    X(MEND_CU_HAS_FILE_DESCRIPTOR,                                                                 \
      CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 103)                        \
    X(MEND_CU_HAS_MEMORY_POOLS, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 115)                   \
    X(MEND_CU_HAS_RDMA, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, 110)          \
    X(MEND_CU_HAS_FABRIC, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, 128)                   \
    X(MEND_CU_HAS_MULTICAST, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 132)                         \
    X(MEND_CU_GRANULARITY_MINIMUM, CU_MEM_ALLOC_GRANULARITY_MINIMUM, 0)                            \
    X(MEND_CU_GRANULARITY_RECOMMENDED, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED, 1)                    \
    X(MEND_CU_ALLOCATION_PINNED, CU_MEM_ALLOCATION_TYPE_PINNED, 1)                                 \
    X(MEND_CU_LOCATION_DEVICE, CU_MEM_LOCATION_TYPE_DEVICE, 1)                                     \
    X(MEND_CU_ACCESS_READ, CU_MEM_ACCESS_FLAGS_PROT_READ, 1)                                       \
    X(MEND_CU_ACCESS_READ_WRITE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE, 3)                            \
    X(MEND_CU_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING, 1)                                      \
    X(MEND_CU_EVENT_NO_TIMING, CU_EVENT_DISABLE_TIMING, 2)                                         \
    X(MEND_CU_USER_OBJECT_NO_SYNC, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC, 1)                           \
    X(MEND_CU_USER_OBJECT_MOVE, CU_GRAPH_USER_OBJECT_MOVE, 1)                                      \
    X(MEND_CU_SYMBOLS_LEGACY_STREAM, CU_GET_PROC_ADDRESS_LEGACY_STREAM, 1)

enum {
#define X(ours, theirs, value) ours = value,
    MEND_CU_CONSTANTS(X)
#undef X
};

/* CUmemLocation */
typedef struct mend_cu_location {
    int type;
    int id;
} mend_cu_location;

/* CUmemAllocationProp */
typedef struct mend_cu_chunk_properties {
    int type;
    int share_types;
    mend_cu_location location;
    void *windows_attributes;
    struct {
        unsigned char compression;
        unsigned char rdma;
        unsigned short usage;
        unsigned char reserved[4];
    } flags;
} mend_cu_chunk_properties;

/* CUmemAccessDesc */
typedef struct mend_cu_access {
    mend_cu_location location;
    int flags;
} mend_cu_access;

typedef struct CUgreenCtx_st *mend_cu_green_context;
typedef struct CUgraph_st *mend_cu_graph;
typedef struct CUgraphNode_st *mend_cu_graph_node;
typedef struct CUuserObject_st *mend_cu_user_object;
typedef void (*mend_cu_host_function)(void *); /* CUhostFn */

/*
 * Every function that Mend calls: X(name, CUDA version of this signature, suffix of the symbol with
 * it, parameters). All return a CUresult.
 */
#define MEND_CU_FUNCTIONS(X)                                                                       \
    X(cuInit, 2000, "", (unsigned int flags))                                                      \
    X(cuDriverGetVersion, 2020, "", (int *version))                                                \
    X(cuGetErrorName, 6000, "", (mend_status status, const char **name))                           \
    X(cuDeviceGetCount, 2000, "", (int *count))                                                    \
    X(cuDeviceGet, 2000, "", (mend_cu_device * device, int ordinal))                               \
    X(cuDeviceGetName, 2000, "", (char *name, int bytes, mend_cu_device device))                   \
    X(cuDeviceTotalMem, 3020, "_v2", (size_t * bytes, mend_cu_device device))                      \
    X(cuDeviceGetAttribute, 2000, "",                                                              \
      (int *value, mend_cu_attribute attribute, mend_cu_device device))                            \
    X(cuDeviceCanAccessPeer, 4000, "", (int *can, mend_cu_device device, mend_cu_device peer))     \
    X(cuDevicePrimaryCtxRetain, 7000, "", (mend_context * context, mend_cu_device device))         \
    X(cuDevicePrimaryCtxRelease, 11000, "_v2", (mend_cu_device device))                            \
    X(cuCtxGetCurrent, 4000, "", (mend_context * context))                                         \
    X(cuCtxPushCurrent, 4000, "_v2", (mend_context context))                                       \
    X(cuCtxPopCurrent, 4000, "_v2", (mend_context * context))                                      \
    X(cuCtxGetDevice, 2000, "", (mend_cu_device * device))                                         \
    X(cuCtxSynchronize, 2000, "", (void))                                                          \
    X(cuThreadExchangeStreamCaptureMode, 10010, "", (mend_cu_capture_mode * mode))                 \
    X(cuMemGetInfo, 3020, "_v2", (size_t * free_bytes, size_t * total_bytes))                      \
    X(cuMemGetAllocationGranularity, 10020, "",                                                    \
      (size_t * bytes, const mend_cu_chunk_properties *properties, mend_cu_granularity kind))      \
    X(cuMemAddressReserve, 10020, "",                                                              \
      (mend_cu_address * address, size_t bytes, size_t alignment, mend_cu_address hint,            \
       unsigned long long flags))                                                                  \
    X(cuMemAddressFree, 10020, "", (mend_cu_address address, size_t bytes))                        \
    X(cuMemCreate, 10020, "",                                                                      \
      (mend_cu_chunk * chunk, size_t bytes, const mend_cu_chunk_properties *properties,            \
       unsigned long long flags))                                                                  \
    X(cuMemRelease, 10020, "", (mend_cu_chunk chunk))                                              \
    X(cuMemMap, 10020, "",                                                                         \
      (mend_cu_address address, size_t bytes, size_t offset, mend_cu_chunk chunk,                  \
       unsigned long long flags))                                                                  \
    X(cuMemUnmap, 10020, "", (mend_cu_address address, size_t bytes))                              \
    X(cuMemSetAccess, 10020, "",                                                                   \
      (mend_cu_address address, size_t bytes, const mend_cu_access *access, size_t count))         \
    X(cuMemExportToShareableHandle, 10020, "",                                                     \
      (void *shared, mend_cu_chunk chunk, mend_cu_share_type type, unsigned long long flags))      \
    X(cuMemImportFromShareableHandle, 10020, "",                                                   \
      (mend_cu_chunk * chunk, void *shared, mend_cu_share_type type))                              \
    X(cuMemAlloc, 3020, "_v2", (mend_cu_address * address, size_t bytes))                          \
    X(cuMemFree, 3020, "_v2", (mend_cu_address address))                                           \
    X(cuMemAllocAsync, 11020, "", (mend_cu_address * address, size_t bytes, mend_stream stream))   \
    X(cuMemFreeAsync, 11020, "", (mend_cu_address address, mend_stream stream))                    \
    X(cuMemHostAlloc, 2020, "", (void **pointer, size_t bytes, unsigned int flags))                \
    X(cuMemFreeHost, 2000, "", (void *pointer))                                                    \
    X(cuMemHostRegister, 6050, "_v2", (void *pointer, size_t bytes, unsigned int flags))           \
    X(cuMemHostUnregister, 4000, "", (void *pointer))                                              \
    X(cuMemcpyAsync, 4000, "",                                                                     \
      (mend_cu_address destination, mend_cu_address source, size_t bytes, mend_stream stream))     \
    X(cuMemsetD8Async, 3020, "",                                                                   \
      (mend_cu_address address, unsigned char value, size_t bytes, mend_stream stream))            \
    X(cuStreamCreate, 2000, "", (mend_stream * stream, unsigned int flags))                        \
    X(cuStreamDestroy, 4000, "_v2", (mend_stream stream))                                          \
    X(cuStreamQuery, 2000, "", (mend_stream stream))                                               \
    X(cuStreamSynchronize, 2000, "", (mend_stream stream))                                         \
    X(cuStreamWaitEvent, 3020, "", (mend_stream stream, mend_event event, unsigned int flags))     \
    X(cuStreamGetCtx, 9020, "", (mend_stream stream, mend_context * context))                      \
    X(cuStreamGetCaptureInfo, 11030, "_v2",                                                        \
      (mend_stream stream, mend_cu_capture_status * status, mend_cu_id * id,                       \
       mend_cu_graph * graph, const mend_cu_graph_node **dependencies, size_t *dependency_count))  \
    X(cuGraphNodeGetDependencies, 10000, "",                                                       \
      (mend_cu_graph_node node, mend_cu_graph_node * dependencies, size_t * count))                \
    X(cuUserObjectCreate, 11030, "",                                                               \
      (mend_cu_user_object * object, void *data, mend_cu_host_function destroy,                    \
       unsigned int references, unsigned int flags))                                               \
    X(cuUserObjectRelease, 11030, "", (mend_cu_user_object object, unsigned int count))            \
    X(cuGraphRetainUserObject, 11030, "",                                                          \
      (mend_cu_graph graph, mend_cu_user_object object, unsigned int count, unsigned int flags))   \
    X(cuEventCreate, 2000, "", (mend_event * event, unsigned int flags))                           \
    X(cuEventRecord, 2000, "", (mend_event event, mend_stream stream))                             \
    X(cuEventQuery, 2000, "", (mend_event event))                                                  \
    X(cuEventSynchronize, 2000, "", (mend_event event))                                            \
    X(cuEventDestroy, 4000, "_v2", (mend_event event))

/* The same for optional functions, NULL if the driver has none. */
#define MEND_CU_OPTIONAL_FUNCTIONS(X)                                                              \
    X(cuStreamGetId, 12000, "", (mend_stream stream, unsigned long long *id))                      \
    X(cuStreamGetGreenCtx, 12040, "", (mend_stream stream, mend_cu_green_context * context))       \
    X(cuCtxRecordEvent, 12050, "", (mend_context context, mend_event event))

typedef struct mend_cu_functions {
#define X(name, version, suffix, parameters) mend_status(*name) parameters;
    MEND_CU_FUNCTIONS(X)
    MEND_CU_OPTIONAL_FUNCTIONS(X)
#undef X
} mend_cu_functions;

/* How the functions above are found: cuGetProcAddress_v2, in drivers from 12.0 on. */
typedef mend_status (*mend_cu_get_proc_address)(const char *symbol, void **function, int version,
                                                mend_cu_id flags, mend_cu_symbol_status *found);

#endif
