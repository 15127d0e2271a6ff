#include "layout/nodes.h"

#include <assert.h>

bool mend_layout_reserve_changes(mend_heap *heap, size_t change_count)
{
    assert(mend_mutex_is_held(&heap->state));
    mend_layout_promise nodes = mend_layout_nodes_for(heap, 1);
    nodes.waits += (size_t)2 * heap->streams.count;
    return mend_slab_reserve(&heap->nodes.spans, change_count * nodes.spans) &&
           mend_slab_reserve(&heap->nodes.runs, change_count * nodes.runs) &&
           mend_slab_reserve(&heap->nodes.waits, change_count * nodes.waits);
}

bool mend_layout_promise_these(mend_heap *heap, const mend_layout_promise *promise)
{
    assert(mend_mutex_is_held(&heap->state));
    if (!mend_slab_promise(&heap->nodes.spans, promise->spans)) {
        return false;
    }
    if (!mend_slab_promise(&heap->nodes.runs, promise->runs)) {
        mend_slab_end_promise(&heap->nodes.spans, promise->spans);
        return false;
    }
    if (!mend_slab_promise(&heap->nodes.waits, promise->waits)) {
        mend_slab_end_promise(&heap->nodes.spans, promise->spans);
        mend_slab_end_promise(&heap->nodes.runs, promise->runs);
        return false;
    }
    return true;
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
