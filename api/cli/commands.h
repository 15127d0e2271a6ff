/* Every command of the program. */
#ifndef MEND_CLI_COMMANDS_H
#define MEND_CLI_COMMANDS_H

#include "lab/support/command.h"

/* Ended by NULL. */
extern const mend_command *const mend_commands[];

/* Runs argv[1]. Returns the exit status. */
int mend_commands_run(int argc, char **argv);

#endif
