/* Sharing a device: the releases of a trim by policy, the memory that stays free, and a shared
 * limit. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "collect/collect.h"
#include "mend/mend_sleep.h"
#include "pool/pool.h"
#include "quota/quota.h"
#include "tests/support/kit.h"
#include "tests/support/patience.h"
#include "tests/support/place.h"

static uint64_t reserved(mend_world *w)
{
    return mend_world_stats(w).reserved_bytes;
}

static uint64_t collect(mend_world *w)
{
    const mend_stats before = mend_world_stats(w);
    uint64_t released_bytes = UINT64_MAX;
    EXPECT_OK(mend_history_start(w->pool, 1));
    EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_BY_POLICY, &released_bytes));
    if (released_bytes > 0) {
        kit_expect_event(w->pool, MEND_EVENT_TRIM, MEND_CAUSE_BACKGROUND_TRIM, released_bytes);
    }
    EXPECT_STATS(w, reserved_bytes, before.reserved_bytes - released_bytes,
                 background_trimmed_bytes, before.background_trimmed_bytes + released_bytes);
    return released_bytes;
}

/* A device of 16 MiB with chunks of a MiB. */
static bool open_world(mend_world *w, void (*configure)(mend_world *))
{
    const mend_test_sizes chunks = {.chunk_bytes = MEND_MIB};
    bool is_open = kit_open_with(w, 16 * MEND_MIB, configure);
    if (is_open) {
        mend_test_place(w->pool, &chunks);
    }
    return is_open;
}

/* The test is the background thread. */
static bool open_idle(mend_world *w, void (*configure)(mend_world *))
{
    const bool is_open = open_world(w, configure);
    if (is_open) {
        w->pool->idle_ns = 10000000;
    }
    return is_open;
}

static void pass(mend_world *w, uint64_t ms)
{
    mend_sim_advance(w->sim, ms * 1000000);
}

KIT_EACH(pool_collect, memory_of_graphs_that_ended_goes_back, int, sleeps, 2, open_idle(w, NULL))
{
    kit_begin_capture(w, S(0));
    kit_leave_in_flight(w, 3 * MEND_MIB, S(0), 10, S(0));
    mend_sim_graph *graph = kit_end_capture(w, S(0));
    if (sleeps) {
        EXPECT_OK(
            mend_sleep(w->pool, KIT_OPTIONS(mend_sleep_options, .graphs = MEND_DISCARD), NULL));
        EXPECT_STATS(w, asleep_bytes, 3 * MEND_MIB);
    }
    mend_sim_graph_destroy(w->sim, graph);
    for (int i = 0; i < 3; i++) {
        collect(w);
        pass(w, 20);
    }
    EXPECT_STATS(w, asleep_bytes, 0, reserved_bytes, 0);
}

KIT_TEST_IN(pool_collect, memory_that_was_used_meanwhile_stays, open_idle(w, NULL))
{
    void *a = kit_alloc(w, MEND_MIB, NULL);
    void *b = kit_alloc(w, MEND_MIB, NULL);
    kit_free(w, a, NULL);
    kit_free(w, b, NULL);
    collect(w);
    pass(w, 5);
    a = kit_alloc(w, MEND_MIB, NULL);
    kit_free(w, a, NULL);
    pass(w, 5);
    EXPECT_U64_EQ(MEND_MIB, collect(w)); /* the one that was not used again */
    pass(w, 10);
    uint64_t released_bytes = 1;
    EXPECT_OK(mend_trim(w->pool, MEND_MIB, MEND_TRIM_BY_POLICY, &released_bytes)); /* all is kept */
    EXPECT_U64_EQ(0, released_bytes);
    EXPECT_U64_EQ(MEND_MIB, collect(w));
}

KIT_SETTING(two_mib_are_soft, w->pool_config.soft_limit_bytes = 2 * MEND_MIB);
KIT_SETTING(keep_4_mib, w->pool_config.min_free_bytes = 4 * MEND_MIB);

KIT_EACH(pool_collect, memory_that_was_freed_without_a_stream_goes_back, int, why, 3,
         why > 0 ? open_world(w, why == 1 ? two_mib_are_soft : keep_4_mib) : open_idle(w, NULL))
{
    mend_test_place(w->pool, &(mend_test_sizes){.unfenced_bytes = MEND_MIB});
    kit_free(w, kit_alloc(w, 512, S(1)), S(1));
    kit_leave_in_flight(w, 3 * MEND_MIB, S(0), 10, MEND_NO_STREAM);
    mend_sim_set_foreign_bytes(w->sim, 0, why == 2 ? 25 * MEND_MIB / 2 : 0);
    for (int i = 0; i < 3; i++) {
        collect(w);
        pass(w, 20);
    }
    EXPECT_TRUE(reserved(w) <= (why > 0 ? 2 * MEND_MIB : 0));
}

KIT_TEST_IN(pool_collect, what_is_above_the_soft_limit_goes_back_at_once,
            open_world(w, two_mib_are_soft))
{
    void *block = kit_alloc(w, 5 * MEND_MIB, NULL);
    kit_alloc(w, MEND_MIB, NULL);
    kit_free(w, block, NULL);
    EXPECT_U64_EQ(5 * MEND_MIB, collect(w) + reserved(w) - MEND_MIB);
    EXPECT_TRUE(reserved(w) <= 2 * MEND_MIB);
    EXPECT_U64_EQ(0, collect(w));
}

/* A chunk that was not used for long, and one from just now. */
KIT_TEST_IN(pool_collect, both_reasons_count_in_one_answer, open_idle(w, two_mib_are_soft))
{
    void *large = NULL;
    kit_alloc(w, MEND_MIB, S(0));
    kit_free(w, kit_alloc(w, MEND_MIB, S(0)), S(0));
    EXPECT_U64_EQ(0, collect(w));
    pass(w, 20);
    EXPECT_OK(mend_alloc_with(w->pool, 2 * MEND_MIB, S(0),
                              KIT_OPTIONS(mend_alloc_options, .in_one_chunk = 1), &large));
    kit_free(w, large, S(0));
    EXPECT_U64_EQ(3 * MEND_MIB, collect(w));
}

KIT_TEST_IN(pool_collect, what_is_to_stay_stays_above_the_soft_limit,
            open_world(w, two_mib_are_soft))
{
    kit_free(w, kit_alloc(w, 5 * MEND_MIB, NULL), NULL);
    EXPECT_OK(mend_trim(w->pool, 4 * MEND_MIB, MEND_TRIM_BY_POLICY, NULL));
    EXPECT_TRUE(reserved(w) >= 4 * MEND_MIB);
    EXPECT_U64_EQ(0, w->pool->heap.budget.headroom.most_live_bytes); /* it begins again */
}

KIT_SETTING(keep_4_mib_above_5, keep_4_mib(w), w->pool_config.soft_limit_bytes = 5 * MEND_MIB);

KIT_TEST_IN(pool_collect, what_was_idle_for_long_counts_for_others, open_idle(w, keep_4_mib))
{
    void *old = kit_alloc(w, 2 * MEND_MIB, NULL);
    void *young = kit_alloc(w, 3 * MEND_MIB, NULL);
    kit_free(w, old, NULL);
    EXPECT_U64_EQ(0, collect(w));
    pass(w, 10);
    kit_free(w, young, NULL);
    mend_sim_set_foreign_bytes(w->sim, 0, 10 * MEND_MIB); /* 1 MiB is free */
    EXPECT_U64_EQ(3 * MEND_MIB, collect(w));
}

/* The pool is 3 MiB above its soft limit, and others lack 2. */
KIT_TEST_IN(pool_collect, the_larger_of_two_lacks_is_released, open_world(w, keep_4_mib_above_5))
{
    kit_free(w, kit_alloc(w, 8 * MEND_MIB, NULL), NULL);
    mend_sim_set_foreign_bytes(w->sim, 0, 6 * MEND_MIB);
    EXPECT_U64_EQ(3 * MEND_MIB, collect(w));
}

static char shared_path[64];

static void name_file(void)
{
    snprintf(shared_path, sizeof(shared_path), "%s", "/tmp/mend-collect-XXXXXX");
    int file = mkstemp(shared_path);
    EXPECT_TRUE(file >= 0);
    close(file);
    unlink(shared_path);
}

KIT_SETTING(share_8_mib, w->pool_config.limit_bytes = 8 * MEND_MIB,
            w->pool_config.shared_limit_file = shared_path);
KIT_SETTING(share_and_collect, share_8_mib(w), w->pool_config.idle_ms = 1000000);

static int lost_count;

static void hear(KIT_UNUSED void *context, mend_log_level level, const char *line)
{
    lost_count +=
        level == MEND_LOG_WARNING && strstr(line, "the shared limit file is damaged") != NULL;
}

/* The driver alone knows of the capture. */
KIT_SET_TEST(pool_collect, a_pool_that_a_capture_keeps_has_its_thread,
             w->pool_config.idle_ms = 1000000)
{
    kit_alloc(w, MEND_MIB, NULL);
    kit_fail(w, "context_synchronize", 0, 1, MEND_DRIVER_CAPTURE_UNSUPPORTED);
    EXPECT_ERROR(CAPTURING, mend_pool_destroy(w->pool));
    EXPECT_TRUE(w->pool->collector != NULL);
}

MEND_TEST(pool_collect, a_pool_without_its_thread_leaves_nothing)
{
    const char *const path = "/tmp/mend-no-thread";
    mend_pool *pool = NULL;
    for (int i = 0; i < 3; i++) {
        mend_world w;
        ASSERT_TRUE(kit_open_default(&w));
        w.pool_config.idle_ms = i == 0;
        w.pool_config.observe = i == 1 ? "top" : NULL;
        w.pool_config.record = i == 2 ? path : NULL;
        mend_test_refuse_threads(true);
        EXPECT_ERROR(SYSTEM, mend_world_create_pool(&w, &pool));
        mend_test_refuse_threads(false);
        kit_close(&w);
    }
    unlink(path);
}

MEND_TEST(pool_collect, a_damaged_shared_limit_file_is_told_once)
{
    mend_world w;
    name_file();
    ASSERT_TRUE(open_world(&w, share_8_mib));
    kit_alloc(&w, MEND_MIB, NULL);
    EXPECT_STATS(&w, shared_limit_file_lost, 0);
    EXPECT_TRUE(truncate(shared_path, 10) == 0);
    mend_log_set_sink(hear, NULL);
    lost_count = 0;
    kit_alloc(&w, 3 * MEND_MIB, NULL);
    EXPECT_INT_EQ(1, lost_count);
    kit_alloc(&w, 3 * MEND_MIB, NULL);
    EXPECT_OK(mend_trim(w.pool, 0, MEND_TRIM_IDLE, NULL));
    EXPECT_INT_EQ(1, lost_count);
    EXPECT_STATS(&w, shared_limit_file_lost, 1);
    kit_close(&w);
    mend_log_set_sink(NULL, NULL);
    unlink(shared_path);
}

/* Others wait for it: it may be idle soon. */
KIT_TEST_IN(pool_collect, what_the_gpu_still_uses_is_offered,
            (name_file(), open_world(w, share_and_collect)))
{
    mend_limit_slot other;
    void *block = kit_alloc(w, 3 * MEND_MIB, S(0));
    EXPECT_OK(mend_shared_limit_file_open(shared_path, 8 * MEND_MIB, &other));
    kit_launch(w, S(0), MEND_SIM_WORK_TOUCH, block, 3 * MEND_MIB, 0, 1000);
    EXPECT_U64_EQ(0, collect(w));
    EXPECT_U64_EQ(0, mend_shared_limit_file_look(&other, 0).offered_bytes); /* it lives */
    const uint64_t want = mend_shared_limit_file_want(&other, 8 * MEND_MIB);
    EXPECT_U64_EQ(0, collect(w));
    EXPECT_U64_EQ(0, mend_shared_limit_file_look(&other, want).offered_bytes); /* as answered */
    kit_free(w, block, S(0));
    EXPECT_U64_EQ(0, collect(w));
    EXPECT_U64_EQ(3 * MEND_MIB, mend_shared_limit_file_look(&other, 0).offered_bytes);
    mend_shared_limit_file_close(&other);
    unlink(shared_path);
}

/* It has not looked yet, so it may give all; once its device is lost, nothing. */
KIT_LAST_TEST(pool_collect, nobody_waits_for_a_collector_that_has_ended,
              (name_file(), open_world(w, share_and_collect)))
{
    mend_limit_slot other;
    void *pointer;
    kit_alloc(w, 3 * MEND_MIB, NULL);
    EXPECT_OK(mend_shared_limit_file_open(shared_path, 8 * MEND_MIB, &other));
    EXPECT_U64_EQ(3 * MEND_MIB, mend_shared_limit_file_look(&other, UINT64_MAX).offered_bytes);
    kit_break(w, "create");
    EXPECT_ERROR(DEVICE_LOST, mend_alloc(w->pool, 4 * MEND_MIB, NULL, &pointer));
    pthread_join(w->pool->collector->thread, NULL); /* without a bell it finds out by itself */
    close(w->pool->collector->bell);
    free(w->pool->collector);
    w->pool->collector = NULL;
    EXPECT_U64_EQ(0, mend_shared_limit_file_look(&other, UINT64_MAX).offered_bytes);
    EXPECT_ERROR(DRIVER, mend_pool_destroy(w->pool));
    mend_shared_limit_file_close(&other);
    unlink(shared_path);
}
