/*
 * Freezing a chunk: no thread takes memory in it any more, and what is freed in it becomes claimed.
 * The caller holds both locks. A layout change: calls no driver.
 */
#ifndef MEND_MOVE_FREEZE_H
#define MEND_MOVE_FREEZE_H

#include "layout/layout.h"

/* The nodes to freeze chunks with this many spans in all, and to thaw them. */
mend_layout_promise mend_freeze_nodes(const mend_heap *heap, size_t chunks, size_t spans);

/* Of waits, those to freeze a chunk as it is now. */
size_t mend_freeze_waits(mend_heap *heap, const mend_chunk *chunk);

/* Claims the free memory of a mapped chunk, span by span: each goes on waiting for what it waits
 * for. The nodes were promised. */
void mend_freeze_chunk(mend_heap *heap, mend_chunk *chunk);

/* Ends that, for a chunk that lacks nothing. */
void mend_thaw_chunk(mend_heap *heap, mend_chunk *chunk);

#endif
