/* Who requests memory: the stream of a request, and the group that will own the block. */
#include "users/users.h"

#include <assert.h>

#include "base/error.h"
#include "physical/stream.h"

/* Whether a capture uses a group of the program that is not begun on the stream: no watch tells
 * when that capture ends. */
static bool is_unwatched(const mend_heap *heap, mend_order order, uint32_t group)
{
    return order.capture != 0 && (group & MEND_GROUP_OF_CAPTURE) == 0 &&
           mend_group_taking(heap, order.stream) != group;
}

mend_result mend_requester_find_stream(mend_heap *heap, mend_order order, uint32_t group,
                                       uint32_t *index)
{
    MEND_TRY(mend_users_find_stream(heap, order.stream, group, index));
    if (group != 0) {
        mend_stream_state *state = &heap->streams.items[*index];
        assert(state->group == group);
        state->used_outside |= order.capture == 0;
        state->named_in = order.capture;
        if (is_unwatched(heap, order, group)) {
            mend_slots_see(&heap->streams, *index, true, order.capture);
            state->serves_capture = true;
        }
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
        heap->streams.serves_any = true;
        request->stream = MEND_STREAM_UNKNOWN;
        return MEND_OK;
    }
    const bool is_usual = request->owner == 0 && request->capture == 0;
    const uint32_t known =
        is_usual ? mend_users_known_stream(heap, request->handle) : MEND_STREAM_UNKNOWN;
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
