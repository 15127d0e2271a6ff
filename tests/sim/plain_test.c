/* Short programs over blocks that are passed through to the driver: see plain.c. */
#include "tests/sim/expect.h"

HOLDS(sim_plain, what_needs_chunks_is_refused_by_name,
      "plain 1, page_kib 64, device_pages 256, streams 2",
      "ALLOC amount 1 / SLEEP / RANGE_CREATE / GRAPH_POOL_CREATE / EXPORT / PIN / ALLOC slot 1 "
      "amount 16 "
      "/ VERIFY")

HOLDS(sim_plain, blocks_pass_between_streams_and_memory_goes_back,
      "plain 2, page_kib 64, device_pages 256, streams 2",
      "ALLOC size 0xe7 amount 1 / ALLOC slot 1 size 0xeb / FREE amount 32 / ALLOC slot 1 stream "
      "1 size 0xe7 amount 1 / VERIFY slot 1 / FREE slot 1 amount 32 / TRIM / ALLOC size 0xeb "
      "amount 1 / COMPACT / VERIFY")

/* The CPU does not wait for memory that the limit never allows. */
HOLDS(sim_plain, nobody_waits_for_what_is_above_the_limit, "limit_percent 73, plain 4",
      "ALLOC / FREE amount 59 / ALLOC slot 1 size 235")

/* A block's part of the limit decides which blocks the cache spares. */
HOLDS(sim_plain, what_is_passed_makes_memory_scarce, "device_pages 1024, plain 2",
      "ALLOC size 147 / SET_LIMIT size 1 / FREE / ALLOC size 147")
