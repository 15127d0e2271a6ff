/* Committed pages of ranges sleep as blocks do: their memory goes back, every byte comes back, and
 * they are decommitted, committed again and destroyed meanwhile. */
#include <stdatomic.h>
#include <stdlib.h>

#include "tests/support/files.h"
#include "tests/support/regions.h"
#include "tests/support/threads.h"
#include "tests/unit/sleep/sleep_rig.h"

static mend_range_info info_of(mend_range *range)
{
    mend_range_info info = MEND_RANGE_INFO_INIT;
    EXPECT_RESULT(MEND_OK, mend_range_get_info(range, &info));
    return info;
}

/* Pages alone, four of two tags; and a pool that sleeps. */
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
    EXPECT_RESULT(MEND_OK, commit(r, page, 1));
    sleep_rig_write_page(r, page);
}

MEND_TEST(pool_sleep_pages, memory_goes_back_and_every_byte_comes_back)
{
    sleep_rig r;
    mend_sleep_report report = MEND_SLEEP_REPORT_INIT;
    ASSERT_TRUE(open_pages(&r));
    EXPECT_RESULT(MEND_OK, mend_sleep(r.w.pool, NULL, &report));
    EXPECT_U64_EQ(SLEEP_PAGES * SLEEP_PAGE, report.host_bytes);
    EXPECT_U64_EQ(SLEEP_PAGES * SLEEP_PAGE, report.asleep_bytes);
    EXPECT_U64_EQ(0, report.stayed_bytes);
    EXPECT_U64_EQ(0, mend_world_ledger(&r.w).chunk_bytes);
    EXPECT_U64_EQ(0, mend_world_ledger(&r.w).mappings);
    const mend_range_info info = info_of(r.range);
    EXPECT_U64_EQ(SLEEP_PAGES * SLEEP_PAGE, info.committed_bytes);
    EXPECT_U64_EQ(SLEEP_PAGES * SLEEP_PAGE, info.asleep_bytes);
    EXPECT_U64_EQ(0, info.mapped_bytes);
    const mend_stats stats = mend_world_stats(&r.w);
    EXPECT_U64_EQ(SLEEP_PAGES * SLEEP_PAGE, stats.range_bytes);
    EXPECT_U64_EQ(SLEEP_PAGES * SLEEP_PAGE, stats.asleep_live_bytes);
    EXPECT_U64_EQ(0, stats.range_free_bytes);
    EXPECT_U64_EQ(0, stats.reserved_bytes);
    EXPECT_TRUE(mend_world_check(&r.w));
    EXPECT_RESULT(MEND_OK, mend_wake(r.w.pool, NULL, 0, NULL));
    EXPECT_U64_EQ(0, info_of(r.range).asleep_bytes);
    EXPECT_U64_EQ(SLEEP_PAGES * SLEEP_PAGE, info_of(r.range).mapped_bytes);
    sleep_rig_close(&r); /* verifies each page */
}

MEND_TEST(pool_sleep_pages, regions_name_pages_that_sleep)
{
    sleep_rig r;
    size_t count;
    uint64_t asleep_bytes = 0;
    ASSERT_TRUE(open_pages(&r));
    sleep_rig_sleep(&r, 1, MEND_KEEP_HOST);
    mend_region *regions = mend_regions_of(r.w.pool, &count);
    for (size_t i = 0; i < count; i++) {
        asleep_bytes += regions[i].is_asleep ? regions[i].size_bytes : 0;
        EXPECT_TRUE(!regions[i].is_asleep || regions[i].kind == MEND_REGION_PAGE);
    }
    free(regions);
    EXPECT_U64_EQ(SLEEP_PAGES / 2 * SLEEP_PAGE, asleep_bytes);
    sleep_rig_close(&r);
}

static uint64_t tag_of(sleep_rig *r, mend_range *range)
{
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    EXPECT_RESULT(MEND_OK, mend_get_block_info(r->w.pool, info_of(range).base, &info));
    return info.sleep_tag;
}

/* That of the thread at the commit, or at the creation of the range, or the range's own. */
MEND_TEST(pool_sleep_pages, a_page_has_the_tag_of_a_thread_or_of_its_range)
{
    sleep_rig r;
    mend_range_options options = MEND_RANGE_OPTIONS_INIT;
    mend_range *range = NULL;
    ASSERT_TRUE(open_pages(&r));
    options.tag = 9;
    for (uint64_t creator = 0; creator < 2; creator++) {
        for (uint64_t committer = 0; committer < 2; committer++) {
            mend_set_sleep_tag(creator * 5);
            EXPECT_RESULT(MEND_OK, mend_range_create(r.w.pool, 1, &options, &range));
            mend_set_sleep_tag(committer * 6);
            EXPECT_RESULT(MEND_OK, mend_range_commit(range, 0, info_of(range).page_bytes, NULL));
            mend_set_sleep_tag(0);
            const uint64_t tag = tag_of(&r, range);
            EXPECT_U64_EQ(committer ? 6 : creator ? 5 : 9, tag);
            sleep_rig_sleep(&r, tag, MEND_KEEP_NOTHING);
            EXPECT_U64_EQ(info_of(range).page_bytes, mend_world_stats(&r.w).asleep_live_bytes);
            EXPECT_RESULT(MEND_OK, mend_wake(r.w.pool, &tag, 1, NULL));
            EXPECT_RESULT(MEND_OK, mend_range_destroy(range, NULL));
        }
    }
    sleep_rig_close(&r);
}

MEND_TEST(pool_sleep_pages, each_tag_wakes_by_itself)
{
    sleep_rig r;
    const uint64_t second = 2;
    ASSERT_TRUE(sleep_rig_open(&r) && sleep_rig_add_pages(&r));
    EXPECT_RESULT(MEND_OK, mend_sleep(r.w.pool, NULL, NULL));
    EXPECT_RESULT(MEND_OK, mend_wake(r.w.pool, &second, 1, NULL));
    for (int i = 0; i < SLEEP_PAGES; i++) {
        EXPECT_INT_EQ(i % 2 == 0, sleep_rig_page_sleeps(&r, i));
    }
    sleep_rig_verify_page(&r, 1);
    EXPECT_U64_EQ(SLEEP_PAGES / 2 * SLEEP_PAGE, info_of(r.range).asleep_bytes);
    EXPECT_TRUE(mend_world_check(&r.w));
    sleep_rig_close(&r);
}

MEND_TEST(pool_sleep_pages, a_commit_of_sleeping_pages_changes_nothing)
{
    sleep_rig r;
    ASSERT_TRUE(open_pages(&r));
    EXPECT_RESULT(MEND_OK, mend_sleep(r.w.pool, NULL, NULL));
    EXPECT_RESULT(MEND_OK, commit(&r, 0, SLEEP_PAGES));
    EXPECT_U64_EQ(0, mend_world_ledger(&r.w).chunk_bytes);
    EXPECT_RESULT(MEND_OK, commit(&r, 0, SLEEP_PAGES + 2)); /* two more, which are awake */
    EXPECT_U64_EQ(SLEEP_PAGES * SLEEP_PAGE, info_of(r.range).asleep_bytes);
    EXPECT_U64_EQ(2 * SLEEP_PAGE, info_of(r.range).mapped_bytes);
    sleep_rig_write_page(&r, SLEEP_PAGES);
    EXPECT_TRUE(mend_world_check(&r.w));
    EXPECT_RESULT(MEND_OK, mend_wake(r.w.pool, NULL, 0, NULL));
    sleep_rig_verify_page(&r, SLEEP_PAGES);
    sleep_rig_close(&r);
}

/* What is kept of the page goes, and its addresses are free for a new commit. */
MEND_TEST(pool_sleep_pages, pages_are_decommitted_and_committed_again_meanwhile)
{
    sleep_rig r;
    ASSERT_TRUE(open_pages(&r));
    EXPECT_RESULT(MEND_OK, mend_sleep(r.w.pool, NULL, NULL));
    EXPECT_RESULT(MEND_OK, decommit(&r, 1, 2));
    EXPECT_U64_EQ(2 * SLEEP_PAGE, mend_world_stats(&r.w).kept_host_bytes);
    EXPECT_U64_EQ(2 * SLEEP_PAGE, mend_world_stats(&r.w).asleep_bytes);
    EXPECT_U64_EQ(2 * SLEEP_PAGE, info_of(r.range).committed_bytes);
    EXPECT_U64_EQ(0, mend_world_stats(&r.w).range_free_bytes);
    EXPECT_TRUE(mend_world_check(&r.w));
    commit_and_write(&r, 1);
    mend_set_sleep_tag(1);
    commit_and_write(&r, 2);
    mend_set_sleep_tag(0);
    EXPECT_U64_EQ(2 * SLEEP_PAGE, info_of(r.range).mapped_bytes);
    EXPECT_TRUE(mend_world_check(&r.w));
    EXPECT_RESULT(MEND_OK, mend_wake(r.w.pool, NULL, 0, NULL));
    sleep_rig_close(&r); /* the old contents of two pages, and the new ones of two */
}

MEND_TEST(pool_sleep_pages, what_needs_a_sleeping_page_is_refused_by_name)
{
    sleep_rig r;
    ASSERT_TRUE(open_pages(&r));
    EXPECT_RESULT(MEND_OK, mend_pin(r.w.pool, r.pages, SLEEP_PAGE));
    EXPECT_RESULT(MEND_ERROR_PINNED, mend_sleep(r.w.pool, NULL, NULL));
    EXPECT_U64_EQ(0, info_of(r.range).asleep_bytes);
    EXPECT_RESULT(MEND_OK, mend_unpin(r.w.pool, r.pages, SLEEP_PAGE));
    sleep_rig_sleep(&r, 2, MEND_KEEP_HOST);
    const uint64_t size_bytes = info_of(r.range).size_bytes;
    EXPECT_RESULT(MEND_ERROR_ASLEEP,
                  mend_range_record_stream(r.range, 0, size_bytes, r.w.streams[1]));
    kit_expect_words("mend_range_record_stream");
    EXPECT_RESULT(MEND_OK, mend_range_record_stream(r.range, 0, SLEEP_PAGE, r.w.streams[1]));
    EXPECT_RESULT(MEND_OK, mend_range_record_stream(r.range, SLEEP_PAGES * SLEEP_PAGE, SLEEP_PAGE,
                                                    r.w.streams[1])); /* there is none */
    EXPECT_RESULT(MEND_ERROR_ASLEEP, mend_pin(r.w.pool, r.pages + SLEEP_PAGE, SLEEP_PAGE));
    EXPECT_TRUE(mend_world_check(&r.w));
    sleep_rig_close(&r);
}

MEND_TEST(pool_sleep_pages, a_range_is_destroyed_asleep)
{
    sleep_rig r;
    ASSERT_TRUE(open_pages(&r));
    EXPECT_RESULT(MEND_OK, mend_sleep(r.w.pool, NULL, NULL));
    EXPECT_RESULT(MEND_OK, mend_range_destroy(r.range, r.w.streams[0]));
    r.range = NULL;
    const mend_stats stats = mend_world_stats(&r.w);
    EXPECT_U64_EQ(0, stats.asleep_bytes);
    EXPECT_U64_EQ(0, stats.range_address_bytes);
    EXPECT_U64_EQ(0, mend_world_ledger(&r.w).host_allocations);
    EXPECT_TRUE(mend_world_check(&r.w));
    sleep_rig_close(&r);
}

/* The addresses go with the memory, when the driver takes it back. */
MEND_TEST(pool_sleep_pages, a_range_is_destroyed_whose_memory_is_refused)
{
    sleep_rig r;
    ASSERT_TRUE(open_pages(&r));
    kit_fail(&r.w, "release", 0, 100, MEND_DRIVER_UNKNOWN);
    EXPECT_RESULT(MEND_OK, mend_sleep(r.w.pool, NULL, NULL));
    EXPECT_U64_EQ(SLEEP_PAGES * SLEEP_PAGE, mend_world_stats(&r.w).reserved_bytes);
    EXPECT_U64_EQ(SLEEP_PAGES * SLEEP_PAGE, mend_world_stats(&r.w).free_bytes);
    EXPECT_TRUE(mend_world_check(&r.w));
    EXPECT_RESULT(MEND_OK, mend_range_destroy(r.range, r.w.streams[0]));
    r.range = NULL;
    EXPECT_TRUE(mend_world_stats(&r.w).range_address_bytes > 0);
    EXPECT_TRUE(mend_world_check(&r.w));
    mend_sim_clear_faults(r.w.sim);
    EXPECT_RESULT(MEND_OK, mend_trim(r.w.pool, 0, NULL));
    EXPECT_U64_EQ(0, mend_world_stats(&r.w).range_address_bytes);
    EXPECT_U64_EQ(0, mend_world_stats(&r.w).reserved_bytes);
    sleep_rig_close(&r);
}

MEND_TEST(pool_sleep_pages, a_commit_says_that_old_memory_is_in_the_way)
{
    sleep_rig r;
    ASSERT_TRUE(open_pages(&r));
    kit_fail(&r.w, "release", 0, 100, MEND_DRIVER_UNKNOWN);
    EXPECT_RESULT(MEND_OK, mend_sleep(r.w.pool, NULL, NULL));
    EXPECT_RESULT(MEND_OK, decommit(&r, 2, 1));
    EXPECT_RESULT(MEND_ERROR_DRIVER, commit(&r, 2, 2));
    kit_expect_words("does not let its memory go");
    EXPECT_RESULT(MEND_OK, commit(&r, 3, 1)); /* it sleeps */
    EXPECT_TRUE(mend_world_check(&r.w));
    mend_sim_clear_faults(r.w.sim);
    commit_and_write(&r, 2);
    EXPECT_RESULT(MEND_OK, mend_wake(r.w.pool, NULL, 0, NULL));
    sleep_rig_close(&r);
}

/* A page over several chunks, of which one is pinned: it sleeps as far as they do. */
MEND_TEST(pool_sleep_pages, a_page_sleeps_in_part)
{
    enum { PARTS = 4 };
    sleep_rig r;
    mend_range_options options = MEND_RANGE_OPTIONS_INIT;
    mend_sleep_options sleep = MEND_SLEEP_OPTIONS_INIT;
    mend_range *range = NULL;
    void *blocks[PARTS];
    ASSERT_TRUE(open_pages(&r));
    for (int i = 0; i < PARTS; i++) { /* chunks of a block each, which become the page */
        blocks[i] = kit_alloc(&r.w, MEND_MIB, r.w.streams[0]);
    }
    for (int i = 0; i < PARTS; i++) {
        kit_free(&r.w, blocks[i], r.w.streams[0]);
    }
    options.page_bytes = PARTS * MEND_MIB;
    EXPECT_RESULT(MEND_OK, mend_range_create(r.w.pool, 1, &options, &range));
    EXPECT_RESULT(MEND_OK, mend_range_commit(range, 0, PARTS * MEND_MIB, r.w.streams[0]));
    char *page = info_of(range).base;
    kit_write(&r.w, r.w.streams[0], page, PARTS * MEND_MIB);
    EXPECT_RESULT(MEND_OK, mend_pin(r.w.pool, page + MEND_MIB, 1));
    sleep.skip_pinned = 1;
    EXPECT_RESULT(MEND_OK, mend_sleep(r.w.pool, &sleep, NULL));
    EXPECT_U64_EQ((PARTS - 1) * MEND_MIB, info_of(range).asleep_bytes);
    EXPECT_U64_EQ(MEND_MIB, info_of(range).mapped_bytes);
    EXPECT_RESULT(MEND_OK, mend_unpin(r.w.pool, page + MEND_MIB, 1));
    EXPECT_RESULT(MEND_OK, mend_wake(r.w.pool, NULL, 0, NULL));
    kit_verify(&r.w, r.w.streams[0], page, PARTS * MEND_MIB);
    EXPECT_RESULT(MEND_OK, mend_pin(r.w.pool, page + MEND_MIB, 1));
    EXPECT_RESULT(MEND_OK, mend_sleep(r.w.pool, &sleep, NULL));
    EXPECT_RESULT(MEND_OK, mend_unpin(r.w.pool, page + MEND_MIB, 1));
    EXPECT_RESULT(MEND_OK, mend_range_decommit(range, 0, PARTS * MEND_MIB, r.w.streams[0]));
    EXPECT_TRUE(mend_world_check(&r.w)); /* a part is free memory, the others are gone */
    EXPECT_U64_EQ(MEND_MIB, mend_world_stats(&r.w).range_free_bytes);
    EXPECT_RESULT(MEND_OK, mend_range_commit(range, 0, PARTS * MEND_MIB, r.w.streams[0]));
    kit_use(&r.w, r.w.streams[0], page, PARTS * MEND_MIB, 10);
    EXPECT_RESULT(MEND_OK, mend_range_destroy(range, r.w.streams[0]));
    sleep_rig_close(&r);
}

/* As a block after a failed sleep: it has its bytes, and comes back with a later call. */
MEND_TEST(pool_sleep_pages, a_page_that_cannot_be_mapped_again_comes_back_later)
{
    sleep_rig r;
    ASSERT_TRUE(open_pages(&r));
    EXPECT_RESULT(MEND_OK, decommit(&r, 1, 1));
    EXPECT_RESULT(MEND_OK, mend_trim(r.w.pool, 0, NULL)); /* two calls to unmap */
    kit_fail(&r.w, "unmap", 1, 1, MEND_DRIVER_UNKNOWN);
    kit_fail(&r.w, "map", 0, 1, MEND_DRIVER_UNKNOWN);
    EXPECT_RESULT(MEND_ERROR_DRIVER, mend_sleep(r.w.pool, NULL, NULL));
    EXPECT_U64_EQ(1, mend_world_stats(&r.w).unmapped_blocks);
    EXPECT_U64_EQ(0, info_of(r.range).asleep_bytes);
    EXPECT_TRUE(mend_world_check(&r.w));
    EXPECT_RESULT(MEND_OK, decommit(&r, 0, 1));
    EXPECT_U64_EQ(0, mend_world_stats(&r.w).unmapped_blocks);
    EXPECT_TRUE(mend_world_check(&r.w));
    kit_fail(&r.w, "map", 0, 1, MEND_DRIVER_UNKNOWN);
    EXPECT_RESULT(MEND_ERROR_DRIVER, commit(&r, 0, 2));
    mend_sim_clear_faults(r.w.sim);
    commit_and_write(&r, 0);
    commit_and_write(&r, 1);
    EXPECT_TRUE(mend_world_check(&r.w));
    sleep_rig_close(&r);
}

MEND_TEST(pool_sleep_pages, a_thousand_cycles_leak_nothing)
{
    enum { CYCLES = 1000 };
    sleep_rig r;
    ASSERT_TRUE(open_pages(&r));
    EXPECT_RESULT(MEND_OK, mend_trim(r.w.pool, 0, NULL));
    const int files = mend_test_open_files();
    const mend_sim_ledger before = mend_world_ledger(&r.w);
    const mend_stats were = mend_world_stats(&r.w);
    mend_sleep_options options = MEND_SLEEP_OPTIONS_INIT;
    options.directory = sleep_rig_directory();
    for (int i = 0; i < CYCLES; i++) {
        options.others = i % 16 == 15 ? MEND_KEEP_FILE : MEND_KEEP_HOST;
        ASSERT_TRUE(mend_sleep(r.w.pool, &options, NULL) == MEND_OK);
        if (i % 4 == 0) { /* before the wake, and after it */
            ASSERT_TRUE(decommit(&r, i / 4 % SLEEP_PAGES, 1) == MEND_OK);
        }
        if (i % 8 == 0) {
            commit_and_write(&r, i / 4 % SLEEP_PAGES);
        }
        ASSERT_TRUE(mend_wake(r.w.pool, NULL, 0, NULL) == MEND_OK);
        if (i % 8 == 4) {
            commit_and_write(&r, i / 4 % SLEEP_PAGES);
        }
    }
    EXPECT_RESULT(MEND_OK, mend_trim(r.w.pool, 0, NULL));
    const mend_sim_ledger after = mend_world_ledger(&r.w);
    EXPECT_U64_EQ(before.chunk_bytes, after.chunk_bytes);
    EXPECT_U64_EQ(before.handles, after.handles);
    EXPECT_U64_EQ(before.mappings, after.mappings);
    EXPECT_U64_EQ(before.address_bytes, after.address_bytes);
    EXPECT_U64_EQ(before.streams, after.streams);
    EXPECT_U64_EQ(0, after.host_bytes);
    EXPECT_TRUE(mend_test_files_are(files));
    EXPECT_U64_EQ(were.reserved_bytes, mend_world_stats(&r.w).reserved_bytes);
    EXPECT_U64_EQ(were.range_bytes, mend_world_stats(&r.w).range_bytes);
    mend_set_sleep_tag(0);
    sleep_rig_close(&r);
}

/* ---- threads --------------------------------------------------------------------------------- */

enum { THREADS = 3, TURNS = 60, OWN_PAGES = 6 };

typedef struct arena {
    sleep_rig r;
    atomic_bool is_over;
} arena;

typedef struct worker {
    arena *a;
    int number; /* 0: sleeps and wakes */
} worker;

/* Its own pages behind those of the rig. No work of the GPU meanwhile. */
static void come_and_go(arena *a, int number)
{
    mend_test_random random;
    mend_test_random_init(&random, (uint64_t)number);
    while (!atomic_load(&a->is_over)) {
        const int first = (int)mend_test_random_below(&random, OWN_PAGES);
        const int count = 1 + (int)mend_test_random_below(&random, (uint64_t)(OWN_PAGES - first));
        const int page = SLEEP_PAGES + number * OWN_PAGES + first;
        if (mend_test_random_below(&random, 2) == 0) {
            EXPECT_RESULT(MEND_OK, commit(&a->r, page, count));
        } else {
            EXPECT_RESULT(MEND_OK, decommit(&a->r, page, count));
        }
    }
}

static void *work_on(void *argument)
{
    worker *w = argument;
    if (w->number > 0) {
        come_and_go(w->a, w->number);
        return NULL;
    }
    for (int i = 0; i < TURNS; i++) {
        const uint64_t tags[] = {1, 7};
        const mend_result result = mend_sleep(w->a->r.w.pool, NULL, NULL);
        EXPECT_TRUE(result == MEND_OK || result == MEND_ERROR_ASLEEP);
        EXPECT_RESULT(MEND_OK, mend_wake(w->a->r.w.pool, tags, (size_t)(i % 3), NULL));
        EXPECT_RESULT(MEND_OK, mend_wake(w->a->r.w.pool, NULL, 0, NULL));
    }
    atomic_store(&w->a->is_over, true);
    return NULL;
}

MEND_TEST(pool_sleep_pages, others_commit_and_decommit_meanwhile)
{
    static arena a;
    worker workers[THREADS];
    ASSERT_TRUE(sleep_rig_open(&a.r) && sleep_rig_add_pages(&a.r));
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){&a, i};
    }
    mend_test_run_threads(work_on, workers, THREADS);
    EXPECT_U64_EQ(0, mend_world_stats(&a.r.w).asleep_bytes);
    EXPECT_TRUE(mend_world_check(&a.r.w));
    sleep_rig_close(&a.r);
}
