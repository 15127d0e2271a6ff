/*
 * Files that the library opens. None gets the number 0, 1 or 2: a program that has closed its
 * standard files would print into it. And a file with a name is not another user's, in a folder
 * where all may write: see mend_file_open.
 */
#ifndef MEND_BASE_FILES_H
#define MEND_BASE_FILES_H

#include <errno.h>
#include <fcntl.h>
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

/*
 * Opens a file that others could have put there, by the flags of open. A new one is for the user
 * alone. It is a regular file of this user or of root, which neither its group nor others may
 * write, and no symbolic link. -1: errno, which is EPERM for any other file, and *reason, in words
 * that follow the path.
 */
int mend_file_open(const char *path, int flags, const char **reason);

#endif
