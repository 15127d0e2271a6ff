/*
 * What a request made the pool do while it had the right to make room: the dearest of its steps,
 * and how long it took with the wait for the lock. For the history; nothing is asked while that is
 * off.
 */
#include "ladder/ladder.h"

static mend_steps steps_of(const mend_heap *heap, uint64_t began_ns)
{
    const mend_heap_counters *counters = &heap->counters;
    return (mend_steps){.began_ns = began_ns,
                        .created = heap->chunks.created,
                        .moved = counters->chunks_moved,
                        .aliases = counters->placed_by_alias,
                        .stream_waits = heap->streams.stream_waits,
                        .host_waits = heap->streams.host_waits,
                        .compactions = counters->compactions,
                        .on_host = counters->placed_on_host};
}

uint64_t mend_steps_come(const mend_heap *heap)
{
    return mend_history_now_ns(&heap->history);
}

mend_steps mend_steps_begin(mend_heap *heap, uint64_t began_ns)
{
    mend_history_begin_call(&heap->history, MEND_CAUSE_REQUEST);
    return steps_of(heap, began_ns);
}

static mend_event_cause dearest(const mend_steps *before, const mend_steps *now)
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

void mend_steps_end(const mend_heap *heap, const mend_steps *before, mend_request *request)
{
    const mend_steps now = steps_of(heap, 0);
    const mend_event_cause cause = dearest(before, &now);
    mend_service *service = &request->service;
    service->cause = cause > service->cause ? cause : service->cause;
    service->duration_ns += mend_history_since_ns(&heap->history, before->began_ns);
}
