/* Findings of the simulation, shrunk and as printed, and scenes of their parts. Of sizes, 0xe3 is a
 * quarter of the device, 0xe7 half of it, 0xeb three quarters, 0xef all. */
#include "tests/sim/expect.h"

/* A trim refused by a capture the pool did not know of left mappings, and the next, which knew of
 * it, called that a failure of the driver. */
HOLDS(regression, a_trim_beside_a_known_capture_is_no_failure, "streams 2",
      "ALLOC / ALLOC slot 28 stream 1 size 24 / FREE slot 28 / CAPTURE_BEGIN / TRIM / FREE / "
      "TRIM")

/* Above a lowered limit a chunk was released to create another one, which gained nothing. */
HOLDS(regression, the_only_chunk_that_fits_is_not_given_back, "chunk_pages 2",
      "ALLOC slot 10 size 199 / ALLOC size 25 / SET_LIMIT amount 1 / FREE slot 10 amount 5 / "
      "ALLOC slot 1 size 104")

/* A callback's free found the device lost, and the driver then refused for another reason. */
HOLDS(regression, a_device_lost_in_a_callback_stays_lost,
      "device_pages 16, chunk_pages 0, threads 3, thread_streams 1",
      "ALLOC size 30 / ALLOC slot 3 stream 1 size 174 / ALLOC slot 6 size 35 / ALLOC slot 2 "
      "stream 1 size 166 / ALLOC slot 5 size 56 / ALLOC slot 8 size 15 / ALLOC slot 4 stream 5 "
      "size 167 / ADD_CALLBACK slot 7 amount 3 / ALLOC slot 7 size 167 / ALLOC slot 1 stream 1 "
      "size 167 / ALLOC stream 2 size 120 / ALLOC slot 4 size 173 / ALLOC slot 28 stream 1 size "
      "56 / ALLOC slot 1 size 153 / ALLOC size 155 / ALLOC slot 5 size 165 / FAULT amount 6 / "
      "ALLOC slot 2 size 56 / FAULT size 3 alignment 13 / FREE slot 28 / LOSE_DEVICE amount 23 "
      "/ ALLOC slot 3 stream 2 size 165")

/* Memory that became idle during the first trim was neither waited for nor released. */
HOLDS(regression, a_trim_that_waits_sees_what_became_idle_meanwhile,
      "chunk_pages 8, limit_percent 50, prices 1, thread_streams 1, low_pressure_percent 100",
      "ALLOC size 46 / ALLOC slot 6 size 139 / FREE amount 5 / FREE slot 6 amount 5 / ALLOC "
      "size 157 / FREE / ALLOC size 45 / ALLOC slot 6 stream 1 size 53 amount 5 / FREE slot 6 / "
      "FREE / ALLOC size 136 / TRIM stream 3")

/* A peer pool that is asked at last fails to release: its error became the caller's. */
HOLDS(regression, the_failure_of_a_peer_pool_is_not_the_error_of_the_call, "peer_pool 1",
      "ALLOC / FREE amount 55 / SET_LIMIT amount 1 / FAULT size 7 amount 6 / FAULT size 8 "
      "amount 6 / SIBLING_ALLOC / ALLOC size 25")

/* Two graph pools took a stream that was forgotten and used again: the one begun last alone watched
 * it, and had ended when it was captured. */
HOLDS(regression, all_graph_pools_of_a_stream_watch_it_when_it_is_used_again, "",
      "GRAPH_POOL_CREATE slot 2 / GRAPH_POOL_CREATE / GRAPH_POOL_BEGIN slot 2 / GRAPH_POOL_BEGIN / "
      "FORGET / ALLOC / "
      "CAPTURE_BEGIN / GRAPH_POOL_END / COMPACT")

/* A request of a captured stream lacked addresses: the host waited for the context, and spoilt the
 * capture. */
HOLDS(regression, a_captured_stream_that_lacks_addresses_waits_for_no_context,
      "vanish 1, address_devices 4",
      "ALLOC slot 4 / CAPTURE_BEGIN / FREE slot 4 amount 5 / ALLOC alignment 20")

HOLDS(sim_regressions, memory_that_others_may_hold_is_not_given_back_for_a_better_chunk,
      "device_pages 16, chunk_pages 16, streams 4",
      "ALLOC slot 1 size 29 / FREE slot 1 / ALLOC / ALLOC slot 1 stream 1 / FREE slot 1 / "
      "EXPORT / IMPORT / FREE / ALLOC size 25")

HOLDS(sim_regressions, memory_that_others_may_hold_makes_no_room_for_compactions,
      "device_pages 32, chunk_pages 8",
      "ALLOC slot 6 size 154 / FREE slot 6 / ALLOC slot 7 size 195 / EXPORT slot 7 / IMPORT / "
      "FREE slot 7 / ALLOC slot 3 size 55 / ROOM amount 1 / ALLOC / FREE slot 3 / ROOM slot 1 "
      "amount 1")

/* In both ways, imported in both pools, and closed after its end. */
HOLDS(sim_regressions, a_block_that_is_exported_in_both_ways_ends_in_both, "fabric 1, peer_pool 1",
      "ALLOC size 29 / EXPORT_BY_FABRIC amount 1 / EXPORT_BY_FABRIC / EXPORT / EXPORT_BY_FABRIC "
      "size 3 / IMPORT_BY_FABRIC / IMPORT_BY_FABRIC size 1 / IMPORT size 1 / FREE / ALLOC size "
      "29 / EXPORT_BY_FABRIC / CLOSE slot 1 / CLOSE")

/* The chunk of the block that the checkpoint knows was moved for another block that is exported. */
HOLDS(
    sim_regressions, a_graph_pool_cannot_have_back_an_exported_chunk, "fabric 1",
    "GRAPH_POOL_CREATE slot 104 / ALLOC_IN slot 215 amount 58 / CHECKPOINT slot 20 / FREE slot 23 "
    "/ ALLOC_IN slot 248 size 21 amount 8 / EXPORT_BY_FABRIC slot 248 / RESTORE slot 2")

/* A destroyed range kept its addresses where a block found none. */
HOLDS(sim_regressions, addresses_of_a_destroyed_range_serve_blocks,
      "device_pages 16, reserve_devices 1, address_devices 3",
      "ALLOC / RANGE_CREATE size 3 amount 4 / COMMIT")

/* A block gets the memory of pages behind the last looks at them. */
HOLDS(sim_ranges, decommitted_memory_is_used_behind_its_work, "device_pages 16, streams 2",
      "RANGE_CREATE size 4 amount 3 / COMMIT alignment 3 amount 1 / DECOMMIT alignment 3 amount "
      "32 / ALLOC stream 1 size 0xef amount 1 / VERIFY")

/* An export ends with its range or its first page. One that meets another is refused. */
HOLDS(
    sim_ranges, exports_of_pages_end_with_them, "",
    "RANGE_CREATE slot 2 size 0 amount 9 / COMMIT slot 2 alignment 8 amount 1 / EXPORT slot 45 / "
    "EXPORT slot 46 alignment 5 / EXPORT slot 44 alignment 5 / IMPORT / USE_IMPORT / DECOMMIT slot "
    "2 size 1 / USE_IMPORT / EXPORT slot 41 alignment 3 / RANGE_DESTROY slot 2 / USE_IMPORT / "
    "CLOSE")

/* The same behind the work of streams that were recorded for the pages. */
HOLDS(sim_ranges, decommitted_memory_is_used_behind_recorded_streams, "device_pages 16, streams 2",
      "RANGE_CREATE size 4 amount 3 / COMMIT alignment 3 amount 1 / SHARE slot 47 stream 1 / "
      "SHARE slot 46 stream 1 / DECOMMIT alignment 3 / ALLOC size 0xef amount 1 / VERIFY")

/* A graph that writes pages finds them again after they were decommitted, and their memory used. */
HOLDS(sim_ranges, a_graph_uses_pages_that_were_committed_again, "device_pages 16, streams 2",
      "RANGE_CREATE size 4 amount 3 / COMMIT alignment 3 amount 1 / CAPTURE_BEGIN / SHARE slot "
      "47 amount 1 / CAPTURE_END / GRAPH_LAUNCH stream 1 / VERIFY slot 47 / DECOMMIT alignment "
      "3 amount 32 / GRAPH_LAUNCH stream 1 / ALLOC size 0xe7 amount 1 / COMMIT stream 1 / "
      "GRAPH_LAUNCH / VERIFY slot 47 / VERIFY")

/* The follower of a history knows which pages are committed from the events alone. */
HOLDS(sim_ranges, the_history_tells_of_pages, "device_pages 16",
      "HISTORY size 255 / RANGE_CREATE size 4 amount 3 / COMMIT size 1 / COMMIT alignment 3 / "
      "DECOMMIT size 2 / ALLOC size 0xe3 / RANGE_DESTROY / TRIM")

/* Mistakes with pages, with their errors. An end of the range that a pin forbids. The figures of
 * all that. */
HOLDS(sim_ranges, what_is_refused_has_its_name, "device_pages 16",
      "RANGE_CREATE size 4 amount 3 / COMMIT alignment 1 / RANGE_MISTAKE amount 1 / MISTAKE "
      "slot 47 amount 1 / MISTAKE slot 47 amount 4 / MISTAKE slot 47 amount 7 / PIN slot 47 / "
      "RANGE_DESTROY / DECOMMIT alignment 3 / RANGE_DESTROY / UNPIN / CAPTURE_BEGIN / "
      "RANGE_MISTAKE / CAPTURE_END / RANGE_DESTROY")

/* A sleep without host memory for its nodes ended a promise that it did not have. */
HOLDS(sim_regressions, a_sleep_without_host_memory_promised_nothing, "",
      "ALLOC slot 3 / FORGET / ALLOC slot 4 size 20 / SLEEP / ALLOC slot 5 / ALLOC slot 1 size "
      "20 / SLEEP / ALLOC slot 2 / SLEEP / ALLOC / WAKE / FAIL_MALLOC slot 7 / SLEEP")

HOLDS(sim_quotas, no_creation_takes_what_stays_free, "device_pages 16, keep_free_percent 50",
      "ALLOC size 0xeb / ALLOC slot 1 size 0xe3 / FOREIGN amount 64 / ALLOC slot 2 size 0xe3 / "
      "FOREIGN / ALLOC slot 3 size 0xe3")

HOLDS(sim_quotas, a_collection_gives_back_what_the_device_lacks,
      "device_pages 16, keep_free_percent 50",
      "ALLOC size 0xe7 / FREE / FOREIGN amount 128 / TRIM stream 2")

/* Seeds 76 and 2001354: memory of another process was enough beside the pool's own free memory, and
 * the pool looked at the first alone. */
HOLDS(
    sim_quotas, what_others_give_counts_beside_free_memory, "file_percent 25",
    "ALLOC / ALLOC slot 1 / ALLOC slot 3 size 136 / ALLOC slot 2 size 44 / MEMBER size 200 amount "
    "60 / RANGE_CREATE size 3 / RANGE_CREATE slot 1 size 3 / COMMIT amount 64")

/* Two pools and another process, which dies with its memory. */
HOLDS(sim_quotas, a_shared_limit_holds_for_all, "device_pages 16, file_percent 50, peer_pool 1",
      "ALLOC size 0xe3 / SIBLING_ALLOC slot 1 size 0xe7 / MEMBER amount 100 / SIBLING_ALLOC "
      "slot 2 size 0xe1 / FREE / TRIM / MEMBER amount 200 / ALLOC slot 3 size 0xe3 / MEMBER "
      "slot 1 amount 0 / FAULT size 6 / ALLOC slot 4 size 0xe1 / ALLOC slot 4 size 0xe1 / "
      "SIBLING_ALLOC slot 5 size 0xe1")

/* Idle memory of the other process counts as available, though it releases it only for a waiting
 * process. */
HOLDS(sim_quotas, a_pool_waits_for_what_another_process_has_idle,
      "device_pages 16, file_percent 100", "MEMBER size 255 amount 193 / ALLOC size 0xe7")

HOLDS(sim_regressions, a_sleep_whose_failure_is_worked_around_keeps_its_own_answer, "",
      "GRAPH_POOL_CREATE slot 7 / ALLOC_IN amount 208 / FAULT size 17 alignment 5 amount 3 / SLEEP")

/* A look went on in a run whose memory had been taken since. */
HOLDS(sim_regressions, a_look_into_a_run_ends_when_it_changes, "file_percent 73",
      "ALLOC / ROOM slot 1 / ALLOC slot 1 size 226 / GRAPH_POOL_CREATE slot 32 / ALLOC_IN slot 2 "
      "size "
      "29 amount 80 / TRIM")

/* Freed memory of a graph pool had lost its mapping, and was said to be used by others. */
HOLDS(sim_regressions, a_restoration_maps_again_what_a_prepare_checkpoint_could_not, "",
      "ALLOC size 199 / GRAPH_POOL_CREATE slot 4 / GRAPH_POOL_BEGIN slot 7 / ALLOC slot 5 / "
      "CHECKPOINT slot "
      "7 / FREE slot 5 / FAULT size 10 alignment 5 amount 3 / PREPARE_CHECKPOINT / RESTORE slot 4")

/* Copies of a sleep that failed may still run, and a capture forbids to wait for them. */
HOLDS(sim_regressions, a_wake_behind_copies_of_a_failed_sleep_waits_for_the_capture,
      "thread_streams 1",
      "ALLOC / SLEEP / ALLOC slot 1 / FAULT size 17 alignment 5 amount 2 / SLEEP / CAPTURE_BEGIN "
      "stream 1 / WAKE")

/* A page that a thread freed on its own stream, beside an import that kept another. */
HOLDS(sim_regressions, what_a_thread_freed_on_its_own_stream_waits_for_the_context,
      "threads 3, thread_streams 1, peer_pool 1",
      "ALLOC / ALLOC slot 248 / EXPORT slot 248 / ALLOC slot 1 stream 2 / IMPORT size 5 / IMPORT / "
      "USE_IMPORT slot 5 / CLOSE / FREE slot 8 / SLEEP")

/* The limit allowed the block, and not the pages of its chunk. */
HOLDS(sim_regressions, one_chunk_is_whole_pages_of_the_limit, "small_request_granules 64",
      "FAIL_MALLOC / ROOM slot 5 / ALLOC slot 25 size 81 / SET_LIMIT size 1 / FREE slot 25 / ALLOC "
      "size 81 amount 16")

/* Small chunks that others may still hold are not made into a larger one. */
HOLDS(
    sim_regressions, exported_chunks_become_no_larger_one, "chunk_pages 2",
    "ADD_CALLBACK amount 1 / ALLOC / RANGE_CREATE slot 2 size 3 amount 13 / ALLOC slot 1 size 51 / "
    "COMMIT slot 2 alignment 5 / COMMIT slot 2 size 48 alignment 4 / FREE slot 37 / ALLOC slot 2 / "
    "ALLOC slot 7 size 231 / EXPORT slot 7 / ALLOC size 108 amount 16")

/* Seed 5190: a trim in a capture met a driver that refused its later calls. */
HOLDS(
    sim_regressions, a_trim_answers_with_its_own_failure,
    "device_pages 16, chunk_pages 16, foreign 1, legacy 1, peer_pool 1, soft_limit_percent 60",
    "ALLOC / ROOM slot 1 / CAPTURE_BEGIN / FAULT amount 6 / FREE / ALLOC stream 1 size 20 / FAULT "
    "size 37 alignment 21 / RANGE_CREATE slot 2 alignment 1 / ALLOC slot 1 size 180 / ALLOC slot "
    "1 size 160 / RANGE_DESTROY slot 2 stream 1 amount 5 / TRIM stream 3")

/* Seed 443: memory of graphs with two tags was joined, and one of them slept. */
HOLDS(sim_regressions, memory_of_graphs_is_joined_by_tag, "soft_limit_percent 60",
      "ADD_CALLBACK / GRAPH_POOL_CREATE slot 1 / GRAPH_POOL_BEGIN slot 1 / ALLOC size 233 / ALLOC "
      "slot 1 / "
      "FREE slot 1 amount 5 / SLEEP size 1")

HOLDS(sim_regressions, empty_chunks_are_broken_before_the_host_waits,
      "unfenced_pages 1, no_context_fences 1",
      "GRAPH_POOL_CREATE / ALLOC_IN / ALLOC_IN slot 2 size 225 / GRAPH_POOL_RELEASE amount 1 / "
      "FREE slot 2 / ROOM slot 1")

/* Waits for the context cover a third device, too. */
HOLDS(
    sim_regressions, streams_of_a_third_device_are_waited_for,
    "streams 3, foreign 6, third 1, peer_pool 1",
    "SIBLING_ALLOC / SIBLING_ALLOC slot 1 alignment 12 / SIBLING_ALLOC slot 2 stream 1 amount 3 / "
    "SLEEP slot 1")

/* Seeds 608, 1786, 2452: the fitting size in one chunk was reported above the limit. If others get
 * released memory, and of memory of a graph pool. */
HOLDS(sim_regressions, what_fits_in_one_chunk_is_below_the_limit, "chunk_pages 0",
      "ALLOC slot 209 size 104 / SET_LIMIT size 1 / FREE slot 209 / ALLOC size 104 amount 48")

HOLDS(sim_regressions, what_fits_in_one_chunk_is_not_of_others, "keep_free_percent 3",
      "ALLOC slot 13 size 215 / FOREIGN amount 235 / FREE slot 13 / ALLOC size 148 amount 48")

HOLDS(sim_regressions, what_fits_in_one_chunk_is_not_of_a_graph_pool,
      "chunk_pages 16, limit_percent 73",
      "GRAPH_POOL_CREATE / GRAPH_POOL_BEGIN / ALLOC size 171 amount 32 / ALLOC size 196 amount 48")

/* Seed 534: a request had the size that would fit after a CPU stall. A callback, which comes before
 * such stalls, freed the memory of a graph pool beside the free end that was to be continued. */
HOLDS(sim_regressions, what_is_said_to_fit_fits_without_help,
      "device_pages 16, no_stream_waits 1, legacy 1",
      "GRAPH_POOL_CREATE slot 229 / ADD_CALLBACK / ALLOC / ALLOC_IN slot 1 size 134 amount 65 / "
      "SET_LIMIT size 1 / ALLOC slot 2 stream 5 size 56 amount 32")

/* Seed 500842: a block was filled with poison, and then its free failed. */
HOLDS(sim_regressions, a_block_whose_free_fails_holds_no_poison, "vanish 1, check 1",
      "ALLOC / ALLOC slot 2 size 161 / SLEEP / FREE / WAKE / ALLOC / ALLOC slot 1 amount 5 / "
      "READ_KEPT amount 4 / ALLOC / FREE slot 2 / FAULT size 1 alignment 1 / FREE slot 1")

/* Seed 500963: a graph pool was released during the capture that it alone had seen. */
HOLDS(sim_regressions, a_capture_outlives_the_graph_pool_that_saw_it, "",
      "CAPTURE_BEGIN / GRAPH_POOL_CREATE / ALLOC_IN / GRAPH_POOL_RELEASE amount 1 / SLEEP")

/* Seed 300180: a page had the stack that was asked for a block with an impossible size. */
HOLDS(sim_regressions, a_mistake_leaves_no_stack, "",
      "RANGE_CREATE slot 2 / TRIM / MISTAKE amount 7 / COMMIT slot 2")

/* A pool above its limit has put a page to sleep whose memory stayed its own. */
HOLDS(sim_regressions, a_wake_that_takes_nothing_needs_no_room_in_the_limit, "",
      "RANGE_CREATE slot 2 / COMMIT slot 2 / SET_LIMIT amount 1 / SLEEP stream 4 / WAKE")

/* Seed 1008: a page less was free than the limit allowed, and the commit ended one plan early. */
HOLDS(sim_regressions, a_commit_gives_back_for_the_limit_and_for_the_device, "limit_percent 50",
      "ALLOC / SLEEP / ROOM slot 1 / SET_LIMIT / FOREIGN amount 1 / RANGE_CREATE size 3 amount 251 "
      "/ LATE_EVENTS / COMMIT alignment 11")

HOLDS(sim_regressions, a_trim_counts_blocks_that_are_passed_through,
      "page_kib 64, device_pages 300, plain 4",
      "ALLOC slot 1 size 116 / ROOM / TRIM stream 3 amount 134")

HOLDS(sim_regressions, a_callback_gives_to_the_limit_what_is_kept_free, "keep_free_percent 3",
      "ALLOC slot 2 size 40 / ALLOC / ALLOC slot 1 size 10 amount 1 / ADD_CALLBACK amount 16 / "
      "FREE amount 5 / ALLOC size 132 / FREE / FOREIGN amount 247 / SET_LIMIT size 1 amount 10 / "
      "ALLOC size 104 amount 48")

HOLDS(sim_quotas, a_wake_is_served_by_what_a_member_gives,
      "device_pages 300, small_request_granules 64, file_percent 100",
      "RANGE_CREATE / RANGE_CREATE slot 1 size 4 amount 3 / ALLOC size 88 / ALLOC slot 1 size 91 / "
      "COMMIT alignment 3 amount 117 / SLEEP / MEMBER size 10 amount 222 / WAKE")

/* A place in one run has no gap, and is no extension. */
HOLDS(sim_regressions, a_bridge_without_a_gap_maps_nothing, "reserve_devices 2, limit_percent 73",
      "ALLOC size 215 / ALLOC slot 3 / ALLOC slot 1 size 215 / ALLOC slot 2 size 215 / "
      "ALLOC slot 13 / ALLOC slot 5 size 56 / ALLOC slot 4 size 215 / RANGE_CREATE slot 2 / "
      "COMMIT slot 2 / SET_LIMIT size 1 / FREE slot 2 / FREE slot 4 / FREE slot 13 / "
      "ALLOC slot 2 size 130 alignment 17")

/* Where one stream is known, a request without a stream waits for its work before it creates. */
HOLDS(sim_regressions, what_is_available_without_a_stream_counts_no_creation_before_a_wait,
      "unfenced_pages 1", "ALLOC slot 1 size 148 amount 5 / FREE slot 1 / ROOM thread 3")

/* The limit leaves less than the request until the pool gives its own memory back. */
HOLDS(sim_regressions, what_callbacks_free_serves_beside_a_peer_pool, "peer_pool 1",
      "ADD_CALLBACK slot 1 / ADD_CALLBACK amount 8 / SET_LIMIT amount 40 / GRAPH_POOL_CREATE / "
      "ALLOC size 224 / SIBLING_ALLOC slot 1 size 225 amount 1 / FOREIGN amount 247 / FREE / "
      "ALLOC_IN size 225")

/* A fence passed after the last look for an idle chunk. */
HOLDS(sim_regressions, a_chunk_that_becomes_idle_beside_a_wait_is_found, "streams 3",
      "RANGE_CREATE / GRAPH_POOL_CREATE slot 13 / GRAPH_POOL_BEGIN slot 22 / COMMIT / DECOMMIT "
      "stream 130 "
      "amount 78 / ALLOC / SET_LIMIT size 1 / ALLOC slot 1 amount 48")

/* A failed creation looks like a quota, of which an estimate counts only the present memory. */
HOLDS(sim_regressions, room_is_not_guessed_after_a_refusal, "",
      "FAULT size 6 / ALLOC / ROOM slot 1")

/* Its debt to others was more than it had, and no other pool was asked. */
HOLDS(sim_regressions, a_peer_pool_gives_what_is_kept_free_before_a_chunk_is_made_again,
      "peer_pool 1, keep_free_percent 10",
      "SET_LIMIT amount 16 / ADD_CALLBACK / RANGE_CREATE / ALLOC size 224 / SIBLING_ALLOC slot 1 "
      "size 217 / FOREIGN amount 247 / FREE / COMMIT")

HOLDS(sim_regressions, what_fits_in_one_chunk_is_not_made_of_what_a_graph_pool_holds, "",
      "GRAPH_POOL_CREATE / GRAPH_POOL_BEGIN / ALLOC slot 2 / FREE slot 2 / ALLOC size 243 / "
      "ALLOC slot 1 size 167 amount 48")

/* Seed 12302442: a commit had to create all of its pages in the place of its own empty chunks, and
 * one page that a peer pool held. */
HOLDS(sim_regressions, a_peer_pool_gives_what_own_chunks_lack, "peer_pool 1",
      "ALLOC size 227 / RANGE_CREATE size 3 amount 11 / SIBLING_ALLOC slot 34 size 226 / "
      "ALLOC slot 2 / ROOM slot 1 / FREE slot 34 / COMMIT alignment 11")

/* A failed plan did not report its creations, so that others got the memory first. */
HOLDS(
    sim_quotas, a_chunk_is_not_remade_where_others_get_it, "device_pages 16, keep_free_percent 10",
    "ALLOC slot 1 size 123 / ALLOC / FOREIGN amount 167 / ALLOC slot 2 size 39 / SLEEP stream 4 / "
    "ALLOC slot 2 size 123")

/* A wake that may not wait for a capture forgot its missing bytes, and did not try without a
 * wait. */
HOLDS(
    sim_quotas, a_member_gives_to_a_wake_beside_a_capture, "file_percent 50",
    "ALLOC / SLEEP / CAPTURE_BEGIN / MEMBER size 17 amount 137 / ALLOC slot 1 size 234 amount 32 / "
    "WAKE")

/* The driver refuses memory that it reports: then the pool released nothing of its own. */
HOLDS(
    sim_quotas, a_wake_below_a_quota_has_the_free_memory_of_the_pool, "chunk_pages 16",
    "FOREIGN stream 3 amount 80 / ALLOC size 227 / SLEEP / ALLOC slot 31 size 225 / FREE slot 31 / "
    "WAKE")

/* Below a quota the pool asked for as much as all gaps lack, and never for what one plan does. */
HOLDS(sim_quotas, a_gap_below_a_quota_lacks_what_its_plan_creates,
      "device_pages 32, thread_streams 1",
      "ALLOC / ALLOC slot 14 / ALLOC slot 4 / RANGE_CREATE size 4 amount 2 / FOREIGN amount 185 / "
      "ALLOC slot 2 size 21 / COMMIT / ALLOC slot 1 size 20 / FOREIGN stream 3 amount 150 / "
      "RANGE_CREATE slot 2 size 5 / FOREIGN / COMMIT slot 2 / DECOMMIT slot 2 / COMMIT size 1 "
      "amount 110 / ALLOC slot 1 size 20 / ROOM slot 5 stream 5 / COMMIT stream 1 size 2 / COMMIT "
      "alignment 1")

/* A stream of a released graph pool is unknown: what was freed on it waits for the context. */
HOLDS(sim_regressions, memory_freed_on_an_unknown_stream_is_not_idle, "keep_free_percent 3",
      "GRAPH_POOL_CREATE slot 1 / ALLOC_IN amount 4 / GRAPH_POOL_RELEASE slot 1 amount 1 / FREE / "
      "FOREIGN amount 247 / TRIM stream 2")

/* ---- beside memory of graphs ----------------------------------------------------------------- */

/* ---- blocks that are passed through to the driver: see plain.c ------------------------------- */

HOLDS(sim_plain, what_needs_chunks_is_refused_by_name,
      "plain 1, page_kib 64, device_pages 256, streams 2",
      "ALLOC amount 1 / SLEEP / RANGE_CREATE / GRAPH_POOL_CREATE / EXPORT / PIN / ALLOC slot 1 "
      "amount 16 "
      "/ VERIFY")

/* The CPU does not wait for memory that the limit never allows. */
HOLDS(sim_plain, nobody_waits_for_what_is_above_the_limit, "limit_percent 73, plain 4",
      "ALLOC / FREE amount 59 / ALLOC slot 1 size 235")

/* A block's part of the limit decides which blocks the cache spares. */
HOLDS(sim_plain, what_is_passed_makes_memory_scarce, "device_pages 1024, plain 2",
      "ALLOC size 147 / SET_LIMIT size 1 / FREE / ALLOC size 147")

/* The driver's own pool was given a call on the legacy stream, which ends captures of blocking
 * streams. */
HOLDS(regression, a_plain_block_ends_no_capture,
      "device_pages 512, page_kib 64, streams 2, blocking 2, legacy 1, plain 1",
      "ALLOC slot 5 stream 2 / CAPTURE_BEGIN stream 1 / ALLOC slot 6 stream 2 / FREE slot 5 / "
      "FREE slot 6 / CAPTURE_END stream 1 / FREE slot 5 / FREE slot 6")
