/* Locks with a rank: mutual exclusion, and the assertion that catches a wrong order. */
#include "base/mutex.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/process.h"
#include "tests/support/test.h"

MEND_TEST(base_mutex, locks_and_unlocks_in_rising_order)
{
    mend_mutex outer;
    mend_mutex inner;
    mend_mutex_init(&outer, MEND_RANK_POOL);
    mend_mutex_init(&inner, MEND_RANK_DRIVER);
    for (int i = 0; i < 2; i++) {
        mend_mutex_lock(&outer);
        mend_mutex_lock(&inner);
        mend_mutex_unlock(&inner);
        mend_mutex_unlock(&outer);
    }
    EXPECT_U64_EQ(0, *mend_process_held_ranks());
    mend_mutex_destroy(&inner);
    mend_mutex_destroy(&outer);
}

enum { THREADS = 4, ROUNDS = 500 };

typedef struct counter {
    mend_mutex mutex;
    uint64_t value; /* guarded by mutex */
} counter;

static void *count_up(void *argument)
{
    counter *shared = argument;
    for (int i = 0; i < ROUNDS; i++) {
        mend_mutex_lock(&shared->mutex);
        uint64_t seen = shared->value;
        sched_yield(); /* the others' turn to break in */
        shared->value = seen + 1;
        mend_mutex_unlock(&shared->mutex);
    }
    return NULL;
}

MEND_TEST(base_mutex, lets_one_thread_in_at_a_time)
{
    counter shared = {.value = 0};
    mend_mutex_init(&shared.mutex, MEND_RANK_POOL);
    pthread_t threads[THREADS];
    size_t started = 0;
    while (started < THREADS && pthread_create(&threads[started], NULL, count_up, &shared) == 0) {
        started++;
    }
    for (size_t i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
    }
    EXPECT_U64_EQ(THREADS, started);
    EXPECT_U64_EQ(started * ROUNDS, shared.value);
    mend_mutex_destroy(&shared.mutex);
}

static void *lock_process_rank(void *argument)
{
    mend_mutex *mutex = argument;
    mend_mutex_lock(mutex);
    mend_mutex_unlock(mutex);
    return NULL;
}

MEND_TEST(base_mutex, ranks_are_each_thread_s_own)
{
    mend_mutex process;
    mend_mutex pool;
    mend_mutex_init(&process, MEND_RANK_PROCESS);
    mend_mutex_init(&pool, MEND_RANK_POOL);
    mend_mutex_lock(&pool);
    pthread_t thread;
    bool started = pthread_create(&thread, NULL, lock_process_rank, &process) == 0;
    EXPECT_TRUE(started);
    if (started) {
        pthread_join(thread, NULL);
    }
    mend_mutex_unlock(&pool);
    mend_mutex_destroy(&pool);
    mend_mutex_destroy(&process);
}

#ifndef NDEBUG

/* Takes two locks in a child process and tells whether an assertion ended it. */
static bool order_is_caught(mend_lock_rank first, mend_lock_rank second)
{
    pid_t child = fork();
    if (child == 0) {
        int nowhere = open("/dev/null", O_WRONLY);
        dup2(nowhere, STDERR_FILENO);
        mend_mutex one;
        mend_mutex two;
        mend_mutex_init(&one, first);
        mend_mutex_init(&two, second);
        mend_mutex_lock(&one);
        mend_mutex_lock(&two);
        _exit(0);
    }
    int status = 0;
    bool ended = child > 0 && waitpid(child, &status, 0) == child;
    EXPECT_TRUE(ended);
    return ended && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

MEND_TEST(base_mutex, asserts_the_order_of_ranks)
{
    EXPECT_FALSE(order_is_caught(MEND_RANK_POOL, MEND_RANK_DRIVER));
    EXPECT_FALSE(order_is_caught(MEND_RANK_PROCESS, MEND_RANK_LOG));
    EXPECT_TRUE(order_is_caught(MEND_RANK_DRIVER, MEND_RANK_POOL));
    EXPECT_TRUE(order_is_caught(MEND_RANK_LOG, MEND_RANK_PROCESS));
    EXPECT_TRUE(order_is_caught(MEND_RANK_POOL, MEND_RANK_POOL));
}

#endif
