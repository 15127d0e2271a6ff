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

/* The sums of the regions. */
typedef struct mend_region_sums {
    uint64_t bytes;
    uint64_t live_blocks;
    uint64_t live_bytes; /* pages included */
    uint64_t page_bytes;
    uint64_t requested_bytes;
    uint64_t idle_bytes; /* of kind FREE */
    uint64_t small_bytes;
    uint64_t kept_bytes; /* free, for graphs */
    uint64_t pinned_bytes;
    uint64_t pinned_free_bytes;
    uint64_t unmapped_blocks;
    uint64_t asleep_bytes; /* of blocks: also if a part of them is awake */
} mend_region_sums;
mend_region_sums mend_regions_sum(const mend_region *regions, size_t count);

/* They tile each segment, agree with the blocks, and add up to the statistics. Otherwise false, and
 * the finding. */
enum { MEND_REGIONS_FINDING_BYTES = 160 };
bool mend_regions_are_right(mend_pool *pool, char finding[MEND_REGIONS_FINDING_BYTES]);

#ifdef __cplusplus
}
#endif

#endif
