/* The demo's page: one HTML file that needs nothing else, to be looked at and passed on. */
#ifndef MEND_CLI_PAGE_H
#define MEND_CLI_PAGE_H

#include <stdio.h>

#include "cli/demo_report.h"

/* Writes the whole page; errors show in ferror(out). */
void mend_page_write(FILE *out, const mend_demo_report *report);

#endif
