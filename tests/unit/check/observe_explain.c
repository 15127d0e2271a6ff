/*
 * The explanation: pools made by hand, with known places and owners of memory that is not live.
 */
#include "lab/heap/explain.h"

#include "pool/pool.h"
#include "tests/support/kit.h"

enum { LARGE = MEND_ZONE_LARGE };

static mend_explanation explain(mend_world *w, mend_stream asking)
{
    mend_explanation e;
    EXPECT_OK(mend_pool_explain(w->pool, asking, &e));
    return e;
}

/* Low pressure: blocks share chunks of 1 MiB. */
KIT_SET_TEST(observe_explain, tells_what_waits_and_for_whom,
             w->sim_config.memory_bytes = 256 * MEND_MIB)
{
    void *keep = kit_alloc(w, 256 * MEND_KIB, S(0));
    void *first = kit_alloc(w, 256 * MEND_KIB, S(0));
    void *second = kit_alloc(w, 512 * MEND_KIB, S(1));
    kit_free(w, first, S(0));
    kit_free(w, second, S(1));
    mend_explanation e = explain(w, S(0));
    EXPECT_U64_EQ(256 * MEND_KIB, e.free_bytes[LARGE][MEND_FREE_EDGE][MEND_FREE_OWN]);
    EXPECT_U64_EQ(512 * MEND_KIB, e.free_bytes[LARGE][MEND_FREE_EDGE][MEND_FREE_STREAMS]);
    EXPECT_U64_EQ(256 * MEND_KIB, e.usable_bytes);
    e = explain(w, S(1));
    EXPECT_U64_EQ(512 * MEND_KIB, e.free_bytes[LARGE][MEND_FREE_EDGE][MEND_FREE_OWN]);
    EXPECT_U64_EQ(256 * MEND_KIB, e.free_bytes[LARGE][MEND_FREE_EDGE][MEND_FREE_STREAMS]);
    EXPECT_U64_EQ(512 * MEND_KIB, e.usable_bytes);
    /* A stream the pool has never seen owns nothing. */
    e = explain(w, NULL);
    EXPECT_U64_EQ(768 * MEND_KIB, e.free_bytes[LARGE][MEND_FREE_EDGE][MEND_FREE_STREAMS]);
    EXPECT_U64_EQ(0, e.usable_bytes);
    mend_sim_advance(w->sim, 1);
    EXPECT_OK(mend_trim(w->pool, UINT64_MAX, MEND_TRIM_IDLE, NULL));
    e = explain(w, S(0));
    EXPECT_U64_EQ(768 * MEND_KIB, e.free_bytes[LARGE][MEND_FREE_EDGE][MEND_FREE_IDLE]);
    EXPECT_U64_EQ(768 * MEND_KIB, e.usable_bytes);
    kit_free(w, keep, MEND_NO_STREAM);
    e = explain(w, S(0));
    /* One part of the chunk waits: it cannot be moved as long. */
    EXPECT_U64_EQ(MEND_MIB, e.free_bytes[LARGE][MEND_FREE_EMPTY][MEND_FREE_STREAMLESS]);
}
