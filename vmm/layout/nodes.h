/*
 * Nodes for changes of the layout: all that a change may need is there before it begins, so that no
 * change can fail.
 *
 * Guarded by the heap's `state` lock.
 */
#ifndef MEND_LAYOUT_NODES_H
#define MEND_LAYOUT_NODES_H

#include "layout/state.h"

/* Reserves nodes for one take and for `chunk_count` attaches and detaches. False if malloc
 * fails. */
bool mend_layout_reserve(mend_heap *heap, size_t chunk_count);

/* Reserves nodes for `change_count` changes: each a take or a free of a block, or an attach and a
 * detach of a chunk with copies of its waits. */
bool mend_layout_reserve_changes(mend_heap *heap, size_t change_count);

/* The same, for a caller that lets others change the heap before it uses the nodes: they stay
 * promised to it until mend_layout_end_promise. */
typedef struct mend_layout_promise {
    size_t spans;
    size_t runs;
    size_t waits;
} mend_layout_promise;
bool mend_layout_promise_nodes(mend_heap *heap, size_t chunk_count, mend_layout_promise *promise);
bool mend_layout_promise_these(mend_heap *heap, const mend_layout_promise *promise);
void mend_layout_end_promise(mend_heap *heap, const mend_layout_promise *promise);

#endif
