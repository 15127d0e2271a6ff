/*
 * The explanation: pools made by hand, of which it is known where memory is that is not live, and
 * who holds it; and sums that are exact whatever happens.
 */
#include "lab/heap/explain.h"

#include "pool/pool.h"
#include "tests/support/child.h"
#include "tests/support/kit.h"

enum { LARGE = MEND_ZONE_LARGE, SMALL = MEND_ZONE_SMALL };

/* Pages of 64 KiB, chunks of 1 MiB, small requests up to 32 KiB, and two streams. */
static bool open_scene(mend_world *w)
{
    mend_world_init(w);
    w->sim_config.memory_bytes = 256 * MEND_MIB; /* low pressure: blocks share chunks of 1 MiB */
    return kit_open(w);
}

/* Lets all work end, and the pool see it. */
static void settle(mend_world *w)
{
    mend_sim_advance(w->sim, 1);
    EXPECT_OK(mend_trim(w->pool, UINT64_MAX, MEND_TRIM_IDLE, NULL));
}

/* What must hold of any explanation. */
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
            by_size += e->by_holder_size[zone][i].free_bytes;
            chunks += e->by_holder_size[zone][i].chunks;
        }
        for (size_t i = 0; i < MEND_EXPLAIN_HOLDER_COUNTS; i++) {
            by_count += e->by_holder_count[zone][i].free_bytes;
            chunks -= e->by_holder_count[zone][i].chunks;
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

static mend_explanation explain_for(mend_world *w, mend_stream asking)
{
    mend_explanation e;
    EXPECT_OK(mend_pool_explain(w->pool, asking, &e));
    expect_sums(w, &e);
    return e;
}

static mend_explanation explain(mend_world *w, int stream)
{
    return explain_for(w, S(stream));
}

static bool is_not_explained(void *pool)
{
    mend_explanation e;
    return mend_pool_explain(pool, NULL, &e) == MEND_ERROR_FORKED;
}

KIT_TEST_IN(observe_explain, a_child_of_fork_sees_nothing_of_what_it_inherited, open_scene(w))
{
    EXPECT_TRUE(mend_test_holds_in_a_child(is_not_explained, w->pool));
}

KIT_TEST_IN(observe_explain, tells_what_waits_and_for_whom, open_scene(w))
{
    void *keep = kit_alloc(w, 256 * MEND_KIB, S(0));
    void *first = kit_alloc(w, 256 * MEND_KIB, S(0));
    void *second = kit_alloc(w, 512 * MEND_KIB, S(1));
    kit_free(w, first, S(0));
    kit_free(w, second, S(1));
    mend_explanation e = explain(w, 0);
    EXPECT_U64_EQ(256 * MEND_KIB, e.free_bytes[LARGE][MEND_FREE_EDGE][MEND_FREE_OWN]);
    EXPECT_U64_EQ(512 * MEND_KIB, e.free_bytes[LARGE][MEND_FREE_EDGE][MEND_FREE_STREAMS]);
    EXPECT_U64_EQ(256 * MEND_KIB, e.usable_bytes);
    e = explain(w, 1);
    EXPECT_U64_EQ(512 * MEND_KIB, e.free_bytes[LARGE][MEND_FREE_EDGE][MEND_FREE_OWN]);
    EXPECT_U64_EQ(256 * MEND_KIB, e.free_bytes[LARGE][MEND_FREE_EDGE][MEND_FREE_STREAMS]);
    EXPECT_U64_EQ(512 * MEND_KIB, e.usable_bytes);
    /* A stream the pool has never seen owns nothing. */
    e = explain_for(w, NULL);
    EXPECT_U64_EQ(768 * MEND_KIB, e.free_bytes[LARGE][MEND_FREE_EDGE][MEND_FREE_STREAMS]);
    EXPECT_U64_EQ(0, e.usable_bytes);
    settle(w);
    e = explain(w, 0);
    EXPECT_U64_EQ(768 * MEND_KIB, e.free_bytes[LARGE][MEND_FREE_EDGE][MEND_FREE_IDLE]);
    EXPECT_U64_EQ(768 * MEND_KIB, e.usable_bytes);
    kit_free(w, keep, MEND_NO_STREAM);
    e = explain(w, 0);
    /* One part of the chunk waits: it cannot be moved as long. */
    EXPECT_U64_EQ(MEND_MIB, e.free_bytes[LARGE][MEND_FREE_EMPTY][MEND_FREE_STREAMLESS]);
}

KIT_TEST_IN(observe_explain, knows_what_graphs_hold, open_scene(w))
{
    mend_group *group = kit_group(w);
    EXPECT_OK(mend_group_begin(group, S(0)));
    kit_free(w, kit_alloc(w, 256 * MEND_KIB, S(0)), S(0));
    EXPECT_OK(mend_group_end(group));
    mend_explanation e = explain(w, 0);
    EXPECT_U64_EQ(MEND_MIB, e.free_bytes[LARGE][MEND_FREE_EMPTY][MEND_FREE_GROUPS]);
    EXPECT_U64_EQ(768 * MEND_KIB, e.usable_bytes);
    EXPECT_OK(mend_group_destroy(group, S(0)));
    settle(w);
    e = explain(w, 0);
    EXPECT_U64_EQ(MEND_MIB, e.free_bytes[LARGE][MEND_FREE_EMPTY][MEND_FREE_IDLE]);
}

KIT_TEST_IN(observe_explain, sees_blocks_that_reach_into_a_chunk, open_scene(w))
{
    void *inside[2] = {kit_alloc(w, 448 * MEND_KIB, S(0)), kit_alloc(w, 448 * MEND_KIB, S(0))};
    void *across = kit_alloc(w, 448 * MEND_KIB, S(0)); /* 128 KiB here, 320 KiB in a second chunk */
    mend_explanation e = explain(w, 0);
    EXPECT_FIELDS(e.reached_into[LARGE], chunks, 1, free_bytes, 704 * MEND_KIB);
    ASSERT_U64_EQ(1, e.emptiest_count);
    EXPECT_FIELDS(e.emptiest[0], holder_address, (uintptr_t)across, holder_bytes, 448 * MEND_KIB);
    EXPECT_FIELDS(e.emptiest[0], held_bytes, 320 * MEND_KIB, size_bytes, MEND_MIB, holders, 1);
    kit_free(w, inside[0], S(0));
    kit_free(w, inside[1], S(0));
    e = explain(w, 0);
    EXPECT_U64_EQ(2, e.reached_into[LARGE].chunks);
    EXPECT_FIELDS(e.by_holder_size[LARGE][0], chunks, 2, free_bytes, 1600 * MEND_KIB);
    EXPECT_U64_EQ(2, e.emptiest_count);
    EXPECT_U64_EQ(896 * MEND_KIB, e.emptiest[0].free_bytes);
}

KIT_TEST_IN(observe_explain, lists_the_emptiest_chunks_the_emptiest_first, open_scene(w))
{
    enum { CHUNKS = 12 };
    void *rest[CHUNKS];
    for (uint64_t i = 0; i < CHUNKS; i++) {
        uint64_t kept_bytes = (2 + i * 5 % CHUNKS) * 32 * MEND_KIB;
        kit_alloc(w, kept_bytes, S(0));
        rest[i] = kit_alloc(w, MEND_MIB - kept_bytes, S(0));
    }
    kit_free_row(w, rest, CHUNKS, S(0));
    mend_explanation e = explain(w, 0);
    ASSERT_U64_EQ(MEND_EXPLAIN_EMPTIEST, e.emptiest_count);
    for (uint64_t i = 0; i < MEND_EXPLAIN_EMPTIEST; i++) {
        EXPECT_U64_EQ(MEND_MIB - (2 + i) * 32 * MEND_KIB, e.emptiest[i].free_bytes);
        EXPECT_U64_EQ((2 + i) * 32 * MEND_KIB, e.emptiest[i].holder_bytes);
    }
    EXPECT_U64_EQ(CHUNKS, e.by_holder_count[LARGE][0].chunks);
}

/* The device takes nothing back: chunks that were made for nothing stay, mapped nowhere. */
KIT_TEST_IN(observe_explain, counts_chunks_mapped_nowhere, open_scene(w))
{
    kit_fail(w, "map", 0, UINT64_MAX, 0);
    kit_fail(w, "release", 0, UINT64_MAX, 0);
    kit_expect_none(w, MEND_MIB, S(0), "");
    mend_explanation e = explain(w, 0);
    EXPECT_TRUE(e.reserved_bytes > 0);
    EXPECT_U64_EQ(e.reserved_bytes, e.unmapped_bytes);
    mend_sim_clear_faults(w->sim);
}

MEND_TEST(observe_explain, classes_of_sizes_are_bounded_as_they_say)
{
    EXPECT_U64_EQ(0, mend_explain_class(512));
    EXPECT_U64_EQ(0, mend_explain_class(MEND_MIB));
    EXPECT_U64_EQ(1, mend_explain_class(MEND_MIB + 512));
    EXPECT_U64_EQ(MEND_EXPLAIN_CLASSES - 1, mend_explain_class(UINT64_MAX));
    for (size_t i = 0; i + 1 < MEND_EXPLAIN_CLASSES; i++) {
        EXPECT_U64_EQ(i, mend_explain_class(mend_explain_class_bytes(i)));
        EXPECT_U64_EQ(i + 1, mend_explain_class(mend_explain_class_bytes(i) + 1));
    }
    EXPECT_U64_EQ(UINT64_MAX, mend_explain_class_bytes(MEND_EXPLAIN_CLASSES - 1));
}

KIT_TEST_IN(observe_explain, sums_are_exact_at_every_moment, open_scene(w))
{
    enum { BLOCKS = 48, STEPS = 1500 };
    void *blocks[BLOCKS] = {NULL};
    mend_test_random random;
    mend_test_random_init(&random, mend_test_seed());
    for (int step = 0; step < STEPS && !mend_test_has_failed(); step++) {
        uint64_t i = mend_test_random_below(&random, BLOCKS);
        int stream = (int)mend_test_random_below(&random, 2);
        if (blocks[i] != NULL) {
            bool is_known = mend_test_random_below(&random, 16) > 0;
            kit_free(w, blocks[i], is_known ? S(stream) : MEND_NO_STREAM);
            blocks[i] = NULL;
        } else {
            uint64_t size_bytes = 1 + mend_test_random_below(&random, UINT64_C(1) << (9 + i % 13));
            mend_result result = mend_alloc(w->pool, size_bytes, S(stream), &blocks[i]);
            EXPECT_TRUE(result == MEND_OK || result == MEND_ERROR_OUT_OF_MEMORY);
        }
        if (mend_test_random_below(&random, 64) == 0) {
            EXPECT_OK(mend_trim(w->pool, 8 * MEND_MIB, MEND_TRIM_IDLE, NULL));
        }
        explain(w, stream);
    }
}
