/* mend_defrag: what lives in partly used chunks is copied together; addresses and bytes stay, what
 * is gained serves any request, limits are kept, and what must not move does not. */
#include <string.h>

#include "tests/support/held.h"
#include "tests/support/kit.h"

#define PAGE  (64 * MEND_KIB)
#define CHUNK MEND_MIB
#define BLOCK (128 * MEND_KIB)
enum { BLOCKS_OF_CHUNK = 8, CHUNKS = 4, BLOCKS = CHUNKS * BLOCKS_OF_CHUNK };

typedef struct rig {
    mend_world w;
    void *blocks[BLOCKS];
} rig;

static bool open_rig(rig *r, uint64_t memory_bytes)
{
    *r = (rig){.blocks = {NULL}};
    return kit_open_with(&r->w, memory_bytes, NULL);
}

/* Four full chunks side by side. */
static void fill(rig *r)
{
    void *all = kit_alloc_written(&r->w, CHUNKS * CHUNK, r->w.streams[0]);
    kit_release(&r->w, all, CHUNKS * CHUNK, r->w.streams[0]);
    for (int i = 0; i < BLOCKS; i++) {
        r->blocks[i] = kit_alloc_written(&r->w, BLOCK, r->w.streams[0]);
    }
}

/* In each chunk one block is left. */
static void thin_out(rig *r)
{
    for (int i = 0; i < BLOCKS; i++) {
        if (i % BLOCKS_OF_CHUNK != 3) {
            kit_release(&r->w, r->blocks[i], BLOCK, r->w.streams[0]);
            r->blocks[i] = NULL;
        }
    }
}

static void close_rig(rig *r)
{
    kit_release_row(&r->w, r->blocks, BLOCKS, BLOCK, r->w.streams[0]);
    kit_close(&r->w);
}

static mend_defrag_report defrag(rig *r, const mend_defrag_limits *limits)
{
    mend_defrag_report report = MEND_DEFRAG_REPORT_INIT;
    EXPECT_RESULT(MEND_OK, mend_defrag(r->w.pool, limits, &report));
    mend_world_check(&r->w);
    return report;
}

MEND_TEST(pool_defrag, addresses_and_bytes_stay_and_chunks_become_free)
{
    rig r;
    ASSERT_TRUE(open_rig(&r, 64 * MEND_MIB));
    fill(&r);
    thin_out(&r);
    mend_stats before = mend_world_stats(&r.w);
    EXPECT_U64_EQ(0, before.free_empty_bytes);
    mend_defrag_report report = defrag(&r, NULL);
    mend_stats after = mend_world_stats(&r.w);
    EXPECT_INT_EQ(MEND_DEFRAG_DONE, report.stop);
    EXPECT_U64_EQ(CHUNKS, report.compactions);
    EXPECT_U64_EQ(CHUNKS * BLOCK, report.copied_bytes);
    EXPECT_U64_EQ(CHUNKS * (CHUNK - BLOCK), report.gained_bytes);
    EXPECT_U64_EQ(after.free_empty_bytes, report.free_empty_bytes);
    EXPECT_U64_EQ(before.live_bytes, after.live_bytes);
    EXPECT_U64_EQ(before.live_blocks, after.live_blocks);
    EXPECT_U64_EQ(after.free_bytes, after.free_empty_bytes);
    EXPECT_U64_EQ(report.compactions, after.compactions);
    EXPECT_U64_EQ(report.copied_bytes, after.copied_bytes);
    EXPECT_U64_EQ(0, after.unmapped_blocks);
    close_rig(&r);
}

MEND_TEST(pool_defrag, what_is_gained_serves_a_request_that_found_no_room)
{
    rig r;
    void *block;
    ASSERT_TRUE(open_rig(&r, 5 * MEND_MIB));
    fill(&r);
    thin_out(&r);
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY,
                  mend_alloc(r.w.pool, 4 * MEND_MIB, r.w.streams[0], &block));
    (void)defrag(&r, NULL);
    kit_release(&r.w, kit_alloc_written(&r.w, 4 * MEND_MIB + 512 * MEND_KIB, r.w.streams[0]),
                4 * MEND_MIB + 512 * MEND_KIB, r.w.streams[0]);
    close_rig(&r);
}

MEND_TEST(pool_defrag, what_is_gained_can_be_given_back)
{
    rig r;
    uint64_t released_bytes;
    ASSERT_TRUE(open_rig(&r, 64 * MEND_MIB));
    fill(&r);
    thin_out(&r);
    EXPECT_RESULT(MEND_OK, mend_trim(r.w.pool, 0, &released_bytes));
    EXPECT_U64_EQ(0, released_bytes);
    (void)defrag(&r, NULL);
    EXPECT_RESULT(MEND_OK, mend_trim(r.w.pool, 0, &released_bytes));
    EXPECT_U64_EQ(CHUNKS * CHUNK, released_bytes);
    EXPECT_U64_EQ(CHUNKS * BLOCK, mend_world_stats(&r.w).reserved_bytes);
    close_rig(&r);
}

MEND_TEST(pool_defrag, a_second_pass_finds_nothing_to_do)
{
    rig r;
    ASSERT_TRUE(open_rig(&r, 64 * MEND_MIB));
    fill(&r);
    thin_out(&r);
    (void)defrag(&r, NULL);
    mend_defrag_report report = defrag(&r, NULL);
    EXPECT_U64_EQ(0, report.compactions);
    EXPECT_U64_EQ(0, report.gained_bytes);
    EXPECT_U64_EQ(1, report.driver_calls); /* the wait for the context */
    close_rig(&r);
}

/* A block that reaches from one chunk into the next is moved in two halves. */
MEND_TEST(pool_defrag, a_block_across_two_chunks_stays_whole)
{
    rig r;
    ASSERT_TRUE(open_rig(&r, 64 * MEND_MIB));
    void *row[3];
    uint64_t sizes[] = {CHUNK - 300 * MEND_KIB, 500 * MEND_KIB, CHUNK - 200 * MEND_KIB};
    void *all = kit_alloc_written(&r.w, 2 * CHUNK, r.w.streams[0]);
    kit_release(&r.w, all, 2 * CHUNK, r.w.streams[0]);
    for (int i = 0; i < 3; i++) {
        row[i] = kit_alloc_written(&r.w, sizes[i], r.w.streams[0]);
    }
    EXPECT_PTR_EQ((char *)row[0] + sizes[0], row[1]);
    kit_release(&r.w, row[0], sizes[0], r.w.streams[0]);
    kit_release(&r.w, row[2], sizes[2], r.w.streams[0]);
    mend_defrag_report report = defrag(&r, NULL);
    EXPECT_U64_EQ(2, report.compactions);
    EXPECT_U64_EQ(sizes[1], report.copied_bytes);
    kit_verify(&r.w, r.w.streams[0], row[1], sizes[1]);
    mend_world_check(&r.w);
    kit_release(&r.w, row[1], sizes[1], r.w.streams[0]);
    kit_alloc_written(&r.w, 2 * CHUNK, r.w.streams[0]);
    close_rig(&r);
}

/* Of two holes the one that costs less comes first. */
MEND_TEST(pool_defrag, the_cheapest_gain_comes_first)
{
    rig r;
    ASSERT_TRUE(open_rig(&r, 64 * MEND_MIB));
    fill(&r);
    for (int i = 0; i < BLOCKS; i++) { /* chunk 0 keeps 4 blocks, chunk 1 one, the others all */
        if ((i < 8 && i >= 4) || (i > 8 && i < 16)) {
            kit_release(&r.w, r.blocks[i], BLOCK, r.w.streams[0]);
            r.blocks[i] = NULL;
        }
    }
    mend_defrag_limits limits = MEND_DEFRAG_LIMITS_INIT;
    limits.gained_bytes = 2 * BLOCK;
    mend_defrag_report report = defrag(&r, &limits);
    EXPECT_INT_EQ(MEND_DEFRAG_GAINED, report.stop);
    EXPECT_U64_EQ(1, report.compactions);
    EXPECT_U64_EQ(BLOCK, report.copied_bytes);
    limits.gained_bytes = 0;
    report = defrag(&r, &limits);
    EXPECT_U64_EQ(4 * BLOCK, report.copied_bytes);
    close_rig(&r);
}

MEND_TEST(pool_defrag, limits_are_kept)
{
    rig r;
    mend_defrag_limits limits = MEND_DEFRAG_LIMITS_INIT;
    ASSERT_TRUE(open_rig(&r, 64 * MEND_MIB));
    fill(&r);
    thin_out(&r);

    limits.copied_bytes = 2 * BLOCK - 1;
    mend_defrag_report report = defrag(&r, &limits);
    EXPECT_INT_EQ(MEND_DEFRAG_BYTES, report.stop);
    EXPECT_U64_EQ(1, report.compactions);

    limits.copied_bytes = 0;
    limits.driver_calls = 16;
    uint64_t calls = mend_sim_call_count(r.w.sim);
    report = defrag(&r, &limits);
    EXPECT_INT_EQ(MEND_DEFRAG_CALLS, report.stop);
    EXPECT_U64_EQ(1, report.compactions);
    EXPECT_TRUE(report.driver_calls <= 16);
    EXPECT_TRUE(mend_sim_call_count(r.w.sim) - calls <= 16 + 6);

    limits.driver_calls = 1;
    EXPECT_U64_EQ(0, defrag(&r, &limits).compactions);
    close_rig(&r);
}

/* Each driver call takes a millisecond. */
static void let_time_pass(void *context, const char *call, int is_after)
{
    (void)call;
    if (is_after != 0) {
        mend_sim_advance(context, 1000000);
    }
}

MEND_TEST(pool_defrag, no_chunk_is_begun_with_when_the_time_is_over)
{
    rig r;
    mend_defrag_limits limits = MEND_DEFRAG_LIMITS_INIT;
    ASSERT_TRUE(open_rig(&r, 64 * MEND_MIB));
    fill(&r);
    thin_out(&r);
    mend_sim_set_call_observer(r.w.sim, let_time_pass, r.w.sim);
    limits.duration_ns = 8 * 1000000;
    mend_defrag_report report = MEND_DEFRAG_REPORT_INIT;
    EXPECT_RESULT(MEND_OK, mend_defrag(r.w.pool, &limits, &report));
    mend_sim_set_call_observer(r.w.sim, NULL, NULL);
    EXPECT_INT_EQ(MEND_DEFRAG_TIME, report.stop);
    EXPECT_U64_EQ(1, report.compactions);
    close_rig(&r);
}

/* At the limit, with nothing empty, there is nothing to copy to. */
MEND_TEST(pool_defrag, without_free_memory_nothing_moves)
{
    rig r;
    ASSERT_TRUE(open_rig(&r, CHUNKS * CHUNK));
    fill(&r);
    thin_out(&r);
    mend_defrag_report report = defrag(&r, NULL);
    EXPECT_INT_EQ(MEND_DEFRAG_NO_ROOM, report.stop);
    EXPECT_U64_EQ(0, report.compactions);
    close_rig(&r);
}

/* An empty chunk that is too large for what is to be copied is given back, and remade. */
MEND_TEST(pool_defrag, at_the_limit_free_chunks_make_room_for_smaller_ones)
{
    rig r;
    ASSERT_TRUE(open_rig(&r, (CHUNKS + 1) * CHUNK));
    void *spare = kit_alloc_written(&r.w, (CHUNKS + 1) * CHUNK, r.w.streams[0]);
    kit_release(&r.w, spare, (CHUNKS + 1) * CHUNK, r.w.streams[0]);
    for (int i = 0; i < BLOCKS; i++) {
        r.blocks[i] = kit_alloc_written(&r.w, BLOCK, r.w.streams[0]);
    }
    thin_out(&r);
    EXPECT_U64_EQ(CHUNK, mend_world_stats(&r.w).free_empty_bytes);
    mend_defrag_report report = defrag(&r, NULL);
    EXPECT_INT_EQ(MEND_DEFRAG_DONE, report.stop);
    EXPECT_U64_EQ(CHUNKS, report.compactions);
    EXPECT_TRUE(mend_world_ledger(&r.w).peak_chunk_bytes <= (CHUNKS + 1) * CHUNK);
    close_rig(&r);
}

/* An empty chunk of just the size, from wherever it lies, spares a creation. */
MEND_TEST(pool_defrag, a_free_chunk_that_fits_is_used)
{
    rig r;
    ASSERT_TRUE(open_rig(&r, 64 * MEND_MIB));
    fill(&r);
    thin_out(&r);
    (void)defrag(&r, NULL);
    kit_release(&r.w, r.blocks[3], BLOCK,
                r.w.streams[0]); /* its chunk has just the size of a block */
    r.blocks[3] = NULL;
    void *row[2];
    row[0] = kit_alloc_written(&r.w, CHUNK - BLOCK, r.w.streams[0]);
    row[1] = kit_alloc_written(&r.w, BLOCK, r.w.streams[0]);
    EXPECT_PTR_EQ((char *)row[0] + (CHUNK - BLOCK), row[1]);
    kit_release(&r.w, row[0], CHUNK - BLOCK, r.w.streams[0]);
    uint64_t created = mend_world_stats(&r.w).chunks_created;
    mend_defrag_report report = defrag(&r, NULL);
    EXPECT_U64_EQ(1, report.compactions);
    EXPECT_U64_EQ(created, mend_world_stats(&r.w).chunks_created);
    kit_release(&r.w, row[1], BLOCK, r.w.streams[0]);
    close_rig(&r);
}

/* What lives there is nobody's but the program's; what is free belongs to a group. */
MEND_TEST(pool_defrag, memory_of_graphs_stays_where_it_is)
{
    rig r;
    mend_group *group;
    ASSERT_TRUE(open_rig(&r, 64 * MEND_MIB));
    void *all = kit_alloc_written(&r.w, CHUNK, r.w.streams[0]);
    kit_release(&r.w, all, CHUNK, r.w.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_trim(r.w.pool, UINT64_MAX, NULL));
    r.blocks[0] = kit_alloc_written(&r.w, BLOCK, r.w.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_group_create(r.w.pool, &group));
    EXPECT_RESULT(MEND_OK, mend_group_begin(group, r.w.streams[0]));
    void *rest = kit_alloc_written(&r.w, CHUNK - BLOCK, r.w.streams[0]);
    kit_release(&r.w, rest, CHUNK - BLOCK, r.w.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_group_end(group));
    EXPECT_U64_EQ(CHUNK, mend_world_stats(&r.w).reserved_bytes);
    EXPECT_U64_EQ(0, defrag(&r, NULL).compactions);
    EXPECT_RESULT(MEND_OK, mend_group_release(group, r.w.streams[0]));
    EXPECT_U64_EQ(1, defrag(&r, NULL).compactions);
    close_rig(&r);
}

/* The block is a group's; its neighbours were freed outside. */
MEND_TEST(pool_defrag, a_live_block_of_a_graph_stays_where_it_is)
{
    rig r;
    mend_group *group;
    ASSERT_TRUE(open_rig(&r, 64 * MEND_MIB));
    void *all = kit_alloc_written(&r.w, CHUNK, r.w.streams[0]);
    kit_release(&r.w, all, CHUNK, r.w.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_trim(r.w.pool, UINT64_MAX, NULL));
    EXPECT_RESULT(MEND_OK, mend_group_create(r.w.pool, &group));
    EXPECT_RESULT(MEND_OK, mend_group_begin(group, r.w.streams[0]));
    r.blocks[0] = kit_alloc_written(&r.w, BLOCK, r.w.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_group_end(group));
    EXPECT_U64_EQ(0, defrag(&r, NULL).compactions);
    EXPECT_RESULT(MEND_OK, mend_group_release(group, r.w.streams[0]));
    EXPECT_U64_EQ(1, defrag(&r, NULL).compactions);
    close_rig(&r);
}

MEND_TEST(pool_defrag, a_capture_forbids_it)
{
    rig r;
    mend_group *group;
    mend_stream captured;
    ASSERT_TRUE(open_rig(&r, 64 * MEND_MIB));
    fill(&r);
    thin_out(&r);
    EXPECT_RESULT(MEND_OK, mend_sim_stream_create(r.w.sim, &captured));
    EXPECT_RESULT(MEND_OK, mend_group_create(r.w.pool, &group));
    EXPECT_RESULT(MEND_OK, mend_group_begin(group, captured));
    EXPECT_RESULT(MEND_OK, mend_sim_begin_capture(r.w.sim, captured, MEND_SIM_CAPTURE_RELAXED));
    mend_defrag_report report = MEND_DEFRAG_REPORT_INIT;
    EXPECT_RESULT(MEND_ERROR_CAPTURING, mend_defrag(r.w.pool, NULL, &report));
    EXPECT_RESULT(MEND_OK, mend_sim_end_capture(r.w.sim, captured, NULL));
    EXPECT_RESULT(MEND_OK, mend_group_end(group));
    EXPECT_RESULT(MEND_OK, mend_group_release(group, MEND_NO_STREAM));
    EXPECT_U64_EQ(CHUNKS, defrag(&r, NULL).compactions);
    close_rig(&r);
}

/* Work that was queued before the call has ended before anything moves. */
MEND_TEST(pool_defrag, work_in_flight_is_waited_for)
{
    rig r;
    ASSERT_TRUE(open_rig(&r, 64 * MEND_MIB));
    fill(&r);
    thin_out(&r);
    kit_launch(&r.w, r.w.streams[0], MEND_SIM_WORK_VERIFY, r.blocks[3], BLOCK,
               (uint64_t)(uintptr_t)r.blocks[3], mend_sim_now_ns(r.w.sim) + 5000);
    EXPECT_U64_EQ(CHUNKS, defrag(&r, NULL).compactions);
    EXPECT_U64_EQ(0, mend_world_ledger(&r.w).pending_work);
    close_rig(&r);
}

MEND_TEST(pool_defrag, small_chunks_move_too)
{
    rig r;
    void *small[64];
    ASSERT_TRUE(open_rig(&r, 64 * MEND_MIB));
    for (int i = 0; i < 64; i++) {
        small[i] = kit_alloc_written(&r.w, 16 * MEND_KIB, r.w.streams[0]);
    }
    for (int i = 0; i < 64; i++) {
        if (i % 16 != 5) {
            kit_release(&r.w, small[i], 16 * MEND_KIB, r.w.streams[0]);
        }
    }
    mend_defrag_report report = defrag(&r, NULL);
    EXPECT_U64_EQ(4, report.compactions);
    EXPECT_U64_EQ(4 * 16 * MEND_KIB, report.copied_bytes);
    EXPECT_U64_EQ(4 * (256 - 64) * MEND_KIB, report.gained_bytes);
    for (int i = 5; i < 64; i += 16) {
        kit_release(&r.w, small[i], 16 * MEND_KIB, r.w.streams[0]);
    }
    close_rig(&r);
}

static void defrag_all(void *argument)
{
    rig *r = argument;
    EXPECT_RESULT(MEND_OK, mend_defrag(r->w.pool, NULL, NULL));
}

/* Another thread frees the block that is about to move, and asks for one of its size. */
MEND_TEST(pool_defrag, nobody_gets_what_is_freed_in_a_chunk_under_compact)
{
    static const char *const calls[] = {"create", "map", "set_access", "unmap"};
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        rig r;
        mend_held held;
        bool is_there = false;
        for (uint64_t position = 1; !is_there && !mend_test_has_failed(); position++) {
            ASSERT_TRUE(open_rig(&r, 64 * MEND_MIB));
            fill(&r);
            thin_out(&r);
            bool is_inside = mend_held_begin(&held, r.w.sim, position, defrag_all, &r);
            is_there = is_inside && strcmp(held.call, calls[i]) == 0;
            if (is_there) { /* the first chunk is being compacted */
                void *freed = r.blocks[3];
                kit_free(&r.w, freed, r.w.streams[0]);
                r.blocks[3] = kit_alloc(&r.w, BLOCK, r.w.streams[0]);
                EXPECT_TRUE(r.blocks[3] != freed);
            }
            mend_held_end(&held);
            EXPECT_TRUE(is_inside);
            if (is_there) {
                kit_write(&r.w, r.w.streams[0], r.blocks[3], BLOCK);
            }
            close_rig(&r);
        }
    }
}
