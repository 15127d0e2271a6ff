/* Streams that end without a word, and programs that tell of every stream. */
#include <pthread.h>

#include "tests/support/graph_program.h"

#define MIB MEND_MIB

static const uint64_t block_bytes = 5 * MIB;

static void may_vanish(mend_pool_config *config)
{
    config->streams_may_vanish = 1;
}

static void knows_all(mend_pool_config *config)
{
    config->knows_all_streams = 1;
}

static void knows_all_and_waits_for_none(mend_pool_config *config)
{
    config->knows_all_streams = 1;
    config->allow_stream_waits = -1;
}

/* A device of 8 MiB, so that a block of 5 MiB is in everybody's way. */
static bool open_small(graph_program *p, void (*configure)(mend_pool_config *))
{
    return graph_program_open(p, 8 * MIB, configure);
}

/* Ends a stream of the program, and puts a new one in its place, with the same handle. */
static void vanish(graph_program *p, int number)
{
    mend_stream gone = p->streams[number];
    EXPECT_RESULT(MEND_OK, mend_sim_stream_destroy(p->world.sim, gone));
    EXPECT_RESULT(MEND_OK, mend_sim_stream_create(p->world.sim, &p->streams[number]));
    EXPECT_PTR_EQ(gone, p->streams[number]);
}

static void *use_and_free(graph_program *p, mend_stream stream, mend_stream freed_on)
{
    void *block = graph_program_alloc(p, block_bytes, stream);
    graph_program_use(p, stream, block, block_bytes, 1000);
    graph_program_free(p, block, freed_on);
    return block;
}

/* Gets the memory, and writes it at once. */
static void take_over(graph_program *p, mend_stream stream)
{
    void *block = graph_program_alloc(p, block_bytes, stream);
    graph_program_use(p, stream, block, block_bytes, 10);
}

static void expect_waits(graph_program *p, uint64_t on_device, uint64_t on_host)
{
    EXPECT_U64_EQ(on_device, mend_world_stats(&p->world).stream_waits);
    EXPECT_U64_EQ(on_host, mend_world_stats(&p->world).host_waits);
    EXPECT_U64_EQ(on_host, mend_world_ledger(&p->world).host_syncs);
}

/* The new stream has the old one's handle, and knows nothing of its work. */
MEND_TEST(pool_vanish, memory_of_a_stream_that_ended_waits_for_its_fence)
{
    graph_program p;
    ASSERT_TRUE(open_small(&p, may_vanish));
    use_and_free(&p, p.streams[0], p.streams[0]);
    vanish(&p, 0);
    take_over(&p, p.streams[0]);
    expect_waits(&p, 1, 0);
    graph_program_close(&p);
}

MEND_TEST(pool_vanish, nobody_asks_about_a_stream_that_ended)
{
    graph_program p;
    ASSERT_TRUE(open_small(&p, may_vanish));
    use_and_free(&p, p.streams[0], p.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_sim_stream_destroy(p.world.sim, p.streams[0]));
    EXPECT_RESULT(MEND_OK, mend_trim(p.world.pool, 0, NULL));
    take_over(&p, p.streams[1]);
    expect_waits(&p, 1, 0);
    EXPECT_RESULT(MEND_OK, mend_sim_stream_create(p.world.sim, &p.streams[0]));
    graph_program_close(&p);
}

/* A declared user need only live until the block is freed. */
MEND_TEST(pool_vanish, so_does_memory_that_it_was_declared_to_use)
{
    graph_program p;
    ASSERT_TRUE(open_small(&p, may_vanish));
    void *block = graph_program_alloc(&p, block_bytes, p.streams[1]);
    EXPECT_RESULT(MEND_OK, mend_record_stream(p.world.pool, block, p.streams[0]));
    graph_program_use(&p, p.streams[0], block, block_bytes, 1000);
    graph_program_free(&p, block, p.streams[1]);
    EXPECT_RESULT(MEND_OK, mend_sim_stream_destroy(p.world.sim, p.streams[0]));
    take_over(&p, p.streams[1]);
    expect_waits(&p, 1, 0);
    EXPECT_RESULT(MEND_OK, mend_sim_stream_create(p.world.sim, &p.streams[0]));
    graph_program_close(&p);
}

/* Against the rules, which would have it live until then; the context is waited for. */
MEND_TEST(pool_vanish, a_declared_user_that_ended_before_the_free_is_not_forgotten)
{
    graph_program p;
    ASSERT_TRUE(open_small(&p, may_vanish));
    void *block = graph_program_alloc(&p, block_bytes, p.streams[1]);
    EXPECT_RESULT(MEND_OK, mend_record_stream(p.world.pool, block, p.streams[0]));
    graph_program_use(&p, p.streams[0], block, block_bytes, 1000);
    vanish(&p, 0);
    graph_program_alloc(&p, 512, p.streams[0]); /* the new stream must not stand in for the old */
    mend_world_check(&p.world);
    graph_program_free(&p, block, p.streams[1]);
    take_over(&p, p.streams[1]);
    expect_waits(&p, 0, 1);
    graph_program_close(&p);
}

/* Where no fence could be recorded at the free, the context is waited for. */
MEND_TEST(pool_vanish, a_fence_that_the_driver_refused_is_made_up_for)
{
    graph_program p;
    ASSERT_TRUE(open_small(&p, may_vanish));
    void *block = graph_program_alloc(&p, block_bytes, p.streams[0]);
    graph_program_use(&p, p.streams[0], block, block_bytes, 1000);
    mend_sim_fault fault = MEND_SIM_FAULT_INIT;
    fault.call = "event_record";
    fault.status = 999;
    EXPECT_RESULT(MEND_OK, mend_sim_fail(p.world.sim, &fault));
    graph_program_free(&p, block, p.streams[0]);
    EXPECT_U64_EQ(1, mend_world_stats(&p.world).driver_failures);
    vanish(&p, 0);
    take_over(&p, p.streams[0]);
    expect_waits(&p, 0, 1);
    graph_program_close(&p);
}

/* Freed on a captured stream: no fence can be recorded before the stream is named again. */
static void freed_in_a_capture(bool named_again, bool vanishes)
{
    graph_program p;
    ASSERT_TRUE(open_small(&p, may_vanish));
    void *block = graph_program_alloc(&p, block_bytes, p.streams[0]);
    graph_program_use(&p, p.streams[0], block, block_bytes, 1000);
    graph_program_begin_capture(&p, p.streams[0]);
    graph_program_free(&p, block, p.streams[0]);
    graph_program_expect_none(&p, block_bytes, p.streams[1], "");
    mend_sim_graph_destroy(p.world.sim, graph_program_end_capture(&p, p.streams[0]));
    if (vanishes) {
        vanish(&p, 0);
    }
    if (named_again) {
        graph_program_alloc(&p, 512, p.streams[0]);
        take_over(&p, p.streams[1]);
        expect_waits(&p, vanishes ? 0 : 1, vanishes ? 1 : 0);
    } else {
        /* It may be captured still, and the pool cannot ask. */
        graph_program_expect_none(&p, block_bytes, p.streams[1], "");
        EXPECT_RESULT(MEND_OK, mend_trim(p.world.pool, 0, NULL));
    }
    graph_program_close(&p);
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
    graph_program p;
    ASSERT_TRUE(open_small(&p, may_vanish));
    mend_group *group = graph_program_begin_group(&p, p.streams[0]);
    graph_program_begin_capture(&p, p.streams[0]);
    void *block = use_and_free(&p, p.streams[0], p.streams[0]);
    EXPECT_PTR_EQ(block, use_and_free(&p, p.streams[0], p.streams[0]));
    mend_sim_graph *graph = graph_program_end_capture(&p, p.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_group_end(group));
    vanish(&p, 0);
    graph_program_launch(&p, graph, p.streams[1]);
    graph_program_expect_none(&p, block_bytes, p.streams[0], "");
    EXPECT_RESULT(MEND_OK, mend_group_release(group, p.streams[1]));
    EXPECT_RESULT(MEND_OK, mend_sim_stream_destroy(p.world.sim, p.streams[1]));
    take_over(&p, p.streams[2]);
    expect_waits(&p, 1, 0);
    EXPECT_RESULT(MEND_OK, mend_sim_stream_create(p.world.sim, &p.streams[1]));
    mend_sim_graph_destroy(p.world.sim, graph);
    graph_program_close(&p);
}

/* Handles come and go at random, with work in flight. */
MEND_TEST(pool_vanish, handles_may_mean_another_stream_at_any_time)
{
    enum { STEPS = 1500, SLOTS = 8 };
    graph_program p;
    mend_test_random random;
    void *blocks[SLOTS] = {NULL};
    int owners[SLOTS] = {0};
    mend_test_random_init(&random, mend_test_seed());
    ASSERT_TRUE(open_small(&p, may_vanish));
    for (int step = 0; step < STEPS && !mend_test_has_failed(); step++) {
        int number = (int)mend_test_random_below(&random, PROGRAM_STREAMS);
        int slot = (int)mend_test_random_below(&random, SLOTS);
        mend_stream stream = p.streams[number];
        if (blocks[slot] == NULL) {
            uint64_t size = (1 + mend_test_random_below(&random, 40)) * 64 * MEND_KIB;
            mend_result result = mend_alloc(p.world.pool, size, stream, &blocks[slot]);
            EXPECT_TRUE(result == MEND_OK || result == MEND_ERROR_OUT_OF_MEMORY);
            if (result == MEND_OK) {
                owners[slot] = number;
                graph_program_use(&p, stream, blocks[slot], size,
                                  mend_test_random_below(&random, 500));
            }
        } else if (mend_test_random_below(&random, 3) != 0) {
            /* On the stream that used it, or on another that is made to wait for it. */
            EXPECT_RESULT(MEND_OK,
                          mend_sim_stream_wait(p.world.sim, stream, p.streams[owners[slot]]));
            graph_program_free(&p, blocks[slot], stream);
            blocks[slot] = NULL;
        } else {
            bool is_used = false;
            for (int i = 0; i < SLOTS; i++) {
                is_used = is_used || (blocks[i] != NULL && owners[i] == number);
            }
            if (!is_used) {
                vanish(&p, number);
            }
        }
        mend_sim_advance(p.world.sim, mend_test_random_below(&random, 200));
        mend_world_check(&p.world);
    }
    graph_program_close(&p);
}

/* Work of a stream that the pool does not know; a wait for the context would last so long. */
static uint64_t occupy_a_stranger(graph_program *p)
{
    mend_stream stranger = p->streams[2];
    uint64_t end_ns = mend_sim_now_ns(p->world.sim) + 1000000;
    const mend_sim_work work = {.kind = MEND_SIM_WORK_TOUCH, .finish_ns = end_ns};
    EXPECT_RESULT(MEND_OK, mend_sim_launch(p->world.sim, stranger, &work));
    return end_ns;
}

MEND_TEST(pool_vanish, whoever_tells_of_every_stream_waits_for_those_alone)
{
    for (int waits = 0; waits < 2; waits++) {
        graph_program p;
        ASSERT_TRUE(open_small(&p, waits ? knows_all : knows_all_and_waits_for_none));
        void *block = graph_program_alloc(&p, block_bytes, p.streams[0]);
        graph_program_alloc(&p, 512, p.streams[1]);
        EXPECT_RESULT(MEND_OK, mend_sim_stream_wait(p.world.sim, p.streams[1], p.streams[0]));
        graph_program_use(&p, p.streams[1], block, block_bytes, 1000); /* no record_stream */
        uint64_t end_ns = occupy_a_stranger(&p);
        graph_program_free(&p, block, MEND_NO_STREAM);
        take_over(&p, p.streams[0]);
        expect_waits(&p, waits ? 1 : 0, waits ? 0 : 1);
        EXPECT_TRUE(mend_sim_now_ns(p.world.sim) < end_ns);
        graph_program_close(&p);
    }
}

/* The block was used on it up to its end, and is freed by no stream that came after. */
MEND_TEST(pool_vanish, a_forgotten_stream_is_one_of_every_stream)
{
    graph_program p;
    ASSERT_TRUE(open_small(&p, knows_all));
    void *block = graph_program_alloc(&p, block_bytes, p.streams[0]);
    graph_program_use(&p, p.streams[0], block, block_bytes, 1000);
    EXPECT_RESULT(MEND_OK, mend_forget_stream(p.world.pool, p.streams[0]));
    graph_program_free(&p, block, MEND_NO_STREAM);
    take_over(&p, p.streams[1]);
    expect_waits(&p, 1, 0);
    graph_program_close(&p);
}

MEND_TEST(pool_vanish, others_wait_for_the_whole_context)
{
    graph_program p;
    ASSERT_TRUE(open_small(&p, NULL));
    uint64_t end_ns = occupy_a_stranger(&p);
    use_and_free(&p, p.streams[0], MEND_NO_STREAM);
    take_over(&p, p.streams[0]);
    expect_waits(&p, 0, 1);
    EXPECT_TRUE(mend_sim_now_ns(p.world.sim) >= end_ns);
    graph_program_close(&p);
}

/* Memory of a group stays with it, however it is freed. */
MEND_TEST(pool_vanish, knowing_every_stream_does_not_free_what_graphs_use)
{
    graph_program p;
    ASSERT_TRUE(open_small(&p, knows_all));
    mend_group *group = graph_program_begin_group(&p, p.streams[0]);
    use_and_free(&p, p.streams[0], MEND_NO_STREAM);
    EXPECT_RESULT(MEND_OK, mend_group_end(group));
    graph_program_expect_none(&p, block_bytes, p.streams[1], "");
    EXPECT_RESULT(MEND_OK, mend_group_release(group, MEND_NO_STREAM));
    take_over(&p, p.streams[1]);
    graph_program_close(&p);
}

static void *use_own_stream(void *context)
{
    graph_program *p = context;
    void *block = graph_program_alloc(p, MIB, PROGRAM_PER_THREAD);
    graph_program_use(p, PROGRAM_PER_THREAD, block, MIB, 1000);
    graph_program_free(p, block, PROGRAM_PER_THREAD);
    return NULL;
}

static void *use_own_stream_and_forget_it(void *context)
{
    graph_program *p = context;
    use_own_stream(context);
    EXPECT_RESULT(MEND_OK, mend_forget_stream(p->world.pool, PROGRAM_PER_THREAD));
    return NULL;
}

static void threads_end(void *(*body)(void *), uint64_t on_device, uint64_t on_host)
{
    enum { THREADS = 4 };
    graph_program p;
    pthread_t threads[THREADS];
    ASSERT_TRUE(open_small(&p, NULL));
    for (int i = 0; i < THREADS; i++) {
        ASSERT_INT_EQ(0, pthread_create(&threads[i], NULL, body, &p));
    }
    for (int i = 0; i < THREADS; i++) {
        ASSERT_INT_EQ(0, pthread_join(threads[i], NULL));
    }
    void *all = graph_program_alloc(&p, 8 * MIB, p.streams[0]);
    graph_program_use(&p, p.streams[0], all, 8 * MIB, 10);
    expect_waits(&p, on_device, on_host);
    graph_program_close(&p);
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
    graph_program p;
    ASSERT_TRUE(open_small(&p, knows_all));
    void *block = graph_program_alloc(&p, MIB, p.streams[0]);
    graph_program_use(&p, p.streams[0], block, MIB, 1000);
    vanish(&p, 0);
    EXPECT_RESULT(MEND_OK, mend_forget_stream(p.world.pool, p.streams[0]));
    graph_program_free(&p, block, MEND_NO_STREAM);
    void *other = graph_program_alloc(&p, MIB, p.streams[1]);
    EXPECT_TRUE(other != block);
    graph_program_use(&p, p.streams[1], other, MIB, 10);
    graph_program_close(&p);
}
