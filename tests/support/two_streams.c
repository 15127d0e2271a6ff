#include "tests/support/two_streams.h"

#include "tests/support/test.h"

bool two_streams_open(two_streams *t)
{
    if (!mend_world_open(&t->world)) {
        return false;
    }
    for (int i = 0; i < 2; i++) {
        EXPECT_RESULT(MEND_OK, mend_sim_stream_create(t->world.sim, &t->streams[i]));
    }
    return !mend_test_has_failed();
}

void two_streams_close(two_streams *t)
{
    mend_world_check(&t->world);
    for (int i = 0; i < 2; i++) {
        EXPECT_RESULT(MEND_OK, mend_forget_stream(t->world.pool, t->streams[i]));
        mend_sim_stream_destroy(t->world.sim, t->streams[i]);
    }
    mend_world_close(&t->world);
}

void *two_streams_alloc(two_streams *t, uint64_t size_bytes, int stream)
{
    void *block = NULL;
    EXPECT_RESULT(MEND_OK, mend_alloc(t->world.pool, size_bytes, t->streams[stream], &block));
    return block;
}

void two_streams_free(two_streams *t, void *block, int stream)
{
    EXPECT_RESULT(MEND_OK, mend_free(t->world.pool, block, t->streams[stream]));
}
