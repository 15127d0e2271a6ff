/* Lines for whoever asked to hear them; nothing is ever printed by the library itself. */
#ifndef MEND_BASE_LOG_H
#define MEND_BASE_LOG_H

#include "mend/mend.h"

/* Called without any lock of a pool. */
__attribute__((format(printf, 2, 3))) void mend_log(mend_log_level level, const char *format, ...);

#endif
