/* The calls about groups: which group takes a request, mistakes, failures, and the end. */
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/child.h"
#include "tests/support/host_memory.h"
#include "tests/support/kit.h"

static const uint64_t block_bytes = 5 * MEND_MIB;

/* A group that holds 5 MiB of a device of 8 MiB, 3 of which are in use. */
static mend_group *make_full(mend_world *w)
{
    kit_alloc(w, 3 * MEND_MIB, w->streams[2]);
    mend_group *group = kit_begin_group(w, w->streams[0]);
    void *block = kit_alloc(w, block_bytes, w->streams[0]);
    kit_free(w, block, w->streams[0]);
    EXPECT_RESULT(MEND_OK, mend_group_end(group));
    return group;
}

/* What it holds is its own, and it works. */
static void check_group(mend_world *w, mend_group *group)
{
    kit_expect_none(w, block_bytes, w->streams[1], "Releasing groups");
    EXPECT_U64_EQ(1, mend_world_stats(w).groups);
    EXPECT_RESULT(MEND_OK, mend_group_begin(group, w->streams[0]));
    void *block = kit_alloc(w, block_bytes, w->streams[0]);
    kit_free(w, block, w->streams[0]);
    EXPECT_RESULT(MEND_OK, mend_group_end(group));
}

static mend_result fail_at(mend_world *w, mend_group *group, mend_stream stream, uint64_t position)
{
    kit_fail(w, NULL, position, 0, 999);
    uint64_t before = mend_sim_call_count(w->sim);
    mend_result result = mend_group_release(group, stream);
    if (mend_sim_call_count(w->sim) - before <= position) {
        result = MEND_OK; /* over before the fault */
        EXPECT_U64_EQ(0, mend_world_stats(w).groups);
    }
    mend_sim_clear_faults(w->sim);
    return result;
}

/* Three streams of the group, so that the failure comes between its fences too. */
MEND_TEST(pool_group_calls, a_release_that_the_driver_refuses_changes_nothing)
{
    mend_world w;
    ASSERT_TRUE(kit_open_with(&w, 8 * MEND_MIB, NULL));
    mend_group *group = make_full(&w);
    for (int i = 1; i < MEND_WORLD_STREAMS; i++) {
        EXPECT_RESULT(MEND_OK, mend_group_begin(group, w.streams[i]));
        kit_expect_none(&w, block_bytes, w.streams[i], "Releasing groups");
        EXPECT_RESULT(MEND_OK, mend_group_end(group));
    }
    uint64_t failed = 0;
    uint64_t position = 0;
    for (; position < 100 && mend_world_stats(&w).groups == 1; position++) {
        mend_result result = fail_at(&w, group, w.streams[1], position);
        if (mend_world_stats(&w).groups == 1) {
            EXPECT_TRUE(result != MEND_OK);
            failed++;
            check_group(&w, group);
        }
    }
    EXPECT_TRUE(failed >= 6); /* the door, the stream asked, an event made and recorded */
    EXPECT_TRUE(kit_alloc(&w, block_bytes, w.streams[2]) != NULL);
    kit_close(&w);
}

MEND_TEST(pool_group_calls, a_release_without_host_memory_changes_nothing)
{
    mend_unwatched_driver driver;
    mend_world w = {0};
    mend_world_init(&w);
    w.sim_config.memory_bytes = 8 * MEND_MIB;
    ASSERT_TRUE(mend_world_open_device(&w));
    mend_unwatched_driver_init(&driver, mend_sim_driver(w.sim));
    ASSERT_TRUE(mend_world_open_pool(&w, &driver.table));
    for (int i = 0; i < MEND_WORLD_STREAMS; i++) {
        EXPECT_RESULT(MEND_OK, mend_sim_stream_create(w.sim, &w.streams[i]));
    }
    mend_group *group = make_full(&w);
    uint64_t failed = 0;
    for (mend_result result = MEND_ERROR_OUT_OF_HOST_MEMORY; result != MEND_OK; failed++) {
        mend_test_fail_host_memory_after(failed, 1);
        mend_test_watch_host_memory(true);
        result = mend_group_release(group, w.streams[2]);
        mend_test_watch_host_memory(false);
        mend_test_heal_host_memory();
        if (result != MEND_OK) {
            ASSERT_RESULT(MEND_ERROR_OUT_OF_HOST_MEMORY, result);
            check_group(&w, group);
        }
    }
    EXPECT_TRUE(failed > 1);
    EXPECT_TRUE(kit_alloc(&w, block_bytes, w.streams[2]) != NULL);
    kit_close(&w);
}

/* The number of the block's group, seen by which streams may use its memory again: 1 MiB blocks,
 * one chunk each, come back to the same place in their own group only. */
static bool returns_to(mend_world *w, void *block, mend_stream stream)
{
    void *again = kit_alloc(w, MEND_MIB, stream);
    kit_free(w, again, stream);
    return again == block;
}

MEND_TEST(pool_group_calls, the_group_begun_last_takes_the_stream)
{
    mend_world w;
    ASSERT_TRUE(kit_open_with(&w, 64 * MEND_MIB, NULL));
    mend_stream stream = w.streams[0];
    mend_group *outer = kit_begin_group(&w, MEND_EVERY_STREAM);
    void *of_outer = kit_alloc(&w, MEND_MIB, stream);
    kit_free(&w, of_outer, stream);
    mend_group *inner = kit_begin_group(&w, stream);
    void *of_inner = kit_alloc(&w, MEND_MIB, stream);
    EXPECT_TRUE(of_inner != of_outer);
    kit_free(&w, of_inner, stream);
    EXPECT_TRUE(returns_to(&w, of_inner, stream));
    EXPECT_FALSE(returns_to(&w, of_inner, w.streams[1])); /* the outer one takes it */
    EXPECT_RESULT(MEND_OK, mend_group_end(inner));
    EXPECT_TRUE(returns_to(&w, of_outer, stream));
    EXPECT_RESULT(MEND_OK, mend_group_begin(inner, stream));
    EXPECT_TRUE(returns_to(&w, of_inner, stream));
    EXPECT_RESULT(MEND_OK, mend_group_end(outer)); /* in any order */
    EXPECT_TRUE(returns_to(&w, of_inner, stream));
    EXPECT_RESULT(MEND_OK, mend_group_end(inner));
    void *eager = kit_alloc(&w, MEND_MIB, stream);
    EXPECT_TRUE(eager != of_inner && eager != of_outer);
    kit_close(&w);
}

MEND_TEST(pool_group_calls, default_streams_are_known_by_all_their_names)
{
    const mend_stream legacy = (mend_stream)(uintptr_t)1;
    const mend_stream begun[] = {NULL, legacy, KIT_PER_THREAD};
    const mend_stream used[] = {legacy, NULL, KIT_PER_THREAD};
    for (int i = 0; i < 3; i++) {
        mend_world w;
        ASSERT_TRUE(kit_open_with(&w, 64 * MEND_MIB, NULL));
        mend_group *group = kit_begin_group(&w, begun[i]);
        void *block = kit_alloc(&w, MEND_MIB, used[i]);
        kit_free(&w, block, begun[i]);
        EXPECT_TRUE(returns_to(&w, block, used[i]));
        EXPECT_FALSE(returns_to(&w, block, w.streams[0]));
        EXPECT_RESULT(MEND_OK, mend_group_end(group));
        EXPECT_FALSE(returns_to(&w, block, used[i]));
        EXPECT_RESULT(MEND_OK, mend_group_release(group, used[i]));
        kit_close(&w);
    }
}

/* Other blocks are freed as ever, also on a stream that a group takes. */
MEND_TEST(pool_group_calls, a_block_of_no_group_is_freed_as_ever)
{
    mend_world w;
    ASSERT_TRUE(kit_open_with(&w, 8 * MEND_MIB, NULL));
    void *block = kit_alloc(&w, block_bytes, w.streams[0]);
    mend_group *group = kit_begin_group(&w, w.streams[0]);
    kit_free(&w, block, w.streams[0]);
    EXPECT_PTR_EQ(block, kit_alloc(&w, block_bytes, w.streams[1]));
    EXPECT_RESULT(MEND_OK, mend_group_end(group));
    kit_close(&w);
}

/* A user declared for a block of a group, in the group or outside, holds it. */
MEND_TEST(pool_group_calls, a_recorded_user_holds_a_block_of_a_group)
{
    for (int inside = 0; inside < 2; inside++) {
        mend_world w;
        ASSERT_TRUE(kit_open_with(&w, 64 * MEND_MIB, NULL));
        mend_stream stream = w.streams[0];
        mend_group *group = kit_begin_group(&w, inside ? MEND_EVERY_STREAM : stream);
        void *block = kit_alloc(&w, MEND_MIB, stream);
        EXPECT_RESULT(MEND_OK, mend_record_stream(w.pool, block, w.streams[1]));
        EXPECT_RESULT(MEND_OK, mend_record_stream(w.pool, block, w.streams[1]));
        kit_use(&w, w.streams[1], block, MEND_MIB, 1000);
        kit_free(&w, block, stream);
        EXPECT_FALSE(returns_to(&w, block, stream));
        EXPECT_FALSE(returns_to(&w, block, w.streams[1]));
        EXPECT_RESULT(MEND_OK, mend_group_end(group));
        EXPECT_RESULT(MEND_OK, mend_group_release(group, w.streams[1]));
        mend_sim_advance(w.sim, 10000);
        void *all = kit_alloc(&w, 64 * MEND_MIB, stream);
        EXPECT_TRUE(all != NULL);
        EXPECT_U64_EQ(0, mend_world_stats(&w).host_waits);
        kit_close(&w);
    }
}

MEND_TEST(pool_group_calls, mistakes_are_refused)
{
    mend_world w;
    ASSERT_TRUE(kit_open_with(&w, 64 * MEND_MIB, NULL));
    mend_pool *pool = w.pool;
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
    EXPECT_RESULT(MEND_OK, mend_group_begin(group, w.streams[0]));
    EXPECT_RESULT(invalid, mend_group_begin(group, w.streams[1]));
    EXPECT_RESULT(invalid, mend_group_release(group, w.streams[0]));
    EXPECT_RESULT(MEND_OK, mend_group_end(group));
    EXPECT_RESULT(invalid, mend_group_release(group, MEND_EVERY_STREAM));
    EXPECT_RESULT(invalid, mend_alloc(pool, 512, MEND_EVERY_STREAM, &pointer));
    EXPECT_RESULT(MEND_OK, mend_alloc(pool, 512, w.streams[0], &pointer));
    EXPECT_RESULT(invalid, mend_free(pool, pointer, MEND_EVERY_STREAM));
    EXPECT_RESULT(invalid, mend_record_stream(pool, pointer, MEND_EVERY_STREAM));
    EXPECT_RESULT(invalid, mend_forget_stream(pool, MEND_EVERY_STREAM));
    EXPECT_U64_EQ(1, mend_world_stats(&w).groups);
    EXPECT_RESULT(MEND_OK, mend_group_release(group, w.streams[0]));
    EXPECT_U64_EQ(0, mend_world_stats(&w).groups);
    kit_close(&w);
}

MEND_TEST(pool_group_calls, groups_end_with_their_pool)
{
    mend_world w;
    ASSERT_TRUE(kit_open_with(&w, 64 * MEND_MIB, NULL));
    kit_begin_group(&w, w.streams[0]);
    mend_group *ended = kit_begin_group(&w, MEND_EVERY_STREAM);
    kit_alloc(&w, MEND_MIB, w.streams[0]);
    kit_alloc(&w, MEND_MIB, w.streams[1]);
    kit_free(&w, kit_alloc(&w, MEND_MIB, w.streams[1]), w.streams[1]);
    EXPECT_RESULT(MEND_OK, mend_group_end(ended));
    EXPECT_U64_EQ(2, mend_world_stats(&w).groups);
    kit_close(&w);
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
    mend_world w;
    ASSERT_TRUE(kit_open_with(&w, 64 * MEND_MIB, NULL));
    mend_group *group = NULL;
    EXPECT_RESULT(MEND_OK, mend_group_create(w.pool, &group));
    mend_group *begun = kit_begin_group(&w, w.streams[0]);
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        mend_test_end_child(is_refused_in_a_child(w.pool, group, begun));
    }
    int status = 0;
    EXPECT_TRUE(child > 0 && waitpid(child, &status, 0) == child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    EXPECT_RESULT(MEND_OK, mend_group_end(begun));
    EXPECT_RESULT(MEND_OK, mend_group_release(group, NULL));
    kit_close(&w);
}

/* Two groups were begun on it: no request asks for it any more. */
MEND_TEST(pool_group_calls, a_forgotten_stream_is_watched_by_no_group)
{
    mend_world w;
    ASSERT_TRUE(kit_open_with(&w, 8 * MEND_MIB, NULL));
    mend_group *groups[2] = {kit_begin_group(&w, w.streams[0]), kit_begin_group(&w, w.streams[0])};
    kit_free(&w, kit_alloc(&w, MEND_MIB, w.streams[1]), w.streams[1]);
    EXPECT_RESULT(MEND_OK, mend_forget_stream(w.pool, w.streams[0]));
    EXPECT_RESULT(MEND_OK, mend_sim_stream_destroy(w.sim, w.streams[0]));
    mend_sim_advance(w.sim, 1000);
    EXPECT_RESULT(MEND_OK, mend_trim(w.pool, 0, NULL));
    EXPECT_U64_EQ(0, mend_world_stats(&w).reserved_bytes);
    EXPECT_RESULT(MEND_OK, mend_sim_stream_create(w.sim, &w.streams[0]));
    for (int i = 0; i < 2; i++) {
        EXPECT_RESULT(MEND_OK, mend_group_end(groups[i]));
        EXPECT_RESULT(MEND_OK, mend_group_release(groups[i], MEND_NO_STREAM));
    }
    kit_close(&w);
}
