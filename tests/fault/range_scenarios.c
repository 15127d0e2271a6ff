/* The scenarios of growable ranges: every way of a commit, and the other calls, and calls on blocks
 * and pages that sleep, or lie on the host. */
#include "tests/fault/scenario_steps.h"

/* clang-format off */

/* Blocks and pages of two tags, each in chunks of its own, and a chunk of two tags. */
#define TAGGED_MEMORY                                                                              \
    {TAG, 0, 0, 1}, {ALLOC, 90, 0, CHUNKS(2)}, {TAG, 0, 0, 2}, {ALLOC, 91, 0, CHUNKS(1)},          \
    {RANGE, 0, 0, CHUNKS(64)}, {COMMIT, 0, 0, CHUNKS(1)}, {TAG, 0, 0, 1},                          \
    {COMMIT, 1, 0, CHUNKS(1)}, {TAG, 0, 0, 0}

const scenario range_scenarios[] = {
    {"creation_of_a_range", {RANGE, 0, 0, CHUNKS(64)}, .way = {.reserves_addresses = true}},
    {"first_commit", {COMMIT, 0, 0, CHUNKS(3)}, .way = {.chunks_created = 3, .streams = 1},
     STEPS({RANGE, 0, 0, CHUNKS(64)})},
    {"commit_that_grows", {COMMIT, 3, 0, CHUNKS(2)}, .way = {.chunks_created = 2},
     STEPS({RANGE, 0, 0, CHUNKS(64)}, {COMMIT, 0, 0, CHUNKS(3)})},
    {"commit_of_mapped_pages", {COMMIT, 1, 0, CHUNKS(2)}, .way = {.calls_no_driver = true},
     STEPS({RANGE, 0, 0, CHUNKS(64)}, {COMMIT, 0, 0, CHUNKS(3)}, {USE, 0, 0, 0},
           {DECOMMIT, 0, 0, 0})},
    {"commit_of_moved_chunks", {COMMIT, 0, 0, CHUNKS(3)}, .way = {.chunks_moved = 3},
     STEPS({RANGE, 0, 0, CHUNKS(64)}, {ALLOC, 99, 0, CHUNKS(3)}, {USE, 99, 0, 0},
           {FREE, 99, 0, 0})},
    {"commit_of_moved_and_created_chunks", {COMMIT, 0, 0, CHUNKS(5)},
     .way = {.chunks_moved = 3, .chunks_created = 2},
     STEPS({RANGE, 0, 0, CHUNKS(64)}, {ALLOC, 99, 0, CHUNKS(3)}, {FREE, 99, 0, 0})},
    {"commit_behind_a_stream_wait", {COMMIT, 0, 1, CHUNKS(3)}, .device_bytes = KIB(320),
     .way = {.stream_waits = 1, .events = 1},
     STEPS({RANGE, 0, 0, CHUNKS(64)}, {ALLOC, 99, 1, 700}, {COMMIT, 0, 0, CHUNKS(3)},
           {USE, 0, 0, 0}, {DECOMMIT, 0, 0, 0})},
    {"commit_where_an_old_mapping_was", {COMMIT, 0, 0, CHUNKS(4)}, .device_bytes = KIB(320),
     .way = {.chunks_moved = 4, .events = 1},
     STEPS({RANGE, 0, 0, CHUNKS(64)}, {COMMIT, 0, 0, CHUNKS(4)}, {DECOMMIT, 0, 0, 0},
           {ALLOC, 99, 0, CHUNKS(4)}, {FREE, 99, 0, 0}, {WAIT, 0, 0, 0})},
    {"commit_after_a_host_wait", {COMMIT, 0, 0, CHUNKS(4)}, .device_bytes = KIB(320),
     .way = {.chunks_moved = 4, .host_waits = 1, .events = 1},
     STEPS({RANGE, 0, 0, CHUNKS(64)}, {COMMIT, 0, 0, CHUNKS(4)}, {USE, 0, 0, 0},
           {DECOMMIT, 0, 0, 0}, {ALLOC, 99, 0, CHUNKS(4)}, {FREE, 99, 0, 0})},
    /* Pages of 16 KiB of chunks of 64 KiB. */
    {"commit_of_remade_chunks", {COMMIT, 0, 0, CHUNKS(2)}, .device_bytes = KIB(320),
     .way = {.chunks_created = 8, .chunks_released = 1, .events = 1, .chunks_remade = 1},
     STEPS({RANGE, 1, 0, CHUNKS(64)}, {ALLOC, 99, 0, CHUNKS(4)}, {FREE, 99, 0, 0},
           {WAIT, 0, 0, 0})},
    {"commit_out_of_memory", {COMMIT, 8, 0, CHUNKS(3)}, .device_bytes = CHUNKS(4),
     .way = {.result = MEND_ERROR_OUT_OF_MEMORY},
     STEPS({RANGE, 0, 0, CHUNKS(64)}, {COMMIT, 0, 0, CHUNKS(2)})},
    {"allocation_of_decommitted_pages", {ALLOC, 99, 0, CHUNKS(3)}, .device_bytes = KIB(320),
     .way = {.placed_at_new_address = 1, .chunks_moved = 3, .reserves_addresses = true},
     STEPS({RANGE, 0, 0, CHUNKS(64)}, {COMMIT, 0, 0, CHUNKS(4)}, {USE, 0, 0, 0},
           {DECOMMIT, 0, 0, 0})},

    {"decommit_of_pages", {DECOMMIT, 0, 0, 0}, .way = {.calls_no_driver = true},
     STEPS({RANGE, 0, 0, CHUNKS(64)}, {COMMIT, 0, 0, CHUNKS(5)}, {ALLOC, 99, 1, 700},
           {USE, 0, 0, 0})},
    {"decommit_on_a_new_stream", {DECOMMIT, 0, 2, 0}, .way = {.streams = 1},
     STEPS({RANGE, 0, 0, CHUNKS(64)}, {COMMIT, 0, 0, CHUNKS(3)})},
    {"record_of_pages_on_a_new_stream", {SHARE_PAGES, 0, 2, 0}, .way = {.streams = 1},
     STEPS({RANGE, 0, 0, CHUNKS(64)}, {COMMIT, 0, 0, CHUNKS(3)})},

    {"end_of_a_range", {RANGE_END, 0, 0, 0}, .way = {.events = 1, .returns_addresses = true},
     STEPS({RANGE, 0, 0, CHUNKS(64)}, {COMMIT, 0, 0, CHUNKS(3)}, {DECOMMIT, 0, 0, 0},
           {WAIT, 0, 0, 0})},
    {"end_of_a_range_in_flight", {RANGE_END, 0, 0, 0}, .way = {.events = 1},
     STEPS({RANGE, 0, 0, CHUNKS(64)}, {COMMIT, 0, 0, CHUNKS(3)}, {USE, 0, 0, 0})},
    {"end_of_a_range_on_a_new_stream", {RANGE_END, 0, 2, 0},
     .way = {.streams = 1, .events = 1, .returns_addresses = true},
     STEPS({RANGE, 0, 0, CHUNKS(64)}, {COMMIT, 0, 0, CHUNKS(3)}, {WAIT, 0, 0, 0})},
    {"trim_after_the_end_of_a_range", {TRIM, 0, 0, 0},
     .way = {.chunks_released = 3, .returns_addresses = true},
     STEPS({RANGE, 0, 0, CHUNKS(64)}, {COMMIT, 0, 0, CHUNKS(3)}, {USE, 0, 0, 0},
           {RANGE_END, 0, 0, 0}, {WAIT, 0, 0, 0})},
    {"destroy_a_pool_with_a_range", .kind = SCENARIO_DESTROY,
     STEPS({RANGE, 0, 0, CHUNKS(64)}, {COMMIT, 0, 0, CHUNKS(3)}, {COMMIT, 8, 1, CHUNKS(3)},
           {USE, 0, 0, 0}, {DECOMMIT, 8, 1, 0})},

    {"sleep_on_the_host_and_in_a_file", {SLEEP, 2, 0, 0},
     .way = {.chunks_released = 5, .host_waits = 1}, STEPS(TAGGED_MEMORY)},
    {"sleep_into_the_pool", {SLEEP, 2, 2, 0}, .way = {.host_waits = 1}, STEPS(TAGGED_MEMORY)},
    {"wake", {WAKE, 0, 0, 0}, .way = {.chunks_created = 5}, STEPS(TAGGED_MEMORY, {SLEEP, 2, 0, 0})},
    {"wake_into_free_chunks", {WAKE, 0, 0, 0}, .way = {.chunks_created = 3, .events = 1},
     STEPS(TAGGED_MEMORY, {SLEEP, 2, 0, 0}, {ALLOC, 92, 0, CHUNKS(2)}, {FREE, 92, 0, 0})},
    {"prepare_checkpoint_of_shareable_memory", {PREPARE_CHECKPOINT, 0, 0, 0},
     .way = {.chunks_created = 4, .chunks_released = 6, .host_waits = 1},
     STEPS({ALLOC, 0, 0, CHUNKS(3)}, {ALLOC, 1, 0, 700}, {ALLOC, 2, 0, CHUNKS(2)},
           {FREE, 2, 0, 0})},
};
/* clang-format on */

const size_t range_scenario_count = sizeof(range_scenarios) / sizeof(range_scenarios[0]);
