/* The log of a pool: blocks that live at the end. */
#include <stdio.h>
#include <string.h>

#include "mend/mend_range.h"
#include "tests/support/kit.h"

enum { LINES = 8 };

static struct {
    char line[LINES][640];
    mend_log_level level[LINES];
    int count;
} heard;

/* Keeps the line, and makes a mistake of its own, which must not hide the call's. */
static void hear(KIT_UNUSED void *context, mend_log_level level, const char *line)
{
    if (heard.count < LINES) {
        snprintf(heard.line[heard.count], sizeof(heard.line[0]), "%s", line);
        heard.level[heard.count++] = level;
    }
    EXPECT_INVALID(mend_trim(NULL, 0, MEND_TRIM_IDLE, NULL));
}

static void expect_heard(mend_log_level level, const char *words)
{
    for (int i = 0; i < heard.count; i++) {
        if (heard.level[i] == level && strstr(heard.line[i], words) != NULL) {
            return;
        }
    }
    mend_test_fail(__FILE__, __LINE__, "of %d lines none says \"%s\"; the last: %s", heard.count,
                   words, heard.count > 0 ? heard.line[heard.count - 1] : "");
}

MEND_TEST(pool_log, tells_what_lives_when_a_pool_is_destroyed)
{
    mend_world w;
    ASSERT_TRUE(kit_open_default(&w));
    mend_range *range = NULL;
    void *blocks[5];
    static const uint64_t sizes[] = {MEND_MIB, 5 * MEND_MIB, 512, 3 * MEND_MIB, 2 * MEND_MIB};
    EXPECT_OK(mend_range_create(w.pool, 4 * MEND_MIB, NULL, &range));
    for (int i = 0; i < 5; i++) {
        static const char *const scopes[] = {"step", "for\n\033[2Jward", "backward", "step",
                                             "step"};
        mend_scope_push("a", 0);
        mend_scope_push(scopes[i], 0);
        blocks[i] = kit_alloc_with(&w, sizes[i], NULL, .plain = i == 3);
        EXPECT_OK(i == 4 ? mend_range_commit(range, 0, 1, NULL) : MEND_OK);
        mend_scope_pop();
        mend_scope_pop();
    }
    char expected[640];
    snprintf(expected, sizeof(expected),
             "the pool on device 0 was destroyed with 1 ranges, 64.00 KiB committed, and 5 blocks "
             "alive, 11.00 MiB; the largest: "
             "%p (5.00 MiB), %p (3.00 MiB), %p (2.00 MiB). Largest owners: a/step (6.06 MiB in 4 "
             "blocks, up to 6 allocations old), a/for??[2Jward (5.00 MiB in 1 block, 5 allocations "
             "old), "
             "a/backward (512 bytes in 1 block, 4 allocations old).",
             blocks[1], blocks[3], blocks[4]);
    heard.count = 0;
    kit_free(&w, kit_alloc(&w, 6 * MEND_MIB, NULL), NULL);
    mend_log_set_sink(hear, NULL);
    EXPECT_OK(mend_pool_destroy(w.pool));
    expect_heard(MEND_LOG_WARNING, expected);
    ASSERT_TRUE(mend_world_open_pool(&w, mend_sim_driver(w.sim)));
    heard.count = 0;
    blocks[0] = kit_alloc(&w, 512, NULL);
    kit_free(&w, blocks[0], NULL);
    kit_close(&w); /* nothing lives: there is nothing to tell */
    EXPECT_INT_EQ(0, heard.count);
    mend_log_set_sink(NULL, NULL);
}

KIT_TEST(pool_log, tells_of_a_limit_below_what_the_pool_holds)
{
    kit_alloc(w, 4 * MEND_MIB, NULL);
    heard.count = 0;
    mend_log_set_sink(hear, NULL);
    EXPECT_OK(mend_set_limit(w->pool, 4 * MEND_MIB));
    EXPECT_INT_EQ(0, heard.count);
    EXPECT_OK(mend_set_limit(w->pool, 3 * MEND_MIB));
    expect_heard(MEND_LOG_WARNING, "the limit of 3.00 MiB is below the 4.00 MiB that");
    kit_expect_none(w, MEND_MIB, NULL, "");
    expect_heard(MEND_LOG_WARNING, "device 0: out of memory: 1.00 MiB requested");
    mend_log_set_sink(NULL, NULL);
}
