/* Memory that crosses from stream to stream by ways that are easily forgotten: blocks freed where
 * nobody used them, and the per-thread streams of several threads. */
#include <string.h>

#include "tests/support/kit.h"
#include "tests/support/threads.h"

enum { BLOCK_BYTES = 5 << 20 };

/* The second owner never touches the block, and frees it on a stream that knows nothing of the
 * first owner's work. */
MEND_TEST(pool_waits, a_block_never_used_still_waits_for_its_former_owner)
{
    mend_world w;
    ASSERT_TRUE(kit_open_allowing(&w, 8 * MEND_MIB, 0));
    mend_stream first = w.streams[0];
    mend_stream second = w.streams[1];
    kit_leave_in_flight(&w, BLOCK_BYTES, first, 1000, first);
    void *block = kit_alloc(&w, BLOCK_BYTES, first);
    kit_free(&w, block, second);
    kit_alloc_used(&w, BLOCK_BYTES, second, 10);
    kit_close(&w);
}

MEND_TEST(pool_waits, a_wait_of_the_stream_it_was_allocated_for_is_not_that_of_another)
{
    mend_world w;
    ASSERT_TRUE(kit_open_allowing(&w, 8 * MEND_MIB, 0));
    kit_leave_in_flight(&w, BLOCK_BYTES, w.streams[0], 1000, w.streams[0]);
    void *block = kit_alloc(&w, BLOCK_BYTES, w.streams[1]); /* behind a wait of this stream alone */
    kit_free(&w, block, w.streams[2]);
    kit_alloc_used(&w, BLOCK_BYTES, w.streams[2], 10);
    kit_close(&w);
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

static void per_thread_memory_crosses(int allow_stream_waits, mend_stream stream)
{
    mend_world w;
    ASSERT_TRUE(kit_open_allowing(&w, 8 * MEND_MIB, allow_stream_waits));
    worker by = {.w = &w};
    mend_test_run_thread(use_per_thread_and_free, &by);
    kit_alloc_used(&w, BLOCK_BYTES, stream, 10);
    kit_close(&w);
}

MEND_TEST(pool_waits, a_thread_waits_for_the_per_thread_stream_of_another)
{
    per_thread_memory_crosses(0, NULL);
    per_thread_memory_crosses(-1, NULL);
    per_thread_memory_crosses(0, KIT_PER_THREAD);
    per_thread_memory_crosses(-1, KIT_PER_THREAD);
}

static void *use_on_per_thread(void *context)
{
    worker *by = context;
    EXPECT_RESULT(MEND_OK, mend_record_stream(by->w->pool, by->block, KIT_PER_THREAD));
    kit_use(by->w, KIT_PER_THREAD, by->block, BLOCK_BYTES, 1000);
    return NULL;
}

MEND_TEST(pool_waits, a_per_thread_user_holds_the_block_that_another_thread_frees)
{
    mend_world w;
    ASSERT_TRUE(kit_open_allowing(&w, 8 * MEND_MIB, 0));
    worker by = {.w = &w, .block = kit_alloc(&w, BLOCK_BYTES, NULL)};
    mend_test_run_thread(use_on_per_thread, &by);
    kit_free(&w, by.block, NULL);
    kit_alloc_used(&w, BLOCK_BYTES, NULL, 10);
    kit_close(&w);
}

MEND_TEST(pool_waits, trim_waits_for_the_per_thread_stream_of_another_thread)
{
    mend_world w;
    ASSERT_TRUE(kit_open_allowing(&w, 8 * MEND_MIB, 0));
    worker by = {.w = &w};
    mend_test_run_thread(use_per_thread_and_free, &by);
    uint64_t released = 77;
    EXPECT_RESULT(MEND_OK, mend_trim(w.pool, 0, &released));
    EXPECT_U64_EQ(0, released);
    kit_close(&w);
}

static void *forget_per_thread(void *context)
{
    worker *by = context;
    use_per_thread_and_free(by);
    kit_fail(by->w, "context_push", 0, 0, 999);
    EXPECT_RESULT(MEND_ERROR_DRIVER, mend_forget_stream(by->w->pool, KIT_PER_THREAD));
    EXPECT_RESULT(MEND_OK, mend_forget_stream(by->w->pool, KIT_PER_THREAD));
    return NULL;
}

MEND_TEST(pool_waits, a_forgotten_per_thread_stream_needs_no_wait_for_the_context)
{
    mend_world w;
    ASSERT_TRUE(kit_open_allowing(&w, 8 * MEND_MIB, 0));
    worker by = {.w = &w};
    mend_test_run_thread(forget_per_thread, &by);
    kit_alloc_used(&w, BLOCK_BYTES, NULL, 10);
    kit_expect_waits(&w, 1, 0);
    kit_close(&w);
}

/* A program that captures a stream is not disturbed by what others allocate meanwhile. */
MEND_TEST(pool_waits, a_stream_that_is_captured_is_left_alone)
{
    mend_world w;
    ASSERT_TRUE(kit_open_allowing(&w, 8 * MEND_MIB, 0));
    mend_stream captured = w.streams[0];
    mend_stream other = w.streams[1];
    kit_leave_in_flight(&w, BLOCK_BYTES, captured, 1000, captured);
    EXPECT_RESULT(MEND_OK, mend_sim_begin_capture(w.sim, captured, MEND_SIM_CAPTURE_GLOBAL));
    EXPECT_RESULT(MEND_ERROR_CAPTURING, mend_forget_stream(w.pool, captured));
    kit_alloc(&w, 2 * MEND_MIB, other);
    EXPECT_RESULT(MEND_OK, mend_trim(w.pool, 0, NULL));
    EXPECT_RESULT(MEND_OK, mend_sim_end_capture(w.sim, captured, NULL));
    kit_alloc_used(&w, BLOCK_BYTES, other, 10);
    EXPECT_U64_EQ(1, mend_world_stats(&w).stream_waits);
    kit_close(&w);
}

/* A stream that cannot be recorded on cannot wait either. */
MEND_TEST(pool_waits, a_stream_that_is_captured_is_not_made_to_wait)
{
    mend_world w;
    ASSERT_TRUE(kit_open_allowing(&w, 8 * MEND_MIB, 0));
    mend_stream captured = w.streams[0];
    mend_stream other = w.streams[1];
    kit_leave_in_flight(&w, BLOCK_BYTES, other, 1000, other);
    kit_alloc(&w, 512, captured);
    EXPECT_RESULT(MEND_OK, mend_sim_begin_capture(w.sim, captured, MEND_SIM_CAPTURE_GLOBAL));
    kit_alloc(&w, BLOCK_BYTES, captured);
    kit_expect_waits(&w, 0, 1);
    EXPECT_RESULT(MEND_OK, mend_sim_end_capture(w.sim, captured, NULL));
    kit_close(&w);
}

/* A handle that comes back without mend_forget_stream is taken for a stream of other work. */
MEND_TEST(pool_waits, a_stream_destroyed_without_a_word_still_protects_its_memory)
{
    mend_world w;
    ASSERT_TRUE(kit_open_allowing(&w, 8 * MEND_MIB, 0));
    mend_stream gone = NULL;
    mend_stream later = NULL;
    EXPECT_RESULT(MEND_OK, mend_sim_stream_create(w.sim, &gone));
    kit_leave_in_flight(&w, BLOCK_BYTES, gone, 1000, gone);
    EXPECT_RESULT(MEND_OK, mend_sim_stream_destroy(w.sim, gone));
    EXPECT_RESULT(MEND_OK, mend_sim_stream_create(w.sim, &later));
    if (later == gone) {
        kit_alloc_used(&w, BLOCK_BYTES, NULL, 10);
    }
    EXPECT_TRUE(later == gone);
    EXPECT_RESULT(MEND_OK, mend_forget_stream(w.pool, later));
    EXPECT_RESULT(MEND_OK, mend_sim_stream_destroy(w.sim, later));
    kit_close(&w);
}

MEND_TEST(pool_waits, trim_holds_what_was_freed_without_a_stream)
{
    mend_world w;
    ASSERT_TRUE(kit_open_allowing(&w, 8 * MEND_MIB, 0));
    mend_stream stream = w.streams[2];
    kit_leave_in_flight(&w, BLOCK_BYTES, stream, 1000, MEND_NO_STREAM);
    EXPECT_RESULT(MEND_OK, mend_trim(w.pool, 0, NULL));
    EXPECT_U64_EQ(BLOCK_BYTES, mend_world_stats(&w).reserved_bytes);
    EXPECT_U64_EQ(0, mend_world_stats(&w).retired_bytes);
    kit_alloc_used(&w, BLOCK_BYTES, NULL, 10);
    EXPECT_U64_EQ(1, mend_world_stats(&w).host_waits);
    kit_close(&w);
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
MEND_TEST(pool_waits, a_thread_that_waits_has_host_memory_for_its_block_afterwards)
{
    for (int blocks = 0; blocks < 70; blocks++) {
        mend_world w;
        ASSERT_TRUE(kit_open_allowing(&w, 8 * MEND_MIB, -1));
        mend_stream first = w.streams[0];
        intruder others = {&w, w.streams[1], blocks};
        kit_alloc(&w, 512, others.stream);
        void *block = kit_alloc(&w, BLOCK_BYTES, first);
        kit_alloc(&w, 2 * MEND_MIB, others.stream);
        kit_use(&w, first, block, BLOCK_BYTES, 1000);
        kit_free(&w, block, first);
        mend_sim_set_call_observer(w.sim, intrude, &others);
        /* In the middle of the free run, so that it is cut twice; what is beside has no room. */
        uint64_t lowest_bit = (uint64_t)(uintptr_t)block & -(uint64_t)(uintptr_t)block;
        uint64_t offset = mend_min_u64(lowest_bit, 2 * MEND_MIB);
        kit_alloc_aligned(&w, BLOCK_BYTES - 512 - offset, 2 * offset, others.stream);
        mend_sim_set_call_observer(w.sim, NULL, NULL);
        EXPECT_INT_EQ(0, others.blocks);
        kit_close(&w);
    }
}

/* An empty chunk takes along what its memory waits for when it is mapped elsewhere. */
MEND_TEST(pool_waits, a_moved_chunk_still_waits_for_its_former_owner)
{
    enum { CHUNK = 1 << 20 };
    mend_world w;
    ASSERT_TRUE(kit_open_with(&w, 4 * MEND_MIB, NULL));
    mend_stream first = w.streams[0];
    mend_stream second = w.streams[1];
    void *blocks[4];
    for (int i = 0; i < 4; i++) {
        blocks[i] = kit_alloc(&w, CHUNK, first);
    }
    for (int i = 0; i < 4; i += 2) { /* written at once, read late */
        kit_use(&w, first, blocks[i], CHUNK, 1000);
        kit_free(&w, blocks[i], first);
    }
    /* The alignment keeps it from growing behind one of them. */
    void *joined = kit_alloc_aligned(&w, 2 * CHUNK, 4 * MEND_MIB, first);
    EXPECT_TRUE(mend_world_stats(&w).chunks_moved >= 2);
    kit_free(&w, joined, second);
    kit_alloc_used(&w, 2 * CHUNK, second, 0);
    kit_close(&w);
}
