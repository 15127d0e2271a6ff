/* The streams that use blocks: found by their handles, and their fences recorded. */
#ifndef MEND_USERS_USERS_H
#define MEND_USERS_USERS_H

#include "layout/state.h"

/* Finds a stream, reaching the driver where it must. Errors of mend_streams_find. */
mend_result mend_users_learn_stream(mend_heap *heap, mend_stream stream, uint32_t group,
                                    uint32_t *index);
static inline mend_result mend_users_find_stream(mend_heap *heap, mend_stream stream,
                                                 uint32_t group, uint32_t *index)
{
    if (mend_streams_handle_suffices(&heap->streams, stream)) {
        *index = mend_streams_lookup(&heap->streams, stream, group);
        if (*index != MEND_STREAM_UNKNOWN) {
            return MEND_OK;
        }
    }
    return mend_users_learn_stream(heap, stream, group, index);
}

/* Records what was freed on a stream that a call has just named, inside an open driver scope. What
 * the driver refuses is recorded when it is needed, or when the stream is named again; of one that
 * is not, the context is waited for. */
void mend_users_record_fence(mend_heap *heap, uint32_t stream);

#endif
