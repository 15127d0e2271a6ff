/* Locks with a rank: the assertion that catches a wrong order. */
#include "base/thread.h"

#include <stdio.h>

#include "tests/support/child.h"
#include "tests/support/test.h"

#ifndef NDEBUG

/* Two locks of each rank. */
static mend_mutex mutexes[2][MEND_RANK_LOG + 1];

/* The second of one rank is locked behind the first of another one. */
static bool lock_both(void *first_and_second)
{
    const mend_lock_rank *ranks = first_and_second;
    (void)!freopen("/dev/null", "w", stderr);
    mend_mutex_lock(&mutexes[0][ranks[0]]);
    mend_mutex_lock(&mutexes[1][ranks[1]]);
    return true;
}

MEND_TEST(base_mutex, a_thread_knows_the_ranks_that_it_holds_and_asserts_their_order)
{
    for (mend_lock_rank first = MEND_RANK_PROCESS; first <= MEND_RANK_LOG; first++) {
        mend_mutex_init(&mutexes[0][first], first);
        mend_mutex_init(&mutexes[1][first], first);
    }
    for (mend_lock_rank first = MEND_RANK_PROCESS; first <= MEND_RANK_LOG; first++) {
        for (mend_lock_rank then = MEND_RANK_PROCESS; then <= MEND_RANK_LOG; then++) {
            mend_lock_rank ranks[] = {first, then};
            EXPECT_INT_EQ(then > first, mend_test_holds_in_a_child(lock_both, ranks));
            mend_mutex_lock(&mutexes[0][first]);
            EXPECT_INT_EQ(then == first, mend_mutex_is_held(&mutexes[0][then]));
            mend_mutex_unlock(&mutexes[0][first]);
        }
    }
}

#endif
