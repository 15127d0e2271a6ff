#include "tests/support/place.h"

#include "pool/pool.h"

void mend_test_place(mend_pool *pool, const mend_placement *wanted)
{
    mend_placement *placement = &pool->heap.config.placement;
    placement->chunk_bytes = wanted->chunk_bytes;
    placement->small_chunk_bytes = wanted->small_chunk_bytes;
    if (wanted->small_request_bytes != 0) {
        placement->small_request_bytes = wanted->small_request_bytes;
    }
    if (wanted->low_pressure_percent != 0) {
        placement->low_pressure_percent = wanted->low_pressure_percent;
    }
}
