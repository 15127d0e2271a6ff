/* Growable ranges: where their memory comes from and goes, and every misuse by its own error. */
#include <stdio.h>

#include "mend/mend_share.h"
#include "tests/unit/pool/pages.h"

MEND_TEST(pool_range, has_addresses_and_no_memory)
{
    mend_world w;
    mend_world_init(&w);
    w.sim_config.content = MEND_SIM_CONTENT_NONE; /* sanitizers leave few real addresses */
    ASSERT_TRUE(kit_open(&w));
    mend_range *range = create(&w, MEND_TIB + 1, PAGE);
    mend_range_info info = info_of(range);
    EXPECT_TRUE(info.base != NULL);
    EXPECT_U64_EQ(MEND_TIB + PAGE, info.size_bytes);
    EXPECT_U64_EQ(PAGE, info.page_bytes);
    EXPECT_U64_EQ(0, info.committed_bytes);
    EXPECT_U64_EQ(0, info.mapped_bytes);
    EXPECT_U64_EQ(7, info.tag);
    EXPECT_PTR_EQ(w.pool, info.pool);
    mend_stats stats = mend_world_stats(&w);
    EXPECT_U64_EQ(1, stats.ranges);
    EXPECT_U64_EQ(0, stats.reserved_bytes);
    EXPECT_U64_EQ(MEND_TIB + PAGE + w.info.granularity_bytes, stats.range_address_bytes);
    EXPECT_TRUE(mend_world_check(&w));
    EXPECT_RESULT(MEND_OK, mend_range_destroy(range, NULL));
    EXPECT_U64_EQ(0, mend_world_stats(&w).range_address_bytes);
    EXPECT_U64_EQ(0, mend_world_stats(&w).ranges);
    kit_close(&w);
}

MEND_TEST(pool_range, the_default_page_is_that_of_the_device)
{
    mend_world w;
    ASSERT_TRUE(kit_open_default(&w));
    mend_range *range = NULL;
    ASSERT_RESULT(MEND_OK, mend_range_create(w.pool, 1, NULL, &range));
    EXPECT_U64_EQ(w.info.granularity_bytes, info_of(range).page_bytes);
    EXPECT_U64_EQ(w.info.granularity_bytes, info_of(range).size_bytes);
    EXPECT_RESULT(MEND_OK, mend_range_destroy(range, NULL));
    kit_close(&w);
}

MEND_TEST(pool_range, grows_at_its_address_and_keeps_the_contents)
{
    mend_world w;
    ASSERT_TRUE(kit_open_default(&w));
    mend_range *range = create(&w, 4 * MEND_GIB, PAGE);
    void *base = at(range, 0);
    expect_commit(range, 0, PAGE, w.streams[0]);
    kit_write(&w, w.streams[0], base, PAGE);
    for (uint64_t pages = 2; pages <= 16; pages++) {
        expect_commit(range, 0, pages * PAGE, w.streams[0]);
        EXPECT_PTR_EQ(base, at(range, 0));
        EXPECT_U64_EQ(pages * PAGE, info_of(range).committed_bytes);
        EXPECT_U64_EQ(pages * PAGE, mend_world_stats(&w).range_bytes);
        EXPECT_U64_EQ(pages * PAGE, mend_world_stats(&w).live_bytes);
        EXPECT_TRUE(mend_world_check(&w));
    }
    use(&w, range, PAGE, 15 * PAGE, w.streams[0]);
    kit_verify(&w, w.streams[0], base, PAGE);
    expect_commit(range, 2 * MEND_GIB, PAGE, w.streams[0]);
    use(&w, range, 2 * MEND_GIB, PAGE, w.streams[0]);
    EXPECT_U64_EQ(17, mend_world_stats(&w).pages_committed);
    EXPECT_U64_EQ(0, mend_world_stats(&w).live_blocks);
    EXPECT_RESULT(MEND_OK, mend_range_destroy(range, w.streams[0]));
    EXPECT_U64_EQ(17, mend_world_stats(&w).pages_decommitted);
    EXPECT_U64_EQ(0, mend_world_stats(&w).live_bytes);
    kit_close(&w);
}

MEND_TEST(pool_range, the_same_pages_come_back_without_the_driver)
{
    mend_world w;
    ASSERT_TRUE(kit_open_default(&w));
    mend_range *range = create(&w, MEND_GIB, PAGE);
    expect_commit(range, 0, 8 * PAGE, w.streams[0]);
    use(&w, range, 0, 8 * PAGE, w.streams[0]);
    uint64_t creations = mend_world_stats(&w).chunks_created;
    EXPECT_TRUE(mend_world_check(&w));
    expect_decommit(range, 2 * PAGE, 3 * PAGE, w.streams[0]);
    EXPECT_U64_EQ(5 * PAGE, info_of(range).committed_bytes);
    EXPECT_U64_EQ(8 * PAGE, info_of(range).mapped_bytes);
    EXPECT_U64_EQ(3 * PAGE, mend_world_stats(&w).range_free_bytes);
    expect_decommit(range, 0, 8 * PAGE, w.streams[0]); /* of which some are decommitted */
    uint64_t calls = calls_of(&w);
    expect_commit(range, 0, 8 * PAGE, w.streams[0]);
    EXPECT_TRUE(calls_of(&w) - calls <= 1); /* whether the stream is captured */
    use(&w, range, 0, 8 * PAGE, w.streams[0]);
    EXPECT_U64_EQ(creations, mend_world_stats(&w).chunks_created);
    EXPECT_RESULT(MEND_OK, mend_range_destroy(range, w.streams[0]));
    kit_close(&w);
}

MEND_TEST(pool_range, what_a_range_decommits_serves_blocks_and_the_reverse)
{
    mend_world w;
    mend_world_init(&w);
    w.pool_config.limit_bytes = 8 * MEND_MIB;
    ASSERT_TRUE(kit_open(&w));
    mend_range *range = create(&w, MEND_GIB, PAGE);
    for (int round = 0; round < 4; round++) {
        expect_commit(range, 0, 7 * MEND_MIB, w.streams[0]);
        use(&w, range, 0, 7 * MEND_MIB, w.streams[0]);
        expect_decommit(range, 0, 7 * MEND_MIB, w.streams[0]);
        void *block = kit_alloc(&w, 7 * MEND_MIB, w.streams[0]);
        kit_use(&w, w.streams[0], block, 7 * MEND_MIB, 100);
        EXPECT_TRUE(mend_world_check(&w));
        kit_free(&w, block, w.streams[0]);
        mend_sim_advance(w.sim, 1000000);
    }
    EXPECT_U64_EQ(0, mend_world_stats(&w).out_of_memory);
    EXPECT_TRUE(mend_world_stats(&w).chunks_moved > 0);
    EXPECT_TRUE(mend_world_stats(&w).peak_reserved_bytes <= 8 * MEND_MIB);
    EXPECT_RESULT(MEND_OK, mend_range_destroy(range, w.streams[0]));
    kit_close(&w);
}

MEND_TEST(pool_range, two_ranges_pass_memory_to_each_other)
{
    mend_world w;
    mend_world_init(&w);
    w.pool_config.limit_bytes = 4 * MEND_MIB;
    ASSERT_TRUE(kit_open(&w));
    mend_range *first = create(&w, MEND_GIB, PAGE);
    mend_range *second = create(&w, MEND_GIB, 2 * PAGE);
    expect_commit(first, 0, 4 * MEND_MIB, w.streams[0]);
    use(&w, first, 0, 4 * MEND_MIB, w.streams[0]);
    expect_decommit(first, PAGE, 2 * PAGE, w.streams[0]);
    expect_commit(second, 0, 2 * PAGE, w.streams[0]);
    use(&w, second, 0, 2 * PAGE, w.streams[0]);
    EXPECT_U64_EQ(2, mend_world_stats(&w).chunks_moved);
    EXPECT_U64_EQ(0, mend_world_stats(&w).chunks_released);
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY, mend_range_commit(first, PAGE, PAGE, w.streams[0]));
    EXPECT_TRUE(mend_world_check(&w));
    EXPECT_RESULT(MEND_OK, mend_range_destroy(first, w.streams[0]));
    EXPECT_RESULT(MEND_OK, mend_range_destroy(second, w.streams[0]));
    kit_close(&w);
}

/* A chunk that is larger than a page is given back, and others are created of its memory. */
MEND_TEST(pool_range, large_free_chunks_become_pages)
{
    mend_world w;
    mend_world_init(&w);
    w.pool_config.limit_bytes = 4 * MEND_MIB;
    ASSERT_TRUE(kit_open(&w));
    void *block = kit_alloc(&w, 4 * MEND_MIB, w.streams[0]);
    kit_free(&w, block, w.streams[0]);
    mend_range *range = create(&w, MEND_GIB, PAGE);
    expect_commit(range, 0, 3 * PAGE, w.streams[0]);
    use(&w, range, 0, 3 * PAGE, w.streams[0]);
    EXPECT_TRUE(mend_world_stats(&w).chunks_remade > 0);
    expect_commit(range, 0, 4 * MEND_MIB, w.streams[0]);
    EXPECT_U64_EQ(4 * MEND_MIB, mend_world_stats(&w).reserved_bytes);
    EXPECT_RESULT(MEND_OK, mend_range_destroy(range, w.streams[0]));
    kit_close(&w);
}

MEND_TEST(pool_range, out_of_memory_names_the_range_and_commits_nothing)
{
    mend_world w;
    mend_world_init(&w);
    w.pool_config.limit_bytes = 4 * MEND_MIB;
    ASSERT_TRUE(kit_open(&w));
    mend_range *range = create(&w, MEND_GIB, PAGE);
    expect_commit(range, PAGE, PAGE, w.streams[0]);
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY,
                  mend_range_commit(range, 0, 5 * MEND_MIB, w.streams[0]));
    char words[32];
    snprintf(words, sizeof(words), "range 0x%llx", (unsigned long long)(uintptr_t)at(range, 0));
    kit_expect_words(words);
    kit_expect_words("5 MiB");
    EXPECT_U64_EQ(PAGE, info_of(range).committed_bytes);
    EXPECT_U64_EQ(1, mend_world_stats(&w).out_of_memory);
    EXPECT_TRUE(mend_world_check(&w));
    expect_commit(range, 0, 4 * MEND_MIB, w.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_range_destroy(range, w.streams[0]));
    kit_close(&w);
}

/* One page of four has lost its chunk: the others are not taken for it. */
MEND_TEST(pool_range, a_commit_takes_nothing_from_its_own_pages)
{
    mend_world w;
    mend_world_init(&w);
    w.pool_config.limit_bytes = 6 * PAGE;
    ASSERT_TRUE(kit_open(&w));
    mend_range *range = create(&w, MEND_GIB, PAGE);
    expect_commit(range, 0, 4 * PAGE, w.streams[0]);
    void *others = kit_alloc(&w, PAGE, w.streams[0]);
    expect_decommit(range, PAGE, PAGE, w.streams[0]);
    void *block = kit_alloc(&w, 2 * PAGE, w.streams[0]); /* one chunk is moved, one created */
    EXPECT_U64_EQ(1, mend_world_stats(&w).chunks_moved);
    expect_decommit(range, 0, 4 * PAGE, w.streams[0]);
    kit_free(&w, block, w.streams[0]);
    mend_sim_advance(w.sim, 1000);
    expect_commit(range, 0, 4 * PAGE, w.streams[0]);
    use(&w, range, 0, 4 * PAGE, w.streams[0]);
    EXPECT_U64_EQ(2, mend_world_stats(&w).chunks_moved);
    kit_free(&w, others, w.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_range_destroy(range, w.streams[0]));
    kit_close(&w);
}

MEND_TEST(pool_range, trim_gives_decommitted_memory_to_the_device)
{
    mend_world w;
    ASSERT_TRUE(kit_open_default(&w));
    mend_range *range = create(&w, MEND_GIB, PAGE);
    expect_commit(range, 0, 8 * PAGE, w.streams[0]);
    expect_decommit(range, PAGE, 6 * PAGE, w.streams[0]);
    mend_sim_advance(w.sim, 1000);
    uint64_t released = 0;
    EXPECT_RESULT(MEND_OK, mend_trim(w.pool, 0, &released));
    EXPECT_U64_EQ(6 * PAGE, released);
    EXPECT_U64_EQ(2 * PAGE, info_of(range).mapped_bytes);
    expect_commit(range, 0, 8 * PAGE, w.streams[0]);
    use(&w, range, 0, 8 * PAGE, w.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_range_destroy(range, w.streams[0]));
    kit_close(&w);
}

typedef struct cache_to_drop {
    mend_world *w;
    mend_range *range;
    uint64_t asked_bytes;
} cache_to_drop;

static int drop_cache(void *context, mend_pool *pool, uint64_t needed_bytes, uint64_t missing_bytes)
{
    cache_to_drop *cache = context;
    EXPECT_PTR_EQ(cache->w->pool, pool);
    EXPECT_TRUE(missing_bytes > 0);
    cache->asked_bytes = needed_bytes;
    expect_decommit(cache->range, 0, 4 * PAGE, cache->w->streams[0]);
    return 1;
}

MEND_TEST(pool_range, callbacks_make_room_for_a_commit)
{
    mend_world w;
    mend_world_init(&w);
    w.pool_config.limit_bytes = 6 * PAGE;
    ASSERT_TRUE(kit_open(&w));
    cache_to_drop cache = {.w = &w, .range = create(&w, MEND_GIB, PAGE)};
    mend_range *range = create(&w, MEND_GIB, PAGE);
    expect_commit(cache.range, 0, 4 * PAGE, w.streams[0]);
    ASSERT_RESULT(MEND_OK, mend_add_pressure_callback(w.pool, drop_cache, &cache));
    expect_commit(range, 0, 5 * PAGE, w.streams[0]);
    EXPECT_U64_EQ(5 * PAGE, cache.asked_bytes);
    EXPECT_U64_EQ(1, mend_world_stats(&w).pressure_calls);
    EXPECT_RESULT(MEND_OK, mend_remove_pressure_callback(w.pool, drop_cache, &cache));
    EXPECT_RESULT(MEND_OK, mend_range_destroy(range, w.streams[0]));
    EXPECT_RESULT(MEND_OK, mend_range_destroy(cache.range, w.streams[0]));
    kit_close(&w);
}

/* ---- misuse ----------------------------------------------------------------------------------
 */

MEND_TEST(pool_range, create_refuses_by_name)
{
    mend_world w;
    ASSERT_TRUE(kit_open_default(&w));
    mend_range *range = NULL;
    mend_range_options options = MEND_RANGE_OPTIONS_INIT;
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_range_create(NULL, 1, NULL, &range));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_range_create(w.pool, 1, NULL, NULL));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_range_create(w.pool, 0, NULL, &range));
    kit_expect_words("a range of 0 bytes");
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT,
                  mend_range_create(w.pool, ~UINT64_C(0), NULL, &range));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT,
                  mend_range_create(w.pool, UINT64_C(1) << 46, NULL, &range));
    kit_expect_words("2^26 pages");
    options.page_bytes = PAGE + 1;
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_range_create(w.pool, 1, &options, &range));
    kit_expect_words("not a multiple of the device's page");
    options.struct_size = 1;
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_range_create(w.pool, 1, &options, &range));
    kit_expect_words("MEND_RANGE_OPTIONS_INIT");
    options.struct_size = sizeof(options) + 8;
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_range_create(w.pool, 1, &options, &range));
    kit_expect_words("newer");
    EXPECT_PTR_EQ(NULL, range);
    EXPECT_RESULT(MEND_OK, mend_range_destroy(NULL, NULL));
    kit_close(&w);
}

typedef mend_result (*page_call)(mend_range *, uint64_t, uint64_t, mend_stream);

MEND_TEST(pool_range, calls_about_pages_refuse_by_name)
{
    mend_world w;
    ASSERT_TRUE(kit_open_default(&w));
    mend_range *range = create(&w, 8 * PAGE, PAGE);
    expect_commit(range, 0, PAGE, w.streams[0]);
    const page_call calls[] = {mend_range_commit, mend_range_decommit, mend_range_record_stream};
    for (int i = 0; i < 3; i++) {
        mend_stream stream = w.streams[0];
        EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, calls[i](NULL, 0, PAGE, stream));
        EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, calls[i](range, 0, 0, stream));
        EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, calls[i](range, 0, 9 * PAGE, stream));
        kit_expect_words("are not in the range");
        EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, calls[i](range, 8 * PAGE, PAGE, stream));
        EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, calls[i](range, ~UINT64_C(0), PAGE, stream));
        EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, calls[i](range, 512, PAGE, stream));
        kit_expect_words("no multiple of the page");
        EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, calls[i](range, 0, PAGE / 2, stream));
        EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, calls[i](range, 0, PAGE, MEND_EVERY_STREAM));
    }
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT,
                  mend_range_record_stream(range, 0, PAGE, MEND_NO_STREAM));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_range_destroy(range, MEND_EVERY_STREAM));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_range_get_info(range, NULL));
    mend_range_info info = {.struct_size = 1};
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_range_get_info(range, &info));
    kit_expect_words("MEND_RANGE_INFO_INIT");
    EXPECT_U64_EQ(PAGE, info_of(range).committed_bytes);
    EXPECT_RESULT(MEND_OK, mend_range_destroy(range, w.streams[0]));
    kit_close(&w);
}

static void expect_event(const mend_history_event *event, mend_event_kind kind, void *address,
                         uint64_t size_bytes, mend_stream stream)
{
    EXPECT_INT_EQ((int)kind, event->kind);
    EXPECT_TRUE(event->address == address && event->stream == stream);
    EXPECT_U64_EQ(size_bytes, event->size_bytes);
    EXPECT_U64_EQ(7, event->tag);
}

/* Neighbours that are committed, or decommitted, by one call are one event. */
MEND_TEST(pool_range, the_history_has_commits_and_decommits)
{
    mend_world w;
    mend_history_event events[8];
    uint64_t cursor = 0;
    size_t count = 0;
    ASSERT_TRUE(kit_open_default(&w));
    mend_range *range = create(&w, 8 * PAGE, PAGE);
    void *base = at(range, 0);
    expect_commit(range, 0, 4 * PAGE, w.streams[0]);
    expect_decommit(range, 0, 4 * PAGE, w.streams[0]); /* mapped and free from here on */
    EXPECT_RESULT(MEND_OK, mend_history_start(w.pool, 8));
    expect_commit(range, PAGE, PAGE, w.streams[0]);
    expect_commit(range, 0, 4 * PAGE, w.streams[0]);
    expect_commit(range, 0, 4 * PAGE, w.streams[0]); /* nothing happens */
    expect_decommit(range, 2 * PAGE, PAGE, w.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_history_read(w.pool, &cursor, events, sizeof(*events), 8, &count));
    ASSERT_U64_EQ(4, count);
    expect_event(&events[0], MEND_EVENT_COMMIT, (char *)base + PAGE, PAGE, w.streams[0]);
    expect_event(&events[1], MEND_EVENT_COMMIT, base, PAGE, w.streams[0]);
    expect_event(&events[2], MEND_EVENT_COMMIT, (char *)base + 2 * PAGE, 2 * PAGE, w.streams[0]);
    expect_event(&events[3], MEND_EVENT_DECOMMIT, (char *)base + 2 * PAGE, PAGE, w.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_range_destroy(range, MEND_NO_STREAM));
    EXPECT_RESULT(MEND_OK, mend_history_read(w.pool, &cursor, events, sizeof(*events), 8, &count));
    ASSERT_TRUE(count >= 2);
    expect_event(&events[0], MEND_EVENT_DECOMMIT, base, 2 * PAGE, MEND_NO_STREAM);
    expect_event(&events[1], MEND_EVENT_DECOMMIT, (char *)base + 3 * PAGE, PAGE, MEND_NO_STREAM);
    kit_close(&w);
}

/* A commit of so much would have succeeded, and of a page more not. */
MEND_TEST(pool_range, out_of_memory_names_the_pages_that_would_fit)
{
    mend_world w;
    mend_world_init(&w);
    w.pool_config.limit_bytes = 6 * PAGE;
    ASSERT_TRUE(kit_open(&w));
    mend_range *range = create(&w, 8 * PAGE, PAGE);
    expect_commit(range, 0, 2 * PAGE, w.streams[0]);
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY, mend_range_commit(range, 0, 8 * PAGE, w.streams[0]));
    kit_expect_words("A request of 1.00 MiB would fit");
    mend_error error = MEND_ERROR_INIT;
    mend_last_error(&error);
    ASSERT_TRUE(error.shortfall != NULL);
    EXPECT_U64_EQ(4 * PAGE, error.shortfall->fitting_bytes);
    expect_commit(range, 2 * PAGE, 4 * PAGE, w.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_range_destroy(range, w.streams[0]));
    kit_close(&w);
}

MEND_TEST(pool_range, pages_are_not_exported)
{
    mend_world w;
    mend_world_init(&w);
    w.pool_config.shareable = 1;
    ASSERT_TRUE(kit_open(&w));
    mend_export_token token;
    size_t size_bytes = 0;
    mend_range *range = create(&w, 8 * PAGE, PAGE);
    expect_commit(range, 0, 2 * PAGE, w.streams[0]);
    EXPECT_RESULT(MEND_ERROR_FOREIGN_POINTER, mend_export(w.pool, at(range, 512), &token, NULL));
    kit_expect_words("in a range");
    EXPECT_RESULT(MEND_ERROR_FOREIGN_POINTER,
                  mend_export_fabric(w.pool, at(range, 0), NULL, 0, &size_bytes, NULL));
    EXPECT_RESULT(MEND_OK, mend_range_destroy(range, w.streams[0]));
    kit_close(&w);
}

MEND_TEST(pool_range, pages_are_no_blocks)
{
    mend_world w;
    ASSERT_TRUE(kit_open_default(&w));
    mend_range *range = create(&w, 8 * PAGE, PAGE);
    expect_commit(range, 0, 2 * PAGE, w.streams[0]);
    EXPECT_RESULT(MEND_ERROR_FOREIGN_POINTER, mend_free(w.pool, at(range, 0), w.streams[0]));
    kit_expect_words("mend_range.h");
    EXPECT_RESULT(MEND_ERROR_FOREIGN_POINTER, mend_free(w.pool, at(range, 512), w.streams[0]));
    EXPECT_RESULT(MEND_ERROR_FOREIGN_POINTER,
                  mend_record_stream(w.pool, at(range, PAGE), w.streams[1]));
    mend_alloc_options options = MEND_ALLOC_OPTIONS_INIT;
    expect_decommit(range, 0, PAGE, w.streams[0]);
    options.address = at(range, 0);
    void *block = NULL;
    EXPECT_RESULT(MEND_ERROR_OUT_OF_ADDRESSES,
                  mend_alloc_with(w.pool, PAGE, w.streams[0], &options, &block));
    EXPECT_RESULT(MEND_OK, mend_range_destroy(range, w.streams[0]));
    kit_close(&w);
}

MEND_TEST(pool_range, a_captured_stream_neither_commits_nor_decommits)
{
    mend_world w;
    ASSERT_TRUE(kit_open_default(&w));
    mend_range *range = create(&w, 8 * PAGE, PAGE);
    expect_commit(range, 0, PAGE, w.streams[0]);
    kit_begin_capture(&w, w.streams[1]);
    const page_call calls[] = {mend_range_commit, mend_range_decommit, mend_range_record_stream};
    for (int i = 0; i < 3; i++) {
        EXPECT_RESULT(MEND_ERROR_CAPTURING, calls[i](range, 0, 2 * PAGE, w.streams[1]));
        kit_expect_words("before the capture");
    }
    EXPECT_RESULT(MEND_ERROR_CAPTURING, mend_range_destroy(range, w.streams[1]));
    expect_commit(range, PAGE, PAGE, w.streams[0]); /* another stream may */
    expect_decommit(range, 0, PAGE, w.streams[0]);
    mend_sim_graph *graph = kit_end_capture(&w, w.streams[1]);
    mend_sim_graph_destroy(w.sim, graph);
    EXPECT_U64_EQ(PAGE, info_of(range).committed_bytes);
    EXPECT_RESULT(MEND_OK, mend_range_destroy(range, w.streams[1]));
    kit_close(&w);
}
