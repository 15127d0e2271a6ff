/* The manual page of the program, made of its table. */
#ifndef MEND_CLI_MANUAL_H
#define MEND_CLI_MANUAL_H

#include "lab/support/command.h"

/* In troff. The commands are ended by NULL. */
void mend_manual_write(FILE *out, const mend_command *const *commands);

#endif
