/* `libmend record`: runs a program whose pools are recorded, and says what a recording holds. */
#ifndef MEND_LAB_RECORD_COMMAND_H
#define MEND_LAB_RECORD_COMMAND_H

#include "lab/support/command.h"

extern const mend_command mend_record_command;

/* argv[0] is "record". Exit status: that of the program it runs; otherwise 0, or 2 wrong usage or
 * input. */
int mend_cli_record(int argc, char **argv);

#endif
