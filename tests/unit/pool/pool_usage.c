/*
 * The process's use of the device: rows with memory outside of the pool, memory that waits for
 * another stream, sleeping memory, and peaks of the sums.
 */
#include "mend/mend_frameworks.h"
#include "mend/mend_sleep.h"
#include "tests/support/kit.h"

enum { ALL = MEND_USAGE_ALL, SMALL = MEND_USAGE_SMALL, LARGE = MEND_USAGE_LARGE };

static mend_usage usage_with(mend_world *w, const mend_usage *outside)
{
    mend_usage usage = MEND_USAGE_INIT;
    EXPECT_OK(mend_get_usage(w->pool, outside, &usage));
    EXPECT_TRUE(mend_world_check(w));
    return usage;
}

static mend_usage usage_of(mend_world *w)
{
    return usage_with(w, NULL);
}

static mend_usage set_outside(mend_world *w, uint64_t bytes)
{
    mend_usage outside = MEND_USAGE_INIT;
    for (int row = MEND_USAGE_BYTES; row <= MEND_USAGE_RESERVED_BYTES; row++) {
        outside.now[row][ALL] = outside.now[row][LARGE] = bytes;
    }
    return usage_with(w, &outside);
}

/* Of all, which are large. */
#define EXPECT_ROW(usage, row, now_bytes, peak_bytes)                                              \
    for (int part = 0; part < MEND_USAGE_PARTS; part++) {                                          \
        EXPECT_U64_EQ(part != SMALL ? now_bytes : 0, (usage).now[row][part]);                      \
        EXPECT_U64_EQ(part != SMALL ? peak_bytes : 0, (usage).peak[row][part]);                    \
    }

/* Its peak would be 7 MiB if it added peaks. */
KIT_TEST(pool_usage, peaks_are_those_of_sums)
{
    set_outside(w, 4 * MEND_MIB);
    set_outside(w, 0);
    void *block = kit_alloc(w, 3 * MEND_MIB, NULL);
    mend_usage usage = usage_of(w);
    EXPECT_ROW(usage, MEND_USAGE_BYTES, 3 * MEND_MIB, 4 * MEND_MIB);
    set_outside(w, 2 * MEND_MIB);
    usage = usage_of(w); /* which keeps it */
    EXPECT_ROW(usage, MEND_USAGE_BYTES, 5 * MEND_MIB, 5 * MEND_MIB);
    EXPECT_ROW(usage, MEND_USAGE_REQUESTED_BYTES, 5 * MEND_MIB, 5 * MEND_MIB);
    EXPECT_U64_EQ(usage.now[MEND_USAGE_RESERVED_BYTES][ALL],
                  usage.peak[MEND_USAGE_RESERVED_BYTES][ALL]);
    kit_free(w, block, NULL);
    set_outside(w, 0);
    EXPECT_STATS(w, peak_live_bytes, 3 * MEND_MIB);
    block = kit_alloc(w, 4 * MEND_MIB, NULL);
    EXPECT_ROW(usage_of(w), MEND_USAGE_BYTES, 4 * MEND_MIB, 5 * MEND_MIB);
    EXPECT_STATS(w, peak_live_bytes, 4 * MEND_MIB, peak_large_live_bytes, 4 * MEND_MIB);
    EXPECT_OK(mend_reset_peak_stats(w->pool));
    EXPECT_ROW(usage_of(w), MEND_USAGE_BYTES, 4 * MEND_MIB, 4 * MEND_MIB);
    kit_free(w, block, NULL);
    EXPECT_STATS(w, peak_live_bytes, 4 * MEND_MIB);
    EXPECT_ERROR(INVALID_ARGUMENT, mend_get_usage(w->pool, NULL, NULL));
}

/* Active as long as its user works. Not for the stream alone that freed it. */
KIT_TEST(pool_usage, what_another_stream_may_still_use_is_active)
{
    const mend_stream own = w->streams[0];
    const mend_stream user = w->streams[1];
    void *block = kit_alloc(w, 3 * MEND_MIB, own);
    void *other = kit_alloc_used(w, MEND_MIB, own, 1000);
    EXPECT_OK(mend_record_stream(w->pool, block, user));
    kit_use(w, user, block, 3 * MEND_MIB, 100000);
    kit_free(w, other, own);
    EXPECT_STATS(w, pending_bytes, 0);
    kit_free(w, block, own);
    mend_usage usage = usage_of(w);
    EXPECT_STATS(w, pending_bytes, 3 * MEND_MIB, live_bytes, 0);
    EXPECT_ROW(usage, MEND_USAGE_ACTIVE_BYTES, 3 * MEND_MIB, 4 * MEND_MIB);
    EXPECT_ROW(usage, MEND_USAGE_ACTIVE_BLOCKS, 1, 2);
    EXPECT_ROW(usage, MEND_USAGE_BYTES, 0, 4 * MEND_MIB);
    block = kit_alloc(w, 2 * MEND_MIB, own); /* elsewhere */
    EXPECT_ROW(usage_of(w), MEND_USAGE_ACTIVE_BYTES, 5 * MEND_MIB, 5 * MEND_MIB);
    EXPECT_OK(mend_sim_synchronize(w->sim, user));
    kit_free(w, kit_alloc(w, 3 * MEND_MIB, own), own); /* which was pending */
    usage = usage_of(w);
    EXPECT_ROW(usage, MEND_USAGE_ACTIVE_BYTES, 2 * MEND_MIB, 5 * MEND_MIB);
    EXPECT_STATS(w, pending_bytes, 0);
    kit_free(w, block, own);
}

/* Blocks that wake count at once, and so do their chunks, whatever follows. */
KIT_TEST(pool_usage, peaks_include_woken_blocks)
{
    void *block = kit_alloc(w, 3 * MEND_MIB, NULL);
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    EXPECT_OK(mend_reset_peak_stats(w->pool));
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    EXPECT_STATS(w, peak_reserved_bytes, 3 * MEND_MIB, reserved_bytes, 0);
    EXPECT_ROW(usage_of(w), MEND_USAGE_BYTES, 0, 3 * MEND_MIB);
    EXPECT_OK(mend_reset_peak_stats(w->pool));
    EXPECT_STATS(w, peak_reserved_bytes, 0, peak_mappings, 0, peak_chunks, 0,
                 peak_large_reserved_bytes, 0);
    kit_free(w, block, NULL);
    kit_free(w, kit_alloc(w, 5 * MEND_MIB, NULL), NULL);
    EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_IDLE, NULL));
    EXPECT_STATS(w, peak_reserved_bytes, 5 * MEND_MIB, peak_mappings, 5, peak_chunks, 5);
}

/* ... and none of a block that was freed while it slept, beside one that sleeps on. */
KIT_TEST(pool_usage, what_is_freed_asleep_leaves_the_peaks)
{
    void *halves[2];
    kit_alloc_row(w, halves, 2, MEND_MIB / 2, NULL);
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    kit_free(w, kit_alloc(w, 5 * MEND_MIB, NULL), NULL);
    EXPECT_OK(mend_reset_peak_stats(w->pool));
    kit_free(w, halves[0], NULL);
    kit_free(w, kit_alloc(w, 5 * MEND_MIB, NULL), NULL);
    EXPECT_ROW(usage_of(w), MEND_USAGE_BYTES, 0, 5 * MEND_MIB);
    EXPECT_ROW(usage_of(w), MEND_USAGE_REQUESTED_BYTES, 0, 5 * MEND_MIB);
    kit_free(w, halves[1], NULL);
}

/* Memory of graphs is theirs, whichever stream still uses it. */
KIT_TEST(pool_usage, memory_of_graphs_waits_for_no_other_stream)
{
    mend_graph_pool *graph_pool = kit_begin_graph_pool(w, S(0));
    void *block = kit_alloc(w, MEND_MIB, S(0));
    EXPECT_OK(mend_record_stream(w->pool, block, S(1)));
    kit_use(w, S(1), block, MEND_MIB, 1000);
    kit_free(w, block, S(0));
    EXPECT_STATS(w, pending_bytes, 0);
    kit_end_graph_pool(graph_pool, S(0));
}

/* Of two neighbors that wait, only one is in use by a stream beside the one that freed it. */
KIT_TEST(pool_usage, pending_memory_is_a_region_of_its_own)
{
    mend_region regions[4];
    size_t count = 0;
    kit_free(w, kit_alloc(w, 3 * MEND_MIB, S(0)), S(0));
    EXPECT_OK(mend_trim(w->pool, UINT64_MAX, MEND_TRIM_WAIT, NULL));
    void *block = kit_alloc(w, MEND_MIB, S(0));
    void *next = kit_alloc(w, MEND_MIB, S(0));
    EXPECT_OK(mend_record_stream(w->pool, block, S(1)));
    kit_use(w, S(0), next, MEND_MIB, 1000000);
    kit_use(w, S(1), block, MEND_MIB, 100000);
    kit_free(w, block, S(0));
    kit_free(w, next, MEND_NO_STREAM);
    EXPECT_STATS(w, pending_bytes, MEND_MIB);
    for (int later = 0; later <= 1; later++) {
        uint64_t pending_bytes = 0;
        EXPECT_OK(mend_get_regions(w->pool, regions, sizeof(*regions), 4, &count));
        for (size_t i = 0; i < count; i++) {
            pending_bytes += regions[i].is_pending ? regions[i].size_bytes : 0;
        }
        EXPECT_U64_EQ(later ? 0 : MEND_MIB, pending_bytes);
        EXPECT_OK(mend_sim_synchronize(w->sim, S(1))); /* the stream that freed it works on */
        EXPECT_OK(mend_trim(w->pool, UINT64_MAX, MEND_TRIM_IDLE, NULL));
    }
    EXPECT_ROW(usage_of(w), MEND_USAGE_ACTIVE_BYTES, 0, 3 * MEND_MIB);
}
