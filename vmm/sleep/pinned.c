/*
 * Pinned memory of the host: several threads write its pages for the first time, then the driver
 * registers them. cuMemHostAlloc gets page by page: 317 us a MiB on an H100's machine, where this
 * takes 52 for pages that were used before (bench/results/2026-11-26-H100). It remains for small
 * sizes, and is called when one of the steps here is refused.
 *
 * Registered pages differ from the driver's own in three ways:
 *  - They count for the process and its control group, which kills when it runs out. They are taken
 *    only where as much again would be left.
 *  - A child of fork would share them until one of both writes. Then the parent has another page
 *    than the device. Children do not get them.
 *  - They lie at the node of the thread that writes first, not of the one that asks. The mapping is
 *    bound to the latter's node, as far as that has memory.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/align.h"
#include "base/system.h"
#include "sleep/sleep.h"

#define PAGE_BYTES     4096
#define MOST_WRITERS   8
#define PREFERRED_NODE 1 /* MPOL_PREFERRED of linux/mempolicy.h */

/* ---- how much -------------------------------------------------------------------------------- */

enum { TEXT_BYTES = 4096 };

/* The start of a file as text, which is empty if it cannot be read. */
static void read_text(const char *folder, const char *name, char text[TEXT_BYTES])
{
    char path[2 * TEXT_BYTES];
    snprintf(path, sizeof(path), "%s%s", folder, name);
    const int file = mend_file_keep(open(path, O_RDONLY | O_CLOEXEC));
    const ssize_t got = file >= 0 ? read(file, text, TEXT_BYTES - 1) : 0;
    text[got > 0 ? got : 0] = '\0';
    if (file >= 0) {
        close(file);
    }
}

/* The number in a file, or the one behind `key`. UINT64_MAX if there is none, as in a limit of
 * "max". */
static uint64_t number_in(const char *folder, const char *name, const char *key)
{
    char text[TEXT_BYTES];
    char *end = NULL;
    read_text(folder, name, text);
    const char *found = strstr(text, key);
    const char *begin = found != NULL ? found + strlen(key) : "";
    const uint64_t number = strtoull(begin, &end, 10);
    return end != begin ? number : UINT64_MAX;
}

/* The rest of a group and of the groups above it, by a line "ID:CONTROLLERS:PATH", which is cut. In
 * version 2 there is one, without controllers. A container sees its own group as the topmost,
 * whatever its path is outside. */
static uint64_t left_in_groups(const char *root, char *line)
{
    char folder[2 * TEXT_BYTES];
    uint64_t left = UINT64_MAX;
    const char *controllers = strchr(line, ':');
    char *group = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
    if (group == NULL) {
        return left;
    }
    *group++ = '\0';
    const bool is_unified = controllers[1] == '\0';
    if (!is_unified && strstr(controllers, "memory") == NULL) {
        return left;
    }
    for (char *end = group + strlen(group); end != NULL; end = strrchr(group, '/')) {
        *end = '\0';
        snprintf(folder, sizeof(folder), "%s/sys/fs/cgroup%s%s/memory.", root,
                 is_unified ? "" : "/memory", group);
        const uint64_t most = number_in(folder, is_unified ? "max" : "limit_in_bytes", "");
        if (most != UINT64_MAX) {
            const uint64_t used = number_in(folder, is_unified ? "current" : "usage_in_bytes", "");
            left = mend_min_u64(left, most > used ? most - used : 0);
        }
    }
    return left;
}

uint64_t mend_host_room_bytes(const char *root)
{
    char groups[TEXT_BYTES];
    char *rest = NULL;
    const uint64_t available_kib = number_in(root, "/proc/meminfo", "MemAvailable:");
    uint64_t room = available_kib < UINT64_MAX / 1024 ? available_kib * 1024 : UINT64_MAX;
    read_text(root, "/proc/self/cgroup", groups);
    for (char *line = strtok_r(groups, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        room = mend_min_u64(room, left_in_groups(root, line));
    }
    return room;
}

/* ---- pages ----------------------------------------------------------------------------------- */

typedef struct writer {
    pthread_t thread;
    bool is_started;
    volatile unsigned char *begin;
    uint64_t size_bytes;
} writer;

static void *write_pages(void *context)
{
    const writer *own = context;
    for (uint64_t at = 0; at < own->size_bytes; at += PAGE_BYTES) {
        own->begin[at] = 0;
    }
    return NULL;
}

/* The calling thread writes the first part, and the parts without a thread. */
static void write_at_once(unsigned char *begin, uint64_t size_bytes)
{
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    const bool is_known = sched_getaffinity(0, sizeof(allowed), &allowed) == 0;
    uint64_t count = is_known ? (uint64_t)CPU_COUNT(&allowed) : 1;
    const uint64_t pages = size_bytes / MEND_PINNED_PAGE_BYTES;
    count = mend_min_u64(mend_min_u64(count, MOST_WRITERS), pages);
    const uint64_t part_bytes = mend_align_up(size_bytes / count, MEND_PINNED_PAGE_BYTES);

    writer writers[MOST_WRITERS] = {{.is_started = false}};
    for (uint64_t i = 0, at = 0; at < size_bytes; i++, at += part_bytes) {
        writer *next = &writers[i];
        next->begin = begin + at;
        next->size_bytes = mend_min_u64(size_bytes - at, part_bytes);
        next->is_started =
            i > 0 && mend_signals_start_thread(&next->thread, "mend-pages", write_pages, next);
    }
    for (uint64_t i = 0; i < count; i++) {
        if (writers[i].is_started) {
            pthread_join(writers[i].thread, NULL);
        } else {
            write_pages(&writers[i]);
        }
    }
}

void *mend_pinned_pages(uint64_t size_bytes)
{
    if (size_bytes > mend_host_room_bytes("") / 2) {
        return NULL;
    }
    const uint64_t all_bytes = size_bytes + MEND_PINNED_PAGE_BYTES;
    unsigned char *all =
        mmap(NULL, all_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) {
        return NULL;
    }
    const uint64_t before_bytes =
        mend_align_up((uintptr_t)all, MEND_PINNED_PAGE_BYTES) - (uintptr_t)all;
    unsigned char *begin = all + before_bytes;
    if (before_bytes > 0) {
        munmap(all, before_bytes);
    }
    munmap(begin + size_bytes, MEND_PINNED_PAGE_BYTES - before_bytes);
    if (madvise(begin, size_bytes, MADV_DONTFORK) != 0) {
        munmap(begin, size_bytes);
        return NULL;
    }
    madvise(begin, size_bytes, MADV_HUGEPAGE); /* a kernel without them gives small ones */
    unsigned int node = 0;
    if (syscall(SYS_getcpu, NULL, &node, NULL) == 0 && node < 8 * sizeof(unsigned long)) {
        const unsigned long nodes = 1UL << node;
        syscall(SYS_mbind, begin, size_bytes, PREFERRED_NODE, &nodes, 8 * sizeof(nodes) + 1, 0);
    }
    write_at_once(begin, size_bytes);
    return begin;
}
