/* Pages of ranges beside other devices and other pools. */
#include <string.h>

#include "driver/driver.h"
#include "tests/unit/pool/zeros.h"

/* Nor may a device whose pool came later: its context is lost. */
MEND_TEST(survivors_pool, another_device_may_not_write_zeros)
{
    mend_world w;
    mend_world_init(&w);
    w.sim_config.device_count = 2;
    ASSERT_TRUE(kit_open(&w));
    mend_device_info second = {0};
    mend_pool *other = NULL;
    mend_range *range = create(&w, PAGES * PAGE, PAGE);
    EXPECT_RESULT(MEND_OK, map_zeros(range, 0, 2));
    mend_pool_config config = w.pool_config;
    config.device = 1;
    EXPECT_RESULT(MEND_OK, mend_pool_create(&config, &other));
    EXPECT_INT_EQ(0, w.driver->device_open(w.driver, 1, &second));
    EXPECT_INT_EQ(0, w.driver->context_push(w.driver, second.context));
    EXPECT_INT_EQ(0, w.driver->fill(w.driver, (uintptr_t)at(range, PAGE), 1, 4, NULL));
    EXPECT_INT_EQ(MEND_DRIVER_ILLEGAL_ADDRESS, w.driver->context_synchronize(w.driver));
    EXPECT_TRUE(strstr(mend_sim_first_violation(w.sim), "may only read") != NULL);
    (void)mend_pool_destroy(other);
    (void)mend_pool_destroy(w.pool);
    mend_sim_destroy(w.sim);
}

/* The pool knows by then what the device can give, and asks it no more. */
MEND_TEST(survivors_pool, a_peer_pool_gives_what_a_commit_lacks)
{
    mend_world w;
    mend_pool *peer = NULL;
    ASSERT_TRUE(kit_open_with(&w, 16 * MEND_MIB, NULL));
    mend_sim_set_foreign_bytes(w.sim, 0, 6 * MEND_MIB);
    ASSERT_RESULT(MEND_OK, mend_world_create_pool(&w, &peer));
    mend_range *range = create(&w, 10 * MEND_MIB, PAGE);
    expect_commit(range, 0, 6 * MEND_MIB, NULL);
    void *idle = kit_alloc_from(peer, 2 * MEND_MIB, NULL);
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY,
                  mend_range_commit(range, 6 * MEND_MIB, 4 * MEND_MIB, NULL));
    EXPECT_RESULT(MEND_OK, mend_free(peer, idle, NULL));
    expect_commit(range, 6 * MEND_MIB, 4 * MEND_MIB, NULL);
    EXPECT_RESULT(MEND_OK, mend_pool_destroy(peer));
    EXPECT_RESULT(MEND_OK, mend_range_destroy(range, NULL));
    kit_close(&w);
}
