/* The figures by zone, and the sums of all there was: against a count of the test's own. */
#include "driver/driver.h"
#include "layout/layout.h"
#include "pool/pool.h"
#include "tests/support/host_memory.h"
#include "tests/support/kit.h"

enum { SLOTS = 24, STEPS = 600, SMALL_REQUEST = 32 << 10, LARGEST = 3 << 20 };

/* What is live, each with its peak; and sums of all there was. The pool counts them in all and in
 * the small zone; the peaks in the large zone as well. */
#define LIVE(X) X(live_blocks) X(live_bytes) X(requested_bytes)
#define SUMS(X) X(allocations) X(allocated_bytes) X(allocated_requested_bytes)

typedef struct tally {
#define X(member) uint64_t member, peak_##member;
    LIVE(X)
#undef X
#define X(member) uint64_t member;
    SUMS(X)
#undef X
} tally;

static void note_peaks(tally *t)
{
#define X(member) t->peak_##member = mend_max_u64(t->peak_##member, t->member);
    LIVE(X)
#undef X
}

static void add(tally *t, uint64_t bytes)
{
    t->live_blocks++;
    t->live_bytes += mend_align_up(bytes, 512);
    t->requested_bytes += bytes;
    t->allocations++;
    t->allocated_bytes += mend_align_up(bytes, 512);
    t->allocated_requested_bytes += bytes;
    note_peaks(t);
}

static void take(tally *t, uint64_t bytes)
{
    t->live_blocks--;
    t->live_bytes -= mend_align_up(bytes, 512);
    t->requested_bytes -= bytes;
}

static void forget_peaks(tally *t)
{
#define X(member) t->peak_##member = 0;
    LIVE(X)
#undef X
    note_peaks(t);
}

static void compare(const mend_stats *is, const tally *all, const tally *small, const tally *large)
{
#define X(member)                                                                                  \
    EXPECT_U64_EQ(all->member, is->member);                                                        \
    EXPECT_U64_EQ(all->peak_##member, is->peak_##member);                                          \
    EXPECT_U64_EQ(small->member, is->small_##member);                                              \
    EXPECT_U64_EQ(small->peak_##member, is->peak_small_##member);                                  \
    EXPECT_U64_EQ(large->peak_##member, is->peak_large_##member);
    LIVE(X)
#undef X
#define X(member)                                                                                  \
    EXPECT_U64_EQ(all->member, is->member);                                                        \
    EXPECT_U64_EQ(small->member, is->small_##member);
    SUMS(X)
#undef X
}

/* Where a block lies, which may be the large zone for a small one. */
static int zone_of(mend_world *w, const void *pointer)
{
    return mend_heap_span_at(&w->pool->heap, (uint64_t)(uintptr_t)pointer)->zone;
}

KIT_TEST_IN(pool_statistics, zones_and_sums_are_those_of_a_naive_count,
            kit_open_with(w, 256 * MEND_MIB, NULL))
{
    mend_test_random random;
    tally all = {0}, zones[2] = {{0}, {0}};
    struct {
        void *pointer;
        uint64_t bytes;
        int zone;
    } slots[SLOTS] = {{0}};
    mend_test_random_init(&random, mend_test_seed());
    for (int step = 0; step < STEPS && !mend_test_has_failed(); step++) {
        uint64_t at = mend_test_random_below(&random, SLOTS);
        if (slots[at].pointer != NULL) {
            kit_free(w, slots[at].pointer, NULL);
            slots[at].pointer = NULL;
            take(&all, slots[at].bytes);
            take(&zones[slots[at].zone], slots[at].bytes);
        } else {
            bool is_small = mend_test_random_below(&random, 2) == 0;
            uint64_t bytes =
                1 + mend_test_random_below(&random, is_small ? SMALL_REQUEST : LARGEST);
            slots[at].bytes = bytes;
            slots[at].pointer = kit_alloc(w, bytes, NULL);
            add(&all, bytes);
            slots[at].zone = zone_of(w, slots[at].pointer);
            add(&zones[slots[at].zone], bytes);
        }
        if (mend_test_random_below(&random, 64) == 0) {
            EXPECT_OK(mend_reset_peak_stats(w->pool));
            forget_peaks(&all);
            forget_peaks(&zones[0]);
            forget_peaks(&zones[1]);
        }
        mend_stats is = mend_world_stats(w);
        compare(&is, &all, &zones[0], &zones[1]);
    }
}

KIT_EACH(pool_statistics, what_was_undone_was_never_created, int, i, 2, kit_open_default(w))
{
    static const char *const calls[] = {"map", "set_access"};
    void *block = NULL;
    kit_fail(w, calls[i], 0, 1, MEND_DRIVER_UNKNOWN);
    EXPECT_ERROR(DRIVER, mend_alloc(w->pool, 3 * MEND_MIB, NULL, &block));
    mend_stats stats = mend_world_stats(w);
    EXPECT_FIELDS(stats, created_bytes, 0, chunks_created, 0, chunks_released, 0);
    EXPECT_U64_EQ(1, stats.driver_failures);
    EXPECT_U64_EQ(0, stats.out_of_memory); /* it was refused, not full */
}

/* A mapping waits for what is open on its stream; the flush that cannot record it goes on. */
KIT_TEST(pool_statistics, a_fence_that_a_flush_cannot_record_is_counted)
{
    void *block = kit_alloc(w, MEND_MIB, NULL);
    kit_free(w, block, NULL);
    kit_alloc_aligned(w, MEND_MIB, MEND_GIB, NULL);
    EXPECT_STATS(w, retired_bytes, MEND_MIB);
    kit_fail(w, "event_record", 0, 1, MEND_DRIVER_UNKNOWN);
    uint64_t before = mend_world_stats(w).driver_failures;
    kit_alloc(w, MEND_MIB, NULL);
    EXPECT_STATS(w, driver_failures, before + 1, retired_bytes, MEND_MIB);
}

/* Each host allocation of a request fails in turn, that of the fences of its flush among them. */
MEND_TEST(pool_statistics, want_of_host_memory_is_no_failure_of_the_driver)
{
    enum { MOST_ALLOCATIONS = 6 };
    int served = 0;
    for (uint64_t after = 0; after < MOST_ALLOCATIONS; after++) {
        mend_world w;
        mend_unwatched_driver unwatched;
        void *other = NULL;
        mend_world_init(&w);
        ASSERT_TRUE(kit_open_unwatched(&w, &unwatched));
        void *block = kit_alloc(&w, MEND_MIB, NULL);
        kit_free(&w, block, NULL);
        block = kit_alloc_aligned(&w, MEND_MIB, MEND_GIB, NULL);
        mend_result result = mend_test_starve(after, 1, mend_alloc(w.pool, MEND_MIB, NULL, &other));
        served += result == MEND_OK && mend_test_failed_host_allocations() > 0;
        mend_test_heal_host_memory();
        EXPECT_STATS(&w, driver_failures, 0);
        kit_free(&w, block, NULL);
        kit_free(&w, other, NULL);
        kit_close(&w);
    }
    EXPECT_TRUE(served > 0); /* in spite of it */
}
