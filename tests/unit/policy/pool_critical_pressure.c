/*
 * Under critical pressure empty chunks are not broken without need: a block is made of chunks of
 * the right size, or a chunk is remade for it. What fits is found all the same.
 */
#include "tests/support/kit.h"

#define PAGE (64 * MEND_KIB)

enum { LIMIT_PAGES = 256, BLOCKS = 6 };

/* Of one chunk each: they fill the limit. */
static const uint64_t pages_of[BLOCKS] = {64, 64, 48, 32, 32, 16};
enum { LARGE = 0, MIDDLE = 2, SMALLER = 3, LEAST = 5 };

/* Blocks are allocated for one stream, and requested on another: for that of one's own no fence is
 * recorded. */
typedef struct full_program {
    mend_world w;
    mend_stream owner;
    mend_stream asking;
    void *blocks[BLOCKS];
} full_program;

static void configure(mend_world *w)
{
    w->placement.chunk_bytes = 64 * PAGE;
    w->placement.small_chunk_bytes = PAGE;
    w->pool_config.limit_bytes = LIMIT_PAGES * PAGE;
}

static bool open_filled(full_program *f)
{
    if (!kit_open_with(&f->w, 2 * LIMIT_PAGES * PAGE, configure)) {
        return false;
    }
    f->owner = f->w.streams[1];
    f->asking = f->w.streams[0];
    for (int i = 0; i < BLOCKS; i++) {
        f->blocks[i] = kit_alloc(&f->w, pages_of[i] * PAGE, f->owner);
    }
    EXPECT_U64_EQ(LIMIT_PAGES * PAGE, mend_world_stats(&f->w).reserved_bytes);
    EXPECT_U64_EQ(BLOCKS, mend_world_stats(&f->w).chunks);
    return !mend_test_has_failed();
}

/* A large request sees that all is in use, and from then on the pressure is critical. */
static bool open_critical(full_program *f)
{
    if (!open_filled(f)) {
        return false;
    }
    kit_expect_none(&f->w, PAGE, f->asking, "");
    return !mend_test_has_failed();
}

static void release(full_program *f, int block)
{
    kit_free(&f->w, f->blocks[block], f->owner);
}

static void *request(full_program *f, uint64_t pages)
{
    return kit_alloc(&f->w, pages * PAGE, f->asking);
}

static void expect_empty_pages(full_program *f, uint64_t pages)
{
    EXPECT_U64_EQ(pages * PAGE, mend_world_stats(&f->w).free_empty_bytes);
}

/* 48 pages, where chunks of 64, 32 and 16 are empty: how many pages of them stay so, and how many
 * chunks are moved for that. */
static void request_of_three(full_program *f, uint64_t empty_pages, uint64_t moves)
{
    request(f, 48);
    expect_empty_pages(f, empty_pages);
    EXPECT_U64_EQ(moves, mend_world_stats(&f->w).chunks_moved);
}

static void release_three(full_program *f)
{
    release(f, LARGE);
    release(f, SMALLER);
    release(f, LEAST);
}

/* ---- not broken ---------------------------------------------------------------------------------
 */

MEND_TEST(pool_critical_pressure, a_block_is_made_of_chunks_of_the_right_size)
{
    full_program f;
    ASSERT_TRUE(open_critical(&f));
    release_three(&f);
    request_of_three(&f, 64, 1); /* behind the other */
    EXPECT_U64_EQ(BLOCKS, mend_world_stats(&f.w).chunks_created);
    EXPECT_U64_EQ(0, mend_world_stats(&f.w).chunks_remade);
    kit_close(&f.w);
}

/* The same while the pressure is merely high: a call of the driver costs more than a chunk. */
MEND_TEST(pool_critical_pressure, under_high_pressure_a_chunk_is_broken)
{
    full_program f;
    ASSERT_TRUE(open_filled(&f));
    release_three(&f);
    request_of_three(&f, 48, 0);
    kit_close(&f.w);
}

static void configure_half(mend_world *w)
{
    configure(w);
    w->pool_config.limit_bytes = LIMIT_PAGES / 2 * PAGE;
    w->placement.low_pressure_percent = 100; /* chunks are exact */
}

/* All chunks that are free and all that may be created do not hold it, but for half a page that is
 * free behind a block. */
MEND_TEST(pool_critical_pressure, a_smaller_run_may_need_less)
{
    mend_world w;
    ASSERT_TRUE(kit_open_with(&w, 2 * LIMIT_PAGES * PAGE, configure_half));
    void *whole = kit_alloc(&w, 32 * PAGE, w.streams[0]);
    kit_alloc(&w, 63 * PAGE + PAGE / 2, w.streams[0]);
    kit_free(&w, whole, w.streams[0]);
    EXPECT_U64_EQ(32 * PAGE, mend_world_stats(&w).free_empty_bytes);
    kit_alloc(&w, 64 * PAGE + PAGE / 4, w.streams[0]);
    EXPECT_U64_EQ(1, mend_world_stats(&w).chunks_moved);
    EXPECT_U64_EQ(0, mend_world_stats(&w).placed_by_alias); /* which would serve it otherwise */
    kit_close(&w);
}

MEND_TEST(pool_critical_pressure, a_chunk_is_created_where_there_is_room)
{
    full_program f;
    ASSERT_TRUE(open_critical(&f));
    release(&f, MIDDLE);
    ASSERT_RESULT(MEND_OK, mend_trim(f.w.pool, 0, NULL));
    release(&f, LARGE);
    request(&f, 40);
    expect_empty_pages(&f, 64);
    EXPECT_U64_EQ(BLOCKS + 1, mend_world_stats(&f.w).chunks_created);
    EXPECT_U64_EQ(0, mend_world_stats(&f.w).chunks_remade);
    kit_close(&f.w);
}

/* So much is allocated that a window ends; the next one that makes room sees it. */
static void pass_window(full_program *f)
{
    for (int i = 0; i < 4 * LIMIT_PAGES / 64; i++) {
        kit_free(&f->w, request(f, 64), f->asking);
    }
    kit_expect_none(&f->w, LIMIT_PAGES * PAGE, f->asking, "");
}

/* Two windows later, in which less was in use, the pressure is merely high. */
MEND_TEST(pool_critical_pressure, a_full_moment_is_forgotten)
{
    full_program f;
    ASSERT_TRUE(open_critical(&f));
    release_three(&f);
    pass_window(&f);
    pass_window(&f);
    request_of_three(&f, 48, 0);
    kit_close(&f.w);
}

/* A page beside the block is no reason to call the driver. */
MEND_TEST(pool_critical_pressure, a_chunk_too_large_by_a_page_is_right)
{
    full_program f;
    ASSERT_TRUE(open_critical(&f));
    release(&f, LARGE);
    EXPECT_PTR_EQ(f.blocks[LARGE], request(&f, 63));
    EXPECT_U64_EQ(0, mend_world_stats(&f.w).chunks_remade);
    kit_close(&f.w);
}

/* ---- remade -------------------------------------------------------------------------------------
 */

/* A request for which one chunk is remade, of so many pages less than it had. */
static void expect_remade(full_program *f, uint64_t pages, uint64_t pages_less)
{
    request(f, pages);
    EXPECT_U64_EQ(1, mend_world_stats(&f->w).chunks_remade);
    EXPECT_U64_EQ((LIMIT_PAGES - pages_less) * PAGE, mend_world_stats(&f->w).reserved_bytes);
}

MEND_TEST(pool_critical_pressure, a_chunk_too_large_by_two_pages_is_remade)
{
    full_program f;
    ASSERT_TRUE(open_critical(&f));
    release(&f, LARGE);
    expect_remade(&f, 62, 2);
    kit_close(&f.w);
}

MEND_TEST(pool_critical_pressure, a_chunk_that_is_too_large_is_remade)
{
    full_program f;
    ASSERT_TRUE(open_critical(&f));
    release(&f, LARGE);
    expect_remade(&f, 16, 48);
    mend_stats stats = mend_world_stats(&f.w);
    EXPECT_U64_EQ(1, stats.chunks_released);
    EXPECT_U64_EQ(BLOCKS + 1, stats.chunks_created);
    EXPECT_U64_EQ(0, stats.free_bytes);
    expect_remade(&f, 48, 0); /* what is left of the limit can still be had: none but that one */
    kit_close(&f.w);
}

MEND_TEST(pool_critical_pressure, the_smallest_chunk_that_gives_room_is_remade)
{
    full_program f;
    ASSERT_TRUE(open_critical(&f));
    release(&f, LARGE);
    release(&f, MIDDLE);
    expect_remade(&f, 40, 8);
    expect_empty_pages(&f, 64);
    kit_close(&f.w);
}

/* The chunk of 16 pages is what the block is to be made of: giving that back would gain nothing. */
MEND_TEST(pool_critical_pressure, what_the_block_will_be_made_of_is_not_given_back)
{
    full_program f;
    ASSERT_TRUE(open_critical(&f));
    release(&f, LARGE);
    release(&f, LEAST);
    expect_remade(&f, 24, 64 - 8);
    EXPECT_U64_EQ(0, mend_world_stats(&f.w).free_bytes);
    kit_close(&f.w);
}

/* Memory of the asking stream's own: its fence is recorded for this. */
MEND_TEST(pool_critical_pressure, what_the_stream_freed_itself_is_remade)
{
    full_program f;
    ASSERT_TRUE(open_critical(&f));
    kit_free(&f.w, f.blocks[LARGE], f.asking);
    expect_remade(&f, 16, 48);
    kit_close(&f.w);
}

MEND_TEST(pool_critical_pressure, a_chunk_in_flight_is_broken_behind_a_wait)
{
    full_program f;
    ASSERT_TRUE(open_critical(&f));
    kit_use(&f.w, f.owner, f.blocks[LARGE], PAGE, 1000);
    release(&f, LARGE);
    EXPECT_PTR_EQ(f.blocks[LARGE], request(&f, 16));
    expect_empty_pages(&f, 0);
    EXPECT_U64_EQ(0, mend_world_stats(&f.w).chunks_remade);
    EXPECT_U64_EQ(1, mend_world_stats(&f.w).stream_waits);
    kit_close(&f.w);
}

MEND_TEST(pool_critical_pressure, nothing_is_remade_beside_a_capture)
{
    full_program f;
    ASSERT_TRUE(open_critical(&f));
    mend_stream captured = f.w.streams[2];
    release(&f, LARGE);
    mend_group *group = kit_begin_captured_group(&f.w, captured);
    void *broken = request(&f, 16);
    EXPECT_PTR_EQ(f.blocks[LARGE], broken);
    EXPECT_U64_EQ(0, mend_world_stats(&f.w).chunks_remade);
    mend_sim_graph_destroy(f.w.sim, kit_end_captured_group(&f.w, captured, group));
    EXPECT_RESULT(MEND_OK, mend_group_release(group, captured));
    kit_free(&f.w, broken, f.owner);
    request(&f, 16);
    EXPECT_U64_EQ(1, mend_world_stats(&f.w).chunks_remade);
    kit_close(&f.w);
}

/* ---- refused ------------------------------------------------------------------------------------
 */

typedef struct refusal {
    const char *call;
    int status;
    bool is_remade;
} refusal;

/* Once: the request finds another way. */
static void expect_another_way(const refusal *r)
{
    full_program f;
    ASSERT_TRUE(open_critical(&f));
    release(&f, LARGE);
    kit_fail(&f.w, r->call, 0, 1, r->status);
    EXPECT_TRUE(request(&f, 16) != NULL);
    EXPECT_INT_EQ(r->is_remade, mend_world_stats(&f.w).chunks_remade);
    mend_world_check(&f.w);
    kit_close(&f.w);
}

MEND_TEST(pool_critical_pressure, a_driver_that_refuses_once_is_no_reason_to_fail)
{
    expect_another_way(&(refusal){"unmap", MEND_DRIVER_UNKNOWN, false});
    expect_another_way(&(refusal){"release", MEND_DRIVER_UNKNOWN, false});
    expect_another_way(&(refusal){"create", MEND_DRIVER_OUT_OF_MEMORY, true});
    expect_another_way(&(refusal){"map", MEND_DRIVER_OUT_OF_MEMORY, true});
}

/* For ever: what cannot be given back is broken. What cannot be created is refused, and is there
 * once the driver has memory again. */
static void expect_nothing_lost(const refusal *r, mend_result expected)
{
    full_program f;
    void *pointer = NULL;
    ASSERT_TRUE(open_critical(&f));
    release(&f, LARGE);
    uint64_t live_bytes = mend_world_stats(&f.w).live_bytes;
    kit_fail(&f.w, r->call, 0, UINT64_MAX, r->status);
    EXPECT_RESULT(expected, mend_alloc(f.w.pool, 16 * PAGE, f.asking, &pointer));
    EXPECT_U64_EQ(live_bytes + (expected == MEND_OK ? 16 * PAGE : 0),
                  mend_world_stats(&f.w).live_bytes);
    EXPECT_INT_EQ(r->is_remade, mend_world_stats(&f.w).chunks_remade);
    mend_sim_clear_faults(f.w.sim);
    mend_world_check(&f.w);
    request(&f, expected == MEND_OK ? 48 : 64);
    kit_close(&f.w);
}

MEND_TEST(pool_critical_pressure, a_driver_that_refuses_for_ever_loses_nothing)
{
    expect_nothing_lost(&(refusal){"unmap", MEND_DRIVER_UNKNOWN, false}, MEND_OK);
    expect_nothing_lost(&(refusal){"release", MEND_DRIVER_UNKNOWN, false}, MEND_OK);
    expect_nothing_lost(&(refusal){"create", MEND_DRIVER_OUT_OF_MEMORY, true},
                        MEND_ERROR_OUT_OF_MEMORY);
}

/* ---- what fits is found -------------------------------------------------------------------------
 */

enum { ROUNDS = 300, MANY = 40 };

static uint64_t empty_and_room(full_program *f)
{
    mend_stats stats = mend_world_stats(&f->w);
    return stats.free_empty_bytes + mend_align_down(stats.limit_bytes - stats.reserved_bytes, PAGE);
}

/* Blocks of any size come and go; at any time all that is empty, and what the limit leaves,
 * can be had as one block. */
MEND_TEST(pool_critical_pressure, all_empty_chunks_can_be_had_in_one)
{
    full_program f;
    mend_test_random random;
    void *blocks[MANY] = {NULL};
    mend_test_random_init(&random, mend_test_seed());
    ASSERT_TRUE(open_critical(&f));
    for (int i = 0; i < BLOCKS; i++) {
        release(&f, i);
    }
    for (int i = 0; i < ROUNDS && !mend_test_has_failed(); i++) {
        void **block = &blocks[mend_test_random_below(&random, MANY)];
        uint64_t size = PAGE + 512 * mend_test_random_below(&random, 24 * PAGE / 512);
        mend_stream stream = f.w.streams[mend_test_random_below(&random, 2)];
        if (*block != NULL) {
            kit_free(&f.w, *block, stream);
            *block = NULL;
        } else if (mend_alloc(f.w.pool, size, stream, block) != MEND_OK) {
            EXPECT_TRUE(size > empty_and_room(&f));
        }
        uint64_t all_bytes = empty_and_room(&f);
        if (i % 4 == 0 && all_bytes > 0) {
            void *all = kit_alloc(&f.w, all_bytes, stream);
            kit_free(&f.w, all, stream);
        }
    }
    EXPECT_TRUE(mend_test_has_failed() || mend_world_stats(&f.w).chunks_remade > 0);
    kit_close(&f.w);
}
