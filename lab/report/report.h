/* Makes the model of a file, step by step. */
#ifndef MEND_LAB_REPORT_REPORT_H
#define MEND_LAB_REPORT_REPORT_H

#include "lab/report/model.h"

/*
 * Reads a file and works out everything but `others`. `capacity_bytes` 0: as in the file. The
 * caller destroys *report. Errors as mend_trace_read. Time O(events log events), memory about 100
 * bytes an event beside the reader's.
 */
mend_result mend_report_create(const char *path, uint64_t capacity_bytes, mend_report **report);
void mend_report_destroy(mend_report *report);

/* Whether a request failed, or something grows. */
bool mend_report_has_findings(const mend_report *report);

#endif
