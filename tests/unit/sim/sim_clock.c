/* The virtual clock: what moves it, and in which order work completes. */
#include <string.h>

#include "tests/unit/sim/sim_fixture.h"

static void touch(sim_fixture *f, mend_stream stream, uint64_t finish_ns)
{
    sim_fixture_work(f, stream, MEND_SIM_WORK_TOUCH, 0, 0, 0, finish_ns);
}

SIM_TEST(sim_clock, does_not_advance_by_itself)
{
    (void)sim_fixture_map(f, f->page, f->page);
    touch(f, f->stream, 100);
    EXPECT_U64_EQ(0, mend_sim_now_ns(f->sim));
    EXPECT_STATUS(MEND_DRIVER_NOT_READY, f->driver->stream_query(f->driver, f->stream));
    mend_sim_advance(f->sim, 99);
    EXPECT_STATUS(MEND_DRIVER_NOT_READY, f->driver->stream_query(f->driver, f->stream));
    mend_sim_advance(f->sim, 1);
    EXPECT_OK(f->driver->stream_query(f->driver, f->stream));
    EXPECT_U64_EQ(100, f->driver->clock_ns(f->driver));
}

SIM_TEST(sim_clock, work_of_a_stream_completes_in_order)
{
    mend_event event = NULL;
    EXPECT_OK(f->driver->event_create(f->driver, &event));
    touch(f, f->stream, 500);
    touch(f, f->stream, 100);
    EXPECT_OK(f->driver->event_record(f->driver, event, f->stream));
    EXPECT_U64_EQ(2, sim_fixture_ledger(f).pending_work);
    mend_sim_advance(f->sim, 499);
    EXPECT_U64_EQ(2, sim_fixture_ledger(f).pending_work);
    EXPECT_STATUS(MEND_DRIVER_NOT_READY, f->driver->event_query(f->driver, event));
    mend_sim_advance(f->sim, 1);
    EXPECT_U64_EQ(0, sim_fixture_ledger(f).pending_work);
    EXPECT_OK(f->driver->event_query(f->driver, event));
}

SIM_TEST(sim_clock, a_kernel_takes_its_time_after_its_predecessor)
{
    const mend_kernel spin = {.kind = MEND_KERNEL_SPIN, .duration_ns = 300};
    EXPECT_OK(f->driver->launch(f->driver, f->stream, &spin));
    EXPECT_OK(f->driver->launch(f->driver, f->stream, &spin));
    EXPECT_OK(f->driver->stream_synchronize(f->driver, f->stream));
    EXPECT_U64_EQ(600, mend_sim_now_ns(f->sim));
}

SIM_TEST(sim_clock, a_waiting_stream_starts_when_the_event_is_reached)
{
    mend_stream other = NULL;
    mend_event event = NULL;
    const mend_kernel spin = {.kind = MEND_KERNEL_SPIN, .duration_ns = 300};
    EXPECT_OK(f->driver->stream_create(f->driver, &other));
    EXPECT_OK(f->driver->event_create(f->driver, &event));
    touch(f, f->stream, 1000);
    EXPECT_OK(f->driver->event_record(f->driver, event, f->stream));
    touch(f, f->stream, 5000);
    EXPECT_OK(f->driver->stream_wait(f->driver, other, event));
    EXPECT_OK(f->driver->launch(f->driver, other, &spin));
    EXPECT_OK(f->driver->stream_synchronize(f->driver, other));
    EXPECT_U64_EQ(1300, mend_sim_now_ns(f->sim));
}

SIM_TEST(sim_clock, host_waits_jump_to_what_they_wait_for_and_no_further)
{
    mend_stream other = NULL;
    mend_event event = NULL;
    EXPECT_OK(f->driver->stream_create(f->driver, &other));
    EXPECT_OK(f->driver->event_create(f->driver, &event));
    touch(f, f->stream, 100);
    EXPECT_OK(f->driver->event_record(f->driver, event, f->stream));
    touch(f, f->stream, 200);
    touch(f, other, 300);
    EXPECT_OK(f->driver->event_synchronize(f->driver, event));
    EXPECT_U64_EQ(100, mend_sim_now_ns(f->sim));
    EXPECT_OK(f->driver->stream_synchronize(f->driver, f->stream));
    EXPECT_U64_EQ(200, mend_sim_now_ns(f->sim));
    EXPECT_OK(f->driver->context_synchronize(f->driver));
    EXPECT_U64_EQ(300, mend_sim_now_ns(f->sim));
    EXPECT_OK(f->driver->context_synchronize(f->driver));
    EXPECT_U64_EQ(300, mend_sim_now_ns(f->sim));
    EXPECT_U64_EQ(4, sim_fixture_ledger(f).host_syncs);
}

SIM_TEST(sim_clock, plain_free_waits_for_the_device)
{
    uint64_t address = 0;
    EXPECT_OK(f->driver->plain_alloc(f->driver, 100, &address));
    touch(f, f->stream, 100);
    EXPECT_OK(f->driver->plain_free(f->driver, address));
    EXPECT_U64_EQ(100, mend_sim_now_ns(f->sim));
    EXPECT_U64_EQ(1, sim_fixture_ledger(f).host_syncs);
}

SIM_TEST(sim_clock, events_may_be_reported_late)
{
    mend_event event = NULL;
    mend_stream other = NULL;
    const mend_kernel spin = {.kind = MEND_KERNEL_SPIN, .duration_ns = 10};
    EXPECT_OK(f->driver->stream_create(f->driver, &other));
    EXPECT_OK(f->driver->event_create(f->driver, &event));
    mend_sim_set_event_delay(f->sim, 50);
    EXPECT_OK(f->driver->event_query(f->driver, event));
    touch(f, f->stream, 100);
    EXPECT_OK(f->driver->event_record(f->driver, event, f->stream));
    mend_sim_advance(f->sim, 100);
    /* The work is done and streams know it; only the report is late. */
    EXPECT_OK(f->driver->stream_query(f->driver, f->stream));
    EXPECT_STATUS(MEND_DRIVER_NOT_READY, f->driver->event_query(f->driver, event));
    EXPECT_OK(f->driver->stream_wait(f->driver, other, event));
    EXPECT_OK(f->driver->launch(f->driver, other, &spin));
    EXPECT_OK(f->driver->stream_synchronize(f->driver, other));
    EXPECT_U64_EQ(110, mend_sim_now_ns(f->sim));
    EXPECT_OK(f->driver->event_synchronize(f->driver, event));
    EXPECT_U64_EQ(150, mend_sim_now_ns(f->sim));
    EXPECT_OK(f->driver->event_query(f->driver, event));
}

/* A device of 4 MiB that cleans one in 1000 ns. */
static bool open_scrubbing(sim_fixture *f, mend_sim_prices *prices, int advances)
{
    mend_sim_config config = MEND_SIM_CONFIG_INIT;
    *prices = (mend_sim_prices){.scrub = {.mib_ns = 1000}};
    config.memory_bytes = 4 * MEND_MIB;
    config.prices = prices;
    config.prices_advance_clock = advances;
    return sim_fixture_open(f, &config);
}

MEND_TEST(sim_clock, a_creation_waits_until_enough_is_clean)
{
    sim_fixture f;
    mend_sim_prices prices;
    if (!open_scrubbing(&f, &prices, 0)) {
        return;
    }
    mend_chunk_handle first = sim_fixture_chunk(&f, 3 * MEND_MIB); /* never used: clean */
    EXPECT_U64_EQ(0, sim_fixture_ledger(&f).scrub_wait_ns);
    EXPECT_OK(f.driver->release(f.driver, first));
    mend_chunk_handle second = sim_fixture_chunk(&f, MEND_MIB); /* what is clean goes first */
    EXPECT_U64_EQ(0, sim_fixture_ledger(&f).scrub_wait_ns);
    mend_sim_advance(f.sim, 1000); /* one of three is clean now */
    mend_chunk_handle third = sim_fixture_chunk(&f, 2 * MEND_MIB);
    EXPECT_U64_EQ(1000, sim_fixture_ledger(&f).scrub_wait_ns);
    EXPECT_U64_EQ(1000, sim_fixture_ledger(&f).driver_time_ns);

    /* One that is refused has waited for all that could have become clean. */
    mend_chunk_properties properties = {.device = 0};
    mend_chunk_handle none = 0;
    EXPECT_STATUS(MEND_DRIVER_OUT_OF_MEMORY,
                  f.driver->create(f.driver, 2 * MEND_MIB, &properties, &none));
    EXPECT_U64_EQ(2000, sim_fixture_ledger(&f).driver_time_ns);
    EXPECT_OK(f.driver->release(f.driver, second));
    EXPECT_OK(f.driver->release(f.driver, third));
    sim_fixture_close(&f);
}

MEND_TEST(sim_clock, what_was_waited_for_is_not_cleaned_twice)
{
    sim_fixture f;
    mend_sim_prices prices;
    if (!open_scrubbing(&f, &prices, 1)) {
        return;
    }
    mend_chunk_handle all = sim_fixture_chunk(&f, 4 * MEND_MIB);
    EXPECT_OK(f.driver->release(f.driver, all));
    mend_chunk_handle one = sim_fixture_chunk(&f, MEND_MIB);
    EXPECT_U64_EQ(1000, mend_sim_now_ns(f.sim));
    mend_chunk_handle other = sim_fixture_chunk(&f, MEND_MIB);
    EXPECT_U64_EQ(2000, mend_sim_now_ns(f.sim));
    mend_sim_advance(f.sim, 10000);
    EXPECT_OK(f.driver->release(f.driver, one));
    EXPECT_OK(f.driver->release(f.driver, other));
    mend_chunk_handle half = sim_fixture_chunk(&f, 2 * MEND_MIB); /* cleaned long ago */
    EXPECT_U64_EQ(12000, mend_sim_now_ns(f.sim));
    EXPECT_OK(f.driver->release(f.driver, half));
    sim_fixture_close(&f);
}

MEND_TEST(sim_clock, the_reference_list_is_frozen)
{
    mend_sim_prices p;
    mend_sim_reference_prices(&p);
    EXPECT_U64_EQ(20000, p.reserve.call_ns);
    EXPECT_U64_EQ(40000, p.create.call_ns);
    EXPECT_U64_EQ(1500, p.create.mib_ns);
    EXPECT_U64_EQ(12000, p.set_access.call_ns);
    EXPECT_U64_EQ(3000, p.set_access.mapping_ns);
    EXPECT_U64_EQ(8000, p.unmap.call_ns);
    EXPECT_U64_EQ(12000, p.unmap.mapping_ns);
    EXPECT_U64_EQ(500, p.release.mib_ns);
    EXPECT_U64_EQ(300, p.plain_alloc.mib_ns);
    EXPECT_U64_EQ(200000, p.synchronize.call_ns);
    EXPECT_U64_EQ(0, p.scrub.mib_ns);
    EXPECT_U64_EQ(200000, p.host_alloc.mib_ns);
    EXPECT_U64_EQ(50000, p.host_free.mib_ns);
    EXPECT_U64_EQ(40000, p.host_copy.mib_ns);
}

MEND_TEST(sim_clock, the_per_mapping_list_is_the_reference_but_for_three_calls)
{
    mend_sim_prices p;
    mend_sim_prices expected;
    mend_sim_reference_prices(&expected);
    expected.map = (mend_sim_price){.call_ns = 2000};
    expected.set_access = (mend_sim_price){.call_ns = 4000, .mapping_ns = 30000};
    expected.unmap = (mend_sim_price){.call_ns = 3000, .mapping_ns = 22000};
    ASSERT_RESULT(MEND_OK, mend_sim_prices_named("per-mapping", &p));
    EXPECT_INT_EQ(0, memcmp(&p, &expected, sizeof(p)));
    mend_sim_reference_prices(&expected);
    ASSERT_RESULT(MEND_OK, mend_sim_prices_named("reference", &p));
    EXPECT_INT_EQ(0, memcmp(&p, &expected, sizeof(p)));
}

MEND_TEST(sim_clock, an_unknown_list_is_refused)
{
    static const char *const unknown[] = {"", "Reference", "per-mapping ", "per_mapping"};
    mend_sim_prices before = {.map = {.call_ns = 5}};
    mend_sim_prices p = before;
    for (size_t i = 0; i < sizeof(unknown) / sizeof(*unknown); i++) {
        EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_sim_prices_named(unknown[i], &p));
    }
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_sim_prices_named(NULL, &p));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_sim_prices_named("reference", NULL));
    EXPECT_INT_EQ(0, memcmp(&p, &before, sizeof(p)));
}

/* The sum of what a small life of a mapping costs by the reference list. */
static uint64_t run_priced_life(sim_fixture *f)
{
    uint64_t address = 0;
    const int device = 0;
    EXPECT_OK(f->driver->reserve(f->driver, MEND_MIB, 0, 0, &address));
    for (uint64_t i = 0; i < 2; i++) {
        mend_chunk_handle handle = sim_fixture_chunk(f, MEND_MIB / 2);
        EXPECT_OK(f->driver->map(f->driver, address + i * MEND_MIB / 2, MEND_MIB / 2, 0, handle));
        EXPECT_OK(f->driver->release(f->driver, handle));
    }
    EXPECT_OK(
        f->driver->set_access(f->driver, address, MEND_MIB, &device, 1, MEND_ACCESS_READ_WRITE));
    EXPECT_STATUS(MEND_DRIVER_INVALID_VALUE, f->driver->unmap(f->driver, address, f->page));
    EXPECT_OK(f->driver->unmap(f->driver, address, MEND_MIB));
    EXPECT_OK(f->driver->address_free(f->driver, address, MEND_MIB));
    EXPECT_OK(f->driver->stream_synchronize(f->driver, f->stream));
    return 20000 + 2 * (40000 + 750) + 2 * 2000 + 2 * (20000 + 250) + (12000 + 2 * 3000) +
           (8000 + 2 * 12000) + 200000;
}

SIM_TEST(sim_clock, calls_have_prices_and_refused_ones_have_none)
{
    uint64_t expected = run_priced_life(f);
    EXPECT_U64_EQ(expected, sim_fixture_ledger(f).driver_time_ns);
    EXPECT_U64_EQ(0, mend_sim_now_ns(f->sim));
    EXPECT_U64_EQ(1, f->heard);
}

SIM_TEST(sim_clock, a_query_costs_the_same_whatever_it_answers)
{
    mend_event event = NULL;
    EXPECT_OK(f->driver->event_create(f->driver, &event));
    touch(f, f->stream, 100);
    EXPECT_OK(f->driver->event_record(f->driver, event, f->stream));
    EXPECT_STATUS(MEND_DRIVER_NOT_READY, f->driver->event_query(f->driver, event));
    mend_sim_advance(f->sim, 100);
    EXPECT_OK(f->driver->event_query(f->driver, event));
    EXPECT_U64_EQ(3 * 1000, sim_fixture_ledger(f).driver_time_ns);
}

MEND_TEST(sim_clock, prices_move_the_clock_where_asked_for)
{
    mend_sim_config config = MEND_SIM_CONFIG_INIT;
    config.prices_advance_clock = 1;
    sim_fixture f;
    if (sim_fixture_open(&f, &config)) {
        uint64_t expected = run_priced_life(&f);
        EXPECT_U64_EQ(expected, mend_sim_now_ns(f.sim));
        sim_fixture_close(&f);
    }
}

MEND_TEST(sim_clock, another_list_can_be_given)
{
    mend_sim_prices prices = {.create = {.call_ns = 7, .mib_ns = 3},
                              .synchronize = {.call_ns = 11}};
    mend_sim_config config = MEND_SIM_CONFIG_INIT;
    config.prices = &prices;
    sim_fixture f;
    if (sim_fixture_open(&f, &config)) {
        (void)sim_fixture_chunk(&f, 5 * MEND_MIB / 2);
        EXPECT_OK(f.driver->context_synchronize(f.driver));
        EXPECT_U64_EQ(7 + 7 + 11, sim_fixture_ledger(&f).driver_time_ns);
        sim_fixture_close(&f);
    }
}

/* The second list counts the same calls, and leaves the first and the clock alone. */
MEND_TEST(sim_clock, calls_are_priced_by_a_second_list_too)
{
    mend_sim_prices prices;
    EXPECT_RESULT(MEND_OK, mend_sim_prices_named("per-mapping", &prices));
    mend_sim_config config = MEND_SIM_CONFIG_INIT;
    config.compared_prices = &prices;
    config.prices_advance_clock = 1;
    sim_fixture f;
    if (sim_fixture_open(&f, &config)) {
        prices = (mend_sim_prices){.map = {.call_ns = 1}}; /* it was copied */
        uint64_t expected = run_priced_life(&f);
        mend_sim_ledger ledger = sim_fixture_ledger(&f);
        EXPECT_U64_EQ(expected, ledger.driver_time_ns);
        EXPECT_U64_EQ(expected, mend_sim_now_ns(f.sim));
        uint64_t access = 12000 + 2 * 3000;
        uint64_t unmap = 8000 + 2 * 12000;
        EXPECT_U64_EQ(expected - access - unmap + 4000 + 2 * 30000 + 3000 + 2 * 22000,
                      ledger.compared_time_ns);
        sim_fixture_close(&f);
    }
}

SIM_TEST(sim_clock, no_second_list_counts_nothing)
{
    (void)run_priced_life(f);
    EXPECT_U64_EQ(0, sim_fixture_ledger(f).compared_time_ns);
}

/* Prices may be anything: time ends, and does not run over. */
MEND_TEST(sim_clock, absurd_prices_end_time)
{
    mend_sim_prices prices = {.create = {.mib_ns = UINT64_MAX},
                              .synchronize = {.call_ns = UINT64_MAX - 5}};
    mend_sim_config config = MEND_SIM_CONFIG_INIT;
    config.prices = &prices;
    sim_fixture f;
    if (sim_fixture_open(&f, &config)) {
        EXPECT_OK(f.driver->context_synchronize(f.driver));
        EXPECT_U64_EQ(UINT64_MAX - 5, sim_fixture_ledger(&f).driver_time_ns);
        (void)sim_fixture_chunk(&f, 4 * MEND_MIB);
        EXPECT_U64_EQ(UINT64_MAX, sim_fixture_ledger(&f).driver_time_ns);
        EXPECT_OK(f.driver->context_synchronize(f.driver));
        EXPECT_U64_EQ(UINT64_MAX, sim_fixture_ledger(&f).driver_time_ns);
        sim_fixture_close(&f);
    }
}

/* Each queues one operation more on a stream that holds two. */
static mend_status queue_one(sim_fixture *f, int kind, mend_event event)
{
    const mend_kernel spin = {.kind = MEND_KERNEL_SPIN, .duration_ns = 100};
    switch (kind) {
    case 0:
        return f->driver->launch(f->driver, f->stream, &spin);
    case 1:
        return f->driver->event_record(f->driver, event, f->stream);
    default:
        return f->driver->stream_wait(f->driver, f->stream, event);
    }
}

MEND_TEST(sim_clock, a_full_queue_keeps_the_host)
{
    for (int kind = 0; kind < 3; kind++) {
        sim_fixture f;
        mend_event event = NULL;
        const mend_kernel spin = {.kind = MEND_KERNEL_SPIN, .duration_ns = 100};
        mend_sim_config config = MEND_SIM_CONFIG_INIT;
        config.queue_entries = 2;
        if (!sim_fixture_open(&f, &config)) {
            return;
        }
        EXPECT_OK(f.driver->event_create(f.driver, &event));
        EXPECT_OK(f.driver->launch(f.driver, f.stream, &spin));
        EXPECT_OK(f.driver->launch(f.driver, f.stream, &spin));
        EXPECT_U64_EQ(0, mend_sim_now_ns(f.sim));
        EXPECT_U64_EQ(0, sim_fixture_ledger(&f).queue_waits);
        EXPECT_OK(queue_one(&f, kind, event));
        EXPECT_U64_EQ(100, mend_sim_now_ns(f.sim)); /* one of two is done */
        EXPECT_U64_EQ(1, sim_fixture_ledger(&f).queue_waits);
        EXPECT_OK(queue_one(&f, kind, event));
        EXPECT_U64_EQ(200, mend_sim_now_ns(f.sim));
        mend_sim_advance(f.sim, 1000);
        EXPECT_OK(queue_one(&f, kind, event));
        EXPECT_U64_EQ(2, sim_fixture_ledger(&f).queue_waits);
        sim_fixture_close(&f);
    }
}
