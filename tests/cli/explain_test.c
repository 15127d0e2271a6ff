/*
 * The explanation of a replay: causes of memory and of time add up exactly, on every workload. Each
 * driver call is sorted to its cause, and looking changes nothing.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/align.h"
#include "lab/replay/causes.h"
#include "lab/replay/explain.h"
#include "lab/replay/replay.h"
#include "tests/cli/fixture.h"
#include "tests/support/kit.h"

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
    ENDING_RESULT mend_replay_result result = fixture_replay(trace, "mend", capacity, &options);
    expect_exact(&result);
    EXPECT_TRUE(result.completed == is_enough);
    if (is_enough) {
        EXPECT_U64_EQ(result.peak_reserved_bytes,
                      result.explanation->moments[0].state.reserved_bytes);
    }
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
        ENDING_TRACE mend_trace *trace = fixture_workload(specs[i]);
        expect_exact_at(trace, "unlimited", true);
        expect_exact_at(trace, "0.9x", false);
    }
}

MEND_TEST(explain, looking_changes_nothing)
{
    ENDING_TRACE mend_trace *trace = fixture_workload("stress:many-streams");
    mend_replay_options options = MEND_REPLAY_OPTIONS_INIT;
    ENDING_RESULT mend_replay_result plain = fixture_replay(trace, "mend", "1.05x", &options);
    options.explain = true;
    ENDING_RESULT mend_replay_result result = fixture_replay(trace, "mend", "1.05x", &options);
    EXPECT_TRUE(plain.explanation == NULL);
    EXPECT_U64_EQ(plain.completed, result.completed);
    EXPECT_U64_EQ(plain.peak_reserved_bytes, result.peak_reserved_bytes);
    EXPECT_U64_EQ(plain.mappings_peak, result.mappings_peak);
    EXPECT_TRUE(plain.driver_time_us == result.driver_time_us);
    EXPECT_INT_EQ(0, memcmp(&plain.calls, &result.calls, sizeof(plain.calls)));
    EXPECT_INT_EQ(0, memcmp(&plain.calls_second_half, &result.calls_second_half,
                            sizeof(plain.calls_second_half)));
}

/* ---- what it says ---------------------------------------------------------------------------- */

/* 100.5 MiB, 400 MiB, 100.5 MiB. The second goes, and a failure follows. Blocks 1 and 3 hold the
 * free memory of their chunks in place. */
static const char held_chunks[] = "1+105381888 2+400M 3+105381888 -2 9+0 4+1073741824 -1 -4";

MEND_TEST(explain, tells_events_and_ages_of_owners)
{
    ENDING_TRACE mend_trace *trace = fixture_steps(held_chunks);
    mend_replay_options options = explaining();
    ENDING_RESULT mend_replay_result result = fixture_replay(trace, "mend", "1GiB", &options);
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
        const mend_replay_owner *owner = &failure->owners[i];
        EXPECT_U64_EQ(201 * MEND_MIB / 2, failure->state.emptiest[i].owner_bytes);
        EXPECT_TRUE(owner->allocated_at == 0 || owner->allocated_at == 2);
        EXPECT_TRUE(owner->is_freed == (owner->allocated_at == 0));
        EXPECT_U64_EQ(owner->is_freed ? 6 : 0, owner->freed_at);
    }
}

/* ---- calls by cause -------------------------------------------------------------------------- */

enum { CHUNK = 4 << 20 };

typedef struct bench {
    mend_sim *sim;
    mend_driver *driver;
    mend_device_info info;
    uint64_t base;
    mend_chunk_handle chunks[10];
    mend_replay_costs before;
} bench;

static void begin_again(bench *b)
{
    mend_causes_driver_get(b->driver, &b->before);
}

static bool open_bench(bench *b)
{
    mend_sim_config config = MEND_SIM_CONFIG_INIT;
    config.content = MEND_SIM_CONTENT_NONE;
    EXPECT_RESULT(MEND_OK, mend_sim_create(&config, &b->sim));
    EXPECT_RESULT(MEND_OK, mend_causes_driver_create(b->sim, mend_sim_driver(b->sim), &b->driver));
    EXPECT_INT_EQ(MEND_DRIVER_OK, b->driver->device_open(b->driver, 0, &b->info));
    EXPECT_INT_EQ(MEND_DRIVER_OK, b->driver->context_push(b->driver, b->info.context));
    EXPECT_INT_EQ(MEND_DRIVER_OK, b->driver->reserve(b->driver, 64 * CHUNK, 0, 0, &b->base));
    begin_again(b);
    return !mend_test_has_failed();
}

static void close_bench(bench *b)
{
    b->driver->context_pop(b->driver);
    mend_causes_driver_destroy(b->driver);
    mend_sim_destroy(b->sim);
}

#define BENCH_TEST(name) KIT_CASE(explain, name, bench, b, open_bench(b), close_bench(b))

/* Begins again, and makes calls: "c1" creates chunk 1, "m1@4" maps it at the fourth place, "a4+2"
 * gives access to two places, "u4+2" unmaps them, "r1" releases the chunk. */
static void drive(bench *b, const char *steps)
{
    const mend_driver *d = b->driver;
    const mend_chunk_properties properties = {0};
    const int device = 0;
    begin_again(b);
    for (; *steps != 0; steps += strspn(steps, " ")) {
        char kind = *steps++;
        uint64_t first = fixture_size(&steps);
        uint64_t second = strchr("mau", kind) != NULL ? (steps++, fixture_size(&steps)) : 0;
        mend_chunk_handle *chunk = &b->chunks[first];
        uint64_t at = b->base + (kind == 'm' ? second : first) * CHUNK;
        uint64_t bytes = kind == 'm' ? CHUNK : second * CHUNK;
        EXPECT_INT_EQ(MEND_DRIVER_OK, kind == 'c'   ? d->create(d, CHUNK, &properties, chunk)
                                      : kind == 'm' ? d->map(d, at, bytes, 0, *chunk)
                                      : kind == 'a' ? d->set_access(d, at, bytes, &device, 1,
                                                                    MEND_ACCESS_READ_WRITE)
                                      : kind == 'u' ? d->unmap(d, at, bytes)
                                                    : d->release(d, *chunk));
    }
}

/* Calls sorted since the last time. By the list `reference` every price is known. */
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

BENCH_TEST(sorts_growing_moving_and_retiring)
{
    drive(b, "c1 m1@0 a0+1");
    expect_cost(b, MEND_CAUSE_growing, 3, 46000 + 2000 + 15000, 1);
    /* The old chunk and a new one behind each other, by one call for access. */
    drive(b, "c2 m1@4 m2@5 a4+2");
    expect_cost(b, MEND_CAUSE_growing, 3, 46000 + 2000 + 9000, 1);
    expect_cost(b, MEND_CAUSE_moving, 1, 2000 + 9000, 1);
    drive(b, "u0+1");
    expect_cost(b, MEND_CAUSE_retiring, 1, 20000, 1);
    expect_cost(b, MEND_CAUSE_giving_back, 0, 0, 0);
    drive(b, "u4+2 r2");
    expect_cost(b, MEND_CAUSE_retiring, 0, 0, 0);
    expect_cost(b, MEND_CAUSE_giving_back, 2, 32000 + 22000, 1);
    /* The other way round: the call still counts as one to grow. */
    drive(b, "c3 m3@8 m1@9 a8+2");
    expect_cost(b, MEND_CAUSE_growing, 3, 46000 + 2000 + 9000, 1);
    expect_cost(b, MEND_CAUSE_moving, 1, 2000 + 9000, 1);
    expect_cost(b, MEND_CAUSE_undoing, 0, 0, 0);
}

BENCH_TEST(sorts_what_is_undone)
{
    drive(b, "c1 m1@0 a0+1 c2 m1@8 m2@9");
    drive(b, "u8+2 r2");
    expect_cost(b, MEND_CAUSE_undoing, 2, 32000 + 22000, 1);
    expect_cost(b, MEND_CAUSE_giving_back, 0, 0, 0);
    /* A chunk that is unmapped after its release goes with its last mapping. */
    drive(b, "r1 u0+1");
    expect_cost(b, MEND_CAUSE_giving_back, 2, 22000 + 20000, 1);
}

BENCH_TEST(sorts_failed_calls_by_what_they_were_tried_for)
{
    drive(b, "c1 m1@0");
    begin_again(b);
    mend_sim_fault fault = MEND_SIM_FAULT_INIT;
    int device = 0;
    fault.call = "set_access";
    EXPECT_RESULT(MEND_OK, mend_sim_fail(b->sim, &fault));
    EXPECT_TRUE(b->driver->set_access(b->driver, b->base, CHUNK, &device, 1,
                                      MEND_ACCESS_READ_WRITE) != MEND_DRIVER_OK);
    fault.call = "create";
    EXPECT_RESULT(MEND_OK, mend_sim_fail(b->sim, &fault));
    mend_chunk_properties properties = {0};
    mend_chunk_handle none;
    EXPECT_TRUE(b->driver->create(b->driver, CHUNK, &properties, &none) != MEND_DRIVER_OK);
    mend_replay_costs costs;
    mend_causes_driver_get(b->driver, &costs);
    mend_replay_costs_subtract(&costs, &b->before);
    EXPECT_U64_EQ(2, costs.by_cause[MEND_CAUSE_growing].calls);
    EXPECT_U64_EQ(0, costs.by_size[MEND_CAUSE_growing][mend_cause_class(CHUNK)].chunks);
    drive(b, "u0+1 r1"); /* it never had access */
    expect_cost(b, MEND_CAUSE_undoing, 2, 20000 + 22000, 1);
}

BENCH_TEST(sorts_all_other_calls)
{
    mend_event event;
    EXPECT_INT_EQ(MEND_DRIVER_OK, b->driver->event_create(b->driver, &event));
    EXPECT_INT_EQ(MEND_DRIVER_OK, b->driver->event_record(b->driver, event, NULL));
    EXPECT_INT_EQ(MEND_DRIVER_OK, b->driver->event_query(b->driver, event));
    EXPECT_INT_EQ(MEND_DRIVER_OK, b->driver->stream_wait(b->driver, NULL, event));
    EXPECT_INT_EQ(MEND_DRIVER_OK, b->driver->event_synchronize(b->driver, event));
    EXPECT_INT_EQ(MEND_DRIVER_OK, b->driver->event_destroy(b->driver, event));
    EXPECT_INT_EQ(MEND_DRIVER_OK, b->driver->address_free(b->driver, b->base, 64 * CHUNK));
    expect_cost(b, MEND_CAUSE_fences, 5, 3000, 0);
    expect_cost(b, MEND_CAUSE_host_waits, 1, 200000, 0);
    expect_cost(b, MEND_CAUSE_addresses, 1, 0, 0);
    mend_replay_costs costs;
    mend_causes_driver_get(b->driver, &costs);
    EXPECT_U64_EQ(2, costs.by_cause[MEND_CAUSE_asking].calls);
    EXPECT_U64_EQ(20000, costs.by_cause[MEND_CAUSE_addresses].time_ns);
}
