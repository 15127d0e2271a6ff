/* The validation finds what is wrong: each field is broken by itself in a heap that is in order
 * otherwise. */

#include "alloc/heap.h"
#include "check/check.h"
#include "layout/layout.h"
#include "pool/pool.h"
#include "ranges/ranges.h"
#include "tests/support/kit.h"
#include "tests/unit/check/found.h"
#include "tests/unit/pool/pages.h"

enum { LARGE = 300 << 10, SMALL = 4 << 10, BLOCKS = 12 };

/*
 * Large blocks at even places, small ones at odd places. Free are 0, by the legacy stream, and 4
 * and 10, by `stream`, whose work has not ended. Behind 10 is idle memory, so that the two make one
 * run of two spans. `idle` has freed nothing. A chunk is empty.
 */
typedef struct rig {
    mend_world w;
    mend_heap *heap;
    void *blocks[BLOCKS];
} rig;

static bool open_rig(rig *r)
{
    if (!kit_open_default(&r->w)) {
        return false;
    }
    mend_pool *pool = r->w.pool;
    mend_test_close_cache(pool); /* free memory is in runs */
    void *whole = NULL;
    r->heap = &pool->heap;
    for (int i = 0; i < BLOCKS; i++) {
        mend_stream stream = i < 4 ? NULL : i == 5 ? r->w.streams[1] : r->w.streams[0];
        EXPECT_OK(mend_alloc(pool, i % 2 ? SMALL : LARGE, stream, &r->blocks[i]));
    }
    EXPECT_OK(mend_alloc(pool, 3 << 20, NULL, &whole));
    EXPECT_OK(mend_free(pool, whole, NULL));
    kit_launch(&r->w, r->w.streams[0], MEND_SIM_WORK_WRITE, r->blocks[10], LARGE, 0,
               UINT64_C(1) << 40);
    EXPECT_OK(mend_free(pool, r->blocks[0], NULL));
    EXPECT_OK(mend_free(pool, r->blocks[4], r->w.streams[0]));
    EXPECT_OK(mend_free(pool, r->blocks[10], r->w.streams[0]));
    return mend_world_check(&r->w);
}

static mend_span *span_of(const rig *r, int block)
{
    return mend_heap_span_at(r->heap, (uint64_t)(uintptr_t)r->blocks[block]);
}

/* The same where the front cache works, with six blocks, of which 0 and 4 are free and cached. */
static bool open_cached(rig *r)
{
    if (!kit_open_default(&r->w)) {
        return false;
    }
    r->heap = &r->w.pool->heap;
    for (int i = 0; i < 6; i++) {
        r->blocks[i] = kit_alloc(&r->w, i % 2 ? SMALL : LARGE, i < 4 ? NULL : r->w.streams[0]);
    }
    kit_free(&r->w, r->blocks[0], NULL);
    kit_free(&r->w, r->blocks[4], r->w.streams[0]);
    return mend_world_check(&r->w);
}

#define RIG_TEST(suite, name)    KIT_RIG_TEST(suite, name, rig, open_rig(r), kit_close(&r->w))
#define CACHED_TEST(suite, name) KIT_RIG_TEST(suite, name, rig, open_cached(r), kit_close(&r->w))

RIG_TEST(observe_validate_fields, of_spans)
{
    mend_heap *heap = r->heap;
    mend_span *live = span_of(r, 2);
    mend_span *end = live;
    while (end->next != NULL) {
        end = end->next;
    }
    EXPECT_FOUND(live->size_bytes, live->size_bytes + 512, "touch its neighbour");
    EXPECT_FOUND(live->requested_bytes, live->size_bytes + 1, "asked to be larger");
    EXPECT_FOUND(live->address, live->address + 1, "wrong zone, size or address");
    mend_pointer_map_remove(&heap->blocks, live->address);
    expect_finding(heap, "live and the pointer map disagree");
    mend_pointer_map_insert(&heap->blocks, live->address, live);
    EXPECT_FOUND(live->zone, MEND_ZONE_SMALL, "wrong zone, size or address");
    EXPECT_FOUND(live->size_bytes, 0, "wrong zone, size or address");
    EXPECT_FOUND(end->next, live, "is no segment's end");
    /* The walk from the end skips a free span, whose neighbor still leads to it. */
    mend_span *skipped = span_of(r, 4);
    mend_span *behind = skipped->next;
    mend_span *before = skipped->previous;
    ASSERT_TRUE(behind != NULL && behind->live && before != NULL && before->live);
    behind->previous = before;
    EXPECT_FOUND(skipped->previous, NULL, "touch its neighbour");
    behind->previous = skipped;
}

static mend_run *run_of_several_spans(const rig *r)
{
    for (mend_tree_node *at = mend_tree_first(&r->heap->zones[MEND_ZONE_LARGE].runs_by_address);
         at != NULL; at = mend_tree_next(at)) {
        mend_run *run = MEND_CONTAINER_OF(at, mend_run, by_address);
        if (run->first != run->last) {
            return run;
        }
    }
    return NULL;
}

RIG_TEST(observe_validate_fields, of_runs)
{
    mend_heap *heap = r->heap;
    mend_run *lone = span_of(r, 0)->run;
    mend_run *joined = run_of_several_spans(r);
    ASSERT_TRUE(joined != NULL);
    EXPECT_FOUND(lone->last, span_of(r, 2), "form no run");
    EXPECT_FOUND(lone->chunk, NULL, "another chunk is its first");
    EXPECT_FOUND(lone->extensible, !lone->extensible, "extensible is wrong");
    EXPECT_FOUND(lone->first->run, NULL, "form no run");
    EXPECT_FOUND(joined->last->run, lone, "form no run");
    EXPECT_FOUND(lone->first, span_of(r, 2), "form no run");
    EXPECT_FOUND(lone->address, lone->address + 512, "form no run");
    mend_zone *zone = &heap->zones[MEND_ZONE_LARGE];
    EXPECT_FOUND(zone->free_bytes, zone->free_bytes + 512, "are counted");
    mend_run *largest = mend_sizes_last(&zone->runs_by_size);
    EXPECT_FOUND(largest->size_bytes, largest->size_bytes + 512, "form no run");

    mend_tree_remove(&zone->runs_by_address, &lone->by_address);
    expect_finding(heap, "not in its indices");
    mend_tree_insert(&zone->runs_by_address, &lone->by_address);
    mend_sizes_remove(&zone->runs_by_size, lone);
    expect_finding(heap, "not in its indices");
    mend_sizes_insert(&zone->runs_by_size, lone);
    mend_tree_insert(&zone->runs_by_growth, &lone->by_growth);
    expect_finding(heap, "not in its indices");
    mend_tree_remove(&zone->runs_by_growth, &lone->by_growth);

    mend_run stray = {.address = UINT64_MAX, .size_bytes = UINT64_MAX};
    mend_tree_insert(&zone->runs_by_address, &stray.by_address);
    expect_finding(heap, "runs, its indices");
    mend_tree_remove(&zone->runs_by_address, &stray.by_address);
    mend_sizes_insert(&zone->runs_by_size, &stray);
    expect_finding(heap, "runs, its indices");
    mend_sizes_remove(&zone->runs_by_size, &stray);
}

RIG_TEST(observe_validate_fields, of_trees)
{
    mend_heap *heap = r->heap;
    mend_zone *zone = &heap->zones[MEND_ZONE_LARGE];
    mend_tree *of_zone[] = {&zone->runs_by_address, &zone->runs_by_growth, &zone->segment_ends};
    for (size_t i = 0; i < sizeof(of_zone) / sizeof(of_zone[0]); i++) {
        EXPECT_FOUND(of_zone[i]->count, 1000, "a tree of zone 1 is out of order");
    }
    EXPECT_FOUND(zone->runs_by_size.count, 1000, "a tree of zone 1 is out of order");
    EXPECT_FOUND(zone->runs_by_size.words[0], 1, "a tree of zone 1 is out of order");
    mend_tree *of_chunks[] = {&heap->chunks.mapped, &heap->chunks.empty, &heap->chunks.all};
    for (size_t i = 0; i < sizeof(of_chunks) / sizeof(of_chunks[0]); i++) {
        EXPECT_FOUND(of_chunks[i]->count, 1000, "a tree of chunks is out of order");
    }
    EXPECT_FOUND(heap->chunks.deferred.tree.count, 1000, "a tree of chunks is out of order");
    EXPECT_FOUND(heap->chunks.deferred.count[MEND_DEFERRED_END], 1, "counts of chunks");
    EXPECT_FOUND(heap->chunks.deferred.count[MEND_DEFERRED_RANGE], 1, "deferred work of ranges");
}

RIG_TEST(observe_validate_fields, of_chunks_and_addresses)
{
    mend_heap *heap = r->heap;
    mend_chunks *chunks = &heap->chunks;
    mend_chunk *newly = MEND_CONTAINER_OF(chunks->newly_empty.next, mend_chunk, newly);
    ASSERT_FALSE(mend_list_is_empty(&chunks->newly_empty));
    mend_list_remove(&newly->newly);
    expect_finding(heap, "counts of chunks");
    mend_list_append(&chunks->newly_empty, &newly->newly);
    ASSERT_TRUE(mend_chunk_empty_at_least(chunks, 0, 0) != NULL); /* sorts them */
    mend_tree_node *whole = mend_tree_first(&chunks->empty);
    mend_tree_remove(&chunks->empty, whole);
    expect_finding(heap, "counts of chunks");
    mend_tree_insert(&chunks->empty, whole);

    mend_chunk *chunk = mend_chunk_at(chunks, span_of(r, 2)->address);
    EXPECT_FOUND(chunk->live_bytes, chunk->live_bytes - 512, "bytes are live");
    EXPECT_FOUND(chunk->claim.address, chunk->address, "still claimed");
    EXPECT_FOUND(chunks->reserved_bytes, 0, "reserved_bytes");
    EXPECT_FOUND(chunks->empty_unmapped_bytes, 512, "empty_unmapped_bytes");
    EXPECT_FOUND(chunks->empty_in[MEND_ZONE_LARGE], 512 + chunks->empty_in[MEND_ZONE_LARGE],
                 "empty_in");
    EXPECT_FOUND(chunks->away_live_in[MEND_ZONE_LARGE], 512 + chunks->away_live_in[MEND_ZONE_LARGE],
                 "away_live_in");
    EXPECT_FOUND(chunks->reserved_in[MEND_ZONE_SMALL], 1 + chunks->reserved_in[MEND_ZONE_SMALL],
                 "reserved_in");
    EXPECT_FOUND(chunks->unmapped_bytes, 512, "unmapped_bytes");
    EXPECT_FOUND(chunk->pins, 1, "a chunk has not the pins that cover it");
    EXPECT_FOUND(chunks->pinned_bytes, 512, "counts of chunks");
    EXPECT_FOUND(chunks->frozen_count, 1, "frozen_count");
    chunks->frozen_count = 1;
    EXPECT_FOUND(chunk->is_frozen, true, "a frozen chunk has its memory");
    chunk->is_frozen = true;
    mend_chunk_set_missing(chunks, chunk, MEND_MISSING_ACCESS);
    expect_finding(heap, "may be taken, but its chunk is frozen");
    mend_chunk_set_missing(chunks, chunk, MEND_MISSING_NOTHING);
    chunk->is_frozen = false;
    chunks->frozen_count = 0;

    EXPECT_FOUND(chunks->missing_count, 1, "missing_count");
    EXPECT_FOUND(chunks->unmapped_frozen_bytes, 512, "unmapped_frozen_bytes");
    mend_chunk *first = MEND_CONTAINER_OF(mend_tree_first(&chunks->mapped), mend_chunk, by_address);
    ASSERT_TRUE(first->next != NULL);
    EXPECT_FOUND(first->next, NULL, "a tree of chunks is out of order");

    mend_space *space = &heap->space;
    mend_gap *last = MEND_CONTAINER_OF(mend_tree_last(&space->gaps), mend_gap, by_address);
    uint64_t page = space->page_bytes;
    EXPECT_FOUND(last->size_bytes, last->size_bytes - page, "not exactly one");
    EXPECT_FOUND(last->size_bytes, last->size_bytes + page, "not exactly one");
    EXPECT_FOUND(space->address_bytes, space->address_bytes + page, "counts of addresses");
    EXPECT_FOUND(space->taken_bytes, space->taken_bytes + page, "counts of addresses");
    EXPECT_FOUND(last->reservation->taken_bytes, page, "the taken bytes of the reservation");
    EXPECT_FOUND(heap->retire.bytes, page, "bytes of retired");
    mend_gap gap = {.address = chunk->address, .size_bytes = chunk->size_bytes};
    mend_tree_insert(&space->gaps, &gap.by_address);
    expect_finding(heap, "not exactly one");
    mend_tree_remove(&space->gaps, &gap.by_address);
    mend_retired retired = {.address = chunk->address, .size_bytes = chunk->size_bytes};
    mend_defer(&chunks->deferred, &retired.deferred, MEND_DEFERRED_MAPPING, retired.address);
    expect_finding(heap, "not exactly one");
    retired.address = 512; /* in no reservation */
    retired.waits.first = (mend_stamp){.epoch = 1, .stream = 1000};
    expect_finding(heap, "waits for an epoch that cannot pass");
    mend_defer(&chunks->deferred, &retired.deferred, MEND_DEFERRED_NOTHING, 0);
}

RIG_TEST(observe_validate_fields, of_waits_and_streams)
{
    mend_heap *heap = r->heap;
    mend_streams *streams = &heap->streams;
    mend_span *freed = span_of(r, 4);
    uint64_t freed_epoch = freed->waits.first.epoch;
    mend_stream_state *legacy = &streams->items[span_of(r, 0)->waits.first.stream];
    EXPECT_FOUND(freed->waits.first.epoch, 1000, "waits for an epoch that cannot pass");
    EXPECT_FOUND(legacy->passed_epoch, legacy->open_epoch, "is open and has a fence");
    EXPECT_FOUND(streams->events_held, streams->events_held + 1, "counts of events");
    EXPECT_FOUND(streams->known_count, streams->known_count + 1, "count of known streams");
    EXPECT_FOUND(freed->waits.first.stream, 1000, "waits for an epoch that cannot pass");
    mend_wait user = {.stamp = {.stream = 1000}};
    EXPECT_FOUND(freed->waits.others, &user, "waits for an epoch that cannot pass");
    uint32_t index = mend_streams_lookup(streams, S(0), 0);
    ASSERT_TRUE(index != MEND_STREAM_UNKNOWN);
    mend_stream_state *state = &streams->items[index];
    freed->waits.first.epoch = state->open_epoch;
    EXPECT_FOUND(state->open, false, "waits for an epoch that cannot pass");
    freed->waits.first.epoch = freed_epoch;

    index = mend_streams_lookup(streams, S(1), 0);
    ASSERT_TRUE(index != MEND_STREAM_UNKNOWN);
    state = &streams->items[index];
    freed->waits.others = &user;
    user.stamp.stream = index;
    EXPECT_FOUND(state->known, false,
                 "waits for an epoch that cannot pass"); /* whatever declared it */
    freed->waits.others = NULL;
    EXPECT_FOUND(state->awaited[0].epoch, 1, "the context's event 0 covers epoch");
    mend_fence *own = state->fences;
    mend_fence passed = {.epoch = 0};
    state->fences = &passed;
    EXPECT_FOUND(state->fence_count, 1, "is out of order");
    state->fences = own;
}

RIG_TEST(observe_validate_fields, of_users)
{
    mend_heap *heap = r->heap;
    mend_streams *streams = &heap->streams;
    mend_stream_state *one = &streams->items[mend_streams_lookup(streams, S(0), 0)];
    mend_stream_state *other = &streams->items[mend_streams_lookup(streams, S(1), 0)];
    const char *finding = "the counts of users of blocks are wrong";
    /* Of a weight that no other has, so that no count hides the other. */
    EXPECT_FOUND(streams->items[MEND_STREAM_UNKNOWN].users, 1, finding);
    one->users++;
    EXPECT_FOUND(other->users, other->users - 1, finding);
    one->users--;
}

RIG_TEST(observe_validate_fields, of_nodes_graph_pools_and_sums)
{
    mend_graph_pool *graph_pools[2] = {NULL};
    mend_heap *heap = r->heap;
    mend_space *space = &heap->space;
    mend_slab *slabs[] = {&heap->nodes.runs, &heap->retire.nodes, &heap->chunks.slab,
                          &space->gap_slab, &space->reservation_slab};
    for (size_t i = 0; i < sizeof(slabs) / sizeof(slabs[0]); i++) {
        EXPECT_FOUND(slabs[i]->used_count, 1000, "are lost");
    }
    EXPECT_FOUND(heap->nodes.waits.used_count, 1000, "nodes of spans");
    EXPECT_FOUND(heap->nodes.spans.promised_count, 1, "still promised");
    EXPECT_FOUND(heap->nodes.runs.promised_count, 1, "still promised");
    EXPECT_FOUND(heap->nodes.waits.promised_count, 1, "still promised");
    for (int i = 0; i < 2; i++) {
        EXPECT_OK(mend_graph_pool_create(w->pool, &graph_pools[i]));
    }
    EXPECT_FOUND(heap->graph_pools.count, heap->graph_pools.count + 1, "count of graph pools");
    mend_heap_counters *counters = &heap->counters;
    EXPECT_FOUND(counters->live_bytes, counters->live_bytes + 512, "counts of live blocks");
    EXPECT_FOUND(heap->zones[MEND_ZONE_LARGE].counters.requested_bytes, 0, "counts of live blocks");
    EXPECT_FOUND(heap->zones[MEND_ZONE_LARGE].counters.live_blocks, 0, "counts of live blocks");
    const mend_list *last = heap->graph_pools.list.previous;
    EXPECT_FOUND(MEND_CONTAINER_OF(last, mend_graph_pool, link)->is_begun, true, "comes after one");
    EXPECT_FOUND(heap->blocks.count, 1000, "counts of live blocks");

    char finding[MEND_VALIDATE_FINDING_BYTES] = "";
    heap->counters.live_bytes += 512;
    EXPECT_FALSE(mend_observe_validate_sums(heap, finding));
    EXPECT_STR_EQ("live and free do not add up to reserved, asleep and on the host", finding);
    heap->counters.live_bytes -= 512;
    heap->zones[MEND_ZONE_LARGE].counters.live_blocks += 1;
    EXPECT_FALSE(mend_observe_validate_sums(heap, finding));
    EXPECT_STR_EQ("the counts of live blocks are wrong", finding);
    heap->zones[MEND_ZONE_LARGE].counters.live_blocks -= 1;
}

RIG_TEST(observe_validate_fields, of_memory_of_a_graph_pool)
{
    mend_heap *heap = r->heap;
    mend_graph_pool *graph_pool = kit_begin_graph_pool(w, NULL);
    kit_free(w, kit_alloc(w, LARGE, NULL), NULL);
    EXPECT_OK(mend_graph_pool_end(graph_pool));
    uint32_t index = mend_streams_lookup(&heap->streams, NULL, graph_pool->number);
    ASSERT_TRUE(index != MEND_STREAM_UNKNOWN);
    mend_stream_state *state = &heap->streams.items[index];
    state->open_epoch += 2;
    EXPECT_FOUND(state->passed_epoch, state->passed_epoch + 1,
                 "memory of a graph pool became idle");
    state->open_epoch -= 2;
}

/* ---- cached spans and claims -------------------------------------------------------------------
 */

CACHED_TEST(observe_validate, finds_a_front_cache_out_of_order)
{
    mend_heap *heap = r->heap;
    mend_span *cached = span_of(r, 0);
    mend_cache *cache = &heap->zones[MEND_ZONE_LARGE].cache;
    ASSERT_TRUE(cached->cached && cache->count == 2);
    mend_span *neighbour = cached->next;
    mend_wait user = {.stamp = {.stream = cached->waits.first.stream}};
    uint32_t stream = cached->waits.first.stream;
    const char *words = "should not be cached";
    EXPECT_FOUND(cached->waits.others, &user, words);
    cached->waits.first.stream = MEND_STREAM_UNKNOWN;
    EXPECT_FOUND(heap->streams.items[MEND_STREAM_UNKNOWN].open, true, words);
    cached->waits.first.stream = stream;
    EXPECT_FOUND(cached->cache_index, 1 - cached->cache_index, words);
    EXPECT_FOUND(cached->cache_index, (uint8_t)cache->count, words);
    EXPECT_FOUND(cached->waits.first.stream, 1000, words);
    EXPECT_FOUND(heap->streams.items[stream].graph_pool, 7, words);
    cache->count = cache->promised = 3;
    expect_finding(heap, "front cache of zone 1");
    cache->count = cache->promised = 2;
    EXPECT_FOUND(cache->promised, MEND_CACHE_SPANS + 1, "front cache of zone 1");
    EXPECT_FOUND(cache->promised, 1, "front cache of zone 1");
    EXPECT_FOUND(heap->caching.keeps_empty_chunks, !heap->caching.keeps_empty_chunks,
                 "how scarce memory is");
    EXPECT_FOUND(heap->caching.closings, heap->caching.closings + 1, "front cache of zone 1");
    mend_chunk *chunk = neighbour->chunk;
    EXPECT_FOUND(chunk->next, chunk, "tree of chunks is out of order");
    EXPECT_FOUND(neighbour->chunk, NULL, "begins in another chunk");
    mend_slab_end_promise(&heap->nodes.runs, 1);
    expect_finding(heap, "still promised");
    heap->nodes.runs.promised_count++;
}

/* With free memory on its left, in a run itself, or not free. */
CACHED_TEST(observe_validate, finds_a_cached_span_in_the_wrong_place)
{
    mend_heap *heap = r->heap;
    mend_pool *pool = w->pool;
    EXPECT_OK(mend_free(pool, r->blocks[5], S(0)));
    ASSERT_RESULT(MEND_OK, mend_alloc(pool, LARGE + SMALL, S(0), &r->blocks[4]));
    EXPECT_OK(mend_free(pool, r->blocks[4], S(0)));
    mend_span *cached = span_of(r, 4);
    mend_span *left = cached->previous;
    mend_span *right = cached->next;
    ASSERT_TRUE(cached->cached && left != NULL && left->live && right != NULL);
    mend_run *run = right->run;
    ASSERT_TRUE(run != NULL);
    const char *words = "should not be cached";
    EXPECT_FOUND(cached->run, run, words);
    EXPECT_FOUND(cached->live, true, words);
    EXPECT_FOUND(left->live, false, words);
}

/* A block over the edge of a chunk that misses its mapping was freed and claimed as a whole. */
RIG_TEST(observe_validate, finds_claims_that_reach_over_their_chunk)
{
    mend_heap *heap = r->heap;
    void *over;
    mend_pool *pool = w->pool;
    ASSERT_RESULT(MEND_OK, mend_alloc(pool, 2 * MEND_MIB, S(0), &over));
    mend_span *span = mend_heap_span_at(heap, (uint64_t)(uintptr_t)over);
    mend_chunk *chunk = span->chunk;
    ASSERT_TRUE(!mend_span_is_in_one_chunk(span));
    mend_chunk_freeze(&heap->chunks, chunk);
    mend_chunk_set_missing(&heap->chunks, chunk, MEND_MISSING_ACCESS);
    mend_pointer_map_remove(&heap->blocks, span->address);
    EXPECT_FOUND(span->live, false, "is claimed, and crosses the edge of its chunk");
    mend_pointer_map_insert(&heap->blocks, span->address, span);
    mend_chunk_set_missing(&heap->chunks, chunk, MEND_MISSING_NOTHING);
    mend_chunk_thaw(&heap->chunks, chunk);
    EXPECT_OK(mend_free(pool, over, S(0)));
}

/* ---- ranges ---------------------------------------------------------------------------------- */

KIT_TEST(observe_validate_ranges, finds_what_is_wrong_with_a_range)
{
    mend_heap *heap = &w->pool->heap;
    mend_range *range = create(w, 64 * PAGE, PAGE);
    expect_commit(range, 0, 4 * PAGE, S(0));
    void *block = kit_alloc(w, MEND_MIB, S(0));
    expect_decommit(range, PAGE, PAGE, S(0));
    mend_chunk *of_block = mend_chunk_at(&heap->chunks, (uint64_t)(uintptr_t)block);
    mend_chunk *committed = mend_chunk_at(&heap->chunks, range->address);
    mend_chunk *decommitted = mend_chunk_at(&heap->chunks, range->address + PAGE);
    ASSERT_TRUE(of_block != NULL && committed != NULL && decommitted != NULL);

    EXPECT_FOUND(range->committed_bytes, 2 * PAGE, "the committed bytes of the range");
    EXPECT_FOUND(range->is_closed, true, "the committed bytes of the range");
    EXPECT_FOUND(range->sums.mapped_bytes, PAGE, "the mapped bytes of a range");
    EXPECT_FOUND(range->sums.asleep_live_bytes, PAGE, "the mapped bytes of a range");
    EXPECT_FOUND(committed->sums, NULL, "does not fit its page");
    EXPECT_FOUND(range->deferred.kind, MEND_DEFERRED_RANGE, "deferred work of a range");
    EXPECT_FOUND(heap->chunks.away_in[MEND_ZONE_RANGE], PAGE, "away_in");
    EXPECT_FOUND(committed->deferred.kind, MEND_DEFERRED_END, "deferred work of chunks");
    EXPECT_FOUND(range->pages[2], range->pages[3], "pointer map disagree");
    EXPECT_FOUND(range->pages[2], NULL, "pointer map disagree");
    EXPECT_FOUND(range->pages[7], range->pages[3], "page 7 of the range");
    EXPECT_FOUND(range->pages[0]->of_graph_pool, true, "page 0 of the range");
    EXPECT_FOUND(range->size_bytes, 32 * PAGE, "belongs to no range");
    EXPECT_FOUND(range->page_bytes, PAGE / 2, "pointer map disagree");
    EXPECT_FOUND(heap->chunks.deferred.count[MEND_DEFERRED_RANGE], 1, "deferred work of ranges");
    EXPECT_FOUND(heap->range_space.taken_bytes, 1, "the counts of addresses");
    EXPECT_FOUND(of_block->zone, MEND_ZONE_RANGE, "does not fit its page");
    EXPECT_FOUND(committed->live_bytes, PAGE / 2, "does not fit its page");
    EXPECT_FOUND(decommitted->live_bytes, 512, "does not fit its page");
    EXPECT_FOUND(heap->zones[MEND_ZONE_RANGE].counters.live_blocks, 0, "counts of live blocks");
    EXPECT_FOUND(heap->zones[MEND_ZONE_RANGE].counters.live_bytes, 0, "counts of live blocks");

    EXPECT_TRUE(mend_world_check(w));
    kit_free(w, block, S(0));
    EXPECT_OK(mend_range_destroy(range, S(0)));
}
