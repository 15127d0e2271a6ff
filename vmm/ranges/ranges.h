/* Growable ranges: their pages, and the states of a page. Guarded by the heap's `state` lock. */
#ifndef MEND_RANGES_RANGES_H
#define MEND_RANGES_RANGES_H

#include "layout/state.h"
#include "mend/mend_range.h"

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

static inline uint64_t mend_range_page_start(const mend_range *range, size_t page)
{
    return range->address + page * range->page_bytes;
}

/* Hooks of the feature (layout/feature.h). */
void mend_ranges_clear(mend_heap *heap);
void mend_ranges_retry(mend_heap *heap, mend_deferred *deferred, uint32_t asking);
void mend_ranges_statistics(const mend_heap *heap, mend_stats *stats);

/* ---- commit.c -------------------------------------------------------------------------------- */

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

/* Commits the missing pages, all or none. The caller holds `state`, which is released meanwhile. */
mend_result mend_parts_commit(mend_heap *heap, const mend_parts *parts, mend_stream stream);

#endif
