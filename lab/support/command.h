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
    const char *name;  /* without dashes. One letter: a short option. NULL ends a table */
    const char *value; /* its argument. NULL: none. Words in small letters with | between them are
                        * all that is taken. Of capitals, anything is */
    const char *what;  /* for people */
    const char *(*word)(size_t index); /* more words that may follow, up to a NULL, or NULL */
} mend_option;

typedef struct mend_command {
    const char *name;
    const char *what;      /* in one line */
    const char *arguments; /* the arguments after the options. "": none */
    const char *about;     /* paragraphs */
    const mend_option *options;
    void (*more)(FILE *out); /* prints other possible words, or NULL */
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
 * Reads the options of a command line, each by `take`. Then arguments begin at `optind`. False: the
 * command ends, with *status: 0 after --help, whose text is printed, or MEND_STATUS_BAD_USAGE after
 * a line on standard error that names the possible words.
 */
bool mend_command_read(const mend_command *command, int argc, char **argv, mend_option_taker take,
                       void *arguments, int *status);

/* Prints the thread's last failure, after `what` if it is not empty. Returns
 * MEND_STATUS_BAD_USAGE. */
int mend_command_fail(const mend_command *command, const char *what);

/* The first line of --help. */
void mend_command_usage(const mend_command *command, FILE *out);

/* An option as it is written: "--device sim|cuda". */
void mend_option_write(const mend_option *option, char *text, size_t size);

/* Whether a file may follow it. */
bool mend_option_takes_file(const mend_option *option);

/* Prints the words that may follow it, each after the separator but the first. Returns how many. */
size_t mend_option_print_words(const mend_option *option, const char *separator, FILE *out);

#endif
