/* Fences: each wait covers earlier frees, and nothing else. */
#include "base/error.h"
#include "memory/waits.h"

#include "memory/stream.h"
#include "tests/unit/memory/stream_rig.h"

enum { GRAPH_POOL = 1 };

#define FENCE_TEST(suite, name)                                                                    \
    KIT_CASE(suite, name, stream_rig, r, stream_rig_open(r), stream_rig_close(r))

static mend_stamp work_and_free(stream_rig *r, uint64_t duration_ns)
{
    return stream_rig_work_and_free(r, r->first, duration_ns);
}

static mend_stamp work_and_close(stream_rig *r, uint64_t duration_ns)
{
    return stream_rig_work_and_close(r, r->first, duration_ns);
}

static void expect_passed(stream_rig *r, mend_stamp stamp, bool has_passed)
{
    EXPECT_INT_EQ(has_passed, mend_stamp_has_passed(&r->streams, stamp));
}

/* Waits for the oldest fence, for the second stream. Whether there was one. */
static void expect_wait(stream_rig *r, bool expected)
{
    bool waited = !expected;
    EXPECT_RESULT(MEND_OK, mend_streams_wait_oldest(&r->streams, r->second, false, &waited));
    EXPECT_INT_EQ(expected, waited);
}

FENCE_TEST(physical_fence, what_is_freed_while_the_host_waits_is_not_waited_for)
{
    mend_stamp early = work_and_close(r, SHORT_NS);
    mend_streams_begin_host_waits(&r->streams);
    mend_stamp late = work_and_free(r, LONG_NS);
    expect_wait(r, true);
    expect_passed(r, early, true);
    expect_wait(r, false);
    expect_passed(r, late, false);
    EXPECT_FALSE(mend_stamp_has_fence(&r->streams, late)); /* none was recorded for it */
    EXPECT_FALSE(mend_stamp_can_be_awaited(&r->streams, late, MEND_ANY_FENCE - 1));
}

/* One that fails passes nothing. */
static const struct {
    const char *call;
    mend_status status;
    bool is_record; /* of an event of the context, else a wait for it */
    mend_result result;
    uint64_t hidden_captures;
} faults[] = {
    {"context_synchronize", MEND_DRIVER_UNKNOWN, false, MEND_ERROR_DRIVER, 0},
    {"context_synchronize", MEND_DRIVER_CAPTURE_UNSUPPORTED, false, MEND_ERROR_CAPTURING, 1},
    {"stream_get_info", MEND_DRIVER_UNKNOWN, true, MEND_ERROR_DRIVER, 0},
    {"context_record", MEND_DRIVER_CAPTURE_UNSUPPORTED, true, MEND_OK, 1},
    {"context_record", MEND_DRIVER_ILLEGAL_ADDRESS, true, MEND_ERROR_DEVICE_LOST, 1},
    {"context_record", MEND_DRIVER_NOT_SUPPORTED, true, MEND_OK, 0},
};
enum { FAULTS = sizeof(faults) / sizeof(faults[0]) };

KIT_RIG_EACH(physical_fence, a_wait_for_the_context_passes_all_but_graph_pools, int, i, FAULTS,
             stream_rig, r, stream_rig_open(r), stream_rig_close(r))
{
    mend_sim_fault fault = MEND_SIM_FAULT_INIT;
    uint32_t grouped = stream_rig_find(r, r->handles[0], GRAPH_POOL);
    EXPECT_TRUE(grouped != r->first);
    mend_stamp of_stream = work_and_free(r, SHORT_NS);
    mend_stamp of_graph_pool = stream_rig_work_and_free(r, grouped, SHORT_NS);
    mend_stamp of_nobody = mend_streams_stamp(&r->streams, MEND_STREAM_UNKNOWN, 1);
    fault.call = faults[i].call;
    fault.status = faults[i].status;
    EXPECT_RESULT(MEND_OK, mend_sim_fail(r->sim, &fault));
    EXPECT_RESULT(faults[i].result, mend_publish((faults[i].is_record ? mend_streams_record_context
                                                                      : mend_streams_wait_context)(
                                        &r->streams, r->second)));
    EXPECT_U64_EQ(faults[i].hidden_captures, r->streams.hidden_captures);
    EXPECT_FALSE(mend_stamp_has_fence(&r->streams, of_nobody));
    expect_passed(r, of_stream, false);
    EXPECT_RESULT(MEND_OK, mend_streams_wait_context(&r->streams, r->second));
    expect_passed(r, of_stream, true);
    expect_passed(r, of_nobody, true);
    expect_passed(r, of_graph_pool, false);
}

/* A short fence of its own passes while the context's event waits for another stream. */
FENCE_TEST(physical_fence, an_event_of_the_context_takes_nothing_back)
{
    (void)stream_rig_work_and_free(r, r->second, LONG_NS);
    mend_stamp early = work_and_free(r, SHORT_NS);
    EXPECT_RESULT(MEND_OK, mend_streams_record_context(&r->streams, r->second));
    EXPECT_U64_EQ(1, r->streams.context_event_count);
    mend_stamp late = work_and_close(r, SHORT_NS);
    mend_sim_advance(r->sim, LONG_NS / 2);
    EXPECT_TRUE(mend_streams_poll(&r->streams));
    expect_passed(r, late, true);
    mend_sim_advance(r->sim, LONG_NS);
    EXPECT_TRUE(mend_streams_poll(&r->streams));
    EXPECT_U64_EQ(0, r->streams.context_event_count);
    expect_passed(r, early, true);
    expect_passed(r, late, true);
}

/* Each passes when its own work is done. The last place is the newest one's. */
FENCE_TEST(physical_fence, events_of_the_context_wait_side_by_side)
{
    enum { FREES = MEND_CONTEXT_EVENTS + 2 };
    mend_stamp freed[FREES];
    for (int i = 0; i < FREES; i++) {
        (void)stream_rig_work_and_free(r, r->first, SHORT_NS);
        freed[i] = mend_streams_stamp(&r->streams, MEND_STREAM_UNKNOWN, 1);
        EXPECT_RESULT(MEND_OK, mend_streams_record_context(&r->streams, r->second));
    }
    EXPECT_U64_EQ(MEND_CONTEXT_EVENTS, r->streams.context_event_count);
    const mend_awaited *last =
        &r->streams.items[MEND_STREAM_UNKNOWN].awaited[MEND_CONTEXT_EVENTS - 1];
    EXPECT_U64_EQ(FREES - MEND_CONTEXT_EVENTS + 1, last->bytes);
    EXPECT_RESULT(MEND_LOOK_AGAIN, mend_streams_make_wait(&r->streams, r->second, freed[1]));
    EXPECT_TRUE(mend_stamp_is_ready(&r->streams, freed[0], r->second));
    EXPECT_FALSE(mend_stamp_is_ready(&r->streams, freed[2], r->second));
    for (int i = 0; i < FREES; i++) {
        mend_sim_advance(r->sim, SHORT_NS);
        const bool has_own = i < MEND_CONTEXT_EVENTS - 1 || i == FREES - 1;
        EXPECT_INT_EQ(has_own, mend_streams_poll(&r->streams));
        expect_passed(r, freed[i], has_own);
    }
    EXPECT_U64_EQ(0, r->streams.context_event_count);
    for (int i = 0; i < FREES; i++) {
        expect_passed(r, freed[i], true);
    }
}

/* Not for an event that covers nothing due, nor for one behind the stream's own fence. */
FENCE_TEST(physical_fence, the_host_waits_for_no_event_of_the_context_in_vain)
{
    mend_stamp early = work_and_close(r, SHORT_NS);
    mend_streams_begin_host_waits(&r->streams);
    (void)stream_rig_work_and_free(r, r->second, LONG_NS);
    mend_stamp of_nobody = mend_streams_stamp(&r->streams, MEND_STREAM_UNKNOWN, 1);
    EXPECT_RESULT(MEND_OK, mend_streams_record_context(&r->streams, r->second));
    expect_wait(r, true);
    expect_passed(r, early, true);
    expect_wait(r, false);
    EXPECT_U64_EQ(1, r->streams.context_event_count);
    mend_streams_begin_host_waits(&r->streams);
    expect_wait(r, true);
    expect_passed(r, of_nobody, true);
}

/* The later fence of the same stream is not due. */
FENCE_TEST(physical_fence, the_host_waits_for_the_event_though_a_later_fence_is_there)
{
    mend_stamp early = work_and_free(r, SHORT_NS);
    EXPECT_RESULT(MEND_OK, mend_streams_record_context(&r->streams, r->second));
    mend_streams_begin_host_waits(&r->streams);
    mend_stamp late = work_and_close(r, LONG_NS);
    expect_wait(r, true);
    expect_passed(r, early, true);
    expect_passed(r, late, false);
    expect_wait(r, false); /* nothing else is due */
}

FENCE_TEST(physical_fence, a_new_stream_in_a_forgotten_place_has_waited_for_nobody)
{
    mend_stamp freed = work_and_close(r, LONG_NS);
    EXPECT_RESULT(MEND_LOOK_AGAIN, mend_streams_make_wait(&r->streams, r->second, freed));
    EXPECT_TRUE(mend_stamp_is_ready(&r->streams, freed, r->second));
    mend_stamp later = work_and_free(r, LONG_NS);
    EXPECT_FALSE(mend_stamp_is_ready(&r->streams, later, r->second));
    EXPECT_RESULT(MEND_OK, mend_streams_forget(&r->streams, r->second));
    EXPECT_U64_EQ(r->second, stream_rig_find(r, stream_rig_create(r), 0));
    EXPECT_FALSE(mend_stamp_is_ready(&r->streams, freed, r->second));
}

static stream_rig *waiting;

/* The waiting stream ends meanwhile, and another one begins. */
static mend_status slow_wait(const mend_driver *driver, mend_stream stream, mend_event event)
{
    (void)driver;
    EXPECT_RESULT(MEND_OK, mend_streams_forget(&waiting->streams, waiting->second));
    EXPECT_TRUE(stream_rig_find(waiting, stream_rig_create(waiting), 0) != waiting->second);
    return waiting->device->stream_wait(waiting->device, stream, event);
}

FENCE_TEST(physical_fence, no_new_stream_gets_the_place_of_one_that_is_made_to_wait)
{
    mend_stamp freed = mend_streams_stamp(&r->streams, MEND_STREAM_UNKNOWN, 1);
    EXPECT_RESULT(MEND_OK, mend_streams_record_context(&r->streams, r->second));
    waiting = r;
    r->driver.stream_wait = slow_wait;
    EXPECT_RESULT(MEND_LOOK_AGAIN, mend_streams_make_wait(&r->streams, r->second, freed));
}

/* The driver says of an event that it is of a capture: as if it had never been recorded. */
static mend_status captured_event(const mend_driver *driver, mend_event event)
{
    (void)driver;
    (void)event;
    return MEND_DRIVER_CAPTURED_EVENT;
}

static mend_status no_event_to_wait_for(const mend_driver *driver, mend_stream stream,
                                        mend_event event)
{
    (void)stream;
    return captured_event(driver, event);
}

FENCE_TEST(physical_fence, an_event_of_a_capture_covers_nothing)
{
    enum { POLL, WAIT_ON_HOST, WAIT_ON_DEVICE, WAYS };
    for (int way = 0; way < WAYS; way++) {
        mend_stamp stamp = work_and_close(r, SHORT_NS);
        mend_sim_advance(r->sim, LONG_NS);
        r->driver.event_query = captured_event;
        r->driver.event_synchronize = captured_event;
        r->driver.stream_wait = no_event_to_wait_for;
        if (way == WAIT_ON_DEVICE) {
            EXPECT_RESULT(MEND_LOOK_AGAIN, mend_streams_make_wait(&r->streams, r->second, stamp));
            EXPECT_U64_EQ(0, r->streams.stream_waits);
        } else if (way == WAIT_ON_HOST) {
            bool waited = false;
            mend_streams_begin_host_waits(&r->streams);
            EXPECT_RESULT(MEND_OK,
                          mend_streams_wait_oldest(&r->streams, r->second, false, &waited));
            EXPECT_U64_EQ(0, r->streams.host_waits);
        } else {
            EXPECT_FALSE(mend_streams_poll(&r->streams));
        }
        expect_passed(r, stamp, false);
        EXPECT_FALSE(mend_stamp_has_fence(&r->streams, stamp));
        EXPECT_TRUE(r->streams.items[r->first].open);
        r->driver.event_query = r->device->event_query;
        r->driver.event_synchronize = r->device->event_synchronize;
        r->driver.stream_wait = r->device->stream_wait;
        EXPECT_RESULT(MEND_OK, mend_streams_close_epoch(&r->streams, r->first));
        EXPECT_TRUE(mend_streams_poll(&r->streams));
        expect_passed(r, stamp, true);
    }
}

/* What is due lost its own event to a capture. That of what was freed later covers it. */
FENCE_TEST(physical_fence, the_host_waits_for_a_later_fence_in_the_place_of_a_lost_one)
{
    mend_stamp early = work_and_close(r, SHORT_NS);
    mend_streams_begin_host_waits(&r->streams);
    mend_stamp late = work_and_close(r, SHORT_NS);
    r->driver.event_synchronize = captured_event;
    expect_wait(r, true);
    expect_passed(r, early, false);
    r->driver.event_synchronize = r->device->event_synchronize;
    expect_wait(r, true);
    expect_passed(r, early, true);
    expect_passed(r, late, true);
    expect_wait(r, false);
}

static mend_event passed_event, spoilt;

static mend_status one_is_captured(const mend_driver *driver, mend_event event)
{
    (void)driver;
    return event == spoilt         ? MEND_DRIVER_CAPTURED_EVENT
           : event == passed_event ? MEND_DRIVER_OK
                                   : MEND_DRIVER_NOT_READY;
}

/* And what is freed behind it waits for an event of its own. */
KIT_RIG_EACH(physical_fence, bytes_of_a_lost_fence_go_to_the_next_one, int, at, 2, stream_rig, r,
             stream_rig_open(r), stream_rig_close(r))
{
    const mend_stream_state *state = &r->streams.items[r->first];
    for (int i = 0; i < at + 2; i++) {
        work_and_close(r, LONG_NS);
    }
    (void)work_and_free(r, LONG_NS);
    const mend_event last = state->fences[at + 1].event;
    spoilt = state->fences[at].event;
    passed_event = at > 0 ? state->fences[0].event : NULL;
    r->driver.event_query = one_is_captured;
    EXPECT_INT_EQ(at, mend_streams_poll(&r->streams));
    r->driver.event_query = r->device->event_query;
    ASSERT_U64_EQ(1, state->fence_count);
    EXPECT_PTR_EQ(last, state->fences[0].event);
    EXPECT_U64_EQ(2, state->fences[0].bytes);
    EXPECT_U64_EQ(1, state->open_bytes);
    EXPECT_TRUE(state->open);
}
