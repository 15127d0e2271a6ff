/* Lines for those who asked for them: the sink of the program, or standard error where MEND_CONF
 * or a config asks for it; nothing is printed else. */
#ifndef MEND_BASE_LOG_H
#define MEND_BASE_LOG_H

#include "mend/mend.h"

/* Called without any lock of a pool. */
__attribute__((format(printf, 2, 3))) void mend_log(mend_log_level level, const char *format, ...);

/* The same in a call whose last error must stay, whatever the sink calls. */
__attribute__((format(printf, 2, 3))) void mend_log_beside_error(mend_log_level level,
                                                                 const char *format, ...);

#endif
