#include "tests/cli/program.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "tests/cli/fixture.h"
#include "tests/support/test.h"

size_t read_all(const char *path, char *text, size_t size)
{
    FILE *in = fopen(path, "r");
    size_t length = in == NULL ? 0 : fread(text, 1, size - 1, in);
    text[length] = 0;
    if (in != NULL) {
        fclose(in);
    }
    return length;
}

const char *command_line(const char *format, ...)
{
    static char line[1024];
    va_list arguments;
    va_start(arguments, format);
    EXPECT_TRUE(vsnprintf(line, sizeof(line), format, arguments) < (int)sizeof(line));
    va_end(arguments);
    return line;
}

ended_run run(const char *arguments)
{
    fixture_file out = fixture_write_text(".out", "");
    fixture_file err = fixture_write_text(".err", "");
    char line[2048];
    snprintf(line, sizeof(line), "{ '%s' %s; } >%s 2>%s", MEND_PROGRAM, arguments, out.path,
             err.path);
    ended_run outcome = {0};
    int status = system(line);
    outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    read_all(out.path, outcome.out, sizeof(outcome.out));
    read_all(err.path, outcome.err, sizeof(outcome.err));
    fixture_remove(&out);
    fixture_remove(&err);
    return outcome;
}

static const char small_trace[] = TRACE_HEAD "0,0,allocate,1,31457280,0\n"
                                             "0,1,allocate,2,31457280,0\n"
                                             "0,2,free,1,31457280,0\n"
                                             "0,3,free,2,31457280,0\n";

/* The missing one of the parts that must follow each other. NULL: nothing. */
static const char *missing_of(const char *text, const char *parts)
{
    static char part[512];
    while (*parts != 0) {
        const char *end = strstr(parts, "...");
        size_t length = end != NULL ? (size_t)(end - parts) : strlen(parts);
        snprintf(part, sizeof(part), "%.*s", (int)length, parts);
        for (char *quote = part; (quote = strchr(quote, '\'')) != NULL;) {
            *quote = '"';
        }
        const char *found = strstr(text, part);
        if (found == NULL) {
            return part;
        }
        text = found + length;
        parts += length + (end != NULL ? strlen("...") : 0);
    }
    return NULL;
}

void expect_parts(const char *text, const char *parts)
{
    const char *missing = missing_of(text, parts);
    MEND_TEST_CHECK(missing == NULL, (void)0, "no %s in:\n%s", missing, text);
}

ended_run expect_run_on(const char *trace_text, int status, const char *arguments, const char *out,
                        const char *err)
{
    fixture_file trace = fixture_write_text(".csv", trace_text);
    char whole[1024];
    const char *place = strchr(arguments, '%');
    snprintf(whole, sizeof(whole), "%.*s%s%s", (int)strcspn(arguments, "%"), arguments,
             place != NULL ? trace.path : "", place != NULL ? place + 1 : "");
    ended_run done = run(whole);
    fixture_remove(&trace);
    const char *texts[] = {done.out, done.err};
    const char *parts[] = {out, err};
    for (int i = 0; i < 2; i++) {
        const char *missing = parts[i] == NULL ? NULL
                              : parts[i][0] == 0 && texts[i][0] != 0
                                  ? "(nothing)"
                                  : missing_of(texts[i], parts[i]);
        MEND_TEST_CHECK(done.status == status && missing == NULL, break,
                        "mend %s: status %d instead of %d, without %s:\n%s\n%s", whole, done.status,
                        status, missing != NULL ? missing : "", done.out, done.err);
    }
    return done;
}

ended_run expect_run(int status, const char *arguments, const char *out, const char *err)
{
    return expect_run_on(small_trace, status, arguments, out, err);
}
