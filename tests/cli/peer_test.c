/*
 * Allocation policies. All of them keep the same contract. The models also obey the rules of their
 * allocators, seen from the driver's side.
 */
#include <string.h>

#include "base/align.h"
#include "lab/driver/traced.h"
#include "lab/peers/peer.h"
#include "lab/peers/policies.h"
#include "mend/mend_sim.h"
#include "tests/cli/fixture.h"
#include "tests/support/test.h"

/* A simulated device, an allocator on it, and the counts of its calls. */
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

/* A number by its name: reserved memory, or driver calls. */
static uint64_t figure(const peer_scene *scene, const char *name, size_t length)
{
    mend_peer_usage usage;
    mend_driver_counters counters;
    scene->peer->operations->get_usage(scene->peer, &usage);
    mend_traced_driver_get(scene->driver, &counters);
#define X(member, text, bytes, parameters, arguments)                                              \
    if (strlen(#member) == length && strncmp(#member, name, length) == 0) {                        \
        return counters.call[MEND_CALL_##member].calls;                                            \
    }
    MEND_DRIVER_CALLS(X)
#undef X
    EXPECT_TRUE(strncmp(name, "reserved", length) == 0);
    return usage.reserved_bytes;
}

static void give(const peer_scene *scene, uint64_t address, mend_stream stream)
{
    EXPECT_RESULT(MEND_OK, scene->peer->operations->free(scene->peer, address, stream));
}

/* ---- the contract of all --------------------------------------------------------------------- */

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
        mend_sim_work touch = {.struct_size = sizeof(mend_sim_work),
                               .kind = MEND_SIM_WORK_TOUCH,
                               .address = address,
                               .size_bytes = block->size_bytes,
                               .finish_ns = mend_sim_now_ns(scene.sim) + 5000};
        EXPECT_RESULT(MEND_OK, mend_sim_launch(scene.sim, stream, &touch));
        EXPECT_TRUE(figure(&scene, "reserved", 8) <= 160 * MEND_MIB);
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

/* ---- scenes in short ------------------------------------------------------------------------- */

/* A touch of a block by the other stream, which takes so long. */
enum { TOUCH_NS = 1000000 };

static void touch(const peer_scene *scene, uint64_t address)
{
    mend_sim_work work = {.struct_size = sizeof(mend_sim_work),
                          .kind = MEND_SIM_WORK_TOUCH,
                          .address = address,
                          .size_bytes = MEND_MIB,
                          .finish_ns = mend_sim_now_ns(scene->sim) + TOUCH_NS};
    EXPECT_RESULT(MEND_OK, mend_sim_launch(scene->sim, scene->other_stream, &work));
}

/* One step of a scene: see play. Returns the rest after it. */
static const char *play_step(const peer_scene *scene, uint64_t blocks[128], const char *at)
{
    const char *whole = at;
    size_t length = strcspn(at, "=+@< ");
    if (at[length] == '=' && length > 1) {
        at += length + 1;
        uint64_t is = figure(scene, whole, length);
        MEND_TEST_CHECK(fixture_size(&at) == is, (void)0, "%llu at %s", (unsigned long long)is,
                        whole);
        return at;
    }
    const int kind = strchr("-*>", *at) != NULL ? *at++ : '+';
    uint64_t *block = &blocks[(unsigned char)*at % 128];
    uint64_t size_bytes = at[0] != 0 && at[1] == '+' ? (at += 2, fixture_size(&at)) : 0;
    at += size_bytes == 0 && kind != '>';
    mend_stream stream = *at == '@' ? (at++, scene->other_stream) : NULL;
    const mend_peer_operations *peer = scene->peer->operations;
    if (kind == '>') {
        mend_sim_advance(scene->sim, TOUCH_NS);
    } else if (kind == '*') {
        touch(scene, *block);
    } else if (kind == '-') {
        give(scene, *block, stream);
    } else if (*at == '<') {
        EXPECT_TRUE(*block < blocks[(unsigned char)at[1] % 128]);
        at += 2;
    } else {
        uint64_t address = 0;
        bool is_refused = *at == '?';
        EXPECT_RESULT(is_refused ? MEND_ERROR_OUT_OF_MEMORY : MEND_OK,
                      peer->alloc(scene->peer, size_bytes, stream, &address));
        const int judged = *at != 0 && strchr("=!", *at) != NULL ? *at++ : 0;
        uint64_t place = judged != 0 ? blocks[(unsigned char)*at++ % 128] : address;
        place += judged != 0 && *at == '+' ? (at++, fixture_size(&at)) : 0;
        MEND_TEST_CHECK((address == place) == (judged != '!'), (void)0, "it lies wrong: %s", whole);
        *block = address;
        at += is_refused;
    }
    return at;
}

/* An allocator on a device of so much memory, and its steps: "a+4M b+20M@=a+4M -a" takes 4 MiB for
 * a, then 20 MiB for b on the other stream, which must lie 4 MiB behind the start of a, and gives a
 * back. b+1M!a must lie elsewhere, b+1M? is out of memory, b<a is of addresses. *a touches a on the
 * other stream, > is the end of that. A figure must be as it says: "reserved=40M plain_alloc=1". */
static void play(const char *policy, uint64_t memory_mib, const char *steps)
{
    peer_scene scene;
    uint64_t blocks[128] = {0};
    ASSERT_TRUE(scene_open(&scene, policy, memory_mib * MEND_MIB));
    while (*steps != 0) {
        steps = play_step(&scene, blocks, steps);
        steps += strspn(steps, " ");
    }
    scene_close(&scene);
}

/* ---- the caching model ----------------------------------------------------------------------- */

MEND_TEST(peer_caching, segments_have_the_sizes_of_pytorch)
{
    play("caching", 1024, "a+1 reserved=2M plain_alloc=1");
    play("caching", 1024, "a+1M reserved=2M plain_alloc=1");
    play("caching", 1024, "a+1048577 reserved=20M plain_alloc=1");
    play("caching", 1024, "a+10485248 reserved=20M plain_alloc=1"); /* less than 10 MiB */
    play("caching", 1024, "a+10M reserved=10M plain_alloc=1");
    play("caching", 1024, "a+10485761 reserved=12M plain_alloc=1");
    play("caching", 1024, "a+100M reserved=100M plain_alloc=1");
}

MEND_TEST(peer_caching, blocks_are_cut_and_joined)
{
    play("caching", 1024, "a+4M b+4M=a+4M -a -b c+20971008=a plain_alloc=1");
    play("caching", 1024, "a+1M b+1048064=a+1M c+512=a+2096640 plain_alloc=1"); /* to the granule */
}

/* A rest of at most 1 MiB stays with a large block, so it cannot join a block freed behind it. */
MEND_TEST(peer_caching, small_rests_of_large_blocks_are_not_cut_off)
{
    play("caching", 1024, "h+4M b+6M c+9M -h d+3M=h -b e+7M!h+3M plain_alloc=2");
    play("caching", 1024, "h+4M b+6M c+9M -h d+3145216=h -b e+7340544=h+3145216 plain_alloc=1");
}

MEND_TEST(peer_caching, memory_of_one_stream_is_not_for_another)
{
    /* Only when the device is full is everything cached released, each with a wait. */
    play("caching", 200, "a+100M -a b+50M@ reserved=150M -b@ c+60M@ reserved=60M plain_free=2");
}

MEND_TEST(peer_caching, best_fit_is_the_smallest_that_is_enough)
{
    play("caching", 1024, "a+64M b+32M -a -b c+30M=b");
}

/* Two free blocks of one size: the one in the younger segment, which lies where a segment was
 * released, has the lower address. The rest of the one that is taken is a better fit than the
 * other. */
MEND_TEST(peer_caching, of_equal_blocks_the_lower_is_taken_since_2_13_the_older_segments)
{
#define EQUAL "l+100M o+100M -l x+220M@ -x@ y+100M=l y<o plain_free=2 -y -o "
    play("caching", 400, EQUAL "t+40M=y u+30M=y+40M");
    play("caching:split128", 400, EQUAL "t+40M=y u+30M=y+40M");
    play("caching:2.13", 400, EQUAL "t+40M=o u+30M=o+40M");
    play("caching:2.13:split128", 400, EQUAL "t+40M=o u+30M=o+40M");
    play("caching:2.13:gc80", 400, EQUAL "t+40M=o u+30M=o+40M");
#undef EQUAL
}

/* ---- PyTorch's settings ---------------------------------------------------------------------- */

/* The first block is oversize, and larger by 20 MiB than the next request, not than the last. */
MEND_TEST(peer_caching_split, oversize_blocks_serve_neither_smaller_nor_much_smaller_requests)
{
    play("caching:split128", 1024,
         "a+160M -a b+134217216 reserved=288M c+140M reserved=428M d+146801152=a reserved=428M");
}

/* The 19 MiB behind the request stay with the block. */
MEND_TEST(peer_caching_split, oversize_blocks_are_not_split)
{
    play("caching:split128", 1024, "a+160M -a b+141M=a c+18M reserved=178M");
}

MEND_TEST(peer_caching_split, only_as_many_oversize_blocks_go_back_as_a_request_needs)
{
#define OVERSIZE "a+160M b+200M c+240M -a -b -c "
    /* The smallest that is enough, or the two largest. */
    play("caching:split128", 620, OVERSIZE "d+128M plain_free=1 reserved=568M");
    play("caching:split128", 620, OVERSIZE "d+300M plain_free=2 reserved=460M");
    play("caching:split128", 620, OVERSIZE "d+40M plain_free=1 reserved=480M");
#undef OVERSIZE
}

/* Four fifths of the device are 819.2 MiB. */
MEND_TEST(peer_caching_collect, what_was_unused_longest_goes_back_before_more_is_asked_for)
{
#define SEARCHES "-o -t t+16M=t -t t+16M=t -t t+16M=t -y -t plain_free=0 n+202M "
    /* 818 MiB are reserved. Then the older one goes. Where that is not enough, the others too. */
    play("caching:gc80", 1024,
         "o+200M y+200M t+16M l+402M " SEARCHES "plain_free=0 reserved=1020M");
    play("caching:gc80", 1024,
         "o+200M y+200M t+16M l+404M " SEARCHES "plain_free=1 reserved=822M z+200M=y");
    play("caching:gc80", 1024, "o+200M y+200M t+16M l+604M " SEARCHES "plain_free=3 reserved=806M");
#undef SEARCHES
}

MEND_TEST(peer, models_wait_for_the_event_of_a_free_on_another_stream)
{
    play("caching", 1024, "a+16M *a -a@ b+16M!a > c+16M=a");
    play("expandable", 1024, "a+16M *a -a@ b+16M!a > c+16M=a");
}

/* ---- the expandable model -------------------------------------------------------------------- */

MEND_TEST(peer_expandable, segments_grow_in_place_by_pages)
{
    play("expandable", 1024,
         "a+30M reserved=40M create=2 set_access=1 "
         "b+25M=a+30M reserved=60M set_access=2 reserve=1 c+512 reserved=62M reserve=2");
}

MEND_TEST(peer_expandable, a_free_block_and_new_pages_make_one)
{
    play("expandable", 1024, "a+20M -a b+100M=a reserved=100M");
}

/* The other stream needs 120 MiB: 4 of 6 pages are free as a whole, 80 MiB. */
MEND_TEST(peer_expandable, only_whole_free_pages_go_back_when_memory_is_out)
{
    play("expandable", 160,
         "s+10M m+100M=s+10M e+10M reserved=120M -m x+140M@? reserved=40M unmap=4 n+120M@ -s -e");
}

/* PyTorch 2.8 itself, driven by the same recordings on the same simulated device, made these calls,
 * refused ones and undone creations included. */
MEND_TEST(peer, refused_calls_are_made_as_pytorch_makes_them)
{
    fixture_replays("detector-varboxes", "expandable", "1.02x",
                    "completed=1 create=874 release=591 malloc=0 free=0");
    fixture_replays("fsdp-llama-2stream", "expandable", "1.02x",
                    "completed=1 create=1718 release=1093 malloc=0 free=0");
    fixture_replays("detector-varboxes", "caching", "1.138x",
                    "completed=1 create=0 release=0 malloc=77 free=48");
}
