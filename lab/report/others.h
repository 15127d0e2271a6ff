/* The needs of other allocators for the same requests, by a few replays on the simulated device.
 * The work is bounded by events, not by a clock, so that a file has one answer. */
#ifndef MEND_LAB_REPORT_OTHERS_H
#define MEND_LAB_REPORT_OTHERS_H

#include "lab/report/model.h"

/* Events, and driver calls that count as several, that all searches together may simulate. */
#define MEND_REPORT_BUDGET      (UINT64_C(8) << 20)
#define MEND_REPORT_MORE_BUDGET (UINT64_C(64) << 20)

/*
 * Fills `others`: Mend and both modes of PyTorch, or with `all` also the settings that people try.
 * `budget` 0 leaves them unknown. MEND_OK; MEND_ERROR_OUT_OF_HOST_MEMORY. A policy that cannot run
 * the requests stays unknown.
 */
mend_result mend_report_find_others(mend_report *report, bool all, uint64_t budget);

/* The policy that the recorded program ran with. NULL: a log does not say. */
const mend_report_other *mend_report_recorded(const mend_report *report);

#endif
