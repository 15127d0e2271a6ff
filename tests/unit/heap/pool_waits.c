/* Memory that crosses from stream to stream by ways that are easily forgotten: blocks freed where
 * nobody used them, and the per-thread streams of several threads. */
#include <pthread.h>
#include <string.h>

#include "base/align.h"
#include "tests/support/test.h"
#include "tests/support/world.h"

#define PER_THREAD ((mend_stream)(uintptr_t)2)

enum { BLOCK_BYTES = 5 << 20 };

/* A device of 8 MiB, so that a block of 5 MiB is in everybody's way. */
static bool open_small(mend_world *world, int allow_stream_waits)
{
    mend_world_init(world);
    world->sim_config.memory_bytes = 8 * MEND_MIB;
    world->pool_config.allow_stream_waits = allow_stream_waits;
    return mend_world_open(world);
}

static mend_stream new_stream(mend_world *world)
{
    mend_stream stream = NULL;
    EXPECT_RESULT(MEND_OK, mend_sim_stream_create(world->sim, &stream));
    return stream;
}

static void *allocate(mend_world *world, mend_stream stream)
{
    void *pointer = NULL;
    EXPECT_RESULT(MEND_OK, mend_alloc(world->pool, BLOCK_BYTES, stream, &pointer));
    return pointer;
}

/* Writes a block now, and checks it after `duration_ns` in the order of the stream. */
static void use(mend_world *world, mend_stream stream, void *pointer, uint64_t tag,
                uint64_t duration_ns)
{
    mend_sim_work work = {.kind = MEND_SIM_WORK_WRITE,
                          .address = (uint64_t)(uintptr_t)pointer,
                          .size_bytes = BLOCK_BYTES,
                          .tag = tag};
    EXPECT_RESULT(MEND_OK, mend_sim_launch(world->sim, stream, &work));
    work.kind = MEND_SIM_WORK_VERIFY;
    work.finish_ns = mend_sim_now_ns(world->sim) + duration_ns;
    EXPECT_RESULT(MEND_OK, mend_sim_launch(world->sim, stream, &work));
}

static void finish(mend_world *world)
{
    mend_sim_advance(world->sim, 5000);
    mend_world_check(world);
    mend_world_close(world);
}

static void close_stream(mend_world *world, mend_stream stream)
{
    EXPECT_RESULT(MEND_OK, mend_forget_stream(world->pool, stream));
    EXPECT_RESULT(MEND_OK, mend_sim_stream_destroy(world->sim, stream));
}

/* The second owner never touches the block, and frees it on a stream that knows nothing of the
 * first owner's work. */
MEND_TEST(pool_waits, a_block_never_used_still_waits_for_its_former_owner)
{
    mend_world world;
    ASSERT_TRUE(open_small(&world, 0));
    mend_stream first = new_stream(&world);
    mend_stream second = new_stream(&world);
    void *block = allocate(&world, first);
    use(&world, first, block, 1, 1000);
    EXPECT_RESULT(MEND_OK, mend_free(world.pool, block, first));
    block = allocate(&world, first);
    EXPECT_RESULT(MEND_OK, mend_free(world.pool, block, second));
    block = allocate(&world, second);
    use(&world, second, block, 2, 10);
    mend_sim_advance(world.sim, 5000);
    close_stream(&world, first);
    close_stream(&world, second);
    finish(&world);
}

MEND_TEST(pool_waits, a_wait_of_the_stream_it_was_allocated_for_is_not_that_of_another)
{
    mend_world world;
    ASSERT_TRUE(open_small(&world, 0));
    mend_stream streams[3] = {new_stream(&world), new_stream(&world), new_stream(&world)};
    void *block = allocate(&world, streams[0]);
    use(&world, streams[0], block, 1, 1000);
    EXPECT_RESULT(MEND_OK, mend_free(world.pool, block, streams[0]));
    block = allocate(&world, streams[1]); /* behind a wait of this stream alone */
    EXPECT_RESULT(MEND_OK, mend_free(world.pool, block, streams[2]));
    block = allocate(&world, streams[2]);
    use(&world, streams[2], block, 2, 10);
    mend_sim_advance(world.sim, 5000);
    for (int i = 0; i < 3; i++) {
        close_stream(&world, streams[i]);
    }
    finish(&world);
}

typedef struct worker {
    mend_world *world;
    void *block;
} worker;

static void *use_per_thread_and_free(void *context)
{
    worker *w = context;
    w->block = allocate(w->world, PER_THREAD);
    use(w->world, PER_THREAD, w->block, 1, 1000);
    EXPECT_RESULT(MEND_OK, mend_free(w->world->pool, w->block, PER_THREAD));
    return NULL;
}

static void run_in_thread(void *(*body)(void *), worker *w)
{
    pthread_t thread;
    ASSERT_INT_EQ(0, pthread_create(&thread, NULL, body, w));
    ASSERT_INT_EQ(0, pthread_join(thread, NULL));
}

static void per_thread_memory_crosses(int allow_stream_waits, mend_stream stream)
{
    mend_world world;
    ASSERT_TRUE(open_small(&world, allow_stream_waits));
    worker w = {.world = &world};
    run_in_thread(use_per_thread_and_free, &w);
    void *block = allocate(&world, stream);
    use(&world, stream, block, 2, 10);
    finish(&world);
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
    worker *w = context;
    EXPECT_RESULT(MEND_OK, mend_record_stream(w->world->pool, w->block, PER_THREAD));
    use(w->world, PER_THREAD, w->block, 1, 1000);
    return NULL;
}

MEND_TEST(pool_waits, a_per_thread_user_holds_the_block_that_another_thread_frees)
{
    mend_world world;
    ASSERT_TRUE(open_small(&world, 0));
    worker w = {.world = &world, .block = allocate(&world, NULL)};
    run_in_thread(use_on_per_thread, &w);
    EXPECT_RESULT(MEND_OK, mend_free(world.pool, w.block, NULL));
    void *block = allocate(&world, NULL);
    use(&world, NULL, block, 2, 10);
    finish(&world);
}

MEND_TEST(pool_waits, trim_waits_for_the_per_thread_stream_of_another_thread)
{
    mend_world world;
    ASSERT_TRUE(open_small(&world, 0));
    worker w = {.world = &world};
    run_in_thread(use_per_thread_and_free, &w);
    uint64_t released = 77;
    EXPECT_RESULT(MEND_OK, mend_trim(world.pool, 0, &released));
    EXPECT_U64_EQ(0, released);
    finish(&world);
}

static void *forget_per_thread(void *context)
{
    worker *w = context;
    use_per_thread_and_free(w);
    mend_sim_fault fault = MEND_SIM_FAULT_INIT;
    fault.call = "context_push";
    fault.status = 999;
    EXPECT_RESULT(MEND_OK, mend_sim_fail(w->world->sim, &fault));
    EXPECT_RESULT(MEND_ERROR_DRIVER, mend_forget_stream(w->world->pool, PER_THREAD));
    EXPECT_RESULT(MEND_OK, mend_forget_stream(w->world->pool, PER_THREAD));
    return NULL;
}

MEND_TEST(pool_waits, a_forgotten_per_thread_stream_needs_no_wait_for_the_context)
{
    mend_world world;
    ASSERT_TRUE(open_small(&world, 0));
    worker w = {.world = &world};
    run_in_thread(forget_per_thread, &w);
    void *block = allocate(&world, NULL);
    use(&world, NULL, block, 2, 10);
    EXPECT_U64_EQ(1, mend_world_stats(&world).stream_waits);
    EXPECT_U64_EQ(0, mend_world_stats(&world).host_waits);
    finish(&world);
}

/* Whoever captures a stream is not disturbed by what others allocate meanwhile. */
MEND_TEST(pool_waits, a_stream_that_is_captured_is_left_alone)
{
    mend_world world;
    ASSERT_TRUE(open_small(&world, 0));
    mend_stream captured = new_stream(&world);
    mend_stream other = new_stream(&world);
    void *block = allocate(&world, captured);
    use(&world, captured, block, 1, 1000);
    EXPECT_RESULT(MEND_OK, mend_free(world.pool, block, captured));
    EXPECT_RESULT(MEND_OK, mend_sim_begin_capture(world.sim, captured, MEND_SIM_CAPTURE_GLOBAL));
    EXPECT_RESULT(MEND_ERROR_CAPTURING, mend_forget_stream(world.pool, captured));
    void *small = NULL;
    EXPECT_RESULT(MEND_OK, mend_alloc(world.pool, 2 * MEND_MIB, other, &small));
    EXPECT_RESULT(MEND_OK, mend_trim(world.pool, 0, NULL));
    EXPECT_RESULT(MEND_OK, mend_sim_end_capture(world.sim, captured, NULL));
    block = allocate(&world, other);
    use(&world, other, block, 2, 10);
    EXPECT_U64_EQ(1, mend_world_stats(&world).stream_waits);
    mend_sim_advance(world.sim, 5000);
    close_stream(&world, captured);
    close_stream(&world, other);
    finish(&world);
}

/* A stream that cannot be recorded on cannot wait either. */
MEND_TEST(pool_waits, a_stream_that_is_captured_is_not_made_to_wait)
{
    mend_world world;
    ASSERT_TRUE(open_small(&world, 0));
    mend_stream captured = new_stream(&world);
    mend_stream other = new_stream(&world);
    void *block = allocate(&world, other);
    use(&world, other, block, 1, 1000);
    EXPECT_RESULT(MEND_OK, mend_free(world.pool, block, other));
    EXPECT_RESULT(MEND_OK, mend_alloc(world.pool, 512, captured, &block));
    EXPECT_RESULT(MEND_OK, mend_sim_begin_capture(world.sim, captured, MEND_SIM_CAPTURE_GLOBAL));
    allocate(&world, captured);
    EXPECT_U64_EQ(0, mend_world_stats(&world).stream_waits);
    EXPECT_U64_EQ(1, mend_world_stats(&world).host_waits);
    EXPECT_RESULT(MEND_OK, mend_sim_end_capture(world.sim, captured, NULL));
    close_stream(&world, captured);
    close_stream(&world, other);
    finish(&world);
}

/* A handle that comes back without mend_forget_stream stands for a stream of other work. */
MEND_TEST(pool_waits, a_stream_destroyed_without_a_word_still_protects_its_memory)
{
    mend_world world;
    ASSERT_TRUE(open_small(&world, 0));
    mend_stream gone = new_stream(&world);
    void *block = allocate(&world, gone);
    use(&world, gone, block, 1, 1000);
    EXPECT_RESULT(MEND_OK, mend_free(world.pool, block, gone));
    EXPECT_RESULT(MEND_OK, mend_sim_stream_destroy(world.sim, gone));
    mend_stream later = new_stream(&world);
    if (later == gone) {
        block = allocate(&world, NULL);
        use(&world, NULL, block, 2, 10);
    }
    EXPECT_TRUE(later == gone);
    EXPECT_RESULT(MEND_OK, mend_forget_stream(world.pool, later));
    EXPECT_RESULT(MEND_OK, mend_sim_stream_destroy(world.sim, later));
    finish(&world);
}

MEND_TEST(pool_waits, trim_holds_what_was_freed_without_a_stream)
{
    mend_world world;
    ASSERT_TRUE(open_small(&world, 0));
    mend_stream stream = new_stream(&world);
    void *block = allocate(&world, stream);
    use(&world, stream, block, 1, 1000);
    EXPECT_RESULT(MEND_OK, mend_free(world.pool, block, MEND_NO_STREAM));
    EXPECT_RESULT(MEND_OK, mend_trim(world.pool, 0, NULL));
    EXPECT_U64_EQ(BLOCK_BYTES, mend_world_stats(&world).reserved_bytes);
    EXPECT_U64_EQ(0, mend_world_stats(&world).retired_bytes);
    block = allocate(&world, NULL);
    use(&world, NULL, block, 2, 10);
    EXPECT_U64_EQ(1, mend_world_stats(&world).host_waits);
    close_stream(&world, stream);
    finish(&world);
}

/* What the pool's other users do while one of them waits for the GPU. */
typedef struct intruder {
    mend_world *world;
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
        void *pointer = NULL;
        EXPECT_RESULT(MEND_OK, mend_alloc(i->world->pool, 512, i->stream, &pointer));
    }
}

/* However many records others leave: each count up to more than the pool allocates at a time. */
MEND_TEST(pool_waits, whoever_waits_has_host_memory_for_its_block_afterwards)
{
    for (int blocks = 0; blocks < 70; blocks++) {
        mend_world world;
        ASSERT_TRUE(open_small(&world, -1));
        mend_stream first = new_stream(&world);
        intruder others = {&world, new_stream(&world), blocks};
        void *pointer = NULL;
        EXPECT_RESULT(MEND_OK, mend_alloc(world.pool, 512, others.stream, &pointer));
        void *block = allocate(&world, first);
        EXPECT_RESULT(MEND_OK, mend_alloc(world.pool, 2 * MEND_MIB, others.stream, &pointer));
        use(&world, first, block, 1, 1000);
        EXPECT_RESULT(MEND_OK, mend_free(world.pool, block, first));
        mend_sim_set_call_observer(world.sim, intrude, &others);
        /* In the middle of the free run, so that it is cut twice; what is beside has no room. */
        uint64_t lowest_bit = (uint64_t)(uintptr_t)block & -(uint64_t)(uintptr_t)block;
        uint64_t offset = mend_min_u64(lowest_bit, 2 * MEND_MIB);
        EXPECT_RESULT(MEND_OK, mend_alloc_aligned(world.pool, BLOCK_BYTES - 512 - offset,
                                                  2 * offset, others.stream, &block));
        mend_sim_set_call_observer(world.sim, NULL, NULL);
        EXPECT_INT_EQ(0, others.blocks);
        close_stream(&world, first);
        close_stream(&world, others.stream);
        finish(&world);
    }
}

/* An empty chunk takes along what its memory waits for when it is mapped elsewhere. */
MEND_TEST(pool_waits, a_moved_chunk_still_waits_for_its_former_owner)
{
    enum { CHUNK = 1 << 20 };
    mend_world world;
    mend_world_init(&world);
    world.sim_config.memory_bytes = 4 * MEND_MIB;
    ASSERT_TRUE(mend_world_open(&world));
    mend_stream first = new_stream(&world);
    mend_stream second = new_stream(&world);
    void *blocks[4];
    for (int i = 0; i < 4; i++) {
        ASSERT_RESULT(MEND_OK, mend_alloc(world.pool, CHUNK, first, &blocks[i]));
    }
    mend_sim_work work = {.size_bytes = CHUNK, .tag = 1};
    for (int i = 0; i < 4; i += 2) { /* written at once, read late */
        work.address = (uint64_t)(uintptr_t)blocks[i];
        work.kind = MEND_SIM_WORK_WRITE;
        work.finish_ns = 0;
        EXPECT_RESULT(MEND_OK, mend_sim_launch(world.sim, first, &work));
        work.kind = MEND_SIM_WORK_VERIFY;
        work.finish_ns = 1000;
        EXPECT_RESULT(MEND_OK, mend_sim_launch(world.sim, first, &work));
        EXPECT_RESULT(MEND_OK, mend_free(world.pool, blocks[i], first));
    }
    void *joined = NULL;
    /* The alignment keeps it from growing behind one of them. */
    ASSERT_RESULT(MEND_OK, mend_alloc_aligned(world.pool, 2 * CHUNK, 4 * MEND_MIB, first, &joined));
    EXPECT_TRUE(mend_world_stats(&world).chunks_moved >= 2);
    EXPECT_RESULT(MEND_OK, mend_free(world.pool, joined, second));
    ASSERT_RESULT(MEND_OK, mend_alloc(world.pool, 2 * CHUNK, second, &joined));
    work = (mend_sim_work){.kind = MEND_SIM_WORK_WRITE,
                           .address = (uint64_t)(uintptr_t)joined,
                           .size_bytes = 2 * CHUNK,
                           .tag = 2};
    EXPECT_RESULT(MEND_OK, mend_sim_launch(world.sim, second, &work));
    finish(&world);
}
