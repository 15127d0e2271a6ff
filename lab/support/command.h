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

enum { MEND_STATUS_BAD_USAGE = 2 };

/* Takes an option, by its index, and its value. False after a line on standard error. */
typedef bool (*mend_option_taker)(int option, char *value, void *arguments);

/*
 * Reads the options of a command line, each by `take`; then arguments begin at `optind`. False: the
 * command ends, with *status: 0 after --help, whose text is printed, or MEND_STATUS_BAD_USAGE after
 * a line on standard error that names what is possible.
 */
bool mend_command_read(const mend_command *command, int argc, char **argv, mend_option_taker take,
                       void *arguments, int *status);

/* Prints the thread's last failure, after `what` if that is not empty; MEND_STATUS_BAD_USAGE. */
int mend_command_fail(const mend_command *command, const char *what);

/* The first line of what --help prints. */
void mend_command_usage(const mend_command *command, FILE *out);

/* An option as it is written: "--device sim|cuda". */
void mend_option_write(const mend_option *option, char *text, size_t size);

/* Whether a file may follow it. */
bool mend_option_takes_file(const mend_option *option);

/* Prints the words that may follow it, each after the separator but the first; returns how many. */
size_t mend_option_print_words(const mend_option *option, const char *separator, FILE *out);

#endif
