/*
 * One pool, many threads, each with a stream of its own: no block is handed out twice, no byte is
 * lost, and blocks freed by other threads than those that allocated them are accounted as well.
 */
#include <pthread.h>

#include "tests/support/kit.h"
#include "tests/support/threads.h"

enum { THREADS = 4, ROUNDS = 400, KEPT = 8, SHARED = 16 };

typedef struct shared_block {
    void *pointer;
    uint64_t size_bytes;
    uint64_t tag;
    mend_stream stream;
} shared_block;

typedef struct arena {
    mend_world w;
    pthread_mutex_t mutex;
    shared_block slots[SHARED]; /* guarded by mutex: blocks on their way to another thread */
    uint64_t largest_granules;  /* of a block */
    bool is_critical;           /* the limit moves, and is in the way of every thread */
} arena;

typedef struct worker {
    arena *shared;
    mend_stream stream;
    uint64_t seed;
    uint64_t next_tag;
} worker;

static void launch(const worker *w, const shared_block *block, mend_sim_work_kind kind)
{
    kit_launch(&w->shared->w, block->stream, kind, block->pointer, block->size_bytes, block->tag,
               0);
}

/* Exchanges a block with the slot's, so that a thread that comes by later frees it. */
static void hand_over(worker *w, shared_block *block, uint64_t slot)
{
    pthread_mutex_lock(&w->shared->mutex);
    shared_block other = w->shared->slots[slot];
    w->shared->slots[slot] = *block;
    pthread_mutex_unlock(&w->shared->mutex);
    *block = other;
}

static void release(worker *w, shared_block *block)
{
    if (block->pointer == NULL) {
        return;
    }
    launch(w, block, MEND_SIM_WORK_VERIFY);
    kit_free(&w->shared->w, block->pointer, block->stream);
    *block = (shared_block){0};
}

static void *work_on(void *argument)
{
    worker *w = argument;
    mend_test_random random;
    mend_test_random_init(&random, w->seed);
    shared_block kept[KEPT] = {0};
    for (int i = 0; i < ROUNDS; i++) {
        shared_block *block = &kept[mend_test_random_below(&random, KEPT)];
        release(w, block);
        uint64_t size_bytes =
            512 * (1 + mend_test_random_below(&random, w->shared->largest_granules));
        void *pointer = NULL;
        if (mend_alloc(w->shared->w.pool, size_bytes, w->stream, &pointer) == MEND_OK) {
            *block = (shared_block){pointer, size_bytes, w->seed + ++w->next_tag, w->stream};
            launch(w, block, MEND_SIM_WORK_WRITE);
        }
        if (i % 4 == 0) {
            hand_over(w, block, mend_test_random_below(&random, SHARED));
        }
        if (i % 64 == 0) {
            mend_trim(w->shared->w.pool, 8 * MEND_MIB, NULL);
        }
        if (w->shared->is_critical && i % 32 == 0) {
            uint64_t limit_bytes = (8 + mend_test_random_below(&random, 8)) * MEND_MIB;
            mend_set_limit(w->shared->w.pool, limit_bytes);
            mend_forget_stream(w->shared->w.pool, w->stream);
        }
        mend_sim_advance(w->shared->w.sim, 10);
    }
    for (int i = 0; i < KEPT; i++) {
        release(w, &kept[i]);
    }
    return NULL;
}

static void pass_blocks(uint64_t largest_granules, bool is_critical)
{
    static arena shared;
    shared = (arena){.mutex = PTHREAD_MUTEX_INITIALIZER,
                     .largest_granules = largest_granules,
                     .is_critical = is_critical};
    ASSERT_TRUE(kit_open_default(&shared.w));
    worker workers[THREADS];
    uint64_t seed = mend_test_seed();
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){.shared = &shared, .seed = seed + (uint64_t)i * 1000000};
        ASSERT_RESULT(MEND_OK, mend_sim_stream_create(shared.w.sim, &workers[i].stream));
    }
    mend_test_run_threads(work_on, workers, THREADS);
    for (int i = 0; i < SHARED; i++) {
        release(&workers[0], &shared.slots[i]);
    }
    mend_sim_advance(shared.w.sim, 1000);
    EXPECT_U64_EQ(0, mend_world_stats(&shared.w).live_blocks);
    EXPECT_TRUE(is_critical || mend_world_stats(&shared.w).allocations > THREADS * ROUNDS / 2);
    mend_world_check(&shared.w);
    for (int i = 0; i < THREADS; i++) {
        EXPECT_RESULT(MEND_OK, mend_forget_stream(shared.w.pool, workers[i].stream));
        mend_sim_stream_destroy(shared.w.sim, workers[i].stream);
    }
    kit_close(&shared.w);
}

MEND_TEST(pool_threads, blocks_pass_between_threads_and_streams)
{
    pass_blocks(2048, false);
}

/* Most requests must make room, many find none; streams are forgotten and seen again. */
MEND_TEST(pool_threads, blocks_pass_while_room_is_made)
{
    pass_blocks(5000, true);
}
