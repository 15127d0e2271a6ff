/* mend_get_regions: pools of known blocks, and what each region of them says. The sums are held
 * against the statistics wherever a test checks its world (support/regions.h). */
#include <string.h>

#include "tests/support/child.h"
#include "tests/support/kit.h"

#define QUARTER (256 * MEND_KIB)
enum { MOST = 16 };

/* Chunks of 1 MiB, small ones of 256 KiB for requests up to 32 KiB, and three streams. */
static bool open_scene(mend_world *w)
{
    mend_world_init(w);
    w->sim_config.memory_bytes = 256 * MEND_MIB; /* low pressure: blocks share chunks of 1 MiB */
    return kit_open(w);
}

/* The regions; a failure if there are not so many. Those that are not there are zeros. */
static void look(mend_world *w, size_t expected, mend_region regions[MOST])
{
    size_t count = 0;
    memset(regions, 0, MOST * sizeof(*regions));
    EXPECT_OK(mend_get_regions(w->pool, regions, sizeof(*regions), MOST, &count));
    EXPECT_U64_EQ(expected, count);
    EXPECT_TRUE(mend_world_check(w));
}

static void expect_region(const mend_region *region, int kind, const void *address,
                          uint64_t size_bytes, mend_stream stream)
{
    EXPECT_INT_EQ(kind, region->kind);
    EXPECT_PTR_EQ(address, region->address);
    EXPECT_U64_EQ(size_bytes, region->size_bytes);
    EXPECT_PTR_EQ(stream, region->stream);
}

KIT_TEST_IN(pool_regions, blocks_have_their_sizes_and_streams, open_scene(w))
{
    mend_region r[MOST];
    char *first = kit_alloc(w, QUARTER - 100, S(0));
    char *second = kit_alloc(w, QUARTER, S(1));
    look(w, 3, r);
    expect_region(&r[0], MEND_REGION_LIVE, first, QUARTER, S(0));
    expect_region(&r[1], MEND_REGION_LIVE, second, QUARTER, S(1));
    expect_region(&r[2], MEND_REGION_FREE, second + QUARTER, 2 * QUARTER, MEND_NO_STREAM);
    EXPECT_U64_EQ(QUARTER - 100, r[0].requested_bytes);
    EXPECT_U64_EQ(QUARTER, r[1].requested_bytes);
    EXPECT_U64_EQ(0, r[2].requested_bytes);
    for (int i = 0; i < 3; i++) {
        EXPECT_PTR_EQ(first, r[i].segment);
        EXPECT_INT_EQ(0, r[i].is_small + r[i].is_pinned + r[i].is_for_graphs + r[i].is_unmapped);
        EXPECT_TRUE(r[i].group == NULL);
    }
}

KIT_TEST_IN(pool_regions, freed_memory_waits_for_its_stream_until_the_pool_knows_better,
            open_scene(w))
{
    mend_region r[MOST];
    char *first = kit_alloc(w, QUARTER, S(0));
    char *second = kit_alloc(w, QUARTER, S(0));
    char *third = kit_alloc(w, QUARTER, S(1));
    kit_use(w, S(0), first, QUARTER, 1000);
    kit_free(w, first, S(0));
    kit_free(w, second, S(0));
    kit_free(w, third, S(1));
    look(w, 3, r);
    expect_region(&r[0], MEND_REGION_WAITING, first, 2 * QUARTER, S(0));
    expect_region(&r[1], MEND_REGION_WAITING, third, QUARTER, S(1));
    expect_region(&r[2], MEND_REGION_FREE, third + QUARTER, QUARTER, MEND_NO_STREAM);
    mend_sim_advance(w->sim, 1000000);
    EXPECT_OK(mend_trim(w->pool, UINT64_MAX, NULL)); /* looks, and keeps everything */
    look(w, 1, r);
    expect_region(&r[0], MEND_REGION_FREE, first, MEND_MIB, MEND_NO_STREAM);
}

KIT_TEST_IN(pool_regions, what_waits_for_several_streams_or_for_none_names_no_stream, open_scene(w))
{
    mend_region r[MOST];
    char *keep = kit_alloc(w, QUARTER, S(0));
    char *shared = kit_alloc(w, QUARTER, S(0));
    char *between = kit_alloc(w, QUARTER, S(0));
    char *streamless = kit_alloc(w, QUARTER, S(0));
    EXPECT_OK(mend_record_stream(w->pool, shared, S(1)));
    kit_free(w, shared, S(0));
    kit_free(w, streamless, MEND_NO_STREAM);
    look(w, 4, r);
    expect_region(&r[0], MEND_REGION_LIVE, keep, QUARTER, S(0));
    expect_region(&r[1], MEND_REGION_WAITING, shared, QUARTER, MEND_NO_STREAM);
    expect_region(&r[2], MEND_REGION_LIVE, between, QUARTER, S(0));
    expect_region(&r[3], MEND_REGION_WAITING, streamless, QUARTER, MEND_NO_STREAM);
}

KIT_TEST_IN(pool_regions, a_forgotten_stream_is_not_named, open_scene(w))
{
    mend_region r[MOST];
    char *block = kit_alloc(w, QUARTER, S(0));
    kit_alloc(w, QUARTER, S(1));
    kit_use(w, S(0), block, QUARTER, 1000000);
    kit_free(w, block, S(0));
    EXPECT_OK(mend_forget_stream(w->pool, S(0)));
    look(w, 3, r);
    expect_region(&r[0], MEND_REGION_WAITING, block, QUARTER, MEND_NO_STREAM);
}

KIT_TEST_IN(pool_regions, the_zones_are_segments_of_their_own, open_scene(w))
{
    mend_region r[MOST];
    char *large = kit_alloc(w, MEND_MIB, S(0));
    char *small = kit_alloc(w, 512, S(0));
    look(w, 3, r);
    int at = r[0].is_small ? 0 : 1; /* the order of the zones is that of their addresses */
    expect_region(&r[at], MEND_REGION_LIVE, small, 512, S(0));
    expect_region(&r[at + 1], MEND_REGION_FREE, small + 512, QUARTER - 512, MEND_NO_STREAM);
    expect_region(&r[at == 0 ? 2 : 0], MEND_REGION_LIVE, large, MEND_MIB, S(0));
    EXPECT_INT_EQ(1, r[at].is_small);
    EXPECT_INT_EQ(1, r[at + 1].is_small);
    EXPECT_PTR_EQ(small, r[at + 1].segment);
    EXPECT_PTR_EQ(large, r[at == 0 ? 2 : 0].segment);
}

KIT_TEST_IN(pool_regions, memory_of_a_group_names_it_until_it_is_released, open_scene(w))
{
    mend_region r[MOST];
    mend_group *group = kit_begin_group(w, S(0));
    char *freed = kit_alloc(w, QUARTER, S(0));
    char *live = kit_alloc(w, QUARTER, S(0));
    kit_free(w, freed, S(0));
    EXPECT_OK(mend_group_end(group));
    char *other = kit_alloc(w, QUARTER, S(0));
    look(w, 4, r);
    expect_region(&r[0], MEND_REGION_WAITING, freed, QUARTER, S(0));
    expect_region(&r[1], MEND_REGION_LIVE, live, QUARTER, S(0));
    expect_region(&r[2], MEND_REGION_LIVE, other, QUARTER, S(0));
    EXPECT_TRUE(r[0].group == group && r[1].group == group && r[2].group == NULL);
    EXPECT_INT_EQ(1, r[0].is_for_graphs);
    EXPECT_INT_EQ(1, r[1].is_for_graphs);
    EXPECT_INT_EQ(0, r[2].is_for_graphs);
    EXPECT_OK(mend_group_release(group, S(0)));
    look(w, 4, r);
    for (int i = 0; i < 4; i++) {
        EXPECT_TRUE(r[i].group == NULL);
        EXPECT_INT_EQ(0, r[i].is_for_graphs);
    }
}

KIT_TEST_IN(pool_regions, memory_of_two_groups_is_two_regions, open_scene(w))
{
    mend_region r[MOST];
    mend_group *groups[2];
    char *blocks[2];
    for (int i = 0; i < 2; i++) {
        groups[i] = kit_begin_group(w, S(0));
        blocks[i] = kit_alloc(w, QUARTER, S(0));
        EXPECT_OK(mend_group_end(groups[i]));
    }
    for (int i = 0; i < 2; i++) {
        EXPECT_OK(mend_group_begin(groups[i], S(0)));
        kit_free(w, blocks[i], S(0));
        EXPECT_OK(mend_group_end(groups[i]));
    }
    look(w, 3, r);
    EXPECT_TRUE(r[0].group == groups[0] && r[1].group == groups[1] && r[2].group == NULL);
}

KIT_TEST_IN(pool_regions, memory_of_a_capture_is_for_graphs_and_of_no_group, open_scene(w))
{
    mend_region r[MOST];
    kit_begin_capture(w, S(0));
    char *freed = kit_alloc(w, QUARTER, S(0));
    char *live = kit_alloc(w, QUARTER, S(0));
    kit_free(w, freed, S(0));
    look(w, 3, r);
    expect_region(&r[0], MEND_REGION_WAITING, freed, QUARTER, S(0));
    expect_region(&r[1], MEND_REGION_LIVE, live, QUARTER, S(0));
    EXPECT_TRUE(r[0].group == NULL && r[1].group == NULL);
    EXPECT_INT_EQ(1, r[0].is_for_graphs);
    EXPECT_INT_EQ(1, r[1].is_for_graphs);
    mend_sim_graph *graph = kit_end_capture(w, S(0));
    mend_sim_graph_destroy(w->sim, graph);
}

/* Free memory is cut where a pinned chunk begins; a block is pinned if one of its chunks is. */
KIT_TEST_IN(pool_regions, pinned_memory_is_a_region_of_its_own,
            kit_open_with(w, 3 * MEND_MIB, NULL))
{
    mend_region r[MOST];
    void *thirds[3];
    kit_alloc_row(w, thirds, 3, MEND_MIB, S(0));
    kit_free_row(w, thirds, 3, S(0));
    char *all = kit_alloc(w, 3 * MEND_MIB, S(0)); /* of several chunks */
    EXPECT_OK(mend_pin(w->pool, all + MEND_MIB, 512));
    uint64_t pinned_bytes = mend_world_stats(w).pinned_bytes;
    EXPECT_TRUE(pinned_bytes > 0 && pinned_bytes <= MEND_MIB);
    kit_free(w, all, S(0));
    look(w, 3, r);
    expect_region(&r[0], MEND_REGION_WAITING, all, MEND_MIB, S(0));
    expect_region(&r[1], MEND_REGION_WAITING, all + MEND_MIB, pinned_bytes, S(0));
    for (int i = 0; i < 3; i++) {
        EXPECT_INT_EQ(i == 1, r[i].is_pinned);
    }
    EXPECT_PTR_EQ(all, kit_alloc(w, 3 * MEND_MIB, S(0)));
    look(w, 1, r);
    EXPECT_INT_EQ(1, r[0].is_pinned);
    EXPECT_OK(mend_unpin(w->pool, all + MEND_MIB, 512));
    look(w, 1, r);
    EXPECT_INT_EQ(0, r[0].is_pinned);
}

KIT_TEST_IN(pool_regions, too_little_room_fills_nothing_and_says_how_much_is_needed, open_scene(w))
{
    mend_region r[MOST];
    size_t count = 0;
    for (int i = 0; i < 3; i++) {
        kit_alloc(w, QUARTER, S(0));
    }
    memset(r, 0x5a, sizeof(r));
    EXPECT_OK(mend_get_regions(w->pool, r, sizeof(*r), 3, &count));
    EXPECT_U64_EQ(4, count);
    for (size_t i = 0; i < sizeof(r); i++) {
        EXPECT_INT_EQ(0x5a, ((unsigned char *)r)[i]);
    }
    EXPECT_OK(mend_get_regions(w->pool, r, sizeof(*r), 4, &count));
    EXPECT_U64_EQ(4, count);
    EXPECT_INT_EQ(MEND_REGION_LIVE, r[2].kind);
    EXPECT_INT_EQ(MEND_REGION_FREE, r[3].kind);
    EXPECT_INT_EQ(0x5a, *(unsigned char *)&r[4]);
}

KIT_TEST_IN(pool_regions, programs_of_other_versions_get_the_fields_they_know, open_scene(w))
{
    struct old {
        void *address;
        uint64_t size_bytes;
    } old[2];
    struct newer {
        mend_region known;
        uint64_t unknown;
    } newer[2];
    size_t count = 0;
    char *block = kit_alloc(w, QUARTER, S(0));
    EXPECT_OK(mend_get_regions(w->pool, (mend_region *)(void *)old, sizeof(*old), 2, &count));
    EXPECT_U64_EQ(2, count);
    EXPECT_PTR_EQ(block, old[0].address);
    EXPECT_PTR_EQ(block + QUARTER, old[1].address);
    EXPECT_U64_EQ(3 * QUARTER, old[1].size_bytes);
    memset(newer, 0x5a, sizeof(newer));
    EXPECT_OK(mend_get_regions(w->pool, (mend_region *)(void *)newer, sizeof(*newer), 2, &count));
    EXPECT_PTR_EQ(block + QUARTER, newer[1].known.address);
    EXPECT_U64_EQ(0, newer[0].unknown);
    EXPECT_U64_EQ(0, newer[1].unknown);
}

KIT_LAST_TEST(pool_regions, no_driver_is_called_and_a_lost_context_still_shows_them, open_scene(w))
{
    mend_region r[MOST];
    kit_alloc(w, QUARTER, S(0));
    kit_break(w, NULL);
    look(w, 2, r);
    void *none = NULL;
    EXPECT_ERROR(DEVICE_LOST, mend_alloc(w->pool, 8 * MEND_MIB, S(0), &none));
    size_t count = 0;
    EXPECT_OK(mend_get_regions(w->pool, r, sizeof(*r), MOST, &count));
    EXPECT_U64_EQ(2, count);
    mend_pool_destroy(w->pool);
}

static bool is_refused(void *pool)
{
    size_t count = 7;
    mend_result result = mend_get_regions(pool, NULL, sizeof(mend_region), 0, &count);
    return result == MEND_ERROR_FORKED && count == 7;
}

KIT_TEST_IN(pool_regions, a_child_of_fork_is_refused, open_scene(w))
{
    EXPECT_TRUE(mend_test_holds_in_a_child(is_refused, w->pool));
}
