/* Fences: each wait covers what was freed before it, and nothing else. */
#include "base/error.h"
#include "physical/fence.h"

#include "physical/slots.h"
#include "physical/stream.h"
#include "tests/support/test.h"
#include "tests/unit/physical/stream_rig.h"

enum { GROUP = 1 };

MEND_TEST(physical_fence, a_stream_that_is_known_is_found_again)
{
    stream_rig r;
    ASSERT_TRUE(stream_rig_open(&r));
    uint32_t in_group = stream_rig_find(&r, r.handles[0], 5);
    uint64_t calls = mend_sim_call_count(r.sim);
    EXPECT_U64_EQ(r.first, stream_rig_find(&r, r.handles[0], 0));
    EXPECT_U64_EQ(r.second, stream_rig_find(&r, r.handles[1], 0));
    EXPECT_U64_EQ(in_group, stream_rig_find(&r, r.handles[0], 5));
    EXPECT_TRUE(in_group != r.first);
    EXPECT_U64_EQ(calls, mend_sim_call_count(r.sim)); /* nobody was asked */
    stream_rig_close(&r);
}

MEND_TEST(physical_fence, a_poll_passes_what_is_done_and_no_more)
{
    stream_rig r;
    ASSERT_TRUE(stream_rig_open(&r));
    mend_stamp early = stream_rig_work_and_close(&r, r.first, SHORT_NS);
    mend_stamp late = stream_rig_work_and_close(&r, r.first, LONG_NS);
    EXPECT_FALSE(mend_streams_poll(&r.streams));
    mend_sim_advance(r.sim, LONG_NS / 2);
    EXPECT_TRUE(mend_streams_poll(&r.streams));
    EXPECT_TRUE(mend_stamp_has_passed(&r.streams, early));
    EXPECT_FALSE(mend_stamp_has_passed(&r.streams, late));
    stream_rig_close(&r);
}

MEND_TEST(physical_fence, a_wait_of_the_host_passes_one_fence)
{
    stream_rig r;
    bool waited = false;
    ASSERT_TRUE(stream_rig_open(&r));
    mend_stamp early = stream_rig_work_and_close(&r, r.first, SHORT_NS);
    mend_stamp late = stream_rig_work_and_close(&r, r.first, LONG_NS);
    mend_streams_begin_host_waits(&r.streams);
    EXPECT_RESULT(MEND_OK, mend_streams_wait_oldest(&r.streams, r.second, false, &waited));
    EXPECT_TRUE(waited);
    EXPECT_TRUE(mend_stamp_has_passed(&r.streams, early));
    EXPECT_FALSE(mend_stamp_has_passed(&r.streams, late));
    stream_rig_close(&r);
}

/* The stream that needs memory may be captured, and its own work be waited for as well. */
MEND_TEST(physical_fence, the_host_waits_for_no_context_while_the_asking_stream_is_captured)
{
    stream_rig r;
    ASSERT_TRUE(stream_rig_open(&r));
    mend_streams_stamp(&r.streams, MEND_STREAM_UNKNOWN, 512);
    EXPECT_RESULT(MEND_OK, mend_sim_begin_capture(r.sim, r.handles[1], MEND_SIM_CAPTURE_GLOBAL));
    for (int with_asking = 0; with_asking < 2; with_asking++) {
        bool waited = false;
        mend_streams_begin_host_waits(&r.streams);
        EXPECT_RESULT(MEND_ERROR_CAPTURING, mend_publish(mend_streams_wait_oldest(
                                                &r.streams, r.second, with_asking != 0, &waited)));
        EXPECT_FALSE(waited);
    }
    EXPECT_RESULT(MEND_OK, mend_sim_end_capture(r.sim, r.handles[1], NULL));
    stream_rig_close(&r);
}

/* Another thread records a fence, and a wait for the context covers what it is to cover: that is
 * waited for once. */
static void wait_for_what_is_recorded(bool is_chosen)
{
    stream_rig r;
    bool waited = false;
    EXPECT_TRUE(stream_rig_open(&r));
    mend_stamp freed = stream_rig_work_and_free(&r, r.first, SHORT_NS);
    mend_stream_state *state = &r.streams.items[r.first];
    state->open_epoch++;
    state->open = false;
    state->recordings++;
    if (is_chosen) {
        mend_streams_begin_chosen_waits(&r.streams);
        mend_streams_make_due(&r.streams, freed);
    } else {
        mend_streams_begin_host_waits(&r.streams);
    }
    EXPECT_RESULT(MEND_OK, mend_streams_wait_oldest(&r.streams, r.second, false, &waited));
    EXPECT_TRUE(waited);
    EXPECT_TRUE(mend_stamp_has_passed(&r.streams, freed));
    EXPECT_RESULT(MEND_OK, mend_streams_wait_oldest(&r.streams, r.second, false, &waited));
    EXPECT_FALSE(waited);
    state->recordings--;
    stream_rig_close(&r);
}

MEND_TEST(physical_fence, the_host_waits_once_for_what_is_being_recorded)
{
    wait_for_what_is_recorded(false);
    wait_for_what_is_recorded(true);
}

MEND_TEST(physical_fence, what_is_freed_while_the_host_waits_is_not_waited_for)
{
    stream_rig r;
    bool waited = false;
    ASSERT_TRUE(stream_rig_open(&r));
    mend_stamp early = stream_rig_work_and_close(&r, r.first, SHORT_NS);
    mend_streams_begin_host_waits(&r.streams);
    mend_stamp late = stream_rig_work_and_free(&r, r.first, LONG_NS);
    EXPECT_RESULT(MEND_OK, mend_streams_wait_oldest(&r.streams, r.second, false, &waited));
    EXPECT_TRUE(waited);
    EXPECT_TRUE(mend_stamp_has_passed(&r.streams, early));
    EXPECT_RESULT(MEND_OK, mend_streams_wait_oldest(&r.streams, r.second, false, &waited));
    EXPECT_FALSE(waited);
    EXPECT_FALSE(mend_stamp_has_passed(&r.streams, late));
    EXPECT_FALSE(mend_stamp_has_fence(&r.streams, late)); /* none was recorded for it */
    stream_rig_close(&r);
}

MEND_TEST(physical_fence, a_stream_waits_for_the_fence_that_covers)
{
    stream_rig r;
    ASSERT_TRUE(stream_rig_open(&r));
    (void)stream_rig_work_and_close(&r, r.first, SHORT_NS);
    mend_stamp late = stream_rig_work_and_close(&r, r.first, LONG_NS);
    EXPECT_RESULT(MEND_LOOK_AGAIN, mend_streams_make_wait(&r.streams, r.second, late));
    EXPECT_RESULT(MEND_OK, mend_streams_make_wait(&r.streams, r.second, late));
    EXPECT_TRUE(mend_stamp_is_ready(&r.streams, late, r.second));
    mend_sim_advance(r.sim, LONG_NS / 2);
    EXPECT_INT_EQ(MEND_DRIVER_NOT_READY, r.device->stream_query(r.device, r.handles[1]));
    mend_sim_advance(r.sim, LONG_NS);
    EXPECT_INT_EQ(MEND_DRIVER_OK, r.device->stream_query(r.device, r.handles[1]));
    stream_rig_close(&r);
}

MEND_TEST(physical_fence, a_wait_of_a_stream_is_not_for_what_is_freed_later)
{
    stream_rig r;
    ASSERT_TRUE(stream_rig_open(&r));
    mend_stamp early = stream_rig_work_and_close(&r, r.first, SHORT_NS);
    EXPECT_RESULT(MEND_LOOK_AGAIN, mend_streams_make_wait(&r.streams, r.second, early));
    mend_stamp later = stream_rig_work_and_free(&r, r.first, LONG_NS);
    EXPECT_TRUE(mend_stamp_is_ready(&r.streams, early, r.second));
    EXPECT_FALSE(mend_stamp_is_ready(&r.streams, later, r.second));
    stream_rig_close(&r);
}

MEND_TEST(physical_fence, a_wait_for_the_context_passes_all_but_groups)
{
    stream_rig r;
    ASSERT_TRUE(stream_rig_open(&r));
    uint32_t grouped = stream_rig_find(&r, r.handles[0], GROUP);
    EXPECT_TRUE(grouped != r.first);
    mend_stamp of_stream = stream_rig_work_and_free(&r, r.first, SHORT_NS);
    mend_stamp of_group = stream_rig_work_and_free(&r, grouped, SHORT_NS);
    mend_stamp of_nobody = mend_streams_stamp(&r.streams, MEND_STREAM_UNKNOWN, 1);
    EXPECT_RESULT(MEND_OK, mend_streams_wait_context(&r.streams, r.second));
    EXPECT_TRUE(mend_stamp_has_passed(&r.streams, of_stream));
    EXPECT_TRUE(mend_stamp_has_passed(&r.streams, of_nobody));
    EXPECT_FALSE(mend_stamp_has_passed(&r.streams, of_group));
    stream_rig_close(&r);
}

MEND_TEST(physical_fence, a_wait_for_the_context_that_fails_passes_nothing)
{
    stream_rig r;
    mend_sim_fault fault = MEND_SIM_FAULT_INIT;
    ASSERT_TRUE(stream_rig_open(&r));
    mend_stamp freed = stream_rig_work_and_free(&r, r.first, SHORT_NS);
    fault.call = "context_synchronize";
    fault.status = MEND_DRIVER_UNKNOWN;
    EXPECT_RESULT(MEND_OK, mend_sim_fail(r.sim, &fault));
    EXPECT_RESULT(MEND_ERROR_DRIVER, mend_publish(mend_streams_wait_context(&r.streams, r.second)));
    EXPECT_FALSE(mend_stamp_has_passed(&r.streams, freed));
    EXPECT_RESULT(MEND_OK, mend_streams_wait_context(&r.streams, r.second));
    EXPECT_TRUE(mend_stamp_has_passed(&r.streams, freed));
    stream_rig_close(&r);
}

/* What the hook below frees, when it is to free anything. */
static stream_rig *freeing;
static mend_stamp freed_meanwhile;

static mend_status free_and_synchronize(const mend_driver *driver)
{
    (void)driver;
    freed_meanwhile = stream_rig_work_and_free(freeing, freeing->first, LONG_NS);
    return MEND_DRIVER_OK; /* the work before it was done already */
}

MEND_TEST(physical_fence, what_is_freed_while_the_host_waits_is_not_covered)
{
    stream_rig r;
    ASSERT_TRUE(stream_rig_open(&r));
    mend_stamp before = stream_rig_work_and_free(&r, r.first, 0);
    freeing = &r;
    r.driver.context_synchronize = free_and_synchronize;
    EXPECT_RESULT(MEND_OK, mend_streams_wait_context(&r.streams, r.second));
    EXPECT_TRUE(mend_stamp_has_passed(&r.streams, before));
    EXPECT_FALSE(mend_stamp_has_passed(&r.streams, freed_meanwhile));
    stream_rig_close(&r);
}

/* A capture begins on a new stream, frees memory, and its graph is destroyed. */
static mend_status end_group_and_synchronize(const mend_driver *driver)
{
    mend_stream handle = NULL;
    (void)driver;
    EXPECT_RESULT(MEND_OK, mend_sim_stream_create(freeing->sim, &handle));
    uint32_t grouped = stream_rig_find(freeing, handle, GROUP);
    EXPECT_INT_EQ((int)freeing->second, (int)grouped);
    freed_meanwhile = mend_streams_stamp(&freeing->streams, grouped, 1);
    mend_streams_end_group(&freeing->streams, GROUP);
    return MEND_DRIVER_OK;
}

MEND_TEST(physical_fence, a_group_that_ends_in_a_free_place_while_the_host_waits_stays_idle)
{
    stream_rig r;
    ASSERT_TRUE(stream_rig_open(&r));
    (void)stream_rig_work_and_close(&r, r.second, SHORT_NS);
    mend_sim_advance(r.sim, LONG_NS);
    EXPECT_TRUE(mend_streams_poll(&r.streams));
    EXPECT_RESULT(MEND_OK, mend_streams_forget(&r.streams, r.second));
    mend_slots_collect(&r.streams);
    EXPECT_TRUE(r.streams.items[r.second].is_free_slot);
    freeing = &r;
    r.driver.context_synchronize = end_group_and_synchronize;
    EXPECT_RESULT(MEND_OK, mend_streams_wait_context(&r.streams, r.first));
    EXPECT_TRUE(mend_stamp_has_passed(&r.streams, freed_meanwhile));
    stream_rig_close(&r);
}

MEND_TEST(physical_fence, a_new_stream_in_a_forgotten_place_has_waited_for_nobody)
{
    stream_rig r;
    mend_stream handle = NULL;
    ASSERT_TRUE(stream_rig_open(&r));
    mend_stamp freed = stream_rig_work_and_close(&r, r.first, LONG_NS);
    EXPECT_RESULT(MEND_LOOK_AGAIN, mend_streams_make_wait(&r.streams, r.second, freed));
    EXPECT_RESULT(MEND_OK, mend_streams_forget(&r.streams, r.second));
    EXPECT_RESULT(MEND_OK, mend_sim_stream_create(r.sim, &handle));
    uint32_t successor = stream_rig_find(&r, handle, 0);
    EXPECT_INT_EQ((int)r.second, (int)successor);
    EXPECT_FALSE(mend_stamp_is_ready(&r.streams, freed, successor));
    stream_rig_close(&r);
}

/* A place is free once nothing waits for its stream any more. */
MEND_TEST(physical_fence, a_forgotten_stream_keeps_its_place_until_its_fences_have_passed)
{
    stream_rig r;
    mend_stream handle = NULL;
    ASSERT_TRUE(stream_rig_open(&r));
    (void)stream_rig_work_and_free(&r, r.first, LONG_NS);
    EXPECT_RESULT(MEND_OK, mend_streams_forget(&r.streams, r.first));
    EXPECT_RESULT(MEND_OK, mend_sim_stream_create(r.sim, &handle));
    EXPECT_TRUE(stream_rig_find(&r, handle, 0) != r.first);
    mend_sim_advance(r.sim, 2 * LONG_NS);
    EXPECT_TRUE(mend_streams_poll(&r.streams));
    EXPECT_RESULT(MEND_OK, mend_sim_stream_create(r.sim, &handle));
    EXPECT_TRUE(stream_rig_find(&r, handle, 0) == r.first);
    stream_rig_close(&r);
}

/* The driver says of an event that it is of a capture: as if it had never been recorded. */
static mend_status captured_event(const mend_driver *driver, mend_event event)
{
    (void)driver;
    (void)event;
    return MEND_DRIVER_CAPTURED_EVENT;
}

MEND_TEST(physical_fence, an_event_of_a_capture_covers_nothing)
{
    stream_rig r;
    bool waited = false;
    ASSERT_TRUE(stream_rig_open(&r));
    for (int on_host = 0; on_host < 2; on_host++) {
        mend_stamp stamp = stream_rig_work_and_close(&r, r.first, SHORT_NS);
        mend_sim_advance(r.sim, LONG_NS);
        r.driver.event_query = captured_event;
        r.driver.event_synchronize = captured_event;
        if (on_host) {
            mend_streams_begin_host_waits(&r.streams);
            EXPECT_RESULT(MEND_OK, mend_streams_wait_oldest(&r.streams, r.second, false, &waited));
            EXPECT_U64_EQ(0, r.streams.host_waits);
        } else {
            EXPECT_FALSE(mend_streams_poll(&r.streams));
        }
        EXPECT_FALSE(mend_stamp_has_passed(&r.streams, stamp));
        EXPECT_FALSE(mend_stamp_has_fence(&r.streams, stamp));
        EXPECT_TRUE(r.streams.items[r.first].open);
        r.driver.event_query = r.device->event_query;
        r.driver.event_synchronize = r.device->event_synchronize;
        EXPECT_RESULT(MEND_OK, mend_streams_close_epoch(&r.streams, r.first));
        EXPECT_TRUE(mend_streams_poll(&r.streams));
        EXPECT_TRUE(mend_stamp_has_passed(&r.streams, stamp));
    }
    stream_rig_close(&r);
}

/* The later fence of a stream covers the earlier memory as well. */
MEND_TEST(physical_fence, an_event_of_a_capture_leaves_the_next_one_in_its_place)
{
    stream_rig r;
    ASSERT_TRUE(stream_rig_open(&r));
    mend_stamp early = stream_rig_work_and_close(&r, r.first, SHORT_NS);
    mend_stamp late = stream_rig_work_and_close(&r, r.first, SHORT_NS);
    mend_stream_state *state = &r.streams.items[r.first];
    mend_event first_event = state->fences[0].event;
    EXPECT_RESULT(MEND_OK, mend_sim_begin_capture(r.sim, r.handles[1], MEND_SIM_CAPTURE_RELAXED));
    EXPECT_INT_EQ(MEND_DRIVER_OK, r.device->event_record(r.device, first_event, r.handles[1]));
    EXPECT_RESULT(MEND_OK, mend_sim_end_capture(r.sim, r.handles[1], NULL));
    mend_sim_advance(r.sim, LONG_NS);
    EXPECT_TRUE(mend_streams_poll(&r.streams));
    EXPECT_TRUE(mend_stamp_has_passed(&r.streams, early));
    EXPECT_TRUE(mend_stamp_has_passed(&r.streams, late));
    EXPECT_FALSE(state->open);
    mend_driver_call refused;
    EXPECT_INT_EQ(MEND_DRIVER_OK, mend_streams_clear(&r.streams, &refused));
    mend_sim_destroy(r.sim); /* which has heard of the question */
}

/* What was freed before the fence counts for no later one. */
MEND_TEST(physical_fence, a_recorded_epoch_leaves_the_next_one_empty)
{
    stream_rig r;
    ASSERT_TRUE(stream_rig_open(&r));
    stream_rig_work_and_free(&r, r.first, SHORT_NS);
    stream_rig_work_and_free(&r, r.first, SHORT_NS);
    EXPECT_U64_EQ(2, r.streams.items[r.first].open_bytes);
    EXPECT_RESULT(MEND_OK, mend_streams_close_epoch(&r.streams, r.first));
    EXPECT_U64_EQ(0, r.streams.items[r.first].open_bytes);
    stream_rig_work_and_free(&r, r.first, SHORT_NS);
    EXPECT_U64_EQ(1, r.streams.items[r.first].open_bytes);
    stream_rig_close(&r);
}
