/*
 * The process's use of the device: sums whose parts change at different times, with their peaks.
 *
 * A row is a counter of live blocks and an addend: use outside of the pool, sleeping or host memory
 * (below 0), freed blocks that another stream still uses. Counters change with every call, and
 * raise their own peaks. Addends change seldom. While an addend stays, the peak of a sum is the
 * counter's peak and the addend. Before it changes, the peaks are put aside, and the counters'
 * begin again.
 */
#include "layout/layout.h"
#include "mend/mend_frameworks.h"

#include <string.h>

/* The counter of a row. MEND_USE_COUNTERS: none, the row is reserved memory. */
static const int counter_of[MEND_USAGE_ROWS] = {
    [MEND_USAGE_BLOCKS] = MEND_USE_BLOCKS,
    [MEND_USAGE_ACTIVE_BLOCKS] = MEND_USE_BLOCKS,
    [MEND_USAGE_BYTES] = MEND_USE_BYTES,
    [MEND_USAGE_ACTIVE_BYTES] = MEND_USE_BYTES,
    [MEND_USAGE_REQUESTED_BYTES] = MEND_USE_REQUESTED,
    [MEND_USAGE_RESERVED_BYTES] = MEND_USE_COUNTERS,
    [MEND_USAGE_CHUNKS] = MEND_USE_COUNTERS,
};

typedef struct counter {
    uint64_t now;
    uint64_t *peak;
} counter;

static counter counter_in(mend_heap *heap, int number, int part)
{
    mend_heap_counters *all = &heap->counters;
    const int zone = part == MEND_USAGE_SMALL ? MEND_ZONE_SMALL : MEND_ZONE_LARGE;
    mend_zone_counters *of = &heap->zones[zone].counters;
    const bool is_all = part == MEND_USAGE_ALL;
    if (number == MEND_USE_BLOCKS) {
        return is_all ? (counter){MEND_HEAP_SUM(heap, live_blocks), &all->peak_live_blocks}
                      : (counter){of->live_blocks, &of->peak_live_blocks};
    }
    if (number == MEND_USE_BYTES) {
        return is_all ? (counter){all->live_bytes, &all->peak_live_bytes}
                      : (counter){of->live_bytes, &of->peak_live_bytes};
    }
    return is_all ? (counter){MEND_HEAP_SUM(heap, requested_bytes), &all->peak_requested_bytes}
                  : (counter){of->requested_bytes, &of->peak_requested_bytes};
}

/* The reserved memory, of a row without a counter. */
static uint64_t held(const mend_heap *heap, int row, int part)
{
    const uint64_t small_bytes = mend_heap_reserved_in(heap, MEND_ZONE_SMALL);
    if (row == MEND_USAGE_CHUNKS) {
        return part == MEND_USAGE_ALL ? heap->chunks.all.count : 0;
    }
    const uint64_t all_bytes = heap->chunks.reserved_bytes + mend_heap_passed_bytes(heap);
    return part == MEND_USAGE_ALL     ? all_bytes
           : part == MEND_USAGE_SMALL ? small_bytes
                                      : all_bytes - small_bytes;
}

/* Bytes of live blocks that sleep or are on the host. `with_pages`: and of pages. */
static uint64_t away_bytes(const mend_heap *heap, int part, bool with_pages)
{
    const uint64_t *in = heap->chunks.away_live_in;
    const uint64_t of_large = in[MEND_ZONE_LARGE] + (with_pages ? in[MEND_ZONE_RANGE] : 0);
    return (part != MEND_USAGE_LARGE ? in[MEND_ZONE_SMALL] : 0) +
           (part != MEND_USAGE_SMALL ? of_large : 0);
}

/* The addend of a row, which may be negative. Pages of ranges, and blocks that are passed through,
 * are in the counter of all, and belong to the large part. Sleeping memory is known in rounded
 * sizes. */
static uint64_t beside(const mend_heap *heap, int row, int part)
{
    const mend_usage_state *usage = &heap->usage;
    const int number = counter_of[row];
    uint64_t sum = usage->outside[row][part];
    if (number == MEND_USE_COUNTERS) {
        return sum;
    }
    if (part == MEND_USAGE_LARGE) {
        const mend_zone_counters *passed = &heap->zones[MEND_ZONE_PASSED].counters;
        sum += number == MEND_USE_BLOCKS  ? passed->live_blocks
               : number == MEND_USE_BYTES ? passed->live_bytes
                                          : passed->requested_bytes;
        sum += number == MEND_USE_BYTES ? heap->zones[MEND_ZONE_RANGE].counters.live_bytes : 0;
    }
    sum -= number != MEND_USE_BLOCKS ? away_bytes(heap, part, number == MEND_USE_BYTES) : 0;
    sum += row == MEND_USAGE_ACTIVE_BLOCKS ? usage->pending_blocks[part] : 0;
    return sum + (row == MEND_USAGE_ACTIVE_BYTES ? usage->pending_bytes[part] : 0);
}

static uint64_t sum_of(uint64_t count, uint64_t beside_bytes)
{
    const int64_t sum = (int64_t)(count + beside_bytes);
    return sum > 0 ? (uint64_t)sum : 0;
}

/* Puts the peaks aside, of rows and of counters, whose own begin again. */
static void put_aside(mend_heap *heap)
{
    mend_usage_state *usage = &heap->usage;
    for (int part = 0; part < MEND_USAGE_PARTS; part++) {
        for (int row = 0; row < MEND_USAGE_ROWS; row++) {
            if (counter_of[row] != MEND_USE_COUNTERS) {
                const counter of = counter_in(heap, counter_of[row], part);
                mend_raise_u64(&usage->peak[row][part], sum_of(*of.peak, usage->beside[row][part]));
            }
        }
        for (int i = 0; i < MEND_USE_COUNTERS; i++) {
            const counter of = counter_in(heap, i, part);
            mend_raise_u64(&usage->counter_peak[i][part], *of.peak);
            *of.peak = of.now;
        }
    }
}

void mend_usage_note(mend_heap *heap)
{
    mend_usage_state *usage = &heap->usage;
    uint64_t now[MEND_USAGE_ROWS][MEND_USAGE_PARTS];
    for (int row = 0; row < MEND_USAGE_ROWS; row++) {
        for (int part = 0; part < MEND_USAGE_PARTS; part++) {
            now[row][part] = beside(heap, row, part);
        }
    }
    if (memcmp(now, usage->beside, sizeof(now)) != 0) {
        put_aside(heap);
        memcpy(usage->beside, now, sizeof(now));
    }
    for (int part = 0; part < MEND_USAGE_PARTS; part++) {
        for (int row = MEND_USAGE_RESERVED_BYTES; row <= MEND_USAGE_CHUNKS; row++) {
            mend_raise_u64(&usage->peak[row][part], sum_of(held(heap, row, part), now[row][part]));
        }
    }
}

void mend_layout_note_peaks(mend_heap *heap, bool resets)
{
    mend_heap_counters *counters = &heap->counters;
    if (resets) {
        mend_usage_note(heap);
        put_aside(heap); /* the counters' peaks are their present values */
        memset(heap->usage.peak, 0, sizeof(heap->usage.peak));
        memset(heap->usage.counter_peak, 0, sizeof(heap->usage.counter_peak));
        counters->peak_reserved_bytes = counters->peak_mappings = counters->peak_chunks = 0;
        mend_zone_counters *pages = &heap->zones[MEND_ZONE_RANGE].counters;
        pages->peak_live_bytes = pages->live_bytes;
        if (mend_events_has(&heap->events, MEND_TOLD_PEAKS)) {
            mend_events_put(&heap->events, &(mend_history_event){.kind = MEND_TOLD_PEAKS});
        }
    }
    mend_raise_u64(&counters->peak_reserved_bytes,
                   heap->chunks.reserved_bytes + mend_heap_passed_bytes(heap));
    mend_raise_u64(&counters->peak_mappings, mend_heap_mappings(heap));
    mend_raise_u64(&counters->peak_chunks, heap->chunks.all.count);
    for (int i = 0; i < MEND_ZONE_COUNT; i++) {
        uint64_t *peak_bytes = &heap->zones[i].counters.peak_reserved_bytes;
        *peak_bytes = mend_max_u64(resets ? 0 : *peak_bytes, mend_heap_reserved_in(heap, i));
    }
    mend_usage_note(heap);
}

uint64_t mend_usage_counter_peak(const mend_heap *heap, int number, int part)
{
    const counter of = counter_in((mend_heap *)heap, number, part); /* which is not written */
    return mend_max_u64(heap->usage.counter_peak[number][part], *of.peak);
}

void mend_usage_set_outside(mend_heap *heap, const mend_usage *outside)
{
    memcpy(heap->usage.outside, outside->now, sizeof(outside->now));
    mend_usage_note(heap);
}

void mend_usage_fill(mend_heap *heap, mend_usage *to)
{
    const mend_usage_state *usage = &heap->usage;
    mend_usage_note(heap);
    for (int row = 0; row < MEND_USAGE_ROWS; row++) {
        for (int part = 0; part < MEND_USAGE_PARTS; part++) {
            const bool is_held = counter_of[row] == MEND_USE_COUNTERS;
            const counter of = is_held ? (counter){held(heap, row, part), NULL}
                                       : counter_in(heap, counter_of[row], part);
            const uint64_t peak = is_held ? 0 : sum_of(*of.peak, usage->beside[row][part]);
            to->now[row][part] = sum_of(of.now, usage->beside[row][part]);
            to->peak[row][part] = mend_max_u64(usage->peak[row][part], peak);
        }
    }
}

/* ---- freed, and still used by another stream ------------------------------------------------- */

static void count_pending(mend_heap *heap, const mend_span *span, uint64_t one)
{
    mend_usage_state *usage = &heap->usage;
    const int part = span->zone == MEND_ZONE_SMALL ? MEND_USAGE_SMALL : MEND_USAGE_LARGE;
    usage->pending_blocks[MEND_USAGE_ALL] += one;
    usage->pending_blocks[part] += one;
    usage->pending_bytes[MEND_USAGE_ALL] += one * span->size_bytes;
    usage->pending_bytes[part] += one * span->size_bytes;
}

/* Whether the stream that freed it may not use it yet. Memory of graphs is reserved for them, and
 * waits for no other stream. */
static bool waits_for_another(const mend_heap *heap, const mend_span *span)
{
    const mend_streams *streams = &heap->streams;
    for (const mend_wait *at = &span->waits.all; at != NULL; at = at->next) {
        if (at->stamp.epoch != 0 && streams->items[at->stamp.stream].graph_pool == 0 &&
            !mend_stamp_is_ready(streams, at->stamp, span->freed_on)) {
            return true;
        }
    }
    return false;
}

void mend_usage_end_pending(mend_heap *heap, mend_span *span)
{
    if (mend_span_is_pending(span)) {
        count_pending(heap, span, UINT64_MAX); /* which is -1 */
        mend_list_remove(&span->pending);
        span->pending.next = NULL;
        mend_usage_note(heap);
    }
}

bool mend_usage_look(mend_heap *heap, mend_span *span)
{
    if (mend_span_is_pending(span) && !waits_for_another(heap, span)) {
        mend_usage_end_pending(heap, span);
    }
    return mend_span_is_pending(span);
}

void mend_usage_begin_pending(mend_heap *heap, mend_span *span, uint32_t freed_on)
{
    enum { LOOKS = 2 }; /* at the first freed ones, so that the list does not grow for ever */
    mend_list *list = &heap->usage.pending;
    assert(!span->live && !mend_span_is_pending(span));
    for (int i = 0; i < LOOKS && !mend_list_is_empty(list); i++) {
        if (mend_usage_look(heap, MEND_CONTAINER_OF(list->next, mend_span, pending))) {
            break;
        }
    }
    span->freed_on = freed_on;
    if (heap->streams.items[freed_on].graph_pool == 0 && waits_for_another(heap, span)) {
        mend_list_append(list, &span->pending);
        count_pending(heap, span, 1);
        mend_usage_note(heap);
    }
}

void mend_usage_settle(mend_heap *heap)
{
    mend_list *list = &heap->usage.pending;
    for (mend_list *at = list->next, *next; at != list; at = next) {
        next = at->next;
        (void)mend_usage_look(heap, MEND_CONTAINER_OF(at, mend_span, pending));
    }
}
