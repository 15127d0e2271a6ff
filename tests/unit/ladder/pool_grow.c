/*
 * One thread sits inside a slow driver call, with the right to make room; others go on. What they
 * do meanwhile is written out for single cases here, and by a table in pool_grow_table.c.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "ladder/place.h"
#include "layout/layout.h"
#include "pool/pool.h"
#include "tests/support/held.h"
#include "tests/support/kit.h"
#include "users/group.h"

typedef struct request {
    mend_world *w;
    uint64_t size_bytes;
    uint64_t alignment_bytes;
    mend_stream stream;
    mend_result result;
    void *pointer;
} request;

static void allocate(void *argument)
{
    request *r = argument;
    r->result =
        mend_alloc_aligned(r->w->pool, r->size_bytes, r->alignment_bytes, r->stream, &r->pointer);
}

static void use(mend_world *w, mend_stream stream, void *pointer, uint64_t size_bytes,
                mend_sim_work_kind kind, uint64_t tag)
{
    kit_launch(w, stream, kind, pointer, size_bytes, tag, 0);
    mend_sim_advance(w->sim, 1);
}

/* The driver takes its 50 ms for set_access, and longer; nobody else notices. */
MEND_TEST(pool_grow, others_allocate_from_the_cache_while_one_sits_in_an_access_call)
{
    mend_world w;
    ASSERT_TRUE(kit_open_default(&w));
    void *cached[3]; /* all of a chunk; the middle is the cache, which nobody can extend */
    for (int i = 0; i < 3; i++) {
        uint64_t size_bytes = i == 1 ? 512 * MEND_KIB : 256 * MEND_KIB;
        cached[i] = kit_alloc(&w, size_bytes, NULL);
    }
    kit_free(&w, cached[1], NULL);
    request slow = {&w, 5 * MEND_MIB, 512, NULL, MEND_OK, NULL};
    mend_held held;
    ASSERT_TRUE(mend_held_begin(&held, w.sim, 11, allocate, &slow));
    ASSERT_TRUE(strcmp(held.call, "set_access") == 0); /* after 5 chunks created and mapped */
    EXPECT_U64_EQ(2, mend_world_stats(&w).live_blocks);
    for (uint64_t i = 0; i < 200; i++) {
        void *fast[3];
        for (int k = 0; k < 3; k++) {
            fast[k] = kit_alloc(&w, 48 * MEND_KIB, NULL);
            use(&w, NULL, fast[k], 48 * MEND_KIB, MEND_SIM_WORK_WRITE, i * 3 + (uint64_t)k);
        }
        for (int k = 0; k < 3; k++) {
            use(&w, NULL, fast[k], 48 * MEND_KIB, MEND_SIM_WORK_VERIFY, i * 3 + (uint64_t)k);
            kit_free(&w, fast[k], NULL);
        }
    }
    mend_stats stats = mend_world_stats(&w);
    EXPECT_U64_EQ(stats.reserved_bytes, stats.live_bytes + stats.free_bytes);
    EXPECT_TRUE(stats.peak_reserved_bytes >= stats.reserved_bytes);
    mend_held_end(&held);
    EXPECT_RESULT(MEND_OK, slow.result);
    kit_close(&w);
}

/* Each block in the middle of a run costs the pool two records; what the thread that waits for the
 * GPU will need must still be there, however many others took. */
MEND_TEST(pool_grow, records_are_left_for_who_waits_for_the_gpu)
{
    for (int taken = 0; taken < 70; taken++) {
        mend_world w;
        mend_world_init(&w);
        w.pool_config.limit_bytes = 12 * MEND_MIB;
        w.placement.small_request_bytes = 512;
        w.pool_config.allow_stream_waits = -1;
        ASSERT_TRUE(kit_open(&w));
        mend_stream other;
        ASSERT_RESULT(MEND_OK, mend_sim_stream_create(w.sim, &other));
        void *cache = kit_alloc(&w, 8 * MEND_MIB, NULL);
        void *freed = kit_alloc(&w, 4 * MEND_MIB, other);
        kit_launch(&w, other, MEND_SIM_WORK_TOUCH, freed, 4 * MEND_MIB, 0,
                   mend_sim_now_ns(w.sim) + 1000000000);
        kit_free(&w, freed, other);
        kit_free(&w, cache, NULL);
        kit_alloc(&w, 6 * MEND_MIB, NULL);
        request waits = {&w, 3 * MEND_MIB, 2 * MEND_MIB, NULL, MEND_OK, NULL};
        mend_held held;
        ASSERT_TRUE(mend_held_begin(&held, w.sim, 1, allocate, &waits));
        EXPECT_STR_EQ("event_synchronize", held.call);
        for (int i = 0; i < taken; i++) {
            kit_alloc_aligned(&w, 12288, 16384, NULL);
        }
        mend_held_end(&held);
        EXPECT_RESULT(MEND_OK, waits.result);
        kit_close(&w);
    }
}

/* The driver has no memory until the GPU is done; that is no failure of the call. */
MEND_TEST(pool_grow, what_was_worked_around_is_not_the_last_error)
{
    mend_world w;
    mend_world_init(&w);
    w.sim_config.memory_bytes = 16 * MEND_MIB;
    w.pool_config.allow_stream_waits = -1;
    ASSERT_TRUE(kit_open(&w));
    void *pointer;
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_alloc(w.pool, 0, NULL, &pointer));
    pointer = kit_alloc(&w, 5 * MEND_MIB, NULL);
    kit_free(&w, pointer, MEND_NO_STREAM);
    kit_fail(&w, "create", 0, UINT64_MAX, 0);
    pointer = kit_alloc(&w, 5 * MEND_MIB, NULL);
    kit_expect_error(MEND_ERROR_INVALID_ARGUMENT);
    kit_close(&w);
}

static void *allocate_in_thread(void *argument)
{
    allocate(argument);
    return NULL;
}

/* A thread waits for the right to make room, and has let go of the heap. */
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
    mend_world w;
    ASSERT_TRUE(kit_open_default(&w));
    mend_heap *heap = &w.pool->heap;
    mend_group *group;
    request late = {&w, 3 * MEND_MIB, 512, NULL, MEND_OK, NULL};
    pthread_t thread;
    ASSERT_RESULT(MEND_OK, mend_group_create(w.pool, &group));
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
    mend_world_check(&w);
    EXPECT_FALSE(mend_heap_block_at(heap, (uint64_t)(uintptr_t)late.pointer)->of_group);
    kit_free(&w, late.pointer, NULL);
    kit_close(&w);
}

/* Another process has the memory; the block that another thread frees, while the driver is asked
 * for more or for what it has left, is what is missing. */
MEND_TEST(pool_grow, what_others_free_at_the_last_moment_is_found)
{
    bool is_frozen = true;
    for (uint64_t position = 1; is_frozen; position++) {
        mend_world w;
        ASSERT_TRUE(kit_open_with(&w, 8 * MEND_MIB, NULL));
        void *freed = kit_alloc(&w, 5 * MEND_MIB, NULL);
        mend_sim_set_foreign_bytes(w.sim, 0, 3 * MEND_MIB);
        request r = {&w, 3 * MEND_MIB, 512, NULL, MEND_OK, NULL};
        mend_held held;
        is_frozen = mend_held_begin(&held, w.sim, position, allocate, &r);
        kit_free(&w, freed, NULL);
        mend_held_end(&held);
        EXPECT_RESULT(is_frozen ? MEND_OK : MEND_ERROR_OUT_OF_MEMORY, r.result);
        EXPECT_TRUE(is_frozen || position > 4); /* one creation at least in each of two searches */
        kit_close(&w);
    }
}

/* What a stream that ended has left open waits for the context; a stream that comes while that wait
 * is under way, and fails, must not be taken for it. */
MEND_TEST(pool_grow, a_stream_that_comes_during_a_failed_wait_is_taken_for_no_other)
{
    enum { BLOCK = 5 << 20 };
    mend_world w;
    ASSERT_TRUE(kit_open_with(&w, 8 * MEND_MIB, NULL));
    mend_stream gone;
    mend_stream come;
    ASSERT_RESULT(MEND_OK, mend_sim_stream_create(w.sim, &gone));
    void *block = kit_alloc(&w, BLOCK, gone);
    kit_alloc(&w, 512, NULL);
    use(&w, gone, block, BLOCK, MEND_SIM_WORK_WRITE, 1);
    kit_launch(&w, gone, MEND_SIM_WORK_VERIFY, block, BLOCK, 1, mend_sim_now_ns(w.sim) + 1000);
    kit_fail(&w, "event_record", 0, 0, 999); /* or the free would leave a fence */
    kit_free(&w, block, gone);
    EXPECT_RESULT(MEND_OK, mend_sim_stream_destroy(w.sim, gone));
    EXPECT_RESULT(MEND_OK, mend_sim_stream_create(w.sim, &come)); /* with its handle */
    EXPECT_PTR_EQ(gone, come);
    EXPECT_RESULT(MEND_OK, mend_forget_stream(w.pool, come));

    kit_fail(&w, "context_synchronize", 0, UINT64_MAX, 999);
    request r = {&w, BLOCK, 512, NULL, MEND_OK, NULL};
    mend_held held;
    uint64_t position = 1;
    while (mend_held_begin(&held, w.sim, position, allocate, &r) &&
           strcmp(held.call, "context_synchronize") != 0) {
        mend_held_end(&held);
        ASSERT_RESULT(MEND_ERROR_DRIVER, r.result);
        position++;
    }
    kit_alloc(&w, 512, come);
    mend_held_end(&held);
    EXPECT_RESULT(MEND_ERROR_DRIVER, r.result);
    mend_sim_clear_faults(w.sim);
    mend_world_check(&w);
    allocate(&r);
    EXPECT_RESULT(MEND_OK, r.result);
    use(&w, NULL, r.pointer, BLOCK, MEND_SIM_WORK_WRITE, 2);
    EXPECT_U64_EQ(1, mend_world_stats(&w).host_waits);
    mend_sim_advance(w.sim, 5000);
    kit_close(&w);
}

/* A pool of one stream gives what was freed without one to nobody before the wait is over. */
MEND_TEST(pool_grow, what_a_wait_for_the_context_is_to_free_is_not_free_before)
{
    mend_world w;
    mend_world_init(&w);
    w.pool_config.limit_bytes = 8 * MEND_MIB;
    ASSERT_TRUE(kit_open(&w));
    mend_stream unknown;
    ASSERT_RESULT(MEND_OK, mend_sim_stream_create(w.sim, &unknown));
    void *freed = kit_alloc(&w, 8 * MEND_MIB, NULL);
    kit_launch(&w, unknown, MEND_SIM_WORK_TOUCH, freed, 8 * MEND_MIB, 0,
               mend_sim_now_ns(w.sim) + 1000000000);
    kit_free(&w, freed, MEND_NO_STREAM);
    request waits = {&w, 8 * MEND_MIB, 512, NULL, MEND_OK, NULL};
    mend_held held;
    ASSERT_TRUE(mend_held_begin(&held, w.sim, 1, allocate, &waits));
    EXPECT_STR_EQ("context_synchronize", held.call);
    mend_heap_lock(&w.pool->heap);
    mend_request asking = {.size_bytes = 4 * MEND_MIB,
                           .alignment_bytes = 512,
                           .stream = mend_streams_lookup(&w.pool->heap.streams, NULL, 0),
                           .zone = MEND_ZONE_LARGE};
    mend_span *span = NULL;
    EXPECT_INT_EQ(MEND_NOTHING, mend_place_mapped(&w.pool->heap, &asking, &span));
    mend_heap_unlock(&w.pool->heap);
    EXPECT_TRUE(span == NULL);
    mend_held_end(&held);
    EXPECT_RESULT(MEND_OK, waits.result);
    mend_world_check(&w);
    ASSERT_RESULT(MEND_OK, mend_sim_stream_destroy(w.sim, unknown));
    kit_close(&w);
}
