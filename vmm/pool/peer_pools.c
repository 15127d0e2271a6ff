/*
 * Peer pools: the other pools of a device. They give back idle memory if one of them lacks memory
 * that the device does not have either.
 */
#include "pool/pool.h"

#include <assert.h>

#include "ladder/ladder.h"

/* A peer pool whose context is lost gives nothing; that is no failure of this call. */
static bool trim(mend_pool *peer_pool, mend_need need)
{
    mend_heap_lock_all(&peer_pool->heap);
    bool gave = mend_heap_lost_by(&peer_pool->heap) == MEND_DRIVER_OK &&
                mend_ladder_give_back(&peer_pool->heap, need);
    mend_heap_unlock_all(&peer_pool->heap);
    mend_pool_audit_after_call(peer_pool);
    return gave;
}

bool mend_peer_pools_trim_next(mend_pool *pool, mend_need need, uint64_t *cursor, bool *gave)
{
    mend_process_member *member = mend_process_visit_next(pool->driver, pool->device, cursor);
    if (member == &pool->member) {
        mend_process_visit_end(member);
        member = mend_process_visit_next(pool->driver, pool->device, cursor);
    }
    if (member == NULL) {
        return false;
    }
    assert(member != &pool->member);
    assert(member->domain == pool->driver);
    *gave = trim(MEND_CONTAINER_OF(member, mend_pool, member), need);
    mend_process_visit_end(member);
    return true;
}
