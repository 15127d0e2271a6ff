/* The virtual clock: its advance, and the order in which work completes. */

#include "tests/unit/sim/sim_fixture.h"

static void touch(sim_fixture *f, mend_stream stream, uint64_t finish_ns)
{
    sim_fixture_work(f, stream, MEND_SIM_WORK_TOUCH, 0, 0, 0, finish_ns);
}

SIM_TEST(sim_clock, events_may_be_reported_late)
{
    mend_stream other = sim_fixture_stream(f);
    mend_event event = sim_fixture_event(f);
    mend_sim_set_event_delay(f->sim, 50);
    PASS(event_query, event);
    touch(f, f->stream, 100);
    PASS(event_record, event, f->stream);
    mend_sim_advance(f->sim, 100);
    /* The work is done and streams know it. Only the report is late. */
    PASS(stream_query, f->stream);
    ANSWER(NOT_READY, event_query, event);
    PASS(stream_wait, other, event);
    sim_fixture_spin(f, other, 10);
    PASS(stream_synchronize, other);
    EXPECT_U64_EQ(110, mend_sim_now_ns(f->sim));
    PASS(event_synchronize, event);
    EXPECT_U64_EQ(150, mend_sim_now_ns(f->sim));
    PASS(event_query, event);
}

/* A wait of the program: no driver call, and no wait of an allocator. */
SIM_TEST(sim_clock, a_program_waits_for_its_stream)
{
    mend_stream other = sim_fixture_stream(f);
    touch(f, other, 300);
    touch(f, f->stream, 100);
    EXPECT_RESULT(MEND_OK, mend_sim_synchronize(f->sim, f->stream));
    EXPECT_U64_EQ(100, mend_sim_now_ns(f->sim));
    EXPECT_U64_EQ(1, sim_fixture_ledger(f).pending_work); /* the other stream's */
    EXPECT_U64_EQ(0, sim_fixture_ledger(f).host_syncs);
    EXPECT_RESULT(MEND_OK, mend_sim_stream_wait(f->sim, f->stream, other));
    EXPECT_RESULT(MEND_OK, mend_sim_synchronize(f->sim, f->stream));
    EXPECT_U64_EQ(300, mend_sim_now_ns(f->sim));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_sim_synchronize(NULL, f->stream));
    EXPECT_RESULT(MEND_OK,
                  mend_sim_begin_capture(f->sim, f->stream, MEND_SIM_CAPTURE_THREAD_LOCAL));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_sim_synchronize(f->sim, f->stream));
    EXPECT_RESULT(MEND_ERROR_DRIVER, mend_sim_end_capture(f->sim, f->stream, NULL));
}

/* A device of 4 MiB that cleans one in 1000 ns. */
static const mend_sim_prices scrubbing = {.struct_size = sizeof(mend_sim_prices),
                                          .scrub = {.mib_ns = 1000}};

SIM_TEST_AS(sim_clock, a_creation_waits_until_enough_is_clean, .memory_bytes = 4 * MEND_MIB,
            .prices = &scrubbing)
{
    PASS(release, sim_fixture_chunk(f, 3 * MEND_MIB)); /* never used: clean */
    sim_fixture_chunk(f, MEND_MIB);                    /* clean memory goes first */
    EXPECT_U64_EQ(0, sim_fixture_ledger(f).scrub_wait_ns);
    mend_sim_advance(f->sim, 1000); /* one of three is clean now */
    sim_fixture_chunk(f, 2 * MEND_MIB);
    EXPECT_U64_EQ(1000, sim_fixture_ledger(f).scrub_wait_ns);
    EXPECT_U64_EQ(1000, sim_fixture_ledger(f).driver_time_ns);
    /* One that is refused has waited for all that could have become clean. */
    mend_chunk_properties properties = {.device = 0};
    mend_chunk_handle none = 0;
    ANSWER(OUT_OF_MEMORY, create, 2 * MEND_MIB, &properties, &none);
    EXPECT_U64_EQ(2000, sim_fixture_ledger(f).driver_time_ns);
}

SIM_TEST_AS(sim_clock, what_was_waited_for_is_not_cleaned_twice, .memory_bytes = 4 * MEND_MIB,
            .prices = &scrubbing, .prices_advance_clock = 1)
{
    PASS(release, sim_fixture_chunk(f, 4 * MEND_MIB));
    mend_chunk_handle one = sim_fixture_chunk(f, MEND_MIB);
    EXPECT_U64_EQ(1000, mend_sim_now_ns(f->sim));
    mend_chunk_handle other = sim_fixture_chunk(f, MEND_MIB);
    EXPECT_U64_EQ(2000, mend_sim_now_ns(f->sim));
    mend_sim_advance(f->sim, 10000);
    PASS(release, one);
    PASS(release, other);
    sim_fixture_chunk(f, 2 * MEND_MIB); /* cleaned long ago */
    EXPECT_U64_EQ(12000, mend_sim_now_ns(f->sim));
}

/* The cost of a short life of a mapping by the reference table. */
static uint64_t run_priced_life(sim_fixture *f)
{
    uint64_t address = 0;
    PASS(reserve, MEND_MIB, 0, 0, &address);
    for (uint64_t i = 0; i < 2; i++) {
        mend_chunk_handle handle = sim_fixture_chunk(f, MEND_MIB / 2);
        PASS(map, address + i * MEND_MIB / 2, MEND_MIB / 2, 0, handle);
        PASS(release, handle);
    }
    sim_fixture_allow(f, address, MEND_MIB);
    ANSWER(INVALID_VALUE, unmap, address, f->page); /* a refused call costs nothing */
    PASS(unmap, address, MEND_MIB);
    PASS(address_free, address, MEND_MIB);
    PASS(stream_synchronize, f->stream);
    return 20000 + 2 * (40000 + 750) + 2 * 2000 + 2 * (20000 + 250) + (12000 + 2 * 3000) +
           (8000 + 2 * 12000) + 200000;
}

SIM_TEST_AS(sim_clock, calls_are_priced_by_other_lists_afterwards, .prices_advance_clock = 1)
{
    uint64_t expected = run_priced_life(f);
    struct {
        const char *list;
        uint64_t time_ns;
    } lists[] = {{"reference", expected},
                 {"h200", 1900 + 2 * (8828 + 3) + 2 * 687 + 2 * (11799 + 123) +
                              (822 + 2 * 21049 + 50) + (1827 + 2 * 14014 + 16) + 1900 + 1664},
                 {"kvcached-a100", 19000 + 2 * (193000 + 1450 + 23000 + 25600 + 36000) + 200000}};
    for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++) {
        mend_sim_prices prices = MEND_SIM_PRICES_INIT;
        ASSERT_RESULT(MEND_OK, mend_sim_prices_named(lists[i].list, &prices));
        EXPECT_U64_EQ(lists[i].time_ns, mend_sim_time_by(f->sim, &prices));
    }
    EXPECT_U64_EQ(expected, sim_fixture_ledger(f).driver_time_ns);
    EXPECT_U64_EQ(expected, mend_sim_now_ns(f->sim));
}

SIM_TEST_AS(sim_clock, absurd_prices_end_time,
            .prices = &(mend_sim_prices){.struct_size = sizeof(mend_sim_prices),
                                         .create = {.mib_ns = UINT64_MAX},
                                         .synchronize = {.call_ns = UINT64_MAX - 5}})
{
    PASS(context_synchronize);
    EXPECT_U64_EQ(UINT64_MAX - 5, sim_fixture_ledger(f).driver_time_ns);
    sim_fixture_chunk(f, 4 * MEND_MIB);
    EXPECT_U64_EQ(UINT64_MAX, sim_fixture_ledger(f).driver_time_ns);
    PASS(context_synchronize);
    EXPECT_U64_EQ(UINT64_MAX, sim_fixture_ledger(f).driver_time_ns);
}

static void queue_one(sim_fixture *f, int kind, mend_event event)
{
    if (kind == 0) {
        sim_fixture_spin(f, f->stream, 100);
    } else if (kind == 1) {
        PASS(event_record, event, f->stream);
    } else {
        PASS(stream_wait, f->stream, event);
    }
}

SIM_EACH(sim_clock, a_full_queue_keeps_the_host, kind, 3, SIM_CONFIG(.queue_entries = 2))
{
    mend_event event = sim_fixture_event(f);
    sim_fixture_spin(f, f->stream, 100);
    sim_fixture_spin(f, f->stream, 100);
    EXPECT_U64_EQ(0, mend_sim_now_ns(f->sim));
    EXPECT_U64_EQ(0, sim_fixture_ledger(f).queue_waits);
    queue_one(f, kind, event);
    EXPECT_U64_EQ(100, mend_sim_now_ns(f->sim)); /* one of two is done */
    EXPECT_U64_EQ(1, sim_fixture_ledger(f).queue_waits);
    queue_one(f, kind, event);
    EXPECT_U64_EQ(200, mend_sim_now_ns(f->sim));
    mend_sim_advance(f->sim, 1000);
    queue_one(f, kind, event);
    EXPECT_U64_EQ(2, sim_fixture_ledger(f).queue_waits);
}
