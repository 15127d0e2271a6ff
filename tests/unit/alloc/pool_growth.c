/* Waits before growth: before the pool exceeds the program's growth limit, a stream waits for the
 * oldest frees of others. */
#include "tests/support/kit.h"

#define BLOCK_BYTES (4 * MEND_MIB)
#define LONG_NS     UINT64_C(1000000000)

/* ---- how much is held ------------------------------------------------------------------------ */

/* The CPU is ahead: blocks of one stream are freed while another one copies them, as for an
 * offload, and no work ends. */
static uint64_t held_after_an_offload(mend_world *w, int growth_percent)
{
    uint64_t held_bytes = 0;
    mend_world_init(w);
    w->pool_config.growth_percent = growth_percent;
    if (kit_open(w)) {
        for (int i = 0; i < 12; i++) {
            void *block = kit_alloc(w, BLOCK_BYTES, S(0));
            EXPECT_OK(mend_record_stream(w->pool, block, S(1)));
            kit_use(w, S(1), block, BLOCK_BYTES, LONG_NS);
            kit_free(w, block, S(0));
        }
        held_bytes = mend_world_stats(w).reserved_bytes;
        EXPECT_U64_EQ(0, mend_world_stats(w).host_waits);
        kit_close(w);
    }
    return held_bytes;
}

MEND_TEST(pool_growth, ends_at_the_bound_by_waits_on_the_device)
{
    mend_world w;
    EXPECT_U64_EQ(12 * BLOCK_BYTES, held_after_an_offload(&w, 0));
    EXPECT_U64_EQ(2 * BLOCK_BYTES, held_after_an_offload(&w, 250));
    EXPECT_U64_EQ(4 * BLOCK_BYTES, held_after_an_offload(&w, 400));
}

/* A stream waits for what was freed first, and for nothing beside it. */
KIT_EACH(pool_growth, a_stream_waits_for_no_neighbour, int, is_last, 2,
         kit_open_set(w, w->pool_config.growth_percent = 100))
{
    void *row[3];
    kit_free(w, kit_alloc(w, 3 * MEND_MIB, S(0)), S(0));
    kit_alloc_row(w, row, 3, MEND_MIB, S(0));
    for (int i = 0; i < 3; i++) {
        void *block = row[(2 * is_last + i) % 3];
        kit_use(w, S(i != 0), block, MEND_MIB, LONG_NS);
        kit_free(w, block, S(i != 0));
    }
    EXPECT_PTR_EQ(row[2 * is_last], kit_alloc(w, MEND_MIB, S(2)));
    kit_expect_waits(w, 1, 0);
}

/* ---- the soft limit: steps without growth, callbacks, and then it grows all the same --------- */

/* A device of 16 MiB, and a callback that frees nothing. */
typedef struct scene {
    mend_world w;
    int calls;
} scene;

KIT_PRESSURE(hear)
{
    scene *s = context;
    s->calls++;
    return 0;
}

static bool open_scene(scene *s)
{
    mend_world *w = &s->w;
    *s = (scene){.calls = 0};
    return kit_open_set(w, w->sim_config.memory_bytes = 16 * MEND_MIB,
                        w->pool_config.soft_limit_bytes = 4 * MEND_MIB) &&
           mend_add_pressure_callback(w->pool, hear, s) == MEND_OK;
}

#define SOFT_LIMIT_TEST(suite, name)                                                               \
    KIT_CASE(suite, name, scene, s, open_scene(s), kit_close(&s->w))

SOFT_LIMIT_TEST(pool_soft_limit, only_growth_is_counted)
{
    mend_stream busy = s->w.streams[0];
    void *used = kit_alloc_used(&s->w, 12 * MEND_MIB, busy, 1000000);
    kit_alloc(&s->w, 4 * MEND_MIB, NULL); /* the device is full */
    kit_free(&s->w, used, busy);
    EXPECT_STATS(&s->w, reserved_bytes, 16 * MEND_MIB, soft_limit_passed, 2);
    EXPECT_INT_EQ(2, s->calls);
    kit_alloc(&s->w, 8 * MEND_MIB, MEND_NO_STREAM);
    EXPECT_STATS(&s->w, host_waits, 1, reserved_bytes, 16 * MEND_MIB, soft_limit_passed, 2,
                 waited_requests, 1, out_of_memory, 0);
    EXPECT_RESULT(MEND_OK, mend_trim(s->w.pool, 0, MEND_TRIM_WAIT, NULL));
    EXPECT_STATS(&s->w, waited_requests, 1);
}

/* A chunk that was waited for goes, and a larger one comes, up to the soft limit. */
KIT_SET_TEST(pool_soft_limit, is_not_passed_where_it_is_met,
             w->pool_config.limit_bytes = 8 * MEND_MIB,
             w->pool_config.soft_limit_bytes = 6 * MEND_MIB)
{
    void *used = kit_alloc_with(w, 4 * MEND_MIB, S(0), .in_one_chunk = 1);
    kit_use(w, S(0), used, 4 * MEND_MIB, 1000);
    kit_free(w, used, S(0));
    kit_alloc_with(w, 6 * MEND_MIB, S(1), .in_one_chunk = 1);
    EXPECT_STATS(w, reserved_bytes, 6 * MEND_MIB, soft_limit_passed, 0);
}

KIT_SET_TEST(pool_soft_limit, has_no_effect_at_the_limit,
             w->sim_config.memory_bytes = 16 * MEND_MIB,
             w->pool_config.soft_limit_bytes = 16 * MEND_MIB)
{
    int calls = 0;
    EXPECT_OK(mend_add_pressure_callback(w->pool, kit_count_pressure, &calls));
    kit_expect_none(w, 17 * MEND_MIB, NULL, "");
    EXPECT_INT_EQ(1, calls); /* for the limit */
    EXPECT_STATS(w, soft_limit_bytes, 16 * MEND_MIB);
}
