/* Which slot a handle means, while streams are captured and cannot be identified. */
#include "base/error.h"
#include "memory/stream.h"

#include "memory/waits.h"
#include "tests/unit/memory/stream_rig.h"

static void begin(stream_rig *r)
{
    EXPECT_RESULT(MEND_OK, mend_sim_begin_capture(r->sim, r->handles[0], MEND_SIM_CAPTURE_GLOBAL));
}

static void end(stream_rig *r)
{
    EXPECT_RESULT(MEND_OK, mend_sim_end_capture(r->sim, r->handles[0], NULL));
}

static mend_reach reach_of(stream_rig *r, uint32_t stream)
{
    mend_reach reach = MEND_REACH_GONE;
    EXPECT_RESULT(MEND_OK, mend_streams_reach(&r->streams, stream, &reach));
    return reach;
}

#define STREAM_TEST(suite, name)                                                                   \
    KIT_CASE(suite, name, stream_rig, r, stream_rig_open_unmet(r), stream_rig_close(r))

STREAM_TEST(physical_stream, one_met_in_a_capture_is_learned_after_it)
{
    begin(r);
    uint32_t stream = stream_rig_find(r, r->handles[0], 0);
    const mend_stream_state *state = &r->streams.items[stream];
    EXPECT_U64_EQ(0, state->id);
    EXPECT_PTR_EQ(NULL, state->context);
    EXPECT_INT_EQ(MEND_REACH_CAPTURED, reach_of(r, stream));
    EXPECT_U64_EQ(stream, stream_rig_find(r, r->handles[0], 0));
    end(r);
    EXPECT_INT_EQ(MEND_REACH_OPEN, reach_of(r, stream));
    EXPECT_TRUE(state->id != 0);
    EXPECT_PTR_EQ(r->info.context, state->context);
    EXPECT_U64_EQ(stream, stream_rig_find(r, r->handles[0], 0));
    EXPECT_RESULT(MEND_OK,
                  mend_sim_fail(r->sim, KIT_OPTIONS(mend_sim_fault, .call = "stream_get_info",
                                                    .status = MEND_DRIVER_INVALID_HANDLE)));
    EXPECT_INT_EQ(MEND_REACH_GONE, reach_of(r, stream)); /* destroyed without a word */
}

/* A stream of the second device, which stays open. */
static mend_stream create_foreign(stream_rig *r, mend_context *context)
{
    mend_device_info other = {0};
    mend_stream foreign = NULL;
    EXPECT_INT_EQ(MEND_DRIVER_OK, r->device->device_open(r->device, 1, &other));
    EXPECT_INT_EQ(MEND_DRIVER_OK, r->device->context_push(r->device, other.context));
    EXPECT_INT_EQ(MEND_DRIVER_OK, r->device->stream_create(r->device, &foreign));
    EXPECT_INT_EQ(MEND_DRIVER_OK, r->device->context_pop(r->device));
    *context = other.context;
    return foreign;
}

/* A call that lasts: in its middle, a stream of the second device is met. */
static stream_rig *recording;
static mend_stream met;

static mend_status slow_record(const mend_driver *driver, mend_event event)
{
    (void)driver;
    EXPECT_TRUE(stream_rig_find(recording, met, 0) != MEND_STREAM_UNKNOWN);
    return recording->device->context_record(recording->device, event);
}

/* And another event, of both contexts, does. */
STREAM_TEST(physical_stream, events_of_the_contexts_known_before_do_not_cover_it)
{
    mend_context context[2];
    mend_stamp freed = mend_streams_stamp(&r->streams, MEND_STREAM_UNKNOWN, 1);
    recording = r;
    met = create_foreign(r, &context[0]);
    r->driver.context_record = slow_record;
    EXPECT_RESULT(MEND_OK, mend_streams_record_context(&r->streams, MEND_STREAM_UNKNOWN));
    EXPECT_FALSE(mend_stamp_has_fence(&r->streams, freed));
    EXPECT_U64_EQ(0, r->streams.hidden_captures);
    r->driver.context_record = r->device->context_record;
    EXPECT_RESULT(MEND_OK, mend_streams_record_context(&r->streams, MEND_STREAM_UNKNOWN));
    EXPECT_TRUE(mend_stamp_has_fence(&r->streams, freed));
    EXPECT_INT_EQ(MEND_DRIVER_OK, mend_foreign_admit_device(&r->streams, 1)); /* as it is */
    /* One more, of a context of the program's own beside the primary one. */
    uint32_t stream = 0;
    met = create_foreign(r, &context[1]);
    r->streams.contexts[2] = (mend_context)r;
    EXPECT_RESULT(MEND_ERROR_UNKNOWN_STREAM,
                  mend_publish(mend_streams_find(&r->streams, met, 0, &stream)));
    r->streams.contexts[2] = context[0];
    for (int i = 0; i < 2; i++) {
        EXPECT_INT_EQ(MEND_DRIVER_OK, r->device->device_close(r->device, 1));
    }
}

/* The rig's device, where one call answers otherwise. */
static const mend_driver *device_of_rig;

static mend_status open_another_context(const mend_driver *driver, int device,
                                        mend_device_info *info)
{
    (void)driver;
    mend_status status = device_of_rig->device_open(device_of_rig, device, info);
    info->context = (mend_context)info;
    return status;
}

/* And no context of another device is kept. */
static void expect_unknown(stream_rig *r, mend_stream handle)
{
    uint32_t stream = 0;
    mend_sim_ledger ledger = MEND_SIM_LEDGER_INIT;
    EXPECT_RESULT(MEND_ERROR_UNKNOWN_STREAM,
                  mend_publish(mend_streams_find(&r->streams, handle, 0, &stream)));
    EXPECT_RESULT(MEND_OK, mend_sim_get_ledger(r->sim, &ledger));
    for (int i = 0; i < MEND_DEVICE_LIMIT; i++) {
        EXPECT_PTR_EQ(NULL, r->streams.contexts[i + 1]);
    }
    EXPECT_U64_EQ(2, ledger.contexts_open);
}

/* A program may make contexts of its own beside a device's primary one. */
STREAM_TEST(physical_stream, one_of_a_context_that_is_not_primary_is_refused)
{
    mend_context context = NULL;
    mend_stream foreign = create_foreign(r, &context);
    device_of_rig = r->device;
    r->driver.device_open = open_another_context;
    expect_unknown(r, foreign);
    r->driver.device_open = r->device->device_open;
    begin(r);
    const uint32_t stream = stream_rig_find(r, r->handles[0], 0);
    end(r);
    r->streams.contexts[MEND_OWN_CONTEXT] =
        (mend_context)r; /* nor is one of the pool's own device served */
    expect_unknown(r, r->handles[1]);
    for (int i = 0; i < 2; i++) { /* nor one that was met in its capture */
        EXPECT_INT_EQ(MEND_REACH_GONE, reach_of(r, stream));
    }
    r->streams.contexts[MEND_OWN_CONTEXT] = r->info.context;
    EXPECT_INT_EQ(MEND_DRIVER_OK, r->device->device_close(r->device, 1));
}
