/*
 * The live blocks of a group as a whole: listed, and restored at their addresses. A framework that
 * records a graph at some point of its execution first makes the group's memory what it was there.
 *
 * It works because of an invariant: memory that was freed in a group stays mapped and stays with
 * the group, until the group is released. A request of the group may move a chunk that the group
 * has freed; then the old mapping retires, and is still there.
 */
#ifndef MEND_HEAP_CHECKPOINT_H
#define MEND_HEAP_CHECKPOINT_H

#include "heap/heap.h"
#include "mend/mend.h"

/* Lists the group's live blocks, by address. *count is their number; if it is above `capacity`,
 * `blocks` is untouched. Under `state`. No driver call. */
void mend_heap_list_group(mend_heap *heap, uint32_t group, mend_group_block *blocks,
                          size_t capacity, size_t *count);

/* Makes these the live blocks of the group; see mend_group_set_blocks, and its errors. Under both
 * locks; may call the driver, to identify a stream. */
mend_result mend_heap_restore_group(mend_heap *heap, uint32_t group, const mend_group_block *blocks,
                                    size_t count);

#endif
