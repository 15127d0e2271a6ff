/* libmend demo: runs a few workloads on devices that are sold, and writes a page. */
#ifndef MEND_CLI_DEMO_H
#define MEND_CLI_DEMO_H

#include "lab/support/command.h"

extern const mend_command mend_demo_command;

/* argv[0] is "demo". Exit status: 0 Mend completed every workload, 1 it ran out of memory, 2 wrong
 * usage, a missing trace or an unwritable page, 3 a broken rule of the driver. Progress goes to
 * standard error, the table to standard output. */
int mend_cli_demo(int argc, char **argv);

#endif
