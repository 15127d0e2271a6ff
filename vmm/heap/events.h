/*
 * What the history tells of requests: a block that was allocated or freed, a request that was
 * refused. The usual calls ask only whether it is on.
 *
 * Guarded by the heap's `state` lock; the history is on.
 */
#ifndef MEND_HEAP_EVENTS_H
#define MEND_HEAP_EVENTS_H

#include "layout/state.h"

/* The block is live, and counted. */
void mend_events_alloc(mend_heap *heap, const mend_span *span, mend_service service);

/* The block was freed in the order of a stream, or MEND_NO_STREAM. Its span says what it was. */
void mend_events_free(mend_heap *heap, const mend_span *span, mend_stream stream);

/* A request for so many bytes found no room. */
void mend_events_refuse(mend_heap *heap, uint64_t size_bytes, mend_stream stream);

#endif
