/*
 * A quiet point: all work of the context is done, and the program launches none until the call
 * ends. Sleeps and moves of memory begin with it.
 */
#include "sleep/sleep.h"

#include "move/move.h"
#include "move/ranges.h"
#include "physical/waits.h"
#include "users/users.h"

mend_result mend_quiet_begin(mend_heap *heap)
{
    mend_result result = mend_streams_wait_context(&heap->streams, MEND_STREAM_UNKNOWN);
    mend_capture_groups_collect(heap);
    if (result == MEND_OK) {
        result = mend_settle(heap, MEND_OWED_RESTORE, MEND_STREAM_UNKNOWN);
    }
    bool any;
    if (result == MEND_OK) {
        result = mend_dissolve_aliases(heap, &any);
    }
    if (result == MEND_OK) {
        mend_retire_flush(heap, MEND_STREAM_UNKNOWN);
        (void)mend_settle(heap, MEND_OWED_GRAPHS, MEND_STREAM_UNKNOWN);
        (void)mend_zeros_end_closed(heap, MEND_STREAM_UNKNOWN);
    }
    return result;
}
