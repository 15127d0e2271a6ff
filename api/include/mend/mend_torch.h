/*
 * PyTorch's side of Mend, in libmend_torch: what the class that Mend puts in the place of PyTorch's
 * own allocator asks for (api/torch/allocator.cpp), and the functions for a torch.cuda.MemPool over
 * Mend.
 *
 * PyTorch calls them from any thread, without the interpreter's lock and, except those for a
 * MemPool, without a lock of its own. A failure that cannot be returned is logged as a warning and
 * counted. Results are those of mend.h; mend_get_last_error() has the reason. Devices are 0 to 63.
 */
#ifndef MEND_MEND_TORCH_H
#define MEND_MEND_TORCH_H

#include "mend/mend.h"
#include "mend/mend_range.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- PyTorch: a MemPool over Mend ----------------------------------------------------------- */

/* alloc_fn of torch.cuda.memory.CUDAPluggableAllocator: NULL for size 0, and if memory cannot be
 * allocated. */
MEND_API void *mend_torch_alloc_or_null(size_t size, int device, mend_stream stream);

/* free_fn. `stream` is that of the allocation, which PyTorch keeps. */
MEND_API void mend_torch_free(void *pointer, size_t size, int device, mend_stream stream);

/* Number of failures of mend_torch_free. */
MEND_API uint64_t mend_torch_failures(void);

/* ---- PyTorch: blocks ------------------------------------------------------------------------ */

/* PyTorch's name of a memory pool; both 0: no pool. */
typedef struct mend_torch_pool_id {
    uint64_t first;
    uint64_t second;
} mend_torch_pool_id;

/* Call it before the first allocation on a device: blocks are then known to be of that device. On a
 * bare device (mend_stats.bare_device) PyTorch's own allocator, which has a cache, keeps all
 * requests and pools from then on: they are foreign, as the pool {0, 0} is. Results as
 * mend_pool_for_device; MEND_ERROR_OUT_OF_HOST_MEMORY. */
MEND_API mend_result mend_torch_use_device(int device);

/* A block, as PyTorch sees it. */
typedef struct mend_torch_block {
    void *base;
    uint64_t requested_bytes;
    uint64_t usable_bytes;
    mend_stream stream; /* of the allocation */
    int device;         /* MEND_ALL_DEVICES: an allocator that was set does not say, or
                         * mend_torch_use_device was not called */
    uint64_t tag;       /* of the pool of PyTorch's that it was allocated in; 0: none */
} mend_torch_block;

/*
 * Allocates for PyTorch, through the allocator that is set for the device; if a pool of PyTorch's
 * takes the stream, in that pool. The pool begun last is asked first. *is_foreign (otherwise 0) is
 * 1 if that pool is one that PyTorch's own allocator keeps (mend_torch_pool_add): nothing is
 * allocated then. Results as mend_device_alloc.
 */
MEND_API mend_result mend_torch_block_alloc(int device, uint64_t size_bytes, mend_stream stream,
                                            void **pointer, int *is_foreign);

/*
 * The same for a program whose settings round sizes up: the block has rounded_bytes (at least
 * size_bytes); figures and descriptions of blocks say that size_bytes were requested, except in a
 * pool of PyTorch's. Results as mend_torch_block_alloc.
 */
MEND_API mend_result mend_torch_block_alloc_rounded(int device, uint64_t size_bytes,
                                                    uint64_t rounded_bytes, mend_stream stream,
                                                    void **pointer, int *is_foreign);

/* What PyTorch requested of a live block; `requested_bytes` is what Mend was asked for, as
 * mend_region says it. */
MEND_API uint64_t mend_torch_block_requested(const void *base, uint64_t requested_bytes);

/* The same at an address in the memory of the pool that takes the stream, or of the device's
 * default pool. Results as mend_alloc_with. */
MEND_API mend_result mend_torch_block_alloc_at(int device, uint64_t size_bytes, mend_stream stream,
                                               void *address);

/* Fills *block with the block that contains a pointer. Results as mend_device_block_info. An
 * allocator that is set and cannot describe its blocks is no failure: base is the pointer, the
 * stream is MEND_NO_STREAM, and sizes are 0. */
MEND_API mend_result mend_torch_block_find(const void *pointer, mend_torch_block *block);

/* Declares that a stream uses the block at a pointer: as mend_graph_pool_record_stream, if the
 * stream is captured in the pool of PyTorch's that the block is of. Results as
 * mend_device_record_stream. */
MEND_API mend_result mend_torch_block_record_stream(void *pointer, mend_stream stream);

/* Frees a block that mend_torch_block_find described, in the order of its own stream. In a pool of
 * PyTorch's whose memory graphs may use, the memory stays with the pool. Results as
 * mend_device_free; a block that checks find damaged is freed, for PyTorch's frees cannot fail. */
MEND_API mend_result mend_torch_block_free(const mend_torch_block *block);

/* Both in one: frees the block that begins at a pointer, and fills *block with what it was. It is
 * found once, unless it belongs to a pool of PyTorch's or an allocator is set. Results as
 * mend_device_free; a pointer into a block fails. */
MEND_API mend_result mend_torch_block_give(void *pointer, mend_torch_block *block);

/* ---- PyTorch: its memory pools -------------------------------------------------------------- */

/* Whether a pool takes what is allocated on a stream: 0: no; MEND_TORCH_TAKES: yes;
 * MEND_TORCH_TAKES_CAPTURED: yes, and the stream is being captured. Called under a lock of this
 * library's: it may call the driver, but not this library. */
typedef int (*mend_torch_takes)(void *context, mend_stream stream);
enum { MEND_TORCH_TAKES = 1, MEND_TORCH_TAKES_CAPTURED = 2 };

/*
 * Adds a user of a pool, which is created with the first one. is_foreign: PyTorch's own allocator
 * keeps its memory, because it has an allocator of the user's. MEND_OK; MEND_ERROR_NO_DEVICE;
 * MEND_ERROR_OUT_OF_HOST_MEMORY.
 *
 * A pool that is created here shares its memory with all others until something is captured in it.
 * From then on, and in one that is created by mend_torch_pool_begin, memory stays with the pool
 * while it has users.
 */
MEND_API mend_result mend_torch_pool_add(int device, mend_torch_pool_id id, int is_foreign);

/*
 * Adds a user of a pool, and from now on allocates in it what `takes` says yes to. `drop` (may be
 * NULL) is called with the context when that ends. MEND_OK; MEND_ERROR_INVALID_ARGUMENT (it has
 * begun already); MEND_ERROR_NO_DEVICE; MEND_ERROR_OUT_OF_HOST_MEMORY: after a failure the context
 * is still the caller's.
 */
MEND_API mend_result mend_torch_pool_begin(int device, mend_torch_pool_id id,
                                           mend_torch_takes takes, void (*drop)(void *context),
                                           void *context);

/* Later allocations do not go to the pool. MEND_OK; MEND_ERROR_INVALID_ARGUMENT (it has not
 * begun). */
MEND_API mend_result mend_torch_pool_end(int device, mend_torch_pool_id id);

/* Takes a user away. With the last one the pool ends: its memory serves everybody when the work
 * queued so far is done; live blocks stay live. MEND_OK; MEND_ERROR_INVALID_ARGUMENT (there is no
 * such pool, or it is begun and this is its last user); results as mend_graph_pool_destroy: the
 * memory is then released at a later call. */
MEND_API mend_result mend_torch_pool_remove(int device, mend_torch_pool_id id);

/* Marks a pool (MemPool(use_on_oom=True)), or not: its free memory may serve a request that is out
 * of memory. Nothing if there is no such pool. */
MEND_API void mend_torch_pool_mark(int device, mend_torch_pool_id id, int is_marked);

/* Writes the marked pools of a device, at most `capacity`; returns how many there are. */
MEND_API size_t mend_torch_pools_marked(int device, mend_torch_pool_id *ids, size_t capacity);

/* Whether a pool takes what is allocated on a stream. */
MEND_API int mend_torch_pool_takes(int device, mend_stream stream);

/* Allocates in the memory that stays with a pool, whatever the pool takes. Results as
 * mend_alloc_with; MEND_ERROR_OUT_OF_MEMORY (there is no such pool, or it keeps no memory of
 * Mend's). */
MEND_API mend_result mend_torch_block_alloc_in(int device, mend_torch_pool_id id,
                                               uint64_t size_bytes, mend_stream stream,
                                               void **pointer);

/* Whether mend_torch_pool_begin leaves the pool to PyTorch's own allocator: it keeps that pool, or
 * there is none yet, and the environment says MEND_TORCH_GRAPHS=native, or the device is
 * bare. */
MEND_API int mend_torch_pool_begins_native(int device, mend_torch_pool_id id);

/* What is known of a pool. */
typedef struct mend_torch_pool_info {
    size_t struct_size;
    int users;                   /* 0: there is no such pool */
    int is_begun;                /* 1: it has begun, and not ended */
    int is_foreign;              /* 1: PyTorch's own allocator keeps it */
    mend_graph_pool *graph_pool; /* keeps its memory; NULL: nothing was allocated in it yet, or its
                                  * memory is shared */
} mend_torch_pool_info;
#define MEND_TORCH_POOL_INFO_INIT                                                                  \
    {                                                                                              \
        sizeof(mend_torch_pool_info), 0, 0, 0, NULL                                                \
    }

/* Fills *info; zeros where there is no such pool. MEND_OK; MEND_ERROR_INVALID_ARGUMENT. */
MEND_API mend_result mend_torch_pool_get_info(int device, mend_torch_pool_id id,
                                              mend_torch_pool_info *info);

/* The pool of PyTorch's that a tag (mend_alloc_options) or a graph pool belongs to; both 0:
 * none. */
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
 * Fills in the statistics of a device. `current` and `peak` of those that mend_usage has are of the
 * pool and of what mend_torch_set_outside said last; all others are the pool's alone. Results as
 * mend_pool_for_device.
 */
MEND_API mend_result mend_torch_get_figures(int device, mend_torch_figures *figures);

/* What PyTorch's own allocator holds of a device from now on: as `outside` of mend_get_usage. Call
 * it after each change there. Results as mend_pool_for_device. */
MEND_API mend_result mend_torch_set_outside(int device, const mend_usage *outside);

/* MEND_TORCH_PEAKS: peaks become the current values. MEND_TORCH_ACCUMULATED: counters and sums
 * start again at 0. Results as mend_pool_for_device. */
typedef enum mend_torch_reset_kind {
    MEND_TORCH_PEAKS = 0,
    MEND_TORCH_ACCUMULATED = 1
} mend_torch_reset_kind;
MEND_API mend_result mend_torch_reset(int device, mend_torch_reset_kind kind);

/* Counts a request for which PyTorch reports out of memory, or one that was tried again after
 * PyTorch's callbacks freed memory. */
typedef enum mend_torch_note_kind {
    MEND_TORCH_OUT_OF_MEMORY = 0,
    MEND_TORCH_RETRY = 1
} mend_torch_note_kind;
MEND_API void mend_torch_note(int device, mend_torch_note_kind kind);

/* The limit of the device's default pool, as a fraction of the device's memory; 1: no limit.
 * Foreign memory counts against it (below). MEND_OK; MEND_ERROR_INVALID_ARGUMENT (not from 0 to 1);
 * results as mend_set_limit. */
MEND_API mend_result mend_torch_set_fraction(int device, double fraction);

/* What the fraction allows; where none is set, or the limit was set by other means since, that
 * limit. */
typedef struct mend_torch_allowed {
    uint64_t bytes;
    uint64_t foreign_bytes; /* part of it; 0: foreign memory does not count */
    uint64_t device_bytes;
    double
        fraction; /* bytes as a part of device_bytes: that which was set, as far as it is known */
    uint64_t all_foreign_bytes; /* foreign memory, whether it counts or not */
    int is_fraction;            /* 1: a fraction below 1 was set, and no other limit since */
} mend_torch_allowed;

/* Fills *allowed. Results as mend_pool_for_device. */
MEND_API mend_result mend_torch_get_allowed(int device, mend_torch_allowed *allowed);

/*
 * Foreign memory: of pools with an allocator of the program's (mend_torch_pool_add), outside of
 * Mend. While a fraction is set, the limit of Mend's pool is what foreign memory leaves.
 *
 * _room: call it before the allocator is asked. Gives free memory of Mend's back, and waits for the
 * GPU, as far as so much more needs it. _add: counts what the allocator gave; _remove: what it took
 * back. MEND_OK; MEND_ERROR_OUT_OF_MEMORY (more than the fraction allows; nothing is counted);
 * results as mend_pool_for_device.
 */
MEND_API mend_result mend_torch_foreign_room(int device, uint64_t size_bytes);
MEND_API mend_result mend_torch_foreign_add(int device, uint64_t size_bytes);
MEND_API void mend_torch_foreign_remove(int device, uint64_t size_bytes);

/* torch.cuda.empty_cache, for all devices: gives free memory back, and waits for the GPU if free
 * memory is still in use. During a capture it gives back what it can without waiting. Results as
 * mend_trim. */
MEND_API mend_result mend_torch_empty_cache(void);

/* The largest request on a stream that would succeed, with a host wait or without. Results as
 * mend_get_available. */
MEND_API mend_result mend_torch_largest(int device, mend_stream stream, uint64_t *size_bytes);

/* Whether the last failure of this thread, with this result, is a lack of memory. */
MEND_API int mend_torch_lacks_memory(mend_result result);

/* Writes PyTorch's text for a request that is out of memory, and then what Mend knows
 * (mend_get_last_error of this thread). `text` holds `capacity` bytes; more is cut off. */
MEND_API void mend_torch_write_out_of_memory(char *text, size_t capacity, int device,
                                             uint64_t size_bytes);

/* The number of settings that have no effect on memory from Mend, in a text as
 * PYTORCH_CUDA_ALLOC_CONF holds it. Writes their names with ", " between them to `names`, which has
 * `capacity` bytes; a name that does not fit is left out. No driver call. */
MEND_API size_t mend_torch_settings_without_effect(const char *settings, char *names,
                                                   size_t capacity);

/* ---- PyTorch: growable tensors --------------------------------------------------------------- */

/*
 * Creates a range (mend_range.h) in the device's default pool, and a tensor of all its bytes: a
 * DLManagedTensor of DLPack, for torch.from_dlpack. Tensors own the range. The deleter of the last,
 * which any thread may call, destroys the range in the order of `stream`; what cannot be destroyed
 * yet, because a stream is captured or a page is pinned, at a later call of this function, of a
 * deleter, or of mend_torch_empty_cache. Until then *range serves mend_range_commit and the others.
 *
 * Results as mend_pool_for_device and mend_range_create; nothing is made then.
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
