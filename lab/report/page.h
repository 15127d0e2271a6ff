/* A report as one HTML file that loads nothing: words first, then all rows, drawn by a script. */
#ifndef MEND_LAB_REPORT_PAGE_H
#define MEND_LAB_REPORT_PAGE_H

#include <stdio.h>

#include "lab/report/model.h"

/* MEND_ERROR_OUT_OF_HOST_MEMORY; then what is written is no whole page. */
mend_result mend_report_write_page(FILE *out, const mend_report *report);

#endif
