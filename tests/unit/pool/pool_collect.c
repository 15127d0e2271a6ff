/* Sharing a device: the releases of a trim by policy, the memory that stays free, and a shared
 * limit. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "collect/collect.h"
#include "mend/mend_sleep.h"
#include "pool/pool.h"
#include "quota/quota.h"
#include "tests/support/kit.h"
#include "tests/support/place.h"

static uint64_t collect(mend_world *w)
{
    uint64_t released_bytes = UINT64_MAX;
    EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_BY_POLICY, &released_bytes));
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

static uint64_t reserved(mend_world *w)
{
    return mend_world_stats(w).reserved_bytes;
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

/* Free memory of graphs that ended is released, awake or asleep. */
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

KIT_TEST_IN(pool_collect, what_is_to_stay_stays_above_the_soft_limit,
            open_world(w, two_mib_are_soft))
{
    kit_free(w, kit_alloc(w, 5 * MEND_MIB, NULL), NULL);
    EXPECT_OK(mend_trim(w->pool, 4 * MEND_MIB, MEND_TRIM_BY_POLICY, NULL));
    EXPECT_TRUE(reserved(w) >= 4 * MEND_MIB);
}

KIT_SETTING(keep_4_mib, w->pool_config.min_free_bytes = 4 * MEND_MIB);

KIT_TEST_IN(pool_collect, memory_goes_back_while_others_lack_it, open_world(w, keep_4_mib))
{
    void *block = kit_alloc(w, 6 * MEND_MIB, NULL);
    kit_alloc(w, 2 * MEND_MIB, NULL);
    kit_free(w, block, NULL);
    EXPECT_U64_EQ(0, collect(w)); /* 8 MiB are free */
    mend_sim_set_foreign_bytes(w->sim, 0, 6 * MEND_MIB);
    uint64_t given = collect(w); /* 2 MiB were free */
    EXPECT_TRUE(given >= 2 * MEND_MIB && given <= 6 * MEND_MIB);
    EXPECT_U64_EQ(0, collect(w));
    mend_sim_set_foreign_bytes(w->sim, 0, 14 * MEND_MIB);
    collect(w);
    EXPECT_U64_EQ(2 * MEND_MIB, reserved(w)); /* live blocks stay */
}

KIT_TEST_IN(pool_collect, what_was_idle_for_long_counts_for_others, open_idle(w, keep_4_mib))
{
    void *old = kit_alloc(w, 2 * MEND_MIB, NULL);
    void *young = kit_alloc(w, 3 * MEND_MIB, NULL);
    kit_free(w, old, NULL);
    EXPECT_U64_EQ(0, collect(w));
    pass(w, 10);
    kit_free(w, young, NULL);
    mend_sim_set_foreign_bytes(w->sim, 0, 9 * MEND_MIB); /* 2 MiB are free */
    EXPECT_U64_EQ(2 * MEND_MIB, collect(w));
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

/* Two devices, as two processes would have: only the file joins their pools. */
MEND_TEST(pool_collect, two_pools_hold_no_more_than_the_limit_they_share)
{
    mend_world a;
    mend_world b;
    void *pointer;
    name_file();
    ASSERT_TRUE(open_world(&a, share_8_mib));
    ASSERT_TRUE(open_world(&b, share_8_mib));
    void *block = kit_alloc(&a, 5 * MEND_MIB, NULL);
    kit_alloc(&b, 3 * MEND_MIB, NULL);
    EXPECT_ERROR(OUT_OF_MEMORY, mend_alloc(b.pool, MEND_MIB, NULL, &pointer));
    EXPECT_STATS(&b, effective_limit_bytes, 3 * MEND_MIB);
    kit_free(&a, block, NULL);
    EXPECT_OK(mend_trim(a.pool, 2 * MEND_MIB, MEND_TRIM_IDLE, NULL));
    uint64_t left = 5 * MEND_MIB - reserved(&a);
    kit_alloc(&b, left, NULL);
    EXPECT_U64_EQ(8 * MEND_MIB, reserved(&a) + reserved(&b));
    kit_close(&b);
    kit_alloc(&a, 8 * MEND_MIB, NULL);
    kit_close(&a);
    unlink(shared_path);
}

/* ---- a pool that waits for another ---------------------------------------------------------- */

/* Two pools of a limit of 8 MiB: one holds two blocks of 3 MiB and releases memory, the other
 * requests 4 MiB in a thread. A third may take the memory first. */
typedef struct hand_over {
    mend_world giver;
    mend_world asker;
    mend_limit_slot thief;
    uint64_t to_steal;
    void *blocks[2];
    uint64_t newest;
    pthread_t thread;
    atomic_bool is_over;
    mend_result result;
} hand_over;

/* At the first driver call after the wait. */
static void steal(void *context, KIT_UNUSED const char *call, KIT_UNUSED int is_after)
{
    hand_over *h = context;
    if (h->to_steal > 0 && mend_shared_limit_file_look(&h->thief, 0).room_bytes >= 4 * MEND_MIB) {
        EXPECT_TRUE(mend_shared_limit_file_claim(&h->thief, h->to_steal));
        h->to_steal = 0;
    }
}

static bool open_hand_over(hand_over *h)
{
    *h = (hand_over){.to_steal = 0};
    name_file();
    if (!open_world(&h->giver, share_8_mib) || !open_world(&h->asker, share_8_mib)) {
        return false;
    }
    EXPECT_OK(mend_shared_limit_file_open(shared_path, 8 * MEND_MIB, &h->thief));
    kit_alloc_row(&h->giver, h->blocks, 2, 3 * MEND_MIB, NULL);
    mend_others *others = h->giver.pool->others;
    others->offer(others, 0, true, 0); /* the test is its background thread */
    mend_sim_set_call_observer(h->asker.sim, steal, h);
    return !mend_test_has_failed();
}

static void close_hand_over(hand_over *h)
{
    mend_sim_set_call_observer(h->asker.sim, NULL, NULL);
    mend_shared_limit_file_close(&h->thief);
    kit_close(&h->giver);
    kit_close(&h->asker);
    unlink(shared_path);
}

static void *ask_for_4_mib(void *argument)
{
    hand_over *h = argument;
    void *pointer = NULL;
    h->result = mend_alloc(h->asker.pool, 4 * MEND_MIB, NULL, &pointer);
    atomic_store(&h->is_over, true);
    return NULL;
}

/* When the other waits, and not before, a block of the giver becomes idle. */
static void give_when_asked(hand_over *h, void *block)
{
    mend_others *others = h->giver.pool->others;
    mend_wants wants = {.newest = h->newest};
    while (wants.newest == h->newest && !atomic_load(&h->is_over)) {
        wants = others->ask(others);
        sched_yield();
    }
    h->newest = wants.newest;
    kit_free(&h->giver, block, NULL);
    collect(&h->giver);
    others->offer(others, 0, true, 0);
}

#define HAND_OVER_TEST(name)                                                                       \
    KIT_BARE_TEST(pool_collect, name, hand_over, open_hand_over(r), close_hand_over(r))

HAND_OVER_TEST(a_pool_waits_for_what_becomes_idle_after_it_was_refused)
{
    pthread_create(&r->thread, NULL, ask_for_4_mib, r);
    give_when_asked(r, r->blocks[0]);
    pthread_join(r->thread, NULL);
    EXPECT_RESULT(MEND_OK, r->result);
    EXPECT_U64_EQ(8 * MEND_MIB, reserved(&r->giver) + reserved(&r->asker));
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
