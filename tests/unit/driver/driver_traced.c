/* The counting decorator: calls, failures, bytes, time and host waits are those of what passed. */
#include "lab/driver/traced.h"
#include "tests/unit/sim/sim_fixture.h"

/* The fixture's driver is the decorator's. */
typedef struct traced_world {
    sim_fixture f;
    mend_driver *driver;
} traced_world;

static bool open_world(traced_world *w)
{
    bool is_open =
        sim_fixture_open(&w->f, SIM_CONFIG(.page_bytes = 2 * MEND_MIB, .prices_advance_clock = 1));
    is_open = is_open && mend_traced_driver_create(w->f.driver, &w->driver) == MEND_OK;
    w->f.driver = w->driver;
    return is_open;
}

static void close_world(traced_world *w)
{
    mend_traced_driver_destroy(w->driver);
    sim_fixture_close(&w->f);
}

#define TRACED_TEST(suite, name)                                                                   \
    KIT_CASE(suite, name, traced_world, w, open_world(w), close_world(w))

static mend_driver_counters counters_of(traced_world *w)
{
    mend_driver_counters counters;
    mend_traced_driver_get(w->driver, &counters);
    return counters;
}

TRACED_TEST(driver_traced, counts_calls_failures_and_bytes)
{
    sim_fixture *f = &w->f;
    const mend_chunk_properties plain = {0};
    mend_chunk_handle none = 0;
    PASS(release, sim_fixture_chunk(f, 2 * f->page));
    PASS(release, sim_fixture_chunk(f, f->page));
    ANSWER(OUT_OF_MEMORY, create, MEND_GIB, &plain, &none);
    mend_driver_counters counters = counters_of(w);
    EXPECT_U64_EQ(3, counters.call[MEND_CALL_create].calls);
    EXPECT_U64_EQ(1, counters.call[MEND_CALL_create].failures);
    EXPECT_U64_EQ(3 * f->page, counters.call[MEND_CALL_create].bytes);
    EXPECT_U64_EQ(2, counters.call[MEND_CALL_release].calls);
    EXPECT_U64_EQ(0, counters.call[MEND_CALL_map].calls);
}
