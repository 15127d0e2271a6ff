#include "tests/support/files.h"

#include <dirent.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/process.h"

bool mend_test_files_stay;

static int count_entries(const char *folder)
{
    int count = 0;
    DIR *entries = opendir(folder);
    while (entries != NULL && readdir(entries) != NULL) {
        count++;
    }
    if (entries != NULL) {
        closedir(entries);
    }
    return count;
}

int mend_test_open_files(void)
{
    mend_mutex_lock(&mend_process_own_shares.mutex);
    const bool listens = mend_process_own_shares.is_open;
    mend_mutex_unlock(&mend_process_own_shares.mutex);
    return count_entries("/proc/self/fd") - listens;
}

/* A thread that has ended meanwhile counts as one. */
static bool sleeps(const char *thread)
{
    char path[64];
    char text[256] = "";
    snprintf(path, sizeof(path), "/proc/self/task/%.20s/stat", thread);
    FILE *file = fopen(path, "r");
    if (file != NULL) {
        (void)!fgets(text, sizeof(text), file);
        fclose(file);
    }
    const char *name_end = strrchr(text, ')');
    return name_end == NULL || strncmp(name_end, ") S", 3) == 0;
}

/* All but the calling one. */
static bool all_threads_sleep(void)
{
    bool all_sleep = true;
    DIR *threads = opendir("/proc/self/task");
    const struct dirent *thread;
    while (threads != NULL && all_sleep && (thread = readdir(threads)) != NULL) {
        all_sleep = thread->d_name[0] == '.' ||
                    strtol(thread->d_name, NULL, 10) == syscall(SYS_gettid) ||
                    sleeps(thread->d_name);
    }
    if (threads != NULL) {
        closedir(threads);
    }
    return all_sleep;
}

bool mend_test_files_are(int count)
{
    while (mend_test_open_files() != count && !all_threads_sleep()) {
        (void)poll(NULL, 0, 1);
    }
    return mend_test_open_files() == count;
}

void mend_test_shared_limit_file_size(uint64_t bytes)
{
    struct rlimit limit;
    (void)getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
    (void)setrlimit(RLIMIT_FSIZE, &limit);
}
