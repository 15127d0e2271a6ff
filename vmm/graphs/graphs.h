/* Live blocks of a group, listed and restored. Groups themselves: alloc/users.h. */
#ifndef MEND_GRAPHS_GRAPHS_H
#define MEND_GRAPHS_GRAPHS_H

#include "layout/state.h"
#include "mend/mend_groups.h"

/* ---- group_blocks.c -------------------------------------------------------------------------- */

/*
 * It works because of an invariant: memory that was freed in a group stays mapped and stays with
 * the group, until the group is released. A request of the group may move a chunk that the group
 * has freed; then the old mapping retires, and is still there.
 */

/* Lists the group's live blocks, by address, each `block_bytes` behind the one before. *count is
 * their number; if it is above `capacity`, `blocks` is untouched. Under `state`. No driver call. */
void mend_heap_list_group(mend_heap *heap, uint32_t group, mend_group_block *blocks,
                          size_t block_bytes, size_t capacity, size_t *count);

/* Makes these the live blocks of the group; see mend_group_set_blocks, and its errors. Under both
 * locks; may call the driver, to identify a stream. */
mend_result mend_heap_restore_group(mend_heap *heap, uint32_t group, const mend_group_block *blocks,
                                    size_t block_bytes, size_t count);

#endif
