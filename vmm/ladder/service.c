/*
 * How a request was served: by the dearest of what it made the pool do, found in counters before
 * and after it, and in what time. For the history; nothing is asked while that is off.
 */
#include "ladder/ladder.h"

static mend_service_mark mark_of(const mend_heap *heap, uint64_t began_ns)
{
    const mend_heap_counters *counters = &heap->counters;
    return (mend_service_mark){.began_ns = began_ns,
                               .created = heap->chunks.created,
                               .moved = counters->chunks_moved,
                               .aliases = counters->placed_by_alias,
                               .stream_waits = heap->streams.stream_waits,
                               .host_waits = heap->streams.host_waits,
                               .compactions = counters->compactions,
                               .on_host = counters->placed_on_host};
}

uint64_t mend_service_come(const mend_heap *heap)
{
    return mend_history_now_ns(&heap->history);
}

mend_service_mark mend_service_begin(mend_heap *heap, uint64_t began_ns)
{
    mend_history_begin_call(&heap->history, MEND_CAUSE_REQUEST);
    return mark_of(heap, began_ns);
}

static mend_event_cause dearest(const mend_service_mark *before, const mend_service_mark *now)
{
    return now->on_host != before->on_host             ? MEND_CAUSE_ON_HOST
           : now->compactions != before->compactions   ? MEND_CAUSE_COMPACTED
           : now->host_waits != before->host_waits     ? MEND_CAUSE_HOST_WAITED
           : now->stream_waits != before->stream_waits ? MEND_CAUSE_STREAM_WAITED
           : now->created != before->created           ? MEND_CAUSE_CREATED
           : now->moved != before->moved               ? MEND_CAUSE_MOVED
           : now->aliases != before->aliases           ? MEND_CAUSE_ALIAS
                                                       : MEND_CAUSE_RUN;
}

void mend_service_end(const mend_heap *heap, const mend_service_mark *before, mend_request *request)
{
    const mend_service_mark now = mark_of(heap, 0);
    const mend_event_cause cause = dearest(before, &now);
    mend_service *service = &request->service;
    service->cause = cause > service->cause ? cause : service->cause;
    service->duration_ns += mend_history_since_ns(&heap->history, before->began_ns);
}
