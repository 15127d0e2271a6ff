#include "tests/unit/sleep/sleep_rig.h"

#include <stdlib.h>

bool sleep_rig_open(sleep_rig *r)
{
    return kit_open_default(&r->w) && sleep_rig_fill(r);
}

bool sleep_rig_fill(sleep_rig *r)
{
    for (int i = 0; i < SLEEP_BLOCKS; i++) {
        mend_set_sleep_tag(i % 2 == 0 ? 1 : 2);
        r->blocks[i] = kit_alloc_written(&r->w, SLEEP_BLOCK, r->w.streams[0]);
    }
    mend_set_sleep_tag(0);
    return true;
}

void sleep_rig_close(sleep_rig *r)
{
    EXPECT_RESULT(MEND_OK, mend_wake(r->w.pool, NULL, 0, NULL));
    EXPECT_TRUE(mend_world_check(&r->w));
    kit_release_row(&r->w, r->blocks, SLEEP_BLOCKS, SLEEP_BLOCK, r->w.streams[0]);
    kit_close(&r->w);
}

void sleep_rig_sleep(sleep_rig *r, uint64_t tag, int keep)
{
    const mend_sleep_rule rule = {tag, keep};
    mend_sleep_options options = MEND_SLEEP_OPTIONS_INIT;
    options.rules = &rule;
    options.rule_count = 1;
    EXPECT_RESULT(MEND_OK, mend_sleep(r->w.pool, &options, NULL));
}

bool sleep_rig_sleeps(sleep_rig *r, int number)
{
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    EXPECT_RESULT(MEND_OK, mend_get_block_info(r->w.pool, r->blocks[number], &info));
    EXPECT_U64_EQ(number % 2 == 0 ? 1 : 2, info.sleep_tag);
    return info.is_asleep != 0;
}

const char *sleep_rig_directory(void)
{
    const char *directory = getenv("TMPDIR");
    return directory != NULL ? directory : "/tmp";
}
