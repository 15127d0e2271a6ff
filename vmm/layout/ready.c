/* Whether a stream may use free memory, and how to make it so. */
#include "base/error.h"
#include "layout/layout.h"

/* Of the waits of a piece cut out of a run: two at the edges, and the waits of the whole, twice. */
enum { COPIES_OF_WAITS = 4 };

/* Spans that are tidied at an end of a run, for most queries. Walks through the middle tidy the
 * rest. */
enum { TIDIED_AT_ENDS = 64 };

/* The span of the run with this address. One search looks at many places of a run, so it goes on
 * from where it was, and tidies the run once. */
static mend_span *walk_to(mend_heap *heap, mend_run *run, uint64_t address)
{
    mend_zone *zone = &heap->zones[run->first->zone];
    if (zone->walk_run != run || zone->walk_changes != zone->changes ||
        zone->walk_passes != heap->streams.passes) {
        mend_layout_tidy(heap, run, false, UINT64_MAX);
        zone->walk_run = run;
        zone->walk_changes = zone->changes;
        zone->walk_passes = heap->streams.passes;
        zone->walk_span = address - run->address > run->size_bytes / 2 ? run->last : run->first;
    }
    mend_span *span = mend_span_walk(zone->walk_span, address);
    assert(span->address >= run->address && mend_span_end(span) <= mend_run_end(run));
    zone->walk_span = span;
    return span;
}

/* The first span of a stretch, without a walk where that begins or ends the run. The outermost one
 * instead if the stream may not use that, which most often tells of the whole. */
static mend_span *find_span(mend_heap *heap, mend_run *run, uint64_t address, uint64_t size_bytes,
                            uint32_t stream, uint64_t behind_wait)
{
    const bool is_start = address == run->address;
    if (!is_start && address + size_bytes < mend_run_end(run)) {
        return walk_to(heap, run, address);
    }
    mend_span *outermost = is_start ? run->first : run->last;
    if (!mend_waits_are_ready(&heap->streams, &outermost->waits, stream, behind_wait)) {
        return outermost;
    }
    mend_layout_tidy(heap, run, !is_start, TIDIED_AT_ENDS);
    return mend_span_walk(is_start ? run->first : run->last, address);
}

const mend_span *mend_layout_find_blocked(mend_heap *heap, mend_run *run, uint64_t address,
                                          uint64_t size_bytes, uint32_t stream,
                                          uint64_t behind_wait)
{
    assert(mend_mutex_is_held(&heap->state));
    assert(address >= run->address);
    assert(address + size_bytes <= mend_run_end(run));
    if (address == mend_run_end(run)) { /* nothing is asked about */
        assert(size_bytes == 0);
        return NULL;
    }
    const mend_span *span = run->first;
    if (span == run->last) { /* the usual case */
        return !mend_waits_drop_passed(mend_heap_wait_env(heap), &run->first->waits) &&
                       !mend_waits_are_ready(&heap->streams, &span->waits, stream, behind_wait)
                   ? span
                   : NULL;
    }
    span = find_span(heap, run, address, size_bytes, stream, behind_wait);
    while (mend_waits_are_ready(&heap->streams, &span->waits, stream, behind_wait)) {
        if (span == run->last || span->next->address >= address + size_bytes) {
            return NULL;
        }
        span = span->next;
    }
    return span;
}

bool mend_layout_chunk_is_ready(mend_heap *heap, mend_chunk *chunk, uint32_t stream,
                                uint64_t behind_wait)
{
    const mend_streams *streams = &heap->streams;
    assert(mend_chunk_is_empty(chunk));
    if (chunk->address == 0) {
        return true;
    }
    if (!mend_waits_stamp_is_ready(streams, chunk->held_by, stream, behind_wait)) {
        return false;
    }
    if (!mend_layout_stamps_matter(heap, stream)) {
        return true;
    }
    mend_run *run = mend_layout_run_at(&heap->zones[chunk->zone], chunk->address);
    const mend_span *blocked =
        mend_layout_find_blocked(heap, run, chunk->address, chunk->size_bytes, stream, behind_wait);
    if (blocked != NULL) {
        chunk->held_by = mend_waits_first_blocking(streams, &blocked->waits, stream, behind_wait);
    }
    return blocked == NULL;
}

mend_result mend_layout_make_ready(mend_heap *heap, mend_run *run, uint64_t address,
                                   uint64_t size_bytes, uint32_t stream)
{
    assert(mend_mutex_is_held(&heap->grow));
    assert(address >= run->address);
    assert(address + size_bytes <= mend_run_end(run));
    assert(stream != MEND_STREAM_UNKNOWN);
    mend_wait_env env = mend_heap_wait_env(heap);
    for (mend_span *span = run->first;; span = span->next) {
        if (span->address >= address + size_bytes) {
            return MEND_OK;
        }
        if (mend_span_end(span) > address) {
            MEND_TRY(mend_waits_make_ready(env, &span->waits, stream));
        }
        if (span == run->last) {
            return MEND_OK;
        }
    }
}

size_t mend_layout_count_waits(mend_heap *heap, mend_run *run, uint64_t from, uint64_t end)
{
    assert(from >= run->address && from < end && end <= mend_run_end(run));
    const mend_span *span = run->first == run->last ? run->first : walk_to(heap, run, from);
    size_t count = mend_waits_count_others(&span->waits);
    while (mend_span_end(span) < end) {
        span = span->next;
        count += 1 + mend_waits_count_others(&span->waits);
    }
    return COPIES_OF_WAITS * count;
}
