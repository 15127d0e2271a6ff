/* Who asks for memory: the stream of a request, and the group that takes what it gets. */
#ifndef MEND_USERS_REQUESTER_H
#define MEND_USERS_REQUESTER_H

#include "layout/state.h"

/* Learns the stream of a request, and the group that takes it now. Without a stream only idle
 * memory will do, which no group has. Errors of mend_streams_find. */
mend_result mend_requester_find(mend_heap *heap, mend_request *request);

/* The group that takes what is allocated in this order: one that the program has begun, or that of
 * the capture; 0 for none. Errors of mend_capture_group_find. */
mend_result mend_requester_find_group(mend_heap *heap, mend_order order, uint32_t *group);

#endif
