/* Findings only of the simulated device: work on forbidden memory, stale handles. */

#include "tests/unit/sim/sim_fixture.h"

enum { LATER_NS = 1000 };

SIM_TEST(sim_checker, unmapping_under_queued_work_is_found_when_it_runs)
{
    uint64_t address = sim_fixture_map(f, 2 * f->page, 2 * f->page);
    uint64_t done = sim_fixture_map(f, f->page, f->page);
    sim_fixture_work(f, f->stream, MEND_SIM_WORK_TOUCH, done, f->page, 0, 0);
    PASS(unmap, done, f->page); /* after the work it is legal */
    sim_fixture_work(f, f->stream, MEND_SIM_WORK_TOUCH, address + f->page, 512, 0, LATER_NS);
    sim_fixture_work(f, f->stream, MEND_SIM_WORK_TOUCH, address, 512, 0, LATER_NS);
    PASS(unmap, address, 2 * f->page);
    EXPECT_U64_EQ(0, f->heard);
    mend_sim_advance(f->sim, LATER_NS - 1);
    EXPECT_U64_EQ(0, f->heard);
    mend_sim_advance(f->sim, 1);
    EXPECT_HEARD(f, 1, "is not mapped"); /* nothing runs after that */
    EXPECT_STR_EQ(f->last, mend_sim_first_violation(f->sim));
    ANSWER(ILLEGAL_ADDRESS, stream_query, f->stream); /* the context is lost */
    ANSWER(ILLEGAL_ADDRESS, reserve, f->page, 0, 0, &address);
    PASS(context_pop);
    PASS(device_close, 0);
    EXPECT_U64_EQ(0, sim_fixture_ledger(f).pending_work);
}

SIM_TEST(sim_checker, another_chunk_at_the_address_does_not_hide_the_unmap)
{
    uint64_t address = sim_fixture_map(f, f->page, f->page);
    mend_chunk_handle other = sim_fixture_chunk(f, f->page);
    mend_sim_advance(f->sim, LATER_NS);
    sim_fixture_work(f, f->stream, MEND_SIM_WORK_TOUCH, address, 512, 0, 2 * LATER_NS);
    PASS(unmap, address, f->page);
    sim_fixture_map_at(f, address, other);
    mend_sim_advance(f->sim, LATER_NS);
    EXPECT_HEARD(f, 1, "only after the work had started");
}

SIM_TEST(sim_checker, work_that_has_not_started_may_find_another_chunk)
{
    uint64_t address = sim_fixture_map(f, f->page, f->page);
    uint64_t elsewhere = sim_fixture_map(f, f->page, f->page);
    sim_fixture_work(f, f->stream, MEND_SIM_WORK_TOUCH, elsewhere, 512, 0, LATER_NS);
    sim_fixture_work(f, f->stream, MEND_SIM_WORK_TOUCH, address, 512, 0, 2 * LATER_NS);
    PASS(unmap, address, f->page);
    sim_fixture_map_at(f, address, sim_fixture_chunk(f, f->page));
    mend_sim_advance(f->sim, 2 * LATER_NS);
    EXPECT_U64_EQ(0, f->heard);
}

SIM_TEST(sim_checker, access_does_not_survive_a_new_mapping)
{
    uint64_t address = sim_fixture_map(f, f->page, f->page);
    PASS(unmap, address, f->page);
    mend_chunk_handle handle = sim_fixture_chunk(f, f->page);
    PASS(map, address, f->page, 0, handle);
    EXPECT_U64_EQ(0, sim_fixture_ledger(f).accessible_bytes);
    BREACH(ILLEGAL_ADDRESS, "no access", fill, address, 0, 512, f->stream);
}

SIM_TEST_AS(sim_checker, access_is_given_to_each_device, .device_count = 2)
{
    uint64_t address = sim_fixture_map(f, f->page, f->page);
    mend_device_info second = {0};
    mend_stream stream = NULL;
    PASS(device_open, 1, &second);
    PASS(context_push, second.context);
    PASS(stream_create, &stream);
    const int both[] = {0, 1};
    uint64_t before = sim_fixture_ledger(f).driver_time_ns;
    PASS(set_access, address, f->page, both, 2, MEND_ACCESS_READ_WRITE);
    EXPECT_U64_EQ(12000 + 2 * 3000, sim_fixture_ledger(f).driver_time_ns - before); /* for each */
    PASS(fill, address, 1, 512, stream);
    uint64_t other = sim_fixture_map(f, f->page, f->page);
    BREACH(ILLEGAL_ADDRESS, "no access", fill, other, 1, 512, stream);
}

/* Reading is allowed, every way of writing loses the context, and access may become more again. */
SIM_EACH(sim_checker, memory_that_may_only_be_read, way, 5, NULL)
{
    const int device = 0;
    const uint64_t address = sim_fixture_map(f, f->page, f->page);
    const uint64_t other = sim_fixture_map(f, f->page, f->page);
    mend_kernel kernel = sim_kernel(MEND_KERNEL_WRITE, address, 512, 512, 1);
    if (way == 2) {
        kernel.kind = MEND_KERNEL_STREAM;
        kernel.granule_bytes = kernel.stride_bytes = MEND_KERNEL_TILE_BYTES;
    }
    PASS(fill, address, 0, f->page, NULL);
    PASS(set_access, address, f->page, &device, 1, MEND_ACCESS_READ);
    PASS(copy, other, address, 512, NULL);
    if (way == 4) {
        sim_fixture_allow(f, address, f->page);
    }
    mend_status status = way == 1  ? f->driver->copy(f->driver, address, other, 512, NULL)
                         : way < 2 ? f->driver->fill(f->driver, address, 0, 512, NULL)
                                   : f->driver->launch(f->driver, NULL, &kernel);
    if (status == MEND_DRIVER_OK) {
        status = f->driver->context_synchronize(f->driver);
    }
    EXPECT_STATUS(way == 4 ? MEND_DRIVER_OK : MEND_DRIVER_ILLEGAL_ADDRESS, status);
    EXPECT_HEARD(f, way < 4, way < 4 ? "the device may only read" : "");
}

/* The same access or another, it is no matter. */
SIM_EACH(sim_checker, access_that_is_given_again_is_a_hole_for_work_that_runs, write, 2, NULL)
{
    const int device = 0;
    const uint64_t address = sim_fixture_map(f, 2 * f->page, 2 * f->page);
    const uint64_t other = sim_fixture_map(f, f->page, f->page);
    sim_fixture_allow(f, address, 2 * f->page); /* before the work */
    sim_fixture_work(f, f->stream, MEND_SIM_WORK_TOUCH, address + f->page, 512, 0, LATER_NS);
    sim_fixture_work(f, f->stream, MEND_SIM_WORK_TOUCH, other, 512, 0, 2 * LATER_NS);
    sim_fixture_allow(f, other, f->page); /* its work begins later */
    mend_sim_advance(f->sim, 2 * LATER_NS);
    PASS(stream_synchronize, f->stream);
    sim_fixture_allow(f, address, 2 * f->page); /* after it */
    EXPECT_U64_EQ(0, f->heard);
    const uint64_t end_ns = mend_sim_now_ns(f->sim) + LATER_NS;
    sim_fixture_work(f, f->stream, MEND_SIM_WORK_TOUCH, address + f->page, 512, 0, end_ns);
    PASS(set_access, address, 2 * f->page, &device, 1,
         write ? MEND_ACCESS_READ_WRITE : MEND_ACCESS_READ);
    EXPECT_U64_EQ(0, f->heard);
    mend_sim_advance(f->sim, LATER_NS);
    EXPECT_HEARD(f, 1, "access was given again while the work ran");
    ANSWER(ILLEGAL_ADDRESS, stream_query, f->stream);
}

/* Each device has page tables of its own. */
SIM_TEST_AS(sim_checker, another_device_gets_access_beside_work, .device_count = 2)
{
    const int second = 1;
    const uint64_t address = sim_fixture_map(f, f->page, f->page);
    sim_fixture_work(f, f->stream, MEND_SIM_WORK_TOUCH, address, 512, 0, LATER_NS);
    PASS(set_access, address, f->page, &second, 1, MEND_ACCESS_READ_WRITE);
    mend_sim_advance(f->sim, LATER_NS);
    PASS(stream_query, f->stream);
    EXPECT_U64_EQ(0, f->heard);
}

SIM_TEST_AS(sim_checker, access_is_given_where_the_memory_can_be_reached, .device_count = 4,
            .peer_group = 2)
{
    mend_device_info third = {0};
    EXPECT_U64_EQ(2, f->info.peers);
    PASS(device_open, 2, &third);
    EXPECT_U64_EQ(8, third.peers);
    uint64_t address = sim_fixture_map(f, f->page, f->page);
    const int near_and_far[] = {1, 2};
    PASS(set_access, address, f->page, near_and_far, 1, MEND_ACCESS_READ_WRITE);
    BREACH(INVALID_DEVICE, "device 2 cannot reach memory of device 0", set_access, address, f->page,
           near_and_far, 2, MEND_ACCESS_READ_WRITE);
}

/* A green context shares all but its streams and events with the primary one of its device. */
SIM_TEST(sim_checker, events_of_a_green_context_are_for_its_streams)
{
    mend_stream green = NULL;
    mend_stream_info info = {0};
    mend_event event = NULL;
    mend_event own = NULL;
    int device = -1;
    uint64_t address = sim_fixture_map(f, f->page, f->page);
    EXPECT_RESULT(MEND_OK, mend_sim_stream_create(
                               f->sim, KIT_OPTIONS(mend_sim_stream_options, .green = 7), &green));
    PASS(stream_get_info, green, &info);
    EXPECT_TRUE(info.context != f->info.context);
    EXPECT_PTR_EQ(f->info.context, info.home);
    PASS(event_create, &event);
    BREACH(INVALID_HANDLE, "an event of context 0xc000 on a stream of context 0xc070", event_record,
           event, green);
    PASS(context_push, info.context);
    PASS(context_device, &device);
    EXPECT_INT_EQ(0, device);
    PASS(event_create, &own);
    PASS(context_pop);
    sim_fixture_work(f, green, MEND_SIM_WORK_TOUCH, address, 512, 0, 1000);
    PASS(event_record, own, green);
    ANSWER(NOT_READY, event_query, own);
    PASS(stream_wait, f->stream, own);
    PASS(context_synchronize);
    PASS(stream_query, green);
    EXPECT_U64_EQ(1, f->heard);
}
