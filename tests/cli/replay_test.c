/* The replay: what its figures count, the search for the fit, and that it sees what goes wrong. */
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
static const char three_blocks[] = TRACE_HEAD "0,0,allocate,1,31457280,0\n"
                                              "0,1,allocate,2,31457280,0\n"
                                              "0,2,free,1,31457280,0\n"
                                              "0,3,allocate,3,31457281,0\n"
                                              "0,4,free,3,31457281,0\n";

MEND_TEST(replay, counts_calls_prices_and_peaks)
{
    mend_trace *trace = fixture_trace(three_blocks);
    mend_replay_options options = default_options();
    mend_replay_result result = fixture_replay(trace, "caching", "unlimited", &options);
    EXPECT_TRUE(result.completed);
    EXPECT_FALSE(result.limited);
    EXPECT_U64_EQ(5, result.events);
    EXPECT_U64_EQ(62914560 + 512, result.peak_live_bytes);
    EXPECT_U64_EQ(92 * MEND_MIB, result.peak_reserved_bytes);
    EXPECT_U64_EQ(3, result.calls.malloc_calls);
    EXPECT_U64_EQ(0, result.calls.create_calls);
    EXPECT_U64_EQ(1, result.calls_second_half.malloc_calls);
    EXPECT_TRUE(fabs(result.driver_time_us - (3 * 60 + 92 * 0.3)) < 0.01);
    EXPECT_TRUE(fabs(result.driver_time_second_half_us - (60 + 32 * 0.3)) < 0.01);
    EXPECT_U64_EQ(3, result.alloc_ns.calls);
    EXPECT_U64_EQ(2, result.free_ns.calls);
    EXPECT_U64_EQ(0, result.host_syncs);
    EXPECT_FALSE(result.content_checked);
    mend_replay_result_clear(&result);
    mend_trace_destroy(trace);
}

MEND_TEST(replay, the_second_half_begins_with_the_event_in_the_middle)
{
    mend_trace *trace = fixture_trace(TRACE_HEAD "0,0,allocate,1,31457280,0\n"
                                                 "0,1,allocate,2,31457280,0\n"
                                                 "0,2,allocate,3,31457280,0\n"
                                                 "0,3,allocate,4,31457280,0\n");
    mend_replay_options options = default_options();
    mend_replay_result result = fixture_replay(trace, "caching", "unlimited", &options);
    EXPECT_U64_EQ(4, result.calls.malloc_calls);
    EXPECT_U64_EQ(2, result.calls_second_half.malloc_calls);
    mend_replay_result_clear(&result);
    mend_trace_destroy(trace);
}

MEND_TEST(replay, a_run_ends_at_the_first_allocation_that_fails)
{
    mend_trace *trace = fixture_trace(three_blocks);
    mend_replay_options options = default_options();
    mend_replay_result result = fixture_replay(trace, "caching", "40MiB", &options);
    EXPECT_FALSE(result.completed);
    EXPECT_U64_EQ(1, result.failed_at_event);
    EXPECT_TRUE(result.limited);
    EXPECT_U64_EQ(40 * MEND_MIB, result.capacity_bytes);
    EXPECT_U64_EQ(30 * MEND_MIB, result.peak_reserved_bytes);
    EXPECT_U64_EQ(0, result.calls_second_half.malloc_calls);
    EXPECT_TRUE(result.driver_time_second_half_us == 0);
    /* One succeeds; the other fails, and fails again after all that is cached was given back. */
    EXPECT_U64_EQ(3, result.calls.malloc_calls);
    EXPECT_U64_EQ(0, result.host_syncs);
    mend_replay_result_clear(&result);
    /* The freed block goes back to the driver for the third, with a wait. */
    result = fixture_replay(trace, "caching", "62MiB", &options);
    EXPECT_TRUE(result.completed);
    EXPECT_U64_EQ(1, result.calls.free_calls);
    EXPECT_U64_EQ(1, result.host_syncs);
    mend_replay_result_clear(&result);
    mend_trace_destroy(trace);
}

MEND_TEST(replay, capacities_are_rounded_up_to_a_page)
{
    mend_trace *trace = fixture_trace(three_blocks);
    mend_replay_options options = default_options();
    mend_replay_result result = fixture_replay(trace, "caching", "65011713", &options);
    EXPECT_U64_EQ(64 * MEND_MIB, result.capacity_bytes);
    mend_replay_result_clear(&result);
    result = fixture_replay(trace, "caching", "1.5x", &options);
    EXPECT_U64_EQ(92 * MEND_MIB, result.capacity_bytes);
    mend_replay_result_clear(&result);
    mend_trace_destroy(trace);
}

/* The same memory, of a device that is larger by what others hold. */
MEND_TEST(replay, others_hold_a_part_of_the_device_beside_the_capacity)
{
    mend_trace *trace = fixture_trace(three_blocks);
    mend_replay_options options = default_options();
    options.others_percent = 50;
    mend_replay_result result = fixture_replay(trace, "mend", "1.0x", &options);
    EXPECT_TRUE(result.completed);
    EXPECT_U64_EQ(0, result.creates_refused);
    EXPECT_U64_EQ(result.capacity_bytes, result.peak_reserved_bytes);
    mend_replay_result_clear(&result);
    result = fixture_replay(trace, "mend", "0.9x", &options);
    EXPECT_TRUE(!result.completed);
    EXPECT_U64_EQ(1, result.creates_refused); /* what there is it learns from one */
    mend_replay_result_clear(&result);
    mend_trace_destroy(trace);
}

MEND_TEST(replay, other_prices_change_the_time_alone)
{
    mend_trace *trace = fixture_trace(three_blocks);
    mend_replay_options options = default_options();
    mend_sim_prices prices = {.plain_alloc = {.call_ns = 1000}};
    options.prices = &prices;
    mend_replay_result result = fixture_replay(trace, "caching", "unlimited", &options);
    EXPECT_TRUE(fabs(result.driver_time_us - 3) < 1e-9);
    EXPECT_U64_EQ(92 * MEND_MIB, result.peak_reserved_bytes);
    mend_replay_result_clear(&result);
    mend_trace_destroy(trace);
}

MEND_TEST(replay, blocks_of_no_bytes_are_not_asked_for)
{
    mend_trace *trace = fixture_trace(TRACE_HEAD "0,0,allocate,1,0,0\n"
                                                 "0,1,allocate,2,512,0\n"
                                                 "0,2,free,1,0,0\n");
    mend_replay_options options = default_options();
    mend_replay_result result = fixture_replay(trace, "mend", "unlimited", &options);
    EXPECT_TRUE(result.completed);
    EXPECT_U64_EQ(1, result.alloc_ns.calls);
    EXPECT_U64_EQ(0, result.free_ns.calls);
    mend_replay_result_clear(&result);
    mend_trace_destroy(trace);
}

MEND_TEST(replay, unknown_policies_are_refused)
{
    mend_trace *trace = fixture_trace(three_blocks);
    mend_replay_options options = default_options();
    mend_capacity capacity = {.kind = MEND_CAPACITY_UNLIMITED};
    mend_replay_result result = {0};
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT,
                  mend_replay_run(trace, "magic", &capacity, &options, &result));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT,
                  mend_replay_run(trace, "cuda-malloc", &capacity, &options, &result));
    EXPECT_TRUE(mend_replay_knows_policy("cuda-malloc", MEND_REPLAY_CUDA));
    mend_trace_destroy(trace);
}

MEND_TEST(replay, samples_tell_the_story_over_time)
{
    mend_trace *trace = fixture_trace(three_blocks);
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
    mend_trace_destroy(trace);
}

/* ---- fit --------------------------------------------------------------------------------------
 */

/* What the contract says, step by step: the smallest point above which every point completes. */
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
    mend_trace *trace = fixture_workload(spec);
    ASSERT_TRUE(trace != NULL);
    mend_replay_options options = default_options();
    mend_replay_result unlimited = fixture_replay(trace, policy, "unlimited", &options);
    long double excess =
        (long double)unlimited.peak_reserved_bytes / (long double)trace->peak_live_bytes - 1;
    uint64_t top = mend_max_u64(50, (uint64_t)ceill(excess * 500));
    mend_replay_result fit = fixture_replay(trace, policy, "fit", &options);
    uint64_t expected = fit_by_hand(trace, policy, top);
    EXPECT_TRUE(fit.fitted && fit.completed);
    MEND_TEST_CHECK(fabs(fit.fit_factor - (1 + (double)expected / 500)) < 1e-9, (void)0,
                    "%s, %s: fit %.3f, by hand %.3f", spec, policy, fit.fit_factor,
                    1 + (double)expected / 500);
    EXPECT_U64_EQ(fit.capacity_bytes, fit.fit_capacity_bytes);
    EXPECT_U64_EQ(0, fit.fit_capacity_bytes % (2 * MEND_MIB));
    mend_replay_result_clear(&unlimited);
    mend_replay_result_clear(&fit);
    mend_trace_destroy(trace);
}

MEND_TEST(replay, fit_is_what_a_scan_of_the_whole_grid_finds)
{
    compare_fit("stress:checkerboard?live=512MiB", "mend");
    compare_fit("stress:checkerboard?live=512MiB", "caching");
    compare_fit("stress:checkerboard?live=512MiB", "expandable");
    compare_fit("stress:many-streams?live=512MiB&streams=4&turns=8", "caching");
    compare_fit("stress:many-streams?live=512MiB&streams=4&turns=8", "expandable");
}

/* A small trace on a device of large pages: every point of the grid is the same device. */
MEND_TEST(replay, fit_of_a_small_trace_takes_no_more_runs_than_there_are_pages)
{
    mend_trace *trace = fixture_trace(TRACE_HEAD "0,0,allocate,1,512,0\n0,1,free,1,512,0\n");
    static const char *const policies[] = {"mend", "caching", "expandable"};
    for (size_t i = 0; i < 3; i++) {
        mend_replay_options options = default_options();
        mend_replay_result fit = fixture_replay(trace, policies[i], "fit", &options);
        EXPECT_TRUE(fit.fitted);
        EXPECT_TRUE(fit.fit_factor == 1);
        EXPECT_U64_EQ(2 * MEND_MIB, fit.fit_capacity_bytes);
        mend_replay_result_clear(&fit);
    }
    mend_trace_destroy(trace);
}

MEND_TEST(replay, nothing_live_has_no_fit)
{
    mend_trace *trace = fixture_trace(TRACE_HEAD "0,0,allocate,1,0,0\n");
    mend_replay_options options = default_options();
    mend_capacity capacity = {.kind = MEND_CAPACITY_FIT};
    mend_replay_result result = {0};
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT,
                  mend_replay_run(trace, "mend", &capacity, &options, &result));
    mend_trace_destroy(trace);
}

/* ---- threads ----------------------------------------------------------------------------------
 */

MEND_TEST(replay, threads_replay_every_event_once)
{
    mend_trace *trace = fixture_workload("stress:many-streams?live=256MiB&turns=12");
    ASSERT_TRUE(trace != NULL);
    size_t allocations = trace->block_count;
    static const char *const policies[] = {"mend", "caching", "expandable"};
    for (size_t i = 0; i < 3; i++) {
        mend_replay_options options = default_options();
        options.threads = 4;
        mend_replay_result result = fixture_replay(trace, policies[i], "unlimited", &options);
        EXPECT_TRUE(result.completed);
        EXPECT_U64_EQ(allocations, result.alloc_ns.calls);
        EXPECT_TRUE(result.alloc_ns.p50_ns <= result.alloc_ns.p99_ns);
        EXPECT_TRUE(result.alloc_ns.p99_ns <= result.alloc_ns.p999_ns);
        EXPECT_TRUE(result.alloc_ns.p999_ns <= result.alloc_ns.max_ns);
        EXPECT_TRUE(result.alloc_ns.mean_ns > 0 &&
                    result.alloc_ns.mean_ns <= result.alloc_ns.max_ns);
        EXPECT_U64_EQ(trace->event_count - allocations, result.free_ns.calls);
        mend_replay_result_clear(&result);
    }
    mend_trace_destroy(trace);
}

/* ---- content and rules ------------------------------------------------------------------------
 */

MEND_TEST(replay, content_is_intact_under_every_policy)
{
    static const char *const specs[] = {"stress:phase-shift?live=48MiB&phases=4",
                                        "stress:many-streams?live=64MiB&streams=3&turns=6"};
    static const char *const policies[] = {
        "mend",       "caching",  "caching:split128", "caching:gc80", "caching:2.13:split128",
        "expandable", "rmm-pool", "rmm-arena",        "gmlake"};
    for (size_t s = 0; s < 2; s++) {
        mend_trace *trace = fixture_workload(specs[s]);
        ASSERT_TRUE(trace != NULL);
        /* Blocks of these generators are large: bytes cost time. */
        ASSERT_RESULT(MEND_OK, mend_trace_scale(trace, 8));
        for (size_t p = 0; p < sizeof(policies) / sizeof(*policies); p++) {
            mend_replay_options options = default_options();
            options.check_content = true;
            mend_replay_result result = fixture_replay(trace, policies[p], "unlimited", &options);
            EXPECT_TRUE(result.completed);
            EXPECT_TRUE(result.content_checked);
            EXPECT_U64_EQ(0, result.content_errors);
            mend_replay_result_clear(&result);
        }
        mend_trace_destroy(trace);
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

static mend_result bad_create(const mend_peer_config *config, mend_peer **peer)
{
    bad_peer *created = calloc(1, sizeof(bad_peer));
    created->peer.operations = &bad_operations;
    created->config = *config;
    *peer = &created->peer;
    mend_status status =
        config->driver->plain_alloc(config->driver, 64 * MEND_MIB, &created->address);
    return status == MEND_DRIVER_OK ? MEND_OK : MEND_ERROR_DRIVER;
}

MEND_TEST(replay, sees_blocks_that_share_memory_and_what_is_left_behind)
{
    static const mend_peer_policy policy = {"bad", "wrong", false, false, bad_create};
    mend_trace *trace = fixture_trace(TRACE_HEAD "0,0,allocate,1,1024,0\n"
                                                 "0,1,allocate,2,4096,0\n"
                                                 "0,2,free,1,1024,0\n");
    mend_replay_options options = default_options();
    options.check_content = true;
    mend_replay_result result = {0};
    ASSERT_RESULT(MEND_OK, mend_replay_session(trace, &policy, 0, &options, false, "", &result));
    /* The second block has overwritten the two granules of the first. */
    EXPECT_U64_EQ(2, result.content_errors);
    EXPECT_TRUE(strstr(result.problem, "left behind") != NULL);
    mend_replay_result_clear(&result);
    mend_trace_destroy(trace);
}

/* An allocator that unmaps what the device still uses: frees give back at once, without a wait. */
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
    bad_peer *created = calloc(1, sizeof(bad_peer));
    created->peer.operations = &hasty_operations;
    created->config = *config;
    *peer = &created->peer;
    return MEND_OK;
}

MEND_TEST(replay, sees_memory_unmapped_before_the_device_is_done)
{
    static const mend_peer_policy policy = {"hasty", "wrong", false, false, hasty_create};
    mend_trace *trace = fixture_trace(TRACE_HEAD "0,0,allocate,1,1024,0\n"
                                                 "0,1,free,1,1024,0\n"
                                                 "0,2,allocate,2,1024,0\n"
                                                 "0,3,free,2,1024,0\n");
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
    mend_trace_destroy(trace);
}

/* ---- the models on the bundled recordings -----------------------------------------------------
 */

/* Figures of an independent simulator of the same rules (docs/benchmarks-models.md). */
MEND_TEST(replay, the_caching_model_does_on_recordings_what_it_should)
{
    static const struct {
        const char *name;
        uint64_t mallocs, reserved_per_mille;
    } known[] = {{"gpt2-medium-pretrain", 322, 1065},
                 {"detector-varboxes", 54, 2716},
                 {"fsdp-llama-2stream", 155, 1124}};
    for (size_t i = 0; i < 3; i++) {
        mend_trace *trace = fixture_recording(known[i].name);
        ASSERT_TRUE(trace != NULL);
        mend_replay_options options = default_options();
        mend_replay_result result = fixture_replay(trace, "caching", "unlimited", &options);
        EXPECT_U64_EQ(known[i].mallocs, result.calls.malloc_calls);
        EXPECT_U64_EQ(known[i].reserved_per_mille,
                      result.peak_reserved_bytes * 1000 / result.peak_live_bytes);
        mend_replay_result_clear(&result);
        mend_trace_destroy(trace);
    }
}

MEND_TEST(replay, the_expandable_model_does_on_recordings_what_it_should)
{
    mend_trace *trace = fixture_recording("gpt2-medium-pretrain");
    ASSERT_TRUE(trace != NULL);
    mend_replay_options options = default_options();
    mend_replay_result result = fixture_replay(trace, "expandable", "unlimited", &options);
    EXPECT_U64_EQ(1428, result.calls.create_calls);
    EXPECT_U64_EQ(1428, result.calls.map_calls);
    EXPECT_U64_EQ(323, result.calls.set_access_calls);
    EXPECT_U64_EQ(2, result.calls.reserve_calls);
    EXPECT_U64_EQ(1428, result.mappings_peak);
    mend_replay_result_clear(&result);
    mend_trace_destroy(trace);
}

MEND_TEST(replay, mend_completes_the_recordings_without_host_waits)
{
    static const char *const names[] = {"gpt2-medium-pretrain", "detector-varboxes",
                                        "fsdp-llama-2stream"};
    for (size_t i = 0; i < 3; i++) {
        mend_trace *trace = fixture_recording(names[i]);
        ASSERT_TRUE(trace != NULL);
        mend_replay_options options = default_options();
        mend_replay_result result = fixture_replay(trace, "mend", "1.1x", &options);
        EXPECT_TRUE(result.completed);
        EXPECT_U64_EQ(0, result.host_syncs);
        EXPECT_U64_EQ(0, result.bytes_copied);
        mend_replay_result_clear(&result);
        mend_trace_destroy(trace);
    }
}
