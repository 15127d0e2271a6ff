/* Addresses that the driver refuses. */
#include "address/space.h"

#include "mend/mend_sim.h"
#include "tests/support/kit.h"
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

#define SPACE_TEST(suite, name) KIT_CASE(suite, name, rig, r, (open_rig(r), true), close_rig(r))

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
