/* Recording an event releases the pool's lock: the possible events meanwhile, and the
 * conditions. */
#include <pthread.h>

#include "tests/unit/memory/stream_rig.h"

/* A record that lasts: in its middle, others go on. */
static stream_rig *recording;
static mend_status (*real_record)(const mend_driver *, mend_event, mend_stream);
static void (*meanwhile)(stream_rig *r);

static mend_status record_status; /* OK: as the driver says */

static mend_status slow_record(const mend_driver *driver, mend_event event, mend_stream stream)
{
    (void)driver;
    mend_status status = real_record(recording->device, event, stream);
    recording->driver.event_record = real_record;
    meanwhile(recording);
    return record_status != MEND_DRIVER_OK ? record_status : status;
}

static void slow_down(stream_rig *r, void (*act)(stream_rig *r), mend_status status)
{
    recording = r;
    real_record = r->device->event_record;
    meanwhile = act;
    record_status = status;
    r->driver.event_record = slow_record;
}

static mend_stamp between; /* the last that was freed before a record, or in its middle */

static void wait_for_context(stream_rig *r)
{
    EXPECT_RESULT(MEND_OK, mend_streams_wait_context(&r->streams, r->second));
    EXPECT_TRUE(mend_stamp_has_passed(&r->streams, between));
}

static void record_context(stream_rig *r)
{
    EXPECT_RESULT(MEND_OK, mend_streams_record_context(&r->streams, r->second));
}

static void free_more(stream_rig *r)
{
    between = mend_streams_stamp(&r->streams, r->first, 1);
}

static void free_and_record_more(stream_rig *r)
{
    between = stream_rig_work_and_close(r, r->first, SHORT_NS);
}

static void poll(stream_rig *r)
{
    EXPECT_FALSE(mend_streams_poll(&r->streams));
}

/* What others do in the middle of a record, how that ends, and the bytes of its fence, if there is
 * one. A capture that began meanwhile is no failure. */
static const struct {
    void (*act)(stream_rig *r);
    mend_status status;
    uint64_t bytes;
} ways[] = {
    {wait_for_context, MEND_DRIVER_OK, 0},
    {wait_for_context, MEND_DRIVER_CAPTURE_IMPLICIT, 0},
    {record_context, MEND_DRIVER_CAPTURE_IMPLICIT, 0},
    {free_more, MEND_DRIVER_CAPTURE_IMPLICIT, 0},
    {free_and_record_more, MEND_DRIVER_CAPTURE_UNSUPPORTED, 1},
    {free_and_record_more, MEND_DRIVER_OK, 2}, /* the later event covers both */
    {poll, MEND_DRIVER_OK, 1},
};
enum { WAYS = sizeof(ways) / sizeof(ways[0]) };

#define RECORD_TEST(suite, name)                                                                   \
    KIT_CASE(suite, name, stream_rig, r, stream_rig_open(r), stream_rig_close(r))

/* Whatever it is, frees that come later are behind no event that was recorded before them. */
KIT_RIG_EACH(physical_record, what_others_do_during_a_record_covers_what_it_covers, int, way, WAYS,
             stream_rig, r, stream_rig_open(r), stream_rig_close(r))
{
    const mend_stream_state *state = &r->streams.items[r->first];
    between = stream_rig_work_and_free(r, r->first, SHORT_NS);
    slow_down(r, ways[way].act, ways[way].status);
    EXPECT_RESULT(MEND_OK, mend_streams_close_epoch(&r->streams, r->first));
    ASSERT_INT_EQ(ways[way].bytes > 0, state->fence_count);
    EXPECT_TRUE(ways[way].bytes == 0 ||
                (state->is_unpassed && state->fences[0].bytes == ways[way].bytes));
    mend_stamp late = stream_rig_work_and_free(r, r->first, SHORT_NS);
    EXPECT_FALSE(mend_stamp_has_fence(&r->streams, late));
    EXPECT_FALSE(mend_stamp_has_passed(&r->streams, late));
    EXPECT_RESULT(MEND_OK, mend_streams_close_epoch(&r->streams, r->first));
    mend_sim_advance(r->sim, LONG_NS);
    EXPECT_TRUE(mend_streams_poll(&r->streams));
    EXPECT_TRUE(mend_stamp_has_passed(&r->streams, between));
    EXPECT_TRUE(mend_stamp_has_passed(&r->streams, late));
}

/* For the events that other threads are recording now. */
RECORD_TEST(physical_record, space_is_kept_for_others)
{
    mend_stream_state *state = &r->streams.items[r->first];
    state->recordings = 1;
    do {
        stream_rig_work_and_close(r, r->first, SHORT_NS);
        EXPECT_TRUE(state->fence_count + state->recordings <= state->fence_capacity);
    } while (state->fence_count < 8);
    state->recordings = 0;
}

static void forget_and_replace(stream_rig *r)
{
    EXPECT_RESULT(MEND_OK, mend_streams_forget(&r->streams, r->first));
    EXPECT_TRUE(stream_rig_find(r, stream_rig_create(r), 0) != r->first);
}

RECORD_TEST(physical_record, a_slot_stays_while_an_event_is_recorded_for_it)
{
    mend_stamp stamp = stream_rig_work_and_free(r, r->first, SHORT_NS);
    slow_down(r, forget_and_replace, MEND_DRIVER_OK);
    EXPECT_RESULT(MEND_OK, mend_streams_close_epoch(&r->streams, r->first));
    EXPECT_TRUE(mend_stamp_has_fence(&r->streams, stamp));
}

typedef struct caller {
    stream_rig *r;
    mend_mutex *lock;
    bool has_ended;
} caller;

static void *end_the_call(void *argument)
{
    caller *c = argument;
    mend_mutex_lock(c->lock);
    c->has_ended = true;
    EXPECT_U64_EQ(1, c->r->streams.call_waiters); /* it let go of the lock */
    mend_streams_end_call(&c->r->streams, c->r->first);
    mend_mutex_unlock(c->lock);
    return NULL;
}

/* A stream is not destroyed under a call that names it. */
RECORD_TEST(physical_record, calls_of_other_threads_are_awaited)
{
    mend_mutex lock;
    pthread_t thread;
    mend_mutex_init(&lock, MEND_RANK_POOL);
    caller c = {r, &lock, false};
    mend_mutex_lock(&lock);
    r->streams.items[r->first].calls = 1;
    ASSERT_INT_EQ(0, pthread_create(&thread, NULL, end_the_call, &c));
    mend_streams_await_calls(&r->streams, r->first, &lock);
    EXPECT_TRUE(c.has_ended);
    EXPECT_U64_EQ(0, r->streams.call_waiters);
    mend_mutex_unlock(&lock);
    pthread_join(thread, NULL);
    mend_mutex_destroy(&lock);
}
