/*
 * The thread that writes the events of a pool to a file: see mend_pool_config.record. Allocations
 * leave their events in a ring and never wait for it.
 *
 * The file is written in laps, in its first half and behind that in turns. Each begins with all
 * data for a reader, if everything before is gone: the recorded events, the names of scopes, the
 * live blocks. Blocks of events follow. They go over the oldest ones, never over the lap just
 * before: it is whole until this one has its list.
 */
#include "pool/pool.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/error.h"
#include "base/system.h"
#include "base/words.h"
#include "mend/mend_frameworks.h"
#include "record/record.h"

enum { PERIOD_MS = 10, MOST_FILES = 256, SUFFIX_BYTES = 16 };

/* The blocks that the events leave alive. */
typedef struct live_blocks {
    mend_pointer_map at; /* from an address to its event */
    mend_slab events;
} live_blocks;

/* Its thread's own, except the members below. */
struct mend_recorder {
    mend_event_ring ring;
    atomic_bool ends; /* the thread is to end, and whether the process does so with the pool: */
    atomic_bool is_exit;
    bool is_over;     /* no thread runs. Of its end: a visitor of the pool, or the pool's end */
    pthread_t thread; /* constant, as the next two */
    mend_record_run run;
    uint64_t keep_bytes;
    uint64_t end;    /* no block of this lap begins behind it */
    bool has_failed; /* to write. The log knows */
    live_blocks live;
    mend_record_file to;
};

/* ---- live blocks ----------------------------------------------------------------------------- */

/* Without host memory the block is not in the next list. */
static void follow(live_blocks *live, const mend_history_event *event)
{
    const uint64_t address = (uint64_t)(uintptr_t)event->address;
    const bool is_alloc = event->kind == MEND_EVENT_ALLOC;
    mend_history_event *known = is_alloc || event->kind == MEND_EVENT_FREE
                                    ? mend_pointer_map_remove(&live->at, address)
                                    : NULL;
    if (known != NULL) {
        mend_slab_give(&live->events, known);
    }
    if (is_alloc && mend_slab_reserve(&live->events, 1) && mend_pointer_map_reserve(&live->at)) {
        known = mend_slab_take(&live->events);
        *known = *event;
        mend_pointer_map_insert(&live->at, address, known);
    }
}

/* ---- the file -------------------------------------------------------------------------------- */

/* The file of this name, or of the first of NAME.1, NAME.2, ... that no other recorder has. It is
 * empty. -1: and *reason, which is NULL if others have all. A file that is no recording holds other
 * data, which a wrong path must not cost. */
static int open_file(const char *name, const char **reason)
{
    char path[PATH_MAX];
    const size_t length = strlen(name);
    if (length + SUFFIX_BYTES > sizeof(path)) {
        *reason = strerror(ENAMETOOLONG);
        return -1;
    }
    memcpy(path, name, length + 1);
    for (int i = 1; i <= MOST_FILES; i++) {
        uint64_t mark = 0;
        const int file = mend_file_open(path, O_RDWR | O_CREAT, reason);
        if (file < 0) {
            return -1;
        }
        *reason = NULL;
        if (flock(file, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) {
            const bool is_other =
                pread(file, &mark, sizeof(mark), 0) > 0 && mark != MEND_RECORD_MARK;
            if (!is_other && ftruncate(file, 0) == 0) {
                return file;
            }
            *reason = strerror(is_other ? EEXIST : errno);
        }
        close(file);
        if (*reason != NULL) {
            return -1;
        }
        snprintf(path + length, SUFFIX_BYTES, ".%d", i);
    }
    return -1;
}

static void begin_lap(struct mend_recorder *r)
{
    const uint64_t room = r->keep_bytes - 2 * MEND_RECORD_BLOCK_BYTES; /* names, events */
    const bool is_first_half = r->end != room / 2;
    if (is_first_half) {
        (void)!ftruncate(r->to.file, (off_t)r->to.at); /* the block behind is the oldest */
        r->to.at = 0;
    }
    r->end = is_first_half ? room / 2 : room;
    const uint32_t scopes = mend_names_count(&mend_process_own_scopes);
    const uint32_t names = mend_names_count(&mend_process_own_names);
    const uint64_t part = (r->end - r->to.at) / 4;
    r->to.scopes = r->to.names = 0;
    r->run.live_blocks = r->live.at.count;
    mend_record_fill(&r->to.block, MEND_RECORD_RUN, &r->run, sizeof(r->run));
    mend_record_write(&r->to);
    mend_record_write_names(&r->to, r->to.at + part);
    r->to.scopes = r->to.scopes < scopes ? scopes : r->to.scopes; /* of many some have no name */
    r->to.names = r->to.names < names ? names : r->to.names;
    mend_record_begin(&r->to.block, MEND_RECORD_LIVE);
    for (size_t i = 0; i < r->live.at.capacity && r->to.at < r->end - 2 * part; i++) {
        if (r->live.at.entries[i].value != NULL) {
            mend_record_put(&r->to, r->live.at.entries[i].value);
        }
    }
    mend_record_write(&r->to);
}

/* Writes all that is in the ring now: the events, and why some of them failed. */
static void write_ring(struct mend_recorder *r)
{
    mend_event_ring *ring = &r->ring;
    const mend_history_event *event = mend_event_ring_next(ring);
    while (event != NULL) {
        if (r->to.at > r->end) {
            begin_lap(r);
        }
        mend_record_write_names(&r->to, r->end);
        mend_record_begin(&r->to.block, MEND_RECORD_EVENTS);
        while (event != NULL && mend_record_add_event(&r->to.block, event)) {
            follow(&r->live, event);
            mend_event_ring_pass(ring);
            event = mend_event_ring_next(ring);
        }
        mend_record_write(&r->to);
    }
    uint64_t read = atomic_load_explicit(&ring->failures_read, memory_order_relaxed);
    while (read != atomic_load_explicit(&ring->failures_written, memory_order_acquire)) {
        if (r->to.at > r->end) {
            begin_lap(r);
        }
        const mend_event_failure *failure = &ring->failures[read % MEND_EVENT_RING_FAILURES];
        mend_record_fill(&r->to.block, MEND_RECORD_FAILURE, failure,
                         offsetof(mend_event_failure, message) + strlen(failure->message));
        atomic_store_explicit(&ring->failures_read, ++read, memory_order_release);
        mend_record_write(&r->to);
    }
}

static void *write_recording(void *context)
{
    struct mend_recorder *r = context;
    struct pollfd bell = {.fd = r->ring.bell, .events = POLLIN};
    bool ends = false;
    begin_lap(r);
    while (!ends) {
        eventfd_t rung;
        (void)poll(&bell, 1, PERIOD_MS);
        (void)eventfd_read(r->ring.bell, &rung);
        ends = atomic_load(&r->ends); /* earlier contents are written */
        write_ring(r);
        if (r->to.error != 0 && !r->has_failed) {
            r->has_failed = true;
            mend_warn("the recording of the pool on device %d cannot be written: %s",
                      (int)r->run.device, strerror(r->to.error));
        }
    }
    mend_record_begin(&r->to.block, MEND_RECORD_END);
    r->to.block.head.first = atomic_load(&r->is_exit);
    mend_record_write(&r->to);
    (void)flock(r->to.file, LOCK_UN); /* a child of fork may have the file open for longer */
    return NULL;
}

/* ---- its life -------------------------------------------------------------------------------- */

/* The thread runs before the heap knows of the ring: whatever fails, no event was put there. That
 * other recorders have all files is no failure of the pool. */
mend_result mend_recorder_start(mend_observers *observers, const char *path, uint64_t keep_bytes)
{
    mend_pool *pool = observers->pool;
    struct mend_recorder *r = calloc(1, sizeof(*r));
    if (r == NULL) {
        return mend_no_host_memory("a recorder");
    }
    observers->recorder = r;
    mend_slab_init(&r->live.events, sizeof(mend_history_event));
    r->is_over = true;
    r->keep_bytes = keep_bytes;
    r->run = (mend_record_run){.process = (uint64_t)getpid(),
                               .device = (uint64_t)pool->device,
                               .memory_bytes = pool->heap.device.total_bytes,
                               .limit_bytes = pool->heap.config.limit_bytes};
    r->to.file = -1;
    r->to.lost = &r->ring.lost;
    r->ring.bell = mend_file_keep(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    const char *reason = strerror(errno);
    r->to.file = r->ring.bell >= 0 ? open_file(path, &reason) : -1;
    if (r->to.file < 0 && reason == NULL) {
        mend_warn(
            "the pool on device %d is not recorded: %d other pools are, to %s and files beside",
            pool->device, MOST_FILES, path);
        return MEND_OK;
    }
    if (r->to.file < 0) {
        return mend_failure(MEND_ERROR_SYSTEM, "mend_pool_config.record: no recording to %s: %s",
                            path, reason);
    }
    r->ring.events = calloc(MEND_EVENT_RING_ROOM, sizeof(*r->ring.events));
    if (r->ring.events == NULL) {
        return mend_no_host_memory("a recorder");
    }
    r->is_over = !mend_start_service(&r->thread, "mend-recorder", write_recording, r);
    if (r->is_over) {
        return mend_failure(MEND_ERROR_SYSTEM, "the system started no thread for the recorder");
    }
    mend_heap_lock(&pool->heap);
    mend_history_record(&observers->history, &r->ring);
    mend_heap_unlock(&pool->heap);
    return MEND_OK;
}

static void end_thread(struct mend_recorder *r)
{
    if (!r->is_over) {
        atomic_store(&r->ends, true);
        (void)eventfd_write(r->ring.bell, 1);
        pthread_join(r->thread, NULL);
        r->is_over = true;
    }
}

void mend_recorder_stop(mend_observers *observers)
{
    struct mend_recorder *r = observers->recorder;
    if (r == NULL) {
        return;
    }
    end_thread(r);
    if (r->to.file >= 0) {
        close(r->to.file);
    }
    if (r->ring.bell >= 0) {
        close(r->ring.bell);
    }
    mend_pointer_map_clear(&r->live.at);
    mend_slab_clear(&r->live.events);
    free(r->ring.events);
    free(r);
    observers->recorder = NULL;
}

/* Pools may live on: their later events are not recorded. */
__attribute__((destructor)) void mend_recorders_end(void)
{
    uint64_t cursor = 0;
    mend_process_member *member;
    while ((member = mend_process_visit_next(&mend_process_pools, NULL, 0, &cursor)) != NULL) {
        const mend_pool *pool = MEND_CONTAINER_OF(member, mend_pool, member);
        const mend_observers *observers = mend_observers_of(&pool->heap);
        struct mend_recorder *r = observers != NULL ? observers->recorder : NULL;
        if (r != NULL) {
            atomic_store(&r->is_exit, true);
            end_thread(r);
        }
        mend_process_visit_end(&mend_process_pools, member);
    }
}
