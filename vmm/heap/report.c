#include "heap/report.h"

#include <stdio.h>

#include "base/error.h"
#include "heap/attainable.h"
#include "heap/layout.h"
#include "heap/scarcity.h"

#define RUN_OF(node) MEND_CONTAINER_OF(node, mend_run, by_address)
#define LLU(value)   ((unsigned long long)(value))

static unsigned holds_of(const mend_heap *heap, const mend_request *request, const mend_span *span)
{
    return mend_waits_hold(&heap->streams, &span->waits, request->stream);
}

/* ---- what is free, and why it does not serve
 * -----------------------------------------------------
 */

static void count_holds(const mend_heap *heap, const mend_request *request, mend_report *report)
{
    for (int zone = 0; zone < MEND_ZONE_COUNT; zone++) {
        const mend_tree_node *at = mend_tree_first(&heap->zones[zone].runs_by_address);
        for (; at != NULL; at = mend_tree_next(at)) {
            const mend_span *end = RUN_OF(at)->last->next;
            for (const mend_span *span = RUN_OF(at)->first; span != end; span = span->next) {
                unsigned holds = holds_of(heap, request, span);
                if (holds & MEND_HELD_BY_GROUPS) {
                    report->in_group += span->size_bytes;
                } else if (holds & MEND_HELD_UNTIL_WAIT) {
                    report->streamless += span->size_bytes;
                } else if (holds & MEND_HELD_BY_STREAMS) {
                    report->in_use += span->size_bytes;
                }
            }
        }
    }
}

/* The bytes of a run's wholly free chunks that nothing but `holds` keeps from the request. */
static uint64_t whole_bytes_of(const mend_heap *heap, const mend_request *request,
                               const mend_run *run, unsigned holds)
{
    uint64_t bytes = 0;
    const mend_span *span = run->first;
    const mend_chunk *chunk = mend_chunk_at(&heap->chunks, run->address);
    for (; chunk != NULL && chunk->address < mend_run_end(run); chunk = mend_chunk_next(chunk)) {
        bool is_usable = mend_chunk_is_whole(chunk);
        uint64_t end = chunk->address + chunk->size_bytes;
        while (is_usable && mend_span_end(span) <= chunk->address) {
            span = span->next;
        }
        for (const mend_span *in = span; is_usable && in != NULL && in->address < end;
             in = in->next) {
            is_usable = (holds_of(heap, request, in) & ~holds) == 0;
        }
        bytes += is_usable ? chunk->size_bytes : 0;
    }
    return bytes;
}

/* The request has its place in a run, as far as nothing but `holds` keeps it from there. */
static bool fits_in_run(const mend_heap *heap, const mend_request *request, const mend_run *run,
                        unsigned holds)
{
    uint64_t start = mend_align_up(run->address, request->alignment_bytes);
    for (const mend_span *span = run->first;; span = span->next) {
        uint64_t end = mend_span_end(span);
        if ((holds_of(heap, request, span) & ~holds) != 0) {
            start = mend_align_up(end, request->alignment_bytes);
        } else if (end > start && end - start >= request->size_bytes) {
            return true;
        }
        if (span == run->last) {
            return false;
        }
    }
}

/* Looks at all that nothing but `holds` keeps from the request: true when it fits into a run of it;
 * *whole_bytes are those of wholly free chunks, which can be joined. */
static bool look_past(const mend_heap *heap, const mend_request *request, unsigned holds,
                      uint64_t *whole_bytes)
{
    bool fits = false;
    *whole_bytes = heap->chunks.unmapped_bytes;
    for (int zone = 0; zone < MEND_ZONE_COUNT; zone++) {
        const mend_tree_node *at = mend_tree_first(&heap->zones[zone].runs_by_address);
        bool may_lie_here = zone >= request->zone; /* small ones in both */
        for (; at != NULL; at = mend_tree_next(at)) {
            *whole_bytes += whole_bytes_of(heap, request, RUN_OF(at), holds);
            fits = fits || (may_lie_here && fits_in_run(heap, request, RUN_OF(at), holds));
        }
    }
    return fits;
}

/* The chunk with most free bytes among those partly used, and one block that holds it. */
static const mend_span *emptiest_holder(const mend_heap *heap, uint64_t *free_most_bytes)
{
    const mend_chunk *emptiest = NULL;
    *free_most_bytes = 0;
    for (mend_tree_node *at = mend_tree_first(&heap->chunks.mapped); at != NULL;
         at = mend_tree_next(at)) {
        const mend_chunk *chunk = MEND_CONTAINER_OF(at, mend_chunk, by_address);
        uint64_t bytes = chunk->size_bytes - chunk->live_bytes;
        if (chunk->live_bytes != 0 && bytes > *free_most_bytes) {
            *free_most_bytes = bytes;
            emptiest = chunk;
        }
    }
    if (emptiest == NULL) {
        return NULL;
    }
    const mend_span *span = mend_heap_span_at(heap, emptiest->address + emptiest->size_bytes - 1);
    while (!span->live) {
        span = span->previous;
    }
    return span;
}

/* ---- what would help ----------------------------------------------------------------------------
 */

bool mend_report_is_hopeless(const mend_heap *heap, const mend_request *request)
{
    uint64_t most_bytes = mend_max_u64(mend_attainable_limit(heap), heap->chunks.reserved_bytes);
    return request->size_bytes > most_bytes - heap->counters.live_bytes;
}

/* The request would find room if `holds` kept it from nothing. */
static bool would_fit_without(const mend_heap *heap, const mend_request *request, unsigned holds)
{
    uint64_t whole_bytes;
    bool fits = look_past(heap, request, holds, &whole_bytes);
    uint64_t reserved_bytes = heap->chunks.reserved_bytes;
    uint64_t limit_bytes = heap->config.limit_bytes;
    uint64_t room_bytes = limit_bytes > reserved_bytes ? limit_bytes - reserved_bytes : 0;
    room_bytes = heap->shortage.refused_bytes > 0 ? 0 : room_bytes;
    return fits || whole_bytes + room_bytes >= request->size_bytes;
}

uint64_t mend_report_missing_bytes(const mend_heap *heap, const mend_request *request)
{
    uint64_t whole_bytes;
    uint64_t page = heap->device.granularity_bytes;
    look_past(heap, request, 0, &whole_bytes);
    uint64_t there_bytes = whole_bytes + mend_align_down(mend_heap_room_bytes(heap), page);
    uint64_t size_bytes = request->size_bytes;
    return size_bytes > there_bytes ? mend_align_up(size_bytes - there_bytes, page) : page;
}

/* The lowest limit under which the request would have been served; 0 when none would do. */
static uint64_t sufficient_limit(const mend_heap *heap, const mend_request *request)
{
    uint64_t whole_bytes;
    look_past(heap, request, 0, &whole_bytes);
    if (whole_bytes >= request->size_bytes) {
        return 0;
    }
    uint64_t missing_bytes =
        mend_align_up(request->size_bytes - whole_bytes, heap->device.granularity_bytes);
    uint64_t limit_bytes = heap->chunks.reserved_bytes + missing_bytes;
    bool is_possible = limit_bytes <= heap->device.total_bytes &&
                       missing_bytes <= heap->shortage.device_free_bytes;
    return is_possible ? limit_bytes : 0;
}

static const char *advice_in_words(const mend_heap *heap, const mend_request *request)
{
    if (request->size_bytes > heap->device.total_bytes) {
        return "The device is smaller than the request.";
    }
    if (would_fit_without(heap, request, MEND_HELD_BY_GROUPS)) {
        return "Releasing groups whose graphs are launched no more would help.";
    }
    if (would_fit_without(heap, request, MEND_HELD_BY_STREAMS | MEND_HELD_UNTIL_WAIT)) {
        return "Ending the capture under way would help: what was freed can be waited for then.";
    }
    if (would_fit_without(heap, request,
                          MEND_HELD_BY_STREAMS | MEND_HELD_UNTIL_WAIT | MEND_HELD_BY_GROUPS)) {
        return "Ending the capture under way and releasing groups would help.";
    }
    if (heap->shortage.refused_bytes > 0) {
        return heap->shortage.device_free_bytes < heap->shortage.refused_bytes
                   ? "The device itself has no memory left: others hold it."
                   : "The driver refuses memory that it counts as free.";
    }
    if (request->size_bytes > heap->config.limit_bytes) {
        return "The limit is below the request, and the device has no memory left to raise it.";
    }
    return mend_report_is_hopeless(heap, request)
               ? "Only fewer live bytes would help."
               : "What is free lies beside live blocks: freeing some of them would help.";
}

static void advise(const mend_heap *heap, const mend_request *request, mend_report *report)
{
    bool is_limited =
        heap->shortage.refused_bytes == 0 &&
        !would_fit_without(heap, request,
                           MEND_HELD_BY_STREAMS | MEND_HELD_UNTIL_WAIT | MEND_HELD_BY_GROUPS);
    uint64_t limit_bytes = is_limited ? sufficient_limit(heap, request) : 0;
    if (limit_bytes > 0) {
        snprintf(report->advice, sizeof(report->advice),
                 "A limit of %llu, or fewer live bytes, would help.", LLU(limit_bytes));
    } else {
        snprintf(report->advice, sizeof(report->advice), "%s", advice_in_words(heap, request));
    }
}

/* ---- the report ---------------------------------------------------------------------------------
 */

mend_result mend_report_fail(const mend_report *report)
{
    char holder[112] = "";
    if (report->holder != 0) {
        snprintf(holder, sizeof(holder),
                 " Emptiest chunk in use: %llu free, held by 0x%llx (%llu bytes).",
                 LLU(report->emptiest), LLU(report->holder), LLU(report->holder_bytes));
    }
    return mend_fail(
        MEND_ERROR_OUT_OF_MEMORY,
        "no room for %llu bytes: limit %llu, reserved %llu, live %llu, free %llu (%llu in wholly "
        "free chunks, %llu beside live blocks); of the free, %llu wait for streams, %llu for the "
        "context, %llu for groups.%s Device: %llu free, %llu held by others. %s",
        LLU(report->requested), LLU(report->limit), LLU(report->reserved), LLU(report->live),
        LLU(report->whole + report->partial), LLU(report->whole), LLU(report->partial),
        LLU(report->in_use), LLU(report->streamless), LLU(report->in_group), holder,
        LLU(report->device_free), LLU(report->device_others), report->advice);
}

mend_result mend_report_out_of_memory(const mend_heap *heap, const mend_request *request)
{
    uint64_t whole_bytes = heap->chunks.whole_bytes;
    mend_report report = {
        .requested = request->requested_bytes,
        .limit = heap->config.limit_bytes,
        .reserved = heap->chunks.reserved_bytes,
        .live = heap->counters.live_bytes,
        .whole = whole_bytes,
        .partial = heap->chunks.reserved_bytes - heap->counters.live_bytes - whole_bytes,
        .device_free = heap->shortage.device_free_bytes,
        .device_others = heap->shortage.others_bytes,
    };
    count_holds(heap, request, &report);
    const mend_span *holder = emptiest_holder(heap, &report.emptiest);
    if (holder != NULL) {
        report.holder = holder->address;
        report.holder_bytes = holder->size_bytes;
    }
    advise(heap, request, &report);
    return mend_report_fail(&report);
}
