/*
 * Groups: blocks that belong to captured graphs. While a group is begun, requests on its streams go
 * to streams of the group (physical/stream.h); no other stream gets memory that is freed there. A
 * block of a group has a mark among its users, which stays on whatever stream it is freed.
 *
 * Guarded by the heap's `state` lock.
 */
#ifndef MEND_USERS_GROUP_H
#define MEND_USERS_GROUP_H

#include "layout/state.h"

struct mend_group {
    mend_list link;  /* of all groups of the heap; begun ones first, the latest before the others */
    mend_pool *pool; /* for the calls of mend.h; NULL: a group of a capture */
    uint32_t number; /* from 1 */
    bool is_begun;
    mend_watch watch; /* of its stream, or MEND_EVERY_STREAM; set while it is begun */

    /* Only for a group of a capture: see users/capture_group.h. */
    uint64_t capture;             /* id; 0: the program's own group */
    struct mend_capture_end *end; /* set when the graph has ended */
};

/* The caller allocated the group with malloc. */
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

/* The program's group that a live block belongs to; NULL: none. */
mend_group *mend_group_of(const mend_heap *heap, const mend_span *span);

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

#endif
