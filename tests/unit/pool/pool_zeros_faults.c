/* Zeros where pages were and commits in their place, when the driver refuses any call, once and for
 * ever: pages that read as zeros do so again, and nothing leaks. scenario_positions has the rest.
 */
#include "tests/unit/pool/zeros.h"

static const char *const calls[] = {
    "context_push", "exchange_capture_mode", "create",  "map",         "set_access", "fill",
    "unmap",        "context_synchronize",   "release", "address_free"};

typedef struct rig {
    mend_world w;
    mend_range *range;
} rig;

typedef mend_result (*operation)(rig *r);

static mend_result commit_of_zeros(rig *r)
{
    return mend_range_commit(r->range, 4 * PAGE, 3 * PAGE, r->w.streams[0]);
}

static mend_result zeros_again(rig *r)
{
    return map_zeros(r->range, 4, 4);
}

static bool prepare(rig *r, operation run)
{
    *r = (rig){.range = NULL};
    if (!kit_open_default(&r->w)) {
        return false;
    }
    r->range = create(&r->w, PAGES * PAGE, PAGE);
    EXPECT_RESULT(MEND_OK, map_zeros(r->range, 2, 6));
    if (run == zeros_again) {
        EXPECT_RESULT(MEND_OK, commit_of_zeros(r));
        expect_decommit(r->range, 4 * PAGE, 3 * PAGE, r->w.streams[0]);
    }
    return !mend_test_has_failed();
}

/* It works without a fault, and nothing is left. */
static bool conclude(rig *r, operation run)
{
    EXPECT_RESULT(MEND_OK, run(r));
    EXPECT_TRUE(mend_world_check(&r->w));
    if (run == commit_of_zeros) {
        expect_zeros(&r->w, r->range, 2, 2);
        expect_zeros(&r->w, r->range, 7, 1);
    } else {
        expect_zeros(&r->w, r->range, 2, 6);
    }
    EXPECT_RESULT(MEND_OK, mend_range_destroy(r->range, r->w.streams[0]));
    EXPECT_RESULT(MEND_OK, mend_trim(r->w.pool, 0, MEND_TRIM_WAIT, NULL));
    EXPECT_U64_EQ(0, mend_world_stats(&r->w).zero_chunk_bytes);
    EXPECT_U64_EQ(0, mend_world_stats(&r->w).range_address_bytes);
    kit_close(&r->w);
    return !mend_test_has_failed();
}

static bool fail_at(operation run, const char *call, uint64_t after, uint64_t count, int status,
                    bool *failed)
{
    rig r;
    if (!prepare(&r, run)) {
        return false;
    }
    const mend_stats before = mend_world_stats(&r.w);
    kit_fail(&r.w, call, after, count, status);
    const mend_result result = run(&r);
    const mend_stats stats = mend_world_stats(&r.w);
    *failed = result != MEND_OK || stats.driver_failures > before.driver_failures;
    EXPECT_RESULT(MEND_OK, mend_audit(r.w.pool));
    mend_sim_clear_faults(r.w.sim);
    if (result != MEND_OK) {
        EXPECT_RESULT(MEND_OK, mend_trim(r.w.pool, UINT64_MAX, MEND_TRIM_IDLE, NULL)); /* settles */
        const bool again = run == zeros_again;
        expect_zeros(&r.w, r.range, 2, again ? 2 : 6);
        EXPECT_U64_EQ((again ? 3 : 6) * PAGE, info_of(r.range).zero_bytes);
    }
    EXPECT_TRUE(mend_world_check(&r.w));
    return conclude(&r, run);
}

/* Each call of each kind fails, once, and from there on; by an error, and for lack of memory. */
static void fail_everywhere(operation run, int most)
{
    enum { MOST_CALLS = 100 };
    int positions = 0;
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        bool failed = true;
        for (uint64_t after = 0; failed && after < MOST_CALLS; after++) {
            bool other = false;
            ASSERT_TRUE(fail_at(run, calls[i], after, 1, MEND_DRIVER_UNKNOWN, &failed));
            ASSERT_TRUE(fail_at(run, calls[i], after, 1, MEND_DRIVER_OUT_OF_MEMORY, &other));
            ASSERT_TRUE(fail_at(run, calls[i], after, UINT64_MAX, MEND_DRIVER_UNKNOWN, &other));
            positions += failed;
        }
    }
    EXPECT_TRUE(positions > most);
}

MEND_TEST(pool_zeros_faults, a_commit)
{
    fail_everywhere(commit_of_zeros, 6);
}

MEND_TEST(pool_zeros_faults, zeros_where_pages_were)
{
    fail_everywhere(zeros_again, 5);
}
