/* Why free memory is not used, in sums. */
#include "alloc/users.h"
#include "layout/layout.h"
#include "record/record.h"

mend_free_reason mend_observe_reason(const mend_heap *heap, const mend_span *span, uint32_t asking)
{
    assert(!span->live);
    const mend_streams *streams = &heap->streams;
    unsigned holds = mend_waits_blocked_by(streams, &span->waits, asking);
    if (holds & MEND_BLOCKED_BY_GRAPH_POOLS) {
        return MEND_FREE_GRAPH_POOLS;
    }
    if (holds & MEND_BLOCKED_UNTIL_WAIT) {
        return MEND_FREE_STREAMLESS;
    }
    if (holds & MEND_BLOCKED_BY_STREAMS) {
        return MEND_FREE_STREAMS;
    }
    bool is_idle = mend_waits_blocked_by(streams, &span->waits, MEND_STREAM_UNKNOWN) == 0;
    return is_idle ? MEND_FREE_IDLE : MEND_FREE_OWN;
}

/* `idle`: the sum for memory that nothing keeps from use. */
static void add(mend_live_free *sums, uint64_t *idle, mend_free_reason reason, uint64_t bytes)
{
    uint64_t *const sum_of[MEND_FREE_REASONS] = {
        [MEND_FREE_IDLE] = idle,
        [MEND_FREE_OWN] = &sums->streams_bytes,
        [MEND_FREE_STREAMS] = &sums->streams_bytes,
        [MEND_FREE_STREAMLESS] = &sums->no_stream_bytes,
        [MEND_FREE_GRAPH_POOLS] = &sums->graphs_bytes,
    };
    *sum_of[reason] += bytes;
}

/* Returns the lowest span of the chunk. `above` is the lowest span of the chunk above it. Adds to
 * *count how many there are. */
static const mend_span *add_chunk(const mend_heap *heap, const mend_chunk *chunk,
                                  const mend_span *above, mend_live_free *sums, size_t *count)
{
    const uint64_t end = chunk->address + chunk->size_bytes;
    const bool is_empty = mend_chunk_is_empty(chunk);
    const bool sleeps = mend_chunk_sleeps(chunk);
    mend_free_reason worst = MEND_FREE_IDLE;
    const mend_span *lowest = NULL;
    const mend_span *span = mend_layout_last_span(heap, chunk, above);
    for (; span != NULL && mend_span_end(span) > chunk->address; span = span->previous) {
        lowest = span;
        ++*count;
        if (span->live || sleeps) {
            continue;
        }
        const uint64_t bytes =
            mend_min_u64(mend_span_end(span), end) - mend_max_u64(span->address, chunk->address);
        const mend_free_reason reason = mend_observe_reason(heap, span, MEND_STREAM_UNKNOWN);
        worst = reason > worst ? reason : worst;
        if (!is_empty) {
            add(sums, &sums->beside_bytes, reason, bytes);
        }
    }
    if (is_empty) {
        add(sums, &sums->whole_bytes, worst, chunk->size_bytes);
    } else if (sleeps && mend_chunk_is_reserved(chunk)) {
        sums->beside_bytes += chunk->size_bytes; /* the driver refused to take it back */
    }
    return lowest;
}

bool mend_observe_free(const mend_heap *heap, size_t spans, uint64_t *below, mend_live_free *sums)
{
    assert(mend_mutex_is_held(&heap->grow));
    assert(mend_mutex_is_held(&heap->state));
    const mend_span *above = NULL;
    size_t count = 0;
    if (*below == UINT64_MAX) {
        *sums = (mend_live_free){.whole_bytes = heap->chunks.unmapped_bytes};
    }
    const mend_chunk *chunk = mend_chunk_below(&heap->chunks, *below);
    for (; chunk != NULL && count < spans; chunk = mend_chunk_previous(chunk)) {
        above = add_chunk(heap, chunk, above, sums, &count);
        *below = chunk->address;
    }
    return chunk != NULL;
}
