#include "tests/cli/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "tests/cli/fixture.h"
#include "tests/support/test.h"

void read_all(const char *path, char *text, size_t size)
{
    FILE *in = fopen(path, "r");
    size_t length = in == NULL ? 0 : fread(text, 1, size - 1, in);
    text[length] = 0;
    if (in != NULL) {
        fclose(in);
    }
}

ended_run run(const char *arguments)
{
    fixture_file out = fixture_write_text(".out", "");
    fixture_file err = fixture_write_text(".err", "");
    char command[2048];
    snprintf(command, sizeof(command), "{ '%s' %s; } >%s 2>%s", MEND_PROGRAM, arguments, out.path,
             err.path);
    ended_run outcome = {0};
    int status = system(command);
    outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    read_all(out.path, outcome.out, sizeof(outcome.out));
    read_all(err.path, outcome.err, sizeof(outcome.err));
    fixture_remove(&out);
    fixture_remove(&err);
    return outcome;
}

ended_run run_on(const char *arguments, const char *trace_text)
{
    fixture_file trace = fixture_write_text(".csv", trace_text);
    char whole[1024];
    EXPECT_TRUE(snprintf(whole, sizeof(whole), "%s %s", arguments, trace.path) <
                (int)sizeof(whole));
    ended_run outcome = run(whole);
    fixture_remove(&trace);
    return outcome;
}
