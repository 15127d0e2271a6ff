/* One pool with many of one thing, and the shared parts of its operations: see crowd.c. */
#ifndef MEND_BENCH_CROWD_H
#define MEND_BENCH_CROWD_H

#include <stdbool.h>

#include "base/align.h"
#include "lab/workloads/population.h"
#include "mend/mend.h"
#include "mend/mend_graph_pools.h"
#include "mend/mend_range.h"
#include "mend/mend_sim.h"

enum { STREAMS = 2, SMALLEST_BYTES = 512, LARGEST_BYTES = 2048, GRAPH_POOL_BYTES = 8192 };
#define PAGE  (2 * MEND_MIB) /* of the simulated device */
#define CHUNK (9 * PAGE)     /* more than blocks share */

typedef struct crowd {
    mend_sim *sim;
    mend_pool *pool;
    mend_pool *exporter;             /* of what the pool imports. NULL: of nothing */
    struct mend_crowd_token *tokens; /* of its exports */
    mend_stream streams[STREAMS];
    size_t count;
    void **blocks;
    mend_graph_pool *graph_pool;
    mend_graph_pool_block *listed;
    mend_stream *users;
    mend_range **ranges; /* for operations on one range: the first one */
    size_t turn;
    size_t at; /* the block, range or page that the operation is about */
    mend_random random;
} crowd;

void mend_crowd_require(bool condition, const char *what);
void *mend_crowd_alloc_bytes(const crowd *c, uint64_t size_bytes, mend_stream stream);
void mend_crowd_free_on(const crowd *c, void *block, mend_stream stream);

/* The block at c->at: allocated, freed, or both. And all blocks. */
void mend_crowd_take(crowd *c);
void mend_crowd_give(crowd *c);
void mend_crowd_replace(crowd *c);
void mend_crowd_fill_blocks(crowd *c);

#endif
