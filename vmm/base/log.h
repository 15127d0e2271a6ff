/* Log lines: to the program's sink, or to standard error if MEND_CONF or a config asks for it.
 * Otherwise nothing is printed. */
#ifndef MEND_BASE_LOG_H
#define MEND_BASE_LOG_H

#include "mend/mend.h"

/* The caller holds no lock of a pool, because the sink may call Mend. The calling thread's last
 * error stays, whatever the sink calls. */
__attribute__((format(printf, 2, 3))) void mend_log(mend_log_level level, const char *format, ...);

/* Lines from this level on go to standard error where there is no sink; the lowest level asked for
 * applies. */
void mend_log_show(int level);

#endif
