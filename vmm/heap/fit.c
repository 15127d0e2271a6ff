#include "heap/fit.h"

#include "heap/plan.h"

/* How many runs that fit are looked at for one the stream may use. */
enum { FIT_TRIES = 24 };

/* When room is scarce: how many runs are compared, and up to how many times the request's size. A
 * larger run is not worth being broken for the sake of a chunk (docs/benchmarks.md). */
enum { SPARING_TRIES = 8, SPARING_SIZE_FACTOR = 4 };

static bool is_ready(mend_heap *heap, const mend_request *request, mend_run *run, uint64_t address)
{
    return address >= run->address && address + request->size_bytes <= mend_run_end(run) &&
           mend_layout_is_ready(heap, run, address, request->size_bytes, request->stream,
                                request->behind_wait);
}

static mend_fit best_fit(mend_heap *heap, const mend_request *request, const mend_zone *zone,
                         uint64_t largest_bytes)
{
    mend_run *run = mend_layout_run_at_least(zone, request->size_bytes);
    for (int tries = 0; run != NULL && tries < FIT_TRIES && run->size_bytes <= largest_bytes;
         tries++) {
        uint64_t start = mend_align_up(run->address, request->alignment_bytes);
        if (is_ready(heap, request, run, start)) {
            return (mend_fit){run, start};
        }
        run = mend_layout_run_larger(run);
    }
    return (mend_fit){0};
}

/* Bytes of wholly free chunks that a block at the address would pin. */
static uint64_t pinned_bytes(const mend_heap *heap, uint64_t address, uint64_t size_bytes)
{
    uint64_t bytes = 0;
    const mend_chunk *chunk = mend_chunk_at(&heap->chunks, address);
    while (chunk != NULL && chunk->address < address + size_bytes) {
        bytes += mend_chunk_is_whole(chunk) ? chunk->size_bytes : 0;
        chunk = mend_chunk_next(chunk);
    }
    return bytes;
}

/* Compares both ends of the smallest runs that fit, by the wholly free chunks they would pin. */
static mend_fit sparing_fit(mend_heap *heap, const mend_request *request, const mend_zone *zone)
{
    mend_fit best = {0};
    uint64_t least_bytes = UINT64_MAX;
    mend_run *run = mend_layout_run_at_least(zone, request->size_bytes);
    for (int tries = 0; run != NULL && tries < SPARING_TRIES && least_bytes > 0 &&
                        run->size_bytes / SPARING_SIZE_FACTOR <= request->size_bytes;
         tries++) {
        uint64_t ends[] = {
            mend_align_up(run->address, request->alignment_bytes),
            mend_align_down(mend_run_end(run) - request->size_bytes, request->alignment_bytes)};
        for (int i = 0; i < 2; i++) {
            if (is_ready(heap, request, run, ends[i])) {
                uint64_t bytes = pinned_bytes(heap, ends[i], request->size_bytes);
                if (bytes < least_bytes) {
                    least_bytes = bytes;
                    best = (mend_fit){run, ends[i]};
                }
            }
        }
        run = mend_layout_run_larger(run);
    }
    return best;
}

mend_fit mend_fit_find(mend_heap *heap, const mend_request *request, int zone_number,
                       uint64_t largest_bytes)
{
    const mend_zone *zone = &heap->zones[zone_number];
    if (request->zone == MEND_ZONE_LARGE && !mend_plan_room_is_ample(heap)) {
        mend_fit fit = sparing_fit(heap, request, zone);
        if (fit.run != NULL) {
            return fit;
        }
    }
    return best_fit(heap, request, zone, largest_bytes);
}

/* Whether the run has a stretch that is ready and large enough, and where. */
static bool find_stretch(mend_heap *heap, const mend_request *request, mend_run *run,
                         uint64_t *address)
{
    mend_wait_room room = mend_heap_wait_room(heap);
    uint64_t start = run->address;
    mend_layout_tidy(heap, run);
    for (const mend_span *span = run->first;; span = span->next) {
        uint64_t end = mend_span_end(span);
        if (!mend_waits_are_ready(room, &span->waits, request->stream, request->behind_wait)) {
            start = end;
        }
        *address = mend_align_up(start, request->alignment_bytes);
        if (*address < end && end - *address >= request->size_bytes) {
            return true;
        }
        if (span == run->last) {
            return false;
        }
    }
}

mend_fit mend_fit_find_anywhere(mend_heap *heap, const mend_request *request, int zone_number)
{
    const mend_zone *zone = &heap->zones[zone_number];
    mend_run *run = mend_layout_run_at_least(zone, request->size_bytes);
    for (; run != NULL; run = mend_layout_run_larger(run)) {
        uint64_t address;
        if (find_stretch(heap, request, run, &address)) {
            return (mend_fit){run, address};
        }
    }
    return (mend_fit){0};
}
