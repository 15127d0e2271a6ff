/* A wake that finds no room changes nothing, says what is lacking, and works when there is room. */
#include "tests/unit/sleep/sleep_rig.h"

static void expect_asleep(sleep_rig *r)
{
    for (int i = 0; i < SLEEP_BLOCKS; i++) {
        EXPECT_TRUE(sleep_rig_sleeps(r, i));
    }
    EXPECT_U64_EQ(SLEEP_BLOCKS * SLEEP_BLOCK, mend_world_stats(&r->w).kept_host_bytes);
    EXPECT_U64_EQ(0, mend_world_stats(&r->w).wakes);
    EXPECT_TRUE(mend_world_check(&r->w));
}

MEND_TEST(pool_sleep_room, others_took_the_memory_of_the_device)
{
    sleep_rig r;
    ASSERT_TRUE(sleep_rig_open(&r));
    EXPECT_RESULT(MEND_OK, mend_sleep(r.w.pool, NULL, NULL));
    mend_sim_set_foreign_bytes(r.w.sim, 0, 64 * MEND_MIB - 3 * SLEEP_BLOCK);
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY, mend_wake(r.w.pool, NULL, 0, NULL));
    kit_expect_words("the device lacks 5.00 MiB");
    expect_asleep(&r);
    EXPECT_U64_EQ(0, mend_world_stats(&r.w).reserved_bytes);
    mend_sim_set_foreign_bytes(r.w.sim, 0, 0);
    EXPECT_RESULT(MEND_OK, mend_wake(r.w.pool, NULL, 0, NULL));
    sleep_rig_close(&r);
}

MEND_TEST(pool_sleep_room, the_limit_has_none)
{
    sleep_rig r;
    ASSERT_TRUE(sleep_rig_open(&r));
    EXPECT_RESULT(MEND_OK, mend_sleep(r.w.pool, NULL, NULL));
    EXPECT_RESULT(MEND_OK, mend_set_limit(r.w.pool, 10 * SLEEP_BLOCK));
    void *more = kit_alloc_written(&r.w, 4 * SLEEP_BLOCK, NULL);
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY, mend_wake(r.w.pool, NULL, 0, NULL));
    kit_expect_words("the limit lacks 2.00 MiB");
    expect_asleep(&r);
    kit_release(&r.w, more, 4 * SLEEP_BLOCK, NULL); /* empty chunks make room */
    EXPECT_RESULT(MEND_OK, mend_wake(r.w.pool, NULL, 0, NULL));
    EXPECT_RESULT(MEND_OK, mend_set_limit(r.w.pool, 0));
    sleep_rig_close(&r);
}

MEND_TEST(pool_sleep_room, empty_chunks_of_the_pool_and_of_a_peer_pool_make_room)
{
    sleep_rig r;
    mend_pool *peer = NULL;
    ASSERT_TRUE(sleep_rig_open(&r));
    EXPECT_RESULT(MEND_OK, mend_world_create_pool(&r.w, &peer));
    EXPECT_RESULT(MEND_OK, mend_sleep(r.w.pool, NULL, NULL));
    void *own = kit_alloc(&r.w, 20 * MEND_MIB, r.w.streams[0]);
    void *other = kit_alloc_from(peer, 40 * MEND_MIB, r.w.streams[0]);
    kit_free(&r.w, own, r.w.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_free(peer, other, r.w.streams[0]));
    mend_sim_set_foreign_bytes(r.w.sim, 0, 4 * MEND_MIB);
    EXPECT_RESULT(MEND_OK, mend_wake(r.w.pool, NULL, 0, NULL));
    for (int i = 0; i < SLEEP_BLOCKS; i++) {
        EXPECT_TRUE(!sleep_rig_sleeps(&r, i));
    }
    EXPECT_RESULT(MEND_OK, mend_pool_destroy(peer));
    sleep_rig_close(&r);
}

MEND_TEST(pool_sleep_room, a_peer_pool_gives_what_it_has)
{
    sleep_rig r;
    mend_pool *peer = NULL;
    ASSERT_TRUE(sleep_rig_open(&r));
    EXPECT_RESULT(MEND_OK, mend_world_create_pool(&r.w, &peer));
    EXPECT_RESULT(MEND_OK, mend_sleep(r.w.pool, NULL, NULL));
    void *other = kit_alloc_from(peer, 60 * MEND_MIB, r.w.streams[0]);
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY, mend_wake(r.w.pool, NULL, 0, NULL));
    EXPECT_RESULT(MEND_OK, mend_free(peer, other, r.w.streams[0]));
    EXPECT_RESULT(MEND_OK, mend_wake(r.w.pool, NULL, 0, NULL));
    EXPECT_TRUE(mend_world_stats(&r.w).peer_pool_trims > 0);
    EXPECT_RESULT(MEND_OK, mend_pool_destroy(peer));
    sleep_rig_close(&r);
}

typedef struct giver {
    mend_world *w;
    void *block;
    int calls;
    uint64_t missing_bytes;
} giver;

static int give(void *context, mend_pool *pool, uint64_t needed_bytes, uint64_t missing_bytes)
{
    giver *g = context;
    (void)needed_bytes;
    g->calls++;
    g->missing_bytes = missing_bytes;
    if (g->block == NULL) {
        return 0;
    }
    EXPECT_RESULT(MEND_OK, mend_free(pool, g->block, g->w->streams[0]));
    g->block = NULL;
    return 1;
}

MEND_TEST(pool_sleep_room, a_pressure_callback_makes_room)
{
    sleep_rig r;
    ASSERT_TRUE(sleep_rig_open(&r));
    giver g = {.w = &r.w};
    EXPECT_RESULT(MEND_OK, mend_add_pressure_callback(r.w.pool, give, &g));
    EXPECT_RESULT(MEND_OK, mend_sleep(r.w.pool, NULL, NULL));
    EXPECT_RESULT(MEND_OK, mend_set_limit(r.w.pool, 10 * SLEEP_BLOCK));
    g.block = kit_alloc(&r.w, 6 * SLEEP_BLOCK, r.w.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_wake(r.w.pool, NULL, 0, NULL));
    EXPECT_INT_EQ(1, g.calls);
    EXPECT_RESULT(MEND_OK, mend_set_limit(r.w.pool, 0));
    EXPECT_RESULT(MEND_OK, mend_remove_pressure_callback(r.w.pool, give, &g));
    sleep_rig_close(&r);
}

MEND_TEST(pool_sleep_room, a_callback_that_frees_nothing_leaves_all_asleep)
{
    sleep_rig r;
    ASSERT_TRUE(sleep_rig_open(&r));
    giver g = {.w = &r.w};
    EXPECT_RESULT(MEND_OK, mend_add_pressure_callback(r.w.pool, give, &g));
    EXPECT_RESULT(MEND_OK, mend_sleep(r.w.pool, NULL, NULL));
    EXPECT_RESULT(MEND_OK, mend_set_limit(r.w.pool, SLEEP_BLOCK));
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY, mend_wake(r.w.pool, NULL, 0, NULL));
    EXPECT_INT_EQ(1, g.calls);
    expect_asleep(&r);
    EXPECT_RESULT(MEND_OK, mend_set_limit(r.w.pool, 0));
    EXPECT_RESULT(MEND_OK, mend_remove_pressure_callback(r.w.pool, give, &g));
    sleep_rig_close(&r);
}
