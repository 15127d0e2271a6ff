#include "tests/support/follower.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/pool.h"
#include "tests/support/regions.h"

#define LLU(value) ((unsigned long long)(value))

enum { EVENTS = 64 }; /* that are read at a time */

static uint64_t address_of(const void *pointer)
{
    return (uint64_t)(uintptr_t)pointer;
}

/* ---- sorted rows --------------------------------------------------------------------------- */

static void insert(follower_row *row, size_t at, follower_range range)
{
    row->list = realloc(row->list, (row->count + 1) * sizeof(*row->list));
    if (row->list == NULL) {
        abort();
    }
    memmove(row->list + at + 1, row->list + at, (row->count - at) * sizeof(*row->list));
    row->list[at] = range;
    row->count++;
}

static void drop(follower_row *row, size_t at)
{
    row->count--;
    memmove(row->list + at, row->list + at + 1, (row->count - at) * sizeof(*row->list));
}

static uint64_t end_of(const follower_range *range)
{
    return range->address + range->size_bytes;
}

/* The first one that does not end before the address. */
static size_t from(const follower_row *row, uint64_t address)
{
    size_t at = 0;
    while (at < row->count && end_of(&row->list[at]) <= address) {
        at++;
    }
    return at;
}

/* Whether all of it is in the row. */
static bool is_in(const follower_row *row, follower_range range)
{
    size_t at = from(row, range.address);
    return at < row->count && row->list[at].address <= range.address &&
           end_of(&range) <= end_of(&row->list[at]);
}

/* Whether any of it is. */
static bool meets(const follower_row *row, follower_range range)
{
    size_t at = from(row, range.address);
    return at < row->count && row->list[at].address < end_of(&range);
}

/* ---- what happened ------------------------------------------------------------------------- */

/* Adds what is not in the row, and joins neighbors. */
static void add_range(follower_row *row, follower_range range)
{
    size_t at = from(row, range.address);
    if (at > 0 && end_of(&row->list[at - 1]) == range.address) {
        row->list[--at].size_bytes += range.size_bytes;
    } else {
        insert(row, at, (follower_range){range.address, range.size_bytes, 0, 0});
    }
    if (at + 1 < row->count && row->list[at + 1].address == end_of(&row->list[at])) {
        row->list[at].size_bytes += row->list[at + 1].size_bytes;
        drop(row, at + 1);
    }
}

/* Removes what is in the row. */
static void remove_range(follower_row *row, follower_range range)
{
    size_t at = from(row, range.address);
    const uint64_t end = end_of(&row->list[at]);
    row->list[at].size_bytes = range.address - row->list[at].address;
    if (end > end_of(&range)) {
        insert(row, at + 1, (follower_range){end_of(&range), end - end_of(&range), 0, 0});
    }
    if (row->list[at].size_bytes == 0) {
        drop(row, at);
    }
}

/* Chunks there become unknown. */
static void forget_chunks(mend_follower *f, follower_range range)
{
    follower_row *row = &f->chunks;
    for (size_t at = from(row, range.address);
         at < row->count && row->list[at].address < end_of(&range);) {
        const follower_range was = row->list[at];
        drop(row, at);
        if (was.address < range.address) {
            insert(row, at++,
                   (follower_range){was.address, range.address - was.address, 0, was.tag});
        }
        if (end_of(&was) > end_of(&range)) {
            insert(row, at,
                   (follower_range){end_of(&range), end_of(&was) - end_of(&range), 0, was.tag});
            return;
        }
    }
}

static void put_chunk(mend_follower *f, follower_range range, uint64_t chunk)
{
    forget_chunks(f, range);
    insert(&f->chunks, from(&f->chunks, range.address),
           (follower_range){range.address, range.size_bytes, 0, chunk});
}

static bool is_gone(const mend_follower *f, uint64_t chunk)
{
    return is_in(&f->gone, (follower_range){.address = chunk, .size_bytes = 1});
}

/* Each returns the fault, or NULL. */
static const char *check_chunk(const mend_follower *f, uint64_t address, uint64_t chunk)
{
    const size_t at = from(&f->chunks, address);
    const bool is_known = at < f->chunks.count && f->chunks.list[at].address <= address;
    return is_known && f->chunks.list[at].tag != chunk ? "is in another chunk than was mapped there"
                                                       : NULL;
}

static const char *add_chunk(mend_follower *f, follower_range range, uint64_t chunk)
{
    if (chunk == 0) {
        return "is mapped and has no chunk";
    }
    if (is_gone(f, chunk) || chunk > f->newest) {
        return "is mapped in a chunk that does not exist";
    }
    put_chunk(f, range, chunk);
    return NULL;
}

static const char *add_mapping(mend_follower *f, follower_range range)
{
    if (meets(&f->mapped, range)) {
        return "is mapped where something is mapped";
    }
    add_range(&f->mapped, range);
    return NULL;
}

static const char *add_pages(mend_follower *f, follower_range range)
{
    if (!is_in(&f->mapped, range)) {
        return "is committed where nothing is mapped";
    }
    if (meets(&f->live, range) || meets(&f->pages, range)) {
        return "is committed over a block or a page";
    }
    add_range(&f->pages, range);
    return NULL;
}

/* A block without a chunk is passed through to the driver, and nothing is mapped. */
static const char *add_block(mend_follower *f, follower_range block, bool is_passed)
{
    if (!is_passed && !is_in(&f->mapped, block)) {
        return "is allocated where nothing is mapped";
    }
    if (meets(&f->live, block)) {
        return "is allocated over a block";
    }
    if (block.requested_bytes == 0 || block.requested_bytes > block.size_bytes) {
        return "has a wrong size";
    }
    insert(&f->live, from(&f->live, block.address), block);
    return NULL;
}

static const char *apply(mend_follower *f, const mend_history_event *event)
{
    const follower_range range = {address_of(event->address), event->size_bytes,
                                  event->requested_bytes, event->tag};
    if (event->kind <= 0 || event->kind >= MEND_EVENT_KINDS) {
        return "has a kind that is none";
    }
    f->seen[event->kind]++;
    const uint64_t chunk = event->chunk;
    const char *what = NULL;
    size_t at = 0;
    switch (event->kind) {
    case MEND_EVENT_ALLOC:
        what = check_chunk(f, range.address, chunk);
        return what == NULL ? add_block(f, range, chunk == 0) : what;
    case MEND_EVENT_FREE:
        at = from(&f->live, range.address);
        if (at == f->live.count || memcmp(&f->live.list[at], &range, sizeof(range)) != 0) {
            return "is freed and was not allocated so";
        }
        drop(&f->live, at);
        return check_chunk(f, range.address, chunk);
    case MEND_EVENT_MAP:
        what = add_chunk(f, range, chunk);
        return what == NULL ? add_mapping(f, range) : what;
    case MEND_EVENT_UNMAP:
        if (!is_in(&f->mapped, range)) {
            return "is unmapped and was not mapped";
        }
        if (meets(&f->live, range) || meets(&f->pages, range)) {
            return "is unmapped below a block or a page";
        }
        what = check_chunk(f, range.address, chunk);
        forget_chunks(f, range);
        remove_range(&f->mapped, range);
        return what;
    case MEND_EVENT_COMMIT:
        return add_pages(f, range);
    case MEND_EVENT_DECOMMIT:
        if (!is_in(&f->pages, range)) {
            return "is decommitted and was not committed";
        }
        remove_range(&f->pages, range);
        return NULL;
    case MEND_EVENT_CREATE: /* numbers rise */
        f->reserved_bytes += event->size_bytes;
        f->newest = chunk > f->newest ? chunk : f->newest;
        return is_gone(f, chunk) ? "is created and was there before" : NULL;
    case MEND_EVENT_RELEASE:
        f->reserved_bytes -= event->size_bytes;
        if (is_gone(f, chunk)) {
            return "is released and is gone already";
        }
        if (chunk != 0) {
            insert(&f->gone, from(&f->gone, chunk), (follower_range){chunk, 1, 0, 0});
        }
        return NULL;
    case MEND_EVENT_EXCHANGE:
        return is_in(&f->mapped, range) ? add_chunk(f, range, chunk)
                                        : "gets another chunk and is not mapped";
    case MEND_EVENT_SLEEP: /* it has no chunk's memory, and wakes in any */
        put_chunk(f, range, 0);
        return NULL;
    case MEND_EVENT_WAKE:
        return add_chunk(f, range, chunk);
    case MEND_EVENT_COMPACT:
        return is_in(&f->mapped, range) ? NULL : "is compacted and not mapped";
    default:
        return NULL;
    }
}

/* ---- beside the pool ----------------------------------------------------------------------- */

/* The present state of the pool. False if malloc fails. */
static bool look(mend_follower *f, mend_pool *pool)
{
    size_t count;
    mend_region *regions = mend_regions_of(pool, &count);
    mend_stats stats = MEND_STATS_INIT;
    bool is_known = mend_get_stats(pool, &stats) == MEND_OK && (count == 0 || regions != NULL);
    f->pool = pool;
    f->reserved_bytes = stats.reserved_bytes - stats.passed_bytes;
    f->waits[0] = stats.host_waits;
    f->waits[1] = stats.stream_waits;
    f->seen[MEND_EVENT_HOST_WAIT] = f->seen[MEND_EVENT_STREAM_WAIT] = 0;
    f->newest = pool->heap.chunks.next_number - 1;
    for (size_t i = 0; i < count && is_known; i++) {
        const mend_region *at = &regions[i];
        const follower_range range = {address_of(at->address), at->size_bytes, at->requested_bytes,
                                      at->tag != 0 ? at->tag : at->sleep_tag};
        const mend_span *block = mend_heap_block_at(&pool->heap, range.address);
        const bool is_passed = block != NULL && block->chunk == NULL;
        is_known = (is_passed || add_mapping(f, range) == NULL) &&
                   (at->kind != MEND_REGION_LIVE || add_block(f, range, is_passed) == NULL) &&
                   (at->kind != MEND_REGION_PAGE || add_pages(f, range) == NULL);
    }
    free(regions);
    return is_known;
}

static void forget(mend_follower *f)
{
    follower_row *const rows[] = {&f->live, &f->mapped, &f->chunks, &f->pages, &f->gone};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        free(rows[i]->list);
        *rows[i] = (follower_row){0};
    }
}

bool mend_follower_begin(mend_follower *f, mend_pool *pool)
{
    forget(f);
    f->pool = pool;
    mend_history_event events[EVENTS];
    size_t count = 1;
    while (count > 0 && mend_history_read(f->pool, &f->cursor, events, sizeof(*events), EVENTS,
                                          &count) == MEND_OK) {
    }
    return look(f, pool);
}

void mend_follower_end(mend_follower *f)
{
    forget(f);
    *f = (mend_follower){.pool = NULL};
}

static bool are_equal(const follower_row *a, const follower_row *b)
{
    return a->count == b->count &&
           (a->count == 0 || memcmp(a->list, b->list, a->count * sizeof(*a->list)) == 0);
}

static const char *differs(const mend_follower *f, const mend_follower *is)
{
    if (f->reserved_bytes != is->reserved_bytes) {
        return "chunks were created or released without an event";
    }
    /* A stream may wait for events of several devices at once. */
    if (f->waits[0] + f->seen[MEND_EVENT_HOST_WAIT] != is->waits[0] ||
        (f->seen[MEND_EVENT_STREAM_WAIT] == 0) != (f->waits[1] == is->waits[1])) {
        return "there were other waits than the events say";
    }
    if (!are_equal(&f->live, &is->live)) {
        return "other blocks live than the events say";
    }
    if (!are_equal(&f->pages, &is->pages)) {
        return "other pages are committed than the events say";
    }
    return are_equal(&f->mapped, &is->mapped) ? NULL : "other memory is mapped than the events say";
}

static bool find(char *finding, const char *what, const mend_history_event *event)
{
    if (what != NULL && event != NULL) {
        snprintf(finding, MEND_FOLLOWER_FINDING_BYTES, "event %llu of kind %d: %llx, %llu bytes %s",
                 LLU(event->sequence), event->kind, LLU(address_of(event->address)),
                 LLU(event->size_bytes), what);
    } else if (what != NULL) {
        snprintf(finding, MEND_FOLLOWER_FINDING_BYTES, "history: %s", what);
    }
    return what == NULL;
}

/* False where something is wrong, or lost: then *lost is set. */
static bool read_all(mend_follower *f, bool *lost, char *finding)
{
    mend_history_event events[EVENTS];
    size_t count = 1;
    while (count > 0) {
        uint64_t next = f->cursor;
        if (mend_history_read(f->pool, &f->cursor, events, sizeof(*events), EVENTS, &count) !=
            MEND_OK) {
            return find(finding, "it cannot be read", NULL);
        }
        for (size_t i = 0; i < count; i++, next++) {
            if (events[i].sequence != next) {
                f->lost += events[i].sequence - next;
                *lost = true;
                return false;
            }
            const char *what = events[i].time_ns < f->time_ns ? "goes back in time" : NULL;
            f->time_ns = events[i].time_ns;
            what = what == NULL ? apply(f, &events[i]) : what;
            if (!find(finding, what, &events[i])) {
                return false;
            }
        }
    }
    return true;
}

bool mend_follower_follow(mend_follower *f, char finding[MEND_FOLLOWER_FINDING_BYTES])
{
    bool lost = false;
    if (!read_all(f, &lost, finding)) {
        return lost && (mend_follower_begin(f, f->pool) || find(finding, "no host memory", NULL));
    }
    mend_follower is = {.pool = NULL};
    const char *what = look(&is, f->pool) ? differs(f, &is) : "no host memory";
    mend_follower_end(&is);
    return find(finding, what, NULL);
}
