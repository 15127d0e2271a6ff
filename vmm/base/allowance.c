/*
 * The system is asked at each call: a program changes its limits while it runs, and opens files.
 * Whether any are left is seen by opening some. How much memory the host has, the files of the
 * system tell.
 */
#include "base/allowance.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/align.h"
#include "base/files.h"

bool mend_may_be_file_size(uint64_t size_bytes)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
        size_bytes <= limit.rlim_cur) {
        return true;
    }
    errno = EFBIG;
    return false;
}

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
