/* What the simulation has found in the pool: shrunk lists of operations, as it prints them. */
#include "tests/sim/expect.h"

/* A trim refused by a capture the pool did not know of left mappings, and the next, which knew of
 * it, called that a failure of the driver. */
MEND_TEST(regression, a_trim_beside_a_known_capture_is_no_failure)
{
    static const operation ops[] = {
        {.kind = OP_ALLOC},
        {.kind = OP_ALLOC, .slot = 28, .stream = 1, .size = 24},
        {.kind = OP_FREE, .slot = 28},
        {.kind = OP_CAPTURE_BEGIN},
        {.kind = OP_TRIM},
        {.kind = OP_FREE},
        {.kind = OP_TRIM},
    };
    trial_config config = trial_config_default;
    config.streams = 2;
    expect_holds(&config, ops, sizeof(ops) / sizeof(ops[0]));
}

/* Where streams may vanish, a stream on which no event could be recorded was given up, and with it
 * what it was declared to use: its number went to another stream. */
MEND_TEST(regression, a_stream_given_up_leaves_its_declared_uses_behind)
{
    static const operation ops[] = {
        {.kind = OP_ALLOC},
        {.kind = OP_FAULT, .size = 5, .amount = 6},
        {.kind = OP_ALLOC, .slot = 7, .stream = 5},
        {.kind = OP_SHARE, .slot = 7},
        {.kind = OP_FAULT, .size = 12, .alignment = 2},
        {.kind = OP_ALLOC, .slot = 1},
        {.kind = OP_FREE},
    };
    trial_config config = trial_config_default;
    config.vanish = 1;
    config.legacy = 1;
    expect_holds(&config, ops, sizeof(ops) / sizeof(ops[0]));
}

/* A stream that was forgotten and destroyed lived on in its groups: its handle meant another stream
 * by then, whose capture was not seen. */
MEND_TEST(regression, a_forgotten_stream_is_forgotten_in_groups_too)
{
    static const operation ops[] = {
        {.kind = OP_SET_LIMIT, .amount = 33}, {.kind = OP_GROUP_CREATE, .slot = 2},
        {.kind = OP_GROUP_BEGIN, .slot = 2},  {.kind = OP_ALLOC},
        {.kind = OP_REPLACE_STREAM},          {.kind = OP_CAPTURE_BEGIN},
        {.kind = OP_FREE, .amount = 5},       {.kind = OP_ALLOC, .size = 47},
    };
    trial_config config = trial_config_default;
    config.device_pages = 16;
    config.thread_streams = 1;
    expect_holds(&config, ops, sizeof(ops) / sizeof(ops[0]));
}

/* A group that takes every stream let the driver be asked about those it had been used on, also
 * after their end. */
MEND_TEST(regression, a_group_of_every_stream_asks_no_stream_that_ended)
{
    static const operation ops[] = {
        {.kind = OP_GROUP_CREATE, .slot = 2},
        {.kind = OP_GROUP_BEGIN, .slot = 2, .amount = 1},
        {.kind = OP_ALLOC},
        {.kind = OP_REPLACE_STREAM, .amount = 4},
        {.kind = OP_TRIM},
    };
    trial_config config = trial_config_default;
    config.thread_streams = 1;
    expect_holds(&config, ops, sizeof(ops) / sizeof(ops[0]));
}

/* A group went on taking a handle whose stream was forgotten, and did not watch the next one. */
MEND_TEST(regression, a_group_watches_the_next_stream_of_its_handle)
{
    static const operation ops[] = {
        {.kind = OP_ALLOC, .size = 119},
        {.kind = OP_ALLOC, .slot = 1, .size = 136},
        {.kind = OP_GROUP_CREATE, .slot = 14},
        {.kind = OP_GROUP_BEGIN, .slot = 20},
        {.kind = OP_ALLOC, .slot = 3, .size = 120},
        {.kind = OP_REPLACE_STREAM, .amount = 4},
        {.kind = OP_FREE, .amount = 5},
        {.kind = OP_REPLACE_STREAM, .amount = 4},
        {.kind = OP_ALLOC, .alignment = 15},
        {.kind = OP_CAPTURE_BEGIN},
        {.kind = OP_ALLOC, .slot = 2, .stream = 1, .size = 130},
    };
    trial_config config = trial_config_default;
    config.page_kib = 64;
    config.device_pages = 16;
    config.limit_percent = 50;
    config.streams = 2;
    expect_holds(&config, ops, sizeof(ops) / sizeof(ops[0]));
}

/* What was known as lost stays lost, also for a free after the driver's end. */
MEND_TEST(regression, a_driver_that_ends_heals_no_context)
{
    static const operation ops[] = {
        {.kind = OP_ALLOC},
        {.kind = OP_LOSE_DEVICE},
        {.kind = OP_TRIM},
        {.kind = OP_SHUT_DOWN},
    };
    trial_config config = trial_config_default;
    expect_holds(&config, ops, sizeof(ops) / sizeof(ops[0]));
}

/* A capture seen on behalf of a group was forgotten when the group ended before it. */
MEND_TEST(regression, a_capture_outlives_the_group_that_saw_it)
{
    static const operation ops[] = {
        {.kind = OP_ALLOC, .slot = 1, .size = 211},
        {.kind = OP_ALLOC, .slot = 3, .size = 152},
        {.kind = OP_ALLOC, .slot = 2, .size = 118},
        {.kind = OP_ALLOC, .slot = 4, .size = 119},
        {.kind = OP_ALLOC, .slot = 5, .size = 175},
        {.kind = OP_GROUP_CREATE, .slot = 13},
        {.kind = OP_CAPTURE_BEGIN, .stream = 2},
        {.kind = OP_GROUP_BEGIN, .slot = 7, .amount = 5},
        {.kind = OP_ALLOC, .stream = 2, .size = 156},
        {.kind = OP_GROUP_END, .slot = 13},
        {.kind = OP_FREE, .slot = 1, .amount = 5},
        {.kind = OP_ALLOC, .size = 156},
    };
    trial_config config = trial_config_default;
    config.limit_percent = 73;
    config.streams = 3;
    expect_holds(&config, ops, sizeof(ops) / sizeof(ops[0]));
}

/* The device is lost between the mapping and the access of a chunk that took another's place. */
MEND_TEST(regression, a_compact_may_leave_a_mapping_without_access)
{
    static const operation ops[] = {
        {.kind = OP_ALLOC, .slot = 5, .size = 20},
        {.kind = OP_ALLOC},
        {.kind = OP_ALLOC, .slot = 1},
        {.kind = OP_FREE, .stream = 5, .amount = 4},
        {.kind = OP_LOSE_DEVICE, .amount = 16},
        {.kind = OP_SYNCHRONIZE},
        {.kind = OP_FREE, .slot = 5},
        {.kind = OP_SYNCHRONIZE},
        {.kind = OP_DEFRAG},
    };
    trial_config config = trial_config_default;
    config.streams = 2;
    expect_holds(&config, ops, sizeof(ops) / sizeof(ops[0]));
}

/* Above a lowered limit a chunk was given back to remake it, which made no room. */
MEND_TEST(regression, the_only_chunk_that_fits_is_not_given_back)
{
    static const operation ops[] = {
        {.kind = OP_ALLOC, .slot = 10, .size = 199}, {.kind = OP_ALLOC, .size = 25},
        {.kind = OP_SET_LIMIT, .amount = 1},         {.kind = OP_FREE, .slot = 10, .amount = 5},
        {.kind = OP_ALLOC, .slot = 1, .size = 104},
    };
    trial_config config = trial_config_default;
    config.chunk_pages = 2;
    expect_holds(&config, ops, sizeof(ops) / sizeof(ops[0]));
}

/* A callback's free found the device lost, and the driver then refused for another reason. */
MEND_TEST(regression, a_device_lost_in_a_callback_stays_lost)
{
    static const operation ops[] = {
        {.kind = OP_ALLOC, .size = 30},
        {.kind = OP_ALLOC, .slot = 3, .stream = 1, .size = 174},
        {.kind = OP_ALLOC, .slot = 6, .size = 35},
        {.kind = OP_ALLOC, .slot = 2, .stream = 1, .size = 166},
        {.kind = OP_ALLOC, .slot = 5, .size = 56},
        {.kind = OP_ALLOC, .slot = 8, .size = 15},
        {.kind = OP_ALLOC, .slot = 4, .stream = 5, .size = 167},
        {.kind = OP_ADD_CALLBACK, .slot = 7, .amount = 3},
        {.kind = OP_ALLOC, .slot = 7, .size = 167},
        {.kind = OP_ALLOC, .slot = 1, .stream = 1, .size = 167},
        {.kind = OP_ALLOC, .stream = 2, .size = 120},
        {.kind = OP_ALLOC, .slot = 4, .size = 173},
        {.kind = OP_ALLOC, .slot = 28, .stream = 1, .size = 56},
        {.kind = OP_ALLOC, .slot = 1, .size = 153},
        {.kind = OP_ALLOC, .size = 155},
        {.kind = OP_ALLOC, .slot = 5, .size = 165},
        {.kind = OP_FAULT, .amount = 6},
        {.kind = OP_ALLOC, .slot = 2, .size = 56},
        {.kind = OP_FAULT, .size = 3, .alignment = 13},
        {.kind = OP_FREE, .slot = 28},
        {.kind = OP_LOSE_DEVICE, .amount = 23},
        {.kind = OP_ALLOC, .slot = 3, .stream = 2, .size = 165},
    };
    trial_config config = trial_config_default;
    config.device_pages = 16;
    config.chunk_pages = 0;
    config.threads = 3;
    config.thread_streams = 1;
    expect_holds(&config, ops, sizeof(ops) / sizeof(ops[0]));
}

/* A chunk was given back for a plan that grows a small free run; then only larger runs were looked
 * at, which gain nothing. */
MEND_TEST(regression, what_a_chunk_was_given_back_for_is_found_again)
{
    static const operation ops[] = {
        {.kind = OP_ALLOC, .size = 5},
        {.kind = OP_FREE},
        {.kind = OP_ALLOC, .amount = 1},
        {.kind = OP_REPLACE_STREAM},
        {.kind = OP_ALLOC, .slot = 5},
        {.kind = OP_FREE},
        {.kind = OP_ALLOC, .size = 246},
        {.kind = OP_ALLOC, .slot = 2, .size = 28},
        {.kind = OP_FREE, .stream = 7, .amount = 6},
        {.kind = OP_FREE, .slot = 2},
        {.kind = OP_FREE, .slot = 5, .amount = 179},
        {.kind = OP_ALLOC, .slot = 3, .size = 148},
        {.kind = OP_FREE, .slot = 3, .amount = 5},
        {.kind = OP_ALLOC, .slot = 1},
        {.kind = OP_SET_LIMIT, .amount = 68},
        {.kind = OP_ALLOC, .size = 53},
        {.kind = OP_ALLOC, .slot = 2, .size = 198},
    };
    trial_config config = trial_config_default;
    config.chunk_pages = 8;
    config.streams = 3;
    expect_holds(&config, ops, sizeof(ops) / sizeof(ops[0]));
}

/* Where streams end without a word, a call outside a group went on believing in a capture though a
 * call of the group had seen its end. */
MEND_TEST(regression, the_end_of_a_capture_is_seen_for_all_who_use_the_stream)
{
    static const operation ops[] = {
        {.kind = OP_ALLOC, .slot = 5},
        {.kind = OP_ADD_CALLBACK, .slot = 1, .amount = 3},
        {.kind = OP_SIBLING_ALLOC},
        {.kind = OP_ALLOC, .slot = 1},
        {.kind = OP_ALLOC, .slot = 3, .size = 50},
        {.kind = OP_GROUP_CREATE},
        {.kind = OP_GROUP_BEGIN},
        {.kind = OP_CAPTURE_BEGIN},
        {.kind = OP_ALLOC, .slot = 4, .size = 40},
        {.kind = OP_FOREIGN, .amount = 161},
        {.kind = OP_ALLOC, .slot = 2, .size = 25},
        {.kind = OP_CAPTURE_END},
        {.kind = OP_ALLOC, .slot = 1},
        {.kind = OP_DEFRAG},
    };
    trial_config config = trial_config_default;
    config.device_pages = 16;
    config.vanish = 1;
    config.peer_pool = 1;
    expect_holds(&config, ops, sizeof(ops) / sizeof(ops[0]));
}

/* What became idle while the first trim was under way was neither waited for nor given back. */
MEND_TEST(regression, a_trim_that_waits_sees_what_became_idle_meanwhile)
{
    static const operation ops[] = {
        {.kind = OP_ALLOC, .size = 46},
        {.kind = OP_ALLOC, .slot = 6, .size = 139},
        {.kind = OP_FREE, .amount = 5},
        {.kind = OP_FREE, .slot = 6, .amount = 5},
        {.kind = OP_ALLOC, .size = 157},
        {.kind = OP_FREE},
        {.kind = OP_ALLOC, .size = 45},
        {.kind = OP_ALLOC, .slot = 6, .stream = 1, .size = 53, .amount = 5},
        {.kind = OP_FREE, .slot = 6},
        {.kind = OP_FREE},
        {.kind = OP_ALLOC, .size = 136},
        {.kind = OP_TRIM, .stream = 3},
    };
    trial_config config = trial_config_default;
    config.chunk_pages = 8;
    config.limit_percent = 50;
    config.prices = 1;
    config.thread_streams = 1;
    config.low_pressure_percent = 100;
    expect_holds(&config, ops, sizeof(ops) / sizeof(ops[0]));
}

/* A peer pool that is asked at last fails to give back: its error became the caller's. */
MEND_TEST(regression, the_failure_of_a_peer_pool_is_not_the_error_of_the_call)
{
    static const operation ops[] = {
        {.kind = OP_ALLOC},
        {.kind = OP_FREE, .amount = 55},
        {.kind = OP_SET_LIMIT, .amount = 1},
        {.kind = OP_FAULT, .size = 7, .amount = 6},
        {.kind = OP_FAULT, .size = 8, .amount = 6},
        {.kind = OP_SIBLING_ALLOC},
        {.kind = OP_ALLOC, .size = 25},
    };
    trial_config config = trial_config_default;
    config.peer_pool = 1;
    expect_holds(&config, ops, sizeof(ops) / sizeof(ops[0]));
}

/* Two groups took a stream that was forgotten and used again: the one begun last alone watched it,
 * and had ended when it was captured. */
MEND_TEST(regression, all_groups_of_a_stream_watch_it_when_it_is_used_again)
{
    static const operation ops[] = {
        {.kind = OP_GROUP_CREATE, .slot = 2},
        {.kind = OP_GROUP_CREATE},
        {.kind = OP_GROUP_BEGIN, .slot = 2},
        {.kind = OP_GROUP_BEGIN},
        {.kind = OP_FORGET},
        {.kind = OP_ALLOC},
        {.kind = OP_CAPTURE_BEGIN},
        {.kind = OP_GROUP_END},
        {.kind = OP_DEFRAG},
    };
    trial_config config = trial_config_default;
    expect_holds(&config, ops, sizeof(ops) / sizeof(ops[0]));
}

/* A request of a captured stream lacked addresses: the host waited for the context, and spoilt the
 * capture. */
MEND_TEST(regression, a_captured_stream_that_lacks_addresses_waits_for_no_context)
{
    static const operation ops[] = {
        {.kind = OP_ALLOC, .slot = 4},
        {.kind = OP_CAPTURE_BEGIN},
        {.kind = OP_FREE, .slot = 4, .amount = 5},
        {.kind = OP_ALLOC, .alignment = 20},
    };
    trial_config config = trial_config_default;
    config.vanish = 1;
    config.address_devices = 4;
    expect_holds(&config, ops, sizeof(ops) / sizeof(ops[0]));
}

/* A blocking stream was captured while the legacy stream was used, which stayed captured in the
 * books: where streams may vanish, the pool waited for nothing any more. */
MEND_TEST(regression, the_legacy_stream_is_not_held_for_captured)
{
    static const operation ops[] = {
        {.kind = OP_ALLOC},
        {.kind = OP_SIBLING_ALLOC, .slot = 4},
        {.kind = OP_SIBLING_ALLOC, .slot = 3, .size = 25},
        {.kind = OP_SIBLING_ALLOC, .slot = 11, .size = 56},
        {.kind = OP_SIBLING_ALLOC, .slot = 13, .size = 25},
        {.kind = OP_ALLOC, .slot = 2, .size = 56},
        {.kind = OP_ALLOC, .slot = 1, .size = 61},
        {.kind = OP_CAPTURE_BEGIN, .stream = 1},
        {.kind = OP_ALLOC, .slot = 6, .size = 46},
        {.kind = OP_ALLOC, .slot = 5, .size = 30},
        {.kind = OP_ALLOC, .slot = 8, .size = 61},
        {.kind = OP_ALLOC, .slot = 10, .size = 61},
        {.kind = OP_ALLOC, .slot = 7, .size = 61},
        {.kind = OP_ALLOC, .slot = 9, .size = 46},
        {.kind = OP_ALLOC, .slot = 14, .size = 51},
        {.kind = OP_SIBLING_ALLOC, .slot = 17, .stream = 4, .size = 20},
        {.kind = OP_CAPTURE_END, .stream = 1},
        {.kind = OP_ALLOC, .slot = 12, .size = 56},
        {.kind = OP_SIBLING_ALLOC, .slot = 20, .stream = 1, .size = 56},
        {.kind = OP_ALLOC, .slot = 15, .size = 61},
        {.kind = OP_FREE, .slot = 20, .amount = 5},
        {.kind = OP_ROOM, .slot = 26, .stream = 36},
        {.kind = OP_SIBLING_ALLOC, .slot = 16, .size = 54},
    };
    trial_config config = trial_config_default;
    config.device_pages = 32;
    config.small_chunk_pages = 4;
    config.vanish = 1;
    config.streams = 4;
    config.blocking = 6;
    config.legacy = 1;
    config.peer_pool = 1;
    expect_holds(&config, ops, sizeof(ops) / sizeof(ops[0]));
}

MEND_TEST(sim_regressions, memory_that_others_may_hold_is_not_given_back_for_a_better_chunk)
{
    static const operation ops[] = {
        {.kind = OP_ALLOC, .slot = 1, .size = 29},
        {.kind = OP_FREE, .slot = 1},
        {.kind = OP_ALLOC},
        {.kind = OP_ALLOC, .slot = 1, .stream = 1},
        {.kind = OP_FREE, .slot = 1},
        {.kind = OP_EXPORT},
        {.kind = OP_IMPORT},
        {.kind = OP_FREE},
        {.kind = OP_ALLOC, .size = 25},
    };
    trial_config config = trial_config_default;
    config.device_pages = 16;
    config.chunk_pages = 16;
    config.streams = 4;
    expect_holds(&config, ops, sizeof(ops) / sizeof(ops[0]));
}

MEND_TEST(sim_regressions, memory_that_others_may_hold_makes_no_room_for_compactions)
{
    static const operation ops[] = {
        {.kind = OP_ALLOC, .slot = 6, .size = 154},
        {.kind = OP_FREE, .slot = 6},
        {.kind = OP_ALLOC, .slot = 7, .size = 195},
        {.kind = OP_EXPORT, .slot = 7},
        {.kind = OP_IMPORT},
        {.kind = OP_FREE, .slot = 7},
        {.kind = OP_ALLOC, .slot = 3, .size = 55},
        {.kind = OP_ROOM, .amount = 1},
        {.kind = OP_ALLOC},
        {.kind = OP_FREE, .slot = 3},
        {.kind = OP_ROOM, .slot = 1, .amount = 1},
    };
    trial_config config = trial_config_default;
    config.device_pages = 32;
    config.chunk_pages = 8;
    config.quiet = 1;
    expect_holds(&config, ops, sizeof(ops) / sizeof(ops[0]));
}

/* In both ways, imported in both pools, and closed after its end. */
MEND_TEST(sim_regressions, a_block_that_is_exported_in_both_ways_ends_in_both)
{
    static const operation ops[] = {
        {.kind = OP_ALLOC, .size = 29},
        {.kind = OP_EXPORT_BY_FABRIC, .amount = 1},
        {.kind = OP_EXPORT_BY_FABRIC},
        {.kind = OP_EXPORT},
        {.kind = OP_EXPORT_BY_FABRIC, .size = 3},
        {.kind = OP_IMPORT_BY_FABRIC},
        {.kind = OP_IMPORT_BY_FABRIC, .size = 1},
        {.kind = OP_IMPORT, .size = 1},
        {.kind = OP_FREE},
        {.kind = OP_ALLOC, .size = 29},
        {.kind = OP_EXPORT_BY_FABRIC},
        {.kind = OP_CLOSE, .slot = 1},
        {.kind = OP_CLOSE},
    };
    trial_config config = trial_config_default;
    config.fabric = 1;
    config.peer_pool = 1;
    expect_holds(&config, ops, sizeof(ops) / sizeof(ops[0]));
}

/* The chunk of the block that the checkpoint knows was moved for another block, which is exported.
 */
MEND_TEST(sim_regressions, a_group_cannot_have_back_an_exported_chunk)
{
    static const operation ops[] = {
        {.kind = OP_GROUP_CREATE, .slot = 104},
        {.kind = OP_ALLOC_IN, .slot = 215, .amount = 58},
        {.kind = OP_CHECKPOINT, .slot = 20},
        {.kind = OP_FREE, .slot = 23},
        {.kind = OP_ALLOC_IN, .slot = 248, .size = 21, .amount = 8},
        {.kind = OP_EXPORT_BY_FABRIC, .slot = 248},
        {.kind = OP_RESTORE, .slot = 2},
    };
    trial_config config = trial_config_default;
    config.fabric = 1;
    expect_holds(&config, ops, sizeof(ops) / sizeof(ops[0]));
}

/* The device has more pages than the witness once kept handles of imports. */
MEND_TEST(sim_regressions, an_import_of_hundreds_of_chunks_is_counted_apart)
{
    static const operation ops[] = {
        {.kind = OP_ALLOC, .slot = 32, .size = 237},
        {.kind = OP_EXPORT, .slot = 32},
        {.kind = OP_IMPORT},
    };
    trial_config config = trial_config_default;
    config.device_pages = 300;
    config.chunk_pages = 0;
    expect_holds(&config, ops, sizeof(ops) / sizeof(ops[0]));
}

MEND_TEST(sim_regressions, what_fits_is_served_beside_a_capture)
{
    static const operation ops[] = {
        {.kind = OP_ALLOC, .stream = 1, .alignment = 13},
        {.kind = OP_ADD_CALLBACK},
        {.kind = OP_ALLOC, .slot = 2},
        {.kind = OP_CAPTURE_BEGIN},
        {.kind = OP_FREE, .slot = 2, .amount = 5},
        {.kind = OP_ROOM, .slot = 1, .stream = 5, .amount = 3},
    };
    trial_config config = trial_config_default;
    config.thread_streams = 1;
    expect_holds(&config, ops, sizeof(ops) / sizeof(ops[0]));
}

MEND_TEST(sim_regressions, a_pool_hears_of_a_capture_while_it_waits)
{
    static const operation ops[] = {{.kind = OP_ALLOC, .slot = 7},
                                    {.kind = OP_REPLACE_STREAM},
                                    {.kind = OP_CAPTURE_BEGIN, .stream = 4},
                                    {.kind = OP_AMBUSH, .slot = 7, .size = 8, .amount = 3},
                                    {.kind = OP_DEFRAG}};
    trial_config config = trial_config_default;
    config.streams = 2;
    config.legacy = 1;
    config.threads = 2;
    expect_holds(&config, ops, sizeof(ops) / sizeof(ops[0]));
}
