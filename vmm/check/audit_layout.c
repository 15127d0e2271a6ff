/* The audit of the layout: spans, runs and the front cache of a zone. */
#include "check/audit_parts.h"
#include "layout/layout.h"
#include "ranges/ranges.h"

#define SPAN_MUST(holds, words) MUST(holds, "span 0x%llx " words, MEND_AUDIT_HEX(span->address))

static bool run_is_right(const mend_audit_walk *a, const mend_zone *zone, const mend_span *first,
                         const mend_span *last)
{
    const mend_run *run = first->run;
    MUST(run != NULL && run == last->run && run->first == first && run->last == last &&
             run->address == first->address && mend_run_end(run) == mend_span_end(last),
         "the free spans from 0x%llx form no run", MEND_AUDIT_HEX(first->address));
    MUST(run->chunk == first->chunk, "run 0x%llx: another chunk is its first",
         MEND_AUDIT_HEX(run->address));
    MUST(run->extensible == (last->next == NULL), "run 0x%llx: extensible is wrong",
         MEND_AUDIT_HEX(run->address));
    mend_run key = {.address = run->address, .size_bytes = run->size_bytes};
    const bool in_growth =
        mend_tree_at_or_after(&zone->runs_by_growth, &key.by_growth) == &run->by_growth;
    MUST(mend_tree_at_or_after(&zone->runs_by_address, &key.by_address) == &run->by_address &&
             mend_sizes_has(&zone->runs_by_size, run) && in_growth == run->extensible,
         "run 0x%llx is not in its indices", MEND_AUDIT_HEX(run->address));
    return true;
}

/* Free, in a chunk that sleeps, or that a failed transaction left without its mapping: no request
 * may get it. */
static bool is_claimed(const mend_span *span)
{
    return !span->live && span->chunk->missing != MEND_MISSING_NOTHING;
}

/* A claimed span lies inside its frozen chunk and is in no run. No other free memory overlaps such
 * a chunk. */
static bool claim_is_right(const mend_audit_walk *a, const mend_span *span)
{
    bool can_be_taken = span->run != NULL || span->cached || !is_claimed(span);
    bool lacks_memory =
        mend_layout_misses_mapping(a->heap, span) || mend_layout_sleeps(a->heap, span);
    SPAN_MUST(!can_be_taken || span->live || !lacks_memory,
              "may be taken, but its chunk is frozen");
    SPAN_MUST(!is_claimed(span) || mend_span_is_in_one_chunk(span),
              "is claimed, and crosses the edge of its chunk");
    return true;
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
    SPAN_MUST(is_listed && !span->live && span->run == NULL && span->waits.others == NULL &&
                  stamp.stream < a->heap->streams.count && stamp.stream != MEND_STREAM_UNKNOWN &&
                  a->heap->streams.items[stamp.stream].group == 0 && (left == NULL || left->live) &&
                  (right == NULL || right->live || right->run != NULL),
              "should not be cached");
    a->cached[span->zone]++;
    return true;
}

static bool span_is_right(mend_audit_walk *a, const mend_span *span, int zone)
{
    const mend_heap *heap = a->heap;
    SPAN_MUST(span->zone == zone && span->size_bytes > 0 &&
                  (span->address | span->size_bytes) % MEND_GRANULE_BYTES == 0,
              "has a wrong zone, size or address");
    SPAN_MUST(span->next == NULL ||
                  (span->next->previous == span && mend_span_end(span) == span->next->address),
              "does not touch its neighbour");
    bool in_map = zone == MEND_ZONE_RANGE
                      ? mend_range_page_at(heap, span->address) == span
                      : mend_pointer_map_find(&heap->blocks, span->address) == span;
    MUST(in_map == (span->live || span->cached), "span 0x%llx: live and the pointer map disagree",
         MEND_AUDIT_HEX(span->address));
    SPAN_MUST(span->chunk == mend_chunk_at(&heap->chunks, span->address),
              "begins in another chunk");
    SPAN_MUST(zone != MEND_ZONE_PASSED ||
                  (span->live && span->chunk == NULL && span->previous == NULL &&
                   span->next == NULL && !span->of_group && !span->is_exported &&
                   !span->in_one_chunk),
              "is passed through, and not a block by itself");
    SPAN_MUST(zone == MEND_ZONE_PASSED || span->chunk != NULL, "has no chunk");
    SPAN_MUST(!span->live || span->requested_bytes <= span->size_bytes, "was asked to be larger");
    SPAN_MUST(span->live || !span->is_exported, "is free and exported");
    SPAN_MUST(!span->in_one_chunk ||
                  (span->live && mend_span_is_in_one_chunk(span) && span->chunk->pins > 0),
              "is not in one pinned chunk");
    if (!claim_is_right(a, span) || (span->cached && !cached_is_right(a, span)) ||
        !mend_audit_waits(a, &span->waits, span->address)) {
        return false;
    }
    SPAN_MUST(!mend_span_is_pending(span) || (!span->live && !span->cached && !is_claimed(span)),
              "is pending, and not free memory of a run");
    a->pending_blocks += mend_span_is_pending(span);
    a->pending_bytes += mend_span_is_pending(span) ? span->size_bytes : 0;
    a->spans++;
    a->exported += span->is_exported;
    if (span->live) {
        a->live[span->zone].blocks++;
        a->live[span->zone].bytes += span->size_bytes;
        a->live[span->zone].requested_bytes += span->requested_bytes;
        a->scope_bytes += mend_audit_weight_of(span->scope) * span->size_bytes;
        a->scope_blocks += mend_audit_weight_of(span->scope);
    }
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
    MUST(end->next == NULL, "span 0x%llx is no segment's end", MEND_AUDIT_HEX(end->address));
    for (const mend_span *span = end; span != NULL; span = span->previous) {
        if (!span_is_right(a, span, zone_number)) {
            return false;
        }
        *free_bytes += span->live ? 0 : span->size_bytes;
        if (span->live || is_apart(span)) {
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
    const mend_zone *zone = &a->heap->zones[zone_number];
    const mend_cache *cache = &zone->cache;
    size_t runs = 0;
    uint64_t free_bytes = 0;
    MUST(mend_tree_is_valid(&zone->runs_by_address) && mend_sizes_are_valid(&zone->runs_by_size) &&
             mend_tree_is_valid(&zone->runs_by_growth) && mend_tree_is_valid(&zone->segment_ends),
         "a tree of zone %d is out of order", zone_number);
    MEND_TREE_EACH(const mend_span, end, by_end, &zone->segment_ends) {
        if (!segment_is_right(a, zone_number, end, &runs, &free_bytes)) {
            return false;
        }
    }
    MUST(runs == zone->runs_by_address.count && runs == zone->runs_by_size.count,
         "zone %d has %zu runs, its indices %zu and %zu", zone_number, runs,
         zone->runs_by_address.count, zone->runs_by_size.count);
    a->runs += runs;
    /* It lists exactly the cached spans; it is empty while closed. */
    MUST(cache->count == a->cached[zone_number] && cache->count <= cache->promised &&
             cache->promised <= MEND_CACHE_SPANS &&
             (cache->promised == 0 || a->heap->caching.closings == 0),
         "the front cache of zone %d is wrong", zone_number);
    MUST(free_bytes == zone->free_bytes, "zone %d: %llu bytes are free, %llu are counted",
         zone_number, MEND_AUDIT_HEX(free_bytes), MEND_AUDIT_HEX(zone->free_bytes));
    return true;
}
