/* A device with few addresses: released ones come back before a request fails. */
#include "driver/driver.h"
#include "tests/support/kit.h"

/* A release to the driver freed addresses that the call could not use either. */
KIT_SET_TEST(pool_addresses, a_failed_call_keeps_none_of_its_second_reservation,
             (w->sim_config.memory_bytes = 4 * MEND_MIB, w->sim_config.address_bytes = 6 * MEND_MIB,
              w->pool_config.address_reservation_bytes = 2 * MEND_MIB))
{
    void *block = kit_alloc(w, MEND_MIB, w->streams[0]);
    kit_free(w, block, w->streams[0]);
    EXPECT_RESULT(MEND_OK, mend_trim(w->pool, 0, MEND_TRIM_IDLE, NULL));
    EXPECT_U64_EQ(1, mend_world_ledger(w).reservations);
    kit_fail(w, "set_access", 0, 1, MEND_DRIVER_UNKNOWN);
    EXPECT_RESULT(MEND_ERROR_DRIVER, mend_alloc(w->pool, 4 * MEND_MIB, w->streams[0], &block));
    EXPECT_U64_EQ(0, mend_world_ledger(w).reservations);
    EXPECT_U64_EQ(0, mend_world_stats(w).address_bytes);
}
