/* What the inside of Mend, and its tests, may ask of a pool beyond the public header. */
#ifndef MEND_POOL_POOL_H
#define MEND_POOL_POOL_H

#include <stdbool.h>

#include "mend/mend.h"
#include "observe/audit.h"

/* The audit of observe/audit.h, under the pool's lock. */
bool mend_pool_audit(mend_pool *pool, char finding[MEND_AUDIT_FINDING_BYTES]);

#endif
