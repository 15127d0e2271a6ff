/*
 * One thread sits inside a slow driver call, with the grow lock. Others go on: single cases. All
 * others are orders of threads in tests/interleave.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "alloc/heap.h"
#include "layout/layout.h"
#include "pool/pool.h"
#include "tests/support/held.h"
#include "tests/support/kit.h"

/* A world, and a thread in it that asks for 3 MiB. */
typedef struct rig {
    mend_world w;
    mend_held held;
    mend_result result;
    void *pointer;
} rig;

static void allocate(void *argument)
{
    rig *r = argument;
    r->result = mend_alloc(r->w.pool, 3 * MEND_MIB, NULL, &r->pointer);
}

#define GROW_TEST(suite, name)                                                                     \
    KIT_CASE(suite, name, rig, r, kit_open_default(&r->w), kit_close(&r->w))

static void *allocate_in_thread(void *argument)
{
    allocate(argument);
    return NULL;
}

/* The grow lock is taken, and a thread waits for it with its request. */
static pthread_t begin_in_line(rig *r)
{
    mend_heap *heap = &r->w.pool->heap;
    pthread_t thread;
    mend_mutex_lock(&heap->grow);
    EXPECT_INT_EQ(0, pthread_create(&thread, NULL, allocate_in_thread, r));
    for (size_t in_line = 0; in_line == 0;) { /* it has let go of the heap */
        sched_yield();
        mend_heap_lock(heap);
        in_line = heap->blocks.promised_count;
        mend_heap_unlock(heap);
    }
    return thread;
}

static void count_call(void *context, KIT_UNUSED const char *call, int is_after)
{
    *(int *)context += !is_after;
}

/* Memory freed meanwhile is taken as without a wait: no driver call. */
GROW_TEST(pool_grow, memory_that_comes_while_a_request_waits_its_turn_is_seen)
{
    mend_heap *heap = &r->w.pool->heap;
    void *freed = kit_alloc(&r->w, 3 * MEND_MIB, NULL);
    int calls = 0;
    pthread_t thread = begin_in_line(r);
    kit_free(&r->w, freed, NULL);
    kit_observed(&r->w, count_call, &calls,
                 (mend_mutex_unlock(&heap->grow), pthread_join(thread, NULL)));
    EXPECT_RESULT(MEND_OK, r->result);
    EXPECT_TRUE(r->pointer == freed);
    EXPECT_INT_EQ(0, calls);
}

/* The graph pool that took the request is gone when its turn comes: the block belongs to none. */
GROW_TEST(pool_grow, a_graph_pool_may_go_while_a_request_waits_its_turn)
{
    mend_heap *heap = &r->w.pool->heap;
    mend_graph_pool *graph_pool = kit_begin_graph_pool(&r->w, MEND_EVERY_STREAM);
    pthread_t thread = begin_in_line(r);
    EXPECT_RESULT(MEND_OK, mend_graph_pool_end(graph_pool));
    mend_heap_lock(heap);
    mend_streams_release_graph_pool(&heap->streams, graph_pool->number);
    mend_graph_pool_drop(heap, graph_pool);
    mend_heap_unlock(heap);
    mend_mutex_unlock(&heap->grow);
    pthread_join(thread, NULL);
    free(graph_pool);
    EXPECT_RESULT(MEND_OK, r->result);
    mend_world_check(&r->w);
    EXPECT_FALSE(mend_heap_block_at(heap, (uint64_t)(uintptr_t)r->pointer)->of_graph_pool);
}

/* Another process has the memory. The block that another thread frees, during a creation or a query
 * of free memory, is the missing one. */
MEND_TEST(pool_grow, what_others_free_at_the_last_moment_is_found)
{
    bool is_frozen = true;
    for (uint64_t position = 1; is_frozen; position++) {
        rig r;
        ASSERT_TRUE(kit_open_with(&r.w, 8 * MEND_MIB, NULL));
        void *freed = kit_alloc(&r.w, 5 * MEND_MIB, NULL);
        mend_sim_set_foreign_bytes(r.w.sim, 0, 3 * MEND_MIB);
        is_frozen = mend_held_begin(&r.held, r.w.sim, position, allocate, &r);
        kit_free(&r.w, freed, NULL);
        mend_held_end(&r.held);
        EXPECT_RESULT(is_frozen ? MEND_OK : MEND_ERROR_OUT_OF_MEMORY, r.result);
        EXPECT_TRUE(is_frozen || position > 1);
        kit_close(&r.w);
    }
}

/* ---- misuse: a block is freed while another thread frees it or declares a user ----------------
 */

enum { USUAL, PLAIN, CHECKED, WAYS };

typedef struct twice {
    mend_world w;
    mend_held held;
    mend_stream stream; /* the first call has to record an event of it */
    bool frees;         /* the first call */
    void *block;
    mend_result results[2];
} twice;

static void act_first(void *argument)
{
    twice *t = argument;
    t->results[0] = t->frees ? mend_free(t->w.pool, t->block, t->stream)
                             : mend_record_stream(t->w.pool, t->block, t->stream);
}

static void *free_second(void *argument)
{
    twice *t = argument;
    t->results[1] = mend_free(t->w.pool, t->block, MEND_NO_STREAM);
    return NULL;
}

static bool open_twice(twice *t, int way)
{
    mend_world_init(&t->w);
    t->w.pool_config.detect_destroyed_streams = 1;
    t->w.pool_config.plain = way == PLAIN;
    t->w.pool_config.observe = way == CHECKED ? "guard,poison" : NULL;
    if (!kit_open(&t->w)) {
        return false;
    }
    t->stream = t->w.streams[1];
    if (way != PLAIN) { /* a fence that was refused is recorded when the stream is named again */
        void *before = kit_alloc(&t->w, MEND_MIB, t->stream);
        kit_fail(&t->w, "event_record", 0, 1, 2);
        kit_free(&t->w, before, t->stream);
    }
    t->block = kit_alloc(&t->w, MEND_MIB, NULL);
    return true;
}

/* False when the first call has no driver call at the position. */
static bool free_twice(int way, bool frees, uint64_t position)
{
    pthread_t thread;
    twice t = {.frees = frees};
    if (!open_twice(&t, way)) {
        return false;
    }
    const uint64_t frees_before = mend_world_stats(&t.w).frees;
    mend_mutex *turn = &t.w.pool->heap.grow;
    const bool is_inside = mend_held_begin(&t.held, t.w.sim, position, act_first, &t);
    if (is_inside && way == PLAIN) { /* the driver has no order behind a user that comes now */
        EXPECT_ERROR(FOREIGN_POINTER, mend_record_stream(t.w.pool, t.block, t.w.streams[2]));
    }
    if (is_inside && pthread_create(&thread, NULL, free_second, &t) == 0) {
        const bool is_free = mend_mutex_try_lock(turn); /* or the second may wait for its turn */
        if (is_free) {
            mend_mutex_unlock(turn);
            pthread_join(thread, NULL);
        }
        mend_held_let_go(&t.held);
        if (!is_free) {
            pthread_join(thread, NULL);
        }
        EXPECT_TRUE((frees && t.results[0] == MEND_OK) != (t.results[1] == MEND_OK));
        EXPECT_TRUE(t.results[0] == MEND_OK || t.results[0] == MEND_ERROR_DOUBLE_FREE ||
                    t.results[0] == MEND_ERROR_FOREIGN_POINTER);
    } else if (!frees) {
        kit_free(&t.w, t.block, NULL);
    }
    mend_held_end(&t.held);
    EXPECT_STATS(&t.w, frees, frees_before + 1, live_blocks, 0, passed_blocks, 0);
    kit_close(&t.w);
    return is_inside && !mend_test_has_failed();
}

MEND_TEST(pool_grow, a_block_that_two_threads_free_is_freed_once)
{
    for (int way = 0; way < 2 * WAYS; way++) {
        uint64_t position = 1;
        while (free_twice(way / 2, way % 2 == 0, position)) {
            position++;
        }
        EXPECT_TRUE(position > 1 || way == 2 * PLAIN + 1);
        if (mend_test_has_failed()) {
            mend_test_fail(__FILE__, __LINE__, "way %d, call %llu", way,
                           (unsigned long long)position);
            return;
        }
    }
}
