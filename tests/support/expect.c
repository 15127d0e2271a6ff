/* What EXPECT_RESULT asks of every call: apart, for programs that judge calls and are no tests. */
#include <stdbool.h>
#include <string.h>

#include "tests/support/call.h"
#include "tests/support/test.h"

static bool begins_with(const char *expression, const char *name)
{
    return strncmp(expression, name, strlen(name)) == 0;
}

/* Of Mend's own interface: those of the device tell by their result alone. */
static bool sets_errors(const char *expression)
{
    return begins_with(expression, "mend_") && strchr(expression, '(') != NULL &&
           !begins_with(expression, "mend_sim_") && !begins_with(expression, "mend_last_error");
}

/* A whole program below one call: what failed in it is a part of what it tells. */
static bool is_program(const char *expression)
{
    return begins_with(expression, "mend_replay_");
}

void mend_test_end_call(const mend_test_call *call, mend_result result, const char *expression,
                        const char *file, int line)
{
    if (is_program(expression) || (result != MEND_OK && !sets_errors(expression))) {
        return;
    }
    const char *remains = mend_test_remains_of_call(call, result);
    if (remains != NULL) {
        mend_test_fail(file, line, "%s: %s (%s: %s)", expression, remains,
                       mend_result_name(mend_process_error()->result),
                       mend_process_error()->message);
    }
}
