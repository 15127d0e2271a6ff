/* Records of events and waits of streams, which block while a stream's queue is full: the pool's
 * lock is let go of, and what others do meanwhile is right. */
#include <pthread.h>
#include <string.h>

#include "pool/pool.h"
#include "tests/support/graph_program.h"

#define MIB MEND_MIB

static const uint64_t block_bytes = 5 * MIB;

/* Something is done in the middle of a call, once. */
typedef struct interruption {
    graph_program *p;
    const char *call;
    int is_after;
    void (*act)(struct interruption *);
    void *block;
    int calls;    /* so far */
    int was_free; /* of these, with the pool's lock free */
    bool is_done;
} interruption;

static void see(void *context, const char *call, int is_after)
{
    interruption *i = context;
    if (strcmp(call, i->call) != 0 || is_after != i->is_after) {
        return;
    }
    mend_mutex *lock = &i->p->world.pool->heap.state;
    i->calls++;
    if (mend_mutex_try_lock(lock)) {
        i->was_free++;
        mend_mutex_unlock(lock);
    }
    if (i->act != NULL && !i->is_done) {
        i->is_done = true;
        i->act(i);
    }
}

static void watch(interruption *i)
{
    mend_sim_set_call_observer(i->p->world.sim, see, i);
}

static void watch_no_more(interruption *i)
{
    mend_sim_set_call_observer(i->p->world.sim, NULL, NULL);
}

static void use_and_free(graph_program *p, mend_stream stream, uint64_t duration_ns)
{
    void *block = graph_program_alloc(p, block_bytes, stream);
    graph_program_use(p, stream, block, block_bytes, duration_ns);
    graph_program_free(p, block, stream);
}

static void keep_nobody_waiting(const char *call)
{
    graph_program p;
    ASSERT_TRUE(graph_program_open(&p, 8 * MIB, NULL));
    interruption i = {.p = &p, .call = call};
    use_and_free(&p, p.streams[0], 1000);
    watch(&i);
    use_and_free(&p, p.streams[1], 10);
    watch_no_more(&i);
    EXPECT_TRUE(i.calls > 0);
    EXPECT_INT_EQ(i.calls, i.was_free);
    EXPECT_U64_EQ(1, mend_world_stats(&p.world).stream_waits);
    graph_program_close(&p);
}

MEND_TEST(pool_full_queue, a_record_keeps_nobody_waiting)
{
    keep_nobody_waiting("event_record");
}

MEND_TEST(pool_full_queue, a_wait_of_a_stream_keeps_nobody_waiting)
{
    keep_nobody_waiting("stream_wait");
}

static void *free_late(void *argument)
{
    interruption *i = argument;
    graph_program_use(i->p, i->p->streams[0], i->block, MIB, 5000);
    graph_program_free(i->p, i->block, i->p->streams[0]);
    return NULL;
}

static void free_in_another_thread(interruption *i)
{
    pthread_t thread;
    ASSERT_INT_EQ(0, pthread_create(&thread, NULL, free_late, i));
    pthread_join(thread, NULL);
}

/* Behind the event, and before the fence: the fence does not cover it. */
MEND_TEST(pool_full_queue, what_is_freed_during_a_record_waits_for_the_next)
{
    graph_program p;
    ASSERT_TRUE(graph_program_open(&p, 8 * MIB, NULL));
    interruption i = {
        .p = &p, .call = "event_record", .is_after = 1, .act = free_in_another_thread};
    i.block = graph_program_alloc(&p, MIB, p.streams[0]);
    use_and_free(&p, p.streams[0], 1000);
    watch(&i);
    void *block = graph_program_alloc(&p, block_bytes, p.streams[1]);
    watch_no_more(&i);
    EXPECT_TRUE(i.is_done);
    graph_program_use(&p, p.streams[1], block, block_bytes, 10);
    void *late = graph_program_alloc(&p, 3 * MIB, p.streams[1]);
    graph_program_use(&p, p.streams[1], late, 3 * MIB, 10);
    mend_world_check(&p.world);
    EXPECT_U64_EQ(2, mend_world_stats(&p.world).stream_waits);
    graph_program_close(&p);
}

static void *take_it(void *argument)
{
    interruption *i = argument;
    void *taken = NULL;
    if (mend_alloc(i->p->world.pool, 512, i->p->streams[0], &taken) == MEND_OK) {
        graph_program_use(i->p, i->p->streams[0], taken, 512, 100);
    }
    return NULL;
}

static void take_in_another_thread(interruption *i)
{
    pthread_t thread;
    ASSERT_INT_EQ(0, pthread_create(&thread, NULL, take_it, i));
    pthread_join(thread, NULL);
}

/* The stream that freed it takes a piece of what another is about to get: that one looks again. */
MEND_TEST(pool_full_queue, what_is_taken_during_a_wait_is_not_taken_twice)
{
    graph_program p;
    ASSERT_TRUE(graph_program_open(&p, 16 * MIB, NULL));
    interruption i = {.p = &p, .call = "stream_wait", .is_after = 1, .act = take_in_another_thread};
    for (int n = 0; n < 3; n++) {
        use_and_free(&p, p.streams[0], 1000);
    }
    watch(&i);
    for (int n = 0; n < 2; n++) {
        void *block = graph_program_alloc(&p, block_bytes, p.streams[1]);
        graph_program_use(&p, p.streams[1], block, block_bytes, 10);
    }
    watch_no_more(&i);
    mend_world_check(&p.world);
    graph_program_close(&p);
}

static void may_vanish(mend_pool_config *config)
{
    config->streams_may_vanish = 1;
}

static void audit_in_the_middle(interruption *i)
{
    mend_world_check(&i->p->world);
}

/* What a block's users waited for is recorded when the block is one no more: the pool is whole. */
MEND_TEST(pool_full_queue, a_free_is_over_before_its_users_are_recorded)
{
    graph_program p;
    ASSERT_TRUE(graph_program_open(&p, 16 * MIB, may_vanish));
    interruption i = {.p = &p, .call = "event_record", .act = audit_in_the_middle};
    void *block = graph_program_alloc(&p, block_bytes, p.streams[1]);
    EXPECT_RESULT(MEND_OK, mend_record_stream(p.world.pool, block, p.streams[0]));
    EXPECT_RESULT(MEND_OK, mend_record_stream(p.world.pool, block, p.streams[2]));
    graph_program_use(&p, p.streams[0], block, block_bytes, 1000);
    watch(&i);
    graph_program_free(&p, block, p.streams[1]);
    watch_no_more(&i);
    EXPECT_TRUE(i.is_done);
    EXPECT_INT_EQ(3, i.calls);
    EXPECT_INT_EQ(3, i.was_free);
    graph_program_close(&p);
}
