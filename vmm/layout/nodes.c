/*
 * Nodes for changes of the layout: all that a change may need is there before it begins, so that no
 * change can fail.
 */
#include "layout/layout.h"

#include <assert.h>

/* Each part has the waits of the whole: what it has now, the stamps of who frees it and of copies
 * that may run, and one for each stream if it is freed without one. */
mend_layout_promise mend_layout_nodes_to_free(const mend_heap *heap, const mend_span *span,
                                              size_t chunk_count)
{
    const size_t all = heap->config.knows_all_streams ? heap->streams.count : 0;
    mend_layout_promise nodes = mend_layout_nodes_for(heap, chunk_count);
    nodes.waits = mend_layout_nodes_for(heap, 1).waits +
                  2 * chunk_count * (mend_waits_count_others(&span->waits) + 3 + all);
    return nodes;
}

bool mend_layout_reserve_changes(mend_heap *heap, size_t change_count, size_t most_waits)
{
    enum { COPIES = 10 }; /* at four cuts, of two runs and two sides, and two of a chunk */
    assert(most_waits <= heap->streams.count);
    const mend_layout_promise one = mend_layout_nodes_for(heap, 1);
    const mend_layout_promise nodes = {.spans = change_count * one.spans,
                                       .runs = change_count * one.runs,
                                       .waits = change_count * (COPIES * most_waits + 1)};
    return mend_layout_reserve_these(heap, &nodes);
}

bool mend_layout_promise_these(mend_heap *heap, const mend_layout_promise *promise)
{
    return mend_layout_reserve_these(heap, promise) &&
           mend_slab_promise(&heap->nodes.spans, promise->spans) &&
           mend_slab_promise(&heap->nodes.runs, promise->runs) && /* they are there */
           mend_slab_promise(&heap->nodes.waits, promise->waits);
}

bool mend_layout_promise_nodes(mend_heap *heap, size_t chunk_count, mend_layout_promise *promise)
{
    *promise = mend_layout_nodes_for(heap, chunk_count);
    return mend_layout_promise_these(heap, promise);
}

void mend_layout_end_promise(mend_heap *heap, const mend_layout_promise *promise)
{
    assert(mend_mutex_is_held(&heap->state));
    mend_slab_end_promise(&heap->nodes.spans, promise->spans);
    mend_slab_end_promise(&heap->nodes.runs, promise->runs);
    mend_slab_end_promise(&heap->nodes.waits, promise->waits);
}
