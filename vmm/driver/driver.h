/*
 * The driver: the only way from Mend to a GPU, a table of functions with a written contract.
 *
 * Two implementations stand behind it: the CUDA driver (cuda.c) and the simulated device (sim/).
 * Decorators have the same face and pass every call on to an inner table: traced.c counts and
 * times, unlocking.c lets go of a lock around the calls.
 *
 * Conventions of every function:
 *  - the first argument is the table itself; its `state` belongs to the implementation;
 *  - the result is the driver's own code (the values of CUresult), MEND_DRIVER_OK on success;
 *  - outputs are untouched on failure;
 *  - sizes and addresses are bytes; durations are nanoseconds;
 *  - every function may be called from any thread.
 * The calls that need a current context say so; context_push makes one current for the thread.
 *
 * Sources: the CUDA driver API reference (Virtual Memory Management, Stream Management, Event
 * Management, Primary Context Management), and docs/driver-facts.md for what was observed.
 */
#ifndef MEND_DRIVER_DRIVER_H
#define MEND_DRIVER_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mend/mend.h"

/* The driver's result codes that Mend names. Values are those of CUresult (asserted by the ABI
 * test); any other value may come back and is passed on unchanged. */
typedef int mend_status;

enum {
    MEND_DRIVER_OK = 0,
    MEND_DRIVER_INVALID_VALUE = 1,
    MEND_DRIVER_OUT_OF_MEMORY = 2,
    MEND_DRIVER_NOT_INITIALIZED = 3,
    MEND_DRIVER_DEINITIALIZED = 4,
    MEND_DRIVER_NO_DEVICE = 100,
    MEND_DRIVER_INVALID_DEVICE = 101,
    MEND_DRIVER_INVALID_CONTEXT = 201,
    MEND_DRIVER_INVALID_HANDLE = 400,
    MEND_DRIVER_ILLEGAL_STATE = 401,
    MEND_DRIVER_NOT_FOUND = 500,
    MEND_DRIVER_NOT_READY = 600,
    MEND_DRIVER_ILLEGAL_ADDRESS = 700,
    MEND_DRIVER_LAUNCH_FAILED = 719,
    MEND_DRIVER_NOT_PERMITTED = 800,
    MEND_DRIVER_NOT_SUPPORTED = 801,
    MEND_DRIVER_CAPTURE_UNSUPPORTED = 900,
    MEND_DRIVER_CAPTURE_INVALIDATED = 901,
    MEND_DRIVER_CAPTURE_MERGE = 902,
    MEND_DRIVER_CAPTURE_ISOLATION = 905,
    MEND_DRIVER_CAPTURE_IMPLICIT = 906,
    MEND_DRIVER_CAPTURED_EVENT = 907,
    MEND_DRIVER_UNKNOWN = 999
};

typedef struct CUctx_st *mend_context; /* CUcontext */
typedef struct CUevent_st *mend_event; /* CUevent */
typedef uint64_t mend_chunk_handle;    /* CUmemGenericAllocationHandle; 0 is never a handle */

/* The two special stream handles of the driver; NULL is the same stream as the first. */
#define MEND_STREAM_LEGACY     ((mend_stream)(uintptr_t)1)
#define MEND_STREAM_PER_THREAD ((mend_stream)(uintptr_t)2)

/* Bits of CUmemAllocationHandleType. */
enum { MEND_SHARE_NONE = 0, MEND_SHARE_FILE_DESCRIPTOR = 1, MEND_SHARE_FABRIC = 8 };

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

/* What a device is and can do. Filled by device_open; constant until device_close. */
typedef struct mend_device_info {
    char name[128];
    mend_context context;       /* the primary context, retained by device_open */
    uint64_t total_bytes;       /* physical memory of the device */
    uint64_t granularity_bytes; /* the page: sizes of chunks, addresses of mappings */
    uint64_t recommended_bytes; /* the driver's recommended granularity */
    int driver_version;         /* 1000 * major + 10 * minor, as CUDA counts; 0: simulated */
    int compute_major;
    int compute_minor;
    bool virtual_memory;        /* create, map and access work (probed by use) */
    bool share_file_descriptor; /* MEND_SHARE_FILE_DESCRIPTOR can be asked for */
    bool share_fabric;          /* MEND_SHARE_FABRIC can be asked for */
    bool rdma;                  /* gpuDirectRDMACapable may be asked for (probed) */
    bool multicast;
    bool integrated; /* its memory is that of the host */
    bool aliasing;   /* one chunk may be mapped at several addresses (probed) */
    uint64_t peers;  /* bit n: device n, another one, can be given access to its memory */
} mend_device_info;

/* How a chunk is created. */
typedef struct mend_chunk_properties {
    int device;      /* ordinal of the device that holds the memory */
    int share_types; /* MEND_SHARE_... bits the chunk can be exported as; 0 unless asked for */
    bool rdma;
} mend_chunk_properties;

/* A driver does not tell who a captured stream is, and the question spoils its capture: of a stream
 * that was created, id, context and home are 0 while capture is not NONE. Of a special stream they
 * are always there. */
typedef struct mend_stream_info {
    uint64_t id;          /* unique for the life of the process, never reused (cuStreamGetId) */
    mend_context context; /* the one the stream belongs to, and events recorded on it must */
    mend_context home;    /* the one whose wait covers it: of a green context the primary one */
    mend_capture_state capture;
    uint64_t capture_id; /* unique among captures; 0 unless capture is ACTIVE */
} mend_stream_info;

/* Hears that a captured graph is no more. */
typedef void (*mend_capture_ended)(void *context);

/* A small kernel for tools, tests and contract checks; the allocator itself never launches. */
typedef enum mend_kernel_kind {
    MEND_KERNEL_SPIN,   /* runs for duration_ns and touches nothing */
    MEND_KERNEL_WRITE,  /* writes `value` to every 4-byte word of each granule, over and over until
                           duration_ns have passed (at least once) */
    MEND_KERNEL_VERIFY, /* counts 4-byte words that differ from `value` into *mismatches */
    MEND_KERNEL_STREAM, /* reads all and writes it back as it is, over and over until duration_ns
                           have passed (at least once), with the whole device: a load */
    MEND_KERNEL_READ,   /* the same without writing */
    MEND_KERNEL_GATHER, /* reads at random: as many times 16 bytes as READ, each of a sector of 32
                           bytes somewhere in the range */
    MEND_KERNEL_KINDS   /* how many there are */
} mend_kernel_kind;

/* STREAM, READ and GATHER take tiles of this size, and leave out what is less than one. */
#define MEND_KERNEL_TILE_BYTES UINT64_C(32768)

typedef struct mend_kernel {
    mend_kernel_kind kind;
    uint32_t value;
    uint64_t duration_ns;
    uint64_t address;       /* first granule */
    uint64_t granule_bytes; /* bytes touched at each step; a multiple of 4 */
    uint64_t stride_bytes;  /* distance of granules; at least granule_bytes. STREAM, READ, GATHER:
                               granule_bytes */
    uint64_t granule_count;
    uint64_t mismatches; /* VERIFY: address of a device-visible uint64_t counter, added to */
} mend_kernel;

/* What any device can tell of a kernel without its memory: whole words of 4 bytes, or, for those
 * that stream, one range of whole 16 bytes. */
static inline bool mend_kernel_is_sound(const mend_kernel *kernel)
{
    bool streams = kernel->kind >= MEND_KERNEL_STREAM && kernel->kind < MEND_KERNEL_KINDS;
    uint64_t word_bytes = streams ? 16 : 4;
    return kernel->granule_bytes % word_bytes == 0 && kernel->address % word_bytes == 0 &&
           (!streams || kernel->stride_bytes == kernel->granule_bytes);
}

/*
 * One row for every function of the table: X(member, name for people). The order is that of the
 * struct. Counters, fault injection and prices are indexed by it.
 */
#define MEND_DRIVER_CALLS(X)                                                                       \
    X(device_count, "cuDeviceGetCount")                                                            \
    X(device_open, "cuDevicePrimaryCtxRetain")                                                     \
    X(device_close, "cuDevicePrimaryCtxRelease")                                                   \
    X(memory_info, "cuMemGetInfo")                                                                 \
    X(context_push, "cuCtxPushCurrent")                                                            \
    X(context_pop, "cuCtxPopCurrent")                                                              \
    X(context_device, "cuCtxGetDevice")                                                            \
    X(context_synchronize, "cuCtxSynchronize")                                                     \
    X(exchange_capture_mode, "cuThreadExchangeStreamCaptureMode")                                  \
    X(reserve, "cuMemAddressReserve")                                                              \
    X(address_free, "cuMemAddressFree")                                                            \
    X(create, "cuMemCreate")                                                                       \
    X(release, "cuMemRelease")                                                                     \
    X(map, "cuMemMap")                                                                             \
    X(unmap, "cuMemUnmap")                                                                         \
    X(set_access, "cuMemSetAccess")                                                                \
    X(export_handle, "cuMemExportToShareableHandle")                                               \
    X(import_handle, "cuMemImportFromShareableHandle")                                             \
    X(plain_alloc, "cuMemAlloc")                                                                   \
    X(plain_free, "cuMemFree")                                                                     \
    X(async_alloc, "cuMemAllocAsync")                                                              \
    X(async_free, "cuMemFreeAsync")                                                                \
    X(copy, "cuMemcpyAsync")                                                                       \
    X(fill, "cuMemsetD8Async")                                                                     \
    X(launch, "cuLaunchKernel")                                                                    \
    X(stream_create, "cuStreamCreate")                                                             \
    X(stream_destroy, "cuStreamDestroy")                                                           \
    X(stream_query, "cuStreamQuery")                                                               \
    X(stream_synchronize, "cuStreamSynchronize")                                                   \
    X(stream_wait, "cuStreamWaitEvent")                                                            \
    X(stream_get_info, "cuStreamGetCaptureInfo")                                                   \
    X(stream_get_capture, "cuStreamGetCaptureInfo")                                                \
    X(capture_keep, "cuGraphRetainUserObject")                                                     \
    X(event_create, "cuEventCreate")                                                               \
    X(event_record, "cuEventRecord")                                                               \
    X(event_query, "cuEventQuery")                                                                 \
    X(event_synchronize, "cuEventSynchronize")                                                     \
    X(event_destroy, "cuEventDestroy")

typedef enum mend_driver_call {
#define X(member, name) MEND_CALL_##member,
    MEND_DRIVER_CALLS(X)
#undef X
        MEND_DRIVER_CALL_COUNT
} mend_driver_call;

struct mend_driver {
    void *state;      /* the implementation's own */
    const char *name; /* "cuda" or "sim"; decorators keep the inner name */

    /* ---- devices and contexts ------------------------------------------------------------- */

    /* Number of devices. NO_DEVICE or NOT_INITIALIZED where there is no usable driver. */
    mend_status (*device_count)(const mend_driver *, int *count);

    /* Retains the primary context of `device`, probes what works by using it, and fills *info.
     * Counted: each success needs one device_close. INVALID_DEVICE, OUT_OF_MEMORY. */
    mend_status (*device_open)(const mend_driver *, int device, mend_device_info *info);
    mend_status (*device_close)(const mend_driver *, int device);

    /* Free and total physical bytes. Falls at create, not at map; rises when a chunk has neither a
     * handle nor a mapping left. Slow (microseconds to milliseconds). Needs a current context. */
    mend_status (*memory_info)(const mend_driver *, uint64_t *free_bytes, uint64_t *total_bytes);

    /* The thread's stack of current contexts. */
    mend_status (*context_push)(const mend_driver *, mend_context context);
    mend_status (*context_pop)(const mend_driver *);

    /* The ordinal of the current context's device. INVALID_CONTEXT where none is current. */
    mend_status (*context_device)(const mend_driver *, int *device);

    /* Waits on the host for all work of the current context. Refused during capture. */
    mend_status (*context_synchronize)(const mend_driver *);

    /* Sets the thread's capture mode to *mode and gives the former one back in *mode. While a
     * stream is captured, calls of plain memory and asking for events are unsafe: a thread that its
     * mode does not let make them is answered CAPTURE_UNSUPPORTED, and the capture is spoilt. The
     * relaxed mode lets it make them. Calls of addresses and chunks have nothing to do with
     * captures. */
    mend_status (*exchange_capture_mode)(const mend_driver *, mend_capture_mode *mode);

    /* ---- addresses -------------------------------------------------------------------------- */

    /* Reserves `size` bytes of addresses (a multiple of the page), aligned to `alignment` (0 or a
     * power of two). `hint` may be ignored. OUT_OF_MEMORY where no such range is left. */
    mend_status (*reserve)(const mend_driver *, uint64_t size_bytes, uint64_t alignment_bytes,
                           uint64_t hint, uint64_t *address);

    /* Frees a whole reservation as it was made. INVALID_VALUE for any other range or while a
     * mapping lies in it. */
    mend_status (*address_free)(const mend_driver *, uint64_t address, uint64_t size_bytes);

    /* ---- chunks ------------------------------------------------------------------------------ */

    /* Creates physical memory of `size` bytes (a multiple of the page). OUT_OF_MEMORY when the
     * device has not enough; nothing is left behind then. */
    mend_status (*create)(const mend_driver *, uint64_t size_bytes,
                          const mend_chunk_properties *properties, mend_chunk_handle *handle);

    /* Gives up a handle. The memory returns when the last mapping and the last exported file are
     * gone as well; releasing a mapped chunk is legal. INVALID_VALUE for an unknown handle. */
    mend_status (*release)(const mend_driver *, mend_chunk_handle handle);

    /* Maps a whole chunk: address and size multiples of the page, offset 0, size the chunk's,
     * inside one reservation, over no other mapping. No access until set_access. The same chunk may
     * be mapped at several addresses. INVALID_VALUE for a breach. */
    mend_status (*map)(const mend_driver *, uint64_t address, uint64_t size_bytes,
                       uint64_t offset_bytes, mend_chunk_handle handle);

    /* Unmaps whole mappings: the range must begin where a mapping begins, end where one ends and
     * have no hole, inside one reservation. Does not wait for work in flight, and asks no capture
     * whether it recorded work that touches the range. INVALID_VALUE for a breach. */
    mend_status (*unmap)(const mend_driver *, uint64_t address, uint64_t size_bytes);

    /* Makes a mapped range of whole mappings, inside one reservation, readable and writable
     * for `device_count` devices. The dear call: it may block for milliseconds and may wait for
     * other driver work. NOT_READY is a lack of memory in disguise: retry, then treat it as
     * OUT_OF_MEMORY. */
    mend_status (*set_access)(const mend_driver *, uint64_t address, uint64_t size_bytes,
                              const int *devices, int device_count);

    /* A file descriptor (*out is an int) or a fabric handle (64 bytes) of a chunk created with that
     * share type. The caller closes the descriptor. import makes a handle of its own from one. */
    mend_status (*export_handle)(const mend_driver *, mend_chunk_handle handle, int share_type,
                                 void *out);
    mend_status (*import_handle)(const mend_driver *, const void *shared, int share_type,
                                 mend_chunk_handle *handle);

    /* ---- the driver's own allocators (fallback, peers) --------------------------------------- */

    /* Need a current context. plain_free waits for all work of the device. */
    mend_status (*plain_alloc)(const mend_driver *, uint64_t size_bytes, uint64_t *address);
    mend_status (*plain_free)(const mend_driver *, uint64_t address);
    mend_status (*async_alloc)(const mend_driver *, uint64_t size_bytes, mend_stream stream,
                               uint64_t *address);
    mend_status (*async_free)(const mend_driver *, uint64_t address, mend_stream stream);

    /* ---- work, in stream order ----------------------------------------------------------------
     */

    /* Need a current context. Addresses of the host are understood by `copy` on either side. */
    mend_status (*copy)(const mend_driver *, uint64_t destination, uint64_t source,
                        uint64_t size_bytes, mend_stream stream);
    mend_status (*fill)(const mend_driver *, uint64_t address, uint8_t value, uint64_t size_bytes,
                        mend_stream stream);
    mend_status (*launch)(const mend_driver *, mend_stream stream, const mend_kernel *kernel);

    /* ---- streams ------------------------------------------------------------------------------
     */

    /* A non-blocking stream of the current context. */
    mend_status (*stream_create)(const mend_driver *, mend_stream *stream);
    mend_status (*stream_destroy)(const mend_driver *, mend_stream stream);

    /* OK when all work of the stream is done, NOT_READY while not. Refused while it captures. */
    mend_status (*stream_query)(const mend_driver *, mend_stream stream);
    mend_status (*stream_synchronize)(const mend_driver *, mend_stream stream);

    /* Makes all later work of `stream` wait for the event, on the device. */
    mend_status (*stream_wait)(const mend_driver *, mend_stream stream, mend_event event);

    /* What the stream is. A special handle is that of the current context, which it needs. The
     * legacy stream while a blocking stream captures is ACTIVE with capture_id 0: not captured, but
     * not to be touched. Never harms a capture. The handle of a stream that was destroyed may not
     * be asked about: a driver reads what it points to, and the process may die of it. */
    mend_status (*stream_get_info)(const mend_driver *, mend_stream stream, mend_stream_info *info);

    /* The capture that records what is queued on the stream: its id, 0 where there is none or it
     * was invalidated. Needs a current context for the per-thread stream alone. Never waits and
     * never harms a capture. The legacy stream is not asked. */
    mend_status (*stream_get_capture)(const mend_driver *, mend_stream stream, uint64_t *id);

    /* Calls ended(context) once, when nothing can run any more that the stream's capture records:
     * the graph and all that was instantiated from it are destroyed, and their launches done; or
     * the capture came to nothing. In any thread, at any time from now on; it may call nothing of
     * the driver. INVALID_VALUE: the stream is not captured. After a failure it is not called. */
    mend_status (*capture_keep)(const mend_driver *, mend_stream stream, mend_capture_ended ended,
                                void *context);

    /* ---- events ---------------------------------------------------------------------------------
     */

    /* An event without timing, of the current context. Recording marks the work queued so far. An
     * event never recorded counts as complete. */
    mend_status (*event_create)(const mend_driver *, mend_event *event);

    /* Of the same context as the stream: INVALID_HANDLE otherwise. On a captured stream it marks a
     * place in the graph: the event can be asked for no more (CAPTURED_EVENT) before it is recorded
     * elsewhere, and a stream that waits for it joins the capture. May block while the stream's
     * queue is full; so may stream_wait. */
    mend_status (*event_record)(const mend_driver *, mend_event event, mend_stream stream);
    mend_status (*event_query)(const mend_driver *, mend_event event);
    mend_status (*event_synchronize)(const mend_driver *, mend_event event);
    mend_status (*event_destroy)(const mend_driver *, mend_event event);

    /* ---- what cannot fail -------------------------------------------------------------------- */

    /* A clock that never goes back. The simulated device has its own. */
    uint64_t (*clock_ns)(const mend_driver *);

    /* Lets the thread sleep, as long by that clock. No call of the driver. */
    void (*pause)(const mend_driver *, uint64_t duration_ns);

    /* The driver's name of a result ("CUDA_ERROR_OUT_OF_MEMORY"). Static; never NULL. */
    const char *(*status_name)(const mend_driver *, mend_status status);
};

/* The table's call names by number ("cuMemMap"). */
const char *mend_driver_call_name(mend_driver_call call);

/* Names of the result codes above; "CUDA_ERROR_UNKNOWN" for any other. */
const char *mend_status_name(mend_status status);

/* A status after which every call of the context fails: it is lost, or the driver has shut down. */
bool mend_status_is_fatal(mend_status status);

#endif
