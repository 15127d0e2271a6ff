/* Conditions of the regions of a pool at any time. */
#ifndef MEND_TESTS_SUPPORT_REGIONS_H
#define MEND_TESTS_SUPPORT_REGIONS_H

#include <stdbool.h>

#include "mend/mend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* All regions of a pool, which the caller frees. NULL if the pool has none, or malloc fails. */
mend_region *mend_regions_of(mend_pool *pool, size_t *count);

/* They tile each segment, agree with the blocks, and add up to the statistics. Otherwise false, and
 * the finding. */
enum { MEND_REGIONS_FINDING_BYTES = 160 };
bool mend_regions_are_right(mend_pool *pool, char finding[MEND_REGIONS_FINDING_BYTES]);

#ifdef __cplusplus
}
#endif

#endif
