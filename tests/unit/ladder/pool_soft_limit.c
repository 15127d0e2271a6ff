/*
 * The soft limit: before the pool grows above it, it tries what needs no growth and then the
 * callbacks; then it grows all the same.
 */
#include "tests/support/kit.h"

enum { CACHED = 4 };

/* A device of 16 MiB, chunks of a MiB, a soft limit of 4 MiB; the program caches blocks of a MiB.
 */
typedef struct scene {
    mend_world w;
    void *cached[CACHED]; /* NULL: freed */
    int frees;            /* so many at each callback */
    int calls;
    uint64_t missing_bytes; /* as the last callback heard */
} scene;

static void configure(mend_world *w)
{
    w->pool_config.soft_limit_bytes = 4 * MEND_MIB;
}

static void fill_cache(scene *s)
{
    for (int i = 0; i < CACHED; i++) {
        s->cached[i] = kit_alloc(&s->w, MEND_MIB, NULL);
    }
}

static void drop(scene *s, int i)
{
    kit_free(&s->w, s->cached[i], NULL);
    s->cached[i] = NULL;
}

static int give(void *context, mend_pool *pool, uint64_t needed_bytes, uint64_t missing_bytes)
{
    scene *s = context;
    int freed = 0;
    (void)pool;
    (void)needed_bytes;
    s->calls++;
    s->missing_bytes = missing_bytes;
    for (int i = 0; i < CACHED && freed < s->frees; i++) {
        if (s->cached[i] != NULL) {
            drop(s, i);
            freed++;
        }
    }
    return freed > 0;
}

static bool open_scene(scene *s)
{
    *s = (scene){0};
    return kit_open_with(&s->w, 16 * MEND_MIB, configure) &&
           mend_add_pressure_callback(s->w.pool, give, s) == MEND_OK;
}

static void expect_figures(scene *s, uint64_t reserved_bytes, uint64_t passed)
{
    mend_stats stats = mend_world_stats(&s->w);
    EXPECT_U64_EQ(reserved_bytes, stats.reserved_bytes);
    EXPECT_U64_EQ(passed, stats.soft_limit_passed);
    EXPECT_U64_EQ(0, stats.out_of_memory);
}

#define SOFT_LIMIT_TEST(suite, name)                                                               \
    KIT_CASE(suite, name, scene, s, open_scene(s), kit_close(&s->w))

SOFT_LIMIT_TEST(pool_soft_limit, only_growth_is_counted)
{
    mend_stream busy = s->w.streams[0];
    void *used = kit_alloc_used(&s->w, 12 * MEND_MIB, busy, 1000000);
    kit_alloc(&s->w, 4 * MEND_MIB, NULL); /* the device is full */
    kit_free(&s->w, used, busy);
    expect_figures(s, 16 * MEND_MIB, 2);
    kit_alloc(&s->w, 8 * MEND_MIB, MEND_NO_STREAM);
    EXPECT_U64_EQ(1, mend_world_stats(&s->w).host_waits);
    expect_figures(s, 16 * MEND_MIB, 2);
}

SOFT_LIMIT_TEST(pool_soft_limit, is_set_and_ended_at_any_time)
{
    EXPECT_RESULT(MEND_OK, mend_set_soft_limit(s->w.pool, 0));
    fill_cache(s);
    kit_alloc(&s->w, MEND_MIB, NULL);
    EXPECT_INT_EQ(0, s->calls);
    EXPECT_RESULT(MEND_OK, mend_set_soft_limit(s->w.pool, MEND_MIB)); /* below what is held */
    EXPECT_U64_EQ(5 * MEND_MIB, mend_world_stats(&s->w).reserved_bytes);
    kit_alloc(&s->w, MEND_MIB, NULL);
    EXPECT_INT_EQ(1, s->calls);
    EXPECT_U64_EQ(MEND_MIB, s->missing_bytes); /* so much in empty chunks is enough */
    EXPECT_RESULT(MEND_OK, mend_set_soft_limit(s->w.pool, 16 * MEND_MIB)); /* that of the device */
    kit_expect_none(&s->w, 15 * MEND_MIB, NULL, "");
    EXPECT_INT_EQ(2, s->calls); /* once more, for the limit */
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_set_soft_limit(NULL, 0));
}
