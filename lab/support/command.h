/*
 * A command of the program, told once: its options are read, explained by --help and in the manual,
 * and completed by shells from one table.
 */
#ifndef MEND_LAB_SUPPORT_COMMAND_H
#define MEND_LAB_SUPPORT_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

typedef struct mend_option {
    const char *name;  /* without dashes; one letter: a short option; NULL ends a table */
    const char *value; /* what follows it; NULL: nothing. Words in small letters with | between
                          them are all that is taken; of capitals, anything is */
    const char *what;  /* for people */
    const char *(*word)(size_t index); /* more words that may follow, up to a NULL; or NULL */
} mend_option;

typedef struct mend_command {
    const char *name;
    const char *what;      /* in one line */
    const char *arguments; /* what follows the options; "": nothing */
    const char *about;     /* paragraphs */
    const mend_option *options;
    void (*more)(FILE *out); /* prints what else is possible; or NULL */
    const char *status;      /* the exit status */
} mend_command;

/* Ends the table of every command. */
#define MEND_OPTION_HELP                                                                           \
    {                                                                                              \
        "help", NULL, "print this", NULL                                                           \
    }

enum { MEND_OPTION_END = -1, MEND_OPTION_BAD = -2 };

/* Starts to read a command line. */
void mend_command_start(void);

/* The index of the next option, and its value; MEND_OPTION_END after the last, and arguments begin
 * at `optind`; MEND_OPTION_BAD after a line on standard error that names what is possible. */
int mend_command_next(const mend_command *command, int argc, char **argv, char **value);

/* False, after a line on standard error, if arguments remain. */
bool mend_command_has_none(const mend_command *command, int argc, char **argv);

/* What --help prints. */
void mend_command_help(const mend_command *command, FILE *out);

/* The first line of it. */
void mend_command_usage(const mend_command *command, FILE *out);

/* An option as it is written: "--device sim|cuda". */
void mend_option_write(const mend_option *option, char *text, size_t size);

/* Whether a file may follow it. */
bool mend_option_takes_file(const mend_option *option);

/* Prints the words that may follow it, each after the separator but the first; returns how many. */
size_t mend_option_print_words(const mend_option *option, const char *separator, FILE *out);

#endif
