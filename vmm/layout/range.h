/*
 * Growable ranges: addresses that stay, and memory that comes and goes below them, in pages. A
 * committed page is a live span of the zone MEND_ZONE_RANGE, so that waits, streams, pins and
 * compactions treat it as a block. A decommitted page is free memory of that zone: its chunks are
 * in the set of empty ones, and any request may move them elsewhere. Until then the page is still
 * mapped, and is committed again without a driver call. Invariants, checked by the audit:
 *  - each range has one reservation of `ranges.space`, which may be borrowed from the addresses of
 *    blocks, and nothing else is mapped there. A range is closed, or the program has it;
 *  - a chunk of the zone lies inside one page of one range;
 *  - the live spans of the zone are exactly the committed pages, each of one page, which the page
 *    table of its range names. So a chunk there is live as a whole, or empty;
 *  - a chunk there may sleep (physical/asleep.h), and is never on the host. A page sleeps as far as
 *    its chunks do, and stays committed. Decommitted, a sleeping chunk is claimed, and in the way
 *    of a commit, until it is collected; then nothing is mapped at its addresses;
 *  - a closed range has no committed pages, and something is mapped in it;
 *  - the list of those to settle has the closed ranges, and those with unsettled zeros.
 *
 * Guarded by the heap's `state` lock.
 */
#ifndef MEND_LAYOUT_RANGE_H
#define MEND_LAYOUT_RANGE_H

#include "layout/state.h"
#include "mend/mend_range.h"

struct mend_range {
    mend_tree_node by_address;
    mend_list to_settle;    /* in the list of that name; else alone */
    struct mend_pool *pool; /* for the calls of mend_range.h */
    uint64_t address;
    uint64_t size_bytes; /* a multiple of page_bytes */
    uint64_t page_bytes;
    uint64_t committed_bytes;
    mend_chunk_sums sums; /* of its chunks: committed pages, and free memory */
    uint64_t tag;
    uint64_t sleep_tag; /* of pages that are committed without one of the thread; 0: none */
    bool is_closed;
    unsigned char *zeros;  /* bits of each page (layout/zeros.h); NULL: none has any */
    uint64_t zeros_mapped; /* pages with a mapping of zeros */
    uint64_t zeros_unsettled;
    mend_stamp zeros_stamp; /* of a closed range: what must pass before they are unmapped */
    mend_span *pages[];     /* the live span of each page; NULL: not committed */
};

void mend_ranges_init_tree(mend_heap *heap);

/* Call after a range was closed, or its unsettled zeros have changed. */
void mend_range_note_settling(mend_heap *heap, mend_range *range);

/* Ranges to settle: their number; and in turns, the first one, which is the last one from now on.
 * NULL: none. A pass takes as many as there are at its beginning: a commit of another thread may
 * settle one while `state` is released. */
size_t mend_range_count_to_settle(const mend_heap *heap);
mend_range *mend_range_next_to_settle(mend_heap *heap);

/* The range that contains an address; NULL: none. */
mend_range *mend_range_at(const mend_heap *heap, uint64_t address);

/* The live span of the committed page that contains an address; NULL: none. */
mend_span *mend_range_page_at(const mend_heap *heap, uint64_t address);

/* The addresses that contain an address of the pool. */
static inline mend_space *mend_heap_space_at(mend_heap *heap, uint64_t address)
{
    bool is_in_range = heap->ranges.by_address.count > 0 && mend_range_at(heap, address) != NULL;
    return is_in_range ? &heap->ranges.space : &heap->space;
}

/* Addresses at which something is mapped. */
static inline uint64_t mend_heap_taken_bytes(const mend_heap *heap)
{
    return heap->space.taken_bytes - heap->space.lent_bytes + heap->ranges.space.taken_bytes;
}

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

/* Pages of one range: the addresses from `from` to `end`, both at pages. */
typedef struct mend_part {
    mend_range *range;
    uint64_t from;
    uint64_t end;
} mend_part;

/* The pages of one request, in the order of their addresses; no part meets another. */
typedef struct mend_parts {
    const mend_part *items;
    size_t count; /* at least 1 */
} mend_parts;

/* Whether an address is in one of the parts. O(log parts). */
bool mend_parts_contain(const mend_parts *parts, uint64_t address);

/* Bytes of the parts that are not committed. */
uint64_t mend_parts_missing_bytes(const mend_parts *parts);

/* Bytes from `from` to `end`, both at pages, that are not committed. */
uint64_t mend_range_missing_bytes(const mend_range *range, uint64_t from, uint64_t end);

/* The first frozen chunk from `from` to `end` that belongs to no committed page; NULL: none. O(1)
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

#endif
