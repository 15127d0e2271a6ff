/* Host memory that the process may write, from folders that replace the system's files. */
#include "sleep/sleep.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "tests/support/child.h"
#include "tests/support/test.h"

/* A file below the root, whose folders are made. */
static bool put(const char *root, const char *name, const char *text)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", root, name);
    for (char *slash = strchr(path + strlen(root) + 1, '/'); slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
    FILE *file = fopen(path, "w");
    const bool is_whole = file != NULL && fputs(text, file) >= 0;
    return file != NULL && fclose(file) == 0 && is_whole;
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *place)
{
    (void)status;
    (void)kind;
    (void)place;
    return remove(path);
}

MEND_TEST(sleep_host_room, it_is_the_least_that_the_machine_and_the_graph_pools_leave)
{
    const struct {
        const char *file[3][2];
        uint64_t room;
    } steps[] = {
        {{{0}}, UINT64_MAX},
        {{{"proc/meminfo", "MemTotal: 9 kB\nMemAvailable:   900 kB\n"}}, 900 * 1024},
        {{{"proc/self/cgroup", "4:cpu:/x\n3:hugetlb,memory:/out/side\n0::/a/b\n"}}, 900 * 1024},
        {{{"sys/fs/cgroup/a/b/memory.max", "max\n"}}, 900 * 1024},
        {{{"sys/fs/cgroup/a/memory.max", "8000\n"}, {"sys/fs/cgroup/a/memory.current", "500\n"}},
         7500},
        {{{"sys/fs/cgroup/a/b/memory.max", "7000\n"}, {"sys/fs/cgroup/a/b/memory.current", "1\n"}},
         6999},
        {{{"sys/fs/cgroup/memory/memory.limit_in_bytes", "6000\n"},
          {"sys/fs/cgroup/memory/memory.usage_in_bytes", "100\n"}},
         5900},
        {{{"sys/fs/cgroup/memory/x/memory.limit_in_bytes", "9\n"}}, 5900}, /* of cpu's group */
        {{{"sys/fs/cgroup/memory.max", "50\n"}, {"sys/fs/cgroup/memory.current", "60\n"}}, 0},
    };
    char root[] = "/tmp/mend-host-room-XXXXXX";
    ASSERT_TRUE(mkdtemp(root) != NULL);
    for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
        for (size_t j = 0; j < 3 && steps[i].file[j][0] != NULL; j++) {
            ASSERT_TRUE(put(root, steps[i].file[j][0], steps[i].file[j][1]));
        }
        EXPECT_U64_EQ(steps[i].room, mend_host_room_bytes(root));
    }
    EXPECT_INT_EQ(0, nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS));
}

static unsigned char is_there[3 * MEND_PINNED_PAGE_BYTES / 4096];

static bool lacks(void *pages)
{
    return mincore(pages, 4096, is_there) != 0;
}

/* By several threads, where there are several processors. */
MEND_TEST(sleep_host_room, pinned_pages_are_written_and_not_for_children)
{
    for (size_t size = MEND_PINNED_PAGE_BYTES; size <= 3 * MEND_PINNED_PAGE_BYTES; size *= 3) {
        char *pages = mend_pinned_pages(size);
        ASSERT_U64_EQ(0, (uintptr_t)pages % MEND_PINNED_PAGE_BYTES);
        EXPECT_INT_EQ(0, mincore(pages, size, is_there));
        EXPECT_TRUE(memchr(is_there, 0, size / 4096) == NULL);
        EXPECT_TRUE(mend_test_holds_in_a_child(lacks, pages));
        EXPECT_INT_EQ(0, munmap(pages, size));
    }
}
