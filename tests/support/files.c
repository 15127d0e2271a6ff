#include "tests/support/files.h"

#include <dirent.h>
#include <poll.h>
#include <stddef.h>

enum { TRIES = 2000 };

int mend_test_open_files(void)
{
    int count = 0;
    DIR *files = opendir("/proc/self/fd");
    while (files != NULL && readdir(files) != NULL) {
        count++;
    }
    if (files != NULL) {
        closedir(files);
    }
    return count;
}

bool mend_test_files_are(int count)
{
    for (int i = 0; i < TRIES && mend_test_open_files() != count; i++) {
        (void)poll(NULL, 0, 1);
    }
    return mend_test_open_files() == count;
}
