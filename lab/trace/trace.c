#include "lab/trace/trace.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/align.h"
#include "base/error.h"
#include "lab/support/capacity.h"

void mend_trace_destroy(mend_trace *trace)
{
    if (trace == NULL) {
        return;
    }
    free(trace->name);
    free(trace->events);
    free(trace->stream_names);
    free(trace);
}

bool mend_trace_find_peak(mend_trace *trace)
{
    uint64_t live_bytes = 0;
    uint64_t peak_bytes = 0;
    for (size_t i = 0; i < trace->event_count; i++) {
        const mend_trace_event *event = &trace->events[i];
        const uint64_t bytes = mend_align_up(event->size_bytes, MEND_GRANULE_BYTES);
        if (!event->is_alloc) {
            live_bytes -= bytes;
            continue;
        }
        if (live_bytes + bytes > 8 * MEND_TRACE_MAX_SIZE_BYTES - 1) {
            return false;
        }
        live_bytes += bytes;
        peak_bytes =
            mend_trace_may_fail(trace, i) ? peak_bytes : mend_max_u64(peak_bytes, live_bytes);
    }
    trace->peak_live_bytes = peak_bytes;
    return true;
}

void mend_trace_tell_failures(const mend_trace *trace, char *text, size_t size)
{
    const size_t before = trace->failed_count - trace->failed_last;
    size_t length = 0;
    text[0] = 0;
    if (before > 0) {
        length = (size_t)snprintf(text, size,
                                  "In the recording %zu request%s failed, and the program went on. "
                                  "An allocator that cannot serve %s goes on, too.",
                                  before, before == 1 ? "" : "s", before == 1 ? "it" : "them");
    }
    if (trace->failed_last > 0 && length < size) {
        char bytes[32];
        mend_format_bytes(trace->last_failed_bytes, bytes, sizeof(bytes));
        snprintf(text + length, size - length,
                 "%sThe recording ended when a request of %s failed. "
                 "An allocator completes it only if it serves this request.",
                 length > 0 ? " " : "", bytes);
    }
}

mend_result mend_trace_scale(mend_trace *trace, double factor)
{
    if (!(factor > 0)) {
        return mend_fail(MEND_ERROR_INVALID_ARGUMENT, "a scale is a number above 0");
    }
    double most_granules = (double)MEND_TRACE_MAX_SIZE_BYTES / (double)MEND_GRANULE_BYTES;
    for (size_t i = 0; i < trace->event_count; i++) {
        mend_trace_event *event = &trace->events[i];
        double granules = ceil((double)event->size_bytes / factor / (double)MEND_GRANULE_BYTES);
        granules = granules > most_granules ? most_granules : granules;
        event->size_bytes = (uint64_t)granules * MEND_GRANULE_BYTES;
    }
    if (!mend_trace_find_peak(trace)) {
        return mend_fail(MEND_ERROR_INVALID_ARGUMENT,
                         "with that scale more than 2^63 bytes are live");
    }
    return MEND_OK;
}

static size_t without_ending(const char *text, size_t length, const char *ending)
{
    size_t ending_length = strlen(ending);
    bool ends_so =
        length > ending_length && memcmp(text + length - ending_length, ending, ending_length) == 0;
    return ends_so ? length - ending_length : length;
}

void mend_trace_short_name(const mend_trace *trace, char *text, size_t size)
{
    const char *name = trace->name;
    if (strchr(name, '?') == NULL && strrchr(name, '/') != NULL) {
        name = strrchr(name, '/') + 1;
    }
    size_t length = without_ending(name, strlen(name), ".gz");
    static const char *const endings[] = {".csv", ".pickle", ".json"};
    for (size_t i = 0; i < sizeof(endings) / sizeof(*endings); i++) {
        length = without_ending(name, length, endings[i]);
    }
    snprintf(text, size, "%.*s", (int)mend_min_u64(length, 4096), name);
}
