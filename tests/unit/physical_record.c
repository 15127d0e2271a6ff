/* Recording an event lets go of the pool's lock: what happens meanwhile, and what holds. */
#include <pthread.h>

#include "mend/mend_sim.h"
#include "physical/fence.h"
#include "tests/support/test.h"

enum { SHORT_NS = 100, LONG_NS = 1000 };

typedef struct rig {
    mend_sim *sim;
    mend_driver driver; /* the device's, with a context_synchronize that a test may hook */
    const mend_driver *device;
    mend_device_info info;
    mend_streams streams;
    mend_stream handles[2];
    uint32_t first;
    uint32_t second;
} rig;

static uint32_t find(rig *r, mend_stream handle, uint32_t group)
{
    uint32_t index = 0;
    EXPECT_RESULT(MEND_OK, mend_streams_find(&r->streams, handle, group, &index));
    return index;
}

static bool open_rig(rig *r)
{
    *r = (rig){0};
    mend_sim_config config = MEND_SIM_CONFIG_INIT;
    if (mend_sim_create(&config, &r->sim) != MEND_OK) {
        return false;
    }
    r->device = mend_sim_driver(r->sim);
    r->driver = *r->device;
    EXPECT_INT_EQ(MEND_DRIVER_OK, r->device->device_open(r->device, 0, &r->info));
    EXPECT_INT_EQ(MEND_DRIVER_OK, r->device->context_push(r->device, r->info.context));
    EXPECT_RESULT(MEND_OK, mend_streams_init(&r->streams, &r->driver, r->info.context));
    for (int i = 0; i < 2; i++) {
        EXPECT_RESULT(MEND_OK, mend_sim_stream_create(r->sim, &r->handles[i]));
    }
    r->first = find(r, r->handles[0], 0);
    r->second = find(r, r->handles[1], 0);
    return true;
}

static void close_rig(rig *r)
{
    EXPECT_INT_EQ(MEND_DRIVER_OK, mend_streams_clear(&r->streams));
    EXPECT_INT_EQ(MEND_DRIVER_OK, r->device->context_pop(r->device));
    EXPECT_INT_EQ(MEND_DRIVER_OK, r->device->device_close(r->device, 0));
    EXPECT_STR_EQ("", mend_sim_first_violation(r->sim));
    mend_sim_destroy(r->sim);
}

/* Queues so much work on a stream, and frees something behind it. */
static mend_stamp work_and_free(rig *r, uint32_t stream, uint64_t duration_ns)
{
    mend_kernel spin = {.kind = MEND_KERNEL_SPIN, .duration_ns = duration_ns};
    mend_stream handle = r->streams.items[stream].handle;
    EXPECT_INT_EQ(MEND_DRIVER_OK, r->device->launch(r->device, handle, &spin));
    return mend_streams_stamp(&r->streams, stream, 1);
}

static mend_stamp work_and_close(rig *r, uint32_t stream, uint64_t duration_ns)
{
    mend_stamp stamp = work_and_free(r, stream, duration_ns);
    EXPECT_RESULT(MEND_OK, mend_streams_close_epoch(&r->streams, stream));
    return stamp;
}

/* A record that lasts: in its middle, others go on. */
static rig *recording;
static mend_status (*real_record)(const mend_driver *, mend_event, mend_stream);
static void (*meanwhile)(rig *r);

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

static void slow_down(rig *r, void (*act)(rig *r), bool is_lost)
{
    recording = r;
    real_record = r->device->event_record;
    meanwhile = act;
    r->driver.event_record = is_lost ? lost_record : slow_record;
}

static void free_and_close(rig *r)
{
    work_and_close(r, r->first, SHORT_NS);
}

static void free_more(rig *r)
{
    work_and_free(r, r->first, SHORT_NS);
}

static void make_many_streams(rig *r)
{
    for (int i = 0; i < 40; i++) {
        mend_stream stream = NULL;
        EXPECT_RESULT(MEND_OK, mend_sim_stream_create(r->sim, &stream));
        find(r, stream, 0);
    }
}

static void wait_for_context(rig *r)
{
    EXPECT_RESULT(MEND_OK, mend_streams_wait_context(&r->streams, r->second));
}

/* Fences stay in the order of their epochs, and the later one serves for both. */
MEND_TEST(physical_record, one_recorded_while_another_is_comes_to_the_same)
{
    rig r;
    ASSERT_TRUE(open_rig(&r));
    mend_stamp early = work_and_free(&r, r.first, SHORT_NS);
    slow_down(&r, free_and_close, false);
    EXPECT_RESULT(MEND_OK, mend_streams_close_epoch(&r.streams, r.first));
    const mend_stream_state *state = &r.streams.items[r.first];
    EXPECT_U64_EQ(1, state->fence_count);
    EXPECT_TRUE(state->fences[0].epoch > early.epoch);
    EXPECT_U64_EQ(0, state->recordings);
    EXPECT_U64_EQ(0, state->calls);
    EXPECT_U64_EQ(1, r.streams.spare_count);
    mend_sim_advance(r.sim, LONG_NS);
    EXPECT_TRUE(mend_streams_poll(&r.streams));
    EXPECT_TRUE(mend_stamp_has_passed(&r.streams, early));
    close_rig(&r);
}

MEND_TEST(physical_record, what_is_freed_during_a_record_is_of_the_next_epoch)
{
    for (int is_lost = 0; is_lost < 2; is_lost++) {
        rig r;
        ASSERT_TRUE(open_rig(&r));
        mend_stamp early = work_and_free(&r, r.first, SHORT_NS);
        slow_down(&r, free_more, is_lost);
        EXPECT_RESULT(is_lost ? MEND_ERROR_DRIVER : MEND_OK,
                      mend_streams_close_epoch(&r.streams, r.first));
        const mend_stream_state *state = &r.streams.items[r.first];
        mend_stamp late = {.epoch = state->open_epoch, .stream = r.first};
        EXPECT_TRUE(state->open);
        EXPECT_TRUE(late.epoch > early.epoch);
        EXPECT_INT_EQ(!is_lost, mend_stamp_has_fence(&r.streams, early));
        EXPECT_FALSE(mend_stamp_has_fence(&r.streams, late));
        EXPECT_RESULT(MEND_OK, mend_streams_close_epoch(&r.streams, r.first));
        EXPECT_TRUE(mend_stamp_has_fence(&r.streams, early));
        EXPECT_TRUE(mend_stamp_has_fence(&r.streams, late));
        close_rig(&r);
    }
}

/* A record that failed changes nothing, where nothing happened meanwhile. */
MEND_TEST(physical_record, a_record_that_fails_leaves_the_epoch_open)
{
    rig r;
    ASSERT_TRUE(open_rig(&r));
    mend_stamp stamp = work_and_free(&r, r.first, SHORT_NS);
    slow_down(&r, make_many_streams, true);
    EXPECT_RESULT(MEND_ERROR_DRIVER, mend_streams_close_epoch(&r.streams, r.first));
    const mend_stream_state *state = &r.streams.items[r.first];
    EXPECT_U64_EQ(stamp.epoch, state->open_epoch);
    EXPECT_U64_EQ(1, state->open_bytes);
    EXPECT_TRUE(state->open);
    EXPECT_U64_EQ(0, state->recordings);
    close_rig(&r);
}

/* The wait covers what the event would, and what is freed after it is not idle by it. */
MEND_TEST(physical_record, a_wait_for_the_context_during_a_record_covers_it)
{
    for (int is_lost = 0; is_lost < 2; is_lost++) {
        rig r;
        ASSERT_TRUE(open_rig(&r));
        mend_stamp early = work_and_free(&r, r.first, SHORT_NS);
        slow_down(&r, wait_for_context, is_lost);
        mend_streams_close_epoch(&r.streams, r.first);
        EXPECT_TRUE(mend_stamp_has_passed(&r.streams, early));
        EXPECT_U64_EQ(0, r.streams.items[r.first].fence_count);
        mend_stamp late = work_and_free(&r, r.first, SHORT_NS);
        EXPECT_FALSE(mend_stamp_has_passed(&r.streams, late));
        close_rig(&r);
    }
}

static void forget_and_replace(rig *r)
{
    EXPECT_RESULT(MEND_OK, mend_streams_forget(&r->streams, r->first));
    uint32_t third;
    mend_stream stream = NULL;
    EXPECT_RESULT(MEND_OK, mend_sim_stream_create(r->sim, &stream));
    third = find(r, stream, 0);
    EXPECT_TRUE(third != r->first);
}

MEND_TEST(physical_record, a_slot_stays_while_an_event_is_recorded_for_it)
{
    rig r;
    ASSERT_TRUE(open_rig(&r));
    mend_stamp stamp = work_and_free(&r, r.first, SHORT_NS);
    slow_down(&r, forget_and_replace, false);
    EXPECT_RESULT(MEND_OK, mend_streams_close_epoch(&r.streams, r.first));
    EXPECT_TRUE(mend_stamp_has_fence(&r.streams, stamp));
    close_rig(&r);
}

typedef struct caller {
    rig *r;
    mend_mutex *lock;
    bool has_ended;
} caller;

static void *end_the_call(void *argument)
{
    caller *c = argument;
    mend_mutex_lock(c->lock);
    c->has_ended = true;
    c->r->streams.items[c->r->first].calls = 0;
    mend_condition_wake_all(&c->r->streams.call_ended);
    mend_mutex_unlock(c->lock);
    return NULL;
}

/* A stream is not destroyed under a call that names it. */
MEND_TEST(physical_record, calls_of_other_threads_are_awaited)
{
    rig r;
    mend_mutex lock;
    pthread_t thread;
    ASSERT_TRUE(open_rig(&r));
    mend_mutex_init(&lock, MEND_RANK_POOL);
    caller c = {&r, &lock, false};
    mend_mutex_lock(&lock);
    r.streams.items[r.first].calls = 1;
    ASSERT_INT_EQ(0, pthread_create(&thread, NULL, end_the_call, &c));
    mend_streams_await_calls(&r.streams, r.first, &lock);
    EXPECT_TRUE(c.has_ended);
    mend_mutex_unlock(&lock);
    pthread_join(thread, NULL);
    mend_mutex_destroy(&lock);
    close_rig(&r);
}
