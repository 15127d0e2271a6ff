/*
 * Continued ends: what no other way serves begins in the free end of one chunk, and ends in the
 * free start of another one. Four chunks of 1 MiB, and no room for a fifth.
 */
#include <string.h>

#include "layout/locate.h"
#include "mend/mend_share.h"
#include "mend/mend_sleep.h"
#include "pool/pool.h"
#include "tests/support/kit.h"

#define QUARTER (256 * MEND_KIB)

/* Two neighbouring chunks, with a hole at the end of the first; a chunk with a hole at its start;
 * and a chunk that one block has. Holes may be filled. */
typedef struct scene {
    mend_world w;
    mend_heap *heap;
    char *first;  /* before the hole */
    char *tail;   /* the hole, or the block there */
    char *second; /* the other chunk */
    char *head;   /* the hole at the start, or the block there */
    char *third;  /* behind it */
    char *fourth; /* the whole chunk */
} scene;

static void configure(mend_world *w)
{
    w->pool_config.limit_bytes = 4 * MEND_MIB;
    w->placement.chunk_bytes = MEND_MIB;
    w->pool_config.front_cache = -1;
}

static char *take(scene *s, uint64_t size_bytes)
{
    return kit_alloc(&s->w, size_bytes, s->w.streams[0]);
}

static void give(scene *s, const char *block)
{
    kit_free(&s->w, (void *)block, s->w.streams[0]);
}

/* The blocks lie as they are named. */
static bool fill(scene *s)
{
    s->heap = &s->w.pool->heap;
    char *all = take(s, 2 * MEND_MIB);
    give(s, all);
    s->first = take(s, 3 * QUARTER);
    s->tail = take(s, QUARTER);
    s->second = take(s, 4 * QUARTER);
    give(s, take(s, 4 * QUARTER));
    s->head = take(s, QUARTER);
    s->third = take(s, 3 * QUARTER);
    s->fourth = take(s, 4 * QUARTER);
    EXPECT_PTR_EQ(all, s->first);
    EXPECT_PTR_EQ(all + 3 * QUARTER, s->tail);
    EXPECT_PTR_EQ(all + MEND_MIB, s->second);
    EXPECT_PTR_EQ(s->head + QUARTER, s->third);
    EXPECT_U64_EQ(4 * MEND_MIB, mend_world_stats(&s->w).reserved_bytes);
    return mend_world_check(&s->w);
}

static bool open_with(scene *s, void (*prepare)(mend_world *))
{
    return kit_open_with(&s->w, 8 * MEND_MIB, prepare) && fill(s);
}

static bool open_scene(scene *s)
{
    return open_with(s, configure);
}

/* The placement of a request by aliases; so many there are then, and so many bytes are lent. */
static char *take_by_alias(scene *s, uint64_t size_bytes, uint64_t aliases, uint64_t lent_bytes)
{
    mend_stats before = mend_world_stats(&s->w);
    char *block = kit_alloc_written(&s->w, size_bytes, s->w.streams[0]);
    mend_stats after = mend_world_stats(&s->w);
    EXPECT_U64_EQ(before.placed_by_alias + 1, after.placed_by_alias);
    EXPECT_U64_EQ(aliases, after.aliases);
    EXPECT_U64_EQ(lent_bytes, after.lent_bytes);
    EXPECT_U64_EQ(before.reserved_bytes, after.reserved_bytes);
    EXPECT_U64_EQ(before.live_bytes + size_bytes, after.live_bytes);
    EXPECT_U64_EQ(0, after.host_waits);
    EXPECT_TRUE(mend_world_check(&s->w));
    return block;
}

/* Writes all other blocks, and compares this one: no granule is in two of them. */
static void expect_alone(scene *s, const char *block, uint64_t size_bytes)
{
    const mend_stream stream = s->w.streams[0];
    kit_write(&s->w, stream, s->first, 3 * QUARTER);
    kit_write(&s->w, stream, s->second, 4 * QUARTER);
    kit_write(&s->w, stream, s->third, 3 * QUARTER);
    kit_verify(&s->w, stream, block, size_bytes);
    kit_verify(&s->w, stream, s->third, 3 * QUARTER);
    mend_sim_advance(s->w.sim, 1000000);
    EXPECT_TRUE(mend_world_check(&s->w));
}

MEND_TEST(pool_ends, a_block_begins_in_one_chunk_and_ends_in_another)
{
    scene s;
    ASSERT_TRUE(open_scene(&s));
    give(&s, s.tail);
    give(&s, s.head);
    char *block = take_by_alias(&s, 2 * QUARTER, 2, 2 * QUARTER);
    expect_alone(&s, block, 2 * QUARTER);
    kit_close(&s.w);
}

MEND_TEST(pool_ends, a_small_request_is_placed_as_a_large_one_at_last)
{
    scene s;
    mend_room room = MEND_ROOM_INIT;
    ASSERT_TRUE(open_scene(&s));
    give(&s, s.tail);
    give(&s, s.head);
    s.heap->config.placement.small_request_bytes = 2 * QUARTER; /* from here on */
    EXPECT_RESULT(MEND_OK, mend_get_room(s.w.pool, s.w.streams[0], &room));
    EXPECT_U64_EQ(2 * QUARTER, room.after_waiting_bytes);
    char *block = take_by_alias(&s, 2 * QUARTER, 2, 2 * QUARTER);
    expect_alone(&s, block, 2 * QUARTER);
    kit_close(&s.w);
}

MEND_TEST(pool_ends, what_lies_at_two_addresses_stays_awake)
{
    scene s;
    mend_sleep_report report = MEND_SLEEP_REPORT_INIT;
    ASSERT_TRUE(open_scene(&s));
    give(&s, s.tail);
    give(&s, s.head);
    char *block = take_by_alias(&s, 2 * QUARTER, 2, 2 * QUARTER);
    EXPECT_RESULT(MEND_OK, mend_sleep(s.w.pool, NULL, &report));
    EXPECT_U64_EQ(MEND_MIB + 4 * QUARTER, report.asleep_bytes); /* the second and the fourth */
    EXPECT_U64_EQ(3 * QUARTER + 3 * QUARTER + 2 * QUARTER, report.mapped_bytes);
    EXPECT_U64_EQ(report.mapped_bytes, report.stayed_bytes);
    EXPECT_TRUE(mend_world_check(&s.w));
    EXPECT_RESULT(MEND_OK, mend_wake(s.w.pool, NULL, 0, NULL));
    expect_alone(&s, block, 2 * QUARTER);
    kit_close(&s.w);
}

MEND_TEST(pool_ends, the_end_of_a_chunk_goes_before_whole_ones)
{
    scene s;
    ASSERT_TRUE(open_scene(&s));
    give(&s, s.tail);
    give(&s, s.fourth);
    char *block = take_by_alias(&s, 5 * QUARTER, 1, QUARTER);
    EXPECT_U64_EQ(1, mend_world_stats(&s.w).chunks_moved);
    expect_alone(&s, block, 5 * QUARTER);
    kit_close(&s.w);
}

MEND_TEST(pool_ends, a_run_that_grows_ends_in_the_start_of_a_chunk)
{
    scene s;
    ASSERT_TRUE(open_scene(&s));
    give(&s, s.head);
    give(&s, s.fourth);
    char *block = take_by_alias(&s, 5 * QUARTER, 1, QUARTER);
    EXPECT_PTR_EQ(s.fourth, block);
    EXPECT_U64_EQ(0, mend_world_stats(&s.w).chunks_moved);
    expect_alone(&s, block, 5 * QUARTER);
    kit_close(&s.w);
}

MEND_TEST(pool_ends, no_more_is_lent_than_the_block_needs)
{
    scene s;
    ASSERT_TRUE(open_scene(&s));
    give(&s, s.tail);
    give(&s, s.fourth);
    char *block = take_by_alias(&s, 4 * QUARTER + 1536, 1, 1536);
    expect_alone(&s, block, 4 * QUARTER + 1536);
    EXPECT_PTR_EQ(s.tail, take(&s, QUARTER - 1536)); /* the rest serves where it is */
    kit_close(&s.w);
}

MEND_TEST(pool_ends, a_block_is_aligned)
{
    scene s;
    ASSERT_TRUE(open_scene(&s));
    const mend_stream stream = s.w.streams[0];
    give(&s, s.tail);
    give(&s, s.head);
    give(&s, s.fourth);
    uint64_t size_bytes = 4 * QUARTER + 512;
    char *block = kit_alloc_aligned(&s.w, size_bytes, 128 * MEND_KIB, stream);
    EXPECT_U64_EQ(0, (uintptr_t)block % (128 * MEND_KIB));
    kit_write(&s.w, stream, block, size_bytes);
    kit_verify(&s.w, stream, block, size_bytes);
    EXPECT_U64_EQ(1, mend_world_stats(&s.w).placed_by_alias);
    give(&s, block);
    /* No run of the size begins where this is aligned: it begins in a chunk moved there. */
    block = kit_alloc_aligned(&s.w, size_bytes, MEND_GIB, stream);
    EXPECT_U64_EQ(0, (uintptr_t)block % MEND_GIB);
    EXPECT_U64_EQ(2, mend_world_stats(&s.w).placed_by_alias);
    EXPECT_U64_EQ(512, mend_world_stats(&s.w).lent_bytes);
    kit_close(&s.w);
}

MEND_TEST(pool_ends, the_next_step_finds_the_place_without_a_driver_call)
{
    scene s;
    ASSERT_TRUE(open_scene(&s));
    give(&s, s.tail);
    give(&s, s.head);
    char *block = take_by_alias(&s, 2 * QUARTER, 2, 2 * QUARTER);
    give(&s, block);
    uint64_t maps = mend_world_ledger(&s.w).mappings;
    EXPECT_PTR_EQ(block, take(&s, 2 * QUARTER));
    EXPECT_U64_EQ(maps, mend_world_ledger(&s.w).mappings);
    EXPECT_U64_EQ(1, mend_world_stats(&s.w).placed_by_alias);
    kit_close(&s.w);
}

/* What was freed through the alias is free at the chunk, and the mapping goes behind its fence. */
MEND_TEST(pool_ends, an_alias_without_blocks_ends_when_room_is_short)
{
    scene s;
    ASSERT_TRUE(open_scene(&s));
    const mend_stream stream = s.w.streams[0];
    give(&s, s.tail);
    give(&s, s.head);
    char *block = take_by_alias(&s, 2 * QUARTER, 2, 2 * QUARTER);
    kit_launch(&s.w, stream, MEND_SIM_WORK_TOUCH, block, 2 * QUARTER, 0, 1000000);
    give(&s, block);
    give(&s, s.first);
    EXPECT_PTR_EQ(s.first, take(&s, 4 * QUARTER)); /* with the tail, which was lent */
    EXPECT_U64_EQ(0, mend_world_stats(&s.w).aliases);
    EXPECT_U64_EQ(0, mend_world_stats(&s.w).lent_bytes);
    EXPECT_U64_EQ(2 * MEND_MIB, mend_world_stats(&s.w).retired_bytes);
    EXPECT_TRUE(mend_world_check(&s.w));
    kit_close(&s.w);
}

/* Memory that another stream used through an alias is not idle before that use is over. */
MEND_TEST(pool_ends, another_stream_waits_for_what_was_lent)
{
    scene s;
    ASSERT_TRUE(open_scene(&s));
    give(&s, s.tail);
    give(&s, s.head);
    char *block = take_by_alias(&s, 2 * QUARTER, 2, 2 * QUARTER);
    kit_use(&s.w, s.w.streams[0], block, 2 * QUARTER, 1000000);
    give(&s, block);
    mend_room room = MEND_ROOM_INIT;
    EXPECT_RESULT(MEND_OK, mend_get_room(s.w.pool, s.w.streams[0], &room)); /* ends the aliases */
    EXPECT_U64_EQ(0, mend_world_stats(&s.w).aliases);
    EXPECT_U64_EQ(2 * QUARTER, room.now_bytes); /* by new ones */
    char *tail = kit_alloc(&s.w, QUARTER, s.w.streams[1]);
    kit_use(&s.w, s.w.streams[1], tail, QUARTER, 1000);
    EXPECT_U64_EQ(1, mend_world_stats(&s.w).stream_waits);
    kit_close(&s.w);
}

/* Behind a wait on the device, ends that another stream freed are continued, too. */
MEND_TEST(pool_ends, ends_of_another_stream_are_continued_behind_a_wait)
{
    scene s;
    ASSERT_TRUE(open_scene(&s));
    const mend_stream other = s.w.streams[1];
    kit_use(&s.w, s.w.streams[0], s.tail, QUARTER, 1000000);
    kit_use(&s.w, s.w.streams[0], s.head, QUARTER, 1000000);
    give(&s, s.tail);
    give(&s, s.head);
    char *block = kit_alloc(&s.w, 2 * QUARTER, other);
    kit_use(&s.w, other, block, 2 * QUARTER, 1000);
    kit_expect_waits(&s.w, 1, 0);
    EXPECT_U64_EQ(1, mend_world_stats(&s.w).placed_by_alias);
    EXPECT_TRUE(mend_world_check(&s.w));
    kit_close(&s.w);
}

/* A captured graph may know the address of what it freed: that is not lent, and an alias with such
 * memory does not end. */
MEND_TEST(pool_ends, memory_of_graphs_stays_where_it_is)
{
    scene s;
    ASSERT_TRUE(open_scene(&s));
    const mend_stream stream = s.w.streams[0];
    const mend_stream captured = s.w.streams[1];
    give(&s, s.tail);
    give(&s, s.head);
    mend_group *group = kit_begin_captured_group(&s.w, captured);
    char *block = kit_alloc(&s.w, 2 * QUARTER, captured);
    EXPECT_U64_EQ(2, mend_world_stats(&s.w).aliases);
    kit_free(&s.w, block, captured);
    mend_sim_graph *graph = kit_end_captured_group(&s.w, captured, group);
    kit_expect_none(&s.w, 4 * QUARTER, stream, "held for graphs");
    EXPECT_U64_EQ(2, mend_world_stats(&s.w).aliases);
    uint64_t released_bytes = 0;
    EXPECT_RESULT(MEND_OK, mend_trim(s.w.pool, 0, &released_bytes));
    EXPECT_U64_EQ(2, mend_world_stats(&s.w).aliases);
    EXPECT_TRUE(mend_world_check(&s.w));
    mend_sim_graph_destroy(s.w.sim, graph);
    EXPECT_RESULT(MEND_OK, mend_group_release(group, stream));
    EXPECT_RESULT(MEND_OK, mend_trim(s.w.pool, 0, &released_bytes));
    EXPECT_U64_EQ(0, mend_world_stats(&s.w).aliases);
    kit_close(&s.w);
}

MEND_TEST(pool_ends, a_pin_keeps_the_alias_and_its_chunk)
{
    scene s;
    ASSERT_TRUE(open_scene(&s));
    give(&s, s.tail);
    give(&s, s.head);
    char *block = take_by_alias(&s, 2 * QUARTER, 2, 2 * QUARTER);
    EXPECT_RESULT(MEND_OK, mend_pin(s.w.pool, block, 2 * QUARTER));
    EXPECT_U64_EQ(2 * MEND_MIB, mend_world_stats(&s.w).pinned_bytes);
    give(&s, block);
    kit_expect_none(&s.w, 4 * QUARTER, s.w.streams[0], "");
    EXPECT_U64_EQ(2, mend_world_stats(&s.w).aliases);
    EXPECT_TRUE(mend_world_check(&s.w));
    EXPECT_RESULT(MEND_OK, mend_unpin(s.w.pool, block, 2 * QUARTER));
    EXPECT_U64_EQ(0, mend_world_stats(&s.w).pinned_bytes);
    kit_expect_none(&s.w, 4 * QUARTER, s.w.streams[0], "");
    EXPECT_U64_EQ(0, mend_world_stats(&s.w).aliases);
    kit_close(&s.w);
}

/* A chunk with an alias is never empty, and is not compacted; the one without may be. */
MEND_TEST(pool_ends, a_chunk_with_an_alias_stays)
{
    scene s;
    ASSERT_TRUE(open_scene(&s));
    give(&s, s.tail);
    give(&s, s.head);
    char *block = take_by_alias(&s, 2 * QUARTER, 2, 2 * QUARTER);
    give(&s, s.first);
    give(&s, s.third);
    EXPECT_U64_EQ(0, mend_world_stats(&s.w).free_empty_bytes);
    EXPECT_RESULT(MEND_OK, mend_set_limit(s.w.pool, 8 * MEND_MIB)); /* room to copy to */
    mend_defrag_limits limits = MEND_DEFRAG_LIMITS_INIT;
    mend_defrag_report report = MEND_DEFRAG_REPORT_INIT;
    EXPECT_RESULT(MEND_OK, mend_defrag(s.w.pool, &limits, &report));
    EXPECT_U64_EQ(0, report.compactions);
    uint64_t released_bytes = 0;
    EXPECT_RESULT(MEND_OK, mend_trim(s.w.pool, 0, &released_bytes));
    EXPECT_U64_EQ(0, released_bytes);
    kit_verify(&s.w, s.w.streams[0], block, 2 * QUARTER);
    give(&s, block);
    EXPECT_RESULT(MEND_OK, mend_defrag(s.w.pool, &limits, &report));
    EXPECT_U64_EQ(0, mend_world_stats(&s.w).aliases);
    EXPECT_U64_EQ(2 * MEND_MIB, mend_world_stats(&s.w).free_empty_bytes);
    mend_sim_advance(s.w.sim, 1000000);
    EXPECT_RESULT(MEND_OK, mend_trim_wait(s.w.pool, 0, &released_bytes));
    EXPECT_U64_EQ(2 * MEND_MIB, released_bytes);
    kit_close(&s.w);
}

/* The answer counts with the rung, and is exact. */
MEND_TEST(pool_ends, room_is_what_a_request_gets)
{
    scene s;
    ASSERT_TRUE(open_scene(&s));
    give(&s, s.tail);
    give(&s, s.head);
    give(&s, s.fourth);
    mend_room room = MEND_ROOM_INIT;
    ASSERT_RESULT(MEND_OK, mend_get_room(s.w.pool, s.w.streams[0], &room));
    EXPECT_U64_EQ(6 * QUARTER, room.now_bytes);
    kit_expect_none(&s.w, 6 * QUARTER + 512, s.w.streams[0], "");
    char *block = take(&s, 6 * QUARTER);
    expect_alone(&s, block, 0);
    kit_close(&s.w);
}

/* The pool ends with blocks in aliases, and with aliases that nothing uses. */
MEND_TEST(pool_ends, a_pool_ends_with_aliases)
{
    scene s;
    ASSERT_TRUE(open_scene(&s));
    give(&s, s.tail);
    give(&s, s.head);
    take_by_alias(&s, 2 * QUARTER, 2, 2 * QUARTER);
    kit_close(&s.w);
    ASSERT_TRUE(open_scene(&s));
    give(&s, s.tail);
    give(&s, s.head);
    give(&s, take_by_alias(&s, 2 * QUARTER, 2, 2 * QUARTER));
    kit_close(&s.w);
}

/* A device on which nobody has seen it work. */
MEND_TEST(pool_ends, are_left_alone_where_aliases_may_not_be_used_at_once)
{
    scene s;
    ASSERT_TRUE(open_scene(&s));
    s.heap->device.aliases_at_once = false;
    give(&s, s.tail);
    give(&s, s.head);
    kit_expect_none(&s.w, 2 * QUARTER, s.w.streams[0], "");
    EXPECT_U64_EQ(0, mend_world_stats(&s.w).aliases);
    mend_room room = MEND_ROOM_INIT;
    ASSERT_RESULT(MEND_OK, mend_get_room(s.w.pool, s.w.streams[0], &room));
    EXPECT_U64_EQ(QUARTER, room.now_bytes);
    kit_close(&s.w);
}

/* There a run that can grow counts all the same. */
MEND_TEST(pool_ends, a_run_that_grows_is_room_without_aliases)
{
    mend_world w;
    ASSERT_TRUE(kit_open_with(&w, 8 * MEND_MIB, configure));
    w.pool->heap.device.aliases_at_once = false;
    kit_free(&w, kit_alloc(&w, 4 * QUARTER, w.streams[0]), w.streams[0]);
    kit_alloc(&w, 3 * QUARTER, w.streams[0]);
    mend_room room = MEND_ROOM_INIT;
    ASSERT_RESULT(MEND_OK, mend_get_room(w.pool, w.streams[0], &room));
    EXPECT_U64_EQ(13 * QUARTER, room.now_bytes);
    kit_alloc(&w, 13 * QUARTER, w.streams[0]);
    EXPECT_U64_EQ(1, mend_world_stats(&w).placed_by_extension);
    kit_close(&w);
}

/* What is lent is no block: not to be freed, not to be asked about. */
MEND_TEST(pool_ends, what_is_lent_is_no_block)
{
    scene s;
    ASSERT_TRUE(open_scene(&s));
    give(&s, s.tail);
    give(&s, s.head);
    char *block = take_by_alias(&s, 2 * QUARTER, 2, 2 * QUARTER);
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    EXPECT_TRUE(mend_get_block_info(s.w.pool, s.tail, &info) != MEND_OK);
    EXPECT_RESULT(MEND_ERROR_DOUBLE_FREE, mend_free(s.w.pool, s.tail, s.w.streams[0]));
    EXPECT_RESULT(MEND_ERROR_DOUBLE_FREE, mend_free(s.w.pool, s.tail + 512, s.w.streams[0]));
    /* The rest of an alias's mapping is no memory of the pool. */
    EXPECT_RESULT(MEND_ERROR_FOREIGN_POINTER, mend_free(s.w.pool, block - 512, s.w.streams[0]));
    EXPECT_RESULT(MEND_ERROR_FOREIGN_POINTER,
                  mend_free(s.w.pool, block + 2 * QUARTER, s.w.streams[0]));
    kit_close(&s.w);
}

static void share(mend_world *w)
{
    configure(w);
    w->pool_config.shareable = 1;
}

/* Another process maps the chunks whole, and finds the block at its place in them. Two devices of
 * this process play two processes. */
MEND_TEST(pool_ends, another_process_sees_a_block_that_lies_in_aliases)
{
    scene s;
    mend_world to;
    ASSERT_TRUE(open_with(&s, share));
    ASSERT_TRUE(kit_open_with(&to, 8 * MEND_MIB, share));
    give(&s, s.tail);
    give(&s, s.head);
    char *ours = take_by_alias(&s, 2 * QUARTER, 2, 2 * QUARTER);
    mend_export_token token;
    void *theirs = NULL;
    ASSERT_RESULT(MEND_OK, mend_export(s.w.pool, ours, &token, NULL));
    EXPECT_U64_EQ(2 * MEND_MIB, mend_world_stats(&s.w).exported_bytes);
    EXPECT_TRUE(mend_world_check(&s.w));
    ASSERT_RESULT(MEND_OK, mend_import(to.pool, &token, &theirs, NULL));
    kit_write(&s.w, s.w.streams[0], ours, 2 * QUARTER);
    mend_sim_advance(s.w.sim, 1000000);
    EXPECT_TRUE(memcmp(ours, theirs, 2 * QUARTER) == 0);
    give(&s, ours);
    EXPECT_U64_EQ(0, mend_world_stats(&s.w).exported_bytes);
    kit_expect_none(&s.w, 4 * QUARTER, s.w.streams[0], "");
    EXPECT_U64_EQ(0, mend_world_stats(&s.w).aliases);
    EXPECT_RESULT(MEND_OK, mend_import_close(to.pool, theirs, MEND_NO_STREAM));
    kit_close(&to);
    kit_close(&s.w);
}

/* A device that may use the memory from now on may use it at each of its mappings, and these are
 * allowed whole. */
MEND_TEST(pool_ends, a_device_that_comes_later_may_use_aliases)
{
    scene s;
    mend_pool *other = NULL;
    mend_world_init(&s.w);
    s.w.sim_config.memory_bytes = 8 * MEND_MIB;
    s.w.sim_config.device_count = 2;
    configure(&s.w);
    ASSERT_TRUE(kit_open(&s.w) && fill(&s));
    give(&s, s.tail);
    give(&s, s.head);
    take_by_alias(&s, 2 * QUARTER, 2, 2 * QUARTER);
    mend_pool_config config = s.w.pool_config;
    config.device = 1;
    ASSERT_RESULT(MEND_OK, mend_pool_create(&config, &other));
    EXPECT_U64_EQ(1, mend_world_stats(&s.w).peer_devices);
    EXPECT_RESULT(MEND_OK, mend_pool_destroy(other));
    EXPECT_TRUE(mend_world_check(&s.w));
    kit_close(&s.w);
}
