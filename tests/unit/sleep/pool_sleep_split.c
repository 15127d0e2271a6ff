/* A chunk with blocks that sleep and blocks that stay awake is split at pages: nearly all that is
 * to sleep does, every byte is kept, and where a split is refused the chunk stays as it is. */
#include "mend/mend_host.h"
#include "tests/support/host_memory.h"
#include "tests/unit/sleep/sleep_rig.h"

/* A chunk of 1 MiB, in pages of 64 KiB: it holds eight blocks of two tags in turn, which share the
 * pages at their borders. */
#define PAGE (64 * MEND_KIB)
#define PART (120 * MEND_KIB)
enum { PARTS = 8 };

typedef struct mixed {
    mend_world w;
    void *parts[PARTS];
} mixed;

static bool fill(mixed *m)
{
    for (int i = 0; i < PARTS; i++) {
        mend_set_sleep_tag(1 + (uint64_t)i % 2);
        m->parts[i] = kit_alloc_written(&m->w, PART, m->w.streams[0]);
    }
    mend_set_sleep_tag(0);
    EXPECT_U64_EQ(1, mend_world_stats(&m->w).chunks);
    return true;
}

static bool open_mixed(mixed *m)
{
    return kit_open_default(&m->w) && fill(m);
}

static void close_mixed(mixed *m)
{
    EXPECT_RESULT(MEND_OK, mend_wake(m->w.pool, NULL, 0, NULL));
    EXPECT_TRUE(mend_world_check(&m->w));
    kit_release_row(&m->w, m->parts, PARTS, PART, m->w.streams[0]);
    kit_close(&m->w);
}

static mend_result put_first_tag(mixed *m, int keep, mend_sleep_report *report)
{
    const mend_sleep_rule rule = {1, keep};
    mend_sleep_options options = MEND_SLEEP_OPTIONS_INIT;
    options.rules = &rule;
    options.rule_count = 1;
    options.directory = sleep_rig_directory();
    *report = (mend_sleep_report)MEND_SLEEP_REPORT_INIT;
    return mend_sleep(m->w.pool, &options, report);
}

static bool sleeps(mixed *m, int number)
{
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    EXPECT_RESULT(MEND_OK, mend_get_block_info(m->w.pool, m->parts[number], &info));
    return info.is_asleep != 0;
}

static int count_asleep(mixed *m)
{
    int count = 0;
    for (int i = 0; i < PARTS; i++) {
        count += sleeps(m, i);
        EXPECT_TRUE(!sleeps(m, i) || i % 2 == 0);
    }
    return count;
}

/* Those that stay awake are there, and can be used. */
static void verify_second_tag(mixed *m)
{
    for (int i = 1; i < PARTS; i += 2) {
        kit_verify(&m->w, m->w.streams[0], m->parts[i], PART);
    }
}

MEND_TEST(pool_sleep_split, all_pages_sleep_that_hold_nothing_else)
{
    mixed m;
    mend_sleep_report report;
    ASSERT_TRUE(open_mixed(&m));
    const mend_stats before = mend_world_stats(&m.w);
    EXPECT_RESULT(MEND_OK, put_first_tag(&m, MEND_KEEP_HOST, &report));
    EXPECT_INT_EQ(PARTS / 2, count_asleep(&m));
    EXPECT_U64_EQ(PARTS * PART, report.copied_bytes);
    EXPECT_U64_EQ(PARTS / 2 * PART, report.host_bytes + report.shared_bytes);
    EXPECT_U64_EQ(report.shared_bytes, report.stayed_bytes);
    EXPECT_TRUE(report.shared_bytes < PARTS / 2 * PAGE);
    EXPECT_U64_EQ(0, report.asleep_bytes % PAGE);
    EXPECT_TRUE(report.asleep_bytes >= PARTS / 2 * PAGE);
    const mend_stats asleep = mend_world_stats(&m.w);
    EXPECT_U64_EQ(before.live_bytes, asleep.live_bytes);
    EXPECT_U64_EQ(report.host_bytes, asleep.asleep_live_bytes);
    EXPECT_U64_EQ(1, asleep.sleeps);
    EXPECT_TRUE(asleep.reserved_bytes <= MEND_MIB - report.asleep_bytes);
    EXPECT_TRUE(mend_world_check(&m.w));
    verify_second_tag(&m);
    mend_wake_report woken = MEND_WAKE_REPORT_INIT;
    EXPECT_RESULT(MEND_OK, mend_wake(m.w.pool, NULL, 0, &woken));
    EXPECT_U64_EQ(report.asleep_bytes, woken.woken_bytes);
    EXPECT_RESULT(MEND_OK, put_first_tag(&m, MEND_KEEP_HOST, &report));
    EXPECT_U64_EQ(0, report.copied_bytes); /* it is split already */
    close_mixed(&m);
}

MEND_TEST(pool_sleep_split, contents_are_kept_in_a_file_or_dropped)
{
    mixed m;
    mend_sleep_report report;
    ASSERT_TRUE(open_mixed(&m));
    EXPECT_RESULT(MEND_OK, put_first_tag(&m, MEND_KEEP_FILE, &report));
    EXPECT_U64_EQ(PARTS / 2 * PART, report.file_bytes + report.shared_bytes);
    verify_second_tag(&m);
    EXPECT_RESULT(MEND_OK, mend_wake(m.w.pool, NULL, 0, NULL));
    for (int i = 0; i < PARTS; i++) {
        kit_verify(&m.w, m.w.streams[0], m.parts[i], PART);
    }
    EXPECT_RESULT(MEND_OK, put_first_tag(&m, MEND_KEEP_NOTHING, &report));
    EXPECT_U64_EQ(PARTS / 2 * PART, report.dropped_bytes + report.shared_bytes);
    verify_second_tag(&m);
    EXPECT_RESULT(MEND_OK, mend_wake(m.w.pool, NULL, 0, NULL));
    for (int i = 0; i < PARTS; i += 2) { /* undefined */
        kit_write(&m.w, m.w.streams[0], m.parts[i], PART);
    }
    close_mixed(&m);
}

/* Free memory between blocks goes back as well. */
MEND_TEST(pool_sleep_split, free_pages_are_given_back)
{
    mixed m;
    mend_sleep_report report = MEND_SLEEP_REPORT_INIT;
    ASSERT_TRUE(open_mixed(&m));
    for (int i = 2; i < PARTS; i += i == 2 ? 1 : 2) { /* one of the second tag is left */
        kit_release(&m.w, m.parts[i], PART, m.w.streams[0]);
        m.parts[i] = NULL;
    }
    mend_sim_advance(m.w.sim, 1000000);
    const mend_sleep_rule rule = {1, MEND_KEEP_HOST};
    mend_sleep_options options = MEND_SLEEP_OPTIONS_INIT;
    options.rules = &rule;
    options.rule_count = 1;
    EXPECT_RESULT(MEND_OK, mend_sleep(m.w.pool, &options, &report));
    EXPECT_TRUE(mend_world_stats(&m.w).reserved_bytes <= 3 * PAGE);
    kit_verify(&m.w, m.w.streams[0], m.parts[1], PART);
    close_mixed(&m);
}

/* The blocks of the whole chunks sleep first: their memory is enough for the copies. */
MEND_TEST(pool_sleep_split, what_sleeps_first_makes_room_for_the_copies)
{
    mixed m;
    mend_sleep_report report;
    ASSERT_TRUE(open_mixed(&m));
    mend_set_sleep_tag(1);
    void *whole[7];
    for (int i = 0; i < 7; i++) {
        whole[i] = kit_alloc_written(&m.w, MEND_MIB, m.w.streams[0]);
    }
    mend_set_sleep_tag(0);
    const uint64_t others_bytes = 64 * MEND_MIB - mend_world_ledger(&m.w).chunk_bytes;
    mend_sim_set_foreign_bytes(m.w.sim, 0, others_bytes); /* the device is full */
    EXPECT_RESULT(MEND_OK, put_first_tag(&m, MEND_KEEP_HOST, &report));
    EXPECT_INT_EQ(PARTS / 2, count_asleep(&m));
    EXPECT_TRUE(report.copied_bytes > 0);
    EXPECT_RESULT(MEND_OK, mend_wake(m.w.pool, NULL, 0, NULL));
    kit_release_row(&m.w, whole, 7, MEND_MIB, m.w.streams[0]);
    close_mixed(&m);
}

/* Neither the device nor the limit has room: all stays, and is counted. */
MEND_TEST(pool_sleep_split, without_room_the_chunk_stays_as_it_is)
{
    mixed m;
    mend_sleep_report report;
    ASSERT_TRUE(open_mixed(&m));
    EXPECT_RESULT(MEND_OK, mend_set_limit(m.w.pool, 2 * MEND_MIB - 1));
    for (int i = 0; i < 2; i++) {
        EXPECT_RESULT(MEND_OK, put_first_tag(&m, MEND_KEEP_HOST, &report));
        EXPECT_INT_EQ(0, count_asleep(&m));
        EXPECT_U64_EQ(PARTS / 2 * PART, report.shared_bytes);
        EXPECT_U64_EQ(0, report.copied_bytes);
        EXPECT_U64_EQ(MEND_MIB, mend_world_ledger(&m.w).chunk_bytes);
        EXPECT_TRUE(mend_world_check(&m.w));
        EXPECT_RESULT(MEND_OK, mend_set_limit(m.w.pool, 0));
        mend_sim_set_foreign_bytes(m.w.sim, 0, 63 * MEND_MIB);
    }
    mend_sim_set_foreign_bytes(m.w.sim, 0, 0);
    EXPECT_RESULT(MEND_OK, put_first_tag(&m, MEND_KEEP_HOST, &report));
    EXPECT_INT_EQ(PARTS / 2, count_asleep(&m));
    close_mixed(&m);
}

/* A large chunk finds no room for its copy before parts of small ones sleep. */
MEND_TEST(pool_sleep_split, what_sleeps_by_a_split_makes_room_for_another)
{
    enum { SMALL = 64 };
    mixed m;
    void *large[2];
    void *small[SMALL];
    mend_sleep_report report;
    mend_world_init(&m.w);
    m.w.placement.chunk_bytes = 4 * MEND_MIB;
    m.w.placement.small_chunk_bytes = MEND_MIB;
    m.w.placement.small_request_bytes = PAGE;
    ASSERT_TRUE(kit_open(&m.w));
    for (int i = 0; i < 2; i++) {
        mend_set_sleep_tag(1 + (uint64_t)i);
        large[i] = kit_alloc_written(&m.w, 2 * MEND_MIB, m.w.streams[0]);
    }
    for (int i = 0; i < SMALL; i++) {
        mend_set_sleep_tag(1 + (uint64_t)i % 2);
        small[i] = kit_alloc_written(&m.w, PAGE, m.w.streams[0]);
    }
    mend_set_sleep_tag(0);
    EXPECT_U64_EQ(8 * MEND_MIB, mend_world_stats(&m.w).reserved_bytes);
    EXPECT_U64_EQ(5, mend_world_stats(&m.w).chunks);
    EXPECT_RESULT(MEND_OK, mend_set_limit(m.w.pool, 10 * MEND_MIB));
    EXPECT_RESULT(MEND_OK, put_first_tag(&m, MEND_KEEP_HOST, &report));
    EXPECT_U64_EQ(0, report.shared_bytes);
    EXPECT_U64_EQ(4 * MEND_MIB, report.asleep_bytes);
    EXPECT_U64_EQ(8 * MEND_MIB, report.copied_bytes);
    EXPECT_U64_EQ(1, mend_world_stats(&m.w).sleeps);
    EXPECT_TRUE(mend_world_ledger(&m.w).peak_chunk_bytes <= 10 * MEND_MIB);
    EXPECT_TRUE(mend_world_check(&m.w));
    EXPECT_RESULT(MEND_OK, mend_wake(m.w.pool, NULL, 0, NULL));
    kit_release_row(&m.w, large, 2, 2 * MEND_MIB, m.w.streams[0]);
    kit_release_row(&m.w, small, SMALL, PAGE, m.w.streams[0]);
    kit_close(&m.w);
}

/* A refusal concerns one chunk. */
MEND_TEST(pool_sleep_split, a_refused_chunk_does_not_keep_the_others)
{
    mixed m;
    void *more[2];
    mend_sleep_report report;
    ASSERT_TRUE(open_mixed(&m));
    void *rest = kit_alloc_written(&m.w, PAGE, m.w.streams[0]); /* the chunk is full now */
    for (int i = 0; i < 2; i++) {
        mend_set_sleep_tag(1 + (uint64_t)i % 2);
        more[i] = kit_alloc_written(&m.w, MEND_MIB / 2, m.w.streams[0]);
    }
    mend_set_sleep_tag(0);
    kit_fail(&m.w, "create", 0, 1, MEND_DRIVER_UNKNOWN);
    EXPECT_RESULT(MEND_OK, put_first_tag(&m, MEND_KEEP_HOST, &report));
    EXPECT_INT_EQ(0, count_asleep(&m));
    EXPECT_U64_EQ(PARTS / 2 * PART, report.shared_bytes);
    EXPECT_U64_EQ(MEND_MIB / 2, report.asleep_bytes);
    EXPECT_TRUE(mend_world_check(&m.w));
    EXPECT_RESULT(MEND_OK, mend_wake(m.w.pool, NULL, 0, NULL));
    kit_release_row(&m.w, more, 2, MEND_MIB / 2, m.w.streams[0]);
    kit_release(&m.w, rest, PAGE, m.w.streams[0]);
    close_mixed(&m);
}

MEND_TEST(pool_sleep_split, a_pin_leaves_the_chunk_as_it_is)
{
    mixed m;
    mend_sleep_report report = MEND_SLEEP_REPORT_INIT;
    mend_sleep_options options = MEND_SLEEP_OPTIONS_INIT;
    const mend_sleep_rule rule = {1, MEND_KEEP_HOST};
    ASSERT_TRUE(open_mixed(&m));
    EXPECT_RESULT(MEND_OK, mend_pin(m.w.pool, m.parts[1], PART));
    EXPECT_RESULT(MEND_ERROR_PINNED, put_first_tag(&m, MEND_KEEP_HOST, &report));
    options.rules = &rule;
    options.rule_count = 1;
    options.skip_pinned = 1;
    EXPECT_RESULT(MEND_OK, mend_sleep(m.w.pool, &options, &report));
    EXPECT_U64_EQ(PARTS / 2 * PART, report.pinned_bytes);
    EXPECT_U64_EQ(0, report.copied_bytes);
    EXPECT_INT_EQ(0, count_asleep(&m));
    EXPECT_RESULT(MEND_OK, mend_unpin(m.w.pool, m.parts[1], PART));
    close_mixed(&m);
}

/* A graph that was captured before uses what stayed, at its address, and later what woke. */
MEND_TEST(pool_sleep_split, graphs_use_what_was_split)
{
    mixed m;
    mend_sleep_report report;
    ASSERT_TRUE(open_mixed(&m));
    kit_begin_capture(&m.w, m.w.streams[0]);
    for (int i = 0; i < PARTS; i++) {
        kit_launch(&m.w, m.w.streams[0], MEND_SIM_WORK_VERIFY, m.parts[i], PART,
                   (uintptr_t)m.parts[i], 0);
    }
    mend_sim_graph *graph = kit_end_capture(&m.w, m.w.streams[0]);
    EXPECT_RESULT(MEND_OK, put_first_tag(&m, MEND_KEEP_HOST, &report));
    EXPECT_RESULT(MEND_OK, mend_wake(m.w.pool, NULL, 0, NULL));
    kit_launch_graph(&m.w, graph, m.w.streams[0]);
    mend_sim_advance(m.w.sim, 1000000);
    mend_sim_graph_destroy(m.w.sim, graph);
    close_mixed(&m);
}

/* Memory that a graph uses and no block has stays awake: the graph may run while others sleep. */
MEND_TEST(pool_sleep_split, memory_of_graphs_stays_awake)
{
    mend_world w;
    ASSERT_TRUE(kit_open_default(&w));
    mend_group *group = kit_begin_captured_group(&w, w.streams[0]);
    void *used = kit_alloc(&w, 2 * PAGE, w.streams[0]);
    kit_use(&w, w.streams[0], used, 2 * PAGE, 10);
    kit_free(&w, used, w.streams[0]);
    mend_sim_graph *graph = kit_end_captured_group(&w, w.streams[0], group);
    mixed m = {.w = w};
    mend_sleep_report report;
    for (int i = 0; i < PARTS - 1; i++) { /* the last one beside the memory of the graph */
        mend_set_sleep_tag(1 + (uint64_t)i % 2);
        m.parts[i] = kit_alloc_written(&m.w, PART, m.w.streams[1]);
    }
    mend_set_sleep_tag(0);
    m.parts[PARTS - 1] = NULL;
    EXPECT_U64_EQ(1, mend_world_stats(&m.w).chunks);
    EXPECT_RESULT(MEND_OK, put_first_tag(&m, MEND_KEEP_HOST, &report));
    EXPECT_TRUE(report.copied_bytes > 0);
    kit_launch_graph(&m.w, graph, m.w.streams[0]);
    mend_sim_advance(m.w.sim, 1000000);
    EXPECT_TRUE(mend_world_check(&m.w));
    EXPECT_RESULT(MEND_OK, mend_wake(m.w.pool, NULL, 0, NULL));
    kit_launch_graph(&m.w, graph, m.w.streams[0]);
    mend_sim_advance(m.w.sim, 1000000);
    mend_sim_graph_destroy(m.w.sim, graph);
    EXPECT_RESULT(MEND_OK, mend_group_release(group, m.w.streams[0]));
    close_mixed(&m);
}

/* Chunks on the host neither sleep nor are split. */
MEND_TEST(pool_sleep_split, chunks_on_the_host_stay_as_they_are)
{
    mixed m;
    mend_sleep_report report;
    mend_world_init(&m.w);
    m.w.pool_config.host_bytes = 16 * MEND_MIB;
    ASSERT_TRUE(kit_open(&m.w) && fill(&m));
    EXPECT_RESULT(MEND_OK, mend_move_to_host(m.w.pool, NULL, 0, NULL));
    EXPECT_RESULT(MEND_OK, put_first_tag(&m, MEND_KEEP_HOST, &report));
    EXPECT_U64_EQ(0, report.copied_bytes + report.asleep_bytes + report.stayed_bytes);
    EXPECT_U64_EQ(PARTS * PART, mend_world_stats(&m.w).host_live_bytes);
    EXPECT_RESULT(MEND_OK, mend_move_to_device(m.w.pool, NULL, 0, NULL));
    EXPECT_RESULT(MEND_OK, put_first_tag(&m, MEND_KEEP_HOST, &report));
    EXPECT_INT_EQ(PARTS / 2, count_asleep(&m));
    close_mixed(&m);
}

MEND_TEST(pool_sleep_split, nothing_is_split_during_a_capture)
{
    mixed m;
    mend_sleep_report report;
    ASSERT_TRUE(open_mixed(&m));
    kit_begin_capture(&m.w, m.w.streams[1]);
    void *captured = kit_alloc(&m.w, PAGE, m.w.streams[1]);
    kit_use(&m.w, m.w.streams[1], captured, PAGE, 10);
    EXPECT_RESULT(MEND_ERROR_CAPTURING, put_first_tag(&m, MEND_KEEP_HOST, &report));
    EXPECT_INT_EQ(0, count_asleep(&m));
    mend_sim_graph_destroy(m.w.sim, kit_end_capture(&m.w, m.w.streams[1]));
    kit_free(&m.w, captured, m.w.streams[1]);
    close_mixed(&m);
}

/* ---- failures -------------------------------------------------------------------------------- */

static const char *const calls_of_split[] = {
    "create",  "map",        "set_access",        "copy", "context_synchronize", "unmap",
    "release", "host_alloc", "stream_synchronize"};

/* After a failure the chunk is as it was, or split; every byte is there, and nothing leaks. */
static bool fail_once(const char *call, uint64_t after, uint64_t count, bool *failed)
{
    mixed m;
    mend_sleep_report report;
    if (!open_mixed(&m)) {
        return false;
    }
    const mend_stats before = mend_world_stats(&m.w);
    kit_fail(&m.w, call, after, count, MEND_DRIVER_UNKNOWN);
    const mend_result result = put_first_tag(&m, MEND_KEEP_HOST, &report);
    *failed = result != MEND_OK || mend_world_stats(&m.w).driver_failures > before.driver_failures;
    mend_sim_clear_faults(m.w.sim);
    EXPECT_RESULT(MEND_OK, mend_audit(m.w.pool));
    EXPECT_TRUE(result == MEND_OK || result == MEND_ERROR_DRIVER);
    const int asleep = count_asleep(&m);
    EXPECT_TRUE(asleep == 0 || (result == MEND_OK && asleep == PARTS / 2));
    EXPECT_U64_EQ(before.live_bytes, mend_world_stats(&m.w).live_bytes);
    EXPECT_TRUE(result != MEND_OK || mend_world_stats(&m.w).unmapped_blocks == 0);
    EXPECT_RESULT(MEND_OK, mend_trim(m.w.pool, 0, NULL)); /* maps what could not be mapped */
    EXPECT_U64_EQ(0, mend_world_stats(&m.w).unmapped_blocks);
    verify_second_tag(&m);
    EXPECT_RESULT(MEND_OK, mend_wake(m.w.pool, NULL, 0, NULL));
    EXPECT_RESULT(MEND_OK, put_first_tag(&m, MEND_KEEP_HOST, &report));
    EXPECT_INT_EQ(PARTS / 2, count_asleep(&m));
    EXPECT_TRUE(mend_world_check(&m.w));
    close_mixed(&m);
    return !mend_test_has_failed();
}

MEND_TEST(pool_sleep_split, nothing_is_lost_at_any_refused_call)
{
    for (size_t i = 0; i < sizeof(calls_of_split) / sizeof(calls_of_split[0]); i++) {
        bool failed = true;
        for (uint64_t count = 1; count <= 3; count++) { /* the way back is refused, too */
            failed = true;
            for (uint64_t after = 0; failed; after++) {
                ASSERT_TRUE(fail_once(calls_of_split[i], after, count, &failed));
                ASSERT_TRUE(after < 1000);
                ASSERT_TRUE(after > 0 || failed); /* the call is made at all */
            }
        }
    }
}

/* One refused mapping leaves the chunk as it was, and the call goes on. */
MEND_TEST(pool_sleep_split, a_refused_mapping_leaves_the_chunk_as_it_was)
{
    mixed m;
    mend_sleep_report report;
    for (uint64_t after = 0; after < 18; after++) {
        ASSERT_TRUE(open_mixed(&m));
        kit_fail(&m.w, "map", after, 1, MEND_DRIVER_UNKNOWN);
        EXPECT_RESULT(MEND_OK, put_first_tag(&m, MEND_KEEP_HOST, &report));
        mend_sim_clear_faults(m.w.sim);
        EXPECT_U64_EQ(0, mend_world_stats(&m.w).unmapped_blocks);
        EXPECT_U64_EQ(PARTS / 2 * PART, report.shared_bytes + report.host_bytes);
        EXPECT_TRUE(mend_world_check(&m.w));
        verify_second_tag(&m);
        close_mixed(&m);
    }
}

/* It unmaps the chunk, refuses a part, and refuses to unmap the first part: the chunk is split, and
 * the parts come back later. */
MEND_TEST(pool_sleep_split, what_cannot_go_back_comes_later)
{
    mixed m;
    mend_sleep_report report;
    ASSERT_TRUE(open_mixed(&m));
    mend_sim_ledger before = mend_world_ledger(&m.w);
    EXPECT_U64_EQ(1, before.mappings);
    kit_fail(&m.w, "set_access", 1, 1, MEND_DRIVER_UNKNOWN); /* the first is at the scratch */
    kit_fail(&m.w, "unmap", 2, 1, MEND_DRIVER_UNKNOWN);      /* scratch, chunk, parts */
    EXPECT_RESULT(MEND_ERROR_DRIVER, put_first_tag(&m, MEND_KEEP_HOST, &report));
    kit_expect_words("could not be mapped");
    mend_sim_clear_faults(m.w.sim);
    EXPECT_U64_EQ(PARTS, mend_world_stats(&m.w).unmapped_blocks);
    EXPECT_INT_EQ(0, count_asleep(&m));
    EXPECT_TRUE(mend_world_check(&m.w));
    EXPECT_RESULT(MEND_OK, put_first_tag(&m, MEND_KEEP_HOST, &report)); /* maps them first */
    EXPECT_U64_EQ(0, report.copied_bytes);
    EXPECT_INT_EQ(PARTS / 2, count_asleep(&m));
    verify_second_tag(&m);
    close_mixed(&m);
}

MEND_TEST(pool_sleep_split, host_memory_fails_at_every_place)
{
    bool failed = true;
    for (uint64_t after = 0; failed; after++) {
        mixed m;
        mend_sleep_report report;
        mend_unwatched_driver unwatched;
        mend_world_init(&m.w);
        ASSERT_TRUE(mend_world_open_device(&m.w));
        mend_unwatched_driver_init(&unwatched, mend_sim_driver(m.w.sim));
        ASSERT_TRUE(mend_world_open_pool(&m.w, &unwatched.table));
        ASSERT_TRUE(kit_open_streams(&m.w) && fill(&m));
        mend_test_fail_host_memory_after(after, 1);
        mend_test_watch_host_memory(true);
        const mend_result result = put_first_tag(&m, MEND_KEEP_HOST, &report);
        mend_test_watch_host_memory(false);
        failed = mend_test_failed_host_allocations() > 0;
        mend_test_heal_host_memory();
        EXPECT_TRUE(result == MEND_OK || result == MEND_ERROR_OUT_OF_HOST_MEMORY);
        EXPECT_TRUE(result != MEND_OK ||
                    report.shared_bytes + report.host_bytes == PARTS / 2 * PART);
        EXPECT_TRUE(mend_world_check(&m.w));
        close_mixed(&m);
        ASSERT_TRUE(after < 1000);
    }
}

MEND_TEST(pool_sleep_split, the_device_is_lost_while_a_chunk_is_split)
{
    mixed m;
    mend_sleep_report report;
    ASSERT_TRUE(open_mixed(&m));
    kit_break(&m.w, "create");
    EXPECT_RESULT(MEND_ERROR_DEVICE_LOST, put_first_tag(&m, MEND_KEEP_HOST, &report));
    (void)mend_pool_destroy(m.w.pool);
    mend_sim_destroy(m.w.sim);
}
