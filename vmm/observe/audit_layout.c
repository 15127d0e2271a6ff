/* The audit of the layout: spans, runs and the front cache of a zone. */
#include <assert.h>

#include "layout/layout.h"
#include "layout/ranges.h"
#include "observe/audit_parts.h"

#define SEGMENT_OF(node) MEND_CONTAINER_OF(node, mend_span, by_end)

static bool run_is_right(const mend_audit_walk *a, const mend_zone *zone, const mend_span *first,
                         const mend_span *last)
{
    uint64_t size_bytes = last->address + last->size_bytes - first->address;
    const mend_run *run = first->run;
    if (run == NULL || run != last->run || run->first != first || run->last != last ||
        run->address != first->address || run->size_bytes != size_bytes) {
        return mend_audit_broken(a, "the free spans from 0x%llx form no run",
                                 MEND_AUDIT_HEX(first->address));
    }
    if (run->extensible != (last->next == NULL)) {
        return mend_audit_broken(a, "run 0x%llx: extensible is wrong",
                                 MEND_AUDIT_HEX(run->address));
    }
    mend_run key = {.address = run->address, .size_bytes = run->size_bytes};
    bool in_growth =
        mend_tree_at_or_after(&zone->runs_by_growth, &key.by_growth) == &run->by_growth;
    if (mend_tree_at_or_after(&zone->runs_by_address, &key.by_address) != &run->by_address ||
        !mend_sizes_has(&zone->runs_by_size, run) || in_growth != run->extensible) {
        return mend_audit_broken(a, "run 0x%llx is not in its indices",
                                 MEND_AUDIT_HEX(run->address));
    }
    return true;
}

/* Free, in a chunk that sleeps, or on the host, or that a compaction could not map again: no
 * request may get it. */
static bool is_claimed(const mend_span *span)
{
    return !span->live && (span->chunk->missing != MEND_MISSING_NOTHING || span->chunk->on_host);
}

/* A claimed span lies inside its frozen chunk and is in no run. No other free memory overlaps such
 * a chunk. */
static bool claim_is_right(const mend_audit_walk *a, const mend_span *span)
{
    bool can_be_taken = span->run != NULL || span->cached || !is_claimed(span);
    bool lacks_memory = mend_layout_misses_mapping(a->heap, span) ||
                        mend_layout_sleeps(a->heap, span) || mend_layout_is_on_host(a->heap, span);
    if (can_be_taken && !span->live && lacks_memory) {
        return mend_audit_broken(a, "span 0x%llx may be taken, but its chunk is frozen",
                                 MEND_AUDIT_HEX(span->address));
    }
    return !is_claimed(span) || mend_span_is_in_one_chunk(span) ||
           mend_audit_broken(a, "span 0x%llx is claimed, and crosses the edge of its chunk",
                             MEND_AUDIT_HEX(span->address));
}

/* A cached span is in the cache's list, has no neighbour that it should be joined with, and will be
 * ready for the stream it was freed on. */
static bool cached_is_right(mend_audit_walk *a, const mend_span *span)
{
    mend_stamp stamp = span->waits.first;
    const mend_span *left = span->previous;
    const mend_span *right = span->next;
    const mend_cache *cache = &a->heap->zones[span->zone].cache;
    bool is_listed = span->cache_index < cache->count && cache->spans[span->cache_index] == span;
    if (!is_listed || span->live || span->run != NULL || span->waits.others != NULL ||
        stamp.stream >= a->heap->streams.count || stamp.stream == MEND_STREAM_UNKNOWN ||
        a->heap->streams.items[stamp.stream].group != 0 || (left != NULL && !left->live) ||
        (right != NULL && !right->live && right->run == NULL)) {
        return mend_audit_broken(a, "span 0x%llx should not be cached",
                                 MEND_AUDIT_HEX(span->address));
    }
    a->cached[span->zone]++;
    return true;
}

/* A cache lists exactly the cached spans of its zone; it is empty while closed. */
static bool cache_is_right(const mend_audit_walk *a, int zone)
{
    const mend_cache *cache = &a->heap->zones[zone].cache;
    return (cache->count == a->cached[zone] && cache->count <= cache->promised &&
            cache->promised <= MEND_CACHE_SPANS &&
            (cache->promised == 0 || a->heap->caching.closings == 0)) ||
           mend_audit_broken(a, "the front cache of zone %d is wrong", zone);
}

static bool span_is_right(mend_audit_walk *a, const mend_span *span, int zone)
{
    const mend_heap *heap = a->heap;
    if (span->zone != zone || span->size_bytes == 0 ||
        (span->address | span->size_bytes) % MEND_GRANULE_BYTES != 0) {
        return mend_audit_broken(a, "span 0x%llx has a wrong zone, size or address",
                                 MEND_AUDIT_HEX(span->address));
    }
    if (span->next != NULL &&
        (span->next->previous != span || span->address + span->size_bytes != span->next->address)) {
        return mend_audit_broken(a, "span 0x%llx does not touch its neighbour",
                                 MEND_AUDIT_HEX(span->address));
    }
    bool in_map = zone == MEND_ZONE_RANGE
                      ? mend_range_page_at(heap, span->address) == span
                      : mend_pointer_map_find(&heap->blocks, span->address) == span;
    if (in_map != ((span->live && !span->lent) || span->cached)) {
        return mend_audit_broken(a, "span 0x%llx: live and the pointer map disagree",
                                 MEND_AUDIT_HEX(span->address));
    }
    if (span->chunk != mend_chunk_at(&heap->chunks, span->address)) {
        return mend_audit_broken(a, "span 0x%llx begins in another chunk",
                                 MEND_AUDIT_HEX(span->address));
    }
    if (span->is_exported && !span->live) {
        return mend_audit_broken(a, "span 0x%llx is free and exported",
                                 MEND_AUDIT_HEX(span->address));
    }
    if (span->in_one_chunk &&
        (!span->live || !mend_span_is_in_one_chunk(span) || span->chunk->pins == 0)) {
        return mend_audit_broken(a, "span 0x%llx is not in one pinned chunk",
                                 MEND_AUDIT_HEX(span->address));
    }
    a->exported += span->is_exported;
    if (!claim_is_right(a, span)) {
        return false;
    }
    if (span->cached && !cached_is_right(a, span)) {
        return false;
    }
    if (span->lent && (!span->live || span->is_exported || span->waits.first.epoch != 0 ||
                       span->waits.others != NULL)) {
        return mend_audit_broken(a, "span 0x%llx is lent, and free or waited for",
                                 MEND_AUDIT_HEX(span->address));
    }
    if (!mend_audit_waits(a, &span->waits, span->address)) {
        return false;
    }
    if (span->lent) {
        a->lent_bytes += span->size_bytes;
    } else if (span->live) {
        a->live[span->zone].blocks++;
        a->live[span->zone].bytes += span->size_bytes;
        a->live[span->zone].requested_bytes += span->requested_bytes;
        a->scope_bytes += mend_audit_weight_of(span->scope) * span->size_bytes;
        a->scope_blocks += mend_audit_weight_of(span->scope);
    }
    a->spans++;
    return true;
}

/* Free, and in no run. */
static bool is_apart(const mend_span *span)
{
    return span->cached || is_claimed(span);
}

/* Walks a segment from its end; adds its runs and free bytes to the zone's totals. */
static bool segment_is_right(mend_audit_walk *a, int zone_number, const mend_span *end,
                             size_t *runs, uint64_t *free_bytes)
{
    const mend_zone *zone = &a->heap->zones[zone_number];
    const mend_span *run_last = NULL;
    if (end->next != NULL) {
        return mend_audit_broken(a, "span 0x%llx is no segment's end",
                                 MEND_AUDIT_HEX(end->address));
    }
    for (const mend_span *span = end; span != NULL; span = span->previous) {
        if (!span_is_right(a, span, zone_number)) {
            return false;
        }
        if (span->live) {
            continue;
        }
        *free_bytes += span->size_bytes;
        if (is_apart(span)) {
            continue;
        }
        run_last = run_last != NULL ? run_last : span;
        if (span->previous == NULL || span->previous->live || is_apart(span->previous)) {
            if (!run_is_right(a, zone, span, run_last)) {
                return false;
            }
            run_last = NULL;
            (*runs)++;
        }
    }
    return true;
}

bool mend_audit_zone(mend_audit_walk *a, int zone_number)
{
    assert(zone_number >= 0);
    assert(zone_number < MEND_ZONE_COUNT);
    const mend_zone *zone = &a->heap->zones[zone_number];
    size_t runs = 0;
    uint64_t free_bytes = 0;
    if (!mend_tree_is_valid(&zone->runs_by_address) || !mend_sizes_are_valid(&zone->runs_by_size) ||
        !mend_tree_is_valid(&zone->runs_by_growth) || !mend_tree_is_valid(&zone->segment_ends)) {
        return mend_audit_broken(a, "a tree of zone %d is out of order", zone_number);
    }
    for (mend_tree_node *at = mend_tree_first(&zone->segment_ends); at != NULL;
         at = mend_tree_next(at)) {
        if (!segment_is_right(a, zone_number, SEGMENT_OF(at), &runs, &free_bytes)) {
            return false;
        }
    }
    if (runs != zone->runs_by_address.count || runs != zone->runs_by_size.count) {
        return mend_audit_broken(a, "zone %d has %zu runs, its indices %zu and %zu", zone_number,
                                 runs, zone->runs_by_address.count, zone->runs_by_size.count);
    }
    a->runs += runs;
    if (!cache_is_right(a, zone_number)) {
        return false;
    }
    if (free_bytes != zone->free_bytes) {
        return mend_audit_broken(a, "zone %d: %llu bytes are free, %llu are counted", zone_number,
                                 MEND_AUDIT_HEX(free_bytes), MEND_AUDIT_HEX(zone->free_bytes));
    }
    return true;
}
