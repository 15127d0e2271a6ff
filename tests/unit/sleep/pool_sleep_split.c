/* A chunk with blocks that sleep and blocks that stay awake is split at pages: nearly all that is
 * to sleep does, every byte is kept, and where a split is refused the chunk stays as it is. */
#include <string.h>

#include "tests/support/host_memory.h"
#include "tests/unit/sleep/sleep_rig.h"

/* A chunk of 1 MiB, in pages of 64 KiB: it holds eight blocks of two tags in turn, which share the
 * pages at their borders. */
#define PAGE (64 * MEND_KIB)
#define PART (120 * MEND_KIB)
enum { PARTS = 8 };

typedef struct mixed {
    mend_world w;
    void *parts[PARTS];
} mixed;

static bool fill(mixed *m)
{
    for (int i = 0; i < PARTS; i++) {
        mend_set_sleep_tag(1 + (uint64_t)i % 2);
        m->parts[i] = kit_alloc_written(&m->w, PART, m->w.streams[0]);
    }
    mend_set_sleep_tag(0);
    EXPECT_STATS(&m->w, chunks, 1);
    return true;
}

static bool open_mixed(mixed *m)
{
    return kit_open_default(&m->w) && fill(m);
}

static void close_mixed(mixed *m)
{
    EXPECT_OK(mend_wake(m->w.pool, NULL, 0, NULL));
    EXPECT_TRUE(mend_world_check(&m->w));
    kit_release_row(&m->w, m->parts, PARTS, PART, m->w.streams[0]);
    kit_close(&m->w);
}

static mend_result put_first_tag(mixed *m, int keep, mend_sleep_report *report)
{
    *report = (mend_sleep_report)MEND_SLEEP_REPORT_INIT;
    return mend_sleep(m->w.pool, SLEEP_TAG(1, keep, .directory = sleep_rig_directory()), report);
}

static bool sleeps(mixed *m, int number)
{
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    EXPECT_OK(mend_get_block_info(m->w.pool, m->parts[number], &info));
    return info.is_asleep != 0;
}

static int count_asleep(mixed *m)
{
    int count = 0;
    for (int i = 0; i < PARTS; i++) {
        count += sleeps(m, i);
        EXPECT_TRUE(!sleeps(m, i) || i % 2 == 0);
    }
    return count;
}

/* Those that stay awake are there, and can be used. */
static void verify_second_tag(mixed *m)
{
    for (int i = 1; i < PARTS; i += 2) {
        kit_verify(&m->w, m->w.streams[0], m->parts[i], PART);
    }
}

#define MIXED_TEST(suite, name) KIT_RIG_TEST(suite, name, mixed, open_mixed(r), close_mixed(r))

MIXED_TEST(pool_sleep_split, without_room_the_chunk_stays_as_it_is)
{
    mend_sleep_report report;
    EXPECT_OK(mend_set_limit(w->pool, 2 * MEND_MIB - 1));
    for (int i = 0; i < 2; i++) {
        EXPECT_OK(put_first_tag(r, MEND_KEEP_HOST, &report));
        EXPECT_INT_EQ(0, count_asleep(r));
        EXPECT_FIELDS(report, shared_bytes, PARTS / 2 * PART, copied_bytes, 0);
        EXPECT_LEDGER(w, chunk_bytes, MEND_MIB);
        EXPECT_TRUE(mend_world_check(w));
        EXPECT_OK(mend_set_limit(w->pool, 0));
        mend_sim_set_foreign_bytes(w->sim, 0, 63 * MEND_MIB);
    }
    mend_sim_set_foreign_bytes(w->sim, 0, 0);
    EXPECT_OK(put_first_tag(r, MEND_KEEP_HOST, &report));
    EXPECT_INT_EQ(PARTS / 2, count_asleep(r));
}

/* A large chunk finds no room for its copy before parts of small ones sleep. */
MEND_TEST(pool_sleep_split, what_sleeps_by_a_split_makes_room_for_another)
{
    enum { SMALL = 64 };
    mixed m;
    void *large[2];
    void *small[SMALL];
    mend_sleep_report report;
    mend_world_init(&m.w);
    m.w.placement.chunk_bytes = 4 * MEND_MIB;
    m.w.placement.small_chunk_bytes = MEND_MIB;
    m.w.placement.small_request_bytes = PAGE;
    ASSERT_TRUE(kit_open(&m.w));
    for (int i = 0; i < 2; i++) {
        mend_set_sleep_tag(1 + (uint64_t)i);
        large[i] = kit_alloc_written(&m.w, 2 * MEND_MIB, m.w.streams[0]);
    }
    for (int i = 0; i < SMALL; i++) {
        mend_set_sleep_tag(1 + (uint64_t)i % 2);
        small[i] = kit_alloc_written(&m.w, PAGE, m.w.streams[0]);
    }
    mend_set_sleep_tag(0);
    EXPECT_STATS(&m.w, reserved_bytes, 8 * MEND_MIB, chunks, 5);
    EXPECT_OK(mend_set_limit(m.w.pool, 10 * MEND_MIB));
    EXPECT_OK(put_first_tag(&m, MEND_KEEP_HOST, &report));
    EXPECT_FIELDS(report, shared_bytes, 0, asleep_bytes, 4 * MEND_MIB, copied_bytes, 8 * MEND_MIB);
    EXPECT_STATS(&m.w, sleeps, 1);
    EXPECT_TRUE(mend_world_ledger(&m.w).peak_chunk_bytes <= 10 * MEND_MIB);
    EXPECT_TRUE(mend_world_check(&m.w));
    EXPECT_OK(mend_wake(m.w.pool, NULL, 0, NULL));
    kit_release_row(&m.w, large, 2, 2 * MEND_MIB, m.w.streams[0]);
    kit_release_row(&m.w, small, SMALL, PAGE, m.w.streams[0]);
    kit_close(&m.w);
}

/* The chunk is split by then: a sleep fails only where the device is lost, or a mapping. */
MIXED_TEST(pool_sleep_split, parts_that_cannot_sleep_stay_without_a_failure)
{
    mend_sleep_report report;
    kit_fail(w, "unmap", 2, 1, MEND_DRIVER_UNKNOWN); /* scratch, chunk, a part that is to sleep */
    EXPECT_OK(put_first_tag(r, MEND_KEEP_HOST, &report));
    EXPECT_TRUE(report.copied_bytes > 0);
    EXPECT_FIELDS(report, shared_bytes, PARTS / 2 * PART, asleep_bytes, 0);
    EXPECT_INT_EQ(0, count_asleep(r));
    EXPECT_TRUE(mend_world_check(w));
    EXPECT_OK(put_first_tag(r, MEND_KEEP_HOST, &report));
    EXPECT_INT_EQ(PARTS / 2, count_asleep(r));
}

typedef struct freeing {
    mend_world *w;
    void *block; /* NULL: freed */
} freeing;

static void free_in_a_wait(void *context, const char *call, int is_after)
{
    freeing *f = context;
    if (is_after == 0 && f->block != NULL && strcmp(call, "stream_synchronize") == 0) {
        kit_free(f->w, f->block, f->w->streams[0]);
        f->block = NULL;
    }
}

/* One chunk is split. The copies of the other run on, because the driver refused the waits behind
 * them, when its only block that stays awake is freed: all of it could sleep now. */
MEND_TEST(pool_sleep_split, what_copies_of_a_refused_split_read_stays_mapped)
{
    mixed m;
    void *more[2];
    mend_sleep_report report;
    ASSERT_TRUE(kit_open_set(&m.w, m.w.sim_config.copy_ns = 1000000) && fill(&m));
    void *rest = kit_alloc_written(&m.w, PAGE, m.w.streams[0]); /* the chunk is full now */
    for (int i = 0; i < 2; i++) {
        mend_set_sleep_tag(1 + (uint64_t)i);
        more[i] = kit_alloc_written(&m.w, MEND_MIB / 2, m.w.streams[0]);
    }
    mend_set_sleep_tag(0);
    freeing f = {&m.w, more[1]};
    kit_fail(&m.w, "context_synchronize", 2, 1, MEND_DRIVER_UNKNOWN); /* the first two: at the
                                                                       * beginning, and one split */
    kit_fail(&m.w, "stream_synchronize", 0, 1, MEND_DRIVER_UNKNOWN);
    mend_sim_set_call_observer(m.w.sim, free_in_a_wait, &f);
    EXPECT_OK(put_first_tag(&m, MEND_KEEP_NOTHING, &report));
    mend_sim_set_call_observer(m.w.sim, NULL, NULL);
    EXPECT_TRUE(f.block == NULL && mend_world_ledger(&m.w).pending_work > 0);
    EXPECT_TRUE(report.copied_bytes > 0);
    EXPECT_U64_EQ(0, report.asleep_bytes);
    EXPECT_STR_EQ("", mend_sim_first_violation(m.w.sim));
    mend_sim_advance(m.w.sim, 100000000);
    EXPECT_OK(mend_trim(m.w.pool, 0, MEND_TRIM_WAIT, NULL));
    kit_release(&m.w, more[0], MEND_MIB / 2, m.w.streams[0]);
    kit_release(&m.w, rest, PAGE, m.w.streams[0]);
    close_mixed(&m);
}

/* It unmaps the chunk, refuses a part, and refuses to unmap the first part: the chunk is split, and
 * the parts come back later. What slept before sleeps, and the report says how much. */
MIXED_TEST(pool_sleep_split, what_cannot_go_back_comes_later)
{
    mend_sleep_report report;
    void *rest = kit_alloc_written(w, PAGE, S(0)); /* the chunk is full now */
    mend_set_sleep_tag(1);
    void *whole = kit_alloc_written(w, 2 * MEND_MIB, S(0));
    mend_set_sleep_tag(0);
    kit_fail(w, "set_access", 1, 1, MEND_DRIVER_UNKNOWN); /* the first is at the scratch */
    kit_fail(w, "unmap", 3, 1, MEND_DRIVER_UNKNOWN);      /* the block, scratch, chunk, parts */
    EXPECT_REFUSAL(DRIVER, "could not be mapped", put_first_tag(r, MEND_KEEP_HOST, &report));
    mend_sim_clear_faults(w->sim);
    EXPECT_FIELDS(report, asleep_bytes, 2 * MEND_MIB, host_bytes, 2 * MEND_MIB);
    EXPECT_STATS(w, unmapped_blocks, PARTS + 1);
    EXPECT_INT_EQ(0, count_asleep(r));
    EXPECT_TRUE(mend_world_check(w));
    EXPECT_OK(put_first_tag(r, MEND_KEEP_HOST, &report)); /* maps them first */
    EXPECT_U64_EQ(0, report.copied_bytes);
    EXPECT_INT_EQ(PARTS / 2, count_asleep(r));
    verify_second_tag(r);
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    kit_release(w, whole, 2 * MEND_MIB, S(0));
    kit_release(w, rest, PAGE, S(0));
}

MEND_TEST(pool_sleep_split, host_memory_fails_at_every_place)
{
    bool failed = true;
    for (uint64_t after = 0; failed; after++) {
        mixed m;
        mend_sleep_report report;
        mend_unwatched_driver unwatched;
        mend_world_init(&m.w);
        ASSERT_TRUE(kit_open_unwatched(&m.w, &unwatched) && fill(&m));
        const mend_result result =
            mend_test_starve(after, 1, put_first_tag(&m, MEND_KEEP_HOST, &report));
        failed = mend_test_failed_host_allocations() > 0;
        mend_test_heal_host_memory();
        EXPECT_TRUE(result == MEND_OK || result == MEND_ERROR_OUT_OF_HOST_MEMORY);
        EXPECT_TRUE(result != MEND_OK ||
                    report.shared_bytes + report.host_bytes == PARTS / 2 * PART);
        EXPECT_TRUE(mend_world_check(&m.w));
        close_mixed(&m);
        ASSERT_TRUE(after < 1000);
    }
}

KIT_RIG_TEST(pool_sleep_split, the_device_is_lost_while_a_chunk_is_split, mixed, open_mixed(r),
             (void)0)
{
    mend_sleep_report report;
    kit_break(w, "create");
    EXPECT_ERROR(DEVICE_LOST, put_first_tag(r, MEND_KEEP_HOST, &report));
    (void)mend_pool_destroy(w->pool);
    mend_sim_destroy(w->sim);
}
