/* Faults: calls that fail because a test said so. */
#include "tests/unit/sim/sim_fixture.h"

/* These calls fail. The fields of the fault say which, and how. */
#define FAIL(...)                                                                                  \
    EXPECT_RESULT(MEND_OK,                                                                         \
                  mend_sim_fail(f->sim, &(const mend_sim_fault){                                   \
                                            .struct_size = sizeof(mend_sim_fault), __VA_ARGS__}))

static mend_status create(sim_fixture *f, uint64_t size_bytes, mend_chunk_handle *handle)
{
    const mend_chunk_properties properties = {0};
    return f->driver->create(f->driver, size_bytes, &properties, handle);
}

SIM_TEST(sim_faults, position_count_and_status_are_chosen)
{
    mend_chunk_handle handle = 0;
    FAIL(.call = "create", .status = MEND_DRIVER_NOT_READY, .after_calls = 2, .count = 2);
    EXPECT_PASS(create(f, f->page, &handle));
    (void)sim_fixture_ledger(f);
    EXPECT_PASS(create(f, f->page, &handle));
    EXPECT_STATUS(MEND_DRIVER_NOT_READY, create(f, f->page, &handle));
    EXPECT_STATUS(MEND_DRIVER_NOT_READY, create(f, f->page, &handle));
    EXPECT_PASS(create(f, f->page, &handle));
}

SIM_TEST(sim_faults, only_large_calls)
{
    mend_chunk_handle handle = 0;
    FAIL(.count = UINT64_MAX, .above_bytes = 2 * f->page);
    EXPECT_PASS(create(f, 2 * f->page, &handle));
    EXPECT_STATUS(MEND_DRIVER_OUT_OF_MEMORY, create(f, 3 * f->page, &handle));
    EXPECT_STATUS(MEND_DRIVER_OUT_OF_MEMORY, create(f, 3 * f->page, &handle));
    mend_sim_clear_faults(f->sim);
    EXPECT_PASS(create(f, 3 * f->page, &handle));
}

SIM_TEST(sim_faults, until_memory_comes_back)
{
    uint64_t address = sim_fixture_map(f, f->page, f->page);
    mend_chunk_handle handle = 0;
    FAIL(.call = "create", .until_release = 1);
    EXPECT_STATUS(MEND_DRIVER_OUT_OF_MEMORY, create(f, f->page, &handle));
    EXPECT_STATUS(MEND_DRIVER_OUT_OF_MEMORY, create(f, f->page, &handle));
    /* The mapping was all that held the chunk. */
    PASS(unmap, address, f->page);
    EXPECT_PASS(create(f, f->page, &handle));
}

SIM_TEST(sim_faults, a_sticky_one_breaks_the_context)
{
    uint64_t address = sim_fixture_map(f, f->page, f->page);
    mend_event event = NULL;
    FAIL(.call = "event_create", .status = MEND_DRIVER_LAUNCH_FAILED, .sticky = 1);
    ANSWER(LAUNCH_FAILED, event_create, &event);
    ANSWER(LAUNCH_FAILED, event_create, &event);
    ANSWER(LAUNCH_FAILED, unmap, address, f->page);
    mend_sim_clear_faults(f->sim);
    ANSWER(LAUNCH_FAILED, context_synchronize);
    PASS(context_pop);
    PASS(device_close, 0);
    EXPECT_U64_EQ(1, sim_fixture_ledger(f).mappings);
}

SIM_TEST(sim_faults, a_stopped_driver_does_nothing_and_complains_of_nothing)
{
    mend_event event = NULL;
    uint64_t address = sim_fixture_map(f, f->page, f->page);
    int count = 0;
    PASS(event_create, &event);
    sim_fixture_work(f, f->stream, MEND_SIM_WORK_TOUCH, address, f->page, 0, 1000);
    mend_sim_stop(f->sim);
    const mend_status gone = MEND_DRIVER_DEINITIALIZED;
    EXPECT_STATUS(gone, f->driver->device_count(f->driver, &count));
    EXPECT_STATUS(gone, f->driver->unmap(f->driver, address, f->page));
    EXPECT_STATUS(gone, f->driver->address_free(f->driver, 12345, 1));
    EXPECT_STATUS(gone, f->driver->event_destroy(f->driver, event));
    EXPECT_STATUS(gone, f->driver->stream_destroy(f->driver, NULL));
    EXPECT_STATUS(gone, f->driver->context_pop(f->driver));
    EXPECT_STATUS(gone, f->driver->device_close(f->driver, 0));
    const mend_sim_work work = {.struct_size = sizeof(mend_sim_work), .address = address};
    EXPECT_RESULT(MEND_ERROR_DEVICE_LOST, mend_sim_launch(f->sim, f->stream, &work));
    mend_sim_ledger ledger = sim_fixture_ledger(f);
    EXPECT_U64_EQ(1, ledger.mappings);
    EXPECT_U64_EQ(1, ledger.events);
    EXPECT_U64_EQ(1, ledger.contexts_open);
    EXPECT_U64_EQ(0, ledger.pending_work);
    EXPECT_U64_EQ(0, ledger.violations);
}
