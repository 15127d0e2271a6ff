/*
 * What the history tells of requests: a block that was allocated or freed, a request that was
 * refused. The usual calls ask only whether it is on.
 */
#include "heap/heap.h"

#include <assert.h>

#include "users/users.h"

static mend_history_event event_of(const mend_heap *heap, mend_event_kind kind,
                                   const mend_span *span, mend_stream stream)
{
    /* What the front cache has taken already is of no group. */
    const uint32_t group = span->live ? mend_group_number_of(heap, span) : 0;
    return (mend_history_event){.kind = (int)kind,
                                .is_for_graphs = group != 0,
                                .address = (void *)(uintptr_t)span->address,
                                .size_bytes = span->size_bytes,
                                .stream = stream,
                                .group = mend_group_numbered(heap, group),
                                .tag = span->tag,
                                .requested_bytes = span->requested_bytes,
                                .chunk = mend_chunk_memory(span->chunk)->number,
                                .scope = span->scope,
                                .stack = span->stack};
}

void mend_events_alloc(mend_heap *heap, const mend_span *span, mend_service service)
{
    assert(span->live);
    mend_history_event event = event_of(heap, MEND_EVENT_ALLOC, span, span->stream);
    event.cause = (int)(service.cause != MEND_CAUSE_NONE ? service.cause : MEND_CAUSE_RUN);
    event.duration_ns = service.duration_ns;
    mend_history_put(&heap->history, event);
}

void mend_events_free(mend_heap *heap, const mend_span *span, mend_stream stream)
{
    mend_history_put(&heap->history, event_of(heap, MEND_EVENT_FREE, span, stream));
}

void mend_events_refuse(mend_heap *heap, uint64_t size_bytes, mend_stream stream)
{
    const bool by_device = heap->shortage.refused_bytes > 0;
    mend_history_put_step(&heap->history, (mend_history_event){
                                              .kind = MEND_EVENT_OUT_OF_MEMORY,
                                              .size_bytes = size_bytes,
                                              .stream = stream,
                                              .cause = by_device ? MEND_CAUSE_DEVICE_REFUSED
                                                                 : MEND_CAUSE_LIMIT_REFUSED,
                                          });
    mend_history_add_failure(&heap->history, mend_process_failure()); /* this one, just noted */
}
