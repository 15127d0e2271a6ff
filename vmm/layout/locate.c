/*
 * The runs of a zone by growth and by address (layout/sizes.h has those by size). And from an
 * address to the span that contains it. The pointer map has the starts of blocks. Any other address
 * is found from its neighborhood. The number of steps depends on the spans of one chunk and on the
 * chunks of one block, never on the number of blocks in the pool.
 */
#include "layout/layout.h"

#include "base/error.h"

#define CHUNK_OF(node)       MEND_CONTAINER_OR_NULL(node, mend_chunk, by_address)
#define RUN_OF(node, member) MEND_CONTAINER_OR_NULL(node, mend_run, member)

static bool is_as_large(const mend_tree_node *run, const void *size_bytes)
{
    return MEND_CONTAINER_OF(run, mend_run, by_growth)->size_bytes >= *(const uint64_t *)size_bytes;
}

mend_run *mend_layout_growing_below(const mend_zone *zone, uint64_t size_bytes)
{
    return RUN_OF(mend_tree_last_to(&zone->runs_by_growth, &size_bytes, is_as_large), by_growth);
}

mend_run *mend_layout_growing_smaller(const mend_run *run)
{
    assert(run->extensible);
    return RUN_OF(mend_tree_previous(&run->by_growth), by_growth);
}

static bool is_behind(const mend_tree_node *run, const void *address)
{
    return MEND_CONTAINER_OF(run, mend_run, by_address)->address > *(const uint64_t *)address;
}

mend_run *mend_layout_run_at(const mend_zone *zone, uint64_t address)
{
    mend_run *run =
        RUN_OF(mend_tree_last_to(&zone->runs_by_address, &address, is_behind), by_address);
    return run != NULL && address - run->address < run->size_bytes ? run : NULL;
}

mend_run *mend_layout_run_from(const mend_zone *zone, uint64_t address)
{
    mend_run key = {.address = address};
    mend_run *run = mend_layout_run_at(zone, address);
    return run != NULL
               ? run
               : RUN_OF(mend_tree_at_or_after(&zone->runs_by_address, &key.by_address), by_address);
}

static mend_span *walk_back(mend_span *span, uint64_t address)
{
    while (span != NULL && span->address > address) {
        span = span->previous;
    }
    return span;
}

/* The span that begins at the address and is in the pointer map, the committed page around it, or
 * the last span of the run that contains the address. NULL: the address is inside a block, or
 * claimed. */
static mend_span *find_by_index(const mend_heap *heap, const mend_zone *zone, uint64_t address)
{
    mend_span *span = zone == &heap->zones[MEND_ZONE_RANGE]
                          ? heap->ranges.page_at(heap, address)
                          : mend_pointer_map_find(&heap->blocks, address);
    const mend_run *run = span == NULL ? mend_layout_run_at(zone, address) : NULL;
    return run != NULL ? run->last : span;
}

static bool are_neighbours(const mend_chunk *left, const mend_chunk *right)
{
    assert(left != right);
    return left != NULL && right != NULL && left->zone == right->zone &&
           left->address + left->size_bytes == right->address;
}

/* A span before an address in the chunk and in no run: the nearest one that an index finds from the
 * start of this chunk or of one before it. NULL if everything from the segment's start to there is
 * claimed. */
static mend_span *anchor_before(const mend_heap *heap, const mend_chunk *chunk)
{
    assert(chunk->address != 0);
    const mend_zone *zone = &heap->zones[chunk->zone];
    mend_span *span = find_by_index(heap, zone, chunk->address);
    while (span == NULL) {
        const mend_chunk *before = CHUNK_OF(mend_tree_previous(&chunk->by_address));
        if (!are_neighbours(before, chunk)) {
            return NULL;
        }
        chunk = before;
        span = find_by_index(heap, zone, chunk->address);
    }
    return span;
}

static mend_span *end_of_segment(const mend_heap *heap, const mend_chunk *chunk)
{
    mend_span key = {.address = chunk->address + chunk->size_bytes};
    return MEND_CONTAINER_OR_NULL(
        mend_tree_at_or_after(&heap->zones[chunk->zone].segment_ends, &key.by_end), mend_span,
        by_end);
}

/* The nearest span behind the chunk that an index finds, or the last span of the segment. */
static mend_span *anchor_behind(const mend_heap *heap, const mend_chunk *chunk)
{
    const mend_zone *zone = &heap->zones[chunk->zone];
    while (are_neighbours(chunk, mend_chunk_next(chunk))) {
        chunk = mend_chunk_next(chunk);
        mend_span *span = find_by_index(heap, zone, chunk->address);
        if (span != NULL) {
            return span;
        }
    }
    return end_of_segment(heap, chunk);
}

/* Two searches in turns. One walks up from the anchor. The other looks up each possible start of a
 * block in the chunk at or before the address, the nearest first. So many small blocks before the
 * address cost as little as one large block around it. */
static mend_span *search_chunk(const mend_heap *heap, const mend_chunk *chunk, mend_span *anchor,
                               uint64_t address)
{
    assert(address - chunk->address < chunk->size_bytes);
    uint64_t start = mend_align_down(address, MEND_GRANULE_BYTES);
    for (mend_span *span = anchor; span != NULL; span = span->next) {
        if (mend_span_end(span) > address) {
            return span;
        }
        mend_span *nearest = start >= chunk->address && start > mend_span_end(span)
                                 ? mend_pointer_map_find(&heap->blocks, start)
                                 : NULL;
        if (nearest != NULL) {
            return mend_span_walk(nearest, address);
        }
        start -= MEND_GRANULE_BYTES;
    }
    return NULL;
}

/* The span around an address of the chunk that lies in no run. Two
 * neighboring chunks may belong to two segments for a moment, while one of them gets its address:
 * then the end of the right segment leads there. */
static mend_span *find_beside_runs(const mend_heap *heap, const mend_chunk *chunk, uint64_t address)
{
    mend_span *anchor = anchor_before(heap, chunk);
    mend_span *span = anchor != NULL ? search_chunk(heap, chunk, anchor, address)
                                     : walk_back(anchor_behind(heap, chunk), address);
    return span != NULL ? span : walk_back(end_of_segment(heap, chunk), address);
}

/* The block that is passed through and contains the address. NULL: none. */
static mend_span *passed_at(const mend_heap *heap, uint64_t address)
{
    const mend_span key = {.address = address, .size_bytes = 1}; /* the tree is by ends */
    mend_span *span = MEND_CONTAINER_OR_NULL(
        mend_tree_at_or_after(&heap->zones[MEND_ZONE_PASSED].segment_ends, &key.by_end), mend_span,
        by_end);
    return span != NULL && span->live && span->address <= address ? span : NULL;
}

mend_span *mend_heap_block_at(const mend_heap *heap, uint64_t address)
{
    mend_span *span = mend_pointer_map_find(&heap->blocks, address);
    const mend_chunk *chunk = span == NULL ? mend_chunk_at(&heap->chunks, address) : NULL;
    if (chunk != NULL && mend_layout_run_at(&heap->zones[chunk->zone], address) == NULL) {
        span = find_beside_runs(heap, chunk, address);
    }
    if (span == NULL && chunk == NULL) {
        span = passed_at(heap, address);
    }
    return span != NULL && span->live ? span : NULL;
}

bool mend_heap_holds(const mend_heap *heap, uint64_t address)
{
    return mend_chunk_at(&heap->chunks, address) != NULL || passed_at(heap, address) != NULL;
}

mend_span *mend_heap_span_at(const mend_heap *heap, uint64_t address)
{
    mend_span *span = mend_pointer_map_find(&heap->blocks, address);
    const mend_chunk *chunk = span == NULL ? mend_chunk_at(&heap->chunks, address) : NULL;
    if (chunk == NULL) {
        return span;
    }
    const mend_run *run = mend_layout_run_at(&heap->zones[chunk->zone], address);
    return run != NULL ? mend_span_walk(run->first, address)
                       : find_beside_runs(heap, chunk, address);
}

const mend_span *mend_layout_last_span(const mend_heap *heap, const mend_chunk *chunk,
                                       const mend_span *above)
{
    uint64_t end = chunk->address + chunk->size_bytes;
    if (above != NULL && above->address >= end) {
        above = above->previous; /* NULL if a segment begins behind the chunk */
    }
    return above != NULL && mend_span_end(above) >= end ? above : mend_heap_span_at(heap, end - 1);
}

static bool is_frozen(const mend_chunk *chunk)
{
    return chunk->is_frozen;
}

/* The first chunk below the span for which `is_so` is true. NULL if there is none. */
static const mend_chunk *find_under(const mend_heap *heap, const mend_span *span,
                                    bool (*is_so)(const mend_chunk *))
{
    MEND_CHUNKS_EACH(const mend_chunk, chunk, heap, span->address, mend_span_end(span)) {
        if (is_so(chunk)) {
            return chunk;
        }
    }
    return NULL;
}

const mend_chunk *mend_layout_find_frozen(const mend_heap *heap, const mend_span *span)
{
    return find_under(heap, span, is_frozen);
}

bool mend_layout_misses_mapping(const mend_heap *heap, const mend_span *span)
{
    return heap->chunks.missing_count > 0 &&
           find_under(heap, span, mend_chunk_misses_mapping) != NULL;
}

bool mend_layout_sleeps(const mend_heap *heap, const mend_span *span)
{
    return heap->chunks.asleep_count > 0 && find_under(heap, span, mend_chunk_sleeps) != NULL;
}

size_t mend_layout_count_chunks(const mend_heap *heap, const mend_span *span)
{
    size_t count = 0;
    MEND_CHUNKS_EACH(const mend_chunk, chunk, heap, span->address, mend_span_end(span)) {
        count++;
    }
    return count;
}

/* A sleeping block has no memory, so no user outside of the pool may begin to rely on it. */
mend_result mend_heap_find_asleep(const mend_heap *heap, uint64_t address, uint64_t size_bytes,
                                  const char *what)
{
    MEND_CHUNKS_EACH(const mend_chunk, chunk, heap, address, address + size_bytes) {
        if (mend_chunk_sleeps(chunk)) {
            return mend_failure(MEND_ERROR_ASLEEP,
                                "%s: the memory at 0x%llx sleeps; call mend_wake first", what,
                                (unsigned long long)mend_max_u64(address, chunk->address));
        }
    }
    return MEND_OK;
}

bool mend_layout_is_home(const mend_heap *heap, const mend_request *request, const mend_run *run,
                         uint64_t address, uint64_t end)
{
    const mend_chunk *at = address < end ? mend_run_chunk_at(heap, run, address) : NULL;
    for (; at != NULL && at->address < end; at = mend_chunk_next(at)) {
        if (at->live_bytes > 0 && at->sleep_tag != request->home) {
            return false;
        }
    }
    return true;
}
