/* What the library asks of the system: files, limits, threads of its own, a clock. No file gets the
 * number 0, 1 or 2: a program that has closed its standard files would print into it. And a file
 * with a name is not another user's, in a folder where all may write: see mend_file_open. */
#ifndef MEND_BASE_SYSTEM_H
#define MEND_BASE_SYSTEM_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <unistd.h>

/* The file, with a number above 2. -1, and errno: the process has no number left, and the file is
 * closed, or it was -1 before. */
static inline int mend_file_keep(int file)
{
    if (file < 0 || file > STDERR_FILENO) {
        return file;
    }
    const int kept = fcntl(file, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    const int reason = errno;
    close(file);
    errno = reason;
    return kept;
}

/* Opens a file that others could have put there, by the flags of open. A new one is for the user
 * alone. It is a regular file of this user or of root, which neither its group nor others may
 * write, and no symbolic link. -1: errno, which is EPERM for any other file, and *reason, in words
 * that follow the path. */
int mend_file_open(const char *path, int flags, const char **reason);

/* ---- limits ---------------------------------------------------------------------------------- */

/* The system's limits of the process, which decide between a message and an end by a signal. Any
 * thread may ask, under any lock. A program changes its limits while it runs: each call asks. */

/* Whether files may be as long as that (RLIMIT_FSIZE). One that grows beyond raises SIGXFSZ, which
 * ends the process: so ask before. If not, errno is EFBIG. */
static inline bool mend_may_be_file_size(uint64_t size_bytes)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
        size_bytes <= limit.rlim_cur) {
        return true;
    }
    errno = EFBIG;
    return false;
}

/* ---- threads of the library ------------------------------------------------------------------ */

/*
 * Starts a thread that takes no signals, which are for the program's threads. Debuggers and `top
 * -H` show `name`, at most 15 characters. The thread runs when this returns. So a fork right after
 * it does not find the C library, or a sanitizer, in the middle of a start, whose locks a child
 * would wait for for ever.
 */
bool mend_signals_start_thread(pthread_t *thread, const char *name, void *(*run)(void *),
                               void *context);

/* dlclose leaves the library in the process from now on. */
void mend_hold_library(void);

/* mend_signals_start_thread of one that holds the library, whose code it may run until the process
 * ends. */
bool mend_start_service(pthread_t *thread, const char *name, void *(*run)(void *), void *context);

/* A clock for patience between threads and processes. */
uint64_t mend_now_ms(void);

#endif
