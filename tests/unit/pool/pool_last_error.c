/*
 * A call that succeeds leaves the thread's last error alone, whatever it has worked around, and no
 * call keeps a lock. EXPECT_RESULT checks that for every call (support/call.h). These cases it
 * cannot see.
 */
#include "driver/driver.h"
#include "tests/support/kit.h"

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
    EXPECT_OK(mend_get_last_error(&error));
    EXPECT_INT_EQ(MEND_ERROR_DRIVER, error.result);
    EXPECT_STR_EQ("cuMemMap", error.driver_call);
    mend_sim_clear_faults(w->sim);
}
