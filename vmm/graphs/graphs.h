/* Live blocks of a graph pool, listed and restored. Graph pools themselves: alloc/users.h. */
#ifndef MEND_GRAPHS_GRAPHS_H
#define MEND_GRAPHS_GRAPHS_H

#include "layout/state.h"
#include "mend/mend_graph_pools.h"

/* ---- graph_pool_blocks.c --------------------------------------------------------------------- */

/*
 * It works because of an invariant: memory that was freed in a graph pool stays mapped and stays
 * with the graph pool, until the graph pool is released. A request of the graph pool may move a
 * chunk that the graph pool has freed. Then the old mapping retires, and is still there.
 */

/* Lists the graph pool's live blocks, by address, each `block_bytes` behind the one before. *count
 * is their number. If it is above `capacity`, `blocks` is untouched. Under `state`. No driver
 * call. */
void mend_heap_list_graph_pool(mend_heap *heap, uint32_t graph_pool, mend_graph_pool_block *blocks,
                               size_t block_bytes, size_t capacity, size_t *count);

/* Makes these the live blocks of the graph pool. See mend_graph_pool_restore, and its errors. Under
 * both locks. May call the driver, to identify a stream. */
mend_result mend_heap_restore_graph_pool(mend_heap *heap, uint32_t graph_pool,
                                         const mend_graph_pool_block *blocks, size_t block_bytes,
                                         size_t count);

#endif
