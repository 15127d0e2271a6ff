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

/* The simulated clock moves by the list of prices: 40 us and 1.5 us a MiB for a create. */
TRACED_TEST(driver_traced, times_by_the_clock_of_the_inner_table_and_passes_names_through)
{
    sim_fixture_chunk(&w->f, 2 * MEND_MIB);
    sim_fixture_chunk(&w->f, 8 * MEND_MIB);
    mend_call_counter create = counters_of(w).call[MEND_CALL_create];
    EXPECT_U64_EQ(43000 + 52000, create.total_ns);
    EXPECT_U64_EQ(52000, create.max_ns);
    EXPECT_U64_EQ(mend_sim_now_ns(w->f.sim), w->driver->clock_ns(w->driver));
    EXPECT_STR_EQ("sim", w->driver->name);
    EXPECT_STR_EQ("CUDA_ERROR_OUT_OF_MEMORY",
                  w->driver->status_name(w->driver, MEND_DRIVER_OUT_OF_MEMORY));
}

TRACED_TEST(driver_traced, an_unfinished_query_is_no_failure_and_a_wait_is_counted)
{
    sim_fixture *f = &w->f;
    uint64_t address = 0;
    mend_event event = sim_fixture_event(f);
    PASS(plain_alloc, 4096, &address);
    sim_fixture_spin(f, f->stream, 1000000000);
    PASS(event_record, event, f->stream);
    ANSWER(NOT_READY, event_query, event);
    ANSWER(NOT_READY, stream_query, f->stream);
    mend_driver_counters counters = counters_of(w);
    EXPECT_U64_EQ(1, counters.call[MEND_CALL_event_query].calls);
    EXPECT_U64_EQ(0, counters.call[MEND_CALL_event_query].failures);
    EXPECT_U64_EQ(0, counters.call[MEND_CALL_stream_query].failures);
    EXPECT_U64_EQ(0, counters.host_syncs);
    PASS(event_synchronize, event);
    PASS(stream_synchronize, f->stream);
    PASS(context_synchronize);
    PASS(plain_free, address);
    EXPECT_U64_EQ(4, counters_of(w).host_syncs);
}
