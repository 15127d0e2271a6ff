/* Memory that crosses from stream to stream by ways that are easily forgotten: blocks freed where
 * nobody used them, and the per-thread streams of several threads. */
#include <string.h>

#include "tests/support/kit.h"
#include "tests/support/place.h"
#include "tests/support/threads.h"

enum { BLOCK_BYTES = 5 << 20 };

#define WAITING_TEST(suite, name) KIT_TEST_IN(suite, name, kit_open_allowing(w, 8 * MEND_MIB, 0))

/* The second owner never touches the block, and frees it on a stream that knows nothing of the
 * first owner's work. */
WAITING_TEST(pool_waits, a_block_never_used_still_waits_for_its_former_owner)
{
    mend_stream first = S(0);
    mend_stream second = S(1);
    kit_leave_in_flight(w, BLOCK_BYTES, first, 1000, first);
    kit_free(w, kit_alloc(w, BLOCK_BYTES, first), second);
    kit_alloc_used(w, BLOCK_BYTES, second, 10);
}

WAITING_TEST(pool_waits, a_wait_of_the_stream_it_was_allocated_for_is_not_that_of_another)
{
    kit_leave_in_flight(w, BLOCK_BYTES, S(0), 1000, S(0));
    void *block = kit_alloc(w, BLOCK_BYTES, S(1)); /* behind a wait of this stream alone */
    kit_free(w, block, S(2));
    kit_alloc_used(w, BLOCK_BYTES, S(2), 10);
}

typedef struct worker {
    mend_world *w;
    void *block;
} worker;

static void *use_per_thread_and_free(void *context)
{
    worker *by = context;
    by->block = kit_leave_in_flight(by->w, BLOCK_BYTES, KIT_PER_THREAD, 1000, KIT_PER_THREAD);
    return NULL;
}

KIT_EACH(pool_waits, a_thread_waits_for_the_per_thread_stream_of_another, int, i, 4,
         kit_open_allowing(w, 8 * MEND_MIB, i % 2 ? -1 : 0))
{
    worker by = {.w = w};
    mend_test_run_thread(use_per_thread_and_free, &by);
    kit_alloc_used(w, BLOCK_BYTES, i < 2 ? NULL : KIT_PER_THREAD, 10);
}

static void *use_on_per_thread(void *context)
{
    worker *by = context;
    EXPECT_OK(mend_record_stream(by->w->pool, by->block, KIT_PER_THREAD));
    kit_use(by->w, KIT_PER_THREAD, by->block, BLOCK_BYTES, 1000);
    return NULL;
}

WAITING_TEST(pool_waits, a_per_thread_user_holds_the_block_that_another_thread_frees)
{
    worker by = {.w = w, .block = kit_alloc(w, BLOCK_BYTES, NULL)};
    mend_test_run_thread(use_on_per_thread, &by);
    kit_free(w, by.block, NULL);
    kit_alloc_used(w, BLOCK_BYTES, NULL, 10);
}

WAITING_TEST(pool_waits, trim_waits_for_the_per_thread_stream_of_another_thread)
{
    worker by = {.w = w};
    mend_test_run_thread(use_per_thread_and_free, &by);
    kit_expect_trim(w, 0, 0);
}

static void *forget_per_thread(void *context)
{
    worker *by = context;
    use_per_thread_and_free(by);
    kit_fail(by->w, "context_push", 0, 0, 999);
    EXPECT_ERROR(DRIVER, mend_forget_stream(by->w->pool, KIT_PER_THREAD));
    EXPECT_OK(mend_forget_stream(by->w->pool, KIT_PER_THREAD));
    return NULL;
}

WAITING_TEST(pool_waits, a_forgotten_per_thread_stream_needs_no_wait_for_the_context)
{
    worker by = {.w = w};
    mend_test_run_thread(forget_per_thread, &by);
    kit_alloc_used(w, BLOCK_BYTES, NULL, 10);
    kit_expect_waits(w, 1, 0);
}

WAITING_TEST(pool_waits, a_stream_that_is_captured_is_left_alone)
{
    mend_stream captured = S(0);
    mend_stream other = S(1);
    kit_leave_in_flight(w, BLOCK_BYTES, captured, 1000, captured);
    EXPECT_OK(mend_sim_begin_capture(w->sim, captured, MEND_SIM_CAPTURE_GLOBAL));
    EXPECT_ERROR(CAPTURING, mend_forget_stream(w->pool, captured));
    kit_alloc(w, 2 * MEND_MIB, other);
    EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_IDLE, NULL));
    EXPECT_OK(mend_sim_end_capture(w->sim, captured, NULL));
    kit_alloc_used(w, BLOCK_BYTES, other, 10);
    EXPECT_STATS(w, stream_waits, 1);
}

/* A stream that cannot be recorded on cannot wait either. */
WAITING_TEST(pool_waits, a_stream_that_is_captured_is_not_made_to_wait)
{
    mend_stream captured = S(0);
    mend_stream other = S(1);
    kit_leave_in_flight(w, BLOCK_BYTES, other, 1000, other);
    kit_alloc(w, 512, captured);
    EXPECT_OK(mend_sim_begin_capture(w->sim, captured, MEND_SIM_CAPTURE_GLOBAL));
    kit_alloc(w, BLOCK_BYTES, captured);
    kit_expect_waits(w, 0, 1);
    EXPECT_OK(mend_sim_end_capture(w->sim, captured, NULL));
}

WAITING_TEST(pool_waits, trim_holds_what_was_freed_without_a_stream)
{
    mend_stream stream = S(2);
    mend_test_place(w->pool, &(mend_test_sizes){.unfenced_bytes = MEND_MIB});
    kit_leave_in_flight(w, BLOCK_BYTES, stream, 1000, MEND_NO_STREAM);
    EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_IDLE, NULL));
    EXPECT_STATS(w, reserved_bytes, BLOCK_BYTES, retired_bytes, 0, context_fences, 1);
    kit_alloc_used(w, BLOCK_BYTES, NULL,
                   10); /* behind the context's event, which the trim recorded */
    EXPECT_STATS(w, host_waits, 0, stream_waits, 1);
}

/* What the pool's other users do while one of them waits for the GPU. */
typedef struct intruder {
    mend_world *w;
    mend_stream stream;
    int blocks;
} intruder;

static void intrude(void *context, const char *call, int is_after)
{
    intruder *i = context;
    if (strcmp(call, "event_synchronize") != 0 || is_after) {
        return;
    }
    for (; i->blocks > 0; i->blocks--) {
        kit_alloc(i->w, 512, i->stream);
    }
}

/* However many records others leave: each count up to more than the pool allocates at a time. */
KIT_EACH(pool_waits, a_thread_that_waits_has_host_memory_for_its_block_afterwards, int, blocks, 70,
         kit_open_allowing(w, 8 * MEND_MIB, -1))
{
    mend_stream first = S(0);
    intruder others = {w, S(1), blocks};
    kit_alloc(w, 512, others.stream);
    void *block = kit_alloc(w, BLOCK_BYTES, first);
    kit_alloc(w, 2 * MEND_MIB, others.stream);
    kit_use(w, first, block, BLOCK_BYTES, 1000);
    kit_free(w, block, first);
    mend_sim_set_call_observer(w->sim, intrude, &others);
    /* In the middle of the free run, so that it is cut twice; what is beside has no room. */
    uint64_t lowest_bit = (uint64_t)(uintptr_t)block & -(uint64_t)(uintptr_t)block;
    uint64_t offset = mend_min_u64(lowest_bit, 2 * MEND_MIB);
    kit_alloc_aligned(w, BLOCK_BYTES - 512 - offset, 2 * offset, others.stream);
    mend_sim_set_call_observer(w->sim, NULL, NULL);
    EXPECT_INT_EQ(0, others.blocks);
}

/* An empty chunk takes along what its memory waits for when it is mapped elsewhere. */
KIT_TEST_IN(pool_waits, a_moved_chunk_still_waits_for_its_former_owner,
            kit_open_with(w, 4 * MEND_MIB, NULL))
{
    enum { CHUNK = 1 << 20 };
    mend_stream first = S(0);
    mend_stream second = S(1);
    void *blocks[4];
    kit_alloc_row(w, blocks, 4, CHUNK, first);
    for (int i = 0; i < 4; i += 2) { /* written at once, read late */
        kit_use(w, first, blocks[i], CHUNK, 1000);
        kit_free(w, blocks[i], first);
    }
    /* The alignment keeps it from growing behind one of them. */
    void *joined = kit_alloc_aligned(w, 2 * CHUNK, 4 * MEND_MIB, first);
    EXPECT_TRUE(mend_world_stats(w).chunks_moved >= 2);
    kit_free(w, joined, second);
    kit_alloc_used(w, 2 * CHUNK, second, 0);
}
