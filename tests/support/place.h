/* Sizes of a pool that programs cannot set: they follow its limit and its strategy. */
#ifndef MEND_TESTS_SUPPORT_PLACE_H
#define MEND_TESTS_SUPPORT_PLACE_H

#include "mend/mend.h"

/* 0 in the first three: as the pool has it. In the others: a chunk by the limit. */
typedef struct mend_test_sizes {
    uint64_t low_pressure_percent; /* as in mend_placement (layout/state.h) */
    uint64_t small_request_bytes;
    uint64_t unfenced_bytes;
    uint64_t chunk_bytes;
    uint64_t small_chunk_bytes;
} mend_test_sizes;

/* Sets them in a new pool. */
void mend_test_place(mend_pool *pool, const mend_test_sizes *wanted);

/* Freed blocks are not kept for the next ones any more. */
void mend_test_close_cache(mend_pool *pool);

#endif
