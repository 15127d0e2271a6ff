/* libmend top: the memory of a process's pools, once or every second. */
#ifndef MEND_LAB_LIVE_COMMAND_H
#define MEND_LAB_LIVE_COMMAND_H

#include "lab/support/command.h"

extern const mend_command mend_top_command;

/* Runs the command. Returns its exit status. */
int mend_cli_top(int argc, char **argv);

#endif
