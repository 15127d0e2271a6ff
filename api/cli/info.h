/* libmend info: shows the device, its features, and the cost of driver calls. */
#ifndef MEND_CLI_INFO_H
#define MEND_CLI_INFO_H

#include "lab/support/command.h"

extern const mend_command mend_info_command;

/* argv[0] is "info". Exit status: 0. 1 if a measurement failed. 2 for wrong usage, a missing device
 * or a file that cannot be written. Prints to standard output, errors to standard error. */
int mend_cli_info(int argc, char **argv);

#endif
