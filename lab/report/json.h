/* A report as one JSON object on one line: all holders, suspects and advice. */
#ifndef MEND_LAB_REPORT_JSON_H
#define MEND_LAB_REPORT_JSON_H

#include <stdio.h>

#include "lab/report/model.h"

/* `against`: the run it is compared with; NULL: none. */
void mend_report_print_json(FILE *out, const mend_report *report, const mend_report *against);

#endif
