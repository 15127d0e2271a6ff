/*
 * The driver: the only way from Mend to a GPU, a table of functions with a written contract.
 *
 * There are two implementations: the CUDA driver (cuda.c) and the simulated device (sim/).
 * Decorators have the same interface and pass every call on to an inner table: forward.c releases a
 * lock around slow calls. Others apply a shared limit, or count and time calls.
 *
 * Conventions of every function:
 *  - the first argument is the table itself. Its `state` belongs to the implementation.
 *  - the result is the driver's own code (the values of CUresult), MEND_DRIVER_OK on success.
 *  - outputs are untouched on failure.
 *  - sizes and addresses are bytes. Durations are nanoseconds.
 *  - every function may be called from any thread. The calls that need a current context say so.
 *    context_push makes one current for the thread.
 *
 * Sources: the CUDA driver API reference, and docs/driver-facts.md for observed behavior.
 */
#ifndef MEND_DRIVER_DRIVER_H
#define MEND_DRIVER_DRIVER_H

#include <stdbool.h>
#include <stdint.h>

#include "mend/mend.h"

/* The driver's result codes that Mend names, with the values of CUresult (tests/abi compares them).
 * Any other value may be returned and is passed on unchanged. */
typedef int mend_status;

/* X(name here, name in cuda.h, value) */
#define MEND_DRIVER_STATUSES(X)                                                                    \
    X(MEND_DRIVER_OK, CUDA_SUCCESS, 0)                                                             \
    X(MEND_DRIVER_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE, 1)                                      \
    X(MEND_DRIVER_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY, 2)                                      \
    X(MEND_DRIVER_NOT_INITIALIZED, CUDA_ERROR_NOT_INITIALIZED, 3)                                  \
    X(MEND_DRIVER_DEINITIALIZED, CUDA_ERROR_DEINITIALIZED, 4)                                      \
    X(MEND_DRIVER_NO_DEVICE, CUDA_ERROR_NO_DEVICE, 100)                                            \
    X(MEND_DRIVER_INVALID_DEVICE, CUDA_ERROR_INVALID_DEVICE, 101)                                  \
    X(MEND_DRIVER_INVALID_CONTEXT, CUDA_ERROR_INVALID_CONTEXT, 201)                                \
    X(MEND_DRIVER_INVALID_HANDLE, CUDA_ERROR_INVALID_HANDLE, 400)                                  \
    X(MEND_DRIVER_ILLEGAL_STATE, CUDA_ERROR_ILLEGAL_STATE, 401)                                    \
    X(MEND_DRIVER_NOT_FOUND, CUDA_ERROR_NOT_FOUND, 500)                                            \
    X(MEND_DRIVER_NOT_READY, CUDA_ERROR_NOT_READY, 600)                                            \
    X(MEND_DRIVER_ILLEGAL_ADDRESS, CUDA_ERROR_ILLEGAL_ADDRESS, 700)                                \
    X(MEND_DRIVER_LAUNCH_FAILED, CUDA_ERROR_LAUNCH_FAILED, 719)                                    \
    X(MEND_DRIVER_NOT_PERMITTED, CUDA_ERROR_NOT_PERMITTED, 800)                                    \
    X(MEND_DRIVER_NOT_SUPPORTED, CUDA_ERROR_NOT_SUPPORTED, 801)                                    \
    X(MEND_DRIVER_CAPTURE_UNSUPPORTED, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, 900)                 \
    X(MEND_DRIVER_CAPTURE_INVALIDATED, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, 901)                 \
    X(MEND_DRIVER_CAPTURE_MERGE, CUDA_ERROR_STREAM_CAPTURE_MERGE, 902)                             \
    X(MEND_DRIVER_CAPTURE_ISOLATION, CUDA_ERROR_STREAM_CAPTURE_ISOLATION, 905)                     \
    X(MEND_DRIVER_CAPTURE_IMPLICIT, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, 906)                       \
    X(MEND_DRIVER_CAPTURED_EVENT, CUDA_ERROR_CAPTURED_EVENT, 907)                                  \
    X(MEND_DRIVER_UNKNOWN, CUDA_ERROR_UNKNOWN, 999)

enum {
#define X(ours, theirs, value) ours = value,
    MEND_DRIVER_STATUSES(X)
#undef X
};

typedef struct CUctx_st *mend_context; /* CUcontext */
typedef struct CUevent_st *mend_event; /* CUevent */
typedef uint64_t mend_chunk_handle;    /* CUmemGenericAllocationHandle. 0 is never a handle */

/* The two special stream handles of the driver. NULL means the legacy stream. */
#define MEND_STREAM_LEGACY     ((mend_stream)(uintptr_t)1)
#define MEND_STREAM_PER_THREAD ((mend_stream)(uintptr_t)2)

/* Bits of CUmemAllocationHandleType. */
enum { MEND_SHARE_NONE = 0, MEND_SHARE_FILE_DESCRIPTOR = 1, MEND_SHARE_FABRIC = 8 };

/* CUmemFabricHandle */
enum { MEND_FABRIC_HANDLE_BYTES = 64 };

/* Access rights to mapped memory: values of CUmemAccess_flags. */
typedef enum mend_access { MEND_ACCESS_READ = 1, MEND_ACCESS_READ_WRITE = 3 } mend_access;

typedef enum mend_capture_mode {
    MEND_CAPTURE_MODE_GLOBAL = 0,
    MEND_CAPTURE_MODE_THREAD_LOCAL = 1,
    MEND_CAPTURE_MODE_RELAXED = 2
} mend_capture_mode;

typedef enum mend_capture_state {
    MEND_CAPTURE_NONE = 0,
    MEND_CAPTURE_ACTIVE = 1,
    MEND_CAPTURE_INVALIDATED = 2
} mend_capture_state;

/* Properties of a device. Filled by device_open. Constant until device_close. */
typedef struct mend_device_info {
    char name[128];
    mend_context context;       /* the primary context, retained by device_open */
    uint64_t total_bytes;       /* physical memory of the device */
    uint64_t granularity_bytes; /* the page: sizes of chunks, addresses of mappings */
    uint64_t recommended_bytes; /* the driver's recommended granularity */
    int driver_version;         /* 1000 * major + 10 * minor, as CUDA counts. 0: simulated */
    int compute_major;
    int compute_minor;
    bool virtual_memory;        /* create, map and access work (probed by use) */
    bool memory_pools;          /* async_alloc works */
    bool host_register;         /* host_register works. On a simulated device by request */
    bool share_file_descriptor; /* MEND_SHARE_FILE_DESCRIPTOR can be asked for */
    bool share_fabric;          /* MEND_SHARE_FABRIC can be asked for, beside descriptors if the
                                 * device has these */
    bool rdma;                  /* gpuDirectRDMACapable may be set (probed) */
    bool multicast;
    bool integrated; /* the device uses the host's memory */
    uint64_t peers;  /* bit n: device n (another one) can be given access to the memory */
} mend_device_info;

/* How a chunk is created. */
typedef struct mend_chunk_properties {
    int device;      /* ordinal of the device that holds the memory */
    int share_types; /* MEND_SHARE_... bits the chunk can be exported as. 0 unless asked for */
    bool rdma;
} mend_chunk_properties;

/* During a capture the driver does not identify a created stream, and the query invalidates the
 * capture. So while capture is not NONE, id, context and home are 0. For a special stream they are
 * always set. */
typedef struct mend_stream_info {
    uint64_t id;          /* unique for the life of the process, never reused (cuStreamGetId) */
    mend_context context; /* the stream's context. Events recorded on the stream must be of the same
                           * one */
    mend_context home;    /* the context whose synchronization covers the stream: for a green
                           * context the primary one */
    mend_capture_state capture;
    uint64_t capture_id; /* unique among captures. 0 unless capture is ACTIVE */
} mend_stream_info;

/* Called when a captured graph has ended: see capture_keep. */
typedef void (*mend_capture_ended)(void *context);

/* A small kernel for tools, tests and contract checks. The allocator itself never launches. */
typedef enum mend_kernel_kind {
    MEND_KERNEL_SPIN,   /* runs for duration_ns and touches nothing */
    MEND_KERNEL_WRITE,  /* writes `value` to every 4-byte word of each granule, repeatedly until
                         * duration_ns have passed (at least once) */
    MEND_KERNEL_VERIFY, /* counts 4-byte words that differ from `value` into *mismatches */
    MEND_KERNEL_STREAM, /* reads everything and writes it back unchanged, repeatedly until
                         * duration_ns have passed (at least once), with the whole device: a memory
                         * load */
    MEND_KERNEL_READ,   /* the same without writing */
    MEND_KERNEL_GATHER, /* reads at random: as many times 16 bytes as READ, each from a 32-byte
                         * sector anywhere in the range */
    MEND_KERNEL_KINDS   /* their number */
} mend_kernel_kind;

/* STREAM, READ and GATHER work on tiles of this size and ignore an incomplete last one. */
#define MEND_KERNEL_TILE_BYTES UINT64_C(32768)

typedef struct mend_kernel {
    mend_kernel_kind kind;
    uint32_t value;
    uint64_t duration_ns;
    uint64_t address;       /* first granule */
    uint64_t granule_bytes; /* bytes touched at each step. A multiple of 4 */
    uint64_t stride_bytes;  /* distance between granules. At least granule_bytes. STREAM, READ,
                             * GATHER: granule_bytes */
    uint64_t granule_count;
    uint64_t mismatches; /* VERIFY: address of a uint64_t counter that the device can write. The
                          * kernel adds to it */
} mend_kernel;

/* Checks that need no memory access: sizes are multiples of 4 bytes. For STREAM, READ and GATHER
 * there is one range, a multiple of 16 bytes. */
static inline bool mend_kernel_is_sound(const mend_kernel *kernel)
{
    bool streams = kernel->kind >= MEND_KERNEL_STREAM && kernel->kind < MEND_KERNEL_KINDS;
    uint64_t word_bytes = streams ? 16 : 4;
    return kernel->granule_bytes % word_bytes == 0 && kernel->address % word_bytes == 0 &&
           (!streams || kernel->stride_bytes == kernel->granule_bytes);
}

/*
 * One row for each function of the table: X(member, the driver's call name, bytes, parameters,
 * arguments). `bytes` is the size that the call is about, 0 if it has none. `arguments` passes the
 * same call to the table `inner`. In the order of the struct. Counters, fault injection and prices
 * use it as index. Decorators and the CUDA driver make their functions from it.
 */
/* clang-format off */
#define MEND_DRIVER_CALLS(X)                                                                       \
    /* ---- devices and contexts ---- */                                                           \
    /* Number of devices. NO_DEVICE or NOT_INITIALIZED if there is no usable driver. */            \
    X(device_count, "cuDeviceGetCount", 0,                                                         \
      (const mend_driver *driver, int *count), (inner, count))                                     \
    /* Retains the primary context of `device`, probes its memory by use, and fills *info.         \
     * Counted: each success needs one device_close. INVALID_DEVICE, OUT_OF_MEMORY. */             \
    X(device_open, "cuDevicePrimaryCtxRetain", 0,                                                  \
      (const mend_driver *driver, int device, mend_device_info *info), (inner, device, info))      \
    X(device_close, "cuDevicePrimaryCtxRelease", 0,                                                \
      (const mend_driver *driver, int device), (inner, device))                                    \
    /* Free and total physical bytes. The free bytes fall at create, not at map, and rise when     \
     * a chunk has neither a handle nor a mapping left. Slow (microseconds to milliseconds).       \
     * Needs a current context. */                                                                 \
    X(memory_info, "cuMemGetInfo", 0,                                                              \
      (const mend_driver *driver, uint64_t *free_bytes, uint64_t *total_bytes),                    \
      (inner, free_bytes, total_bytes))                                                            \
    /* The calling thread's stack of current contexts. */                                          \
    X(context_push, "cuCtxPushCurrent", 0,                                                         \
      (const mend_driver *driver, mend_context context), (inner, context))                         \
    X(context_pop, "cuCtxPopCurrent", 0, (const mend_driver *driver), (inner))                     \
    /* The ordinal of the current context's device. INVALID_CONTEXT if none is current. */         \
    X(context_device, "cuCtxGetDevice", 0,                                                         \
      (const mend_driver *driver, int *device), (inner, device))                                   \
    /* Waits for all work of the current context. Refused during capture. */              \
    X(context_synchronize, "cuCtxSynchronize", 0, (const mend_driver *driver), (inner))            \
    /* Sets the thread's capture mode to *mode and returns the former one in *mode. During a       \
     * capture, plain_alloc, plain_free and event queries are unsafe calls: if the thread's        \
     * mode forbids them they return CAPTURE_UNSUPPORTED, and the capture is invalidated. The      \
     * relaxed mode allows them. Calls for addresses and chunks do not affect captures. */         \
    X(exchange_capture_mode, "cuThreadExchangeStreamCaptureMode", 0,                               \
      (const mend_driver *driver, mend_capture_mode *mode), (inner, mode))                         \
                                                                                                   \
    /* ---- addresses ---- */                                                                      \
    /* Reserves `size` bytes of addresses (a multiple of the page), aligned to `alignment` (0      \
     * or a power of two). `hint` may be ignored. OUT_OF_MEMORY if no such range is left. */       \
    X(reserve, "cuMemAddressReserve", size_bytes,                                                  \
      (const mend_driver *driver, uint64_t size_bytes, uint64_t alignment_bytes, uint64_t hint,    \
       uint64_t *address), (inner, size_bytes, alignment_bytes, hint, address))                    \
    /* Frees a complete reservation. INVALID_VALUE for any other range, or while a mapping         \
     * lies in it. */                                                                              \
    X(address_free, "cuMemAddressFree", size_bytes,                                                \
      (const mend_driver *driver, uint64_t address, uint64_t size_bytes),                          \
      (inner, address, size_bytes))                                                                \
                                                                                                   \
    /* ---- chunks ---- */                                                                         \
    /* Creates physical memory of `size` bytes (a multiple of the page), whose contents are        \
     * undefined. OUT_OF_MEMORY if the device, or the host, has not enough. NOT_SUPPORTED or       \
     * NOT_PERMITTED if the driver makes no such memory. Then nothing is left behind. On the       \
     * host it costs as host_alloc, because it pins the memory. */                                 \
    X(create, "cuMemCreate", size_bytes,                                                           \
      (const mend_driver *driver, uint64_t size_bytes, const mend_chunk_properties *properties,    \
       mend_chunk_handle *handle), (inner, size_bytes, properties, handle))                        \
    /* Releases a handle. The device gets the memory back when the last mapping and the last       \
     * exported file are gone too. Releasing a mapped chunk is legal. INVALID_VALUE for an         \
     * unknown handle. */                                                                          \
    X(release, "cuMemRelease", 0,                                                                  \
      (const mend_driver *driver, mend_chunk_handle handle), (inner, handle))                      \
    /* Maps a complete chunk: address and size are multiples of the page, the offset is 0, the     \
     * size is the chunk's, inside one reservation, over no other mapping. No access until         \
     * set_access. One chunk may be mapped at several addresses. INVALID_VALUE otherwise. */       \
    X(map, "cuMemMap", size_bytes,                                                                 \
      (const mend_driver *driver, uint64_t address, uint64_t size_bytes, uint64_t offset_bytes,    \
       mend_chunk_handle handle), (inner, address, size_bytes, offset_bytes, handle))              \
    /* Unmaps complete mappings: the range begins where a mapping begins, ends where one ends      \
     * and has no hole, inside one reservation. Does not wait for work in flight, and does not     \
     * check whether a capture recorded work on the range. INVALID_VALUE otherwise. */             \
    X(unmap, "cuMemUnmap", size_bytes,                                                             \
      (const mend_driver *driver, uint64_t address, uint64_t size_bytes),                          \
      (inner, address, size_bytes))                                                                \
    /* Makes a range of complete mappings, inside one reservation, readable, or readable and       \
     * writable, for `device_count` devices, whatever it was for them before. The driver           \
     * unmaps the range from each of them first: access is given again only where none of          \
     * their work runs. Work that writes where it may only read loses its context. The most        \
     * expensive call: it may block for milliseconds and may wait for other driver work.           \
     * NOT_READY means a lack of memory: try again, then treat it as OUT_OF_MEMORY. */             \
    X(set_access, "cuMemSetAccess", size_bytes,                                                    \
      (const mend_driver *driver, uint64_t address, uint64_t size_bytes, const int *devices, int   \
       device_count, mend_access access), (inner, address, size_bytes, devices, device_count,      \
       access))                                                                                    \
    /* Exports a chunk that was created with this share type, as a file descriptor (*out is an     \
     * int) or a fabric handle (64 bytes). The caller closes the descriptor, which holds the       \
     * memory until then. Whether a fabric handle holds it is written nowhere. import makes a      \
     * new handle from either, which holds the memory. NOT_PERMITTED, NOT_SUPPORTED: this          \
     * process or device has no way to the exporter's. */                                          \
    X(export_handle, "cuMemExportToShareableHandle", 0,                                            \
      (const mend_driver *driver, mend_chunk_handle handle, int share_type, void *out),            \
      (inner, handle, share_type, out))                                                            \
    X(import_handle, "cuMemImportFromShareableHandle", 0,                                          \
      (const mend_driver *driver, const void *shared, int share_type, mend_chunk_handle *handle),  \
      (inner, shared, share_type, handle))                                                         \
                                                                                                   \
    /* ---- the driver's own allocators (fallback, peers) ---- */                                  \
    /* Need a current context. plain_free waits for all work of the device. Of async_alloc's       \
     * memory it may not, so that the caller does. */                                              \
    X(plain_alloc, "cuMemAlloc", size_bytes,                                                       \
      (const mend_driver *driver, uint64_t size_bytes, uint64_t *address),                         \
      (inner, size_bytes, address))                                                                \
    X(plain_free, "cuMemFree", 0, (const mend_driver *driver, uint64_t address), (inner, address)) \
    X(async_alloc, "cuMemAllocAsync", size_bytes,                                                  \
      (const mend_driver *driver, uint64_t size_bytes, mend_stream stream, uint64_t *address),     \
      (inner, size_bytes, stream, address))                                                        \
    X(async_free, "cuMemFreeAsync", 0,                                                             \
      (const mend_driver *driver, uint64_t address, mend_stream stream), (inner, address, stream)) \
    /* Pinned memory of the host: copies from and to it run at the speed of the link, and          \
     * return before they are done. Need a current context. Unsafe calls during a capture, as      \
     * plain_alloc. Slow: milliseconds for each 10 MiB. OUT_OF_MEMORY. host_free: no queued        \
     * work uses the memory. INVALID_VALUE for anything but the start of such memory. */           \
    X(host_alloc, "cuMemHostAlloc", size_bytes,                                                    \
      (const mend_driver *driver, uint64_t size_bytes, void **pointer),                            \
      (inner, size_bytes, pointer))                                                                \
    X(host_free, "cuMemFreeHost", 0, (const mend_driver *driver, void *pointer), (inner, pointer)) \
    /* Makes pages that the caller has mapped such memory, until their end: the caller keeps them. \
     * NOT_SUPPORTED: see mend_device_info. Otherwise as host_alloc and host_free. */              \
    X(host_register, "cuMemHostRegister", size_bytes,                                              \
      (const mend_driver *driver, void *pointer, uint64_t size_bytes),                             \
      (inner, pointer, size_bytes))                                                                \
    X(host_unregister, "cuMemHostUnregister", 0, (const mend_driver *driver, void *pointer),       \
      (inner, pointer))                                                                            \
                                                                                                   \
    /* ---- work, in stream order ---- */                                                          \
    /* Need a current context. `copy` takes host addresses on either side too. Unless these        \
     * are of host_alloc, it may return when the copy is done. */                                  \
    X(copy, "cuMemcpyAsync", size_bytes,                                                           \
      (const mend_driver *driver, uint64_t destination, uint64_t source, uint64_t size_bytes,      \
       mend_stream stream), (inner, destination, source, size_bytes, stream))                      \
    X(fill, "cuMemsetD8Async", size_bytes,                                                         \
      (const mend_driver *driver, uint64_t address, uint8_t value, uint64_t size_bytes,            \
       mend_stream stream), (inner, address, value, size_bytes, stream))                           \
    X(launch, "cuLaunchKernel", 0,                                                                 \
      (const mend_driver *driver, mend_stream stream, const mend_kernel *kernel),                  \
      (inner, stream, kernel))                                                                     \
                                                                                                   \
    /* ---- streams ---- */                                                                        \
    /* A non-blocking stream of the current context. */                                            \
    X(stream_create, "cuStreamCreate", 0,                                                          \
      (const mend_driver *driver, mend_stream *stream), (inner, stream))                           \
    X(stream_destroy, "cuStreamDestroy", 0,                                                        \
      (const mend_driver *driver, mend_stream stream), (inner, stream))                            \
    /* OK if all work of the stream is done, otherwise NOT_READY. Refused while the stream         \
     * captures. */                                                                                \
    X(stream_query, "cuStreamQuery", 0,                                                            \
      (const mend_driver *driver, mend_stream stream), (inner, stream))                            \
    X(stream_synchronize, "cuStreamSynchronize", 0,                                                \
      (const mend_driver *driver, mend_stream stream), (inner, stream))                            \
    /* All later work of `stream` waits for the event, on the device. The host does not wait. */   \
    X(stream_wait, "cuStreamWaitEvent", 0,                                                         \
      (const mend_driver *driver, mend_stream stream, mend_event event), (inner, stream, event))   \
    /* Properties of a stream. A special handle means the current context's, so it needs one.      \
     * The legacy stream while a blocking stream captures is ACTIVE with capture_id 0: not         \
     * captured, but not usable. Never harms a capture. Not for the handle of a destroyed stream:  \
     * drivers read the memory that it points to, and the process may crash. */                    \
    X(stream_get_info, "cuStreamGetCaptureInfo", 0,                                                \
      (const mend_driver *driver, mend_stream stream, mend_stream_info *info),                     \
      (inner, stream, info))                                                                       \
    /* The id of the capture that records the work queued on the stream, 0 if there is none or     \
     * it was invalidated. Needs a current context only for the per-thread stream. Never waits     \
     * and never harms a capture. Not for the legacy stream. */                                    \
    X(stream_get_capture, "cuStreamGetCaptureInfo", 0,                                             \
      (const mend_driver *driver, mend_stream stream, uint64_t *id), (inner, stream, id))          \
    /* Whether one capture records both streams, and its graph puts all that `before` has          \
     * recorded before what `stream` records next. May answer false where the order is too         \
     * long to follow. Changes nothing, harms no capture, and never waits. */                      \
    X(stream_is_behind, "cuGraphNodeGetDependencies", 0,                                           \
      (const mend_driver *driver, mend_stream stream, mend_stream before, bool *is_behind),        \
      (inner, stream, before, is_behind))                                                          \
    /* Calls ended(context) once, when nothing that this capture records can run any more: the     \
     * graph and everything instantiated from it are destroyed and their launches done, or the     \
     * capture failed. It is called in any thread, at any time from now on, and may not call       \
     * the driver. INVALID_VALUE: the stream is not captured. Not called after a failure. */       \
    X(capture_keep, "cuGraphRetainUserObject", 0,                                                  \
      (const mend_driver *driver, mend_stream stream, mend_capture_ended ended, void *context),    \
      (inner, stream, ended, context))                                                             \
                                                                                                   \
    /* ---- events ---- */                                                                         \
    /* An event without timing, of the current context. Recording it marks the work queued so      \
     * far. An event that was never recorded counts as complete. */                                \
    X(event_create, "cuEventCreate", 0,                                                            \
      (const mend_driver *driver, mend_event *event), (inner, event))                              \
    /* The event and the stream are of the same context: INVALID_HANDLE otherwise. On a            \
     * captured stream the event marks a place in the graph: it cannot be queried                  \
     * (CAPTURED_EVENT) until it is recorded elsewhere, and a stream that waits for it joins       \
     * the capture. May block while the stream's queue is full. So may stream_wait. */             \
    X(event_record, "cuEventRecord", 0,                                                            \
      (const mend_driver *driver, mend_event event, mend_stream stream), (inner, event, stream))   \
    /* The event marks all work queued so far in the current context, and in its green             \
     * contexts if it is a primary one. The host does not wait. The event is of the same           \
     * context: INVALID_HANDLE otherwise. While a stream of the context is captured it is          \
     * refused (CAPTURE_UNSUPPORTED), whatever the thread's capture mode, and the capture is       \
     * invalidated: the rule of context_synchronize. NOT_SUPPORTED: the driver is older than       \
     * CUDA 12.5. */                                                                               \
    X(context_record, "cuCtxRecordEvent", 0,                                                       \
      (const mend_driver *driver, mend_event event), (inner, event))                               \
    X(event_query, "cuEventQuery", 0,                                                              \
      (const mend_driver *driver, mend_event event), (inner, event))                               \
    X(event_synchronize, "cuEventSynchronize", 0,                                                  \
      (const mend_driver *driver, mend_event event), (inner, event))                               \
    X(event_destroy, "cuEventDestroy", 0,                                                          \
      (const mend_driver *driver, mend_event event), (inner, event))
/* clang-format on */

typedef enum mend_driver_call {
#define X(member, name, bytes, parameters, arguments) MEND_CALL_##member,
    MEND_DRIVER_CALLS(X)
#undef X
        MEND_DRIVER_CALL_COUNT
} mend_driver_call;

struct mend_driver {
    void *state;      /* the implementation's own */
    const char *name; /* "cuda" or "sim". Decorators keep the inner name */
#define X(member, name, bytes, parameters, arguments) mend_status(*member) parameters;
    MEND_DRIVER_CALLS(X)
#undef X

    /* ---- what cannot fail -------------------------------------------------------------------- */

    /* A monotonic clock. The simulated device has its own. */
    uint64_t (*clock_ns)(const mend_driver *);

    /* The thread sleeps for this long by that clock. Not a driver call. */
    void (*pause)(const mend_driver *, uint64_t duration_ns);

    /* The sleeping memory at addresses that are no longer mapped, in words, for explanations of the
     * simulated device. NULL: the driver explains nothing. */
    void (*note_asleep)(const mend_driver *, uint64_t address, uint64_t size_bytes,
                        const char *what);

    /* The driver's name of a result ("CUDA_ERROR_OUT_OF_MEMORY"). Static. Never NULL. */
    const char *(*status_name)(const mend_driver *, mend_status status);
};

/* A call, and its status. */
typedef struct mend_answer {
    mend_driver_call call;
    mend_status status;
} mend_answer;

#define MEND_ANSWER(member, status) ((mend_answer){MEND_CALL_##member, (status)})

/* *first is the first refusal. */
static inline void mend_answer_note(mend_answer *first, mend_answer answer)
{
    *first = first->status == MEND_DRIVER_OK ? answer : *first;
}

/* Ends the function with the status of a call that failed. */
#define MEND_TRY_CALL(call)                                                                        \
    do {                                                                                           \
        const mend_status tried = (call);                                                          \
        if (tried != MEND_DRIVER_OK) {                                                             \
            return tried;                                                                          \
        }                                                                                          \
    } while (0)

/* Ends the function with the answer to a call that failed. */
#define MEND_TRY_ANSWER(call)                                                                      \
    do {                                                                                           \
        const mend_answer tried = (call);                                                          \
        if (tried.status != MEND_DRIVER_OK) {                                                      \
            return tried;                                                                          \
        }                                                                                          \
    } while (0)

/* The driver's name of a call ("cuMemMap"). */
const char *mend_driver_call_name(mend_driver_call call);

/* Names of the result codes above. "CUDA_ERROR_UNKNOWN" for any other. */
const char *mend_status_name(mend_status status);

/* Whether every later call of the context fails after this status: the context is lost, or the
 * driver has shut down. */
bool mend_status_is_fatal(mend_status status);

/* MEND_ERROR_DEVICE_LOST or MEND_ERROR_DRIVER. */
static inline mend_result mend_status_result(mend_status status)
{
    return mend_status_is_fatal(status) ? MEND_ERROR_DEVICE_LOST : MEND_ERROR_DRIVER;
}

/* Notes a refused call, with words of why and what it means (base/error.h), and returns `result`.
 */
#define mend_refused(driver, result, call, status, ...)                                            \
    mend_driver_failure((result), mend_driver_call_name(call), (status),                           \
                        (driver)->status_name((driver), (status)), __VA_ARGS__)

/* Whether a capture forbids the call: one of the stream, or of any stream of the context. */
static inline bool mend_status_is_of_capture(mend_status status)
{
    return status == MEND_DRIVER_CAPTURE_UNSUPPORTED || status == MEND_DRIVER_CAPTURE_INVALIDATED;
}

/* The same, or the call was on the legacy stream, and a blocking one is captured. */
static inline bool mend_status_is_of_any_capture(mend_status status)
{
    return mend_status_is_of_capture(status) || status == MEND_DRIVER_CAPTURE_IMPLICIT;
}

/* Whether a question about one stream failed because the handle means none that the driver can use.
 * A driver that reads behind a wrong handle may answer anything, or end the process. */
static inline bool mend_status_is_of_stream(mend_status status)
{
    return status == MEND_DRIVER_INVALID_VALUE || status == MEND_DRIVER_INVALID_HANDLE ||
           status == MEND_DRIVER_NOT_SUPPORTED;
}

/* ---- cuda.c ---------------------------------------------------------------------------------- */

/*
 * The table of the CUDA driver: libcuda.so.1, found at run time, loaded once per process and never
 * unloaded. MEND_OK; MEND_ERROR_NO_DRIVER if it cannot be loaded or lacks a call that Mend needs
 * (mend_get_last_error names it). Thread-safe.
 */
mend_result mend_cuda_driver(const mend_driver **driver);

#endif
