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
    mend_pool *other; /* on the second device; NULL: none */
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

static bool open_default(scene *s)
{
    prepare(s);
    return open_scene(s);
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

/* Work of the second device on a block; false when it was not let. */
static bool can_use(scene *s, void *block, uint64_t size_bytes)
{
    uint64_t before = mend_world_ledger(&s->w).violations;
    kit_launch(&s->w, s->stream, MEND_SIM_WORK_TOUCH, block, size_bytes, 0,
               mend_sim_now_ns(s->w.sim) + 500);
    mend_sim_advance(s->w.sim, 1000);
    return mend_world_ledger(&s->w).violations == before;
}

MEND_TEST(pool_peers, a_device_with_a_pool_may_use_the_memory_of_others)
{
    scene s;
    ASSERT_TRUE(open_default(&s));
    void *before = kit_alloc(&s.w, 3 * MEND_MIB, NULL);
    void *small = kit_alloc(&s.w, 512, NULL);
    EXPECT_U64_EQ(0, kit_stats(s.w.pool).peer_devices);
    ASSERT_RESULT(MEND_OK, open_other(&s));
    EXPECT_U64_EQ(1, kit_stats(s.w.pool).peer_devices);
    EXPECT_U64_EQ(1, kit_stats(s.other).peer_devices);
    EXPECT_TRUE(can_use(&s, before, 3 * MEND_MIB));
    EXPECT_TRUE(can_use(&s, small, 512));
    EXPECT_TRUE(can_use(&s, kit_alloc(&s.w, 5 * MEND_MIB, NULL), 5 * MEND_MIB));
    close_scene(&s);
}

MEND_TEST(pool_peers, moved_memory_stays_in_their_reach)
{
    scene s;
    prepare(&s);
    s.w.sim_config.memory_bytes = 8 * MEND_MIB;
    ASSERT_TRUE(open_scene(&s));
    ASSERT_RESULT(MEND_OK, open_other(&s));
    void *blocks[8];
    for (int i = 0; i < 8; i++) {
        blocks[i] = kit_alloc(&s.w, MEND_MIB, NULL);
    }
    for (int i = 0; i < 8; i += 2) {
        kit_free(&s.w, blocks[i], NULL);
    }
    void *joined = kit_alloc(&s.w, 4 * MEND_MIB, NULL);
    EXPECT_TRUE(mend_world_stats(&s.w).chunks_moved > 0);
    EXPECT_TRUE(can_use(&s, joined, 4 * MEND_MIB));
    close_scene(&s);
}

static void expect_out_of_reach(scene *s)
{
    void *block = kit_alloc(&s->w, MEND_MIB, NULL);
    EXPECT_U64_EQ(0, kit_stats(s->w.pool).peer_devices);
    EXPECT_FALSE(can_use(s, block, MEND_MIB)); /* which breaks the context */
    EXPECT_RESULT(MEND_ERROR_DEVICE_LOST, mend_alloc(s->w.pool, 9 * MEND_MIB, NULL, &block));
    mend_pool_destroy(s->other);
    mend_pool_destroy(s->w.pool);
    mend_sim_destroy(s->w.sim);
}

MEND_TEST(pool_peers, a_device_without_a_pool_may_not)
{
    scene s;
    ASSERT_TRUE(open_default(&s));
    expect_out_of_reach(&s);
}

MEND_TEST(pool_peers, none_may_where_none_is_wanted)
{
    scene s;
    prepare(&s);
    s.w.pool_config.peers = MEND_PEERS_NONE;
    ASSERT_TRUE(open_scene(&s));
    ASSERT_RESULT(MEND_OK, open_other(&s));
    expect_out_of_reach(&s);
}

MEND_TEST(pool_peers, none_may_that_cannot)
{
    scene s;
    prepare(&s);
    s.w.sim_config.peer_group = 1;
    ASSERT_TRUE(open_scene(&s));
    mend_pool_config config = s.w.pool_config;
    config.peers = 4;
    mend_pool *asking = NULL;
    EXPECT_RESULT(MEND_ERROR_NOT_SUPPORTED, mend_pool_create(&config, &asking));
    kit_expect_words("names device 2, which cannot reach the memory of device 0");
    ASSERT_RESULT(MEND_OK, open_other(&s));
    expect_out_of_reach(&s);
}

MEND_TEST(pool_peers, may_be_named_from_the_beginning)
{
    scene s;
    prepare(&s);
    s.w.pool_config.peers = 7; /* itself, the second and the third */
    ASSERT_TRUE(open_scene(&s));
    EXPECT_U64_EQ(2, kit_stats(s.w.pool).peer_devices);
    EXPECT_TRUE(can_use(&s, kit_alloc(&s.w, MEND_MIB, NULL), MEND_MIB));
    close_scene(&s);
}

MEND_TEST(pool_peers, a_pool_that_cannot_be_introduced_does_not_come_to_be)
{
    scene s;
    ASSERT_TRUE(open_default(&s));
    void *block = kit_alloc(&s.w, MEND_MIB, NULL);
    uint64_t open = mend_world_ledger(&s.w).contexts_open;
    kit_fail(&s.w, "set_access", 0, 0, MEND_DRIVER_NOT_SUPPORTED);
    EXPECT_RESULT(MEND_ERROR_DRIVER, open_other(&s));
    EXPECT_PTR_EQ(NULL, s.other);
    EXPECT_U64_EQ(open, mend_world_ledger(&s.w).contexts_open);
    EXPECT_U64_EQ(0, kit_stats(s.w.pool).peer_devices);
    ASSERT_RESULT(MEND_OK, open_other(&s)); /* the next time it does */
    EXPECT_TRUE(can_use(&s, block, MEND_MIB));
    close_scene(&s);
}

MEND_TEST(pool_peers, chunks_are_made_for_rdma_where_the_device_can)
{
    for (int has_rdma = 0; has_rdma < 2; has_rdma++) {
        for (int rdma = -1; rdma < 2; rdma++) {
            scene s;
            prepare(&s);
            s.w.sim_config.has_rdma = has_rdma;
            s.w.pool_config.rdma = rdma;
            ASSERT_TRUE(open_scene(&s));
            kit_alloc(&s.w, MEND_MIB, NULL);
            mend_sim_ledger ledger = mend_world_ledger(&s.w);
            EXPECT_U64_EQ(has_rdma != 0 && rdma >= 0 ? ledger.chunks : 0, ledger.rdma_chunks);
            close_scene(&s);
        }
    }
}

/* ---- mend_enable_peer ------------------------------------------------------------------------ */

MEND_TEST(pool_peers, a_device_without_a_pool_may_be_let_in_later)
{
    scene s;
    ASSERT_TRUE(open_default(&s));
    void *before = kit_alloc(&s.w, 3 * MEND_MIB, NULL);
    EXPECT_RESULT(MEND_OK, mend_enable_peer(s.w.pool, 0));
    EXPECT_U64_EQ(0, kit_stats(s.w.pool).peer_devices);
    EXPECT_RESULT(MEND_OK, mend_enable_peer(s.w.pool, 1));
    EXPECT_RESULT(MEND_OK, mend_enable_peer(s.w.pool, 1));
    EXPECT_U64_EQ(1, kit_stats(s.w.pool).peer_devices);
    EXPECT_TRUE(can_use(&s, before, 3 * MEND_MIB));
    EXPECT_TRUE(can_use(&s, kit_alloc(&s.w, 5 * MEND_MIB, NULL), 5 * MEND_MIB));
    close_scene(&s);
}

/* Also where the config names no devices. */
MEND_TEST(pool_peers, one_that_is_asked_for_is_let_in_whatever_the_config_says)
{
    scene s;
    prepare(&s);
    s.w.pool_config.peers = MEND_PEERS_NONE;
    ASSERT_TRUE(open_scene(&s));
    void *block = kit_alloc(&s.w, MEND_MIB, NULL);
    EXPECT_RESULT(MEND_OK, mend_enable_peer(s.w.pool, 1));
    EXPECT_TRUE(can_use(&s, block, MEND_MIB));
    close_scene(&s);
}

MEND_TEST(pool_peers, imported_memory_is_in_the_reach_of_peers)
{
    scene s;
    mend_export_token token;
    void *imported = NULL;
    prepare(&s);
    s.w.pool_config.shareable = 1;
    ASSERT_TRUE(open_scene(&s));
    void *block = kit_alloc(&s.w, MEND_MIB, NULL);
    EXPECT_RESULT(MEND_OK, mend_export(s.w.pool, block, &token, NULL));
    EXPECT_RESULT(MEND_OK, mend_import(s.w.pool, &token, &imported, NULL));
    EXPECT_RESULT(MEND_OK, mend_enable_peer(s.w.pool, 1));
    EXPECT_TRUE(can_use(&s, imported, MEND_MIB));
    EXPECT_RESULT(MEND_OK, mend_import_close(s.w.pool, imported, MEND_NO_STREAM));
    EXPECT_RESULT(MEND_OK, mend_import(s.w.pool, &token, &imported, NULL));
    EXPECT_TRUE(can_use(&s, imported, MEND_MIB));
    EXPECT_RESULT(MEND_OK, mend_import_close(s.w.pool, imported, MEND_NO_STREAM));
    close_scene(&s);
}

MEND_TEST(pool_peers, devices_that_cannot_be_let_in_are_refused)
{
    scene s;
    prepare(&s);
    s.w.sim_config.peer_group = 2; /* 0 and 1 reach each other */
    ASSERT_TRUE(open_scene(&s));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_enable_peer(NULL, 1));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_enable_peer(s.w.pool, -1));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_enable_peer(s.w.pool, 3));
    EXPECT_RESULT(MEND_ERROR_NOT_SUPPORTED, mend_enable_peer(s.w.pool, 2));
    EXPECT_U64_EQ(0, kit_stats(s.w.pool).peer_devices);
    kit_fail(&s.w, "device_count", 0, 1, MEND_DRIVER_NOT_INITIALIZED);
    EXPECT_RESULT(MEND_ERROR_DRIVER, mend_enable_peer(s.w.pool, 1));
    (void)kit_alloc(&s.w, MEND_MIB, NULL);
    kit_fail(&s.w, "set_access", 0, 1, MEND_DRIVER_NOT_PERMITTED);
    EXPECT_RESULT(MEND_ERROR_DRIVER, mend_enable_peer(s.w.pool, 1));
    EXPECT_U64_EQ(0, kit_stats(s.w.pool).peer_devices);
    EXPECT_RESULT(MEND_OK, mend_enable_peer(s.w.pool, 1));
    close_scene(&s);
}
