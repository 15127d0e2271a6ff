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
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

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
