/* A look at whose a file is before anybody reads or writes it. */
#include "base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
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
