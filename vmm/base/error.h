/*
 * Why a call failed: the result that every function returns, and the detail behind it. And the log.
 *
 * A function below the calls of mend.h notes its failure. Many failures are worked around, and the
 * next one overwrites the note. A call of mend.h that fails publishes the last note before it
 * returns: only that becomes the thread's last error (mend_get_last_error).
 *
 * Below mend.h a function that calls the driver may return MEND_ERROR_DRIVER and
 * MEND_ERROR_DEVICE_LOST, and one that needs host memory MEND_ERROR_OUT_OF_HOST_MEMORY. Comments
 * name other errors.
 */
#ifndef MEND_BASE_ERROR_H
#define MEND_BASE_ERROR_H

#include "mend/mend.h"

/* Ends the function with the result of a step that failed. */
#define MEND_TRY(step)                                                                             \
    do {                                                                                           \
        const mend_result tried = (step);                                                          \
        if (tried != MEND_OK) {                                                                    \
            return tried;                                                                          \
        }                                                                                          \
    } while (0)

/* Notes a failure and returns `result`, so that a function can end with it. Of a driver call: its
 * name, its code, and the name of the code (both names are static). */
#define mend_failure(result, ...) mend_driver_failure(result, NULL, 0, NULL, __VA_ARGS__)
__attribute__((format(printf, 5, 6))) mend_result mend_driver_failure(mend_result result,
                                                                      const char *call, int status,
                                                                      const char *status_name,
                                                                      const char *format, ...);

/* The same for malloc, with `what` in the message: MEND_ERROR_OUT_OF_HOST_MEMORY. */
mend_result mend_no_host_memory(const char *what);

/* Copies the noted failure to the thread's last error, on the way out of a call of mend.h. Returns
 * `result`. */
void mend_publish_failure(mend_result result);
static inline mend_result mend_publish(mend_result result)
{
    if (result != MEND_OK) {
        mend_publish_failure(result);
    }
    return result;
}

/* Note and publish at once. Only the calls of mend.h use them. */
#define mend_fail(...)        mend_publish(mend_failure(__VA_ARGS__))
#define mend_fail_driver(...) mend_publish(mend_driver_failure(__VA_ARGS__))

/* ---- the log --------------------------------------------------------------------------------- */

/* Lines go to the program's sink. Without one, standard error gets the level that MEND_CONF or a
 * config asks for, and by default each kind of warning once. */

/* The caller holds no lock of a pool, because the sink may call Mend. The calling thread's last
 * error stays, whatever the sink calls. A warning that no result tells has a kind, its format up to
 * the first number: by default the first of a kind is shown. */
#define mend_log(level, ...)  mend_log_as(level, NULL, __VA_ARGS__)
#define mend_warn(...)        mend_log_as(MEND_LOG_WARNING, MEND_1ST(__VA_ARGS__, ), __VA_ARGS__)
#define MEND_1ST(format, ...) format
__attribute__((format(printf, 3, 4))) void mend_log_as(mend_log_level level, const char *kind,
                                                       const char *format, ...);

/* Lines from this level on go to standard error where there is no sink, -1: none. The lowest level
 * asked for applies. */
void mend_log_show(int level);

#endif
