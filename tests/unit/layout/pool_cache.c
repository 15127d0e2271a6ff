/* The front cache: what it serves, what it leaves to a search, when it is flushed, and that nothing
 * but time depends on it. */
#include "layout/layout.h"
#include "pool/pool.h"
#include "tests/support/host_memory.h"
#include "tests/support/kit.h"
#include "tests/support/rig.h"

enum { LARGE = 256 << 10, OTHER = 320 << 10, SMALL = 4 << 10 };

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

/* The setting of the world is an expression. */
static bool open_row(rig *r)
{
    bool is_open = kit_open(&r->w);
    r->stream = r->w.streams[0];
    r->other = r->w.streams[1];
    for (int i = 0; is_open && i < ROW; i++) {
        r->row[i] = take(r, LARGE);
    }
    return is_open;
}

static mend_world *prepare(rig *r)
{
    mend_world_init(&r->w);
    r->w.placement.small_request_bytes = 64 << 10;
    return &r->w;
}

static bool open_rig(rig *r)
{
    (void)prepare(r);
    return open_row(r);
}

#define CACHE_TEST(suite, name) RIG_TEST(suite, name, rig, r, open_rig(r), kit_close(&r->w))

static uint64_t cached(const rig *r)
{
    return kit_stats(r->w.pool).cached_blocks;
}

static uint64_t hits(const rig *r)
{
    return kit_stats(r->w.pool).cache_hits;
}

static void expect_cached(rig *r, uint64_t count)
{
    EXPECT_U64_EQ(count, cached(r));
}

/* Frees a block of the row; so many are cached then. */
static void drop(rig *r, int block, uint64_t cached_then)
{
    kit_free(&r->w, r->row[block], r->stream);
    expect_cached(r, cached_then);
}

static void expect_again(rig *r, int block, uint64_t hits_then)
{
    EXPECT_PTR_EQ(r->row[block], take(r, LARGE));
    EXPECT_U64_EQ(hits_then, hits(r));
}

/* Work of the row's stream on one of its blocks, which does not end soon. */
static void use_for_long(rig *r, int block)
{
    kit_launch(&r->w, r->stream, MEND_SIM_WORK_WRITE, r->row[block], LARGE, 0, UINT64_C(1) << 40);
}

CACHE_TEST(pool_cache, gives_a_block_back_as_it_is)
{
    mend_stats before = mend_world_stats(&r->w);
    mend_sim_ledger calls = mend_world_ledger(&r->w);
    drop(r, 1, 1);
    mend_stats between = mend_world_stats(&r->w);
    EXPECT_U64_EQ(LARGE, between.cached_bytes);
    EXPECT_U64_EQ(before.live_bytes - LARGE, between.live_bytes);
    EXPECT_U64_EQ(before.free_bytes + LARGE, between.free_bytes);
    mend_world_check(&r->w);
    EXPECT_PTR_EQ(r->row[1], take(r, LARGE - 100));
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    EXPECT_RESULT(MEND_OK, mend_get_block_info(r->w.pool, r->row[1], &info));
    EXPECT_U64_EQ(LARGE - 100, info.requested_bytes);
    mend_stats after = mend_world_stats(&r->w);
    EXPECT_U64_EQ(0, after.cached_blocks + after.cached_bytes);
    EXPECT_U64_EQ(before.cache_hits + 1, after.cache_hits);
    EXPECT_U64_EQ(before.placed_in_run + 1, after.placed_in_run);
    EXPECT_U64_EQ(before.live_bytes, after.live_bytes);
    EXPECT_U64_EQ(before.requested_bytes - 100, after.requested_bytes);
    EXPECT_U64_EQ(calls.driver_time_ns, mend_world_ledger(&r->w).driver_time_ns);
}

/* The lowest of equal ones; a hole of just the size is better than the start of a run, cached or
 * not. */
CACHE_TEST(pool_cache, leaves_a_better_place_to_the_search)
{
    drop(r, 0, 1);
    drop(r, 2, 2);
    expect_again(r, 0, 1);
    expect_again(r, 2, 2);
    drop(r, 1, 1);
    EXPECT_RESULT(MEND_OK, mend_trim(r->w.pool, UINT64_MAX, NULL)); /* the hole is in a run now */
    expect_cached(r, 0);
    drop(r, 3, 1); /* begins the run behind it */
    expect_again(r, 1, 2);
    expect_again(r, 3, 2);
    drop(r, 3, 1); /* now it is the best */
    expect_again(r, 3, 3);
    drop(r, 3, 1);
    drop(r, 0, 2);
    EXPECT_PTR_EQ(r->row[0], take(r, LARGE));
    EXPECT_PTR_EQ(r->row[3], take(r, LARGE));
}

/* Where free memory lies on its left a search would begin there; one on the right is a part of the
 * run then. */
MEND_TEST(pool_cache, keeps_nothing_that_begins_no_run)
{
    for (int first = 0; first < 2; first++) {
        rig r;
        ASSERT_TRUE(open_rig(&r));
        drop(&r, first, 1);
        drop(&r, 1 - first, first == 0 ? 0 : 1);
        expect_again(&r, 0, first == 0 ? 0 : 1);
        kit_close(&r.w);
    }
}

CACHE_TEST(pool_cache, serves_no_stream_that_a_group_takes)
{
    use_for_long(r, 1);
    mend_group *group = kit_begin_group(&r->w, r->stream);
    drop(r, 1, 1);                            /* no block of the group */
    EXPECT_TRUE(take(r, LARGE) != r->row[1]); /* what the graph uses is its own */
    EXPECT_U64_EQ(0, hits(r));
    EXPECT_RESULT(MEND_OK, mend_group_end(group));
    EXPECT_RESULT(MEND_OK, mend_group_release(group, r->stream));
}

CACHE_TEST(pool_cache, serves_one_size_on_one_stream)
{
    drop(r, 1, 1);
    take(r, LARGE - 512);
    expect_cached(r, 0);               /* the search has all of the zone in runs */
    kit_alloc(&r->w, SMALL, r->other); /* the pool knows the stream now */
    use_for_long(r, 0);
    drop(r, 0, 1);
    EXPECT_TRUE(kit_alloc(&r->w, LARGE, r->other) != r->row[0]); /* which its stream still uses */
    EXPECT_U64_EQ(0, hits(r));
}

CACHE_TEST(pool_cache, leaves_alignment_to_the_search)
{
    void *pointer = NULL;
    drop(r, 1, 1);
    pointer = kit_alloc_aligned(&r->w, LARGE, (uint64_t)LARGE * 2, r->stream);
    EXPECT_U64_EQ(0, (uint64_t)(uintptr_t)pointer % (LARGE * 2));
    EXPECT_U64_EQ(0, hits(r));
    kit_free(&r->w, r->row[0], r->stream);
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT,
                  mend_alloc_aligned(r->w.pool, LARGE, 48, r->stream, &pointer));
    kit_alloc_aligned(&r->w, LARGE, 64, r->stream);
    EXPECT_U64_EQ(1, hits(r)); /* each block is aligned so far */
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

CACHE_TEST(pool_cache, what_waits_for_more_than_its_stream_is_not_kept)
{
    EXPECT_RESULT(MEND_OK, mend_record_stream(r->w.pool, r->row[1], r->other));
    drop(r, 1, 0);
    kit_free(&r->w, r->row[2], MEND_NO_STREAM);
    expect_cached(r, 0);
    mend_group *group = kit_begin_group(&r->w, r->stream);
    void *of_group = take(r, OTHER);
    take(r, LARGE);
    kit_free(&r->w, of_group, r->stream);
    expect_cached(r, 0);
    EXPECT_RESULT(MEND_OK, mend_group_end(group));
    EXPECT_U64_EQ(0, hits(r));
}

/* A block freed on another stream than it was allocated for is that stream's, if the memory waits
 * for nothing else. */
CACHE_TEST(pool_cache, belongs_to_the_stream_of_the_free)
{
    kit_free(&r->w, r->row[1], r->other);
    expect_cached(r, 1);
    EXPECT_PTR_EQ(r->row[1], kit_alloc(&r->w, LARGE, r->other));
    EXPECT_U64_EQ(1, hits(r));
    drop(r, 1, 0); /* and behind that one's work, which `stream` does not know of */
}

CACHE_TEST(pool_cache, is_flushed_by_a_thread_that_makes_room)
{
    mend_group *group = NULL;
    EXPECT_RESULT(MEND_OK, mend_group_create(r->w.pool, &group));
#define EXPECT_FLUSHED(call, cached_then)                                                          \
    drop(r, 1, 1);                                                                                 \
    EXPECT_RESULT(MEND_OK, call);                                                                  \
    expect_cached(r, cached_then);                                                                 \
    mend_world_check(&r->w);                                                                       \
    expect_again(r, 1, 0);
    EXPECT_FLUSHED(mend_trim(r->w.pool, 0, NULL), 0);
    EXPECT_FLUSHED(mend_set_limit(r->w.pool, 0), 0);
    EXPECT_FLUSHED(mend_forget_stream(r->w.pool, r->other), 0);
    EXPECT_FLUSHED(mend_group_release(group, r->stream), 0);
    /* A request that needs more than is mapped, and is kept itself. */
    EXPECT_FLUSHED((kit_free(&r->w, take(r, 4 << 20), r->stream), MEND_OK), 1);
#undef EXPECT_FLUSHED
}

CACHE_TEST(pool_cache, is_not_flushed_by_a_thread_that_only_looks)
{
    take(r, SMALL);
    drop(r, 1, 1);
    EXPECT_RESULT(MEND_OK, mend_audit(r->w.pool));
    EXPECT_RESULT(MEND_OK, mend_reset_peak_stats(r->w.pool));
    take(r, SMALL); /* of the other zone, where there is room */
    expect_cached(r, 1);
}

static void *leave_room(rig *r, uint64_t size_bytes)
{
    void *room = take(r, size_bytes);
    take(r, LARGE);
    kit_free(&r->w, room, r->stream);
    EXPECT_RESULT(MEND_OK, mend_set_limit(r->w.pool, 0)); /* puts all that is cached into runs */
    expect_cached(r, 0);
    return room;
}

CACHE_TEST(pool_cache, gives_way_to_a_search_that_could_use_it)
{
    void *room = leave_room(r, OTHER);
    drop(r, 1, 1);
    EXPECT_PTR_EQ(room, take(r, OTHER));
    expect_cached(r, 1);
    expect_again(r, 1, 1);
    drop(r, 1, 1);
    EXPECT_PTR_EQ(r->row[1], take(r, LARGE / 2));
    expect_cached(r, 0);
    EXPECT_U64_EQ(1, hits(r));
}

/* The run that a cached block will begin counts, not the block: memory behind it is free, too. */
CACHE_TEST(pool_cache, gives_way_with_the_run_behind_it)
{
    leave_room(r, 3 * LARGE);
    drop(r, 2, 1);
    drop(r, 1, 1); /* puts the other one into a run, which it will begin */
    EXPECT_PTR_EQ(r->row[1], take(r, OTHER));
    expect_cached(r, 0);
}

CACHE_TEST(pool_cache, is_part_of_what_an_explanation_finds_usable)
{
    mend_explanation after;
    mend_explanation flushed;
    drop(r, ROW - 1, 1);
    EXPECT_RESULT(MEND_OK, mend_pool_explain(r->w.pool, r->stream, &after));
    expect_cached(r, 1);
    mend_trim(r->w.pool, UINT64_MAX, NULL);
    EXPECT_RESULT(MEND_OK, mend_pool_explain(r->w.pool, r->stream, &flushed));
    EXPECT_U64_EQ(flushed.usable_bytes, after.usable_bytes);
    EXPECT_TRUE(after.usable_bytes >= LARGE);
}

CACHE_TEST(pool_cache, holds_so_many_of_a_zone)
{
    enum { COUNT = MEND_CACHE_SPANS * 2 + 4 };
    void *blocks[COUNT];
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = take(r, SMALL);
    }
    for (int i = 0; i < COUNT - 2; i += 2) {
        kit_free(&r->w, blocks[i], r->stream);
        expect_cached(r, i / 2 < MEND_CACHE_SPANS ? (uint64_t)i / 2 + 1 : 1);
    }
}

MEND_TEST(pool_cache, can_be_off)
{
    for (int vanish = 0; vanish < 2; vanish++) {
        rig r;
        mend_world *w = prepare(&r);
        w->pool_config.front_cache = vanish ? 0 : -1;
        w->pool_config.streams_may_vanish = vanish;
        ASSERT_TRUE(open_row(&r));
        drop(&r, 1, 0);
        expect_again(&r, 1, 0);
        kit_close(&r.w);
    }
}

/* The node of a run is promised to each: where there is none the free goes its long way. */
CACHE_TEST(pool_cache, a_free_without_host_memory_is_a_free)
{
    mend_slab *runs = &r->w.pool->heap.nodes.runs;
    size_t spare = runs->free_count - 2; /* what the long way needs */
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

/* The request says where it belongs, not what it is rounded up to: the bound is not a multiple of a
 * granule. */
RIG_TEST(pool_cache, a_small_request_is_served_in_its_own_zone, rig, r,
         (prepare(r)->placement.small_request_bytes = LARGE - 12, open_row(r)), kit_close(&r->w))
{
    void *small = take(r, LARGE - 12);
    EXPECT_U64_EQ(LARGE, mend_world_stats(&r->w).small_live_bytes);
    drop(r, 1, 1);
    kit_free(&r->w, small, r->stream);
    expect_cached(r, 2);
    EXPECT_PTR_EQ(small, take(r, LARGE - 12));
    EXPECT_U64_EQ(1, hits(r));
}

/* Runs that a search would look at before, and that another stream's work holds: so many are passed
 * over, and no more, for that would take as long as a search. */
MEND_TEST(pool_cache, passes_over_a_few_runs_that_others_hold)
{
    enum { MOST = 9 };
    for (int runs = MOST - 1; runs <= MOST; runs++) {
        rig r;
        void *held[MOST];
        ASSERT_TRUE(open_rig(&r));
        for (int i = 0; i < MOST; i++) {
            held[i] = kit_alloc(&r.w, LARGE, r.other);
            kit_alloc(&r.w, OTHER, r.other);
        }
        void *block = take(&r, LARGE);
        take(&r, OTHER);
        kit_launch(&r.w, r.other, MEND_SIM_WORK_WRITE, held[0], LARGE, 0, UINT64_C(1) << 40);
        for (int i = 0; i < runs; i++) {
            EXPECT_TRUE((char *)held[i] < (char *)block);
            kit_free(&r.w, held[i], r.other);
        }
        EXPECT_RESULT(MEND_OK, mend_set_limit(r.w.pool, 0));
        kit_free(&r.w, block, r.stream);
        expect_cached(&r, 1);
        uint64_t before = hits(&r);
        take(&r, LARGE);
        EXPECT_U64_EQ(before + (runs < MOST), hits(&r));
        kit_close(&r.w);
    }
}
