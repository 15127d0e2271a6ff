/*
 * The memory of a pool, in a file that `libmend report` reads: a recording (record/recording.h) of
 * the events of the history, after the older blocks. Without a history it is made up: all memory is
 * mapped, and all blocks are allocated, at the moment of the snapshot.
 */
#include "pool/pool.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/system.h"
#include "base/words.h"
#include "record/record.h"

enum { MOST_FILES = 9999, SUFFIX_BYTES = 16 };

typedef struct snapshot {
    mend_region *regions;
    size_t region_count;
    mend_history_event *events;
    size_t event_count;
    uint64_t time_ns;
    uint64_t limit_bytes;
    mend_pointer_map told; /* addresses that the events allocate */
    mend_record_file to;
} snapshot;

/* ---- the moment ------------------------------------------------------------------------------ */

/* Regions and events of one moment. False: they do not fit. The counts say how many.
 */
static bool look(mend_pool *pool, snapshot *s, size_t regions, size_t events)
{
    mend_heap *heap = &pool->heap;
    uint64_t cursor = 0;
    mend_heap_lock_to_read(heap);
    const mend_history *history = &mend_observers_of(heap)->history;
    s->region_count = mend_observe_regions(heap, NULL, sizeof(mend_region), 0);
    s->event_count = (size_t)history->held;
    s->time_ns = heap->driver->clock_ns(heap->driver);
    s->limit_bytes = heap->config.limit_bytes;
    const bool fits = s->region_count <= regions && s->event_count <= events;
    if (fits) {
        mend_observe_regions(heap, s->regions, sizeof(mend_region), regions);
        mend_history_copy(history, &cursor, s->events, sizeof(*s->events), events);
    }
    mend_heap_unlock_after_read(heap);
    return fits;
}

/* False: no host memory. */
static bool take(mend_pool *pool, snapshot *s)
{
    size_t regions = 0;
    size_t events = 0;
    while (!look(pool, s, regions, events)) {
        regions = s->region_count + s->region_count / 8; /* the pool goes on meanwhile */
        events = s->event_count + s->event_count / 8;
        free(s->regions);
        free(s->events);
        s->regions = calloc(regions + 1, sizeof(*s->regions));
        s->events = calloc(events + 1, sizeof(*s->events));
        if (s->regions == NULL || s->events == NULL) {
            return false;
        }
    }
    for (size_t i = 0; i < s->event_count; i++) {
        const uint64_t address = (uint64_t)(uintptr_t)s->events[i].address;
        if (s->events[i].kind != MEND_EVENT_ALLOC ||
            mend_pointer_map_find(&s->told, address) != NULL) {
            continue;
        }
        if (!mend_pointer_map_reserve(&s->told)) {
            return false;
        }
        mend_pointer_map_insert(&s->told, address, s);
    }
    return true;
}

/* ---- the file -------------------------------------------------------------------------------- */

static bool is_older(const snapshot *s, const mend_region *region)
{
    return region->kind == MEND_REGION_LIVE &&
           mend_pointer_map_find(&s->told, (uint64_t)(uintptr_t)region->address) == NULL;
}

/* Each stretch of a segment that has memory of the device is mapped. Returns the last sequence. */
static uint64_t put_maps(snapshot *s)
{
    uint64_t sequence = 0;
    for (size_t i = 0; i < s->region_count;) {
        mend_history_event map = {
            .time_ns = s->time_ns, .kind = MEND_EVENT_MAP, .address = s->regions[i].address};
        const void *segment = s->regions[i].segment;
        for (; i < s->region_count && s->regions[i].kind != MEND_REGION_PAGE &&
               !s->regions[i].is_asleep && s->regions[i].segment == segment;
             i++) {
            map.size_bytes += s->regions[i].size_bytes;
        }
        if (map.size_bytes > 0) {
            map.sequence = ++sequence;
            mend_record_put(&s->to, &map);
        } else {
            i++;
        }
    }
    return sequence;
}

/* With a history, the list of blocks before its events, and these. Without it maps and allocations,
 * in the order that a reader of events expects. */
static void write_all(snapshot *s, const mend_pool *pool)
{
    const bool has_events = s->event_count > 0;
    mend_record_run run = {.process = (uint64_t)getpid(),
                           .device = (uint64_t)pool->device,
                           .memory_bytes = pool->heap.device.total_bytes,
                           .limit_bytes = s->limit_bytes};
    for (size_t i = 0; i < s->region_count && has_events; i++) {
        run.live_blocks += is_older(s, &s->regions[i]);
    }
    mend_record_write_run(&s->to, &run);
    mend_record_write_names(&s->to, UINT64_MAX);
    mend_record_begin(&s->to.block, has_events ? MEND_RECORD_LIVE : MEND_RECORD_EVENTS);
    uint64_t sequence = has_events ? 0 : put_maps(s);
    for (size_t i = 0; i < s->region_count; i++) {
        const mend_region *at = &s->regions[i];
        if (is_older(s, at)) {
            sequence += !has_events; /* 0: before all events */
            mend_record_put(&s->to,
                            &(mend_history_event){.sequence = sequence,
                                                  .time_ns = s->time_ns,
                                                  .kind = MEND_EVENT_ALLOC,
                                                  .address = at->address,
                                                  .size_bytes = at->size_bytes,
                                                  .requested_bytes = at->requested_bytes,
                                                  .stream = at->stream,
                                                  .scope = at->scope,
                                                  .stack = at->stack,
                                                  .tag = at->tag != 0 ? at->tag : at->sleep_tag,
                                                  .graph_pool = at->graph_pool,
                                                  .is_for_graphs = at->is_for_graphs});
        }
    }
    mend_record_write(&s->to);
    mend_record_begin(&s->to.block, MEND_RECORD_EVENTS);
    for (size_t i = 0; i < s->event_count; i++) {
        mend_record_put(&s->to, &s->events[i]);
    }
    if (has_events) {
        mend_record_write(&s->to);
    }
}

/* A new file. -1: errno says why. */
static int open_next(char *path, size_t length, unsigned *number)
{
    while (++*number <= MOST_FILES) {
        snprintf(path + length, SUFFIX_BYTES, ".%u", *number);
        const char *reason;
        const int file = mend_file_open(path, O_WRONLY | O_CREAT | O_EXCL, &reason);
        if (file >= 0 || errno != EEXIST) {
            *number -= file < 0;
            return file;
        }
    }
    *number = MOST_FILES;
    return -1;
}

void mend_pool_snapshot(mend_pool *pool, const char *path, unsigned *number)
{
    char name[PATH_MAX];
    snapshot *s = calloc(1, sizeof(*s));
    int error = s == NULL ? ENOMEM : ENAMETOOLONG;
    if (s != NULL && strlen(path) + SUFFIX_BYTES <= sizeof(name)) {
        mend_pointer_map_init(&s->told);
        memcpy(name, path, strlen(path) + 1);
        error = take(pool, s) ? 0 : ENOMEM;
    }
    if (error == 0) {
        s->to.file = open_next(name, strlen(path), number);
        error = s->to.file < 0 ? errno : 0;
    }
    if (error == 0) {
        write_all(s, pool);
        error = close(s->to.file) != 0 && s->to.error == 0 ? errno : s->to.error;
        if (s->to.error != 0) {
            (void)unlink(name);
        }
    }
    if (error == 0) {
        mend_log(MEND_LOG_INFO, "snapshot of the pool on device %d: %s", pool->device, name);
    } else {
        mend_warn("no snapshot of the pool on device %d to %s: %s", pool->device, path,
                  strerror(error));
    }
    if (s != NULL) {
        mend_pointer_map_clear(&s->told);
        free(s->regions);
        free(s->events);
        free(s);
    }
}
