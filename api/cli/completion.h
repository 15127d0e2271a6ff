/* Completion of command lines, made of the table of commands. */
#ifndef MEND_CLI_COMPLETION_H
#define MEND_CLI_COMPLETION_H

#include "lab/support/command.h"

/* A function for bash. For zsh, the file _mend. The commands are ended by NULL. */
void mend_completion_bash(FILE *out, const mend_command *const *commands);
void mend_completion_zsh(FILE *out, const mend_command *const *commands);

#endif
