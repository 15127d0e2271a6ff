#include "layout/ready.h"

#include <assert.h>

/* Of the waits of what is cut out of a run: two at the edges, and the waits of the whole, twice. */
enum { COPIES_OF_WAITS = 4 };

/* The span of the run with this address. One search looks at many places of a run, so it goes on
 * from where it was, and tidies the run once. */
static mend_span *walk_to(mend_heap *heap, mend_run *run, uint64_t address)
{
    mend_zone *zone = &heap->zones[run->first->zone];
    if (zone->walk_run != run || zone->walk_changes != zone->changes ||
        zone->walk_passes != heap->streams.passes) {
        mend_layout_tidy(heap, run);
        zone->walk_run = run;
        zone->walk_changes = zone->changes;
        zone->walk_passes = heap->streams.passes;
        zone->walk_span = address - run->address > run->size_bytes / 2 ? run->last : run->first;
    }
    mend_span *span = zone->walk_span;
    while (span->address > address) {
        span = span->previous;
    }
    while (mend_span_end(span) <= address) {
        span = span->next;
    }
    assert(span->address >= run->address && mend_span_end(span) <= mend_run_end(run));
    zone->walk_span = span;
    return span;
}

bool mend_layout_is_ready(mend_heap *heap, mend_run *run, uint64_t address, uint64_t size_bytes,
                          uint32_t stream, bool behind_wait)
{
    assert(mend_mutex_is_held(&heap->state));
    assert(address >= run->address);
    assert(address + size_bytes <= mend_run_end(run));
    if (!mend_streams_are_several(&heap->streams) && stream != MEND_STREAM_UNKNOWN) {
        return true;
    }
    mend_wait_env room = mend_heap_wait_env(heap);
    if (run->first == run->last) { /* the usual case */
        mend_waits_settle(room, &run->first->waits);
        return mend_waits_are_ready(room.streams, &run->first->waits, stream, behind_wait);
    }
    if (address == mend_run_end(run)) { /* nothing is asked about */
        assert(size_bytes == 0);
        return true;
    }
    for (mend_span *span = walk_to(heap, run, address);; span = span->next) {
        if (span->address >= address + size_bytes) {
            return true;
        }
        if (!mend_waits_are_ready(room.streams, &span->waits, stream, behind_wait)) {
            return false;
        }
        if (span == run->last) {
            return true;
        }
    }
}

mend_result mend_layout_make_ready(mend_heap *heap, mend_run *run, uint64_t address,
                                   uint64_t size_bytes, uint32_t stream)
{
    assert(mend_mutex_is_held(&heap->grow));
    assert(address >= run->address);
    assert(address + size_bytes <= mend_run_end(run));
    assert(stream != MEND_STREAM_UNKNOWN);
    mend_wait_env room = mend_heap_wait_env(heap);
    for (mend_span *span = run->first;; span = span->next) {
        if (span->address >= address + size_bytes) {
            return MEND_OK;
        }
        if (mend_span_end(span) > address) {
            mend_result result = mend_waits_make_ready(room, &span->waits, stream);
            if (result != MEND_OK) {
                return result;
            }
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
