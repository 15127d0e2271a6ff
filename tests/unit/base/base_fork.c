/* The members of the process are never gone under a visit. A child of fork has no error, lock or
 * driver of its parent. Other state of a child: tests/process/fork_scenes.c. */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/error.h"
#include "base/process.h"
#include "base/thread.h"
#include "driver/driver.h"
#include "tests/support/child.h"
#include "tests/support/test.h"

static const char domain; /* only its address counts */

/* Goes on to the next member of (domain, device 0) and lets go of it at once. */
static mend_process_member *step(uint64_t *cursor)
{
    mend_process_member *met = mend_process_visit_next(&mend_process_pools, &domain, 0, cursor);
    if (met != NULL) {
        mend_process_visit_end(&mend_process_pools, met);
    }
    return met;
}

typedef struct leaver {
    mend_process_member member;
    atomic_int *clock;
    int left_at;
} leaver;

static void *leave(void *argument)
{
    leaver *self = argument;
    mend_process_leave(&mend_process_pools, &self->member);
    self->left_at = atomic_fetch_add(self->clock, 1);
    self->member.device = -1; /* a race with a visitor that still reads it */
    return NULL;
}

MEND_TEST(base_process, a_member_cannot_leave_while_it_is_visited)
{
    atomic_int clock = 0;
    leaver self = {.member = {.domain = &domain, .device = 0}, .clock = &clock};
    mend_process_join(&mend_process_pools, &self.member);
    uint64_t one = 0;
    uint64_t other = 0;
    EXPECT_PTR_EQ(&self.member, mend_process_visit_next(&mend_process_pools, &domain, 0, &one));
    EXPECT_PTR_EQ(&self.member, mend_process_visit_next(&mend_process_pools, &domain, 0, &other));
    pthread_t thread;
    ASSERT_INT_EQ(0, pthread_create(&thread, NULL, leave, &self));
    for (uint64_t cursor = 0; step(&cursor) != NULL; cursor = 0) {
        sched_yield(); /* it can be found until it is about to leave */
    }
    mend_process_visit_end(&mend_process_pools, &self.member);
    for (int i = 0; i < 100; i++) {
        sched_yield(); /* the leaver's turn, should it think that one visitor was all */
    }
    EXPECT_INT_EQ(0, self.member.device);
    int ended_at = atomic_fetch_add(&clock, 1);
    mend_process_visit_end(&mend_process_pools, &self.member);
    pthread_join(thread, NULL);
    EXPECT_TRUE(ended_at < self.left_at);
}

typedef struct loading {
    sem_t has_begun;
    sem_t may_end;
} loading;

static loading slow; /* a loader takes no context */

static mend_result load_slowly(const mend_driver **driver)
{
    (void)driver;
    sem_post(&slow.has_begun);
    sem_wait(&slow.may_end);
    return MEND_ERROR_NO_DRIVER;
}

static const mend_driver some_driver = {.name = "some"};

static mend_result load_at_once(const mend_driver **driver)
{
    *driver = &some_driver;
    return MEND_OK;
}

static void *ask_for_the_driver(void *unused)
{
    (void)unused;
    const mend_driver *driver = NULL;
    mend_process_cuda_driver(load_slowly, &driver);
    return NULL;
}

static bool loads_the_driver(void *unused)
{
    (void)unused;
    const mend_driver *driver = NULL;
    const bool has_no_error = mend_process_error()->result == MEND_OK; /* its parent has */
    return has_no_error && mend_process_cuda_driver(load_at_once, &driver) == MEND_OK &&
           driver == &some_driver;
}

MEND_TEST(base_fork, a_child_loads_the_driver_though_another_thread_was_loading_it)
{
    ASSERT_RESULT(MEND_OK, mend_process_prepare());
    ASSERT_INT_EQ(0, sem_init(&slow.has_begun, 0, 0));
    ASSERT_INT_EQ(0, sem_init(&slow.may_end, 0, 0));
    pthread_t thread;
    ASSERT_INT_EQ(0, pthread_create(&thread, NULL, ask_for_the_driver, NULL));
    sem_wait(&slow.has_begun);
    mend_fail(MEND_ERROR_OUT_OF_MEMORY, "full");
    EXPECT_TRUE(mend_test_holds_in_a_child(loads_the_driver, NULL));
    sem_post(&slow.may_end);
    pthread_join(thread, NULL);
    sem_destroy(&slow.has_begun);
    sem_destroy(&slow.may_end);
}

/* The locks of the process. A fork waits for the one that is not here, of shares. */
static mend_mutex *const locks[] = {
    &mend_process_own_log.mutex,    &mend_process_pools.mutex,      &mend_process_watches.mutex,
    &mend_process_own_signal.mutex, &mend_process_own_scopes.mutex, &mend_process_own_devices.mutex,
    &mend_process_nvtx.mutex,       &mend_process_own_names.mutex,  &mend_process_own_stacks.mutex,
};
enum { LOCKS = sizeof(locks) / sizeof(locks[0]) };

static bool takes_each_lock(void *unused)
{
    (void)unused;
    int taken = 0;
    while (taken < LOCKS && mend_mutex_try_lock(locks[taken])) {
        taken++;
    }
    return taken == LOCKS;
}

/* It has no calls of the parent's threads and no sockets. Its log is as full. */
static bool begins_anew(void *unused)
{
    const mend_process_shares *inherited = unused;
    return mend_process_begin_unsafe_call() && takes_each_lock(unused) &&
           mend_list_is_empty(&mend_process_pools.list) &&
           mend_process_own_log.shown == MEND_LOG_WARNING &&
           fcntl(inherited->listener, F_GETFD) < 0 &&
           fcntl(inherited->visitors[1].socket, F_GETFD) < 0;
}

MEND_TEST(base_fork, a_child_finds_no_lock_taken_and_no_member)
{
    mend_process_member member = {.domain = &domain};
    ASSERT_RESULT(MEND_OK, mend_process_prepare());
    mend_process_join(&mend_process_pools, &member);
    EXPECT_TRUE(mend_process_begin_unsafe_call());
    EXPECT_TRUE(takes_each_lock(NULL));
    mend_process_own_log.shown = MEND_LOG_WARNING;
    mend_process_shares *shares = &mend_process_own_shares;
    const bool was_open = shares->is_open; /* by an earlier test: until the process ends */
    shares->listener = was_open ? shares->listener : dup(2);
    shares->visitors[1].socket = dup(2);
    const mend_process_shares inherited = {.listener = shares->listener,
                                           .visitors = {[1].socket = shares->visitors[1].socket}};
    shares->is_open = shares->visitors[1].is_here = true;
    EXPECT_TRUE(mend_test_holds_in_a_child(begins_anew, (void *)&inherited));
    shares->visitors[1].is_here = false;
    close(shares->visitors[1].socket);
    shares->is_open = was_open;
    EXPECT_TRUE(was_open || close(shares->listener) == 0);
    mend_process_own_log.shown = 0;
    for (int i = 0; i < LOCKS; i++) {
        mend_mutex_unlock(locks[i]);
    }
    mend_process_end_unsafe_call();
    mend_process_leave(&mend_process_pools, &member);
}

#ifndef NDEBUG

static bool takes_outer_lock(void *argument)
{
    mend_mutex *inherited = argument;
    mend_mutex outer;
    mend_mutex_init(&outer, MEND_RANK_PROCESS);
    bool held_none = *mend_process_held_ranks() == 0;
    mend_mutex_lock(&outer);
    mend_mutex_unlock(inherited); /* by code that was under way at the fork */
    mend_mutex_unlock(&outer);
    return held_none && *mend_process_held_ranks() == 0;
}

MEND_TEST(base_fork, a_child_holds_no_locks)
{
    ASSERT_RESULT(MEND_OK, mend_process_prepare());
    mend_mutex pool;
    mend_mutex_init(&pool, MEND_RANK_POOL);
    mend_mutex_lock(&pool);
    EXPECT_TRUE(mend_test_holds_in_a_child(takes_outer_lock, &pool));
    mend_mutex_unlock(&pool);
    EXPECT_U64_EQ(0, *mend_process_held_ranks());
    mend_mutex_destroy(&pool);
}

#endif
