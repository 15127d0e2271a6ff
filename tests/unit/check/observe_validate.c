/* The validation finds wrong cached spans and claims. */
#include "tests/unit/check/found.h"

#include "layout/layout.h"
#include "pool/pool.h"

enum { LARGE = 300 << 10, SMALL = 4 << 10, BLOCKS = 6 };

/* A pool with blocks of both zones, and free memory of two streams. */
typedef struct rig {
    mend_world w;
    mend_heap *heap;
    void *blocks[BLOCKS];
} rig;

static bool open_rig_with(rig *r, bool has_cache)
{
    mend_world_init(&r->w);
    if (!kit_open(&r->w)) {
        return false;
    }
    if (!has_cache) {
        mend_test_close_cache(r->w.pool);
    }
    r->heap = &r->w.pool->heap;
    for (int i = 0; i < BLOCKS; i++) {
        r->blocks[i] = kit_alloc(&r->w, i % 2 ? SMALL : LARGE, i < 4 ? NULL : r->w.streams[0]);
    }
    kit_free(&r->w, r->blocks[0], NULL);
    kit_free(&r->w, r->blocks[4], r->w.streams[0]);
    return mend_world_check(&r->w);
}

static mend_span *span_of(const rig *r, int block)
{
    return mend_heap_span_at(r->heap, (uint64_t)(uintptr_t)r->blocks[block]);
}

#define RIG_TEST(suite, name, opening) KIT_RIG_TEST(suite, name, rig, opening, kit_close(&r->w))

RIG_TEST(observe_validate, finds_a_front_cache_out_of_order, open_rig_with(r, true))
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
RIG_TEST(observe_validate, finds_a_cached_span_in_the_wrong_place, open_rig_with(r, true))
{
    mend_heap *heap = r->heap;
    void *behind = NULL;
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
    /* In a chunk that misses its mapping, of which the rest is live. */
    uint64_t rest_bytes = run->size_bytes;
    ASSERT_RESULT(MEND_OK, mend_alloc(pool, LARGE + SMALL, S(0), &r->blocks[4]));
    ASSERT_RESULT(MEND_OK, mend_alloc(pool, rest_bytes, S(0), &behind));
    EXPECT_OK(mend_free(pool, r->blocks[4], S(0)));
    cached = span_of(r, 4);
    ASSERT_TRUE(cached->cached && cached->next->live);
    mend_chunk *chunk = cached->chunk;
    chunk->is_frozen = true;
    mend_chunk_set_missing(&heap->chunks, chunk, MEND_MISSING_ACCESS);
    expect_finding(heap, "may be taken, but its chunk is frozen");
    mend_chunk_set_missing(&heap->chunks, chunk, MEND_MISSING_NOTHING);
    chunk->is_frozen = false;
    EXPECT_OK(mend_free(pool, behind, S(0)));
}

/* A block over the edge of a chunk that misses its mapping was freed and claimed as a whole. */
RIG_TEST(observe_validate, finds_claims_that_reach_over_their_chunk, open_rig_with(r, false))
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
