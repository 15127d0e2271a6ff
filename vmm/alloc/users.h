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

/* ---- users.c --------------------------------------------------------------------------------- */

struct mend_group {
    mend_list link;  /* of all groups of the heap; begun ones first, the latest before the others */
    mend_pool *pool; /* for the calls of mend.h; NULL: a group of a capture */
    uint32_t number; /* from 1 */
    bool is_begun;
    mend_watch watch; /* of its stream, or MEND_EVERY_STREAM; set while it is begun */

    /* Only for a group of a capture, which the pool made (groups.c). */
    uint64_t capture;             /* id; 0: the program's own group */
    struct mend_capture_end *end; /* set when the graph has ended */
};

/* The caller allocated the group with malloc. */
/* Without the lock this may miss a group that another thread begins at this moment. */
static inline bool mend_heap_has_begun_groups(const mend_heap *heap)
{
    return atomic_load_explicit(&heap->groups.begun_count, memory_order_relaxed) > 0;
}

static inline void mend_groups_init(mend_heap *heap)
{
    mend_list_init(&heap->groups.list);
}
void mend_group_enter(mend_heap *heap, mend_group *group, mend_pool *pool);

/* The number of the group that takes requests on a stream now; 0: none. */
uint32_t mend_group_taking(const mend_heap *heap, mend_stream stream);

/* Whether the block was allocated in the group. A stream of the group that was only declared for a
 * block (mend_record_stream) does not make it one of the group. */
bool mend_group_owns(const mend_heap *heap, uint32_t number, const mend_span *span);

/* The number of the group of a live block; 0: none. */
uint32_t mend_group_number_of(const mend_heap *heap, const mend_span *span);

/* The program's group with this number; NULL: none, or the group of a capture. */
mend_group *mend_group_numbered(const mend_heap *heap, uint32_t number);

/* The caller checked that this changes the state. */
void mend_group_set_begun(mend_heap *heap, mend_group *group, mend_stream stream, bool is_begun);

/* Removes the group from the list. Its memory was released, or is released with the heap. */
void mend_group_drop(mend_heap *heap, mend_group *group);

/* The stream is used again: all begun groups of the stream watch it, even if an earlier stream with
 * this handle was forgotten. */
void mend_group_watch_again(mend_heap *heap, mend_stream stream);

/* Releases the group's memory, which is idle after the work queued so far on `stream`
 * (MEND_NO_STREAM: after a wait for the context). The caller then drops the group. Under both
 * locks; calls the driver. MEND_ERROR_CAPTURING, MEND_ERROR_UNKNOWN_STREAM, MEND_ERROR_DRIVER,
 * MEND_ERROR_DEVICE_LOST, MEND_ERROR_OUT_OF_HOST_MEMORY: the group stays. */
mend_result mend_group_leave(mend_heap *heap, mend_group *group, mend_stream stream);

/* The number of a capture's group, which is created if there is none; that calls the driver.
 * MEND_ERROR_OUT_OF_HOST_MEMORY, MEND_ERROR_DRIVER, MEND_ERROR_DEVICE_LOST. */
mend_result mend_capture_group_find(mend_heap *heap, mend_order order, uint32_t *group);

/* Releases the groups whose graphs have ended. Does not call the driver. */
void mend_capture_groups_collect_all(mend_heap *heap);
static inline void mend_capture_groups_collect(mend_heap *heap)
{
    if (heap->groups.capture_count > 0) {
        mend_capture_groups_collect_all(heap);
    }
}

/* The host waits as in mend_streams_wait_oldest. If nothing else is left and *has_graphs is set, it
 * waits once for the context, for launches of graphs that were destroyed: those keep their memory
 * until they end. Then it collects. */
mend_result mend_capture_groups_wait_oldest(mend_heap *heap, uint32_t asking, bool with_asking,
                                            bool *has_graphs, bool *waited);

/* Frees all groups, of a heap that has ended. Ends of graphs are then ignored. */
void mend_groups_free(mend_heap *heap);

#endif
