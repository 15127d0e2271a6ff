/* Locks with a rank: mutual exclusion, and the assertion that catches a wrong order. */
#include "base/mutex.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/process.h"
#include "tests/support/test.h"
#include "tests/support/threads.h"

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
    mend_test_run_threads_of(count_up, &shared, 0, THREADS);
    EXPECT_U64_EQ(THREADS * ROUNDS, shared.value);
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
    mend_test_run_thread(lock_process_rank, &process);
    mend_mutex_unlock(&pool);
    mend_mutex_destroy(&pool);
    mend_mutex_destroy(&process);
}

typedef struct attempt {
    mend_mutex *mutex;
    bool succeeded;
} attempt;

static void *try_once(void *argument)
{
    attempt *self = argument;
    self->succeeded = mend_mutex_try_lock(self->mutex);
    if (self->succeeded) {
        mend_mutex_unlock(self->mutex);
    }
    return NULL;
}

static bool another_thread_can_take(mend_mutex *mutex)
{
    attempt other = {.mutex = mutex};
    mend_test_run_thread(try_once, &other);
    return other.succeeded;
}

MEND_TEST(base_mutex, a_try_takes_the_lock_or_leaves_it)
{
    mend_mutex mutex;
    mend_mutex_init(&mutex, MEND_RANK_POOL);
    EXPECT_TRUE(mend_mutex_try_lock(&mutex));
    EXPECT_FALSE(another_thread_can_take(&mutex));
    EXPECT_FALSE(mend_mutex_try_lock(&mutex));
    mend_mutex_unlock(&mutex);
    EXPECT_U64_EQ(0, *mend_process_held_ranks());
    EXPECT_TRUE(another_thread_can_take(&mutex));
    mend_mutex_destroy(&mutex);
}

/* A number that two threads raise in turn, each waiting for the other's change. */
typedef struct turns {
    mend_mutex mutex;
    mend_condition changed;
    int value; /* guarded by mutex */
} turns;

static void raise_when(turns *shared, int parity)
{
    mend_mutex_lock(&shared->mutex);
    while (shared->value < ROUNDS) {
        while (shared->value % 2 != parity) {
            mend_condition_wait(&shared->changed, &shared->mutex);
        }
        shared->value++;
        mend_condition_wake_all(&shared->changed);
    }
    mend_mutex_unlock(&shared->mutex);
}

static void *raise_odd(void *shared)
{
    raise_when(shared, 1);
    return NULL;
}

MEND_TEST(base_mutex, a_wait_lets_the_other_thread_in_until_it_wakes)
{
    mend_mutex outer; /* stays held in a wait */
    mend_mutex_init(&outer, MEND_RANK_GROW);
    turns shared = {.value = 0};
    mend_mutex_init(&shared.mutex, MEND_RANK_POOL);
    mend_condition_init(&shared.changed);
    pthread_t thread;
    ASSERT_INT_EQ(0, pthread_create(&thread, NULL, raise_odd, &shared));
    mend_mutex_lock(&outer);
    raise_when(&shared, 0);
    EXPECT_FALSE(another_thread_can_take(&outer));
    mend_mutex_unlock(&outer);
    pthread_join(thread, NULL);
    EXPECT_INT_EQ(ROUNDS + 1, shared.value);
    EXPECT_U64_EQ(0, *mend_process_held_ranks());
    mend_condition_destroy(&shared.changed);
    mend_mutex_destroy(&shared.mutex);
    mend_mutex_destroy(&outer);
}

#ifndef NDEBUG

/* What the bodies below do, one lock of a rank and one more. */
static mend_mutex mutexes[MEND_RANK_LOG + 1];
static mend_mutex second_pool;

static void init_mutexes(void)
{
    for (mend_lock_rank rank = MEND_RANK_PROCESS; rank <= MEND_RANK_LOG; rank++) {
        mend_mutex_init(&mutexes[rank], rank);
    }
    mend_mutex_init(&second_pool, MEND_RANK_POOL);
}

static void lock(mend_lock_rank rank)
{
    mend_mutex_lock(&mutexes[rank]);
}

static void unlock(mend_lock_rank rank)
{
    mend_mutex_unlock(&mutexes[rank]);
}

/* Runs `body` in a child process and tells whether an assertion ended it. */
static bool is_caught(void (*body)(void))
{
    pid_t child = fork();
    if (child == 0) {
        int nowhere = open("/dev/null", O_WRONLY);
        dup2(nowhere, STDERR_FILENO);
        init_mutexes();
        body();
        _exit(0);
    }
    int status = 0;
    bool ended = child > 0 && waitpid(child, &status, 0) == child;
    EXPECT_TRUE(ended);
    return ended && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static mend_lock_rank first_rank;
static mend_lock_rank then_rank;

static void lock_both(void)
{
    mend_mutex then;
    mend_mutex_init(&then, then_rank);
    lock(first_rank);
    mend_mutex_lock(&then);
}

MEND_TEST(base_mutex, asserts_the_order_of_ranks)
{
    for (first_rank = MEND_RANK_PROCESS; first_rank <= MEND_RANK_LOG; first_rank++) {
        for (then_rank = MEND_RANK_PROCESS; then_rank <= MEND_RANK_LOG; then_rank++) {
            EXPECT_INT_EQ(then_rank <= first_rank, is_caught(lock_both));
        }
    }
}

MEND_TEST(base_mutex, making_room_comes_before_the_pool)
{
    EXPECT_TRUE(MEND_RANK_PROCESS < MEND_RANK_GROW);
    EXPECT_TRUE(MEND_RANK_GROW < MEND_RANK_POOL);
    EXPECT_TRUE(MEND_RANK_POOL < MEND_RANK_DRIVER);
    EXPECT_TRUE(MEND_RANK_DRIVER < MEND_RANK_LOG);
}

/* As around a slow driver call. */
static void let_go_of_the_pool_for_a_while(void)
{
    lock(MEND_RANK_GROW);
    lock(MEND_RANK_POOL);
    unlock(MEND_RANK_POOL);
    lock(MEND_RANK_DRIVER);
    unlock(MEND_RANK_DRIVER);
    lock(MEND_RANK_POOL);
    unlock(MEND_RANK_GROW); /* the order in which locks are let go does not matter */
    lock(MEND_RANK_DRIVER);
}

static void try_to_make_room_inside_the_pool(void)
{
    lock(MEND_RANK_POOL);
    if (!mend_mutex_try_lock(&mutexes[MEND_RANK_GROW])) {
        return;
    }
    unlock(MEND_RANK_POOL);
    lock(MEND_RANK_POOL);
}

static void wait_for_an_outer_lock_after_a_try(void)
{
    if (mend_mutex_try_lock(&mutexes[MEND_RANK_GROW])) {
        lock(MEND_RANK_PROCESS);
    }
}

MEND_TEST(base_mutex, a_try_is_free_of_order_and_counts_afterwards)
{
    EXPECT_FALSE(is_caught(let_go_of_the_pool_for_a_while));
    EXPECT_FALSE(is_caught(try_to_make_room_inside_the_pool));
    EXPECT_TRUE(is_caught(wait_for_an_outer_lock_after_a_try));
}

static void hold_one_of_two_pools(void)
{
    lock(MEND_RANK_POOL);
    if (mend_mutex_try_lock(&second_pool)) {
        unlock(MEND_RANK_POOL);
        lock(MEND_RANK_GROW);
    }
}

static void hold_none_of_two_pools(void)
{
    lock(MEND_RANK_POOL);
    if (mend_mutex_try_lock(&second_pool)) {
        unlock(MEND_RANK_POOL);
        mend_mutex_unlock(&second_pool);
        lock(MEND_RANK_GROW);
    }
}

MEND_TEST(base_mutex, counts_locks_of_one_rank)
{
    EXPECT_TRUE(is_caught(hold_one_of_two_pools));
    EXPECT_FALSE(is_caught(hold_none_of_two_pools));
}

static void wait_with_an_inner_lock(void)
{
    mend_condition never;
    mend_condition_init(&never);
    lock(MEND_RANK_POOL);
    lock(MEND_RANK_DRIVER);
    alarm(1); /* ends a wait that was let through */
    mend_condition_wait(&never, &mutexes[MEND_RANK_POOL]);
}

static void wait_without_the_lock(void)
{
    mend_condition never;
    mend_condition_init(&never);
    lock(MEND_RANK_GROW);
    alarm(1);
    mend_condition_wait(&never, &mutexes[MEND_RANK_POOL]);
}

MEND_TEST(base_mutex, only_the_innermost_lock_is_let_go_in_a_wait)
{
    EXPECT_TRUE(is_caught(wait_with_an_inner_lock));
    EXPECT_TRUE(is_caught(wait_without_the_lock));
}

MEND_TEST(base_mutex, a_thread_knows_which_ranks_it_holds)
{
    const mend_mutex never_made = {.rank = 0};
    init_mutexes();
    EXPECT_TRUE(mend_mutex_none_is_held_from(MEND_RANK_PROCESS));
    EXPECT_FALSE(mend_mutex_is_held(&mutexes[MEND_RANK_POOL]));
    mend_mutex_lock(&mutexes[MEND_RANK_POOL]);
    EXPECT_TRUE(mend_mutex_is_held(&mutexes[MEND_RANK_POOL]));
    EXPECT_FALSE(mend_mutex_is_held(&mutexes[MEND_RANK_GROW]));
    EXPECT_FALSE(mend_mutex_is_held(&mutexes[MEND_RANK_DRIVER]));
    EXPECT_FALSE(mend_mutex_none_is_held_from(MEND_RANK_POOL));
    EXPECT_TRUE(mend_mutex_none_is_held_from(MEND_RANK_DRIVER));
    mend_mutex_unlock(&mutexes[MEND_RANK_POOL]);
    EXPECT_FALSE(mend_mutex_is_held(&mutexes[MEND_RANK_POOL]));
    EXPECT_TRUE(mend_mutex_is_held(&never_made));
}

#endif
