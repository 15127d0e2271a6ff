/*
 * Why a call failed: the result every function returns, and the detail behind it.
 *
 * A function below the calls of mend.h notes its failure; many a failure is worked around then, and
 * the next one takes its place. The call that answers with a failure publishes, on its way out,
 * what was noted last: only that is the thread's last error (mend_last_error).
 */
#ifndef MEND_BASE_ERROR_H
#define MEND_BASE_ERROR_H

#include "mend/mend.h"

/* Notes a failure and returns `result`, so that a function can end with it. */
__attribute__((format(printf, 2, 3))) mend_result mend_failure(mend_result result,
                                                               const char *format, ...);

/* The same for a failed driver call: its name, code and the code's name (both static). */
__attribute__((format(printf, 5, 6))) mend_result mend_driver_failure(mend_result result,
                                                                      const char *call, int status,
                                                                      const char *status_name,
                                                                      const char *format, ...);

/* The way out of a call: a failure, noted last, becomes the thread's last error. Passes the result
 * through. */
void mend_publish_failure(mend_result result);
static inline mend_result mend_publish(mend_result result)
{
    if (result != MEND_OK) {
        mend_publish_failure(result);
    }
    return result;
}

/* Notes and publishes at once: for the calls of mend.h themselves. */
__attribute__((format(printf, 2, 3))) mend_result mend_fail(mend_result result, const char *format,
                                                            ...);
__attribute__((format(printf, 5, 6))) mend_result mend_fail_driver(mend_result result,
                                                                   const char *call, int status,
                                                                   const char *status_name,
                                                                   const char *format, ...);

#endif
