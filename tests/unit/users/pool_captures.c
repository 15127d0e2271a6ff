/* Captures beside the pool: it harms none, and what they hold up comes back when they have ended.
 */
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
    const mend_sim_work work = {.struct_size = sizeof(mend_sim_work),
                                .kind = MEND_SIM_WORK_TOUCH,
                                .address = (uint64_t)(uintptr_t)block,
                                .size_bytes = block != NULL ? 512 : 0};
    if (block != NULL) {
        EXPECT_OK(mend_sim_launch(w->sim, stream, &work));
    }
    mend_sim_graph *graph = kit_end_capture(w, stream);
    kit_launch_graph(w, graph, S(1));
    mend_sim_graph_destroy(w->sim, graph);
}

#define WORLD_TEST(suite, name) KIT_TEST_IN(suite, name, kit_open_with(w, 8 * MEND_MIB, NULL))

WORLD_TEST(pool_captures, running_out_of_memory_in_one_does_not_spoil_it)
{
    kit_alloc(w, 5 * MEND_MIB, S(1));
    kit_leave_in_flight(w, block_bytes, S(0), 1000, S(0));
    mend_group *group = kit_begin_captured_group(w, S(0));
    kit_expect_none(w, block_bytes, S(0), "Ending the capture");
    kit_expect_none(w, block_bytes, S(1), "Ending the capture");
    kit_expect_none(w, block_bytes, S(2), "Ending the capture");
    kit_expect_none(w, 9 * MEND_MIB, S(0), "");
    end_whole(w, S(0), NULL);
    EXPECT_OK(mend_group_end(group));
    kit_alloc_used(w, block_bytes, S(2), 10);
    EXPECT_STATS(w, driver_failures, 0);
}

/* All the pool could know the capture by is the group that was begun for it. */
KIT_EACH(pool_captures, the_context_is_not_waited_for_while_a_group_is_begun_for_one, int, every, 2,
         kit_open_with(w, 8 * MEND_MIB, NULL))
{
    kit_alloc(w, 4 * MEND_MIB + 768 * MEND_KIB, S(1)); /* and all that is left */
    get_known(w, S(0));
    kit_leave_in_flight(w, block_bytes, S(1), 1000, MEND_NO_STREAM);
    mend_group *group = kit_begin_group(w, every ? MEND_EVERY_STREAM : S(0));
    kit_begin_capture(w, S(0));
    kit_expect_none(w, block_bytes, S(1), "Ending the capture");
    EXPECT_LEDGER(w, host_syncs, 0);
    end_whole(w, S(0), NULL);
    EXPECT_OK(mend_group_end(group));
    kit_alloc_used(w, block_bytes, S(1), 10);
    EXPECT_LEDGER(w, host_syncs, 1);
}

/* Ways to name a stream again: an allocation in an inner group, its begin, and in the outer group,
 * where one on another stream plays no part, a free, a use, and a free of a block of no group. */
static mend_group *name_again(mend_world *w, int way)
{
    mend_group *inner = way == 0 ? kit_begin_group(w, S(0)) : NULL;
    void *block = way > 1 ? kit_alloc(w, 512, S(way == 4 ? 1 : 0)) : NULL;
    EXPECT_OK(mend_forget_stream(w->pool, S(0)));
    if (way == 0) {
        kit_alloc(w, 512, S(0));
        return inner;
    }
    if (way == 3) {
        EXPECT_OK(mend_record_stream(w->pool, block, S(0)));
    } else {
        kit_free(w, block, S(0));
    }
    return kit_begin_group(w, S(way == 1 ? 0 : way == 4 ? 2 : 1));
}

/* What names the stream again names it for the outer group as well. */
KIT_EACH(pool_captures, an_outer_group_watches_a_stream_that_was_forgotten_and_is_used_again, int,
         i, 5, kit_open_with(w, 8 * MEND_MIB, NULL))
{
    mend_group *outer = kit_begin_group(w, S(0));
    mend_group *inner = name_again(w, i);
    kit_alloc(w, 4 * MEND_MIB, S(1));
    kit_leave_in_flight(w, block_bytes, S(1), 1000, MEND_NO_STREAM);
    EXPECT_OK(mend_group_end(inner));
    kit_begin_capture(w, S(0));
    kit_expect_none(w, block_bytes, S(1), "");
    EXPECT_LEDGER(w, host_syncs, 0);
    end_whole(w, S(0), NULL);
    EXPECT_OK(mend_group_end(outer));
}

/* The legacy stream tells of blocking streams, which the pool need not know. */
WORLD_TEST(pool_captures, of_blocking_streams_nobody_knows_are_noticed)
{
    mend_stream blocking = NULL;
    EXPECT_OK(mend_sim_stream_create(w->sim, KIT_OPTIONS(mend_sim_stream_options, .is_blocking = 1),
                                     &blocking));
    kit_alloc(w, 5 * MEND_MIB, S(1));
    kit_leave_in_flight(w, block_bytes, S(1), 1000, MEND_NO_STREAM);
    kit_begin_capture(w, blocking);
    kit_expect_none(w, block_bytes, S(1), "");
    EXPECT_ERROR(CAPTURING, mend_pool_destroy(w->pool));
    end_whole(w, blocking, NULL);
    EXPECT_TRUE(kit_alloc(w, block_bytes, S(1)) != NULL);
    EXPECT_OK(mend_sim_stream_destroy(w->sim, blocking));
}

/* The pool cannot know of it, and unmaps what nothing uses any more: that harms nobody. */
WORLD_TEST(pool_captures, unmapping_idle_memory_harms_none)
{
    void *kept = kit_alloc(w, 512, S(0));
    kit_leave_in_flight(w, block_bytes, S(1), 1000, S(1));
    mend_sim_advance(w->sim, 10000);
    EXPECT_OK(mend_forget_stream(w->pool, S(0))); /* so that nobody knows of the capture */
    kit_begin_capture(w, S(0));
    kit_free(w, kit_alloc_aligned(w, 7 * MEND_MIB, MEND_GIB, S(1)), S(1));
    EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_IDLE, NULL));
    mend_sim_advance(w->sim, 10000);
    EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_IDLE, NULL));
    EXPECT_STATS(w, retired_bytes, 0);
    end_whole(w, S(0), kept);
}

KIT_TEST_IN(pool_captures, nothing_mapped_goes_while_one_is_known,
            kit_open_with(w, 7 * MEND_MIB, NULL))
{
    mend_group *group = kit_begin_group(w, S(0));
    kit_leave_in_flight(w, block_bytes, S(1), 1000, S(1));
    /* moves chunks, so that retired mappings are there as well */
    kit_free(w, kit_alloc_aligned(w, 7 * MEND_MIB, MEND_GIB, S(1)), S(1));
    uint64_t retired = mend_world_stats(w).retired_bytes;
    EXPECT_TRUE(retired > 0);
    mend_sim_advance(w->sim, 10000);
    kit_begin_capture(w, S(0));
    void *block = kit_alloc(w, MEND_MIB, S(0));
    uint64_t mapped = mend_world_ledger(w).mapped_bytes;
    kit_expect_trim(w, 0, 0);
    EXPECT_OK(mend_set_limit(w->pool, MEND_MIB));
    EXPECT_STATS(w, limit_bytes, MEND_MIB);
    EXPECT_OK(mend_set_limit(w->pool, 0));
    EXPECT_LEDGER(w, mapped_bytes, mapped);
    EXPECT_STATS(w, retired_bytes, retired);
    end_whole(w, S(0), block);
    EXPECT_OK(mend_group_end(group));
    EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_IDLE, NULL));
    EXPECT_TRUE(mend_world_ledger(w).mapped_bytes < mapped);
}

WORLD_TEST(pool_captures, that_failed_leave_a_group_that_can_be_released)
{
    mend_group *group = kit_begin_captured_group(w, S(0));
    void *block = kit_alloc_used(w, block_bytes, S(0), 10);
    /* The program spoils it by a join that it never ends. */
    EXPECT_OK(mend_sim_stream_wait(w->sim, S(1), S(0)));
    kit_use(w, S(1), block, block_bytes, 10);
    kit_free(w, block, S(0));
    EXPECT_OK(mend_group_end(group));
    EXPECT_ERROR(CAPTURING, mend_group_destroy(group, S(0)));
    EXPECT_ERROR(CAPTURING, mend_group_destroy(group, S(1)));
    EXPECT_STATS(w, groups, 1);
    EXPECT_ERROR(DRIVER, mend_sim_end_capture(w->sim, S(0), NULL));
    EXPECT_OK(mend_group_destroy(group, S(0)));
    EXPECT_PTR_EQ(block, kit_alloc(w, block_bytes, S(0)));
}

/* The graph may use the block; what was queued on the stream before does. */
WORLD_TEST(pool_captures, memory_freed_on_a_captured_stream_comes_back_after_its_graph)
{
    kit_alloc(w, 5 * MEND_MIB, S(1));
    void *block = kit_alloc_used(w, block_bytes, S(0), 1000);
    kit_begin_capture(w, S(0));
    kit_free(w, block, S(0));
    kit_expect_none(w, block_bytes, S(1), "Ending the capture in progress and destroying");
    EXPECT_ERROR(CAPTURING, mend_forget_stream(w->pool, S(0)));
    EXPECT_STATS(w, captures, 1);
    end_whole(w, S(0), NULL);
    kit_alloc_used(w, block_bytes, S(1), 10);
    EXPECT_STATS(w, stream_waits, 1);
}

/* One group, two graphs that share memory and are launched one after the other. */
WORLD_TEST(pool_captures, two_may_share_a_group)
{
    mend_sim_graph *graphs[2];
    mend_group *group = kit_begin_group(w, S(0));
    void *first = NULL;
    for (int i = 0; i < 2; i++) {
        kit_begin_capture(w, S(0));
        void *block = kit_leave_in_flight(w, block_bytes, S(0), 1000, S(0));
        graphs[i] = kit_end_capture(w, S(0));
        EXPECT_TRUE(i == 0 || block == first);
        first = block;
    }
    EXPECT_OK(mend_group_end(group));
    for (int round = 0; round < 3; round++) {
        kit_launch_graph(w, graphs[0], S(2));
        kit_launch_graph(w, graphs[1], S(2));
    }
    EXPECT_OK(mend_group_destroy(group, S(2)));
    kit_alloc_used(w, block_bytes, S(1), 10);
    mend_sim_graph_destroy(w->sim, graphs[0]);
    mend_sim_graph_destroy(w->sim, graphs[1]);
}

WORLD_TEST(pool_captures, the_legacy_stream_is_left_alone_beside_a_blocking_one)
{
    mend_stream blocking = NULL;
    EXPECT_OK(mend_sim_stream_create(w->sim, KIT_OPTIONS(mend_sim_stream_options, .is_blocking = 1),
                                     &blocking));
    kit_alloc(w, 3 * MEND_MIB, S(2));
    kit_leave_in_flight(w, block_bytes, NULL, 1000, NULL);
    kit_begin_capture(w, blocking);
    kit_expect_none(w, block_bytes, S(1), "");
    EXPECT_ERROR(CAPTURING, mend_forget_stream(w->pool, NULL));
    EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_IDLE, NULL));
    EXPECT_TRUE(kit_alloc(w, 2 * MEND_MIB, NULL) != NULL);
    mend_group *group = kit_group(w);
    EXPECT_ERROR(CAPTURING, mend_group_destroy(group, NULL));
    end_whole(w, blocking, NULL);
    EXPECT_OK(mend_group_destroy(group, NULL));
    kit_alloc_used(w, block_bytes, S(1), 10);
    EXPECT_STATS(w, stream_waits, 1);
    EXPECT_OK(mend_sim_stream_destroy(w->sim, blocking));
}

static void *begin_global(void *context)
{
    mend_world *w = context;
    EXPECT_OK(mend_sim_begin_capture(w->sim, S(0), MEND_SIM_CAPTURE_GLOBAL));
    return NULL;
}

/* Beside a capture in the global mode every thread must be relaxed to make memory. */
KIT_LAST_TEST(pool_captures, in_the_global_mode_do_not_keep_other_threads_from_making_room,
              kit_open_with(w, 16 * MEND_MIB, NULL))
{
    mend_capture_mode mode = MEND_CAPTURE_MODE_GLOBAL;
    kit_leave_in_flight(w, block_bytes, S(1), 1000, S(1));
    mend_test_run_thread(begin_global, w);
    kit_alloc_used(w, block_bytes, S(2), 10);
    void *another = kit_alloc(w, block_bytes, S(2)); /* asks for events */
    kit_use(w, S(2), another, block_bytes, 10);
    mend_stream_info info = {0};
    EXPECT_INT_EQ(MEND_DRIVER_OK, w->driver->stream_get_info(w->driver, S(0), &info));
    EXPECT_INT_EQ(MEND_CAPTURE_ACTIVE, info.capture);
    EXPECT_INT_EQ(MEND_DRIVER_OK, w->driver->exchange_capture_mode(w->driver, &mode));
    EXPECT_INT_EQ(MEND_CAPTURE_MODE_GLOBAL, mode); /* the thread's own mode came back */
    EXPECT_INVALID(mend_sim_end_capture(w->sim, S(0), NULL));
    mend_world_check(w);
    EXPECT_INT_EQ(MEND_DRIVER_OK, w->driver->device_close(w->driver, 0));
    mend_sim_advance(w->sim, 10000);
    mend_sim_stop(w->sim); /* the thread that could end it is gone */
    EXPECT_OK(mend_pool_destroy(w->pool));
    EXPECT_LEDGER(w, content_errors, 0);
}

KIT_SETTING(check_nothing, w->pool_config.capture_checks = -1);
KIT_SETTING(fence_no_context, w->pool_config.allow_context_fences = -1);

/* No group watches the stream, and nothing is left to wait for on it. The pool has learnt of it
 * by the request that it made itself; also where only the request's own waits ask. */
KIT_EACH(pool_captures, one_that_was_seen_is_heeded_by_requests_of_others, int, checks, 2,
         kit_open_with(w, 8 * MEND_MIB, checks ? NULL : check_nothing))
{
    get_known(w, S(0));
    kit_alloc(w, 4 * MEND_MIB, S(1));
    kit_leave_in_flight(w, block_bytes, S(1), 1000, MEND_NO_STREAM);
    kit_begin_capture(w, S(0));
    kit_expect_none(w, block_bytes, S(0), "Ending the capture");
    kit_expect_none(w, block_bytes, S(1), "Ending the capture");
    EXPECT_STATS(w, host_waits, 0);
    end_whole(w, S(0), NULL);
    EXPECT_TRUE(kit_alloc(w, block_bytes, S(1)) != NULL);
}

/* Also where nothing is left to wait for on the stream, and no call names it during the capture. */
KIT_EACH(pool_captures, of_a_stream_that_a_call_named_before_is_noticed, int, fences, 2,
         kit_open_with(w, 8 * MEND_MIB, fences ? NULL : fence_no_context))
{
    kit_free(w, kit_alloc(w, 512, S(0)), S(0));
    kit_alloc(w, 5 * MEND_MIB, S(1));
    kit_leave_in_flight(w, block_bytes, S(1), 1000, MEND_NO_STREAM);
    EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_IDLE, NULL));
    kit_begin_capture(w, S(0));
    kit_expect_none(w, block_bytes, S(1), "Ending the capture");
    EXPECT_ERROR(CAPTURING, mend_trim(w->pool, 0, MEND_TRIM_WAIT, NULL));
    end_whole(w, S(0), NULL);
    kit_alloc(w, block_bytes, S(1));
}

/* A destruction that the capture refuses changes nothing: others can ask the pool for memory. */
WORLD_TEST(pool_captures, a_pool_that_is_not_destroyed_under_one_still_serves_its_peers)
{
    mend_pool *other = NULL;
    ASSERT_RESULT(MEND_OK, mend_world_create_pool(w, &other));
    mend_group *group = kit_begin_captured_group(w, S(0));
    void *block = kit_alloc(w, MEND_MIB, S(0));
    EXPECT_RESULT(MEND_ERROR_CAPTURING, mend_pool_destroy(w->pool));
    kit_free(w, block, S(0));
    EXPECT_INVALID(mend_group_begin(group, S(0)));
    end_whole(w, S(0), block);
    EXPECT_OK(mend_group_end(group));
    kit_free(w, kit_alloc(w, 6 * MEND_MIB, NULL), NULL);
    EXPECT_TRUE(kit_alloc_from(other, 6 * MEND_MIB, NULL) != NULL);
    EXPECT_U64_EQ(1, kit_stats(other).peer_pool_trims);
    EXPECT_OK(mend_pool_destroy(other));
}

/* A graph ends, whose slot has seen the next capture of its stream. */
KIT_TEST(pool_captures, one_that_only_a_graph_that_ended_had_seen_stays_known)
{
    mend_stream stream = kit_stream(w);
    kit_begin_capture(w, stream);
    void *block = kit_alloc(w, MEND_MIB, stream);
    mend_sim_graph *first = kit_end_capture(w, stream);
    kit_begin_capture(w, stream);
    kit_free(w, kit_alloc(w, MEND_MIB, S(0)), S(0));
    EXPECT_ERROR(CAPTURING, mend_trim(w->pool, 0, MEND_TRIM_WAIT, NULL));
    mend_sim_graph_destroy(w->sim, first);
    EXPECT_ERROR(CAPTURING, mend_trim(w->pool, 0, MEND_TRIM_WAIT, NULL));
    mend_sim_graph_destroy(w->sim, kit_end_capture(w, stream));
    EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_WAIT, NULL));
    kit_free(w, block, stream);
    kit_end_stream(w, stream);
}
