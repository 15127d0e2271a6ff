/*
 * Allocation policies. All of them keep the same contract; the models also keep the rules of what
 * they model, seen from the driver's side.
 */
#include <stdlib.h>

#include "base/align.h"
#include "driver/traced.h"
#include "lab/peers/peer.h"
#include "lab/peers/policies.h"
#include "mend/mend_sim.h"
#include "tests/cli/fixture.h"
#include "tests/support/test.h"

/* A simulated device, a policy on it, and the counts of what it asked for. */
typedef struct peer_scene {
    mend_sim *sim;
    const mend_driver *inner;
    mend_driver *driver;
    mend_device_info info;
    mend_peer *peer;
    mend_stream other_stream;
} peer_scene;

static bool scene_open(peer_scene *scene, const char *policy, uint64_t memory_bytes)
{
    *scene = (peer_scene){0};
    mend_sim_config config = MEND_SIM_CONFIG_INIT;
    config.memory_bytes = memory_bytes;
    bool ready = mend_sim_create(&config, &scene->sim) == MEND_OK;
    scene->inner = mend_sim_driver(scene->sim);
    ready = ready && mend_traced_driver_create(scene->inner, &scene->driver) == MEND_OK;
    ready = ready && scene->inner->device_open(scene->inner, 0, &scene->info) == MEND_DRIVER_OK;
    ready = ready && scene->inner->context_push(scene->inner, scene->info.context) == 0;
    ready = ready && scene->inner->stream_create(scene->inner, &scene->other_stream) == 0;
    mend_peer_config peer_config = {.driver = scene->driver, .limit_bytes = memory_bytes};
    ready = ready && mend_peer_find_policy(policy)->create(&peer_config, &scene->peer) == MEND_OK;
    MEND_TEST_CHECK(ready, (void)0, "no scene for %s", policy);
    return ready;
}

/* Destroys the policy and expects that it leaves nothing and broke nothing. */
static void scene_close(peer_scene *scene)
{
    scene->inner->context_synchronize(scene->inner);
    EXPECT_RESULT(MEND_OK, scene->peer->operations->destroy(scene->peer));
    scene->inner->stream_destroy(scene->inner, scene->other_stream);
    scene->inner->context_pop(scene->inner);
    scene->inner->device_close(scene->inner, 0);
    mend_sim_ledger ledger = MEND_SIM_LEDGER_INIT;
    mend_sim_get_ledger(scene->sim, &ledger);
    EXPECT_U64_EQ(0, ledger.chunks);
    EXPECT_U64_EQ(0, ledger.mappings);
    EXPECT_U64_EQ(0, ledger.reservations);
    EXPECT_U64_EQ(0, ledger.plain_allocations);
    EXPECT_U64_EQ(0, ledger.events);
    EXPECT_U64_EQ(0, ledger.violations);
    EXPECT_STR_EQ("", mend_sim_first_violation(scene->sim));
    mend_traced_driver_destroy(scene->driver);
    mend_sim_destroy(scene->sim);
}

static uint64_t calls_of(const peer_scene *scene, mend_driver_call call)
{
    mend_driver_counters counters;
    mend_traced_driver_get(scene->driver, &counters);
    return counters.call[call].calls;
}

static uint64_t reserved(const peer_scene *scene)
{
    mend_peer_usage usage;
    scene->peer->operations->get_usage(scene->peer, &usage);
    return usage.reserved_bytes;
}

static uint64_t take(const peer_scene *scene, uint64_t size_bytes, mend_stream stream)
{
    uint64_t address = 0;
    EXPECT_RESULT(MEND_OK,
                  scene->peer->operations->alloc(scene->peer, size_bytes, stream, &address));
    return address;
}

static void give(const peer_scene *scene, uint64_t address, mend_stream stream)
{
    EXPECT_RESULT(MEND_OK, scene->peer->operations->free(scene->peer, address, stream));
}

/* ---- the contract of all ----------------------------------------------------------------------
 */

enum { CONTRACT_BLOCKS = 60 };

typedef struct held {
    uint64_t address;
    uint64_t size_bytes;
    mend_stream stream;
} held;

static bool overlaps(const held *blocks, uint64_t address, uint64_t size_bytes)
{
    for (size_t i = 0; i < CONTRACT_BLOCKS; i++) {
        if (blocks[i].address != 0 && address < blocks[i].address + blocks[i].size_bytes &&
            blocks[i].address < address + size_bytes) {
            return true;
        }
    }
    return false;
}

static void use_at_random(const char *policy)
{
    peer_scene scene;
    ASSERT_TRUE(scene_open(&scene, policy, 160 * MEND_MIB));
    mend_test_random random;
    mend_test_random_init(&random, mend_test_seed());
    held blocks[CONTRACT_BLOCKS] = {{0}};
    uint64_t refusals = 0;
    for (int i = 0; i < 3000 && !mend_test_has_failed(); i++) {
        held *block = &blocks[mend_test_random_below(&random, CONTRACT_BLOCKS)];
        mend_stream stream = mend_test_random_below(&random, 2) == 0 ? NULL : scene.other_stream;
        mend_sim_advance(scene.sim, 1000);
        if (block->address != 0) {
            give(&scene, block->address, stream);
            block->address = 0;
            continue;
        }
        uint64_t most_bytes = UINT64_C(1) << (9 + mend_test_random_below(&random, 18));
        block->size_bytes = 1 + mend_test_random_below(&random, most_bytes);
        uint64_t address = 0;
        mend_result result =
            scene.peer->operations->alloc(scene.peer, block->size_bytes, stream, &address);
        if (result == MEND_ERROR_OUT_OF_MEMORY) {
            refusals++;
            continue;
        }
        ASSERT_RESULT(MEND_OK, result);
        EXPECT_U64_EQ(0, address % MEND_GRANULE_BYTES);
        EXPECT_FALSE(overlaps(blocks, address, block->size_bytes));
        block->address = address;
        mend_sim_work touch = {.kind = MEND_SIM_WORK_TOUCH,
                               .address = address,
                               .size_bytes = block->size_bytes,
                               .finish_ns = mend_sim_now_ns(scene.sim) + 5000};
        EXPECT_RESULT(MEND_OK, mend_sim_launch(scene.sim, stream, &touch));
        EXPECT_TRUE(reserved(&scene) <= 160 * MEND_MIB);
    }
    EXPECT_TRUE(refusals > 0);
    scene_close(&scene);
}

MEND_TEST(peer, every_policy_keeps_the_contract)
{
    for (const mend_peer_policy *policy = mend_peer_policies; policy->name != NULL; policy++) {
        if (!policy->is_real) {
            use_at_random(policy->name);
        }
    }
    EXPECT_TRUE(mend_peer_find_policy("mend") != NULL);
    EXPECT_TRUE(mend_peer_find_policy("Mend") == NULL);
}

/* ---- the caching model ------------------------------------------------------------------------
 */

MEND_TEST(peer_caching, segments_have_the_sizes_of_pytorch)
{
    static const struct {
        uint64_t request_bytes, segment_bytes;
    } cases[] = {{1, 2 * MEND_MIB},
                 {MEND_MIB, 2 * MEND_MIB},
                 {MEND_MIB + 1, 20 * MEND_MIB},
                 {10 * MEND_MIB - 512, 20 * MEND_MIB},
                 {10 * MEND_MIB, 10 * MEND_MIB},
                 {10 * MEND_MIB + 1, 12 * MEND_MIB},
                 {100 * MEND_MIB, 100 * MEND_MIB}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        peer_scene scene;
        ASSERT_TRUE(scene_open(&scene, "caching", MEND_GIB));
        take(&scene, cases[i].request_bytes, NULL);
        EXPECT_U64_EQ(cases[i].segment_bytes, reserved(&scene));
        EXPECT_U64_EQ(1, calls_of(&scene, MEND_CALL_plain_alloc));
        scene_close(&scene);
    }
}

MEND_TEST(peer_caching, blocks_are_cut_and_joined)
{
    peer_scene scene;
    ASSERT_TRUE(scene_open(&scene, "caching", MEND_GIB));
    uint64_t first = take(&scene, 4 * MEND_MIB, NULL);
    uint64_t second = take(&scene, 4 * MEND_MIB, NULL);
    EXPECT_U64_EQ(first + 4 * MEND_MIB, second);
    give(&scene, first, NULL);
    give(&scene, second, NULL);
    EXPECT_U64_EQ(first, take(&scene, 20 * MEND_MIB - 512, NULL));
    EXPECT_U64_EQ(1, calls_of(&scene, MEND_CALL_plain_alloc));
    scene_close(&scene);
}

/* A rest of at most 1 MiB stays with a large block, so it cannot join what is freed behind it. */
MEND_TEST(peer_caching, small_rests_of_large_blocks_are_not_cut_off)
{
    static const struct {
        uint64_t rest_bytes;
        bool is_cut_off;
    } cases[] = {{MEND_MIB, false}, {MEND_MIB + 512, true}};
    for (size_t i = 0; i < 2; i++) {
        peer_scene scene;
        ASSERT_TRUE(scene_open(&scene, "caching", MEND_GIB));
        uint64_t hole = take(&scene, 4 * MEND_MIB, NULL);
        uint64_t behind = take(&scene, 6 * MEND_MIB, NULL);
        take(&scene, 9 * MEND_MIB, NULL);
        give(&scene, hole, NULL);
        uint64_t kept_bytes = 4 * MEND_MIB - cases[i].rest_bytes;
        EXPECT_U64_EQ(hole, take(&scene, kept_bytes, NULL));
        give(&scene, behind, NULL);
        uint64_t placed = take(&scene, 6 * MEND_MIB + cases[i].rest_bytes, NULL);
        EXPECT_INT_EQ(cases[i].is_cut_off, placed == hole + kept_bytes);
        EXPECT_U64_EQ(cases[i].is_cut_off ? 1 : 2, calls_of(&scene, MEND_CALL_plain_alloc));
        scene_close(&scene);
    }
}

MEND_TEST(peer_caching, small_blocks_are_cut_to_the_granule)
{
    peer_scene scene;
    ASSERT_TRUE(scene_open(&scene, "caching", MEND_GIB));
    uint64_t small = take(&scene, MEND_MIB, NULL);
    EXPECT_U64_EQ(small + MEND_MIB, take(&scene, MEND_MIB - 512, NULL));
    EXPECT_U64_EQ(small + 2 * MEND_MIB - 512, take(&scene, 512, NULL));
    EXPECT_U64_EQ(1, calls_of(&scene, MEND_CALL_plain_alloc));
    scene_close(&scene);
}

MEND_TEST(peer_caching, memory_of_one_stream_is_not_for_another)
{
    peer_scene scene;
    ASSERT_TRUE(scene_open(&scene, "caching", 200 * MEND_MIB));
    give(&scene, take(&scene, 100 * MEND_MIB, NULL), NULL);
    uint64_t other = take(&scene, 50 * MEND_MIB, scene.other_stream);
    EXPECT_U64_EQ(150 * MEND_MIB, reserved(&scene));
    give(&scene, other, scene.other_stream);
    /* Only when the device is full is everything cached given back, each with a wait. */
    take(&scene, 60 * MEND_MIB, scene.other_stream);
    EXPECT_U64_EQ(60 * MEND_MIB, reserved(&scene));
    EXPECT_U64_EQ(2, calls_of(&scene, MEND_CALL_plain_free));
    scene_close(&scene);
}

MEND_TEST(peer_caching, best_fit_is_the_smallest_that_is_enough)
{
    peer_scene scene;
    ASSERT_TRUE(scene_open(&scene, "caching", MEND_GIB));
    uint64_t large = take(&scene, 64 * MEND_MIB, NULL);
    uint64_t medium = take(&scene, 32 * MEND_MIB, NULL);
    give(&scene, large, NULL);
    give(&scene, medium, NULL);
    EXPECT_U64_EQ(medium, take(&scene, 30 * MEND_MIB, NULL));
    scene_close(&scene);
}

/* Two free blocks of one size: the one in the younger segment, which lies where a segment was given
 * back, has the lower address. */
static void choose_between_equal_blocks(const char *policy, bool takes_older)
{
    peer_scene scene;
    ASSERT_TRUE(scene_open(&scene, policy, 400 * MEND_MIB));
    uint64_t lowest = take(&scene, 100 * MEND_MIB, NULL);
    uint64_t older = take(&scene, 100 * MEND_MIB, NULL);
    give(&scene, lowest, NULL);
    give(&scene, take(&scene, 220 * MEND_MIB, scene.other_stream), scene.other_stream);
    uint64_t younger = take(&scene, 100 * MEND_MIB, NULL);
    EXPECT_U64_EQ(lowest, younger);
    EXPECT_TRUE(younger < older);
    EXPECT_U64_EQ(2, calls_of(&scene, MEND_CALL_plain_free));
    give(&scene, younger, NULL);
    give(&scene, older, NULL);
    EXPECT_U64_EQ(takes_older ? older : younger, take(&scene, 40 * MEND_MIB, NULL));
    /* The rest of its segment is smaller than the other, and a better fit. */
    EXPECT_U64_EQ((takes_older ? older : younger) + 40 * MEND_MIB,
                  take(&scene, 30 * MEND_MIB, NULL));
    scene_close(&scene);
}

MEND_TEST(peer_caching, of_equal_blocks_the_lower_is_taken_since_2_13_the_older_segments)
{
    choose_between_equal_blocks("caching", false);
    choose_between_equal_blocks("caching:split128", false);
    choose_between_equal_blocks("caching:2.13", true);
    choose_between_equal_blocks("caching:2.13:split128", true);
    choose_between_equal_blocks("caching:2.13:gc80", true);
}

/* ---- PyTorch's settings -----------------------------------------------------------------------
 */

MEND_TEST(peer_caching_split, oversize_blocks_serve_neither_smaller_nor_much_smaller_requests)
{
    peer_scene scene;
    ASSERT_TRUE(scene_open(&scene, "caching:split128", MEND_GIB));
    uint64_t large = take(&scene, 160 * MEND_MIB, NULL);
    give(&scene, large, NULL);
    take(&scene, 128 * MEND_MIB - 512, NULL);
    EXPECT_U64_EQ(288 * MEND_MIB, reserved(&scene)); /* the first block is oversize */
    take(&scene, 140 * MEND_MIB, NULL);
    EXPECT_U64_EQ(428 * MEND_MIB, reserved(&scene)); /* and larger by 20 MiB than this one */
    EXPECT_U64_EQ(large, take(&scene, 140 * MEND_MIB + 512, NULL));
    EXPECT_U64_EQ(428 * MEND_MIB, reserved(&scene));
    scene_close(&scene);
}

/* The 19 MiB behind the request stay with the block. */
MEND_TEST(peer_caching_split, oversize_blocks_are_not_split)
{
    peer_scene scene;
    ASSERT_TRUE(scene_open(&scene, "caching:split128", MEND_GIB));
    uint64_t large = take(&scene, 160 * MEND_MIB, NULL);
    give(&scene, large, NULL);
    EXPECT_U64_EQ(large, take(&scene, 141 * MEND_MIB, NULL));
    take(&scene, 18 * MEND_MIB, NULL);
    EXPECT_U64_EQ(178 * MEND_MIB, reserved(&scene));
    scene_close(&scene);
}

MEND_TEST(peer_caching_split, only_as_many_oversize_blocks_go_back_as_a_request_needs)
{
    static const struct {
        uint64_t request_bytes, reserved_bytes, frees;
    } cases[] = {{128 * MEND_MIB, 568 * MEND_MIB, 1}, /* the smallest that is enough */
                 {300 * MEND_MIB, 460 * MEND_MIB, 2}, /* the two largest */
                 {40 * MEND_MIB, 480 * MEND_MIB, 1}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        peer_scene scene;
        ASSERT_TRUE(scene_open(&scene, "caching:split128", 620 * MEND_MIB));
        static const uint64_t sizes[] = {160 * MEND_MIB, 200 * MEND_MIB, 240 * MEND_MIB};
        uint64_t blocks[3];
        for (size_t b = 0; b < 3; b++) {
            blocks[b] = take(&scene, sizes[b], NULL);
        }
        for (size_t b = 0; b < 3; b++) {
            give(&scene, blocks[b], NULL);
        }
        take(&scene, cases[i].request_bytes, NULL);
        EXPECT_U64_EQ(cases[i].frees, calls_of(&scene, MEND_CALL_plain_free));
        EXPECT_U64_EQ(cases[i].reserved_bytes, reserved(&scene));
        scene_close(&scene);
    }
}

/* Four fifths of the device are 819.2 MiB. */
MEND_TEST(peer_caching_collect, what_was_unused_longest_goes_back_before_more_is_asked_for)
{
    static const struct {
        uint64_t live_bytes, reserved_bytes, frees;
    } cases[] = {{402 * MEND_MIB, 1020 * MEND_MIB, 0}, /* 818 MiB are reserved */
                 {404 * MEND_MIB, 822 * MEND_MIB, 1},  /* the older one */
                 {604 * MEND_MIB, 806 * MEND_MIB, 3}}; /* that is not enough: the others too */
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        peer_scene scene;
        ASSERT_TRUE(scene_open(&scene, "caching:gc80", MEND_GIB));
        uint64_t older = take(&scene, 200 * MEND_MIB, NULL);
        uint64_t younger = take(&scene, 200 * MEND_MIB, NULL);
        uint64_t tick = take(&scene, 16 * MEND_MIB, NULL);
        take(&scene, cases[i].live_bytes, NULL);
        give(&scene, older, NULL);
        for (int search = 0; search < 3; search++) {
            give(&scene, tick, NULL);
            EXPECT_U64_EQ(tick, take(&scene, 16 * MEND_MIB, NULL));
        }
        give(&scene, younger, NULL);
        give(&scene, tick, NULL);
        EXPECT_U64_EQ(0, calls_of(&scene, MEND_CALL_plain_free));
        take(&scene, 202 * MEND_MIB, NULL);
        EXPECT_U64_EQ(cases[i].frees, calls_of(&scene, MEND_CALL_plain_free));
        EXPECT_U64_EQ(cases[i].reserved_bytes, reserved(&scene));
        if (cases[i].frees == 1) {
            EXPECT_U64_EQ(younger, take(&scene, 200 * MEND_MIB, NULL));
        }
        scene_close(&scene);
    }
}

static void free_elsewhere(const char *policy)
{
    peer_scene scene;
    ASSERT_TRUE(scene_open(&scene, policy, MEND_GIB));
    uint64_t address = take(&scene, 16 * MEND_MIB, NULL);
    mend_sim_work touch = {.kind = MEND_SIM_WORK_TOUCH,
                           .address = address,
                           .size_bytes = MEND_MIB,
                           .finish_ns = mend_sim_now_ns(scene.sim) + 1000000};
    EXPECT_RESULT(MEND_OK, mend_sim_launch(scene.sim, scene.other_stream, &touch));
    give(&scene, address, scene.other_stream);
    EXPECT_TRUE(take(&scene, 16 * MEND_MIB, NULL) != address);
    mend_sim_advance(scene.sim, 1000000);
    EXPECT_U64_EQ(address, take(&scene, 16 * MEND_MIB, NULL));
    scene_close(&scene);
}

MEND_TEST(peer, models_wait_for_the_event_of_a_free_on_another_stream)
{
    free_elsewhere("caching");
    free_elsewhere("expandable");
}

/* ---- the expandable model ---------------------------------------------------------------------
 */

MEND_TEST(peer_expandable, segments_grow_in_place_by_pages)
{
    peer_scene scene;
    ASSERT_TRUE(scene_open(&scene, "expandable", MEND_GIB));
    uint64_t first = take(&scene, 30 * MEND_MIB, NULL);
    EXPECT_U64_EQ(40 * MEND_MIB, reserved(&scene));
    EXPECT_U64_EQ(2, calls_of(&scene, MEND_CALL_create));
    EXPECT_U64_EQ(1, calls_of(&scene, MEND_CALL_set_access));
    EXPECT_U64_EQ(first + 30 * MEND_MIB, take(&scene, 25 * MEND_MIB, NULL));
    EXPECT_U64_EQ(60 * MEND_MIB, reserved(&scene));
    EXPECT_U64_EQ(2, calls_of(&scene, MEND_CALL_set_access));
    EXPECT_U64_EQ(1, calls_of(&scene, MEND_CALL_reserve));
    take(&scene, 512, NULL);
    EXPECT_U64_EQ(62 * MEND_MIB, reserved(&scene));
    EXPECT_U64_EQ(2, calls_of(&scene, MEND_CALL_reserve));
    scene_close(&scene);
}

MEND_TEST(peer_expandable, a_free_block_and_new_pages_make_one)
{
    peer_scene scene;
    ASSERT_TRUE(scene_open(&scene, "expandable", MEND_GIB));
    uint64_t first = take(&scene, 20 * MEND_MIB, NULL);
    give(&scene, first, NULL);
    EXPECT_U64_EQ(first, take(&scene, 100 * MEND_MIB, NULL));
    EXPECT_U64_EQ(100 * MEND_MIB, reserved(&scene));
    scene_close(&scene);
}

MEND_TEST(peer_expandable, only_whole_free_pages_go_back_when_memory_is_out)
{
    peer_scene scene;
    ASSERT_TRUE(scene_open(&scene, "expandable", 160 * MEND_MIB));
    uint64_t start = take(&scene, 10 * MEND_MIB, NULL);
    uint64_t middle = take(&scene, 100 * MEND_MIB, NULL);
    uint64_t end = take(&scene, 10 * MEND_MIB, NULL);
    EXPECT_U64_EQ(start + 10 * MEND_MIB, middle);
    EXPECT_U64_EQ(120 * MEND_MIB, reserved(&scene));
    give(&scene, middle, NULL);
    /* The other stream needs 120 MiB: 4 of 6 pages are free as a whole, 80 MiB. */
    uint64_t address = 0;
    EXPECT_RESULT(
        MEND_ERROR_OUT_OF_MEMORY,
        scene.peer->operations->alloc(scene.peer, 140 * MEND_MIB, scene.other_stream, &address));
    EXPECT_U64_EQ(40 * MEND_MIB, reserved(&scene));
    EXPECT_U64_EQ(4, calls_of(&scene, MEND_CALL_unmap));
    take(&scene, 120 * MEND_MIB, scene.other_stream);
    give(&scene, start, NULL);
    give(&scene, end, NULL);
    scene_close(&scene);
}

/* PyTorch 2.8 itself, driven by the same recordings on the same simulated device, made these calls:
 * those that the device refused, and the creations undone with them, included. */
MEND_TEST(peer, refused_calls_are_made_as_pytorch_makes_them)
{
    static const struct {
        const char *recording, *policy, *capacity;
        uint64_t creates, releases, mallocs, frees;
    } runs[] = {{"detector-varboxes", "expandable", "1.02x", 874, 591, 0, 0},
                {"fsdp-llama-2stream", "expandable", "1.02x", 1718, 1093, 0, 0},
                {"detector-varboxes", "caching", "1.138x", 0, 0, 77, 48}};
    mend_replay_options options = MEND_REPLAY_OPTIONS_INIT;
    for (size_t i = 0; i < sizeof(runs) / sizeof(*runs); i++) {
        mend_trace *trace = fixture_recording(runs[i].recording);
        ASSERT_TRUE(trace != NULL);
        mend_replay_result result =
            fixture_replay(trace, runs[i].policy, runs[i].capacity, &options);
        EXPECT_TRUE(result.completed);
        EXPECT_U64_EQ(runs[i].creates, result.calls.create_calls);
        EXPECT_U64_EQ(runs[i].releases, result.calls.release_calls);
        EXPECT_U64_EQ(runs[i].mallocs, result.calls.malloc_calls);
        EXPECT_U64_EQ(runs[i].frees, result.calls.free_calls);
        mend_replay_result_clear(&result);
        mend_trace_destroy(trace);
    }
}
