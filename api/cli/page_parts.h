/* The parts of the demo's page. Each writes HTML to `out`. */
#ifndef MEND_CLI_PAGE_PARTS_H
#define MEND_CLI_PAGE_PARTS_H

#include <stdio.h>

#include "cli/demo_report.h"

/* The style sheet: light and dark, wide and narrow. */
extern const char mend_page_style[];

/* Live and reserved memory over time of one run, as an SVG. */
void mend_page_chart(FILE *out, const mend_demo_act *act, size_t allocator);

/* All figures of all runs. */
void mend_page_table(FILE *out, const mend_demo_report *report);

/* A drawing of fragmentation and of Mend. */
void mend_page_drawing(FILE *out);

/* The simulated parts, and how to run it again. */
void mend_page_explain(FILE *out, const mend_demo_report *report);

#endif
