/* The moments of a run: its peak, its last failure, the end of its work, and the memory of each
 * owner then. */
#include "lab/report/moments.h"

#include <stdlib.h>

#include "base/align.h"
#include "base/error.h"

/* The peak, and the highest live memory of equal parts of the run. */
static void find_peak(mend_report *report)
{
    const mend_trace *trace = report->trace;
    uint64_t live_bytes = 0;
    for (size_t i = 0; i < trace->event_count; i++) {
        const mend_trace_event *event = &trace->events[i];
        uint64_t bytes = mend_report_bytes(event);
        size_t column = i * MEND_REPORT_COLUMNS / trace->event_count;
        const size_t next = (i + 1) * MEND_REPORT_COLUMNS / trace->event_count;
        uint64_t *highest = report->highest;
        highest[column] = mend_max_u64(highest[column], live_bytes);
        live_bytes = event->is_alloc ? live_bytes + bytes : live_bytes - bytes;
        do { /* of few events each has several columns */
            highest[column] = mend_max_u64(highest[column], live_bytes);
        } while (++column < next);
        if (live_bytes > report->peak_bytes) {
            report->peak_bytes = live_bytes;
            report->peak_event = i;
        }
    }
}

/* A program that ends frees all its memory: events after the last allocation with half of the peak
 * live are no part of its work. */
static uint64_t find_end(const mend_report *report)
{
    const mend_trace *trace = report->trace;
    uint64_t live_bytes = 0;
    uint64_t end = trace->event_count;
    for (size_t i = 0; i < trace->event_count; i++) {
        const mend_trace_event *event = &trace->events[i];
        uint64_t bytes = mend_report_bytes(event);
        live_bytes = event->is_alloc ? live_bytes + bytes : live_bytes - bytes;
        bool is_work = event->is_alloc && live_bytes >= report->peak_bytes - live_bytes;
        end = is_work ? i + 1 : end;
    }
    return end;
}

/* The highest sum of reserved memory, and the device's size as the last failure shows it.
 */
static void find_held(mend_report *report)
{
    const mend_trace_detail *detail = &report->detail;
    uint64_t held_bytes = 0;
    report->knows_held = detail->segment_count > detail->wait_count;
    for (size_t i = 0; i <= detail->segment_count; i++) {
        const mend_trace_refusal *failure = &report->failure;
        if (report->has_failed && failure->segments == i && report->capacity_bytes == 0 &&
            failure->free_bytes != UINT64_MAX && report->knows_held) {
            report->capacity_bytes = held_bytes + failure->free_bytes;
        }
        if (i == detail->segment_count) {
            break;
        }
        const mend_trace_segment *segment = &detail->segments[i];
        bool is_from_before = segment->is_taken && segment->event == 0 && detail->before_events > 0;
        if (segment->is_place || segment->is_wait) {
            continue;
        }
        if (segment->is_taken) {
            held_bytes += segment->size_bytes;
            report->taken += !is_from_before;
        } else {
            held_bytes -= mend_min_u64(held_bytes, segment->size_bytes);
            report->given++;
        }
        report->peak_held_bytes = mend_max_u64(report->peak_held_bytes, held_bytes);
    }
}

typedef struct ranked_owner {
    uint64_t bytes;
    uint64_t peak_bytes;
    uint32_t number;
} ranked_owner;

static int by_bytes(const void *a, const void *b)
{
    const ranked_owner *one = a;
    const ranked_owner *other = b;
    if (one->bytes != other->bytes) {
        return one->bytes > other->bytes ? -1 : 1;
    }
    if (one->peak_bytes != other->peak_bytes) {
        return one->peak_bytes > other->peak_bytes ? -1 : 1;
    }
    return (one->number > other->number) - (one->number < other->number);
}

/* The largest owners at the moment or at the peak have letters, in the order of the moment. */
static mend_result rank(mend_report *report)
{
    report->order = calloc(report->owner_count + 1, sizeof(uint32_t));
    ranked_owner *ranked = calloc(report->owner_count + 1, sizeof(*ranked));
    if (report->order == NULL || ranked == NULL) {
        free(ranked);
        return mend_fail(MEND_ERROR_OUT_OF_HOST_MEMORY, "no host memory for the report");
    }
    for (int is_order = 0; is_order < 2; is_order++) {
        for (size_t i = 0; i < report->owner_count; i++) {
            const mend_report_owner *owner = &report->owners[i];
            const uint64_t most_bytes = mend_max_u64(owner->bytes, owner->peak_bytes);
            ranked[i] = (ranked_owner){is_order ? owner->bytes : most_bytes, owner->peak_bytes,
                                       (uint32_t)i};
        }
        qsort(ranked, report->owner_count, sizeof(*ranked), by_bytes);
        for (size_t i = 0; i < MEND_REPORT_LETTERS && i < report->owner_count && !is_order; i++) {
            report->owners[ranked[i].number].letter = 'A';
        }
    }
    char next = 'A';
    for (size_t i = 0; i < report->owner_count; i++) {
        report->order[i] = ranked[i].number;
        char *letter = &report->owners[ranked[i].number].letter;
        if (*letter != 0) {
            *letter = next++;
        }
    }
    free(ranked);
    return MEND_OK;
}

/* Whether the free of a block that is live at the failure was asked for before it. */
static bool waits(const mend_report *report, uint32_t block)
{
    const mend_trace_detail *detail = &report->detail;
    const uint64_t asked = block < detail->place_count ? detail->places[block].asked_behind : 0;
    const uint64_t before_failure =
        report->failure.event + report->failure.segments + report->failures - 1;
    return report->has_failed && asked > 0 && asked <= before_failure;
}

static void sum_up(mend_report *report)
{
    const mend_trace *trace = report->trace;
    for (size_t i = 0; i < trace->event_count; i++) {
        const mend_trace_event *event = &trace->events[i];
        if (!event->is_alloc) {
            continue;
        }
        uint64_t bytes = mend_report_bytes(event);
        uint32_t died = report->died[event->block];
        mend_report_owner *owner = &report->owners[report->owner_of[event->block]];
        if (i <= report->peak_event && died > report->peak_event) {
            owner->peak_bytes += bytes;
        }
        if (i < report->moment_events && died >= report->moment_events) {
            owner->oldest_event = owner->blocks == 0 ? i : owner->oldest_event;
            owner->bytes += bytes;
            owner->blocks++;
            if (waits(report, event->block)) {
                owner->waiting_bytes += bytes;
                owner->waiting_blocks++;
                owner->waiting_stream = trace->stream_names[event->stream];
            }
            report->live_bytes += bytes;
        }
    }
}

mend_result mend_report_find_moments(mend_report *report)
{
    const mend_trace_detail *detail = &report->detail;
    find_peak(report);
    report->failures = detail->refusal_count;
    report->has_failed = detail->refusal_count > 0;
    report->end_events = find_end(report);
    report->moment_events = report->peak_event + 1;
    if (report->has_failed) {
        report->failure = detail->refusals[detail->refusal_count - 1];
        report->end_events = report->failure.event;
        report->moment_events = report->failure.event;
    }
    find_held(report);
    sum_up(report);
    return rank(report);
}
