/* Recording an event releases the pool's lock: the possible events meanwhile, and the
 * conditions. */
#include <pthread.h>

#include "tests/unit/memory/stream_rig.h"

/* A record that lasts: in its middle, others go on. */
static stream_rig *recording;
static mend_status (*real_record)(const mend_driver *, mend_event, mend_stream);
static void (*meanwhile)(stream_rig *r);

static mend_status slow_record(const mend_driver *driver, mend_event event, mend_stream stream)
{
    (void)driver;
    mend_status status = real_record(recording->device, event, stream);
    recording->driver.event_record = real_record;
    meanwhile(recording);
    return status;
}

static mend_status lost_record(const mend_driver *driver, mend_event event, mend_stream stream)
{
    (void)slow_record(driver, event, stream);
    return MEND_DRIVER_UNKNOWN;
}

static void slow_down(stream_rig *r, void (*act)(stream_rig *r), bool is_lost)
{
    recording = r;
    real_record = r->device->event_record;
    meanwhile = act;
    r->driver.event_record = is_lost ? lost_record : slow_record;
}

static void wait_for_context(stream_rig *r)
{
    EXPECT_RESULT(MEND_OK, mend_streams_wait_context(&r->streams, r->second));
}

#define RECORD_TEST(suite, name)                                                                   \
    KIT_CASE(suite, name, stream_rig, r, stream_rig_open(r), stream_rig_close(r))

/* The wait covers the same as the event, and memory freed after it is not idle by it. */
KIT_RIG_EACH(physical_record, a_wait_for_the_context_during_a_record_covers_it, int, is_lost, 2,
             stream_rig, r, stream_rig_open(r), stream_rig_close(r))
{
    mend_stamp early = stream_rig_work_and_free(r, r->first, SHORT_NS);
    slow_down(r, wait_for_context, is_lost);
    mend_streams_close_epoch(&r->streams, r->first);
    EXPECT_TRUE(mend_stamp_has_passed(&r->streams, early));
    EXPECT_U64_EQ(0, r->streams.items[r->first].fence_count);
    mend_stamp late = stream_rig_work_and_free(r, r->first, SHORT_NS);
    EXPECT_FALSE(mend_stamp_has_passed(&r->streams, late));
}

static void forget_and_replace(stream_rig *r)
{
    EXPECT_RESULT(MEND_OK, mend_streams_forget(&r->streams, r->first));
    EXPECT_TRUE(stream_rig_find(r, stream_rig_create(r), 0) != r->first);
}

RECORD_TEST(physical_record, a_slot_stays_while_an_event_is_recorded_for_it)
{
    mend_stamp stamp = stream_rig_work_and_free(r, r->first, SHORT_NS);
    slow_down(r, forget_and_replace, false);
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
