/* Captures beside the pool: it harms none, and what they hold up comes back when they have ended.
 */
#include <pthread.h>
#include <string.h>

#include "tests/support/graph_program.h"

#define MIB MEND_MIB

/* So little that no fence is recorded at its free: the pool records one when somebody needs it. */
static const uint64_t block_bytes = 3 * MIB;

static bool open_small(graph_program *p)
{
    return graph_program_open(p, 8 * MIB, NULL);
}

/* Frees a block whose work lasts for a while. */
static void leave_in_flight(graph_program *p, mend_stream stream, mend_stream freed_on)
{
    void *block = graph_program_alloc(p, block_bytes, stream);
    graph_program_use(p, stream, block, block_bytes, 1000);
    graph_program_free(p, block, freed_on);
}

/* Nothing is left to wait for on the stream, and nobody has seen it captured. */
static void get_known(graph_program *p, mend_stream stream)
{
    graph_program_alloc(p, 512, stream);
}

/* The capture is whole: its work, one touch of a block, can be launched. */
static void end_whole(graph_program *p, mend_stream stream, void *block)
{
    const mend_sim_work work = {.kind = MEND_SIM_WORK_TOUCH,
                                .address = (uint64_t)(uintptr_t)block,
                                .size_bytes = block != NULL ? 512 : 0};
    if (block != NULL) {
        EXPECT_RESULT(MEND_OK, mend_sim_launch(p->world.sim, stream, &work));
    }
    mend_sim_graph *graph = graph_program_end_capture(p, stream);
    graph_program_launch(p, graph, p->streams[1]);
    mend_sim_graph_destroy(p->world.sim, graph);
}

MEND_TEST(pool_captures, running_out_of_memory_in_one_does_not_spoil_it)
{
    graph_program p;
    ASSERT_TRUE(open_small(&p));
    graph_program_alloc(&p, 5 * MIB, p.streams[1]);
    leave_in_flight(&p, p.streams[0], p.streams[0]);
    mend_group *group = graph_program_begin_group(&p, p.streams[0]);
    graph_program_begin_capture(&p, p.streams[0]);
    graph_program_expect_none(&p, block_bytes, p.streams[0], "Ending the capture");
    graph_program_expect_none(&p, block_bytes, p.streams[1], "Ending the capture");
    graph_program_expect_none(&p, block_bytes, p.streams[2], "Ending the capture");
    graph_program_expect_none(&p, 9 * MIB, p.streams[0], "");
    end_whole(&p, p.streams[0], NULL);
    EXPECT_RESULT(MEND_OK, mend_group_end(group));
    void *block = graph_program_alloc(&p, block_bytes, p.streams[2]);
    graph_program_use(&p, p.streams[2], block, block_bytes, 10);
    EXPECT_U64_EQ(0, mend_world_stats(&p.world).driver_failures);
    graph_program_close(&p);
}

/* All the pool could know the capture by is the group that was begun for it. */
static void a_group_tells(mend_stream (*begun)(const graph_program *))
{
    graph_program p;
    ASSERT_TRUE(open_small(&p));
    graph_program_alloc(&p, 4 * MIB + 768 * MEND_KIB, p.streams[1]); /* and all that is left */
    get_known(&p, p.streams[0]);
    leave_in_flight(&p, p.streams[1], MEND_NO_STREAM);
    mend_group *group = graph_program_begin_group(&p, begun(&p));
    graph_program_begin_capture(&p, p.streams[0]);
    graph_program_expect_none(&p, block_bytes, p.streams[1], "Ending the capture");
    EXPECT_U64_EQ(0, mend_world_ledger(&p.world).host_syncs);
    end_whole(&p, p.streams[0], NULL);
    EXPECT_RESULT(MEND_OK, mend_group_end(group));
    void *block = graph_program_alloc(&p, block_bytes, p.streams[1]);
    graph_program_use(&p, p.streams[1], block, block_bytes, 10);
    EXPECT_U64_EQ(1, mend_world_ledger(&p.world).host_syncs);
    graph_program_close(&p);
}

static mend_stream the_captured(const graph_program *p)
{
    return p->streams[0];
}

static mend_stream every_stream(const graph_program *p)
{
    (void)p;
    return MEND_EVERY_STREAM;
}

MEND_TEST(pool_captures, the_context_is_not_waited_for_while_a_group_is_begun_for_one)
{
    a_group_tells(the_captured);
    a_group_tells(every_stream);
}

/* The legacy stream tells of blocking streams, which the pool need not know. */
MEND_TEST(pool_captures, of_blocking_streams_nobody_knows_are_noticed)
{
    graph_program p;
    mend_stream blocking = NULL;
    ASSERT_TRUE(open_small(&p));
    EXPECT_RESULT(MEND_OK, mend_sim_stream_create_blocking(p.world.sim, &blocking));
    graph_program_alloc(&p, 5 * MIB, p.streams[1]);
    leave_in_flight(&p, p.streams[1], MEND_NO_STREAM);
    graph_program_begin_capture(&p, blocking);
    graph_program_expect_none(&p, block_bytes, p.streams[1], "");
    EXPECT_RESULT(MEND_ERROR_CAPTURING, mend_pool_destroy(p.world.pool));
    end_whole(&p, blocking, NULL);
    EXPECT_TRUE(graph_program_alloc(&p, block_bytes, p.streams[1]) != NULL);
    EXPECT_RESULT(MEND_OK, mend_sim_stream_destroy(p.world.sim, blocking));
    graph_program_close(&p);
}

/* The pool cannot know of it, and unmaps what nothing uses any more: that harms nobody. */
MEND_TEST(pool_captures, unmapping_idle_memory_harms_none)
{
    graph_program p;
    ASSERT_TRUE(open_small(&p));
    void *kept = graph_program_alloc(&p, 512, p.streams[0]);
    leave_in_flight(&p, p.streams[1], p.streams[1]);
    mend_sim_advance(p.world.sim, 10000);
    graph_program_begin_capture(&p, p.streams[0]);
    void *large = NULL;
    EXPECT_RESULT(MEND_OK,
                  mend_alloc_aligned(p.world.pool, 7 * MIB, MEND_GIB, p.streams[1], &large));
    graph_program_free(&p, large, p.streams[1]);
    EXPECT_RESULT(MEND_OK, mend_trim(p.world.pool, 0, NULL));
    mend_sim_advance(p.world.sim, 10000);
    EXPECT_RESULT(MEND_OK, mend_trim(p.world.pool, 0, NULL));
    EXPECT_U64_EQ(0, mend_world_stats(&p.world).retired_bytes);
    end_whole(&p, p.streams[0], kept);
    graph_program_close(&p);
}

MEND_TEST(pool_captures, nothing_mapped_goes_while_one_is_known)
{
    graph_program p;
    ASSERT_TRUE(graph_program_open(&p, 16 * MIB, NULL));
    mend_group *group = graph_program_begin_group(&p, p.streams[0]);
    leave_in_flight(&p, p.streams[1], p.streams[1]);
    void *large = NULL; /* moves chunks, so that retired mappings are there as well */
    EXPECT_RESULT(MEND_OK,
                  mend_alloc_aligned(p.world.pool, 7 * MIB, MEND_GIB, p.streams[1], &large));
    graph_program_free(&p, large, p.streams[1]);
    uint64_t retired = mend_world_stats(&p.world).retired_bytes;
    EXPECT_TRUE(retired > 0);
    mend_sim_advance(p.world.sim, 10000);
    graph_program_begin_capture(&p, p.streams[0]);
    void *block = graph_program_alloc(&p, MIB, p.streams[0]);
    uint64_t mapped = mend_world_ledger(&p.world).mapped_bytes;
    uint64_t released = 77;
    EXPECT_RESULT(MEND_OK, mend_trim(p.world.pool, 0, &released));
    EXPECT_U64_EQ(0, released);
    EXPECT_RESULT(MEND_OK, mend_set_limit(p.world.pool, MIB));
    EXPECT_U64_EQ(MIB, mend_world_stats(&p.world).limit_bytes);
    EXPECT_RESULT(MEND_OK, mend_set_limit(p.world.pool, 0));
    EXPECT_U64_EQ(mapped, mend_world_ledger(&p.world).mapped_bytes);
    EXPECT_U64_EQ(retired, mend_world_stats(&p.world).retired_bytes);
    end_whole(&p, p.streams[0], block);
    EXPECT_RESULT(MEND_OK, mend_group_end(group));
    EXPECT_RESULT(MEND_OK, mend_trim(p.world.pool, 0, NULL));
    EXPECT_TRUE(mend_world_ledger(&p.world).mapped_bytes < mapped);
    graph_program_close(&p);
}

MEND_TEST(pool_captures, that_failed_leave_a_group_that_can_be_released)
{
    graph_program p;
    ASSERT_TRUE(open_small(&p));
    mend_group *group = graph_program_begin_group(&p, p.streams[0]);
    graph_program_begin_capture(&p, p.streams[0]);
    void *block = graph_program_alloc(&p, block_bytes, p.streams[0]);
    graph_program_use(&p, p.streams[0], block, block_bytes, 10);
    /* The program spoils it by a join that it never ends. */
    EXPECT_RESULT(MEND_OK, mend_sim_stream_wait(p.world.sim, p.streams[1], p.streams[0]));
    graph_program_use(&p, p.streams[1], block, block_bytes, 10);
    graph_program_free(&p, block, p.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_group_end(group));
    EXPECT_RESULT(MEND_ERROR_CAPTURING, mend_group_release(group, p.streams[0]));
    EXPECT_RESULT(MEND_ERROR_CAPTURING, mend_group_release(group, p.streams[1]));
    EXPECT_U64_EQ(1, mend_world_stats(&p.world).groups);
    EXPECT_RESULT(MEND_ERROR_DRIVER, mend_sim_end_capture(p.world.sim, p.streams[0], NULL));
    EXPECT_RESULT(MEND_OK, mend_group_release(group, p.streams[0]));
    EXPECT_PTR_EQ(block, graph_program_alloc(&p, block_bytes, p.streams[0]));
    graph_program_close(&p);
}

/* The graph may use the block; what was queued on the stream before does. */
MEND_TEST(pool_captures, memory_freed_on_a_captured_stream_comes_back_after_its_graph)
{
    graph_program p;
    ASSERT_TRUE(open_small(&p));
    graph_program_alloc(&p, 5 * MIB, p.streams[1]);
    void *block = graph_program_alloc(&p, block_bytes, p.streams[0]);
    graph_program_use(&p, p.streams[0], block, block_bytes, 1000);
    graph_program_begin_capture(&p, p.streams[0]);
    graph_program_free(&p, block, p.streams[0]);
    graph_program_expect_none(&p, block_bytes, p.streams[1],
                              "Ending the capture under way and releasing");
    EXPECT_RESULT(MEND_ERROR_CAPTURING, mend_forget_stream(p.world.pool, p.streams[0]));
    EXPECT_U64_EQ(1, mend_world_stats(&p.world).captures);
    end_whole(&p, p.streams[0], NULL);
    block = graph_program_alloc(&p, block_bytes, p.streams[1]);
    graph_program_use(&p, p.streams[1], block, block_bytes, 10);
    EXPECT_U64_EQ(1, mend_world_stats(&p.world).stream_waits);
    graph_program_close(&p);
}

/* One group, two graphs that share memory and are launched one after the other. */
MEND_TEST(pool_captures, two_may_share_a_group)
{
    graph_program p;
    mend_sim_graph *graphs[2];
    ASSERT_TRUE(open_small(&p));
    mend_group *group = graph_program_begin_group(&p, p.streams[0]);
    void *first = NULL;
    for (int i = 0; i < 2; i++) {
        graph_program_begin_capture(&p, p.streams[0]);
        void *block = graph_program_alloc(&p, block_bytes, p.streams[0]);
        graph_program_use(&p, p.streams[0], block, block_bytes, 1000);
        graph_program_free(&p, block, p.streams[0]);
        graphs[i] = graph_program_end_capture(&p, p.streams[0]);
        EXPECT_TRUE(i == 0 || block == first);
        first = block;
    }
    EXPECT_RESULT(MEND_OK, mend_group_end(group));
    for (int round = 0; round < 3; round++) {
        graph_program_launch(&p, graphs[0], p.streams[2]);
        graph_program_launch(&p, graphs[1], p.streams[2]);
    }
    EXPECT_RESULT(MEND_OK, mend_group_release(group, p.streams[2]));
    void *block = graph_program_alloc(&p, block_bytes, p.streams[1]);
    graph_program_use(&p, p.streams[1], block, block_bytes, 10);
    mend_sim_graph_destroy(p.world.sim, graphs[0]);
    mend_sim_graph_destroy(p.world.sim, graphs[1]);
    graph_program_close(&p);
}

MEND_TEST(pool_captures, the_legacy_stream_is_left_alone_beside_a_blocking_one)
{
    graph_program p;
    mend_stream blocking = NULL;
    ASSERT_TRUE(open_small(&p));
    EXPECT_RESULT(MEND_OK, mend_sim_stream_create_blocking(p.world.sim, &blocking));
    graph_program_alloc(&p, 3 * MIB, p.streams[2]);
    leave_in_flight(&p, NULL, NULL);
    graph_program_begin_capture(&p, blocking);
    graph_program_expect_none(&p, block_bytes, p.streams[1], "");
    EXPECT_RESULT(MEND_ERROR_CAPTURING, mend_forget_stream(p.world.pool, NULL));
    EXPECT_RESULT(MEND_OK, mend_trim(p.world.pool, 0, NULL));
    EXPECT_TRUE(graph_program_alloc(&p, 2 * MIB, NULL) != NULL);
    mend_group *group = NULL;
    EXPECT_RESULT(MEND_OK, mend_group_create(p.world.pool, &group));
    EXPECT_RESULT(MEND_ERROR_CAPTURING, mend_group_release(group, NULL));
    end_whole(&p, blocking, NULL);
    EXPECT_RESULT(MEND_OK, mend_group_release(group, NULL));
    void *block = graph_program_alloc(&p, block_bytes, p.streams[1]);
    graph_program_use(&p, p.streams[1], block, block_bytes, 10);
    EXPECT_U64_EQ(1, mend_world_stats(&p.world).stream_waits);
    EXPECT_RESULT(MEND_OK, mend_sim_stream_destroy(p.world.sim, blocking));
    graph_program_close(&p);
}

static void *begin_global(void *context)
{
    graph_program *p = context;
    EXPECT_RESULT(MEND_OK,
                  mend_sim_begin_capture(p->world.sim, p->streams[0], MEND_SIM_CAPTURE_GLOBAL));
    return NULL;
}

/* Beside a capture in the global mode every thread must be relaxed to make memory. */
MEND_TEST(pool_captures, in_the_global_mode_do_not_keep_other_threads_from_making_room)
{
    graph_program p;
    pthread_t thread;
    mend_capture_mode mode = MEND_CAPTURE_MODE_GLOBAL;
    ASSERT_TRUE(graph_program_open(&p, 16 * MIB, NULL));
    leave_in_flight(&p, p.streams[1], p.streams[1]);
    ASSERT_INT_EQ(0, pthread_create(&thread, NULL, begin_global, &p));
    ASSERT_INT_EQ(0, pthread_join(thread, NULL));
    void *block = graph_program_alloc(&p, block_bytes, p.streams[2]);
    graph_program_use(&p, p.streams[2], block, block_bytes, 10);
    void *another = graph_program_alloc(&p, block_bytes, p.streams[2]); /* asks for events */
    graph_program_use(&p, p.streams[2], another, block_bytes, 10);
    mend_stream_info info = {0};
    EXPECT_INT_EQ(MEND_DRIVER_OK, p.driver->stream_get_info(p.driver, p.streams[0], &info));
    EXPECT_INT_EQ(MEND_CAPTURE_ACTIVE, info.capture);
    EXPECT_INT_EQ(MEND_DRIVER_OK, p.driver->exchange_capture_mode(p.driver, &mode));
    EXPECT_INT_EQ(MEND_CAPTURE_MODE_GLOBAL, mode); /* the thread's own mode came back */
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT,
                  mend_sim_end_capture(p.world.sim, p.streams[0], NULL));
    mend_world_check(&p.world);
    EXPECT_INT_EQ(MEND_DRIVER_OK, p.driver->device_close(p.driver, 0));
    mend_sim_advance(p.world.sim, 10000);
    mend_sim_stop(p.world.sim); /* the thread that could end it is gone */
    EXPECT_RESULT(MEND_OK, mend_pool_destroy(p.world.pool));
    EXPECT_U64_EQ(0, mend_world_ledger(&p.world).content_errors);
    mend_sim_destroy(p.world.sim);
}

MEND_TEST(pool_captures, a_pool_is_not_destroyed_under_one)
{
    graph_program p;
    ASSERT_TRUE(open_small(&p));
    mend_group *group = graph_program_begin_group(&p, p.streams[0]);
    graph_program_begin_capture(&p, p.streams[0]);
    void *block = graph_program_alloc(&p, MIB, p.streams[0]);
    EXPECT_RESULT(MEND_ERROR_CAPTURING, mend_pool_destroy(p.world.pool));
    graph_program_free(&p, block, p.streams[0]);
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_group_begin(group, p.streams[0]));
    end_whole(&p, p.streams[0], block);
    graph_program_close(&p);
}

static void check_nothing(mend_pool_config *config)
{
    config->capture_checks = -1;
}

static void see_and_heed(void (*configure)(mend_pool_config *))
{
    graph_program p;
    EXPECT_TRUE(graph_program_open(&p, 8 * MIB, configure));
    get_known(&p, p.streams[0]);
    graph_program_alloc(&p, 4 * MIB, p.streams[1]);
    leave_in_flight(&p, p.streams[1], MEND_NO_STREAM);
    graph_program_begin_capture(&p, p.streams[0]);
    graph_program_expect_none(&p, block_bytes, p.streams[0], "Ending the capture");
    graph_program_expect_none(&p, block_bytes, p.streams[1], "Ending the capture");
    EXPECT_U64_EQ(0, mend_world_stats(&p.world).host_waits);
    end_whole(&p, p.streams[0], NULL);
    EXPECT_TRUE(graph_program_alloc(&p, block_bytes, p.streams[1]) != NULL);
    graph_program_close(&p);
}

/* No group watches the stream, and nothing is left to wait for on it. The request that it made
 * itself has told the pool; also where only the request's own waits ask. */
MEND_TEST(pool_captures, one_that_was_seen_is_heeded_by_requests_of_others)
{
    see_and_heed(NULL);
    see_and_heed(check_nothing);
}
