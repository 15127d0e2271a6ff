/* A plan after a refusal of the driver. */

#include "tests/support/kit.h"

/* Of three runs the largest misses more than the limit allows, and the next misses memory that the
 * driver refuses. Now the pool knows the device's memory, and that the last one misses nothing. */
KIT_SET_TEST(pool_fallback, behind_a_refusal_what_creates_nothing_is_found,
             w->placement.low_pressure_percent = 100)
{
    enum { DEVICE = 1024, RESERVED = 72 };
    const uint64_t page = 64 * MEND_KIB;
    kit_free(w, kit_alloc_with(w, 16 * page, S(0), .in_one_chunk = 1), S(0));
    kit_alloc(w, 12 * page, S(0));
    void *behind = kit_alloc(w, 20 * page, S(0));
    kit_free(w, kit_alloc_with(w, 16 * page, S(0), .in_one_chunk = 1), S(0));
    kit_alloc(w, 8 * page, S(0));
    void *large = kit_alloc_with(w, 24 * page, S(0), .in_one_chunk = 1);
    kit_free(w, behind, S(0));
    kit_free(w, large, S(0));
    EXPECT_STATS(w, reserved_bytes, RESERVED * page);
    EXPECT_OK(mend_set_limit(w->pool, (RESERVED + 6) * page));
    mend_sim_set_foreign_bytes(w->sim, 0, (DEVICE - RESERVED - 2) * page);
    kit_alloc_used(w, 48 * page, S(0), 10);
    EXPECT_STATS(w, reserved_bytes, RESERVED * page, driver_failures, 1);
}
