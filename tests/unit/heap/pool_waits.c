/* Memory that crosses from stream to stream by ways that are easily forgotten: blocks freed where
 * nobody used them, and the per-thread streams of several threads. */
#include <pthread.h>
#include <string.h>

#include "tests/support/kit.h"

#define PER_THREAD ((mend_stream)(uintptr_t)2)

enum { BLOCK_BYTES = 5 << 20 };

/* A device of 8 MiB, so that a block of 5 MiB is in everybody's way. */
static bool open_small(mend_world *w, int allow_stream_waits)
{
    mend_world_init(w);
    w->sim_config.memory_bytes = 8 * MEND_MIB;
    w->pool_config.allow_stream_waits = allow_stream_waits;
    return kit_open(w);
}

static mend_stream new_stream(mend_world *w)
{
    mend_stream stream = NULL;
    EXPECT_RESULT(MEND_OK, mend_sim_stream_create(w->sim, &stream));
    return stream;
}

static void *allocate(mend_world *w, mend_stream stream)
{
    void *pointer = kit_alloc(w, BLOCK_BYTES, stream);
    return pointer;
}

/* Writes a block now, and checks it after `duration_ns` in the order of the stream. */
static void use(mend_world *w, mend_stream stream, void *pointer, uint64_t tag,
                uint64_t duration_ns)
{
    kit_launch(w, stream, MEND_SIM_WORK_WRITE, pointer, BLOCK_BYTES, tag, 0);
    kit_launch(w, stream, MEND_SIM_WORK_VERIFY, pointer, BLOCK_BYTES, tag,
               mend_sim_now_ns(w->sim) + duration_ns);
}

static void finish(mend_world *w)
{
    mend_sim_advance(w->sim, 5000);
    kit_close(w);
}

static void close_stream(mend_world *w, mend_stream stream)
{
    EXPECT_RESULT(MEND_OK, mend_forget_stream(w->pool, stream));
    EXPECT_RESULT(MEND_OK, mend_sim_stream_destroy(w->sim, stream));
}

/* The second owner never touches the block, and frees it on a stream that knows nothing of the
 * first owner's work. */
MEND_TEST(pool_waits, a_block_never_used_still_waits_for_its_former_owner)
{
    mend_world w;
    ASSERT_TRUE(open_small(&w, 0));
    mend_stream first = new_stream(&w);
    mend_stream second = new_stream(&w);
    void *block = allocate(&w, first);
    use(&w, first, block, 1, 1000);
    kit_free(&w, block, first);
    block = allocate(&w, first);
    kit_free(&w, block, second);
    block = allocate(&w, second);
    use(&w, second, block, 2, 10);
    mend_sim_advance(w.sim, 5000);
    close_stream(&w, first);
    close_stream(&w, second);
    finish(&w);
}

MEND_TEST(pool_waits, a_wait_of_the_stream_it_was_allocated_for_is_not_that_of_another)
{
    mend_world w;
    ASSERT_TRUE(open_small(&w, 0));
    mend_stream streams[3] = {new_stream(&w), new_stream(&w), new_stream(&w)};
    void *block = allocate(&w, streams[0]);
    use(&w, streams[0], block, 1, 1000);
    kit_free(&w, block, streams[0]);
    block = allocate(&w, streams[1]); /* behind a wait of this stream alone */
    kit_free(&w, block, streams[2]);
    block = allocate(&w, streams[2]);
    use(&w, streams[2], block, 2, 10);
    mend_sim_advance(w.sim, 5000);
    for (int i = 0; i < 3; i++) {
        close_stream(&w, streams[i]);
    }
    finish(&w);
}

typedef struct worker {
    mend_world *w;
    void *block;
} worker;

static void *use_per_thread_and_free(void *context)
{
    worker *by = context;
    by->block = allocate(by->w, PER_THREAD);
    use(by->w, PER_THREAD, by->block, 1, 1000);
    kit_free(by->w, by->block, PER_THREAD);
    return NULL;
}

static void run_in_thread(void *(*body)(void *), worker *by)
{
    pthread_t thread;
    ASSERT_INT_EQ(0, pthread_create(&thread, NULL, body, by));
    ASSERT_INT_EQ(0, pthread_join(thread, NULL));
}

static void per_thread_memory_crosses(int allow_stream_waits, mend_stream stream)
{
    mend_world w;
    ASSERT_TRUE(open_small(&w, allow_stream_waits));
    worker by = {.w = &w};
    run_in_thread(use_per_thread_and_free, &by);
    void *block = allocate(&w, stream);
    use(&w, stream, block, 2, 10);
    finish(&w);
}

MEND_TEST(pool_waits, a_thread_waits_for_the_per_thread_stream_of_another)
{
    per_thread_memory_crosses(0, NULL);
    per_thread_memory_crosses(-1, NULL);
    per_thread_memory_crosses(0, PER_THREAD);
    per_thread_memory_crosses(-1, PER_THREAD);
}

static void *use_on_per_thread(void *context)
{
    worker *by = context;
    EXPECT_RESULT(MEND_OK, mend_record_stream(by->w->pool, by->block, PER_THREAD));
    use(by->w, PER_THREAD, by->block, 1, 1000);
    return NULL;
}

MEND_TEST(pool_waits, a_per_thread_user_holds_the_block_that_another_thread_frees)
{
    mend_world w;
    ASSERT_TRUE(open_small(&w, 0));
    worker by = {.w = &w, .block = allocate(&w, NULL)};
    run_in_thread(use_on_per_thread, &by);
    kit_free(&w, by.block, NULL);
    void *block = allocate(&w, NULL);
    use(&w, NULL, block, 2, 10);
    finish(&w);
}

MEND_TEST(pool_waits, trim_waits_for_the_per_thread_stream_of_another_thread)
{
    mend_world w;
    ASSERT_TRUE(open_small(&w, 0));
    worker by = {.w = &w};
    run_in_thread(use_per_thread_and_free, &by);
    uint64_t released = 77;
    EXPECT_RESULT(MEND_OK, mend_trim(w.pool, 0, &released));
    EXPECT_U64_EQ(0, released);
    finish(&w);
}

static void *forget_per_thread(void *context)
{
    worker *by = context;
    use_per_thread_and_free(by);
    kit_fail(by->w, "context_push", 0, 0, 999);
    EXPECT_RESULT(MEND_ERROR_DRIVER, mend_forget_stream(by->w->pool, PER_THREAD));
    EXPECT_RESULT(MEND_OK, mend_forget_stream(by->w->pool, PER_THREAD));
    return NULL;
}

MEND_TEST(pool_waits, a_forgotten_per_thread_stream_needs_no_wait_for_the_context)
{
    mend_world w;
    ASSERT_TRUE(open_small(&w, 0));
    worker by = {.w = &w};
    run_in_thread(forget_per_thread, &by);
    void *block = allocate(&w, NULL);
    use(&w, NULL, block, 2, 10);
    EXPECT_U64_EQ(1, mend_world_stats(&w).stream_waits);
    EXPECT_U64_EQ(0, mend_world_stats(&w).host_waits);
    finish(&w);
}

/* Whoever captures a stream is not disturbed by what others allocate meanwhile. */
MEND_TEST(pool_waits, a_stream_that_is_captured_is_left_alone)
{
    mend_world w;
    ASSERT_TRUE(open_small(&w, 0));
    mend_stream captured = new_stream(&w);
    mend_stream other = new_stream(&w);
    void *block = allocate(&w, captured);
    use(&w, captured, block, 1, 1000);
    kit_free(&w, block, captured);
    EXPECT_RESULT(MEND_OK, mend_sim_begin_capture(w.sim, captured, MEND_SIM_CAPTURE_GLOBAL));
    EXPECT_RESULT(MEND_ERROR_CAPTURING, mend_forget_stream(w.pool, captured));
    kit_alloc(&w, 2 * MEND_MIB, other);
    EXPECT_RESULT(MEND_OK, mend_trim(w.pool, 0, NULL));
    EXPECT_RESULT(MEND_OK, mend_sim_end_capture(w.sim, captured, NULL));
    block = allocate(&w, other);
    use(&w, other, block, 2, 10);
    EXPECT_U64_EQ(1, mend_world_stats(&w).stream_waits);
    mend_sim_advance(w.sim, 5000);
    close_stream(&w, captured);
    close_stream(&w, other);
    finish(&w);
}

/* A stream that cannot be recorded on cannot wait either. */
MEND_TEST(pool_waits, a_stream_that_is_captured_is_not_made_to_wait)
{
    mend_world w;
    ASSERT_TRUE(open_small(&w, 0));
    mend_stream captured = new_stream(&w);
    mend_stream other = new_stream(&w);
    void *block = allocate(&w, other);
    use(&w, other, block, 1, 1000);
    kit_free(&w, block, other);
    block = kit_alloc(&w, 512, captured);
    EXPECT_RESULT(MEND_OK, mend_sim_begin_capture(w.sim, captured, MEND_SIM_CAPTURE_GLOBAL));
    allocate(&w, captured);
    EXPECT_U64_EQ(0, mend_world_stats(&w).stream_waits);
    EXPECT_U64_EQ(1, mend_world_stats(&w).host_waits);
    EXPECT_RESULT(MEND_OK, mend_sim_end_capture(w.sim, captured, NULL));
    close_stream(&w, captured);
    close_stream(&w, other);
    finish(&w);
}

/* A handle that comes back without mend_forget_stream stands for a stream of other work. */
MEND_TEST(pool_waits, a_stream_destroyed_without_a_word_still_protects_its_memory)
{
    mend_world w;
    ASSERT_TRUE(open_small(&w, 0));
    mend_stream gone = new_stream(&w);
    void *block = allocate(&w, gone);
    use(&w, gone, block, 1, 1000);
    kit_free(&w, block, gone);
    EXPECT_RESULT(MEND_OK, mend_sim_stream_destroy(w.sim, gone));
    mend_stream later = new_stream(&w);
    if (later == gone) {
        block = allocate(&w, NULL);
        use(&w, NULL, block, 2, 10);
    }
    EXPECT_TRUE(later == gone);
    EXPECT_RESULT(MEND_OK, mend_forget_stream(w.pool, later));
    EXPECT_RESULT(MEND_OK, mend_sim_stream_destroy(w.sim, later));
    finish(&w);
}

MEND_TEST(pool_waits, trim_holds_what_was_freed_without_a_stream)
{
    mend_world w;
    ASSERT_TRUE(open_small(&w, 0));
    mend_stream stream = new_stream(&w);
    void *block = allocate(&w, stream);
    use(&w, stream, block, 1, 1000);
    kit_free(&w, block, MEND_NO_STREAM);
    EXPECT_RESULT(MEND_OK, mend_trim(w.pool, 0, NULL));
    EXPECT_U64_EQ(BLOCK_BYTES, mend_world_stats(&w).reserved_bytes);
    EXPECT_U64_EQ(0, mend_world_stats(&w).retired_bytes);
    block = allocate(&w, NULL);
    use(&w, NULL, block, 2, 10);
    EXPECT_U64_EQ(1, mend_world_stats(&w).host_waits);
    close_stream(&w, stream);
    finish(&w);
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
MEND_TEST(pool_waits, whoever_waits_has_host_memory_for_its_block_afterwards)
{
    for (int blocks = 0; blocks < 70; blocks++) {
        mend_world w;
        ASSERT_TRUE(open_small(&w, -1));
        mend_stream first = new_stream(&w);
        intruder others = {&w, new_stream(&w), blocks};
        kit_alloc(&w, 512, others.stream);
        void *block = allocate(&w, first);
        kit_alloc(&w, 2 * MEND_MIB, others.stream);
        use(&w, first, block, 1, 1000);
        kit_free(&w, block, first);
        mend_sim_set_call_observer(w.sim, intrude, &others);
        /* In the middle of the free run, so that it is cut twice; what is beside has no room. */
        uint64_t lowest_bit = (uint64_t)(uintptr_t)block & -(uint64_t)(uintptr_t)block;
        uint64_t offset = mend_min_u64(lowest_bit, 2 * MEND_MIB);
        EXPECT_RESULT(MEND_OK, mend_alloc_aligned(w.pool, BLOCK_BYTES - 512 - offset, 2 * offset,
                                                  others.stream, &block));
        mend_sim_set_call_observer(w.sim, NULL, NULL);
        EXPECT_INT_EQ(0, others.blocks);
        close_stream(&w, first);
        close_stream(&w, others.stream);
        finish(&w);
    }
}

/* An empty chunk takes along what its memory waits for when it is mapped elsewhere. */
MEND_TEST(pool_waits, a_moved_chunk_still_waits_for_its_former_owner)
{
    enum { CHUNK = 1 << 20 };
    mend_world w;
    mend_world_init(&w);
    w.sim_config.memory_bytes = 4 * MEND_MIB;
    ASSERT_TRUE(kit_open(&w));
    mend_stream first = new_stream(&w);
    mend_stream second = new_stream(&w);
    void *blocks[4];
    for (int i = 0; i < 4; i++) {
        ASSERT_RESULT(MEND_OK, mend_alloc(w.pool, CHUNK, first, &blocks[i]));
    }
    mend_sim_work work = {.size_bytes = CHUNK, .tag = 1};
    for (int i = 0; i < 4; i += 2) { /* written at once, read late */
        work.address = (uint64_t)(uintptr_t)blocks[i];
        work.kind = MEND_SIM_WORK_WRITE;
        work.finish_ns = 0;
        EXPECT_RESULT(MEND_OK, mend_sim_launch(w.sim, first, &work));
        work.kind = MEND_SIM_WORK_VERIFY;
        work.finish_ns = 1000;
        EXPECT_RESULT(MEND_OK, mend_sim_launch(w.sim, first, &work));
        kit_free(&w, blocks[i], first);
    }
    void *joined = NULL;
    /* The alignment keeps it from growing behind one of them. */
    ASSERT_RESULT(MEND_OK, mend_alloc_aligned(w.pool, 2 * CHUNK, 4 * MEND_MIB, first, &joined));
    EXPECT_TRUE(mend_world_stats(&w).chunks_moved >= 2);
    kit_free(&w, joined, second);
    ASSERT_RESULT(MEND_OK, mend_alloc(w.pool, 2 * CHUNK, second, &joined));
    work = (mend_sim_work){.kind = MEND_SIM_WORK_WRITE,
                           .address = (uint64_t)(uintptr_t)joined,
                           .size_bytes = 2 * CHUNK,
                           .tag = 2};
    EXPECT_RESULT(MEND_OK, mend_sim_launch(w.sim, second, &work));
    finish(&w);
}
