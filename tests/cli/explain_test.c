/*
 * The explanation of a replay: causes of memory and of time add up exactly, on every workload; each
 * call of the driver is sorted to its cause; and looking changes nothing of what is looked at.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/align.h"
#include "lab/replay/causes.h"
#include "lab/replay/explain.h"
#include "lab/replay/replay.h"
#include "lab/workloads/workload.h"
#include "tests/cli/fixture.h"
#include "tests/support/test.h"

static mend_replay_options explaining(void)
{
    mend_replay_options options = MEND_REPLAY_OPTIONS_INIT;
    options.explain = true;
    return options;
}

/* ---- what is exact --------------------------------------------------------------------------- */

static void expect_exact_costs(const mend_replay_costs *costs, const mend_replay_calls *calls,
                               double time_us)
{
    uint64_t time_ns = 0;
    for (size_t cause = 0; cause < MEND_CAUSE_COUNT; cause++) {
        time_ns += costs->by_cause[cause].time_ns;
    }
    EXPECT_TRUE(fabs((double)time_ns / 1000 - time_us) < 0.001);
    uint64_t sorted = 0;
    for (size_t cause = 0; cause <= MEND_CAUSE_addresses; cause++) {
        sorted += costs->by_cause[cause].calls;
    }
    EXPECT_U64_EQ(sorted, calls->reserve_calls + calls->address_free_calls + calls->create_calls +
                              calls->release_calls + calls->map_calls + calls->unmap_calls +
                              calls->set_access_calls);
    EXPECT_U64_EQ(costs->by_cause[MEND_CAUSE_host_waits].calls, calls->synchronize_calls);
    for (size_t cause = 0; cause <= MEND_CAUSE_undoing; cause++) {
        uint64_t by_size_ns = 0;
        for (size_t i = 0; i < MEND_CAUSE_CLASSES; i++) {
            by_size_ns += costs->by_size[cause][i].time_ns;
        }
        EXPECT_U64_EQ(costs->by_cause[cause].time_ns, by_size_ns);
    }
}

static void expect_exact_moment(const mend_replay_moment *moment)
{
    const mend_explanation *state = &moment->state;
    EXPECT_U64_EQ(state->reserved_bytes - state->live_bytes, mend_explanation_free_bytes(state));
}

static void expect_exact(const mend_replay_result *result)
{
    const mend_replay_explanation *explanation = result->explanation;
    ASSERT_TRUE(explanation != NULL && explanation->knows_memory);
    for (size_t i = 0; i < MEND_MOMENT_COUNT; i++) {
        EXPECT_TRUE(explanation->moments[i].applies == (i != MEND_MOMENT_FAILURE) ||
                    !result->completed);
        if (explanation->moments[i].applies) {
            expect_exact_moment(&explanation->moments[i]);
        }
    }
    const mend_replay_moment *peak = &explanation->moments[MEND_MOMENT_PEAK_RESERVED];
    const mend_replay_moment *waste = &explanation->moments[MEND_MOMENT_PEAK_WASTE];
    /* Higher for a while inside a call at most, where chunks were made for nothing. */
    EXPECT_TRUE(peak->state.reserved_bytes <= result->peak_reserved_bytes);
    EXPECT_TRUE(waste->state.reserved_bytes - waste->state.live_bytes >=
                peak->state.reserved_bytes - peak->state.live_bytes);
    EXPECT_TRUE(result->completed == !explanation->moments[MEND_MOMENT_FAILURE].applies);
    expect_exact_costs(&explanation->costs, &result->calls, result->driver_time_us);
    expect_exact_costs(&explanation->costs_second_half, &result->calls_second_half,
                       result->driver_time_second_half_us);
}

/* With memory enough, or so little that it fails. */
static void expect_exact_at(const mend_trace *trace, const char *capacity, bool is_enough)
{
    mend_replay_options options = explaining();
    mend_replay_result result = fixture_replay(trace, "mend", capacity, &options);
    expect_exact(&result);
    EXPECT_TRUE(result.completed == is_enough);
    if (is_enough) {
        EXPECT_U64_EQ(result.peak_reserved_bytes,
                      result.explanation->moments[0].state.reserved_bytes);
    }
    mend_replay_result_clear(&result);
}

MEND_TEST(explain, causes_add_up_on_every_stress_workload)
{
    static const char *const specs[] = {
        "stress:checkerboard", "stress:checkerboard?lo=600KiB&hi=5MiB",
        "stress:small-pins",   "stress:phase-shift",
        "stress:many-streams", "stress:staircase",
        "stress:random-mix",
    };
    for (size_t i = 0; i < sizeof(specs) / sizeof(*specs); i++) {
        mend_trace *trace = fixture_workload(specs[i]);
        expect_exact_at(trace, "unlimited", true);
        expect_exact_at(trace, "0.9x", false);
        mend_trace_destroy(trace);
    }
}

MEND_TEST(explain, causes_add_up_on_the_recordings)
{
    static const char *const names[] = {"detector-varboxes", "fsdp-llama-2stream",
                                        "gpt2-medium-pretrain", "opt-rl-phases"};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        mend_trace *trace = fixture_recording(names[i]);
        ASSERT_TRUE(trace != NULL);
        expect_exact_at(trace, "1.05x", true);
        expect_exact_at(trace, "0.9x", false);
        mend_trace_destroy(trace);
    }
}

MEND_TEST(explain, looking_changes_nothing)
{
    mend_trace *trace = fixture_workload("stress:many-streams");
    mend_replay_options options = MEND_REPLAY_OPTIONS_INIT;
    mend_replay_result plain = fixture_replay(trace, "mend", "1.05x", &options);
    options.explain = true;
    mend_replay_result result = fixture_replay(trace, "mend", "1.05x", &options);
    EXPECT_TRUE(plain.explanation == NULL);
    EXPECT_U64_EQ(plain.completed, result.completed);
    EXPECT_U64_EQ(plain.peak_reserved_bytes, result.peak_reserved_bytes);
    EXPECT_U64_EQ(plain.mappings_peak, result.mappings_peak);
    EXPECT_TRUE(plain.driver_time_us == result.driver_time_us);
    EXPECT_INT_EQ(0, memcmp(&plain.calls, &result.calls, sizeof(plain.calls)));
    EXPECT_INT_EQ(0, memcmp(&plain.calls_second_half, &result.calls_second_half,
                            sizeof(plain.calls_second_half)));
    mend_replay_result_clear(&plain);
    mend_replay_result_clear(&result);
    mend_trace_destroy(trace);
}

/* ---- what it says ---------------------------------------------------------------------------- */

/* 100.5 MiB, 400 MiB, 100.5 MiB; the second goes, and a failure follows. Blocks 1 and 3 hold what
 * is free of their chunks. */
static const char held_chunks[] = TRACE_HEAD "0,0,allocate,1,105381888,0\n"
                                             "0,1,allocate,2,419430400,0\n"
                                             "0,2,allocate,3,105381888,0\n"
                                             "0,3,free,2,419430400,0\n"
                                             "0,4,allocate,9,0,0\n"
                                             "0,4,allocate,4,1073741824,0\n"
                                             "0,5,free,1,105381888,0\n"
                                             "0,6,free,4,1073741824,0\n";

MEND_TEST(explain, tells_events_and_ages_of_holders)
{
    mend_trace *trace = fixture_trace(held_chunks);
    mend_replay_options options = explaining();
    mend_replay_result result = fixture_replay(trace, "mend", "1GiB", &options);
    EXPECT_FALSE(result.completed);
    expect_exact(&result);
    const mend_replay_moment *failure = &result.explanation->moments[MEND_MOMENT_FAILURE];
    EXPECT_U64_EQ(5, failure->event);
    EXPECT_TRUE(failure->is_alloc);
    EXPECT_U64_EQ(MEND_GIB, failure->size_bytes);
    EXPECT_U64_EQ(201 * MEND_MIB, failure->state.live_bytes);
    EXPECT_U64_EQ(2, result.explanation->moments[MEND_MOMENT_PEAK_RESERVED].event);
    EXPECT_U64_EQ(3, result.explanation->moments[MEND_MOMENT_PEAK_WASTE].event);
    ASSERT_TRUE(failure->state.emptiest_count > 0);
    for (size_t i = 0; i < failure->state.emptiest_count; i++) {
        const mend_replay_holder *holder = &failure->holders[i];
        EXPECT_U64_EQ(201 * MEND_MIB / 2, failure->state.emptiest[i].holder_bytes);
        EXPECT_TRUE(holder->allocated_at == 0 || holder->allocated_at == 2);
        EXPECT_TRUE(holder->is_freed == (holder->allocated_at == 0));
        EXPECT_U64_EQ(holder->is_freed ? 6 : 0, holder->freed_at);
    }
    mend_replay_result_clear(&result);
    mend_trace_destroy(trace);
}

MEND_TEST(explain, models_tell_of_time_alone)
{
    mend_trace *trace = fixture_workload("stress:staircase");
    mend_replay_options options = explaining();
    mend_replay_result result = fixture_replay(trace, "expandable", "unlimited", &options);
    ASSERT_TRUE(result.explanation != NULL);
    EXPECT_FALSE(result.explanation->knows_memory);
    expect_exact_costs(&result.explanation->costs, &result.calls, result.driver_time_us);
    EXPECT_TRUE(result.explanation->costs.by_cause[MEND_CAUSE_growing].time_ns > 0);
    EXPECT_U64_EQ(0, result.explanation->costs.by_cause[MEND_CAUSE_moving].calls);
    mend_replay_result_clear(&result);
    result = fixture_replay(trace, "caching", "1.05x", &options);
    const mend_replay_cost *costs = result.explanation->costs.by_cause;
    EXPECT_U64_EQ(result.calls.malloc_calls, costs[MEND_CAUSE_growing].calls);
    EXPECT_U64_EQ(result.calls.free_calls, costs[MEND_CAUSE_giving_back].calls);
    EXPECT_TRUE(result.calls.free_calls > 0);
    mend_replay_result_clear(&result);
    mend_trace_destroy(trace);
}

MEND_TEST(explain, the_row_of_a_fit_is_explained)
{
    mend_trace *trace = fixture_workload("stress:random-mix?allocations=200");
    mend_replay_options options = explaining();
    mend_replay_result result = fixture_replay(trace, "mend", "fit", &options);
    EXPECT_TRUE(result.fitted);
    expect_exact(&result);
    mend_replay_result_clear(&result);
    mend_trace_destroy(trace);
}

/* ---- calls by cause -------------------------------------------------------------------------- */

enum { CHUNK = 4 << 20 };

typedef struct bench {
    mend_sim *sim;
    mend_driver *driver;
    mend_device_info info;
    uint64_t base;
    mend_replay_costs before;
} bench;

static void open_bench(bench *b)
{
    mend_sim_config config = MEND_SIM_CONFIG_INIT;
    config.content = MEND_SIM_CONTENT_NONE;
    EXPECT_RESULT(MEND_OK, mend_sim_create(&config, &b->sim));
    EXPECT_RESULT(MEND_OK, mend_causes_driver_create(b->sim, mend_sim_driver(b->sim), &b->driver));
    EXPECT_INT_EQ(MEND_DRIVER_OK, b->driver->device_open(b->driver, 0, &b->info));
    EXPECT_INT_EQ(MEND_DRIVER_OK, b->driver->context_push(b->driver, b->info.context));
    EXPECT_INT_EQ(MEND_DRIVER_OK, b->driver->reserve(b->driver, 64 * CHUNK, 0, 0, &b->base));
    mend_causes_driver_get(b->driver, &b->before);
}

static void close_bench(bench *b)
{
    b->driver->context_pop(b->driver);
    mend_causes_driver_destroy(b->driver);
    mend_sim_destroy(b->sim);
}

static mend_chunk_handle create(bench *b)
{
    mend_chunk_properties properties = {0};
    mend_chunk_handle handle = 0;
    EXPECT_INT_EQ(MEND_DRIVER_OK, b->driver->create(b->driver, CHUNK, &properties, &handle));
    return handle;
}

static void map(bench *b, uint64_t place, mend_chunk_handle handle)
{
    EXPECT_INT_EQ(MEND_DRIVER_OK,
                  b->driver->map(b->driver, b->base + place * CHUNK, CHUNK, 0, handle));
}

static void give_access(bench *b, uint64_t place, uint64_t count)
{
    int device = 0;
    EXPECT_INT_EQ(MEND_DRIVER_OK,
                  b->driver->set_access(b->driver, b->base + place * CHUNK, count * CHUNK, &device,
                                        1, MEND_ACCESS_READ_WRITE));
}

static void unmap(bench *b, uint64_t place, uint64_t count)
{
    EXPECT_INT_EQ(MEND_DRIVER_OK,
                  b->driver->unmap(b->driver, b->base + place * CHUNK, count * CHUNK));
}

static void release(bench *b, mend_chunk_handle handle)
{
    EXPECT_INT_EQ(MEND_DRIVER_OK, b->driver->release(b->driver, handle));
}

/* What was sorted since the last time. By the list `reference` every price is known. */
static void expect_cost(bench *b, mend_replay_cause cause, uint64_t calls, uint64_t time_ns,
                        uint64_t chunks)
{
    mend_replay_costs costs;
    mend_causes_driver_get(b->driver, &costs);
    mend_replay_costs_subtract(&costs, &b->before);
    EXPECT_U64_EQ(calls, costs.by_cause[cause].calls);
    EXPECT_U64_EQ(time_ns, costs.by_cause[cause].time_ns);
    if (cause <= MEND_CAUSE_undoing) {
        EXPECT_U64_EQ(chunks, costs.by_size[cause][mend_cause_class(CHUNK)].chunks);
        EXPECT_U64_EQ(time_ns, costs.by_size[cause][mend_cause_class(CHUNK)].time_ns);
    }
}

static void begin_again(bench *b)
{
    mend_causes_driver_get(b->driver, &b->before);
}

MEND_TEST(explain, sorts_growing_moving_and_retiring)
{
    bench b;
    open_bench(&b);
    mend_chunk_handle first = create(&b);
    map(&b, 0, first);
    give_access(&b, 0, 1);
    expect_cost(&b, MEND_CAUSE_growing, 3, 46000 + 2000 + 15000, 1);
    begin_again(&b);
    /* The old chunk and a new one behind each other, by one call for access. */
    mend_chunk_handle second = create(&b);
    map(&b, 4, first);
    map(&b, 5, second);
    give_access(&b, 4, 2);
    expect_cost(&b, MEND_CAUSE_growing, 3, 46000 + 2000 + 9000, 1);
    expect_cost(&b, MEND_CAUSE_moving, 1, 2000 + 9000, 1);
    begin_again(&b);
    unmap(&b, 0, 1);
    expect_cost(&b, MEND_CAUSE_retiring, 1, 20000, 1);
    expect_cost(&b, MEND_CAUSE_giving_back, 0, 0, 0);
    begin_again(&b);
    unmap(&b, 4, 2);
    release(&b, second);
    expect_cost(&b, MEND_CAUSE_retiring, 0, 0, 0);
    expect_cost(&b, MEND_CAUSE_giving_back, 2, 32000 + 22000, 1);
    begin_again(&b);
    /* The other way round: the call still counts as one to grow. */
    mend_chunk_handle third = create(&b);
    map(&b, 8, third);
    map(&b, 9, first);
    give_access(&b, 8, 2);
    expect_cost(&b, MEND_CAUSE_growing, 3, 46000 + 2000 + 9000, 1);
    expect_cost(&b, MEND_CAUSE_moving, 1, 2000 + 9000, 1);
    expect_cost(&b, MEND_CAUSE_undoing, 0, 0, 0);
    close_bench(&b);
}

MEND_TEST(explain, sorts_what_is_undone)
{
    bench b;
    open_bench(&b);
    mend_chunk_handle used = create(&b);
    map(&b, 0, used);
    give_access(&b, 0, 1);
    mend_chunk_handle vain = create(&b);
    map(&b, 8, used);
    map(&b, 9, vain);
    begin_again(&b);
    unmap(&b, 8, 2);
    release(&b, vain);
    expect_cost(&b, MEND_CAUSE_undoing, 2, 32000 + 22000, 1);
    expect_cost(&b, MEND_CAUSE_giving_back, 0, 0, 0);
    /* What is unmapped after its release goes with its last mapping. */
    begin_again(&b);
    release(&b, used);
    unmap(&b, 0, 1);
    expect_cost(&b, MEND_CAUSE_giving_back, 2, 22000 + 20000, 1);
    close_bench(&b);
}

MEND_TEST(explain, sorts_failed_calls_by_what_they_were_tried_for)
{
    bench b;
    open_bench(&b);
    mend_chunk_handle handle = create(&b);
    map(&b, 0, handle);
    begin_again(&b);
    mend_sim_fault fault = MEND_SIM_FAULT_INIT;
    int device = 0;
    fault.call = "set_access";
    EXPECT_RESULT(MEND_OK, mend_sim_fail(b.sim, &fault));
    EXPECT_TRUE(b.driver->set_access(b.driver, b.base, CHUNK, &device, 1, MEND_ACCESS_READ_WRITE) !=
                MEND_DRIVER_OK);
    fault.call = "create";
    EXPECT_RESULT(MEND_OK, mend_sim_fail(b.sim, &fault));
    mend_chunk_properties properties = {0};
    mend_chunk_handle none;
    EXPECT_TRUE(b.driver->create(b.driver, CHUNK, &properties, &none) != MEND_DRIVER_OK);
    mend_replay_costs costs;
    mend_causes_driver_get(b.driver, &costs);
    mend_replay_costs_subtract(&costs, &b.before);
    EXPECT_U64_EQ(2, costs.by_cause[MEND_CAUSE_growing].calls);
    EXPECT_U64_EQ(0, costs.by_size[MEND_CAUSE_growing][mend_cause_class(CHUNK)].chunks);
    begin_again(&b);
    /* It never had access. */
    unmap(&b, 0, 1);
    release(&b, handle);
    expect_cost(&b, MEND_CAUSE_undoing, 2, 20000 + 22000, 1);
    close_bench(&b);
}

MEND_TEST(explain, sorts_all_other_calls)
{
    bench b;
    mend_event event;
    open_bench(&b);
    EXPECT_INT_EQ(MEND_DRIVER_OK, b.driver->event_create(b.driver, &event));
    EXPECT_INT_EQ(MEND_DRIVER_OK, b.driver->event_record(b.driver, event, NULL));
    EXPECT_INT_EQ(MEND_DRIVER_OK, b.driver->event_query(b.driver, event));
    EXPECT_INT_EQ(MEND_DRIVER_OK, b.driver->stream_wait(b.driver, NULL, event));
    EXPECT_INT_EQ(MEND_DRIVER_OK, b.driver->event_synchronize(b.driver, event));
    EXPECT_INT_EQ(MEND_DRIVER_OK, b.driver->event_destroy(b.driver, event));
    EXPECT_INT_EQ(MEND_DRIVER_OK, b.driver->address_free(b.driver, b.base, 64 * CHUNK));
    expect_cost(&b, MEND_CAUSE_fences, 5, 3000, 0);
    expect_cost(&b, MEND_CAUSE_host_waits, 1, 200000, 0);
    expect_cost(&b, MEND_CAUSE_addresses, 1, 0, 0);
    mend_replay_costs costs;
    mend_causes_driver_get(b.driver, &costs);
    EXPECT_U64_EQ(2, costs.by_cause[MEND_CAUSE_asking].calls);
    EXPECT_U64_EQ(20000, costs.by_cause[MEND_CAUSE_addresses].time_ns);
    close_bench(&b);
}

/* Each request is served in one way; other policies count none. */
MEND_TEST(explain, a_replay_says_how_requests_were_served)
{
    mend_trace *trace = NULL;
    ASSERT_RESULT(MEND_OK, mend_workload_generate("stress:random-mix?live=512MiB", 0, &trace));
    mend_replay_options options = (mend_replay_options)MEND_REPLAY_OPTIONS_INIT;
    mend_replay_result result = fixture_replay(trace, "mend", "1.05x", &options);
    EXPECT_TRUE(result.completed);
    EXPECT_TRUE(result.placed.in_run > 0 && result.placed.by_extension > 0 &&
                result.placed.at_new_address > 0);
    EXPECT_U64_EQ(result.alloc_ns.calls, result.placed.in_run + result.placed.by_extension +
                                             result.placed.at_new_address + result.placed.by_alias);
    mend_replay_result_clear(&result);
    result = fixture_replay(trace, "expandable", "2x", &options);
    EXPECT_U64_EQ(0, result.placed.in_run + result.placed.at_new_address);
    mend_replay_result_clear(&result);
    mend_trace_destroy(trace);
}
