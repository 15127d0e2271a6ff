/* `libmend record`: runs a program and records its pools, or describes a recording. */
#ifndef MEND_LAB_RECORD_COMMAND_H
#define MEND_LAB_RECORD_COMMAND_H

#include "lab/support/command.h"

extern const mend_command mend_record_command;

/* argv[0] is "record". Exit status: the program's, otherwise 0, or 2 for wrong usage or input. */
int mend_cli_record(int argc, char **argv);

#endif
