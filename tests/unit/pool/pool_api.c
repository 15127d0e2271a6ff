/* The public calls on one stream: what they answer, and every misuse by its own error. */

#include "tests/support/kit.h"

static void *at(void *pointer, int64_t offset)
{
    return (char *)pointer + offset;
}

MEND_TEST(pool_api, create_refuses_bad_configs)
{
    mend_world w;
    ASSERT_TRUE(kit_open_default(&w));
    mend_pool_config config = w.pool_config;
    mend_pool *pool = w.pool;
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_pool_create(&config, NULL));
    config.struct_size = 0;
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_pool_create(&config, &pool));
    kit_expect_words("MEND_POOL_CONFIG_INIT");
    config.struct_size = sizeof(config) + 8;
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_pool_create(&config, &pool));
    config.struct_size = sizeof(config);
    config.device = -1;
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_pool_create(&config, &pool));
    config.device = 1;
    EXPECT_RESULT(MEND_ERROR_NO_DEVICE, mend_pool_create(&config, &pool));
    kit_expect_words("device 1");
    config.device = 0;
    config.allow_stream_waits = 2;
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_pool_create(&config, &pool));
    EXPECT_PTR_EQ(w.pool, pool);
    kit_close(&w);
}

MEND_TEST(pool_api, a_pool_takes_no_memory_before_it_is_asked)
{
    mend_world w;
    ASSERT_TRUE(kit_open_default(&w));
    EXPECT_U64_EQ(0, mend_world_stats(&w).reserved_bytes);
    EXPECT_U64_EQ(0, mend_world_ledger(&w).chunks);
    EXPECT_U64_EQ(64 * MEND_MIB, mend_world_stats(&w).limit_bytes);
    kit_close(&w);
}

MEND_TEST(pool_api, alloc_rounds_to_the_granule_and_counts)
{
    mend_world w;
    ASSERT_TRUE(kit_open_default(&w));
    void *first = kit_alloc(&w, 1, NULL);
    void *second = kit_alloc(&w, 513, NULL);
    EXPECT_U64_EQ(0, (uint64_t)(uintptr_t)first % 512);
    mend_stats stats = mend_world_stats(&w);
    EXPECT_U64_EQ(512 + 1024, stats.live_bytes);
    EXPECT_U64_EQ(514, stats.requested_bytes);
    EXPECT_U64_EQ(2, stats.live_blocks);
    EXPECT_U64_EQ(2, stats.allocations);
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    ASSERT_RESULT(MEND_OK, mend_get_block_info(w.pool, at(second, 1023), &info));
    EXPECT_PTR_EQ(second, info.base);
    EXPECT_U64_EQ(513, info.requested_bytes);
    EXPECT_U64_EQ(1024, info.usable_bytes);
    EXPECT_PTR_EQ(w.pool, info.pool);
    kit_free(&w, first, NULL);
    kit_free(&w, second, NULL);
    stats = mend_world_stats(&w);
    EXPECT_U64_EQ(0, stats.live_bytes);
    EXPECT_U64_EQ(1536, stats.peak_live_bytes);
    EXPECT_RESULT(MEND_OK, mend_reset_peak_stats(w.pool));
    EXPECT_U64_EQ(0, mend_world_stats(&w).peak_live_bytes);
    kit_close(&w);
}

MEND_TEST(pool_api, alignments_are_kept)
{
    mend_world w;
    ASSERT_TRUE(kit_open_default(&w));
    void *kept[20];
    for (int shift = 0; shift < 20; shift++) {
        uint64_t alignment = UINT64_C(1) << (shift + 2);
        kept[shift] = kit_alloc_aligned(&w, 700, alignment, NULL);
        EXPECT_U64_EQ(0, (uint64_t)(uintptr_t)kept[shift] % alignment);
    }
    void *pointer;
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_alloc_aligned(w.pool, 700, 3, NULL, &pointer));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_alloc_aligned(w.pool, 700, 0, NULL, &pointer));
    kit_close(&w);
}

MEND_TEST(pool_api, absurd_sizes_are_refused)
{
    mend_world w;
    ASSERT_TRUE(kit_open_default(&w));
    void *pointer = &w;
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_alloc(w.pool, 0, NULL, &pointer));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_alloc(w.pool, UINT64_MAX, NULL, &pointer));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_alloc(NULL, 512, NULL, &pointer));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_alloc(w.pool, 512, NULL, NULL));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT,
                  mend_alloc(w.pool, 512, MEND_EVERY_STREAM, &pointer));
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY, mend_alloc(w.pool, UINT64_C(1) << 60, NULL, &pointer));
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY, mend_alloc(w.pool, 65 * MEND_MIB, NULL, &pointer));
    kit_expect_words("The limit is 64.00 MiB");
    EXPECT_PTR_EQ(&w, pointer);
    EXPECT_U64_EQ(2, mend_world_stats(&w).out_of_memory);
    EXPECT_U64_EQ(0, mend_world_stats(&w).reserved_bytes);
    kit_close(&w);
}

MEND_TEST(pool_api, wrong_pointers_have_their_own_errors)
{
    mend_world w;
    ASSERT_TRUE(kit_open_default(&w));
    int on_the_stack;
    kit_free(&w, NULL, NULL);
    EXPECT_RESULT(MEND_ERROR_FOREIGN_POINTER, mend_free(w.pool, &on_the_stack, NULL));
    void *pointer = kit_alloc(&w, 5000, NULL);
    EXPECT_RESULT(MEND_ERROR_INTERIOR_POINTER, mend_free(w.pool, at(pointer, 512), NULL));
    kit_expect_words("512 bytes inside");
    EXPECT_RESULT(MEND_ERROR_INTERIOR_POINTER, mend_record_stream(w.pool, at(pointer, 1), NULL));
    kit_free(&w, pointer, NULL);
    EXPECT_RESULT(MEND_ERROR_DOUBLE_FREE, mend_free(w.pool, pointer, NULL));
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    EXPECT_RESULT(MEND_ERROR_DOUBLE_FREE, mend_get_block_info(w.pool, pointer, &info));
    EXPECT_RESULT(MEND_ERROR_FOREIGN_POINTER, mend_get_block_info(w.pool, &on_the_stack, &info));
    kit_close(&w);
}

MEND_TEST(pool_api, free_chunks_join_into_any_request)
{
    mend_world w;
    ASSERT_TRUE(kit_open_default(&w));
    /* Every other block of one chunk each is freed: 30 MiB lie free, and no hole is above 1 MiB. */
    void *blocks[60];
    for (int i = 0; i < 60; i++) {
        blocks[i] = kit_alloc(&w, MEND_MIB, NULL);
    }
    for (int i = 0; i < 60; i += 2) {
        kit_free(&w, blocks[i], NULL);
    }
    kit_alloc(&w, 34 * MEND_MIB, NULL);
    mend_stats stats = mend_world_stats(&w);
    EXPECT_U64_EQ(64 * MEND_MIB, stats.reserved_bytes);
    EXPECT_U64_EQ(0, stats.free_bytes);
    EXPECT_TRUE(stats.chunks_moved >= 29);
    kit_close(&w);
}

MEND_TEST(pool_api, steady_state_calls_no_driver)
{
    mend_world w;
    ASSERT_TRUE(kit_open_default(&w));
    uint64_t calls_after_first_round = 0;
    for (int round = 0; round < 4; round++) {
        void *blocks[8];
        for (int i = 0; i < 8; i++) {
            blocks[i] = kit_alloc(&w, (uint64_t)(i + 1) * 300 * MEND_KIB, NULL);
        }
        for (int i = 0; i < 8; i++) {
            kit_free(&w, blocks[i], NULL);
        }
        uint64_t calls = mend_sim_call_count(w.sim);
        calls_after_first_round = round == 0 ? calls : calls_after_first_round;
        EXPECT_U64_EQ(calls_after_first_round, calls);
    }
    kit_close(&w);
}

MEND_TEST(pool_api, trim_gives_back_what_is_idle)
{
    mend_world w;
    ASSERT_TRUE(kit_open_default(&w));
    kit_alloc(&w, 2 * MEND_MIB, NULL);
    void *freed = kit_alloc(&w, 9 * MEND_MIB, NULL);
    kit_launch(&w, NULL, MEND_SIM_WORK_TOUCH, freed, 9 * MEND_MIB, 0, 1000);
    kit_free(&w, freed, NULL);
    uint64_t released = 77;
    EXPECT_RESULT(MEND_OK, mend_trim(w.pool, 0, &released));
    EXPECT_U64_EQ(0, released); /* still in flight: nothing is unmapped under running work */
    EXPECT_U64_EQ(0, mend_world_ledger(&w).host_syncs);
    mend_sim_advance(w.sim, 1000);
    EXPECT_RESULT(MEND_OK, mend_trim(w.pool, 5 * MEND_MIB, &released));
    EXPECT_U64_EQ(6 * MEND_MIB, released);
    EXPECT_RESULT(MEND_OK, mend_trim(w.pool, 0, NULL));
    EXPECT_U64_EQ(2 * MEND_MIB, mend_world_ledger(&w).chunk_bytes);
    kit_close(&w);
}

MEND_TEST(pool_api, a_lower_limit_trims_and_refuses_growth)
{
    mend_world w;
    ASSERT_TRUE(kit_open_default(&w));
    void *more;
    kit_alloc(&w, 4 * MEND_MIB, NULL);
    void *freed = kit_alloc(&w, 8 * MEND_MIB, NULL);
    kit_free(&w, freed, NULL);
    EXPECT_RESULT(MEND_OK, mend_set_limit(w.pool, 6 * MEND_MIB));
    EXPECT_U64_EQ(6 * MEND_MIB, mend_world_stats(&w).reserved_bytes);
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY, mend_alloc(w.pool, 2 * MEND_MIB + 512, NULL, &more));
    more = kit_alloc(&w, 2 * MEND_MIB, NULL);
    EXPECT_RESULT(MEND_OK, mend_set_limit(w.pool, 0));
    EXPECT_U64_EQ(64 * MEND_MIB, mend_world_stats(&w).limit_bytes);
    kit_close(&w);
}

MEND_TEST(pool_api, memory_taken_by_another_process_is_an_error_and_no_more)
{
    mend_world w;
    ASSERT_TRUE(kit_open_default(&w));
    mend_sim_set_foreign_bytes(w.sim, 0, 60 * MEND_MIB);
    void *pointer;
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY, mend_alloc(w.pool, 8 * MEND_MIB, NULL, &pointer));
    mend_world_check(&w);
    mend_sim_set_foreign_bytes(w.sim, 0, 0);
    pointer = kit_alloc(&w, 8 * MEND_MIB, NULL);
    kit_close(&w);
}

MEND_TEST(pool_api, a_broken_context_is_reported_and_destroy_still_frees)
{
    mend_world w;
    ASSERT_TRUE(kit_open_default(&w));
    void *pointer = kit_alloc(&w, 8 * MEND_MIB, NULL);
    kit_break(&w, "create");
    EXPECT_RESULT(MEND_ERROR_DEVICE_LOST, mend_alloc(w.pool, 9 * MEND_MIB, NULL, &pointer));
    EXPECT_RESULT(MEND_ERROR_DEVICE_LOST, mend_alloc(w.pool, 512, NULL, &pointer));
    EXPECT_RESULT(MEND_ERROR_DEVICE_LOST, mend_free(w.pool, pointer, NULL));
    EXPECT_RESULT(MEND_ERROR_DRIVER, mend_pool_destroy(w.pool));
    mend_sim_destroy(w.sim);
}

MEND_TEST(pool_api, a_hopeless_request_waits_for_nothing)
{
    mend_world w;
    ASSERT_TRUE(kit_open_default(&w));
    mend_stream streams[2];
    void *blocks[2];
    for (int i = 0; i < 2; i++) {
        ASSERT_RESULT(MEND_OK, mend_sim_stream_create(w.sim, &streams[i]));
        blocks[i] = kit_alloc(&w, MEND_MIB, streams[i]);
    }
    kit_free(&w, blocks[0], streams[0]);
    void *pointer;
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY,
                  mend_alloc(w.pool, 64 * MEND_MIB, streams[1], &pointer));
    kit_expect_words("Free memory: nothing else would help.");
    EXPECT_U64_EQ(0, mend_world_stats(&w).host_waits);
    EXPECT_RESULT(MEND_OK, mend_set_limit(w.pool, 2 * MEND_MIB));
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY, mend_alloc(w.pool, 2 * MEND_MIB, streams[1], &pointer));
    kit_expect_words("Raise the limit to 3.00 MiB or more, or free memory.");
    kit_close(&w);
}
