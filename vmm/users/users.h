/* The streams that use blocks: finding them by handle, and recording their fences. */
#ifndef MEND_USERS_USERS_H
#define MEND_USERS_USERS_H

#include "layout/state.h"

/* The stream of a handle, if the handle identifies it and no group can take it; otherwise
 * MEND_STREAM_UNKNOWN. */
static inline uint32_t mend_users_known_stream(mend_heap *heap, mend_stream handle)
{
    mend_streams *streams = &heap->streams;
    if (mend_heap_has_begun_groups(heap)) {
        return MEND_STREAM_UNKNOWN;
    }
    if (handle == streams->last_handle) {
        return streams->last_found;
    }
    return mend_streams_handle_suffices(streams, handle)
               ? mend_streams_lookup_other(streams, handle, 0)
               : MEND_STREAM_UNKNOWN;
}

/* Finds or registers a stream; calls the driver if necessary. Errors of mend_streams_find. */
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

/* Records a fence for frees on a stream that the current call names, inside an open driver scope.
 * If the driver refuses, the fence is recorded when it is needed, or when a call names the stream
 * again; without either, a wait for the context covers it. */
void mend_users_record_fence(mend_heap *heap, uint32_t stream);

#endif
