/*
 * Calls of libmend that only its own hooks for frameworks, the Python package and the tests use.
 * This header is not installed, and its calls may change with any version. Results, threads and
 * devices are as in mend.h and mend_devices.h.
 */
#ifndef MEND_MEND_FRAMEWORKS_H
#define MEND_MEND_FRAMEWORKS_H

#include "mend/mend.h"
#include "mend/mend_devices.h"
#include "mend/mend_sleep.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- default pools and their blocks ---------------------------------------------------------- */

/* Return 1 if a device (MEND_ALL_DEVICES: any device) has a default pool now, otherwise 0. */
MEND_API int mend_has_pool(int device);

/* Get the current device of the thread, or 0 if none is, from the driver of the default pools
 * (mend_set_default_config). MEND_OK; MEND_ERROR_INVALID_ARGUMENT; MEND_ERROR_NO_DRIVER;
 * MEND_ERROR_DRIVER; MEND_ERROR_NO_DEVICE; MEND_ERROR_OUT_OF_HOST_MEMORY. */
MEND_API mend_result mend_current_device(int *device);

/* Declare that a stream uses a block. Results as mend_record_stream; MEND_ERROR_NOT_SUPPORTED (the
 * allocator has no such function). */
MEND_API mend_result mend_device_record_stream(int device, void *pointer, mend_stream stream);

/*
 * Free a block in the order of the stream that it was allocated on: for a framework whose free gets
 * only a pointer. *info describes the block, and *device is its device, or MEND_ALL_DEVICES while
 * an allocator is set. A block with a tag is described and not freed.
 *
 * Takes one lookup in each pool until the block is found, and another if it asks the driver whether
 * the stream is captured. Results as mend_device_free; MEND_ERROR_INVALID_ARGUMENT (also NULL);
 * MEND_ERROR_NOT_SUPPORTED (an allocator without block_info: nothing is freed).
 */
MEND_API mend_result mend_device_free_untagged(void *pointer, mend_block_info *info, int *device);

/* Describe a block. Results as mend_get_block_info; MEND_ERROR_NOT_SUPPORTED (the allocator has no
 * such function). */
MEND_API mend_result mend_device_block_info(int device, const void *pointer, mend_block_info *info);

/* Trim each device to at most `keep_bytes`. *released_bytes (may be NULL) is the sum. Results as
 * mend_trim: the first failure, after all devices were called. */
MEND_API mend_result mend_device_trim(int device, uint64_t keep_bytes, mend_trim_mode mode,
                                      uint64_t *released_bytes);

/* ---- graph pools without begin and end ------------------------------------------------------- */

/*
 * Free a block of the graph pool, or a block that one of its graphs uses. The memory serves later
 * requests of the graph pool on `stream`, captured or not. Results as mend_free;
 * MEND_ERROR_INVALID_ARGUMENT (also MEND_NO_STREAM).
 */
MEND_API mend_result mend_graph_pool_free(mend_graph_pool *graph_pool, void *pointer,
                                          mend_stream stream);

/*
 * Declare that a capture uses a block of the graph pool on `stream`, if you do not call
 * mend_graph_pool_begin. The capture's streams can reuse the memory after the graph nodes that
 * follow this use. If `stream` is not captured this is mend_record_stream. Results as
 * mend_record_stream; MEND_ERROR_INVALID_ARGUMENT.
 */
MEND_API mend_result mend_graph_pool_record_stream(mend_graph_pool *graph_pool, void *pointer,
                                                   mend_stream stream);

/* ---- usage ----------------------------------------------------------------------------------- */

/* Rows of mend_usage. */
typedef enum mend_usage_row {
    MEND_USAGE_BLOCKS = 0,          /* live blocks */
    MEND_USAGE_ACTIVE_BLOCKS = 1,   /* these, and the pieces of pending_bytes */
    MEND_USAGE_BYTES = 2,           /* live_bytes, without sleeping blocks */
    MEND_USAGE_ACTIVE_BYTES = 3,    /* these, and pending_bytes */
    MEND_USAGE_REQUESTED_BYTES = 4, /* requested_bytes, less the rounded sizes of sleeping blocks */
    MEND_USAGE_RESERVED_BYTES = 5,  /* reserved_bytes */
    MEND_USAGE_CHUNKS = 6,          /* chunks, only for MEND_USAGE_ALL */
    MEND_USAGE_ROWS = 7
} mend_usage_row;

/* Most blocks up to 1 MiB are small. All others, and pages of ranges, are large. */
enum { MEND_USAGE_ALL = 0, MEND_USAGE_SMALL = 1, MEND_USAGE_LARGE = 2, MEND_USAGE_PARTS = 3 };

/* Each row, for all memory and its two parts: now, and the peak since the pool was created or since
 * mend_reset_peak_stats. */
typedef struct mend_usage {
    size_t struct_size;
    uint64_t now[MEND_USAGE_ROWS][MEND_USAGE_PARTS];
    uint64_t peak[MEND_USAGE_ROWS][MEND_USAGE_PARTS];
} mend_usage;
#define MEND_USAGE_INIT                                                                            \
    {                                                                                              \
        sizeof(mend_usage), {{0}},                                                                 \
        {                                                                                          \
            {                                                                                      \
                0                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }

/*
 * Fill *usage with the process's use of the device, for the statistics of a framework.
 * `outside->now` (`outside` may be NULL) is the program's use outside of the pool from now on, and
 * counts in every row and peak. While freed memory is pending, the call asks the driver whether the
 * work has ended, unless another thread changes mappings. MEND_OK; MEND_ERROR_INVALID_ARGUMENT.
 */
MEND_API mend_result mend_get_usage(mend_pool *pool, const mend_usage *outside, mend_usage *usage);

/* ---- sleep tags ------------------------------------------------------------------------------ */

/* The memory of one sleep tag. */
typedef struct mend_sleep_tag_info {
    uint64_t tag;               /* 0: memory without a tag */
    uint64_t live_blocks;       /* blocks, and committed pages of ranges */
    uint64_t live_bytes;        /* their bytes */
    uint64_t asleep_live_bytes; /* of these, asleep at least in part */
    uint64_t graph_bytes;       /* free memory of captured graphs, whose last block had the tag */
} mend_sleep_tag_info;

/*
 * List the memory of each sleep tag, by rising tags. Array and `capacity` as of mend_get_regions.
 * The time is proportional to the number of blocks and chunks, and allocations wait meanwhile.
 * Results as mend_get_regions; MEND_ERROR_OUT_OF_HOST_MEMORY; MEND_ERROR_DEVICE_LOST.
 */
MEND_API mend_result mend_get_sleep_tags(mend_pool *pool, mend_sleep_tag_info *infos,
                                         size_t info_bytes, size_t capacity, size_t *count);

/* ---- recordings ------------------------------------------------------------------------------ */

/* End the recordings of all pools, because the process ends: all that happened so far is written,
 * and the pools live on. The library calls it as it ends. Python calls it before it frees what its
 * modules still hold, which a leak is judged by. Waits for the threads that write. */
MEND_API void mend_recorders_end(void);

/* ---- errors and checks ----------------------------------------------------------------------- */

/* Set the last failure of this thread, for code between Mend and a framework, and for allocators of
 * mend_set_allocator. The message is copied, and NULL means an empty one. MEND_OK changes nothing.
 * Returns `result`. No lock. */
MEND_API mend_result mend_set_last_error(mend_result result, const char *message);

/*
 * Check every invariant of the pool, in a library that is built for tests (MEND_VALIDATE). The time
 * is proportional to the pool's contents. MEND_OK; MEND_ERROR_INVALID_ARGUMENT;
 * MEND_ERROR_NOT_SUPPORTED; MEND_ERROR_INTERNAL (the message names the invariant).
 */
MEND_API mend_result mend_validate(mend_pool *pool);

#ifdef __cplusplus
}
#endif

#endif
