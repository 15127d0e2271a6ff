/* Results and their names, each thread's last error, and the log's sink. */
#include "base/error.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/process.h"
#include "tests/support/test.h"
#include "tests/support/threads.h"

MEND_TEST(base_error, every_result_has_its_name)
{
#define X(name, value, meaning) EXPECT_STR_EQ(#name, mend_result_name(name));
    MEND_RESULTS(X)
#undef X
    EXPECT_TRUE(mend_result_name((mend_result)9999)[0] != 0);
    EXPECT_TRUE(mend_result_name((mend_result)-1)[0] != 0);
}

static char logged[64];

static void keep_line(void *context, mend_log_level level, const char *line)
{
    (void)context;
    EXPECT_INT_EQ(MEND_LOG_WARNING, level);
    snprintf(logged, sizeof(logged), "%s", line);
}

MEND_TEST(base_error, a_line_is_logged_as_it_is_and_none_as_an_empty_one)
{
    mend_log_set_sink(keep_line, NULL);
    mend_log_write(MEND_LOG_WARNING, "100 %s");
    EXPECT_STR_EQ("100 %s", logged);
    mend_log_write(MEND_LOG_WARNING, NULL);
    EXPECT_STR_EQ("", logged);
    mend_log_set_sink(NULL, NULL);
}

MEND_TEST(base_error, values_of_results_are_distinct)
{
    static const int values[] = {
#define X(name, value, meaning) value,
        MEND_RESULTS(X)
#undef X
    };
    for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++) {
        EXPECT_INT_EQ(i, values[i]); /* part of the binary interface */
    }
}

MEND_TEST(base_error, a_failure_of_ours_names_no_call_of_the_driver)
{
    mend_error error = MEND_ERROR_INIT;
    (void)mend_fail_driver(MEND_ERROR_DRIVER, "cuMemMap", 1, "CUDA_ERROR_INVALID_VALUE", "no");
    ASSERT_RESULT(MEND_OK, mend_last_error(&error));
    EXPECT_STR_EQ("CUDA_ERROR_INVALID_VALUE", error.driver_name);
    (void)mend_fail(MEND_ERROR_INVALID_ARGUMENT, "no");
    ASSERT_RESULT(MEND_OK, mend_last_error(&error));
    EXPECT_INT_EQ(0, error.driver_status);
    EXPECT_STR_EQ("", error.driver_name);
    EXPECT_STR_EQ("", error.driver_call);
}

MEND_TEST(base_error, keeps_the_last_failure)
{
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT,
                  mend_fail(MEND_ERROR_INVALID_ARGUMENT, "%d is too many", 7));
    mend_error error = MEND_ERROR_INIT;
    ASSERT_RESULT(MEND_OK, mend_last_error(&error));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, error.result);
    EXPECT_STR_EQ("7 is too many", error.message);
    EXPECT_STR_EQ("", error.driver_call);
    EXPECT_STR_EQ("", error.driver_name);
    EXPECT_INT_EQ(0, error.driver_status);
}

MEND_TEST(base_error, keeps_what_the_driver_said_until_the_next_failure)
{
    EXPECT_RESULT(MEND_ERROR_DRIVER,
                  mend_fail_driver(MEND_ERROR_DRIVER, "cuMemMap", 2, "CUDA_ERROR_OUT_OF_MEMORY",
                                   "mapping %s", "a chunk"));
    mend_error error = MEND_ERROR_INIT;
    ASSERT_RESULT(MEND_OK, mend_last_error(&error));
    EXPECT_RESULT(MEND_ERROR_DRIVER, error.result);
    EXPECT_INT_EQ(2, error.driver_status);
    EXPECT_STR_EQ("cuMemMap", error.driver_call);
    EXPECT_STR_EQ("CUDA_ERROR_OUT_OF_MEMORY", error.driver_name);
    EXPECT_STR_EQ("mapping a chunk", error.message);
    mend_fail(MEND_ERROR_OUT_OF_MEMORY, "full");
    ASSERT_RESULT(MEND_OK, mend_last_error(&error));
    EXPECT_INT_EQ(0, error.driver_status);
    EXPECT_STR_EQ("", error.driver_call);
}

MEND_TEST(base_error, what_is_noted_is_the_last_error_once_it_is_published)
{
    mend_fail(MEND_ERROR_DOUBLE_FREE, "a failure");
    mend_driver_failure(MEND_ERROR_DRIVER, "cuMemMap", 1, "INVALID_VALUE", "worked around");
    EXPECT_INT_EQ(MEND_OK, mend_publish(MEND_OK));
    EXPECT_INT_EQ(MEND_ERROR_DOUBLE_FREE, mend_process_error()->result);
    EXPECT_STR_EQ("a failure", mend_process_error()->message);
    EXPECT_INT_EQ(MEND_ERROR_DRIVER, mend_publish(MEND_ERROR_DRIVER));
    EXPECT_INT_EQ(MEND_ERROR_DRIVER, mend_process_error()->result);
    EXPECT_STR_EQ("worked around", mend_process_error()->message);
    EXPECT_STR_EQ("cuMemMap", mend_process_error()->driver_call);
}

MEND_TEST(base_error, refuses_a_bad_struct_and_stays_readable)
{
    mend_fail(MEND_ERROR_OUT_OF_MEMORY, "full");
    mend_error error = MEND_ERROR_INIT;
    error.struct_size = 0;
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_last_error(&error));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_last_error(NULL));
    error = (mend_error)MEND_ERROR_INIT;
    ASSERT_RESULT(MEND_OK, mend_last_error(&error));
    EXPECT_STR_EQ("full", error.message);
}

MEND_TEST(base_error, cuts_long_messages)
{
    char text[2 * MEND_MESSAGE_BYTES];
    memset(text, 'x', sizeof(text));
    text[sizeof(text) - 1] = 0;
    mend_fail(MEND_ERROR_OUT_OF_MEMORY, "%s", text);
    mend_error error = MEND_ERROR_INIT;
    ASSERT_RESULT(MEND_OK, mend_last_error(&error));
    EXPECT_U64_EQ(MEND_MESSAGE_BYTES - 1, strlen(error.message));
}

/* Parts of messages come from files: what they hold does nothing to a terminal. */
MEND_TEST(base_error, shows_no_control_characters)
{
    mend_fail(MEND_ERROR_INVALID_ARGUMENT, "no action \"%s\"", "a\x1b[2J\r\n\x7f\xc3\xa4");
    mend_error error = MEND_ERROR_INIT;
    ASSERT_RESULT(MEND_OK, mend_last_error(&error));
    EXPECT_TRUE(strcmp(error.message, "no action \"a?[2J???\xc3\xa4\"") == 0);
}

static void *read_last_error(void *argument)
{
    mend_last_error(argument);
    return NULL;
}

MEND_TEST(base_error, is_each_thread_s_own)
{
    mend_fail(MEND_ERROR_OUT_OF_MEMORY, "full");
    mend_error error = MEND_ERROR_INIT;
    error.result = MEND_ERROR_DRIVER;
    mend_test_run_thread(read_last_error, &error);
    EXPECT_RESULT(MEND_OK, error.result);
}

typedef struct heard {
    int count;
    mend_log_level level;
    char line[MEND_MESSAGE_BYTES];
} heard;

static void listen(void *context, mend_log_level level, const char *line)
{
    heard *what = context;
    what->count++;
    what->level = level;
    memcpy(what->line, line, strlen(line) + 1);
    if (what->count == 1) {
        mend_log(MEND_LOG_DEBUG, "a sink may call Mend");
    }
}

MEND_TEST(base_log, goes_to_the_sink_and_nowhere_else)
{
    heard what = {0};
    mend_log_set_sink(listen, &what);
    mend_log(MEND_LOG_WARNING, "%d of %d", 1, 2);
    mend_log_set_sink(NULL, NULL);
    EXPECT_INT_EQ(2, what.count);
    EXPECT_STR_EQ("a sink may call Mend", what.line);
    EXPECT_INT_EQ(MEND_LOG_DEBUG, what.level);
    mend_log(MEND_LOG_WARNING, "not heard");
    EXPECT_INT_EQ(2, what.count);
}
