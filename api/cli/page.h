/* The demo's page: one HTML file without other files, so that it can be passed on. */
#ifndef MEND_CLI_PAGE_H
#define MEND_CLI_PAGE_H

#include <stdio.h>

#include "cli/demo_report.h"

/* Writes the page. ferror(out) tells of errors. */
void mend_page_write(FILE *out, const mend_demo_report *report);

#endif
