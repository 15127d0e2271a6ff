/* Where two parts meet: sums of two contributions, exact figures of one part, and steps that are
 * taken twice. */
#include "mend/mend_frameworks.h"
#include "mend/mend_graph_pools.h"
#include "mend/mend_inspect.h"
#include "pool/pool.h"
#include "tests/support/place.h"
#include "tests/unit/sleep/sleep_rig.h"

enum { LONG = 100000 };

KIT_SETTING(device_64, w->sim_config.memory_bytes = 64 * MEND_MIB);

KIT_TEST(pool_two_parts, a_trim_counts_idle_memory_and_what_it_waited_for)
{
    void *idle = kit_alloc(w, 3 * MEND_MIB, S(0));
    void *busy = kit_alloc(w, 4 * MEND_MIB, S(1));
    kit_use(w, S(1), busy, 4 * MEND_MIB, LONG);
    const uint64_t all_bytes = mend_world_stats(w).reserved_bytes;
    kit_free(w, idle, S(0));
    kit_free(w, busy, S(1));
    uint64_t released_bytes = 0;
    EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_WAIT, &released_bytes));
    EXPECT_STATS(w, reserved_bytes, 0);
    EXPECT_U64_EQ(all_bytes, released_bytes);
}

KIT_TEST(pool_two_parts, a_larger_chunk_that_became_idle_later_keeps_no_other)
{
    w->pool->idle_ns = 10000000;
    void *old = kit_alloc(w, 2 * MEND_MIB, NULL);
    void *young = kit_alloc(w, 3 * MEND_MIB, NULL);
    kit_free(w, old, NULL);
    uint64_t released_bytes = 0;
    EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_BY_POLICY, &released_bytes));
    mend_sim_advance(w->sim, 10000000);
    kit_free(w, young, NULL);
    EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_BY_POLICY, &released_bytes));
    EXPECT_U64_EQ(2 * MEND_MIB, released_bytes);
}

KIT_TEST(pool_two_parts, the_cache_holds_blocks_of_both_zones)
{
    void *blocks[2] = {kit_alloc(w, 512, S(0)), kit_alloc(w, 64 * MEND_KIB, S(0))};
    kit_alloc(w, 512, S(0)); /* no chunk is empty */
    kit_alloc(w, 64 * MEND_KIB, S(0));
    kit_free_row(w, blocks, 2, S(0));
    EXPECT_STATS(w, cached_blocks, 2, cached_bytes, 512 + 64 * MEND_KIB);
}

KIT_SET_TEST(pool_two_parts, what_a_trim_keeps_holds_plain_blocks_too, device_64(w))
{
    w->pool->idle_ns = 10000000;
    void *plain = kit_alloc_with(w, 4 * MEND_MIB, S(0), .plain = 1);
    kit_free(w, kit_alloc(w, 4 * MEND_MIB, S(0)), S(0));
    uint64_t released_bytes = 0;
    for (int i = 0; i < 2; i++) {
        EXPECT_OK(mend_trim(w->pool, 4 * MEND_MIB, MEND_TRIM_BY_POLICY, &released_bytes));
        mend_sim_advance(w->sim, 20000000);
    }
    EXPECT_U64_EQ(4 * MEND_MIB, released_bytes);
    kit_free(w, kit_alloc(w, 4 * MEND_MIB, S(0)), S(0));
    kit_expect_trim(w, 3 * MEND_MIB, 4 * MEND_MIB); /* the plain block alone is more */
    kit_free(w, plain, S(0));
}

KIT_SET_TEST(pool_two_parts, a_plain_block_leaves_no_peak_behind, device_64(w))
{
    kit_free(w, kit_alloc(w, 2 * MEND_MIB, S(0)), S(0));
    kit_free(w, kit_alloc_with(w, MEND_MIB, S(0), .plain = 1), S(0));
    void *block = kit_alloc(w, 2 * MEND_MIB, S(0));
    mend_usage usage = MEND_USAGE_INIT;
    EXPECT_OK(mend_get_usage(w->pool, NULL, &usage));
    EXPECT_U64_EQ(2 * MEND_MIB, usage.peak[MEND_USAGE_BYTES][MEND_USAGE_LARGE]);
    kit_free(w, block, S(0));
}

KIT_SET_TEST(pool_two_parts, a_lower_limit_holds_for_chunks_and_plain_blocks, device_64(w))
{
    void *plain = kit_alloc_with(w, 4 * MEND_MIB, S(0), .plain = 1);
    kit_free(w, kit_alloc(w, 4 * MEND_MIB, S(0)), S(0));
    EXPECT_OK(mend_set_limit(w->pool, 6 * MEND_MIB));
    EXPECT_STATS(w, reserved_bytes, 6 * MEND_MIB);
    kit_free(w, plain, S(0));
}

KIT_SET_TEST(pool_two_parts, a_plain_block_at_the_limit_releases_the_excess_alone, device_64(w),
             w->pool_config.limit_bytes = 16 * MEND_MIB)
{
    void *blocks[4];
    for (int i = 0; i < 4; i++) {
        blocks[i] = kit_alloc(w, 4 * MEND_MIB, S(i % 2));
        kit_use(w, S(i % 2), blocks[i], 4 * MEND_MIB, LONG);
    }
    for (int i = 0; i < 4; i++) {
        kit_free(w, blocks[i], S(i % 2));
    }
    EXPECT_STATS(w, reserved_bytes, 16 * MEND_MIB);
    void *plain = kit_alloc_with(w, MEND_MIB, S(0), .plain = 1);
    EXPECT_TRUE(mend_world_stats(w).reserved_bytes >= 12 * MEND_MIB);
    kit_free(w, plain, S(0));
}

KIT_SET_TEST(pool_two_parts, the_part_before_a_block_that_is_taken_stays_pending,
             w->sim_config.memory_bytes = 4 * MEND_MIB)
{
    void *block = kit_alloc(w, 4 * MEND_MIB, S(0));
    EXPECT_OK(mend_record_stream(w->pool, block, S(1)));
    kit_use(w, S(1), block, 4 * MEND_MIB, LONG);
    kit_free(w, block, S(0));
    void *part = kit_alloc_with(w, MEND_MIB, S(1), .alignment_bytes = MEND_MIB);
    EXPECT_STATS(w, pending_bytes, 3 * MEND_MIB);
    kit_free(w, part, S(1));
}

KIT_SET_TEST(pool_two_parts, reading_usage_records_no_event_of_the_context,
             w->sim_config.memory_bytes = 4 * MEND_GIB,
             w->sim_config.content = MEND_SIM_CONTENT_NONE, w->sim_config.page_bytes = 2 * MEND_MIB)
{
    void *block = kit_alloc(w, MEND_MIB, S(0));
    EXPECT_OK(mend_record_stream(w->pool, block, S(1)));
    kit_use(w, S(1), block, MEND_MIB, LONG);
    kit_free(w, kit_alloc(w, 3 * MEND_GIB, S(0)), MEND_NO_STREAM);
    kit_free(w, block, S(0));
    mend_usage usage = MEND_USAGE_INIT;
    EXPECT_OK(mend_get_usage(w->pool, NULL, &usage));
    EXPECT_STATS(w, context_fences, 0, pending_bytes, MEND_MIB);
}

KIT_SET_TEST(pool_two_parts, the_limit_that_suffices_counts_empty_chunks, device_64(w),
             w->pool_config.limit_bytes = 4 * MEND_MIB)
{
    void *blocks[4];
    kit_alloc_row(w, blocks, 4, MEND_MIB, S(0));
    kit_free(w, blocks[1], S(0));
    void *none = NULL;
    EXPECT_ERROR(OUT_OF_MEMORY, mend_alloc(w->pool, 2 * MEND_MIB - 512, S(0), &none));
    EXPECT_FIELDS(kit_oom_report(), sufficient_limit_bytes, 5 * MEND_MIB);
}

KIT_SET_TEST(pool_two_parts, an_allocation_lasts_below_and_above_the_soft_limit, device_64(w),
             w->sim_config.prices_advance_clock = 1, w->pool_config.soft_limit_bytes = 4 * MEND_MIB)
{
    EXPECT_OK(mend_history_start(w->pool, 64));
    kit_alloc(w, 4 * MEND_MIB, S(0));
    void *busy = kit_alloc(w, MEND_MIB, S(1));
    kit_use(w, S(1), busy, MEND_MIB, 1000 * LONG);
    kit_free(w, busy, S(1));
    const uint64_t before_ns = mend_sim_now_ns(w->sim);
    kit_alloc(w, 3 * MEND_MIB, S(0));
    const uint64_t took_ns = mend_sim_now_ns(w->sim) - before_ns;
    mend_history_event events[64];
    size_t count = 0;
    uint64_t cursor = 0;
    uint64_t told_ns = 0;
    EXPECT_OK(mend_history_read(w->pool, &cursor, events, sizeof(events[0]), 64, &count));
    for (size_t i = 0; i < count; i++) {
        told_ns = events[i].kind == MEND_EVENT_ALLOC ? events[i].duration_ns : told_ns;
    }
    EXPECT_U64_EQ(took_ns, told_ns);
}

KIT_SET_TEST(pool_two_parts, the_second_compaction_counts_what_the_first_gains,
             w->sim_config.memory_bytes = 2 * MEND_MIB + 128 * MEND_KIB)
{
    void *blocks[16];
    kit_free(w, kit_alloc(w, 2 * MEND_MIB, S(0)), S(0));
    kit_alloc_row(w, blocks, 16, 128 * MEND_KIB, S(0));
    EXPECT_STATS(w, chunks, 2, reserved_bytes, 2 * MEND_MIB);
    for (int i = 0; i < 16; i++) {
        if (i != 3 && i != 8 && i != 10 && i != 12 && i != 14) {
            kit_free(w, blocks[i], S(0));
        }
    }
    kit_expect_none(w, 1408 * MEND_KIB, S(0), "mend_compact");
    EXPECT_OK(mend_compact(w->pool, NULL, NULL));
    kit_free(w, kit_alloc(w, 1408 * MEND_KIB, S(0)), S(0));
}

/* Without the plain block there would be room for the copies. */
KIT_SET_TEST(pool_two_parts, no_compaction_is_advised_where_a_plain_block_has_the_room,
             w->sim_config.memory_bytes = 4 * MEND_MIB)
{
    void *none = NULL, *blocks[16];
    void *plain = kit_alloc_with(w, 2 * MEND_MIB, S(0), .plain = 1);
    kit_free(w, kit_alloc(w, 2 * MEND_MIB, S(0)), S(0));
    kit_alloc_row(w, blocks, 16, 128 * MEND_KIB, S(0));
    for (int i = 0; i < 16; i++) {
        if (i != 3 && i != 8 && i != 10 && i != 12 && i != 14) {
            kit_free(w, blocks[i], S(0));
        }
    }
    EXPECT_REFUSAL(OUT_OF_MEMORY, "is beside; a request",
                   mend_alloc(w->pool, 1408 * MEND_KIB, S(0), &none));
    kit_free(w, plain, S(0));
}

KIT_SET_TEST(pool_two_parts, a_stream_waits_for_the_first_of_two_fences,
             w->pool_config.growth_percent = 100)
{
    void *first = kit_alloc(w, 5 * MEND_MIB, S(1));
    void *last = kit_alloc(w, 4 * MEND_MIB, S(1));
    kit_use(w, S(1), first, 4 * MEND_MIB, 1000);
    kit_free(w, first, S(1));
    EXPECT_OK(mend_trim(w->pool, UINT64_MAX, MEND_TRIM_IDLE, NULL));
    kit_use(w, S(1), last, 4 * MEND_MIB, 1000000000);
    kit_free(w, last, S(1));
    EXPECT_OK(mend_trim(w->pool, UINT64_MAX, MEND_TRIM_IDLE, NULL));
    EXPECT_PTR_EQ(first, kit_alloc(w, 4 * MEND_MIB, S(2)));
    kit_expect_waits(w, 1, 0);
}

KIT_SET_TEST(pool_two_parts, a_failed_compaction_leaves_no_addresses, device_64(w),
             w->pool_config.address_reservation_bytes = 2 * MEND_MIB,
             w->placement = (mend_test_sizes){.chunk_bytes = 8 * MEND_MIB})
{
    void *blocks[64];
    kit_free(w, kit_alloc(w, 8 * MEND_MIB, S(0)), S(0));
    kit_alloc_row(w, blocks, 64, 128 * MEND_KIB, S(0));
    kit_free_row(w, blocks + 32, 32, S(0));
    const uint64_t address_bytes = mend_world_stats(w).address_bytes;
    kit_fail(w, "copy", 0, 1, MEND_DRIVER_UNKNOWN);
    (void)mend_compact(w->pool, NULL, NULL);
    EXPECT_STATS(w, address_bytes, address_bytes);
}

KIT_SET_TEST(pool_two_parts, a_chunk_that_fits_to_the_page_releases_nothing,
             w->sim_config.memory_bytes = 4 * MEND_GIB,
             w->sim_config.content = MEND_SIM_CONTENT_NONE, w->pool_config.limit_bytes = MEND_GIB,
             w->placement = (mend_test_sizes){0})
{
    void *idle = kit_alloc_with(w, MEND_MIB, S(0), .in_one_chunk = 1);
    const uint64_t chunk_bytes = mend_world_stats(w).reserved_bytes;
    kit_alloc(w, MEND_GIB - chunk_bytes - 2304 * MEND_KIB, S(0));
    kit_free(w, idle, S(0));
    kit_alloc_with(w, 2304 * MEND_KIB, S(0), .in_one_chunk = 1);
    EXPECT_STATS(w, chunks_released, 0);
}

KIT_SET_TEST(pool_two_parts, a_tag_takes_no_place_beside_a_chunk_that_is_broken, device_64(w),
             w->pool_config.limit_bytes = 5 * MEND_MIB)
{
    kit_free(w, kit_alloc(w, 4 * MEND_MIB, S(0)), S(0));
    void *first = kit_alloc(w, MEND_MIB, S(0));
    void *tagged = kit_alloc_with(w, 512 * MEND_KIB, S(0), .sleep_tag = 1);
    kit_alloc_with(w, 512 * MEND_KIB, S(0), .sleep_tag = 1);
    kit_alloc(w, MEND_MIB, S(0));
    void *last = kit_alloc(w, MEND_MIB, S(0));
    kit_free(w, first, S(0));
    kit_free(w, tagged, S(0));
    kit_free(w, last, S(0));
    kit_alloc(w, MEND_MIB + 256 * MEND_KIB, S(0));
    mend_sleep_report report = MEND_SLEEP_REPORT_INIT;
    EXPECT_OK(mend_sleep(w->pool, SLEEP_TAG(1, MEND_DISCARD, ), &report));
    EXPECT_U64_EQ(0, report.stayed_bytes);
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
}

KIT_TEST(pool_two_parts, memory_of_graphs_that_sleeps_keeps_its_tag_when_it_is_cut)
{
    KIT_THREAD(.sleep_tag = 5);
    mend_graph_pool *graph_pool = kit_begin_captured_graph_pool(w, S(0));
    void *held = kit_alloc(w, 3 * MEND_MIB, S(0));
    mend_sim_graph *graph = kit_end_captured_graph_pool(w, S(0), graph_pool);
    mend_set_alloc_options(NULL, NULL);
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    kit_free(w, held, S(0));
    mend_sleep_tag_info infos[4];
    size_t count = 0;
    EXPECT_OK(mend_get_sleep_tags(w->pool, infos, sizeof(infos[0]), 4, &count));
    EXPECT_U64_EQ(1, count);
    EXPECT_U64_EQ(5, infos[0].tag);
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    mend_sim_graph_destroy(w->sim, graph);
    EXPECT_OK(mend_graph_pool_destroy(graph_pool, S(0)));
}
