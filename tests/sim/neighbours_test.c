/* What the simulation has found where several share a device: memory that goes back, or comes,
 * during a call. Shrunk, as regressions.c. */
#include "tests/sim/expect.h"

/* A wake gave back free memory that was not enough. */
HOLDS(sim_regressions, what_a_call_lacks_is_given_back_whole_or_not_at_all, "",
      "ALLOC size 47 / SET_LIMIT size 1 / RANGE_CREATE / SLEEP / COMMIT / RANGE_DESTROY / SLEEP / "
      "WAKE")

/* Seed 199: another process ended as the pool looked for the last time, and the request was refused
 * as before. */
HOLDS(sim_regressions, what_others_give_during_a_request_serves_it, "",
      "ALLOC size 214 / ALLOC slot 1 size 214 / FOREIGN amount 169 / AMBUSH size 7 alignment 3 / "
      "ALLOC slot 2 size 225")

/* Seed 1077: what goes back for a block in one chunk was enough for the limit, and not for the
 * device, which had less by then. */
HOLDS(sim_regressions, what_others_took_is_known_before_any_goes_back,
      "device_pages 16, peer_pool 1",
      "ALLOC slot 1 size 120 / ALLOC slot 3 size 224 / SIBLING_ALLOC slot 4 / ALLOC slot 2 / ALLOC "
      "size 121 / TRIM / ALLOC slot 5 size 226 / FOREIGN amount 26 / FREE / ALLOC size 229 amount "
      "16")

HOLDS(sim_regressions, a_peer_pool_gives_nothing_for_a_hopeless_request,
      "device_pages 16, peer_pool 1",
      "SIBLING_ALLOC size 229 / SIBLING_ALLOC slot 1 size 228 / FREE slot 1 / "
      "ALLOC slot 2 size 236")

/* Seed 1390, where it was not. */
HOLDS(sim_regressions, a_peer_pool_that_gave_is_asked_again,
      "device_pages 16, small_request_granules 64, peer_pool 1, keep_free_percent 10",
      "ALLOC / FREE amount 5 / ALLOC size 52 / ALLOC slot 1 size 42 / ALLOC slot 2 size 225 / "
      "SIBLING_ALLOC slot 3 / SIBLING_ALLOC slot 34 size 225 / FREE amount 5 / FREE slot 34 amount "
      "5 / SET_LIMIT amount 247 / ALLOC size 232")

/* Seed 143: what is to stay free for others was not counted, and the peer pool waited in vain. */
HOLDS(
    sim_regressions, nobody_waits_for_what_is_to_stay_free, "peer_pool 1, keep_free_percent 10",
    "SIBLING_ALLOC slot 32 size 225 amount 1 / FOREIGN amount 247 / FREE slot 32 / ALLOC size 224")

/* Seed 218: memory that a wake had left, whose copies might run, went back for the next request. */
HOLDS(
    sim_regressions, what_a_failed_wake_left_serves_a_request, "",
    "GROUP_CREATE / GROUP_BEGIN / ALLOC / FREE / SLEEP / FAULT size 18 amount 2 / WAKE / SET_LIMIT "
    "amount 4 / ALLOC amount 32")

/* Seed 513: a callback decommitted a page of those that were asked for, and the next one heard what
 * they had lacked before. */
HOLDS(sim_regressions, callbacks_hear_what_pages_lack_now, "device_pages 300, content 0",
      "ADD_CALLBACK / RANGE_CREATE size 7 amount 208 / ADD_CALLBACK slot 5 amount 4 / SET_LIMIT "
      "amount 1 / COMMIT size 200 alignment 1 / COMMIT size 3 alignment 1")

/* Seed 20074: the other pool gave what was asked for, which was not enough with what is kept for
 * compactions, and then as much again. */
HOLDS(sim_regressions, what_is_kept_for_compactions_is_asked_for_at_once,
      "chunk_pages 0, event_delay_ns 300, streams 3, peer_pool 1, quiet 1, keep_free_percent 3",
      "ALLOC size 5 / ADD_CALLBACK slot 3 amount 104 / FOREIGN amount 247 / ALLOC slot 2 size 5 "
      "/ GROUP_CREATE slot 235 / ALLOC slot 3 size 68 / ADD_CALLBACK amount 16 / ALLOC slot 1 "
      "size 5 / REMOVE_CALLBACK / ADVANCE / FREE slot 1 / ALLOC size 25 / FOREIGN / ALLOC slot 5 "
      "stream 1 size 40 amount 3 / REPLACE_STREAM stream 1 / DEFRAG slot 1 / FREE slot 5 / ALLOC "
      "slot 5 stream 1 size 5 / FREE slot 5 amount 55 / ALLOC_IN slot 3 size 180 amount 232 / "
      "SET_LIMIT amount 1 / ALLOC slot 1 size 68 / FREE slot 1 / ALLOC_IN slot 2 stream 7 size "
      "10 amount 4 / FOREIGN amount 247 / SET_LIMIT / ADD_CALLBACK amount 16 / ALLOC_IN slot 1 "
      "size 51 amount 4 / ALLOC_IN size 207 amount 4")

/* Seed 714: what is to stay free for others was not counted where the limit lets nothing be asked.
 */
HOLDS(
    sim_regressions, nobody_waits_for_what_is_owed_before_a_commit,
    "device_pages 16, chunk_pages 1, peer_pool 1, keep_free_percent 10",
    "ALLOC / SET_LIMIT amount 128 / RANGE_CREATE amount 2 / COMMIT size 1 / ALLOC slot 2 size 224 "
    "/ SIBLING_ALLOC slot 32 / ALLOC slot 1 size 188 / FOREIGN amount 120 / FREE / FREE slot 32 / "
    "COMMIT alignment 2 amount 15")

/* Seed 11235: what others get first was asked before what is free, and another process ended
 * between. Seed 11743: the last answer is the one that was given. */
HOLDS(sim_regressions, a_wake_believes_the_last_answer, "keep_free_percent 30",
      "ALLOC / SLEEP / AMBUSH size 7 alignment 2 / FOREIGN amount 233 / WAKE")
HOLDS(sim_regressions, a_question_that_fails_tells_a_wake_nothing, "keep_free_percent 3",
      "ALLOC / SLEEP / AMBUSH stream 4 alignment 3 / FOREIGN amount 247 / FAULT alignment 1 amount "
      "2 / WAKE")

/* The device owed others what a request gave back for its chunk, and did not any more as the pool
 * looked for the last time; its limit left no more in either case. */
HOLDS(
    sim_regressions, what_others_no_longer_get_serves_a_request,
    "device_pages 32, keep_free_percent 30",
    "ALLOC slot 1 size 188 / ALLOC slot 2 size 226 / ALLOC slot 3 size 226 / FOREIGN amount 255 / "
    "FREE slot 2 / SET_LIMIT amount 82 / FREE slot 1 / ALLOC slot 9 size 0 / AMBUSH slot 198 size "
    "7 "
    "alignment 2 amount 1 / ALLOC size 226 amount 16")

/* Seeds 13189 and 60000: the driver did not say what it has, and refused what a plan would create
 * that takes as little of a free end as it can, or none. */
HOLDS(
    sim_regressions, a_device_that_does_not_say_serves_by_the_least_creation,
    "device_pages 300, peer_pool 1",
    "SIBLING_ALLOC slot 32 size 224 / FAULT amount 6 / ALLOC slot 31 size 224 / SIBLING_ALLOC slot "
    "34 size 224 / ALLOC / FOREIGN amount 247 / FREE slot 31 / FREE slot 32 / FREE slot 34 / ALLOC "
    "slot 1 size 226")
HOLDS(
    sim_regressions, a_request_of_whole_pages_continues_ends, "device_pages 32, peer_pool 1",
    "SIBLING_ALLOC slot 31 size 224 / SIBLING_ALLOC size 224 / FREE slot 31 / SIBLING_ALLOC slot 2 "
    "size 225 / FAULT amount 6 / AMBUSH slot 2 / SIBLING_ALLOC slot 1 size 247")

/* Seeds 40437 and 60124: the driver did not let a check wait for its fill, and collections gave
 * nothing back any more: no event told that the fill had ended. */
HOLDS(sim_regressions, a_collection_hears_of_the_end_of_a_fill, "keep_free_percent 10, check 3",
      "ROOM / FOREIGN amount 3 / ALLOC slot 118 / FAULT size 18 alignment 1 / FREE slot 118 / TRIM "
      "stream 2")
HOLDS(
    sim_regressions, a_collection_gives_nothing_while_a_fill_may_run,
    "chunk_pages 1, keep_free_percent 10, check 1",
    "ALLOC slot 35 size 226 / FREE slot 35 / ALLOC slot 81 / FAULT size 18 alignment 1 / FREE slot "
    "81 / FOREIGN amount 228 / TRIM stream 2")

/* Seed 40492: of what the other pool gave, an importer kept some. */
HOLDS(
    sim_regressions, what_importers_keep_is_given_besides,
    "peer_pool 1, fabric 1, keep_free_percent 3",
    "RANGE_CREATE alignment 1 amount 1 / SIBLING_ALLOC slot 1 size 20 / EXPORT_BY_FABRIC slot 1 / "
    "RANGE_CREATE slot 1 alignment 1 / COMMIT alignment 1 amount 79 / IMPORT_BY_FABRIC / "
    "ADD_CALLBACK amount 2 / FOREIGN amount 221 / ALLOC")

/* Seed 82206: a destroyed range ended amid a request, which mapped the chunk that its page left. */
HOLDS(sim_regressions, a_chunk_that_a_range_left_does_not_move, "",
      "ALLOC slot 4 / ADD_CALLBACK amount 8 / LATE_EVENTS / EXPORT slot 4 / IMPORT / RANGE_CREATE "
      "amount 1 / COMMIT / RANGE_DESTROY / CLOSE / ROOM amount 1")

/* Seed 80075: the host waited for no fence but that of the epoch itself, which had none. */
HOLDS(sim_regressions, a_wait_takes_the_fence_that_covers_what_is_due,
      "streams 3, legacy 1, threads 2, thread_streams 1, unfenced_pages 1, no_context_fences 1",
      "ALLOC slot 31 stream 5 size 224 amount 1 / FREE slot 31 / ALLOC / ALLOC slot 1 size 20 "
      "thread 1 "
      "/ TRIM stream 3")

/* Seed 71319: the graph that had used the memory had ended, and nobody had looked. */
HOLDS(sim_regressions, a_wake_has_what_an_ended_graph_kept, "streams 4",
      "ALLOC slot 1 size 20 / SLEEP / CAPTURE_BEGIN stream 3 / ALLOC slot 2 size 200 stream 3 / "
      "CAPTURE_END stream 3 / CAPTURE_BEGIN / FREE slot 2 / CAPTURE_END / GRAPH_DESTROY / FOREIGN "
      "amount 211 / WAKE")

/* Seed 62114: a callback freed memory that others may hold. */
HOLDS(
    sim_regressions, what_others_may_hold_is_not_all_that_a_wake_misses, "",
    "ADD_CALLBACK amount 16 / RANGE_CREATE slot 2 / COMMIT slot 2 / SLEEP / ALLOC slot 7 size 32 / "
    "EXPORT slot 7 / FOREIGN amount 247 / WAKE")

/* With room under the limit that the device does not have, free chunks were spared. */
HOLDS(sim_regressions, free_chunks_are_broken_while_the_limit_leaves_room,
      "device_pages 16, small_chunk_pages 4, low_pressure_percent 1, address_devices 10, "
      "soft_limit_percent 5",
      "ALLOC slot 2 / FOREIGN amount 166 / ALLOC size 87 / FREE slot 2 / ALLOC slot 1 alignment 18")

/* Seed 501917: a callback took memory for the peer pool, and gave it back there, behind the last
 * question. */
HOLDS(sim_regressions, a_wake_asks_peer_pools_again_after_callbacks, "peer_pool 1",
      "ADD_CALLBACK / SET_LIMIT slot 1 amount 4 / ALLOC slot 1 / LATE_EVENTS / SLEEP / ALLOC / "
      "FOREIGN "
      "amount 249 / ADD_CALLBACK slot 3 amount 8 / WAKE")

/* Seed 301841: free memory that others hold, in a chunk too large for any gap, was counted as what
 * the next page could have. */
HOLDS(
    sim_regressions, what_fits_no_gap_is_no_page, "limit_percent 50",
    "ALLOC / RANGE_CREATE slot 2 size 7 / COMMIT slot 2 / FREE slot 47 / ALLOC slot 1 size 30 / "
    "RANGE_CREATE size 2 amount 110 / RANGE_CREATE slot 1 size 3 / COMMIT / COMMIT slot 2 / EXPORT "
    "slot 46 / RANGE_DESTROY slot 2 / COMMIT size 64 amount 92 / RANGE_CREATE slot 2 amount 2 / "
    "RANGE_DESTROY slot 1 / COMMIT size 3 amount 104 / COMMIT size 4 alignment 1 amount 66")

/* It waited for the copies of a wake that had failed. */
HOLDS(sim_regressions, a_hopeless_request_ends_nothing_of_a_failed_wake,
      "small_request_granules 64",
      "ALLOC / SLEEP / FAULT size 18 amount 2 / WAKE / SET_LIMIT amount 1 / ALLOC slot 1 size 65")

/* Seed 841755: a commit answered as if its own stream were captured. */
HOLDS(sim_regressions, a_capture_of_another_stream_is_no_mistake_of_a_commit, "thread_streams 1",
      "RANGE_CREATE slot 226 amount 1 / COMMIT slot 1 alignment 1 / SLEEP / CAPTURE_BEGIN stream 1 "
      "/ FAULT size 18 amount 2 / WAKE / FREE slot 46 / COMMIT slot 1 alignment 1")

/* Seed 900094: a block in one chunk needs whole pages, and callbacks were told less. */
HOLDS(sim_regressions, callbacks_hear_of_whole_pages_for_one_chunk,
      "device_pages 16, small_request_granules 64",
      "ALLOC size 150 / FOREIGN amount 122 / SET_LIMIT amount 23 / ADD_CALLBACK amount 16 / ALLOC "
      "slot 1 size 40 amount 20")

/* Importers kept memory that the device lacked, and had let go of it when the call ended. */
HOLDS(sim_regressions, importers_are_others_while_they_keep_memory, "chunk_pages 16",
      "ALLOC / ALLOC slot 1 size 166 / ROOM slot 2 / RANGE_CREATE slot 2 amount 3 / ALLOC slot 2 "
      "size 132 / COMMIT slot 2 size 2 alignment 1 / EXPORT slot 46 / SLEEP stream 3 / COMMIT slot "
      "2 alignment 1 / IMPORT / ALLOC slot 3 / FREE slot 46")

/* Seed 841532: calls of a callback left the thread with another sleep tag. */
HOLDS(sim_regressions, a_callback_leaves_the_sleep_tag, "peer_pool 1, soft_limit_percent 5",
      "RANGE_CREATE size 2 amount 2 / ADD_CALLBACK slot 2 amount 8 / COMMIT size 7 alignment 1 / "
      "INFO slot 46")
