/*
 * Every scenario, with every driver call and every allocation of host memory failing: once, a few
 * times, for ever, by several answers of the driver, and with the device lost. Counts of
 * positions are printed where MEND_TEST_FIGURES is set in the environment.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fault/scenario.h"
#include "tests/support/test.h"

#define LLU(value) ((unsigned long long)(value))

/* Above so many positions of one scenario some are drawn by the seed. Ballast moves the place where
 * records run out: a few positions of each amount meet it. */
enum { MOST_POSITIONS = 200, MOST_POSITIONS_WITH_BALLAST = 8, MOST_LEFT = 3 };

static const int statuses[] = {MEND_DRIVER_INVALID_VALUE, MEND_DRIVER_OUT_OF_MEMORY,
                               MEND_DRIVER_NOT_READY, MEND_DRIVER_UNKNOWN};
enum { STATUS_LOST = 700, STATUS_COUNT = sizeof(statuses) / sizeof(statuses[0]) };

/* Beside for ever. Where no more failed than a count allows, that would be the same run again, and
 * a code of which the pool has made what it made of another is tried for ever alone. */
static const uint64_t counts[] = {3, 1};
enum { COUNTS = sizeof(counts) / sizeof(counts[0]), MOST_AMOUNTS = 256 };

typedef struct sweep {
    const scenario *given;
    mend_test_random random;
    uint64_t driver_positions;
    uint64_t host_positions;
    uint64_t runs;
    scenario_end last;
    uint64_t ways[MOST_AMOUNTS];
    int way_count;
} sweep;

/* False when the test has failed: one broken position is enough to read. */
static bool run_fault(sweep *s, const planned_fault *fault, scenario_positions *positions)
{
    static const char *const kinds[] = {"no fault, call", "driver call",
                                        "device lost at driver call", "host allocation"};
    s->last = scenario_run(s->given, fault, positions);
    s->runs++;
    if (mend_test_has_failed()) {
        mend_test_fail(__FILE__, __LINE__,
                       "%s: %s %llu, %llu times, status %d, ballast %d, dry %d, %d left",
                       s->given->name, kinds[fault->kind], LLU(fault->position), LLU(fault->count),
                       fault->status, fault->ballast, fault->dry, fault->left);
    }
    return !mend_test_has_failed();
}

static bool fail_driver_call(sweep *s, uint64_t position)
{
    s->driver_positions++;
    bool well = true;
    uint64_t outcomes[STATUS_COUNT] = {0};
    for (int i = 0; i < STATUS_COUNT && well; i++) {
        planned_fault fault = {FAULT_DRIVER, position, UINT64_MAX, statuses[i], 0, 0, 0, false};
        well = run_fault(s, &fault, NULL);
        outcomes[i] = s->last.outcome;
        bool is_known = false;
        for (int k = 0; k < i; k++) {
            is_known = is_known || outcomes[k] == outcomes[i];
        }
        for (int c = 0; c < COUNTS && well && !is_known; c++) {
            fault.count = counts[c];
            well = s->last.failures <= fault.count || run_fault(s, &fault, NULL);
        }
    }
    planned_fault lost = {FAULT_LOST, position, UINT64_MAX, STATUS_LOST, 0, 0, 0, false};
    return well && run_fault(s, &lost, NULL);
}

static bool is_drawn(sweep *s, uint64_t positions, uint64_t most)
{
    return positions <= most || mend_test_random_below(&s->random, positions) < most;
}

/* False where the call has come to the same allocations before, of another amount of ballast. */
static bool are_new_ways(sweep *s, uint64_t ways)
{
    for (int i = 0; i < s->way_count; i++) {
        if (s->ways[i] == ways) {
            return false;
        }
    }
    s->ways[s->way_count++] = ways;
    return true;
}

static bool sweep_positions(sweep *s, int ballast, int dry)
{
    scenario_positions positions = {0};
    const bool is_first = ballast == 0 && dry == 0; /* the bytes were seen before driver calls */
    planned_fault none = {
        .kind = FAULT_NONE, .without_bytes = true, .ballast = ballast, .dry = dry};
    bool well = run_fault(s, &none, &positions);
    const bool is_new = positions.ends_as_told && are_new_ways(s, positions.host_ways);
    none.without_bytes = false;
    well = well && (!is_new || is_first || run_fault(s, &none, NULL));
    const uint64_t count = is_new ? positions.host_allocations : 0;
    const uint64_t most = ballast > 0 ? MOST_POSITIONS_WITH_BALLAST : MOST_POSITIONS;
    for (uint64_t i = 0; i < count && well; i++) {
        if (is_drawn(s, count, most)) {
            s->host_positions++;
            planned_fault fault = {FAULT_HOST, i, UINT64_MAX, 0, ballast, dry, 0, false};
            well = run_fault(s, &fault, NULL);
            fault.count = 1;
            well = well && (s->last.failures <= 1 || run_fault(s, &fault, NULL));
        }
    }
    const uint64_t few = mend_min_u64(positions.host_allocations, MOST_POSITIONS_WITH_BALLAST);
    for (int left = 1; left < positions.records && left <= MOST_LEFT; left++) {
        for (uint64_t i = 0; i < few && well; i++) {
            planned_fault fault = {FAULT_HOST, i, UINT64_MAX, 0, 0, dry, left, true};
            well = run_fault(s, &fault, NULL);
        }
    }
    return well;
}

static const scenario *at(size_t index)
{
    return index < scenario_count ? &scenarios[index] : &range_scenarios[index - scenario_count];
}

/* The scenario that has the name of the test. */
static void sweep_this(void)
{
    size_t index = 0;
    while (strcmp(at(index)->name, mend_test_name()) != 0) {
        index++;
    }
    sweep s = {.given = at(index)};
    mend_test_random_init(&s.random, mend_test_seed());
    scenario_positions positions = {0};
    bool well = run_fault(&s, &(planned_fault){.kind = FAULT_NONE}, &positions);
    for (uint64_t i = 0; i < positions.driver_calls && well; i++) {
        well = !is_drawn(&s, positions.driver_calls, MOST_POSITIONS) || fail_driver_call(&s, i);
    }
    /* With ever more ballast, then with one kind of records used up after the other. */
    const bool is_call = s.given->kind == SCENARIO_CALL;
    for (int i = 0; i <= (is_call ? SCENARIO_MOST_BALLAST : 0) && well; i++) {
        well = sweep_positions(&s, i, 0);
    }
    for (int i = 1; i <= (is_call ? SCENARIO_DRY_SLABS : 0) && well; i++) {
        well = sweep_positions(&s, 0, i);
    }
    if (getenv("MEND_TEST_FIGURES") != NULL) {
        printf("figures: %s: %llu driver positions, %llu host positions, %llu runs\n",
               s.given->name, LLU(s.driver_positions), LLU(s.host_positions), LLU(s.runs));
    }
}

__attribute__((constructor)) static void register_tests(void)
{
    for (size_t i = 0; i < scenario_count + range_scenario_count; i++) {
        mend_test_register("scenario_positions", at(i)->name, __FILE__, __LINE__, sweep_this);
    }
}
