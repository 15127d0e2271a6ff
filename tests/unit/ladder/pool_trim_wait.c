/* A trim that waits for the GPU: for what is empty, for the oldest work first, and no further
 * than is needed; and never where a capture forbids it. */
#include "tests/support/graph_program.h"

#define MIB MEND_MIB

static const uint64_t block_bytes = 5 * MIB;

static uint64_t reserved_bytes(graph_program *p)
{
    return mend_world_stats(&p->world).reserved_bytes;
}

static uint64_t host_waits(graph_program *p)
{
    return mend_world_stats(&p->world).host_waits;
}

/* Frees a block on which the GPU works until then. */
static void leave_in_flight(graph_program *p, void *block, uint64_t size_bytes, int stream,
                            uint64_t duration_ns)
{
    graph_program_use(p, p->streams[stream], block, size_bytes, duration_ns);
    graph_program_free(p, block, p->streams[stream]);
}

static uint64_t trim_wait(graph_program *p, uint64_t keep_bytes)
{
    uint64_t released_bytes = 12345;
    EXPECT_RESULT(MEND_OK, mend_trim_wait(p->world.pool, keep_bytes, &released_bytes));
    mend_world_check(&p->world);
    return released_bytes;
}

/* The idle path of an engine: the last request is over for the host, and not for the GPU. */
MEND_TEST(pool_trim_wait, gives_back_what_was_freed_a_moment_ago)
{
    graph_program p;
    ASSERT_TRUE(graph_program_open(&p, 32 * MIB, NULL));
    void *block = graph_program_alloc(&p, block_bytes, p.streams[0]);
    leave_in_flight(&p, block, block_bytes, 0, 1000);
    uint64_t released_bytes = 1;
    EXPECT_RESULT(MEND_OK, mend_trim(p.world.pool, 0, &released_bytes));
    EXPECT_U64_EQ(0, released_bytes);
    EXPECT_U64_EQ(block_bytes, trim_wait(&p, 0));
    EXPECT_U64_EQ(0, reserved_bytes(&p));
    EXPECT_U64_EQ(1, host_waits(&p));
    EXPECT_U64_EQ(1000, mend_sim_now_ns(p.world.sim));
    graph_program_close(&p);
}

/* Two epochs of one stream: the first is enough. */
MEND_TEST(pool_trim_wait, waits_for_the_oldest_first_and_no_further_than_is_needed)
{
    graph_program p;
    ASSERT_TRUE(graph_program_open(&p, 32 * MIB, NULL));
    void *first = graph_program_alloc(&p, block_bytes, p.streams[0]);
    void *second = graph_program_alloc(&p, block_bytes, p.streams[0]);
    leave_in_flight(&p, first, block_bytes, 0, 1000);
    EXPECT_RESULT(MEND_OK, mend_trim(p.world.pool, 0, NULL)); /* which records a fence */
    leave_in_flight(&p, second, block_bytes, 0, 1000000);
    EXPECT_U64_EQ(block_bytes, trim_wait(&p, block_bytes));
    EXPECT_U64_EQ(1, host_waits(&p));
    EXPECT_U64_EQ(1000, mend_sim_now_ns(p.world.sim));
    EXPECT_U64_EQ(0, trim_wait(&p, block_bytes)); /* there is nothing more to do */
    EXPECT_U64_EQ(1, host_waits(&p));
    graph_program_close(&p);
}

/* The work that goes on longest uses what is not empty. */
MEND_TEST(pool_trim_wait, does_not_wait_for_what_would_give_nothing_back)
{
    graph_program p;
    ASSERT_TRUE(graph_program_open(&p, 32 * MIB, NULL));
    graph_program_alloc(&p, MIB / 4, p.streams[1]);
    void *beside = graph_program_alloc(&p, MIB / 4, p.streams[1]);
    graph_program_alloc(&p, MIB / 4, p.streams[1]);
    graph_program_alloc(&p, MIB / 4, p.streams[1]);
    void *block = graph_program_alloc(&p, block_bytes, p.streams[0]);
    leave_in_flight(&p, beside, MIB / 4, 1, 1000000);
    leave_in_flight(&p, block, block_bytes, 0, 1000);
    EXPECT_U64_EQ(block_bytes, trim_wait(&p, 0));
    EXPECT_U64_EQ(MIB, reserved_bytes(&p));
    EXPECT_U64_EQ(1, host_waits(&p));
    EXPECT_U64_EQ(1000, mend_sim_now_ns(p.world.sim));
    graph_program_close(&p);
}

MEND_TEST(pool_trim_wait, waits_for_the_context_where_no_stream_is_known)
{
    graph_program p;
    ASSERT_TRUE(graph_program_open(&p, 32 * MIB, NULL));
    void *block = graph_program_alloc(&p, block_bytes, p.streams[0]);
    graph_program_use(&p, p.streams[0], block, block_bytes, 1000);
    graph_program_free(&p, block, MEND_NO_STREAM);
    EXPECT_U64_EQ(block_bytes, trim_wait(&p, 0));
    EXPECT_U64_EQ(1, host_waits(&p));
    graph_program_close(&p);
}

/* A moved chunk is free at its new place, and its former mapping still in use. */
MEND_TEST(pool_trim_wait, waits_for_former_mappings_too)
{
    graph_program p;
    ASSERT_TRUE(graph_program_open(&p, 8 * MIB, NULL));
    void *keep = graph_program_alloc(&p, 2 * MIB, p.streams[0]);
    void *block = graph_program_alloc(&p, block_bytes, p.streams[0]);
    graph_program_use(&p, p.streams[0], block, block_bytes, 1000);
    graph_program_free(&p, block, p.streams[0]);
    ASSERT_RESULT(MEND_OK,
                  mend_alloc_aligned(p.world.pool, block_bytes, MEND_GIB, p.streams[0], &block));
    EXPECT_TRUE(mend_world_stats(&p.world).retired_bytes > 0);
    graph_program_free(&p, block, p.streams[1]); /* the other stream has nothing to do */
    EXPECT_U64_EQ(block_bytes, trim_wait(&p, 0));
    EXPECT_U64_EQ(0, mend_world_stats(&p.world).retired_bytes);
    graph_program_free(&p, keep, p.streams[0]);
    graph_program_close(&p);
}

/* A graph may be launched again at any time: nobody can wait for its last launch. */
MEND_TEST(pool_trim_wait, leaves_the_memory_of_groups_without_a_wait)
{
    graph_program p;
    ASSERT_TRUE(graph_program_open(&p, 32 * MIB, NULL));
    void *beside = graph_program_alloc(&p, MIB / 4, p.streams[1]);
    mend_group *group = graph_program_begin_group(&p, p.streams[0]);
    void *block = graph_program_alloc(&p, MIB / 4, p.streams[0]); /* in the same chunk */
    leave_in_flight(&p, block, MIB / 4, 0, 1000);
    EXPECT_RESULT(MEND_OK, mend_group_end(group));
    leave_in_flight(&p, beside, MIB / 4, 1, 1000); /* and now that is empty */
    EXPECT_U64_EQ(MIB, mend_world_stats(&p.world).free_empty_bytes);
    EXPECT_U64_EQ(0, trim_wait(&p, 0));
    EXPECT_U64_EQ(0, host_waits(&p));
    EXPECT_RESULT(MEND_OK, mend_group_release(group, p.streams[0]));
    EXPECT_U64_EQ(MIB, trim_wait(&p, 0));
    graph_program_close(&p);
}

/* And says so, instead of giving nothing back without a word. */
MEND_TEST(pool_trim_wait, a_capture_that_is_known_forbids_it)
{
    graph_program p;
    ASSERT_TRUE(graph_program_open(&p, 32 * MIB, NULL));
    void *block = graph_program_alloc(&p, block_bytes, p.streams[1]);
    leave_in_flight(&p, block, block_bytes, 1, 1000);
    mend_group *group = graph_program_begin_group(&p, p.streams[0]);
    graph_program_begin_capture(&p, p.streams[0]);
    uint64_t released_bytes = 77;
    EXPECT_RESULT(MEND_ERROR_CAPTURING, mend_trim_wait(p.world.pool, 0, &released_bytes));
    EXPECT_U64_EQ(77, released_bytes);
    EXPECT_U64_EQ(0, host_waits(&p));
    EXPECT_U64_EQ(0, trim_wait(&p, block_bytes)); /* little enough is reserved */
    mend_sim_graph *graph = graph_program_end_capture(&p, p.streams[0]);
    mend_sim_graph_destroy(p.world.sim, graph);
    EXPECT_RESULT(MEND_OK, mend_group_end(group));
    EXPECT_U64_EQ(block_bytes, trim_wait(&p, 0));
    graph_program_close(&p);
}

/* Only the driver's refusal tells of it. */
MEND_TEST(pool_trim_wait, a_capture_that_is_unknown_forbids_to_wait_for_the_context)
{
    graph_program p;
    ASSERT_TRUE(graph_program_open(&p, 32 * MIB, NULL));
    void *block = graph_program_alloc(&p, block_bytes, p.streams[1]);
    graph_program_use(&p, p.streams[1], block, block_bytes, 1000);
    graph_program_free(&p, block, MEND_NO_STREAM);
    mend_sim_fault fault = MEND_SIM_FAULT_INIT;
    fault.call = "context_synchronize";
    fault.status = MEND_DRIVER_CAPTURE_UNSUPPORTED;
    EXPECT_RESULT(MEND_OK, mend_sim_fail(p.world.sim, &fault));
    uint64_t released_bytes = 77;
    EXPECT_RESULT(MEND_ERROR_CAPTURING, mend_trim_wait(p.world.pool, 0, &released_bytes));
    EXPECT_U64_EQ(77, released_bytes);
    EXPECT_U64_EQ(0, host_waits(&p));
    EXPECT_U64_EQ(block_bytes, trim_wait(&p, 0));
    graph_program_close(&p);
}

MEND_TEST(pool_trim_wait, mistakes_have_their_errors)
{
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_trim_wait(NULL, 0, NULL));
    graph_program p;
    ASSERT_TRUE(graph_program_open(&p, 32 * MIB, NULL));
    EXPECT_RESULT(MEND_OK, mend_trim_wait(p.world.pool, 0, NULL)); /* of an empty pool */
    graph_program_close(&p);
}
