/*
 * Work of one device on memory of another: which devices a pool lets use its memory. The simulated
 * device judges work that was not let.
 */
#include "driver/driver.h"
#include "mend/mend_share.h"
#include "tests/support/kit.h"

/* Three devices, a pool on the first, a stream on the second. */
typedef struct scene {
    mend_world w;
    mend_device_info second;
    mend_stream stream;
    mend_pool *other; /* on the second device. NULL: none */
} scene;

static void prepare(scene *s)
{
    *s = (scene){0};
    mend_world_init(&s->w);
    s->w.sim_config.device_count = 3;
}

static bool open_scene(scene *s)
{
    if (!kit_open(&s->w)) {
        return false;
    }
    const mend_driver *driver = s->w.driver;
    EXPECT_INT_EQ(0, driver->device_open(driver, 1, &s->second));
    EXPECT_INT_EQ(0, driver->context_push(driver, s->second.context));
    EXPECT_INT_EQ(0, driver->stream_create(driver, &s->stream));
    EXPECT_INT_EQ(0, driver->context_pop(driver));
    return !mend_test_has_failed();
}

static mend_result open_other(scene *s)
{
    mend_pool_config config = s->w.pool_config;
    config.device = 1;
    return mend_pool_create(&config, &s->other);
}

static void close_scene(scene *s)
{
    EXPECT_RESULT(MEND_OK, mend_pool_destroy(s->other));
    mend_world_check(&s->w);
    EXPECT_INT_EQ(0, s->w.driver->stream_destroy(s->w.driver, s->stream));
    EXPECT_INT_EQ(0, s->w.driver->device_close(s->w.driver, 1));
    kit_close(&s->w);
}

/* A case whose scene is prepared by an expression. */
#define PEERS_TEST(suite, name, setting)                                                           \
    KIT_CASE(suite, name, scene, s, (prepare(s), (void)(setting), open_scene(s)), close_scene(s))

static void *take(scene *s, uint64_t size_bytes)
{
    return kit_alloc(&s->w, size_bytes, NULL);
}

static uint64_t peers_of(mend_pool *pool)
{
    return kit_stats(pool).peer_devices;
}

/* Work of the second device on a block. False when it was not let. */
static bool can_use(scene *s, void *block, uint64_t size_bytes)
{
    uint64_t before = mend_world_ledger(&s->w).violations;
    kit_launch(&s->w, s->stream, MEND_SIM_WORK_TOUCH, block, size_bytes, 0,
               mend_sim_now_ns(s->w.sim) + 500);
    mend_sim_advance(s->w.sim, 1000);
    return mend_world_ledger(&s->w).violations == before;
}

/* It names the new device alone: access that is given again is a hole for running work. */
PEERS_TEST(pool_peers, a_device_comes_beside_work_of_others, 0)
{
    mend_world *w = &s->w;
    void *block = take(s, 3 * MEND_MIB);
    kit_launch(w, w->streams[0], MEND_SIM_WORK_TOUCH, block, 3 * MEND_MIB, 0,
               mend_sim_now_ns(w->sim) + 1000);
    ASSERT_RESULT(MEND_OK, open_other(s));
    EXPECT_OK(mend_enable_peer(w->pool, 1)); /* it is already */
    EXPECT_U64_EQ(1, peers_of(w->pool));
    mend_sim_advance(w->sim, 1000);
    EXPECT_U64_EQ(0, mend_world_ledger(w).violations);
}

MEND_TEST(pool_peers, none_may_that_cannot)
{
    scene s;
    mend_pool *asking = NULL;
    prepare(&s);
    s.w.sim_config.peer_group = 1;
    ASSERT_TRUE(open_scene(&s));
    mend_pool_config config = s.w.pool_config;
    config.peers = 1 | 4; /* its own says nothing */
    EXPECT_RESULT(MEND_ERROR_NOT_SUPPORTED, mend_pool_create(&config, &asking));
    kit_expect_words("names device 2, which cannot reach the memory of device 0");
    ASSERT_RESULT(MEND_OK, open_other(&s));
    void *block = take(&s, MEND_MIB);
    EXPECT_U64_EQ(0, peers_of(s.w.pool));
    EXPECT_FALSE(can_use(&s, block, MEND_MIB)); /* which breaks the context */
    EXPECT_RESULT(MEND_ERROR_DEVICE_LOST, mend_alloc(s.w.pool, 9 * MEND_MIB, NULL, &block));
    mend_pool_destroy(s.other);
    mend_pool_destroy(s.w.pool);
    mend_sim_destroy(s.w.sim);
}

PEERS_TEST(pool_peers, a_pool_of_named_peers_meets_no_other, s->w.pool_config.peers = 4)
{
    s->w.pool_config.peers = 0;
    ASSERT_RESULT(MEND_OK, open_other(s));
    EXPECT_U64_EQ(1, peers_of(s->w.pool)); /* device 2 */
    s->w.pool_config.peers = MEND_PEERS_NONE;
    mend_pool *alone = kit_pool(&s->w);
    EXPECT_U64_EQ(0, peers_of(alone));
    EXPECT_OK(mend_pool_destroy(alone));
}

PEERS_TEST(pool_peers, plain_memory_is_let_to_nobody, s->w.pool_config.plain = 1)
{
    EXPECT_ERROR(NOT_SUPPORTED, mend_enable_peer(s->w.pool, 1));
}

PEERS_TEST(pool_peers, a_pool_that_cannot_be_introduced_does_not_come_to_be, 0)
{
    void *block = take(s, MEND_MIB);
    uint64_t open = mend_world_ledger(&s->w).contexts_open;
    kit_fail(&s->w, "set_access", 0, 0, MEND_DRIVER_NOT_SUPPORTED);
    EXPECT_RESULT(MEND_ERROR_DRIVER, open_other(s));
    EXPECT_PTR_EQ(NULL, s->other);
    EXPECT_U64_EQ(open, mend_world_ledger(&s->w).contexts_open);
    EXPECT_U64_EQ(0, peers_of(s->w.pool));
    ASSERT_RESULT(MEND_OK, open_other(s)); /* the next time it does */
    EXPECT_TRUE(can_use(s, block, MEND_MIB));
}

KIT_CASE(pool_peers, another_pool_whose_context_is_lost_is_passed_over, scene, s,
         (prepare(s), open_scene(s)), mend_sim_destroy(s->w.sim))
{
    enum { LOST = 700 };
    void *none = NULL;
    kit_fail(&s->w, "create", 0, 1, LOST);
    EXPECT_RESULT(MEND_ERROR_DEVICE_LOST, mend_alloc(s->w.pool, MEND_MIB, NULL, &none));
    ASSERT_RESULT(MEND_OK, open_other(s));
    EXPECT_U64_EQ(1, peers_of(s->other));
    EXPECT_RESULT(MEND_OK, mend_pool_destroy(s->other));
    mend_pool_destroy(s->w.pool);
}

MEND_TEST(pool_peers, chunks_are_made_for_rdma_where_the_device_can)
{
    for (int i = 0; i < 6; i++) {
        scene s;
        prepare(&s);
        s.w.sim_config.has_rdma = i / 3;
        s.w.pool_config.rdma = i % 3 - 1;
        ASSERT_TRUE(open_scene(&s));
        take(&s, MEND_MIB);
        mend_sim_ledger ledger = mend_world_ledger(&s.w);
        EXPECT_U64_EQ(i > 3 ? ledger.chunks : 0, ledger.rdma_chunks);
        close_scene(&s);
    }
}

/* ---- mend_enable_peer ------------------------------------------------------------------------ */

PEERS_TEST(pool_peers, imported_memory_is_in_the_reach_of_peers,
           s->w.pool_config.shareable = MEND_SHAREABLE_ON)
{
    mend_export_token token;
    void *imported = NULL;
    EXPECT_RESULT(MEND_OK, mend_export(s->w.pool, take(s, MEND_MIB), NULL, &token,
                                       MEND_EXPORT_TOKEN_BYTES, NULL, NULL));
    for (int is_let_in = 0; is_let_in < 2; is_let_in++) {
        EXPECT_RESULT(MEND_OK,
                      mend_import(s->w.pool, &token, MEND_EXPORT_TOKEN_BYTES, &imported, NULL));
        EXPECT_RESULT(MEND_OK, is_let_in ? MEND_OK : mend_enable_peer(s->w.pool, 1));
        EXPECT_TRUE(can_use(s, imported, MEND_MIB));
        EXPECT_RESULT(MEND_OK, mend_import_close(s->w.pool, imported, MEND_NO_STREAM));
    }
}

/* 0 and 1 reach each other. */
PEERS_TEST(pool_peers, devices_that_cannot_be_let_in_are_refused, s->w.sim_config.peer_group = 2)
{
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_enable_peer(s->w.pool, 3));
    EXPECT_RESULT(MEND_ERROR_NOT_SUPPORTED, mend_enable_peer(s->w.pool, 2));
    EXPECT_RESULT(MEND_OK, mend_enable_peer(s->w.pool, 0)); /* its own */
    kit_fail(&s->w, "device_count", 0, 1, MEND_DRIVER_NOT_INITIALIZED);
    EXPECT_RESULT(MEND_ERROR_DRIVER, mend_enable_peer(s->w.pool, 1));
    take(s, MEND_MIB);
    kit_fail(&s->w, "set_access", 0, 1, MEND_DRIVER_NOT_PERMITTED);
    EXPECT_RESULT(MEND_ERROR_DRIVER, mend_enable_peer(s->w.pool, 1));
    EXPECT_U64_EQ(0, peers_of(s->w.pool));
    EXPECT_RESULT(MEND_OK, mend_enable_peer(s->w.pool, 1));
}
