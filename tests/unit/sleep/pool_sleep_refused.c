/* Refusals of a sleep and a wake, with their errors, and without any change. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/support/files.h"
#include "tests/unit/sleep/sleep_rig.h"

static void expect_awake(sleep_rig *r)
{
    for (int i = 0; i < SLEEP_BLOCKS; i++) {
        EXPECT_TRUE(!sleep_rig_sleeps(r, i));
    }
    EXPECT_STATS(&r->w, sleeps, 0);
    EXPECT_TRUE(mend_world_check(&r->w));
}

SLEEP_TEST(pool_sleep_refused, arguments_are_checked)
{
    const mend_sleep_options wrong[] = {
        *SLEEP_TAG(1, MEND_BACKUP_DEFAULT, ),
        *SLEEP_TAG(1, MEND_STAY_RESIDENT + 1, ),
        *SLEEP_TAG(1, -1, ),
        *SLEEP_TAG(1, MEND_BACKUP_HOST, .others = MEND_BACKUP_FILE),
        *SLEEP_TAG(1, MEND_BACKUP_FILE, ),
        *SLEEP_TAG(1, MEND_BACKUP_HOST, .rule_bytes = 12),
        *KIT_OPTIONS(mend_sleep_options, .graphs = MEND_BACKUP_HOST),
        *KIT_OPTIONS(mend_sleep_options, .rule_count = 1),
        *KIT_OPTIONS(mend_sleep_options, .others = MEND_STAY_RESIDENT + 1),
        *KIT_OPTIONS(mend_sleep_options, .skip_pinned = 2),
        *KIT_OPTIONS(mend_sleep_options, .keep_free = -1),
        *KIT_OPTIONS(mend_sleep_options, .keep_free = 3),
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        EXPECT_INVALID(mend_sleep(w->pool, &wrong[i], NULL));
    }
    expect_awake(r);
}

SLEEP_TEST(pool_sleep_refused, of_pinned_chunks_the_first_is_named)
{
    char words[64];
    snprintf(words, sizeof(words), "the first in the chunk at %p;", r->blocks[0]);
    EXPECT_OK(mend_pin(w->pool, r->blocks[2], 512));
    EXPECT_OK(mend_pin(w->pool, r->blocks[0], 512));
    EXPECT_REFUSAL(PINNED, words, mend_sleep(w->pool, NULL, NULL));
    mend_sleep_report report = MEND_SLEEP_REPORT_INIT;
    EXPECT_OK(mend_sleep(w->pool, KIT_OPTIONS(mend_sleep_options, .skip_pinned = 1), &report));
    EXPECT_FIELDS(report, pinned_bytes, 2 * SLEEP_BLOCK, stayed_bytes, 2 * SLEEP_BLOCK);
    EXPECT_OK(mend_unpin(w->pool, r->blocks[2], 512));
    EXPECT_INVALID(mend_unpin(w->pool, r->blocks[2], 512));
    EXPECT_OK(mend_unpin(w->pool, r->blocks[0], 512));
}

/* Of a block in several chunks, one of which is pinned, the report has that one's part. */
SLEEP_TEST(pool_sleep_refused, of_a_block_only_the_part_in_the_pinned_chunk_stays)
{
    void *block = kit_alloc(w, 32 * SLEEP_BLOCK, S(0));
    EXPECT_OK(mend_pin(w->pool, block, 512));
    const uint64_t pinned_bytes = mend_world_stats(w).pinned_bytes;
    EXPECT_TRUE(pinned_bytes < 32 * SLEEP_BLOCK);
    mend_sleep_report report = MEND_SLEEP_REPORT_INIT;
    EXPECT_OK(mend_sleep(w->pool, KIT_OPTIONS(mend_sleep_options, .skip_pinned = 1), &report));
    EXPECT_FIELDS(report, pinned_bytes, pinned_bytes, stayed_bytes, pinned_bytes);
    EXPECT_OK(mend_unpin(w->pool, block, 512));
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    kit_free(w, block, S(0));
}

SLEEP_TEST(pool_sleep_refused, tags_that_no_block_has_are_in_the_report)
{
    const uint64_t half = SLEEP_BLOCKS / 2 * SLEEP_BLOCK;
    const struct {
        mend_sleep_rule rule;
        uint64_t later;
    } rules[] = {
        {{7, MEND_BACKUP_HOST}, 1}, {{1, MEND_BACKUP_HOST}, 1}, {{9, MEND_STAY_RESIDENT}, 1}};
    mend_sleep_options options = MEND_SLEEP_OPTIONS_INIT;
    mend_sleep_report report = MEND_SLEEP_REPORT_INIT;
    mend_wake_report woken = MEND_WAKE_REPORT_INIT;
    options.rules = &rules[0].rule;
    options.rule_bytes = sizeof(rules[0]);
    options.rule_count = 1;
    EXPECT_OK(mend_sleep(w->pool, &options, &report));
    EXPECT_FIELDS(report, matched_bytes, 0, unmatched_tags, 1, unmatched_tag, 7);
    expect_awake(r);
    EXPECT_OK(mend_wake(w->pool, &rules[0].rule.tag, 1, &woken));
    EXPECT_FIELDS(woken, matched_bytes, 0, unmatched_tags, 1, unmatched_tag, 7);
    options.rule_count = 3;
    EXPECT_OK(mend_sleep(w->pool, &options, &report));
    EXPECT_FIELDS(report, matched_bytes, half, unmatched_tags, 2, unmatched_tag, 7);
    options.others = MEND_BACKUP_HOST; /* half of these sleep */
    EXPECT_OK(mend_sleep(w->pool, &options, &report));
    EXPECT_FIELDS(report, matched_bytes, 2 * half, asleep_bytes, half, unmatched_tags, 2);
    EXPECT_OK(mend_wake(w->pool, &rules[0].rule.tag, 1, NULL));
    EXPECT_STATS(w, wakes, 0);
    const uint64_t tags[] = {2, 8, 1};
    EXPECT_OK(mend_wake(w->pool, tags, 2, &woken));
    EXPECT_FIELDS(woken, matched_bytes, half, unmatched_tags, 1, unmatched_tag, 8);
    EXPECT_OK(mend_wake(w->pool, &tags[2], 1, &woken));
    EXPECT_FIELDS(woken, matched_bytes, half, woken_bytes, half, host_bytes, half, unmatched_tags,
                  0);
    EXPECT_OK(mend_wake(w->pool, tags, 1, &woken)); /* they are awake */
    EXPECT_FIELDS(woken, matched_bytes, half, woken_bytes, 0, unmatched_tags, 0);
    EXPECT_OK(mend_sleep(w->pool, NULL, &report));
    EXPECT_FIELDS(report, matched_bytes, 2 * half, unmatched_tags, 0, unmatched_tag, 0);
    EXPECT_OK(mend_wake(w->pool, NULL, 0, &woken));
    EXPECT_FIELDS(woken, matched_bytes, 2 * half, unmatched_tags, 0);
}

/* As may be under confidential computing. */
SLEEP_TEST(pool_sleep_refused, a_driver_without_pinned_memory_is_named)
{
    kit_fail(w, "host_alloc", 0, UINT64_MAX, MEND_DRIVER_NOT_SUPPORTED);
    EXPECT_REFUSAL(NOT_SUPPORTED, "gives no pinned memory", mend_sleep(w->pool, NULL, NULL));
    expect_awake(r);
}

/* There was some for the sleep. */
SLEEP_TEST(pool_sleep_refused, a_wake_without_pinned_memory_says_what_it_is_for)
{
    EXPECT_OK(mend_sleep(w->pool, SLEEP_IN_FILE, NULL));
    kit_fail(w, "host_alloc", 0, 1, MEND_DRIVER_NOT_SUPPORTED);
    EXPECT_REFUSAL(DRIVER, "cuMemHostAlloc failed", mend_wake(w->pool, NULL, 0, NULL));
    kit_fail(w, "host_alloc", 0, 1, MEND_DRIVER_OUT_OF_MEMORY);
    EXPECT_REFUSAL(OUT_OF_HOST_MEMORY, "to read files", mend_wake(w->pool, NULL, 0, NULL));
}

/* The system would end the process by a signal. */
SLEEP_TEST(pool_sleep_refused, a_limit_of_file_sizes_is_named)
{
    mend_sleep_options options = *SLEEP_IN_FILE;
    const uint64_t limits[] = {0, SLEEP_BLOCK / 2, SLEEP_BLOCKS * SLEEP_BLOCK - 1};
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        mend_test_shared_limit_file_size(limits[i]);
        EXPECT_REFUSAL(SYSTEM, "ulimit -f", mend_sleep(w->pool, &options, NULL));
        mend_test_shared_limit_file_size(UINT64_MAX);
        expect_awake(r);
    }
    mend_test_shared_limit_file_size(SLEEP_BLOCKS * SLEEP_BLOCK);
    options.keep_free = 2; /* simulated memory would be a file, too */
    EXPECT_OK(mend_sleep(w->pool, &options, NULL));
    mend_test_shared_limit_file_size(0);
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL)); /* which only reads */
    mend_test_shared_limit_file_size(UINT64_MAX);
}

/* ---- files that the system passes otherwise -------------------------------------------------- */

enum { AS_A_WHOLE, IN_PARTS, CUT, REFUSED };
static atomic_int files_pass;

/* In the place of the C library's. */
static ssize_t pass(long call, int file, uintptr_t bytes, size_t size_bytes, off_t at)
{
    static atomic_uint calls;
    const bool in_parts = files_pass == IN_PARTS;
    errno = in_parts ? EINTR : EIO;
    size_bytes = in_parts && size_bytes > 300000 ? 300000 : size_bytes;
    return files_pass == REFUSED || (in_parts && ++calls % 2 == 0) ? -1
           : files_pass == CUT                                     ? 0
                               : syscall(call, file, bytes, size_bytes, at);
}

ssize_t pwrite(int file, const void *bytes, size_t size_bytes, off_t at)
{
    return pass(SYS_pwrite64, file, (uintptr_t)bytes, size_bytes, at);
}

ssize_t pread(int file, void *bytes, size_t size_bytes, off_t at)
{
    return pass(SYS_pread64, file, (uintptr_t)bytes, size_bytes, at);
}

SLEEP_TEST(pool_sleep_refused, a_file_passes_in_parts_or_not_at_all)
{
    const int files = mend_test_open_files();
    files_pass = REFUSED;
    EXPECT_REFUSAL(SYSTEM, "not be written", mend_sleep(w->pool, SLEEP_IN_FILE, NULL));
    expect_awake(r);
    files_pass = IN_PARTS;
    EXPECT_OK(mend_sleep(w->pool, SLEEP_IN_FILE, NULL));
    for (files_pass = CUT; files_pass <= REFUSED; files_pass++) {
        EXPECT_REFUSAL(SYSTEM, "not be read", mend_wake(w->pool, NULL, 0, NULL));
    }
    files_pass = IN_PARTS;
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    files_pass = AS_A_WHOLE;
    EXPECT_TRUE(mend_test_files_are(files));
}
