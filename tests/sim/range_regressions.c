/* What the simulation has found with growable ranges, as regressions.c. */
#include "tests/sim/expect.h"

/* A destroyed range kept its addresses where a block found none. */
MEND_TEST(sim_regressions, addresses_of_a_destroyed_range_serve_blocks)
{
    static const operation ops[] = {
        {.kind = OP_ALLOC},
        {.kind = OP_RANGE_CREATE, .size = 3, .amount = 4},
        {.kind = OP_COMMIT},
    };
    trial_config config = trial_config_default;
    config.device_pages = 16;
    config.reserve_devices = 1;
    config.address_devices = 3;
    expect_holds(&config, ops, sizeof(ops) / sizeof(ops[0]));
}

/* Sizes: page 4 of a range is four pages of the device, and 0xef all of its memory. */

/* A block gets the memory of pages behind the last looks at them. */
MEND_TEST(sim_ranges, decommitted_memory_is_used_behind_its_work)
{
    static const operation ops[] = {
        {.kind = OP_RANGE_CREATE, .size = 4, .amount = 3},
        {.kind = OP_COMMIT, .alignment = 3, .amount = 1},
        {.kind = OP_DECOMMIT, .alignment = 3, .amount = 32},
        {.kind = OP_ALLOC, .stream = 1, .size = 0xef, .amount = 1},
        {.kind = OP_VERIFY},
    };
    trial_config config = trial_config_default;
    config.device_pages = 16;
    config.streams = 2;
    expect_holds(&config, ops, sizeof(ops) / sizeof(ops[0]));
}

/* The same behind the work of streams that were recorded for the pages. */
MEND_TEST(sim_ranges, decommitted_memory_is_used_behind_recorded_streams)
{
    static const operation ops[] = {
        {.kind = OP_RANGE_CREATE, .size = 4, .amount = 3},
        {.kind = OP_COMMIT, .alignment = 3, .amount = 1},
        {.kind = OP_SHARE, .slot = 47, .stream = 1},
        {.kind = OP_SHARE, .slot = 46, .stream = 1},
        {.kind = OP_DECOMMIT, .alignment = 3},
        {.kind = OP_ALLOC, .size = 0xef, .amount = 1},
        {.kind = OP_VERIFY},
    };
    trial_config config = trial_config_default;
    config.device_pages = 16;
    config.streams = 2;
    expect_holds(&config, ops, sizeof(ops) / sizeof(ops[0]));
}

/* A graph that writes pages finds them again after they were decommitted, and their memory used. */
MEND_TEST(sim_ranges, a_graph_uses_pages_that_were_committed_again)
{
    static const operation ops[] = {
        {.kind = OP_RANGE_CREATE, .size = 4, .amount = 3},
        {.kind = OP_COMMIT, .alignment = 3, .amount = 1},
        {.kind = OP_CAPTURE_BEGIN},
        {.kind = OP_SHARE, .slot = 47, .amount = 1},
        {.kind = OP_CAPTURE_END},
        {.kind = OP_GRAPH_LAUNCH, .stream = 1},
        {.kind = OP_VERIFY, .slot = 47},
        {.kind = OP_DECOMMIT, .alignment = 3, .amount = 32},
        {.kind = OP_GRAPH_LAUNCH, .stream = 1},
        {.kind = OP_ALLOC, .size = 0xe7, .amount = 1},
        {.kind = OP_COMMIT, .stream = 1},
        {.kind = OP_GRAPH_LAUNCH},
        {.kind = OP_VERIFY, .slot = 47},
        {.kind = OP_VERIFY},
    };
    trial_config config = trial_config_default;
    config.device_pages = 16;
    config.streams = 2;
    expect_holds(&config, ops, sizeof(ops) / sizeof(ops[0]));
}

/* The follower of a history knows which pages are committed from the events alone. */
MEND_TEST(sim_ranges, the_history_tells_of_pages)
{
    static const operation ops[] = {
        {.kind = OP_HISTORY, .size = 255}, {.kind = OP_RANGE_CREATE, .size = 4, .amount = 3},
        {.kind = OP_COMMIT, .size = 1},    {.kind = OP_COMMIT, .alignment = 3},
        {.kind = OP_DECOMMIT, .size = 2},  {.kind = OP_ALLOC, .size = 0xe3},
        {.kind = OP_RANGE_DESTROY},        {.kind = OP_TRIM},
    };
    trial_config config = trial_config_default;
    config.device_pages = 16;
    expect_holds(&config, ops, sizeof(ops) / sizeof(ops[0]));
}

/* Beside another pool, which holds memory of the device. */
MEND_TEST(sim_ranges, what_would_fit_is_committed)
{
    static const operation ops[] = {
        {.kind = OP_RANGE_CREATE, .size = 2, .amount = 15},
        {.kind = OP_SIBLING_ALLOC, .size = 0xe3},
        {.kind = OP_ALLOC, .slot = 1, .size = 0xe1},
        {.kind = OP_COMMIT, .alignment = 9, .amount = 4},
    };
    trial_config config = trial_config_default;
    config.device_pages = 16;
    config.peer_pool = 1;
    expect_holds(&config, ops, sizeof(ops) / sizeof(ops[0]));
}

/* Mistakes with pages, by name; an end of the range that a pin forbids; the figures of all that. */
MEND_TEST(sim_ranges, what_is_refused_has_its_name)
{
    static const operation ops[] = {
        {.kind = OP_RANGE_CREATE, .size = 4, .amount = 3},
        {.kind = OP_COMMIT, .alignment = 1},
        {.kind = OP_RANGE_MISTAKE, .amount = 1},
        {.kind = OP_MISTAKE, .slot = 47},
        {.kind = OP_MISTAKE, .slot = 47, .amount = 1},
        {.kind = OP_MISTAKE, .slot = 47, .amount = 2},
        {.kind = OP_PIN, .slot = 47},
        {.kind = OP_RANGE_DESTROY},
        {.kind = OP_DECOMMIT, .alignment = 3},
        {.kind = OP_RANGE_DESTROY},
        {.kind = OP_UNPIN},
        {.kind = OP_CAPTURE_BEGIN},
        {.kind = OP_RANGE_MISTAKE},
        {.kind = OP_CAPTURE_END},
        {.kind = OP_RANGE_DESTROY},
    };
    trial_config config = trial_config_default;
    config.device_pages = 16;
    expect_holds(&config, ops, sizeof(ops) / sizeof(ops[0]));
}

/* A sleep that found no host memory for its nodes gave back a promise that it did not have. */
MEND_TEST(sim_regressions, a_sleep_without_host_memory_promised_nothing)
{
    static const operation ops[] = {
        {.kind = OP_ALLOC, .slot = 3},
        {.kind = OP_FORGET},
        {.kind = OP_ALLOC, .slot = 4, .size = 20},
        {.kind = OP_SLEEP},
        {.kind = OP_ALLOC, .slot = 5},
        {.kind = OP_ALLOC, .slot = 1, .size = 20},
        {.kind = OP_SLEEP},
        {.kind = OP_ALLOC, .slot = 2},
        {.kind = OP_SLEEP},
        {.kind = OP_ALLOC},
        {.kind = OP_WAKE},
        {.kind = OP_FAIL_MALLOC, .slot = 7},
        {.kind = OP_SLEEP},
    };
    trial_config config = trial_config_default;
    expect_holds(&config, ops, sizeof(ops) / sizeof(ops[0]));
}

/* Above the limit no chunk is made again, and a search gives some back: then there is less. */
MEND_TEST(sim_ranges, pages_of_other_sizes_above_the_limit)
{
    static const operation ops[] = {
        {.kind = OP_RANGE_CREATE, .size = 6, .amount = 137},
        {.kind = OP_COMMIT, .alignment = 1},
        {.kind = OP_COMMIT, .size = 4, .alignment = 3},
        {.kind = OP_DECOMMIT, .size = 4, .amount = 5},
        {.kind = OP_RANGE_CREATE, .slot = 1, .size = 5, .amount = 2},
        {.kind = OP_ROOM, .amount = 5},
        {.kind = OP_SET_LIMIT, .amount = 113},
        {.kind = OP_COMMIT, .alignment = 3},
        {.kind = OP_COMMIT, .slot = 1, .alignment = 2},
        {.kind = OP_COMMIT, .size = 116, .alignment = 3},
    };
    expect_holds(&trial_config_default, ops, sizeof(ops) / sizeof(ops[0]));
}

/* The page came back without access, which the device refused; the next call gives it. */
MEND_TEST(sim_ranges, zeros_that_lack_access)
{
    static const operation ops[] = {
        {.kind = OP_RANGE_CREATE, .size = 3, .amount = 4},
        {.kind = OP_ZEROS},
        {.kind = OP_FAULT, .size = 10},
        {.kind = OP_COMMIT, .alignment = 4},
    };
    trial_config config = trial_config_default;
    config.device_pages = 16;
    expect_holds(&config, ops, sizeof(ops) / sizeof(ops[0]));
}

/* Memory that a wait for zeros of a destroyed range made idle was not tried. */
MEND_TEST(sim_ranges, a_wait_for_zeros_is_a_wait_for_all)
{
    static const operation ops[] = {
        {.kind = OP_RANGE_CREATE, .slot = 1},
        {.kind = OP_RANGE_CREATE, .slot = 2},
        {.kind = OP_COMMIT, .slot = 1},
        {.kind = OP_ZEROS, .slot = 2, .amount = 5},
        {.kind = OP_RANGE_DESTROY, .slot = 1},
        {.kind = OP_RANGE_CREATE, .slot = 1},
        {.kind = OP_ROOM},
        {.kind = OP_COMMIT, .slot = 1, .amount = 15},
    };
    expect_holds(&trial_config_default, ops, sizeof(ops) / sizeof(ops[0]));
}

/* A block of the group on the host lay where the checkpoint has another one. */
MEND_TEST(sim_regressions, a_checkpoint_takes_no_memory_of_the_host)
{
    static const operation ops[] = {
        {.kind = OP_GROUP_CREATE},
        {.kind = OP_ALLOC_IN, .slot = 5},
        {.kind = OP_CHECKPOINT},
        {.kind = OP_FREE, .slot = 5, .amount = 118},
        {.kind = OP_ALLOC_IN, .size = 1},
        {.kind = OP_TO_HOST},
        {.kind = OP_RESTORE},
    };
    trial_config config = trial_config_default;
    config.host_percent = 200;
    expect_holds(&config, ops, sizeof(ops) / sizeof(ops[0]));
}

/* The chunk of zeros of a destroyed range is released amid a commit, which forgets what the device
 * can give; the commit has to ask again, or it gives no chunk back for the pages. */
MEND_TEST(sim_regressions, zeros_that_end_amid_a_commit_leave_it_its_room)
{
    static const operation ops[] = {
        {.kind = OP_RANGE_CREATE},
        {.kind = OP_FOREIGN, .amount = 12},
        {.kind = OP_RANGE_CREATE, .slot = 1, .amount = 1},
        {.kind = OP_ZEROS, .amount = 1},
        {.kind = OP_ROOM},
        {.kind = OP_RANGE_DESTROY},
        {.kind = OP_COMMIT, .slot = 1, .alignment = 1},
    };
    expect_holds(&trial_config_default, ops, sizeof(ops) / sizeof(ops[0]));
}

/* Refused for the second gap, the commit gives back what it created for the first: it counts. */
MEND_TEST(sim_regressions, a_commit_releases_what_it_created_itself)
{
    static const operation ops[] = {
        {.kind = OP_RANGE_CREATE, .slot = 2, .size = 2, .amount = 14},
        {.kind = OP_COMMIT, .slot = 2, .size = 7, .alignment = 1},
        {.kind = OP_COMMIT, .slot = 2, .alignment = 2},
        {.kind = OP_ALLOC, .size = 10},
        {.kind = OP_COMMIT, .slot = 2, .size = 63, .alignment = 3},
        {.kind = OP_COMMIT, .slot = 2, .size = 26},
        {.kind = OP_AMBUSH, .slot = 99},
        {.kind = OP_COMMIT, .slot = 2, .size = 234, .alignment = 3},
    };
    trial_config config = trial_config_default;
    config.chunk_pages = 8;
    config.small_request_granules = 2;
    config.quiet = 1;
    config.low_pressure_percent = 1;
    config.keep_free_percent = 10;
    expect_holds(&config, ops, sizeof(ops) / sizeof(ops[0]));
}

/* A lost page of zeros takes memory again as soon as the driver maps it. */
MEND_TEST(sim_regressions, what_fits_leaves_room_for_lost_zeros)
{
    static const operation ops[] = {
        {.kind = OP_RANGE_CREATE, .slot = 2, .size = 4, .amount = 4},
        {.kind = OP_ZEROS, .slot = 2},
        {.kind = OP_FAULT, .size = 8, .amount = 6},
        {.kind = OP_COMMIT, .slot = 2},
        {.kind = OP_CLEAR_FAULTS},
        {.kind = OP_COMMIT, .slot = 2, .alignment = 4, .amount = 4},
    };
    trial_config config = trial_config_default;
    config.device_pages = 16;
    expect_holds(&config, ops, sizeof(ops) / sizeof(ops[0]));
}

/* A peer pool has zeros of a destroyed range, and does not know the stream of the capture. */
MEND_TEST(sim_regressions, a_peer_pool_waits_for_nothing_in_a_capture)
{
    static const operation ops[] = {
        {.kind = OP_RANGE_CREATE, .slot = 2, .alignment = 1},
        {.kind = OP_ZEROS, .slot = 2, .amount = 1},
        {.kind = OP_RANGE_DESTROY, .slot = 2},
        {.kind = OP_ROOM},
        {.kind = OP_CAPTURE_BEGIN, .stream = 1},
        {.kind = OP_ALLOC, .stream = 1, .amount = 1},
    };
    trial_config config = trial_config_default;
    config.streams = 4;
    config.peer_pool = 1;
    expect_holds(&config, ops, sizeof(ops) / sizeof(ops[0]));
}
