/* Changes between two runs of a program, for people. */
#ifndef MEND_LAB_REPORT_CHANGE_H
#define MEND_LAB_REPORT_CHANGE_H

#include <stdio.h>

#include "lab/report/model.h"

/* Figures, and the owners whose part of the peak changed most: at most MEND_TEXT_LINES lines. */
void mend_report_print_change(FILE *out, const mend_report *before, const mend_report *after);

#endif
