#include "tests/support/place.h"

#include "layout/layout.h"
#include "map/map.h"
#include "pool/pool.h"

void mend_test_place(mend_pool *pool, const mend_test_sizes *wanted)
{
    mend_placement *placement = &pool->heap.config.placement;
    /* other threads may already trim this pool for a pool of theirs */
    mend_heap_lock_all(&pool->heap);
    placement->chunk_bytes = wanted->chunk_bytes;
    placement->small_chunk_bytes = wanted->small_chunk_bytes;
    if (wanted->small_request_bytes != 0) {
        placement->small_request_bytes = wanted->small_request_bytes;
    }
    if (wanted->unfenced_bytes != 0) {
        placement->unfenced_bytes = wanted->unfenced_bytes;
    }
    if (wanted->low_pressure_percent != 0) {
        placement->low_pressure_percent = wanted->low_pressure_percent;
    }
    mend_heap_unlock_all(&pool->heap);
}

void mend_test_close_cache(mend_pool *pool)
{
    mend_heap_lock_all(&pool->heap);
    mend_cache_close(&pool->heap);
    mend_heap_unlock_all(&pool->heap);
}
