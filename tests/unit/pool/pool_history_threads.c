/* The history while threads allocate, free and read it at once. */
#include "tests/support/follower.h"
#include "tests/support/kit.h"
#include "tests/support/threads.h"

enum { THREADS = 4, ROUNDS = 300, MOST = 32 };

typedef struct worker {
    mend_pool *pool;
    mend_stream stream;
    uint64_t number; /* 0: reads, and does nothing else */
    uint64_t events_read;
} worker;

static void read_along(worker *at)
{
    mend_history_event events[MOST];
    uint64_t cursor = 0;
    for (int i = 0; i < ROUNDS; i++) {
        size_t count = 0;
        EXPECT_RESULT(MEND_OK,
                      mend_history_read(at->pool, &cursor, events, sizeof(*events), MOST, &count));
        for (size_t k = 0; k < count; k++) {
            EXPECT_U64_EQ(at->events_read + k + 1, events[k].sequence);
        }
        at->events_read += count;
    }
}

static void *work(void *argument)
{
    worker *at = argument;
    if (at->number == 0) {
        read_along(at);
        return NULL;
    }
    for (uint64_t i = 0; i < ROUNDS; i++) {
        uint64_t size_bytes = (i * 7 + at->number * 13) % 40 * 32 * MEND_KIB + 1;
        void *block = kit_alloc_from(at->pool, size_bytes, at->stream);
        EXPECT_RESULT(MEND_OK, mend_free(at->pool, block, at->stream));
    }
    return NULL;
}

/* Whatever the order in which threads come, that of the events is possible. */
MEND_TEST(pool_history, threads_are_told_of_in_the_order_in_which_they_had_the_pool)
{
    mend_world w;
    worker workers[THREADS];
    mend_follower follower = {.pool = NULL};
    char finding[MEND_FOLLOWER_FINDING_BYTES];
    ASSERT_TRUE(kit_open_with(&w, 64 * MEND_MIB, NULL));
    EXPECT_RESULT(MEND_OK, mend_history_start(w.pool, 1 << 16));
    EXPECT_TRUE(mend_follower_begin(&follower, w.pool));
    for (uint64_t i = 0; i < THREADS; i++) {
        workers[i] = (worker){w.pool, w.streams[i % MEND_WORLD_STREAMS], i, 0};
    }
    mend_test_run_threads(work, workers, THREADS);
    if (!mend_follower_follow(&follower, finding)) {
        mend_test_fail(__FILE__, __LINE__, "%s", finding);
    }
    EXPECT_U64_EQ(0, follower.lost);
    EXPECT_U64_EQ((THREADS - 1) * ROUNDS, follower.seen[MEND_EVENT_ALLOC]);
    EXPECT_U64_EQ((THREADS - 1) * ROUNDS, follower.seen[MEND_EVENT_FREE]);
    EXPECT_TRUE(workers[0].events_read <= mend_world_stats(&w).history_events);
    mend_follower_end(&follower);
    kit_close(&w);
}
