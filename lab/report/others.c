#include "lab/report/others.h"

#include <stdlib.h>
#include <string.h>

#include "base/align.h"
#include "base/error.h"
#include "lab/replay/replay.h"

/* A search ends when the least sufficient and the most insufficient size are this close, in parts
 * of the peak. A driver call costs as many events. */
enum { STEPS_IN_PEAK = 250, STEPS_ABOVE = 4, EVENTS_PER_CALL = 4, FIRST_OTHERS = 3 };

#define MOST_REQUEST_BYTES (UINT64_C(1) << 40) /* larger ones are not simulated */

static const struct {
    const char *policy;
    const char *name;
} others[] = {
    {"mend", "Mend"},
    {"expandable", "PyTorch expandable"},
    {"caching", "PyTorch caching"},
    {"mend:compact", "Mend, safe points"},
    {"caching:split128", "PyTorch split 128 MB"},
    {"caching:gc80", "PyTorch gc 0.8"},
    {"rmm-pool", "RMM pool"},
    {"rmm-arena", "RMM arena"},
};

typedef struct other_search {
    const mend_report *report;
    const mend_trace *trace;
    mend_report_other *other;
    uint64_t left; /* of the budget of this policy */
    uint64_t simulated;
    mend_result failure;
} other_search;

static uint64_t calls_of(const mend_replay_result *result)
{
    uint64_t calls = 0;
#define X(call) calls += result->calls.call##_calls;
    MEND_REPLAY_CALLS(X)
#undef X
    return calls;
}

/* One run. The figures are all that is left of it. False: it was not possible, and the search ends.
 */
static bool replay(other_search *search, uint64_t capacity_bytes, mend_replay_result *figures)
{
    mend_replay_result result;
    mend_replay_options options = MEND_REPLAY_OPTIONS_INIT;
    mend_capacity capacity = {.kind = capacity_bytes == 0 ? MEND_CAPACITY_UNLIMITED
                                                          : MEND_CAPACITY_BYTES,
                              .bytes = capacity_bytes};
    mend_result outcome =
        mend_replay_run(search->trace, search->other->policy, &capacity, &options, &result);
    if (outcome != MEND_OK) {
        search->failure = outcome == MEND_ERROR_OUT_OF_HOST_MEMORY ? outcome : search->failure;
        return false;
    }
    uint64_t events = result.completed ? search->trace->event_count : result.failed_at_event;
    uint64_t cost = events + EVENTS_PER_CALL * calls_of(&result);
    search->simulated += events;
    search->left -= mend_min_u64(search->left, cost);
    *figures = result;
    figures->samples = NULL;
    figures->explanation = NULL;
    mend_replay_result_clear(&result);
    return figures->problem[0] == 0;
}

static void take(other_search *search, const mend_replay_result *result, uint64_t needs_bytes)
{
    search->other->is_known = true;
    search->other->needs_bytes = needs_bytes;
    search->other->waits = result->host_syncs;
    search->other->driver_ms = result->driver_time_us / 1000;
}

static uint64_t step_of(const other_search *search, uint64_t page_bytes)
{
    return mend_max_u64(search->trace->peak_live_bytes / STEPS_IN_PEAK, page_bytes);
}

/* With more memory it can fail again: the reported size completes with the next few steps as
 * well. */
static void climb(other_search *search, uint64_t page_bytes)
{
    const uint64_t step_bytes = mend_align_up(step_of(search, page_bytes), page_bytes);
    uint64_t bytes = search->other->needs_bytes;
    bool fails = false;
    for (int good = 0; good < STEPS_ABOVE && search->left >= search->trace->event_count;) {
        mend_replay_result result;
        bytes += step_bytes;
        if (!replay(search, bytes, &result)) {
            break;
        }
        if (result.completed && fails) {
            take(search, &result, bytes);
        }
        good = result.completed && !fails ? good + 1 : 0;
        fails = !result.completed;
    }
    search->other->is_close = search->other->is_close && !fails;
}

/* Halves the distance between sufficient and insufficient sizes, as long as another run is
 * affordable. Capacities within a page are the same device. */
static void halve(other_search *search, uint64_t too_little, uint64_t enough, uint64_t page_bytes)
{
    const uint64_t step = step_of(search, page_bytes);
    while (enough - too_little > step && search->left >= search->trace->event_count) {
        mend_replay_result result;
        uint64_t middle = too_little + (enough - too_little) / 2;
        middle = mend_max_u64(mend_align_down(middle, page_bytes), too_little + 1);
        if (!replay(search, middle, &result)) {
            return;
        }
        if (result.completed) {
            enough = middle;
            take(search, &result, mend_align_up(enough, page_bytes));
        } else {
            too_little = middle;
        }
    }
    search->other->is_close = enough - too_little <= step;
}

/* Its memory without a limit is mostly enough. Otherwise a little more is. An allocator that
 * releases memory only under pressure can fail with more memory than it completed with. So the
 * search stays above sizes that failed on the recorded device, and below sizes that completed
 * there. */
static void search_fit(other_search *search)
{
    mend_replay_result result;
    const mend_report_other *other = search->other;
    const uint64_t here = search->report->capacity_bytes;
    if (search->left < 2 * search->trace->event_count || !replay(search, 0, &result)) {
        return;
    }
    uint64_t enough = result.peak_reserved_bytes;
    uint64_t too_little = search->trace->peak_live_bytes - 1;
    if (other->knows_here && other->completes_here) {
        enough = mend_min_u64(enough, here);
    } else if (other->knows_here && here > too_little) {
        too_little = here;
        enough = mend_max_u64(enough, here + here / 16);
    }
    for (int tries = 0; tries < 4 && search->left >= search->trace->event_count; tries++) {
        if (!replay(search, enough, &result)) {
            return;
        }
        if (result.completed) {
            take(search, &result, result.capacity_bytes);
            halve(search, too_little, enough, result.page_bytes);
            climb(search, result.page_bytes);
            return;
        }
        too_little = enough;
        enough += enough / 16;
    }
}

static void try_here(other_search *search)
{
    mend_report_other *other = search->other;
    mend_replay_result result;
    if (search->report->capacity_bytes == 0 || search->left < search->trace->event_count ||
        !replay(search, search->report->capacity_bytes, &result)) {
        return;
    }
    other->knows_here = true;
    other->completes_here = result.completed;
    if (!result.completed) {
        other->here_percent = (unsigned)(100 * result.failed_at_event / search->trace->event_count);
    }
}

/* The requests with the failed ones, each as a block that is freed at once. */
static mend_trace *with_refusals(const mend_report *report)
{
    const mend_trace *trace = report->trace;
    const mend_trace_detail *detail = &report->detail;
    mend_trace *copy = calloc(1, sizeof(*copy));
    size_t most = trace->event_count + 2 * detail->refusal_count;
    mend_trace_event *events = calloc(most, sizeof(*events));
    if (copy == NULL || events == NULL) {
        free(copy);
        free(events);
        return NULL;
    }
    *copy = *trace;
    copy->events = events;
    copy->event_count = 0;
    uint64_t live_bytes = 0;
    size_t next = 0;
    for (size_t i = 0; i <= trace->event_count; i++) {
        for (; next < detail->refusal_count && detail->refusals[next].event == i; next++) {
            uint64_t bytes = detail->refusals[next].size_bytes;
            if (bytes == 0 || bytes > MOST_REQUEST_BYTES || copy->block_count >= UINT32_MAX) {
                continue;
            }
            mend_trace_event request = {
                .size_bytes = bytes, .block = (uint32_t)copy->block_count++, .is_alloc = true};
            events[copy->event_count++] = request;
            request.is_alloc = false;
            events[copy->event_count++] = request;
            copy->peak_live_bytes = mend_max_u64(
                copy->peak_live_bytes, live_bytes + mend_align_up(bytes, MEND_GRANULE_BYTES));
        }
        if (i < trace->event_count) {
            uint64_t bytes = mend_report_bytes(&trace->events[i]);
            live_bytes = trace->events[i].is_alloc ? live_bytes + bytes : live_bytes - bytes;
            events[copy->event_count++] = trace->events[i];
        }
    }
    return copy;
}

mend_result mend_report_find_others(mend_report *report, bool all, uint64_t budget)
{
    size_t count = all ? sizeof(others) / sizeof(*others) : FIRST_OTHERS;
    report->other_count = count;
    mend_trace *trace = with_refusals(report);
    if (trace == NULL) {
        return mend_fail(MEND_ERROR_OUT_OF_HOST_MEMORY, "no host memory for the simulation");
    }
    mend_result failure = MEND_OK;
    for (size_t i = 0; i < count; i++) {
        report->others[i] = (mend_report_other){.policy = others[i].policy, .name = others[i].name};
        other_search search = {
            .report = report, .trace = trace, .other = &report->others[i], .left = budget / count};
        if (trace->peak_live_bytes > 0) {
            try_here(&search);
            search_fit(&search);
        }
        report->simulated_events += search.simulated;
        failure = search.failure != MEND_OK ? search.failure : failure;
    }
    free(trace->events);
    free(trace);
    return failure;
}

/* NULL: a log does not say. */
static const char *policy_of(const mend_report *report)
{
    const mend_trace_detail *detail = &report->detail;
    return detail->is_recording || detail->is_of_mend ? "mend"
           : !detail->is_snapshot                     ? NULL
           : detail->is_expandable                    ? "expandable"
                                                      : "caching";
}

const mend_report_other *mend_report_recorded(const mend_report *report)
{
    const char *policy = policy_of(report);
    for (size_t i = 0; policy != NULL && i < report->other_count; i++) {
        if (strcmp(report->others[i].policy, policy) == 0 && report->others[i].is_known) {
            return &report->others[i];
        }
    }
    return NULL;
}
