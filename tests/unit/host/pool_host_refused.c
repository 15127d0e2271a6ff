/* What blocks on the host cannot do, by name. */
#include "tests/unit/host/host_rig.h"

MEND_TEST(pool_host_refused, a_pool_without_memory_of_the_host)
{
    mend_world w;
    ASSERT_TRUE(kit_open_default(&w));
    EXPECT_RESULT(MEND_ERROR_NOT_SUPPORTED, mend_move_to_host(w.pool, NULL, 0, NULL));
    kit_expect_words("mend_move_to_host: the pool has no mend_pool_config.host_bytes");
    EXPECT_RESULT(MEND_ERROR_NOT_SUPPORTED, mend_move_to_device(w.pool, NULL, 0, NULL));
    void *all = kit_alloc(&w, 64 * MEND_MIB, NULL);
    mend_set_host_allowed(1);
    kit_expect_none(&w, MEND_MIB, NULL, "");
    mend_set_host_allowed(0);
    kit_free(&w, all, NULL);
    kit_close(&w);
}

MEND_TEST(pool_host_refused, a_driver_that_creates_none)
{
    mend_world w;
    mend_world_init(&w);
    w.sim_config.has_no_host_chunks = 1;
    w.pool_config.host_bytes = MEND_GIB;
    ASSERT_TRUE(mend_world_open_device(&w));
    w.pool_config.driver = mend_sim_driver(w.sim);
    EXPECT_RESULT(MEND_ERROR_NOT_SUPPORTED, mend_pool_create(&w.pool_config, &w.pool));
    kit_expect_words("creates no memory of the host");
    mend_sim_destroy(w.sim);
}

MEND_TEST(pool_host_refused, arguments)
{
    host_rig r;
    mend_move_report report = {0};
    const uint64_t tag = 1;
    ASSERT_TRUE(host_rig_open(&r));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_move_to_host(NULL, &tag, 1, NULL));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_move_to_host(r.w.pool, NULL, 1, NULL));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_move_to_device(r.w.pool, &tag, 1, &report));
    EXPECT_INT_EQ(0, mend_set_host_allowed(7));
    EXPECT_INT_EQ(1, mend_set_host_allowed(0));
    host_rig_close(&r);
}

MEND_TEST(pool_host_refused, a_capture)
{
    host_rig r;
    ASSERT_TRUE(host_rig_open(&r));
    host_rig_fill(&r);
    kit_begin_capture(&r.w, r.w.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_record_stream(r.w.pool, r.blocks[0], r.w.streams[0]));
    EXPECT_RESULT(MEND_ERROR_CAPTURING, mend_move_to_host(r.w.pool, NULL, 0, NULL));
    EXPECT_INT_EQ(0, host_rig_count_on_host(&r));
    mend_sim_graph_destroy(r.w.sim, kit_end_capture(&r.w, r.w.streams[0]));
    host_rig_close(&r);
}

MEND_TEST(pool_host_refused, the_host_has_no_memory)
{
    host_rig r;
    void *pointer = NULL;
    ASSERT_TRUE(host_rig_open(&r));
    host_rig_fill(&r);
    kit_fail(&r.w, "create", 0, UINT64_MAX, MEND_DRIVER_OUT_OF_MEMORY);
    mend_set_host_allowed(1);
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY, mend_alloc(r.w.pool, MEND_MIB, NULL, &pointer));
    mend_set_host_allowed(0);
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY, mend_move_to_host(r.w.pool, NULL, 0, NULL));
    mend_sim_clear_faults(r.w.sim);
    EXPECT_INT_EQ(0, host_rig_count_on_host(&r));
    host_rig_close(&r);
}
