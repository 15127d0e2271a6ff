/* The built program, run from outside. */
#ifndef MEND_TESTS_CLI_PROGRAM_H
#define MEND_TESTS_CLI_PROGRAM_H

#include <stddef.h>

typedef struct ended_run {
    int status;
    char out[16384];
    char err[16384];
} ended_run;

/* A line in the words of printf, until the next one. */
__attribute__((format(printf, 1, 2))) const char *command_line(const char *format, ...);

/* Runs `mend ARGUMENTS`, which go through the shell. Redirected output is not kept. */
ended_run run(const char *arguments);

/* Runs `mend ARGUMENTS`, where % is the path of a small trace, and checks its exit status and
 * output. Of its output, and of its errors, parts must follow each other that are separated by ....
 * A ' stands for a ". NULL: anything. "": nothing. */
ended_run expect_run(int status, const char *arguments, const char *out, const char *err);
/* The same with this text in the trace. */
ended_run expect_run_on(const char *trace_text, int status, const char *arguments, const char *out,
                        const char *err);

/* A text has such parts. */
void expect_parts(const char *text, const char *parts);

/* The contents of a file, as text of at most size - 1 bytes, and how many these are. "" when it
 * cannot be read. */
size_t read_all(const char *path, char *text, size_t size);

#define EXPECT_STATUS(expected, outcome)                                                           \
    MEND_TEST_CHECK((outcome).status == (expected), (void)0, "status %d, expected %d:\n%s%s",      \
                    (outcome).status, expected, (outcome).out, (outcome).err)

#endif
