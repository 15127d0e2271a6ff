#include "users/requester.h"

#include <assert.h>

#include "users/capture_group.h"
#include "users/users.h"

/* The groups of a stream watch it from now on. */
static mend_result find_stream(mend_heap *heap, mend_stream stream, uint32_t group, uint32_t *index)
{
    mend_result result = mend_users_find_stream(heap, stream, group, index);
    assert(result != MEND_OK || heap->streams.items[*index].group == group);
    if (result == MEND_OK && group != 0) {
        mend_group_watch_again(heap, stream);
    }
    return result;
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
    mend_order order = {request->handle, request->capture};
    mend_result result = mend_requester_find_group(heap, order, &request->group);
    return result == MEND_OK ? find_stream(heap, request->handle, request->group, &request->stream)
                             : result;
}
