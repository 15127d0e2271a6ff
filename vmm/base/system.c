/* A look at whose a file is before anybody reads or writes it. Limits are read from the system. */
#include "base/system.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/align.h"

/* NULL: nothing. */
static const char *distrusted(int file)
{
    struct stat about;
    if (fstat(file, &about) != 0) {
        return strerror(errno);
    }
    if (!S_ISREG(about.st_mode)) {
        return "it is no regular file";
    }
    if (about.st_uid != geteuid() && about.st_uid != 0) {
        return "it belongs to another user, which could read and change it: remove it, or name "
               "another";
    }
    return (about.st_mode & (S_IWGRP | S_IWOTH)) != 0
               ? "its group or others may write it: run chmod go-w on it"
               : NULL;
}

int mend_file_open(const char *path, int flags, const char **reason)
{
    const int file = mend_file_keep(
        open(path, flags | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, S_IRUSR | S_IWUSR));
    if (file < 0) {
        *reason = errno == ELOOP ? "it is a symbolic link: name the file itself" : strerror(errno);
        return -1;
    }
    const char *doubt = distrusted(file);
    if (doubt != NULL) {
        close(file);
        errno = EPERM;
        *reason = doubt;
        return -1;
    }
    return file;
}

/* ---- limits ---------------------------------------------------------------------------------- */

/* As many as a driver call may need. */
enum { SPARE_FILES = 4 };

bool mend_lacks_files(uint64_t *limit)
{
    struct rlimit files = {0};
    int spare[SPARE_FILES];
    int count = 0;
    while (count < SPARE_FILES &&
           (spare[count] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) >= 0) {
        count++;
    }
    const bool lacks = count < SPARE_FILES && (errno == EMFILE || errno == ENFILE);
    while (count > 0) {
        close(spare[--count]);
    }
    *limit = getrlimit(RLIMIT_NOFILE, &files) == 0 ? files.rlim_cur : 0;
    return lacks;
}

/* ---- memory of the host ---------------------------------------------------------------------- */

enum { PATH_BYTES = 4096, FILE_BYTES = 4096 };

/* The start of a file as text, which is empty if it cannot be read. */
static void read_text(const char *path, char text[FILE_BYTES])
{
    size_t length = 0;
    ssize_t got = 0;
    const int file = mend_file_keep(open(path, O_RDONLY | O_CLOEXEC));
    do {
        got = file >= 0 ? read(file, text + length, FILE_BYTES - 1 - length) : 0;
        length += got > 0 ? (size_t)got : 0;
    } while (got > 0);
    text[length] = '\0';
    if (file >= 0) {
        close(file);
    }
}

/* The number in a file, or the one behind `key`. UINT64_MAX if there is none, as in a limit of
 * "max". */
static uint64_t number_in(const char *path, const char *key)
{
    char text[FILE_BYTES];
    read_text(path, text);
    const char *found = strstr(text, key);
    if (found == NULL) {
        return UINT64_MAX;
    }
    const char *begin = found + strlen(key);
    char *end = NULL;
    const uint64_t number = strtoull(begin, &end, 10);
    return end != begin ? number : UINT64_MAX;
}

/* The rest of a group and of the groups above it. A container sees its own as the topmost, whatever
 * its path is outside. Cuts `group` down to nothing. */
static uint64_t left_in_groups(const char *mount, char *group, const char *limit, const char *usage)
{
    char path[2 * PATH_BYTES];
    uint64_t left = UINT64_MAX;
    for (char *end = group + strlen(group); end != NULL; end = strrchr(group, '/')) {
        *end = '\0';
        snprintf(path, sizeof(path), "%s%s/%s", mount, group, limit);
        const uint64_t most = number_in(path, "");
        if (most != UINT64_MAX) {
            snprintf(path, sizeof(path), "%s%s/%s", mount, group, usage);
            const uint64_t used = number_in(path, "");
            left = mend_min_u64(left, most > used ? most - used : 0);
        }
    }
    return left;
}

/* A line is "ID:CONTROLLERS:PATH". In version 2 there is one, without controllers. */
static uint64_t left_in_line(const char *root, char *line)
{
    char mount[PATH_BYTES];
    char *controllers = strchr(line, ':');
    char *group = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
    if (group == NULL) {
        return UINT64_MAX;
    }
    *group++ = '\0';
    const bool is_unified = controllers[1] == '\0';
    snprintf(mount, sizeof(mount), "%s/sys/fs/cgroup%s", root, is_unified ? "" : "/memory");
    if (is_unified) {
        return left_in_groups(mount, group, "memory.max", "memory.current");
    }
    return strstr(controllers, "memory") != NULL
               ? left_in_groups(mount, group, "memory.limit_in_bytes", "memory.usage_in_bytes")
               : UINT64_MAX;
}

uint64_t mend_host_room_bytes(const char *root)
{
    char path[PATH_BYTES];
    char groups[FILE_BYTES];
    char *rest = NULL;
    snprintf(path, sizeof(path), "%s/proc/meminfo", root);
    const uint64_t available_kib = number_in(path, "MemAvailable:");
    uint64_t room = available_kib < UINT64_MAX / 1024 ? available_kib * 1024 : UINT64_MAX;
    snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
    read_text(path, groups);
    for (char *line = strtok_r(groups, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        room = mend_min_u64(room, left_in_line(root, line));
    }
    return room;
}

/* ---- threads of the library ------------------------------------------------------------------ */

typedef struct beginning {
    const char *name;
    void *(*run)(void *);
    void *context;
    sem_t has_begun;
} beginning;

static void *begin(void *argument)
{
    beginning *own = argument;
    void *(*run)(void *) = own->run;
    void *context = own->context;
    (void)pthread_setname_np(pthread_self(), own->name);
    sem_post(&own->has_begun);
    return run(context);
}

bool mend_signals_start_thread(pthread_t *thread, const char *name, void *(*run)(void *),
                               void *context)
{
    beginning own = {.name = name, .run = run, .context = context};
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0) {
        return false;
    }
    sem_init(&own.has_begun, 0, 0);
    bool is_started = pthread_create(thread, NULL, begin, &own) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    while (is_started && sem_wait(&own.has_begun) != 0) {
    }
    sem_destroy(&own.has_begun);
    return is_started;
}

/* In a program that is linked statically there is nothing to hold. */
void mend_hold_library(void)
{
    Dl_info found;
    if (dladdr((const void *)(uintptr_t)mend_hold_library, &found) != 0 &&
        found.dli_fname != NULL) {
        (void)dlopen(found.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
    }
}

bool mend_start_service(pthread_t *thread, const char *name, void *(*run)(void *), void *context)
{
    mend_hold_library();
    return mend_signals_start_thread(thread, name, run, context);
}

uint64_t mend_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}
