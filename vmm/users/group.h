/*
 * Groups: blocks that belong to captured graphs. While a group is begun, requests on its streams go
 * to streams of the group (physical/stream.h), whose freed memory nobody else gets; a block of a
 * group is marked by a user that stays with it whatever stream it is freed on.
 *
 * Guarded by the heap's `state` lock.
 */
#ifndef MEND_USERS_GROUP_H
#define MEND_USERS_GROUP_H

#include "layout/state.h"

struct mend_group {
    mend_list link;  /* of all groups of the heap; those begun stand first, the latest before */
    mend_pool *pool; /* for mend.h */
    uint32_t number; /* from 1 */
    bool is_begun;
    mend_watch watch; /* when begun: of its stream, or MEND_EVERY_STREAM */

    /* Of a capture, which no program asked for: see users/capture_group.h. */
    uint64_t capture;             /* id; 0: the program's own group */
    struct mend_capture_end *end; /* hears when the graph is no more */
};

/* The caller has allocated the group with malloc. */
void mend_group_enter(mend_heap *heap, mend_group *group, mend_pool *pool);

/* The number of the group that takes requests on a stream now; 0 for none. */
uint32_t mend_group_taking(const mend_heap *heap, mend_stream stream);

/* The block was allocated in the group: a stream of the group that was only declared for it
 * (mend_record_stream) does not make it one. */
bool mend_group_owns(const mend_heap *heap, uint32_t number, const mend_span *span);

/* The caller checked whether it is begun. */
void mend_group_set_begun(mend_heap *heap, mend_group *group, mend_stream stream, bool is_begun);

/* Takes the group off the list. Its memory has gone, or goes with the heap. */
void mend_group_drop(mend_heap *heap, mend_group *group);

/* The stream is in use: all begun groups that take it watch it, also those whose watch ended when a
 * stream of its handle was forgotten. */
void mend_group_watch_again(mend_heap *heap, mend_stream stream);

/* Gives the group's memory back, idle after what precedes this point of `stream` (MEND_NO_STREAM:
 * after a wait for the context). The caller drops it then. Both locks; reaches the driver.
 * MEND_ERROR_CAPTURING, MEND_ERROR_UNKNOWN_STREAM, MEND_ERROR_DRIVER, MEND_ERROR_DEVICE_LOST,
 * MEND_ERROR_OUT_OF_HOST_MEMORY: the group stays. */
mend_result mend_group_leave(mend_heap *heap, mend_group *group, mend_stream stream);

#endif
