#include "pool/siblings.h"

static uint64_t trim(mend_pool *sibling, uint64_t bytes)
{
    uint64_t released_bytes = 0;
    if (mend_pool_enter_making(sibling) != MEND_OK) {
        return 0; /* it is broken */
    }
    uint64_t reserved_bytes = sibling->heap.chunks.reserved_bytes;
    uint64_t keep_bytes = reserved_bytes > bytes ? reserved_bytes - bytes : 0;
    mend_heap_trim(&sibling->heap, keep_bytes, &released_bytes);
    mend_pool_leave_making(sibling, MEND_OK);
    return released_bytes;
}

bool mend_siblings_trim_next(mend_pool *pool, uint64_t bytes, uint64_t *cursor,
                             uint64_t *released_bytes)
{
    mend_process_member *member = mend_process_visit_next(pool->driver, pool->device, cursor);
    if (member == &pool->member) {
        mend_process_visit_end(member);
        member = mend_process_visit_next(pool->driver, pool->device, cursor);
    }
    if (member == NULL) {
        return false;
    }
    *released_bytes = trim(MEND_CONTAINER_OF(member, mend_pool, member), bytes);
    mend_process_visit_end(member);
    return true;
}
