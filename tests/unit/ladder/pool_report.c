/*
 * The report of an allocation that found no room: its numbers add up, and what it says would help
 * does help, which each test tries.
 */
#include <mend/mend_range.h>
#include <string.h>

#include "tests/support/kit.h"

/* A device of 8 MiB, chunks of 1 MiB, and two streams. */
typedef struct scene {
    mend_world w;
    mend_stream stream;
    mend_stream other;
    mend_shortfall shortfall;
} scene;

static bool open_scene_that(scene *s, uint64_t limit_bytes, int stream_waits, int compacts)
{
    mend_world_init(&s->w);
    s->w.sim_config.memory_bytes = 8 * MEND_MIB;
    s->w.pool_config.limit_bytes = limit_bytes;
    s->w.pool_config.allow_stream_waits = stream_waits;
    s->w.pool_config.compact_when_full = compacts;
    bool is_open = kit_open(&s->w);
    s->stream = s->w.streams[0];
    s->other = s->w.streams[1];
    return is_open;
}

static bool open_scene(scene *s, uint64_t limit_bytes, int stream_waits)
{
    return open_scene_that(s, limit_bytes, stream_waits, 0);
}

#define REPORT_TEST(suite, name, limit_bytes)                                                      \
    KIT_CASE(suite, name, scene, s, open_scene(s, limit_bytes, 0), kit_close(&s->w))

static void *take(scene *s, uint64_t size_bytes)
{
    return kit_alloc(&s->w, size_bytes, s->stream);
}

static void give(scene *s, void *block)
{
    kit_free(&s->w, block, s->stream);
}

/* Is refused with this advice among the words; sums that hold in any situation are checked. */
static void expect_refused_on(scene *s, uint64_t size_bytes, mend_stream stream, const char *advice)
{
    mend_error error = MEND_ERROR_INIT;
    kit_expect_none(&s->w, size_bytes, stream, advice);
    EXPECT_RESULT(MEND_OK, mend_last_error(&error));
    ASSERT_TRUE(error.shortfall != NULL);
    s->shortfall = *error.shortfall;
    const mend_shortfall *f = &s->shortfall;
    mend_stats stats = mend_world_stats(&s->w);
    EXPECT_U64_EQ(sizeof(mend_shortfall), f->struct_size);
    EXPECT_U64_EQ(size_bytes, f->requested_bytes);
    EXPECT_U64_EQ(stats.limit_bytes, f->limit_bytes);
    EXPECT_U64_EQ(stats.reserved_bytes, f->reserved_bytes);
    EXPECT_U64_EQ(stats.live_bytes, f->live_bytes);
    EXPECT_U64_EQ(stats.free_bytes, f->free_empty_bytes + f->free_partial_bytes);
    EXPECT_U64_EQ(stats.free_empty_bytes, f->free_empty_bytes);
    EXPECT_U64_EQ(8 * MEND_MIB, f->device_bytes);
    EXPECT_U64_EQ(8 * MEND_MIB, f->reserved_bytes + f->device_free_bytes + f->device_others_bytes);
    EXPECT_TRUE(strstr(error.message, " 0 bytes") == NULL || f->live_bytes == 0 ||
                f->device_free_bytes == 0);
}

static void expect_refused(scene *s, uint64_t size_bytes, const char *advice)
{
    expect_refused_on(s, size_bytes, s->stream, advice);
}

/* Where others hold memory; and in a capture, when nothing is unmapped. */
KIT_RIG_EACH(pool_report, of_a_range_tells_what_would_fit, int, is_captured, 2, scene, s,
             open_scene(s, is_captured ? 6 * MEND_MIB : 0, 0), kit_close(&s->w))
{
    mend_range *range = NULL;
    mend_error error = MEND_ERROR_INIT;
    EXPECT_OK(mend_range_create(s->w.pool, 8 * MEND_MIB, NULL, &range));
    take(s, 4 * MEND_MIB);
    if (is_captured) {
        kit_begin_capture(&s->w, s->other);
    } else {
        mend_sim_set_foreign_bytes(s->w.sim, 0, 2 * MEND_MIB);
    }
    EXPECT_ERROR(OUT_OF_MEMORY, mend_range_commit(range, 0, 3 * MEND_MIB, s->stream));
    EXPECT_OK(mend_last_error(&error));
    ASSERT_TRUE(error.shortfall != NULL);
    EXPECT_U64_EQ(2 * MEND_MIB, error.shortfall->fitting_bytes);
    EXPECT_OK(mend_range_commit(range, 0, 2 * MEND_MIB, s->stream));
    if (is_captured) {
        mend_sim_graph_destroy(s->w.sim, kit_end_capture(&s->w, s->other));
    }
    EXPECT_OK(mend_range_destroy(range, s->stream));
}

REPORT_TEST(pool_report, tells_what_the_driver_or_the_program_has_to_give, 0)
{
    kit_fail(&s->w, "create", 0, UINT64_MAX, 0);
    expect_refused(s, 3 * MEND_MIB,
                   "The driver refuses memory that it counts as free: free memory, try again, or "
                   "raise the limit of this process (MPS).");
    EXPECT_U64_EQ(0, s->shortfall.holder_address); /* there is none */
    expect_refused(s, 8 * MEND_MIB, "The driver refuses memory that it counts as free");
    mend_sim_clear_faults(s->w.sim);
    void *live = take(s, 5 * MEND_MIB);
    expect_refused(s, 4 * MEND_MIB, "Free memory: nothing else would help.");
    give(s, live);
    take(s, 4 * MEND_MIB);
    expect_refused(s, 8 * MEND_MIB + 1, "The GPU is smaller than the request.");
}
