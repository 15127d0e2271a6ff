/* Why a call failed: the result every function returns, and the thread's detail behind it. */
#ifndef MEND_BASE_ERROR_H
#define MEND_BASE_ERROR_H

#include "mend/mend.h"

/* Sets the thread's last error and returns `result`, so that a function can end with it. */
__attribute__((format(printf, 2, 3))) mend_result mend_fail(mend_result result, const char *format,
                                                            ...);

/* The same for a failed driver call: its name, code and the code's name (both static). */
__attribute__((format(printf, 5, 6))) mend_result mend_fail_driver(mend_result result,
                                                                   const char *call, int status,
                                                                   const char *status_name,
                                                                   const char *format, ...);

#endif
