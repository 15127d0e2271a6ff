/*
 * Every driver call of a story fails once, and from there on for ever: each operation then answers
 * with an error or succeeds all the same, the pool stays as it was, nothing leaks, no rule of the
 * driver is broken, no byte is lost, and once the fault is over the same operation works.
 */
#include "tests/fault/story.h"
#include "tests/support/test.h"

static mend_result perform(story_run *run, const operation *op)
{
    mend_result result = story_call(run, op);
    if (result == MEND_OK) {
        story_use(run, op);
    }
    return result;
}

/* `undo_works`: the driver takes back what it gave; else that stays, as free memory. */
static void perform_checked(story_run *run, const operation *op, bool undo_works)
{
    mend_stats before = mend_world_stats(&run->world);
    mend_result result = perform(run, op);
    mend_world_check(&run->world);
    if (result == MEND_OK) {
        return;
    }
    story_expect_explained(result);
    mend_stats after = mend_world_stats(&run->world);
    story_expect_unchanged(&before, &after);
    bool gave_back = after.chunks_released > before.chunks_released && op->action == COMMIT;
    if ((op->action == ALLOC || op->action == COMMIT || op->action == RANGE) && undo_works &&
        !gave_back) {
        EXPECT_U64_EQ(before.reserved_bytes, after.reserved_bytes);
        EXPECT_U64_EQ(before.address_bytes, after.address_bytes);
    }
    mend_sim_clear_faults(run->world.sim);
    EXPECT_RESULT(MEND_OK, perform(run, op));
    mend_world_check(&run->world);
}

/* Runs a story with a fault at a position; false when the story makes fewer calls. */
static bool run_with_fault(const story *given, uint64_t position, uint64_t count, int status)
{
    static story_run run;
    run = (story_run){.use_ns = 10};
    mend_world_init(&run.world);
    if (!mend_world_open(&run.world)) {
        return false;
    }
    story_begin(&run);
    mend_sim_fault fault = MEND_SIM_FAULT_INIT;
    fault.after_calls = position;
    fault.count = count;
    fault.status = status;
    EXPECT_RESULT(MEND_OK, mend_sim_fail(run.world.sim, &fault));
    uint64_t first_call = mend_sim_call_count(run.world.sim);
    for (size_t i = 0; i < given->count && !mend_test_has_failed(); i++) {
        perform_checked(&run, &given->operations[i], count == 1);
    }
    bool reached = mend_sim_call_count(run.world.sim) - first_call > position;
    mend_sim_clear_faults(run.world.sim);
    story_end(&run);
    if (mend_test_has_failed()) {
        mend_test_fail(__FILE__, __LINE__, "%s, call %llu, %s", given->name,
                       (unsigned long long)position, count == 1 ? "once" : "for ever");
    }
    return reached;
}

static void sweep(uint64_t count, int status)
{
    const story *stories[] = {&story_of_room, &story_of_streams, &story_of_ranges};
    for (size_t i = 0; i < sizeof(stories) / sizeof(stories[0]); i++) {
        uint64_t position = 0;
        while (!mend_test_has_failed() && run_with_fault(stories[i], position, count, status)) {
            position++;
        }
        EXPECT_TRUE(position > 20);
    }
}

MEND_TEST(driver_positions, out_of_memory_once)
{
    sweep(1, 2);
}
MEND_TEST(driver_positions, out_of_memory_for_ever)
{
    sweep(UINT64_MAX, 2);
}
MEND_TEST(driver_positions, unknown_error_once)
{
    sweep(1, 999);
}
MEND_TEST(driver_positions, unknown_error_for_ever)
{
    sweep(UINT64_MAX, 999);
}
MEND_TEST(driver_positions, not_ready_once)
{
    sweep(1, 600);
}
