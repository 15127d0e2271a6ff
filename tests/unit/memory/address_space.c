/* Addresses that the driver refuses, or does not take back. */
#include "memory/space.h"

#include "tests/support/kit.h"

enum { PAGE = 1 << 16 };
#define RESERVE (64 * (uint64_t)PAGE)

/* In a reservation of so many bytes at least. */
static uint64_t take_page(mend_space *space, uint64_t size_bytes)
{
    uint64_t address = 0;
    EXPECT_INT_EQ(MEND_DRIVER_OK, mend_space_place(space, 0, size_bytes, 0, &address));
    mend_space_take(space, address, PAGE);
    return address;
}

static void open_space(mend_world *w, mend_space *space)
{
    EXPECT_INT_EQ(MEND_DRIVER_OK, w->driver->context_push(w->driver, w->info.context));
    mend_space_init(space, w->driver, PAGE, RESERVE, 2 * PAGE);
    EXPECT_TRUE(mend_space_reserve_nodes(space, 64));
}

KIT_LAST_TEST(address_space, the_first_refusal_at_the_end_is_reported, kit_open_default(w))
{
    kit_free(w, kit_alloc(w, 512, S(0)), S(0));
    kit_free(w, kit_alloc(w, 8 * MEND_MIB, S(0)), S(0));
    kit_fail(w, "address_free", 0, 1, MEND_DRIVER_UNKNOWN);
    EXPECT_ERROR(DRIVER, mend_pool_destroy(w->pool));
}

/* A refused reservation is tried again once addresses are freed. */
KIT_TEST(address_space, the_usual_size_comes_back_after_refusals)
{
    mend_space space;
    uint64_t address = 0;
    open_space(w, &space);
    kit_fail(w, "reserve", 0, 4 + 2,
             MEND_DRIVER_OUT_OF_MEMORY); /* the usual size and smaller ones */
    EXPECT_INT_EQ(MEND_DRIVER_OUT_OF_MEMORY, mend_space_place(&space, 0, PAGE, 0, &address));
    EXPECT_INT_EQ(MEND_DRIVER_OUT_OF_MEMORY, mend_space_place(&space, 0, RESERVE, 0, &address));
    mend_space_give(&space, take_page(&space, PAGE), PAGE);
    EXPECT_U64_EQ(2 * PAGE, space.address_bytes);
    mend_space_trim(&space, 0);
    uint64_t last = take_page(&space, PAGE);
    EXPECT_U64_EQ(RESERVE, space.address_bytes);
    last = last / PAGE % 2 == 0 ? last : take_page(&space, PAGE); /* an odd page follows */
    const uint64_t room_bytes = mend_space_room_at(&space, last + PAGE);
    kit_fail(w, "reserve", 0, UINT64_MAX, MEND_DRIVER_OUT_OF_MEMORY);
    EXPECT_INT_EQ(MEND_DRIVER_OUT_OF_MEMORY,
                  mend_space_place(&space, 0, room_bytes, 2 * PAGE, &address));
    mend_sim_clear_faults(w->sim);
    EXPECT_INT_EQ(MEND_DRIVER_OK, mend_space_clear(&space));
    EXPECT_INT_EQ(MEND_DRIVER_OK, w->driver->context_pop(w->driver));
}

/* After one refusal, reservations of half the size, until addresses of the usual size are free. */
KIT_TEST(address_space, smaller_reservations_have_room_to_grow_too)
{
    mend_space space;
    open_space(w, &space);
    const uint64_t first = take_page(&space, PAGE);
    mend_space_take(&space, first + PAGE, RESERVE - 2 * (uint64_t)PAGE);
    kit_fail(w, "reserve", 0, 1, MEND_DRIVER_OUT_OF_MEMORY);
    const uint64_t second = take_page(&space, PAGE);
    EXPECT_U64_EQ(RESERVE + RESERVE / 2, space.address_bytes);
    EXPECT_U64_EQ(second + 3 * (uint64_t)PAGE, take_page(&space, PAGE));
    mend_space_give(&space, first, RESERVE - PAGE);
    mend_space_trim(&space, 0);
    EXPECT_FALSE(mend_space_has_few(&space));
    EXPECT_INT_EQ(MEND_DRIVER_OK, mend_space_clear(&space));
    EXPECT_INT_EQ(MEND_DRIVER_OK, w->driver->context_pop(w->driver));
}
