/* A wake without enough memory changes nothing, reports the missing bytes, and works when there is
 * memory. */
#include <string.h>

#include "mend/mend_share.h"
#include "pool/pool.h"
#include "tests/support/threads.h"
#include "tests/unit/sleep/sleep_rig.h"

/* Chunks that the wake had created of it count as free. At last also memory that its work uses. */
SLEEP_TEST(pool_sleep_room, a_peer_pool_gives_what_it_has)
{
    mend_pool *peer = kit_pool(w);
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    void *other = kit_alloc_from(peer, 60 * MEND_MIB, S(0));
    EXPECT_OK(mend_free(peer, kit_alloc_from(peer, 3 * MEND_MIB, S(0)), S(0)));
    EXPECT_ERROR(OUT_OF_MEMORY, mend_wake(w->pool, NULL, 0, NULL));
    kit_use(w, S(0), other, 60 * MEND_MIB, 1000);
    EXPECT_OK(mend_free(peer, other, S(0)));
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    EXPECT_TRUE(mend_sim_now_ns(w->sim) >= 1000);
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    EXPECT_OK(mend_free(peer, kit_alloc_from(peer, 4 * MEND_MIB, S(0)), S(0)));
    mend_sim_set_foreign_bytes(w->sim, 0, 56 * MEND_MIB);
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    mend_sim_set_foreign_bytes(w->sim, 0, 0);
    EXPECT_OK(mend_pool_destroy(peer));
}

static mend_wants want_two(KIT_UNUSED mend_others *others)
{
    return (mend_wants){.bytes = 2 * SLEEP_BLOCK};
}

/* What is released goes to other processes first. */
SLEEP_TEST(pool_sleep_room, a_wake_needs_room_beside_what_others_want)
{
    mend_others others = {.ask = want_two};
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    w->pool->heap.config.others = &others;
    mend_sim_set_foreign_bytes(w->sim, 0, 57 * MEND_MIB);
    EXPECT_REFUSAL(OUT_OF_MEMORY, "is short of 3.00 MiB", mend_wake(w->pool, NULL, 0, NULL));
    mend_sim_set_foreign_bytes(w->sim, 0, 0);
    w->pool->heap.config.others = NULL;
}

/* Nor does it count that the pool holds more than its limit. */
SLEEP_TEST(pool_sleep_room, a_wake_without_a_creation_needs_no_room_in_the_limit)
{
    EXPECT_OK(mend_set_limit(w->pool, SLEEP_BLOCK));
    EXPECT_OK(mend_sleep(w->pool, KIT_OPTIONS(mend_sleep_options, .keep_free = 2), NULL));
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    EXPECT_OK(mend_set_limit(w->pool, 0));
}

/* A plain block takes a part of the limit. */
SLEEP_TEST(pool_sleep_room, a_wake_needs_room_beside_plain_blocks)
{
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    EXPECT_OK(mend_set_limit(w->pool, SLEEP_BLOCKS * SLEEP_BLOCK));
    mend_pool *peer = kit_pool(w);
    EXPECT_OK(mend_free(peer, kit_alloc_from(peer, 4 * MEND_MIB, S(0)), S(0)));
    void *plain = kit_alloc_with(w, 2 * SLEEP_BLOCK, S(0), .plain = 1);
    EXPECT_REFUSAL(OUT_OF_MEMORY, "the limit is short of 2.00 MiB",
                   mend_wake(w->pool, NULL, 0, NULL));
    EXPECT_U64_EQ(4 * MEND_MIB, kit_stats(peer).reserved_bytes); /* it can give no room there */
    kit_free(w, plain, S(0));
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    EXPECT_OK(mend_pool_destroy(peer));
}

/* Without the wait for it the answer would be out of memory. */
SLEEP_TEST(pool_sleep_room, free_memory_in_use_is_waited_for_at_last)
{
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    EXPECT_OK(mend_set_limit(w->pool, SLEEP_BLOCKS * SLEEP_BLOCK));
    void *block = kit_alloc(w, 3 * SLEEP_BLOCK, S(0));
    EXPECT_ERROR(OUT_OF_MEMORY, mend_wake(w->pool, NULL, 0, NULL));
    kit_use(w, S(0), block, 3 * SLEEP_BLOCK, 1000);
    kit_free(w, block, S(0));
    const uint64_t host_waits = mend_world_stats(w).host_waits;
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    EXPECT_STATS(w, host_waits, host_waits + 1);
    EXPECT_OK(mend_set_limit(w->pool, 0));
}

/* The driver had no memory for page tables, and then did not unmap: memory of a peer pool is not
 * needed any more. */
SLEEP_TEST(pool_sleep_room, memory_of_a_try_before_counts_as_woken)
{
    mend_wake_report woken = MEND_WAKE_REPORT_INIT;
    mend_pool *peer = kit_pool(w);
    EXPECT_OK(mend_free(peer, kit_alloc_from(peer, 8 * MEND_MIB, S(0)), S(0)));
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    kit_fail(w, "set_access", 0, 1, MEND_DRIVER_OUT_OF_MEMORY);
    kit_fail(w, "unmap", 0, 1, MEND_DRIVER_UNKNOWN);
    EXPECT_OK(mend_wake(w->pool, NULL, 0, &woken));
    mend_sim_clear_faults(w->sim);
    EXPECT_FIELDS(woken, woken_bytes, SLEEP_BLOCKS * SLEEP_BLOCK, reused_bytes,
                  SLEEP_BLOCKS * SLEEP_BLOCK);
    EXPECT_U64_EQ(0, kit_stats(peer).reserved_bytes);
    EXPECT_OK(mend_pool_destroy(peer));
}

/* Frees blocks of a MiB, the last first, until there is enough, or there are none. */
typedef struct giver {
    mend_world *w;
    mend_pool *pool; /* of the blocks */
    void *blocks[SLEEP_BLOCKS];
    int count;
    int calls;
} giver;

KIT_PRESSURE(give)
{
    giver *g = context;
    const int before = g->count;
    g->calls++;
    for (uint64_t bytes = 0; g->count > 0 && bytes < needed_bytes; bytes += SLEEP_BLOCK) {
        EXPECT_OK(mend_free(g->pool, g->blocks[--g->count], g->w->streams[0]));
    }
    return g->count < before;
}

/* That was asked already. */
SLEEP_TEST(pool_sleep_room, a_pressure_callback_makes_room_in_a_peer_pool)
{
    giver g = {.w = w, .pool = kit_pool(w)};
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    EXPECT_OK(mend_add_pressure_callback(w->pool, give, &g));
    g.blocks[g.count++] = kit_alloc_from(g.pool, 60 * MEND_MIB, S(0));
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    EXPECT_INT_EQ(1, g.calls);
    EXPECT_OK(mend_remove_pressure_callback(w->pool, give, &g));
    EXPECT_OK(mend_pool_destroy(g.pool));
}

/* The device's missing bytes are released, and no more: the rest is for the next request. */
SLEEP_TEST(pool_sleep_room, a_wake_gives_back_what_is_lacking_alone)
{
    enum { FREE = 6 };
    void *blocks[FREE];
    const mend_alloc_options *options = KIT_OPTIONS(mend_alloc_options, .in_one_chunk = 1);
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    for (int i = 0; i < FREE; i++) { /* in chunks of a size that nothing asleep has */
        EXPECT_OK(mend_alloc_with(w->pool, 2 * SLEEP_BLOCK, S(0), options, &blocks[i]));
    }
    kit_free_row(w, blocks, FREE, S(0));
    EXPECT_STATS(w, reserved_bytes, 12 * SLEEP_BLOCK);
    mend_sim_set_foreign_bytes(w->sim, 0, 48 * MEND_MIB);
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    EXPECT_STATS(w, reserved_bytes, 16 * SLEEP_BLOCK);
    mend_sim_set_foreign_bytes(w->sim, 0, 0);
}

/* What importers keep gives the device nothing. */
KIT_SET_TEST(pool_sleep_room, a_wake_gives_back_what_nobody_else_has,
             w->pool_config.shareable = MEND_SHAREABLE_ON)
{
    void *blocks[2], *imported = NULL;
    mend_export_token token;
    mend_pool *peer = kit_pool(w);
    const mend_alloc_options *options = KIT_OPTIONS(mend_alloc_options, .in_one_chunk = 1);
    void *sleeps = kit_alloc_written(w, 4 * MEND_MIB, S(0));
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    for (int i = 0; i < 2; i++) {
        EXPECT_OK(mend_alloc_with(w->pool, 2 * MEND_MIB, S(0), options, &blocks[i]));
    }
    EXPECT_OK(mend_export(w->pool, blocks[1], NULL, &token, MEND_EXPORT_TOKEN_BYTES, NULL, NULL));
    EXPECT_OK(mend_import(peer, &token, MEND_EXPORT_TOKEN_BYTES, &imported, NULL));
    kit_free_row(w, blocks, 2, S(0));
    mend_sim_set_foreign_bytes(w->sim, 0, 58 * MEND_MIB);
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    EXPECT_STATS(w, reserved_bytes, 6 * MEND_MIB, importers_bytes, 0);
    mend_sim_set_foreign_bytes(w->sim, 0, 0);
    EXPECT_OK(mend_import_close(peer, imported, S(0)));
    EXPECT_OK(mend_pool_destroy(peer));
    kit_release(w, sleeps, 4 * MEND_MIB, S(0));
}

/* Free memory that the driver did not unmap may be in use there. */
SLEEP_TEST(pool_sleep_room, what_is_still_mapped_wakes_nothing)
{
    mend_wake_report woken = MEND_WAKE_REPORT_INIT;
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    kit_free(w, kit_alloc(w, SLEEP_BLOCK, S(0)), S(0));
    kit_fail(w, "unmap", 0, UINT64_MAX, MEND_DRIVER_UNKNOWN);
    EXPECT_OK(mend_wake(w->pool, NULL, 0, &woken));
    mend_sim_clear_faults(w->sim);
    EXPECT_U64_EQ(0, woken.reused_bytes);
}

static void count_accesses(void *context, const char *call, int is_after)
{
    *(int *)context += !is_after && strcmp(call, "set_access") == 0;
}

/* Whatever their sizes are, and whose memory they get. */
KIT_SET_TEST(pool_sleep_room, chunks_side_by_side_get_access_by_one_call,
             (w->placement.chunk_bytes = 4 * MEND_MIB, w->placement.low_pressure_percent = 100))
{
    static const uint64_t ends[] = {2 * MEND_MIB, 3 * MEND_MIB, 6 * MEND_MIB};
    int calls = 0;
    for (int i = 0; i < 3; i++) { /* each larger than the free memory before, by a chunk */
        kit_free(w, kit_alloc(w, ends[i], S(0)), S(0));
    }
    void *block = kit_alloc_written(w, 7 * MEND_MIB, S(0));
    EXPECT_STATS(w, chunks, 4);
    EXPECT_OK(mend_sleep(w->pool, KIT_OPTIONS(mend_sleep_options, .keep_free = 2), NULL));
    mend_wake_report woken = MEND_WAKE_REPORT_INIT;
    kit_observed(w, count_accesses, &calls, EXPECT_OK(mend_wake(w->pool, NULL, 0, &woken)));
    EXPECT_INT_EQ(1, calls);
    EXPECT_U64_EQ(7 * MEND_MIB, woken.reused_bytes);
    kit_release(w, block, 7 * MEND_MIB, S(0));
}

static void *free_first(void *argument)
{
    sleep_rig *r = argument;
    EXPECT_OK(mend_free(r->w.pool, r->blocks[0], NULL));
    r->blocks[0] = NULL;
    return NULL;
}

static void free_first_amid(void *context, const char *call, int is_after)
{
    sleep_rig *r = context;
    if (r->blocks[0] != NULL && !is_after && strcmp(call, "create") == 0) {
        mend_test_run_thread(free_first, r);
    }
}

/* The thread that frees it does not wait for the growing one. */
SLEEP_TEST(pool_sleep_room, what_ends_while_room_is_made_takes_no_memory)
{
    mend_wake_report report = MEND_WAKE_REPORT_INIT;
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    kit_observed(w, free_first_amid, r, kit_free(w, kit_alloc(w, 16 * MEND_MIB, S(0)), S(0)));
    EXPECT_TRUE(r->blocks[0] == NULL);
    EXPECT_OK(mend_wake(w->pool, NULL, 0, &report));
    EXPECT_U64_EQ((SLEEP_BLOCKS - 1) * SLEEP_BLOCK, report.woken_bytes);
}

/* The wait for it is not allowed, and no reason to answer anything else. */
SLEEP_TEST(pool_sleep_room, a_capture_hides_no_lack_of_memory)
{
    mend_pool *peer = kit_pool(w);
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    void *other = kit_alloc_from(peer, 60 * MEND_MIB, S(0));
    kit_free(w, kit_alloc(w, MEND_MIB, S(1)), S(1));
    kit_begin_capture(w, S(1));
    EXPECT_REFUSAL(OUT_OF_MEMORY, "the device is short of", mend_wake(w->pool, NULL, 0, NULL));
    mend_sim_graph_destroy(w->sim, kit_end_capture(w, S(1)));
    EXPECT_OK(mend_free(peer, other, S(0)));
    EXPECT_OK(mend_pool_destroy(peer));
}

SLEEP_TEST(pool_sleep_room, memory_of_a_graph_that_ended_is_room)
{
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    kit_begin_capture(w, S(0));
    kit_leave_in_flight(w, 3 * SLEEP_BLOCK, S(0), 10, S(0));
    mend_sim_graph_destroy(w->sim, kit_end_capture(w, S(0)));
    EXPECT_OK(mend_set_limit(w->pool, SLEEP_BLOCKS * SLEEP_BLOCK));
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    EXPECT_OK(mend_set_limit(w->pool, 0));
}
