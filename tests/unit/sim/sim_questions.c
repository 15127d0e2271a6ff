/* Queries of a program to the simulated device beside the driver. */
#include "tests/unit/sim/sim_fixture.h"

SIM_TEST(sim_questions, an_address_says_whose_memory_it_is_and_who_may_use_it)
{
    mend_sim_place place = MEND_SIM_PLACE_INIT;
    uint64_t mapped = sim_fixture_map(f, 2 * f->page, 4 * f->page);
    uint64_t plain = 0;
    PASS(plain_alloc, f->page, &plain);
    ASSERT_RESULT(MEND_OK, mend_sim_look_up(f->sim, 0, mapped + 1, 2 * f->page - 1, &place));
    EXPECT_TRUE(place.is_of_device && place.device == 0 && place.is_accessible && !place.is_plain);
    ASSERT_RESULT(MEND_OK, mend_sim_look_up(f->sim, 0, mapped, 2 * f->page + 1, &place));
    EXPECT_TRUE(place.is_of_device && place.device == 0 && !place.is_accessible);
    ASSERT_RESULT(MEND_OK, mend_sim_look_up(f->sim, 0, mapped + 3 * f->page, 1, &place));
    EXPECT_TRUE(place.is_of_device && place.device == -1 && !place.is_accessible);
    ASSERT_RESULT(MEND_OK, mend_sim_look_up(f->sim, 0, plain, f->page, &place));
    EXPECT_TRUE(place.is_plain && place.is_accessible);
    ASSERT_RESULT(MEND_OK, mend_sim_look_up(f->sim, 0, (uintptr_t)&place, 1, &place));
    EXPECT_TRUE(!place.is_of_device && place.device == -1 && !place.is_accessible);
    PASS(plain_free, plain);
    PASS(unmap, mapped, 2 * f->page);
    PASS(address_free, mapped, 4 * f->page);
}

SIM_TEST(sim_questions, an_event_has_the_time_of_the_work_before_it)
{
    mend_event event = NULL;
    uint64_t time_ns = 7;
    PASS(event_create, &event);
    ASSERT_RESULT(MEND_OK, mend_sim_event_time(f->sim, event, &time_ns));
    EXPECT_U64_EQ(0, time_ns);
    uint64_t finish_ns = mend_sim_now_ns(f->sim) + 1000;
    uint64_t mapped = sim_fixture_map(f, f->page, f->page);
    sim_fixture_work(f, f->stream, MEND_SIM_WORK_TOUCH, mapped, f->page, 0, finish_ns);
    PASS(event_record, event, f->stream);
    ASSERT_RESULT(MEND_OK, mend_sim_event_time(f->sim, event, &time_ns));
    EXPECT_U64_EQ(finish_ns, time_ns);
    mend_sim_advance(f->sim, 2000);
    ASSERT_RESULT(MEND_OK, mend_sim_begin_capture(f->sim, f->stream, MEND_SIM_CAPTURE_GLOBAL));
    PASS(event_record, event, f->stream);
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_sim_event_time(f->sim, event, &time_ns));
    EXPECT_U64_EQ(finish_ns, time_ns);
    EXPECT_RESULT(MEND_OK, mend_sim_end_capture(f->sim, f->stream, NULL));
    PASS(event_destroy, event);
    PASS(unmap, mapped, f->page);
    PASS(address_free, mapped, f->page);
}

SIM_TEST(sim_questions, bad_arguments_change_nothing)
{
    mend_sim_place place = {.struct_size = sizeof(mend_sim_place), .device = 5};
    uint64_t time_ns = 7;
#define EXPECT_REFUSED(call) EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, call)
    EXPECT_REFUSED(mend_sim_look_up(NULL, 0, 1, 1, &place));
    EXPECT_REFUSED(mend_sim_look_up(f->sim, 0, 1, 1, NULL));
    EXPECT_REFUSED(mend_sim_look_up(f->sim, 1, 1, 1, &place));
    EXPECT_REFUSED(mend_sim_look_up(f->sim, -1, 1, 1, &place));
    EXPECT_REFUSED(mend_sim_look_up(f->sim, 0, 1, 0, &place));
    EXPECT_REFUSED(mend_sim_look_up(f->sim, 0, UINT64_MAX, 2, &place));
    EXPECT_REFUSED(mend_sim_event_time(NULL, &place, &time_ns));
    EXPECT_REFUSED(mend_sim_event_time(f->sim, &place, &time_ns));
    EXPECT_REFUSED(mend_sim_event_time(f->sim, &place, NULL));
    EXPECT_INT_EQ(5, place.device);
    EXPECT_U64_EQ(7, time_ns);
}
