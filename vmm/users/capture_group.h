/*
 * Groups of captures. What is allocated on a captured stream outside of the program's own groups,
 * or used and freed there, is used again at every launch of the graph. So each capture that touches
 * the pool has a group (users/group.h) made for it: nobody else gets that memory until the driver
 * says that the graph is no more.
 *
 * Guarded by the heap's `state` lock.
 */
#ifndef MEND_USERS_CAPTURE_GROUP_H
#define MEND_USERS_CAPTURE_GROUP_H

#include "users/group.h"

/* The number of the group of a capture, which is made if it is new. Reaches the driver then.
 * MEND_ERROR_OUT_OF_HOST_MEMORY, MEND_ERROR_DRIVER, MEND_ERROR_DEVICE_LOST. */
mend_result mend_capture_group_find(mend_heap *heap, mend_order order, uint32_t *group);

/* Gives back the memory of graphs that are no more. Calls nothing. */
void mend_capture_groups_collect_all(mend_heap *heap);
static inline void mend_capture_groups_collect(mend_heap *heap)
{
    if (heap->groups.capture_count > 0) {
        mend_capture_groups_collect_all(heap);
    }
}

/* Lets the host wait as mend_streams_wait_oldest does; and at last, where nothing else is left and
 * *has_graphs, once for launches of graphs that were destroyed: they keep their memory until they
 * end. Collects. */
mend_result mend_capture_groups_wait_oldest(mend_heap *heap, uint32_t asking, bool with_asking,
                                            bool *has_graphs, bool *waited);

/* Frees any group that is in no list, and hears of its graph no more. */
void mend_capture_group_free(mend_group *group);

#endif
