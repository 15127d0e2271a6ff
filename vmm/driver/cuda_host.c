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
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/system.h"
#include "base/thread.h"
#include "driver/cuda_state.h"

#define HUGE_PAGE_BYTES ((uint64_t)2 << 20)
#define PAGE_BYTES      4096
#define MOST_WRITERS    8
#define PREFERRED_NODE  1 /* MPOL_PREFERRED of linux/mempolicy.h */

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
    const uint64_t pages = size_bytes / HUGE_PAGE_BYTES;
    count = mend_min_u64(mend_min_u64(count, MOST_WRITERS), pages);
    const uint64_t part_bytes = mend_align_up(size_bytes / count, HUGE_PAGE_BYTES);

    writer writers[MOST_WRITERS] = {{.is_started = false}};
    uint64_t at = 0;
    for (uint64_t i = 0; at < size_bytes; i++, at += part_bytes) {
        writer *next = &writers[i];
        next->begin = begin + at;
        next->size_bytes = mend_min_u64(size_bytes - at, part_bytes);
        next->is_started =
            i > 0 && mend_signals_start_thread(&next->thread, "mend-pages", write_pages, next);
    }
    for (uint64_t i = 0; i < count; i++) {
        if (!writers[i].is_started) {
            write_pages(&writers[i]);
        }
    }
    for (uint64_t i = 0; i < count; i++) {
        if (writers[i].is_started) {
            pthread_join(writers[i].thread, NULL);
        }
    }
}

/* Written pages that begin at a huge page. NULL if the system gives none. */
static unsigned char *map_pages(uint64_t size_bytes)
{
    const uint64_t all_bytes = size_bytes + HUGE_PAGE_BYTES;
    unsigned char *all =
        mmap(NULL, all_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) {
        return NULL;
    }
    const uint64_t before_bytes = mend_align_up((uintptr_t)all, HUGE_PAGE_BYTES) - (uintptr_t)all;
    unsigned char *begin = all + before_bytes;
    if (before_bytes > 0) {
        munmap(all, before_bytes);
    }
    if (before_bytes < HUGE_PAGE_BYTES) {
        munmap(begin + size_bytes, HUGE_PAGE_BYTES - before_bytes);
    }
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

/* ---- the table's calls ----------------------------------------------------------------------- */

/* The note for the pages is allocated first, so that no registered memory is lost. */
static bool register_pages(mend_cuda *cuda, uint64_t size_bytes, void **pointer)
{
    mend_mutex_lock(&cuda->mutex);
    const bool has_room = mend_pointer_map_promise(&cuda->pinned);
    mend_mutex_unlock(&cuda->mutex);
    if (!has_room) {
        return false;
    }
    unsigned char *pages = map_pages(size_bytes);
    const bool is_registered =
        pages != NULL && cuda->functions.cuMemHostRegister(pages, size_bytes, 0) == MEND_DRIVER_OK;
    mend_mutex_lock(&cuda->mutex);
    mend_pointer_map_end_promise(&cuda->pinned);
    if (is_registered) {
        mend_pointer_map_insert(&cuda->pinned, (uintptr_t)pages, (void *)(uintptr_t)size_bytes);
        *pointer = pages;
    }
    mend_mutex_unlock(&cuda->mutex);
    if (!is_registered && pages != NULL) {
        munmap(pages, size_bytes);
    }
    return is_registered;
}

mend_status mend_cuda_host_alloc(const mend_driver *driver, uint64_t size_bytes, void **pointer)
{
    mend_cuda *cuda = mend_cuda_of(driver);
    const bool is_large = size_bytes >= HUGE_PAGE_BYTES && size_bytes < UINT64_MAX / 4;
    const uint64_t whole_bytes = is_large ? mend_align_up(size_bytes, HUGE_PAGE_BYTES) : 0;
    if (is_large && whole_bytes <= mend_host_room_bytes("") / 2 &&
        register_pages(cuda, whole_bytes, pointer)) {
        return MEND_DRIVER_OK;
    }
    void *allocated = NULL;
    MEND_TRY_CALL(cuda->functions.cuMemHostAlloc(&allocated, size_bytes, 0));
    *pointer = allocated;
    return MEND_DRIVER_OK;
}

/* The driver is asked without the lock: it may take long. Refused memory stays. */
mend_status mend_cuda_host_free(const mend_driver *driver, void *pointer)
{
    mend_cuda *cuda = mend_cuda_of(driver);
    mend_mutex_lock(&cuda->mutex);
    const uint64_t bytes = (uintptr_t)mend_pointer_map_find(&cuda->pinned, (uintptr_t)pointer);
    mend_mutex_unlock(&cuda->mutex);
    if (bytes == 0) {
        return cuda->functions.cuMemFreeHost(pointer);
    }
    MEND_TRY_CALL(cuda->functions.cuMemHostUnregister(pointer));
    mend_mutex_lock(&cuda->mutex);
    mend_pointer_map_remove(&cuda->pinned, (uintptr_t)pointer);
    mend_mutex_unlock(&cuda->mutex);
    munmap(pointer, bytes);
    return MEND_DRIVER_OK;
}
