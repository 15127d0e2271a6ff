/* Under critical pressure: what making chunks of the right size must not cost. */
#include "tests/support/held.h"
#include "tests/support/kit.h"

/* A pool that uses all of its 64 MiB, and two streams. */
typedef struct full_world {
    mend_world w;
    void *blocks[64];
    int count;
} full_world;

static bool open_critical(full_world *t, uint64_t chunk_bytes, int compact_when_full)
{
    *t = (full_world){.count = 0};
    mend_world_init(&t->w);
    t->w.placement.chunk_bytes = chunk_bytes;
    t->w.placement.small_request_bytes = 4 * MEND_KIB;
    t->w.pool_config.compact_when_full = compact_when_full;
    return kit_open(&t->w);
}

static void fill(full_world *t, uint64_t size_bytes, int count)
{
    for (; count > 0; count--) {
        t->blocks[t->count++] = kit_alloc(&t->w, size_bytes, t->w.streams[0]);
    }
}

static void give(full_world *t, int block)
{
    kit_free(&t->w, t->blocks[block], t->w.streams[0]);
}

MEND_TEST(pool_remake, a_request_that_is_refused_leaves_the_free_chunks)
{
    full_world t;
    ASSERT_TRUE(open_critical(&t, MEND_MIB, 0));
    fill(&t, MEND_MIB, 64);
    give(&t, 10);
    give(&t, 20);
    give(&t, 30);
    void *pointer;
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY,
                  mend_alloc(t.w.pool, 3 * MEND_MIB + 64 * MEND_KIB, t.w.streams[1], &pointer));
    EXPECT_U64_EQ(64 * MEND_MIB, mend_world_stats(&t.w).reserved_bytes);
    EXPECT_U64_EQ(0, mend_world_stats(&t.w).chunks_remade);
    kit_close(&t.w);
}

MEND_TEST(pool_remake, the_chunk_that_is_remade_is_none_that_the_request_needs)
{
    full_world t;
    ASSERT_TRUE(open_critical(&t, 8 * MEND_MIB, 0));
    fill(&t, 8 * MEND_MIB, 6);
    fill(&t, 2 * MEND_MIB, 7);
    fill(&t, MEND_MIB, 2);
    give(&t, 1);
    give(&t, 3);
    give(&t, 9);
    kit_alloc(&t.w, 11 * MEND_MIB, t.w.streams[1]);
    mend_stats stats = mend_world_stats(&t.w);
    EXPECT_U64_EQ(1, stats.chunks_remade);
    EXPECT_U64_EQ(0, stats.free_partial_bytes);
    EXPECT_U64_EQ(57 * MEND_MIB, stats.reserved_bytes); /* 8 were given back, and 1 was made */
    kit_close(&t.w);
}

/* The limit lies so far below that room for less than the chunk would not do. */
MEND_TEST(pool_remake, a_chunk_that_brings_no_room_is_not_given_back)
{
    full_world t;
    ASSERT_TRUE(open_critical(&t, MEND_MIB, 0));
    fill(&t, MEND_MIB, 64);
    ASSERT_RESULT(MEND_OK, mend_set_limit(t.w.pool, 32 * MEND_MIB));
    give(&t, 10);
    kit_alloc(&t.w, 512 * MEND_KIB, t.w.streams[1]);
    EXPECT_U64_EQ(0, mend_world_stats(&t.w).chunks_remade);
    kit_close(&t.w);
}

/* Above the room that compactions are to have, likewise. */
MEND_TEST(pool_remake, room_kept_for_compactions_is_none_for_a_remade_chunk)
{
    full_world t;
    ASSERT_TRUE(open_critical(&t, MEND_MIB, 1));
    fill(&t, MEND_MIB, 64);
    give(&t, 10);
    kit_alloc(&t.w, 512 * MEND_KIB, t.w.streams[1]);
    EXPECT_U64_EQ(0, mend_world_stats(&t.w).chunks_remade);
    kit_close(&t.w);
}

/* The run that is grown begins with memory of another stream, which the block does not take. */
MEND_TEST(pool_remake, a_block_waits_for_nothing_that_lies_before_it_in_its_run)
{
    full_world t;
    ASSERT_TRUE(open_critical(&t, MEND_MIB, 0));
    fill(&t, 7 * MEND_MIB, 1);
    fill(&t, MEND_MIB, 1);
    give(&t, 1);
    fill(&t, 892 * MEND_KIB, 1);
    void *before = kit_alloc(&t.w, 4 * MEND_KIB, t.w.streams[1]);
    void *base = kit_alloc(&t.w, 128 * MEND_KIB, t.w.streams[0]);
    ASSERT_TRUE((char *)base == (char *)before + 4 * MEND_KIB);
    kit_launch(&t.w, t.w.streams[1], MEND_SIM_WORK_WRITE, before, 4 * MEND_KIB, 1, 1000000);
    kit_free(&t.w, before, t.w.streams[1]);
    kit_free(&t.w, base, t.w.streams[0]);
    void *grown = kit_alloc(&t.w, 512 * MEND_KIB, t.w.streams[0]);
    EXPECT_PTR_EQ(base, grown);
    kit_free(&t.w, grown, t.w.streams[0]);
    void *again = kit_alloc(&t.w, 512 * MEND_KIB, t.w.streams[0]);
    EXPECT_PTR_EQ(grown, again); /* memory freed in the order of the stream is ready for it */
    EXPECT_U64_EQ(0, mend_world_stats(&t.w).stream_waits);
    mend_sim_advance(t.w.sim, 2000000);
    kit_close(&t.w);
}

/* It would end the windows in which is seen what is in use. */
MEND_TEST(pool_remake, what_no_limit_allows_is_not_asked_for)
{
    full_world t;
    ASSERT_TRUE(open_critical(&t, MEND_MIB, 0));
    fill(&t, MEND_MIB, 64);
    void *pointer;
    give(&t, 10);
    for (int i = 0; i < 3; i++) {
        EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY,
                      mend_alloc(t.w.pool, MEND_GIB, t.w.streams[1], &pointer));
    }
    pointer = kit_alloc(&t.w, 512 * MEND_KIB, t.w.streams[1]);
    EXPECT_U64_EQ(1, mend_world_stats(&t.w).chunks_remade);
    kit_close(&t.w);
}

typedef struct request {
    mend_world *w;
    uint64_t size_bytes;
    mend_stream stream;
    mend_result result;
    void *pointer;
} request;

static void allocate(void *argument)
{
    request *r = argument;
    r->result = mend_alloc(r->w->pool, r->size_bytes, r->stream, &r->pointer);
}

/* Empty chunks are kept, but no thread waits for a busy driver because of that. */
MEND_TEST(pool_remake, while_another_makes_room_a_whole_chunk_is_broken_at_once)
{
    full_world t;
    ASSERT_TRUE(open_critical(&t, MEND_MIB, 0));
    fill(&t, MEND_MIB, 64);
    for (int i = 10; i < 20; i += 2) {
        give(&t, i);
    }
    request slow = {&t.w, 2 * MEND_MIB, t.w.streams[0], MEND_OK, NULL};
    mend_held held;
    ASSERT_TRUE(mend_held_begin(&held, t.w.sim, 1, allocate, &slow));
    request fast = {&t.w, 512 * MEND_KIB, t.w.streams[0], MEND_OK, NULL};
    allocate(&fast);
    EXPECT_RESULT(MEND_OK, fast.result);
    EXPECT_U64_EQ(60, mend_world_stats(&t.w).live_blocks); /* the slow one has none yet */
    mend_held_end(&held);
    EXPECT_RESULT(MEND_OK, slow.result);
    kit_close(&t.w);
}
