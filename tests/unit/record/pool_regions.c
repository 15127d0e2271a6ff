/* mend_get_regions: pools of known blocks, and the fields of each region. Each check of a world
 * compares the sums with the statistics (support/regions.h). */
#include <string.h>

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

/* The regions. A failure if there are not so many. Missing ones are zeros. */
static void look(mend_world *w, size_t expected, mend_region regions[MOST])
{
    size_t count = 0;
    memset(regions, 0, MOST * sizeof(*regions));
    EXPECT_OK(mend_get_regions(w->pool, regions, sizeof(*regions), MOST, &count));
    EXPECT_U64_EQ(expected, count);
    EXPECT_TRUE(mend_world_check(w));
}

KIT_TEST_IN(pool_regions, memory_of_two_graph_pools_is_two_regions, open_scene(w))
{
    mend_region r[MOST];
    mend_graph_pool *graph_pools[2];
    char *blocks[2];
    for (int i = 0; i < 2; i++) {
        graph_pools[i] = kit_begin_graph_pool(w, S(0));
        blocks[i] = kit_alloc(w, QUARTER, S(0));
        EXPECT_OK(mend_graph_pool_end(graph_pools[i]));
    }
    for (int i = 0; i < 2; i++) {
        EXPECT_OK(mend_graph_pool_begin(graph_pools[i], S(0)));
        kit_free(w, blocks[i], S(0));
        EXPECT_OK(mend_graph_pool_end(graph_pools[i]));
    }
    look(w, 3, r);
    EXPECT_TRUE(r[0].graph_pool == graph_pools[0] && r[1].graph_pool == graph_pools[1] &&
                r[2].graph_pool == NULL);
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
