/* Which slot a handle means, where streams are captured and nobody may ask who they are. */
#include "physical/stream.h"

#include "mend/mend_sim.h"
#include "physical/capture.h"
#include "tests/support/test.h"

typedef struct rig {
    mend_sim *sim;
    const mend_driver *driver;
    mend_device_info info;
    mend_streams streams;
    mend_stream handle;
} rig;

static bool open_rig(rig *r, bool verify)
{
    *r = (rig){0};
    mend_sim_config config = MEND_SIM_CONFIG_INIT;
    config.device_count = 2;
    if (mend_sim_create(&config, &r->sim) != MEND_OK) {
        return false;
    }
    r->driver = mend_sim_driver(r->sim);
    EXPECT_INT_EQ(MEND_DRIVER_OK, r->driver->device_open(r->driver, 0, &r->info));
    EXPECT_INT_EQ(MEND_DRIVER_OK, r->driver->context_push(r->driver, r->info.context));
    EXPECT_RESULT(MEND_OK, mend_streams_init(&r->streams, r->driver, r->info.context));
    r->streams.verify = verify;
    EXPECT_RESULT(MEND_OK, mend_sim_stream_create(r->sim, &r->handle));
    return true;
}

static void close_rig(rig *r)
{
    EXPECT_INT_EQ(MEND_DRIVER_OK, mend_streams_clear(&r->streams));
    EXPECT_INT_EQ(MEND_DRIVER_OK, r->driver->context_pop(r->driver));
    EXPECT_INT_EQ(MEND_DRIVER_OK, r->driver->device_close(r->driver, 0));
    EXPECT_STR_EQ("", mend_sim_first_violation(r->sim));
    mend_sim_destroy(r->sim);
}

static uint32_t find(rig *r, uint32_t group)
{
    uint32_t index = 0;
    EXPECT_RESULT(MEND_OK, mend_streams_find(&r->streams, r->handle, group, &index));
    return index;
}

static void begin(rig *r)
{
    EXPECT_RESULT(MEND_OK, mend_sim_begin_capture(r->sim, r->handle, MEND_SIM_CAPTURE_GLOBAL));
}

static void end(rig *r)
{
    EXPECT_RESULT(MEND_OK, mend_sim_end_capture(r->sim, r->handle, NULL));
}

/* The program ends the stream, and makes another: the handle is the same. */
static void vanish(rig *r)
{
    mend_stream former = r->handle;
    EXPECT_RESULT(MEND_OK, mend_sim_stream_destroy(r->sim, r->handle));
    EXPECT_RESULT(MEND_OK, mend_sim_stream_create(r->sim, &r->handle));
    EXPECT_PTR_EQ(former, r->handle);
}

static mend_reach reach_of(rig *r, uint32_t stream)
{
    mend_reach reach = MEND_REACH_GONE;
    EXPECT_RESULT(MEND_OK, mend_streams_reach(&r->streams, stream, &reach));
    return reach;
}

MEND_TEST(physical_stream, one_met_in_a_capture_is_learned_after_it)
{
    rig r;
    ASSERT_TRUE(open_rig(&r, false));
    begin(&r);
    uint32_t stream = find(&r, 0);
    const mend_stream_state *state = &r.streams.items[stream];
    EXPECT_U64_EQ(0, state->id);
    EXPECT_PTR_EQ(NULL, state->context);
    EXPECT_INT_EQ(MEND_REACH_CAPTURED, reach_of(&r, stream));
    EXPECT_U64_EQ(stream, find(&r, 0));
    end(&r);
    EXPECT_INT_EQ(MEND_REACH_OPEN, reach_of(&r, stream));
    EXPECT_TRUE(state->id != 0);
    EXPECT_PTR_EQ(r.info.context, state->context);
    EXPECT_U64_EQ(stream, find(&r, 0));
    close_rig(&r);
}

/* It was taken for one of the pool's; from here on nothing is recorded on it. */
MEND_TEST(physical_stream, one_met_in_a_capture_may_be_of_another_device)
{
    rig r;
    mend_device_info other = {0};
    mend_stream foreign = NULL;
    uint32_t stream = 0;
    ASSERT_TRUE(open_rig(&r, false));
    EXPECT_INT_EQ(MEND_DRIVER_OK, r.driver->device_open(r.driver, 1, &other));
    EXPECT_INT_EQ(MEND_DRIVER_OK, r.driver->context_push(r.driver, other.context));
    EXPECT_INT_EQ(MEND_DRIVER_OK, r.driver->stream_create(r.driver, &foreign));
    EXPECT_INT_EQ(MEND_DRIVER_OK, r.driver->context_pop(r.driver));
    EXPECT_RESULT(MEND_ERROR_UNKNOWN_STREAM, mend_streams_find(&r.streams, foreign, 0, &stream));
    EXPECT_RESULT(MEND_OK, mend_sim_begin_capture(r.sim, foreign, MEND_SIM_CAPTURE_GLOBAL));
    EXPECT_RESULT(MEND_OK, mend_streams_find(&r.streams, foreign, 0, &stream));
    EXPECT_RESULT(MEND_OK, mend_sim_end_capture(r.sim, foreign, NULL));
    EXPECT_INT_EQ(MEND_REACH_GONE, reach_of(&r, stream));
    EXPECT_INT_EQ(MEND_DRIVER_OK, r.driver->device_close(r.driver, 1));
    close_rig(&r);
}

MEND_TEST(physical_stream, a_handle_in_one_capture_is_one_stream)
{
    rig r;
    ASSERT_TRUE(open_rig(&r, true));
    begin(&r);
    uint32_t stream = find(&r, 0);
    EXPECT_U64_EQ(stream, find(&r, 0));
    uint32_t in_group = find(&r, 7);
    EXPECT_TRUE(stream != in_group);
    EXPECT_U64_EQ(in_group, find(&r, 7));
    EXPECT_U64_EQ(stream, find(&r, 0));
    end(&r);
    close_rig(&r);
}

MEND_TEST(physical_stream, a_handle_in_another_capture_may_be_another_stream)
{
    for (int vanishes = 0; vanishes < 2; vanishes++) {
        rig r;
        ASSERT_TRUE(open_rig(&r, true));
        begin(&r);
        uint32_t first = find(&r, 0);
        end(&r);
        if (vanishes) {
            vanish(&r);
        }
        begin(&r);
        EXPECT_TRUE(first != find(&r, 0));
        EXPECT_FALSE(r.streams.items[first].known);
        EXPECT_TRUE(r.streams.items[first].open); /* kept until the context was waited for */
        end(&r);
        close_rig(&r);
    }
}

MEND_TEST(physical_stream, one_known_before_a_capture_is_told_from_the_one_that_is_captured)
{
    for (int vanishes = 0; vanishes < 2; vanishes++) {
        rig r;
        ASSERT_TRUE(open_rig(&r, true));
        uint32_t before = find(&r, 0);
        if (vanishes) {
            vanish(&r);
        }
        begin(&r);
        uint32_t captured = find(&r, 0);
        EXPECT_TRUE(before != captured);
        EXPECT_TRUE(r.streams.items[before].known);
        end(&r);
        uint32_t after = find(&r, 0);
        EXPECT_INT_EQ(!vanishes, after == before);
        EXPECT_INT_EQ(!vanishes, r.streams.items[captured].is_double);
        EXPECT_INT_EQ(!vanishes, r.streams.items[captured].known);
        EXPECT_TRUE(after != captured);
        close_rig(&r);
    }
}

/* The end of a stream takes its slots of groups along, also those made in captures. */
MEND_TEST(physical_stream, one_that_ends_leaves_the_groups_it_was_captured_for)
{
    rig r;
    ASSERT_TRUE(open_rig(&r, true));
    begin(&r);
    uint32_t in_group = find(&r, 7);
    end(&r);
    uint32_t stream = find(&r, 0);
    mend_streams_leave_groups(&r.streams, r.handle, r.streams.items[stream].id);
    EXPECT_FALSE(r.streams.items[in_group].known);
    EXPECT_FALSE(r.streams.items[in_group].seen_captured);
    close_rig(&r);
}
