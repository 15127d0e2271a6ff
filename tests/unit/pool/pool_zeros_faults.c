/* Zeros where pages were and commits in their place, when the driver refuses any call, once and for
 * ever: pages that read as zeros do so again, and nothing leaks. scenario_positions has the rest.
 */
#include "tests/unit/pool/zeros.h"

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

/* Once, and from there on; by an error, and for lack of memory. */
static const kit_fault ways[] = {{.count = 1, .status = MEND_DRIVER_UNKNOWN},
                                 {.count = 1, .status = MEND_DRIVER_OUT_OF_MEMORY},
                                 {.count = UINT64_MAX, .status = MEND_DRIVER_UNKNOWN}};

static bool fail_at(const kit_fault *f, const void *context)
{
    const operation run = *(const operation *)context;
    rig r;
    if (!prepare(&r, run)) {
        return false;
    }
    const mend_stats before = mend_world_stats(&r.w);
    kit_fail(&r.w, f->call, f->after_calls, f->count, f->status);
    const mend_result result = run(&r);
    const bool is_met =
        result != MEND_OK || mend_world_stats(&r.w).driver_failures > before.driver_failures;
    EXPECT_RESULT(MEND_OK, mend_audit(r.w.pool));
    mend_sim_clear_faults(r.w.sim);
    if (result != MEND_OK) {
        EXPECT_RESULT(MEND_OK, mend_trim(r.w.pool, UINT64_MAX, MEND_TRIM_IDLE, NULL)); /* settles */
        const bool again = run == zeros_again;
        expect_zeros(&r.w, r.range, 2, again ? 2 : 6);
        EXPECT_U64_EQ((again ? 3 : 6) * PAGE, info_of(r.range).zero_bytes);
    }
    EXPECT_TRUE(mend_world_check(&r.w));
    return conclude(&r, run) && is_met;
}

MEND_TEST(pool_zeros_faults, a_commit)
{
    const operation run = commit_of_zeros;
    EXPECT_TRUE(
        kit_sweep(
            "context_push exchange_capture_mode create map set_access unmap context_synchronize",
            ways, 3, fail_at, &run) > 6);
}

MEND_TEST(pool_zeros_faults, zeros_where_pages_were)
{
    const operation run = zeros_again;
    EXPECT_TRUE(
        kit_sweep("context_push exchange_capture_mode map set_access unmap context_synchronize",
                  ways, 3, fail_at, &run) > 5);
}
