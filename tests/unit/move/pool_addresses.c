/* A device whose addresses are short: what was given up comes back before a request fails. */
#include "driver/driver.h"
#include "tests/support/kit.h"

/* So few addresses that chunks which move leave none behind before their fences. */
static bool open_short(mend_world *w, uint64_t address_bytes)
{
    mend_world_init(w);
    w->sim_config.memory_bytes = 4 * MEND_MIB;
    w->sim_config.address_bytes = address_bytes;
    w->pool_config.reserve_bytes = 2 * MEND_MIB;
    return kit_open(w);
}

static void *take(mend_world *w, uint64_t size_bytes)
{
    void *block = NULL;
    if (mend_alloc(w->pool, size_bytes, w->streams[0], &block) == MEND_OK) {
        kit_use(w, w->streams[0], block, size_bytes, 1000);
    }
    return block;
}

/* Four chunks, each at a place of its own, move into one block, whose second quarter then stays:
 * they must move again for a block of three, while their first places may still be in use. */
static void *move_twice(mend_world *w)
{
    void *quarters[4];
    for (int i = 0; i < 4; i++) {
        quarters[i] = take(w, MEND_MIB);
    }
    for (int i = 0; i < 4; i++) {
        kit_free(w, quarters[i], w->streams[0]);
    }
    void *all = take(w, 4 * MEND_MIB);
    if (all == NULL) {
        return NULL;
    }
    kit_free(w, all, w->streams[0]);
    quarters[0] = take(w, MEND_MIB);
    take(w, MEND_MIB);
    kit_free(w, quarters[0], w->streams[0]);
    return take(w, 3 * MEND_MIB);
}

/* The host waits for the fences of mappings that are used no more. */
MEND_TEST(pool_addresses, those_of_moved_chunks_are_waited_for)
{
    uint64_t completed_by_waiting = 0;
    for (uint64_t address_bytes = 8 * MEND_MIB; address_bytes <= 24 * MEND_MIB;
         address_bytes += MEND_MIB / 4) {
        mend_world w;
        ASSERT_TRUE(open_short(&w, address_bytes));
        if (move_twice(&w) != NULL && mend_world_stats(&w).host_waits > 0) {
            completed_by_waiting++;
        }
        kit_close(&w);
    }
    EXPECT_TRUE(completed_by_waiting > 0);
}

#define ADDRESSES_TEST(suite, name, ...)                                                           \
    KIT_CASE(suite, name, mend_world, w, open_short(w, __VA_ARGS__), kit_close(w))

/* What went back to the driver made place for addresses that the call could not use either. */
ADDRESSES_TEST(pool_addresses, a_failed_call_keeps_none_of_its_second_reservation, 6 * MEND_MIB)
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
