/* The replay: its numbers, the search for the minimum memory, and its findings of faults. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/align.h"
#include "lab/replay/replay.h"
#include "lab/replay/session.h"
#include "lab/workloads/workload.h"
#include "tests/cli/fixture.h"
#include "tests/support/test.h"

static mend_replay_options default_options(void)
{
    return (mend_replay_options)MEND_REPLAY_OPTIONS_INIT;
}

/* Three blocks of 30 MiB, one of them freed early. */
#define THREE_BLOCKS "1+30M 2+30M -1 3+31457281 -3"

MEND_TEST(replay, counts_calls_prices_and_peaks)
{
    fixture_replays(THREE_BLOCKS, "caching", "unlimited",
                    "completed=1 limited=0 events=5 peak_live=62915072 peak_reserved=92M malloc=3 "
                    "create=0 malloc/2=1 driver_time=188.786 driver_time/2=62.97 allocs=3 frees=2 "
                    "host_syncs=0 content_checked=0");
}

MEND_TEST(replay, a_run_ends_at_the_first_allocation_that_fails)
{
    /* One succeeds. The other fails, and fails again after all cached memory was released. */
    fixture_replays(THREE_BLOCKS, "caching", "40MiB",
                    "completed=0 failed_at_event=1 limited=1 capacity=40M peak_reserved=30M "
                    "malloc/2=0 driver_time/2=0 malloc=3 host_syncs=0");
    /* The freed block is released to the driver for the third, with a wait. */
    fixture_replays(THREE_BLOCKS, "caching", "62MiB", "completed=1 free=1 host_syncs=1");
}

MEND_TEST(replay, capacities_are_rounded_up_to_a_page)
{
    fixture_replays(THREE_BLOCKS, "caching", "65011713", "capacity=64M");
    fixture_replays(THREE_BLOCKS, "caching", "1.5x", "capacity=92M");
}

/* The same memory, of a device that is larger by the part of others. */
MEND_TEST(replay, others_hold_a_part_of_the_device_beside_the_capacity)
{
    mend_replay_options options = default_options();
    options.others_percent = 50;
    fixture_replays_by(&options, THREE_BLOCKS, "mend", "1.0x",
                       "completed=1 creates_refused=0 capacity=62M peak_reserved=62M");
    /* It asks for the free memory. */
    fixture_replays_by(&options, THREE_BLOCKS, "mend", "0.9x", "completed=0 creates_refused=0");
    options = default_options();
    options.others_bytes = 2 * MEND_GIB;
    fixture_replays_by(&options, THREE_BLOCKS, "mend", "1.0x",
                       "completed=1 creates_refused=0 capacity=62M peak_reserved=62M");
}

MEND_TEST(replay, other_prices_change_the_time_alone)
{
    mend_replay_options options = default_options();
    mend_sim_prices prices = {.struct_size = sizeof(mend_sim_prices),
                              .plain_alloc = {.call_ns = 1000}};
    options.prices = &prices;
    fixture_replays_by(&options, THREE_BLOCKS, "caching", "unlimited",
                       "driver_time=3 peak_reserved=92M");
}

MEND_TEST(replay, blocks_of_no_bytes_are_not_asked_for)
{
    fixture_replays("1+0 2+512 -1", "mend", "unlimited", "completed=1 allocs=1 frees=0");
}

MEND_TEST(replay, unknown_policies_are_refused)
{
    ENDING_TRACE mend_trace *trace = fixture_steps(THREE_BLOCKS);
    mend_replay_options options = default_options();
    mend_capacity capacity = {.kind = MEND_CAPACITY_UNLIMITED};
    mend_replay_result result = {0};
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT,
                  mend_replay_run(trace, "magic", &capacity, &options, &result));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT,
                  mend_replay_run(trace, "cuda-malloc", &capacity, &options, &result));
    EXPECT_TRUE(mend_replay_knows_policy("cuda-malloc", MEND_REPLAY_CUDA));
}

MEND_TEST(replay, samples_tell_the_story_over_time)
{
    ENDING_TRACE mend_trace *trace = fixture_steps(THREE_BLOCKS);
    mend_replay_options options = default_options();
    options.sample_limit = 100;
    mend_replay_result result = fixture_replay(trace, "caching", "unlimited", &options);
    ASSERT_TRUE(result.sample_count == 5);
    EXPECT_U64_EQ(0, result.samples[0].event);
    EXPECT_U64_EQ(30 * MEND_MIB, result.samples[0].live_bytes);
    EXPECT_U64_EQ(30 * MEND_MIB, result.samples[2].live_bytes);
    EXPECT_U64_EQ(60 * MEND_MIB, result.samples[2].reserved_bytes);
    EXPECT_U64_EQ(92 * MEND_MIB, result.samples[4].reserved_bytes);
    mend_replay_result_clear(&result);
    options.sample_limit = 3;
    result = fixture_replay(trace, "caching", "unlimited", &options);
    EXPECT_TRUE(result.sample_count >= 2 && result.sample_count <= 3);
    EXPECT_U64_EQ(4, result.samples[result.sample_count - 1].event);
    mend_replay_result_clear(&result);
}

/* ---- fit ------------------------------------------------------------------------------------- */

/* The contract, step by step: the smallest point above which every point completes. */
static uint64_t fit_by_hand(const mend_trace *trace, const char *policy, uint64_t top)
{
    mend_replay_options options = default_options();
    uint64_t best = top + 1;
    for (uint64_t step = top + 1; step-- > 0;) {
        long double extra = (long double)trace->peak_live_bytes * (long double)step;
        char capacity[32];
        snprintf(capacity, sizeof(capacity), "%llu",
                 (unsigned long long)(trace->peak_live_bytes + (uint64_t)ceill(extra / 500)));
        mend_replay_result result = fixture_replay(trace, policy, capacity, &options);
        bool completed = result.completed;
        mend_replay_result_clear(&result);
        if (!completed) {
            break;
        }
        best = step;
    }
    return best;
}

static void compare_fit(const char *spec, const char *policy)
{
    ENDING_TRACE mend_trace *trace = fixture_workload(spec);
    ASSERT_TRUE(trace != NULL);
    mend_replay_options options = default_options();
    ENDING_RESULT mend_replay_result unlimited =
        fixture_replay(trace, policy, "unlimited", &options);
    long double excess =
        (long double)unlimited.peak_reserved_bytes / (long double)trace->peak_live_bytes - 1;
    uint64_t top = mend_max_u64(50, (uint64_t)ceill(excess * 500));
    ENDING_RESULT mend_replay_result fit = fixture_replay(trace, policy, "fit", &options);
    uint64_t expected = fit_by_hand(trace, policy, top);
    EXPECT_TRUE(fit.fitted && fit.completed);
    MEND_TEST_CHECK(fabs(fit.fit_factor - (1 + (double)expected / 500)) < 1e-9, (void)0,
                    "%s, %s: fit %.3f, by hand %.3f", spec, policy, fit.fit_factor,
                    1 + (double)expected / 500);
    EXPECT_U64_EQ(fit.capacity_bytes, fit.fit_capacity_bytes);
    EXPECT_U64_EQ(0, fit.fit_capacity_bytes % (2 * MEND_MIB));
}

MEND_TEST(replay, fit_is_what_a_scan_of_the_whole_grid_finds)
{
    compare_fit("stress:checkerboard?live=512MiB", "mend");
    compare_fit("stress:checkerboard?live=512MiB", "caching");
    compare_fit("stress:checkerboard?live=512MiB", "expandable");
    compare_fit("stress:many-streams?live=512MiB&streams=4&turns=8", "caching");
    compare_fit("stress:many-streams?live=512MiB&streams=4&turns=8", "expandable");
}

MEND_TEST(replay, nothing_live_has_no_fit)
{
    ENDING_TRACE mend_trace *trace = fixture_steps("1+0");
    mend_replay_options options = default_options();
    mend_capacity capacity = {.kind = MEND_CAPACITY_FIT};
    mend_replay_result result = {0};
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT,
                  mend_replay_run(trace, "mend", &capacity, &options, &result));
}

/* ---- threads --------------------------------------------------------------------------------- */

MEND_TEST(replay, threads_replay_every_event_once)
{
    ENDING_TRACE mend_trace *trace = fixture_workload("stress:many-streams?live=256MiB&turns=12");
    ASSERT_TRUE(trace != NULL);
    size_t allocations = trace->block_count;
    static const char *const policies[] = {"mend", "caching", "expandable"};
    for (size_t i = 0; i < 3; i++) {
        mend_replay_options options = default_options();
        options.threads = 4;
        ENDING_RESULT mend_replay_result result =
            fixture_replay(trace, policies[i], "unlimited", &options);
        EXPECT_TRUE(result.completed);
        EXPECT_U64_EQ(allocations, result.alloc_ns.calls);
        EXPECT_TRUE(result.alloc_ns.p50_ns <= result.alloc_ns.p99_ns);
        EXPECT_TRUE(result.alloc_ns.p99_ns <= result.alloc_ns.p999_ns);
        EXPECT_TRUE(result.alloc_ns.p999_ns <= result.alloc_ns.max_ns);
        EXPECT_TRUE(result.alloc_ns.mean_ns > 0 &&
                    result.alloc_ns.mean_ns <= result.alloc_ns.max_ns);
        EXPECT_U64_EQ(trace->event_count - allocations, result.free_ns.calls);
    }
}

/* ---- content and rules ----------------------------------------------------------------------- */

MEND_TEST(replay, content_is_intact_under_every_policy)
{
    static const char *const specs[] = {"stress:phase-shift?live=48MiB&phases=4",
                                        "stress:many-streams?live=64MiB&streams=3&turns=6"};
    static const char *const policies[] = {
        "mend",       "caching",  "caching:split128", "caching:gc80", "caching:2.13:split128",
        "expandable", "rmm-pool", "rmm-arena"};
    mend_replay_options options = default_options();
    options.check_content = true;
    for (size_t s = 0; s < 2; s++) {
        ENDING_TRACE mend_trace *trace = fixture_workload(specs[s]);
        ASSERT_TRUE(trace != NULL);
        /* Blocks of these generators are large: bytes cost time. */
        ASSERT_RESULT(MEND_OK, mend_trace_scale(trace, 8));
        for (size_t p = 0; p < sizeof(policies) / sizeof(*policies); p++) {
            ENDING_RESULT mend_replay_result result =
                fixture_replay(trace, policies[p], "unlimited", &options);
            EXPECT_TRUE(result.completed && result.content_checked && result.content_errors == 0);
        }
    }
}

/* An allocator that is wrong on purpose: all blocks at the start of one segment, which it keeps. */
typedef struct bad_peer {
    mend_peer peer;
    mend_peer_config config;
    uint64_t address;
} bad_peer;

static mend_result bad_alloc(mend_peer *peer, uint64_t size_bytes, mend_stream stream,
                             uint64_t *address)
{
    (void)size_bytes;
    (void)stream;
    *address = ((bad_peer *)(void *)peer)->address;
    return MEND_OK;
}

static mend_result bad_free(mend_peer *peer, uint64_t address, mend_stream stream)
{
    (void)peer;
    (void)address;
    (void)stream;
    return MEND_OK;
}

static void bad_get_usage(mend_peer *peer, mend_peer_usage *usage)
{
    (void)peer;
    *usage = (mend_peer_usage){.reserved_bytes = 4096, .peak_reserved_bytes = 4096};
}

static mend_result bad_destroy(mend_peer *peer)
{
    free(peer);
    return MEND_OK;
}

static const mend_peer_operations bad_operations = {bad_alloc, bad_free, bad_get_usage,
                                                    bad_destroy};

static mend_result wrong_create(const mend_peer_config *config,
                                const mend_peer_operations *operations, mend_peer **peer)
{
    bad_peer *created = calloc(1, sizeof(bad_peer));
    created->peer.operations = operations;
    created->config = *config;
    *peer = &created->peer;
    const mend_driver *driver = config->driver;
    return operations == &bad_operations &&
                   driver->plain_alloc(driver, 64 * MEND_MIB, &created->address) != MEND_DRIVER_OK
               ? MEND_ERROR_DRIVER
               : MEND_OK;
}

static mend_result bad_create(const mend_peer_config *config, mend_peer **peer)
{
    return wrong_create(config, &bad_operations, peer);
}

MEND_TEST(replay, sees_blocks_that_share_memory_and_what_is_left_behind)
{
    static const mend_peer_policy policy = {"bad", "wrong", false, false, bad_create};
    ENDING_TRACE mend_trace *trace = fixture_steps("1+1K 2+4K -1");
    mend_replay_options options = default_options();
    options.check_content = true;
    ENDING_RESULT mend_replay_result result = {0};
    ASSERT_RESULT(MEND_OK, mend_replay_session(trace, &policy, 0, &options, false, "", &result));
    /* The second block has overwritten the two granules of the first. */
    EXPECT_U64_EQ(2, result.content_errors);
    EXPECT_TRUE(strstr(result.problem, "were left") != NULL);
}

/* An allocator that unmaps memory in use by the device: frees release at once, without a wait. */
static mend_result hasty_alloc(mend_peer *peer, uint64_t size_bytes, mend_stream stream,
                               uint64_t *address)
{
    const mend_driver *driver = ((bad_peer *)(void *)peer)->config.driver;
    (void)stream;
    (void)size_bytes;
    mend_chunk_properties properties = {0};
    mend_chunk_handle handle;
    int device = 0;
    uint64_t page_bytes = 2 * MEND_MIB;
    driver->reserve(driver, page_bytes, 0, 0, address);
    driver->create(driver, page_bytes, &properties, &handle);
    driver->map(driver, *address, page_bytes, 0, handle);
    driver->set_access(driver, *address, page_bytes, &device, 1, MEND_ACCESS_READ_WRITE);
    driver->release(driver, handle);
    return MEND_OK;
}

static mend_result hasty_free(mend_peer *peer, uint64_t address, mend_stream stream)
{
    const mend_driver *driver = ((bad_peer *)(void *)peer)->config.driver;
    (void)stream;
    driver->unmap(driver, address, 2 * MEND_MIB);
    driver->address_free(driver, address, 2 * MEND_MIB);
    return MEND_OK;
}

static const mend_peer_operations hasty_operations = {hasty_alloc, hasty_free, bad_get_usage,
                                                      bad_destroy};

static mend_result hasty_create(const mend_peer_config *config, mend_peer **peer)
{
    return wrong_create(config, &hasty_operations, peer);
}

MEND_TEST(replay, sees_memory_unmapped_before_the_device_is_done)
{
    static const mend_peer_policy policy = {"hasty", "wrong", false, false, hasty_create};
    ENDING_TRACE mend_trace *trace = fixture_steps("1+1K -1 2+1K -2");
    mend_replay_options options = default_options();
    mend_replay_result result = {0};
    ASSERT_RESULT(MEND_OK, mend_replay_session(trace, &policy, 0, &options, false, "", &result));
    EXPECT_TRUE(strstr(result.problem, "a rule of the driver was broken") != NULL);
    mend_replay_result_clear(&result);
    /* With no lag the work is done at once, and nothing is wrong. */
    options.lag_events = 0;
    ASSERT_RESULT(MEND_OK, mend_replay_session(trace, &policy, 0, &options, false, "", &result));
    EXPECT_STR_EQ("", result.problem);
    mend_replay_result_clear(&result);
}

/* ---- the models on the bundled recordings ---------------------------------------------------- */

/* Figures of an independent simulator of the same rules (bench/results/models.md). */
MEND_TEST(replay, the_models_do_on_recordings_what_they_should)
{
    fixture_replays("gpt2-medium-pretrain", "caching", "unlimited", "malloc=322 per_mille=1065");
    fixture_replays("detector-varboxes", "caching", "unlimited", "malloc=54 per_mille=2716");
    fixture_replays("fsdp-llama-2stream", "caching", "unlimited", "malloc=155 per_mille=1124");
    fixture_replays("gpt2-medium-pretrain", "expandable", "unlimited",
                    "create=1428 map=1428 set_access=323 reserve=2 mappings_peak=1428");
}
