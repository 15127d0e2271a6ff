/* Who uses blocks: streams, learned from the driver, their fences recorded, and forgotten; and who
 * requests memory: the stream of a request, and the group that will own the block. */
#include "alloc/users.h"

#include "map/map.h"

void mend_users_record_fence(mend_heap *heap, uint32_t stream)
{
    mend_result result = mend_streams_close_named(&heap->streams, stream);
    if (result != MEND_OK) {
        mend_driver_work_around(heap, result);
    }
}

/* Collects unused slots, also those whose last fence has passed: nobody else may ask about it. This
 * is the place for it: no other thread that makes room uses an unmarked slot now. */
static void collect_slots(mend_heap *heap)
{
    if (heap->streams.wants_collection && mend_mutex_try_lock(&heap->grow)) {
        (void)mend_streams_poll(&heap->streams);
        mend_slots_collect(&heap->streams);
        mend_mutex_unlock(&heap->grow);
    }
}

/* Keeps the slot while its fence is recorded, which releases the lock. */
static void record_found(mend_heap *heap, uint32_t stream)
{
    mend_streams_begin_call(&heap->streams, stream);
    mend_users_record_fence(heap, stream);
    mend_streams_end_call(&heap->streams, stream);
}

mend_result mend_users_learn_stream(mend_heap *heap, mend_stream stream, uint32_t group,
                                    uint32_t *index)
{
    assert(stream != MEND_NO_STREAM);
    mend_driver_scope scope;
    MEND_TRY(mend_driver_scope_open(heap, &scope));
    collect_slots(heap);
    mend_result result = mend_streams_find(&heap->streams, stream, group, index);
    if (result == MEND_OK && heap->streams.verify) {
        record_found(heap, *index);
    }
    mend_driver_scope_close(heap, &scope);
    return result;
}

/* ---- streams that end: the driver is not asked about them any more --------------------------- */

/* A stream that the pool knows only from groups must not be forgotten during its capture either. */
static mend_result check_captures_of_groups(mend_heap *heap, mend_stream stream)
{
    const uint32_t index = mend_streams_lookup_captured(&heap->streams, stream);
    if (index == MEND_STREAM_UNKNOWN) {
        return MEND_OK;
    }
    mend_driver_scope scope;
    mend_reach reach = MEND_REACH_GONE;
    MEND_TRY(mend_driver_scope_open(heap, &scope));
    mend_result result = mend_streams_reach(&heap->streams, index, &reach);
    mend_driver_scope_close(heap, &scope);
    return result == MEND_OK && reach == MEND_REACH_CAPTURED
               ? mend_failure(MEND_ERROR_CAPTURING, "the stream %p is being captured",
                              (void *)stream)
               : result;
}

static void leave_groups(mend_heap *heap, mend_stream stream, uint64_t id)
{
    mend_streams_watch_no_more(&heap->streams, stream);
    mend_streams_leave_groups(&heap->streams, stream, id);
}

/* The last fence comes first: if the driver refuses it, the stream is known as before. Then the
 * slot is found by no call any more; those that have found it before are waited for, because the
 * program may destroy the stream after this. */
mend_result mend_users_forget_stream(mend_heap *heap, mend_stream stream)
{
    assert(mend_mutex_is_held(&heap->grow));
    assert(mend_mutex_is_held(&heap->state));
    uint32_t index;
    if (!mend_streams_handle_suffices(&heap->streams, stream)) {
        MEND_TRY(mend_users_find_stream(heap, stream, 0, &index));
    } else if ((index = mend_streams_lookup(&heap->streams, stream, 0)) == MEND_STREAM_UNKNOWN) {
        MEND_TRY(check_captures_of_groups(heap, stream));
        leave_groups(heap, stream, 0);
        return MEND_OK;
    }
    mend_driver_scope scope;
    MEND_TRY(mend_driver_scope_open(heap, &scope));
    uint64_t id = heap->streams.items[index].id;
    /* One last fence, for memory that was freed and for blocks that the stream still uses. */
    mend_streams_stamp(&heap->streams, index, 0);
    mend_result result = mend_streams_forget(&heap->streams, index);
    if (result == MEND_OK) {
        mend_streams_await_calls(&heap->streams, index, &heap->state);
    }
    mend_driver_scope_close(heap, &scope);
    MEND_TRY(result);
    leave_groups(heap, stream, id);
    return MEND_OK;
}

/* ---- requesters ------------------------------------------------------------------------------ */

mend_result mend_requester_find_stream(mend_heap *heap, mend_order order, uint32_t group,
                                       uint32_t *index)
{
    MEND_TRY(mend_users_find_stream(heap, order.stream, group, index));
    if (group != 0) { /* of the program and not begun on the stream: no watch tells of the end */
        const bool is_unwatched = order.capture != 0 && (group & MEND_GROUP_OF_CAPTURE) == 0 &&
                                  mend_group_taking(heap, order.stream) != group;
        mend_slots_name(&heap->streams, *index, order.capture, is_unwatched);
        mend_group_watch_again(heap, order.stream);
    }
    return MEND_OK;
}

mend_result mend_requester_find_group(mend_heap *heap, mend_order order, uint32_t *group)
{
    *group = mend_group_taking(heap, order.stream);
    return *group == 0 && order.capture != 0 ? mend_capture_group_find(heap, order, group)
                                             : MEND_OK;
}

mend_result mend_requester_find(mend_heap *heap, mend_request *request)
{
    assert(mend_mutex_is_held(&heap->state));
    assert(request->handle != MEND_EVERY_STREAM);
    mend_capture_groups_collect(heap);
    if (request->handle == MEND_NO_STREAM) {
        heap->streams.may_be_several = true;
        heap->streams.serves_any = true;
        request->stream = MEND_STREAM_UNKNOWN;
        return MEND_OK;
    }
    const uint32_t known = mend_requester_known(heap, request);
    if (known != MEND_STREAM_UNKNOWN) {
        request->group = 0;
        request->stream = known;
        return MEND_OK;
    }
    mend_order order = {request->handle, request->capture};
    if (request->pages != NULL) { /* its pages belong to no group */
        request->group = 0;
        return mend_users_find_stream(heap, request->handle, 0, &request->stream);
    }
    request->group = request->owner;
    if (request->owner == 0) {
        MEND_TRY(mend_requester_find_group(heap, order, &request->group));
    }
    return mend_requester_find_stream(heap, order, request->group, &request->stream);
}
