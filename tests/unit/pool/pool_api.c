/* The public calls on one stream: their results, and every misuse with its own error. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver/driver.h"
#include "mend/mend_frameworks.h"
#include "mend/mend_graph_pools.h"
#include "mend/mend_range.h"
#include "mend/mend_sleep.h"
#include "tests/support/host_memory.h"
#include "tests/support/kit.h"

static void *at(void *pointer, int64_t offset)
{
    return (char *)pointer + offset;
}

KIT_TEST(pool_api, alloc_rounds_to_the_granule_and_counts)
{
    void *first = kit_alloc(w, 1, NULL);
    void *second = kit_alloc(w, 513, NULL);
    EXPECT_U64_EQ(0, (uint64_t)(uintptr_t)first % 512);
    mend_stats stats = mend_world_stats(w);
    EXPECT_FIELDS(stats, live_bytes, 512 + 1024, requested_bytes, 514, live_blocks, 2);
    EXPECT_U64_EQ(2, stats.allocations);
    mend_block_info info = kit_info(w, at(second, 1023));
    EXPECT_PTR_EQ(second, info.base);
    EXPECT_FIELDS(info, requested_bytes, 513, usable_bytes, 1024);
    EXPECT_PTR_EQ(w->pool, info.pool);
    kit_free(w, first, NULL);
    kit_free(w, second, NULL);
    stats = mend_world_stats(w);
    EXPECT_FIELDS(stats, live_bytes, 0, peak_live_bytes, 1536);
    EXPECT_OK(mend_reset_peak_stats(w->pool));
    EXPECT_STATS(w, peak_live_bytes, 0);
    kit_free(w, kit_alloc(w, 512, NULL), NULL); /* now the cache has one that is too small */
    EXPECT_U64_EQ(1024, kit_info(w, kit_alloc(w, 513, NULL)).usable_bytes);
}

KIT_TEST(pool_api, steady_state_calls_no_driver)
{
    uint64_t calls_after_first_round = 0;
    for (int round = 0; round < 4; round++) {
        void *blocks[8];
        for (int i = 0; i < 8; i++) {
            blocks[i] = kit_alloc(w, (uint64_t)(i + 1) * 300 * MEND_KIB, NULL);
        }
        kit_free_row(w, blocks, 8, NULL);
        uint64_t calls = mend_sim_call_count(w->sim);
        calls_after_first_round = round == 0 ? calls : calls_after_first_round;
        EXPECT_U64_EQ(calls_after_first_round, calls);
    }
}

KIT_RIG_EACH(pool_api, a_broken_context_is_reported_and_destroy_still_frees, int, is_checked, 2,
             mend_world, w, kit_open_set(w, w->pool_config.observe = is_checked ? "guard" : NULL),
             mend_sim_destroy(w->sim))
{
    void *pointer = kit_alloc(w, 8 * MEND_MIB, NULL);
    kit_break(w, "create");
    EXPECT_ERROR(DEVICE_LOST, mend_alloc(w->pool, 9 * MEND_MIB, NULL, &pointer));
    EXPECT_ERROR(DEVICE_LOST, mend_alloc(w->pool, 512, NULL, &pointer));
    EXPECT_ERROR(DEVICE_LOST, mend_free(w->pool, pointer, NULL));
    EXPECT_ERROR(DRIVER, mend_pool_destroy(w->pool));
}

MEND_TEST(pool_api, options_of_a_thread_come_back)
{
    const mend_alloc_options given = {.struct_size = sizeof(given),
                                      .alignment_bytes = 4096,
                                      .in_one_chunk = 1,
                                      .plain = 1,
                                      .sleep_tag = 7};
    mend_alloc_options back = MEND_ALLOC_OPTIONS_INIT;
    EXPECT_OK(mend_set_alloc_options(&given, NULL));
    EXPECT_OK(mend_set_alloc_options(NULL, &back));
    EXPECT_INT_EQ(0, memcmp(&given, &back, sizeof(given)));
}

/* Requests that are planned in all ways, in a pool that is full, and some are refused. */
static void fill_and_empty(mend_world *w)
{
    void *blocks[16] = {NULL};
    EXPECT_OK(mend_set_limit(w->pool, 12 * MEND_MIB));
    for (uint64_t i = 0; i < 96; i++) {
        void **at = &blocks[i * 7 % 16];
        kit_free(w, *at, S(i % 3));
        *at = NULL;
        (void)mend_alloc_with(w->pool, (i * i * 37 % 29 + 1) * 64 * MEND_KIB, S(i % 2),
                              KIT_OPTIONS(mend_alloc_options, .in_one_chunk = i % 5 == 0), at);
    }
    EXPECT_OK(mend_compact(w->pool, NULL, NULL));
    kit_free_row(w, blocks, 16, S(0));
    EXPECT_OK(mend_set_limit(w->pool, 0));
}

/* A pool with all its features, that still has a callback, was asked for its tags, and slept. */
static void live_and_end(mend_world *own)
{
    mend_world other = *own;
    mend_world *w = &other;
    int calls = 0;
    size_t count = 0;
    mend_sleep_tag_info info;
    mend_range *range = NULL;
    mend_graph_pool_block kept[2];
    w->pool = kit_pool(own);
    EXPECT_OK(mend_add_pressure_callback(w->pool, kit_count_pressure, &calls));
    EXPECT_INVALID(mend_add_pressure_callback(w->pool, kit_count_pressure, &calls));
    EXPECT_OK(mend_add_pressure_callback(w->pool, kit_count_pressure, NULL));
    EXPECT_OK(mend_remove_pressure_callback(w->pool, kit_count_pressure, NULL));
    fill_and_empty(w);
    EXPECT_OK(mend_history_start(w->pool, 8));
    EXPECT_OK(mend_history_start(w->pool, 9));
    EXPECT_OK(mend_scope_push("scope", 0));
    void *block = kit_alloc_with(w, MEND_MIB, NULL, .sleep_tag = 1);
    EXPECT_OK(mend_scope_pop());
    EXPECT_OK(mend_get_sleep_tags(w->pool, &info, sizeof(info), 1, &count));
    EXPECT_U64_EQ(1, count);
    for (int i = 0; i < 2; i++) {
        EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
        EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    }
    EXPECT_OK(mend_pin(w->pool, block, 512));
    EXPECT_OK(mend_unpin(w->pool, block, 512));
    EXPECT_OK(mend_get_owners(w->pool, 0, NULL, sizeof(mend_owner), 0, &count));
    EXPECT_OK(mend_range_create(w->pool, 4 * MEND_MIB, NULL, &range));
    EXPECT_OK(mend_range_commit(range, 0, MEND_MIB, NULL));
    kit_free(w, kit_alloc(w, 2 * MEND_MIB, NULL), NULL);
    EXPECT_OK(mend_range_commit(range, MEND_MIB, 2 * MEND_MIB, NULL));
    EXPECT_OK(mend_range_destroy(range, NULL));
    for (int i = 1; i < 3; i++) { /* one stream waits for the other one, and is forgotten */
        kit_free(w, kit_alloc_used(w, 16 * MEND_MIB, S(i), 1000), S(i));
    }
    EXPECT_OK(mend_unregister_stream(w->pool, S(2)));
    EXPECT_OK(mend_trim(w->pool, UINT64_MAX, MEND_TRIM_WAIT, NULL));
    mend_graph_pool *graph_pool = kit_begin_graph_pool(w, S(0));
    kit_alloc(w, 2 * MEND_MIB, S(0));
    kit_free(w, kit_alloc(w, MEND_MIB, S(0)), S(0));
    EXPECT_OK(mend_graph_pool_end(graph_pool));
    EXPECT_OK(mend_graph_pool_checkpoint(graph_pool, kept, sizeof(*kept), 2, &count));
    EXPECT_OK(mend_graph_pool_restore(graph_pool, kept, sizeof(*kept), count));
    EXPECT_OK(mend_graph_pool_destroy(graph_pool, S(0)));
    kit_free(w, kept[0].pointer, S(0));
    mend_sim_graph *graphs[2];
    for (int i = 0; i < 2; i++) { /* one that ends before the pool, and one after it */
        kit_begin_capture(w, S(0));
        kit_fail(w, "capture_keep", 0, 1, MEND_DRIVER_UNKNOWN);
        EXPECT_ERROR(DRIVER, mend_alloc(w->pool, 512, S(0), &(void *){NULL}));
        kit_alloc(w, 512, S(0));
        graphs[i] = kit_end_capture(w, S(0));
    }
    mend_sim_graph_destroy(w->sim, graphs[0]);
    kit_free(w, block, NULL);
    kit_free(w, kit_alloc(w, MEND_MIB / 2, NULL), NULL); /* where poison is, and again */
    EXPECT_OK(mend_pool_destroy(w->pool));
    mend_sim_graph_destroy(w->sim, graphs[1]);
}

static char path[] = "/tmp/mend-record-XXXXXX.1"; /* the second pool has it */

static const char *recording(void)
{
    path[strlen(path) - 2] = '\0';
    close(mkstemp(path));
    return path;
}

KIT_EACH(pool_api, a_pool_that_ends_leaves_nothing_on_the_host, int, is_checked, 2,
         kit_open_set(w, w->pool_config.observe = is_checked ? "guard,poison" : "top",
                      w->pool_config.min_free_bytes = 1, w->pool_config.idle_ms = 1000000,
                      w->pool_config.growth_percent = 100,
                      w->pool_config.record = is_checked ? NULL : recording()))
{
    for (int i = 0; i < MEND_POOLS_KEPT; i++) {
        live_and_end(w); /* state of a thread and the process, which stays from then on */
    }
    const int64_t before = mend_test_live_host_allocations();
    live_and_end(w);
    EXPECT_INT_EQ(before, mend_test_live_host_allocations());
    unlink(path);
    path[strlen(path)] = '.';
    unlink(path);
}

KIT_TEST(pool_api, a_call_on_a_pool_that_was_destroyed_is_refused)
{
    static const char words[] = "the pool was destroyed, and its blocks with it";
    mend_pool *pool = kit_pool(w);
    mend_stats stats = MEND_STATS_INIT;
    void *block = kit_alloc_from(pool, MEND_MIB, NULL);
    EXPECT_OK(mend_pool_destroy(pool));
    EXPECT_REFUSAL(INVALID_ARGUMENT, words, mend_free(pool, block, NULL));
    EXPECT_REFUSAL(INVALID_ARGUMENT, words, mend_alloc(pool, 512, NULL, &block));
    EXPECT_REFUSAL(INVALID_ARGUMENT, words, mend_get_stats(pool, &stats));
    EXPECT_REFUSAL(INVALID_ARGUMENT, words, mend_trim(pool, 0, MEND_TRIM_IDLE, NULL));
    EXPECT_REFUSAL(INVALID_ARGUMENT, words, mend_pool_destroy(pool));
}

KIT_TEST(pool_api, a_pointer_of_another_pool_names_that_pool)
{
    mend_pool *other = kit_pool(w);
    void *block = kit_alloc_from(other, MEND_MIB, NULL);
    char words[128];
    snprintf(words, sizeof(words), "%p is memory of another pool: %p, on device 0", block,
             (void *)other);
    EXPECT_REFUSAL(FOREIGN_POINTER, words, mend_free(w->pool, block, NULL));
    EXPECT_REFUSAL(FOREIGN_POINTER, words, mend_record_stream(w->pool, block, NULL));
    EXPECT_OK(mend_free(other, block, NULL));
    EXPECT_OK(mend_pool_destroy(other));
    EXPECT_REFUSAL(FOREIGN_POINTER, "is not memory of this pool", mend_free(w->pool, &words, NULL));
}

/* ---- the thread's last error, beyond EXPECT_RESULT (support/call.h) -------------------------- */

static void fail_meanwhile(KIT_UNUSED void *context, KIT_UNUSED const char *call,
                           KIT_UNUSED int is_after)
{
    (void)mend_free(NULL, &fail_meanwhile, NULL);
}

/* Only a simulated device calls the program inside of a driver call. */
KIT_TEST(pool_last_error, a_failing_call_inside_of_a_driver_call_is_not_that_of_the_call_outside)
{
    mend_error error = MEND_ERROR_INIT;
    void *block = NULL;
    kit_fail(w, "map", 0, 1, MEND_DRIVER_UNKNOWN);
    mend_sim_set_call_observer(w->sim, fail_meanwhile, NULL);
    mend_result result = mend_alloc(w->pool, MEND_MIB, NULL, &block);
    mend_sim_set_call_observer(w->sim, NULL, NULL);
    EXPECT_INT_EQ(MEND_ERROR_DRIVER, result);
    EXPECT_OK(mend_get_last_error(&error));
    EXPECT_INT_EQ(MEND_ERROR_DRIVER, error.result);
    EXPECT_STR_EQ("cuMemMap", error.driver_call);
    mend_sim_clear_faults(w->sim);
}
