/*
 * What the program writes: standard output, which is complete or else the exit status says so, and
 * files, which are whole or not there.
 */
#ifndef MEND_LAB_SUPPORT_OUTPUT_H
#define MEND_LAB_SUPPORT_OUTPUT_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { MEND_STATUS_BAD_OUTPUT = 2 };

/* At the start of the program: closed standard streams refuse what is written to them, and no file
 * that is opened later takes their place. */
void mend_output_begin(void);

/* At the end, after the last print: the exit status; at least MEND_STATUS_BAD_OUTPUT, and a line on
 * standard error, where anything printed is lost. */
int mend_output_end(int status);

/* A file to be written. Its text is kept in memory until it is complete. */
typedef struct mend_output {
    FILE *stream;          /* where its text goes; NULL: the file is closed, or none is wanted */
    const char *command;   /* for messages */
    const char *path;      /* as the user wrote it */
    char target[PATH_MAX]; /* where that leads to */
    int direct;            /* a descriptor, where the file cannot be replaced; or -1 */
    char *text;
    size_t size_bytes;
} mend_output;

/* Finds out, before any work, whether `path` can be written; changes nothing that is there.
 * `command` and `path` are borrowed until the file is closed. False after a line on standard
 * error; then there is nothing to close. NULL for `path`: no file is wanted, which is fine. */
bool mend_output_open(mend_output *output, const char *command, const char *path);

/* False, after a line on standard error, where `input` is the same file. */
bool mend_output_is_apart(const mend_output *output, const char *input);

/* The same for two outputs, whether their files exist or not. */
bool mend_outputs_are_apart(const mend_output *a, const mend_output *b);

/* Writes the text: beside the file first, which it replaces only when it is whole. False after a
 * line on standard error. A closed file is left alone. */
bool mend_output_close(mend_output *output);

/* Forgets the text. What was at the path stays. */
void mend_output_discard(mend_output *output);

#endif
