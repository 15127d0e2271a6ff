/* The cache: the requests that it serves or leaves to a search, its flushes, and that only time
 * depends on it. */
#include "lab/heap/explain.h"
#include "pool/pool.h"
#include "tests/support/host_memory.h"
#include "tests/support/kit.h"

enum { LARGE = 256 << 10, SMALL = 4 << 10 };

/* Blocks of the large zone side by side, so that any but the last lies between live ones. */
enum { ROW = 4 };

typedef struct rig {
    mend_world w;
    mend_stream stream; /* of the row */
    mend_stream other;
    void *row[ROW];
} rig;

static void *take(rig *r, uint64_t size_bytes)
{
    return kit_alloc(&r->w, size_bytes, r->stream);
}

static bool open_rig(rig *r)
{
    bool is_open = kit_open_set(&r->w, r->w.placement.small_request_bytes = 64 << 10);
    r->stream = r->w.streams[0];
    r->other = r->w.streams[1];
    for (int i = 0; is_open && i < ROW; i++) {
        r->row[i] = take(r, LARGE);
    }
    return is_open;
}

#define CACHE_TEST(suite, name) KIT_CASE(suite, name, rig, r, open_rig(r), kit_close(&r->w))

static void expect_cached(rig *r, uint64_t count)
{
    EXPECT_STATS(&r->w, cached_blocks, count);
}

/* Frees a block of the row, so many are cached then. */
static void drop(rig *r, int block, uint64_t cached_then)
{
    kit_free(&r->w, r->row[block], r->stream);
    expect_cached(r, cached_then);
}

CACHE_TEST(pool_cache, serves_one_size_on_one_stream)
{
    drop(r, 1, 1);
    take(r, LARGE - 512);
    expect_cached(r, 0);               /* the search has all of the zone in runs */
    kit_alloc(&r->w, SMALL, r->other); /* the pool knows the stream now */
    kit_launch(&r->w, r->stream, MEND_SIM_WORK_WRITE, r->row[0], LARGE, 0, UINT64_C(1) << 40);
    drop(r, 0, 1);
    EXPECT_TRUE(kit_alloc(&r->w, LARGE, r->other) != r->row[0]); /* which its stream still uses */
    EXPECT_STATS(&r->w, cache_hits, 0);
}

/* As a backward pass frees: the last one first. */
CACHE_TEST(pool_cache, blocks_that_are_freed_in_reverse_are_kept)
{
    drop(r, 2, 1);
    drop(r, 1, 1);
    EXPECT_PTR_EQ(r->row[1], take(r, LARGE));
    EXPECT_STATS(&r->w, cache_hits, 1);
}

CACHE_TEST(pool_cache, a_cached_block_is_free)
{
    char *pointer = r->row[1];
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    drop(r, 1, 1);
    EXPECT_RESULT(MEND_ERROR_DOUBLE_FREE, mend_free(r->w.pool, pointer, r->stream));
    EXPECT_RESULT(MEND_ERROR_DOUBLE_FREE, mend_free(r->w.pool, pointer + 512, r->stream));
    EXPECT_RESULT(MEND_ERROR_DOUBLE_FREE, mend_record_stream(r->w.pool, pointer, r->stream));
    EXPECT_RESULT(MEND_ERROR_DOUBLE_FREE, mend_get_block_info(r->w.pool, pointer, &info));
    EXPECT_RESULT(MEND_ERROR_DOUBLE_FREE, mend_get_block_info(r->w.pool, pointer + 1, &info));
    expect_cached(r, 1);
}

CACHE_TEST(pool_cache, belongs_to_the_stream_of_the_free)
{
    kit_free(&r->w, r->row[1], r->other);
    expect_cached(r, 1);
    EXPECT_PTR_EQ(r->row[1], kit_alloc(&r->w, LARGE, r->other));
    EXPECT_STATS(&r->w, cache_hits, 1);
    drop(r, 1, 0); /* and behind that one's work, which `stream` does not know of */
}

/* The node of a run is promised to each: where there is none the free goes its long way. */
CACHE_TEST(pool_cache, a_free_without_host_memory_is_a_free)
{
    mend_slab *runs = &r->w.pool->heap.nodes.runs;
    size_t spare = runs->free_count - 2; /* the counters of the long way */
    ASSERT_TRUE(mend_slab_promise(runs, spare));
    drop(r, 1, 1); /* one is left */
    mend_slab_end_promise(runs, spare);
    spare = runs->free_count - runs->promised_count;
    runs->promised_count += spare;
    mend_test_watch_host_memory(true);
    mend_test_fail_host_memory_after(0, 1000);
    EXPECT_RESULT(MEND_ERROR_OUT_OF_HOST_MEMORY, mend_free(r->w.pool, r->row[3], r->stream));
    mend_test_heal_host_memory();
    mend_test_watch_host_memory(false);
    runs->promised_count -= spare;
    expect_cached(r, 1);
    kit_free(&r->w, r->row[3], r->stream); /* it was as before */
}

/* Two free blocks, the first of them cached, end where a chunk begins whose compaction the driver
 * did not map again. */
KIT_TEST(pool_cache_compactions, what_misses_its_mapping_is_not_usable_behind_a_cached_block)
{
    enum { OF_CHUNK = 8, BLOCKS = 2 * OF_CHUNK, BLOCK = 128 << 10 };
    void *blocks[BLOCKS]; /* side by side, in two full chunks */
    mend_explanation explanation;
    kit_free(w, kit_alloc(w, BLOCKS * BLOCK, S(0)), S(0));
    kit_alloc_written_row(w, blocks, BLOCKS, BLOCK, S(0));
    kit_free_row(w, &blocks[OF_CHUNK + 2], OF_CHUNK - 2, S(0));
    kit_fail(w, "map", 1, UINT64_MAX, 999);
    EXPECT_ERROR(DRIVER, mend_compact(w->pool, NULL, NULL));
    mend_sim_clear_faults(w->sim);
    mend_world_check(w);
    kit_free(w, blocks[OF_CHUNK], S(0));
    kit_free(w, blocks[OF_CHUNK - 1], S(0));
    EXPECT_STATS(w, cached_blocks, 0);
    kit_free(w, blocks[OF_CHUNK - 2], S(0));
    EXPECT_STATS(w, cached_blocks, 1);
    EXPECT_OK(mend_pool_explain(w->pool, S(0), &explanation));
    EXPECT_U64_EQ(2 * BLOCK, explanation.usable_bytes);
    EXPECT_OK(mend_pool_explain(w->pool, S(1), &explanation));
    EXPECT_U64_EQ(0, explanation.usable_bytes); /* it was freed on another stream */
    EXPECT_OK(mend_compact(w->pool, NULL, NULL));
    kit_release_row(w, blocks, OF_CHUNK - 2, BLOCK, S(0));
    kit_release(w, blocks[OF_CHUNK + 1], BLOCK, S(0));
}
