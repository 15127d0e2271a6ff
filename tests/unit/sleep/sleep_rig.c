#include "tests/unit/sleep/sleep_rig.h"

#include <stdlib.h>

bool sleep_rig_open(sleep_rig *r)
{
    if (!kit_open_default(&r->w)) {
        return false;
    }
    r->range = NULL;
    for (int i = 0; i < SLEEP_BLOCKS; i++) {
        KIT_THREAD(.sleep_tag = i % 2 == 0 ? 1 : 2);
        r->blocks[i] = kit_alloc_written(&r->w, SLEEP_BLOCK, r->w.streams[0]);
    }
    mend_set_alloc_options(NULL, NULL);
    return true;
}

void sleep_rig_write_page(sleep_rig *r, int number)
{
    kit_write(&r->w, r->w.streams[0], r->pages + (uint64_t)number * SLEEP_PAGE, SLEEP_PAGE);
}

bool sleep_rig_add_pages(sleep_rig *r)
{
    mend_range_info info = MEND_RANGE_INFO_INIT;
    if (mend_range_create(r->w.pool, 64 * SLEEP_PAGE,
                          KIT_OPTIONS(mend_range_options, .page_bytes = SLEEP_PAGE, .tag = 7),
                          &r->range) != MEND_OK ||
        mend_range_get_info(r->range, &info) != MEND_OK) {
        return false;
    }
    r->pages = info.base;
    for (int i = 0; i < SLEEP_PAGES; i++) {
        KIT_THREAD(.sleep_tag = i % 2 == 0 ? 1 : 2);
        EXPECT_OK(
            mend_range_commit(r->range, (uint64_t)i * SLEEP_PAGE, SLEEP_PAGE, r->w.streams[0]));
        sleep_rig_write_page(r, i);
    }
    mend_set_alloc_options(NULL, NULL);
    return true;
}

/* Verifies the pages, and destroys the range. */
static void end_pages(sleep_rig *r)
{
    for (uint64_t i = 0; i < SLEEP_PAGES && r->range != NULL; i++) {
        kit_verify(&r->w, r->w.streams[0], r->pages + i * SLEEP_PAGE, SLEEP_PAGE);
    }
    EXPECT_OK(mend_range_destroy(r->range, r->w.streams[0]));
}

void sleep_rig_close(sleep_rig *r)
{
    EXPECT_OK(mend_wake(r->w.pool, NULL, 0, NULL));
    EXPECT_TRUE(mend_world_check(&r->w));
    end_pages(r);
    kit_release_row(&r->w, r->blocks, SLEEP_BLOCKS, SLEEP_BLOCK, r->w.streams[0]);
    kit_close(&r->w);
}

void sleep_rig_sleep(sleep_rig *r, uint64_t tag, int keep)
{
    EXPECT_OK(mend_sleep(r->w.pool, SLEEP_TAG(tag, keep, ), NULL));
}

bool sleep_rig_sleeps(sleep_rig *r, int number)
{
    mend_block_info info = kit_info(&r->w, r->blocks[number]);
    EXPECT_U64_EQ(number % 2 == 0 ? 1 : 2, info.sleep_tag);
    return info.is_asleep != 0;
}

const char *sleep_rig_directory(void)
{
    const char *directory = getenv("TMPDIR");
    return directory != NULL ? directory : "/tmp";
}
