#include "lab/support/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- standard output ------------------------------------------------------------------------- */

void mend_output_begin(void)
{
    for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; descriptor++) {
        if (fcntl(descriptor, F_GETFD) == -1) {
            /* Gets the lowest free number, which is this one. Opened in the direction that is not
             * used. */
            int opened = open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY);
            (void)opened;
        }
    }
}

int mend_output_end(int status)
{
    bool is_whole = ferror(stdout) == 0;
    errno = 0;
    if (fclose(stdout) == 0 && is_whole) {
        return status;
    }
    fprintf(stderr, "libmend: cannot write all of standard output%s%s\n", errno != 0 ? ": " : "",
            errno != 0 ? strerror(errno) : "");
    return status > MEND_STATUS_BAD_OUTPUT ? status : MEND_STATUS_BAD_OUTPUT;
}

/* ---- files ----------------------------------------------------------------------------------- */

static bool fail(const mend_output *output, int error)
{
    fprintf(stderr, "libmend %s: cannot write %s: %s\n", output->command, output->path,
            strerror(error));
    return false;
}

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* The standard stream that goes to this file, or -1. */
static int standard_stream_of(const struct stat *file)
{
    for (int descriptor = STDOUT_FILENO; descriptor <= STDERR_FILENO; descriptor++) {
        struct stat stream;
        if (fstat(descriptor, &stream) == 0 && is_same(&stream, file)) {
            return descriptor;
        }
    }
    return -1;
}

static bool is_too_long(void)
{
    errno = ENAMETOOLONG;
    return false;
}

/* Resolves the path of a file that does not exist: its folder without links, and its name. */
static bool resolve_new(mend_output *output)
{
    const char *slash = strrchr(output->path, '/');
    const char *name = slash == NULL ? output->path : slash + 1;
    size_t folder_length = (size_t)(name - output->path);
    char folder[PATH_MAX] = "./";
    if (folder_length >= sizeof(folder)) {
        return is_too_long();
    }
    if (slash != NULL) {
        memcpy(folder, output->path, folder_length);
        folder[folder_length] = 0;
    }
    if (realpath(folder, output->target) == NULL) {
        return false;
    }
    size_t length = strlen(output->target);
    if (length + strlen(name) + 2 > sizeof(output->target)) {
        return is_too_long();
    }
    output->target[length] = '/';
    memcpy(output->target + length + 1, name, strlen(name) + 1);
    return true;
}

/* A new file in the folder of the target. */
static int make_beside(const mend_output *output, char path[PATH_MAX])
{
    static const char name[] = ".mend-XXXXXX";
    size_t folder_length = (size_t)(strrchr(output->target, '/') - output->target) + 1;
    if (folder_length + sizeof(name) > PATH_MAX) {
        is_too_long();
        return -1;
    }
    memcpy(path, output->target, folder_length);
    memcpy(path + folder_length, name, sizeof(name));
    return mkstemp(path);
}

/* Tries to create a file in the folder of the target, and removes it. */
static bool try_folder(const mend_output *output)
{
    char beside[PATH_MAX];
    int descriptor = make_beside(output, beside);
    if (descriptor < 0) {
        return false;
    }
    close(descriptor);
    return unlink(beside) == 0;
}

/* Opens a target that cannot be replaced, and tries whether any other can be. */
static bool prepare(mend_output *output)
{
    struct stat status;
    if (stat(output->path, &status) != 0) {
        /* A dangling link is not a new file. */
        int error = errno;
        bool is_new = error == ENOENT && lstat(output->path, &status) != 0;
        errno = error;
        return is_new && resolve_new(output) && try_folder(output);
    }
    if (S_ISDIR(status.st_mode)) {
        errno = EISDIR;
        return false;
    }
    int stream = standard_stream_of(&status);
    if (stream >= 0 || !S_ISREG(status.st_mode)) {
        output->direct = stream >= 0 ? dup(stream) : open(output->path, O_WRONLY | O_NOCTTY);
        return output->direct >= 0;
    }
    return realpath(output->path, output->target) != NULL && access(output->target, W_OK) == 0 &&
           try_folder(output);
}

bool mend_output_open(mend_output *output, const char *command, const char *path)
{
    *output = (mend_output){.command = command, .path = path, .direct = -1};
    if (path == NULL) {
        return true;
    }
    if (!prepare(output)) {
        return fail(output, errno);
    }
    output->stream = open_memstream(&output->text, &output->size_bytes);
    if (output->stream == NULL) {
        fail(output, ENOMEM);
        mend_output_discard(output);
        return false;
    }
    return true;
}

static bool is_replaced(const mend_output *output)
{
    return output->stream != NULL && output->direct < 0;
}

bool mend_output_is_apart(const mend_output *output, const char *input)
{
    struct stat read;
    struct stat written;
    if (!is_replaced(output) || stat(input, &read) != 0 || stat(output->target, &written) != 0 ||
        !is_same(&read, &written)) {
        return true;
    }
    fprintf(stderr, "libmend %s: %s is read and would be written over\n", output->command, input);
    return false;
}

bool mend_outputs_are_apart(const mend_output *a, const mend_output *b)
{
    if (!is_replaced(a) || !is_replaced(b) || strcmp(a->target, b->target) != 0) {
        return true;
    }
    fprintf(stderr, "libmend %s: %s would be written twice\n", a->command, b->path);
    return false;
}

static bool write_all(int descriptor, const char *text, size_t size_bytes)
{
    while (size_bytes > 0) {
        ssize_t written = write(descriptor, text, size_bytes);
        if (written < 0 && errno != EINTR) {
            return false;
        }
        if (written > 0) {
            text += written;
            size_bytes -= (size_t)written;
        }
    }
    return true;
}

/* The mode of the existing file, or of a new one. */
static mode_t mode_of(const char *target)
{
    struct stat status;
    if (stat(target, &status) == 0) {
        return status.st_mode & 07777;
    }
    mode_t mask = umask(0);
    umask(mask);
    return 0666 & ~mask;
}

static bool write_and_close(int descriptor, const mend_output *output)
{
    if (!write_all(descriptor, output->text, output->size_bytes) ||
        fchmod(descriptor, mode_of(output->target)) != 0 || fsync(descriptor) != 0) {
        int error = errno;
        close(descriptor);
        errno = error;
        return false;
    }
    return close(descriptor) == 0;
}

static bool replace(const mend_output *output)
{
    char beside[PATH_MAX];
    int descriptor = make_beside(output, beside);
    if (descriptor < 0) {
        return false;
    }
    if (write_and_close(descriptor, output) && rename(beside, output->target) == 0) {
        return true;
    }
    int error = errno;
    unlink(beside);
    errno = error;
    return false;
}

static bool write_text(const mend_output *output)
{
    if (output->direct < 0) {
        return replace(output);
    }
    /* The target may be standard output: flushes earlier prints first. */
    fflush(stdout);
    return write_all(output->direct, output->text, output->size_bytes);
}

bool mend_output_close(mend_output *output)
{
    if (output->stream == NULL) {
        return true;
    }
    bool is_whole = ferror(output->stream) == 0;
    is_whole = fclose(output->stream) == 0 && is_whole;
    output->stream = NULL;
    bool is_written = is_whole && write_text(output);
    if (!is_written) {
        fail(output, is_whole ? errno : ENOMEM);
    }
    mend_output_discard(output);
    return is_written;
}

void mend_output_discard(mend_output *output)
{
    if (output->stream != NULL) {
        fclose(output->stream);
        output->stream = NULL;
    }
    if (output->direct >= 0) {
        close(output->direct);
        output->direct = -1;
    }
    free(output->text);
    output->text = NULL;
}
