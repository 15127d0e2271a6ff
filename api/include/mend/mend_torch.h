/*
 * The interface between Mend and PyTorch, in libmend_torch: calls of the class that replaces
 * PyTorch's own allocator (api/torch/allocator.cpp), and functions for a torch.cuda.MemPool over
 * Mend.
 *
 * PyTorch calls them from any thread, without the interpreter's lock and, except those for a
 * MemPool, without a lock of its own. A failure that cannot be returned is logged as a warning and
 * counted. Results are as in mend.h, and mend_get_last_error() has the reason. Devices are 0 to 63.
 */
#ifndef MEND_MEND_TORCH_H
#define MEND_MEND_TORCH_H

#include "mend/mend_frameworks.h"
#include "mend/mend_range.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- PyTorch: a MemPool over Mend ----------------------------------------------------------- */

/* alloc_fn of torch.cuda.memory.CUDAPluggableAllocator. NULL for size 0, and if memory cannot be
 * allocated. */
MEND_API void *mend_torch_alloc_or_null(size_t size, int device, mend_stream stream);

/* free_fn. `stream` is the allocation's, which PyTorch remembers. */
MEND_API void mend_torch_free(void *pointer, size_t size, int device, mend_stream stream);

/* Number of failures of mend_torch_free. */
MEND_API uint64_t mend_torch_failures(void);

/* ---- PyTorch: blocks ------------------------------------------------------------------------ */

/* PyTorch's name of a memory pool. Both 0: no pool. */
typedef struct mend_torch_pool_id {
    uint64_t first;
    uint64_t second;
} mend_torch_pool_id;

/* Call it before the first allocation on a device: blocks are then known to be of that device. On a
 * bare device (mend_stats.bare_device) PyTorch's own allocator, which has a cache, serves all
 * requests and pools from then on. They are foreign, as the pool {0, 0}. Results as
 * mend_pool_for_device; MEND_ERROR_OUT_OF_HOST_MEMORY. */
MEND_API mend_result mend_torch_use_device(int device);

/* A block, as PyTorch sees it. */
typedef struct mend_torch_block {
    void *base;
    uint64_t requested_bytes;
    uint64_t usable_bytes;
    mend_stream stream; /* of the allocation */
    int device;         /* MEND_ALL_DEVICES: an allocator that was set does not know it, or
                         * mend_torch_use_device was not called */
    uint64_t tag;       /* tag of the PyTorch pool that it was allocated in. 0: none */
} mend_torch_block;

/*
 * Allocate for PyTorch, through the allocator that is set for the device. If a PyTorch pool takes
 * the stream, allocate in that pool. The pool begun last is asked first. *is_foreign is 1, and
 * nothing is allocated, if PyTorch's own allocator serves that pool (mend_torch_pool_add).
 * Otherwise it is 0. Results as mend_device_alloc.
 */
MEND_API mend_result mend_torch_block_alloc(int device, uint64_t size_bytes, mend_stream stream,
                                            void **pointer, int *is_foreign);

/*
 * The same for a program whose settings round sizes up: the block has rounded_bytes (at least
 * size_bytes). Statistics and descriptions of blocks count size_bytes as requested, except in a
 * PyTorch pool. Results as mend_torch_block_alloc.
 */
MEND_API mend_result mend_torch_block_alloc_rounded(int device, uint64_t size_bytes,
                                                    uint64_t rounded_bytes, mend_stream stream,
                                                    void **pointer, int *is_foreign);

/* The size that PyTorch requested for a live block. `requested_bytes` is the size that Mend was
 * asked for, as in mend_region. */
MEND_API uint64_t mend_torch_block_requested(const void *base, uint64_t requested_bytes);

/* The same at an address in the memory of the pool that takes the stream, or of the device's
 * default pool. Results as mend_alloc_with and mend_pool_for_device. */
MEND_API mend_result mend_torch_block_alloc_at(int device, uint64_t size_bytes, mend_stream stream,
                                               void *address);

/* Describe the block that contains a pointer. Results as mend_device_block_info. If an allocator is
 * set that cannot describe its blocks, the call succeeds: base is the pointer, the stream is
 * MEND_NO_STREAM, and sizes are 0. */
MEND_API mend_result mend_torch_block_find(const void *pointer, mend_torch_block *block);

/* Declare that a stream uses the block at a pointer: as mend_graph_pool_record_stream, if the
 * stream is captured in the PyTorch pool of the block. Results as mend_device_record_stream. */
MEND_API mend_result mend_torch_block_record_stream(void *pointer, mend_stream stream);

/* Free a block that mend_torch_block_find described, in the order of its own stream. In a PyTorch
 * pool whose memory graphs may use, the memory stays with the pool. Results as mend_device_free and
 * mend_pool_for_device. A block that checks find damaged is freed, because PyTorch's frees cannot
 * fail. */
MEND_API mend_result mend_torch_block_free(const mend_torch_block *block);

/* Both in one: free the block that begins at a pointer, and describe it. This finds the block once,
 * unless it belongs to a PyTorch pool or an allocator is set. Results as mend_torch_block_free.
 * A pointer into a block fails. */
MEND_API mend_result mend_torch_block_give(void *pointer, mend_torch_block *block);

/* ---- PyTorch: its memory pools -------------------------------------------------------------- */

/* Return whether a pool takes the allocations on a stream. 0: no. MEND_TORCH_TAKES: yes.
 * MEND_TORCH_TAKES_CAPTURED: yes, and the stream is being captured. Called under a lock of this
 * library: it may call the driver, but not this library. */
typedef int (*mend_torch_takes)(void *context, mend_stream stream);
enum { MEND_TORCH_TAKES = 1, MEND_TORCH_TAKES_CAPTURED = 2 };

/*
 * Add a user of a pool, which the first user creates. is_foreign: PyTorch's own allocator serves
 * it, because it has an allocator of the user's. MEND_OK; MEND_ERROR_NO_DEVICE;
 * MEND_ERROR_OUT_OF_HOST_MEMORY. A pool that is created here shares its memory with all others
 * until something is captured in it. From then on, and in a pool that mend_torch_pool_begin
 * creates, memory stays with the pool while it has users.
 */
MEND_API mend_result mend_torch_pool_add(int device, mend_torch_pool_id id, int is_foreign);

/*
 * Add a user of a pool, and from now on allocate in it where `takes` says yes. `drop` (may be NULL)
 * is called with the context when that ends. MEND_OK; MEND_ERROR_INVALID_ARGUMENT (it has begun
 * already); MEND_ERROR_NO_DEVICE; MEND_ERROR_OUT_OF_HOST_MEMORY: after a failure the context is
 * still the caller's.
 */
MEND_API mend_result mend_torch_pool_begin(int device, mend_torch_pool_id id,
                                           mend_torch_takes takes, void (*drop)(void *context),
                                           void *context);

/* Later allocations do not go to the pool. MEND_OK; MEND_ERROR_INVALID_ARGUMENT (it has not
 * begun). */
MEND_API mend_result mend_torch_pool_end(int device, mend_torch_pool_id id);

/* Remove a user. With the last one the pool ends: its memory serves every request when the work
 * queued so far is done, and live blocks stay live. MEND_OK; MEND_ERROR_INVALID_ARGUMENT (there is
 * no such pool, or it is begun and this is its last user); results as mend_graph_pool_destroy: the
 * memory is then released at a later call. */
MEND_API mend_result mend_torch_pool_remove(int device, mend_torch_pool_id id);

/* Marks a pool (MemPool(use_on_oom=True)), or not: its free memory may serve a request that is out
 * of memory. Nothing if there is no such pool. */
MEND_API void mend_torch_pool_mark(int device, mend_torch_pool_id id, int is_marked);

/* Write the marked pools of a device, at most `capacity`. Returns how many there are. */
MEND_API size_t mend_torch_pools_marked(int device, mend_torch_pool_id *ids, size_t capacity);

/* Return whether a pool takes the allocations on a stream. */
MEND_API int mend_torch_pool_takes(int device, mend_stream stream);

/* Allocate in the memory that stays with a pool. Results as mend_alloc_with
 * and mend_pool_for_device; MEND_ERROR_OUT_OF_MEMORY (there is no such pool, or it has no memory of
 * Mend). */
MEND_API mend_result mend_torch_block_alloc_in(int device, mend_torch_pool_id id,
                                               uint64_t size_bytes, mend_stream stream,
                                               void **pointer);

/* Return whether mend_torch_pool_begin leaves the pool to PyTorch's own allocator: it serves that
 * pool, or there is no such pool, and MEND_TORCH_GRAPHS=native is set or the device is bare. */
MEND_API int mend_torch_pool_begins_native(int device, mend_torch_pool_id id);

/* The state of a pool. */
typedef struct mend_torch_pool_info {
    size_t struct_size;
    int users;                   /* 0: there is no such pool */
    int is_begun;                /* 1: it has begun, and not ended */
    int is_foreign;              /* 1: PyTorch's own allocator serves it */
    mend_graph_pool *graph_pool; /* has its memory. NULL: nothing was allocated in it yet, or its
                                  * memory is shared */
} mend_torch_pool_info;
#define MEND_TORCH_POOL_INFO_INIT                                                                  \
    {                                                                                              \
        sizeof(mend_torch_pool_info), 0, 0, 0, NULL                                                \
    }

/* Describe a pool, with zeros if there is no such pool. MEND_OK; MEND_ERROR_INVALID_ARGUMENT. */
MEND_API mend_result mend_torch_pool_get_info(int device, mend_torch_pool_id id,
                                              mend_torch_pool_info *info);

/* The PyTorch pool that a tag (mend_alloc_options) or a graph pool belongs to. Both 0: none. */
MEND_API mend_torch_pool_id mend_torch_pool_of_tag(uint64_t tag);
MEND_API mend_torch_pool_id mend_torch_pool_of_graph_pool(const mend_graph_pool *graph_pool);

/* ---- PyTorch: memory in total --------------------------------------------------------------- */

/* One statistic of torch.cuda.memory_stats. */
typedef struct mend_torch_stat {
    int64_t current;
    int64_t peak;
    int64_t allocated; /* sum of increases since the last reset */
    int64_t freed;     /* sum of decreases */
} mend_torch_stat;

/* X(field): statistics with a value for all memory, for the small zone and for the large one. */
#define MEND_TORCH_STATS(X)                                                                        \
    X(allocation)                                                                                  \
    X(segment)                                                                                     \
    X(active)                                                                                      \
    X(inactive_split)                                                                              \
    X(allocated_bytes)                                                                             \
    X(reserved_bytes)                                                                              \
    X(active_bytes)                                                                                \
    X(inactive_split_bytes)                                                                        \
    X(requested_bytes)

/* X(field): counters. */
#define MEND_TORCH_COUNTERS(X)                                                                     \
    X(num_alloc_retries)                                                                           \
    X(num_ooms)                                                                                    \
    X(num_sync_all_streams)                                                                        \
    X(num_device_alloc)                                                                            \
    X(num_device_free)

/* The values in the place of PyTorch's StatType. */
enum { MEND_TORCH_ALL = 0, MEND_TORCH_SMALL = 1, MEND_TORCH_LARGE = 2, MEND_TORCH_STAT_TYPES = 3 };

typedef struct mend_torch_figures {
#define X(field) mend_torch_stat field[MEND_TORCH_STAT_TYPES];
    MEND_TORCH_STATS(X)
#undef X
#define X(field) int64_t field;
    MEND_TORCH_COUNTERS(X)
#undef X
} mend_torch_figures;

/*
 * Get the statistics of a device. `current` and `peak` of the rows that mend_usage has include the
 * last values of mend_torch_set_outside. All others are of the pool alone. Results as
 * mend_pool_for_device.
 */
MEND_API mend_result mend_torch_get_figures(int device, mend_torch_figures *figures);

/* Set the memory that PyTorch's own allocator holds on a device, as `outside` of mend_get_usage.
 * Call it after each change there. Results as mend_pool_for_device. */
MEND_API mend_result mend_torch_set_outside(int device, const mend_usage *outside);

/* MEND_TORCH_PEAKS: peaks become the current values. MEND_TORCH_ACCUMULATED: counters and sums
 * start again at 0. Results as mend_pool_for_device. */
typedef enum mend_torch_reset_kind {
    MEND_TORCH_PEAKS = 0,
    MEND_TORCH_ACCUMULATED = 1
} mend_torch_reset_kind;
MEND_API mend_result mend_torch_reset(int device, mend_torch_reset_kind kind);

/* Count a request for which PyTorch reports out of memory, or one that was tried again after
 * PyTorch's callbacks freed memory. */
typedef enum mend_torch_note_kind {
    MEND_TORCH_OUT_OF_MEMORY = 0,
    MEND_TORCH_RETRY = 1
} mend_torch_note_kind;
MEND_API void mend_torch_note(int device, mend_torch_note_kind kind);

/* Set the limit of the device's default pool as a fraction of the device's memory. 1: no limit.
 * Foreign memory counts against it (below). MEND_OK; MEND_ERROR_INVALID_ARGUMENT (not from 0 to 1);
 * results as mend_set_limit and mend_pool_for_device. */
MEND_API mend_result mend_torch_set_fraction(int device, double fraction);

/* The memory that the fraction allows. Without a fraction, or if the limit was set by other means
 * since, that limit. */
typedef struct mend_torch_allowed {
    uint64_t bytes;
    uint64_t foreign_bytes; /* part of it. 0: foreign memory does not count */
    uint64_t device_bytes;
    double fraction; /* bytes as a part of device_bytes: the fraction that was set, if known */
    uint64_t all_foreign_bytes; /* foreign memory, whether it counts or not */
    int is_fraction;            /* 1: a fraction below 1 was set, and no other limit since */
} mend_torch_allowed;

/* Fills *allowed. Results as mend_pool_for_device. */
MEND_API mend_result mend_torch_get_allowed(int device, mend_torch_allowed *allowed);

/*
 * Foreign memory: of pools with an allocator of the program (mend_torch_pool_add), outside of Mend.
 * While a fraction is set, the limit of Mend's pool is the rest. _room: call it before the
 * allocator is asked. It releases free memory of Mend, and waits for the GPU, as far as this
 * request needs it. _add: count the bytes that the allocator returned. _remove: count the bytes
 * that it freed. MEND_OK; MEND_ERROR_OUT_OF_MEMORY (more than the fraction allows; nothing is
 * counted); results as mend_pool_for_device.
 */
MEND_API mend_result mend_torch_foreign_room(int device, uint64_t size_bytes);
MEND_API mend_result mend_torch_foreign_add(int device, uint64_t size_bytes);
MEND_API void mend_torch_foreign_remove(int device, uint64_t size_bytes);

/* Release free memory of all devices, as torch.cuda.empty_cache, and wait for the GPU if free
 * memory is still in use. During a capture it releases only idle memory. Results as mend_trim. */
MEND_API mend_result mend_torch_empty_cache(void);

/* Get the largest request on a stream that would succeed, with or without a CPU stall. Results as
 * mend_get_available and mend_pool_for_device. */
MEND_API mend_result mend_torch_largest(int device, mend_stream stream, uint64_t *size_bytes);

/* Return whether the last failure of this thread, with this result, is for missing memory. */
MEND_API int mend_torch_lacks_memory(mend_result result);

/* Write PyTorch's text for a request that is out of memory, and then Mend's (mend_get_last_error of
 * this thread). `text` holds `capacity` bytes, and more is cut off. */
MEND_API void mend_torch_write_out_of_memory(char *text, size_t capacity, int device,
                                             uint64_t size_bytes);

/* Return the number of settings that have no effect on memory from Mend, in a text as
 * PYTORCH_CUDA_ALLOC_CONF holds it. Writes their names with ", " between them to `names`, which has
 * `capacity` bytes. A name that does not fit is left out. */
MEND_API size_t mend_torch_settings_without_effect(const char *settings, char *names,
                                                   size_t capacity);

/* ---- PyTorch: growable tensors --------------------------------------------------------------- */

/*
 * Create a range (mend_range.h) in the device's default pool, and a tensor of all its bytes: a
 * DLManagedTensor of DLPack, for torch.from_dlpack. Tensors own the range. The deleter of the last,
 * which any thread may call, destroys the range in the order of `stream`. If a stream is captured
 * or a page is pinned, a later call of this function, of a deleter, or of mend_torch_empty_cache
 * destroys it. Until then you may use *range. Results as mend_pool_for_device and
 * mend_range_create; nothing is made then.
 */
MEND_API mend_result mend_torch_range_create(int device, uint64_t size_bytes,
                                             const mend_range_options *options, mend_stream stream,
                                             mend_range **range, void **whole);

/* Another tensor, of the first bytes of the range of `whole`, which lives: its storage has this
 * size, so that copies and files of it do. MEND_OK; MEND_ERROR_INVALID_ARGUMENT (more than the
 * range); MEND_ERROR_OUT_OF_HOST_MEMORY. */
MEND_API mend_result mend_torch_range_tensor(const void *whole, uint64_t size_bytes, void **part);

#ifdef __cplusplus
}
#endif

#endif
