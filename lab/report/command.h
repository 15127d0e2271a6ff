/* `libmend report`: where the memory of a recorded program is, its owners, and remedies. */
#ifndef MEND_LAB_REPORT_COMMAND_H
#define MEND_LAB_REPORT_COMMAND_H

#include "lab/support/command.h"

extern const mend_command mend_report_command;

/* argv[0] is "report". Exit status: 0, 1 a request failed or something grows, 2 wrong usage or
 * input.
 */
int mend_cli_report(int argc, char **argv);

#endif
