/* What a pool answers where it has no host memory for what it is asked. */

#include "mend/mend.h"
#include "mend/mend_sim.h"
#include "tests/support/host_memory.h"
#include "tests/support/kit.h"

KIT_TEST(pool_refused, groups_and_callbacks_need_host_memory)
{
    mend_group *group = NULL;
    int calls = 0;
    mend_test_fail_host_memory_after(0, UINT64_MAX);
    mend_test_watch_host_memory(true);
    mend_result of_group = mend_group_create(w->pool, &group);
    mend_result of_callback = mend_add_pressure_callback(w->pool, kit_count_pressure, &calls);
    mend_test_watch_host_memory(false);
    mend_test_heal_host_memory();
    EXPECT_ERROR(OUT_OF_HOST_MEMORY, of_group);
    EXPECT_PTR_EQ(NULL, group);
    EXPECT_ERROR(OUT_OF_HOST_MEMORY, of_callback);
    EXPECT_OK(mend_group_create(w->pool, &group));
    EXPECT_OK(mend_group_destroy(group, NULL));
    EXPECT_OK(mend_add_pressure_callback(w->pool, kit_count_pressure, &calls));
    EXPECT_OK(mend_remove_pressure_callback(w->pool, kit_count_pressure, &calls));
}
