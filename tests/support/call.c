#include "tests/support/call.h"

#include <string.h>

void mend_test_begin_call(mend_test_call *call)
{
    call->generation = mend_process_generation();
    call->held_ranks = *mend_process_held_ranks();
    call->error = *mend_process_error();
}

static bool is_same(const mend_thread_error *a, const mend_thread_error *b)
{
    return a->result == b->result && a->driver_status == b->driver_status &&
           a->driver_name == b->driver_name && a->driver_call == b->driver_call &&
           strcmp(a->message, b->message) == 0;
}

const char *mend_test_remains_of_call(const mend_test_call *call, mend_result result)
{
    const mend_thread_error *error = mend_process_error();
    if (call->generation != mend_process_generation()) {
        return NULL;
    }
    if (*mend_process_held_ranks() != call->held_ranks) {
        return "the call has left a lock taken";
    }
    /* An internal answer, below 0, is no failure. */
    if (result == MEND_OK || (int)result < 0) {
        return is_same(&call->error, error) ? NULL : "a call that succeeded has set the last error";
    }
    return error->result == result ? NULL : "a call that failed has set another last error";
}
