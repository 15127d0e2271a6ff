/*
 * The soft limit: before the pool grows above it, it tries steps without growth and then the
 * callbacks; then it grows all the same.
 */
#include "tests/support/kit.h"

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
    kit_alloc(&s->w, 8 * MEND_MIB, MEND_NO_STREAM);
    EXPECT_STATS(&s->w, host_waits, 1, reserved_bytes, 16 * MEND_MIB, soft_limit_passed, 2,
                 waited_requests, 1, out_of_memory, 0);
    EXPECT_RESULT(MEND_OK, mend_trim(s->w.pool, 0, MEND_TRIM_WAIT, NULL));
    EXPECT_STATS(&s->w, waited_requests, 1);
}

KIT_SET_TEST(pool_soft_limit, has_no_effect_at_the_limit,
             w->sim_config.memory_bytes = 16 * MEND_MIB,
             w->pool_config.soft_limit_bytes = 16 * MEND_MIB)
{
    int calls = 0;
    EXPECT_OK(mend_add_pressure_callback(w->pool, kit_count_pressure, &calls));
    kit_expect_none(w, 17 * MEND_MIB, NULL, "");
    EXPECT_INT_EQ(1, calls); /* for the limit */
}
