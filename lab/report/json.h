/* A report as one JSON object: for programs, and for the script of its page. */
#ifndef MEND_LAB_REPORT_JSON_H
#define MEND_LAB_REPORT_JSON_H

#include <stdio.h>

#include "lab/report/rows.h"

/* All owners, suspects and advice, on one line. `against`: the run it is compared with. NULL:
 * none. */
void mend_report_print_json(FILE *out, const mend_report *report, const mend_report *against);

/* Data for the script of a page beside the rows, within an element of HTML. */
void mend_report_write_model(FILE *out, const mend_report *report, const mend_rows *rows);

#endif
