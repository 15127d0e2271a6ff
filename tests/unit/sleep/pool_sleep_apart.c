/* Blocks with a sleep tag of their thread lie in chunks without others, so that all of them sleep;
 * and tags share chunks before a request fails. */
#include "tests/unit/sleep/sleep_rig.h"

#define BLOCK (120 * MEND_KIB)

/* `tag` 0: none. */
static void *alloc_tagged(mend_world *w, uint64_t tag, uint64_t size_bytes)
{
    KIT_THREAD(.sleep_tag = tag);
    void *block = kit_alloc_written(w, size_bytes, S(0));
    mend_set_alloc_options(NULL, NULL);
    return block;
}

/* All blocks of the tag, of so many bytes, sleep, and all wakes. */
static void expect_sleep(mend_world *w, uint64_t tag, uint64_t size_bytes)
{
    mend_sleep_report report = MEND_SLEEP_REPORT_INIT;
    EXPECT_OK(mend_sleep(w->pool, SLEEP_TAG(tag, MEND_BACKUP_HOST, ), &report));
    EXPECT_FIELDS(report, stayed_bytes, 0, host_bytes, size_bytes);
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
}

/* Memory of a tag beside its blocks is a part of them, not a usual chunk of 1 MiB. */
KIT_TEST(pool_sleep_apart, small_tags_take_little_memory)
{
    enum { MANY = 16 };
    void *blocks[MANY];
    for (uint64_t i = 0; i < MANY; i++) {
        blocks[i] = alloc_tagged(w, 1 + i, BLOCK);
    }
    EXPECT_LEDGER(w, chunk_bytes, MANY * 128 * MEND_KIB);
    kit_release_row(w, blocks, MANY, BLOCK, S(0));
}

/* Who comes later to a chunk does not change its tag. */
KIT_SET_TEST(pool_sleep_apart, a_shared_chunk_is_of_the_first_tag,
             w->pool_config.limit_bytes = 128 * MEND_KIB)
{
    void *first = alloc_tagged(w, 1, 70 * MEND_KIB);
    kit_release(w, alloc_tagged(w, 2, 50 * MEND_KIB), 50 * MEND_KIB, S(0));
    EXPECT_STATS(w, chunks, 1);
    EXPECT_OK(mend_set_limit(w->pool, 0));
    void *second = alloc_tagged(w, 2, 50 * MEND_KIB);
    EXPECT_STATS(w, chunks, 2);
    kit_release(w, first, 70 * MEND_KIB, S(0));
    kit_release(w, second, 50 * MEND_KIB, S(0));
}

/* A few small blocks beside large ones take a page, which counts where there are many tags. */
KIT_TEST(pool_sleep_apart, the_small_blocks_of_a_tag_have_a_part_of_their_own)
{
    void *large = alloc_tagged(w, 1, 8 * MEND_MIB);
    const uint64_t held_bytes = mend_world_ledger(w).chunk_bytes;
    void *small = alloc_tagged(w, 1, 4 * MEND_KIB);
    EXPECT_LEDGER(w, chunk_bytes, held_bytes + w->info.granularity_bytes);
    kit_release(w, small, 4 * MEND_KIB, S(0));
    kit_release(w, large, 8 * MEND_MIB, S(0));
}

/* Chunks grow with the tag, so that it takes few creations. */
KIT_TEST(pool_sleep_apart, large_tags_have_large_chunks)
{
    enum { MANY = 64 };
    void *blocks[MANY];
    for (int i = 0; i < MANY; i++) {
        blocks[i] = alloc_tagged(w, 1, 60 * MEND_KIB);
    }
    EXPECT_TRUE(mend_world_stats(w).chunks <= 20);
    EXPECT_TRUE(mend_world_stats(w).reserved_bytes <= MANY * 60 * MEND_KIB + MEND_MIB);
    kit_release_row(w, blocks, MANY, 60 * MEND_KIB, S(0));
}

/* Neither search nor front cache gives memory of a tag to others; memory of none is for every tag
 * once its chunk is empty. */
KIT_TEST(pool_sleep_apart, freed_memory_of_a_tag_stays_its_own)
{
    enum { SMALL = 4 << 10 };
    void *first = alloc_tagged(w, 1, SMALL);
    void *freed = alloc_tagged(w, 1, SMALL);
    kit_free(w, freed, S(0));
    void *other = kit_alloc_written(w, SMALL, S(0));
    EXPECT_TRUE(other != freed);
    EXPECT_PTR_EQ(freed, alloc_tagged(w, 1, SMALL));
    expect_sleep(w, 1, 2 * SMALL);
    kit_free(w, other, S(0));
    void *again = alloc_tagged(w, 2, SMALL);
    void *beside = kit_alloc_written(w, SMALL, S(0));
    expect_sleep(w, 2, SMALL);
    kit_release(w, beside, SMALL, S(0));
    kit_release(w, again, SMALL, S(0));
    kit_release(w, freed, SMALL, S(0));
    kit_release(w, first, SMALL, S(0));
}

KIT_TEST(pool_sleep_apart, a_freed_block_of_none_is_not_taken_by_a_tag_beside_others)
{
    void *stays = kit_alloc_written(w, BLOCK, S(0));
    void *freed = kit_alloc_written(w, BLOCK, S(0));
    kit_free(w, freed, S(0));
    void *block = alloc_tagged(w, 1, BLOCK);
    expect_sleep(w, 1, BLOCK);
    kit_release(w, block, BLOCK, S(0));
    kit_release(w, stays, BLOCK, S(0));
}

KIT_TEST(pool_sleep_apart, the_tag_of_a_call_is_before_that_of_the_thread)
{
    enum { SMALL = 4 << 10 };
    void *first = alloc_tagged(w, 1, SMALL);
    KIT_THREAD(.sleep_tag = 1);
    void *block = kit_alloc_with(w, SMALL, S(0), .sleep_tag = 2);
    mend_set_alloc_options(NULL, NULL);
    expect_sleep(w, 2, SMALL);
    kit_free(w, block, S(0));
    kit_release(w, first, SMALL, S(0));
}

/* A tag that is for more than sleep is known to sleep once the pool has slept. */
KIT_TEST(pool_sleep_apart, tags_of_options_lie_apart_once_the_pool_has_slept)
{
    void *first = kit_alloc_written(w, BLOCK, S(0));
    void *blocks[2];
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    for (uint64_t i = 0; i < 2; i++) {
        blocks[i] = kit_alloc_with(w, BLOCK, S(0), .tag = 5 + i);
    }
    expect_sleep(w, 5, BLOCK);
    kit_free_row(w, blocks, 2, S(0));
    kit_release(w, first, BLOCK, S(0));
}

/* Captures of an engine outside of its tags sleep with them. So do allocations in a graph pool
 * outside of captures. */
KIT_EACH(pool_sleep_apart, memory_of_graphs_lies_apart_from_blocks_that_stay, int, in_pool, 2,
         kit_open_default(w))
{
    void *first = alloc_tagged(w, 1, BLOCK);
    void *stays = kit_alloc_written(w, BLOCK / 2, S(0));
    mend_graph_pool *graph_pool = kit_graph_pool(w);
    kit_begin_capture(w, S(0));
    if (!in_pool) {
        kit_leave_in_flight(w, BLOCK / 2, S(0), 10, S(0));
    }
    mend_sim_graph *graph = kit_end_capture(w, S(0));
    if (in_pool) {
        kit_free(w, kit_alloc_with(w, BLOCK / 2, S(0), .graph_pool = graph_pool), S(0));
    }
    EXPECT_OK(mend_sleep(w->pool, SLEEP_TAG(1, MEND_BACKUP_HOST, .graphs = MEND_DISCARD), NULL));
    EXPECT_STATS(w, asleep_bytes, 192 * MEND_KIB);
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    kit_launch_graph(w, graph, S(0));
    EXPECT_OK(mend_graph_pool_destroy(graph_pool, S(0)));
    kit_release(w, stays, BLOCK / 2, S(0));
    kit_release(w, first, BLOCK, S(0));
    mend_sim_graph_destroy(w->sim, graph);
}

KIT_TEST(pool_sleep_apart, a_freed_block_wakes_no_chunk)
{
    const uint64_t tag = 2;
    void *first = alloc_tagged(w, 1, 32 * MEND_KIB + 512);
    EXPECT_OK(mend_set_limit(w->pool, mend_world_stats(w).reserved_bytes));
    void *second = alloc_tagged(w, 2, 16 * MEND_KIB);
    EXPECT_OK(mend_set_limit(w->pool, 0));
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    kit_free(w, second, S(0));
    const uint64_t asleep_bytes = mend_world_stats(w).asleep_bytes;
    EXPECT_OK(mend_wake(w->pool, &tag, 1, NULL));
    EXPECT_STATS(w, asleep_bytes, asleep_bytes);
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    kit_release(w, first, 32 * MEND_KIB + 512, S(0));
}

KIT_TEST(pool_sleep_apart, a_compaction_keeps_tags_apart)
{
    enum { MANY = 16 };
    void *blocks[MANY];
    for (int i = 0; i < MANY; i++) {
        blocks[i] = alloc_tagged(w, 1, 60 * MEND_KIB);
    }
    for (int i = 0; i < MANY; i++) {
        if (i % 4 != 0) {
            kit_free(w, blocks[i], S(0));
        }
    }
    EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_WAIT, NULL)); /* no empty chunk has the tag */
    EXPECT_OK(mend_compact(w->pool, NULL, NULL));
    EXPECT_TRUE(mend_world_stats(w).compactions > 0);
    void *others[MANY];
    kit_alloc_written_row(w, others, MANY, 512, S(0));
    expect_sleep(w, 1, MANY / 4 * 60 * MEND_KIB);
    kit_release_row(w, others, MANY, 512, S(0));
    for (int i = 0; i < MANY; i += 4) {
        kit_release(w, blocks[i], 60 * MEND_KIB, S(0));
    }
}
