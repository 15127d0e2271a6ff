/* A plan behind what the driver refuses. */

#include "tests/support/kit.h"

static void *take_in_one_chunk(mend_world *w, uint64_t size_bytes)
{
    void *block = NULL;
    EXPECT_OK(mend_alloc_with(w->pool, size_bytes, S(0),
                              KIT_OPTIONS(mend_alloc_options, .in_one_chunk = 1), &block));
    return block;
}

/* Of three runs the largest lacks more than the limit allows, and the next what the driver refuses.
 * Now the pool knows what the device has, and that the last one lacks nothing. */
KIT_SET_TEST(pool_ladder, behind_a_refusal_what_creates_nothing_is_found,
             w->placement.low_pressure_percent = 100)
{
    enum { DEVICE = 1024, RESERVED = 72 };
    const uint64_t page = 64 * MEND_KIB;
    kit_free(w, take_in_one_chunk(w, 16 * page), S(0));
    kit_alloc(w, 12 * page, S(0));
    void *behind = kit_alloc(w, 20 * page, S(0));
    kit_free(w, take_in_one_chunk(w, 16 * page), S(0));
    kit_alloc(w, 8 * page, S(0));
    void *large = take_in_one_chunk(w, 24 * page);
    kit_free(w, behind, S(0));
    kit_free(w, large, S(0));
    EXPECT_STATS(w, reserved_bytes, RESERVED * page);
    EXPECT_OK(mend_set_limit(w->pool, (RESERVED + 6) * page));
    mend_sim_set_foreign_bytes(w->sim, 0, (DEVICE - RESERVED - 2) * page);
    kit_alloc_used(w, 48 * page, S(0), 10);
    EXPECT_STATS(w, reserved_bytes, RESERVED * page, driver_failures, 1);
}
