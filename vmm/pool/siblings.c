#include "pool/siblings.h"

static bool trim(mend_pool *sibling, uint64_t bytes)
{
    if (mend_pool_enter_making(sibling) != MEND_OK) {
        return false; /* it is broken */
    }
    bool gave = mend_heap_give_back(&sibling->heap, bytes);
    mend_pool_leave_making(sibling, MEND_OK);
    return gave;
}

bool mend_siblings_trim_next(mend_pool *pool, uint64_t bytes, uint64_t *cursor, bool *gave)
{
    mend_process_member *member = mend_process_visit_next(pool->driver, pool->device, cursor);
    if (member == &pool->member) {
        mend_process_visit_end(member);
        member = mend_process_visit_next(pool->driver, pool->device, cursor);
    }
    if (member == NULL) {
        return false;
    }
    *gave = trim(MEND_CONTAINER_OF(member, mend_pool, member), bytes);
    mend_process_visit_end(member);
    return true;
}
