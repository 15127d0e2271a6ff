/*
 * Growable ranges: a fixed address with memory that comes and goes below it, in pages, in stream
 * order. The conventions of mend.h hold here too.
 */
#ifndef MEND_MEND_RANGE_H
#define MEND_MEND_RANGE_H

#include "mend/mend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- ranges ---------------------------------------------------------------------------------- */

/*
 * A range is addresses, up to terabytes, and no memory at first. To commit pages is to allocate
 * memory for them, from the pool and within its limit; to decommit them is to free it. The address
 * never changes, so a cache or a tensor grows and shrinks without a copy. The memory passes both
 * ways between ranges and blocks by mapping: memory that a range decommits serves blocks, and other
 * ranges, and the reverse.
 *
 * Bytes of a range are named by their offset and number, which need not be multiples of a page. A
 * commit and a declared stream are for the pages that hold any of them; a decommit is for
 * the pages that hold nothing else, so that it takes nothing that was not named. Behind the size
 * that the range was created with its last page holds nothing. GrowingTensor of Python rounds
 * alike.
 *
 * Work may use committed pages only: the others are not mapped, or mapped for the pool's own ends.
 * A range is used by several threads as a pool is. It must be destroyed before its pool.
 */
typedef struct mend_range mend_range;

/* Begin with MEND_RANGE_OPTIONS_INIT, and set the fields that differ. Fields may be added at the
 * end. */
typedef struct mend_range_options {
    size_t struct_size;
    uint64_t page_bytes; /* the unit of commits and decommits: a multiple of the device's page,
                          * which is usually 2 MiB. 0: one page of the device. Large pages need
                          * fewer calls of the driver; small ones leave less memory unused */
    uint64_t tag;        /* the program's number for the range; 0: none. Also the sleep tag of its
                          * pages, unless a thread has one: see mend_set_alloc_options */
} mend_range_options;
#define MEND_RANGE_OPTIONS_INIT                                                                    \
    {                                                                                              \
        sizeof(mend_range_options), 0, 0                                                           \
    }

/* Begin with MEND_RANGE_INFO_INIT. Fields may be added at the end. */
typedef struct mend_range_info {
    size_t struct_size;
    void *base;               /* where the range begins */
    uint64_t size_bytes;      /* rounded up to a page */
    uint64_t page_bytes;      /* the granularity of commits */
    uint64_t committed_bytes; /* memory of committed pages */
    uint64_t mapped_bytes;    /* the same, without sleeping pages, and free memory of the pool that
                               * is still mapped here: a commit of such a page needs no call of the
                               * driver */
    uint64_t tag;             /* as in the options */
    mend_pool *pool;          /* the pool it was created in */
    uint64_t asleep_bytes;    /* of committed_bytes, memory that sleeps (mend_sleep.h) */
} mend_range_info;
#define MEND_RANGE_INFO_INIT                                                                       \
    {                                                                                              \
        sizeof(mend_range_info), NULL, 0, 0, 0, 0, 0, NULL, 0                                      \
    }

/* Reserves addresses for `size_bytes`, rounded up to a page; no memory. `options` may be NULL. If
 * the driver has no more, the range lies among the addresses that blocks do not use; idle memory is
 * unmapped for that, and nothing waits for the GPU. Calls the driver. MEND_OK;
 * MEND_ERROR_INVALID_ARGUMENT (a NULL; the size is 0 or above 2^46; the page is no multiple of the
 * device's, or so small that there are more than 2^26 of them); MEND_ERROR_NOT_SUPPORTED (no
 * virtual memory); MEND_ERROR_OUT_OF_ADDRESS_SPACE; MEND_ERROR_OUT_OF_HOST_MEMORY;
 * MEND_ERROR_DRIVER; MEND_ERROR_DEVICE_LOST. */
MEND_API mend_result mend_range_create(mend_pool *pool, uint64_t size_bytes,
                                       const mend_range_options *options, mend_range **range);

/* Where the range is, and how much of it has memory. No driver call. MEND_OK;
 * MEND_ERROR_INVALID_ARGUMENT; MEND_ERROR_FORKED. The cost is the same for any number of pages. */
MEND_API mend_result mend_range_get_info(mend_range *range, mend_range_info *info);

/*
 * Commits the pages that hold any of the bytes: afterwards `stream` may use them, as a block that
 * was allocated for it (MEND_NO_STREAM: every stream may). Pages that are committed already stay as
 * they are, with their contents, and asleep if they sleep; those of the others are undefined. Finds
 * memory by all means of mend_alloc: it may wait for the GPU, ask other pools and callbacks, and
 * compact.
 *
 * A page that was decommitted a moment ago, and whose memory went elsewhere, is mapped again when
 * the work that was queued before its decommit is done: so a commit of it may wait for that work. A
 * page that was decommitted while it slept gets new memory; a commit of it waits for a mend_sleep
 * that another thread has begun, and is MEND_ERROR_DRIVER while the driver does not take the page's
 * old memory back.
 *
 * MEND_OK; MEND_ERROR_INVALID_ARGUMENT (a NULL; MEND_EVERY_STREAM; 0 bytes, or not all in the
 * range); MEND_ERROR_OUT_OF_MEMORY (with a
 * report that names the range); MEND_ERROR_CAPTURING (`stream` is being captured: commit before
 * that); MEND_ERROR_OUT_OF_ADDRESS_SPACE (an old mapping cannot go during a capture);
 * MEND_ERROR_OUT_OF_HOST_MEMORY; MEND_ERROR_UNKNOWN_STREAM; MEND_ERROR_DRIVER;
 * MEND_ERROR_DEVICE_LOST. On failure no page is committed that was not; memory that was found for
 * some is free memory of the pool.
 */
MEND_API mend_result mend_range_commit(mend_range *range, uint64_t offset_bytes,
                                       uint64_t size_bytes, mend_stream stream);

/* Bytes of a range: `size_bytes` from `offset_bytes` on. Fields may be added at the end. */
typedef struct mend_range_part {
    mend_range *range;
    uint64_t offset_bytes;
    uint64_t size_bytes;
} mend_range_part;

/*
 * Commits the pages of `part_count` parts, elements of `part_bytes` each (sizeof(mend_range_part)),
 * in one step, as mend_range_commit those of one: all of
 * them, or none that was not committed. No other thread finds some of them committed and some not.
 * Memory for all is found together, so parts do not take each other's. The ranges are of one pool;
 * several parts may be of one range, in any order, and overlap. `parts` is the caller's; it may be
 * NULL if part_count is 0, and then nothing happens.
 *
 * The cost is that of a commit of each part, and a sort of the parts. Results as mend_range_commit;
 * MEND_ERROR_INVALID_ARGUMENT also if the ranges are of several pools. A report of out of memory
 * names the range of the lowest address, and how many others there are; it says how many bytes of
 * pages would fit if all pages have one size.
 */
MEND_API mend_result mend_range_commit_all(const mend_range_part *parts, size_t part_bytes,
                                           size_t part_count, mend_stream stream);

/*
 * Decommits the pages that hold nothing but these bytes: frees their memory, as mend_free frees a
 * block. Later work on `stream` may get it at once, other streams after the work queued so far on
 * `stream`, and on those that were recorded. With MEND_NO_STREAM it waits for all work, as there.
 * Pages that are not committed stay so. Sleeping pages are decommitted as others, and what is kept
 * of them goes. The program queues no more work that uses these pages, and launches no graph that
 * does, until they are committed again.
 *
 * Calls the driver only to record events, and waits as mend_free. MEND_OK;
 * MEND_ERROR_INVALID_ARGUMENT (as above); MEND_ERROR_CAPTURING (`stream` is being captured);
 * MEND_ERROR_OUT_OF_HOST_MEMORY; MEND_ERROR_UNKNOWN_STREAM; MEND_ERROR_DRIVER;
 * MEND_ERROR_DEVICE_LOST. On failure nothing changed.
 */
MEND_API mend_result mend_range_decommit(mend_range *range, uint64_t offset_bytes,
                                         uint64_t size_bytes, mend_stream stream);

/* Declares that `stream` uses the committed ones among the pages: their memory is not used again
 * before the work that was queued on it up to their decommit, as by mend_record_stream. Results as
 * mend_range_decommit; MEND_NO_STREAM is MEND_ERROR_INVALID_ARGUMENT. If one of these pages sleeps,
 * it is MEND_ERROR_ASLEEP, and none is declared. */
MEND_API mend_result mend_range_record_stream(mend_range *range, uint64_t offset_bytes,
                                              uint64_t size_bytes, mend_stream stream);

/* Decommits all pages, sleeping ones too, and destroys the range (NULL: nothing). The addresses go
 * back to the driver when nothing is mapped there any more. Calls the driver; never waits for the
 * GPU. MEND_OK; MEND_ERROR_INVALID_ARGUMENT (MEND_EVERY_STREAM; a page is pinned);
 * MEND_ERROR_CAPTURING
 * (`stream` is being captured); MEND_ERROR_OUT_OF_HOST_MEMORY; MEND_ERROR_UNKNOWN_STREAM;
 * MEND_ERROR_DRIVER; MEND_ERROR_DEVICE_LOST (the pool keeps the range until it is destroyed). On
 * failure nothing changed. */
MEND_API mend_result mend_range_destroy(mend_range *range, mend_stream stream);

#ifdef __cplusplus
}
#endif

#endif
