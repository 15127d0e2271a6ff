/* Streams in the real driver's files: their identity and context, in captures and outside. */
#include <string.h>

#include "driver/cuda_state.h"
#include "tests/fake_cuda/found.h"
#include "tests/support/options.h"
#include "tests/support/test.h"

/* Another thread begins a capture behind the back of the first question. */
typedef struct beginning {
    fake_cuda *fake;
    mend_stream stream;
    bool is_done;
} beginning;

static void begin_after_the_question(void *context, const char *call, int is_after)
{
    beginning *b = context;
    if (strcmp(call, "stream_get_info") == 0 && is_after && !b->is_done) {
        b->is_done = true;
        EXPECT_RESULT(MEND_OK,
                      mend_sim_begin_capture(b->fake->sim, b->stream, MEND_SIM_CAPTURE_GLOBAL));
    }
}

OPEN_TEST(a_capture_that_begins_between_two_questions_is_reported)
{
    mend_stream_info captured;
    beginning b = {.fake = fake};
    ASSERT_OK(cuda->stream_create(cuda, &b.stream));
    mend_sim_set_call_observer(fake->sim, begin_after_the_question, &b);
    EXPECT_OK(cuda->stream_get_info(cuda, b.stream, &captured));
    mend_sim_set_call_observer(fake->sim, NULL, NULL);
    EXPECT_TRUE(b.is_done);
    EXPECT_INT_EQ(MEND_CAPTURE_INVALIDATED, captured.capture); /* no driver lets that be helped */
    EXPECT_U64_EQ(0, captured.id + captured.capture_id);
    EXPECT_RESULT(MEND_ERROR_DRIVER, mend_sim_end_capture(fake->sim, b.stream, NULL));
    EXPECT_OK(cuda->stream_destroy(cuda, b.stream));
}

static mend_status of_no_green_context(mend_stream stream, mend_cu_green_context *green)
{
    (void)stream;
    *green = NULL;
    return MEND_DRIVER_OK;
}

/* The context of a green stream is its own, and the device's context waits for it. */
OPEN_TEST(a_green_stream_is_at_home_in_the_primary_context)
{
    mend_stream green = NULL;
    mend_stream_info found;
    ASSERT_RESULT(MEND_OK,
                  mend_sim_stream_create(fake->sim,
                                         KIT_OPTIONS(mend_sim_stream_options, .green = 1), &green));
    EXPECT_OK(cuda->stream_get_info(cuda, green, &found));
    EXPECT_TRUE(found.context != info.context);
    /* Drivers before CUDA 12.4 have no green contexts: another context is none of ours. */
    EXPECT_PTR_EQ(is_old() ? found.context : info.context, found.home);
    mend_cuda *state = mend_cuda_of(cuda);
    const mend_cu_functions all = state->functions;
    state->functions.cuStreamGetGreenCtx = of_no_green_context;
    EXPECT_OK(cuda->stream_get_info(cuda, green, &found));
    EXPECT_PTR_EQ(found.context, found.home); /* nor is that of the program's own one */
    state->functions = all;
    EXPECT_OK(cuda->stream_get_info(cuda, NULL, &found));
    EXPECT_PTR_EQ(info.context, found.context); /* current as before */
    EXPECT_TRUE(found.id >> 63 != 0);           /* no number that the driver gives */
    EXPECT_OK(cuda->stream_destroy(cuda, green));
}

/* Node 1 is recorded on one stream, 2 and 3 on the other. 3 waits for 1, 4 and 5 come behind,
 * and 6 twice behind 4. */
OPEN_TEST(the_order_of_two_captured_streams_is_that_of_the_graph)
{
    static const uintptr_t after[][2] = {{0, 0}, {0, 0}, {0, 0}, {2, 1}, {3, 0}, {4, 0}, {4, 5}};
    static const struct {
        uintptr_t ends[2];
        uintptr_t of_before[2];
        bool is_behind;
    } cases[] = {
        {{1, 2}, {1, 0}, true},  {{3, 0}, {1, 0}, true},  {{5, 0}, {1, 0}, true},
        {{2, 0}, {1, 0}, false}, {{3, 0}, {5, 0}, false}, {{5, 0}, {1, 2}, true},
        {{2, 0}, {1, 2}, false}, {{2, 0}, {0, 0}, true},  {{6, 0}, {4, 7}, false},
    };
    fake_cuda_order order = {.after = after};
    bool is_behind = true;
    ASSERT_OK(cuda->stream_create(cuda, &order.streams[0]));
    ASSERT_OK(cuda->stream_create(cuda, &order.streams[1]));
    fake->switches.order = &order;
    EXPECT_OK(cuda->stream_is_behind(cuda, order.streams[0], order.streams[1], &is_behind));
    EXPECT_FALSE(is_behind); /* no capture */
    ASSERT_RESULT(MEND_OK,
                  mend_sim_begin_capture(fake->sim, order.streams[0], MEND_SIM_CAPTURE_GLOBAL));
    EXPECT_OK(cuda->stream_is_behind(cuda, order.streams[0], order.streams[1], &is_behind));
    EXPECT_FALSE(is_behind); /* one of them */
    ASSERT_RESULT(MEND_OK,
                  mend_sim_begin_capture(fake->sim, order.streams[1], MEND_SIM_CAPTURE_GLOBAL));
    EXPECT_OK(cuda->stream_is_behind(cuda, order.streams[0], order.streams[1], &is_behind));
    EXPECT_FALSE(is_behind); /* each is in a capture of its own */
    EXPECT_RESULT(MEND_OK, mend_sim_end_capture(fake->sim, order.streams[1], NULL));
    ASSERT_RESULT(MEND_OK, mend_sim_stream_wait(fake->sim, order.streams[1], order.streams[0]));
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        memcpy(order.ends[0], cases[i].ends, sizeof(order.ends[0]));
        memcpy(order.ends[1], cases[i].of_before, sizeof(order.ends[1]));
        EXPECT_OK(cuda->stream_is_behind(cuda, order.streams[0], order.streams[1], &is_behind));
        EXPECT_INT_EQ(cases[i].is_behind, is_behind);
    }
    EXPECT_RESULT(MEND_OK, mend_sim_end_capture(fake->sim, order.streams[0], NULL));
    EXPECT_OK(cuda->stream_destroy(cuda, order.streams[0]));
    EXPECT_OK(cuda->stream_destroy(cuda, order.streams[1]));
}

static mend_cu_graph_node many[65];
static size_t many_count;

static mend_status come_after_many(mend_stream stream, mend_cu_capture_status *capture,
                                   mend_cu_id *id, mend_cu_graph *graph,
                                   const mend_cu_graph_node **nodes, size_t *count)
{
    (void)graph;
    *capture = MEND_CAPTURE_ACTIVE;
    *id = 1;
    *nodes = stream == NULL ? many : many + 1;
    *count = many_count;
    return MEND_DRIVER_OK;
}

static mend_status come_after_the_next(mend_cu_graph_node node, mend_cu_graph_node *before,
                                       size_t *count)
{
    *before = (mend_cu_graph_node)((uintptr_t)node + 1);
    *count = 1;
    return MEND_DRIVER_OK;
}

/* Of a longer list of predecessors nothing is read, and of a longer chain no end is sought. */
OPEN_TEST(a_stream_that_comes_after_too_many_others_is_behind_none)
{
    bool is_behind = false;
    mend_cuda *state = mend_cuda_of(cuda);
    const mend_cu_functions all = state->functions;
    state->functions.cuStreamGetCaptureInfo = come_after_many;
    for (many_count = 0; many_count < 65; many_count++) {
        many[many_count] = (mend_cu_graph_node)(many_count + 1);
        EXPECT_OK(cuda->stream_is_behind(cuda, NULL, NULL, &is_behind));
        EXPECT_TRUE(is_behind);
    }
    EXPECT_OK(cuda->stream_is_behind(cuda, NULL, NULL, &is_behind));
    EXPECT_FALSE(is_behind);
    state->functions.cuGraphNodeGetDependencies = come_after_the_next;
    many_count = 1;
    for (uintptr_t node = 1023; node <= 1025; node++) {
        many[1] = (mend_cu_graph_node)node;
        EXPECT_OK(cuda->stream_is_behind(cuda, NULL, MEND_STREAM_LEGACY, &is_behind));
        EXPECT_INT_EQ(node <= 1024, is_behind);
    }
    state->functions = all;
}
