/*
 * Streams that end: the program says so, and the pool does not ask the driver about them any more.
 */
#include "users/users.h"

#include <assert.h>

#include "base/error.h"
#include "move/driver_scope.h"
#include "physical/waits.h"

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
    assert(index != MEND_STREAM_UNKNOWN);
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
