/*
 * PyTorch's memory pools: their users, which requests go to them, and the graph pool of blocks that
 * each keeps. A pool has a number, which is the tag of its blocks.
 *
 * A pool that the program made (torch.cuda.MemPool) shares its memory with all others until one of
 * its streams is captured. Then it gets a graph pool, and retains memory that is freed in it. A
 * pool that only graphs know has a graph pool from its first block on.
 */
#ifndef MEND_TORCH_POOLS_H
#define MEND_TORCH_POOLS_H

#include <stdbool.h>

#include "mend/mend_torch.h"

typedef struct mend_torch_pool mend_torch_pool;

/* Whether any pool takes requests of a device now: one relaxed load. */
bool mend_torch_pools_take(int device);

/* Leaves all requests of a device, and its pools from now on, to PyTorch's own allocator.
 * MEND_ERROR_OUT_OF_HOST_MEMORY. */
mend_result mend_torch_pools_leave(int device);

/* Whether a pool has a graph pool now: one relaxed load. */
bool mend_torch_pools_keep(void);

/* The pool that a request goes to, held until mend_torch_pool_let_go. NULL: none. */
mend_torch_pool *mend_torch_pool_taking(int device, mend_stream stream);

/* The pool with this name, held, if it has a graph pool. NULL: it has none, or there is no such
 * pool. */
mend_torch_pool *mend_torch_pool_named(int device, mend_torch_pool_id id);

/* The pool with this number, held, if it has a graph pool. NULL: it has none, or there is no such
 * pool. */
mend_torch_pool *mend_torch_pool_keeping(uint64_t number);

void mend_torch_pool_let_go(mend_torch_pool *pool);

/* Of a pool that is held. */
bool mend_torch_pool_is_foreign(const mend_torch_pool *pool);
uint64_t mend_torch_pool_number(const mend_torch_pool *pool);

/* The graph pool of a pool that is held, created if the pool keeps its memory and has none yet.
 * *graph pool is NULL if it shares its memory. Results as mend_graph_pool_create, and as
 * mend_pool_for_device. */
mend_result mend_torch_pool_graph_pool_of(mend_torch_pool *pool, mend_graph_pool **graph_pool);

#endif
