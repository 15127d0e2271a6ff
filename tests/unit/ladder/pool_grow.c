/*
 * One thread sits inside a slow driver call, with the right to make room; others go on. What they
 * do meanwhile is written out for single cases here, and by a table in pool_grow_table.c.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/align.h"
#include "ladder/place.h"
#include "layout/layout.h"
#include "pool/pool.h"
#include "tests/support/held.h"
#include "tests/support/test.h"
#include "tests/support/world.h"
#include "users/group.h"

typedef struct request {
    mend_world *world;
    uint64_t size_bytes;
    uint64_t alignment_bytes;
    mend_stream stream;
    mend_result result;
    void *pointer;
} request;

static void allocate(void *argument)
{
    request *r = argument;
    r->result = mend_alloc_aligned(r->world->pool, r->size_bytes, r->alignment_bytes, r->stream,
                                   &r->pointer);
}

static void use(mend_world *world, mend_stream stream, void *pointer, uint64_t size_bytes,
                mend_sim_work_kind kind, uint64_t tag)
{
    mend_sim_work work = {.kind = kind,
                          .address = (uint64_t)(uintptr_t)pointer,
                          .size_bytes = size_bytes,
                          .tag = tag};
    EXPECT_RESULT(MEND_OK, mend_sim_launch(world->sim, stream, &work));
    mend_sim_advance(world->sim, 1);
}

/* The driver takes its 50 ms for set_access, and longer; nobody else notices. */
MEND_TEST(pool_grow, others_allocate_from_the_cache_while_one_sits_in_an_access_call)
{
    mend_world world;
    mend_world_init(&world);
    ASSERT_TRUE(mend_world_open(&world));
    void *cached[3]; /* all of a chunk; the middle is the cache, which nobody can extend */
    for (int i = 0; i < 3; i++) {
        uint64_t size_bytes = i == 1 ? 512 * MEND_KIB : 256 * MEND_KIB;
        ASSERT_RESULT(MEND_OK, mend_alloc(world.pool, size_bytes, NULL, &cached[i]));
    }
    ASSERT_RESULT(MEND_OK, mend_free(world.pool, cached[1], NULL));
    request slow = {&world, 5 * MEND_MIB, 512, NULL, MEND_OK, NULL};
    mend_held held;
    ASSERT_TRUE(mend_held_begin(&held, world.sim, 11, allocate, &slow));
    ASSERT_TRUE(strcmp(held.call, "set_access") == 0); /* after 5 chunks created and mapped */
    EXPECT_U64_EQ(2, mend_world_stats(&world).live_blocks);
    for (uint64_t i = 0; i < 200; i++) {
        void *fast[3];
        for (int k = 0; k < 3; k++) {
            ASSERT_RESULT(MEND_OK, mend_alloc(world.pool, 48 * MEND_KIB, NULL, &fast[k]));
            use(&world, NULL, fast[k], 48 * MEND_KIB, MEND_SIM_WORK_WRITE, i * 3 + (uint64_t)k);
        }
        for (int k = 0; k < 3; k++) {
            use(&world, NULL, fast[k], 48 * MEND_KIB, MEND_SIM_WORK_VERIFY, i * 3 + (uint64_t)k);
            ASSERT_RESULT(MEND_OK, mend_free(world.pool, fast[k], NULL));
        }
    }
    mend_stats stats = mend_world_stats(&world);
    EXPECT_U64_EQ(stats.reserved_bytes, stats.live_bytes + stats.free_bytes);
    EXPECT_TRUE(stats.peak_reserved_bytes >= stats.reserved_bytes);
    mend_held_end(&held);
    EXPECT_RESULT(MEND_OK, slow.result);
    mend_world_check(&world);
    mend_world_close(&world);
}

/* Each block in the middle of a run costs the pool two records; what the thread that waits for the
 * GPU will need must still be there, however many others took. */
MEND_TEST(pool_grow, records_are_left_for_who_waits_for_the_gpu)
{
    for (int taken = 0; taken < 70; taken++) {
        mend_world world;
        mend_world_init(&world);
        world.pool_config.limit_bytes = 12 * MEND_MIB;
        world.pool_config.small_request_bytes = 512;
        world.pool_config.allow_stream_waits = -1;
        ASSERT_TRUE(mend_world_open(&world));
        mend_stream other;
        ASSERT_RESULT(MEND_OK, mend_sim_stream_create(world.sim, &other));
        void *cache;
        void *freed;
        ASSERT_RESULT(MEND_OK, mend_alloc(world.pool, 8 * MEND_MIB, NULL, &cache));
        ASSERT_RESULT(MEND_OK, mend_alloc(world.pool, 4 * MEND_MIB, other, &freed));
        mend_sim_work work = {.kind = MEND_SIM_WORK_TOUCH,
                              .address = (uint64_t)(uintptr_t)freed,
                              .size_bytes = 4 * MEND_MIB,
                              .finish_ns = mend_sim_now_ns(world.sim) + 1000000000};
        ASSERT_RESULT(MEND_OK, mend_sim_launch(world.sim, other, &work));
        ASSERT_RESULT(MEND_OK, mend_free(world.pool, freed, other));
        void *wedge;
        ASSERT_RESULT(MEND_OK, mend_free(world.pool, cache, NULL));
        ASSERT_RESULT(MEND_OK, mend_alloc(world.pool, 6 * MEND_MIB, NULL, &wedge));
        request waits = {&world, 3 * MEND_MIB, 2 * MEND_MIB, NULL, MEND_OK, NULL};
        mend_held held;
        ASSERT_TRUE(mend_held_begin(&held, world.sim, 1, allocate, &waits));
        EXPECT_STR_EQ("event_synchronize", held.call);
        for (int i = 0; i < taken; i++) {
            void *pointer;
            ASSERT_RESULT(MEND_OK, mend_alloc_aligned(world.pool, 12288, 16384, NULL, &pointer));
        }
        mend_held_end(&held);
        EXPECT_RESULT(MEND_OK, waits.result);
        mend_world_check(&world);
        mend_world_close(&world);
    }
}

/* The driver has no memory until the GPU is done; that is no failure of the call. */
MEND_TEST(pool_grow, what_was_worked_around_is_not_the_last_error)
{
    mend_world world;
    mend_world_init(&world);
    world.sim_config.memory_bytes = 16 * MEND_MIB;
    world.pool_config.allow_stream_waits = -1;
    ASSERT_TRUE(mend_world_open(&world));
    void *pointer;
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_alloc(world.pool, 0, NULL, &pointer));
    ASSERT_RESULT(MEND_OK, mend_alloc(world.pool, 5 * MEND_MIB, NULL, &pointer));
    ASSERT_RESULT(MEND_OK, mend_free(world.pool, pointer, MEND_NO_STREAM));
    mend_sim_fault fault = MEND_SIM_FAULT_INIT;
    fault.call = "create";
    fault.count = UINT64_MAX;
    EXPECT_RESULT(MEND_OK, mend_sim_fail(world.sim, &fault));
    ASSERT_RESULT(MEND_OK, mend_alloc(world.pool, 5 * MEND_MIB, NULL, &pointer));
    mend_error error = MEND_ERROR_INIT;
    EXPECT_RESULT(MEND_OK, mend_last_error(&error));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, error.result);
    mend_world_check(&world);
    mend_world_close(&world);
}

static void *allocate_in_thread(void *argument)
{
    allocate(argument);
    return NULL;
}

/* Somebody waits for the right to make room, and has let go of the heap. */
static void wait_for_one_in_line(mend_heap *heap)
{
    size_t in_line = 0;
    while (in_line == 0) {
        sched_yield();
        mend_heap_lock(heap);
        in_line = heap->blocks.promised_count;
        mend_heap_unlock(heap);
    }
}

/* The group that took the request is gone when its turn comes: the block belongs to none. */
MEND_TEST(pool_grow, a_group_may_go_while_a_request_waits_its_turn)
{
    mend_world world;
    mend_world_init(&world);
    ASSERT_TRUE(mend_world_open(&world));
    mend_heap *heap = &world.pool->heap;
    mend_group *group;
    request late = {&world, 3 * MEND_MIB, 512, NULL, MEND_OK, NULL};
    pthread_t thread;
    ASSERT_RESULT(MEND_OK, mend_group_create(world.pool, &group));
    ASSERT_RESULT(MEND_OK, mend_group_begin(group, MEND_EVERY_STREAM));
    mend_mutex_lock(&heap->grow);
    ASSERT_INT_EQ(0, pthread_create(&thread, NULL, allocate_in_thread, &late));
    wait_for_one_in_line(heap);
    EXPECT_RESULT(MEND_OK, mend_group_end(group));
    mend_heap_lock(heap);
    EXPECT_RESULT(MEND_OK, mend_group_leave(heap, group, MEND_NO_STREAM));
    mend_group_drop(heap, group);
    mend_heap_unlock(heap);
    mend_mutex_unlock(&heap->grow);
    pthread_join(thread, NULL);
    free(group);
    EXPECT_RESULT(MEND_OK, late.result);
    mend_world_check(&world);
    EXPECT_FALSE(mend_heap_block_at(heap, (uint64_t)(uintptr_t)late.pointer)->of_group);
    EXPECT_RESULT(MEND_OK, mend_free(world.pool, late.pointer, NULL));
    mend_world_check(&world);
    mend_world_close(&world);
}

/* Another process has the memory; the block that another thread frees, while the driver is asked
 * for more or for what it has left, is what is missing. */
MEND_TEST(pool_grow, what_others_free_at_the_last_moment_is_found)
{
    bool is_frozen = true;
    for (uint64_t position = 1; is_frozen; position++) {
        mend_world world;
        mend_world_init(&world);
        world.sim_config.memory_bytes = 8 * MEND_MIB;
        ASSERT_TRUE(mend_world_open(&world));
        void *freed;
        ASSERT_RESULT(MEND_OK, mend_alloc(world.pool, 5 * MEND_MIB, NULL, &freed));
        mend_sim_set_foreign_bytes(world.sim, 0, 3 * MEND_MIB);
        request r = {&world, 3 * MEND_MIB, 512, NULL, MEND_OK, NULL};
        mend_held held;
        is_frozen = mend_held_begin(&held, world.sim, position, allocate, &r);
        EXPECT_RESULT(MEND_OK, mend_free(world.pool, freed, NULL));
        mend_held_end(&held);
        EXPECT_RESULT(is_frozen ? MEND_OK : MEND_ERROR_OUT_OF_MEMORY, r.result);
        EXPECT_TRUE(is_frozen || position > 4); /* one creation at least in each of two searches */
        mend_world_check(&world);
        mend_world_close(&world);
    }
}

/* What a stream that ended has left open waits for the context; a stream that comes while that wait
 * is under way, and fails, must not be taken for it. */
MEND_TEST(pool_grow, a_stream_that_comes_during_a_failed_wait_stands_for_no_other)
{
    enum { BLOCK = 5 << 20 };
    mend_world world;
    mend_world_init(&world);
    world.sim_config.memory_bytes = 8 * MEND_MIB;
    ASSERT_TRUE(mend_world_open(&world));
    mend_stream gone;
    mend_stream come;
    void *block = NULL;
    void *small[2] = {NULL};
    ASSERT_RESULT(MEND_OK, mend_sim_stream_create(world.sim, &gone));
    ASSERT_RESULT(MEND_OK, mend_alloc(world.pool, BLOCK, gone, &block));
    ASSERT_RESULT(MEND_OK, mend_alloc(world.pool, 512, NULL, &small[0]));
    use(&world, gone, block, BLOCK, MEND_SIM_WORK_WRITE, 1);
    mend_sim_work late = {.kind = MEND_SIM_WORK_VERIFY,
                          .address = (uint64_t)(uintptr_t)block,
                          .size_bytes = BLOCK,
                          .tag = 1,
                          .finish_ns = mend_sim_now_ns(world.sim) + 1000};
    EXPECT_RESULT(MEND_OK, mend_sim_launch(world.sim, gone, &late));
    mend_sim_fault fault = MEND_SIM_FAULT_INIT;
    fault.call = "event_record"; /* or the free would leave a fence */
    fault.status = 999;
    EXPECT_RESULT(MEND_OK, mend_sim_fail(world.sim, &fault));
    EXPECT_RESULT(MEND_OK, mend_free(world.pool, block, gone));
    EXPECT_RESULT(MEND_OK, mend_sim_stream_destroy(world.sim, gone));
    EXPECT_RESULT(MEND_OK, mend_sim_stream_create(world.sim, &come)); /* with its handle */
    EXPECT_PTR_EQ(gone, come);
    EXPECT_RESULT(MEND_OK, mend_forget_stream(world.pool, come));

    fault.call = "context_synchronize";
    fault.count = UINT64_MAX;
    EXPECT_RESULT(MEND_OK, mend_sim_fail(world.sim, &fault));
    request r = {&world, BLOCK, 512, NULL, MEND_OK, NULL};
    mend_held held;
    uint64_t position = 1;
    while (mend_held_begin(&held, world.sim, position, allocate, &r) &&
           strcmp(held.call, "context_synchronize") != 0) {
        mend_held_end(&held);
        ASSERT_RESULT(MEND_ERROR_DRIVER, r.result);
        position++;
    }
    EXPECT_RESULT(MEND_OK, mend_alloc(world.pool, 512, come, &small[1]));
    mend_held_end(&held);
    EXPECT_RESULT(MEND_ERROR_DRIVER, r.result);
    mend_sim_clear_faults(world.sim);
    mend_world_check(&world);
    allocate(&r);
    EXPECT_RESULT(MEND_OK, r.result);
    use(&world, NULL, r.pointer, BLOCK, MEND_SIM_WORK_WRITE, 2);
    EXPECT_U64_EQ(1, mend_world_stats(&world).host_waits);
    mend_sim_advance(world.sim, 5000);
    mend_world_check(&world);
    mend_world_close(&world);
}

/* A pool of one stream gives what was freed without one to nobody before the wait is over. */
MEND_TEST(pool_grow, what_a_wait_for_the_context_is_to_free_is_not_free_before)
{
    mend_world world;
    mend_world_init(&world);
    world.pool_config.limit_bytes = 8 * MEND_MIB;
    ASSERT_TRUE(mend_world_open(&world));
    mend_stream unknown;
    void *freed;
    ASSERT_RESULT(MEND_OK, mend_sim_stream_create(world.sim, &unknown));
    ASSERT_RESULT(MEND_OK, mend_alloc(world.pool, 8 * MEND_MIB, NULL, &freed));
    mend_sim_work work = {.kind = MEND_SIM_WORK_TOUCH,
                          .address = (uint64_t)(uintptr_t)freed,
                          .size_bytes = 8 * MEND_MIB,
                          .finish_ns = mend_sim_now_ns(world.sim) + 1000000000};
    ASSERT_RESULT(MEND_OK, mend_sim_launch(world.sim, unknown, &work));
    ASSERT_RESULT(MEND_OK, mend_free(world.pool, freed, MEND_NO_STREAM));
    request waits = {&world, 8 * MEND_MIB, 512, NULL, MEND_OK, NULL};
    mend_held held;
    ASSERT_TRUE(mend_held_begin(&held, world.sim, 1, allocate, &waits));
    EXPECT_STR_EQ("context_synchronize", held.call);
    mend_heap_lock(&world.pool->heap);
    mend_request asking = {.size_bytes = 4 * MEND_MIB,
                           .alignment_bytes = 512,
                           .stream = mend_streams_lookup(&world.pool->heap.streams, NULL, 0),
                           .zone = MEND_ZONE_LARGE};
    mend_span *span = NULL;
    EXPECT_INT_EQ(MEND_NOTHING, mend_place_mapped(&world.pool->heap, &asking, &span));
    mend_heap_unlock(&world.pool->heap);
    EXPECT_TRUE(span == NULL);
    mend_held_end(&held);
    EXPECT_RESULT(MEND_OK, waits.result);
    mend_world_check(&world);
    ASSERT_RESULT(MEND_OK, mend_sim_stream_destroy(world.sim, unknown));
    mend_world_close(&world);
}
