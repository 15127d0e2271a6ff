/* A world and two streams in it: for tests of who holds memory that others ask for. */
#ifndef MEND_TESTS_SUPPORT_TWO_STREAMS_H
#define MEND_TESTS_SUPPORT_TWO_STREAMS_H

#include "tests/support/world.h"

typedef struct two_streams {
    mend_world world;
    mend_stream streams[2];
} two_streams;

/* Opens the world that a test has prepared by mend_world_init, and makes the streams. */
bool two_streams_open(two_streams *t);

/* Checks the world, forgets and destroys the streams, and closes it. */
void two_streams_close(two_streams *t);

/* Blocks on one of the streams; what is refused is a failure of the test. */
void *two_streams_alloc(two_streams *t, uint64_t size_bytes, int stream);
void two_streams_free(two_streams *t, void *block, int stream);

#endif
