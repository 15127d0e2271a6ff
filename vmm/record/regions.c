/*
 * The walk over all mapped memory of a heap, by address: live blocks, and free memory cut where one
 * of its properties changes. mend_inspect.h has the fields of a region.
 *
 * A snapshot is a file of them that `libmend report` reads: a recording (record/recording.h) of the
 * events of the history, after the older blocks. Without a history it is made up: all memory is
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

#include "alloc/heap.h"
#include "base/align.h"
#include "base/error.h"
#include "base/system.h"
#include "layout/layout.h"
#include "record/record.h"

#define SEGMENT_OF(node) MEND_CONTAINER_OR_NULL(node, mend_span, by_end)

typedef struct region_walk {
    const mend_heap *heap;
    void *regions;
    size_t region_bytes;
    size_t capacity;
    size_t count;
    mend_region open; /* free memory that the next span may continue. Size 0: none */
    void *segment;
} region_walk;

static void *pointer_of(uint64_t address)
{
    return (void *)(uintptr_t)address;
}

/* ---- the result ------------------------------------------------------------------------------ */

static void put(region_walk *walk, const mend_region *region)
{
    if (walk->count < walk->capacity) {
        mend_element_write(walk->regions, walk->region_bytes, walk->count, region, sizeof(*region));
    }
    walk->count++;
}

static void end_open(region_walk *walk)
{
    if (walk->open.size_bytes > 0) {
        put(walk, &walk->open);
        walk->open.size_bytes = 0;
    }
}

/* ---- owners ---------------------------------------------------------------------------------- */

static void set_graph_pool(const mend_heap *heap, uint32_t number, mend_region *region)
{
    if (number != 0) {
        region->is_for_graphs = 1;
        region->graph_pool = mend_graph_pool_numbered(heap, number);
    }
}

static void meet_stamp(const mend_heap *heap, mend_stamp stamp, mend_region *region)
{
    const mend_stream_state *state = &heap->streams.items[stamp.stream];
    if (mend_stamp_has_passed(&heap->streams, stamp)) {
        return;
    }
    const bool is_first = region->kind == MEND_REGION_FREE;
    region->kind = MEND_REGION_WAITING;
    region->stream = is_first && state->known ? state->handle : MEND_NO_STREAM;
    if (!region->is_for_graphs) {
        set_graph_pool(heap, state->graph_pool, region);
    }
}

/* ---- the walk -------------------------------------------------------------------------------- */

static mend_region region_at(const region_walk *walk, const mend_span *span)
{
    return (mend_region){.address = pointer_of(span->address),
                         .size_bytes = span->size_bytes,
                         .segment = walk->segment,
                         .is_small = span->zone == MEND_ZONE_SMALL};
}

/* The chunk's part of a region that reaches into it. */
static void meet_chunk(mend_region *region, const mend_chunk *chunk)
{
    region->is_pinned |= chunk->pins > 0;
    region->is_unmapped |= mend_chunk_misses_mapping(chunk);
    region->is_asleep |= mend_chunk_sleeps(chunk);
}

static void walk_block(region_walk *walk, const mend_span *span)
{
    mend_region region = region_at(walk, span);
    region.kind = span->zone == MEND_ZONE_RANGE ? MEND_REGION_PAGE : MEND_REGION_LIVE;
    region.requested_bytes = span->requested_bytes;
    region.stream = span->stream;
    region.tag = span->tag;
    region.sleep_tag = span->sleep_tag;
    region.contents_dropped = span->contents_dropped;
    region.scope = span->scope;
    region.stack = span->stack;
    set_graph_pool(walk->heap, mend_graph_pool_number_of(walk->heap, span), &region);
    const mend_chunk *chunk = span->chunk;
    for (; chunk != NULL && chunk->address < mend_span_end(span); chunk = mend_chunk_next(chunk)) {
        meet_chunk(&region, chunk);
    }
    end_open(walk);
    put(walk, &region);
}

/* A span of free memory, chunk by chunk: only some of its chunks may be pinned. It continues the
 * memory that is open if it is like that. */
static void walk_free(region_walk *walk, const mend_span *span)
{
    mend_region region = region_at(walk, span);
    mend_region *open = &walk->open;
    region.kind = MEND_REGION_FREE;
    region.stream = MEND_NO_STREAM;
    region.is_pending = mend_span_is_pending(span);
    meet_stamp(walk->heap, span->waits.first, &region);
    for (const mend_wait *at = span->waits.others; at != NULL; at = at->next) {
        meet_stamp(walk->heap, at->stamp, &region);
    }
    const mend_chunk *chunk = span->chunk;
    for (uint64_t at = span->address; at < mend_span_end(span); chunk = mend_chunk_next(chunk)) {
        uint64_t end = mend_min_u64(mend_span_end(span), chunk->address + chunk->size_bytes);
        mend_region part = region;
        part.address = pointer_of(at);
        part.size_bytes = end - at;
        meet_chunk(&part, chunk);
        if (open->size_bytes > 0 && open->kind == part.kind && open->is_pinned == part.is_pinned &&
            open->is_for_graphs == part.is_for_graphs && open->stream == part.stream &&
            open->graph_pool == part.graph_pool && open->is_unmapped == part.is_unmapped &&
            open->is_asleep == part.is_asleep && open->is_pending == part.is_pending) {
            assert((char *)open->address + open->size_bytes == part.address);
            open->size_bytes += part.size_bytes;
        } else {
            end_open(walk);
            *open = part;
        }
        at = end;
    }
}

static void walk_segment(region_walk *walk, const mend_tree_node *end)
{
    const mend_span *span = MEND_CONTAINER_OF(end, mend_span, by_end);
    while (span->previous != NULL) {
        span = span->previous;
    }
    walk->segment = pointer_of(span->address);
    for (; span != NULL; span = span->next) {
        if (span->live) {
            walk_block(walk, span);
        } else {
            walk_free(walk, span);
        }
    }
    end_open(walk);
}

/* The next segment of all zones, by address. NULL: none. */
static const mend_tree_node **lowest(const mend_tree_node *ends[MEND_ZONE_COUNT])
{
    const mend_tree_node **found = NULL;
    for (int zone = 0; zone < MEND_ZONE_COUNT; zone++) {
        if (ends[zone] != NULL &&
            (found == NULL || SEGMENT_OF(ends[zone])->address < SEGMENT_OF(*found)->address)) {
            found = &ends[zone];
        }
    }
    return found;
}

/* Writes the regions, up to `capacity` of them. Returns how many there are. Allocates nothing and
 * does not call the driver. */
static size_t list(const mend_heap *heap, void *regions, size_t region_bytes, size_t capacity)
{
    assert(mend_mutex_is_held(&heap->grow)); /* nothing is claimed by another thread */
    assert(mend_mutex_is_held(&heap->state));
    assert(regions != NULL || capacity == 0);
    region_walk walk = {
        .heap = heap, .regions = regions, .region_bytes = region_bytes, .capacity = capacity};
    const mend_tree_node *ends[MEND_ZONE_COUNT];
    for (int zone = 0; zone < MEND_ZONE_COUNT; zone++) {
        ends[zone] = mend_tree_first(&heap->zones[zone].segment_ends);
    }
    for (const mend_tree_node **next; (next = lowest(ends)) != NULL;) {
        walk_segment(&walk, *next);
        *next = mend_tree_next(*next);
    }
    return walk.count;
}

mend_result mend_get_regions(mend_pool *pool, mend_region *regions, size_t region_bytes,
                             size_t capacity, size_t *count)
{
    MEND_TRY(
        mend_pool_check_array(pool, regions, region_bytes, capacity, count, "mend_get_regions"));
    mend_heap *heap = &pool->heap;
    mend_heap_lock_to_read(heap);
    mend_usage_settle(heap);
    *count = list(heap, NULL, region_bytes, 0);
    if (*count <= capacity) {
        list(heap, regions, region_bytes, capacity);
    }
    mend_heap_unlock_after_read(heap);
    return MEND_OK;
}

/* ---- snapshots ------------------------------------------------------------------------------- */

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

/* Regions and events of one moment. False: they do not fit. The counts say how many.
 */
static bool look(mend_pool *pool, snapshot *s, size_t regions, size_t events)
{
    mend_heap *heap = &pool->heap;
    uint64_t cursor = 0;
    mend_heap_lock_to_read(heap);
    const mend_history *history = &mend_observers_of(heap)->history;
    s->region_count = list(heap, s->regions, sizeof(mend_region), regions);
    s->event_count = (size_t)history->held;
    s->time_ns = heap->driver->clock_ns(heap->driver);
    s->limit_bytes = heap->config.limit_bytes;
    mend_history_copy(history, &cursor, s->events, sizeof(*s->events), events);
    mend_heap_unlock_after_read(heap);
    return s->region_count <= regions && s->event_count <= events;
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
    mend_record_fill(&s->to.block, MEND_RECORD_RUN, &run, sizeof(run));
    mend_record_write(&s->to);
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
    int error = ENOMEM;
    static_assert(MEND_CONFIGURATION_PATH + SUFFIX_BYTES <= sizeof(name), "each path fits");
    if (s != NULL) {
        memcpy(name, path, strlen(path) + 1);
        error = take(pool, s) ? 0 : error;
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
