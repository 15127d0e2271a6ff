/*
 * Nothing but time depends on the front cache: the same calls on two pools, one with it and one
 * without, have the same answers, addresses and figures. On one stream: with several, free memory
 * beside a block that comes and goes is stamped again each time only where it is joined with it,
 * and is known to be idle a little later.
 */

#include "tests/support/kit.h"

enum { POOLS = 2, BLOCKS = 96, STEPS = 4000 };

typedef struct twins {
    mend_world w[POOLS]; /* without and with the cache */
    mend_stream stream[POOLS];
    void *blocks[BLOCKS]; /* the same in both */
    void *used;           /* by all work */
    mend_test_random random;
    uint64_t freed_bytes; /* of the block freed last */
} twins;

static uint64_t below(twins *t, uint64_t bound)
{
    return mend_test_random_below(&t->random, bound);
}

static bool open_twins(twins *t, uint64_t memory_bytes, uint64_t salt)
{
    *t = (twins){0};
    mend_test_random_init(&t->random, mend_test_seed() + salt);
    for (int i = 0; i < POOLS; i++) {
        mend_world *w = &t->w[i];
        mend_world_init(w);
        w->sim_config.content = MEND_SIM_CONTENT_NONE;
        w->sim_config.memory_bytes = memory_bytes;
        if (!kit_open(w)) {
            return false;
        }
        if (i == 0) {
            mend_test_close_cache(w->pool);
        }
        t->stream[i] = w->streams[0];
    }
    return !mend_test_has_failed();
}

/* Few sizes, so that they come again. Some of them once in a while. */
static uint64_t draw_size(twins *t)
{
    static const uint64_t usual[] = {512, 4096, 20480, 98304, 262144, 655360, 2097152};
    return below(t, 8) > 0 ? usual[below(t, sizeof(usual) / sizeof(*usual))]
                           : 512 * (1 + below(t, 3000));
}

static void alloc_twins(twins *t, void **block)
{
    bool is_again = t->freed_bytes != 0 && below(t, 2) == 0;
    uint64_t size_bytes = is_again ? t->freed_bytes : draw_size(t);
    void *pointers[POOLS] = {NULL};
    mend_result results[POOLS];
    for (int i = 0; i < POOLS; i++) {
        results[i] = mend_alloc(t->w[i].pool, size_bytes, t->stream[i], &pointers[i]);
    }
    EXPECT_RESULT(results[0], results[1]);
    EXPECT_PTR_EQ(pointers[0], pointers[1]);
    *block = pointers[0];
}

static void free_twins(twins *t, void **block)
{
    bool is_shared = below(t, 10) == 0;
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    EXPECT_RESULT(MEND_OK, mend_get_block_info(t->w[0].pool, *block, &info));
    t->freed_bytes = info.usable_bytes;
    for (int i = 0; i < POOLS; i++) {
        mend_pool *pool = t->w[i].pool;
        if (is_shared) {
            EXPECT_RESULT(MEND_OK, mend_record_stream(pool, *block, t->stream[i]));
        }
        EXPECT_RESULT(MEND_OK, mend_free(pool, *block, t->stream[i]));
    }
    *block = NULL;
}

/* All numbers, except the cache's own. */
static void compare(twins *t)
{
    mend_stats stats[POOLS];
    for (int i = 0; i < POOLS; i++) {
        mend_world_check(&t->w[i]);
        stats[i] = mend_world_stats(&t->w[i]);
    }
    EXPECT_U64_EQ(0, stats[0].cache_hits);
    stats[1].cache_hits = stats[1].cached_blocks = stats[1].cached_bytes = 0;
#define X(field, unit, meaning)                                                                    \
    if (stats[0].field != stats[1].field) {                                                        \
        mend_test_fail(__FILE__, __LINE__, #field " is %llu without the cache, %llu with it",      \
                       (unsigned long long)stats[0].field, (unsigned long long)stats[1].field);    \
    }
    MEND_STATS(X)
#undef X
}

static void run(uint64_t memory_bytes, uint64_t salt)
{
    static twins t;
    ASSERT_TRUE(open_twins(&t, memory_bytes, salt));
    alloc_twins(&t, &t.used);
    for (int step = 0; step < STEPS && !mend_test_has_failed(); step++) {
        void **block = &t.blocks[below(&t, BLOCKS)];
        uint64_t kind = below(&t, 200);
        uint64_t duration_ns = below(&t, 1 << 20);
        uint64_t keep_bytes = below(&t, 2) * MEND_MIB * 16;
        uint64_t released[POOLS] = {0};
        for (int i = 0; i < POOLS && kind < 10; i++) {
            if (kind == 0) {
                EXPECT_RESULT(MEND_OK,
                              mend_trim(t.w[i].pool, keep_bytes, MEND_TRIM_IDLE, &released[i]));
            } else { /* work that ends some time later, and uses memory that stays */
                kit_launch(&t.w[i], t.stream[i], MEND_SIM_WORK_TOUCH, t.used, 512, 0,
                           mend_sim_now_ns(t.w[i].sim) + duration_ns);
            }
        }
        EXPECT_U64_EQ(released[0], released[1]);
        if (kind >= 10 && *block == NULL) {
            alloc_twins(&t, block);
        } else if (kind >= 10) {
            free_twins(&t, block);
        }
        if (step % 50 == 0) {
            compare(&t);
        }
    }
    EXPECT_TRUE(mend_test_has_failed() || mend_world_stats(&t.w[1]).cache_hits > 10);
    for (int i = 0; i < POOLS; i++) {
        kit_close(&t.w[i]);
    }
}

MEND_TEST(pool_cache_same, under_low_pressure)
{
    run(512 * MEND_MIB, 1);
}

MEND_TEST(pool_cache_same, near_the_limit_and_beyond)
{
    run(48 * MEND_MIB, 2);
    run(16 * MEND_MIB, 3);
}
