/* Committed pages of ranges sleep as blocks do: their memory is released, every byte comes back,
 * and they are decommitted, committed again and destroyed meanwhile. */

#include "tests/unit/pool/pages.h"
#include "tests/unit/sleep/sleep_rig.h"

/* Pages alone, four of two tags, and a pool that sleeps. */
static bool open_pages(sleep_rig *r)
{
    r->range = NULL;
    for (int i = 0; i < SLEEP_BLOCKS; i++) {
        r->blocks[i] = NULL;
    }
    return kit_open_default(&r->w) && sleep_rig_add_pages(r);
}

static mend_result commit(sleep_rig *r, int page, int count)
{
    return mend_range_commit(r->range, (uint64_t)page * SLEEP_PAGE, (uint64_t)count * SLEEP_PAGE,
                             r->w.streams[0]);
}

static mend_result decommit(sleep_rig *r, int page, int count)
{
    return mend_range_decommit(r->range, (uint64_t)page * SLEEP_PAGE, (uint64_t)count * SLEEP_PAGE,
                               r->w.streams[0]);
}

static void commit_and_write(sleep_rig *r, int page)
{
    EXPECT_OK(commit(r, page, 1));
    sleep_rig_write_page(r, page);
}

#define SLEEP_RIG_TEST(suite, name, opening)                                                       \
    KIT_RIG_TEST(suite, name, sleep_rig, opening, sleep_rig_close(r))

SLEEP_RIG_TEST(pool_sleep_pages, pages_are_decommitted_and_committed_again_meanwhile, open_pages(r))
{
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    EXPECT_OK(decommit(r, 1, 2));
    EXPECT_STATS(w, backup_host_bytes, 2 * SLEEP_PAGE, asleep_bytes, 2 * SLEEP_PAGE);
    EXPECT_U64_EQ(2 * SLEEP_PAGE, info_of(r->range).committed_bytes);
    EXPECT_STATS(w, range_free_bytes, 0);
    EXPECT_TRUE(mend_world_check(w));
    commit_and_write(r, 1);
    KIT_THREAD(.sleep_tag = 1);
    commit_and_write(r, 2);
    mend_set_alloc_options(NULL, NULL);
    EXPECT_U64_EQ(2 * SLEEP_PAGE, info_of(r->range).mapped_bytes);
    EXPECT_TRUE(mend_world_check(w));
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
}

SLEEP_RIG_TEST(pool_sleep_pages, what_needs_a_sleeping_page_is_refused_by_name, open_pages(r))
{
    EXPECT_OK(mend_pin(w->pool, r->pages, SLEEP_PAGE));
    EXPECT_ERROR(PINNED, mend_sleep(w->pool, NULL, NULL));
    EXPECT_U64_EQ(0, info_of(r->range).asleep_bytes);
    EXPECT_OK(mend_unpin(w->pool, r->pages, SLEEP_PAGE));
    sleep_rig_sleep(r, 2, MEND_BACKUP_HOST);
    const uint64_t size_bytes = info_of(r->range).size_bytes;
    EXPECT_REFUSAL(ASLEEP, "mend_range_record_stream",
                   mend_range_record_stream(r->range, 0, size_bytes, S(1)));
    EXPECT_OK(mend_range_record_stream(r->range, 0, SLEEP_PAGE, S(1)));
    EXPECT_OK(mend_range_record_stream(r->range, SLEEP_PAGES * SLEEP_PAGE, SLEEP_PAGE,
                                       S(1))); /* there is none */
    EXPECT_ERROR(ASLEEP, mend_pin(w->pool, r->pages + SLEEP_PAGE, SLEEP_PAGE));
}

/* A wake fails, and its mappings stay: the addresses of the page wait for them. */
SLEEP_RIG_TEST(pool_sleep_pages, a_commit_says_that_old_memory_is_in_the_way, open_pages(r))
{
    EXPECT_OK(decommit(r, 1, 1));
    EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_IDLE, NULL)); /* nothing is mapped there */
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    kit_fail(w, "copy", 0, 100, MEND_DRIVER_UNKNOWN);
    kit_fail(w, "unmap", 0, 100, MEND_DRIVER_UNKNOWN);
    EXPECT_ERROR(DRIVER, mend_wake(w->pool, NULL, 0, NULL));
    const uint64_t bytes = (SLEEP_PAGES - 1) * SLEEP_PAGE;
    EXPECT_STATS(w, reserved_bytes, bytes, free_bytes, bytes);
    EXPECT_OK(decommit(r, 2, 1));
    EXPECT_REFUSAL(DRIVER, "does not let its memory go", commit(r, 1, 3));
    EXPECT_OK(commit(r, 3, 1)); /* it sleeps */
    EXPECT_TRUE(mend_world_check(w));
    mend_sim_clear_faults(w->sim);
    commit_and_write(r, 2);
    commit_and_write(r, 1);
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
}
