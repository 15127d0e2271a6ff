/* Locks with a rank: tries, and the assertion that catches a wrong order. */
#include "base/thread.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/process.h"
#include "tests/support/child.h"
#include "tests/support/test.h"
#include "tests/support/threads.h"

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

/* Runs a text of steps: "l3" locks the first lock of rank 3, a pool's, "u" unlocks, "t" tries, "w"
 * waits. The second lock of the rank has a prime behind it: "l3'". */
static void play(const char *text)
{
    while (*text != '\0') {
        pthread_cond_t never;
        const bool is_second = text[2] == '\'';
        mend_mutex *mutex = &mutexes[is_second][text[1] - '0'];
        if (text[0] == 'l') {
            mend_mutex_lock(mutex);
        } else if (text[0] == 'u') {
            mend_mutex_unlock(mutex);
        } else if (text[0] == 't') {
            (void)mend_mutex_try_lock(mutex);
        } else {
            pthread_cond_init(&never, NULL);
            mend_test_limit(60); /* ends a wait that was let through */
            mend_condition_wait(&never, mutex);
        }
        text += is_second ? 3 : 2;
        text += *text == ' ';
    }
}

/* Plays a text in a child process, and tells whether an assertion ended it. */
static bool is_caught(const char *text)
{
    pid_t child = fork();
    if (child == 0) {
        int nowhere = open("/dev/null", O_WRONLY);
        dup2(nowhere, STDERR_FILENO);
        init_mutexes();
        play(text);
        _exit(0);
    }
    int status = 0;
    bool ended = child > 0 && waitpid(child, &status, 0) == child;
    EXPECT_TRUE(ended);
    return ended && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

MEND_TEST(base_mutex, asserts_the_order_of_ranks)
{
    for (char first = '1'; first <= '0' + MEND_RANK_LOG; first++) {
        for (char then = '1'; then <= '0' + MEND_RANK_LOG; then++) {
            const char text[] = {'l', first, ' ', 'l', then, '\'', '\0'};
            EXPECT_INT_EQ(then <= first, is_caught(text));
        }
    }
    EXPECT_TRUE(MEND_RANK_PROCESS < MEND_RANK_GROW && MEND_RANK_GROW < MEND_RANK_POOL);
    EXPECT_TRUE(MEND_RANK_POOL < MEND_RANK_DRIVER && MEND_RANK_DRIVER < MEND_RANK_LOG);
}

MEND_TEST(base_mutex, asserts_the_order_behind_what_was_let_go_tried_or_waited_for)
{
    static const struct {
        const char *text;
        bool is_caught;
    } rows[] = {
        {"l2 l3 u3 l4 u4 l3 u2 l4", false}, /* as around a slow driver call. Let go in any order */
        {"l3 t2 u3 l3", false},             /* a try is free of order, */
        {"t2 l1", true},                    /* and counts afterwards */
        {"l3 t3' u3 l2", true},             /* one of two of a rank is still held */
        {"l3 t3' u3 u3' l2", false},
        {"l3 l4 w3", true}, /* only the innermost lock is let go in a wait, */
        {"l2 w3", true},    /* and only one that is held */
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        EXPECT_INT_EQ(rows[i].is_caught, is_caught(rows[i].text));
    }
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
