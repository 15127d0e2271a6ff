/* Locks with a rank: the assertion that catches a wrong order. */
#include "base/thread.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/process.h"
#include "tests/support/test.h"

#ifndef NDEBUG

/* Two locks of each rank. */
static mend_mutex mutexes[2][MEND_RANK_LOG + 1];

static void init_mutexes(void)
{
    for (mend_lock_rank rank = MEND_RANK_PROCESS; rank <= MEND_RANK_LOG; rank++) {
        mend_mutex_init(&mutexes[0][rank], rank);
        mend_mutex_init(&mutexes[1][rank], rank);
    }
}

/* Whether an assertion ends a child process that locks the second of one rank behind the first of
 * another one. */
static bool is_caught(mend_lock_rank first, mend_lock_rank then)
{
    pid_t child = fork();
    if (child == 0) {
        dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
        init_mutexes();
        mend_mutex_lock(&mutexes[0][first]);
        mend_mutex_lock(&mutexes[1][then]);
        _exit(0);
    }
    int status = 0;
    EXPECT_INT_EQ(child, waitpid(child, &status, 0));
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

MEND_TEST(base_mutex, asserts_the_order_of_ranks)
{
    for (mend_lock_rank first = MEND_RANK_PROCESS; first <= MEND_RANK_LOG; first++) {
        for (mend_lock_rank then = MEND_RANK_PROCESS; then <= MEND_RANK_LOG; then++) {
            EXPECT_INT_EQ(then <= first, is_caught(first, then));
        }
    }
    EXPECT_TRUE(MEND_RANK_PROCESS < MEND_RANK_GROW && MEND_RANK_GROW < MEND_RANK_POOL);
    EXPECT_TRUE(MEND_RANK_POOL < MEND_RANK_DRIVER && MEND_RANK_DRIVER < MEND_RANK_LOG);
}

MEND_TEST(base_mutex, a_thread_knows_which_ranks_it_holds)
{
    const mend_mutex never_made = {.rank = 0};
    init_mutexes();
    EXPECT_TRUE(mend_mutex_none_is_held_from(MEND_RANK_PROCESS));
    EXPECT_FALSE(mend_mutex_is_held(&mutexes[0][MEND_RANK_POOL]));
    mend_mutex_lock(&mutexes[0][MEND_RANK_POOL]);
    EXPECT_TRUE(mend_mutex_is_held(&mutexes[0][MEND_RANK_POOL]));
    EXPECT_FALSE(mend_mutex_is_held(&mutexes[0][MEND_RANK_GROW]));
    EXPECT_FALSE(mend_mutex_is_held(&mutexes[0][MEND_RANK_DRIVER]));
    EXPECT_FALSE(mend_mutex_none_is_held_from(MEND_RANK_POOL));
    EXPECT_TRUE(mend_mutex_none_is_held_from(MEND_RANK_DRIVER));
    mend_mutex_unlock(&mutexes[0][MEND_RANK_POOL]);
    EXPECT_FALSE(mend_mutex_is_held(&mutexes[0][MEND_RANK_POOL]));
    EXPECT_TRUE(mend_mutex_is_held(&never_made));
}

#endif
