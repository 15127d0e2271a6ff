/* The models of RMM's pool and arenas: when they ask the driver for memory, which block they take,
 * and where they wait. Numbers of recordings are from an independent simulator of the same rules
 * (bench/results/models.md). */
#include "lab/peers/free_list.h"
#include "tests/cli/fixture.h"
#include "tests/support/test.h"

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
    fixture_replays("1+10M 2+10M 3+10M 4+10M 5+10M", "rmm-pool", "unlimited",
                    "completed=1 malloc=4 peak_reserved=80M");
}

MEND_TEST(rmm, the_pool_starts_with_half_of_the_limit)
{
    fixture_replays("1+40M 2+40M", "rmm-pool", "100MiB", "completed=1 malloc=2 peak_reserved=100M");
    /* The halves are of 38 MiB. A size that no half holds is requested as it is. */
    fixture_replays("1+40M 2+40M", "rmm-pool", "78MiB",
                    "completed=0 failed_at_event=1 peak_reserved=78M");
}

MEND_TEST(rmm, the_pool_grows_by_a_half_of_its_size_where_the_whole_is_not_there)
{
    /* 44 and 44 of 90 MiB are full. 1.375 more are there, after 88, 44, 22, 11, 5.5 and 2.75. */
    static const char steps[] = "1+40M 2+40M 3+4M 4+4M 5+1M";
    fixture_replays(steps, "rmm-pool", "90MiB", "completed=1 peak_reserved=93716480");
    fixture_replays(steps, "rmm-pool", "88MiB", "completed=0 failed_at_event=4");
}

MEND_TEST(rmm, another_streams_block_is_taken_behind_a_wait_on_the_device)
{
    /* The rest is still the first stream's. */
    fixture_replays("1+20M -1 2+10M@1 3+10M", "rmm-pool", "unlimited",
                    "malloc=1 stream_wait=1 event_record=1 host_syncs=0");
}

MEND_TEST(rmm, lists_of_several_streams_are_merged_before_the_pool_grows)
{
    /* Two halves of one allocation, freed on two streams, serve a third as a whole. */
    fixture_replays("1+20M -1 2+10M 3+10M -2 -3@1 4+20M@2", "rmm-pool", "unlimited",
                    "completed=1 malloc=1 stream_wait=2");
}

/* ---- the arenas ------------------------------------------------------------------------------ */

MEND_TEST(rmm, arenas_wait_for_the_host_at_each_free_above_a_mebibyte)
{
    /* The stream's own superblock, 1 MiB from the first block's end, stays with it. */
    fixture_replays("1+1048577 2+1M -2 -1 3+2M", "rmm-arena", "unlimited",
                    "malloc=1 host_syncs=1 peak_reserved=4194816");
}

MEND_TEST(rmm, an_arenas_small_block_freed_on_another_stream_costs_a_wait)
{
    /* A superblock each. The freed block returned to its superblock. */
    fixture_replays("1+1K 2+1K@1 -1@1 -2@1 3+1K", "rmm-arena", "unlimited",
                    "host_syncs=1 peak_reserved=1025K");
}

MEND_TEST(rmm, arenas_give_their_superblocks_back_when_memory_is_out)
{
    /* Three superblocks of 1 MiB in the arena of stream 1, empty, and 4 MiB in all. */
    fixture_replays("1+1M@1 2+1M@1 3+1M@1 -1@1 -2@1 -3@1 4+4M", "rmm-arena", "4MiB",
                    "completed=1 host_syncs=1");
}

/* ---- recordings ------------------------------------------------------------------------------ */

MEND_TEST(rmm, the_models_do_on_recordings_what_they_should)
{
    fixture_replays("detector-varboxes", "rmm-pool", "unlimited",
                    "malloc=14 stream_wait=0 host_syncs=0 per_mille=2071");
    fixture_replays("detector-varboxes", "rmm-arena", "unlimited",
                    "malloc=1 stream_wait=0 host_syncs=11226 per_mille=1180");
    fixture_replays("fsdp-llama-2stream", "rmm-pool", "unlimited",
                    "malloc=12 stream_wait=69 host_syncs=0 per_mille=1393");
    fixture_replays("fsdp-llama-2stream", "rmm-arena", "unlimited",
                    "malloc=1 stream_wait=0 host_syncs=26271 per_mille=1048");
}
