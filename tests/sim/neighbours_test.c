/* What the simulation has found where several share a device: memory that goes back, or comes,
 * during a call. Shrunk, as regressions.c. */
#include "tests/sim/expect.h"

/* A wake, zeros and a move to the device gave back free memory that was not enough. */
HOLDS(sim_regressions, what_a_call_lacks_is_given_back_whole_or_not_at_all, "",
      "ALLOC size 47 / SET_LIMIT size 1 / RANGE_CREATE / SLEEP / COMMIT / RANGE_DESTROY / SLEEP / "
      "WAKE")
HOLDS(sim_regressions, zeros_give_back_what_is_enough_or_nothing, "",
      "ALLOC / RANGE_CREATE slot 1 / SET_LIMIT size 5 / FREE / ZEROS slot 1")
HOLDS(sim_regressions, a_move_gives_back_what_is_enough_or_nothing, "host_percent 50",
      "SET_LIMIT amount 4 / ALLOC size 45 / ROOM slot 1 / TO_DEVICE")
