/* Growable ranges: their pages, and the states of a page. Guarded by the heap's `state` lock. */
#ifndef MEND_RANGES_RANGES_H
#define MEND_RANGES_RANGES_H

#include "layout/state.h"
#include "mend/mend_range.h"
#include "plan/policy.h"

/* ---- ranges.c -------------------------------------------------------------------------------- */

struct mend_range {
    mend_tree_node by_address;
    mend_deferred deferred;
    struct mend_pool *pool; /* for the calls of mend_range.h */
    uint64_t address;
    uint64_t size_bytes;      /* a multiple of page_bytes */
    uint64_t requested_bytes; /* requested by the program: the last page may be a part */
    uint64_t page_bytes;
    uint64_t committed_bytes;
    mend_chunk_sums sums; /* of its chunks: committed pages, and free memory */
    uint64_t tag;
    uint64_t sleep_tag; /* of pages that are committed without a thread's tag. 0: none */
    bool is_closed;
    mend_span *pages[]; /* the live span of each page. NULL: not committed */
};

void mend_ranges_init(mend_heap *heap);

/* The range that contains an address. NULL: none. */
mend_range *mend_range_at(const mend_heap *heap, uint64_t address);

static inline uint64_t mend_range_end(const mend_range *range)
{
    return range->address + range->size_bytes;
}

/* The number of the page that contains an address, and where a page begins. */
static inline size_t mend_range_page_of(const mend_range *range, uint64_t address)
{
    assert(address - range->address < range->size_bytes);
    return (size_t)((address - range->address) / range->page_bytes);
}

/* Visits the pages between two addresses that are not committed. */
#define MEND_MISSING_EACH(at, range, from, end)                                                    \
    for (uint64_t at = (from); at < (end); at += (range)->page_bytes)                              \
        if ((range)->pages[mend_range_page_of(range, at)] == NULL)

static inline uint64_t mend_range_page_start(const mend_range *range, size_t page)
{
    return range->address + page * range->page_bytes;
}

/* Pages of one range: the addresses from `from` to `end`, both at pages. */
typedef struct mend_part {
    mend_range *range;
    uint64_t from;
    uint64_t end;
} mend_part;

/* The pages of one request, in the order of their addresses. No part meets another. */
typedef struct mend_parts {
    const mend_part *items;
    size_t count; /* at least 1 */
} mend_parts;

/* The same, as the core knows them. */
typedef struct mend_parts_pages {
    mend_pages pages;
    const mend_parts *parts;
} mend_parts_pages;

static inline const mend_parts *mend_parts_of(const mend_pages *pages)
{
    return MEND_CONTAINER_OF(pages, const mend_parts_pages, pages)->parts;
}

/* Whether an address is in one of the parts. O(log parts). */
bool mend_parts_contain(const mend_pages *pages, uint64_t address);

/* Bytes of the parts that are not committed. */
uint64_t mend_parts_missing_bytes(const mend_pages *pages);

/* Bytes from `from` to `end`, both at pages, that are not committed. */
uint64_t mend_range_missing_bytes(const mend_range *range, uint64_t from, uint64_t end);

/* The first frozen chunk from `from` to `end` that belongs to no committed page. NULL: none. O(1)
 * while nothing is frozen. */
const mend_chunk *mend_range_find_frozen(const mend_heap *heap, const mend_range *range,
                                         uint64_t from, uint64_t end);

/* Whether a chunk below the range is pinned, for more than the export of its page. */
bool mend_range_is_pinned(const mend_heap *heap, const mend_range *range);

/* A stretch of the range that nothing is mapped at and no committed page covers. */
typedef struct mend_range_gap {
    uint64_t address;
    uint64_t size_bytes; /* 0: there is none */
} mend_range_gap;

/* The first one from `from` on, up to `end`. */
mend_range_gap mend_range_next_gap(const mend_heap *heap, const mend_range *range, uint64_t from,
                                   uint64_t end);

/* ---- pages.c --------------------------------------------------------------------------------- */

/* Reserves nodes to commit mapped pages that are not committed, and to decommit committed ones.
 * O(pages and waits of their memory). False if malloc fails. */
bool mend_range_reserve_commit(mend_heap *heap, const mend_parts *parts);
bool mend_range_reserve_decommit(mend_heap *heap, const mend_range *range, uint64_t from,
                                 uint64_t end);

/* Neighboring pages of one range and tag that are committed, or decommitted, together: the history
 * has one event for all of them. Begin with the kind and the stream alone. */
typedef struct mend_page_stretch {
    mend_event_kind kind;
    mend_stream stream;
    uint64_t tag;
    uint64_t from;
    uint64_t end;
} mend_page_stretch;

/* The live page is the next one, and there is none any more. */
void mend_range_note_page(mend_heap *heap, mend_page_stretch *stretch, const mend_span *page);
void mend_range_note_last(mend_heap *heap, mend_page_stretch *stretch);

/* Commits a page that is free memory in a run. The span keeps the waits of its memory. */
void mend_range_take_page(mend_heap *heap, mend_range *range, size_t page, mend_stream stream);

/* Makes a committed page free memory again, which is idle after the waits of its span. */
void mend_range_free_page(mend_heap *heap, mend_range *range, size_t page);

/* ---- range.c --------------------------------------------------------------------------------- */

/* Commits the pages, in one step under `state`. The caller holds it. It may be released before.
 * Errors as mend_fallback_run. Then no page is committed that was not. */
mend_result mend_heap_commit(mend_heap *heap, const mend_parts *parts, mend_stream stream);

/* Makes the committed pages free memory, after the work queued so far on the stream and on recorded
 * streams. As above. Errors as mend_free, or MEND_ERROR_OUT_OF_HOST_MEMORY: nothing changed. */
mend_result mend_heap_decommit(mend_heap *heap, mend_range *range, uint64_t from, uint64_t end,
                               mend_stream stream);

/* Declares that a stream uses the committed ones among the pages. As above. Errors as
 * mend_record_stream. */
mend_result mend_heap_record_range(mend_heap *heap, mend_range *range, uint64_t from, uint64_t end,
                                   mend_stream stream);

/* Decommits all pages, and closes the range, which the caller must not use any more. Under both
 * locks. MEND_ERROR_INVALID_ARGUMENT (a page is pinned), or as mend_heap_decommit: nothing
 * changed. */
mend_result mend_heap_destroy_range(mend_heap *heap, mend_range *range, mend_stream stream);

/* ---- commit.c -------------------------------------------------------------------------------- */

/*
 * The request has pages. Memory that a try maps and cannot commit stays free memory, which a later
 * try finds. No page is committed before all are.
 */

/* mend_pages.commit. */
mend_outcome mend_parts_commit(mend_heap *heap, const mend_request *request, bool maps);

/* ---- ranges.c -------------------------------------------------------------------------------- */

/* Hooks of the feature (layout/feature.h). */
void mend_ranges_clear(mend_heap *heap);
void mend_ranges_retry(mend_heap *heap, mend_deferred *deferred, uint32_t asking);
void mend_ranges_statistics(const mend_heap *heap, mend_stats *stats);

/* Reserves addresses. `size_bytes` is a multiple of `page_bytes`, which is one of the device's
 * page. Calls the driver. MEND_ERROR_OUT_OF_ADDRESS_SPACE. */
mend_result mend_ranges_create(mend_heap *heap, uint64_t size_bytes, uint64_t page_bytes,
                               mend_range **range);

/* Closes a range without committed pages. No driver call. */
void mend_ranges_close(mend_heap *heap, mend_range *range);

#endif
