#include "ladder/streams.h"

#include "move/retire.h"
#include "physical/fence.h"
#include "physical/record.h"

/* Records fences for frees of other streams, so that a later poll can find them passed, and
 * polls. */
static mend_result refresh_fences(mend_heap *heap, const mend_request *request)
{
    mend_streams *streams = &heap->streams;
    if (!mend_streams_are_several(streams)) {
        return MEND_OK;
    }
    for (uint32_t i = MEND_STREAM_UNKNOWN + 1; i < streams->count; i++) {
        if (i != request->stream) {
            mend_result result = mend_streams_close_epoch(streams, i);
            if (result != MEND_OK) {
                return result;
            }
        }
    }
    mend_streams_poll(streams);
    return MEND_OK;
}

mend_result mend_ladder_refresh(mend_heap *heap, const mend_request *request)
{
    mend_retire_flush(heap, request->stream);
    return refresh_fences(heap, request);
}

/* False for a group, because its graphs may be launched on any stream; and for a request without a
 * stream. */
mend_result mend_ladder_may_wait_behind(mend_heap *heap, const mend_request *request,
                                        bool *may_wait)
{
    *may_wait = false;
    if (!heap->config.allow_stream_waits || request->group != 0 ||
        !mend_streams_are_several(&heap->streams)) {
        return MEND_OK;
    }
    mend_reach reach = MEND_REACH_GONE;
    mend_result result = mend_streams_reach(&heap->streams, request->stream, &reach);
    *may_wait = result == MEND_OK && reach == MEND_REACH_OPEN;
    return result;
}
