/*
 * Growable ranges: memory that you add and remove, in pages, at one fixed address. The conventions
 * of mend.h hold.
 */
#ifndef MEND_MEND_RANGE_H
#define MEND_MEND_RANGE_H

#include "mend/mend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- ranges ---------------------------------------------------------------------------------- */

/*
 * A range reserves addresses, up to terabytes, and has no memory at first. A commit allocates
 * memory for its pages, from the pool and within its limit. A decommit frees it. The address never
 * changes, so a cache or a tensor grows and shrinks without a copy.
 *
 * You pass byte ranges of any size. Commits and declared streams round outward to whole pages. A
 * decommit rounds inward, but frees the last page if you pass all bytes of it below the size of the
 * range.
 *
 * Work may use committed pages only. Destroy a range before its pool.
 */
typedef struct mend_range mend_range;

/* Options of a range. */
typedef struct mend_range_options {
    size_t struct_size;
    uint64_t page_bytes; /* the unit of commits: a multiple of the device's page (usually 2 MiB) up
                          * to 2^46. 0: one page. Large pages need fewer driver calls, and small
                          * ones waste less memory */
    uint64_t tag;        /* your own number for the range, and the sleep tag of its pages, unless a
                          * thread has one (mend_set_alloc_options) */
} mend_range_options;
#define MEND_RANGE_OPTIONS_INIT                                                                    \
    {                                                                                              \
        sizeof(mend_range_options), 0, 0                                                           \
    }

/* The address and the memory of a range. */
typedef struct mend_range_info {
    size_t struct_size;
    void *base;          /* start of the range */
    uint64_t size_bytes; /* rounded up to a page */
    uint64_t page_bytes;
    uint64_t committed_bytes;
    uint64_t mapped_bytes; /* the same without sleeping pages, and with free memory that is still
                            * mapped here, which a commit takes without a driver call */
    uint64_t tag;
    mend_pool *pool;
    uint64_t asleep_bytes; /* of committed_bytes */
} mend_range_info;
#define MEND_RANGE_INFO_INIT                                                                       \
    {                                                                                              \
        sizeof(mend_range_info), NULL, 0, 0, 0, 0, 0, NULL, 0                                      \
    }

/*
 * Create a range: reserve addresses for `size_bytes`, rounded up to a page, without memory.
 * `options` may be NULL. You own the range until mend_range_destroy. If the driver has no more
 * addresses, the pool uses its own.
 *
 *     mend_range *cache;
 *     mend_range_create(pool, 64ull << 30, NULL, &cache);
 *     mend_range_commit(cache, 0, 256ull << 20, stream);
 *
 * Calls the driver. Never waits for the GPU. MEND_OK; MEND_ERROR_INVALID_ARGUMENT (a NULL, a size
 * of 0 or above 2^46, a wrong page, or more than 2^26 pages); MEND_ERROR_NOT_SUPPORTED (no virtual
 * memory); MEND_ERROR_OUT_OF_ADDRESS_SPACE; MEND_ERROR_OUT_OF_HOST_MEMORY; MEND_ERROR_DRIVER;
 * MEND_ERROR_DEVICE_LOST.
 */
MEND_API mend_result mend_range_create(mend_pool *pool, uint64_t size_bytes,
                                       const mend_range_options *options, mend_range **range);

/*
 * Describe a range: its address, and how much of it has memory. The cost is the same for any number
 * of pages. MEND_OK; MEND_ERROR_INVALID_ARGUMENT.
 */
MEND_API mend_result mend_range_get_info(mend_range *range, mend_range_info *info);

/*
 * Commit the pages that hold any of these bytes, for use on `stream`, as mend_alloc for a block.
 * Committed pages keep their contents, and stay asleep if they sleep. The contents of new pages are
 * undefined. Calls the driver and waits as mend_alloc.
 *
 * A commit of a page that was just decommitted may wait for the work queued before the decommit. If
 * the page slept, the commit waits for a mend_sleep of another thread, and is MEND_ERROR_DRIVER
 * while the driver refuses to release the old memory.
 *
 * MEND_OK; MEND_ERROR_INVALID_ARGUMENT (a NULL, MEND_EVERY_STREAM, 0 bytes, or bytes outside of the
 * range); MEND_ERROR_OUT_OF_MEMORY (with a report that names the range); MEND_ERROR_CAPTURING;
 * MEND_ERROR_OUT_OF_ADDRESS_SPACE (a capture forbids to unmap an old mapping, or copies of a
 * failed wake may still write to it);
 * MEND_ERROR_OUT_OF_HOST_MEMORY; MEND_ERROR_UNKNOWN_STREAM; MEND_ERROR_DRIVER;
 * MEND_ERROR_DEVICE_LOST. On failure no new page is committed, and the pool may have more free
 * memory.
 */
MEND_API mend_result mend_range_commit(mend_range *range, uint64_t offset_bytes,
                                       uint64_t size_bytes, mend_stream stream);

/* Bytes of a range: `size_bytes` from `offset_bytes` on. */
typedef struct mend_range_part {
    mend_range *range;
    uint64_t offset_bytes;
    uint64_t size_bytes;
} mend_range_part;

/*
 * Commit the pages of several parts in one step: all of them, or no new page. Other threads see all
 * of them committed, or none. The ranges must be of one pool. Parts may be of one range, in any
 * order, and overlap. `part_bytes` is sizeof(mend_range_part). `parts` is yours. With a part_count
 * of 0 nothing happens.
 *
 * The cost is a commit of each part and a sort of the parts. Results as mend_range_commit;
 * MEND_ERROR_INVALID_ARGUMENT (also if the ranges are of several pools). An out-of-memory report
 * names the range of the lowest address.
 */
MEND_API mend_result mend_range_commit_all(const mend_range_part *parts, size_t part_bytes,
                                           size_t part_count, mend_stream stream);

/*
 * Decommit the pages that hold no other bytes: free their memory in stream order, as mend_free.
 * Pages that are not committed stay so. The backup of sleeping pages is freed. Queue no work, and
 * launch no graph, that uses these pages until you commit them again.
 *
 * Calls the driver only to record events, and waits as mend_free. MEND_OK;
 * MEND_ERROR_INVALID_ARGUMENT (as mend_range_commit); MEND_ERROR_CAPTURING;
 * MEND_ERROR_OUT_OF_HOST_MEMORY; MEND_ERROR_UNKNOWN_STREAM; MEND_ERROR_DRIVER;
 * MEND_ERROR_DEVICE_LOST.
 */
MEND_API mend_result mend_range_decommit(mend_range *range, uint64_t offset_bytes,
                                         uint64_t size_bytes, mend_stream stream);

/*
 * Declare that `stream` uses the committed pages among these bytes, as mend_record_stream for a
 * block. Results as mend_range_decommit; MEND_ERROR_INVALID_ARGUMENT (also MEND_NO_STREAM);
 * MEND_ERROR_ASLEEP (no page is declared).
 */
MEND_API mend_result mend_range_record_stream(mend_range *range, uint64_t offset_bytes,
                                              uint64_t size_bytes, mend_stream stream);

/*
 * Decommit all pages, and destroy the range. NULL succeeds. The addresses return to the driver when
 * nothing is mapped there any more. Calls the driver. Never waits for the GPU. MEND_OK;
 * MEND_ERROR_INVALID_ARGUMENT (MEND_EVERY_STREAM, or a page is pinned); MEND_ERROR_CAPTURING;
 * MEND_ERROR_OUT_OF_HOST_MEMORY; MEND_ERROR_UNKNOWN_STREAM; MEND_ERROR_DRIVER;
 * MEND_ERROR_DEVICE_LOST (the range ends with the pool).
 */
MEND_API mend_result mend_range_destroy(mend_range *range, mend_stream stream);

#ifdef __cplusplus
}
#endif

#endif
