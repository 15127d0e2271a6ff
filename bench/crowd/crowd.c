/* One pool with many of one thing: its blocks, and the shared parts of all operations on it. */
#include "crowd/crowd.h"

#include <stdio.h>
#include <stdlib.h>

void mend_crowd_require(bool condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "mend_crowded: %s failed\n", what);
        exit(1);
    }
}

void *mend_crowd_alloc_bytes(const crowd *c, uint64_t size_bytes, mend_stream stream)
{
    void *block = NULL;
    mend_crowd_require(mend_alloc(c->pool, size_bytes, stream, &block) == MEND_OK, "an allocation");
    return block;
}

void mend_crowd_free_on(const crowd *c, void *block, mend_stream stream)
{
    mend_crowd_require(mend_free(c->pool, block, stream) == MEND_OK, "a free");
}

void mend_crowd_take(crowd *c)
{
    uint64_t size_bytes = mend_random_between(&c->random, SMALLEST_BYTES, LARGEST_BYTES);
    c->blocks[c->at] = mend_crowd_alloc_bytes(c, size_bytes, c->streams[0]);
}

void mend_crowd_give(crowd *c)
{
    mend_crowd_free_on(c, c->blocks[c->at], c->streams[0]);
}

void mend_crowd_replace(crowd *c)
{
    mend_crowd_give(c);
    mend_crowd_take(c);
}

void mend_crowd_fill_blocks(crowd *c)
{
    for (c->at = 0; c->at < c->count; c->at++) {
        mend_crowd_take(c);
    }
    for (size_t i = 0; i < c->count; i++) { /* some in another place, and holes between them */
        c->at = mend_random_below(&c->random, c->count);
        mend_crowd_replace(c);
    }
}
