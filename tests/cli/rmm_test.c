/* The models of RMM's pool and arenas: when they ask the driver for memory, which block they take,
 * and where they wait. Figures of recordings are those of an independent simulator of the same
 * rules (docs/benchmarks-models.md). */
#include "base/align.h"
#include "lab/peers/free_list.h"
#include "lab/replay/replay.h"
#include "tests/cli/fixture.h"
#include "tests/support/test.h"

static mend_replay_result replay(const mend_trace *trace, const char *policy, const char *capacity)
{
    mend_replay_options options = MEND_REPLAY_OPTIONS_INIT;
    return fixture_replay(trace, policy, capacity, &options);
}

/* Runs a trace that is written down here. */
static mend_replay_result replay_text(const char *text, const char *policy, const char *capacity)
{
    mend_trace *trace = fixture_trace(text);
    mend_replay_result result = replay(trace, policy, capacity);
    mend_trace_destroy(trace);
    return result;
}

#define MIB_10 "10485760"
#define MIB_20 "20971520"
#define MIB_40 "41943040"

/* ---- the list of free blocks ----------------------------------------------------------------- */

typedef struct list_world {
    mend_slab slab;
    free_list list;
} list_world;

static void put(list_world *world, uint64_t address, uint64_t size_bytes, bool is_head)
{
    EXPECT_TRUE(mend_slab_reserve(&world->slab, 1));
    free_list_put(&world->list, &world->slab, address, size_bytes, is_head);
}

static void open_list(list_world *world)
{
    mend_slab_init(&world->slab, sizeof(free_block));
    free_list_init(&world->list);
}

MEND_TEST(rmm, free_neighbours_join_but_not_across_allocations_of_the_driver)
{
    list_world world;
    open_list(&world);
    put(&world, 1000, 100, true);
    put(&world, 1200, 100, false);
    EXPECT_U64_EQ(2, world.list.by_address.count);
    put(&world, 1100, 100, false);
    EXPECT_U64_EQ(1, world.list.by_address.count);
    EXPECT_U64_EQ(300, free_list_largest_bytes(&world.list));
    put(&world, 1300, 100, true);
    EXPECT_U64_EQ(2, world.list.by_address.count);
    put(&world, 900, 100, false);
    EXPECT_U64_EQ(3, world.list.by_address.count);
    EXPECT_TRUE(mend_tree_is_valid(&world.list.by_address));
    EXPECT_TRUE(mend_tree_is_valid(&world.list.by_size));
    mend_slab_clear(&world.slab);
}

MEND_TEST(rmm, best_fit_is_the_smallest_and_first_fit_the_lowest)
{
    list_world world;
    open_list(&world);
    put(&world, 1000, 300, true);
    put(&world, 2000, 200, true);
    put(&world, 3000, 200, true);
    free_block *best = free_list_best_fit(&world.list, 150);
    EXPECT_U64_EQ(2000, best->address);
    EXPECT_U64_EQ(1000, free_list_first_fit(&world.list, 150)->address);
    EXPECT_TRUE(free_list_best_fit(&world.list, 301) == NULL);
    EXPECT_TRUE(free_list_first_fit(&world.list, 301) == NULL);
    EXPECT_U64_EQ(2000, free_list_take(&world.list, &world.slab, best, 150));
    EXPECT_U64_EQ(2150, free_list_best_fit(&world.list, 50)->address);
    EXPECT_U64_EQ(3, world.list.by_size.count);
    mend_slab_clear(&world.slab);
}

/* ---- the pool -------------------------------------------------------------------------------- */

MEND_TEST(rmm, the_pool_grows_by_its_own_size)
{
    /* 10, then as much as there is: 10, 20, 40. */
    mend_replay_result result = replay_text(TRACE_HEAD "0,0,allocate,1," MIB_10 ",0\n"
                                                       "0,1,allocate,2," MIB_10 ",0\n"
                                                       "0,2,allocate,3," MIB_10 ",0\n"
                                                       "0,3,allocate,4," MIB_10 ",0\n"
                                                       "0,4,allocate,5," MIB_10 ",0\n",
                                            "rmm-pool", "unlimited");
    EXPECT_TRUE(result.completed);
    EXPECT_U64_EQ(4, result.calls.malloc_calls);
    EXPECT_U64_EQ(80 * MEND_MIB, result.peak_reserved_bytes);
    mend_replay_result_clear(&result);
}

MEND_TEST(rmm, the_pool_starts_with_half_of_the_limit)
{
    static const char text[] = TRACE_HEAD "0,0,allocate,1," MIB_40 ",0\n"
                                          "0,1,allocate,2," MIB_40 ",0\n";
    mend_replay_result result = replay_text(text, "rmm-pool", "100MiB");
    EXPECT_TRUE(result.completed);
    EXPECT_U64_EQ(2, result.calls.malloc_calls);
    EXPECT_U64_EQ(100 * MEND_MIB, result.peak_reserved_bytes);
    mend_replay_result_clear(&result);
    /* The halves are of 38 MiB; what no half holds is asked for as it is. */
    result = replay_text(text, "rmm-pool", "78MiB");
    EXPECT_FALSE(result.completed);
    EXPECT_U64_EQ(1, result.failed_at_event);
    EXPECT_U64_EQ(78 * MEND_MIB, result.peak_reserved_bytes);
    mend_replay_result_clear(&result);
}

MEND_TEST(rmm, the_pool_grows_by_a_half_of_its_size_where_the_whole_is_not_there)
{
    /* 44 and 44 of 90 MiB are full; 1.375 more are there, after 88, 44, 22, 11, 5.5 and 2.75. */
    static const char text[] = TRACE_HEAD "0,0,allocate,1," MIB_40 ",0\n"
                                          "0,1,allocate,2," MIB_40 ",0\n"
                                          "0,2,allocate,3,4194304,0\n"
                                          "0,3,allocate,4,4194304,0\n"
                                          "0,4,allocate,5,1048576,0\n";
    mend_replay_result result = replay_text(text, "rmm-pool", "90MiB");
    EXPECT_TRUE(result.completed);
    EXPECT_U64_EQ(88 * MEND_MIB + 1375 * MEND_MIB / 1000, result.peak_reserved_bytes);
    mend_replay_result_clear(&result);
    result = replay_text(text, "rmm-pool", "88MiB");
    EXPECT_FALSE(result.completed);
    EXPECT_U64_EQ(4, result.failed_at_event);
    mend_replay_result_clear(&result);
}

MEND_TEST(rmm, another_streams_block_is_taken_behind_a_wait_on_the_device)
{
    mend_replay_result result = replay_text(TRACE_HEAD "0,0,allocate,1," MIB_20 ",0\n"
                                                       "0,1,free,1," MIB_20 ",0\n"
                                                       "0,2,allocate,2," MIB_10 ",1\n"
                                                       "0,3,allocate,3," MIB_10 ",0\n",
                                            "rmm-pool", "unlimited");
    EXPECT_U64_EQ(1, result.calls.malloc_calls);
    EXPECT_U64_EQ(1, result.calls.stream_wait_calls); /* the rest is still the first stream's */
    EXPECT_U64_EQ(1, result.calls.event_record_calls);
    EXPECT_U64_EQ(0, result.host_syncs);
    mend_replay_result_clear(&result);
}

MEND_TEST(rmm, lists_of_several_streams_are_merged_before_the_pool_grows)
{
    /* Two halves of one allocation, freed on two streams, serve a third as a whole. */
    mend_replay_result result = replay_text(TRACE_HEAD "0,0,allocate,1," MIB_20 ",0\n"
                                                       "0,1,free,1," MIB_20 ",0\n"
                                                       "0,2,allocate,2," MIB_10 ",0\n"
                                                       "0,3,allocate,3," MIB_10 ",0\n"
                                                       "0,4,free,2," MIB_10 ",0\n"
                                                       "0,5,free,3," MIB_10 ",1\n"
                                                       "0,6,allocate,4," MIB_20 ",2\n",
                                            "rmm-pool", "unlimited");
    EXPECT_TRUE(result.completed);
    EXPECT_U64_EQ(1, result.calls.malloc_calls);
    EXPECT_U64_EQ(2, result.calls.stream_wait_calls);
    mend_replay_result_clear(&result);
}

/* ---- the arenas ------------------------------------------------------------------------------ */

MEND_TEST(rmm, arenas_wait_for_the_host_at_each_free_above_a_mebibyte)
{
    mend_replay_result result = replay_text(TRACE_HEAD "0,0,allocate,1,1048577,0\n"
                                                       "0,1,allocate,2,1048576,0\n"
                                                       "0,2,free,2,1048576,0\n"
                                                       "0,3,free,1,1048577,0\n"
                                                       "0,4,allocate,3,2097152,0\n",
                                            "rmm-arena", "unlimited");
    EXPECT_U64_EQ(1, result.calls.malloc_calls);
    EXPECT_U64_EQ(1, result.host_syncs);
    /* The stream's own superblock, 1 MiB from the first block's end, stays with it. */
    EXPECT_U64_EQ(2 * MEND_MIB + 512 + 2 * MEND_MIB, result.peak_reserved_bytes);
    mend_replay_result_clear(&result);
}

MEND_TEST(rmm, an_arenas_small_block_freed_on_another_stream_costs_a_wait)
{
    mend_replay_result result = replay_text(TRACE_HEAD "0,0,allocate,1,1024,0\n"
                                                       "0,1,allocate,2,1024,1\n"
                                                       "0,2,free,1,1024,1\n"
                                                       "0,3,free,2,1024,1\n"
                                                       "0,4,allocate,3,1024,0\n",
                                            "rmm-arena", "unlimited");
    EXPECT_U64_EQ(1, result.host_syncs);
    /* A superblock each; the freed block went back to the one it came from. */
    EXPECT_U64_EQ(MEND_MIB + 1024, result.peak_reserved_bytes);
    mend_replay_result_clear(&result);
}

MEND_TEST(rmm, arenas_give_their_superblocks_back_when_memory_is_out)
{
    /* Three superblocks of 1 MiB in the arena of stream 1, empty, and 4 MiB in all. */
    mend_replay_result result = replay_text(TRACE_HEAD "0,0,allocate,1,1048576,1\n"
                                                       "0,1,allocate,2,1048576,1\n"
                                                       "0,2,allocate,3,1048576,1\n"
                                                       "0,3,free,1,1048576,1\n"
                                                       "0,4,free,2,1048576,1\n"
                                                       "0,5,free,3,1048576,1\n"
                                                       "0,6,allocate,4,4194304,0\n",
                                            "rmm-arena", "4MiB");
    EXPECT_TRUE(result.completed);
    EXPECT_U64_EQ(1, result.host_syncs);
    mend_replay_result_clear(&result);
}

/* ---- recordings ------------------------------------------------------------------------------ */

MEND_TEST(rmm, the_models_do_on_recordings_what_they_should)
{
    static const struct {
        const char *name;
        const char *policy;
        uint64_t mallocs, stream_waits, host_waits, reserved_per_mille;
    } known[] = {{"detector-varboxes", "rmm-pool", 14, 0, 0, 2071},
                 {"detector-varboxes", "rmm-arena", 1, 0, 11226, 1180},
                 {"fsdp-llama-2stream", "rmm-pool", 12, 69, 0, 1393},
                 {"fsdp-llama-2stream", "rmm-arena", 1, 0, 26271, 1048}};
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
        mend_trace *trace = fixture_recording(known[i].name);
        ASSERT_TRUE(trace != NULL);
        mend_replay_result result = replay(trace, known[i].policy, "unlimited");
        EXPECT_U64_EQ(known[i].mallocs, result.calls.malloc_calls);
        EXPECT_U64_EQ(known[i].stream_waits, result.calls.stream_wait_calls);
        EXPECT_U64_EQ(known[i].host_waits, result.host_syncs);
        EXPECT_U64_EQ(known[i].reserved_per_mille,
                      result.peak_reserved_bytes * 1000 / result.peak_live_bytes);
        mend_replay_result_clear(&result);
        mend_trace_destroy(trace);
    }
}
