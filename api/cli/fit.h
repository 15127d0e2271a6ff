/* `libmend fit`, which is a part of the Python package: its options are told here, for help, the
 * manual and shells, and the package is run. */
#ifndef MEND_CLI_FIT_H
#define MEND_CLI_FIT_H

#include "lab/support/command.h"

extern const mend_command mend_fit_command;

int mend_cli_fit(int argc, char **argv);

#endif
