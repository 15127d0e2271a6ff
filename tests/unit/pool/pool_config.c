/*
 * Configuration of a pool, end to end: MEND_CONF and the struct, limits set later, the audit on
 * request and after each call.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mend/mend_frameworks.h"
#include "pool/pool.h"
#include "tests/support/kit.h"

/* The environment as it was is put back by restore_environment. */
static char *set_environment(const char *text)
{
    const char *outside = getenv("MEND_CONF");
    char *saved = outside != NULL ? strdup(outside) : NULL;
    setenv("MEND_CONF", text, 1);
    return saved;
}

static void restore_environment(char *saved)
{
    if (saved != NULL) {
        setenv("MEND_CONF", saved, 1);
        free(saved);
    } else {
        unsetenv("MEND_CONF");
    }
}

static char limit_file[40];

static bool open_by_environment(mend_world *w)
{
    char conf[160];
    snprintf(limit_file, sizeof(limit_file), "/tmp/mend-limit-of-%ld", (long)getpid());
    snprintf(conf, sizeof(conf),
             "limit:5MiB,strategy:5,address_reservation:1GiB,allow_stream_waits:off,"
             "shared_limit_file:%s,rdma:off",
             limit_file);
    char *saved = set_environment(conf);
    setenv("MEND_RECORD", "", 1); /* as if it was not set */
    bool is_open = kit_open_set(w, w->pool_config.address_reservation_bytes = 64 * MEND_MIB);
    unsetenv("MEND_RECORD");
    restore_environment(saved);
    return is_open;
}

KIT_TEST_IN(pool_config, the_environment_fills_what_the_program_left_open, open_by_environment(w))
{
    EXPECT_INT_EQ(0, unlink(limit_file));
    EXPECT_STATS(w, limit_bytes, 5 * MEND_MIB);
    EXPECT_INT_EQ(5, w->pool->heap.config.strategy);
    EXPECT_U64_EQ(64 * MEND_MIB, w->pool->heap.config.address_reservation_bytes); /* as set */
    EXPECT_FALSE(w->pool->heap.config.allow_stream_waits);
    kit_alloc(w, 5 * MEND_MIB, NULL);
    kit_expect_none(w, 512, NULL, "");
}

static uint64_t limit_of_pool(const mend_pool_config *config)
{
    mend_pool *pool = NULL;
    EXPECT_OK(mend_pool_create(config, &pool));
    const uint64_t limit_bytes = kit_stats(pool).limit_bytes;
    EXPECT_OK(mend_pool_destroy(pool));
    return limit_bytes;
}

static void expect_no_pool(const mend_pool_config *config, const char *words)
{
    mend_pool *pool = NULL;
    EXPECT_INVALID(mend_pool_create(config, &pool));
    EXPECT_PTR_EQ(NULL, pool);
    kit_expect_words(words);
}

KIT_TEST(pool_config, a_limit_may_be_a_part_of_the_device)
{
    mend_pool_config config = MEND_POOL_CONFIG_INIT;
    config.driver = mend_sim_driver(w->sim); /* a device of 64 MiB */
    const struct {
        int percent;
        uint64_t limit_bytes;
    } rows[] = {{25, 16 * MEND_MIB}, {99, 66437775}, {100, 64 * MEND_MIB}};
    for (int i = 0; i < 3; i++) {
        config.limit_percent = rows[i].percent;
        EXPECT_U64_EQ(rows[i].limit_bytes, limit_of_pool(&config));
    }
    config.limit_percent = 0;
    char *saved = set_environment("limit:50%");
    EXPECT_U64_EQ(32 * MEND_MIB, limit_of_pool(&config));
    restore_environment(saved);
    config.limit_percent = 50;
    config.limit_bytes = MEND_MIB;
    expect_no_pool(&config, "both set");
}

KIT_TEST(pool_config, a_limit_below_a_page_is_refused)
{
    mend_pool_config config = MEND_POOL_CONFIG_INIT;
    config.driver = mend_sim_driver(w->sim);
    uint64_t page_bytes = w->sim_config.page_bytes;
    config.limit_bytes = page_bytes;
    EXPECT_U64_EQ(page_bytes, limit_of_pool(&config));
    config.limit_bytes = page_bytes - 1;
    expect_no_pool(&config, "is less than a page of device 0");
    config.limit_bytes = 0;
    char *saved = set_environment("limit:1");
    expect_no_pool(&config, "a limit of 1 bytes is less than a page");
    restore_environment(saved);
}

KIT_TEST(pool_config, a_limit_below_live_keeps_what_is_live_and_refuses_growth)
{
    void *live = kit_alloc(w, 3 * MEND_MIB, NULL);
    void *freed = kit_alloc(w, 2 * MEND_MIB, NULL);
    kit_free(w, freed, NULL);
    EXPECT_OK(mend_set_limit(w->pool, 1));
    EXPECT_STATS(w, limit_bytes, 1, reserved_bytes, 3 * MEND_MIB);
    kit_expect_none(w, 512, NULL, "");
    mend_world_check(w);
    /* Freed memory is used again, though it is above the limit. */
    kit_free(w, live, NULL);
    live = kit_alloc(w, 3 * MEND_MIB, NULL);
    kit_free(w, live, NULL);
    EXPECT_OK(mend_set_limit(w->pool, 1));
    EXPECT_STATS(w, reserved_bytes, 0);
    EXPECT_OK(mend_set_limit(w->pool, 4 * MEND_MIB));
    kit_alloc(w, 4 * MEND_MIB, NULL);
    kit_expect_none(w, 512, NULL, "");
    EXPECT_OK(mend_set_limit(w->pool, 0));
    EXPECT_STATS(w, limit_bytes, 64 * MEND_MIB);
    EXPECT_OK(mend_history_start(w->pool, 1));
    EXPECT_OK(mend_set_limit(w->pool, UINT64_MAX));
    EXPECT_STATS(w, limit_bytes, 64 * MEND_MIB);
    kit_expect_event(w->pool, MEND_EVENT_LIMIT, MEND_CAUSE_LIMIT, 64 * MEND_MIB); /* in effect */
    kit_alloc(w, 512, NULL);
}

/* Whose memory is the host's: half of it is in use when the pool is created. */
static uint64_t limit_on_a_shared_device(uint64_t limit_bytes, bool later)
{
    mend_world w;
    mend_world_init(&w);
    w.sim_config.is_integrated = 1;
    w.pool_config.limit_bytes = later ? 0 : limit_bytes;
    if (!mend_world_open_device(&w)) {
        return 0;
    }
    mend_sim_set_foreign_bytes(w.sim, 0, 24 * MEND_MIB);
    EXPECT_TRUE(mend_world_open_pool(&w, mend_sim_driver(w.sim)));
    if (later) {
        EXPECT_OK(mend_set_limit(w.pool, 8 * MEND_MIB));
        EXPECT_OK(mend_set_limit(w.pool, limit_bytes));
    }
    uint64_t bytes = mend_world_stats(&w).limit_bytes;
    kit_close(&w);
    return bytes;
}

MEND_TEST(pool_config, a_pool_on_memory_of_the_host_leaves_a_tenth_of_what_is_free)
{
    EXPECT_U64_EQ(36 * MEND_MIB, limit_on_a_shared_device(0, false));
    EXPECT_U64_EQ(36 * MEND_MIB, limit_on_a_shared_device(0, true));
    EXPECT_U64_EQ(60 * MEND_MIB,
                  limit_on_a_shared_device(60 * MEND_MIB, false)); /* as configured */
    for (int later = 0; later < 2; later++) {
        EXPECT_U64_EQ(64 * MEND_MIB, limit_on_a_shared_device(MEND_GIB, later));
    }
}

KIT_SET_TEST(pool_config, a_part_of_memory_of_the_host_is_of_all_of_it,
             w->sim_config.is_integrated = 1, w->pool_config.limit_percent = 50)
{
    EXPECT_STATS(w, limit_bytes, 32 * MEND_MIB);
}

MEND_TEST(pool_config, a_pool_on_memory_of_the_host_needs_to_know_what_is_free)
{
    mend_world w;
    mend_pool *pool = NULL;
    mend_world_init(&w);
    w.sim_config.is_integrated = 1;
    ASSERT_TRUE(mend_world_open_device(&w));
    w.pool_config.driver = mend_sim_driver(w.sim);
    kit_fail(&w, "memory_info", 0, UINT64_MAX, MEND_DRIVER_UNKNOWN);
    EXPECT_ERROR(DRIVER, mend_world_create_pool(&w, &pool));
    EXPECT_LEDGER(&w, contexts_open, 0);
    w.pool_config.limit_bytes = 8 * MEND_MIB; /* no report is needed */
    EXPECT_OK(mend_world_create_pool(&w, &pool));
    EXPECT_OK(mend_pool_destroy(pool));
    mend_sim_destroy(w.sim);
}
