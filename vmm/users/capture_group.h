/*
 * Groups of captures. A graph uses its memory again at every launch: memory allocated on a captured
 * stream outside of the program's own groups, or freed or declared there. So the pool makes a group
 * (users/group.h) for each capture that calls it. No other request gets that memory until the
 * driver reports that the graph has ended.
 *
 * Guarded by the heap's `state` lock.
 */
#ifndef MEND_USERS_CAPTURE_GROUP_H
#define MEND_USERS_CAPTURE_GROUP_H

#include "users/group.h"

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

/* Frees a group of any kind that is in no list. The end of its graph is then ignored. */
void mend_capture_group_free(mend_group *group);

#endif
