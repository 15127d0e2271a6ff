/* Blocks that are passed through to the driver: without virtual memory, by the configuration, and
 * by a thread. */
#include <string.h>

#include "mend/mend_frameworks.h"
#include "mend/mend_graph_pools.h"
#include "mend/mend_inspect.h"
#include "mend/mend_range.h"
#include "mend/mend_share.h"
#include "mend/mend_sleep.h"
#include "pool/pool.h"
#include "tests/support/kit.h"

/* How a pool comes to pass its requests through. */
typedef enum way { BY_POOLS, WITHOUT_POOLS, BY_CONFIG, BY_THREAD } way;

#define PLAIN_TEST(name, how, limit)                                                               \
    KIT_CASE(pool_plain, name, mend_world, w, open_plain(w, how, limit), close_plain(w))

/* The device has the allocations that the pool knows. */
static void close_plain(mend_world *w)
{
    mend_set_alloc_options(NULL, NULL);
    EXPECT_OK(mend_validate(w->pool));
    kit_expect_no_context(w);
    EXPECT_LEDGER(w, violations, 0, plain_allocations, mend_world_stats(w).passed_blocks);
    EXPECT_OK(mend_pool_destroy(w->pool));
    EXPECT_LEDGER(w, plain_allocations, 0, chunks, 0, mappings, 0, contexts_open, 0);
    mend_sim_destroy(w->sim);
}

static bool open_plain(mend_world *w, way how, uint64_t limit_bytes)
{
    mend_world_init(w);
    w->sim_config.memory_bytes = 16 * MEND_MIB;
    w->sim_config.has_no_virtual_memory = how == BY_POOLS || how == WITHOUT_POOLS;
    w->sim_config.has_no_memory_pools = how == WITHOUT_POOLS;
    w->sim_config.content = MEND_SIM_CONTENT_BYTES;
    w->pool_config.limit_bytes = limit_bytes;
    w->pool_config.plain = how == BY_CONFIG;
    const bool is_open = mend_world_open(w);
    KIT_THREAD(.plain = how == BY_THREAD, .in_one_chunk = how == BY_POOLS,
               .alignment_bytes = how == BY_POOLS ? 4096 : 0);
    return is_open;
}

static void count_call(void *count, const char *call, int is_after)
{
    *(int *)count += is_after == 0 && strcmp(call, "async_alloc") == 0;
}

/* A request with options, whose block goes at once. */
#define ask(w, ...) ask_with(w, KIT_OPTIONS(mend_alloc_options, __VA_ARGS__))
static mend_result ask_with(mend_world *w, const mend_alloc_options *options)
{
    void *block = NULL;
    MEND_TRY(mend_alloc_with(w->pool, 512, NULL, options, &block));
    return mend_free(w->pool, block, NULL);
}

/* Blocks are used and freed by streams, and the driver has each as long as it lives. */
static void use_blocks(mend_world *w, int allocations_in_order)
{
    int in_order = 0;
    mend_stream stream = kit_stream(w);
    mend_sim_set_call_observer(w->sim, count_call, &in_order);
    void *first = kit_alloc(w, MEND_MIB, stream);
    void *second = kit_alloc(w, 700, NULL);
    kit_free(w, kit_alloc(w, 512, MEND_NO_STREAM), MEND_NO_STREAM); /* in no order */
    kit_free(w, kit_alloc(w, 512, KIT_PER_THREAD), KIT_PER_THREAD);
    kit_free(w, kit_alloc_with(w, 512, stream, .plain = 1), stream);
    mend_sim_set_call_observer(w->sim, NULL, NULL);
    EXPECT_INT_EQ(allocations_in_order, in_order);
    EXPECT_LEDGER(w, plain_allocations, 2, chunks, 0);
    EXPECT_STATS(w, passed_blocks, 2, live_blocks, 2, passed_bytes, MEND_MIB + 1024, reserved_bytes,
                 MEND_MIB + 1024);
    kit_launch(w, stream, MEND_SIM_WORK_TOUCH, first, MEND_MIB, 0, 1000);
    EXPECT_OK(mend_record_stream(w->pool, second, stream));
    kit_launch(w, stream, MEND_SIM_WORK_TOUCH, second, 1024, 0, 2000);
    EXPECT_OK(mend_free(w->pool, second, NULL));
    EXPECT_TRUE(mend_sim_now_ns(w->sim) >= 2000); /* the host has waited */
    EXPECT_OK(mend_free(w->pool, first, stream));
    EXPECT_LEDGER(w, plain_allocations, 0);
    EXPECT_STATS(w, passed_blocks, 0, live_blocks, 0, reserved_bytes, 0, frees, 5,
                 peak_reserved_bytes, MEND_MIB + 1536);
    kit_end_stream(w, stream);
}

KIT_RIG_EACH(pool_plain, each_way_passes_all_blocks, int, how, BY_THREAD + 1, mend_world, w,
             open_plain(w, (way)how, 0), close_plain(w))
{
    mend_graph_pool *graph_pool = NULL;
    EXPECT_STATS(w, bare_device, how == WITHOUT_POOLS);
    if (how != BY_THREAD) {
        EXPECT_REFUSAL(NOT_SUPPORTED, "mend_graph_pool_create: the pool passes",
                       mend_graph_pool_create(w->pool, &graph_pool));
    }
    use_blocks(w, how == BY_POOLS ? 2 : 0);
    /* What needs chunks is refused, and a block of the driver's own pool is in none. */
    EXPECT_REFUSAL(NOT_SUPPORTED, "an alignment above 512", ask(w, .alignment_bytes = 1024));
    EXPECT_REFUSAL(NOT_SUPPORTED, "an address", ask(w, .address = (void *)(uintptr_t)512));
    EXPECT_RESULT(how == BY_POOLS ? MEND_ERROR_NOT_SUPPORTED : MEND_OK, ask(w, .in_one_chunk = 1));
    if (how == BY_THREAD) {
        graph_pool = kit_graph_pool(w);
        EXPECT_REFUSAL(NOT_SUPPORTED, "a graph pool", ask(w, .graph_pool = graph_pool));
        EXPECT_OK(mend_graph_pool_destroy(graph_pool, NULL));
    }
}

PLAIN_TEST(its_begin_and_its_end_are_told, BY_CONFIG, 0)
{
    mend_history_event events[2] = {{0}};
    EXPECT_OK(mend_history_start(w->pool, 8));
    void *block = kit_alloc(w, 1000, NULL);
    kit_free(w, block, MEND_NO_STREAM);
    EXPECT_OK(mend_history_read(w->pool, &(uint64_t){0}, events, sizeof(*events), 2, &(size_t){0}));
    for (int i = 0; i < 2; i++) {
        EXPECT_FIELDS(events[i], kind, i == 0 ? MEND_EVENT_ALLOC : MEND_EVENT_FREE, size_bytes,
                      1024, requested_bytes, 1000, chunk, 0, address, block);
        EXPECT_PTR_EQ(i == 0 ? NULL : MEND_NO_STREAM, events[i].stream);
    }
}

/* In the order of its own stream a free waits for nothing. */
PLAIN_TEST(a_free_in_order_is_no_wait, BY_POOLS, 0)
{
    mend_stream stream = kit_stream(w);
    mend_stream other = kit_stream(w);
    void *first = kit_alloc(w, MEND_MIB, stream);
    void *second = kit_alloc(w, MEND_MIB, stream);
    kit_launch(w, stream, MEND_SIM_WORK_TOUCH, first, MEND_MIB, 0, 1000);
    kit_launch(w, stream, MEND_SIM_WORK_TOUCH, second, MEND_MIB, 0, 2000);
    EXPECT_OK(mend_free(w->pool, first, stream));
    EXPECT_U64_EQ(0, mend_sim_now_ns(w->sim));
    EXPECT_OK(mend_free(w->pool, second, other)); /* another one's order is not the block's */
    EXPECT_U64_EQ(2000, mend_sim_now_ns(w->sim));
    void *third = kit_alloc(w, 512, NULL);
    kit_begin_capture(w, stream); /* which the pool knows: a wait would end the capture */
    EXPECT_ERROR(CAPTURING, mend_free(w->pool, third, other));
    mend_sim_graph_destroy(w->sim, kit_end_capture(w, stream));
}

/* Memory freed in the order of a busy stream is available after the CPU has waited for it. */
PLAIN_TEST(frees_in_order_are_awaited_before_memory_is_lacking, BY_POOLS, 0)
{
    mend_stream stream = kit_stream(w);
    void *block = kit_alloc(w, 12 * MEND_MIB, stream);
    kit_launch(w, stream, MEND_SIM_WORK_TOUCH, block, 12 * MEND_MIB, 0, 1000);
    EXPECT_OK(mend_free(w->pool, block, stream));
    kit_alloc(w, 12 * MEND_MIB, NULL);
    EXPECT_U64_EQ(1000, mend_sim_now_ns(w->sim));
}

PLAIN_TEST(the_limit_holds_for_what_is_passed, BY_CONFIG, 8 * MEND_MIB + 100)
{
    void *none = NULL;
    mend_available room = MEND_AVAILABLE_INIT;
    kit_alloc(w, 5 * MEND_MIB, NULL);
    EXPECT_OK(mend_get_available(w->pool, NULL, &room));
    EXPECT_U64_EQ(3 * MEND_MIB, room.now_bytes);
    EXPECT_REFUSAL(OUT_OF_MEMORY, "the limit is reached",
                   mend_alloc(w->pool, 4 * MEND_MIB, NULL, &none));
    kit_alloc(w, 3 * MEND_MIB, NULL);
    EXPECT_OK(mend_set_limit(w->pool, 10 * MEND_MIB));
    kit_alloc(w, 2 * MEND_MIB, NULL);
    EXPECT_REFUSAL(OUT_OF_MEMORY, "limit of 10.00 MiB", mend_alloc(w->pool, 1, NULL, &none));
    EXPECT_STATS(w, out_of_memory, 2, reserved_bytes, 10 * MEND_MIB, peak_reserved_bytes,
                 10 * MEND_MIB);
}

/* The available size fits, and the next step does not (trials-4, attack F1). */
PLAIN_TEST(the_room_is_what_the_driver_gives, WITHOUT_POOLS, 0)
{
    void *none = NULL;
    mend_available room = MEND_AVAILABLE_INIT;
    kit_alloc(w, 5 * MEND_MIB / 2, NULL);
    EXPECT_OK(mend_free(w->pool, kit_alloc(w, 4 * MEND_MIB, NULL), NULL));
    EXPECT_OK(mend_get_available(w->pool, NULL, &room));
    EXPECT_FIELDS(room, now_bytes, 12 * MEND_MIB, after_waiting_bytes, 12 * MEND_MIB,
                  device_free_bytes, 12 * MEND_MIB);
    EXPECT_REFUSAL(OUT_OF_MEMORY, "the driver has no memory",
                   mend_alloc(w->pool, room.now_bytes + 512, NULL, &none));
    EXPECT_STATS(w, driver_failures, 2);
    mend_sim_set_foreign_bytes(w->sim, 0, MEND_MIB); /* it gives whole steps */
    EXPECT_OK(mend_get_available(w->pool, NULL, &room));
    EXPECT_U64_EQ(10 * MEND_MIB, room.now_bytes);
    kit_alloc(w, room.now_bytes, NULL);
    mend_sim_set_foreign_bytes(w->sim, 0, 0);
}

/* Chunks and plain blocks share one limit and one device, and idle chunks are released for them. */
PLAIN_TEST(chunks_give_what_a_plain_block_lacks, BY_THREAD, 10 * MEND_MIB)
{
    mend_set_alloc_options(NULL, NULL);
    mend_pool *peer = kit_pool(w);
    EXPECT_OK(mend_free(peer, kit_alloc_from(peer, 2 * MEND_MIB, NULL), NULL));
    void *in_chunk = kit_alloc(w, 8 * MEND_MIB, NULL);
    kit_free(w, kit_alloc(w, MEND_MIB, NULL), NULL);
    void *none = NULL;
    KIT_THREAD(.plain = 1);
    EXPECT_ERROR(OUT_OF_MEMORY, mend_alloc(w->pool, 11 * MEND_MIB, NULL, &none));
    EXPECT_STATS(w, reserved_bytes, 9 * MEND_MIB); /* which would not help */
    kit_alloc(w, 2 * MEND_MIB, NULL);
    EXPECT_ERROR(OUT_OF_MEMORY, mend_alloc(w->pool, MEND_MIB, NULL, &none));
    kit_free(w, in_chunk, NULL);
    kit_alloc(w, 8 * MEND_MIB, NULL);
    EXPECT_STATS(w, passed_bytes, 10 * MEND_MIB, reserved_bytes, 10 * MEND_MIB,
                 effective_limit_bytes, 10 * MEND_MIB);
    mend_set_alloc_options(NULL, NULL);
    EXPECT_ERROR(OUT_OF_MEMORY, mend_alloc(w->pool, MEND_MIB, NULL, &none));
    EXPECT_U64_EQ(2 * MEND_MIB, kit_stats(peer).reserved_bytes); /* nor this */
    EXPECT_OK(mend_pool_destroy(peer));
}

/* Above a lowered limit nothing is passed, and a block larger than all chunks gets them all. */
PLAIN_TEST(chunks_count_in_full_for_a_plain_block, BY_THREAD, 10 * MEND_MIB)
{
    void *none = NULL, *blocks[5];
    KIT_THREAD(.in_one_chunk = 1);
    kit_alloc_row(w, blocks, 5, 2 * MEND_MIB, NULL);
    EXPECT_OK(mend_set_limit(w->pool, 3 * MEND_MIB));
    kit_free_row(w, blocks, 5, NULL);
    KIT_THREAD(.plain = 1);
    kit_free(w, kit_alloc(w, 2 * MEND_MIB, NULL), NULL);
    void *in_chunk = kit_alloc_with(w, 2 * MEND_MIB, NULL, .plain = -1);
    EXPECT_OK(mend_set_limit(w->pool, MEND_MIB));
    EXPECT_ERROR(OUT_OF_MEMORY, mend_alloc(w->pool, 512, NULL, &none));
    EXPECT_OK(mend_set_limit(w->pool, 16 * MEND_MIB));
    kit_free(w, in_chunk, NULL);
    mend_sim_set_foreign_bytes(w->sim, 0, 9 * MEND_MIB);
    kit_alloc(w, 6 * MEND_MIB, NULL);
    mend_set_alloc_options(NULL, NULL);
    EXPECT_OK(mend_set_limit(w->pool, 2 * MEND_MIB));
    EXPECT_ERROR(OUT_OF_MEMORY, mend_alloc(w->pool, 512, NULL, &none)); /* nor created */
}

PLAIN_TEST(no_more_chunks_go_than_a_plain_block_lacks, BY_THREAD, 0)
{
    void *blocks[4];
    KIT_THREAD(.in_one_chunk = 1);
    kit_alloc_row(w, blocks, 4, 2 * MEND_MIB, NULL);
    kit_free_row(w, blocks, 4, NULL);
    mend_sim_set_foreign_bytes(w->sim, 0, 7 * MEND_MIB);
    KIT_THREAD(.plain = 1);
    kit_alloc(w, 2 * MEND_MIB, NULL);
    EXPECT_STATS(w, reserved_bytes, 8 * MEND_MIB);
}

/* ... of other pools, and memory that a callback frees, too. */
PLAIN_TEST(a_peer_pool_gives_what_a_plain_block_lacks, BY_THREAD, 0)
{
    mend_pool *peer = kit_pool(w);
    mend_set_alloc_options(NULL, NULL);
    EXPECT_OK(mend_free(peer, kit_alloc_from(peer, 12 * MEND_MIB, NULL), NULL));
    KIT_THREAD(.plain = 1);
    kit_alloc(w, 9 * MEND_MIB, NULL);
    EXPECT_OK(mend_pool_destroy(peer));
}

static int free_block(void *block, mend_pool *pool, KIT_UNUSED uint64_t needed_bytes)
{
    EXPECT_OK(mend_free(pool, *(void **)block, NULL));
    return 1;
}

PLAIN_TEST(a_callback_makes_room, WITHOUT_POOLS, 0)
{
    void *block = kit_alloc(w, 12 * MEND_MIB, NULL);
    EXPECT_OK(mend_add_pressure_callback(w->pool, free_block, &block));
    kit_alloc(w, 8 * MEND_MIB, NULL);
    EXPECT_STATS(w, pressure_calls, 1, live_blocks, 1);
    EXPECT_OK(mend_remove_pressure_callback(w->pool, free_block, &block));
}

PLAIN_TEST(wrong_pointers_are_told, BY_POOLS, 0)
{
    mend_export_token token;
    char *block = kit_alloc(w, MEND_MIB, NULL);
    EXPECT_REFUSAL(INTERIOR_POINTER, "4096 bytes inside", mend_free(w->pool, block + 4096, NULL));
    EXPECT_U64_EQ(MEND_MIB, kit_info(w, block + 4096).usable_bytes);
    EXPECT_ERROR(FOREIGN_POINTER, mend_free(w->pool, block - 1, NULL));
    EXPECT_REFUSAL(NOT_SUPPORTED, "cudaIpcGetMemHandle",
                   mend_export(w->pool, block, NULL, &token, sizeof(token), NULL, NULL));
    kit_free(w, block, NULL);
    EXPECT_ERROR(FOREIGN_POINTER, mend_free(w->pool, block, NULL));
}

/* A driver that refuses leaves all as it was. */
PLAIN_TEST(a_refused_call_changes_nothing, BY_CONFIG, 0)
{
    void *none = NULL;
    void *block = kit_alloc(w, MEND_MIB, NULL);
    kit_fail(w, "plain_alloc", 0, 1, MEND_DRIVER_NOT_PERMITTED);
    EXPECT_ERROR(DRIVER, mend_alloc(w->pool, MEND_MIB, NULL, &none));
    kit_fail(w, "plain_free", 0, 1, MEND_DRIVER_NOT_PERMITTED);
    EXPECT_ERROR(DRIVER, mend_free(w->pool, block, NULL));
    EXPECT_STATS(w, live_blocks, 1, allocations, 1, driver_failures, 2);
    EXPECT_OK(mend_validate(w->pool));
    kit_free(w, block, NULL);
}

/* ... one that has shut down has nothing left. */
KIT_LAST_TEST(pool_plain, memory_of_a_driver_that_shut_down_is_free, open_plain(w, BY_CONFIG, 0))
{
    void *block = kit_alloc(w, MEND_MIB, NULL);
    kit_fail(w, "plain_free", 0, 1, MEND_DRIVER_DEINITIALIZED);
    EXPECT_OK(mend_free(w->pool, block, NULL));
    EXPECT_OK(mend_pool_destroy(w->pool));
}

/* A graph would use the memory after its free. */
PLAIN_TEST(captured_streams_are_refused, BY_THREAD, 0)
{
    void *none = NULL;
    mend_stream stream = kit_stream(w);
    void *block = kit_alloc(w, MEND_MIB, stream);
    kit_begin_capture(w, stream);
    EXPECT_REFUSAL(NOT_SUPPORTED, "a captured stream", mend_alloc(w->pool, 512, stream, &none));
    EXPECT_REFUSAL(NOT_SUPPORTED, "the stream is captured",
                   mend_record_stream(w->pool, block, stream));
    EXPECT_REFUSAL(NOT_SUPPORTED, "the stream is captured", mend_free(w->pool, block, stream));
    EXPECT_OK(mend_free(w->pool, block, NULL)); /* no work of the capture uses it */
    mend_sim_graph_destroy(w->sim, kit_end_capture(w, stream));
}
