/* Sleep and wake: memory is released to the device, addresses stay, and every byte is restored. */
#include <string.h>

#include "mend/mend_frameworks.h"
#include "sim/state.h"
#include "tests/unit/sleep/sleep_rig.h"

SLEEP_TEST(pool_sleep, contents_are_kept_in_a_file)
{
    mend_sleep_options options = *SLEEP_IN_FILE;
    mend_sleep_report report = MEND_SLEEP_REPORT_INIT;
    options.directory = NULL;
    EXPECT_REFUSAL(INVALID_ARGUMENT, "directory", mend_sleep(w->pool, &options, &report));
    options.directory = "/nowhere/at/all";
    EXPECT_REFUSAL(SYSTEM, "/nowhere/at/all", mend_sleep(w->pool, &options, &report));
    EXPECT_TRUE(!sleep_rig_sleeps(r, 0));
    options.directory = sleep_rig_directory();
    EXPECT_OK(mend_sleep(w->pool, &options, &report));
    EXPECT_FIELDS(report, file_bytes, SLEEP_BLOCKS * SLEEP_BLOCK, host_bytes, 0);
    EXPECT_STATS(w, backup_file_bytes, report.file_bytes);
    EXPECT_REFUSAL(ASLEEP, "all 8388608 bytes", mend_sleep(w->pool, &options, NULL));
    EXPECT_U64_EQ(0, mend_world_ledger(w).host_allocations); /* the buffers went */
    EXPECT_TRUE(mend_world_check(w));
    mend_wake_report woken = MEND_WAKE_REPORT_INIT;
    EXPECT_OK(mend_wake(w->pool, NULL, 0, &woken));
    EXPECT_U64_EQ(report.file_bytes, woken.file_bytes);
    EXPECT_STATS(w, backup_file_bytes, 0);
}

KIT_SET_TEST(pool_sleep, a_large_chunk_passes_through_a_file_in_parts,
             w->placement.chunk_bytes = 20 * MEND_MIB)
{
    const uint64_t size_bytes = 20 * MEND_MIB;
    const void *host = NULL;
    void *block = kit_alloc_written(w, size_bytes, S(0));
    EXPECT_OK(mend_sleep(w->pool, SLEEP_IN_FILE, NULL));
    EXPECT_REFUSAL(NOT_SUPPORTED, "in a file", mend_read_backup(w->pool, block, 1, NULL, &host));
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    kit_release(w, block, size_bytes, S(0));
}

KIT_TEST(pool_sleep, chunks_with_blocks_that_stay_awake_stay_and_the_report_says_so)
{
    void *first = kit_alloc_written(w, 32 * MEND_KIB, S(0));
    void *second = kit_alloc_with(w, 32 * MEND_KIB, S(0), .tag = 1);
    kit_write(w, S(0), second, 32 * MEND_KIB);
    mend_sleep_report report = MEND_SLEEP_REPORT_INIT;
    EXPECT_OK(mend_sleep(w->pool, SLEEP_TAG(1, MEND_BACKUP_HOST, ), &report));
    EXPECT_FIELDS(report, stayed_bytes, 32 * MEND_KIB, asleep_bytes, 0);
    EXPECT_STATS(w, sleeps, 0);
    kit_release(w, first, 32 * MEND_KIB, S(0));
    kit_release(w, second, 32 * MEND_KIB, S(0));
}

/* Free memory wakes chunks of its size. The next block there has no tag of the one before. */
KIT_SET_TEST(pool_sleep, chunks_of_two_sizes_wake_in_the_memory_that_there_is,
             w->placement.small_chunk_bytes = 256 * MEND_KIB)
{
    mend_wake_report woken = MEND_WAKE_REPORT_INIT;
    atomic_store(&mend_process_are_marks_set, false);
    kit_free(w, kit_alloc_with(w, MEND_MIB, NULL, .sleep_tag = 7), NULL);
    EXPECT_U64_EQ(0, kit_info(w, kit_alloc(w, MEND_MIB, NULL)).sleep_tag);
    kit_alloc(w, 4 * MEND_KIB, NULL);
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    kit_free(w, kit_alloc(w, MEND_MIB, NULL), NULL);
    EXPECT_OK(mend_wake(w->pool, NULL, 0, &woken));
    EXPECT_FIELDS(woken, woken_bytes, 5 * MEND_MIB / 4, reused_bytes, MEND_MIB);
}

KIT_LAST_TEST(pool_sleep, work_that_touches_what_sleeps_is_told_its_tag, kit_open_default(w))
{
    w->violations_meant = 1;
    EXPECT_OK(mend_set_name(MEND_NAME_TAG, 7, "weights"));
    void *block = kit_alloc_with(w, 8 * MEND_MIB, NULL, .tag = 3, .sleep_tag = 7);
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    EXPECT_STR_EQ("", mend_sim_note_at(w->sim, (uint64_t)(uintptr_t)block));
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    const mend_sim_work work = {.struct_size = sizeof(work),
                                .kind = MEND_SIM_WORK_TOUCH,
                                .address = (uint64_t)(uintptr_t)block + 3 * MEND_MIB,
                                .size_bytes = 512};
    EXPECT_ERROR(DEVICE_LOST, mend_sim_launch(w->sim, NULL, &work));
    EXPECT_TRUE(
        strstr(mend_sim_first_violation(w->sim),
               ", which is not mapped: it was put to sleep, by the sleep tag \"weights\"") != NULL);
}

/* A block of several chunks, kept in either way, and one that is dropped. */
KIT_TEST(pool_sleep, what_is_kept_is_read_while_it_sleeps)
{
    enum { SIZE = 5 * 512 * 1024, PART = 70000 };
    static unsigned char before[SIZE];
    static unsigned char read[SIZE];
    const int ways[] = {MEND_BACKUP_HOST, MEND_BACKUP_FILE};
    char *blocks[4];
    for (uint64_t i = 0; i < 4; i++) {
        KIT_THREAD(.sleep_tag = (i + 1) % 4);
        blocks[i] = kit_alloc_written(w, SIZE, S(0));
    }
    mend_set_alloc_options(NULL, NULL);
    EXPECT_OK(mend_sleep(w->pool, SLEEP_TAG(3, MEND_DISCARD, ), NULL));
    for (uint64_t i = 0; i < 2; i++) {
        memcpy(before, blocks[i], SIZE);
        EXPECT_OK(mend_sleep(w->pool, SLEEP_TAG(i + 1, ways[i], .directory = sleep_rig_directory()),
                             NULL));
        EXPECT_OK(mend_read_backup(w->pool, blocks[i], SIZE, read, NULL));
        EXPECT_TRUE(memcmp(before, read, SIZE) == 0);
        EXPECT_OK(mend_read_backup(w->pool, blocks[i] + SIZE - PART, PART, read, NULL));
        EXPECT_TRUE(memcmp(before + SIZE - PART, read, PART) == 0);
        memset(read, 0x5a, PART);
        EXPECT_INVALID(mend_read_backup(w->pool, blocks[i] + SIZE - PART, SIZE, read, NULL));
        EXPECT_TRUE(read[0] == 0x5a && memcmp(read, read + 1, PART - 1) == 0);
    }
    EXPECT_REFUSAL(INVALID_ARGUMENT, "has no backup",
                   mend_read_backup(w->pool, blocks[2], 1, read, NULL));
    EXPECT_REFUSAL(INVALID_ARGUMENT, "does not sleep",
                   mend_read_backup(w->pool, blocks[3], 1, read, NULL));
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    EXPECT_INVALID(mend_read_backup(w->pool, blocks[1], 1, read, NULL)); /* the file went */
    EXPECT_INVALID(mend_read_backup(w->pool, blocks[0] + SIZE, 1, read, NULL));
    EXPECT_INVALID(mend_read_backup(w->pool, blocks[0], 1, NULL, NULL));
    EXPECT_INVALID(mend_read_backup(NULL, blocks[0], 1, read, NULL));
    kit_release(w, blocks[0], SIZE, S(0));
    kit_release(w, blocks[1], SIZE, S(0));
}

/* Half of the blocks sleep. A graph's memory has the tag that its block had. */
SLEEP_TEST(pool_sleep, a_list_tells_how_much_has_which_tag)
{
    enum { HALF = SLEEP_BLOCKS / 2 };
    mend_sleep_tag_info infos[4] = {{.tag = 7}};
    size_t count = 0;
    void *plain = kit_alloc(w, SLEEP_BLOCK / 2, NULL);
    sleep_rig_sleep(r, 2, MEND_BACKUP_HOST);
    EXPECT_OK(mend_get_sleep_tags(w->pool, infos, sizeof(infos[0]), 2, &count));
    EXPECT_U64_EQ(3, count);
    EXPECT_U64_EQ(7, infos[0].tag); /* untouched */
    EXPECT_OK(mend_get_sleep_tags(w->pool, infos, sizeof(infos[0]), 4, &count));
    EXPECT_FIELDS(infos[0], tag, 0, live_blocks, 1, live_bytes, SLEEP_BLOCK / 2);
    EXPECT_FIELDS(infos[1], tag, 1, live_blocks, HALF, asleep_live_bytes, 0);
    EXPECT_FIELDS(infos[2], tag, 2, live_bytes, HALF * SLEEP_BLOCK, asleep_live_bytes,
                  HALF * SLEEP_BLOCK);
    kit_free(w, plain, NULL);
    KIT_THREAD(.sleep_tag = 5);
    kit_begin_capture(w, S(0));
    kit_leave_in_flight(w, SLEEP_BLOCK, S(0), 10, S(0));
    mend_sim_graph *graph = kit_end_capture(w, S(0));
    mend_range *range = NULL; /* whose pages have the tag of the thread that creates it */
    const mend_range_options *tagged = KIT_OPTIONS(mend_range_options, .tag = 9);
    EXPECT_OK(mend_range_create(w->pool, SLEEP_PAGE, tagged, &range));
    mend_set_alloc_options(NULL, NULL);
    EXPECT_OK(mend_range_commit(range, 0, 1, S(0)));
    EXPECT_OK(mend_get_sleep_tags(w->pool, infos, sizeof(infos[0]), 4, &count));
    EXPECT_FIELDS(infos[2], tag, 5, live_blocks, 1, graph_bytes, SLEEP_BLOCK);
    EXPECT_U64_EQ(3, count);
    EXPECT_OK(mend_range_destroy(range, S(0)));
    mend_sim_graph_destroy(w->sim, graph);
    EXPECT_INVALID(mend_get_sleep_tags(w->pool, NULL, sizeof(infos[0]), 1, &count));
    EXPECT_INVALID(mend_get_sleep_tags(w->pool, infos, 0, 4, &count));
}
