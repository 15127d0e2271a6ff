/* The audit finds what is wrong: a heap in order is broken in one place after the other. */
#include "observe/audit.h"

#include <string.h>

#include "layout/layout.h"
#include "pool/pool.h"
#include "tests/support/kit.h"
#include "users/group.h"

enum { LARGE = 300 << 10, SMALL = 4 << 10, BLOCKS = 6 };

/* A pool with blocks of both zones, free memory of two streams, and a group. */
typedef struct rig {
    mend_world w;
    mend_heap *heap;
    void *blocks[BLOCKS];
    mend_group *group;
} rig;

static bool open_rig_with(rig *r, int front_cache)
{
    mend_world_init(&r->w);
    r->w.pool_config.front_cache = front_cache;
    if (!kit_open(&r->w)) {
        return false;
    }
    r->heap = &r->w.pool->heap;
    for (int i = 0; i < BLOCKS; i++) {
        r->blocks[i] = kit_alloc(&r->w, i % 2 ? SMALL : LARGE, i < 4 ? NULL : r->w.streams[0]);
    }
    kit_free(&r->w, r->blocks[0], NULL);
    kit_free(&r->w, r->blocks[4], r->w.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_group_create(r->w.pool, &r->group));
    return mend_world_check(&r->w);
}

/* What is free is in runs. */
static bool open_rig(rig *r)
{
    return open_rig_with(r, -1);
}

static void expect_finding_at(int line, const rig *r, const char *words)
{
    char finding[MEND_AUDIT_FINDING_BYTES] = "";
    bool is_right = mend_observe_audit(r->heap, finding);
    if (is_right || strstr(finding, words) == NULL) {
        mend_test_fail(__FILE__, line, "expected \"%s\", the audit says \"%s\"", words, finding);
    }
}
#define expect_finding(r, words) expect_finding_at(__LINE__, r, words)

/* With another value in one place the audit must say these words. */
static void expect_found(const rig *r, uint64_t *place, uint64_t wrong, const char *words)
{
    uint64_t right = *place;
    *place = wrong;
    expect_finding(r, words);
    *place = right;
}

static mend_span *span_of(const rig *r, int block)
{
    return mend_heap_span_at(r->heap, (uint64_t)(uintptr_t)r->blocks[block]);
}

MEND_TEST(observe_audit, finds_spans_and_runs_out_of_order)
{
    rig r;
    ASSERT_TRUE(open_rig(&r));
    mend_span *live = span_of(&r, 2);
    mend_span *free_span = span_of(&r, 0);
    expect_found(&r, &live->size_bytes, live->size_bytes + 512, "touch its neighbour");
    expect_found(&r, &live->address, live->address + 1, "wrong zone, size or address");
    mend_span *last = free_span->run->last;
    free_span->run->last = live;
    expect_finding(&r, "form no run");
    free_span->run->last = last;
    free_span->run->extensible = !free_span->run->extensible;
    expect_finding(&r, "extensible is wrong");
    free_span->run->extensible = !free_span->run->extensible;
    mend_zone *zone = &r.heap->zones[MEND_ZONE_LARGE];
    expect_found(&r, &zone->free_bytes, zone->free_bytes + 512, "are counted");
    mend_pointer_map_remove(&r.heap->blocks, live->address);
    expect_finding(&r, "live and the pointer map disagree");
    mend_pointer_map_insert(&r.heap->blocks, live->address, live);
    kit_close(&r.w);
}

MEND_TEST(observe_audit, finds_chunks_that_count_wrongly)
{
    rig r;
    ASSERT_TRUE(open_rig(&r));
    mend_chunks *chunks = &r.heap->chunks;
    mend_chunk *chunk = mend_chunk_at(chunks, span_of(&r, 2)->address);
    expect_found(&r, &chunk->live_bytes, chunk->live_bytes - 512, "bytes are live");
    expect_found(&r, &chunk->claimed_address, chunk->address, "still claimed");
    expect_found(&r, &chunks->reserved_bytes, 0, "counts of chunks");
    expect_found(&r, &chunks->empty_bytes, chunks->empty_bytes + 512, "counts of chunks");
    expect_found(&r, &chunks->unmapped_bytes, 512, "counts of chunks");
    kit_close(&r.w);
}

MEND_TEST(observe_audit, finds_addresses_of_nobody_or_of_two)
{
    rig r;
    ASSERT_TRUE(open_rig(&r));
    mend_space *space = &r.heap->space;
    mend_gap *gap = MEND_CONTAINER_OF(mend_tree_last(&space->gaps), mend_gap, by_address);
    uint64_t page = space->page_bytes;
    expect_found(&r, &gap->size_bytes, gap->size_bytes - page, "not exactly one");
    expect_found(&r, &gap->size_bytes, gap->size_bytes + page, "not exactly one");
    expect_found(&r, &space->address_bytes, space->address_bytes + page, "counts of addresses");
    expect_found(&r, &space->taken_bytes, space->taken_bytes + page, "counts of addresses");
    expect_found(&r, &gap->reservation->taken_bytes, page, "the taken bytes of the reservation");
    expect_found(&r, &r.heap->retire.bytes, page, "bytes of retired");
    kit_close(&r.w);
}

MEND_TEST(observe_audit, finds_waits_without_end)
{
    rig r;
    ASSERT_TRUE(open_rig(&r));
    mend_span *span = span_of(&r, 0);
    mend_streams *streams = &r.heap->streams;
    expect_found(&r, &span->waits.first.epoch, 1000, "waits for an epoch that cannot pass");
    mend_stream_state *state = &streams->items[span->waits.first.stream];
    expect_found(&r, &state->passed_epoch, state->open_epoch, "is open and has a fence");
    streams->events_held++;
    expect_finding(&r, "counts of events");
    streams->events_held--;
    kit_close(&r.w);
}

MEND_TEST(observe_audit, finds_memory_of_a_group_that_became_idle)
{
    rig r;
    ASSERT_TRUE(open_rig(&r));
    EXPECT_RESULT(MEND_OK, mend_group_begin(r.group, NULL));
    void *block = kit_alloc(&r.w, LARGE, NULL);
    kit_free(&r.w, block, NULL);
    EXPECT_RESULT(MEND_OK, mend_group_end(r.group));
    uint32_t index = mend_streams_lookup(&r.heap->streams, NULL, r.group->number);
    ASSERT_TRUE(index != MEND_STREAM_UNKNOWN);
    mend_stream_state *state = &r.heap->streams.items[index];
    state->open_epoch += 2;
    state->passed_epoch += 1;
    expect_finding(&r, "memory of a group became idle");
    state->open_epoch -= 2;
    state->passed_epoch -= 1;
    kit_close(&r.w);
}

MEND_TEST(observe_audit, finds_nodes_that_were_lost_and_sums_that_are_wrong)
{
    rig r;
    ASSERT_TRUE(open_rig(&r));
    mend_heap *heap = r.heap;
    ASSERT_TRUE(mend_slab_reserve(&heap->nodes.waits, 1));
    void *lost = mend_slab_take(&heap->nodes.waits);
    expect_finding(&r, "nodes of spans");
    mend_slab_give(&heap->nodes.waits, lost);
    ASSERT_TRUE(mend_slab_promise(&heap->nodes.runs, 1));
    expect_finding(&r, "still promised");
    mend_slab_end_promise(&heap->nodes.runs, 1);
    mend_heap_counters *counters = &heap->counters;
    expect_found(&r, &counters->live_bytes, counters->live_bytes + 512, "counts of live blocks");
    expect_found(&r, &counters->zone[MEND_ZONE_LARGE].requested_bytes, 0, "counts of live blocks");
    expect_found(&r, &counters->zone[MEND_ZONE_LARGE].frees, 0, "counts of live blocks");
    heap->groups.count++;
    expect_finding(&r, "count of groups");
    heap->groups.count--;
    kit_close(&r.w);
}

MEND_TEST(observe_audit, finds_a_front_cache_out_of_order)
{
    rig r;
    ASSERT_TRUE(open_rig_with(&r, 1));
    mend_heap *heap = r.heap;
    mend_span *cached = span_of(&r, 0);
    mend_cache *cache = &heap->zones[MEND_ZONE_LARGE].cache;
    ASSERT_TRUE(cached->cached && cache->count == 2);
    mend_span *neighbour = cached->next;
    mend_wait user = {.stamp = {.stream = cached->waits.first.stream}};
    uint32_t stream = cached->waits.first.stream;
    const char *words = "should not be cached";
    cached->waits.others = &user;
    expect_finding(&r, words);
    cached->waits.others = NULL;
    cached->waits.first.stream = MEND_STREAM_UNKNOWN;
    heap->streams.items[MEND_STREAM_UNKNOWN].open = true;
    expect_finding(&r, words);
    heap->streams.items[MEND_STREAM_UNKNOWN].open = false;
    cached->waits.first.stream = stream;
    cached->cache_index = 1 - cached->cache_index;
    expect_finding(&r, words);
    cached->cache_index = 1 - cached->cache_index;
    uint16_t cache_index = cached->cache_index;
    cached->cache_index = (uint16_t)cache->count;
    expect_finding(&r, words);
    cached->cache_index = cache_index;
    cached->waits.first.stream = 1000;
    expect_finding(&r, words);
    cached->waits.first.stream = stream;
    heap->streams.items[stream].group = 7;
    expect_finding(&r, words);
    heap->streams.items[stream].group = 0;
    cache->count = cache->promised = 3;
    expect_finding(&r, "front cache of zone 1");
    cache->count = 2;
    cache->promised = MEND_CACHE_SPANS + 1;
    expect_finding(&r, "front cache of zone 1");
    cache->promised = 1;
    expect_finding(&r, "front cache of zone 1");
    cache->promised = 2;
    heap->caching.keeps_empty_chunks = !heap->caching.keeps_empty_chunks;
    expect_finding(&r, "how scarce memory is");
    heap->caching.keeps_empty_chunks = !heap->caching.keeps_empty_chunks;
    heap->caching.closings++;
    expect_finding(&r, "front cache of zone 1");
    heap->caching.closings--;
    mend_chunk *chunk = neighbour->chunk;
    mend_chunk *behind = chunk->next;
    chunk->next = chunk;
    expect_finding(&r, "tree of chunks is out of order");
    chunk->next = behind;
    neighbour->chunk = NULL;
    expect_finding(&r, "begins in another chunk");
    neighbour->chunk = chunk;
    mend_slab_end_promise(&heap->nodes.runs, 1);
    expect_finding(&r, "still promised");
    heap->nodes.runs.promised_count++;
    kit_close(&r.w);
}

/* With free memory on its left, in a run itself, or not free. */
MEND_TEST(observe_audit, finds_a_cached_span_in_the_wrong_place)
{
    rig r;
    void *behind = NULL;
    ASSERT_TRUE(open_rig_with(&r, 1));
    mend_pool *pool = r.w.pool;
    EXPECT_RESULT(MEND_OK, mend_free(pool, r.blocks[5], r.w.streams[0]));
    ASSERT_RESULT(MEND_OK, mend_alloc(pool, LARGE + SMALL, r.w.streams[0], &r.blocks[4]));
    EXPECT_RESULT(MEND_OK, mend_free(pool, r.blocks[4], r.w.streams[0]));
    mend_span *cached = span_of(&r, 4);
    mend_span *left = cached->previous;
    mend_span *right = cached->next;
    ASSERT_TRUE(cached->cached && left != NULL && left->live && right != NULL);
    mend_run *run = right->run;
    ASSERT_TRUE(run != NULL);
    const char *words = "should not be cached";
    cached->run = run;
    expect_finding(&r, words);
    cached->run = NULL;
    cached->live = true;
    expect_finding(&r, words);
    cached->live = false;
    left->live = false;
    expect_finding(&r, words);
    left->live = true;
    /* In a chunk that misses its mapping, of which the rest is live. */
    uint64_t rest_bytes = run->size_bytes;
    ASSERT_RESULT(MEND_OK, mend_alloc(pool, LARGE + SMALL, r.w.streams[0], &r.blocks[4]));
    ASSERT_RESULT(MEND_OK, mend_alloc(pool, rest_bytes, r.w.streams[0], &behind));
    EXPECT_RESULT(MEND_OK, mend_free(pool, r.blocks[4], r.w.streams[0]));
    cached = span_of(&r, 4);
    ASSERT_TRUE(cached->cached && cached->next->live);
    mend_chunk *chunk = cached->chunk;
    chunk->is_frozen = true;
    mend_chunk_set_missing(&r.heap->chunks, chunk, MEND_MISSING_ACCESS);
    expect_finding(&r, "may be taken, but its chunk is frozen");
    mend_chunk_set_missing(&r.heap->chunks, chunk, MEND_MISSING_NOTHING);
    chunk->is_frozen = false;
    EXPECT_RESULT(MEND_OK, mend_free(pool, behind, r.w.streams[0]));
    kit_close(&r.w);
}

/* A block over the edge of a chunk that misses its mapping was freed and claimed as a whole. */
MEND_TEST(observe_audit, finds_claims_that_reach_over_their_chunk)
{
    rig r;
    void *over;
    ASSERT_TRUE(open_rig(&r));
    mend_pool *pool = r.w.pool;
    ASSERT_RESULT(MEND_OK, mend_alloc(pool, 2 * MEND_MIB, r.w.streams[0], &over));
    mend_span *span = mend_heap_span_at(r.heap, (uint64_t)(uintptr_t)over);
    mend_chunk *chunk = span->chunk;
    ASSERT_TRUE(!mend_span_is_in_one_chunk(span));
    mend_chunk_freeze(&r.heap->chunks, chunk);
    mend_chunk_set_missing(&r.heap->chunks, chunk, MEND_MISSING_ACCESS);
    mend_pointer_map_remove(&r.heap->blocks, span->address);
    span->live = false;
    expect_finding(&r, "is claimed, and crosses the edge of its chunk");
    span->live = true;
    mend_pointer_map_insert(&r.heap->blocks, span->address, span);
    mend_chunk_set_missing(&r.heap->chunks, chunk, MEND_MISSING_NOTHING);
    mend_chunk_thaw(&r.heap->chunks, chunk);
    EXPECT_RESULT(MEND_OK, mend_free(pool, over, r.w.streams[0]));
    kit_close(&r.w);
}

/* ---- aliases ------------------------------------------------------------------------------------
 */

/* A pool of two chunks of 1 MiB, with a hole of a quarter at the end of one and at the start of the
 * other, which make one block. */
static mend_chunk *open_aliases(rig *r)
{
    enum { QUARTER = 256 << 10 };
    mend_world_init(&r->w);
    r->w.pool_config.front_cache = -1;
    r->w.pool_config.limit_bytes = 3 * MEND_MIB;
    r->w.placement.chunk_bytes = MEND_MIB;
    if (!kit_open(&r->w)) {
        return NULL;
    }
    r->heap = &r->w.pool->heap;
    kit_free(&r->w, kit_alloc(&r->w, 2 * MEND_MIB, NULL), NULL);
    kit_alloc(&r->w, 3 * QUARTER, NULL);
    void *tail = kit_alloc(&r->w, QUARTER, NULL);
    kit_alloc(&r->w, 4 * QUARTER, NULL);
    kit_free(&r->w, kit_alloc(&r->w, MEND_MIB, NULL), NULL);
    void *head = kit_alloc(&r->w, QUARTER, NULL);
    kit_alloc(&r->w, 3 * QUARTER, NULL);
    kit_free(&r->w, tail, NULL);
    kit_free(&r->w, head, NULL);
    uint64_t block = (uint64_t)(uintptr_t)kit_alloc(&r->w, 2 * QUARTER, NULL);
    mend_chunk *alias = mend_chunk_at(&r->heap->chunks, block);
    bool is_open = mend_world_check(&r->w) && r->heap->chunks.alias_count == 2;
    return is_open ? alias : NULL;
}

MEND_TEST(observe_audit, finds_aliases_of_nothing_or_of_too_much)
{
    rig r;
    mend_chunk *alias = open_aliases(&r);
    ASSERT_TRUE(alias != NULL);
    ASSERT_TRUE(mend_chunk_is_alias(alias));
    mend_chunk *chunk = alias->alias_of;
    mend_span *lent = alias->lent;
    /* A granule is live or free at one address. */
    lent->lent = false;
    expect_finding(&r, "live and the pointer map disagree");
    lent->lent = true;
    alias->lent = lent->previous;
    expect_finding(&r, "is not the part that is lent to it");
    alias->lent = lent;
    expect_found(&r, &alias->mapping_address, alias->mapping_address - 512, "at 0x");
    lent->waits.first = (mend_stamp){.epoch = 1, .stream = MEND_STREAM_UNKNOWN};
    expect_finding(&r, "is lent, and free or waited for");
    lent->waits.first = (mend_stamp){0};
    /* A chunk with an alias is held. */
    chunk->aliases--;
    expect_finding(&r, "the holds of a chunk are wrong");
    chunk->holds--;
    expect_finding(&r, "that is not held for it");
    chunk->aliases++;
    chunk->holds++;
    mend_chunk *other = mend_chunk_next(alias)->alias_of;
    alias->alias_of = other;
    expect_finding(&r, "that is not held for it");
    alias->alias_of = chunk;
    /* Nothing is counted twice. */
    expect_found(&r, &alias->holds, 2, "counted as a chunk of its own");
    expect_found(&r, &alias->pins, 1, "counted as a chunk of its own");
    expect_found(&r, &alias->number, 7, "counted as a chunk of its own");
    expect_found(&r, &r.heap->chunks.lent_bytes, 0, "what is lent");
    expect_found(&r, &r.heap->chunks.reserved_bytes, r.heap->chunks.reserved_bytes + 512,
                 "the counts of chunks");
    kit_close(&r.w);
}
