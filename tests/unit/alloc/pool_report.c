/*
 * The report of an allocation that ran out of memory: its numbers add up, and its remedies work,
 * which each test tries.
 */
#include <mend/mend_range.h>
#include <mend/mend_share.h>
#include <mend/mend_sleep.h>
#include <string.h>

#include "tests/support/kit.h"

/* Is refused with this advice among the words. Sums that hold in any situation are checked. */
static void expect_refused(mend_world *w, uint64_t size_bytes, const char *advice)
{
    mend_error error = MEND_ERROR_INIT;
    kit_expect_none(w, size_bytes, S(0), advice);
    EXPECT_RESULT(MEND_OK, mend_get_last_error(&error));
    ASSERT_TRUE(error.oom_report != NULL);
    const mend_oom_report *f = error.oom_report;
    mend_stats stats = mend_world_stats(w);
    EXPECT_U64_EQ(sizeof(mend_oom_report), f->struct_size);
    EXPECT_U64_EQ(size_bytes, f->requested_bytes);
    EXPECT_U64_EQ(stats.limit_bytes, f->limit_bytes);
    EXPECT_U64_EQ(stats.reserved_bytes, f->reserved_bytes);
    EXPECT_U64_EQ(stats.live_bytes, f->live_bytes);
    EXPECT_U64_EQ(stats.free_bytes, f->free_empty_bytes + f->free_partial_bytes);
    EXPECT_U64_EQ(stats.free_empty_bytes, f->free_empty_bytes);
    EXPECT_U64_EQ(8 * MEND_MIB, f->device_bytes);
    EXPECT_U64_EQ(8 * MEND_MIB, f->reserved_bytes + f->device_free_bytes + f->device_others_bytes);
    EXPECT_U64_EQ(0, f->owner_address); /* there is none */
    EXPECT_STR_EQ(".", error.message + strlen(error.message) - 1);
    EXPECT_TRUE(strstr(error.message, " 0 bytes") == NULL || f->live_bytes == 0 ||
                f->device_free_bytes == 0);
}

/* Where others hold memory, and in a capture, when nothing is unmapped. */
KIT_EACH(pool_report, of_a_range_tells_what_would_fit, int, is_captured, 2,
         kit_open_set(w, w->sim_config.memory_bytes = 8 * MEND_MIB,
                      w->pool_config.limit_bytes = is_captured ? 13 * MEND_MIB / 2 : 0))
{
    mend_range *range = NULL;
    EXPECT_OK(mend_range_create(w->pool, 8 * MEND_MIB,
                                KIT_OPTIONS(mend_range_options, .page_bytes = MEND_MIB), &range));
    kit_alloc(w, 4 * MEND_MIB, S(0));
    if (is_captured) {
        kit_begin_capture(w, S(1));
    } else {
        mend_sim_set_foreign_bytes(w->sim, 0, 2 * MEND_MIB);
    }
    EXPECT_ERROR(OUT_OF_MEMORY, mend_range_commit(range, 0, 3 * MEND_MIB, S(0)));
    EXPECT_FIELDS(kit_oom_report(), fitting_bytes, 2 * MEND_MIB);
    EXPECT_OK(mend_range_commit(range, 0, 2 * MEND_MIB, S(0)));
    if (is_captured) {
        mend_sim_graph_destroy(w->sim, kit_end_capture(w, S(1)));
    }
    EXPECT_OK(mend_range_destroy(range, S(0)));
}

/* The gap before the committed page is below what the driver counts as free, all gaps are not. */
KIT_SET_TEST(pool_report, a_refused_gap_is_no_lack_of_the_device,
             w->sim_config.memory_bytes = 8 * MEND_MIB)
{
    mend_range *range = NULL;
    mend_error error = MEND_ERROR_INIT;
    EXPECT_OK(mend_range_create(w->pool, 8 * MEND_MIB, NULL, &range));
    EXPECT_OK(mend_range_commit(range, 3 * MEND_MIB, MEND_MIB, S(0)));
    mend_sim_set_foreign_bytes(w->sim, 0, 2 * MEND_MIB);
    kit_fail(w, "create", 0, UINT64_MAX, 0);
    EXPECT_ERROR(OUT_OF_MEMORY, mend_range_commit(range, 0, 8 * MEND_MIB, S(0)));
    EXPECT_OK(mend_get_last_error(&error));
    EXPECT_TRUE(strstr(error.message, "The driver refuses memory that it counts as free") != NULL);
    mend_sim_clear_faults(w->sim);
    EXPECT_OK(mend_range_destroy(range, S(0)));
}

KIT_SET_TEST(pool_report, tells_what_the_driver_or_the_program_has_to_give,
             w->sim_config.memory_bytes = 8 * MEND_MIB)
{
    kit_fail(w, "create", 0, UINT64_MAX, 0);
    EXPECT_OK(mend_history_start(w->pool, 1));
    expect_refused(w, 3 * MEND_MIB,
                   "The driver refuses memory that it counts as free, as a quota does (MPS, HAMi): "
                   "raise the quota, or free memory.");
    kit_expect_event(w->pool, MEND_EVENT_OUT_OF_MEMORY, MEND_CAUSE_DEVICE_REFUSED, 3 * MEND_MIB);
    expect_refused(w, 8 * MEND_MIB, "The driver refuses memory that it counts as free");
    mend_sim_clear_faults(w->sim);
    void *live = kit_alloc(w, 5 * MEND_MIB, S(0));
    expect_refused(w, 4 * MEND_MIB, "Free blocks: no setting would help");
    kit_free(w, live, S(0));
    kit_alloc(w, 4 * MEND_MIB, S(0));
    expect_refused(w, 8 * MEND_MIB + 1, "The GPU is smaller than the request");
    mend_sim_set_foreign_bytes(w->sim, 0, 3 * MEND_MIB);
    expect_refused(w, 3 * MEND_MIB, "Other pools or processes hold memory of the GPU");
    EXPECT_OK(mend_set_limit(w->pool, 2 * MEND_MIB));
    expect_refused(w, 3 * MEND_MIB, "above the limit, and the GPU has no memory left to raise it");
}

KIT_SET_TEST(pool_report, says_who_has_what, w->sim_config.memory_bytes = 32 * MEND_MIB)
{
    kit_alloc(w, 768 * MEND_KIB, S(0));
    kit_leave_in_flight(w, 3 * MEND_MIB, S(1), 1000, MEND_NO_STREAM);
    mend_graph_pool *graph_pool = kit_begin_graph_pool(w, S(1));
    kit_free(w, kit_alloc(w, 4 * MEND_MIB, S(1)), S(1));
    EXPECT_OK(mend_graph_pool_end(graph_pool));
    mend_sim_set_foreign_bytes(w->sim, 0, 6 * MEND_MIB);
    EXPECT_OK(mend_set_limit(w->pool, 6 * MEND_MIB));
    kit_begin_capture(w, S(1));
    kit_expect_none(w, 5 * MEND_MIB, S(0),
                    "the pool holds 1.75 MiB more than that, in use 768.00 KiB, free 7.00 MiB "
                    "(256.00 KiB beside live blocks, 3.00 MiB freed without a stream, 4.00 MiB "
                    "held for graphs); the GPU has 32.00 MiB, of which 18.25 MiB is free and 6.00 "
                    "MiB held by other pools and processes. Raise the limit to 12.75 MiB or more, "
                    "or free memory; ending the capture in progress and releasing graph pools");
    EXPECT_U64_EQ(0, kit_oom_report().fitting_bytes);
    mend_sim_graph_destroy(w->sim, kit_end_capture(w, S(1)));
}

/* Memory withheld by min_free_bytes is of no other process. */
KIT_SETTING(keeps_2_mib_free, w->pool_config.min_free_bytes = 2 * MEND_MIB);

/* Of memory released for one chunk, others get the page first that the device lacks. */
KIT_TEST_IN(pool_report, what_others_lack_would_not_fit,
            kit_open_with(w, 8 * MEND_MIB, keeps_2_mib_free))
{
    void *blocks[3];
    const mend_alloc_options *options = KIT_OPTIONS(mend_alloc_options, .in_one_chunk = 1);
    kit_alloc_row(w, blocks, 3, MEND_MIB, S(0));
    kit_free_row(w, blocks, 3, S(0));
    mend_sim_set_foreign_bytes(w->sim, 0, 4 * MEND_MIB);
    EXPECT_ERROR(OUT_OF_MEMORY, mend_alloc_with(w->pool, 3 * MEND_MIB, S(0), options, blocks));
    EXPECT_FIELDS(kit_oom_report(), fitting_bytes, 2 * MEND_MIB);
    kit_alloc_with(w, 2 * MEND_MIB, S(0), .in_one_chunk = 1);
}

/* An error of the driver's is no memory of anybody. */
KIT_TEST_IN(pool_report, what_the_driver_does_not_say_is_held_by_nobody,
            kit_open_with(w, 8 * MEND_MIB, keeps_2_mib_free))
{
    kit_expect_none(w, 7 * MEND_MIB, S(0), "and 2.00 MiB kept free (min_free_bytes)");
    EXPECT_FIELDS(kit_oom_report(), device_others_bytes, 0, device_kept_bytes, 2 * MEND_MIB);
    kit_fail(w, "memory_info", 0, UINT64_MAX, MEND_DRIVER_UNKNOWN);
    kit_fail(w, "create", 0, UINT64_MAX, MEND_DRIVER_OUT_OF_MEMORY);
    EXPECT_ERROR(OUT_OF_MEMORY, mend_alloc(w->pool, 7 * MEND_MIB, S(0), &(void *){NULL}));
    EXPECT_FIELDS(kit_oom_report(), device_others_bytes, 0, device_kept_bytes, 0, fitting_bytes, 0);
}

/* Only free memory that others may hold is none to make a chunk of. */
KIT_SETTING(shares_chunks, w->pool_config.shareable = MEND_SHAREABLE_ON,
            w->placement.chunk_bytes = MEND_MIB);

KIT_TEST_IN(pool_report, live_exports_take_nothing_from_what_would_fit,
            kit_open_with(w, 8 * MEND_MIB, shares_chunks))
{
    void *block = NULL;
    mend_export_token token;
    const mend_alloc_options *options = KIT_OPTIONS(mend_alloc_options, .in_one_chunk = 1);
    void *exported = kit_alloc(w, MEND_MIB, S(0));
    EXPECT_OK(mend_export(w->pool, exported, NULL, &token, MEND_EXPORT_TOKEN_BYTES, NULL, NULL));
    kit_free(w, kit_alloc(w, 2 * MEND_MIB, S(0)), S(0));
    EXPECT_OK(mend_set_limit(w->pool, 3 * MEND_MIB));
    EXPECT_ERROR(OUT_OF_MEMORY, mend_alloc_with(w->pool, 3 * MEND_MIB, S(0), options, &block));
    EXPECT_FIELDS(kit_oom_report(), fitting_bytes, 2 * MEND_MIB);
    kit_free(w, kit_alloc_with(w, 2 * MEND_MIB, S(0), .in_one_chunk = 1), S(0));
}

/* The rest of a chunk and the empty ones behind it are more than these alone. */
KIT_SET_TEST(pool_report, what_would_fit_may_begin_behind_a_block,
             w->pool_config.limit_bytes = 4 * MEND_MIB)
{
    void *none = NULL;
    kit_free(w, kit_alloc(w, 4 * MEND_MIB, NULL), NULL);
    kit_alloc(w, MEND_MIB / 2, NULL);
    EXPECT_ERROR(OUT_OF_MEMORY, mend_alloc(w->pool, 4 * MEND_MIB, NULL, &none));
    EXPECT_FIELDS(kit_oom_report(), fitting_bytes, 7 * MEND_MIB / 2);
    const mend_alloc_options *far = KIT_OPTIONS(mend_alloc_options, .alignment_bytes = MEND_GIB);
    EXPECT_ERROR(OUT_OF_MEMORY, mend_alloc_with(w->pool, 7 * MEND_MIB / 2, NULL, far, &none));
    EXPECT_FIELDS(kit_oom_report(), fitting_bytes, 3 * MEND_MIB); /* of other addresses */
}

/* Of a chunk that sleeps nothing could be freed for others. */
KIT_TEST(pool_report, the_owner_of_the_emptiest_chunk_is_awake)
{
    void *sleeps = kit_alloc(w, 100 * MEND_KIB, S(0));
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    void *awake = kit_alloc(w, 4 * MEND_KIB, S(0));
    EXPECT_OK(mend_set_limit(w->pool, MEND_MIB));
    EXPECT_ERROR(OUT_OF_MEMORY, mend_alloc(w->pool, 2 * MEND_MIB, S(0), &(void *){NULL}));
    EXPECT_FIELDS(kit_oom_report(), owner_address, (uintptr_t)awake, owner_bytes, 4 * MEND_KIB,
                  live_bytes, 4 * MEND_KIB, emptiest_bytes, 252 * MEND_KIB);
    EXPECT_OK(mend_set_limit(w->pool, 0));
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    kit_free(w, sleeps, S(0));
}

KIT_TEST_IN(pool_report, what_would_fit_has_room_for_its_guard,
            kit_open_set(w, w->pool_config.observe = "guard",
                         w->pool_config.limit_bytes = 8 * MEND_MIB))
{
    kit_alloc(w, 5 * MEND_MIB - 512, S(0));
    kit_expect_none(w, 4 * MEND_MIB, S(0), "would fit");
    kit_alloc(w, kit_oom_report().fitting_bytes, S(0));
    kit_expect_none(w, 512, S(0), "");
    EXPECT_U64_EQ(0, kit_oom_report().fitting_bytes);
}
