/*
 * Conditions of any call of Mend: a success does not change the thread's last error, a failure sets
 * it, and no lock stays taken. EXPECT_RESULT and ASSERT_RESULT ask it of each call they are given.
 */
#ifndef MEND_TESTS_SUPPORT_CALL_H
#define MEND_TESTS_SUPPORT_CALL_H

#include "base/process.h"

typedef struct mend_test_call {
    uint64_t generation; /* a fork in the midst of a call leaves a thread without a past */
    unsigned held_ranks; /* as base/thread.h counts them, which it does in debug builds */
    mend_thread_error error;
} mend_test_call;

/* Before a call, in its thread. */
void mend_test_begin_call(mend_test_call *call);

/* Forbidden remains of the call, in words. NULL where nothing. */
const char *mend_test_remains_of_call(const mend_test_call *call, mend_result result);

/* The same for an expression of a test: failures are failures of the test. An expression that is no
 * call, and calls of the simulated device, set no error. */
void mend_test_end_call(const mend_test_call *call, mend_result result, const char *expression,
                        const char *file, int line);

#endif
