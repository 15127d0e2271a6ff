/*
 * Work of one device on memory of another: which devices a pool lets use its memory. The simulated
 * device judges work that was not let.
 */
#include <string.h>

#include "driver/driver.h"
#include "tests/support/kit.h"

/* Three devices, a pool on the first, a stream on the second. */
typedef struct scene {
    mend_world w;
    const mend_driver *driver;
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
    s->driver = mend_sim_driver(s->w.sim);
    EXPECT_INT_EQ(0, s->driver->device_open(s->driver, 1, &s->second));
    EXPECT_INT_EQ(0, s->driver->context_push(s->driver, s->second.context));
    EXPECT_INT_EQ(0, s->driver->stream_create(s->driver, &s->stream));
    EXPECT_INT_EQ(0, s->driver->context_pop(s->driver));
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
    EXPECT_INT_EQ(0, s->driver->stream_destroy(s->driver, s->stream));
    EXPECT_INT_EQ(0, s->driver->device_close(s->driver, 1));
    kit_close(&s->w);
}

static void *allocate(mend_pool *pool, uint64_t size_bytes)
{
    void *pointer = NULL;
    EXPECT_RESULT(MEND_OK, mend_alloc(pool, size_bytes, NULL, &pointer));
    return pointer;
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

static uint64_t peers_of(mend_pool *pool)
{
    mend_stats stats = MEND_STATS_INIT;
    EXPECT_RESULT(MEND_OK, mend_get_stats(pool, &stats));
    return stats.peer_devices;
}

MEND_TEST(pool_peers, a_device_with_a_pool_may_use_the_memory_of_others)
{
    scene s;
    prepare(&s);
    ASSERT_TRUE(open_scene(&s));
    void *before = allocate(s.w.pool, 3 * MEND_MIB);
    void *small = allocate(s.w.pool, 512);
    EXPECT_U64_EQ(0, peers_of(s.w.pool));
    ASSERT_RESULT(MEND_OK, open_other(&s));
    EXPECT_U64_EQ(1, peers_of(s.w.pool));
    EXPECT_U64_EQ(1, peers_of(s.other));
    EXPECT_TRUE(can_use(&s, before, 3 * MEND_MIB));
    EXPECT_TRUE(can_use(&s, small, 512));
    EXPECT_TRUE(can_use(&s, allocate(s.w.pool, 5 * MEND_MIB), 5 * MEND_MIB));
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
        blocks[i] = allocate(s.w.pool, MEND_MIB);
    }
    for (int i = 0; i < 8; i += 2) {
        kit_free(&s.w, blocks[i], NULL);
    }
    void *joined = allocate(s.w.pool, 4 * MEND_MIB);
    EXPECT_TRUE(mend_world_stats(&s.w).chunks_moved > 0);
    EXPECT_TRUE(can_use(&s, joined, 4 * MEND_MIB));
    close_scene(&s);
}

static void expect_out_of_reach(scene *s)
{
    void *block = allocate(s->w.pool, MEND_MIB);
    EXPECT_U64_EQ(0, peers_of(s->w.pool));
    EXPECT_FALSE(can_use(s, block, MEND_MIB)); /* which breaks the context */
    EXPECT_RESULT(MEND_ERROR_DEVICE_LOST, mend_alloc(s->w.pool, 9 * MEND_MIB, NULL, &block));
    mend_pool_destroy(s->other);
    mend_pool_destroy(s->w.pool);
    mend_sim_destroy(s->w.sim);
}

MEND_TEST(pool_peers, a_device_without_a_pool_may_not)
{
    scene s;
    prepare(&s);
    ASSERT_TRUE(open_scene(&s));
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
    mend_error error = MEND_ERROR_INIT;
    prepare(&s);
    s.w.sim_config.peer_group = 1;
    ASSERT_TRUE(open_scene(&s));
    mend_pool_config config = s.w.pool_config;
    config.peers = 4;
    mend_pool *asking = NULL;
    EXPECT_RESULT(MEND_ERROR_NOT_SUPPORTED, mend_pool_create(&config, &asking));
    EXPECT_RESULT(MEND_OK, mend_last_error(&error));
    EXPECT_TRUE(strstr(error.message, "names device 2, which cannot reach the memory of device 0"));
    ASSERT_RESULT(MEND_OK, open_other(&s));
    expect_out_of_reach(&s);
}

MEND_TEST(pool_peers, may_be_named_from_the_beginning)
{
    scene s;
    prepare(&s);
    s.w.pool_config.peers = 7; /* itself, the second and the third */
    ASSERT_TRUE(open_scene(&s));
    EXPECT_U64_EQ(2, peers_of(s.w.pool));
    EXPECT_TRUE(can_use(&s, allocate(s.w.pool, MEND_MIB), MEND_MIB));
    close_scene(&s);
}

MEND_TEST(pool_peers, a_pool_that_cannot_be_introduced_does_not_come_to_be)
{
    scene s;
    mend_sim_fault fault = MEND_SIM_FAULT_INIT;
    fault.call = "set_access";
    fault.status = MEND_DRIVER_NOT_SUPPORTED;
    prepare(&s);
    ASSERT_TRUE(open_scene(&s));
    void *block = allocate(s.w.pool, MEND_MIB);
    uint64_t open = mend_world_ledger(&s.w).contexts_open;
    EXPECT_RESULT(MEND_OK, mend_sim_fail(s.w.sim, &fault));
    EXPECT_RESULT(MEND_ERROR_DRIVER, open_other(&s));
    EXPECT_PTR_EQ(NULL, s.other);
    EXPECT_U64_EQ(open, mend_world_ledger(&s.w).contexts_open);
    EXPECT_U64_EQ(0, peers_of(s.w.pool));
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
            allocate(s.w.pool, MEND_MIB);
            mend_sim_ledger ledger = mend_world_ledger(&s.w);
            EXPECT_U64_EQ(has_rdma != 0 && rdma >= 0 ? ledger.chunks : 0, ledger.rdma_chunks);
            close_scene(&s);
        }
    }
}
