/* Captures beside the pool: it harms none, and what they hold up comes back when they have ended.
 */
#include <pthread.h>
#include <string.h>

#include "tests/support/kit.h"
#include "tests/support/threads.h"

/* So little that no fence is recorded at its free: the pool records one when a stream needs it. */
static const uint64_t block_bytes = 3 * MEND_MIB;

/* Nothing is left to wait for on the stream, and nobody has seen it captured. */
static void get_known(mend_world *w, mend_stream stream)
{
    kit_alloc(w, 512, stream);
}

/* The capture is whole: its work, one touch of a block, can be launched. */
static void end_whole(mend_world *w, mend_stream stream, void *block)
{
    const mend_sim_work work = {.kind = MEND_SIM_WORK_TOUCH,
                                .address = (uint64_t)(uintptr_t)block,
                                .size_bytes = block != NULL ? 512 : 0};
    if (block != NULL) {
        EXPECT_RESULT(MEND_OK, mend_sim_launch(w->sim, stream, &work));
    }
    mend_sim_graph *graph = kit_end_capture(w, stream);
    kit_launch_graph(w, graph, w->streams[1]);
    mend_sim_graph_destroy(w->sim, graph);
}

MEND_TEST(pool_captures, running_out_of_memory_in_one_does_not_spoil_it)
{
    mend_world w;
    ASSERT_TRUE(kit_open_with(&w, 8 * MEND_MIB, NULL));
    kit_alloc(&w, 5 * MEND_MIB, w.streams[1]);
    kit_leave_in_flight(&w, block_bytes, w.streams[0], 1000, w.streams[0]);
    mend_group *group = kit_begin_captured_group(&w, w.streams[0]);
    kit_expect_none(&w, block_bytes, w.streams[0], "Ending the capture");
    kit_expect_none(&w, block_bytes, w.streams[1], "Ending the capture");
    kit_expect_none(&w, block_bytes, w.streams[2], "Ending the capture");
    kit_expect_none(&w, 9 * MEND_MIB, w.streams[0], "");
    end_whole(&w, w.streams[0], NULL);
    EXPECT_RESULT(MEND_OK, mend_group_end(group));
    kit_alloc_used(&w, block_bytes, w.streams[2], 10);
    EXPECT_U64_EQ(0, mend_world_stats(&w).driver_failures);
    kit_close(&w);
}

/* All the pool could know the capture by is the group that was begun for it. */
static void a_group_tells(mend_stream (*begun)(const mend_world *))
{
    mend_world w;
    ASSERT_TRUE(kit_open_with(&w, 8 * MEND_MIB, NULL));
    kit_alloc(&w, 4 * MEND_MIB + 768 * MEND_KIB, w.streams[1]); /* and all that is left */
    get_known(&w, w.streams[0]);
    kit_leave_in_flight(&w, block_bytes, w.streams[1], 1000, MEND_NO_STREAM);
    mend_group *group = kit_begin_group(&w, begun(&w));
    kit_begin_capture(&w, w.streams[0]);
    kit_expect_none(&w, block_bytes, w.streams[1], "Ending the capture");
    EXPECT_U64_EQ(0, mend_world_ledger(&w).host_syncs);
    end_whole(&w, w.streams[0], NULL);
    EXPECT_RESULT(MEND_OK, mend_group_end(group));
    kit_alloc_used(&w, block_bytes, w.streams[1], 10);
    EXPECT_U64_EQ(1, mend_world_ledger(&w).host_syncs);
    kit_close(&w);
}

static mend_stream the_captured(const mend_world *w)
{
    return w->streams[0];
}

static mend_stream every_stream(const mend_world *w)
{
    (void)w;
    return MEND_EVERY_STREAM;
}

MEND_TEST(pool_captures, the_context_is_not_waited_for_while_a_group_is_begun_for_one)
{
    a_group_tells(the_captured);
    a_group_tells(every_stream);
}

static mend_group *allocate_in_inner_group(mend_world *w)
{
    mend_group *inner = kit_begin_group(w, w->streams[0]);
    EXPECT_RESULT(MEND_OK, mend_forget_stream(w->pool, w->streams[0]));
    kit_alloc(w, 512, w->streams[0]);
    return inner;
}

static mend_group *begin_inner_group(mend_world *w)
{
    EXPECT_RESULT(MEND_OK, mend_forget_stream(w->pool, w->streams[0]));
    return kit_begin_group(w, w->streams[0]);
}

/* The group on another stream plays no part. */
static mend_group *free_in_outer_group(mend_world *w)
{
    void *block = kit_alloc(w, 512, w->streams[0]);
    EXPECT_RESULT(MEND_OK, mend_forget_stream(w->pool, w->streams[0]));
    kit_free(w, block, w->streams[0]);
    return kit_begin_group(w, w->streams[1]);
}

static mend_group *use_in_outer_group(mend_world *w)
{
    void *block = kit_alloc(w, 512, w->streams[0]);
    EXPECT_RESULT(MEND_OK, mend_forget_stream(w->pool, w->streams[0]));
    EXPECT_RESULT(MEND_OK, mend_record_stream(w->pool, block, w->streams[0]));
    return kit_begin_group(w, w->streams[1]);
}

/* The block is of no group. */
static mend_group *free_beside_the_outer_group(mend_world *w)
{
    void *block = kit_alloc(w, 512, w->streams[1]);
    EXPECT_RESULT(MEND_OK, mend_forget_stream(w->pool, w->streams[0]));
    kit_free(w, block, w->streams[0]);
    return kit_begin_group(w, w->streams[2]);
}

/* What names the stream again names it for the outer group as well. */
static void an_outer_group_tells(mend_group *(*name_again)(mend_world *))
{
    mend_world w;
    ASSERT_TRUE(kit_open_with(&w, 8 * MEND_MIB, NULL));
    mend_group *outer = kit_begin_group(&w, w.streams[0]);
    mend_group *inner = name_again(&w);
    kit_alloc(&w, 4 * MEND_MIB, w.streams[1]);
    kit_leave_in_flight(&w, block_bytes, w.streams[1], 1000, MEND_NO_STREAM);
    EXPECT_RESULT(MEND_OK, mend_group_end(inner));
    kit_begin_capture(&w, w.streams[0]);
    kit_expect_none(&w, block_bytes, w.streams[1], "");
    EXPECT_U64_EQ(0, mend_world_ledger(&w).host_syncs);
    end_whole(&w, w.streams[0], NULL);
    EXPECT_RESULT(MEND_OK, mend_group_end(outer));
    kit_close(&w);
}

MEND_TEST(pool_captures, an_outer_group_watches_a_stream_that_was_forgotten_and_is_used_again)
{
    an_outer_group_tells(allocate_in_inner_group);
    an_outer_group_tells(begin_inner_group);
    an_outer_group_tells(free_in_outer_group);
    an_outer_group_tells(use_in_outer_group);
    an_outer_group_tells(free_beside_the_outer_group);
}

/* The legacy stream tells of blocking streams, which the pool need not know. */
MEND_TEST(pool_captures, of_blocking_streams_nobody_knows_are_noticed)
{
    mend_world w;
    mend_stream blocking = NULL;
    ASSERT_TRUE(kit_open_with(&w, 8 * MEND_MIB, NULL));
    EXPECT_RESULT(MEND_OK, mend_sim_stream_create_blocking(w.sim, &blocking));
    kit_alloc(&w, 5 * MEND_MIB, w.streams[1]);
    kit_leave_in_flight(&w, block_bytes, w.streams[1], 1000, MEND_NO_STREAM);
    kit_begin_capture(&w, blocking);
    kit_expect_none(&w, block_bytes, w.streams[1], "");
    EXPECT_RESULT(MEND_ERROR_CAPTURING, mend_pool_destroy(w.pool));
    end_whole(&w, blocking, NULL);
    EXPECT_TRUE(kit_alloc(&w, block_bytes, w.streams[1]) != NULL);
    EXPECT_RESULT(MEND_OK, mend_sim_stream_destroy(w.sim, blocking));
    kit_close(&w);
}

/* The pool cannot know of it, and unmaps what nothing uses any more: that harms nobody. */
MEND_TEST(pool_captures, unmapping_idle_memory_harms_none)
{
    mend_world w;
    ASSERT_TRUE(kit_open_with(&w, 8 * MEND_MIB, NULL));
    void *kept = kit_alloc(&w, 512, w.streams[0]);
    kit_leave_in_flight(&w, block_bytes, w.streams[1], 1000, w.streams[1]);
    mend_sim_advance(w.sim, 10000);
    kit_begin_capture(&w, w.streams[0]);
    void *large = kit_alloc_aligned(&w, 7 * MEND_MIB, MEND_GIB, w.streams[1]);
    kit_free(&w, large, w.streams[1]);
    EXPECT_RESULT(MEND_OK, mend_trim(w.pool, 0, NULL));
    mend_sim_advance(w.sim, 10000);
    EXPECT_RESULT(MEND_OK, mend_trim(w.pool, 0, NULL));
    EXPECT_U64_EQ(0, mend_world_stats(&w).retired_bytes);
    end_whole(&w, w.streams[0], kept);
    kit_close(&w);
}

MEND_TEST(pool_captures, nothing_mapped_goes_while_one_is_known)
{
    mend_world w;
    ASSERT_TRUE(kit_open_with(&w, 16 * MEND_MIB, NULL));
    mend_group *group = kit_begin_group(&w, w.streams[0]);
    kit_leave_in_flight(&w, block_bytes, w.streams[1], 1000, w.streams[1]);
    /* moves chunks, so that retired mappings are there as well */
    void *large = kit_alloc_aligned(&w, 7 * MEND_MIB, MEND_GIB, w.streams[1]);
    kit_free(&w, large, w.streams[1]);
    uint64_t retired = mend_world_stats(&w).retired_bytes;
    EXPECT_TRUE(retired > 0);
    mend_sim_advance(w.sim, 10000);
    kit_begin_capture(&w, w.streams[0]);
    void *block = kit_alloc(&w, MEND_MIB, w.streams[0]);
    uint64_t mapped = mend_world_ledger(&w).mapped_bytes;
    uint64_t released = 77;
    EXPECT_RESULT(MEND_OK, mend_trim(w.pool, 0, &released));
    EXPECT_U64_EQ(0, released);
    EXPECT_RESULT(MEND_OK, mend_set_limit(w.pool, MEND_MIB));
    EXPECT_U64_EQ(MEND_MIB, mend_world_stats(&w).limit_bytes);
    EXPECT_RESULT(MEND_OK, mend_set_limit(w.pool, 0));
    EXPECT_U64_EQ(mapped, mend_world_ledger(&w).mapped_bytes);
    EXPECT_U64_EQ(retired, mend_world_stats(&w).retired_bytes);
    end_whole(&w, w.streams[0], block);
    EXPECT_RESULT(MEND_OK, mend_group_end(group));
    EXPECT_RESULT(MEND_OK, mend_trim(w.pool, 0, NULL));
    EXPECT_TRUE(mend_world_ledger(&w).mapped_bytes < mapped);
    kit_close(&w);
}

MEND_TEST(pool_captures, that_failed_leave_a_group_that_can_be_released)
{
    mend_world w;
    ASSERT_TRUE(kit_open_with(&w, 8 * MEND_MIB, NULL));
    mend_group *group = kit_begin_captured_group(&w, w.streams[0]);
    void *block = kit_alloc_used(&w, block_bytes, w.streams[0], 10);
    /* The program spoils it by a join that it never ends. */
    EXPECT_RESULT(MEND_OK, mend_sim_stream_wait(w.sim, w.streams[1], w.streams[0]));
    kit_use(&w, w.streams[1], block, block_bytes, 10);
    kit_free(&w, block, w.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_group_end(group));
    EXPECT_RESULT(MEND_ERROR_CAPTURING, mend_group_release(group, w.streams[0]));
    EXPECT_RESULT(MEND_ERROR_CAPTURING, mend_group_release(group, w.streams[1]));
    EXPECT_U64_EQ(1, mend_world_stats(&w).groups);
    EXPECT_RESULT(MEND_ERROR_DRIVER, mend_sim_end_capture(w.sim, w.streams[0], NULL));
    EXPECT_RESULT(MEND_OK, mend_group_release(group, w.streams[0]));
    EXPECT_PTR_EQ(block, kit_alloc(&w, block_bytes, w.streams[0]));
    kit_close(&w);
}

/* The graph may use the block; what was queued on the stream before does. */
MEND_TEST(pool_captures, memory_freed_on_a_captured_stream_comes_back_after_its_graph)
{
    mend_world w;
    ASSERT_TRUE(kit_open_with(&w, 8 * MEND_MIB, NULL));
    kit_alloc(&w, 5 * MEND_MIB, w.streams[1]);
    void *block = kit_alloc_used(&w, block_bytes, w.streams[0], 1000);
    kit_begin_capture(&w, w.streams[0]);
    kit_free(&w, block, w.streams[0]);
    kit_expect_none(&w, block_bytes, w.streams[1], "Ending the capture in progress and releasing");
    EXPECT_RESULT(MEND_ERROR_CAPTURING, mend_forget_stream(w.pool, w.streams[0]));
    EXPECT_U64_EQ(1, mend_world_stats(&w).captures);
    end_whole(&w, w.streams[0], NULL);
    kit_alloc_used(&w, block_bytes, w.streams[1], 10);
    EXPECT_U64_EQ(1, mend_world_stats(&w).stream_waits);
    kit_close(&w);
}

/* One group, two graphs that share memory and are launched one after the other. */
MEND_TEST(pool_captures, two_may_share_a_group)
{
    mend_world w;
    mend_sim_graph *graphs[2];
    ASSERT_TRUE(kit_open_with(&w, 8 * MEND_MIB, NULL));
    mend_group *group = kit_begin_group(&w, w.streams[0]);
    void *first = NULL;
    for (int i = 0; i < 2; i++) {
        kit_begin_capture(&w, w.streams[0]);
        void *block = kit_leave_in_flight(&w, block_bytes, w.streams[0], 1000, w.streams[0]);
        graphs[i] = kit_end_capture(&w, w.streams[0]);
        EXPECT_TRUE(i == 0 || block == first);
        first = block;
    }
    EXPECT_RESULT(MEND_OK, mend_group_end(group));
    for (int round = 0; round < 3; round++) {
        kit_launch_graph(&w, graphs[0], w.streams[2]);
        kit_launch_graph(&w, graphs[1], w.streams[2]);
    }
    EXPECT_RESULT(MEND_OK, mend_group_release(group, w.streams[2]));
    kit_alloc_used(&w, block_bytes, w.streams[1], 10);
    mend_sim_graph_destroy(w.sim, graphs[0]);
    mend_sim_graph_destroy(w.sim, graphs[1]);
    kit_close(&w);
}

MEND_TEST(pool_captures, the_legacy_stream_is_left_alone_beside_a_blocking_one)
{
    mend_world w;
    mend_stream blocking = NULL;
    ASSERT_TRUE(kit_open_with(&w, 8 * MEND_MIB, NULL));
    EXPECT_RESULT(MEND_OK, mend_sim_stream_create_blocking(w.sim, &blocking));
    kit_alloc(&w, 3 * MEND_MIB, w.streams[2]);
    kit_leave_in_flight(&w, block_bytes, NULL, 1000, NULL);
    kit_begin_capture(&w, blocking);
    kit_expect_none(&w, block_bytes, w.streams[1], "");
    EXPECT_RESULT(MEND_ERROR_CAPTURING, mend_forget_stream(w.pool, NULL));
    EXPECT_RESULT(MEND_OK, mend_trim(w.pool, 0, NULL));
    EXPECT_TRUE(kit_alloc(&w, 2 * MEND_MIB, NULL) != NULL);
    mend_group *group = NULL;
    EXPECT_RESULT(MEND_OK, mend_group_create(w.pool, &group));
    EXPECT_RESULT(MEND_ERROR_CAPTURING, mend_group_release(group, NULL));
    end_whole(&w, blocking, NULL);
    EXPECT_RESULT(MEND_OK, mend_group_release(group, NULL));
    kit_alloc_used(&w, block_bytes, w.streams[1], 10);
    EXPECT_U64_EQ(1, mend_world_stats(&w).stream_waits);
    EXPECT_RESULT(MEND_OK, mend_sim_stream_destroy(w.sim, blocking));
    kit_close(&w);
}

static void *begin_global(void *context)
{
    mend_world *w = context;
    EXPECT_RESULT(MEND_OK, mend_sim_begin_capture(w->sim, w->streams[0], MEND_SIM_CAPTURE_GLOBAL));
    return NULL;
}

/* Beside a capture in the global mode every thread must be relaxed to make memory. */
MEND_TEST(pool_captures, in_the_global_mode_do_not_keep_other_threads_from_making_room)
{
    mend_world w;
    mend_capture_mode mode = MEND_CAPTURE_MODE_GLOBAL;
    ASSERT_TRUE(kit_open_with(&w, 16 * MEND_MIB, NULL));
    kit_leave_in_flight(&w, block_bytes, w.streams[1], 1000, w.streams[1]);
    mend_test_run_thread(begin_global, &w);
    kit_alloc_used(&w, block_bytes, w.streams[2], 10);
    void *another = kit_alloc(&w, block_bytes, w.streams[2]); /* asks for events */
    kit_use(&w, w.streams[2], another, block_bytes, 10);
    mend_stream_info info = {0};
    EXPECT_INT_EQ(MEND_DRIVER_OK, w.driver->stream_get_info(w.driver, w.streams[0], &info));
    EXPECT_INT_EQ(MEND_CAPTURE_ACTIVE, info.capture);
    EXPECT_INT_EQ(MEND_DRIVER_OK, w.driver->exchange_capture_mode(w.driver, &mode));
    EXPECT_INT_EQ(MEND_CAPTURE_MODE_GLOBAL, mode); /* the thread's own mode came back */
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_sim_end_capture(w.sim, w.streams[0], NULL));
    mend_world_check(&w);
    EXPECT_INT_EQ(MEND_DRIVER_OK, w.driver->device_close(w.driver, 0));
    mend_sim_advance(w.sim, 10000);
    mend_sim_stop(w.sim); /* the thread that could end it is gone */
    EXPECT_RESULT(MEND_OK, mend_pool_destroy(w.pool));
    EXPECT_U64_EQ(0, mend_world_ledger(&w).content_errors);
    mend_sim_destroy(w.sim);
}

MEND_TEST(pool_captures, a_pool_is_not_destroyed_under_one)
{
    mend_world w;
    ASSERT_TRUE(kit_open_with(&w, 8 * MEND_MIB, NULL));
    mend_group *group = kit_begin_captured_group(&w, w.streams[0]);
    void *block = kit_alloc(&w, MEND_MIB, w.streams[0]);
    EXPECT_RESULT(MEND_ERROR_CAPTURING, mend_pool_destroy(w.pool));
    kit_free(&w, block, w.streams[0]);
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_group_begin(group, w.streams[0]));
    end_whole(&w, w.streams[0], block);
    kit_close(&w);
}

static void check_nothing(mend_world *w)
{
    w->pool_config.capture_checks = -1;
}

static void see_and_heed(void (*configure)(mend_world *))
{
    mend_world w;
    EXPECT_TRUE(kit_open_with(&w, 8 * MEND_MIB, configure));
    get_known(&w, w.streams[0]);
    kit_alloc(&w, 4 * MEND_MIB, w.streams[1]);
    kit_leave_in_flight(&w, block_bytes, w.streams[1], 1000, MEND_NO_STREAM);
    kit_begin_capture(&w, w.streams[0]);
    kit_expect_none(&w, block_bytes, w.streams[0], "Ending the capture");
    kit_expect_none(&w, block_bytes, w.streams[1], "Ending the capture");
    EXPECT_U64_EQ(0, mend_world_stats(&w).host_waits);
    end_whole(&w, w.streams[0], NULL);
    EXPECT_TRUE(kit_alloc(&w, block_bytes, w.streams[1]) != NULL);
    kit_close(&w);
}

/* No group watches the stream, and nothing is left to wait for on it. The pool has learnt of it
 * by the request that it made itself; also where only the request's own waits ask. */
MEND_TEST(pool_captures, one_that_was_seen_is_heeded_by_requests_of_others)
{
    see_and_heed(NULL);
    see_and_heed(check_nothing);
}
