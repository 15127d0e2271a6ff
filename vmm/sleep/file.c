/*
 * Files for contents that sleep: without a name, so that they end with the process. Reading and
 * writing release `state`.
 */
#include "sleep/keep.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/allowance.h"
#include "base/files.h"
#include "map/map.h"

static mend_result refused(const char *what, int error)
{
    return mend_failure(MEND_ERROR_SYSTEM, "%s for contents that sleep: %s%s", what,
                        strerror(error),
                        error == EFBIG ? " (the process's limit of file sizes, ulimit -f)" : "");
}

/* Where the file system has no files without a name, one that loses its name at once. */
static int open_named(const char *directory)
{
    static const char name[] = "/mend-sleep-XXXXXX";
    size_t size = strlen(directory) + sizeof(name);
    char *path = malloc(size);
    if (path == NULL) {
        errno = ENOMEM;
        return -1;
    }
    snprintf(path, size, "%s%s", directory, name);
    int descriptor = mend_file_keep(mkostemp(path, O_CLOEXEC));
    if (descriptor >= 0) {
        unlink(path);
    }
    free(path);
    return descriptor;
}

mend_result mend_sleep_file_open(const char *directory, mend_kept_file **file)
{
    mend_kept_file *made = calloc(1, sizeof(*made));
    if (made == NULL) {
        return mend_no_host_memory("a file of a sleep");
    }
    made->uses = 1;
    made->descriptor = mend_file_keep(open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    if (made->descriptor < 0 && (errno == EOPNOTSUPP || errno == EISDIR)) {
        made->descriptor = open_named(directory);
    }
    if (made->descriptor < 0) {
        int error = errno;
        free(made);
        return mend_failure(MEND_ERROR_SYSTEM, "no file can be made in \"%s\" for contents: %s",
                            directory, strerror(error));
    }
    *file = made;
    return MEND_OK;
}

void mend_sleep_file_leave(mend_kept_file **file)
{
    assert(*file == NULL || (*file)->uses > 0);
    if (*file != NULL && --(*file)->uses == 0) {
        close((*file)->descriptor);
        free(*file);
    }
    *file = NULL;
}

/* A file system that cannot take space ahead says that it is full while it is written. */
mend_result mend_sleep_file_extend(mend_kept_file *file, uint64_t size_bytes)
{
    const bool fits = mend_may_be_file_size(file->size_bytes + size_bytes);
    int error = fits ? 0 : EFBIG;
    while (fits &&
           fallocate(file->descriptor, 0, (off_t)file->size_bytes, (off_t)size_bytes) != 0) {
        error = errno;
        if (error != EINTR) {
            break;
        }
        error = 0;
    }
    if (error != 0 && error != EOPNOTSUPP && error != ENOSYS) {
        return refused(fits ? "the file system has no space" : "a file cannot be so long", error);
    }
    file->size_bytes += size_bytes;
    return MEND_OK;
}

mend_result mend_sleep_file_pass(mend_heap *heap, const mend_kept_file *file, const void *out,
                                 void *in, uint64_t size_bytes, uint64_t at)
{
    int error = out == NULL || mend_may_be_file_size(at + size_bytes) ? 0 : EFBIG;
    mend_heap_unlock(heap);
    for (uint64_t done = 0; done < size_bytes && error == 0;) {
        const size_t left = (size_t)(size_bytes - done);
        const off_t to = (off_t)(at + done);
        const ssize_t count = out != NULL
                                  ? pwrite(file->descriptor, (const char *)out + done, left, to)
                                  : pread(file->descriptor, (char *)in + done, left, to);
        done += count > 0 ? (uint64_t)count : 0;
        error = count < 0 && errno != EINTR ? errno : 0;
        error = count == 0 && out == NULL ? EIO : error; /* it was cut */
    }
    mend_heap_lock(heap);
    return error == 0
               ? MEND_OK
               : refused(out != NULL ? "a file could not be written" : "a file could not be read",
                         error);
}
