/* What the real driver's files say of streams: who they are, and of which context, in captures and
 * outside. */
#include <string.h>

#include "tests/fake_cuda/found.h"
#include "tests/support/test.h"

OPEN_TEST(streams_have_an_identity)
{
    mend_stream stream = NULL;
    mend_stream_info real;
    mend_stream_info legacy;
    mend_stream_info named;
    mend_stream_info own;
    ASSERT_OK(cuda->stream_create(cuda, &stream));
    EXPECT_OK(cuda->stream_get_info(cuda, stream, &real));
    EXPECT_OK(cuda->stream_get_info(cuda, NULL, &legacy));
    EXPECT_OK(cuda->stream_get_info(cuda, MEND_STREAM_LEGACY, &named));
    EXPECT_U64_EQ(legacy.id, named.id);
    EXPECT_TRUE(real.id != legacy.id);
    EXPECT_PTR_EQ(info.context, real.context);
    EXPECT_INT_EQ(MEND_CAPTURE_NONE, real.capture);
    EXPECT_OK(cuda->stream_get_info(cuda, MEND_STREAM_PER_THREAD, &own));
    EXPECT_TRUE(own.id != legacy.id && own.id != real.id);
    EXPECT_PTR_EQ(info.context, own.context);

    EXPECT_OK(cuda->stream_destroy(cuda, stream));
}

/* The question would be refused in every thread, and spoil the capture. */
OPEN_TEST(a_captured_stream_is_not_asked_who_it_is)
{
    mend_stream stream = NULL;
    mend_stream_info captured;
    uint64_t violations = ledger_of_fake().violations;
    ASSERT_OK(cuda->stream_create(cuda, &stream));
    ASSERT_RESULT(MEND_OK, mend_sim_begin_capture(fake->sim, stream, MEND_SIM_CAPTURE_GLOBAL));
    EXPECT_OK(cuda->stream_get_info(cuda, stream, &captured));
    EXPECT_INT_EQ(MEND_CAPTURE_ACTIVE, captured.capture);
    EXPECT_TRUE(captured.capture_id != 0);
    EXPECT_U64_EQ(0, captured.id);
    EXPECT_PTR_EQ(NULL, captured.context);
    EXPECT_PTR_EQ(NULL, captured.home);
    EXPECT_RESULT(MEND_OK, mend_sim_end_capture(fake->sim, stream, NULL));
    EXPECT_OK(cuda->stream_get_info(cuda, stream, &captured));
    EXPECT_TRUE(captured.id != 0);
    EXPECT_OK(cuda->stream_destroy(cuda, stream));
    EXPECT_U64_EQ(violations, ledger_of_fake().violations);
}

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
    EXPECT_U64_EQ(0, captured.id);
    EXPECT_RESULT(MEND_ERROR_DRIVER, mend_sim_end_capture(fake->sim, b.stream, NULL));
    EXPECT_OK(cuda->stream_destroy(cuda, b.stream));
}

/* The context of a green stream is its own, and that of the device waits for it. */
OPEN_TEST(a_green_stream_is_at_home_in_the_primary_context)
{
    mend_stream green = NULL;
    mend_stream_info found;
    ASSERT_RESULT(MEND_OK, mend_sim_stream_create_green(fake->sim, 1, &green));
    EXPECT_OK(cuda->stream_get_info(cuda, green, &found));
    EXPECT_TRUE(found.context != info.context);
    /* Drivers before CUDA 12.4 have no green contexts: another context is none of ours. */
    EXPECT_PTR_EQ(is_old() ? found.context : info.context, found.home);
    EXPECT_OK(cuda->stream_destroy(cuda, green));
}

/* While a blocking stream is captured, the legacy stream may not be touched. */
OPEN_TEST(the_legacy_stream_looks_captured_beside_a_blocking_one)
{
    mend_stream blocking = NULL;
    mend_stream_info before;
    mend_stream_info legacy;
    mend_stream_info captured;
    EXPECT_OK(cuda->stream_get_info(cuda, NULL, &before));
    EXPECT_INT_EQ(MEND_CAPTURE_NONE, before.capture);
    ASSERT_RESULT(MEND_OK, mend_sim_stream_create_blocking(fake->sim, &blocking));
    ASSERT_RESULT(MEND_OK, mend_sim_begin_capture(fake->sim, blocking, MEND_SIM_CAPTURE_GLOBAL));
    for (int named = 0; named < 2; named++) {
        mend_stream stream = named ? MEND_STREAM_LEGACY : NULL;
        EXPECT_OK(cuda->stream_get_info(cuda, stream, &legacy));
        EXPECT_INT_EQ(MEND_CAPTURE_ACTIVE, legacy.capture);
        EXPECT_U64_EQ(0, legacy.capture_id);
        EXPECT_U64_EQ(before.id, legacy.id);
        EXPECT_PTR_EQ(info.context, legacy.context);
    }
    EXPECT_OK(cuda->stream_get_info(cuda, blocking, &captured));
    EXPECT_INT_EQ(MEND_CAPTURE_ACTIVE, captured.capture);
    EXPECT_TRUE(captured.capture_id != 0);

    /* A capture that was spoilt has no identity any more. */
    EXPECT_INT_EQ(MEND_DRIVER_CAPTURE_UNSUPPORTED, cuda->stream_query(cuda, blocking));
    EXPECT_OK(cuda->stream_get_info(cuda, blocking, &captured));
    EXPECT_INT_EQ(MEND_CAPTURE_INVALIDATED, captured.capture);
    EXPECT_U64_EQ(0, captured.capture_id);
    EXPECT_RESULT(MEND_ERROR_DRIVER, mend_sim_end_capture(fake->sim, blocking, NULL));
    EXPECT_OK(cuda->stream_destroy(cuda, blocking));
}
