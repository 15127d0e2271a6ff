/* Reports for people: at most MEND_TEXT_LINES lines of MEND_WORDS_WIDTH characters. */
#ifndef MEND_LAB_REPORT_TEXT_H
#define MEND_LAB_REPORT_TEXT_H

#include <stdio.h>

#include "lab/report/model.h"

enum { MEND_TEXT_LINES = 30 };

void mend_report_print(FILE *out, const mend_report *report);

/* The table of other allocators alone, with the simulation. */
void mend_report_print_others(FILE *out, const mend_report *report);

#endif
