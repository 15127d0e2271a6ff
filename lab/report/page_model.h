/* What the script of a page knows beside the rows. */
#ifndef MEND_LAB_REPORT_PAGE_MODEL_H
#define MEND_LAB_REPORT_PAGE_MODEL_H

#include <stdio.h>

#include "lab/report/rows.h"

/* One JSON object. */
void mend_report_write_model(FILE *out, const mend_report *report, const mend_rows *rows);

#endif
