/*
 * Fitting: where a request goes in free mapped memory. While pressure is low: best fit. Near the
 * limit: among the places that fit, the one that breaks the fewest bytes of empty chunks.
 */
#include "plan/policy.h"

#include "plan/constants.h"

bool mend_fit_is_ready(mend_heap *heap, const mend_request *request, mend_run *run,
                       uint64_t address, uint64_t end)
{
    return run != NULL && address >= run->address && end <= mend_run_end(run) &&
           mend_layout_suits(heap, request, run, address, end) &&
           mend_layout_is_ready(heap, run, address, end - address, request->stream,
                                request->behind_wait);
}

/* Whether the run has a stretch that is ready and large enough, and where. Looks at so many spans
 * at most, from the end: ready memory between waiting ends is mostly near it, because the run is
 * used from its start. */
static bool find_stretch(mend_heap *heap, const mend_request *request, mend_run *run,
                         uint64_t most_spans, uint64_t *address)
{
    mend_wait_env env = mend_heap_wait_env(heap);
    uint64_t end = mend_run_end(run);
    mend_layout_tidy(heap, run, true, most_spans);
    for (const mend_span *span = run->last; most_spans-- > 0; span = span->previous) {
        if (!mend_waits_are_ready(env.streams, &span->waits, request->stream,
                                  request->behind_wait)) {
            end = span->address;
        }
        *address = mend_align_up(span->address, request->alignment_bytes);
        if (*address < end && end - *address >= request->size_bytes &&
            mend_layout_suits(heap, request, run, *address, *address + request->size_bytes)) {
            return true;
        }
        if (span == run->first) {
            return false;
        }
    }
    return false;
}

/* The smallest empty chunk that holds the request and is ready, where it is mapped: for a block in
 * one chunk, which shares it with no other. One that is not mapped in the zone has no run. */
static mend_fit fit_in_empty(mend_heap *heap, const mend_request *request, int zone_number,
                             uint64_t largest_bytes)
{
    mend_chunk *chunk = mend_chunk_empty_at_least(&heap->chunks, request->size_bytes, 0);
    for (; chunk != NULL && chunk->size_bytes <= largest_bytes;
         chunk = mend_chunk_empty_next(chunk)) {
        const uint64_t address = mend_align_up(chunk->address, request->alignment_bytes);
        const uint64_t end = address + request->size_bytes;
        mend_run *run = mend_layout_run_at(&heap->zones[zone_number], address);
        if (end <= chunk->address + chunk->size_bytes &&
            mend_fit_is_ready(heap, request, run, address, end)) {
            return (mend_fit){run, address};
        }
    }
    return (mend_fit){0};
}

/* The smallest run that fits, at its start, or at its end, if other streams used the start. */
static mend_fit best_fit(mend_heap *heap, const mend_request *request, const mend_zone *zone,
                         uint64_t largest_bytes)
{
    mend_run *run = mend_sizes_at_least(&zone->runs_by_size, request->size_bytes);
    for (int tries = 0; run != NULL && tries < SEARCH_TRIES && run->size_bytes <= largest_bytes;
         tries++) {
        uint64_t start = mend_align_up(run->address, request->alignment_bytes);
        if (mend_fit_is_ready(heap, request, run, start, start + request->size_bytes)) {
            return (mend_fit){run, start};
        }
        uint64_t end =
            mend_align_down(mend_run_end(run) - request->size_bytes, request->alignment_bytes);
        if ((run->first != run->last || heap->has_homes) &&
            mend_fit_is_ready(heap, request, run, end, end + request->size_bytes)) {
            return (mend_fit){run, end};
        }
        run = mend_sizes_next(&zone->runs_by_size, run);
    }
    return (mend_fit){0};
}

/* Also in the largest run: the smallest may be many, and all wait. */
mend_fit mend_fit_find_between(mend_heap *heap, const mend_request *request, int zone_number,
                               uint64_t largest_bytes)
{
    const mend_zone *zone = &heap->zones[zone_number];
    mend_run *run = mend_sizes_at_least(&zone->runs_by_size, request->size_bytes);
    mend_run *last = run != NULL ? mend_sizes_last(&zone->runs_by_size) : NULL;
    for (int tries = 0; run != NULL && run->size_bytes <= largest_bytes; tries++) {
        uint64_t address;
        if (run->first != run->last && find_stretch(heap, request, run, SEARCH_TRIES, &address)) {
            return (mend_fit){run, address};
        }
        run = tries + 1 < SEARCH_TRIES ? mend_sizes_next(&zone->runs_by_size, run)
              : run != last            ? last
                                       : NULL;
    }
    return (mend_fit){0};
}

/* The best place that was compared so far. */
typedef struct choice {
    bool waits_matter; /* the stream may have to wait for some memory */
    mend_fit fit;
    uint64_t broken_bytes;  /* sizes of the chunks that are no longer empty then. 0: none is */
    uint64_t allowed_bytes; /* of these, the most that the block may leave free */
} choice;

static inline void compare(const mend_heap *heap, const mend_request *request, mend_run *run,
                           uint64_t address, uint64_t broken_bytes, choice *best)
{
    if (broken_bytes >= best->broken_bytes) {
        return;
    }
    if (best->allowed_bytes != UINT64_MAX) { /* in the empty chunks of its begin and end */
        const uint64_t end = address + request->size_bytes;
        const mend_chunk *first = mend_run_chunk_at(heap, run, address);
        const mend_chunk *last = mend_run_chunk_at(heap, run, end - 1);
        const uint64_t wasted_bytes =
            (mend_chunk_is_empty(first) ? address - first->address : 0) +
            (mend_chunk_is_empty(last) ? last->address + last->size_bytes - end : 0);
        if (wasted_bytes > best->allowed_bytes) {
            return;
        }
    }
    best->fit = (mend_fit){run, address};
    best->broken_bytes = broken_bytes;
}

static inline bool is_ready_for(mend_heap *heap, const mend_request *request, mend_run *run,
                                uint64_t address, const choice *best)
{
    return mend_layout_suits(heap, request, run, address, address + request->size_bytes) &&
           (!best->waits_matter ||
            mend_layout_find_blocked(heap, run, address, request->size_bytes, request->stream,
                                     request->behind_wait) == NULL);
}

/* Compares the places at both ends of a run, in one walk over its chunks: the places overlap if the
 * run is smaller than two such blocks. */
static inline void compare_ends(mend_heap *heap, const mend_request *request, mend_run *run,
                                uint64_t start, uint64_t end, choice *best)
{
    const uint64_t start_end = start + request->size_bytes;
    const bool is_ready_there = is_ready_for(heap, request, run, start, best);
    const uint64_t least_bytes = best->waits_matter ? UINT64_MAX : best->broken_bytes;
    uint64_t at_start_bytes = 0;
    uint64_t at_end_bytes = 0;
    const mend_chunk *chunk = start - run->chunk->address < run->chunk->size_bytes
                                  ? run->chunk
                                  : mend_run_chunk_at(heap, run, start);
    uint64_t chunk_end = chunk->address;
    for (const mend_chunk *at = chunk; chunk_end < start_end; at = mend_chunk_next(at)) {
        chunk_end += at->size_bytes;
        if (mend_chunk_is_empty(at)) {
            at_start_bytes += at->size_bytes;
            at_end_bytes += chunk_end > end ? at->size_bytes : 0;
            if (at_end_bytes >= least_bytes) {
                return; /* a block at the start breaks more */
            }
        }
        chunk = at;
    }
    if (is_ready_there) {
        compare(heap, request, run, start, at_start_bytes, best);
    }
    if (start == end || best->broken_bytes == 0 || !is_ready_for(heap, request, run, end, best)) {
        return;
    }
    if (chunk_end < end) {
        chunk = mend_run_chunk_at(heap, run, end);
        chunk_end = chunk->address;
    } else {
        chunk = mend_chunk_next(chunk);
    }
    for (; chunk_end < end + request->size_bytes && at_end_bytes < best->broken_bytes;
         chunk = mend_chunk_next(chunk)) {
        chunk_end += chunk->size_bytes;
        at_end_bytes += mend_chunk_is_empty(chunk) ? chunk->size_bytes : 0;
    }
    compare(heap, request, run, end, at_end_bytes, best);
}

/* Compares both ends of the smallest runs that fit, by the bytes of empty chunks that they would
 * break. Skips places that waste more than allowed. While a place may waste anything, runs above
 * two such blocks stay whole for larger requests, which would move chunks. */
static mend_fit keep_empty_fit(mend_heap *heap, const mend_request *request, const mend_zone *zone,
                               uint64_t allowed_bytes)
{
    choice best = {.waits_matter = mend_layout_stamps_matter(heap, request->stream),
                   .broken_bytes = UINT64_MAX,
                   .allowed_bytes = allowed_bytes};
    const uint64_t largest_bytes =
        allowed_bytes < UINT64_MAX ? UINT64_MAX : 2 * request->size_bytes;
    mend_run *run = mend_sizes_at_least(&zone->runs_by_size, request->size_bytes);
    for (int tries = 0; run != NULL && tries < SEARCH_TRIES && best.broken_bytes > 0 &&
                        run->size_bytes <= largest_bytes;
         tries++) {
        mend_run *next = mend_sizes_next(&zone->runs_by_size, run);
        if (next != NULL) {
            __builtin_prefetch(next->chunk);
        }
        const uint64_t last = mend_run_end(run) - request->size_bytes;
        const uint64_t start = mend_align_up(run->address, request->alignment_bytes);
        if (start <= last) {
            compare_ends(heap, request, run, start, mend_align_down(last, request->alignment_bytes),
                         &best);
        }
        run = next;
    }
    return best.fit;
}

mend_fit mend_fit_find(mend_heap *heap, const mend_request *request, int zone_number,
                       uint64_t largest_bytes)
{
    const mend_zone *zone = &heap->zones[zone_number];
    assert(request->size_bytes % MEND_GRANULE_BYTES == 0);
    assert(mend_is_power_of_two(request->alignment_bytes));
    if (request->in_one_chunk) {
        return fit_in_empty(heap, request, zone_number, largest_bytes);
    }
    if (request->zone == MEND_ZONE_LARGE &&
        (heap->caching.closings == 0 ? heap->caching.keeps_empty_chunks /* an open cache knows */
                                     : mend_budget_is_pressed(heap))) {
        uint64_t allowed_bytes = mend_budget_waste_allowed(heap, request);
        mend_fit fit = keep_empty_fit(heap, request, zone, allowed_bytes);
        if (fit.run != NULL || allowed_bytes < UINT64_MAX) {
            return fit;
        }
    }
    mend_fit fit = best_fit(heap, request, zone, largest_bytes);
    const bool may_hold = mend_streams_have_unfenced(&heap->streams) ||
                          heap->graph_pools.count > 0 || request->stream == MEND_STREAM_UNKNOWN;
    return fit.run == NULL && request->behind_wait == 0 && may_hold
               ? mend_fit_find_between(heap, request, zone_number, largest_bytes)
               : fit;
}

mend_fit mend_fit_find_anywhere(mend_heap *heap, const mend_request *request, int zone_number)
{
    const mend_zone *zone = &heap->zones[zone_number];
    if (request->in_one_chunk) {
        return fit_in_empty(heap, request, zone_number, UINT64_MAX);
    }
    mend_run *run = mend_sizes_at_least(&zone->runs_by_size, request->size_bytes);
    for (; run != NULL; run = mend_sizes_next(&zone->runs_by_size, run)) {
        uint64_t address;
        if (find_stretch(heap, request, run, UINT64_MAX, &address)) {
            return (mend_fit){run, address};
        }
    }
    return (mend_fit){0};
}
