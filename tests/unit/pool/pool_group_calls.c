/* The calls about groups: which group takes a request, mistakes, failures, and the end. */
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/child.h"
#include "tests/support/graph_program.h"
#include "tests/support/host_memory.h"

#define MIB MEND_MIB

static const uint64_t block_bytes = 5 * MIB;

/* A group that holds 5 MiB of a device of 8 MiB, 3 of which are in use. */
static mend_group *make_full(graph_program *p)
{
    graph_program_alloc(p, 3 * MIB, p->streams[2]);
    mend_group *group = graph_program_begin_group(p, p->streams[0]);
    void *block = graph_program_alloc(p, block_bytes, p->streams[0]);
    graph_program_free(p, block, p->streams[0]);
    EXPECT_RESULT(MEND_OK, mend_group_end(group));
    return group;
}

/* What it holds is its own, and it works. */
static void check_group(graph_program *p, mend_group *group)
{
    graph_program_expect_none(p, block_bytes, p->streams[1], "Releasing groups");
    EXPECT_U64_EQ(1, mend_world_stats(&p->world).groups);
    EXPECT_RESULT(MEND_OK, mend_group_begin(group, p->streams[0]));
    void *block = graph_program_alloc(p, block_bytes, p->streams[0]);
    graph_program_free(p, block, p->streams[0]);
    EXPECT_RESULT(MEND_OK, mend_group_end(group));
}

static mend_result fail_at(graph_program *p, mend_group *group, mend_stream stream,
                           uint64_t position)
{
    mend_sim_fault fault = MEND_SIM_FAULT_INIT;
    fault.status = 999;
    fault.after_calls = position;
    EXPECT_RESULT(MEND_OK, mend_sim_fail(p->world.sim, &fault));
    uint64_t before = mend_sim_call_count(p->world.sim);
    mend_result result = mend_group_release(group, stream);
    if (mend_sim_call_count(p->world.sim) - before <= position) {
        result = MEND_OK; /* over before the fault */
        EXPECT_U64_EQ(0, mend_world_stats(&p->world).groups);
    }
    mend_sim_clear_faults(p->world.sim);
    return result;
}

/* Three streams of the group, so that the failure comes between its fences too. */
MEND_TEST(pool_group_calls, a_release_that_the_driver_refuses_changes_nothing)
{
    graph_program p;
    ASSERT_TRUE(graph_program_open(&p, 8 * MIB, NULL));
    mend_group *group = make_full(&p);
    for (int i = 1; i < PROGRAM_STREAMS; i++) {
        EXPECT_RESULT(MEND_OK, mend_group_begin(group, p.streams[i]));
        graph_program_expect_none(&p, block_bytes, p.streams[i], "Releasing groups");
        EXPECT_RESULT(MEND_OK, mend_group_end(group));
    }
    uint64_t failed = 0;
    uint64_t position = 0;
    for (; position < 100 && mend_world_stats(&p.world).groups == 1; position++) {
        mend_result result = fail_at(&p, group, p.streams[1], position);
        if (mend_world_stats(&p.world).groups == 1) {
            EXPECT_TRUE(result != MEND_OK);
            failed++;
            check_group(&p, group);
        }
    }
    EXPECT_TRUE(failed >= 6); /* the door, the stream asked, an event made and recorded */
    EXPECT_TRUE(graph_program_alloc(&p, block_bytes, p.streams[2]) != NULL);
    graph_program_close(&p);
}

MEND_TEST(pool_group_calls, a_release_without_host_memory_changes_nothing)
{
    mend_unwatched_driver driver;
    graph_program p = {0};
    mend_world_init(&p.world);
    p.world.sim_config.memory_bytes = 8 * MIB;
    ASSERT_TRUE(mend_world_open_device(&p.world));
    mend_unwatched_driver_init(&driver, mend_sim_driver(p.world.sim));
    ASSERT_TRUE(mend_world_open_pool(&p.world, &driver.table));
    for (int i = 0; i < PROGRAM_STREAMS; i++) {
        EXPECT_RESULT(MEND_OK, mend_sim_stream_create(p.world.sim, &p.streams[i]));
    }
    mend_group *group = make_full(&p);
    uint64_t failed = 0;
    for (mend_result result = MEND_ERROR_OUT_OF_HOST_MEMORY; result != MEND_OK; failed++) {
        mend_test_fail_host_memory_after(failed, 1);
        mend_test_watch_host_memory(true);
        result = mend_group_release(group, p.streams[2]);
        mend_test_watch_host_memory(false);
        mend_test_heal_host_memory();
        if (result != MEND_OK) {
            ASSERT_RESULT(MEND_ERROR_OUT_OF_HOST_MEMORY, result);
            check_group(&p, group);
        }
    }
    EXPECT_TRUE(failed > 1);
    EXPECT_TRUE(graph_program_alloc(&p, block_bytes, p.streams[2]) != NULL);
    mend_world_check(&p.world);
    mend_world_close(&p.world);
}

/* The number of the block's group, told by who may use its memory again: 1 MiB blocks, one chunk
 * each, come back to the same place in their own group only. */
static bool returns_to(graph_program *p, void *block, mend_stream stream)
{
    void *again = graph_program_alloc(p, MIB, stream);
    graph_program_free(p, again, stream);
    return again == block;
}

MEND_TEST(pool_group_calls, the_group_begun_last_takes_the_stream)
{
    graph_program p;
    ASSERT_TRUE(graph_program_open(&p, 64 * MIB, NULL));
    mend_stream stream = p.streams[0];
    mend_group *outer = graph_program_begin_group(&p, MEND_EVERY_STREAM);
    void *of_outer = graph_program_alloc(&p, MIB, stream);
    graph_program_free(&p, of_outer, stream);
    mend_group *inner = graph_program_begin_group(&p, stream);
    void *of_inner = graph_program_alloc(&p, MIB, stream);
    EXPECT_TRUE(of_inner != of_outer);
    graph_program_free(&p, of_inner, stream);
    EXPECT_TRUE(returns_to(&p, of_inner, stream));
    EXPECT_FALSE(returns_to(&p, of_inner, p.streams[1])); /* the outer one takes it */
    EXPECT_RESULT(MEND_OK, mend_group_end(inner));
    EXPECT_TRUE(returns_to(&p, of_outer, stream));
    EXPECT_RESULT(MEND_OK, mend_group_begin(inner, stream));
    EXPECT_TRUE(returns_to(&p, of_inner, stream));
    EXPECT_RESULT(MEND_OK, mend_group_end(outer)); /* in any order */
    EXPECT_TRUE(returns_to(&p, of_inner, stream));
    EXPECT_RESULT(MEND_OK, mend_group_end(inner));
    void *eager = graph_program_alloc(&p, MIB, stream);
    EXPECT_TRUE(eager != of_inner && eager != of_outer);
    graph_program_close(&p);
}

MEND_TEST(pool_group_calls, default_streams_are_known_by_all_their_names)
{
    const mend_stream legacy = (mend_stream)(uintptr_t)1;
    const mend_stream begun[] = {NULL, legacy, PROGRAM_PER_THREAD};
    const mend_stream used[] = {legacy, NULL, PROGRAM_PER_THREAD};
    for (int i = 0; i < 3; i++) {
        graph_program p;
        ASSERT_TRUE(graph_program_open(&p, 64 * MIB, NULL));
        mend_group *group = graph_program_begin_group(&p, begun[i]);
        void *block = graph_program_alloc(&p, MIB, used[i]);
        graph_program_free(&p, block, begun[i]);
        EXPECT_TRUE(returns_to(&p, block, used[i]));
        EXPECT_FALSE(returns_to(&p, block, p.streams[0]));
        EXPECT_RESULT(MEND_OK, mend_group_end(group));
        EXPECT_FALSE(returns_to(&p, block, used[i]));
        EXPECT_RESULT(MEND_OK, mend_group_release(group, used[i]));
        graph_program_close(&p);
    }
}

/* Other blocks are freed as ever, also on a stream that a group takes. */
MEND_TEST(pool_group_calls, a_block_of_no_group_is_freed_as_ever)
{
    graph_program p;
    ASSERT_TRUE(graph_program_open(&p, 8 * MIB, NULL));
    void *block = graph_program_alloc(&p, block_bytes, p.streams[0]);
    mend_group *group = graph_program_begin_group(&p, p.streams[0]);
    graph_program_free(&p, block, p.streams[0]);
    EXPECT_PTR_EQ(block, graph_program_alloc(&p, block_bytes, p.streams[1]));
    EXPECT_RESULT(MEND_OK, mend_group_end(group));
    graph_program_close(&p);
}

/* A user declared for a block of a group, in the group or outside, holds it. */
MEND_TEST(pool_group_calls, a_recorded_user_holds_a_block_of_a_group)
{
    for (int inside = 0; inside < 2; inside++) {
        graph_program p;
        ASSERT_TRUE(graph_program_open(&p, 64 * MIB, NULL));
        mend_stream stream = p.streams[0];
        mend_group *group = graph_program_begin_group(&p, inside ? MEND_EVERY_STREAM : stream);
        void *block = graph_program_alloc(&p, MIB, stream);
        EXPECT_RESULT(MEND_OK, mend_record_stream(p.world.pool, block, p.streams[1]));
        EXPECT_RESULT(MEND_OK, mend_record_stream(p.world.pool, block, p.streams[1]));
        graph_program_use(&p, p.streams[1], block, MIB, 1000);
        graph_program_free(&p, block, stream);
        EXPECT_FALSE(returns_to(&p, block, stream));
        EXPECT_FALSE(returns_to(&p, block, p.streams[1]));
        EXPECT_RESULT(MEND_OK, mend_group_end(group));
        EXPECT_RESULT(MEND_OK, mend_group_release(group, p.streams[1]));
        mend_sim_advance(p.world.sim, 10000);
        void *all = graph_program_alloc(&p, 64 * MIB, stream);
        EXPECT_TRUE(all != NULL);
        EXPECT_U64_EQ(0, mend_world_stats(&p.world).host_waits);
        graph_program_close(&p);
    }
}

MEND_TEST(pool_group_calls, mistakes_are_refused)
{
    graph_program p;
    ASSERT_TRUE(graph_program_open(&p, 64 * MIB, NULL));
    mend_pool *pool = p.world.pool;
    mend_group *group = NULL;
    void *pointer = NULL;
    const mend_result invalid = MEND_ERROR_INVALID_ARGUMENT;
    EXPECT_RESULT(invalid, mend_group_create(NULL, &group));
    EXPECT_RESULT(invalid, mend_group_create(pool, NULL));
    EXPECT_RESULT(invalid, mend_group_begin(NULL, NULL));
    EXPECT_RESULT(invalid, mend_group_end(NULL));
    EXPECT_RESULT(invalid, mend_group_release(NULL, NULL));
    EXPECT_RESULT(MEND_OK, mend_group_create(pool, &group));
    EXPECT_RESULT(invalid, mend_group_end(group));
    EXPECT_RESULT(invalid, mend_group_begin(group, MEND_NO_STREAM));
    EXPECT_RESULT(MEND_OK, mend_group_begin(group, p.streams[0]));
    EXPECT_RESULT(invalid, mend_group_begin(group, p.streams[1]));
    EXPECT_RESULT(invalid, mend_group_release(group, p.streams[0]));
    EXPECT_RESULT(MEND_OK, mend_group_end(group));
    EXPECT_RESULT(invalid, mend_group_release(group, MEND_EVERY_STREAM));
    EXPECT_RESULT(invalid, mend_alloc(pool, 512, MEND_EVERY_STREAM, &pointer));
    EXPECT_RESULT(MEND_OK, mend_alloc(pool, 512, p.streams[0], &pointer));
    EXPECT_RESULT(invalid, mend_free(pool, pointer, MEND_EVERY_STREAM));
    EXPECT_RESULT(invalid, mend_record_stream(pool, pointer, MEND_EVERY_STREAM));
    EXPECT_RESULT(invalid, mend_forget_stream(pool, MEND_EVERY_STREAM));
    EXPECT_U64_EQ(1, mend_world_stats(&p.world).groups);
    EXPECT_RESULT(MEND_OK, mend_group_release(group, p.streams[0]));
    EXPECT_U64_EQ(0, mend_world_stats(&p.world).groups);
    graph_program_close(&p);
}

MEND_TEST(pool_group_calls, groups_end_with_their_pool)
{
    graph_program p;
    ASSERT_TRUE(graph_program_open(&p, 64 * MIB, NULL));
    graph_program_begin_group(&p, p.streams[0]);
    mend_group *ended = graph_program_begin_group(&p, MEND_EVERY_STREAM);
    graph_program_alloc(&p, MIB, p.streams[0]);
    graph_program_alloc(&p, MIB, p.streams[1]);
    graph_program_free(&p, graph_program_alloc(&p, MIB, p.streams[1]), p.streams[1]);
    EXPECT_RESULT(MEND_OK, mend_group_end(ended));
    EXPECT_U64_EQ(2, mend_world_stats(&p.world).groups);
    graph_program_close(&p);
}

static bool is_refused_in_a_child(mend_pool *pool, mend_group *group, mend_group *begun)
{
    mend_group *made = NULL;
    return mend_group_create(pool, &made) == MEND_ERROR_FORKED && made == NULL &&
           mend_group_begin(group, NULL) == MEND_ERROR_FORKED &&
           mend_group_end(begun) == MEND_ERROR_FORKED &&
           mend_group_release(group, NULL) == MEND_ERROR_FORKED &&
           mend_group_release(group, MEND_NO_STREAM) == MEND_ERROR_FORKED;
}

MEND_TEST(pool_group_calls, a_child_of_fork_has_no_groups)
{
    graph_program p;
    ASSERT_TRUE(graph_program_open(&p, 64 * MIB, NULL));
    mend_group *group = NULL;
    EXPECT_RESULT(MEND_OK, mend_group_create(p.world.pool, &group));
    mend_group *begun = graph_program_begin_group(&p, p.streams[0]);
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        mend_test_end_child(is_refused_in_a_child(p.world.pool, group, begun));
    }
    int status = 0;
    EXPECT_TRUE(child > 0 && waitpid(child, &status, 0) == child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    EXPECT_RESULT(MEND_OK, mend_group_end(begun));
    EXPECT_RESULT(MEND_OK, mend_group_release(group, NULL));
    graph_program_close(&p);
}

/* Two groups were begun on it: no request asks for it any more. */
MEND_TEST(pool_group_calls, a_forgotten_stream_is_watched_by_no_group)
{
    graph_program p;
    ASSERT_TRUE(graph_program_open(&p, 8 * MIB, NULL));
    mend_group *groups[2] = {graph_program_begin_group(&p, p.streams[0]),
                             graph_program_begin_group(&p, p.streams[0])};
    graph_program_free(&p, graph_program_alloc(&p, MIB, p.streams[1]), p.streams[1]);
    EXPECT_RESULT(MEND_OK, mend_forget_stream(p.world.pool, p.streams[0]));
    EXPECT_RESULT(MEND_OK, mend_sim_stream_destroy(p.world.sim, p.streams[0]));
    mend_sim_advance(p.world.sim, 1000);
    EXPECT_RESULT(MEND_OK, mend_trim(p.world.pool, 0, NULL));
    EXPECT_U64_EQ(0, mend_world_stats(&p.world).reserved_bytes);
    EXPECT_RESULT(MEND_OK, mend_sim_stream_create(p.world.sim, &p.streams[0]));
    for (int i = 0; i < 2; i++) {
        EXPECT_RESULT(MEND_OK, mend_group_end(groups[i]));
        EXPECT_RESULT(MEND_OK, mend_group_release(groups[i], MEND_NO_STREAM));
    }
    graph_program_close(&p);
}
