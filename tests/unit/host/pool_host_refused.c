/* What blocks on the host cannot do, by name. */
#include "tests/unit/host/host_rig.h"

KIT_TEST(pool_host_refused, a_pool_without_memory_of_the_host)
{
    EXPECT_REFUSAL(NOT_SUPPORTED, "mend_move: the pool has no mend_pool_config.host_bytes",
                   mend_move(w->pool, MEND_MOVE_TO_HOST, NULL, 0, NULL));
    EXPECT_ERROR(NOT_SUPPORTED, mend_move(w->pool, MEND_MOVE_TO_DEVICE, NULL, 0, NULL));
    kit_alloc(w, 64 * MEND_MIB, NULL);
    mend_set_host_allowed(1);
    kit_expect_none(w, MEND_MIB, NULL, "");
    mend_set_host_allowed(0);
}

MEND_TEST(pool_host_refused, a_driver_that_creates_none)
{
    mend_world w;
    mend_world_init(&w);
    w.sim_config.has_no_host_chunks = 1;
    w.pool_config.host_bytes = MEND_GIB;
    ASSERT_TRUE(mend_world_open_device(&w));
    w.pool_config.driver = mend_sim_driver(w.sim);
    EXPECT_REFUSAL(NOT_SUPPORTED, "creates no memory of the host",
                   mend_pool_create(&w.pool_config, &w.pool));
    mend_sim_destroy(w.sim);
}

/* Whether it has none now, or the driver makes none there in spite of what it says of itself. */
HOST_TEST(pool_host_refused, the_host_has_no_memory)
{
    static const mend_status statuses[] = {MEND_DRIVER_OUT_OF_MEMORY, MEND_DRIVER_NOT_SUPPORTED,
                                           MEND_DRIVER_NOT_PERMITTED};
    for (size_t i = 0; i < sizeof(statuses) / sizeof(*statuses); i++) {
        kit_fail(w, "create_on_host", 0, UINT64_MAX, statuses[i]);
        mend_set_host_allowed(1);
        kit_expect_none(w, MEND_MIB, NULL, "");
        mend_set_host_allowed(0);
        EXPECT_ERROR(OUT_OF_MEMORY, mend_move(w->pool, MEND_MOVE_TO_HOST, NULL, 0, NULL));
        mend_sim_clear_faults(w->sim);
        EXPECT_INT_EQ(0, host_rig_count_on_host(r));
    }
}
