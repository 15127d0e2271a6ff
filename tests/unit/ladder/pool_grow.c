/*
 * One thread sits inside a slow driver call, with the right to make room; others go on. What they
 * do meanwhile is written out for single cases here, and by a table in pool_grow_table.c.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "ladder/ladder.h"
#include "layout/layout.h"
#include "pool/pool.h"
#include "tests/support/held.h"
#include "tests/support/kit.h"
#include "users/users.h"

/* A world, and a thread in it that asks for a block. */
typedef struct rig {
    mend_world w;
    mend_held held;
    uint64_t size_bytes; /* of the request, on the legacy stream */
    uint64_t alignment_bytes;
    mend_result result;
    void *pointer;
} rig;

static void allocate(void *argument)
{
    rig *r = argument;
    r->result = mend_alloc_with(
        r->w.pool, r->size_bytes, NULL,
        KIT_OPTIONS(mend_alloc_options, .alignment_bytes = r->alignment_bytes), &r->pointer);
}

/* Holds the thread in its call number `position`; false where it has ended without. */
static bool begin(rig *r, uint64_t position, uint64_t size_bytes, uint64_t alignment_bytes)
{
    r->size_bytes = size_bytes;
    r->alignment_bytes = alignment_bytes;
    return mend_held_begin(&r->held, r->w.sim, position, allocate, r);
}

static void end(rig *r, mend_result result)
{
    mend_held_end(&r->held);
    EXPECT_RESULT(result, r->result);
}

static mend_world *prepare(rig *r)
{
    mend_world_init(&r->w);
    return &r->w;
}

/* A case whose world is prepared by an expression. */
#define GROW_TEST(suite, name, setting)                                                            \
    KIT_CASE(suite, name, rig, r, ((void)prepare(r), (void)(setting), kit_open(&r->w)),            \
             kit_close(&r->w))

/* The driver takes its 50 ms for set_access, and longer; nobody else notices. */
GROW_TEST(pool_grow, others_allocate_from_the_cache_while_one_sits_in_an_access_call, 0)
{
    void *cached[3]; /* all of a chunk; the middle is the cache, which nobody can extend */
    for (int i = 0; i < 3; i++) {
        cached[i] = kit_alloc(&r->w, (i == 1 ? 512 : 256) * MEND_KIB, NULL);
    }
    kit_free(&r->w, cached[1], NULL);
    ASSERT_TRUE(begin(r, 11, 5 * MEND_MIB, 512));
    ASSERT_TRUE(strcmp(r->held.call, "set_access") == 0); /* after 5 chunks created and mapped */
    EXPECT_U64_EQ(2, mend_world_stats(&r->w).live_blocks);
    for (int i = 0; i < 200; i++) {
        void *fast[3];
        for (int k = 0; k < 3; k++) {
            fast[k] = kit_alloc_used(&r->w, 48 * MEND_KIB, NULL, 1);
        }
        for (int k = 0; k < 3; k++) {
            kit_free(&r->w, fast[k], NULL);
        }
        mend_sim_advance(r->w.sim, 3);
    }
    mend_stats stats = mend_world_stats(&r->w);
    EXPECT_U64_EQ(stats.reserved_bytes, stats.live_bytes + stats.free_bytes);
    EXPECT_TRUE(stats.peak_reserved_bytes >= stats.reserved_bytes);
    end(r, MEND_OK);
}

static void *allocate_in_thread(void *argument)
{
    allocate(argument);
    return NULL;
}

/* The group that took the request is gone when its turn comes: the block belongs to none. */
GROW_TEST(pool_grow, a_group_may_go_while_a_request_waits_its_turn, 0)
{
    mend_heap *heap = &r->w.pool->heap;
    mend_group *group = kit_begin_group(&r->w, MEND_EVERY_STREAM);
    pthread_t thread;
    r->size_bytes = 3 * MEND_MIB;
    r->alignment_bytes = 512;
    mend_mutex_lock(&heap->grow);
    ASSERT_INT_EQ(0, pthread_create(&thread, NULL, allocate_in_thread, r));
    for (size_t in_line = 0; in_line == 0;) { /* it has let go of the heap */
        sched_yield();
        mend_heap_lock(heap);
        in_line = heap->blocks.promised_count;
        mend_heap_unlock(heap);
    }
    EXPECT_RESULT(MEND_OK, mend_group_end(group));
    mend_heap_lock(heap);
    EXPECT_RESULT(MEND_OK, mend_group_leave(heap, group, MEND_NO_STREAM));
    mend_group_drop(heap, group);
    mend_heap_unlock(heap);
    mend_mutex_unlock(&heap->grow);
    pthread_join(thread, NULL);
    free(group);
    EXPECT_RESULT(MEND_OK, r->result);
    mend_world_check(&r->w);
    EXPECT_FALSE(mend_heap_block_at(heap, (uint64_t)(uintptr_t)r->pointer)->of_group);
}

/* Another process has the memory; the block that another thread frees, while the driver is asked
 * for more or for what it has left, is what is missing. */
MEND_TEST(pool_grow, what_others_free_at_the_last_moment_is_found)
{
    bool is_frozen = true;
    for (uint64_t position = 1; is_frozen; position++) {
        rig r;
        ASSERT_TRUE(kit_open_with(&r.w, 8 * MEND_MIB, NULL));
        void *freed = kit_alloc(&r.w, 5 * MEND_MIB, NULL);
        mend_sim_set_foreign_bytes(r.w.sim, 0, 3 * MEND_MIB);
        is_frozen = begin(&r, position, 3 * MEND_MIB, 512);
        kit_free(&r.w, freed, NULL);
        end(&r, is_frozen ? MEND_OK : MEND_ERROR_OUT_OF_MEMORY);
        EXPECT_TRUE(is_frozen || position > 4); /* one creation at least in each of two searches */
        kit_close(&r.w);
    }
}

/* What a stream that ended has left open waits for the context; a stream that comes while that wait
 * is under way, and fails, must not be taken for it. */
GROW_TEST(pool_grow, a_stream_that_comes_during_a_failed_wait_is_taken_for_no_other,
          r->w.sim_config.memory_bytes = 8 * MEND_MIB)
{
    enum { BLOCK = 5 << 20 };
    mend_stream gone;
    mend_stream come;
    ASSERT_RESULT(MEND_OK, mend_sim_stream_create(r->w.sim, NULL, &gone));
    void *block = kit_alloc(&r->w, BLOCK, gone);
    kit_alloc(&r->w, 512, NULL);
    kit_use(&r->w, gone, block, BLOCK, 1000);
    kit_fail(&r->w, "event_record", 0, 0, 999); /* or the free would leave a fence */
    kit_free(&r->w, block, gone);
    EXPECT_RESULT(MEND_OK, mend_sim_stream_destroy(r->w.sim, gone));
    EXPECT_RESULT(MEND_OK, mend_sim_stream_create(r->w.sim, NULL, &come)); /* with its handle */
    EXPECT_PTR_EQ(gone, come);
    EXPECT_RESULT(MEND_OK, mend_forget_stream(r->w.pool, come));

    kit_fail(&r->w, "context_record", 0, UINT64_MAX, MEND_DRIVER_NOT_SUPPORTED);
    kit_fail(&r->w, "context_synchronize", 0, UINT64_MAX, 999);
    uint64_t position = 1;
    while (begin(r, position, BLOCK, 512) && strcmp(r->held.call, "context_synchronize") != 0) {
        end(r, MEND_ERROR_DRIVER);
        position++;
    }
    kit_alloc(&r->w, 512, come);
    end(r, MEND_ERROR_DRIVER);
    mend_sim_clear_faults(r->w.sim);
    mend_world_check(&r->w);
    allocate(r);
    EXPECT_RESULT(MEND_OK, r->result);
    kit_use(&r->w, NULL, r->pointer, BLOCK, 0);
    EXPECT_U64_EQ(1, mend_world_stats(&r->w).host_waits);
    mend_sim_advance(r->w.sim, 5000);
}

/* A pool of one stream gives what was freed without one to nobody before the wait is over. */
GROW_TEST(pool_grow, what_a_wait_for_the_context_is_to_free_is_not_free_before,
          r->w.pool_config.limit_bytes = 8 * MEND_MIB)
{
    mend_heap *heap = &r->w.pool->heap;
    void *freed = kit_alloc(&r->w, 8 * MEND_MIB, NULL);
    kit_launch(&r->w, r->w.streams[1], MEND_SIM_WORK_TOUCH, freed, 8 * MEND_MIB, 0, 1000000000);
    kit_free(&r->w, freed, MEND_NO_STREAM);
    kit_fail(&r->w, "context_record", 0, UINT64_MAX, MEND_DRIVER_NOT_SUPPORTED);
    ASSERT_TRUE(begin(r, 1, 8 * MEND_MIB, 512));
    EXPECT_STR_EQ("context_synchronize", r->held.call);
    mend_heap_lock(heap);
    mend_request asking = {.size_bytes = 4 * MEND_MIB,
                           .alignment_bytes = 512,
                           .stream = mend_streams_lookup(&heap->streams, NULL, 0),
                           .zone = MEND_ZONE_LARGE};
    mend_span *span = NULL;
    EXPECT_INT_EQ(MEND_NOTHING, mend_place_mapped(heap, &asking, &span));
    mend_heap_unlock(heap);
    EXPECT_TRUE(span == NULL);
    end(r, MEND_OK);
}
