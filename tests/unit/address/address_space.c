/* Addresses: every byte of a reservation is taken or in a gap, and gaps that touch are one. */
#include "address/space.h"

#include "base/align.h"
#include "mend/mend_sim.h"
#include "tests/support/rig.h"
#include "tests/support/test.h"

enum { PAGE = 1 << 16, PAGES_OF_RESERVATION = 64 };
#define RESERVE ((uint64_t)PAGES_OF_RESERVATION * PAGE)

typedef struct rig {
    mend_sim *sim;
    mend_driver driver; /* the device's, with a reserve that refuses what is too large */
    mend_device_info info;
    mend_space space;
} rig;

static const mend_driver *device;
static uint64_t largest_reserve_bytes;

static mend_status reserve_small(const mend_driver *driver, uint64_t size_bytes,
                                 uint64_t alignment_bytes, uint64_t hint, uint64_t *address)
{
    (void)driver;
    return size_bytes > largest_reserve_bytes
               ? MEND_DRIVER_OUT_OF_MEMORY
               : device->reserve(device, size_bytes, alignment_bytes, hint, address);
}

static void open_rig(rig *r)
{
    mend_sim_config config = MEND_SIM_CONFIG_INIT;
    config.page_bytes = PAGE;
    ASSERT_RESULT(MEND_OK, mend_sim_create(&config, &r->sim));
    device = mend_sim_driver(r->sim);
    largest_reserve_bytes = UINT64_MAX;
    r->driver = *device;
    r->driver.reserve = reserve_small;
    EXPECT_INT_EQ(MEND_DRIVER_OK, device->device_open(device, 0, &r->info));
    EXPECT_INT_EQ(MEND_DRIVER_OK, device->context_push(device, r->info.context));
    mend_space_init(&r->space, &r->driver, PAGE, RESERVE, 2 * PAGE);
    EXPECT_TRUE(mend_space_reserve_nodes(&r->space, 64));
}

static void close_rig(rig *r)
{
    EXPECT_INT_EQ(MEND_DRIVER_OK, mend_space_clear(&r->space));
    EXPECT_INT_EQ(MEND_DRIVER_OK, device->context_pop(device));
    EXPECT_INT_EQ(MEND_DRIVER_OK, device->device_close(device, 0));
    EXPECT_STR_EQ("", mend_sim_first_violation(r->sim));
    mend_sim_destroy(r->sim);
}

static uint64_t place(rig *r, uint64_t size_bytes, uint64_t alignment_bytes)
{
    uint64_t address = 0;
    EXPECT_INT_EQ(MEND_DRIVER_OK,
                  mend_space_place(&r->space, 0, size_bytes, alignment_bytes, &address));
    return address;
}

#define SPACE_TEST(suite, name) RIG_TEST(suite, name, rig, r, (open_rig(r), true), close_rig(r))

SPACE_TEST(address_space, takes_part_of_a_gap_and_leaves_both_ends)
{
    uint64_t base = place(r, PAGE, 0);
    EXPECT_U64_EQ(RESERVE - PAGE, mend_space_room_at(&r->space, base));
    mend_space_take(&r->space, base + 8 * PAGE, 4 * PAGE);
    EXPECT_U64_EQ(8 * PAGE, mend_space_room_at(&r->space, base));
    EXPECT_U64_EQ(RESERVE - 13 * PAGE, mend_space_room_at(&r->space, base + 12 * PAGE));
    EXPECT_U64_EQ(0, mend_space_room_at(&r->space, base + 9 * PAGE)); /* taken */
    EXPECT_U64_EQ(0, mend_space_room_at(&r->space, base + 2 * PAGE)); /* inside of a gap */
    EXPECT_U64_EQ(4 * PAGE, r->space.taken_bytes);
    mend_space_give(&r->space, base + 8 * PAGE, 4 * PAGE);
}

/* What is given back in any order becomes one gap again. */
MEND_TEST(address_space, joins_what_is_given_back_on_both_sides)
{
    static const unsigned orders[][3] = {{0, 1, 2}, {2, 1, 0}, {0, 2, 1}, {1, 0, 2}};
    for (size_t order = 0; order < sizeof(orders) / sizeof(orders[0]); order++) {
        rig r;
        open_rig(&r);
        uint64_t base = place(&r, PAGE, 0);
        mend_space_take(&r.space, base, RESERVE - PAGE);
        EXPECT_U64_EQ(0, r.space.gaps.count);
        mend_space_give(&r.space, base + 3 * PAGE, RESERVE - 4 * PAGE);
        for (int i = 0; i < 3; i++) {
            mend_space_give(&r.space, base + orders[order][i] * (uint64_t)PAGE, PAGE);
        }
        EXPECT_U64_EQ(1, r.space.gaps.count);
        EXPECT_U64_EQ(RESERVE - PAGE, mend_space_room_at(&r.space, base));
        EXPECT_U64_EQ(0, r.space.taken_bytes);
        close_rig(&r);
    }
}

SPACE_TEST(address_space, the_last_page_of_a_reservation_is_nobody_s)
{
    uint64_t base = place(r, RESERVE - PAGE, 0); /* with room to grow: more than usual */
    uint64_t room_bytes = mend_space_room_at(&r->space, base);
    EXPECT_U64_EQ(PAGE, r->space.address_bytes - room_bytes);
    mend_space_take(&r->space, base, room_bytes);
    uint64_t other = place(r, RESERVE, 0);
    EXPECT_TRUE(other != base + room_bytes);
    EXPECT_U64_EQ(2, r->space.reservation_count);
    mend_space_give(&r->space, base, room_bytes);
}

SPACE_TEST(address_space, places_are_aligned_as_asked)
{
    mend_space_take(&r->space, place(r, PAGE, 0), PAGE);
    for (uint64_t alignment = PAGE; alignment <= 64 * PAGE; alignment *= 2) {
        uint64_t address = place(r, 3 * PAGE, alignment);
        EXPECT_U64_EQ(0, address % alignment);
        mend_space_take(&r->space, address, 3 * PAGE);
        EXPECT_TRUE(mend_space_reserve_nodes(&r->space, 64));
    }
}

/* Two segments must not end up side by side, or neither can grow. */
SPACE_TEST(address_space, a_fresh_place_leaves_room_to_grow)
{
    uint64_t first = place(r, PAGE, 0);
    mend_space_take(&r->space, first, PAGE);
    uint64_t second = place(r, PAGE, 0);
    mend_space_take(&r->space, second, PAGE);
    EXPECT_TRUE(mend_space_room_at(&r->space, first + PAGE) >= r->space.growth_bytes);
    EXPECT_TRUE(mend_space_room_at(&r->space, second + PAGE) >= r->space.growth_bytes);
}

SPACE_TEST(address_space, fewer_are_reserved_where_the_driver_refuses_many)
{
    largest_reserve_bytes = RESERVE / 4;
    uint64_t address = place(r, 2 * PAGE, 0);
    EXPECT_TRUE(r->space.address_bytes <= largest_reserve_bytes);
    EXPECT_TRUE(mend_space_room_at(&r->space, address) >= 2 * PAGE);
    largest_reserve_bytes = 0;
    EXPECT_INT_EQ(MEND_DRIVER_OUT_OF_MEMORY, mend_space_place(&r->space, 0, RESERVE, 0, &address));
}

/* Where the driver has no more, what is left of the larger gaps stays whole, whatever thread's they
 * are. */
SPACE_TEST(address_space, a_tight_place_is_the_smallest_that_holds_it)
{
    uint64_t address = 0;
    uint64_t base = place(r, PAGE, 0);
    largest_reserve_bytes = 0;
    mend_space_take(&r->space, base + 3 * PAGE, PAGE); /* gaps of 3 and 20 pages, and the rest */
    mend_space_take(&r->space, base + 24 * PAGE, PAGE);
    EXPECT_INT_EQ(MEND_DRIVER_OK, mend_space_place(&r->space, 1, 2 * PAGE, 0, &address));
    EXPECT_U64_EQ(base, address);
    EXPECT_INT_EQ(MEND_DRIVER_OK, mend_space_place(&r->space, 1, 4 * PAGE, 0, &address));
    EXPECT_U64_EQ(base + 4 * PAGE, address);
    EXPECT_INT_EQ(MEND_DRIVER_OK, mend_space_place(&r->space, 1, 21 * PAGE, 0, &address));
    EXPECT_U64_EQ(base + 25 * PAGE, address);
    mend_space_give(&r->space, base + 3 * PAGE, PAGE);
    mend_space_give(&r->space, base + 24 * PAGE, PAGE);
}

/* Halves of what is refused would be many calls: at last it is the place alone, aligned. */
SPACE_TEST(address_space, at_last_what_the_place_needs_is_reserved)
{
    largest_reserve_bytes = 3 * PAGE;
    uint64_t address = place(r, 2 * PAGE, 4 * PAGE);
    EXPECT_U64_EQ(0, address % (4 * PAGE));
    EXPECT_U64_EQ(3 * PAGE, r->space.address_bytes);
}

/* What was given back can be asked for again. */
SPACE_TEST(address_space, is_roomy_again_when_addresses_went_back)
{
    uint64_t address = 0;
    largest_reserve_bytes = RESERVE / 2;
    (void)place(r, PAGE, 0);
    EXPECT_U64_EQ(RESERVE / 2, r->space.address_bytes);
    largest_reserve_bytes = 0;
    EXPECT_INT_EQ(MEND_DRIVER_OUT_OF_MEMORY,
                  mend_space_place(&r->space, 0, RESERVE / 2, 0, &address));
    mend_space_trim(&r->space, 0);
    EXPECT_U64_EQ(0, r->space.address_bytes);
    largest_reserve_bytes = UINT64_MAX;
    (void)place(r, PAGE, 0);
    EXPECT_U64_EQ(RESERVE / 2, r->space.address_bytes);
}

SPACE_TEST(address_space, only_unused_reservations_are_trimmed_the_oldest_stay)
{
    uint64_t oldest = place(r, PAGE, 0);
    uint64_t used = place(r, 2 * RESERVE, 0);
    mend_space_take(&r->space, used, PAGE);
    (void)place(r, 8 * RESERVE, 0);
    EXPECT_U64_EQ(3, r->space.reservation_count);
    mend_space_trim(&r->space, 1);
    EXPECT_U64_EQ(2, r->space.reservation_count);
    EXPECT_TRUE(mend_space_room_at(&r->space, oldest) > 0);
    mend_space_give(&r->space, used, PAGE);
    mend_space_trim(&r->space, 1);
    EXPECT_U64_EQ(1, r->space.reservation_count);
    EXPECT_U64_EQ(RESERVE, r->space.address_bytes);
}

/* Where no more addresses are to be had, a gap of just the size serves; and its place is inside it,
 * whatever the alignment. */
SPACE_TEST(address_space, a_gap_of_just_the_size_is_a_place)
{
    uint64_t base = place(r, PAGE, 0);
    uint64_t room = mend_space_room_at(&r->space, base);
    largest_reserve_bytes = 0;
    EXPECT_U64_EQ(base, place(r, room, 0));
    mend_space_take(&r->space, base, 4 * PAGE);
    EXPECT_U64_EQ(base + 4 * PAGE, place(r, room - 4 * PAGE, 0));
    EXPECT_U64_EQ(base + 4 * PAGE, place(r, room - 4 * PAGE, PAGE));
    uint64_t address = 0;
    EXPECT_INT_EQ(MEND_DRIVER_OUT_OF_MEMORY,
                  mend_space_place(&r->space, 0, room - 3 * PAGE, 0, &address));
    mend_space_give(&r->space, base, 4 * PAGE);
}

/* The middle of a gap, aligned downwards, may lie before it. */
SPACE_TEST(address_space, a_place_in_a_tight_gap_lies_inside_it)
{
    uint64_t base = place(r, PAGE, 0);
    uint64_t end = base + mend_space_room_at(&r->space, base);
    uint64_t alignment = 16 * PAGE;
    uint64_t first = mend_align_up(base, alignment) + PAGE; /* the gap begins behind a multiple */
    mend_space_take(&r->space, base, first - base);
    mend_space_take(&r->space, first + 18 * PAGE, end - first - 18 * PAGE);
    largest_reserve_bytes = 0;
    EXPECT_U64_EQ(first + 15 * PAGE, place(r, 3 * PAGE, alignment));
    mend_space_give(&r->space, base, first - base);
    mend_space_give(&r->space, first + 18 * PAGE, end - first - 18 * PAGE);
}

/* The first refusal is reported, and the rest goes back all the same. */
SPACE_TEST(address_space, the_first_refusal_at_the_end_is_reported)
{
    uint64_t first = place(r, PAGE, 0);
    mend_space_take(&r->space, first, PAGE);
    uint64_t second = place(r, 2 * RESERVE, 0);
    mend_space_take(&r->space, second, PAGE);
    mend_sim_fault fault = MEND_SIM_FAULT_INIT;
    fault.call = "address_free";
    fault.count = 1;
    fault.status = MEND_DRIVER_UNKNOWN;
    EXPECT_RESULT(MEND_OK, mend_sim_fail(r->sim, &fault));
    EXPECT_INT_EQ(MEND_DRIVER_UNKNOWN, mend_space_clear(&r->space));
    mend_sim_ledger ledger = MEND_SIM_LEDGER_INIT;
    EXPECT_RESULT(MEND_OK, mend_sim_get_ledger(r->sim, &ledger));
    EXPECT_U64_EQ(1, ledger.reservations);
}

/* An alignment that the driver is not asked for is a matter of luck. Single pages between the
 * places take it from each reservation that is not aligned. */
MEND_TEST(address_space, what_is_reserved_at_last_is_aligned_wherever_the_driver_has_room)
{
    enum { PLACES = 4 };
    rig r;
    uint64_t pages[PLACES];
    open_rig(&r);
    largest_reserve_bytes = 3 * PAGE;
    for (int i = 0; i < PLACES; i++) {
        EXPECT_INT_EQ(MEND_DRIVER_OK, device->reserve(device, PAGE, PAGE, 0, &pages[i]));
        uint64_t address = place(&r, 2 * PAGE, 4 * PAGE);
        EXPECT_U64_EQ(0, address % (4 * PAGE));
        mend_space_take(&r.space, address, 2 * PAGE);
    }
    EXPECT_U64_EQ(PLACES, r.space.reservation_count);
    for (int i = 0; i < PLACES; i++) {
        EXPECT_INT_EQ(MEND_DRIVER_OK, device->address_free(device, pages[i], PAGE));
    }
    close_rig(&r);
}
