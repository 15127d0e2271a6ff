/* Blocks of a named graph pool, at named addresses. A graph pool's blocks as a whole, restored. */
#include "mend/mend_frameworks.h"
#include "mend/mend_sleep.h"
#include "pool/pool.h"
#include "tests/support/kit.h"

enum { MOST_BLOCKS = 64 };

static mend_result alloc_with(mend_world *w, uint64_t size_bytes, mend_stream stream,
                              mend_graph_pool *graph_pool, void *address, void **pointer)
{
    return mend_alloc_with(
        w->pool, size_bytes, stream,
        KIT_OPTIONS(mend_alloc_options, .graph_pool = graph_pool, .address = address, .tag = 7),
        pointer);
}

static void *alloc_in(mend_world *w, uint64_t size_bytes, mend_stream stream,
                      mend_graph_pool *graph_pool)
{
    void *block = NULL;
    EXPECT_OK(alloc_with(w, size_bytes, stream, graph_pool, NULL, &block));
    return block;
}

static void free_in(mend_graph_pool *graph_pool, void *block, mend_stream stream)
{
    EXPECT_OK(mend_graph_pool_free(graph_pool, block, stream));
}

static size_t list(mend_graph_pool *graph_pool, mend_graph_pool_block blocks[MOST_BLOCKS])
{
    size_t count = 0;
    EXPECT_OK(mend_graph_pool_checkpoint(graph_pool, blocks, sizeof(mend_graph_pool_block),
                                         MOST_BLOCKS, &count));
    EXPECT_TRUE(count <= MOST_BLOCKS);
    return count;
}

static void expect_blocks(mend_graph_pool *graph_pool, const mend_graph_pool_block *expected,
                          size_t count)
{
    mend_graph_pool_block blocks[MOST_BLOCKS];
    ASSERT_U64_EQ(count, list(graph_pool, blocks));
    for (size_t i = 0; i < count; i++) {
        EXPECT_PTR_EQ(expected[i].pointer, blocks[i].pointer);
        EXPECT_U64_EQ(expected[i].size_bytes, blocks[i].size_bytes);
        EXPECT_PTR_EQ((void *)expected[i].stream, (void *)blocks[i].stream);
        EXPECT_U64_EQ(expected[i].tag, blocks[i].tag);
    }
}

static mend_result restore(mend_graph_pool *graph_pool, const mend_graph_pool_block *blocks,
                           size_t count)
{
    return mend_graph_pool_restore(graph_pool, blocks, sizeof(*blocks), count);
}

/* A checkpoint that cannot be restored, with a word of the reason. */
static void expect_refusal(mend_graph_pool *graph_pool, const mend_graph_pool_block *blocks,
                           size_t count, const char *words)
{
    mend_graph_pool_block before[MOST_BLOCKS];
    size_t live = list(graph_pool, before);
    EXPECT_INVALID(restore(graph_pool, blocks, count));
    kit_expect_words(words);
    expect_blocks(graph_pool, before, live);
}

#define WORLD_TEST(suite, name)    KIT_TEST_IN(suite, name, kit_open_with(w, 8 * MEND_MIB, NULL))
#define WORLD_64_TEST(suite, name) KIT_TEST_IN(suite, name, kit_open_with(w, 64 * MEND_MIB, NULL))

/* Each block that is cut out of it leaves a part that waits for all of them. */
WORLD_64_TEST(pool_graph_pool_blocks, a_restoration_cuts_memory_that_many_streams_have_used)
{
    enum { STREAMS = 40, BLOCKS = 16 };
    mend_graph_pool *graph_pool = kit_graph_pool(w);
    mend_graph_pool_block blocks[BLOCKS];
    char *all = alloc_in(w, MEND_MIB, S(0), graph_pool);
    for (int i = 0; i < STREAMS; i++) {
        mend_stream stream = NULL;
        EXPECT_OK(mend_sim_stream_create(w->sim, NULL, &stream));
        free_in(graph_pool, alloc_in(w, 512, stream, graph_pool), stream);
        kit_launch(w, stream, MEND_SIM_WORK_TOUCH, all, MEND_MIB, 0, 1000);
        EXPECT_OK(mend_record_stream(w->pool, all, stream));
    }
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = (mend_graph_pool_block){all + (uint64_t)i * 4096 + 512, 512, S(0), 0};
    }
    EXPECT_OK(restore(graph_pool, blocks, BLOCKS));
    expect_blocks(graph_pool, blocks, BLOCKS);
    EXPECT_OK(mend_validate(w->pool));
}

/* A sleep that the driver refused has left the chunk without its mapping. */
WORLD_64_TEST(pool_graph_pool_blocks, a_restoration_maps_again_what_lacks_its_mapping)
{
    mend_graph_pool *graph_pool = kit_graph_pool(w);
    mend_graph_pool_block blocks[MOST_BLOCKS];
    alloc_in(w, 64 * MEND_KIB, S(0), graph_pool);
    void *freed = alloc_in(w, 64 * MEND_KIB, S(0), graph_pool);
    EXPECT_U64_EQ(2, list(graph_pool, blocks));
    free_in(graph_pool, freed, S(0));
    void *between = kit_alloc(w, 16 * MEND_MIB, S(0));
    kit_alloc(w, 16 * MEND_MIB, S(0));
    kit_free(w, between, S(0));
    EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_WAIT, NULL)); /* two segments: two calls to unmap */
    kit_fail(w, "unmap", 1, 1, MEND_DRIVER_UNKNOWN);
    kit_fail(w, "map", 0, 1, MEND_DRIVER_UNKNOWN);
    EXPECT_ERROR(DRIVER, mend_sleep(w->pool, NULL, NULL));
    kit_fail(w, "map", 0, UINT64_MAX, MEND_DRIVER_UNKNOWN);
    EXPECT_ERROR(DRIVER, restore(graph_pool, blocks, 2));
    blocks[0].stream = S(1); /* which is not the same one */
    expect_refusal(graph_pool, blocks, 1, "another block lies there");
    blocks[0].stream = S(0);
    mend_sim_clear_faults(w->sim);
    EXPECT_TRUE(mend_world_stats(w).unmapped_blocks > 0);
    EXPECT_OK(restore(graph_pool, blocks, 2));
    expect_blocks(graph_pool, blocks, 2);
}

/* Nothing but the request tells the pool of this capture: it must not wait for the context. */
KIT_EACH(pool_graph_pool_blocks, a_capture_that_uses_a_named_graph_pool_is_not_spoilt, int,
         may_vanish, 2,
         kit_open_set(w, w->sim_config.memory_bytes = 8 * MEND_MIB,
                      w->pool_config.detect_destroyed_streams = may_vanish))
{
    mend_graph_pool *graph_pool = kit_graph_pool(w);
    free_in(graph_pool, alloc_in(w, 512, S(0), graph_pool), S(0));
    kit_leave_in_flight(w, 3 * MEND_MIB, S(1), 1000, MEND_NO_STREAM);
    kit_begin_capture(w, S(0));
    void *block = alloc_in(w, 4 * MEND_MIB, S(0), graph_pool);
    kit_use(w, S(0), block, 4 * MEND_MIB, 10);
    kit_expect_none(w, 3 * MEND_MIB, S(1), "Ending the capture");
    EXPECT_LEDGER(w, host_syncs, 0);
    mend_sim_graph *graph = kit_end_capture(w, S(0));
    kit_launch_graph(w, graph, S(0));
    kit_free(w, kit_alloc(w, 512, S(0)), S(0)); /* the stream is named: it is asked about */
    kit_alloc_used(w, 3 * MEND_MIB, S(1), 10);
    mend_sim_graph_destroy(w->sim, graph);
}

/* Outside of a capture it is the stream alone that uses the block. */
WORLD_TEST(pool_graph_pool_blocks, a_use_that_no_graph_makes_holds_nothing_for_graphs)
{
    mend_graph_pool *graph_pool = kit_graph_pool(w);
    void *block = kit_alloc(w, 5 * MEND_MIB, S(0));
    EXPECT_OK(mend_graph_pool_record_stream(graph_pool, block, S(1)));
    kit_free(w, block, S(0));
    kit_alloc(w, 5 * MEND_MIB, S(0));
}

WORLD_TEST(pool_graph_pool_blocks, a_block_begins_at_the_address_that_was_named)
{
    char *all = kit_alloc(w, 4 * MEND_MIB, S(0));
    kit_free(w, all, S(0));
    void *block = NULL;
    char *middle = all + MEND_MIB;
    KIT_THREAD(.alignment_bytes = 4 * MEND_MIB); /* the address has its own */
    EXPECT_OK(alloc_with(w, 700, S(0), NULL, middle, &block));
    mend_set_alloc_options(NULL, NULL);
    EXPECT_PTR_EQ(middle, block);
    void *none = NULL;
    EXPECT_ERROR(OUT_OF_ADDRESS_SPACE, /* taken, in part */
                 alloc_with(w, 1024, S(0), NULL, middle - 512, &none));
    EXPECT_ERROR(OUT_OF_ADDRESS_SPACE, /* in use by the other stream */
                 alloc_with(w, 512, S(1), NULL, all, &none));
    EXPECT_ERROR(OUT_OF_ADDRESS_SPACE, /* more than is mapped there */
                 alloc_with(w, 8 * MEND_MIB, S(0), NULL, middle + 1024, &none));
    EXPECT_ERROR(OUT_OF_ADDRESS_SPACE,
                 alloc_with(w, 512, S(0), NULL, (void *)(uintptr_t)512, &none));
    EXPECT_PTR_EQ(NULL, none);
}

WORLD_64_TEST(pool_graph_pool_blocks, they_are_listed_by_address)
{
    mend_graph_pool *graph_pool = kit_graph_pool(w);
    mend_graph_pool *other = kit_graph_pool(w);
    size_t count = 9;
    EXPECT_OK(
        mend_graph_pool_checkpoint(graph_pool, NULL, sizeof(mend_graph_pool_block), 0, &count));
    EXPECT_U64_EQ(0, count);
    mend_graph_pool_block expected[2] = {{NULL, 3 * MEND_MIB, S(1), 7}, {NULL, 600, S(0), 7}};
    for (int i = 0; i < 2; i++) {
        expected[i].pointer = alloc_in(w, expected[i].size_bytes, expected[i].stream, graph_pool);
    }
    alloc_in(w, 512, S(0), other);
    kit_alloc(w, 512, S(0));
    if (expected[0].pointer > expected[1].pointer) {
        mend_graph_pool_block first = expected[1];
        expected[1] = expected[0];
        expected[0] = first;
    }
    expect_blocks(graph_pool, expected, 2);
    mend_graph_pool_block untouched = {.tag = 99};
    EXPECT_OK(mend_graph_pool_checkpoint(graph_pool, &untouched, sizeof(mend_graph_pool_block), 1,
                                         &count));
    EXPECT_U64_EQ(2, count);
    EXPECT_U64_EQ(99, untouched.tag);
    struct {
        mend_graph_pool_block block;
        uint64_t later;
    } newer[2] = {{.later = 5}, {.later = 5}}; /* a caller's elements, larger than ours */
    EXPECT_OK(mend_graph_pool_checkpoint(graph_pool, &newer[0].block, sizeof(newer[0]), 2, &count));
    for (int i = 0; i < 2; i++) {
        EXPECT_PTR_EQ(expected[i].pointer, newer[i].block.pointer);
        EXPECT_U64_EQ(0, newer[i].later);
    }
    free_in(graph_pool, expected[1].pointer, expected[1].stream);
    EXPECT_OK(mend_graph_pool_restore(graph_pool, &newer[0].block, sizeof(newer[0]), 2));
    expect_blocks(graph_pool, expected, 2);
    EXPECT_INVALID(
        mend_graph_pool_checkpoint(graph_pool, NULL, sizeof(mend_graph_pool_block) - 8, 0, &count));
    EXPECT_INVALID(mend_graph_pool_restore(graph_pool, NULL, sizeof(mend_graph_pool_block) - 8, 0));
}

/* As a framework does: two graphs of a tree leave other blocks behind their common one. */
WORLD_64_TEST(pool_graph_pool_blocks, a_checkpoint_is_restored_at_its_addresses)
{
    mend_graph_pool *graph_pool = kit_graph_pool(w);
    mend_graph_pool_block checkpoint[MOST_BLOCKS];
    void *kept = alloc_in(w, MEND_MIB, S(0), graph_pool);
    void *temporary = alloc_in(w, 3 * MEND_MIB, S(0), graph_pool);
    KIT_THREAD(.sleep_tag = 5);
    void *output = kit_alloc_with(w, 700, S(1), .graph_pool = graph_pool);
    mend_set_alloc_options(NULL, NULL);
    kit_use(w, S(0), kept, MEND_MIB, 10);
    free_in(graph_pool, temporary, S(0));
    size_t count = list(graph_pool, checkpoint);
    ASSERT_U64_EQ(2, count);
    free_in(graph_pool, output, S(1));
    void *later = alloc_in(w, 2 * MEND_MIB, S(0), graph_pool); /* where `temporary` was */
    void *beside = kit_alloc_used(w, 512, S(0), 10);
    EXPECT_OK(mend_history_start(w->pool, 16));
    EXPECT_OK(restore(graph_pool, checkpoint, count));
    mend_history_event events[16];
    uint64_t cursor = 0;
    size_t event_count = 0;
    EXPECT_OK(mend_history_read(w->pool, &cursor, events, sizeof(*events), 16, &event_count));
    ASSERT_U64_EQ(2, event_count); /* `later` is freed */
    EXPECT_TRUE(events[1].kind == MEND_EVENT_ALLOC && events[1].tag == 5);
    expect_blocks(graph_pool, checkpoint, count);
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    EXPECT_ERROR(DOUBLE_FREE, mend_get_block_info(w->pool, later, &info));
    EXPECT_OK(mend_get_block_info(w->pool, output, &info));
    EXPECT_FIELDS(info, requested_bytes, 700, sleep_tag, 5);
    EXPECT_OK(mend_validate(w->pool));
    kit_use(w, S(0), kept, MEND_MIB, 10); /* its bytes are those from before */
    kit_use(w, S(0), beside, 512, 10);
    EXPECT_PTR_EQ(temporary, alloc_in(w, 3 * MEND_MIB, S(0), graph_pool));
    EXPECT_OK(restore(graph_pool, NULL, 0));
    expect_blocks(graph_pool, NULL, 0);
}

WORLD_64_TEST(pool_graph_pool_blocks, a_checkpoint_that_cannot_be_restored_changes_nothing)
{
    mend_graph_pool *graph_pool = kit_graph_pool(w);
    char *block = alloc_in(w, 4096, S(0), graph_pool);
    char *freed = alloc_in(w, 4096, S(0), graph_pool);
    char *outside = kit_alloc(w, 4096, S(0));
    free_in(graph_pool, freed, S(0));
    mend_graph_pool_block two[2] = {{block, 4096, S(0), 7}, {freed, 4096, S(0), 7}};
    two[1].pointer = block + 512;
    expect_refusal(graph_pool, two, 2, "overlaps");
    two[1].pointer = freed + 1;
    expect_refusal(graph_pool, two, 2, "no block of a pool begins there");
    two[1].pointer = outside;
    expect_refusal(graph_pool, two, 2, "another block lies there");
    two[1].pointer = (void *)(uintptr_t)4096;
    expect_refusal(graph_pool, two, 2, "not mapped");
    two[1].pointer = freed;
    two[1].size_bytes = 8192; /* free memory, and what is outside behind it */
    expect_refusal(graph_pool, two, 2, "another block lies there");
    two[1].size_bytes = 0;
    expect_refusal(graph_pool, two, 2, "sizes are");
    two[1].size_bytes = UINT64_MAX;
    expect_refusal(graph_pool, two, 2, "sizes are");
    two[1].size_bytes = 4096;
    two[1].pointer = (void *)(UINTPTR_MAX - 4095);
    expect_refusal(graph_pool, two, 2, "no block of a pool begins there");
    two[1].pointer = freed;
    two[1].stream = MEND_NO_STREAM;
    expect_refusal(graph_pool, two, 2, "has a stream");
    two[1].stream = MEND_EVERY_STREAM;
    expect_refusal(graph_pool, two, 2, "has a stream");
    two[1].stream = S(0);
    kit_leave_in_flight(w, 8192, S(1), 1000, S(1));
    mend_graph_pool_block busy = {NULL, 8192, S(0), 0};
    busy.pointer = kit_leave_in_flight(w, 8192, S(1), 1000, S(1));
    expect_refusal(graph_pool, &busy, 1, "work outside of the graph pool");
    EXPECT_INVALID(restore(NULL, two, 2));
    EXPECT_INVALID(restore(graph_pool, NULL, 2));
    free_in(graph_pool, NULL, S(0)); /* which frees nothing */
    EXPECT_OK(restore(graph_pool, two, 2));
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    EXPECT_ERROR(ASLEEP, restore(graph_pool, two, 1));
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    expect_blocks(graph_pool, two, 2);
}

WORLD_64_TEST(pool_graph_pool_blocks, a_block_of_another_stream_is_not_the_same)
{
    mend_graph_pool *graph_pool = kit_graph_pool(w);
    mend_graph_pool_block one = {alloc_in(w, 4096, S(0), graph_pool), 4096, S(1), 3};
    kit_free(w, kit_alloc_with(w, 1000, S(0), .tag = 7), S(0));
    EXPECT_U64_EQ(0, kit_info(w, kit_alloc(w, 1000, S(0))).tag); /* of a tag that is gone */
    EXPECT_OK(restore(graph_pool, &one, 1));
    expect_blocks(graph_pool, &one, 1);
    one.size_bytes = 4095; /* nor is one of another size */
    EXPECT_OK(restore(graph_pool, &one, 1));
    expect_blocks(graph_pool, &one, 1);
}

KIT_SETTING(of_small_chunks, w->placement.chunk_bytes = MEND_MIB);

/* Lists that were never true: the graph pool has moved the chunks of the first block, which cannot
 * return while the other one uses them. */
KIT_TEST_IN(pool_graph_pool_blocks, a_chunk_is_at_one_address,
            kit_open_with(w, 8 * MEND_MIB, of_small_chunks))
{
    mend_graph_pool *graph_pool = kit_graph_pool(w);
    const mend_stream stream = S(0);
    free_in(graph_pool, alloc_in(w, 5 * MEND_MIB, stream, graph_pool), stream);
    mend_graph_pool_block first = {alloc_in(w, 3 * MEND_MIB, stream, graph_pool), 3 * MEND_MIB,
                                   stream, 7};
    mend_graph_pool_block behind = {alloc_in(w, 2 * MEND_MIB, stream, graph_pool), 2 * MEND_MIB,
                                    stream, 7};
    free_in(graph_pool, first.pointer, stream);
    mend_graph_pool_block later = {alloc_in(w, 5 * MEND_MIB, stream, graph_pool), 5 * MEND_MIB,
                                   stream, 7};
    EXPECT_TRUE(mend_world_stats(w).chunks_moved > 0);
    mend_graph_pool_block both[3] = {first, behind, later};
    expect_refusal(graph_pool, both, 3, "another block lies there");
    EXPECT_OK(mend_pin(w->pool, later.pointer, 1));
    expect_refusal(graph_pool, both, 1, "was given to something else"); /* which stays there */
    EXPECT_OK(mend_unpin(w->pool, later.pointer, 1));
    free_in(graph_pool, later.pointer, stream);
    expect_refusal(graph_pool, both, 3, "its memory was at another address");
    EXPECT_OK(restore(graph_pool, both, 2));
    both[1] = later;
    EXPECT_OK(restore(graph_pool, &both[1], 1));
}

WORLD_64_TEST(pool_graph_pool_blocks, restored_blocks_are_of_their_own_streams)
{
    mend_graph_pool *graph_pool = kit_graph_pool(w);
    mend_graph_pool_block two[2] = {{alloc_in(w, 8192, S(0), graph_pool), 8192, S(0), 7},
                                    {alloc_in(w, 8192, S(1), graph_pool), 8192, S(1), 7}};
    free_in(graph_pool, two[0].pointer, S(0));
    free_in(graph_pool, two[1].pointer, S(1));
    const uint64_t placed = mend_world_stats(w).placed_in_run;
    const mend_graph_pool_block last_first[2] = {two[1], two[0]};
    EXPECT_OK(restore(graph_pool, two, 2));
    EXPECT_OK(restore(graph_pool, last_first, 2)); /* nor does their order count */
    EXPECT_OK(restore(graph_pool, two, 2));
    EXPECT_STATS(w, placed_in_run, placed + 2);
    EXPECT_OK(restore(graph_pool, two, 1)); /* the other one is freed on its own stream */
    EXPECT_PTR_EQ(two[1].pointer, alloc_in(w, 8192, S(1), graph_pool));
}

/* It was freed outside of the graph pool, on a stream that is busy. */
WORLD_64_TEST(pool_graph_pool_blocks, memory_that_a_graph_used_is_restored)
{
    mend_graph_pool *graph_pool = kit_graph_pool(w);
    mend_graph_pool_block used = {kit_alloc(w, 8192, S(1)), 8192, S(0), 7};
    kit_begin_capture(w, S(0));
    EXPECT_OK(mend_graph_pool_record_stream(graph_pool, used.pointer, S(0)));
    mend_sim_graph *graph = kit_end_capture(w, S(0));
    kit_launch(w, S(1), MEND_SIM_WORK_TOUCH, used.pointer, 8192, 0, 1000);
    kit_free(w, used.pointer, S(1));
    EXPECT_OK(restore(graph_pool, &used, 1));
    expect_blocks(graph_pool, &used, 1);
    mend_sim_graph_destroy(w->sim, graph);
}

WORLD_64_TEST(pool_graph_pool_blocks, idle_memory_that_no_graph_pool_keeps_is_restored)
{
    mend_graph_pool *graph_pool = kit_graph_pool(w);
    mend_graph_pool_block idle = {kit_alloc(w, 4096, S(0)), 4096, S(0), 7};
    kit_alloc(w, 4096, S(0));
    kit_free(w, idle.pointer, S(0));
    EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_WAIT, NULL));
    EXPECT_OK(restore(graph_pool, &idle, 1));
    expect_blocks(graph_pool, &idle, 1);
}
