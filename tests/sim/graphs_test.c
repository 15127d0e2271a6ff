/* Findings of the simulation beside memory of graphs. Shrunk, as regressions.c. */
#include "tests/sim/expect.h"

/* The block begins in the part of a chunk that graphs leave. */
HOLDS(sim_graphs, a_request_begins_in_what_graphs_leave_of_a_chunk, "chunk_pages 1",
      "GRAPH_POOL_CREATE slot 2 / ADD_CALLBACK amount 1 / ALLOC slot 11 size 130 / ALLOC alignment "
      "13 / "
      "ALLOC slot 1 size 136 amount 16 / FREE slot 11 size 152 amount 254 / SET_LIMIT amount 1 / "
      "ALLOC slot 2 size 195 / SET_LIMIT amount 1 / ALLOC size 123")

/* Seed 201122: free chunks before that, in one run with it, stayed where they were. */
HOLDS(sim_graphs, chunks_before_what_graphs_hold_move_behind_it, "",
      "GRAPH_POOL_CREATE slot 14 / ALLOC slot 2 size 203 / ALLOC_IN slot 15 amount 224 / FREE slot "
      "2 / "
      "FREE slot 15 / ROOM")
HOLDS(sim_graphs, a_request_has_chunks_before_what_graphs_hold, "",
      "GRAPH_POOL_CREATE slot 1 / ALLOC_IN size 217 amount 16 / ALLOC_IN slot 1 size 49 amount 4 / "
      "GRAPH_POOL_RELEASE slot 13 / SET_LIMIT amount 1 / ADD_CALLBACK amount 16 / ALLOC slot 10 "
      "size 224 "
      "/ GRAPH_POOL_CREATE slot 2 / FREE slot 10 size 56 amount 118 / GRAPH_POOL_CREATE / FOREIGN "
      "amount 1 / "
      "ALLOC_IN / ALLOC slot 2 size 216 / ROOM amount 1")
