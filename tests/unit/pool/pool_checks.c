/* Checks for use after free and overrun: damage is reported once, by name and place, and nothing
 * else is. The damage is done by the GPU, in real bytes. */
#include <stdio.h>
#include <string.h>

#include "mend/mend_share.h"
#include "mend/mend_sleep.h"
#include "pool/pool.h"
#include "tests/support/host_memory.h"
#include "tests/support/kit.h"

enum { KIB = 1024, TAG = 71 };

#define CHECKED(name, ...) KIT_SET_TEST(pool_checks, name, w->pool_config.observe = __VA_ARGS__)
#define GUARDED(name)      CHECKED(name, "guard")
#define POISONED(name)     CHECKED(name, "poison")
#define BOTH(name)         CHECKED(name, "guard,poison")
#define SHAREABLE(name)    CHECKED(name, "poison", w->pool_config.shareable = MEND_SHAREABLE_ON)

/* A byte, written in the order of the stream. */
static void write_byte(mend_world *w, void *at, mend_stream stream)
{
    EXPECT_INT_EQ(MEND_DRIVER_OK, w->driver->context_push(w->driver, w->info.context));
    EXPECT_INT_EQ(MEND_DRIVER_OK,
                  w->driver->fill(w->driver, (uint64_t)(uintptr_t)at, 1, 1, stream));
    EXPECT_INT_EQ(MEND_DRIVER_OK, w->driver->context_pop(w->driver));
}

static void *tagged(mend_world *w, uint64_t size_bytes)
{
    void *block = NULL;
    const mend_alloc_options *options = KIT_OPTIONS(mend_alloc_options, .tag = TAG);
    EXPECT_OK(mend_scope_push("step", 0));
    EXPECT_OK(mend_alloc_with(w->pool, size_bytes, S(0), options, &block));
    EXPECT_OK(mend_scope_pop());
    return block;
}

GUARDED(an_overrun_is_told_once_by_the_free_that_finds_it)
{
    static const uint64_t sizes[] = {1, 500, 512, 64 * KIB, MEND_MIB + 496, 3 * MEND_MIB};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        char words[96];
        char *block = tagged(w, sizes[i]);
        const mend_block_info info = kit_info(w, block);
        EXPECT_FIELDS(info, usable_bytes, sizes[i], requested_bytes, sizes[i]);
        write_byte(w, block + sizes[i] - 1, S(0)); /* its last one is its own */
        kit_free(w, block, S(0));
        block = tagged(w, sizes[i]);
        const uint64_t at = sizes[i] + 3 * i;
        write_byte(w, block + at, S(0));
        snprintf(words, sizeof(words),
                 "(%d bytes, %s, step) was written past its end: the first byte that differs is "
                 "%d",
                 (int)sizes[i], i == 0 ? "tag 71" : "kv cache", (int)at);
        EXPECT_REFUSAL(CORRUPTION, words, mend_free(w->pool, block, S(0)));
        EXPECT_STATS(w, live_blocks, 1);
        kit_free(w, block, S(0));
        EXPECT_OK(mend_set_name(MEND_NAME_TAG, TAG, "kv cache"));
    }
    EXPECT_OK(mend_set_name(MEND_NAME_TAG, TAG, ""));
}

static void hear(void *told, mend_log_level level, const char *text)
{
    *(int *)told += level == MEND_LOG_WARNING && strstr(text, "damage on device 0: the block");
}

/* The log says it, too: some callers look at no result of a free. */
GUARDED(a_free_on_another_stream_or_none_finds_it_too)
{
    int told = 0;
    mend_log_set_sink(hear, &told);
    const mend_stream streams[] = {S(1), MEND_NO_STREAM};
    for (int i = 0; i < 2; i++) {
        char *block = kit_alloc(w, MEND_MIB, S(0));
        write_byte(w, block + MEND_MIB + 15, S(0));
        EXPECT_INT_EQ(MEND_DRIVER_OK, w->driver->stream_synchronize(w->driver, S(0)));
        EXPECT_ERROR(CORRUPTION, mend_free(w->pool, block, streams[i]));
        kit_free(w, block, streams[i]);
        write_byte(w, block, S(0)); /* it is not poisoned */
    }
    char *block = kit_alloc(w, MEND_MIB, MEND_NO_STREAM);
    write_byte(w, block + MEND_MIB, S(0));
    EXPECT_ERROR(CORRUPTION, mend_free(w->pool, block, S(0)));
    kit_free(w, block, S(0));
    EXPECT_INT_EQ(3, told);
    mend_log_set_sink(NULL, NULL);
    mend_available none = {.struct_size = sizeof(none), .now_bytes = 7, .after_waiting_bytes = 7};
    kit_alloc(w, w->sim_config.memory_bytes - 512, S(0));
    EXPECT_OK(mend_get_available(w->pool, S(0), &none)); /* what is left is less than a guard */
    EXPECT_FIELDS(none, now_bytes, 0, after_waiting_bytes, 0);
}

/* The pool is no longer observed then, whatever was found. */
KIT_LAST_TEST(pool_checks, a_block_that_lives_at_the_end_is_read_then,
              kit_open_set(w, w->pool_config.observe = "guard,top"))
{
    void *good[64];
    kit_alloc_row(w, good, 64, 512, S(0));
    char *block = tagged(w, 1000);
    write_byte(w, block + 1001, S(0));
    EXPECT_REFUSAL(CORRUPTION, "(1000 bytes, tag 71, step) was written past its end",
                   mend_pool_destroy(w->pool));
}

KIT_LAST_TEST(pool_checks, what_sleeps_or_is_of_graphs_is_not_read_at_the_end,
              kit_open_set(w, w->pool_config.observe = "guard"))
{
    kit_alloc_with(w, MEND_MIB, S(0), .sleep_tag = 9);
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    mend_graph_pool *graph_pool = kit_begin_graph_pool(w, S(0));
    kit_alloc(w, 1000, S(0));
    kit_end_graph_pool(graph_pool, S(0));
    EXPECT_OK(mend_pool_destroy(w->pool));
    EXPECT_LEDGER(w, violations, 0);
}

POISONED(a_write_after_the_free_is_told_by_the_allocation_that_gets_the_memory)
{
    static const uint64_t sizes[] = {1000, 5 * MEND_MIB, 5 * MEND_MIB, 5 * MEND_MIB, 64 * KIB};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        char words[96];
        void *again = NULL;
        char *block = tagged(w, sizes[i]);
        write_byte(w, block + 1001, S(0)); /* it has no guard */
        kit_free(w, block, S(0));
        const uint64_t at = (uint64_t[]){sizes[i] / 32, sizes[i] - 1, sizes[i] / 65 * 32}[i % 3];
        write_byte(w, block + at, S(0));
        snprintf(words, sizeof(words),
                 "(%d bytes, tag 71, step) was written after its free: the first byte that differs "
                 "is %d",
                 (int)sizes[i], (int)at);
        EXPECT_REFUSAL(CORRUPTION, words, mend_alloc(w->pool, sizes[i], S(0), &again));
        EXPECT_TRUE(again == NULL);
        EXPECT_STATS(w, live_blocks, 0);
        again = kit_alloc(w, sizes[i], S(0));
        EXPECT_TRUE(again == block);
        kit_free(w, again, S(0));
        EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_IDLE, NULL));
    }
}

BOTH(a_block_of_one_mib_is_read_as_a_whole)
{
    void *again = NULL;
    char *block = kit_alloc(w, MEND_MIB, S(0));
    kit_free(w, block, S(0));
    write_byte(w, block + 331128, S(0)); /* between two samples of a larger one */
    EXPECT_REFUSAL(CORRUPTION, "the first byte that differs is 331128",
                   mend_alloc(w->pool, MEND_MIB, S(0), &again));
}

/* Of three blocks side by side the middle one is written. A block allocated over it begins and ends
 * in the others. */
POISONED(poison_is_known_in_every_part_that_is_given_out)
{
    void *again = NULL;
    char *blocks[3];
    kit_alloc_row(w, (void **)blocks, 3, 256 * KIB, S(0));
    kit_free_row(w, (void **)blocks, 3, S(0));
    write_byte(w, blocks[1] + 100, S(0));
    EXPECT_REFUSAL(CORRUPTION, "the first byte that differs is 100",
                   mend_alloc(w->pool, 700 * KIB, S(0), &again));
    write_byte(w, blocks[2] + 100 * KIB, S(0));
    EXPECT_REFUSAL(CORRUPTION, "is 102400", mend_alloc(w->pool, 700 * KIB, S(0), &again));
    kit_free(w, kit_alloc(w, 700 * KIB, S(0)), S(0));
    write_byte(w, blocks[2] + 255 * KIB, S(0)); /* behind it */
    EXPECT_REFUSAL(CORRUPTION, "the first byte that differs is 261120",
                   mend_alloc(w->pool, 768 * KIB, S(0), &again));
    const mend_alloc_options *middle = KIT_OPTIONS(mend_alloc_options, .address = blocks[1]);
    write_byte(w, blocks[0] + 17, S(0)); /* before it */
    EXPECT_OK(mend_alloc_with(w->pool, 256 * KIB, S(0), middle, &again));
    EXPECT_REFUSAL(CORRUPTION, "the first byte that differs is 17",
                   mend_alloc(w->pool, 256 * KIB, S(0), &(void *){NULL}));
}

/* Memory that may still be used is not filled. A moved chunk is another memory. */
BOTH(nothing_else_is_told)
{
    void *blocks[8];
    kit_alloc_written_row(w, blocks, 8, 300 * KIB, S(0));
    EXPECT_OK(mend_record_stream(w->pool, blocks[0], S(1)));
    kit_use(w, S(1), blocks[0], 300 * KIB, 1000);
    for (int i = 0; i < 8; i += 2) {
        kit_free(w, blocks[i], i == 2 ? S(1) : S(0));
    }
    EXPECT_OK(mend_compact(w->pool, NULL, NULL));
    void *large = kit_alloc_used(w, 8 * MEND_MIB, S(2), 1000);
    kit_free(w, large, S(2));
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    for (int i = 1; i < 8; i += 2) {
        kit_use(w, S(0), blocks[i], 300 * KIB, 0);
        kit_free(w, blocks[i], S(0));
    }
    EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_IDLE, NULL));
    kit_free(w, kit_alloc_used(w, 20 * MEND_MIB, S(1), 1000), S(1));
    kit_free(w, kit_alloc(w, 20 * MEND_MIB, MEND_NO_STREAM), MEND_NO_STREAM);
    kit_free(w, kit_alloc_used(w, MEND_MIB, S(0), 1000), MEND_NO_STREAM);
    void *dropped = kit_alloc(w, MEND_MIB, S(0));
    EXPECT_OK(mend_sleep(w->pool, KIT_OPTIONS(mend_sleep_options, .others = MEND_DISCARD), NULL));
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL)); /* which keeps all, and no guard */
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    kit_free(w, dropped, S(0));
    kit_free(w, kit_alloc_with(w, MEND_MIB, S(0), .plain = 1), S(0));
}

/* An importer may still use it. */
SHAREABLE(exported_memory_is_not_filled)
{
    void *imported = NULL;
    mend_export_token token;
    mend_pool *peer = kit_pool(w);
    void *block = kit_alloc_written(w, MEND_MIB, S(0));
    EXPECT_OK(mend_export(w->pool, block, NULL, &token, MEND_EXPORT_TOKEN_BYTES, NULL, NULL));
    EXPECT_OK(mend_import(peer, &token, MEND_EXPORT_TOKEN_BYTES, &imported, NULL));
    kit_free(w, block, S(0));
    kit_launch(w, S(0), MEND_SIM_WORK_VERIFY, imported, MEND_MIB, (uintptr_t)block, 0);
    EXPECT_OK(mend_import_close(peer, imported, S(0)));
    EXPECT_OK(mend_pool_destroy(peer));
}

/* Compactions give the addresses of a freed part other memory. */
POISONED(a_part_that_was_moved_is_not_what_was_filled)
{
    enum { BLOCKS = 120, BYTES = 96 * KIB };
    void *blocks[BLOCKS];
    kit_alloc_written_row(w, blocks, BLOCKS, BYTES, S(0));
    for (int i = 0; i < BLOCKS; i++) {
        if (i % 4 != 0) {
            kit_free(w, blocks[i], S(0));
        }
    }
    EXPECT_OK(mend_compact(w->pool, NULL, NULL));
    EXPECT_TRUE(mend_world_stats(w).compactions > 0);
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = i % 4 != 0 ? kit_alloc_written(w, BYTES, S(0)) : blocks[i];
    }
    kit_release_row(w, blocks, BLOCKS, BYTES, S(0));
}

/* A running graph uses memory that the program frees beside it, or allocates again. */
BOTH(memory_of_graphs_has_neither_poison_nor_a_guard)
{
    mend_graph_pool *graph_pool = kit_begin_captured_graph_pool(w, S(0));
    void *block = kit_alloc_used(w, 2 * MEND_MIB, S(0), 1000);
    void *beside = kit_alloc_used(w, MEND_MIB, S(0), 1000);
    kit_free(w, block, S(0));
    mend_sim_graph *graph = kit_end_captured_graph_pool(w, S(0), graph_pool);
    kit_launch_graph(w, graph, S(1));
    kit_free(w, beside, S(0));
    void *again = kit_alloc_with(w, MEND_MIB, S(0), .graph_pool = graph_pool);
    EXPECT_TRUE(again >= block && again < beside);
    mend_sim_advance(w->sim, 10000);
    EXPECT_TRUE(mend_world_check(w));
    kit_free(w, again, S(0));
    mend_sim_graph_destroy(w->sim, graph);
    EXPECT_OK(mend_graph_pool_destroy(graph_pool, S(0)));
}

static void capture_amid(void *context, const char *call, int is_after)
{
    mend_world *w = context;
    if (!is_after && strcmp(call, "create") == 0) {
        mend_sim_set_call_observer(w->sim, NULL, NULL);
        kit_begin_capture(w, S(0));
    }
}

/* As another thread may, behind the question whether it is captured. */
POISONED(a_stream_whose_capture_begins_meanwhile_is_not_waited_for)
{
    kit_alloc(w, 512, S(0));
    mend_sim_set_call_observer(w->sim, capture_amid, w);
    kit_alloc(w, 4 * MEND_MIB, S(0));
    mend_sim_graph_destroy(w->sim, kit_end_capture(w, S(0)));
}

/* Blocks that sleep, and one that the driver did not map again, are freed all the same. */
BOTH(memory_without_a_mapping_is_not_read)
{
    void *blocks[3];
    kit_alloc_written_row(w, blocks, 3, MEND_MIB - 512, S(0)); /* with its guard a chunk */
    kit_free(w, blocks[1], S(0));
    EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_IDLE, NULL));
    kit_fail(w, "unmap", 1, 1, MEND_DRIVER_UNKNOWN); /* between two calls */
    kit_fail(w, "map", 0, UINT64_MAX, MEND_DRIVER_UNKNOWN);
    EXPECT_ERROR(DRIVER, mend_sleep(w->pool, NULL, NULL));
    EXPECT_STATS(w, unmapped_blocks, 1);
    kit_free(w, blocks[0], S(0));
    mend_sim_clear_faults(w->sim);
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    kit_free(w, blocks[2], S(0));
}

KIT_EACH(pool_checks, calls_that_the_driver_refuses_end_a_check_and_no_call, int, i, 5,
         kit_open_set(w, w->pool_config.observe = "guard,poison"))
{
    static const char *const calls[] = {"fill", "copy", "stream_create", "host_alloc",
                                        "stream_synchronize"};
    kit_fail(w, calls[i], 0, 1000, MEND_DRIVER_OUT_OF_MEMORY);
    kit_free(w, kit_alloc_used(w, 2 * MEND_MIB, S(0), 1000), S(0));
    kit_free(w, kit_alloc_written(w, MEND_MIB, S(0)), S(0));
    mend_sim_clear_faults(w->sim);
    kit_free(w, kit_alloc(w, MEND_MIB, S(0)), S(0));
    char *block =
        kit_alloc(w, MEND_MIB, S(0)); /* told once, though the guard is not filled again */
    write_byte(w, block + MEND_MIB, S(0));
    kit_fail(w, "fill", 0, 1000, MEND_DRIVER_OUT_OF_MEMORY);
    EXPECT_ERROR(CORRUPTION, mend_free(w->pool, block, S(0)));
    kit_free(w, block, S(0));
    mend_sim_clear_faults(w->sim);
}

GUARDED(a_pool_that_a_capture_keeps_goes_on_with_its_checks)
{
    kit_free(w, kit_alloc(w, MEND_MIB, S(0)), S(0));
    mend_graph_pool *graph_pool = kit_begin_captured_graph_pool(w, S(1));
    EXPECT_ERROR(CAPTURING, mend_pool_destroy(w->pool));
    mend_sim_graph_destroy(w->sim, kit_end_captured_graph_pool(w, S(1), graph_pool));
    EXPECT_OK(mend_graph_pool_destroy(graph_pool, S(1)));
    char *block = kit_alloc(w, MEND_MIB, S(0));
    write_byte(w, block + MEND_MIB, S(0));
    EXPECT_ERROR(CORRUPTION, mend_free(w->pool, block, S(0)));
}

KIT_LAST_TEST(pool_checks, what_still_runs_has_its_buffer_at_the_end,
              kit_open_set(w, w->pool_config.observe = "guard"))
{
    kit_alloc(w, MEND_MIB, S(0));
    kit_fail(w, "stream_synchronize", 0, 1, MEND_DRIVER_UNKNOWN);
    EXPECT_OK(mend_pool_destroy(w->pool));
    EXPECT_LEDGER(w, violations, 0, host_allocations, 0, chunks, 0, streams, MEND_WORLD_STREAMS);
}

/* ... nor is its memory used meanwhile. */
POISONED(memory_whose_fill_still_runs_serves_nobody)
{
    void *block = kit_alloc(w, 3 * MEND_MIB, S(0));
    kit_fail(w, "stream_synchronize", 1, 1, MEND_DRIVER_UNKNOWN); /* not the stream's */
    kit_free(w, block, S(0));
    EXPECT_TRUE(kit_alloc(w, 3 * MEND_MIB, S(0)) != block);
}

/* While others sleep a free needs nodes for each chunk of the block. Without host memory it is
 * refused, and the block's contents are its own. */
typedef struct starved_rig {
    mend_world w;
    mend_unwatched_driver unwatched;
} starved_rig;

static bool open_starved(starved_rig *r)
{
    mend_world_init(&r->w);
    r->w.pool_config.observe = "poison";
    return kit_open_unwatched(&r->w, &r->unwatched);
}

KIT_RIG_EACH(pool_checks, a_block_whose_free_lacks_host_memory_holds_no_poison, int, successes, 4,
             starved_rig, r, open_starved(r), kit_close(&r->w))
{
    enum { CHUNKS = 24 };
    mend_world *w = &r->w;
    void *parts[CHUNKS];
    kit_alloc(w, MEND_MIB, S(0));
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    kit_alloc_row(w, parts, CHUNKS, MEND_MIB, S(0));
    kit_free_row(w, parts, CHUNKS, S(0));
    void *block = kit_alloc_written(w, CHUNKS * MEND_MIB, S(0));
    const mend_result result =
        mend_test_starve((uint64_t)successes, 1, mend_free(w->pool, block, S(0)));
    if (result != MEND_OK) {
        EXPECT_INT_EQ(MEND_ERROR_OUT_OF_HOST_MEMORY, result);
        kit_release(w, block, CHUNKS * MEND_MIB, S(0));
    }
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
}
