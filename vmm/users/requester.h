/* Who requests memory: the stream of a request, and the group that will own the block. */
#ifndef MEND_USERS_REQUESTER_H
#define MEND_USERS_REQUESTER_H

#include "layout/state.h"

/* Registers the stream of a request and finds its group. A request without a stream gets only idle
 * memory, and belongs to no group. Errors of mend_streams_find. */
mend_result mend_requester_find(mend_heap *heap, mend_request *request);

/* The stream of an order, in a group (0: none). The groups of the stream watch it from now on.
 * Errors of mend_streams_find. */
mend_result mend_requester_find_stream(mend_heap *heap, mend_order order, uint32_t group,
                                       uint32_t *index);

/* The group for allocations in this order: one that the program has begun, or that of the capture;
 * 0: none. Errors of mend_capture_group_find. */
mend_result mend_requester_find_group(mend_heap *heap, mend_order order, uint32_t *group);

#endif
