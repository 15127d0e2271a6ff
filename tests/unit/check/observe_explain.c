/*
 * The explanation: pools made by hand, with known places and owners of memory that is not live.
 */
#include "lab/heap/explain.h"

#include "pool/pool.h"
#include "tests/support/kit.h"

enum { LARGE = MEND_ZONE_LARGE, SMALL = MEND_ZONE_SMALL };

/* The conditions of any explanation. */
static void expect_sums(mend_world *w, const mend_explanation *e)
{
    mend_stats stats = mend_world_stats(w);
    EXPECT_FIELDS(*e, reserved_bytes, stats.reserved_bytes, live_bytes, stats.live_bytes);
    EXPECT_U64_EQ(stats.retired_bytes, e->retired_bytes);
    for (int zone = 0; zone < MEND_ZONE_COUNT; zone++) {
        uint64_t by_size = 0;
        uint64_t by_count = 0;
        uint64_t chunks = 0;
        for (size_t i = 0; i < MEND_EXPLAIN_CLASSES; i++) {
            by_size += e->by_owner_size[zone][i].free_bytes;
            chunks += e->by_owner_size[zone][i].chunks;
        }
        for (size_t i = 0; i < MEND_EXPLAIN_OWNER_COUNTS; i++) {
            by_count += e->by_owner_count[zone][i].free_bytes;
            chunks -= e->by_owner_count[zone][i].chunks;
        }
        EXPECT_U64_EQ(mend_explanation_partial_bytes(e, zone), by_size);
        EXPECT_U64_EQ(by_size, by_count);
        EXPECT_U64_EQ(0, chunks);
        EXPECT_TRUE(e->reached_into[zone].free_bytes <= by_size);
    }
    EXPECT_U64_EQ(stats.free_bytes, mend_explanation_free_bytes(e));
    EXPECT_U64_EQ(stats.free_partial_bytes, mend_explanation_partial_bytes(e, LARGE));
    EXPECT_U64_EQ(stats.free_small_bytes, mend_explanation_partial_bytes(e, SMALL));
}

static mend_explanation explain(mend_world *w, mend_stream asking)
{
    mend_explanation e;
    EXPECT_OK(mend_pool_explain(w->pool, asking, &e));
    expect_sums(w, &e);
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
