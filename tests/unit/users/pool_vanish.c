/* Streams that end without a word, and programs that tell of every stream. */

#include "tests/support/kit.h"
#include "tests/support/threads.h"

static const uint64_t block_bytes = 5 * MEND_MIB;

static void may_vanish(mend_world *w)
{
    w->pool_config.streams_may_vanish = 1;
}

static void knows_all(mend_world *w)
{
    w->pool_config.knows_all_streams = 1;
}

static void knows_all_and_waits_for_none(mend_world *w)
{
    w->pool_config.knows_all_streams = 1;
    w->pool_config.allow_stream_waits = -1;
}

/* Ends a stream of the program, and puts a new one in its place, with the same handle. */
static void vanish(mend_world *w, int number)
{
    mend_stream gone = w->streams[number];
    EXPECT_RESULT(MEND_OK, mend_sim_stream_destroy(w->sim, gone));
    EXPECT_RESULT(MEND_OK, mend_sim_stream_create(w->sim, &w->streams[number]));
    EXPECT_PTR_EQ(gone, w->streams[number]);
}

/* Gets the memory, and writes it at once. */
static void take_over(mend_world *w, mend_stream stream)
{
    kit_alloc_used(w, block_bytes, stream, 10);
}

static void expect_waits(mend_world *w, uint64_t on_device, uint64_t on_host)
{
    kit_expect_waits(w, on_device, on_host);
    EXPECT_U64_EQ(on_host, mend_world_ledger(w).host_syncs);
}

/* The new stream has the old one's handle, and knows nothing of its work. */
MEND_TEST(pool_vanish, memory_of_a_stream_that_ended_waits_for_its_fence)
{
    mend_world w;
    ASSERT_TRUE(kit_open_with(&w, 8 * MEND_MIB, may_vanish));
    kit_leave_in_flight(&w, block_bytes, w.streams[0], 1000, w.streams[0]);
    vanish(&w, 0);
    take_over(&w, w.streams[0]);
    expect_waits(&w, 1, 0);
    kit_close(&w);
}

MEND_TEST(pool_vanish, nobody_asks_about_a_stream_that_ended)
{
    mend_world w;
    ASSERT_TRUE(kit_open_with(&w, 8 * MEND_MIB, may_vanish));
    kit_leave_in_flight(&w, block_bytes, w.streams[0], 1000, w.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_sim_stream_destroy(w.sim, w.streams[0]));
    EXPECT_RESULT(MEND_OK, mend_trim(w.pool, 0, NULL));
    take_over(&w, w.streams[1]);
    expect_waits(&w, 1, 0);
    EXPECT_RESULT(MEND_OK, mend_sim_stream_create(w.sim, &w.streams[0]));
    kit_close(&w);
}

/* A declared user need only live until the block is freed. */
MEND_TEST(pool_vanish, so_does_memory_that_it_was_declared_to_use)
{
    mend_world w;
    ASSERT_TRUE(kit_open_with(&w, 8 * MEND_MIB, may_vanish));
    void *block = kit_alloc(&w, block_bytes, w.streams[1]);
    EXPECT_RESULT(MEND_OK, mend_record_stream(w.pool, block, w.streams[0]));
    kit_use(&w, w.streams[0], block, block_bytes, 1000);
    kit_free(&w, block, w.streams[1]);
    EXPECT_RESULT(MEND_OK, mend_sim_stream_destroy(w.sim, w.streams[0]));
    take_over(&w, w.streams[1]);
    expect_waits(&w, 1, 0);
    EXPECT_RESULT(MEND_OK, mend_sim_stream_create(w.sim, &w.streams[0]));
    kit_close(&w);
}

/* Against the rules, which would have it live until then; the context is waited for. */
MEND_TEST(pool_vanish, a_declared_user_that_ended_before_the_free_is_not_forgotten)
{
    mend_world w;
    ASSERT_TRUE(kit_open_with(&w, 8 * MEND_MIB, may_vanish));
    void *block = kit_alloc(&w, block_bytes, w.streams[1]);
    EXPECT_RESULT(MEND_OK, mend_record_stream(w.pool, block, w.streams[0]));
    kit_use(&w, w.streams[0], block, block_bytes, 1000);
    vanish(&w, 0);
    kit_alloc(&w, 512, w.streams[0]); /* the new stream must not stand in for the old */
    mend_world_check(&w);
    kit_free(&w, block, w.streams[1]);
    take_over(&w, w.streams[1]);
    expect_waits(&w, 0, 1);
    kit_close(&w);
}

/* Where no fence could be recorded at the free, the context is waited for. */
MEND_TEST(pool_vanish, a_fence_that_the_driver_refused_is_made_up_for)
{
    mend_world w;
    ASSERT_TRUE(kit_open_with(&w, 8 * MEND_MIB, may_vanish));
    void *block = kit_alloc_used(&w, block_bytes, w.streams[0], 1000);
    kit_fail(&w, "event_record", 0, 0, 999);
    kit_free(&w, block, w.streams[0]);
    EXPECT_U64_EQ(1, mend_world_stats(&w).driver_failures);
    vanish(&w, 0);
    take_over(&w, w.streams[0]);
    expect_waits(&w, 0, 1);
    kit_close(&w);
}

/* Freed on a captured stream: no fence can be recorded before the stream is named again. */
static void freed_in_a_capture(bool named_again, bool vanishes)
{
    mend_world w;
    ASSERT_TRUE(kit_open_with(&w, 8 * MEND_MIB, may_vanish));
    void *block = kit_alloc_used(&w, block_bytes, w.streams[0], 1000);
    kit_begin_capture(&w, w.streams[0]);
    kit_free(&w, block, w.streams[0]);
    kit_expect_none(&w, block_bytes, w.streams[1], "");
    mend_sim_graph_destroy(w.sim, kit_end_capture(&w, w.streams[0]));
    if (vanishes) {
        vanish(&w, 0);
    }
    if (named_again) {
        kit_alloc(&w, 512, w.streams[0]);
        take_over(&w, w.streams[1]);
        expect_waits(&w, vanishes ? 0 : 1, vanishes ? 1 : 0);
    } else {
        /* It may be captured still, and the pool cannot ask. */
        kit_expect_none(&w, block_bytes, w.streams[1], "");
        EXPECT_RESULT(MEND_OK, mend_trim(w.pool, 0, NULL));
    }
    kit_close(&w);
}

MEND_TEST(pool_vanish, memory_freed_in_a_capture_comes_back_when_the_stream_is_named_again)
{
    freed_in_a_capture(true, false);
    freed_in_a_capture(true, true);
    freed_in_a_capture(false, false);
    freed_in_a_capture(false, true);
}

MEND_TEST(pool_vanish, a_group_works_where_streams_end_without_a_word)
{
    mend_world w;
    ASSERT_TRUE(kit_open_with(&w, 8 * MEND_MIB, may_vanish));
    mend_group *group = kit_begin_captured_group(&w, w.streams[0]);
    void *block = kit_leave_in_flight(&w, block_bytes, w.streams[0], 1000, w.streams[0]);
    EXPECT_PTR_EQ(block, kit_leave_in_flight(&w, block_bytes, w.streams[0], 1000, w.streams[0]));
    mend_sim_graph *graph = kit_end_captured_group(&w, w.streams[0], group);
    vanish(&w, 0);
    kit_launch_graph(&w, graph, w.streams[1]);
    kit_expect_none(&w, block_bytes, w.streams[0], "");
    EXPECT_RESULT(MEND_OK, mend_group_release(group, w.streams[1]));
    EXPECT_RESULT(MEND_OK, mend_sim_stream_destroy(w.sim, w.streams[1]));
    take_over(&w, w.streams[2]);
    expect_waits(&w, 1, 0);
    EXPECT_RESULT(MEND_OK, mend_sim_stream_create(w.sim, &w.streams[1]));
    mend_sim_graph_destroy(w.sim, graph);
    kit_close(&w);
}

/* Handles come and go at random, with work in flight. */
MEND_TEST(pool_vanish, handles_may_mean_another_stream_at_any_time)
{
    enum { STEPS = 1500, SLOTS = 8 };
    mend_world w;
    mend_test_random random;
    void *blocks[SLOTS] = {NULL};
    int owners[SLOTS] = {0};
    mend_test_random_init(&random, mend_test_seed());
    ASSERT_TRUE(kit_open_with(&w, 8 * MEND_MIB, may_vanish));
    for (int step = 0; step < STEPS && !mend_test_has_failed(); step++) {
        int number = (int)mend_test_random_below(&random, MEND_WORLD_STREAMS);
        int slot = (int)mend_test_random_below(&random, SLOTS);
        mend_stream stream = w.streams[number];
        if (blocks[slot] == NULL) {
            uint64_t size = (1 + mend_test_random_below(&random, 40)) * 64 * MEND_KIB;
            mend_result result = mend_alloc(w.pool, size, stream, &blocks[slot]);
            EXPECT_TRUE(result == MEND_OK || result == MEND_ERROR_OUT_OF_MEMORY);
            if (result == MEND_OK) {
                owners[slot] = number;
                kit_use(&w, stream, blocks[slot], size, mend_test_random_below(&random, 500));
            }
        } else if (mend_test_random_below(&random, 3) != 0) {
            /* On the stream that used it, or on another that is made to wait for it. */
            EXPECT_RESULT(MEND_OK, mend_sim_stream_wait(w.sim, stream, w.streams[owners[slot]]));
            kit_free(&w, blocks[slot], stream);
            blocks[slot] = NULL;
        } else {
            bool is_used = false;
            for (int i = 0; i < SLOTS; i++) {
                is_used = is_used || (blocks[i] != NULL && owners[i] == number);
            }
            if (!is_used) {
                vanish(&w, number);
            }
        }
        mend_sim_advance(w.sim, mend_test_random_below(&random, 200));
        mend_world_check(&w);
    }
    kit_close(&w);
}

/* Work of a stream that the pool does not know; a wait for the context would last so long. */
static uint64_t occupy_a_stranger(mend_world *w)
{
    mend_stream stranger = w->streams[2];
    uint64_t end_ns = mend_sim_now_ns(w->sim) + 1000000;
    const mend_sim_work work = {.kind = MEND_SIM_WORK_TOUCH, .finish_ns = end_ns};
    EXPECT_RESULT(MEND_OK, mend_sim_launch(w->sim, stranger, &work));
    return end_ns;
}

MEND_TEST(pool_vanish, a_program_that_declares_every_stream_waits_for_those_alone)
{
    for (int waits = 0; waits < 2; waits++) {
        mend_world w;
        ASSERT_TRUE(
            kit_open_with(&w, 8 * MEND_MIB, waits ? knows_all : knows_all_and_waits_for_none));
        void *block = kit_alloc(&w, block_bytes, w.streams[0]);
        kit_alloc(&w, 512, w.streams[1]);
        EXPECT_RESULT(MEND_OK, mend_sim_stream_wait(w.sim, w.streams[1], w.streams[0]));
        kit_use(&w, w.streams[1], block, block_bytes, 1000); /* no record_stream */
        uint64_t end_ns = occupy_a_stranger(&w);
        kit_free(&w, block, MEND_NO_STREAM);
        take_over(&w, w.streams[0]);
        expect_waits(&w, waits ? 1 : 0, waits ? 0 : 1);
        EXPECT_TRUE(mend_sim_now_ns(w.sim) < end_ns);
        kit_close(&w);
    }
}

/* The block was used on it up to its end, and is freed by no stream that came after. */
MEND_TEST(pool_vanish, a_forgotten_stream_is_one_of_every_stream)
{
    mend_world w;
    ASSERT_TRUE(kit_open_with(&w, 8 * MEND_MIB, knows_all));
    void *block = kit_alloc_used(&w, block_bytes, w.streams[0], 1000);
    EXPECT_RESULT(MEND_OK, mend_forget_stream(w.pool, w.streams[0]));
    kit_free(&w, block, MEND_NO_STREAM);
    take_over(&w, w.streams[1]);
    expect_waits(&w, 1, 0);
    kit_close(&w);
}

MEND_TEST(pool_vanish, others_wait_for_the_whole_context)
{
    mend_world w;
    ASSERT_TRUE(kit_open_with(&w, 8 * MEND_MIB, NULL));
    uint64_t end_ns = occupy_a_stranger(&w);
    kit_leave_in_flight(&w, block_bytes, w.streams[0], 1000, MEND_NO_STREAM);
    take_over(&w, w.streams[0]);
    expect_waits(&w, 0, 1);
    EXPECT_TRUE(mend_sim_now_ns(w.sim) >= end_ns);
    kit_close(&w);
}

/* Memory of a group stays with it, however it is freed. */
MEND_TEST(pool_vanish, knowing_every_stream_does_not_free_what_graphs_use)
{
    mend_world w;
    ASSERT_TRUE(kit_open_with(&w, 8 * MEND_MIB, knows_all));
    mend_group *group = kit_begin_group(&w, w.streams[0]);
    kit_leave_in_flight(&w, block_bytes, w.streams[0], 1000, MEND_NO_STREAM);
    EXPECT_RESULT(MEND_OK, mend_group_end(group));
    kit_expect_none(&w, block_bytes, w.streams[1], "");
    EXPECT_RESULT(MEND_OK, mend_group_release(group, MEND_NO_STREAM));
    take_over(&w, w.streams[1]);
    kit_close(&w);
}

/* No stream outside the group has used the memory, and none freed it. */
MEND_TEST(pool_vanish, knowing_every_stream_waits_for_the_launches_of_a_released_group)
{
    mend_world w;
    ASSERT_TRUE(kit_open_with(&w, 8 * MEND_MIB, knows_all));
    mend_group *group = kit_begin_group(&w, w.streams[0]);
    void *block = kit_leave_in_flight(&w, block_bytes, w.streams[0], 1000, MEND_NO_STREAM);
    EXPECT_RESULT(MEND_OK, mend_group_end(group));
    kit_use(&w, w.streams[0], block, block_bytes, 1000); /* a launch */
    EXPECT_RESULT(MEND_OK, mend_group_release(group, w.streams[0]));
    take_over(&w, w.streams[1]);
    expect_waits(&w, 1, 0);
    kit_close(&w);
}

static void *use_own_stream(void *context)
{
    mend_world *w = context;
    kit_leave_in_flight(w, MEND_MIB, KIT_PER_THREAD, 1000, KIT_PER_THREAD);
    return NULL;
}

static void *use_own_stream_and_forget_it(void *context)
{
    mend_world *w = context;
    use_own_stream(context);
    EXPECT_RESULT(MEND_OK, mend_forget_stream(w->pool, KIT_PER_THREAD));
    return NULL;
}

static void threads_end(void *(*body)(void *), uint64_t on_device, uint64_t on_host)
{
    enum { THREADS = 4 };
    mend_world w;
    ASSERT_TRUE(kit_open_with(&w, 8 * MEND_MIB, NULL));
    mend_test_run_threads_of(body, &w, 0, THREADS);
    kit_alloc_used(&w, 8 * MEND_MIB, w.streams[0], 10);
    expect_waits(&w, on_device, on_host);
    kit_close(&w);
}

/* Each thread has a per-thread stream of its own, and only it can record an event there. */
MEND_TEST(pool_vanish, per_thread_streams_of_threads_that_ended_wait_for_the_context)
{
    threads_end(use_own_stream, 0, 1);
}

MEND_TEST(pool_vanish, per_thread_streams_that_were_forgotten_do_not)
{
    threads_end(use_own_stream_and_forget_it, 4, 0);
}

/* It was destroyed before it was forgotten, so that no fence could be recorded: what it did waits
 * for the context. */
MEND_TEST(pool_vanish, a_free_waits_for_what_is_open_on_a_forgotten_stream)
{
    mend_world w;
    ASSERT_TRUE(kit_open_with(&w, 8 * MEND_MIB, knows_all));
    void *block = kit_alloc_used(&w, MEND_MIB, w.streams[0], 1000);
    vanish(&w, 0);
    EXPECT_RESULT(MEND_OK, mend_forget_stream(w.pool, w.streams[0]));
    kit_free(&w, block, MEND_NO_STREAM);
    void *other = kit_alloc(&w, MEND_MIB, w.streams[1]);
    EXPECT_TRUE(other != block);
    kit_use(&w, w.streams[1], other, MEND_MIB, 10);
    kit_close(&w);
}
