/* The counting decorator: calls, failures, bytes, time and CPU stalls equal the forwarded ones. */
#include "lab/driver/traced.h"
#include "tests/unit/sim/sim_fixture.h"

SIM_TEST_AS(driver_traced, counts_calls_failures_and_bytes, .page_bytes = 2 * MEND_MIB,
            .prices_advance_clock = 1)
{
    const mend_driver *device = f->driver;
    const mend_chunk_properties plain = {0};
    mend_chunk_handle none = 0;
    mend_driver *traced = NULL;
    mend_driver_counters counters;
    ASSERT_RESULT(MEND_OK, mend_traced_driver_create(device, &traced));
    f->driver = traced;
    PASS(release, sim_fixture_chunk(f, 2 * f->page));
    PASS(release, sim_fixture_chunk(f, f->page));
    ANSWER(OUT_OF_MEMORY, create, MEND_GIB, &plain, &none);
    mend_traced_driver_get(traced, &counters);
    EXPECT_FIELDS(counters.call[MEND_CALL_create], calls, 3, failures, 1, bytes, 3 * f->page);
    EXPECT_U64_EQ(2, counters.call[MEND_CALL_release].calls);
    EXPECT_U64_EQ(0, counters.call[MEND_CALL_map].calls);
    f->driver = device;
    mend_traced_driver_destroy(traced);
}
