/* The owners of memory. */
#ifndef MEND_LAB_REPORT_OWNERS_H
#define MEND_LAB_REPORT_OWNERS_H

#include "lab/report/model.h"

/* Names the owners and says which block is whose. MEND_ERROR_OUT_OF_HOST_MEMORY. */
mend_result mend_report_find_owners(mend_report *report);

#endif
