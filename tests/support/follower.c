#include "tests/support/follower.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/regions.h"

#define LLU(value) ((unsigned long long)(value))

enum { EVENTS = 64 }; /* that are read at a time */

static uint64_t address_of(const void *pointer)
{
    return (uint64_t)(uintptr_t)pointer;
}

/* ---- sorted rows ------------------------------------------------------------------------------
 */

/* Makes room for one more element at `at`. */
static bool open_gap(void *row, size_t *count, size_t at, size_t element_bytes)
{
    char *grown = realloc(*(void **)row, (*count + 1) * element_bytes);
    if (grown == NULL) {
        return false;
    }
    memmove(grown + (at + 1) * element_bytes, grown + at * element_bytes,
            (*count - at) * element_bytes);
    *(void **)row = grown;
    ++*count;
    return true;
}

static void close_gap(void *row, size_t *count, size_t at, size_t element_bytes)
{
    --*count;
    memmove((char *)row + at * element_bytes, (char *)row + (at + 1) * element_bytes,
            (*count - at) * element_bytes);
}

/* The first block, or stretch, that does not end before the address. */
static size_t block_from(const mend_follower *f, uint64_t address)
{
    size_t at = 0;
    while (at < f->live_count && f->live[at].address + f->live[at].size_bytes <= address) {
        at++;
    }
    return at;
}

static size_t range_from(const follower_row *row, uint64_t address)
{
    size_t at = 0;
    while (at < row->count && row->list[at].address + row->list[at].size_bytes <= address) {
        at++;
    }
    return at;
}

/* Whether all of it is in the row. */
static bool is_in(const follower_row *row, uint64_t address, uint64_t size_bytes)
{
    size_t at = range_from(row, address);
    return at < row->count && row->list[at].address <= address &&
           address + size_bytes <= row->list[at].address + row->list[at].size_bytes;
}

/* Whether any of it is. */
static bool meets(const follower_row *row, uint64_t address, uint64_t size_bytes)
{
    size_t at = range_from(row, address);
    return at < row->count && row->list[at].address < address + size_bytes;
}

static bool is_mapped(const mend_follower *f, uint64_t address, uint64_t size_bytes)
{
    return is_in(&f->mapped, address, size_bytes);
}

static bool lives_in(const mend_follower *f, uint64_t address, uint64_t size_bytes)
{
    size_t at = block_from(f, address);
    return at < f->live_count && f->live[at].address < address + size_bytes;
}

/* ---- what happened ----------------------------------------------------------------------------
 */

/* Adds what the row has nothing of, and joins neighbours. False if malloc fails. */
static bool add_range(follower_row *row, uint64_t address, uint64_t size_bytes)
{
    size_t at = range_from(row, address);
    if (at > 0 && row->list[at - 1].address + row->list[at - 1].size_bytes == address) {
        at--;
        row->list[at].size_bytes += size_bytes;
    } else if (open_gap(&row->list, &row->count, at, sizeof(*row->list))) {
        row->list[at] = (follower_range){address, size_bytes};
    } else {
        return false;
    }
    if (at + 1 < row->count && row->list[at + 1].address == address + size_bytes) {
        row->list[at].size_bytes += row->list[at + 1].size_bytes;
        close_gap(row->list, &row->count, at + 1, sizeof(*row->list));
    }
    return true;
}

/* Takes out what is in the row. False if malloc fails. */
static bool remove_range(follower_row *row, uint64_t address, uint64_t size_bytes)
{
    size_t at = range_from(row, address);
    const follower_range range = row->list[at];
    const uint64_t before_bytes = address - range.address;
    const uint64_t behind_bytes = range.size_bytes - before_bytes - size_bytes;
    if (before_bytes > 0 && behind_bytes > 0) {
        if (!open_gap(&row->list, &row->count, at, sizeof(*row->list))) {
            return false;
        }
        row->list[at + 1] = (follower_range){address + size_bytes, behind_bytes};
        row->list[at].size_bytes = before_bytes;
    } else if (before_bytes > 0) {
        row->list[at].size_bytes = before_bytes;
    } else if (behind_bytes > 0) {
        row->list[at] = (follower_range){address + size_bytes, behind_bytes};
    } else {
        close_gap(row->list, &row->count, at, sizeof(*row->list));
    }
    return true;
}

/* Each returns what is wrong, or NULL. */
static const char *add_mapping(mend_follower *f, uint64_t address, uint64_t size_bytes)
{
    if (meets(&f->mapped, address, size_bytes)) {
        return "is mapped where something is mapped";
    }
    return add_range(&f->mapped, address, size_bytes) ? NULL : "no host memory";
}

static const char *remove_mapping(mend_follower *f, uint64_t address, uint64_t size_bytes)
{
    if (!is_mapped(f, address, size_bytes)) {
        return "is unmapped and was not mapped";
    }
    if (lives_in(f, address, size_bytes) || meets(&f->pages, address, size_bytes)) {
        return "is unmapped below a block or a page";
    }
    return remove_range(&f->mapped, address, size_bytes) ? NULL : "no host memory";
}

static const char *add_pages(mend_follower *f, uint64_t address, uint64_t size_bytes)
{
    if (!is_mapped(f, address, size_bytes)) {
        return "is committed where nothing is mapped";
    }
    if (lives_in(f, address, size_bytes) || meets(&f->pages, address, size_bytes)) {
        return "is committed over a block or a page";
    }
    return add_range(&f->pages, address, size_bytes) ? NULL : "no host memory";
}

static const char *remove_pages(mend_follower *f, uint64_t address, uint64_t size_bytes)
{
    if (!is_in(&f->pages, address, size_bytes)) {
        return "is decommitted and was not committed";
    }
    return remove_range(&f->pages, address, size_bytes) ? NULL : "no host memory";
}

static const char *add_block(mend_follower *f, const follower_block *block)
{
    if (!is_mapped(f, block->address, block->size_bytes)) {
        return "is allocated where nothing is mapped";
    }
    if (lives_in(f, block->address, block->size_bytes)) {
        return "is allocated over a block";
    }
    if (block->requested_bytes == 0 || block->requested_bytes > block->size_bytes) {
        return "has a wrong size";
    }
    size_t at = block_from(f, block->address);
    if (!open_gap(&f->live, &f->live_count, at, sizeof(*f->live))) {
        return "no host memory";
    }
    f->live[at] = *block;
    return NULL;
}

static const char *remove_block(mend_follower *f, const follower_block *block)
{
    size_t at = block_from(f, block->address);
    if (at == f->live_count || f->live[at].address != block->address ||
        f->live[at].size_bytes != block->size_bytes ||
        f->live[at].requested_bytes != block->requested_bytes || f->live[at].tag != block->tag) {
        return "is freed and was not allocated so";
    }
    close_gap(f->live, &f->live_count, at, sizeof(*f->live));
    return NULL;
}

static const char *apply(mend_follower *f, const mend_history_event *event)
{
    const uint64_t address = address_of(event->address);
    const follower_block block = {address, event->size_bytes, event->requested_bytes, event->tag};
    if (event->kind <= 0 || event->kind >= MEND_EVENT_KINDS) {
        return "has a kind that is none";
    }
    f->seen[event->kind]++;
    switch (event->kind) {
    case MEND_EVENT_ALLOC:
        return add_block(f, &block);
    case MEND_EVENT_FREE:
        return remove_block(f, &block);
    case MEND_EVENT_MAP:
        return add_mapping(f, address, event->size_bytes);
    case MEND_EVENT_UNMAP:
        return remove_mapping(f, address, event->size_bytes);
    case MEND_EVENT_COMMIT:
        return add_pages(f, address, event->size_bytes);
    case MEND_EVENT_DECOMMIT:
        return remove_pages(f, address, event->size_bytes);
    case MEND_EVENT_CREATE:
        f->reserved_bytes += event->size_bytes;
        return NULL;
    case MEND_EVENT_RELEASE:
        f->reserved_bytes -= event->size_bytes;
        return NULL;
    case MEND_EVENT_COMPACT:
        return is_mapped(f, address, event->size_bytes) ? NULL : "is compacted and not mapped";
    default:
        return NULL;
    }
}

/* ---- beside the pool --------------------------------------------------------------------------
 */

/* What the pool has now. False if malloc fails. */
static bool look(mend_follower *f, mend_pool *pool)
{
    size_t count;
    mend_region *regions = mend_regions_of(pool, &count);
    mend_stats stats = MEND_STATS_INIT;
    bool is_known = mend_get_stats(pool, &stats) == MEND_OK && (count == 0 || regions != NULL);
    f->pool = pool;
    f->reserved_bytes = stats.reserved_bytes + stats.zero_chunk_bytes;
    for (size_t i = 0; i < count && is_known; i++) {
        const mend_region *at = &regions[i];
        const uint64_t address = address_of(at->address);
        const follower_block block = {address, at->size_bytes, at->requested_bytes, at->tag};
        is_known = add_mapping(f, address, at->size_bytes) == NULL &&
                   (at->kind != MEND_REGION_LIVE || add_block(f, &block) == NULL) &&
                   (at->kind != MEND_REGION_PAGE || add_pages(f, address, at->size_bytes) == NULL);
    }
    free(regions);
    return is_known;
}

/* Reads to the end, and forgets it. */
static void skip(mend_follower *f)
{
    mend_history_event events[EVENTS];
    size_t count = 1;
    while (count > 0 && mend_history_read(f->pool, &f->cursor, events, sizeof(*events), EVENTS,
                                          &count) == MEND_OK) {
    }
}

static void forget(mend_follower *f)
{
    free(f->live);
    free(f->mapped.list);
    free(f->pages.list);
    f->live = NULL;
    f->mapped = (follower_row){0};
    f->pages = (follower_row){0};
    f->live_count = 0;
}

bool mend_follower_begin(mend_follower *f, mend_pool *pool)
{
    forget(f);
    f->pool = pool;
    skip(f);
    return look(f, pool);
}

void mend_follower_end(mend_follower *f)
{
    forget(f);
    *f = (mend_follower){.pool = NULL};
}

static bool are_equal(const follower_row *a, const follower_row *b)
{
    bool same = a->count == b->count;
    for (size_t i = 0; i < a->count && same; i++) {
        same = memcmp(&a->list[i], &b->list[i], sizeof(a->list[i])) == 0;
    }
    return same;
}

static const char *differs(const mend_follower *f, const mend_follower *is)
{
    if (f->reserved_bytes != is->reserved_bytes) {
        return "chunks were created or released without an event";
    }
    bool same = f->live_count == is->live_count;
    for (size_t i = 0; i < f->live_count && same; i++) {
        same = memcmp(&f->live[i], &is->live[i], sizeof(f->live[i])) == 0;
    }
    if (!same) {
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
