/* The calls about groups: which group takes a request, users, and the end. */
#include "tests/support/kit.h"

/* The number of the block's group, seen by which streams may use its memory again: 1 MiB blocks,
 * one chunk each, come back to the same place in their own group only. */
static bool returns_to(mend_world *w, void *block, mend_stream stream)
{
    void *again = kit_alloc(w, MEND_MIB, stream);
    kit_free(w, again, stream);
    return again == block;
}

KIT_TEST_IN(pool_group_calls, the_group_begun_last_takes_the_stream,
            kit_open_with(w, 64 * MEND_MIB, NULL))
{
    mend_stream stream = S(0);
    mend_group *outer = kit_begin_group(w, MEND_EVERY_STREAM);
    void *of_outer = kit_alloc(w, MEND_MIB, stream);
    kit_free(w, of_outer, stream);
    mend_group *inner = kit_begin_group(w, stream);
    void *of_inner = kit_alloc(w, MEND_MIB, stream);
    EXPECT_TRUE(of_inner != of_outer);
    kit_free(w, of_inner, stream);
    EXPECT_TRUE(returns_to(w, of_inner, stream));
    EXPECT_FALSE(returns_to(w, of_inner, S(1))); /* the outer one takes it */
    EXPECT_OK(mend_group_end(inner));
    EXPECT_TRUE(returns_to(w, of_outer, stream));
    EXPECT_OK(mend_group_begin(inner, stream));
    EXPECT_TRUE(returns_to(w, of_inner, stream));
    EXPECT_OK(mend_group_end(outer)); /* in any order */
    EXPECT_TRUE(returns_to(w, of_inner, stream));
    EXPECT_OK(mend_group_end(inner));
    void *eager = kit_alloc(w, MEND_MIB, stream);
    EXPECT_TRUE(eager != of_inner && eager != of_outer);
}

KIT_EACH(pool_group_calls, default_streams_are_known_by_all_their_names, int, i, 3,
         kit_open_with(w, 64 * MEND_MIB, NULL))
{
    const mend_stream legacy = (mend_stream)(uintptr_t)1;
    const mend_stream begun[] = {NULL, legacy, KIT_PER_THREAD};
    const mend_stream used[] = {legacy, NULL, KIT_PER_THREAD};
    mend_group *group = kit_begin_group(w, begun[i]);
    void *block = kit_alloc(w, MEND_MIB, used[i]);
    kit_free(w, block, begun[i]);
    EXPECT_TRUE(returns_to(w, block, used[i]));
    EXPECT_FALSE(returns_to(w, block, S(0)));
    EXPECT_OK(mend_group_end(group));
    EXPECT_FALSE(returns_to(w, block, used[i]));
    EXPECT_OK(mend_group_destroy(group, used[i]));
}

KIT_EACH(pool_group_calls, a_recorded_user_holds_a_block_of_a_group, int, inside, 2,
         kit_open_with(w, 64 * MEND_MIB, NULL))
{
    mend_stream stream = S(0);
    mend_group *group = kit_begin_group(w, inside ? MEND_EVERY_STREAM : stream);
    void *block = kit_alloc(w, MEND_MIB, stream);
    EXPECT_OK(mend_record_stream(w->pool, block, S(1)));
    EXPECT_OK(mend_record_stream(w->pool, block, S(1)));
    kit_use(w, S(1), block, MEND_MIB, 1000);
    kit_free(w, block, stream);
    EXPECT_FALSE(returns_to(w, block, stream));
    EXPECT_FALSE(returns_to(w, block, S(1)));
    kit_end_group(group, S(1));
    mend_sim_advance(w->sim, 10000);
    void *all = kit_alloc(w, 64 * MEND_MIB, stream);
    EXPECT_TRUE(all != NULL);
    EXPECT_STATS(w, host_waits, 0);
}

/* Two groups were begun on it: no request asks for it any more. */
KIT_TEST_IN(pool_group_calls, a_forgotten_stream_is_watched_by_no_group,
            kit_open_with(w, 8 * MEND_MIB, NULL))
{
    mend_group *groups[2] = {kit_begin_group(w, S(0)), kit_begin_group(w, S(0))};
    kit_free(w, kit_alloc(w, MEND_MIB, S(1)), S(1));
    kit_end_stream(w, S(0));
    mend_sim_advance(w->sim, 1000);
    EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_IDLE, NULL));
    EXPECT_STATS(w, reserved_bytes, 0);
    EXPECT_OK(mend_sim_stream_create(w->sim, NULL, &S(0)));
    for (int i = 0; i < 2; i++) {
        EXPECT_OK(mend_group_end(groups[i]));
        EXPECT_OK(mend_group_destroy(groups[i], MEND_NO_STREAM));
    }
}
