/*
 * Continued ends: what no other way serves begins in the free end of one chunk, and ends in the
 * free start of another one. Four chunks of 1 MiB, and no room for a fifth.
 */
#include <string.h>

#include "layout/layout.h"
#include "mend/mend_share.h"
#include "pool/pool.h"
#include "tests/support/kit.h"

#define QUARTER (256 * MEND_KIB)

/* Two neighbouring chunks, with a hole at the end of the first; a chunk with a hole at its start;
 * and a chunk that one block has. Holes may be filled. */
typedef struct scene {
    mend_world w;
    mend_heap *heap;
    mend_stream stream;
    char *first;  /* before the hole */
    char *tail;   /* the hole, or the block there */
    char *second; /* the other chunk */
    char *head;   /* the hole at the start, or the block there */
    char *third;  /* behind it */
    char *fourth; /* the whole chunk */
    char *block;  /* in both holes, where the case begins with it */
} scene;

static char *take(scene *s, uint64_t size_bytes)
{
    return kit_alloc(&s->w, size_bytes, s->stream);
}

static void give(scene *s, const char *block)
{
    kit_free(&s->w, (void *)block, s->stream);
}

static mend_stats stats(scene *s)
{
    return mend_world_stats(&s->w);
}

/* The blocks lie as they are named. `shareable` as in the config; a second device may be there. */
static bool open_scene(scene *s, int devices, int shareable)
{
    mend_world_init(&s->w);
    s->w.sim_config.memory_bytes = 8 * MEND_MIB;
    s->w.sim_config.device_count = devices;
    s->w.pool_config.limit_bytes = 4 * MEND_MIB;
    s->w.pool_config.front_cache = -1;
    s->w.pool_config.shareable = shareable;
    if (!kit_open(&s->w)) {
        return false;
    }
    s->heap = &s->w.pool->heap;
    s->stream = s->w.streams[0];
    char *all = take(s, 2 * MEND_MIB);
    give(s, all);
    s->first = take(s, 3 * QUARTER);
    s->tail = take(s, QUARTER);
    s->second = take(s, 4 * QUARTER);
    give(s, take(s, 4 * QUARTER));
    s->head = take(s, QUARTER);
    s->third = take(s, 3 * QUARTER);
    s->fourth = take(s, 4 * QUARTER);
    EXPECT_TRUE(s->first == all && s->tail == all + 3 * QUARTER && s->second == all + MEND_MIB);
    EXPECT_PTR_EQ(s->head + QUARTER, s->third);
    EXPECT_U64_EQ(4 * MEND_MIB, stats(s).reserved_bytes);
    return mend_world_check(&s->w);
}

/* The placement of a request by aliases; so many there are then, and so many bytes are lent. */
static char *take_by_alias(scene *s, uint64_t size_bytes, uint64_t aliases, uint64_t lent_bytes)
{
    mend_stats before = stats(s);
    char *block = kit_alloc_written(&s->w, size_bytes, s->stream);
    mend_stats after = stats(s);
    EXPECT_U64_EQ(before.placed_by_alias + 1, after.placed_by_alias);
    EXPECT_U64_EQ(aliases, after.aliases);
    EXPECT_U64_EQ(lent_bytes, after.lent_bytes);
    EXPECT_U64_EQ(before.reserved_bytes, after.reserved_bytes);
    EXPECT_U64_EQ(before.live_bytes + size_bytes, after.live_bytes);
    EXPECT_U64_EQ(0, after.host_waits);
    EXPECT_TRUE(mend_world_check(&s->w));
    return block;
}

static bool open_holes(scene *s)
{
    bool is_open = open_scene(s, 1, 0);
    give(s, s->tail);
    give(s, s->head);
    return is_open;
}

static bool open_aliased(scene *s, int devices, int shareable)
{
    bool is_open = open_scene(s, devices, shareable);
    give(s, s->tail);
    give(s, s->head);
    s->block = take_by_alias(s, 2 * QUARTER, 2, 2 * QUARTER);
    return is_open;
}

#define HOLES_TEST(suite, name) KIT_CASE(suite, name, scene, s, open_holes(s), kit_close(&s->w))
#define ALIAS_TEST(suite, name, ...)                                                               \
    KIT_CASE(suite, name, scene, s, open_aliased(s, __VA_ARGS__), kit_close(&s->w))

/* Writes all other blocks, and compares this one: no granule is in two of them. */
static void expect_alone(scene *s, const char *block, uint64_t size_bytes)
{
    kit_write(&s->w, s->stream, s->first, 3 * QUARTER);
    kit_write(&s->w, s->stream, s->second, 4 * QUARTER);
    kit_write(&s->w, s->stream, s->third, 3 * QUARTER);
    kit_verify(&s->w, s->stream, block, size_bytes);
    kit_verify(&s->w, s->stream, s->third, 3 * QUARTER);
    mend_sim_advance(s->w.sim, 1000000);
    EXPECT_TRUE(mend_world_check(&s->w));
}

static mend_room room_of(scene *s)
{
    mend_room room = MEND_ROOM_INIT;
    EXPECT_RESULT(MEND_OK, mend_get_room(s->w.pool, s->stream, &room));
    return room;
}

HOLES_TEST(pool_ends, a_small_request_is_placed_as_a_large_one_at_last)
{
    s->heap->config.placement.small_request_bytes = 2 * QUARTER; /* from here on */
    EXPECT_U64_EQ(2 * QUARTER, room_of(s).after_waiting_bytes);
    expect_alone(s, take_by_alias(s, 2 * QUARTER, 2, 2 * QUARTER), 2 * QUARTER);
}

ALIAS_TEST(pool_ends, another_stream_waits_for_what_was_lent, 1, 0)
{
    kit_use(&s->w, s->stream, s->block, 2 * QUARTER, 1000000);
    give(s, s->block);
    EXPECT_U64_EQ(2 * QUARTER, room_of(s).now_bytes); /* by new ones: this ends the aliases */
    EXPECT_U64_EQ(0, stats(s).aliases);
    kit_alloc_used(&s->w, QUARTER, s->w.streams[1], 1000);
    EXPECT_U64_EQ(1, stats(s).stream_waits);
}

/* A captured graph may know the address of what it freed: that is not lent, and an alias with such
 * memory does not end. */
HOLES_TEST(pool_ends, memory_of_graphs_stays_where_it_is)
{
    const mend_stream captured = s->w.streams[1];
    mend_group *group = kit_begin_captured_group(&s->w, captured);
    kit_free(&s->w, kit_alloc(&s->w, 2 * QUARTER, captured), captured);
    mend_sim_graph *graph = kit_end_captured_group(&s->w, captured, group);
    kit_expect_none(&s->w, 4 * QUARTER, s->stream, "held for graphs");
    EXPECT_RESULT(MEND_OK, mend_trim(s->w.pool, 0, MEND_TRIM_IDLE, NULL));
    EXPECT_U64_EQ(2, stats(s).aliases);
    EXPECT_TRUE(mend_world_check(&s->w));
    mend_sim_graph_destroy(s->w.sim, graph);
    EXPECT_RESULT(MEND_OK, mend_group_destroy(group, s->stream));
    EXPECT_RESULT(MEND_OK, mend_trim(s->w.pool, 0, MEND_TRIM_IDLE, NULL));
    EXPECT_U64_EQ(0, stats(s).aliases);
}

ALIAS_TEST(pool_ends, a_pin_keeps_the_alias_and_its_chunk, 1, 0)
{
    EXPECT_RESULT(MEND_OK, mend_pin(s->w.pool, s->block, 2 * QUARTER));
    EXPECT_U64_EQ(2 * MEND_MIB, stats(s).pinned_bytes);
    give(s, s->block);
    kit_expect_none(&s->w, 4 * QUARTER, s->stream, "");
    EXPECT_U64_EQ(2, stats(s).aliases);
    EXPECT_RESULT(MEND_OK, mend_unpin(s->w.pool, s->block, 2 * QUARTER));
    EXPECT_U64_EQ(0, stats(s).pinned_bytes);
    kit_expect_none(&s->w, 4 * QUARTER, s->stream, "");
    EXPECT_U64_EQ(0, stats(s).aliases);
}

ALIAS_TEST(pool_ends, a_chunk_with_an_alias_stays, 1, 0)
{
    uint64_t released_bytes = 0;
    mend_defrag_report report = MEND_DEFRAG_REPORT_INIT;
    give(s, s->first);
    give(s, s->third);
    EXPECT_U64_EQ(0, stats(s).free_empty_bytes);
    EXPECT_RESULT(MEND_OK, mend_set_limit(s->w.pool, 8 * MEND_MIB)); /* room to copy to */
    EXPECT_RESULT(MEND_OK, mend_defrag(s->w.pool, NULL, &report));
    EXPECT_U64_EQ(0, report.compactions);
    EXPECT_RESULT(MEND_OK, mend_trim(s->w.pool, 0, MEND_TRIM_IDLE, &released_bytes));
    EXPECT_U64_EQ(0, released_bytes);
    kit_verify(&s->w, s->stream, s->block, 2 * QUARTER);
    give(s, s->block);
    EXPECT_RESULT(MEND_OK, mend_defrag(s->w.pool, NULL, &report));
    EXPECT_U64_EQ(0, stats(s).aliases);
    EXPECT_U64_EQ(2 * MEND_MIB, stats(s).free_empty_bytes);
    mend_sim_advance(s->w.sim, 1000000);
    EXPECT_RESULT(MEND_OK, mend_trim(s->w.pool, 0, MEND_TRIM_WAIT, &released_bytes));
    EXPECT_U64_EQ(2 * MEND_MIB, released_bytes);
}

/* A device on which nobody has seen it work. */
HOLES_TEST(pool_ends, are_left_alone_where_aliases_may_not_be_used_at_once)
{
    s->heap->device.aliases_at_once = false;
    kit_expect_none(&s->w, 2 * QUARTER, s->stream, "");
    EXPECT_U64_EQ(0, stats(s).aliases);
    EXPECT_U64_EQ(QUARTER, room_of(s).now_bytes);
}

/* Another process maps the chunks whole, and finds the block at its place in them. Two devices of
 * this process play two processes. */
ALIAS_TEST(pool_ends, another_process_sees_a_block_that_lies_in_aliases, 1, 1)
{
    scene to;
    mend_export_token token;
    void *theirs = NULL;
    ASSERT_TRUE(open_scene(&to, 1, 1));
    give(&to, to.fourth); /* for the mappings */
    ASSERT_RESULT(MEND_OK, mend_export(s->w.pool, s->block, NULL, &token, MEND_EXPORT_TOKEN_BYTES,
                                       NULL, NULL));
    EXPECT_U64_EQ(2 * MEND_MIB, stats(s).exported_bytes);
    EXPECT_TRUE(mend_world_check(&s->w));
    ASSERT_RESULT(MEND_OK, mend_import(to.w.pool, &token, MEND_EXPORT_TOKEN_BYTES, &theirs, NULL));
    kit_write(&s->w, s->stream, s->block, 2 * QUARTER);
    mend_sim_advance(s->w.sim, 1000000);
    EXPECT_TRUE(memcmp(s->block, theirs, 2 * QUARTER) == 0);
    give(s, s->block);
    EXPECT_U64_EQ(0, stats(s).exported_bytes);
    kit_expect_none(&s->w, 4 * QUARTER, s->stream, "");
    EXPECT_U64_EQ(0, stats(s).aliases);
    EXPECT_RESULT(MEND_OK, mend_import_close(to.w.pool, theirs, MEND_NO_STREAM));
    kit_close(&to.w);
}

/* A device that may use the memory from now on may use it at each of its mappings, and these are
 * allowed whole. */
ALIAS_TEST(pool_ends, a_device_that_comes_later_may_use_aliases, 2, 0)
{
    mend_pool *other = NULL;
    mend_pool_config config = s->w.pool_config;
    config.device = 1;
    ASSERT_RESULT(MEND_OK, mend_pool_create(&config, &other));
    EXPECT_U64_EQ(1, stats(s).peer_devices);
    EXPECT_RESULT(MEND_OK, mend_pool_destroy(other));
    EXPECT_TRUE(mend_world_check(&s->w));
}

/* A block begins in an end that is larger than what the memory that may be created lacks. */
KIT_SET_TEST(pool_ends, a_part_of_an_end_is_aligned,
             (w->sim_config.memory_bytes = 8 * MEND_MIB, w->pool_config.limit_bytes = 2 * MEND_MIB,
              w->placement.chunk_bytes = MEND_MIB, w->pool_config.front_cache = -1))
{
    kit_free(w, kit_alloc(w, 2 * MEND_MIB, S(0)), S(0));
    kit_alloc(w, 3 * QUARTER, S(0));
    void *end = kit_alloc(w, QUARTER, S(0));
    kit_alloc(w, MEND_MIB, S(0));
    kit_free(w, end, S(0));
    EXPECT_OK(mend_set_limit(w->pool, 2 * MEND_MIB + QUARTER));
    void *block = kit_alloc_aligned(w, QUARTER + 512, 64 * MEND_KIB, S(0));
    EXPECT_STATS(w, placed_by_alias, 1);
    EXPECT_U64_EQ(0, (uintptr_t)block % (64 * MEND_KIB));
    kit_write(w, S(0), block, QUARTER + 512);
    kit_verify(w, S(0), block, QUARTER + 512);
    EXPECT_TRUE(mend_world_check(w));
}
