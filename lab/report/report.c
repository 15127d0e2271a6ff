#include "lab/report/report.h"

#include <stdlib.h>

#include "base/error.h"
#include "lab/report/free.h"
#include "lab/report/growth.h"
#include "lab/report/moments.h"
#include "lab/report/owners.h"
#include "lab/trace/read.h"

bool mend_report_has_findings(const mend_report *report)
{
    return report->has_failed || report->suspects > 0 || report->grows_as_whole;
}

void mend_report_destroy(mend_report *report)
{
    if (report == NULL) {
        return;
    }
    mend_trace_destroy(report->trace);
    mend_trace_detail_clear(&report->detail);
    free(report->born);
    free(report->died);
    free(report->owner_of);
    free(report->owners);
    free(report->order);
    free(report->names);
    free(report);
}

static mend_result find_lives(mend_report *report)
{
    const mend_trace *trace = report->trace;
    report->born = calloc(trace->block_count + 1, sizeof(uint32_t));
    report->died = calloc(trace->block_count + 1, sizeof(uint32_t));
    report->owner_of = calloc(trace->block_count + 1, sizeof(uint32_t));
    if (report->born == NULL || report->died == NULL || report->owner_of == NULL) {
        return mend_fail(MEND_ERROR_OUT_OF_HOST_MEMORY, "no host memory for the report");
    }
    for (size_t i = 0; i < trace->event_count; i++) {
        const mend_trace_event *event = &trace->events[i];
        if (event->is_alloc) {
            report->born[event->block] = (uint32_t)i;
            report->died[event->block] = UINT32_MAX;
        } else {
            report->died[event->block] = (uint32_t)i;
        }
    }
    return MEND_OK;
}

typedef mend_result (*report_step)(mend_report *report);

static const report_step steps[] = {find_lives, mend_report_find_owners, mend_report_find_moments,
                                    mend_report_find_growth, mend_report_find_free};

mend_result mend_report_create(const char *path, uint64_t capacity_bytes, mend_report **report)
{
    mend_report *made = calloc(1, sizeof(*made));
    if (made == NULL) {
        return mend_fail(MEND_ERROR_OUT_OF_HOST_MEMORY, "no host memory for the report");
    }
    mend_trace_detail_init(&made->detail);
    mend_result result = mend_trace_read_with(path, &made->detail, &made->trace);
    made->capacity_bytes = capacity_bytes != 0 ? capacity_bytes : made->detail.capacity_bytes;
    for (size_t i = 0; result == MEND_OK && i < sizeof(steps) / sizeof(*steps); i++) {
        result = steps[i](made);
    }
    if (result == MEND_OK) {
        *report = made;
    } else {
        mend_report_destroy(made);
    }
    return result;
}
