/* Graph pools and graphs that keep memory, and graph pools that are restored. */
#ifndef MEND_BENCH_CROWD_GRAPH_POOLS_H
#define MEND_BENCH_CROWD_GRAPH_POOLS_H

#include "crowd/crowd.h"

void mend_crowd_make_graph_pool(crowd *c);
void mend_crowd_fill_blocks_and_a_graph_pool(crowd *c);
void mend_crowd_fill_graph_pools(crowd *c);
void mend_crowd_fill_graph_pools_of_chunks(crowd *c);
void mend_crowd_fill_graphs(crowd *c);
void mend_crowd_release_graph_pool(crowd *c);
void mend_crowd_restore_nothing(crowd *c);
void mend_crowd_fill_graph_pool_of_blocks(crowd *c);
void mend_crowd_move_chunks(crowd *c);
void mend_crowd_fill_graph_pool_of_chunks(crowd *c);
void mend_crowd_restore_blocks(crowd *c);

#endif
