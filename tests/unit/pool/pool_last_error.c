/*
 * A call that succeeds leaves the thread's last error alone, whatever it has worked around; and no
 * call keeps a lock. EXPECT_RESULT asks that of every call (support/call.h): here are those that
 * meet a failure on their way, and an error from before to be spoilt.
 */
#include "base/error.h"
#include "driver/driver.h"
#include "pool/pool.h"
#include "tests/support/kit.h"

/* What was there before, unlike anything that a call of a test may meet. */
static void leave_error(void)
{
    (void)mend_fail(MEND_ERROR_FOREIGN_POINTER, "an error from before");
}

static void expect_error_from_before(void)
{
    mend_error error = MEND_ERROR_INIT;
    EXPECT_OK(mend_last_error(&error));
    EXPECT_ERROR(FOREIGN_POINTER, error.result);
    EXPECT_STR_EQ("an error from before", error.message);
}

KIT_EACH(pool_last_error, a_free_whose_early_fence_is_refused_leaves_it, int, i, 2,
         kit_open_default(w))
{
    static const char *const calls[] = {"event_record", "context_push"};
    void *other = kit_alloc(w, 512, S(1));
    void *large = kit_alloc(w, 8 * MEND_MIB, S(0));
    uint64_t failures = mend_world_stats(w).driver_failures;
    leave_error();
    kit_fail(w, calls[i], 0, 1, MEND_DRIVER_UNKNOWN);
    kit_free(w, large, S(0));
    expect_error_from_before();
    EXPECT_STATS(w, driver_failures, failures + 1);
    kit_free(w, other, S(1));
}

static void fail_meanwhile(KIT_UNUSED void *context, KIT_UNUSED const char *call,
                           KIT_UNUSED int is_after)
{
    (void)mend_free(NULL, &fail_meanwhile, NULL);
}

/* Only a simulated device calls the program inside of a driver call. */
KIT_TEST(pool_last_error, a_failing_call_inside_of_a_driver_call_is_not_that_of_the_call_outside)
{
    mend_error error = MEND_ERROR_INIT;
    void *block = NULL;
    kit_fail(w, "map", 0, 1, MEND_DRIVER_UNKNOWN);
    mend_sim_set_call_observer(w->sim, fail_meanwhile, NULL);
    mend_result result = mend_alloc(w->pool, MEND_MIB, NULL, &block);
    mend_sim_set_call_observer(w->sim, NULL, NULL);
    EXPECT_INT_EQ(MEND_ERROR_DRIVER, result);
    EXPECT_OK(mend_last_error(&error));
    EXPECT_INT_EQ(MEND_ERROR_DRIVER, error.result);
    EXPECT_STR_EQ("cuMemMap", error.driver_call);
    mend_sim_clear_faults(w->sim);
}
