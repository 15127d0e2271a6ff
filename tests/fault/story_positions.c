/*
 * Every driver call of a story, and every host allocation that Mend makes in one, fails once, and
 * from there on for ever: each operation then answers with an error or succeeds all the same, the
 * pool stays as it was, nothing leaks, no rule of the driver is broken, no byte is lost, and once
 * the fault is over the same operation works.
 */
#include "tests/fault/story.h"
#include "tests/support/host_memory.h"
#include "tests/support/test.h"

enum { OF_HOST = 0 }; /* in place of a driver's status */

typedef struct fault {
    uint64_t position;
    uint64_t count;
    int status;
} fault;

/* How often an operation answered with an error, in a sweep. */
static uint64_t errors_seen;

/* The pool's own call is watched, not the work a test launches on the device. */
static mend_result perform(story_run *run, const operation *op)
{
    mend_test_watch_host_memory(true);
    mend_result result = story_call(run, op);
    mend_test_watch_host_memory(false);
    if (result == MEND_OK) {
        story_use(run, op);
    }
    return result;
}

/* Chunks of the wrong size may be gone for a commit. What a driver that fails for ever does not
 * take back stays, as free memory. */
static void expect_memory_unchanged(const operation *op, const fault *given,
                                    const mend_stats *before, const mend_stats *after)
{
    bool gave_back = after->chunks_released > before->chunks_released && op->action == COMMIT;
    bool makes_room = op->action == ALLOC || op->action == COMMIT || op->action == RANGE;
    if (given->status != OF_HOST && (gave_back || !makes_room || given->count != 1)) {
        return;
    }
    EXPECT_TRUE(gave_back ? after->reserved_bytes < before->reserved_bytes
                          : after->reserved_bytes == before->reserved_bytes);
    EXPECT_U64_EQ(before->address_bytes, after->address_bytes);
}

static void clear_faults(story_run *run)
{
    mend_sim_clear_faults(run->world.sim);
    mend_test_heal_host_memory();
}

static void perform_checked(story_run *run, const operation *op, const fault *given)
{
    mend_stats before = mend_world_stats(&run->world);
    mend_result result = perform(run, op);
    mend_world_check(&run->world);
    if (result == MEND_OK) {
        return;
    }
    errors_seen++;
    EXPECT_TRUE(given->status != OF_HOST || result == MEND_ERROR_OUT_OF_HOST_MEMORY);
    story_expect_explained(result);
    mend_stats after = mend_world_stats(&run->world);
    story_expect_unchanged(&before, &after);
    expect_memory_unchanged(op, given, &before, &after);
    clear_faults(run);
    EXPECT_RESULT(MEND_OK, perform(run, op));
    mend_world_check(&run->world);
}

static bool open_world(story_run *run, mend_unwatched_driver *driver)
{
    *run = (story_run){.use_ns = 10};
    mend_world_init(&run->world);
    if (!mend_world_open_device(&run->world)) {
        return false;
    }
    mend_unwatched_driver_init(driver, mend_sim_driver(run->world.sim));
    return true;
}

static void plant(story_run *run, const fault *given)
{
    if (given->status == OF_HOST) {
        mend_test_fail_host_memory_after(given->position, given->count);
        return;
    }
    mend_sim_fault planted = MEND_SIM_FAULT_INIT;
    planted.after_calls = given->position;
    planted.count = given->count;
    planted.status = given->status;
    EXPECT_RESULT(MEND_OK, mend_sim_fail(run->world.sim, &planted));
}

/* False when the story does not come so far. */
static bool run_with_fault(const story *told, const fault *given)
{
    static story_run run;
    mend_unwatched_driver driver;
    if (!open_world(&run, &driver) || !mend_world_open_pool(&run.world, &driver.table)) {
        return false;
    }
    story_begin(&run);
    plant(&run, given);
    uint64_t first_call = mend_sim_call_count(run.world.sim);
    for (size_t i = 0; i < told->count && !mend_test_has_failed(); i++) {
        perform_checked(&run, &told->operations[i], given);
    }
    bool reached = given->status == OF_HOST
                       ? mend_test_failed_host_allocations() > 0
                       : mend_sim_call_count(run.world.sim) - first_call > given->position;
    clear_faults(&run);
    story_end(&run);
    if (mend_test_has_failed()) {
        mend_test_fail(__FILE__, __LINE__, "%s, position %llu, status %d, %s", told->name,
                       (unsigned long long)given->position, given->status,
                       given->count == 1 ? "once" : "for ever");
    }
    return reached;
}

static void sweep(const story *told, uint64_t count, int status, uint64_t least)
{
    fault given = {0, count, status};
    errors_seen = 0;
    while (!mend_test_has_failed() && run_with_fault(told, &given)) {
        given.position++;
    }
    EXPECT_TRUE(given.position >= least);
    EXPECT_TRUE(errors_seen >= (status == OF_HOST ? least : 1));
}

/* So many blocks, some shared, some freed, that all the pool's tables grow. */
static story story_of_crowd(void)
{
    enum { BLOCKS = 400, SHARED = 100 };
    static operation operations[2 * BLOCKS + SHARED + 1];
    size_t count = 0;
    for (int i = 0; i < BLOCKS; i++) {
        uint64_t bytes = i % 20 == 0 ? 40 * MEND_KIB : 512 + 512 * (uint64_t)(i % 7);
        operations[count++] = (operation){ALLOC, i, i % 2, bytes};
        if (i < SHARED) {
            operations[count++] = (operation){SHARE, i, (i + 1) % 2, 0};
        }
    }
    for (int i = 0; i < BLOCKS; i++) {
        int freed = i < BLOCKS / 2 ? 2 * i : 2 * (i - BLOCKS / 2) + 1;
        operations[count++] = (operation){i % 9 ? FREE : FREE_ANYWHERE, freed, freed % 2, 0};
    }
    operations[count++] = (operation){TRIM, 0, 0, 0};
    return (story){"crowd", operations, count};
}

#define DRIVER(name, count, status)                                                                \
    MEND_TEST(driver_positions, name)                                                              \
    {                                                                                              \
        sweep(&story_of_room, count, status, 21);                                                  \
        sweep(&story_of_streams, count, status, 21);                                               \
        sweep(&story_of_ranges, count, status, 21);                                                \
    }
DRIVER(out_of_memory_once, 1, MEND_DRIVER_OUT_OF_MEMORY)
DRIVER(out_of_memory_for_ever, UINT64_MAX, MEND_DRIVER_OUT_OF_MEMORY)
DRIVER(unknown_error_once, 1, MEND_DRIVER_UNKNOWN)
DRIVER(unknown_error_for_ever, UINT64_MAX, MEND_DRIVER_UNKNOWN)
DRIVER(not_ready_once, 1, MEND_DRIVER_NOT_READY)

#define HOST(story)                                                                                \
    MEND_TEST(host_positions, story##_once)                                                        \
    {                                                                                              \
        sweep(&story_of_##story, 1, OF_HOST, 5);                                                   \
    }                                                                                              \
    MEND_TEST(host_positions, story##_for_ever)                                                    \
    {                                                                                              \
        sweep(&story_of_##story, UINT64_MAX, OF_HOST, 5);                                          \
    }
HOST(room)
HOST(streams)
HOST(ranges)

MEND_TEST(host_positions, crowd_once)
{
    story crowd = story_of_crowd();
    sweep(&crowd, 1, OF_HOST, 20);
}

MEND_TEST(host_positions, creation)
{
    bool reached = true;
    for (uint64_t position = 0; reached && !mend_test_has_failed(); position++) {
        story_run run;
        mend_unwatched_driver driver;
        ASSERT_TRUE(open_world(&run, &driver));
        run.world.pool_config.driver = &driver.table;
        mend_test_fail_host_memory_after(position, 1);
        mend_test_watch_host_memory(true);
        mend_pool *pool = NULL;
        mend_result result = mend_world_create_pool(&run.world, &pool);
        mend_test_watch_host_memory(false);
        mend_test_heal_host_memory();
        reached = mend_test_failed_host_allocations() > 0;
        EXPECT_TRUE(reached || position > 0);
        if (result != MEND_OK) {
            EXPECT_RESULT(MEND_ERROR_OUT_OF_HOST_MEMORY, result);
            EXPECT_TRUE(pool == NULL);
            story_expect_explained(result);
            EXPECT_RESULT(MEND_OK, mend_world_create_pool(&run.world, &pool));
        }
        run.world.pool = pool;
        mend_world_close(&run.world);
    }
}
