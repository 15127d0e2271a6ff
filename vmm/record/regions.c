/*
 * The walk over all mapped memory of a heap, by address: live blocks, and free memory cut where one
 * of its properties changes. mend_inspect.h has the fields of a region.
 */
#include "pool/pool.h"

#include "alloc/heap.h"
#include "base/align.h"
#include "layout/layout.h"
#include "record/record.h"

#define SEGMENT_OF(node) MEND_CONTAINER_OR_NULL(node, mend_span, by_end)

typedef struct region_walk {
    const mend_heap *heap;
    void *regions;
    size_t region_bytes;
    size_t capacity;
    size_t count;
    mend_region open; /* free memory that the next span may continue. Size 0: none */
    void *segment;
} region_walk;

static void *pointer_of(uint64_t address)
{
    return (void *)(uintptr_t)address;
}

/* ---- the result ------------------------------------------------------------------------------ */

static void put(region_walk *walk, const mend_region *region)
{
    if (walk->count < walk->capacity) {
        mend_element_write(walk->regions, walk->region_bytes, walk->count, region, sizeof(*region));
    }
    walk->count++;
}

static void end_open(region_walk *walk)
{
    if (walk->open.size_bytes > 0) {
        put(walk, &walk->open);
        walk->open.size_bytes = 0;
    }
}

/* ---- owners ---------------------------------------------------------------------------------- */

static void set_graph_pool(const mend_heap *heap, uint32_t number, mend_region *region)
{
    if (number != 0) {
        region->is_for_graphs = 1;
        region->graph_pool = mend_graph_pool_numbered(heap, number);
    }
}

static void meet_stamp(const mend_heap *heap, mend_stamp stamp, mend_region *region)
{
    const mend_stream_state *state = &heap->streams.items[stamp.stream];
    if (stamp.epoch == 0 || mend_stamp_has_passed(&heap->streams, stamp)) {
        return;
    }
    const bool is_there = stamp.stream != MEND_STREAM_UNKNOWN && state->known && !state->has_ended;
    const bool is_first = region->kind == MEND_REGION_FREE;
    region->kind = MEND_REGION_WAITING;
    region->stream = is_first && is_there ? state->handle : MEND_NO_STREAM;
    if (!region->is_for_graphs) {
        set_graph_pool(heap, state->graph_pool, region);
    }
}

/* ---- the walk -------------------------------------------------------------------------------- */

static mend_region region_at(const region_walk *walk, const mend_span *span)
{
    return (mend_region){.address = pointer_of(span->address),
                         .size_bytes = span->size_bytes,
                         .segment = walk->segment,
                         .is_small = span->zone == MEND_ZONE_SMALL};
}

/* The chunk's part of a region that reaches into it. */
static void meet_chunk(mend_region *region, const mend_chunk *chunk)
{
    region->is_pinned |= chunk->pins > 0;
    region->is_unmapped |= mend_chunk_misses_mapping(chunk);
    region->is_asleep |= mend_chunk_sleeps(chunk);
}

static void walk_block(region_walk *walk, const mend_span *span)
{
    mend_region region = region_at(walk, span);
    region.kind = span->zone == MEND_ZONE_RANGE ? MEND_REGION_PAGE : MEND_REGION_LIVE;
    region.requested_bytes = span->requested_bytes;
    region.stream = span->stream;
    region.tag = span->tag;
    region.sleep_tag = span->sleep_tag;
    region.contents_dropped = span->contents_dropped;
    region.scope = span->scope;
    region.stack = span->stack;
    set_graph_pool(walk->heap, mend_graph_pool_number_of(walk->heap, span), &region);
    const mend_chunk *chunk = span->chunk;
    for (; chunk != NULL && chunk->address < mend_span_end(span); chunk = mend_chunk_next(chunk)) {
        meet_chunk(&region, chunk);
    }
    end_open(walk);
    put(walk, &region);
}

/* A span of free memory, chunk by chunk: only some of its chunks may be pinned. It continues the
 * memory that is open if it is like that. */
static void walk_free(region_walk *walk, const mend_span *span)
{
    mend_region region = region_at(walk, span);
    mend_region *open = &walk->open;
    region.kind = MEND_REGION_FREE;
    region.stream = MEND_NO_STREAM;
    region.is_pending = mend_span_is_pending(span);
    meet_stamp(walk->heap, span->waits.first, &region);
    for (const mend_wait *at = span->waits.others; at != NULL; at = at->next) {
        meet_stamp(walk->heap, at->stamp, &region);
    }
    const mend_chunk *chunk = span->chunk;
    for (uint64_t at = span->address; at < mend_span_end(span); chunk = mend_chunk_next(chunk)) {
        uint64_t end = mend_min_u64(mend_span_end(span), chunk->address + chunk->size_bytes);
        mend_region part = region;
        part.address = pointer_of(at);
        part.size_bytes = end - at;
        meet_chunk(&part, chunk);
        if (open->size_bytes > 0 && open->kind == part.kind && open->is_pinned == part.is_pinned &&
            open->is_for_graphs == part.is_for_graphs && open->stream == part.stream &&
            open->graph_pool == part.graph_pool && open->is_unmapped == part.is_unmapped &&
            open->is_asleep == part.is_asleep && open->is_pending == part.is_pending) {
            assert((char *)open->address + open->size_bytes == part.address);
            open->size_bytes += part.size_bytes;
        } else {
            end_open(walk);
            *open = part;
        }
        at = end;
    }
}

static void walk_segment(region_walk *walk, const mend_tree_node *end)
{
    const mend_span *span = MEND_CONTAINER_OF(end, mend_span, by_end);
    while (span->previous != NULL) {
        span = span->previous;
    }
    walk->segment = pointer_of(span->address);
    for (; span != NULL; span = span->next) {
        if (span->live) {
            walk_block(walk, span);
        } else {
            walk_free(walk, span);
        }
    }
    end_open(walk);
}

/* The next segment of all zones, by address. NULL: none. */
static const mend_tree_node **lowest(const mend_tree_node *ends[MEND_ZONE_COUNT])
{
    const mend_tree_node **found = NULL;
    for (int zone = 0; zone < MEND_ZONE_COUNT; zone++) {
        if (ends[zone] != NULL &&
            (found == NULL || SEGMENT_OF(ends[zone])->address < SEGMENT_OF(*found)->address)) {
            found = &ends[zone];
        }
    }
    return found;
}

size_t mend_observe_regions(const mend_heap *heap, void *regions, size_t region_bytes,
                            size_t capacity)
{
    assert(mend_mutex_is_held(&heap->grow)); /* nothing is claimed by another thread */
    assert(mend_mutex_is_held(&heap->state));
    assert(regions != NULL || capacity == 0);
    region_walk walk = {
        .heap = heap, .regions = regions, .region_bytes = region_bytes, .capacity = capacity};
    const mend_tree_node *ends[MEND_ZONE_COUNT];
    for (int zone = 0; zone < MEND_ZONE_COUNT; zone++) {
        ends[zone] = mend_tree_first(&heap->zones[zone].segment_ends);
    }
    for (const mend_tree_node **next; (next = lowest(ends)) != NULL;) {
        walk_segment(&walk, *next);
        *next = mend_tree_next(*next);
    }
    return walk.count;
}

mend_result mend_get_regions(mend_pool *pool, mend_region *regions, size_t region_bytes,
                             size_t capacity, size_t *count)
{
    MEND_TRY(
        mend_pool_check_array(pool, regions, region_bytes, capacity, count, "mend_get_regions"));
    mend_heap *heap = &pool->heap;
    mend_heap_lock_to_read(heap);
    mend_usage_settle(heap);
    *count = mend_observe_regions(heap, NULL, region_bytes, 0);
    if (*count <= capacity) {
        mend_observe_regions(heap, regions, region_bytes, capacity);
    }
    mend_heap_unlock_after_read(heap);
    return MEND_OK;
}
