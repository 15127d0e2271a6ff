/* Findings of the simulation for several users of a device: memory that is released, or appears,
 * during a call. Shrunk, as regressions.c. */
#include "tests/sim/expect.h"

/* Seed 218: memory that a wake had left, whose copies might run, went back for the next request. */
HOLDS(sim_regressions, what_a_failed_wake_left_serves_a_request, "",
      "GRAPH_POOL_CREATE / GRAPH_POOL_BEGIN / ALLOC / FREE / SLEEP / FAULT size 18 amount 2 / WAKE "
      "/ SET_LIMIT "
      "amount 4 / ALLOC amount 32")

/* Seeds 40437 and 60124: the driver did not let a check wait for its fill, and background trims
 * gave nothing back any more: no event told that the fill had ended. */
HOLDS(sim_regressions, a_collection_hears_of_the_end_of_a_fill, "keep_free_percent 10, check 3",
      "ROOM / FOREIGN amount 3 / ALLOC slot 118 / FAULT size 18 alignment 1 / FREE slot 118 / TRIM "
      "stream 2")
HOLDS(
    sim_regressions, a_collection_gives_nothing_while_a_fill_may_run,
    "chunk_pages 1, keep_free_percent 10, check 1",
    "ALLOC slot 35 size 226 / FREE slot 35 / ALLOC slot 81 / FAULT size 18 alignment 1 / FREE slot "
    "81 / FOREIGN amount 228 / TRIM stream 2")

/* With room under the limit that the device does not have, free chunks were spared. */
HOLDS(sim_regressions, free_chunks_are_broken_while_the_limit_leaves_room,
      "device_pages 16, small_chunk_pages 4, low_pressure_percent 1, address_devices 10, "
      "soft_limit_percent 5",
      "ALLOC slot 2 / FOREIGN amount 166 / ALLOC size 87 / FREE slot 2 / ALLOC slot 1 alignment 18")

HOLDS(sim_regressions, others_give_what_is_to_stay_free,
      "device_pages 128, peer_pool 1, keep_free_percent 10",
      "SIBLING_ALLOC slot 32 size 225 / FOREIGN amount 247 / FREE slot 32 / ALLOC")

/* Seeds 1100159 and 900263: a free chunk was given back to make a better one, and the device kept
 * it for others. Then more, of what was free when the pool had asked last. */
HOLDS(
    sim_regressions, free_chunks_are_not_remade_for_others, "chunk_pages 8, keep_free_percent 10",
    "FOREIGN amount 168 / ALLOC size 147 / ALLOC slot 1 size 140 / ALLOC slot 2 size 212 / FREE / "
    "FOREIGN amount 200 / ALLOC slot 2 size 212")
