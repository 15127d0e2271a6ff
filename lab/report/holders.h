/* Who holds memory. */
#ifndef MEND_LAB_REPORT_HOLDERS_H
#define MEND_LAB_REPORT_HOLDERS_H

#include "lab/report/model.h"

/* Names the holders and says which block is whose. MEND_ERROR_OUT_OF_HOST_MEMORY. */
mend_result mend_report_find_holders(mend_report *report);

#endif
