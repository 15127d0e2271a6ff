/* A wake that finds no room changes nothing, says what is lacking, and works when there is room. */
#include "tests/unit/sleep/sleep_rig.h"

static void expect_asleep(sleep_rig *r)
{
    for (int i = 0; i < SLEEP_BLOCKS; i++) {
        EXPECT_TRUE(sleep_rig_sleeps(r, i));
    }
    EXPECT_STATS(&r->w, kept_host_bytes, SLEEP_BLOCKS * SLEEP_BLOCK, wakes, 0);
    EXPECT_TRUE(mend_world_check(&r->w));
}

SLEEP_TEST(pool_sleep_room, others_took_the_memory_of_the_device)
{
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    mend_sim_set_foreign_bytes(w->sim, 0, 64 * MEND_MIB - 3 * SLEEP_BLOCK);
    EXPECT_REFUSAL(OUT_OF_MEMORY, "the device lacks 5.00 MiB", mend_wake(w->pool, NULL, 0, NULL));
    expect_asleep(r);
    EXPECT_STATS(w, reserved_bytes, 0);
    mend_sim_set_foreign_bytes(w->sim, 0, 0);
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
}

SLEEP_TEST(pool_sleep_room, the_limit_has_none)
{
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    EXPECT_OK(mend_set_limit(w->pool, 10 * SLEEP_BLOCK));
    void *more = kit_alloc_written(w, 4 * SLEEP_BLOCK, NULL);
    EXPECT_REFUSAL(OUT_OF_MEMORY, "the limit lacks 2.00 MiB", mend_wake(w->pool, NULL, 0, NULL));
    expect_asleep(r);
    kit_release(w, more, 4 * SLEEP_BLOCK, NULL); /* empty chunks make room */
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    EXPECT_OK(mend_set_limit(w->pool, 0));
}

SLEEP_TEST(pool_sleep_room, empty_chunks_of_the_pool_and_of_a_peer_pool_make_room)
{
    mend_pool *peer = kit_pool(w);
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    void *own = kit_alloc(w, 20 * MEND_MIB, S(0));
    void *other = kit_alloc_from(peer, 40 * MEND_MIB, S(0));
    kit_free(w, own, S(0));
    EXPECT_OK(mend_free(peer, other, S(0)));
    mend_sim_set_foreign_bytes(w->sim, 0, 4 * MEND_MIB);
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    for (int i = 0; i < SLEEP_BLOCKS; i++) {
        EXPECT_TRUE(!sleep_rig_sleeps(r, i));
    }
    EXPECT_OK(mend_pool_destroy(peer));
}

SLEEP_TEST(pool_sleep_room, a_peer_pool_gives_what_it_has)
{
    mend_pool *peer = kit_pool(w);
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    void *other = kit_alloc_from(peer, 60 * MEND_MIB, S(0));
    EXPECT_ERROR(OUT_OF_MEMORY, mend_wake(w->pool, NULL, 0, NULL));
    EXPECT_OK(mend_free(peer, other, S(0)));
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    EXPECT_TRUE(mend_world_stats(w).peer_pool_trims > 0);
    EXPECT_OK(mend_pool_destroy(peer));
}

typedef struct giver {
    mend_world *w;
    void *block;
    int calls;
    uint64_t missing_bytes;
} giver;

KIT_PRESSURE(give)
{
    giver *g = context;
    g->calls++;
    g->missing_bytes = missing_bytes;
    if (g->block == NULL) {
        return 0;
    }
    EXPECT_OK(mend_free(pool, g->block, g->w->streams[0]));
    g->block = NULL;
    return 1;
}

SLEEP_TEST(pool_sleep_room, a_pressure_callback_makes_room)
{
    giver g = {.w = w};
    EXPECT_OK(mend_add_pressure_callback(w->pool, give, &g));
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    EXPECT_OK(mend_set_limit(w->pool, SLEEP_BLOCK));
    EXPECT_ERROR(OUT_OF_MEMORY, mend_wake(w->pool, NULL, 0, NULL)); /* it has none */
    EXPECT_INT_EQ(1, g.calls);
    expect_asleep(r);
    EXPECT_OK(mend_set_limit(w->pool, 10 * SLEEP_BLOCK));
    g.block = kit_alloc(w, 6 * SLEEP_BLOCK, S(0));
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    EXPECT_INT_EQ(2, g.calls);
    EXPECT_OK(mend_set_limit(w->pool, 0));
    EXPECT_OK(mend_remove_pressure_callback(w->pool, give, &g));
}
