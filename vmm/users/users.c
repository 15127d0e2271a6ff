/* Streams that use blocks: learned from the driver, and their fences recorded. */
#include "users/users.h"

#include <assert.h>

#include "base/error.h"
#include "move/driver_scope.h"
#include "physical/stream.h"
#include "physical/waits.h"

void mend_users_record_fence(mend_heap *heap, uint32_t stream)
{
    assert(mend_mutex_is_held(&heap->state));
    assert(stream < heap->streams.count);
    mend_result result = mend_streams_close_named(&heap->streams, stream);
    if (result != MEND_OK) {
        mend_driver_work_around(heap, result);
    }
}

/* Collects unused slots. This is the place for it: no other thread that makes room uses an unmarked
 * slot now. */
static void collect_slots(mend_heap *heap)
{
    if (heap->streams.wants_collection && mend_mutex_try_lock(&heap->grow)) {
        mend_slots_collect(&heap->streams);
        mend_mutex_unlock(&heap->grow);
    }
}

/* Keeps the slot while its fence is recorded, which releases the lock. */
static void record_found(mend_heap *heap, uint32_t stream)
{
    assert(heap->streams.items[stream].known);
    heap->streams.items[stream].calls++;
    mend_users_record_fence(heap, stream);
    mend_streams_end_call(&heap->streams, stream);
}

mend_result mend_users_learn_stream(mend_heap *heap, mend_stream stream, uint32_t group,
                                    uint32_t *index)
{
    assert(mend_mutex_is_held(&heap->state));
    assert(stream != MEND_NO_STREAM);
    collect_slots(heap);
    mend_driver_scope scope;
    MEND_TRY(mend_driver_scope_open(heap, &scope));
    mend_result result = mend_streams_find(&heap->streams, stream, group, index);
    if (result == MEND_OK && heap->streams.verify) {
        record_found(heap, *index);
    }
    mend_driver_scope_close(heap, &scope);
    return result;
}
