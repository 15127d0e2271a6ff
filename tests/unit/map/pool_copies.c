/* Copies and fills that still run when their call has failed, because the driver refused the waits
 * for them: their memory is neither unmapped, nor freed, nor given to others until they end. */
#include "mend/mend_range.h"
#include "mend/mend_sleep.h"
#include "tests/support/kit.h"

#define BLOCK (128 * MEND_KIB)
enum { BLOCKS = 32, MOST_BLOCKS = 256 };

typedef struct copies_rig {
    mend_world w;
    void *blocks[BLOCKS]; /* NULL: freed */
} copies_rig;

/* Partly used chunks, in a world where copies end at a CPU stall. */
static bool open_rig(copies_rig *r)
{
    mend_world *w = &r->w;
    const bool is_open = kit_open_set(w, w->sim_config.memory_bytes = 16 * MEND_MIB,
                                      w->sim_config.copy_ns = 1000000);
    if (is_open) {
        kit_alloc_written_row(w, r->blocks, BLOCKS, BLOCK, S(0));
        for (int i = 0; i < BLOCKS; i++) {
            if (i % 4 != 1) {
                kit_release_row(w, &r->blocks[i], 1, BLOCK, S(0));
            }
        }
    }
    return is_open;
}

static void close_rig(copies_rig *r)
{
    kit_release_row(&r->w, r->blocks, BLOCKS, BLOCK, r->w.streams[0]);
    kit_close(&r->w);
}

#define COPIES_TEST(name) KIT_RIG_TEST(pool_copies, name, copies_rig, open_rig(r), close_rig(r))

static mend_result compact(mend_pool *pool)
{
    return mend_compact(pool, NULL, NULL);
}

static mend_result put_to_sleep(mend_pool *pool)
{
    return mend_sleep(pool, NULL, NULL);
}

static mend_result (*const calls[])(mend_pool *) = {compact, put_to_sleep};
enum { CALLS = sizeof(calls) / sizeof(calls[0]) };

/* The call fails, with copies that run. */
static void fail(mend_world *w, mend_result (*call)(mend_pool *))
{
    kit_fail(w, "context_synchronize", 1, 1, 999); /* not the one at the beginning */
    kit_fail(w, "stream_synchronize", 0, 2, 999);
    EXPECT_ERROR(DRIVER, call(w->pool));
    mend_sim_clear_faults(w->sim);
    EXPECT_TRUE(mend_world_ledger(w).pending_work > 0);
}

/* A rig with so much free memory in chunks of its own, in which the call of this number fails. */
static bool open_failed_beside(copies_rig *r, int number, uint64_t free_bytes)
{
    bool is_open = open_rig(r);
    if (is_open && free_bytes > 0) {
        kit_free(&r->w, kit_alloc(&r->w, free_bytes, r->w.streams[0]), r->w.streams[0]);
    }
    if (is_open) {
        fail(&r->w, calls[number]);
    }
    return is_open;
}

static bool open_failed(copies_rig *r, int number)
{
    return open_failed_beside(r, number, 0);
}

/* Free memory that they do not use stays mapped meanwhile: nothing else says that there is
 * something to wait for. */
KIT_RIG_EACH(pool_copies, a_trim_that_waits_waits_for_them, int, number, CALLS, copies_rig, r,
             open_failed_beside(r, number, 4 * MEND_MIB), close_rig(r))
{
    EXPECT_OK(mend_trim(r->w.pool, 0, MEND_TRIM_WAIT, NULL));
    EXPECT_STATS(&r->w, free_empty_bytes, 0);
}

/* Nor does a trim without waits unmap their memory. */
KIT_RIG_EACH(pool_copies, a_trim_without_a_wait_unmaps_nothing_of_theirs, int, number, CALLS,
             copies_rig, r, open_failed(r, number), close_rig(r))
{
    mend_world *w = &r->w;
    kit_release_row(w, r->blocks, BLOCKS, BLOCK, S(0));
    EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_IDLE, NULL));
    EXPECT_TRUE(mend_world_ledger(w).pending_work > 0);
    mend_sim_advance(w->sim, 100000000);
}

KIT_RIG_EACH(pool_copies, what_they_write_to_serves_nobody, int, number, CALLS, copies_rig, r,
             open_failed(r, number), close_rig(r))
{
    mend_world *w = &r->w;
    void *more[MOST_BLOCKS];
    size_t count = 0;
    while (count < MOST_BLOCKS && mend_alloc(w->pool, BLOCK, S(1), &more[count]) == MEND_OK) {
        kit_write(w, S(1), more[count], BLOCK);
        count++;
    }
    EXPECT_TRUE(count > 0);
    mend_sim_advance(w->sim, 100000000);
    kit_release_row(w, more, count, BLOCK, S(1));
    EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_WAIT, NULL));
}

/* Its pages were decommitted meanwhile, and are to be committed again. */
COPIES_TEST(a_commit_after_a_wake_that_failed_names_its_copies)
{
    mend_range *range = NULL;
    EXPECT_OK(mend_range_create(w->pool, 4 * MEND_MIB, NULL, &range));
    EXPECT_OK(mend_range_commit(range, 0, MEND_MIB, S(0)));
    EXPECT_OK(put_to_sleep(w->pool));
    kit_fail(w, "stream_synchronize", 0, 2, 999);
    EXPECT_ERROR(DRIVER, mend_wake(w->pool, NULL, 0, NULL));
    mend_sim_clear_faults(w->sim);
    EXPECT_TRUE(mend_world_ledger(w).pending_work > 0);
    EXPECT_OK(mend_range_decommit(range, 0, MEND_MIB, S(0)));
    EXPECT_REFUSAL(OUT_OF_ADDRESS_SPACE, "its copies may still run",
                   mend_range_commit(range, 0, MEND_MIB, S(0)));
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    EXPECT_OK(mend_range_commit(range, 0, MEND_MIB, S(0)));
}

/* The error of a call is its own, not a later wait's. */
COPIES_TEST(a_wake_that_fails_in_a_capture_says_why)
{
    EXPECT_OK(put_to_sleep(w->pool));
    kit_begin_capture(w, S(2));
    (void)kit_alloc(w, 512, S(2));
    kit_fail(w, "stream_synchronize", 0, 2, 999);
    EXPECT_REFUSAL(DRIVER, "cuStreamSynchronize", mend_wake(w->pool, NULL, 0, NULL));
    EXPECT_STATS(w, driver_failures, 2);
    mend_sim_graph_destroy(w->sim, kit_end_capture(w, S(2)));
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
}

/* Nothing is to be trimmed, and yet the wait is made: for pinned memory that copies write to. */
COPIES_TEST(memory_of_the_host_goes_though_no_chunk_does)
{
    fail(w, put_to_sleep);
    EXPECT_TRUE(mend_world_ledger(w).host_allocations > 0);
    EXPECT_OK(mend_trim(w->pool, UINT64_MAX, MEND_TRIM_WAIT, NULL));
    EXPECT_LEDGER(w, host_allocations, 0);
}
