/* A chunk that is split and then mapped in part: what is mapped, what is not, and the way back. */
#include "tests/unit/sleep/sleep_rig.h"

/* Eight blocks of two tags in turn in a chunk of 1 MiB, which share the pages at their borders. */
#define PART (120 * MEND_KIB)
enum { PARTS = 8, MAPPINGS_OF_SPLIT = 18 };

/* The driver refuses to map at one place, and to unmap what is mapped of the chunk. Whether blocks
 * were left without a mapping. */
static bool fail_at(uint64_t mapping)
{
    mend_world w;
    void *parts[PARTS];
    const mend_sleep_rule rule = {1, MEND_KEEP_HOST};
    mend_sleep_options options = MEND_SLEEP_OPTIONS_INIT;
    options.rules = &rule;
    options.rule_count = 1;
    if (!kit_open_default(&w)) {
        return false;
    }
    for (uint64_t i = 0; i < PARTS; i++) {
        mend_set_sleep_tag(1 + i % 2);
        parts[i] = kit_alloc_written(&w, PART, w.streams[0]);
    }
    mend_set_sleep_tag(0);
    kit_fail(&w, "map", mapping, 1, MEND_DRIVER_UNKNOWN);
    kit_fail(&w, "unmap", 2, 1, MEND_DRIVER_UNKNOWN); /* scratch, chunk, parts */
    (void)mend_sleep(w.pool, &options, NULL);
    mend_sim_clear_faults(w.sim);
    EXPECT_TRUE(mend_world_check(&w));
    bool were_left = mend_world_stats(&w).unmapped_blocks > 0;
    EXPECT_RESULT(MEND_OK,
                  mend_trim(w.pool, 0, MEND_TRIM_IDLE, NULL)); /* maps what could not be mapped */
    EXPECT_U64_EQ(0, mend_world_stats(&w).unmapped_blocks);
    EXPECT_RESULT(MEND_OK, mend_wake(w.pool, NULL, 0, NULL));
    kit_release_row(&w, parts, PARTS, PART, w.streams[0]);
    kit_close(&w);
    return were_left;
}

MEND_TEST(pool_sleep_parts, what_is_mapped_in_part_comes_back)
{
    int were_left = 0;
    for (uint64_t mapping = 0; mapping < MAPPINGS_OF_SPLIT; mapping++) {
        were_left += fail_at(mapping);
    }
    EXPECT_TRUE(were_left > 1);
}
