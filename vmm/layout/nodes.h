/*
 * Nodes for changes of the layout: all that a change may need is there before it begins, so that no
 * change can fail.
 *
 * Guarded by the heap's `state` lock.
 */
#ifndef MEND_LAYOUT_NODES_H
#define MEND_LAYOUT_NODES_H

#include "layout/state.h"

typedef struct mend_layout_promise {
    size_t spans;
    size_t runs;
    size_t waits;
} mend_layout_promise;

/* The most nodes that one take needs, plus an attach and a detach of this many chunks. */
static inline mend_layout_promise mend_layout_nodes_for(const mend_heap *heap, size_t chunk_count)
{
    size_t splits = 2 + 2 * chunk_count;
    size_t waits = mend_streams_are_several(&heap->streams)
                       ? (splits + 2 + 2 * chunk_count) * heap->streams.count
                       : heap->streams.count;
    waits++; /* the mark of a block of a group */
    return (mend_layout_promise){
        .spans = splits + chunk_count, .runs = 2 + 2 * chunk_count, .waits = waits};
}

/* Reserves these. False if malloc fails. */
static inline bool mend_layout_reserve(mend_heap *heap, size_t chunk_count)
{
    assert(mend_mutex_is_held(&heap->state));
    mend_layout_promise nodes = mend_layout_nodes_for(heap, chunk_count);
    return mend_slab_reserve(&heap->nodes.spans, nodes.spans) &&
           mend_slab_reserve(&heap->nodes.runs, nodes.runs) &&
           mend_slab_reserve(&heap->nodes.waits, nodes.waits);
}

/* Reserves nodes to free a span that lies in so many chunks, each of which may be frozen; 0: none
 * is. */
bool mend_layout_reserve_parts(mend_heap *heap, const mend_span *span, size_t chunk_count);
static inline bool mend_layout_reserve_free(mend_heap *heap, const mend_span *span,
                                            size_t chunk_count)
{
    return chunk_count <= 1 ? mend_layout_reserve(heap, chunk_count)
                            : mend_layout_reserve_parts(heap, span, chunk_count);
}

/* Reserves nodes for `change_count` changes: each a take or a free of a block, or an attach and a
 * detach of a chunk with copies of its waits. */
bool mend_layout_reserve_changes(mend_heap *heap, size_t change_count);

/* The same, for a caller that lets others change the heap before it uses the nodes: they stay
 * promised to it until mend_layout_end_promise. */
bool mend_layout_promise_nodes(mend_heap *heap, size_t chunk_count, mend_layout_promise *promise);
bool mend_layout_promise_these(mend_heap *heap, const mend_layout_promise *promise);
void mend_layout_end_promise(mend_heap *heap, const mend_layout_promise *promise);

#endif
