/* The moments of a run. */
#ifndef MEND_LAB_REPORT_MOMENTS_H
#define MEND_LAB_REPORT_MOMENTS_H

#include "lab/report/model.h"

/* Peak, failure, end and the reported moment, and the memory of each owner at these. Owners are
 * found. MEND_ERROR_OUT_OF_HOST_MEMORY. */
mend_result mend_report_find_moments(mend_report *report);

#endif
