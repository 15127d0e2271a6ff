/* What only the simulated device can tell: work that touches what it may not, stale handles. */
#include <string.h>

#include "tests/unit/sim/sim_fixture.h"

enum { LATER_NS = 1000 };

/* After work was found to touch what it may not, the context is lost. */
static void expect_lost(sim_fixture *f)
{
    uint64_t address = 0;
    EXPECT_STATUS(MEND_DRIVER_ILLEGAL_ADDRESS, f->driver->stream_query(f->driver, f->stream));
    EXPECT_STATUS(MEND_DRIVER_ILLEGAL_ADDRESS,
                  f->driver->reserve(f->driver, f->page, 0, 0, &address));
    EXPECT_OK(f->driver->context_pop(f->driver));
    EXPECT_OK(f->driver->device_close(f->driver, 0));
    EXPECT_U64_EQ(0, sim_fixture_ledger(f).pending_work);
}

SIM_TEST(sim_judge, unmapping_under_queued_work_is_found_when_it_runs)
{
    uint64_t address = sim_fixture_map(f, 2 * f->page, 2 * f->page);
    sim_fixture_work(f, f->stream, MEND_SIM_WORK_TOUCH, address + f->page, 512, 0, LATER_NS);
    EXPECT_OK(f->driver->unmap(f->driver, address, 2 * f->page));
    EXPECT_U64_EQ(0, f->heard);
    mend_sim_advance(f->sim, LATER_NS - 1);
    EXPECT_U64_EQ(0, f->heard);
    mend_sim_advance(f->sim, 1);
    EXPECT_HEARD(f, 1, "is not mapped");
    EXPECT_STR_EQ(f->last, mend_sim_first_violation(f->sim));
    expect_lost(f);
}

SIM_TEST(sim_judge, unmapping_after_the_work_is_legal)
{
    uint64_t address = sim_fixture_map(f, 2 * f->page, 2 * f->page);
    sim_fixture_work(f, f->stream, MEND_SIM_WORK_TOUCH, address, 2 * f->page, 0, LATER_NS);
    EXPECT_OK(f->driver->stream_synchronize(f->driver, f->stream));
    EXPECT_OK(f->driver->unmap(f->driver, address, 2 * f->page));
    mend_sim_advance(f->sim, LATER_NS);
    EXPECT_U64_EQ(0, f->heard);
}

SIM_TEST(sim_judge, another_chunk_at_the_address_does_not_hide_the_unmap)
{
    uint64_t address = sim_fixture_map(f, f->page, f->page);
    mend_chunk_handle other = sim_fixture_chunk(f, f->page);
    mend_sim_advance(f->sim, LATER_NS);
    sim_fixture_work(f, f->stream, MEND_SIM_WORK_TOUCH, address, 512, 0, 2 * LATER_NS);
    EXPECT_OK(f->driver->unmap(f->driver, address, f->page));
    EXPECT_OK(f->driver->map(f->driver, address, f->page, 0, other));
    sim_fixture_allow(f, address, f->page);
    mend_sim_advance(f->sim, LATER_NS);
    EXPECT_HEARD(f, 1, "only after the work had started");
}

SIM_TEST(sim_judge, work_that_has_not_started_may_find_another_chunk)
{
    uint64_t address = sim_fixture_map(f, f->page, f->page);
    uint64_t elsewhere = sim_fixture_map(f, f->page, f->page);
    sim_fixture_work(f, f->stream, MEND_SIM_WORK_TOUCH, elsewhere, 512, 0, LATER_NS);
    sim_fixture_work(f, f->stream, MEND_SIM_WORK_TOUCH, address, 512, 0, 2 * LATER_NS);
    EXPECT_OK(f->driver->unmap(f->driver, address, f->page));
    mend_chunk_handle other = sim_fixture_chunk(f, f->page);
    EXPECT_OK(f->driver->map(f->driver, address, f->page, 0, other));
    sim_fixture_allow(f, address, f->page);
    mend_sim_advance(f->sim, 2 * LATER_NS);
    EXPECT_U64_EQ(0, f->heard);
}

SIM_TEST(sim_judge, nothing_runs_after_the_context_is_lost)
{
    uint64_t address = sim_fixture_map(f, f->page, f->page);
    sim_fixture_work(f, f->stream, MEND_SIM_WORK_TOUCH, address, 512, 0, LATER_NS);
    sim_fixture_work(f, f->stream, MEND_SIM_WORK_TOUCH, address, 512, 0, 2 * LATER_NS);
    EXPECT_OK(f->driver->unmap(f->driver, address, f->page));
    EXPECT_STATUS(MEND_DRIVER_ILLEGAL_ADDRESS, f->driver->stream_synchronize(f->driver, f->stream));
    EXPECT_U64_EQ(1, f->heard);
    expect_lost(f);
}

SIM_TEST(sim_judge, breaches_are_explained_with_what_is_there)
{
    uint64_t address = sim_fixture_map(f, 2 * f->page, 4 * f->page);
    EXPECT_STATUS(MEND_DRIVER_INVALID_VALUE, f->driver->unmap(f->driver, address, f->page));
    EXPECT_HEARD(f, 1, "is only part of the mapping [0x");
    EXPECT_STATUS(MEND_DRIVER_INVALID_VALUE,
                  f->driver->unmap(f->driver, address + f->page, f->page));
    EXPECT_HEARD(f, 2, "(131072 bytes)");
    EXPECT_STATUS(MEND_DRIVER_INVALID_VALUE, f->driver->unmap(f->driver, address, 4 * f->page));
    EXPECT_HEARD(f, 3, "has a hole: nothing is mapped at 0x");
    EXPECT_STATUS(MEND_DRIVER_INVALID_VALUE, f->driver->unmap(f->driver, address, 0));
    EXPECT_HEARD(f, 4, "the range is empty");
    mend_chunk_handle handle = sim_fixture_chunk(f, 2 * f->page);
    EXPECT_STATUS(MEND_DRIVER_INVALID_VALUE,
                  f->driver->map(f->driver, address, 2 * f->page, 0, handle));
    EXPECT_HEARD(f, 5, "lies over the mapping [0x");
    EXPECT_STATUS(MEND_DRIVER_INVALID_VALUE,
                  f->driver->map(f->driver, address + 2 * f->page, f->page, 0, handle));
    EXPECT_HEARD(f, 6, "a chunk is mapped whole");
    EXPECT_STATUS(MEND_DRIVER_INVALID_VALUE,
                  f->driver->map(f->driver, address + 3 * f->page, 2 * f->page, 0, handle));
    EXPECT_HEARD(f, 7, "does not lie in a reservation");
}

SIM_TEST(sim_judge, work_past_the_end_of_a_mapping_is_found)
{
    uint64_t address = sim_fixture_map(f, f->page, 2 * f->page);
    const mend_sim_work work = {MEND_SIM_WORK_TOUCH, address + f->page - 512, 1024, 0, 0};
    EXPECT_RESULT(MEND_ERROR_DEVICE_LOST, mend_sim_launch(f->sim, f->stream, &work));
    EXPECT_HEARD(f, 1, "is not mapped");
    expect_lost(f);
}

SIM_TEST(sim_judge, mapped_is_not_accessible)
{
    uint64_t address = 0;
    EXPECT_OK(f->driver->reserve(f->driver, f->page, 0, 0, &address));
    mend_chunk_handle handle = sim_fixture_chunk(f, f->page);
    EXPECT_OK(f->driver->map(f->driver, address, f->page, 0, handle));
    EXPECT_STATUS(MEND_DRIVER_ILLEGAL_ADDRESS,
                  f->driver->fill(f->driver, address, 0, 512, f->stream));
    EXPECT_HEARD(f, 1, "no access");
}

SIM_TEST(sim_judge, access_does_not_survive_a_new_mapping)
{
    uint64_t address = sim_fixture_map(f, f->page, f->page);
    EXPECT_OK(f->driver->unmap(f->driver, address, f->page));
    mend_chunk_handle handle = sim_fixture_chunk(f, f->page);
    EXPECT_OK(f->driver->map(f->driver, address, f->page, 0, handle));
    EXPECT_U64_EQ(0, sim_fixture_ledger(f).accessible_bytes);
    EXPECT_STATUS(MEND_DRIVER_ILLEGAL_ADDRESS,
                  f->driver->fill(f->driver, address, 0, 512, f->stream));
    EXPECT_HEARD(f, 1, "no access");
}

SIM_TEST(sim_judge, a_copy_is_judged_at_both_ends)
{
    uint64_t address = sim_fixture_map(f, f->page, 3 * f->page);
    EXPECT_OK(f->driver->copy(f->driver, address, address + 512, 512, f->stream));
    EXPECT_U64_EQ(0, f->heard);
    EXPECT_STATUS(MEND_DRIVER_ILLEGAL_ADDRESS,
                  f->driver->copy(f->driver, address, address + f->page, 512, f->stream));
    EXPECT_HEARD(f, 1, "is not mapped");
}

SIM_TEST(sim_judge, a_strided_kernel_may_straddle_holes)
{
    uint64_t address = sim_fixture_map(f, f->page, 3 * f->page);
    mend_chunk_handle handle = sim_fixture_chunk(f, f->page);
    EXPECT_OK(f->driver->map(f->driver, address + 2 * f->page, f->page, 0, handle));
    sim_fixture_allow(f, address + 2 * f->page, f->page);
    mend_kernel kernel = {.kind = MEND_KERNEL_WRITE,
                          .address = address,
                          .granule_bytes = 512,
                          .stride_bytes = 2 * f->page,
                          .granule_count = 2};
    EXPECT_OK(f->driver->launch(f->driver, f->stream, &kernel));
    EXPECT_U64_EQ(0, f->heard);
    kernel.stride_bytes = f->page;
    EXPECT_STATUS(MEND_DRIVER_ILLEGAL_ADDRESS, f->driver->launch(f->driver, f->stream, &kernel));
    EXPECT_HEARD(f, 1, "is not mapped");
}

SIM_TEST(sim_judge, a_kernel_that_is_none_is_refused)
{
    mend_kernel kernel = {.kind = (mend_kernel_kind)9};
    EXPECT_STATUS(MEND_DRIVER_INVALID_VALUE, f->driver->launch(f->driver, f->stream, &kernel));
    kernel = (mend_kernel){.kind = MEND_KERNEL_WRITE, .granule_bytes = 6, .granule_count = 1};
    EXPECT_STATUS(MEND_DRIVER_INVALID_VALUE, f->driver->launch(f->driver, f->stream, &kernel));
    EXPECT_HEARD(f, 2, "whole words");
}

SIM_TEST(sim_judge, a_chunk_is_released_once)
{
    mend_chunk_handle handle = sim_fixture_chunk(f, f->page);
    uint64_t address = 0;
    EXPECT_OK(f->driver->reserve(f->driver, f->page, 0, 0, &address));
    EXPECT_OK(f->driver->release(f->driver, handle));
    EXPECT_STATUS(MEND_DRIVER_INVALID_VALUE, f->driver->release(f->driver, handle));
    EXPECT_HEARD(f, 1, "released already");
    EXPECT_STATUS(MEND_DRIVER_INVALID_VALUE,
                  f->driver->map(f->driver, address, f->page, 0, handle));
    EXPECT_HEARD(f, 2, "is not a handle");
}

SIM_TEST(sim_judge, destroyed_streams_and_events_are_noticed)
{
    mend_event event = NULL;
    EXPECT_OK(f->driver->event_create(f->driver, &event));
    EXPECT_OK(f->driver->event_destroy(f->driver, event));
    EXPECT_STATUS(MEND_DRIVER_INVALID_HANDLE, f->driver->event_query(f->driver, event));
    EXPECT_STATUS(MEND_DRIVER_INVALID_HANDLE, f->driver->event_destroy(f->driver, event));
    EXPECT_STATUS(MEND_DRIVER_INVALID_HANDLE, f->driver->event_record(f->driver, event, f->stream));
    EXPECT_STATUS(MEND_DRIVER_INVALID_HANDLE, f->driver->stream_wait(f->driver, f->stream, event));
    EXPECT_HEARD(f, 4, "is not an event, or was destroyed");
    EXPECT_RESULT(MEND_OK, mend_sim_stream_destroy(f->sim, f->stream));
    EXPECT_STATUS(MEND_DRIVER_UNKNOWN, f->driver->stream_query(f->driver, f->stream));
    EXPECT_STATUS(MEND_DRIVER_UNKNOWN, f->driver->stream_synchronize(f->driver, f->stream));
    EXPECT_HEARD(f, 6, "is not a stream, or was destroyed");
    const mend_sim_work work = {.kind = MEND_SIM_WORK_TOUCH};
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_sim_launch(f->sim, f->stream, &work));
    EXPECT_U64_EQ(7, f->heard);
}

SIM_TEST(sim_judge, handles_come_back_and_ids_do_not)
{
    mend_stream_info before = {0};
    mend_stream_info after = {0};
    mend_stream again = NULL;
    EXPECT_OK(f->driver->stream_get_info(f->driver, f->stream, &before));
    EXPECT_OK(f->driver->stream_destroy(f->driver, f->stream));
    EXPECT_OK(f->driver->stream_create(f->driver, &again));
    EXPECT_OK(f->driver->stream_get_info(f->driver, again, &after));
    EXPECT_PTR_EQ(f->stream, again);
    EXPECT_TRUE(before.id != after.id);
}

SIM_TEST(sim_judge, contexts_are_popped_and_closed_as_often_as_opened)
{
    EXPECT_OK(f->driver->context_pop(f->driver));
    EXPECT_STATUS(MEND_DRIVER_INVALID_CONTEXT, f->driver->context_pop(f->driver));
    EXPECT_HEARD(f, 1, "no context is current");
    EXPECT_OK(f->driver->device_close(f->driver, 0));
    EXPECT_STATUS(MEND_DRIVER_INVALID_CONTEXT, f->driver->device_close(f->driver, 0));
    EXPECT_HEARD(f, 2, "is not open");
    EXPECT_STATUS(MEND_DRIVER_INVALID_CONTEXT, f->driver->context_push(f->driver, f->info.context));
    EXPECT_HEARD(f, 3, "not the context of an open device");
}

MEND_TEST(sim_judge, access_is_given_to_each_device)
{
    mend_sim_config config = MEND_SIM_CONFIG_INIT;
    config.device_count = 2;
    sim_fixture f;
    if (!sim_fixture_open(&f, &config)) {
        return;
    }
    uint64_t address = sim_fixture_map(&f, f.page, f.page);
    mend_device_info second = {0};
    mend_stream stream = NULL;
    EXPECT_OK(f.driver->device_open(f.driver, 1, &second));
    EXPECT_OK(f.driver->context_push(f.driver, second.context));
    EXPECT_OK(f.driver->stream_create(f.driver, &stream));
    const int both[] = {0, 1};
    EXPECT_OK(f.driver->set_access(f.driver, address, f.page, both, 2, MEND_ACCESS_READ_WRITE));
    EXPECT_OK(f.driver->fill(f.driver, address, 1, 512, stream));

    uint64_t other = sim_fixture_map(&f, f.page, f.page);
    EXPECT_STATUS(MEND_DRIVER_ILLEGAL_ADDRESS, f.driver->fill(f.driver, other, 1, 512, stream));
    EXPECT_HEARD(&f, 1, "no access");
    sim_fixture_close(&f);
}

/* Reading is allowed, every way of writing loses the context, and access may become more again. */
MEND_TEST(sim_judge, memory_that_may_only_be_read)
{
    const int device = 0;
    for (int way = 0; way < 4; way++) {
        sim_fixture f;
        if (!sim_fixture_open(&f, NULL)) {
            return;
        }
        const uint64_t address = sim_fixture_map(&f, f.page, f.page);
        const uint64_t other = sim_fixture_map(&f, f.page, f.page);
        const mend_kernel rewrite = {.kind = MEND_KERNEL_STREAM,
                                     .address = address,
                                     .granule_bytes = MEND_KERNEL_TILE_BYTES,
                                     .stride_bytes = MEND_KERNEL_TILE_BYTES,
                                     .granule_count = 1};
        const mend_kernel write = {.kind = MEND_KERNEL_WRITE,
                                   .address = address,
                                   .granule_bytes = 512,
                                   .stride_bytes = 512,
                                   .granule_count = 1};
        EXPECT_OK(f.driver->fill(f.driver, address, 0, f.page, NULL));
        EXPECT_OK(f.driver->set_access(f.driver, address, f.page, &device, 1, MEND_ACCESS_READ));
        EXPECT_OK(f.driver->copy(f.driver, other, address, 512, NULL));
        mend_status status = way == 0   ? f.driver->fill(f.driver, address, 0, 512, NULL)
                             : way == 1 ? f.driver->copy(f.driver, address, other, 512, NULL)
                             : way == 2 ? f.driver->launch(f.driver, NULL, &rewrite)
                                        : f.driver->launch(f.driver, NULL, &write);
        if (status == MEND_DRIVER_OK) {
            status = f.driver->context_synchronize(f.driver);
        }
        EXPECT_STATUS(MEND_DRIVER_ILLEGAL_ADDRESS, status);
        EXPECT_HEARD(&f, 1, "the device may only read");
        sim_fixture_close(&f);
    }
    sim_fixture f;
    if (!sim_fixture_open(&f, NULL)) {
        return;
    }
    const uint64_t address = sim_fixture_map(&f, f.page, f.page);
    EXPECT_OK(f.driver->set_access(f.driver, address, f.page, &device, 1, MEND_ACCESS_READ));
    EXPECT_OK(f.driver->set_access(f.driver, address, f.page, &device, 1, MEND_ACCESS_READ_WRITE));
    EXPECT_OK(f.driver->fill(f.driver, address, 0, 512, NULL));
    EXPECT_OK(f.driver->context_synchronize(f.driver));
    sim_fixture_close(&f);
}

MEND_TEST(sim_judge, access_is_charged_for_each_device)
{
    mend_sim_config config = MEND_SIM_CONFIG_INIT;
    config.device_count = 2;
    sim_fixture f;
    if (!sim_fixture_open(&f, &config)) {
        return;
    }
    uint64_t address = sim_fixture_map(&f, f.page, f.page);
    uint64_t before = sim_fixture_ledger(&f).driver_time_ns;
    const int both[] = {0, 1};
    EXPECT_OK(f.driver->set_access(f.driver, address, f.page, both, 2, MEND_ACCESS_READ_WRITE));
    EXPECT_U64_EQ(12000 + 2 * 3000, sim_fixture_ledger(&f).driver_time_ns - before);
    sim_fixture_close(&f);
}

MEND_TEST(sim_judge, access_is_given_where_the_memory_can_be_reached)
{
    mend_sim_config config = MEND_SIM_CONFIG_INIT;
    config.device_count = 4;
    config.peer_group = 2;
    sim_fixture f;
    if (!sim_fixture_open(&f, &config)) {
        return;
    }
    mend_device_info third = {0};
    EXPECT_U64_EQ(2, f.info.peers);
    EXPECT_OK(f.driver->device_open(f.driver, 2, &third));
    EXPECT_U64_EQ(8, third.peers);
    uint64_t address = sim_fixture_map(&f, f.page, f.page);
    const int near_and_far[] = {1, 2};
    EXPECT_OK(
        f.driver->set_access(f.driver, address, f.page, near_and_far, 1, MEND_ACCESS_READ_WRITE));
    EXPECT_STATUS(
        MEND_DRIVER_INVALID_DEVICE,
        f.driver->set_access(f.driver, address, f.page, near_and_far, 2, MEND_ACCESS_READ_WRITE));
    EXPECT_HEARD(&f, 1, "device 2 cannot reach memory of device 0");
    sim_fixture_close(&f);
}

MEND_TEST(sim_judge, events_and_streams_of_two_devices_do_not_mix)
{
    mend_sim_config config = MEND_SIM_CONFIG_INIT;
    config.device_count = 2;
    sim_fixture f;
    if (!sim_fixture_open(&f, &config)) {
        return;
    }
    mend_device_info second = {0};
    mend_event event = NULL;
    EXPECT_OK(f.driver->device_open(f.driver, 1, &second));
    EXPECT_OK(f.driver->context_push(f.driver, second.context));
    EXPECT_OK(f.driver->event_create(f.driver, &event));
    EXPECT_STATUS(MEND_DRIVER_INVALID_HANDLE, f.driver->event_record(f.driver, event, f.stream));
    EXPECT_HEARD(&f, 1, "an event of context 0xc001 on a stream of context 0xc000");
    sim_fixture_close(&f);
}

/* A green context shares all but its streams and events with the primary one of its device. */
SIM_TEST(sim_judge, events_of_a_green_context_are_for_its_streams)
{
    mend_stream green = NULL;
    mend_stream_info info = {0};
    mend_event event = NULL;
    mend_event own = NULL;
    int device = -1;
    uint64_t address = sim_fixture_map(f, f->page, f->page);
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_sim_stream_create_green(f->sim, 0, &green));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_sim_stream_create_green(f->sim, 8, &green));
    EXPECT_RESULT(MEND_OK, mend_sim_stream_create_green(f->sim, 7, &green));
    EXPECT_OK(f->driver->stream_get_info(f->driver, green, &info));
    EXPECT_TRUE(info.context != f->info.context);
    EXPECT_PTR_EQ(f->info.context, info.home);
    EXPECT_OK(f->driver->event_create(f->driver, &event));
    EXPECT_STATUS(MEND_DRIVER_INVALID_HANDLE, f->driver->event_record(f->driver, event, green));
    EXPECT_HEARD(f, 1, "an event of context 0xc000 on a stream of context 0xc070");
    EXPECT_OK(f->driver->context_push(f->driver, info.context));
    EXPECT_OK(f->driver->context_device(f->driver, &device));
    EXPECT_INT_EQ(0, device);
    EXPECT_OK(f->driver->event_create(f->driver, &own));
    EXPECT_OK(f->driver->context_pop(f->driver));
    sim_fixture_work(f, green, MEND_SIM_WORK_TOUCH, address, 512, 0, 1000);
    EXPECT_OK(f->driver->event_record(f->driver, own, green));
    EXPECT_STATUS(MEND_DRIVER_NOT_READY, f->driver->event_query(f->driver, own));
    EXPECT_OK(f->driver->stream_wait(f->driver, f->stream, own));
    EXPECT_OK(f->driver->context_synchronize(f->driver));
    EXPECT_OK(f->driver->stream_query(f->driver, green));
    EXPECT_U64_EQ(1, f->heard);
}

SIM_TEST(sim_judge, one_call_covers_one_reservation)
{
    uint64_t first = sim_fixture_map(f, f->page, f->page);
    uint64_t second = sim_fixture_map(f, f->page, f->page);
    const int device = 0;
    ASSERT_U64_EQ(first + f->page, second);
    EXPECT_STATUS(
        MEND_DRIVER_INVALID_VALUE,
        f->driver->set_access(f->driver, first, 2 * f->page, &device, 1, MEND_ACCESS_READ_WRITE));
    EXPECT_HEARD(f, 1, "set_access: ");
    EXPECT_STATUS(MEND_DRIVER_INVALID_VALUE, f->driver->unmap(f->driver, first, 2 * f->page));
    EXPECT_HEARD(f, 2, "lies in two reservations");
    EXPECT_OK(f->driver->unmap(f->driver, first, f->page));
    EXPECT_OK(f->driver->unmap(f->driver, second, f->page));
}
