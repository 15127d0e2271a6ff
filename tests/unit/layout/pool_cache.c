/* The front cache: what it serves, what it leaves to a search, when it is flushed, and that nothing
 * but time depends on it. */
#include "layout/layout.h"
#include "pool/pool.h"
#include "tests/support/host_memory.h"
#include "tests/support/kit.h"

enum { LARGE = 256 << 10, OTHER = 320 << 10, SMALL = 4 << 10 };

/* Blocks of the large zone side by side, so that any but the last lies between live ones. */
enum { ROW = 4 };

typedef struct rig {
    mend_world w; /* the row is used on its first stream */
    void *row[ROW];
} rig;

static bool open_rig_with(rig *r, void (*change)(mend_world *w))
{
    mend_world_init(&r->w);
    r->w.placement.small_request_bytes = 64 << 10;
    if (change != NULL) {
        change(&r->w);
    }
    if (!kit_open(&r->w)) {
        return false;
    }
    for (int i = 0; i < ROW; i++) {
        r->row[i] = kit_alloc(&r->w, LARGE, r->w.streams[0]);
    }
    return !mend_test_has_failed();
}

static bool open_rig(rig *r)
{
    return open_rig_with(r, NULL);
}

static uint64_t cached(const rig *r)
{
    return kit_stats(r->w.pool).cached_blocks;
}

static uint64_t hits(const rig *r)
{
    return kit_stats(r->w.pool).cache_hits;
}

/* Frees a block of the row on its stream. */
static void free_of_row(rig *r, int block)
{
    kit_free(&r->w, r->row[block], r->w.streams[0]);
}

/* Work of the row's stream on one of its blocks, which does not end soon. */
static void use_for_long(rig *r, int block)
{
    kit_launch(&r->w, r->w.streams[0], MEND_SIM_WORK_WRITE, r->row[block], LARGE, 0,
               UINT64_C(1) << 40);
}

/* The next block of the size is that of the row. */
static void expect_again(rig *r, int block)
{
    EXPECT_PTR_EQ(r->row[block], kit_alloc(&r->w, LARGE, r->w.streams[0]));
}

MEND_TEST(pool_cache, gives_a_block_back_as_it_is)
{
    rig r;
    ASSERT_TRUE(open_rig(&r));
    mend_stats before = mend_world_stats(&r.w);
    mend_sim_ledger calls = mend_world_ledger(&r.w);
    free_of_row(&r, 1);
    mend_stats between = mend_world_stats(&r.w);
    EXPECT_U64_EQ(1, between.cached_blocks);
    EXPECT_U64_EQ(LARGE, between.cached_bytes);
    EXPECT_U64_EQ(before.live_bytes - LARGE, between.live_bytes);
    EXPECT_U64_EQ(before.free_bytes + LARGE, between.free_bytes);
    mend_world_check(&r.w);
    EXPECT_PTR_EQ(r.row[1], kit_alloc(&r.w, LARGE - 100, r.w.streams[0]));
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    EXPECT_RESULT(MEND_OK, mend_get_block_info(r.w.pool, r.row[1], &info));
    EXPECT_U64_EQ(LARGE - 100, info.requested_bytes);
    mend_stats after = mend_world_stats(&r.w);
    EXPECT_U64_EQ(0, after.cached_blocks);
    EXPECT_U64_EQ(0, after.cached_bytes);
    EXPECT_U64_EQ(before.cache_hits + 1, after.cache_hits);
    EXPECT_U64_EQ(before.placed_in_run + 1, after.placed_in_run);
    EXPECT_U64_EQ(before.live_bytes, after.live_bytes);
    EXPECT_U64_EQ(before.requested_bytes - 100, after.requested_bytes);
    mend_sim_ledger calls_after = mend_world_ledger(&r.w);
    EXPECT_U64_EQ(calls.driver_time_ns, calls_after.driver_time_ns);
    kit_close(&r.w);
}

MEND_TEST(pool_cache, of_equal_ones_gives_the_lowest)
{
    rig r;
    ASSERT_TRUE(open_rig(&r));
    void *fence = kit_alloc(&r.w, SMALL, r.w.streams[0]); /* the zone of small ones is no matter */
    free_of_row(&r, 0);
    free_of_row(&r, 2);
    EXPECT_U64_EQ(2, cached(&r));
    expect_again(&r, 0);
    expect_again(&r, 2);
    EXPECT_U64_EQ(2, hits(&r));
    kit_free(&r.w, fence, r.w.streams[0]);
    kit_close(&r.w);
}

MEND_TEST(pool_cache, leaves_a_better_place_to_the_search)
{
    rig r;
    ASSERT_TRUE(open_rig(&r));
    /* The last of the row begins the run behind it; a hole of just the size is better. */
    free_of_row(&r, 1);
    EXPECT_RESULT(MEND_OK, mend_trim(r.w.pool, UINT64_MAX, NULL)); /* the hole is in a run now */
    EXPECT_U64_EQ(0, cached(&r));
    free_of_row(&r, 3);
    EXPECT_U64_EQ(1, cached(&r));
    expect_again(&r, 1);
    expect_again(&r, 3);
    EXPECT_U64_EQ(0, hits(&r));
    free_of_row(&r, 3); /* now it is the best */
    expect_again(&r, 3);
    EXPECT_U64_EQ(1, hits(&r));
    /* A cached hole is better too. */
    free_of_row(&r, 3);
    free_of_row(&r, 0);
    expect_again(&r, 0);
    expect_again(&r, 3);
    kit_close(&r.w);
}

MEND_TEST(pool_cache, keeps_nothing_that_begins_no_run)
{
    rig r;
    ASSERT_TRUE(open_rig(&r));
    free_of_row(&r, 0);
    free_of_row(&r, 1); /* free memory lies on its left: a search would begin there */
    EXPECT_U64_EQ(0, cached(&r));
    expect_again(&r, 0);
    EXPECT_U64_EQ(0, hits(&r));
    kit_close(&r.w);
}

MEND_TEST(pool_cache, takes_the_place_of_what_is_cached_on_its_right)
{
    rig r;
    ASSERT_TRUE(open_rig(&r));
    free_of_row(&r, 1);
    free_of_row(&r, 0); /* begins the run that the other one is a part of now */
    EXPECT_U64_EQ(1, cached(&r));
    expect_again(&r, 0);
    EXPECT_U64_EQ(1, hits(&r));
    kit_close(&r.w);
}

MEND_TEST(pool_cache, serves_no_stream_that_a_group_takes)
{
    rig r;
    ASSERT_TRUE(open_rig(&r));
    use_for_long(&r, 1);
    mend_group *group = kit_begin_group(&r.w, r.w.streams[0]);
    free_of_row(&r, 1); /* no block of the group */
    EXPECT_U64_EQ(1, cached(&r));
    EXPECT_TRUE(kit_alloc(&r.w, LARGE, r.w.streams[0]) !=
                r.row[1]); /* what the graph uses is its own */
    EXPECT_U64_EQ(0, hits(&r));
    EXPECT_RESULT(MEND_OK, mend_group_end(group));
    EXPECT_RESULT(MEND_OK, mend_group_release(group, r.w.streams[0]));
    kit_close(&r.w);
}

MEND_TEST(pool_cache, serves_one_size_on_one_stream)
{
    rig r;
    ASSERT_TRUE(open_rig(&r));
    free_of_row(&r, 1);
    kit_alloc(&r.w, LARGE - 512, r.w.streams[0]);
    EXPECT_U64_EQ(0, hits(&r));
    EXPECT_U64_EQ(0, cached(&r));           /* the search has all of the zone in runs */
    kit_alloc(&r.w, SMALL, r.w.streams[1]); /* the pool knows the stream now */
    use_for_long(&r, 0);
    free_of_row(&r, 0);
    EXPECT_U64_EQ(1, cached(&r));
    void *of_other = kit_alloc(&r.w, LARGE, r.w.streams[1]);
    EXPECT_TRUE(of_other != r.row[0]); /* which the stream still uses */
    EXPECT_U64_EQ(0, hits(&r));
    kit_close(&r.w);
}

MEND_TEST(pool_cache, leaves_alignment_to_the_search)
{
    rig r;
    void *pointer = NULL;
    ASSERT_TRUE(open_rig(&r));
    free_of_row(&r, 1);
    pointer = kit_alloc_aligned(&r.w, LARGE, (uint64_t)LARGE * 2, r.w.streams[0]);
    EXPECT_U64_EQ(0, (uint64_t)(uintptr_t)pointer % (LARGE * 2));
    EXPECT_U64_EQ(0, hits(&r));
    free_of_row(&r, 0);
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT,
                  mend_alloc_aligned(r.w.pool, LARGE, 48, r.w.streams[0], &pointer));
    pointer = kit_alloc_aligned(&r.w, LARGE, 64, r.w.streams[0]);
    EXPECT_U64_EQ(1, hits(&r)); /* each block is aligned so far */
    kit_close(&r.w);
}

MEND_TEST(pool_cache, a_cached_block_is_free)
{
    rig r;
    ASSERT_TRUE(open_rig(&r));
    free_of_row(&r, 1);
    char *pointer = r.row[1];
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    EXPECT_RESULT(MEND_ERROR_DOUBLE_FREE, mend_free(r.w.pool, pointer, r.w.streams[0]));
    EXPECT_RESULT(MEND_ERROR_DOUBLE_FREE, mend_free(r.w.pool, pointer + 512, r.w.streams[0]));
    EXPECT_RESULT(MEND_ERROR_DOUBLE_FREE, mend_record_stream(r.w.pool, pointer, r.w.streams[0]));
    EXPECT_RESULT(MEND_ERROR_DOUBLE_FREE, mend_get_block_info(r.w.pool, pointer, &info));
    EXPECT_RESULT(MEND_ERROR_DOUBLE_FREE, mend_get_block_info(r.w.pool, pointer + 1, &info));
    EXPECT_U64_EQ(1, cached(&r));
    kit_close(&r.w);
}

MEND_TEST(pool_cache, what_waits_for_more_than_its_stream_is_not_kept)
{
    rig r;
    ASSERT_TRUE(open_rig(&r));
    EXPECT_RESULT(MEND_OK, mend_record_stream(r.w.pool, r.row[1], r.w.streams[1]));
    free_of_row(&r, 1);
    EXPECT_U64_EQ(0, cached(&r));
    kit_free(&r.w, r.row[2], MEND_NO_STREAM);
    EXPECT_U64_EQ(0, cached(&r));
    mend_group *group = kit_begin_group(&r.w, r.w.streams[0]);
    void *of_group = kit_alloc(&r.w, OTHER, r.w.streams[0]);
    kit_alloc(&r.w, LARGE, r.w.streams[0]);
    kit_free(&r.w, of_group, r.w.streams[0]);
    EXPECT_U64_EQ(0, cached(&r));
    EXPECT_RESULT(MEND_OK, mend_group_end(group));
    EXPECT_U64_EQ(0, hits(&r));
    kit_close(&r.w);
}

/* A block freed on another stream than it was allocated for is that stream's, if the memory waits
 * for nothing else. */
MEND_TEST(pool_cache, belongs_to_the_stream_of_the_free)
{
    rig r;
    ASSERT_TRUE(open_rig(&r));
    kit_free(&r.w, r.row[1], r.w.streams[1]);
    EXPECT_U64_EQ(1, cached(&r));
    EXPECT_PTR_EQ(r.row[1], kit_alloc(&r.w, LARGE, r.w.streams[1]));
    EXPECT_U64_EQ(1, hits(&r));
    free_of_row(&r, 1); /* and behind that one's work, which `stream` does not know of */
    EXPECT_U64_EQ(0, cached(&r));
    kit_close(&r.w);
}

MEND_TEST(pool_cache, is_flushed_by_a_thread_that_makes_room)
{
    rig r;
    mend_group *group = NULL;
    ASSERT_TRUE(open_rig(&r));
    EXPECT_RESULT(MEND_OK, mend_group_create(r.w.pool, &group));
    for (int moment = 0; moment < 5; moment++) {
        free_of_row(&r, 1);
        EXPECT_U64_EQ(1, cached(&r));
        mend_result result = MEND_OK;
        switch (moment) {
        case 0:
            result = mend_trim(r.w.pool, 0, NULL);
            break;
        case 1:
            result = mend_set_limit(r.w.pool, 0);
            break;
        case 2:
            result = mend_forget_stream(r.w.pool, r.w.streams[1]);
            break;
        case 3:
            result = mend_group_release(group, r.w.streams[0]);
            break;
        default: /* a request that needs more than is mapped */
            kit_free(&r.w, kit_alloc(&r.w, 4 << 20, r.w.streams[0]), r.w.streams[0]);
        }
        EXPECT_RESULT(MEND_OK, result);
        mend_stats stats = mend_world_stats(&r.w);
        EXPECT_U64_EQ(moment == 4 ? 1 : 0, stats.cached_blocks); /* the large one is kept */
        mend_world_check(&r.w);
        expect_again(&r, 1);
    }
    EXPECT_U64_EQ(0, hits(&r));
    kit_close(&r.w);
}

/* A run of this size, behind the row. */
static void *leave_room(rig *r, uint64_t size_bytes)
{
    void *room = kit_alloc(&r->w, size_bytes, r->w.streams[0]);
    kit_alloc(&r->w, LARGE, r->w.streams[0]);
    kit_free(&r->w, room, r->w.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_set_limit(r->w.pool, 0)); /* puts all that is cached into runs */
    EXPECT_U64_EQ(0, cached(r));
    return room;
}

/* A search sees all that could serve it in runs; what is too small for it stays cached. */
MEND_TEST(pool_cache, gives_way_to_a_search_that_could_use_it)
{
    rig r;
    ASSERT_TRUE(open_rig(&r));
    void *room = leave_room(&r, OTHER);
    free_of_row(&r, 1);
    EXPECT_PTR_EQ(room, kit_alloc(&r.w, OTHER, r.w.streams[0]));
    EXPECT_U64_EQ(1, cached(&r));
    expect_again(&r, 1);
    EXPECT_U64_EQ(1, hits(&r));
    free_of_row(&r, 1);
    EXPECT_PTR_EQ(r.row[1], kit_alloc(&r.w, LARGE / 2, r.w.streams[0]));
    EXPECT_U64_EQ(0, cached(&r));
    EXPECT_U64_EQ(1, hits(&r));
    mend_world_check(&r.w);
    kit_close(&r.w);
}

/* The run that a cached block will begin counts, not the block: memory behind it is free, too. */
MEND_TEST(pool_cache, gives_way_with_the_run_behind_it)
{
    rig r;
    ASSERT_TRUE(open_rig(&r));
    leave_room(&r, 3 * LARGE);
    free_of_row(&r, 2);
    free_of_row(&r, 1); /* puts the other one into a run, which it will begin */
    EXPECT_U64_EQ(1, cached(&r));
    EXPECT_PTR_EQ(r.row[1], kit_alloc(&r.w, OTHER, r.w.streams[0]));
    EXPECT_U64_EQ(0, cached(&r));
    mend_world_check(&r.w);
    kit_close(&r.w);
}

MEND_TEST(pool_cache, is_not_flushed_by_a_thread_that_only_looks)
{
    rig r;
    ASSERT_TRUE(open_rig(&r));
    kit_alloc(&r.w, SMALL, r.w.streams[0]);
    free_of_row(&r, 1);
    EXPECT_RESULT(MEND_OK, mend_audit(r.w.pool));
    EXPECT_RESULT(MEND_OK, mend_reset_peak_stats(r.w.pool));
    kit_alloc(&r.w, SMALL, r.w.streams[0]); /* of the other zone, where there is room */
    EXPECT_U64_EQ(1, cached(&r));
    kit_close(&r.w);
}

/* What is cached counts with the free memory behind it, and looking at it leaves it there. */
MEND_TEST(pool_cache, is_part_of_what_an_explanation_finds_usable)
{
    rig r;
    mend_explanation after;
    ASSERT_TRUE(open_rig(&r));
    free_of_row(&r, ROW - 1);
    EXPECT_RESULT(MEND_OK, mend_pool_explain(r.w.pool, r.w.streams[0], &after));
    EXPECT_U64_EQ(1, cached(&r));
    mend_trim(r.w.pool, UINT64_MAX, NULL);
    mend_explanation flushed;
    EXPECT_RESULT(MEND_OK, mend_pool_explain(r.w.pool, r.w.streams[0], &flushed));
    EXPECT_U64_EQ(flushed.usable_bytes, after.usable_bytes);
    EXPECT_TRUE(after.usable_bytes >= LARGE);
    kit_close(&r.w);
}

MEND_TEST(pool_cache, holds_so_many_of_a_zone)
{
    enum { COUNT = MEND_CACHE_SPANS * 2 + 4 };
    rig r;
    void *blocks[COUNT];
    ASSERT_TRUE(open_rig(&r));
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = kit_alloc(&r.w, SMALL, r.w.streams[0]);
    }
    for (int i = 0; i < COUNT - 2; i += 2) {
        kit_free(&r.w, blocks[i], r.w.streams[0]);
        EXPECT_U64_EQ(i / 2 < MEND_CACHE_SPANS ? (uint64_t)i / 2 + 1 : 1, cached(&r));
    }
    kit_close(&r.w);
}

static void switch_off(mend_world *w)
{
    w->pool_config.front_cache = -1;
}

static void let_streams_vanish(mend_world *w)
{
    w->pool_config.streams_may_vanish = 1;
}

MEND_TEST(pool_cache, can_be_switched_off)
{
    rig r;
    ASSERT_TRUE(open_rig_with(&r, switch_off));
    free_of_row(&r, 1);
    EXPECT_U64_EQ(0, cached(&r));
    expect_again(&r, 1);
    EXPECT_U64_EQ(0, hits(&r));
    kit_close(&r.w);
}

MEND_TEST(pool_cache, is_off_where_each_free_is_fenced)
{
    rig r;
    ASSERT_TRUE(open_rig_with(&r, let_streams_vanish));
    free_of_row(&r, 1);
    EXPECT_U64_EQ(0, cached(&r));
    kit_close(&r.w);
}

/* The node of a run is promised to each: where there is none the free goes its long way. */
MEND_TEST(pool_cache, a_free_without_host_memory_is_a_free)
{
    rig r;
    ASSERT_TRUE(open_rig(&r));
    mend_slab *runs = &r.w.pool->heap.nodes.runs;
    size_t spare = runs->free_count - 2; /* what the long way needs */
    ASSERT_TRUE(mend_slab_promise(runs, spare));
    free_of_row(&r, 1); /* one is left */
    mend_slab_end_promise(runs, spare);
    EXPECT_U64_EQ(1, cached(&r));
    spare = runs->free_count - runs->promised_count;
    runs->promised_count += spare;
    mend_test_watch_host_memory(true);
    mend_test_fail_host_memory_after(0, 1000);
    EXPECT_RESULT(MEND_ERROR_OUT_OF_HOST_MEMORY, mend_free(r.w.pool, r.row[3], r.w.streams[0]));
    mend_test_heal_host_memory();
    mend_test_watch_host_memory(false);
    runs->promised_count -= spare;
    EXPECT_U64_EQ(1, cached(&r));
    kit_free(&r.w, r.row[3], r.w.streams[0]); /* it was as before */
    kit_close(&r.w);
}

/* Not a multiple of a granule. */
static void small_just_below_large(mend_world *w)
{
    w->placement.small_request_bytes = LARGE - 12;
}

/* The request says where it belongs, not what it is rounded up to. */
MEND_TEST(pool_cache, a_small_request_is_served_in_its_own_zone)
{
    rig r;
    ASSERT_TRUE(open_rig_with(&r, small_just_below_large));
    void *small = kit_alloc(&r.w, LARGE - 12, r.w.streams[0]);
    EXPECT_U64_EQ(LARGE, mend_world_stats(&r.w).small_live_bytes);
    free_of_row(&r, 1);
    kit_free(&r.w, small, r.w.streams[0]);
    EXPECT_U64_EQ(2, cached(&r));
    EXPECT_PTR_EQ(small, kit_alloc(&r.w, LARGE - 12, r.w.streams[0]));
    EXPECT_U64_EQ(1, hits(&r));
    kit_close(&r.w);
}

/* Runs that a search would look at before, and that another stream's work holds: so many are passed
 * over, and no more, for that would take as long as a search. */
static uint64_t hits_behind(int runs)
{
    enum { MOST = 9 };
    rig r;
    void *held[MOST];
    EXPECT_TRUE(open_rig(&r));
    for (int i = 0; i < MOST; i++) {
        held[i] = kit_alloc(&r.w, LARGE, r.w.streams[1]);
        kit_alloc(&r.w, OTHER, r.w.streams[1]);
    }
    void *block = kit_alloc(&r.w, LARGE, r.w.streams[0]);
    kit_alloc(&r.w, OTHER, r.w.streams[0]);
    kit_launch(&r.w, r.w.streams[1], MEND_SIM_WORK_WRITE, held[0], LARGE, 0, UINT64_C(1) << 40);
    for (int i = 0; i < runs; i++) {
        EXPECT_TRUE((char *)held[i] < (char *)block);
        kit_free(&r.w, held[i], r.w.streams[1]);
    }
    EXPECT_RESULT(MEND_OK, mend_set_limit(r.w.pool, 0));
    EXPECT_U64_EQ(0, cached(&r));
    kit_free(&r.w, block, r.w.streams[0]);
    EXPECT_U64_EQ(1, cached(&r));
    uint64_t before = hits(&r);
    kit_alloc(&r.w, LARGE, r.w.streams[0]);
    uint64_t after = hits(&r);
    kit_close(&r.w);
    return after - before;
}

MEND_TEST(pool_cache, passes_over_a_few_runs_that_others_hold)
{
    EXPECT_U64_EQ(1, hits_behind(8));
    EXPECT_U64_EQ(0, hits_behind(9));
}
