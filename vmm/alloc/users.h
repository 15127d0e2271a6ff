/* Who uses blocks: streams, found by their handles, and the group of a request. Guarded by the
 * heap's `state` lock. */
#ifndef MEND_ALLOC_USERS_H
#define MEND_ALLOC_USERS_H

#include "layout/state.h"

/* The stream of a handle, if the handle identifies it and no group can take it; otherwise
 * MEND_STREAM_UNKNOWN. */
static inline uint32_t mend_users_known_stream(mend_heap *heap, mend_stream handle)
{
    mend_streams *streams = &heap->streams;
    if (handle == streams->last_handle) {
        return streams->last_found;
    }
    return mend_streams_handle_suffices(streams, handle) && !streams->serves_groups
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

/* As mend_forget_stream. The caller holds both locks. */
mend_result mend_users_forget_stream(mend_heap *heap, mend_stream stream);

/* ---- users.c --------------------------------------------------------------------------------- */

/* Registers the stream of a request and finds its group. A request without a stream gets only idle
 * memory, and belongs to no group. Errors of mend_streams_find. */
mend_result mend_requester_find(mend_heap *heap, mend_request *request);

/* The stream that this finds without the driver, as it does for almost all; or UNKNOWN. */
static inline uint32_t mend_requester_known(mend_heap *heap, const mend_request *request)
{
    const bool is_usual = request->owner == 0 && request->capture == 0;
    return is_usual ? mend_users_known_stream(heap, request->handle) : MEND_STREAM_UNKNOWN;
}

/* The stream of an order, in a group (0: none). The groups of the stream watch it from now on.
 * Errors of mend_streams_find. */
mend_result mend_requester_find_stream(mend_heap *heap, mend_order order, uint32_t group,
                                       uint32_t *index);

/* The group for allocations in this order: one that the program has begun, or that of the capture;
 * 0: none. Errors of mend_capture_group_find. */
mend_result mend_requester_find_group(mend_heap *heap, mend_order order, uint32_t *group);

#endif
