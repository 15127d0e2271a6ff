/*
 * Stories in which every driver call of every step fails, and every allocation of host memory that
 * it makes. Then nothing fails any more, and the step is taken once more: the trial checks all of
 * it.
 */
#include <string.h>

#include "tests/sim/script.h"
#include "tests/support/test.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { STEPS_APART = 5, LEAST_POSITIONS = 3 };
#else
enum { STEPS_APART = 1, LEAST_POSITIONS = 20 };
#endif

enum { MOST_OPS = 48, MOST_POSITIONS = 24, ANY_CALL = 17 };

/* A device of 64 chunks. */
#define PLACE "device_pages 512, chunk_pages 8, small_chunk_pages 2, streams 2"

static const char *const stories[] = {
    /* Requests are covered by an extension with moved chunks, by a fresh place, by creation. */
    "ALLOC size 0xb3 amount 1 / ALLOC slot 1 size 0x92 amount 1 / ALLOC slot 2 size 0x9b amount 1 "
    "/ FREE / ALLOC slot 3 size 0x97 amount 1 / FREE slot 2 / ALLOC slot 4 size 0xd4 amount 1 / "
    "ALLOC slot 5 size 6 amount 1 / ALLOC slot 6 size 0x11 amount 1 / FREE slot 4 / ADVANCE "
    "amount 4 / ALLOC slot 7 size 0xd5 amount 1 / FREE slot 1 / ALLOC slot 8 size 0xd8 amount 1 / "
    "FREE slot 7 / FREE slot 8 / TRIM amount 8 / ADVANCE amount 4 / TRIM / ALLOC slot 9 size 0xd3 "
    "amount 1 / SET_LIMIT amount 16",
    /* Memory crosses from one stream to the other, behind fences and waits. */
    "SET_LIMIT amount 32 / ALLOC size 0x9b amount 1 / ALLOC slot 1 stream 1 size 0x9b amount 1 / "
    "SHARE stream 1 / FREE / ALLOC slot 2 stream 1 size 0xd3 amount 1 / FREE slot 1 amount 5 / "
    "ALLOC slot 3 size 0x9d amount 1 / FREE slot 2 / FORGET stream 1 / ADVANCE amount 4 / ALLOC "
    "slot 4 size 0xd3 amount 1 / FREE slot 3 / FREE slot 4 / ADVANCE amount 4 / TRIM",
    /* Pages are committed from new and from freed memory, and serve blocks. */
    "RANGE_CREATE size 5 amount 7 / SET_LIMIT amount 32 / COMMIT amount 1 / COMMIT stream 1 size 1 "
    "alignment 1 amount 1 / SHARE slot 47 stream 1 / DECOMMIT / COMMIT amount 1 / ALLOC size 0xd4 "
    "amount 1 / DECOMMIT stream 1 size 1 alignment 1 / ALLOC slot 1 stream 1 size 0xd1 amount 1 / "
    "FREE / COMMIT size 4 alignment 3 amount 1 / ADVANCE amount 4 / FREE slot 1 / COMMIT size 1 "
    "alignment 1 amount 1 / DECOMMIT size 4 alignment 3 / COMMIT size 4 "
    "amount 1 / FORGET stream 1 / RANGE_DESTROY / ADVANCE amount 4 / TRIM",
    /* Pages of two ranges are committed in one step: of new memory, of mapped memory. */
    "RANGE_CREATE size 0 amount 7 / RANGE_CREATE slot 1 size 2 amount 7 / SET_LIMIT amount 32 / "
    "COMMIT alignment 1 amount 65 / DECOMMIT alignment 1 / COMMIT size 1 "
    "alignment 2 amount 65 / DECOMMIT slot 1 / ALLOC size 0xd3 amount 1 / COMMIT alignment 7 "
    "amount 65 / FREE / ADVANCE amount 4 / COMMIT alignment 3 amount 65 / RANGE_DESTROY",
};

/* How many calls and allocations failed, with something planted before a step. */
static uint64_t run(const trial_config *config, const operation *story, int count, int at,
                    operation planted)
{
    static trial_outcome outcome;
    operation ops[MOST_OPS];
    memcpy(ops, story, (size_t)at * sizeof(*ops));
    ops[at] = planted;
    ops[at + 1] = story[at];
    ops[at + 2] = (operation){.kind = OP_CLEAR_FAULTS};
    memcpy(ops + at + 3, story + at, (size_t)(count - at) * sizeof(*ops));
    trial_run(config, ops, (size_t)count + 3, &outcome);
    if (outcome.verdict != TRIAL_HOLDS) {
        mend_test_fail(__FILE__, __LINE__, "%s at step %zu: %s",
                       trial_verdict_name(outcome.verdict), outcome.step, outcome.finding);
        trial_print(stdout, "found", config, ops, (size_t)count + 3);
    }
    uint64_t failed = outcome.tally.failed_mallocs;
    for (int i = 0; i < MEND_DRIVER_CALL_COUNT; i++) {
        failed += outcome.tally.failed_calls[i];
    }
    return failed;
}

/* Returns how many positions there were. */
static int sweep_step(const trial_config *config, const operation *story, int count, int at,
                      operation planted)
{
    const bool is_of_host = planted.kind == OP_FAIL_MALLOC;
    const operation nothing = {.kind = OP_CLEAR_FAULTS};
    const uint64_t otherwise = run(config, story, count, at, nothing);
    int position = 0;
    uint64_t failed = otherwise + 1;
    for (; position < (is_of_host ? 8 : MOST_POSITIONS) && failed > otherwise; position++) {
        *(is_of_host ? &planted.slot : &planted.alignment) = (uint8_t)position;
        failed = run(config, story, count, at, planted);
    }
    return position - 1;
}

static void sweep(operation planted)
{
    for (size_t i = 0; i < sizeof(stories) / sizeof(stories[0]); i++) {
        operation story[MOST_OPS];
        trial_config config;
        int positions = 0;
        const int count = trial_read_script(PLACE, stories[i], &config, story, MOST_OPS - 3);
        ASSERT_TRUE(count > 0);
        for (int at = 0; at < count && !mend_test_has_failed(); at += STEPS_APART) {
            positions += sweep_step(&config, story, count, at, planted);
        }
        EXPECT_TRUE(positions >= LEAST_POSITIONS);
    }
}

#define POSITIONS(suite, name, ...)                                                                \
    MEND_TEST(suite, name)                                                                         \
    {                                                                                              \
        sweep((operation){__VA_ARGS__});                                                           \
    }
#define DRIVER(name, status, times)                                                                \
    POSITIONS(driver_positions, name, .kind = OP_FAULT, .size = ANY_CALL, .thread = (status),      \
              .amount = (times))
DRIVER(out_of_memory_once, 0, 0)
DRIVER(out_of_memory_for_ever, 0, FAULT_FOR_EVER)
DRIVER(unknown_error_once, 1, 0)
DRIVER(unknown_error_for_ever, 1, FAULT_FOR_EVER)
DRIVER(not_ready_once, 2, 0)
POSITIONS(host_positions, once, .kind = OP_FAIL_MALLOC)
POSITIONS(host_positions, three_times, .kind = OP_FAIL_MALLOC, .amount = 2)
