/* Each thread's last error, and the log's sink. */
#include "base/error.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/process.h"
#include "base/words.h"
#include "mend/mend_frameworks.h"
#include "tests/support/test.h"
#include "tests/support/threads.h"

static mend_error last_error(void)
{
    mend_error error = MEND_ERROR_INIT;
    EXPECT_RESULT(MEND_OK, mend_get_last_error(&error));
    return error;
}

/* Amounts in messages. */
MEND_TEST(base_error, what_is_rounded_up_may_be_the_next_whole_unit)
{
    EXPECT_STR_EQ("2.00 GiB", mend_words_amount_above(2 * MEND_GIB - 1).text);
    EXPECT_STR_EQ("1.99 GiB", mend_words_amount(2 * MEND_GIB - 1).text);
}

/* A failure of ours names no driver call, also after a failure of the driver. */
MEND_TEST(base_error, keeps_the_last_failure)
{
    EXPECT_RESULT(MEND_ERROR_DRIVER,
                  mend_fail_driver(MEND_ERROR_DRIVER, "cuMemMap", 2, "CUDA_ERROR_OUT_OF_MEMORY",
                                   "mapping %s", "a chunk"));
    mend_error error = last_error();
    EXPECT_RESULT(MEND_ERROR_DRIVER, error.result);
    EXPECT_INT_EQ(2, error.driver_status);
    EXPECT_STR_EQ("cuMemMap", error.driver_call);
    EXPECT_STR_EQ("CUDA_ERROR_OUT_OF_MEMORY", error.driver_name);
    EXPECT_STR_EQ("mapping a chunk (cuMemMap: CUDA_ERROR_OUT_OF_MEMORY)", error.message);
    /* The message repeats nothing. */
    mend_fail_driver(MEND_ERROR_DRIVER, "cuMemMap", 1, "UNKNOWN", "cuMemMap failed");
    EXPECT_STR_EQ("cuMemMap failed (UNKNOWN)", last_error().message);
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT,
                  mend_fail(MEND_ERROR_INVALID_ARGUMENT, "%d is too many", 7));
    error = last_error();
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, error.result);
    EXPECT_INT_EQ(0, error.driver_status);
    EXPECT_STR_EQ("7 is too many", error.message);
    EXPECT_STR_EQ("", error.driver_call);
    EXPECT_STR_EQ("", error.driver_name);
}

/* As it is, whatever failed before. */
MEND_TEST(base_error, callers_set_their_own)
{
    mend_process_failure()->oom_report.struct_size = sizeof(mend_oom_report); /* an old one */
    mend_fail_driver(MEND_ERROR_DRIVER, "cuMemMap", 1, "UNKNOWN", "cuMemMap failed");
    EXPECT_INT_EQ(MEND_OK, mend_set_last_error(MEND_OK, "nothing"));
    EXPECT_STR_EQ("cuMemMap failed (UNKNOWN)", last_error().message);
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY,
                  mend_set_last_error(MEND_ERROR_OUT_OF_MEMORY, "100 %s"));
    mend_error error = last_error();
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY, error.result);
    EXPECT_STR_EQ("100 %s", error.message);
    EXPECT_STR_EQ("", error.driver_call);
    EXPECT_PTR_EQ(NULL, error.oom_report);
    EXPECT_RESULT(MEND_ERROR_PINNED, mend_set_last_error(MEND_ERROR_PINNED, NULL));
    EXPECT_STR_EQ("", last_error().message);
}

/* Parts of messages come from files: their contents do nothing to a terminal. */
MEND_TEST(base_error, refuses_a_bad_struct_cuts_and_shows_no_control_characters)
{
    mend_error error = {0};
    char text[2 * MEND_MESSAGE_BYTES];
    mend_fail(MEND_ERROR_INVALID_ARGUMENT, "no action \"%s\"", "a\x1b[2J\r\n\x7f\xc3\xa4");
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_get_last_error(&error));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_get_last_error(NULL));
    EXPECT_STR_EQ("no action \"a?[2J???\xc3\xa4\"", last_error().message);
    memset(text, 'x', sizeof(text));
    text[sizeof(text) - 1] = 0;
    mend_fail(MEND_ERROR_OUT_OF_MEMORY, "%s", text);
    EXPECT_U64_EQ(MEND_MESSAGE_BYTES - 1, strlen(last_error().message));
}

/* Calls of drivers in calls of drivers, as deep as they may be. */
MEND_TEST(base_error, the_deepest_calls_share_a_note)
{
    mend_thread_error *first = mend_process_failure();
    for (; mend_process_driver_depth <= MEND_FAILURES; mend_process_driver_depth++) {
        const unsigned depth = mend_process_driver_depth;
        EXPECT_PTR_EQ(first + (depth < 2 ? depth : 2), mend_process_failure());
    }
    mend_process_driver_depth = 0;
}

static void *read_last_error(void *argument)
{
    mend_get_last_error(argument);
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

static void hear(void *context, mend_log_level level, const char *line)
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
    mend_log_set_sink(hear, &what);
    mend_log(MEND_LOG_WARNING, "%d of %d", 1, 2);
    EXPECT_INT_EQ(2, what.count);
    EXPECT_STR_EQ("a sink may call Mend", what.line);
    EXPECT_INT_EQ(MEND_LOG_DEBUG, what.level);
    mend_log_write(MEND_LOG_WARNING, "100 %s"); /* as it is, and none as an empty one */
    EXPECT_STR_EQ("100 %s", what.line);
    mend_log_write(MEND_LOG_WARNING, NULL);
    EXPECT_STR_EQ("", what.line);
    mend_log_set_sink(NULL, NULL);
    mend_log(MEND_LOG_WARNING, "not heard");
    EXPECT_INT_EQ(4, what.count);
}

/* Standard error after warnings of two kinds, one of them twice, and one that a result reports. So
 * many kinds were told before. */
static void expect_on_standard_error(int level, int told_count, const char *expected)
{
    int ends[2];
    char text[1024] = "";
    ASSERT_TRUE(pipe(ends) == 0);
    const int kept = dup(STDERR_FILENO);
    const mend_process_log before = mend_process_own_log;
    mend_process_own_log.shown = 0;
    mend_process_own_log.told_count = told_count;
    if (level != 0) {
        mend_log_show(level > 0 ? MEND_LOG_WARNING : level);
        mend_log_show(level);
        mend_log_show(level > 0 ? MEND_LOG_WARNING : level); /* another pool, which asks for less */
        mend_log_show(-1);                                   /* and one which asks for none */
    }
    fflush(stderr);
    dup2(ends[1], STDERR_FILENO);
    for (int i = 0; i < 2; i++) {
        mend_warn("kind %d", i);
    }
    mend_log_write(MEND_LOG_WARNING, "0x10 is not freed");
    mend_log_write(MEND_LOG_WARNING, "pool 1 is full");
    mend_log_write(MEND_LOG_WARNING, "pool 2 is full");
    mend_log_write(MEND_LOG_INFO, "pool 3 is full");
    mend_log(MEND_LOG_WARNING, "out of memory");
    dup2(kept, STDERR_FILENO);
    close(ends[1]);
    close(kept);
    mend_process_own_log = before;
    const ssize_t length = read(ends[0], text, sizeof(text) - 1);
    close(ends[0]);
    text[length > 0 ? length : 0] = 0;
    EXPECT_STR_EQ(expected, text);
}

#define ONCE " (Told once; MEND_CONF=log_level:warning tells all, log_level:off none.)\n"

MEND_TEST(base_log, tells_each_kind_of_warning_once_by_default)
{
    expect_on_standard_error(
        0, 0, "mend: kind 0" ONCE "mend: 0x10 is not freed" ONCE "mend: pool 1 is full" ONCE);
    expect_on_standard_error(0, MEND_LOG_KINDS, "");
    expect_on_standard_error(-1, 0, "");
    expect_on_standard_error(MEND_LOG_WARNING, 0,
                             "mend: kind 0\nmend: kind 1\nmend: 0x10 is not freed\nmend: pool 1 "
                             "is full\nmend: pool 2 is full\nmend: out of memory\n");
    expect_on_standard_error(MEND_LOG_INFO, 0,
                             "mend: kind 0\nmend: kind 1\nmend: 0x10 is not freed\nmend: pool 1 "
                             "is full\nmend: pool 2 is full\nmend: pool 3 is full\n"
                             "mend: out of memory\n");
}
