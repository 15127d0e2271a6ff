/* The call that shows the memory of a pool. */
#include "base/struct_size.h"
#include "mend/mend_views.h"
#include "observe/regions.h"
#include "pool/enter.h"
#include "pool/pool.h"

mend_result mend_get_regions(mend_pool *pool, mend_region *regions, size_t region_bytes,
                             size_t capacity, size_t *count)
{
    if (pool == NULL || count == NULL || (regions == NULL && capacity > 0)) {
        return mend_pool_invalid("mend_get_regions: pool, regions or count is NULL");
    }
    if (!mend_struct_size_is_whole(region_bytes, sizeof(void *))) {
        return mend_pool_invalid("mend_get_regions: pass sizeof(mend_region) as region_bytes");
    }
    mend_result result = mend_pool_check_process(pool);
    if (result != MEND_OK) {
        return result;
    }
    mend_heap *heap = &pool->heap;
    mend_heap_lock_to_read(heap);
    *count = mend_observe_regions(heap, NULL, region_bytes, 0);
    if (*count <= capacity) {
        mend_observe_regions(heap, regions, region_bytes, capacity);
    }
    mend_heap_unlock_after_read(heap);
    return MEND_OK;
}
