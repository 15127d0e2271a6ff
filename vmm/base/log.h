/* Log lines go to the program's sink. Without one, standard error gets the level that MEND_CONF or
 * a config asks for, and by default each kind of warning once. */
#ifndef MEND_BASE_LOG_H
#define MEND_BASE_LOG_H

#include "mend/mend.h"

/* The caller holds no lock of a pool, because the sink may call Mend. The calling thread's last
 * error stays, whatever the sink calls. */
__attribute__((format(printf, 2, 3))) void mend_log(mend_log_level level, const char *format, ...);

/* The same for a warning that no result tells: by default the first of its kind is shown. The kind
 * is the format up to its first number. */
__attribute__((format(printf, 1, 2))) void mend_warn(const char *format, ...);

/* Lines from this level on go to standard error where there is no sink, -1: none. The lowest level
 * asked for applies. */
void mend_log_show(int level);

#endif
