/* Addresses that the driver does not take back. */
#include "address/space.h"

#include "tests/support/kit.h"

enum { PAGE = 1 << 16 };
#define RESERVE (64 * (uint64_t)PAGE)

/* In a reservation of so many bytes at least. */
static void take_page(mend_space *space, uint64_t size_bytes)
{
    uint64_t address = 0;
    EXPECT_INT_EQ(MEND_DRIVER_OK, mend_space_place(space, 0, size_bytes, 0, &address));
    mend_space_take(space, address, PAGE);
}

/* The first refusal is reported, and the rest goes back all the same. */
KIT_LAST_TEST(address_space, the_first_refusal_at_the_end_is_reported, kit_open_default(w))
{
    mend_space space;
    EXPECT_INT_EQ(MEND_DRIVER_OK, w->driver->context_push(w->driver, w->info.context));
    mend_space_init(&space, w->driver, PAGE, RESERVE, 2 * PAGE, false);
    EXPECT_TRUE(mend_space_reserve_nodes(&space, 64));
    take_page(&space, PAGE);
    take_page(&space, 2 * RESERVE);
    kit_fail(w, "address_free", 0, 1, MEND_DRIVER_UNKNOWN);
    EXPECT_INT_EQ(MEND_DRIVER_UNKNOWN, mend_space_clear(&space));
    EXPECT_INT_EQ(MEND_DRIVER_OK, mend_space_clear(&space));
    EXPECT_INT_EQ(MEND_DRIVER_OK, w->driver->context_pop(w->driver));
    EXPECT_OK(mend_pool_destroy(w->pool));
    EXPECT_LEDGER(w, reservations, 1, violations, 0);
}
