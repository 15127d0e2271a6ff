/* Memory of captured graphs: who may use it, when it moves, and how it comes back. */
#include "pool/pool.h"
#include "tests/support/kit.h"

/* Of a device of 8 MiB, so that two blocks of 5 MiB do not fit. */
static const uint64_t block_bytes = 5 * MEND_MIB;

KIT_SETTING(without_stream_waits, w->pool_config.allow_stream_waits = -1);

/* A group with a graph that uses a block of 5 MiB for a microsecond. */
static mend_sim_graph *capture_block(mend_world *w, mend_stream stream, mend_group **group)
{
    *group = kit_begin_captured_group(w, stream);
    kit_leave_in_flight(w, block_bytes, stream, 1000, stream);
    mend_sim_graph *graph = kit_end_captured_group(w, stream, *group);
    return graph;
}

#define WORLD_TEST(suite, name) KIT_TEST_IN(suite, name, kit_open_with(w, 8 * MEND_MIB, NULL))

/* The searches of others pass over its chunks; its own meet them, and after its end all do. */
WORLD_TEST(pool_groups, chunks_of_a_group_are_for_its_own_requests_until_it_ends)
{
    mend_group *group = kit_begin_group(w, S(0));
    void *first = kit_alloc(w, 2 * MEND_MIB, S(0));
    kit_alloc(w, MEND_MIB, S(1));
    void *second = kit_alloc(w, 2 * MEND_MIB, S(0));
    kit_alloc(w, 3 * MEND_MIB, S(1));
    kit_expect_none(w, MEND_MIB, S(1), ""); /* pressure is critical */
    kit_free(w, first, S(0));
    kit_free(w, second, S(0));
    for (int i = 0; i < 2; i++) {
        kit_expect_none(w, 4 * MEND_MIB, S(1), "");
        EXPECT_TRUE(w->pool->heap.chunks.parked.count > 0);
        EXPECT_OK(mend_audit(w->pool));
        /* From both places; the first one breaks a chunk. */
        kit_free(w, kit_alloc(w, (7 + (uint64_t)i) * MEND_MIB / 2, S(0)), S(0));
    }
    kit_expect_none(w, 4 * MEND_MIB, S(1), "");
    kit_end_group(group, S(0));
    EXPECT_U64_EQ(0, w->pool->heap.chunks.parked.count);
    kit_alloc(w, 4 * MEND_MIB, S(1));
    EXPECT_OK(mend_audit(w->pool));
}

/* Two branches of a graph run beside each other. */
WORLD_TEST(pool_groups, another_stream_of_the_group_does_not_get_it)
{
    mend_group *group = kit_begin_group(w, MEND_EVERY_STREAM);
    kit_begin_capture(w, S(0));
    EXPECT_OK(mend_sim_stream_wait(w->sim, S(1), S(0)));
    void *block = kit_leave_in_flight(w, block_bytes, S(0), 1000, S(0));
    void *other = kit_alloc(w, 3 * MEND_MIB, S(1));
    kit_expect_none(w, block_bytes, S(1), "Ending the capture in progress and releasing");
    kit_use(w, S(1), other, 3 * MEND_MIB, 10);
    EXPECT_PTR_EQ(block, kit_alloc(w, block_bytes, S(0)));
    EXPECT_OK(mend_sim_stream_wait(w->sim, S(0), S(1)));
    mend_sim_graph *graph = kit_end_captured_group(w, S(0), group);
    kit_launch_graph(w, graph, S(2));
    mend_sim_graph_destroy(w->sim, graph);
}

/* The graph orders the branches. What is freed later is not covered by an order that was found. */
WORLD_TEST(pool_groups, another_stream_of_a_capture_gets_what_its_graph_puts_before)
{
    mend_group *group = kit_begin_group(w, MEND_EVERY_STREAM);
    kit_begin_capture(w, S(0));
    void *block = kit_alloc(w, block_bytes, S(0));
    void *other = kit_alloc(w, 512, S(0));
    kit_use(w, S(0), block, block_bytes, 10);
    EXPECT_OK(mend_sim_stream_wait(w->sim, S(1), S(0)));
    EXPECT_OK(mend_record_stream(w->pool, block, S(1)));
    kit_use(w, S(1), block, block_bytes, 100);
    kit_free(w, block, S(0));
    kit_expect_none(w, block_bytes, S(0), "Ending the capture in progress and releasing");
    EXPECT_OK(mend_sim_stream_wait(w->sim, S(0), S(1)));
    kit_use(w, S(0), other, 512, 10); /* behind the join, which is no longer the last */
    EXPECT_PTR_EQ(block, kit_alloc(w, block_bytes, S(0)));
    kit_use(w, S(0), block, block_bytes, 10);
    kit_free(w, block, S(0));
    kit_expect_none(w, block_bytes, S(1), "Ending the capture in progress and releasing");
    EXPECT_OK(mend_sim_stream_wait(w->sim, S(1), S(0)));
    EXPECT_PTR_EQ(block, kit_alloc(w, block_bytes, S(1)));
    kit_use(w, S(1), block, block_bytes, 10);
    kit_free(w, block, S(1));
    kit_expect_none(w, block_bytes, S(0), "Ending the capture in progress and releasing");
    EXPECT_OK(mend_sim_stream_wait(w->sim, S(0), S(1)));
    kit_free(w, other, S(0));
    EXPECT_OK(mend_audit(w->pool));
    mend_sim_graph *graph = kit_end_captured_group(w, S(0), group);
    kit_launch_graph(w, graph, S(2));
    mend_sim_graph_destroy(w->sim, graph);
}

/* A graph does not wait for work outside of captures. */
WORLD_TEST(pool_groups, what_a_stream_freed_outside_of_captures_is_in_no_graph_s_order)
{
    mend_group *group = kit_begin_group(w, MEND_EVERY_STREAM);
    kit_leave_in_flight(w, block_bytes, S(1), 1000, S(1));
    kit_begin_capture(w, S(0));
    EXPECT_OK(mend_sim_stream_wait(w->sim, S(1), S(0)));
    kit_free(w, kit_alloc(w, 512, S(1)), S(1)); /* named in the capture, too */
    EXPECT_OK(mend_sim_stream_wait(w->sim, S(0), S(1)));
    kit_expect_none(w, block_bytes, S(0), "Ending the capture in progress and releasing");
    mend_sim_graph_destroy(w->sim, kit_end_captured_group(w, S(0), group));
}

KIT_EACH(pool_groups, nobody_else_gets_it, int, waits, 2,
         kit_open_with(w, 8 * MEND_MIB, waits ? NULL : without_stream_waits))
{
    mend_group *group;
    mend_sim_graph *graph = capture_block(w, S(0), &group);
    mend_stream others[] = {S(0), S(1), NULL, KIT_PER_THREAD};
    for (int i = 0; i < 4; i++) {
        kit_launch_graph(w, graph, others[i]);
        void *beside = kit_alloc(w, 3 * MEND_MIB, others[i]);
        kit_expect_none(w, block_bytes, others[i], "Releasing groups");
        kit_use(w, others[i], beside, 3 * MEND_MIB, 10);
        kit_free(w, beside, others[i]);
    }
    mend_group *second = kit_begin_group(w, S(0));
    kit_expect_none(w, block_bytes, S(0), "Releasing groups");
    kit_end_group(second, S(0));
    mend_sim_graph_destroy(w->sim, graph);
}

/* The memory a stream freed outside is its own at once, but a graph may run elsewhere. */
WORLD_TEST(pool_groups, what_a_stream_freed_outside_is_not_ready_inside)
{
    const uint64_t size = 3 * MEND_MIB; /* too little for a fence at its free */
    kit_alloc(w, 5 * MEND_MIB, S(1));
    void *block = kit_leave_in_flight(w, size, S(0), 1000, S(0));
    mend_group *group = kit_begin_captured_group(w, S(0));
    kit_expect_none(w, size, S(0), "Ending the capture");
    mend_sim_graph_destroy(w->sim, kit_end_capture(w, S(0)));
    EXPECT_PTR_EQ(block, kit_alloc(w, size, S(0)));
    kit_expect_waits(w, 0, 1);
    EXPECT_OK(mend_group_end(group));
}

KIT_EACH(pool_groups, a_block_freed_after_the_capture_stays_with_the_group, int, i, 3,
         kit_open_with(w, 8 * MEND_MIB, NULL))
{
    const mend_stream freed_on[] = {S(2), S(0), MEND_NO_STREAM};
    kit_alloc(w, 3 * MEND_MIB, S(1));
    mend_group *group = kit_begin_captured_group(w, S(0));
    void *block = kit_alloc_used(w, block_bytes, S(0), 1000);
    mend_sim_graph *graph = kit_end_captured_group(w, S(0), group);
    kit_launch_graph(w, graph, S(1));
    kit_free(w, block, freed_on[i]);
    kit_launch_graph(w, graph, S(1));
    kit_expect_none(w, block_bytes, S(2), "Releasing groups");
    kit_expect_none(w, block_bytes, S(0), "Releasing groups");
    kit_launch_graph(w, graph, S(1));
    EXPECT_OK(mend_group_destroy(group, S(1)));
    kit_alloc_used(w, block_bytes, S(2), 10);
    mend_sim_graph_destroy(w->sim, graph);
}

/* Freed only after the group's end, a block still waits for the launches before it. */
WORLD_TEST(pool_groups, a_block_that_outlives_its_group_waits_for_the_launches)
{
    mend_group *group = kit_begin_captured_group(w, S(0));
    void *block = kit_alloc_used(w, block_bytes, S(0), 1000);
    mend_sim_graph *graph = kit_end_captured_group(w, S(0), group);
    kit_launch_graph(w, graph, S(1));
    EXPECT_OK(mend_group_destroy(group, S(1)));
    EXPECT_STATS(w, groups, 0);
    kit_free(w, block, S(2));
    kit_alloc_used(w, block_bytes, S(2), 10);
    EXPECT_STATS(w, stream_waits, 1);
    mend_sim_graph_destroy(w->sim, graph);
}

/* The graph goes on using the old addresses of chunks that moved inside its group. */
WORLD_TEST(pool_groups, old_mappings_stay_until_the_release)
{
    mend_group *group = kit_begin_captured_group(w, S(0));
    kit_leave_in_flight(w, block_bytes, S(0), 1000, S(0));
    void *large = kit_alloc_aligned(w, 8 * MEND_MIB, MEND_GIB, S(0));
    kit_use(w, S(0), large, 8 * MEND_MIB, 1000);
    kit_free(w, large, S(0));
    mend_sim_graph *graph = kit_end_captured_group(w, S(0), group);
    EXPECT_TRUE(mend_world_stats(w).retired_bytes >= block_bytes);
    for (int i = 0; i < 3; i++) {
        kit_launch_graph(w, graph, S(i));
        EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_IDLE, NULL));
        kit_expect_none(w, MEND_MIB, S(1), "Releasing groups");
        EXPECT_TRUE(mend_world_stats(w).retired_bytes >= block_bytes);
        mend_sim_advance(w->sim, 10000);
    }
    kit_launch_graph(w, graph, S(2));
    EXPECT_OK(mend_group_destroy(group, S(2)));
    EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_IDLE, NULL));
    EXPECT_TRUE(mend_world_stats(w).retired_bytes >= block_bytes);
    mend_sim_advance(w->sim, 10000);
    EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_IDLE, NULL));
    EXPECT_STATS(w, retired_bytes, 0);
    EXPECT_LEDGER(w, chunk_bytes, 0);
    mend_sim_graph_destroy(w->sim, graph);
}

/* On the host where streams may not be made to wait, and for the context where none is named. */
KIT_EACH(pool_groups, released_memory_waits_for_the_launches_before, int, way, 3,
         kit_open_with(w, 8 * MEND_MIB, way == 1 ? without_stream_waits : NULL))
{
    mend_group *group;
    mend_sim_graph *graph = capture_block(w, S(0), &group);
    kit_launch_graph(w, graph, S(1));
    EXPECT_OK(mend_group_destroy(group, way == 2 ? MEND_NO_STREAM : S(1)));
    EXPECT_LEDGER(w, host_syncs, 0);
    kit_alloc_used(w, block_bytes, S(0), 10);
    EXPECT_STATS(w, stream_waits, way == 0, host_waits, way > 0);
    EXPECT_LEDGER(w, host_syncs, way > 0);
    mend_sim_graph_destroy(w->sim, graph);
}

/* The only stream the pool knows is that of the group, whose memory lies before all that is idle.
 */
KIT_TEST_IN(pool_groups, idle_memory_behind_that_of_a_group_is_for_everybody,
            kit_open_with(w, 256 * MEND_KIB, NULL))
{
    mend_group *group = kit_begin_group(w, S(0));
    kit_free(w, kit_alloc(w, 8192, S(0)), S(0));
    EXPECT_OK(mend_group_end(group));
    for (int i = 0; i < 31; i++) {
        kit_alloc_used(w, 8192, S(i % 2), 10);
    }
    kit_expect_none(w, 512, S(0), "");
}

/* More free runs of the group than a request looks at, each of the size it asks for. */
KIT_TEST_IN(pool_groups, many_holes_of_a_group_do_not_hide_what_is_idle,
            kit_open_with(w, 256 * MEND_KIB, NULL))
{
    enum { HOLES = 40 };
    void *holes[HOLES];
    mend_group *group = kit_begin_group(w, S(0));
    for (int i = 0; i < HOLES; i++) {
        holes[i] = kit_alloc(w, 4096, S(0));
        kit_alloc(w, 512, S(1));
    }
    kit_free_row(w, holes, HOLES, S(0));
    EXPECT_OK(mend_group_end(group));
    EXPECT_TRUE(kit_alloc(w, 4096, S(1)) != NULL);
    EXPECT_STATS(w, host_waits, 0);
}
