#include "pool/peer_pools.h"

#include "ladder/trim.h"

static bool trim(mend_pool *peer_pool, uint64_t bytes)
{
    if (mend_pool_enter_all(peer_pool) != MEND_OK) {
        return false; /* it is broken */
    }
    bool gave = mend_ladder_give_back(&peer_pool->heap, bytes);
    mend_pool_leave_all(peer_pool, MEND_OK);
    return gave;
}

bool mend_peer_pools_trim_next(mend_pool *pool, uint64_t bytes, uint64_t *cursor, bool *gave)
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
