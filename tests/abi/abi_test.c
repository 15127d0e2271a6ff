/*
 * Compares the declarations of driver/cuda_abi.h and of the lab with the CUDA toolkit, at compile
 * time: constants, sizes and offsets of structures, and exact types of functions in Mend's
 * version. At run time: the names of the symbols that have these types. Built only where the
 * toolkit's headers are found. Nothing of it is linked.
 */
#include "lab/driver/kernels.h"
#include "lab/peers/cuda_pool.h"

#include <cuda.h>
#include <cudaTypedefs.h>
#include <stdio.h>
#include <string.h>

/* ---- values ------------------------------------------------------------------------------ */

#define SAME_VALUE(ours, theirs)                                                                   \
    _Static_assert((long long)(ours) == (long long)(theirs), #ours " differs from " #theirs)

#define X(ours, theirs, value) SAME_VALUE(ours, theirs);
MEND_CU_CONSTANTS(X)
MEND_CU_POOL_CONSTANTS(X)
#undef X

/* X(our result, CUresult) */
#define RESULTS(X)                                                                                 \
    X(MEND_DRIVER_OK, CUDA_SUCCESS)                                                                \
    X(MEND_DRIVER_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE)                                         \
    X(MEND_DRIVER_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY)                                         \
    X(MEND_DRIVER_NOT_INITIALIZED, CUDA_ERROR_NOT_INITIALIZED)                                     \
    X(MEND_DRIVER_DEINITIALIZED, CUDA_ERROR_DEINITIALIZED)                                         \
    X(MEND_DRIVER_NO_DEVICE, CUDA_ERROR_NO_DEVICE)                                                 \
    X(MEND_DRIVER_INVALID_DEVICE, CUDA_ERROR_INVALID_DEVICE)                                       \
    X(MEND_DRIVER_INVALID_CONTEXT, CUDA_ERROR_INVALID_CONTEXT)                                     \
    X(MEND_DRIVER_INVALID_HANDLE, CUDA_ERROR_INVALID_HANDLE)                                       \
    X(MEND_DRIVER_ILLEGAL_STATE, CUDA_ERROR_ILLEGAL_STATE)                                         \
    X(MEND_DRIVER_NOT_FOUND, CUDA_ERROR_NOT_FOUND)                                                 \
    X(MEND_DRIVER_NOT_READY, CUDA_ERROR_NOT_READY)                                                 \
    X(MEND_DRIVER_ILLEGAL_ADDRESS, CUDA_ERROR_ILLEGAL_ADDRESS)                                     \
    X(MEND_DRIVER_LAUNCH_FAILED, CUDA_ERROR_LAUNCH_FAILED)                                         \
    X(MEND_DRIVER_NOT_PERMITTED, CUDA_ERROR_NOT_PERMITTED)                                         \
    X(MEND_DRIVER_NOT_SUPPORTED, CUDA_ERROR_NOT_SUPPORTED)                                         \
    X(MEND_DRIVER_CAPTURE_UNSUPPORTED, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)                      \
    X(MEND_DRIVER_CAPTURE_INVALIDATED, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)                      \
    X(MEND_DRIVER_CAPTURE_MERGE, CUDA_ERROR_STREAM_CAPTURE_MERGE)                                  \
    X(MEND_DRIVER_CAPTURE_ISOLATION, CUDA_ERROR_STREAM_CAPTURE_ISOLATION)                          \
    X(MEND_DRIVER_CAPTURE_IMPLICIT, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)                            \
    X(MEND_DRIVER_CAPTURED_EVENT, CUDA_ERROR_CAPTURED_EVENT)                                       \
    X(MEND_DRIVER_UNKNOWN, CUDA_ERROR_UNKNOWN)

#define X(ours, theirs) SAME_VALUE(ours, theirs);
RESULTS(X)
#undef X

SAME_VALUE(MEND_SHARE_NONE, CU_MEM_HANDLE_TYPE_NONE);
SAME_VALUE(MEND_SHARE_FILE_DESCRIPTOR, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
SAME_VALUE(MEND_SHARE_FABRIC, CU_MEM_HANDLE_TYPE_FABRIC);
SAME_VALUE(MEND_FABRIC_HANDLE_BYTES, sizeof(CUmemFabricHandle));
SAME_VALUE(MEND_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_GLOBAL);
SAME_VALUE(MEND_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
SAME_VALUE(MEND_CAPTURE_MODE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED);
SAME_VALUE(MEND_CAPTURE_NONE, CU_STREAM_CAPTURE_STATUS_NONE);
SAME_VALUE(MEND_CAPTURE_ACTIVE, CU_STREAM_CAPTURE_STATUS_ACTIVE);
SAME_VALUE(MEND_CAPTURE_INVALIDATED, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
_Static_assert((CUdriverProcAddressQueryResult)0 == CU_GET_PROC_ADDRESS_SUCCESS, "symbol found");

/* ---- types ------------------------------------------------------------------------------- */

#define SAME_TYPE(ours, theirs)                                                                    \
    _Static_assert(__builtin_types_compatible_p(ours, theirs), #ours " differs from " #theirs)
#define SAME_SIZE(ours, theirs)                                                                    \
    _Static_assert(sizeof(ours) == sizeof(theirs) && _Alignof(ours) == _Alignof(theirs),           \
                   #ours " differs from " #theirs)
#define SAME_FIELD(ours, field, theirs, their_field)                                               \
    _Static_assert(offsetof(ours, field) == offsetof(theirs, their_field) &&                       \
                       sizeof(((ours *)0)->field) == sizeof(((theirs *)0)->their_field),           \
                   #ours "." #field " differs from " #theirs "." #their_field)

SAME_TYPE(mend_stream, CUstream);
SAME_TYPE(mend_event, CUevent);
SAME_TYPE(mend_context, CUcontext);
SAME_TYPE(mend_cu_module, CUmodule);
SAME_TYPE(mend_cu_function, CUfunction);
SAME_TYPE(mend_cu_graph, CUgraph);
SAME_TYPE(mend_cu_graph_node, CUgraphNode);
SAME_TYPE(mend_cu_address, CUdeviceptr);
SAME_TYPE(mend_cu_chunk, CUmemGenericAllocationHandle);
SAME_TYPE(mend_cu_device, CUdevice);
SAME_TYPE(mend_cu_id, cuuint64_t);
SAME_SIZE(mend_chunk_handle, CUmemGenericAllocationHandle);
SAME_SIZE(mend_status, CUresult);
SAME_SIZE(mend_cu_attribute, CUdevice_attribute);
SAME_SIZE(mend_cu_granularity, CUmemAllocationGranularity_flags);
SAME_SIZE(mend_cu_share_type, CUmemAllocationHandleType);
SAME_SIZE(mend_cu_capture_mode, CUstreamCaptureMode);
SAME_SIZE(mend_cu_capture_status, CUstreamCaptureStatus);
SAME_SIZE(mend_cu_symbol_status, CUdriverProcAddressQueryResult);

SAME_SIZE(mend_cu_location, CUmemLocation);
SAME_FIELD(mend_cu_location, type, CUmemLocation, type);
SAME_FIELD(mend_cu_location, id, CUmemLocation, id);

SAME_SIZE(mend_cu_chunk_properties, CUmemAllocationProp);
SAME_FIELD(mend_cu_chunk_properties, type, CUmemAllocationProp, type);
SAME_FIELD(mend_cu_chunk_properties, share_types, CUmemAllocationProp, requestedHandleTypes);
SAME_FIELD(mend_cu_chunk_properties, location, CUmemAllocationProp, location);
SAME_FIELD(mend_cu_chunk_properties, windows_attributes, CUmemAllocationProp, win32HandleMetaData);
SAME_FIELD(mend_cu_chunk_properties, flags, CUmemAllocationProp, allocFlags);
SAME_FIELD(mend_cu_chunk_properties, flags.compression, CUmemAllocationProp,
           allocFlags.compressionType);
SAME_FIELD(mend_cu_chunk_properties, flags.rdma, CUmemAllocationProp,
           allocFlags.gpuDirectRDMACapable);
SAME_FIELD(mend_cu_chunk_properties, flags.usage, CUmemAllocationProp, allocFlags.usage);
SAME_FIELD(mend_cu_chunk_properties, flags.reserved, CUmemAllocationProp, allocFlags.reserved);

SAME_SIZE(mend_cu_access, CUmemAccessDesc);
SAME_FIELD(mend_cu_access, location, CUmemAccessDesc, location);
SAME_FIELD(mend_cu_access, flags, CUmemAccessDesc, flags);

/* ---- functions --------------------------------------------------------------------------- */

/* Suffixes of a symbol in cuda.h: the newest version of a function is not always ours. */
typedef struct symbol_names {
    const char *ours;
    const char *newest;
    int version;
} symbol_names;

#define TEXT(name)          TEXT_AS_IT_IS(name)
#define TEXT_AS_IT_IS(name) #name
static const symbol_names symbols[] = {
#define X(name, version, suffix, parameters) {#name suffix, TEXT(name), version},
    MEND_CU_FUNCTIONS(X) MEND_CU_OPTIONAL_FUNCTIONS(X) MEND_CU_KERNEL_FUNCTIONS(X)
        MEND_CU_POOL_FUNCTIONS(X)
#undef X
};

/* From here on our names of types stand for the toolkit's own, so that types are compared exactly,
 * enumerations and structures included. */
#define mend_status              CUresult
#define mend_cu_attribute        CUdevice_attribute
#define mend_cu_granularity      CUmemAllocationGranularity_flags
#define mend_cu_share_type       CUmemAllocationHandleType
#define mend_cu_capture_mode     CUstreamCaptureMode
#define mend_cu_capture_status   CUstreamCaptureStatus
#define mend_cu_symbol_status    CUdriverProcAddressQueryResult
#define mend_cu_pool_attribute   CUmemPool_attribute
#define mend_cu_chunk_properties CUmemAllocationProp
#define mend_cu_access           CUmemAccessDesc

#define X(name, version, suffix, parameters)                                                       \
    _Static_assert(                                                                                \
        __builtin_types_compatible_p(mend_status(*) parameters, PFN_##name##_v##version),          \
        #name " of CUDA version " #version " differs");
MEND_CU_FUNCTIONS(X)
MEND_CU_OPTIONAL_FUNCTIONS(X)
MEND_CU_KERNEL_FUNCTIONS(X)
MEND_CU_POOL_FUNCTIONS(X)
#undef X

typedef mend_status (*get_proc_address)(const char *symbol, void **function, int version,
                                        mend_cu_id flags, mend_cu_symbol_status *found);
_Static_assert(__builtin_types_compatible_p(get_proc_address, PFN_cuGetProcAddress_v12000),
               "cuGetProcAddress_v2 differs");

int main(void)
{
    int failures = 0;
    if (MEND_STREAM_LEGACY != CU_STREAM_LEGACY || MEND_STREAM_PER_THREAD != CU_STREAM_PER_THREAD) {
        printf("the special streams have other handles\n");
        failures++;
    }
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        const symbol_names *symbol = &symbols[i];
        if (symbol->version > CUDA_VERSION) {
            printf("%s: version %d is newer than the toolkit's\n", symbol->ours, symbol->version);
            failures++;
        }
        /* Older on purpose: the first version that tells all Mend asks for. */
        if (strcmp(symbol->ours, symbol->newest) != 0 &&
            strcmp(symbol->ours, "cuStreamGetCaptureInfo_v2") != 0 &&
            strcmp(symbol->ours, "cuGraphNodeGetDependencies") != 0) {
            printf("%s: cuda.h names the symbol %s\n", symbol->ours, symbol->newest);
            failures++;
        }
    }
    printf("%zu functions compared with CUDA %d\n", sizeof(symbols) / sizeof(symbols[0]),
           CUDA_VERSION);
    return failures == 0 ? 0 : 1;
}
