/*
 * Every host allocation Mend makes in a story fails once, and from there on for ever: the operation
 * answers MEND_ERROR_OUT_OF_HOST_MEMORY or manages without, the pool stays as it was, nothing
 * leaks, and once there is memory again the same operation works.
 */
#include "tests/fault/story.h"
#include "tests/support/host_memory.h"
#include "tests/support/test.h"

/* How often an operation answered with an error, in a sweep. */
static uint64_t errors_seen;

/* The pool's own call is watched, not the work a test launches on the device. */
static mend_result call_watched(story_run *run, const operation *op)
{
    mend_test_watch_host_memory(true);
    mend_result result = story_call(run, op);
    mend_test_watch_host_memory(false);
    if (result == MEND_OK) {
        story_use(run, op);
    }
    return result;
}

static void perform_checked(story_run *run, const operation *op)
{
    mend_stats before = mend_world_stats(&run->world);
    mend_result result = call_watched(run, op);
    mend_world_check(&run->world);
    if (result == MEND_OK) {
        return;
    }
    errors_seen++;
    EXPECT_RESULT(MEND_ERROR_OUT_OF_HOST_MEMORY, result);
    story_expect_explained(result);
    mend_stats after = mend_world_stats(&run->world);
    story_expect_unchanged(&before, &after);
    if (op->action != COMMIT || after.chunks_released == before.chunks_released) {
        EXPECT_U64_EQ(before.reserved_bytes, after.reserved_bytes);
    } else { /* chunks of the wrong size may be gone */
        EXPECT_TRUE(after.reserved_bytes < before.reserved_bytes);
    }
    EXPECT_U64_EQ(before.address_bytes, after.address_bytes);
    mend_test_heal_host_memory();
    EXPECT_RESULT(MEND_OK, call_watched(run, op));
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

/* Runs a story in which one allocation, or all from there on, fail; false when it makes fewer. */
static bool run_with_fault(const story *given, uint64_t position, uint64_t count)
{
    static story_run run;
    mend_unwatched_driver driver;
    if (!open_world(&run, &driver) || !mend_world_open_pool(&run.world, &driver.table)) {
        return false;
    }
    story_begin(&run);
    mend_test_fail_host_memory_after(position, count);
    for (size_t i = 0; i < given->count && !mend_test_has_failed(); i++) {
        perform_checked(&run, &given->operations[i]);
    }
    mend_test_heal_host_memory();
    story_end(&run);
    if (mend_test_has_failed()) {
        mend_test_fail(__FILE__, __LINE__, "%s, allocation %llu, %s", given->name,
                       (unsigned long long)position, count == 1 ? "once" : "for ever");
    }
    return mend_test_failed_host_allocations() > 0;
}

static void sweep(const story *given, uint64_t count, uint64_t least_positions)
{
    uint64_t position = 0;
    errors_seen = 0;
    while (!mend_test_has_failed() && run_with_fault(given, position, count)) {
        position++;
    }
    EXPECT_TRUE(position >= least_positions);
    EXPECT_TRUE(errors_seen >= least_positions);
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

MEND_TEST(host_positions, room_once)
{
    sweep(&story_of_room, 1, 5);
}

MEND_TEST(host_positions, room_for_ever)
{
    sweep(&story_of_room, UINT64_MAX, 5);
}

MEND_TEST(host_positions, streams_once)
{
    sweep(&story_of_streams, 1, 5);
}

MEND_TEST(host_positions, streams_for_ever)
{
    sweep(&story_of_streams, UINT64_MAX, 5);
}

MEND_TEST(host_positions, ranges_once)
{
    sweep(&story_of_ranges, 1, 5);
}

MEND_TEST(host_positions, ranges_for_ever)
{
    sweep(&story_of_ranges, UINT64_MAX, 5);
}

MEND_TEST(host_positions, crowd_once)
{
    story crowd = story_of_crowd();
    sweep(&crowd, 1, 20);
}

MEND_TEST(host_positions, creation)
{
    for (uint64_t position = 0; !mend_test_has_failed(); position++) {
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
        bool reached = mend_test_failed_host_allocations() > 0;
        if (result != MEND_OK) {
            EXPECT_RESULT(MEND_ERROR_OUT_OF_HOST_MEMORY, result);
            EXPECT_TRUE(pool == NULL);
            story_expect_explained(result);
            EXPECT_RESULT(MEND_OK, mend_world_create_pool(&run.world, &pool));
        }
        run.world.pool = pool;
        mend_world_close(&run.world);
        if (!reached) {
            EXPECT_TRUE(position > 0);
            return;
        }
    }
}
