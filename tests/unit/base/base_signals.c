/* Threads of the library. */
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>

#include "base/system.h"
#include "tests/support/test.h"

enum { STARTS = 300 };

typedef struct run {
    sem_t may_end;
    sigset_t masked;
} run;

static void *wait_for_the_end(void *argument)
{
    run *own = argument;
    pthread_sigmask(SIG_BLOCK, NULL, &own->masked);
    while (sem_wait(&own->may_end) != 0) {
    }
    return own;
}

/* A thread sets its name last before it runs: once the name is there, its start is over. The
 * program's own signals stay as they are. */
MEND_TEST(base_signals, a_thread_runs_without_signals_when_its_start_returns)
{
    sigset_t before;
    sigset_t after;
    ASSERT_INT_EQ(0, pthread_sigmask(SIG_BLOCK, NULL, &before));
    for (int i = 0; i < STARTS; i++) {
        pthread_t thread;
        char name[16] = "";
        run own;
        ASSERT_INT_EQ(0, sem_init(&own.may_end, 0, 0));
        ASSERT_TRUE(mend_signals_start_thread(&thread, "mend-test", wait_for_the_end, &own));
        ASSERT_INT_EQ(0, pthread_getname_np(thread, name, sizeof(name)));
        sem_post(&own.may_end);
        ASSERT_INT_EQ(0, pthread_join(thread, NULL));
        sem_destroy(&own.may_end);
        ASSERT_TRUE(strcmp(name, "mend-test") == 0);
        ASSERT_TRUE(sigismember(&own.masked, SIGUSR2) && sigismember(&own.masked, SIGTERM));
    }
    ASSERT_INT_EQ(0, pthread_sigmask(SIG_BLOCK, NULL, &after));
    for (int number = 1; number < 32; number++) {
        EXPECT_INT_EQ(sigismember(&before, number), sigismember(&after, number));
    }
}
