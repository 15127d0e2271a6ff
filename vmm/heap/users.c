#include "heap/users.h"

#include "base/process.h"
#include "heap/door.h"
#include "physical/fence.h"

void mend_users_record_fence(mend_heap *heap, uint32_t stream)
{
    mend_thread_error error_before;
    mend_process_keep_error(&error_before);
    mend_result result = mend_streams_close_named(&heap->streams, stream);
    if (result != MEND_OK) {
        mend_heap_work_around(heap, result);
        mend_process_put_error_back(&error_before);
    }
}

mend_result mend_users_learn_stream(mend_heap *heap, mend_stream stream, uint32_t group,
                                    uint32_t *index)
{
    mend_door door;
    mend_result result = mend_heap_open_door(heap, &door);
    if (result == MEND_OK) {
        result = mend_streams_find(&heap->streams, stream, group, index);
        if (result == MEND_OK && heap->streams.verify) {
            mend_users_record_fence(heap, *index);
        }
        mend_heap_close_door(heap, &door);
    }
    return result;
}
