/* The checks of the macros of test.h, separate for programs that check calls and are no tests. */
#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "base/thread.h"
#include "tests/support/call.h"
#include "tests/support/test.h"

static bool begins_with(const char *expression, const char *name)
{
    return strncmp(expression, name, strlen(name)) == 0;
}

/* Of Mend's own interface: calls of the device report by their result alone. */
static bool sets_errors(const char *expression)
{
    return begins_with(expression, "mend_") && strchr(expression, '(') != NULL &&
           !begins_with(expression, "mend_sim_") && !begins_with(expression, "mend_get_last_error");
}

/* A whole program below one call: failures in it are a part of its report. */
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

enum { DEEPEST_EXPECTATION = 4 };

static _Thread_local mend_test_call begun[DEEPEST_EXPECTATION];
static _Thread_local unsigned begun_calls;

void mend_test_expect_begin(void)
{
    assert(begun_calls < DEEPEST_EXPECTATION);
    mend_test_begin_call(&begun[begun_calls++]);
}

bool mend_test_expect_end(const char *file, int line, const char *actual_text, mend_result actual,
                          mend_result expected)
{
    mend_test_end_call(&begun[--begun_calls], actual, actual_text, file, line);
    if (actual != expected) {
        mend_test_fail(file, line, "%s\n  is       %s\n  expected %s", actual_text,
                       mend_result_name(actual), mend_result_name(expected));
    }
    return actual == expected;
}

bool mend_test_equal_u64(const char *file, int line, const char *expected_text,
                         const char *actual_text, unsigned long long expected,
                         unsigned long long actual)
{
    if (actual != expected) {
        mend_test_fail(file, line, "%s\n  is       %llu\n  expected %llu (%s)", actual_text, actual,
                       expected, expected_text);
    }
    return actual == expected;
}

bool mend_test_equal_int(const char *file, int line, const char *expected_text,
                         const char *actual_text, long long expected, long long actual)
{
    if (actual != expected) {
        mend_test_fail(file, line, "%s\n  is       %lld\n  expected %lld (%s)", actual_text, actual,
                       expected, expected_text);
    }
    return actual == expected;
}

bool mend_test_equal_pointers(const char *file, int line, const char *expected_text,
                              const char *actual_text, const void *expected, const void *actual)
{
    if (actual != expected) {
        mend_test_fail(file, line, "%s\n  is       %p\n  expected %p (%s)", actual_text, actual,
                       expected, expected_text);
    }
    return actual == expected;
}

bool mend_test_equal_texts(const char *file, int line, const char *expected_text,
                           const char *actual_text, const char *expected, const char *actual)
{
    bool equal = strcmp(actual, expected) == 0;
    if (!equal) {
        mend_test_fail(file, line, "%s\n  is       \"%s\"\n  expected \"%s\" (%s)", actual_text,
                       actual, expected, expected_text);
    }
    return equal;
}

bool mend_test_holds_a_lock(void)
{
#ifdef NDEBUG
    return false;
#else
    return !mend_mutex_none_is_held_from(MEND_RANK_PROCESS);
#endif
}
