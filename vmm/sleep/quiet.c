#include "sleep/quiet.h"

#include "move/dissolve.h"
#include "move/host.h"
#include "move/remap.h"
#include "move/retire.h"
#include "move/zeros.h"
#include "physical/fence.h"
#include "sleep/collect.h"
#include "sleep/settle.h"
#include "users/capture_group.h"

mend_result mend_quiet_begin(mend_heap *heap)
{
    mend_result result = mend_streams_wait_context(&heap->streams, MEND_STREAM_UNKNOWN);
    mend_capture_groups_collect(heap);
    if (result == MEND_OK) {
        result = mend_remap(heap);
    }
    bool any;
    if (result == MEND_OK) {
        result = mend_dissolve_aliases(heap, &any);
    }
    if (result == MEND_OK) {
        mend_retire_flush(heap, MEND_STREAM_UNKNOWN);
        mend_host_collect(heap);
        mend_retire_flush(heap, MEND_STREAM_UNKNOWN);
        (void)mend_zeros_end_closed(heap, MEND_STREAM_UNKNOWN);
        mend_sleep_settle(heap);
        mend_sleep_collect(heap);
    }
    return result;
}
