/* Signals are for the program's own threads: Mend's threads block them all. */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mend/mend_share.h"
#include "tests/support/kit.h"

/* The signals that a thread blocks, one bit each. All of them if it is gone. *sleeps: it waits, so
 * it has begun. Until then the system's library blocks all for it. */
static unsigned long long look_at(const char *thread, bool *sleeps)
{
    char path[320];
    char line[128];
    unsigned long long blocked = ~0ULL;
    *sleeps = true;
    snprintf(path, sizeof(path), "/proc/self/task/%s/status", thread);
    FILE *file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, "State:", 6) == 0) {
            *sleeps = strchr(line, 'R') == NULL;
        } else if (strncmp(line, "SigBlk:", 7) == 0) {
            blocked = strtoull(line + 7, NULL, 16);
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return blocked;
}

static unsigned long long blocked_by(const char *thread)
{
    bool sleeps = false;
    unsigned long long blocked = look_at(thread, &sleeps);
    for (int ms = 0; ms < 900000 && !sleeps; ms++) {
        usleep(1000);
        blocked = look_at(thread, &sleeps);
    }
    return blocked;
}

/* The number of threads beside this one. Each blocks signals of programs and people. */
static int check_threads(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGCHLD, SIGALRM, SIGPROF};
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *at;
    int count = 0;
    while (tasks != NULL && (at = readdir(tasks)) != NULL) {
        if (at->d_name[0] == '.' || strtol(at->d_name, NULL, 10) == (long)getpid()) {
            continue;
        }
        count++;
        const unsigned long long blocked = blocked_by(at->d_name);
        for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
            MEND_TEST_CHECK((blocked >> (signals[i] - 1) & 1) != 0, (void)0,
                            "thread %s takes signal %d", at->d_name, signals[i]);
        }
    }
    if (tasks != NULL) {
        closedir(tasks);
    }
    return count;
}

/* The one that collects, and the one that serves importers. */
MEND_TEST(pool_signals, our_threads_block_them_and_the_program_s_does_not)
{
    mend_world opened;
    mend_world *w = &opened;
    mend_export_token token;
    sigset_t before;
    sigset_t after;
    EXPECT_INT_EQ(0, pthread_sigmask(SIG_SETMASK, NULL, &before));
    ASSERT_TRUE(
        kit_open_set(w, w->pool_config.shareable = MEND_SHAREABLE_ON, w->pool_config.idle_ms = 20));
    void *block = kit_alloc(w, MEND_MIB, NULL);
    EXPECT_OK(mend_export(w->pool, block, NULL, &token, MEND_EXPORT_TOKEN_BYTES, NULL, NULL));
    EXPECT_TRUE(check_threads() >= 2);
    EXPECT_INT_EQ(0, pthread_sigmask(SIG_SETMASK, NULL, &after));
    for (int number = 1; number < 32; number++) {
        EXPECT_INT_EQ(sigismember(&before, number), sigismember(&after, number));
    }
    kit_close(w);
}
