/* Where the free memory of a moment is. */
#ifndef MEND_LAB_REPORT_FREE_H
#define MEND_LAB_REPORT_FREE_H

#include "lab/report/model.h"

/* The memory of the moment, and the blocks that hold it in place. Moments are found.
 * MEND_ERROR_OUT_OF_HOST_MEMORY. */
mend_result mend_report_find_free(mend_report *report);

#endif
