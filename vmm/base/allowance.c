/*
 * The system is asked at each call: a program changes its limits while it runs, and opens files.
 * Whether any are left is seen by opening some.
 */
#include "base/allowance.h"

#include <errno.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

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

/* As many as a call of the driver may need. */
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
