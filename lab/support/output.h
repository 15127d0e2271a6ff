/*
 * Output of the program: standard output, whose loss the exit status reports, and files, which are
 * written completely or not at all.
 */
#ifndef MEND_LAB_SUPPORT_OUTPUT_H
#define MEND_LAB_SUPPORT_OUTPUT_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { MEND_STATUS_BAD_OUTPUT = 2 };

/* Called at the start of the program: opens closed standard streams such that writes to them fail,
 * and no file opened later gets their number. */
void mend_output_begin(void);

/* Called after the last print. Returns the exit status. If anything printed is lost, that is at
 * least MEND_STATUS_BAD_OUTPUT, with a line on standard error. */
int mend_output_end(int status);

/* A file to be written. Its text stays in memory until it is complete. */
typedef struct mend_output {
    FILE *stream;          /* for its text. NULL: the file is closed, or there is none */
    const char *command;   /* for messages */
    const char *path;      /* as the user wrote it */
    char target[PATH_MAX]; /* the path with all links resolved */
    int direct;            /* a descriptor if the file cannot be replaced. Otherwise -1 */
    char *text;
    size_t size_bytes;
} mend_output;

/* Checks, before any work, whether `path` can be written. Changes nothing. `command` and `path` are
 * borrowed until the file is closed. False after a line on standard error. Then there is nothing to
 * close. NULL for `path`: no file, which is allowed. */
bool mend_output_open(mend_output *output, const char *command, const char *path);

/* False, after a line on standard error, if `input` is the same file. */
bool mend_output_is_apart(const mend_output *output, const char *input);

/* The same for two outputs, whether their files exist or not. */
bool mend_outputs_are_apart(const mend_output *a, const mend_output *b);

/* Writes the text to a temporary file, which then replaces the target. False after a line on
 * standard error. Does nothing if the file is closed. */
bool mend_output_close(mend_output *output);

/* Drops the text. The file at the path stays as it was. */
void mend_output_discard(mend_output *output);

#endif
