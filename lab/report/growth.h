/* Owners that keep growing. */
#ifndef MEND_LAB_REPORT_GROWTH_H
#define MEND_LAB_REPORT_GROWTH_H

#include "lab/report/model.h"

/* Trends, and the peak without growth. Moments are found. MEND_ERROR_OUT_OF_HOST_MEMORY. */
mend_result mend_report_find_growth(mend_report *report);

#endif
