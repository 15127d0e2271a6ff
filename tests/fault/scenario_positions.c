/*
 * Every scenario, with every driver call and every allocation of host memory failing: once, a few
 * times, for ever, by several answers of the driver, and with the device lost. The figures of
 * docs/testing.md are printed where MEND_TEST_FIGURES is set in the environment; with
 * MEND_TEST_GO_ON a sweep does not end at the first failure, and names each run before it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fault/scenario.h"
#include "tests/support/test.h"

/* Above so many positions of one scenario some are drawn by the seed. Ballast moves the place where
 * records run out: a few positions of each amount meet it. */
enum { MOST_POSITIONS = 200, MOST_POSITIONS_WITH_BALLAST = 8 };

static const int statuses[] = {
    1,   /* invalid value */
    2,   /* out of memory */
    600, /* not ready */
    999, /* unknown */
};
enum { STATUS_LOST = 700, STATUS_COUNT = sizeof(statuses) / sizeof(statuses[0]) };

static const uint64_t driver_counts[] = {1, 3, UINT64_MAX};
static const uint64_t host_counts[] = {1, UINT64_MAX};

typedef struct figures {
    uint64_t scenarios;
    uint64_t driver_positions;
    uint64_t host_positions;
    uint64_t runs;
} figures;

static figures total;

static void print_figures(const char *name, const figures *figure)
{
    if (getenv("MEND_TEST_FIGURES") != NULL) {
        printf("figures: %s: %llu driver positions, %llu host positions, %llu runs\n", name,
               (unsigned long long)figure->driver_positions,
               (unsigned long long)figure->host_positions, (unsigned long long)figure->runs);
    }
}

static void describe(const scenario *given, const planned_fault *fault, char *text, size_t size)
{
    static const char *const kinds[] = {"no fault, call", "driver call",
                                        "device lost at driver call", "host allocation"};
    const char *duration = fault->count == 1            ? "once"
                           : fault->count == UINT64_MAX ? "for ever"
                                                        : "a few times";
    snprintf(text, size, "%s: %s %llu, %s, status %d, ballast %d, dry %d", given->name,
             kinds[fault->kind], (unsigned long long)fault->position, duration, fault->status,
             fault->ballast, fault->dry);
}

/* False when the test has failed: one broken position is enough to read, unless all are asked for.
 */
static bool run_fault(const scenario *given, const planned_fault *fault, figures *figure,
                      scenario_positions *positions)
{
    bool go_on = getenv("MEND_TEST_GO_ON") != NULL;
    char text[200];
    describe(given, fault, text, sizeof(text));
    if (go_on) {
        printf("== %s\n", text);
    }
    scenario_run(given, fault, positions);
    figure->runs++;
    if (mend_test_has_failed() && !go_on) {
        mend_test_fail(__FILE__, __LINE__, "%s", text);
    }
    return go_on || !mend_test_has_failed();
}

static bool fail_driver_call(const scenario *given, uint64_t position, figures *figure)
{
    figure->driver_positions++;
    bool well = true;
    for (size_t i = 0; i < sizeof(driver_counts) / sizeof(driver_counts[0]); i++) {
        for (int k = 0; k < STATUS_COUNT && well; k++) {
            planned_fault fault = {FAULT_DRIVER, position, driver_counts[i], statuses[k], 0, 0};
            well = run_fault(given, &fault, figure, NULL);
        }
    }
    planned_fault lost = {FAULT_LOST, position, UINT64_MAX, STATUS_LOST, 0, 0};
    return well && run_fault(given, &lost, figure, NULL);
}

static bool fail_host_allocation(const scenario *given, uint64_t position, int ballast, int dry,
                                 figures *figure)
{
    figure->host_positions++;
    bool well = true;
    for (size_t i = 0; i < sizeof(host_counts) / sizeof(host_counts[0]) && well; i++) {
        planned_fault fault = {FAULT_HOST, position, host_counts[i], 0, ballast, dry};
        well = run_fault(given, &fault, figure, NULL);
    }
    return well;
}

static bool is_drawn(mend_test_random *random, uint64_t positions, uint64_t most)
{
    return positions <= most || mend_test_random_below(random, positions) < most;
}

static bool sweep_driver_calls(const scenario *given, mend_test_random *random, figures *figure)
{
    scenario_positions positions = {0};
    bool well = run_fault(given, &(planned_fault){.kind = FAULT_NONE}, figure, &positions);
    for (uint64_t i = 0; i < positions.driver_calls && well; i++) {
        well = !is_drawn(random, positions.driver_calls, MOST_POSITIONS) ||
               fail_driver_call(given, i, figure);
    }
    return well;
}

static bool sweep_positions(const scenario *given, mend_test_random *random, int ballast, int dry,
                            figures *figure)
{
    scenario_positions positions = {0};
    planned_fault none = {.kind = FAULT_NONE, .ballast = ballast, .dry = dry};
    bool well = run_fault(given, &none, figure, &positions);
    uint64_t count = positions.ends_as_told ? positions.host_allocations : 0;
    const uint64_t most = ballast > 0 ? MOST_POSITIONS_WITH_BALLAST : MOST_POSITIONS;
    for (uint64_t i = 0; i < count && well; i++) {
        well =
            !is_drawn(random, count, most) || fail_host_allocation(given, i, ballast, dry, figure);
    }
    return well;
}

/* With ever more ballast, then with one kind of records used up after the other. */
static bool sweep_host_allocations(const scenario *given, mend_test_random *random, figures *figure)
{
    bool is_call = given->kind == SCENARIO_CALL;
    bool well = true;
    for (int i = 0; i <= (is_call ? SCENARIO_MOST_BALLAST : 0) && well; i++) {
        well = sweep_positions(given, random, i, 0, figure);
    }
    for (int i = 1; i <= (is_call ? SCENARIO_DRY_SLABS : 0) && well; i++) {
        well = sweep_positions(given, random, 0, i, figure);
    }
    return well;
}

static void sweep(const scenario *given)
{
    mend_test_random random;
    mend_test_random_init(&random, mend_test_seed());
    figures figure = {.scenarios = 1};
    if (sweep_driver_calls(given, &random, &figure)) {
        sweep_host_allocations(given, &random, &figure);
    }
    print_figures(given->name, &figure);
    total.scenarios += figure.scenarios;
    total.driver_positions += figure.driver_positions;
    total.host_positions += figure.host_positions;
    total.runs += figure.runs;
}

static const scenario *find(const char *name)
{
    for (size_t i = 0; i < scenario_count; i++) {
        if (strcmp(scenarios[i].name, name) == 0) {
            return &scenarios[i];
        }
    }
    for (size_t i = 0; i < range_scenario_count; i++) {
        if (strcmp(range_scenarios[i].name, name) == 0) {
            return &range_scenarios[i];
        }
    }
    return NULL;
}

/* A test each, so that a broken scenario is seen by its name. */
#define SCENARIOS(X)                                                                               \
    X(first_allocation)                                                                            \
    X(first_small_allocation)                                                                      \
    X(fresh_with_creation)                                                                         \
    X(fresh_in_another_reservation)                                                                \
    X(fresh_with_moved_chunks)                                                                     \
    X(fresh_with_moved_and_created_chunks)                                                         \
    X(creation_that_spares_a_move)                                                                 \
    X(exact_creation_near_the_limit)                                                               \
    X(alignment_above_a_page)                                                                      \
    X(placed_in_a_run)                                                                             \
    X(extension_with_moved_chunks)                                                                 \
    X(extension_with_creation)                                                                     \
    X(extension_with_moved_and_created_chunks)                                                     \
    X(ends_of_two_chunks)                                                                          \
    X(ends_around_moved_and_created_chunks)                                                        \
    X(an_end_behind_a_run_that_grows)                                                              \
    X(ends_behind_stream_waits)                                                                    \
    X(aliases_that_end_for_a_request)                                                              \
    X(trim_with_aliases)                                                                           \
    X(small_in_a_lent_fragment)                                                                    \
    X(small_in_a_new_chunk)                                                                        \
    X(small_in_a_moved_chunk)                                                                      \
    X(behind_a_fence_that_has_passed)                                                              \
    X(behind_a_stream_wait)                                                                        \
    X(extension_behind_a_stream_wait)                                                              \
    X(after_a_host_wait_for_a_fence)                                                               \
    X(after_a_wait_for_the_context)                                                                \
    X(for_any_stream_at_new_address)                                                               \
    X(for_any_stream_behind_a_fence_that_has_passed)                                               \
    X(for_any_stream_after_a_host_wait_for_a_fence)                                                \
    X(for_any_stream_after_a_wait_for_the_context)                                                 \
    X(retired_mappings_unmapped_first)                                                             \
    X(retired_mappings_in_flight)                                                                  \
    X(closing_a_page)                                                                              \
    X(remaking_a_chunk)                                                                            \
    X(remaking_a_chunk_of_another_stream)                                                          \
    X(breaking_a_chunk_in_flight)                                                                  \
    X(out_of_memory_at_once)                                                                       \
    X(out_of_memory_after_all_waits)                                                               \
    X(after_a_pressure_callback_and_a_host_wait)                                                   \
    X(out_of_memory_after_a_pressure_callback)                                                     \
    X(out_of_memory_of_the_device)                                                                 \
    X(defrag)                                                                                      \
    X(defrag_into_chunks_that_fit)                                                                 \
    X(defrag_at_the_limit)                                                                         \
    X(defrag_with_nothing_to_do)                                                                   \
    X(pin_of_a_block)                                                                              \
    X(unpin_of_a_block)                                                                            \
    X(export_of_a_block)                                                                           \
    X(export_of_an_exported_block)                                                                 \
    X(free_of_an_exported_block)                                                                   \
    X(import_of_a_block)                                                                           \
    X(import_with_new_addresses)                                                                   \
    X(export_by_fabric_of_a_block)                                                                 \
    X(export_by_fabric_of_an_exported_block)                                                       \
    X(export_in_the_second_way)                                                                    \
    X(free_of_a_block_exported_in_both_ways)                                                       \
    X(import_by_fabric_of_a_block)                                                                 \
    X(close_of_an_import_by_fabric)                                                                \
    X(close_of_an_import)                                                                          \
    X(close_of_an_import_on_a_new_stream)                                                          \
    X(close_of_an_import_without_a_stream)                                                         \
    X(history_of_a_pool)                                                                           \
    X(history_with_more_room)                                                                      \
    X(allocation_with_a_history)                                                                   \
    X(defrag_with_a_history)                                                                       \
    X(defrag_beside_a_pin)                                                                         \
    X(allocation_after_a_compact)                                                                  \
    X(free_that_records_a_fence)                                                                   \
    X(free_on_a_new_stream)                                                                        \
    X(free_of_a_shared_block)                                                                      \
    X(free_without_a_stream)                                                                       \
    X(free_on_the_per_thread_stream)                                                               \
    X(record_stream_of_a_new_stream)                                                               \
    X(forget_a_stream_with_pending_memory)                                                         \
    X(allocation_in_a_group)                                                                       \
    X(allocation_in_a_group_of_idle_memory)                                                        \
    X(free_in_a_group)                                                                             \
    X(release_of_a_group)                                                                          \
    X(release_of_a_group_on_a_new_stream)                                                          \
    X(allocation_in_a_named_group)                                                                 \
    X(free_in_a_named_group_on_a_new_stream)                                                       \
    X(restoration_of_a_group)                                                                      \
    X(restoration_of_chunks_that_moved)                                                            \
    X(trim_everything)                                                                             \
    X(trim_a_part)                                                                                 \
    X(trim_in_flight)                                                                              \
    X(trim_that_waits_for_streams)                                                                 \
    X(trim_that_waits_for_the_context)                                                             \
    X(trim_retired_mappings)                                                                       \
    X(trim_reservations)                                                                           \
    X(trim_many_chunks)                                                                            \
    X(room_of_a_pool_in_use)                                                                       \
    X(room_on_a_new_stream)                                                                        \
    X(limit_below_what_is_reserved)                                                                \
    X(create_the_first_pool)                                                                       \
    X(create_a_second_pool)                                                                        \
    X(destroy_a_pool_with_an_import)                                                               \
    X(destroy_a_pool_never_used)                                                                   \
    X(destroy_with_aliases)                                                                        \
    X(destroy_a_pool_with_work_in_flight)                                                          \
    X(destroy_a_pool_in_use)                                                                       \
    X(creation_of_a_range)                                                                         \
    X(first_commit)                                                                                \
    X(commit_that_grows)                                                                           \
    X(commit_of_mapped_pages)                                                                      \
    X(commit_of_moved_chunks)                                                                      \
    X(commit_of_moved_and_created_chunks)                                                          \
    X(commit_behind_a_stream_wait)                                                                 \
    X(commit_where_an_old_mapping_was)                                                             \
    X(commit_after_a_host_wait)                                                                    \
    X(commit_of_remade_chunks)                                                                     \
    X(commit_out_of_memory)                                                                        \
    X(allocation_of_decommitted_pages)                                                             \
    X(decommit_of_pages)                                                                           \
    X(decommit_on_a_new_stream)                                                                    \
    X(record_of_pages_on_a_new_stream)                                                             \
    X(zeros_behind_pages)                                                                          \
    X(zeros_behind_more_pages)                                                                     \
    X(zeros_where_pages_were)                                                                      \
    X(zeros_at_the_limit)                                                                          \
    X(commit_of_zeros)                                                                             \
    X(commit_of_all_zeros)                                                                         \
    X(commit_of_zeros_out_of_memory)                                                               \
    X(end_of_a_range_with_zeros)                                                                   \
    X(end_of_a_range)                                                                              \
    X(end_of_a_range_in_flight)                                                                    \
    X(end_of_a_range_on_a_new_stream)                                                              \
    X(trim_after_the_end_of_a_range)                                                               \
    X(destroy_a_pool_with_a_range)

#define X(name)                                                                                    \
    MEND_TEST(scenario_positions, name)                                                            \
    {                                                                                              \
        sweep(find(#name));                                                                        \
    }
SCENARIOS(X)
#undef X

MEND_TEST(scenario_positions, each_scenario_has_its_test)
{
#define X(name) +1
    EXPECT_U64_EQ(scenario_count + range_scenario_count, 0 SCENARIOS(X));
#undef X
    print_figures("in all", &total);
}
