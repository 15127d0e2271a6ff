/*
 * Pages are found among the open files of the process and copied by reads, not mapped: a file that
 * is cut meanwhile ends a read early, without a signal.
 */
#include "lab/live/read.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { TRIES = 100, TRY_NS = 10 * 1000 * 1000 };

static bool __attribute__((format(printf, 2, 3)))
refuse(mend_live_pools *pools, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(pools->problem, sizeof(pools->problem), format, arguments);
    va_end(arguments);
    return false;
}

static bool read_at(int file, void *to, size_t bytes, size_t offset)
{
    return pread(file, to, bytes, (off_t)offset) == (ssize_t)bytes;
}

/* False: the page changes all the time, or has been left half written. */
static bool copy(int file, mend_live_page *page)
{
    for (int i = 0; i < TRIES; i++) {
        const size_t sequence = offsetof(mend_live_page, sequence);
        uint64_t before = 0;
        uint64_t behind = 0;
        if (!read_at(file, &before, sizeof(before), sequence) ||
            !read_at(file, page, sizeof(*page), 0) ||
            !read_at(file, &behind, sizeof(behind), sequence)) {
            return false;
        }
        if (before > 0 && before % 2 == 0 && before == behind) {
            return true;
        }
        nanosleep(&(struct timespec){.tv_nsec = TRY_NS}, NULL);
    }
    return false;
}

static bool check_head(int file, pid_t process, mend_live_pools *pools)
{
    mend_live_page *page = &pools->pages[pools->count];
    struct stat status;
    memset(page, 0, sizeof(*page));
    if (fstat(file, &status) != 0 || !read_at(file, page, offsetof(mend_live_page, sequence), 0) ||
        page->magic != MEND_LIVE_MAGIC) {
        return refuse(pools, "process %d has a page that is none of Mend's", (int)process);
    }
    if (page->version != MEND_LIVE_VERSION || page->page_bytes != sizeof(*page)) {
        return refuse(pools,
                      "the page of process %d is of another version of Mend: use its own "
                      "libmend program",
                      (int)process);
    }
    if (status.st_size != (off_t)sizeof(*page)) {
        return refuse(pools, "the page of process %d is cut: %lld bytes of %zu", (int)process,
                      (long long)status.st_size, sizeof(*page));
    }
    if (page->process != (uint64_t)process) {
        return refuse(pools, "process %d was forked by %llu, whose pools it cannot use",
                      (int)process, (unsigned long long)page->process);
    }
    return true;
}

/* The command line of the process, without the folder of the program. */
static void read_program(pid_t process, char program[MEND_LIVE_PROGRAM_BYTES])
{
    char path[64];
    char line[4096] = "";
    snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)process);
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t bytes = file >= 0 ? read(file, line, sizeof(line) - 1) : 0;
    if (file >= 0) {
        close(file);
    }
    const char *folder = strrchr(line, '/'); /* of the first argument: a 0 ends it */
    const size_t skipped = folder != NULL ? (size_t)(folder + 1 - line) : 0;
    for (ssize_t i = 0; i + 1 < bytes; i++) {
        if (line[i] == '\0') {
            line[i] = ' ';
        }
    }
    snprintf(program, MEND_LIVE_PROGRAM_BYTES, "%s", line + skipped);
}

static bool read_page(int file, pid_t process, mend_live_pools *pools)
{
    struct timespec now;
    if (!check_head(file, process, pools)) {
        return false;
    }
    mend_live_page *page = &pools->pages[pools->count];
    const bool is_copied = copy(file, page);
    for (size_t i = 0; i < MEND_LIVE_OWNERS; i++) { /* the page may be damaged */
        page->owners[i].name[MEND_OWNER_NAME_BYTES - 1] = '\0';
    }
    if (!is_copied) {
        return refuse(pools, "the page of process %d stays half written: it is stopped, or ends",
                      (int)process);
    }
    clock_gettime(CLOCK_MONOTONIC, &now);
    const uint64_t now_ns = (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
    pools->age_ns[pools->count] = now_ns > page->time_ns ? now_ns - page->time_ns : 0;
    read_program(process, pools->programs[pools->count]);
    pools->count++;
    return true;
}

static bool is_page(const char *path)
{
    static const char name[] = "/memfd:" MEND_LIVE_NAME " (deleted)";
    char target[sizeof(name)];
    return readlink(path, target, sizeof(target)) == (ssize_t)sizeof(name) - 1 &&
           memcmp(target, name, sizeof(name) - 1) == 0;
}

/* Open files in the order of their numbers, which is the order of the pools. */
static int by_number(const struct dirent **a, const struct dirent **b)
{
    return (int)(strtol((*a)->d_name, NULL, 10) - strtol((*b)->d_name, NULL, 10));
}

static bool read_all(struct dirent **files, int count, pid_t process, mend_live_pools *pools)
{
    bool is_good = true;
    for (int i = 0; i < count; i++) {
        char path[sizeof("/proc//fd/") + 32 + NAME_MAX];
        snprintf(path, sizeof(path), "/proc/%d/fd/%s", (int)process, files[i]->d_name);
        const bool is_one = is_good && is_page(path);
        if (is_one && pools->count == MEND_LIVE_MOST_POOLS) {
            pools->left_out++;
        } else if (is_one) {
            int file = open(path, O_RDONLY | O_CLOEXEC);
            is_good = file >= 0 && read_page(file, process, pools);
            if (file >= 0) {
                close(file);
            } else {
                refuse(pools, "the page of process %d cannot be opened: %s", (int)process,
                       strerror(errno));
            }
        }
        free(files[i]);
    }
    free(files);
    return is_good;
}

/* Adds the pools of a process. */
static bool add(pid_t process, mend_live_pools *pools)
{
    char folder[64];
    struct dirent **files = NULL;
    const size_t before = pools->count;
    snprintf(folder, sizeof(folder), "/proc/%d/fd", (int)process);
    const int count = scandir(folder, &files, NULL, by_number);
    if (count < 0 && errno == ENOENT) {
        return refuse(pools, "there is no process %d", (int)process);
    }
    if (count <= 0) { /* the files of a process that has ended, and of another user, are not told */
        return refuse(pools,
                      count < 0 && errno == EACCES
                          ? "process %d is another user's, or may not be looked into"
                          : "process %d has ended, or its files cannot be listed",
                      (int)process);
    }
    if (!read_all(files, count, process, pools)) {
        return false;
    }
    return pools->count > before ||
           refuse(pools,
                  "process %d has no pool of Mend that publishes: it has made none yet, or was "
                  "started without MEND_CONF=observe:top (PyTorch: and MEND_TORCH=1)",
                  (int)process);
}

static void forget(mend_live_pools *pools)
{
    pools->count = 0;
    pools->left_out = 0;
    pools->problem[0] = '\0';
}

bool mend_live_read(pid_t process, mend_live_pools *pools)
{
    forget(pools);
    return add(process, pools);
}

bool mend_live_read_every(mend_live_pools *pools)
{
    DIR *all = opendir("/proc");
    forget(pools);
    if (all == NULL) {
        return refuse(pools, "the processes cannot be listed: %s", strerror(errno));
    }
    for (const struct dirent *at = readdir(all); at != NULL; at = readdir(all)) {
        const size_t before = pools->count;
        const long process = strtol(at->d_name, NULL, 10);
        if (process > 0 && !add((pid_t)process, pools)) {
            pools->count = before;
        }
    }
    closedir(all);
    return pools->count > 0 || refuse(pools, "no process that you may look into has a pool of Mend "
                                             "that publishes: start one with MEND_CONF=observe:top "
                                             "(PyTorch: and MEND_TORCH=1)");
}

double mend_live_rate(const mend_live_page *page, uint64_t now, uint64_t before)
{
    const bool is_known = page->before_ns > 0 && page->time_ns > page->before_ns && now >= before;
    return is_known ? (double)(now - before) * 1e9 / (double)(page->time_ns - page->before_ns) : 0;
}
