/* Pages of ranges that read as zeros: what a program sees there, where the memory is counted, and
 * the way to committed pages and back. */
#include "mend/mend_share.h"
#include "mend/mend_sleep.h"
#include "pool/pool.h"
#include "tests/unit/pool/zeros.h"

static bool open_of(mend_world *w, uint64_t memory_bytes)
{
    mend_world_init(w);
    w->sim_config.memory_bytes = memory_bytes > 0 ? memory_bytes : w->sim_config.memory_bytes;
    return kit_open(w);
}

static void end(mend_world *w, mend_range *range)
{
    EXPECT_TRUE(mend_world_check(w));
    EXPECT_OK(mend_range_destroy(range, NULL));
    mend_sim_advance(w->sim, 1000000);
    EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_WAIT, NULL));
    EXPECT_STATS(w, zero_bytes, 0, zero_chunk_bytes, 0, range_address_bytes, 0);
}

/* A case with a range of PAGES pages, on a device of so much memory (0: of 64 MiB). */
#define ZEROS_TEST(suite, name, memory_bytes)                                                      \
    static void suite##_##name##_of(mend_world *w, mend_range *range);                             \
    KIT_TEST_IN(suite, name, open_of(w, memory_bytes))                                             \
    {                                                                                              \
        mend_range *range = create(w, PAGES * PAGE, PAGE);                                         \
        suite##_##name##_of(w, range);                                                             \
        end(w, range);                                                                             \
    }                                                                                              \
    static void suite##_##name##_of(mend_world *w, mend_range *range)

ZEROS_TEST(pool_zeros, all_pages_share_one_chunk, 0)
{
    mend_range *other = create(w, PAGES * PAGE, PAGE);
    mend_range *larger = create(w, PAGES * PAGE, 2 * PAGE);
    EXPECT_OK(map_zeros(range, 0, PAGES));
    expect_zeros(w, range, 0, PAGES);
    EXPECT_LEDGER(w, chunk_bytes, PAGE);
    EXPECT_FIELDS(info_of(range), zero_bytes, PAGES * PAGE, committed_bytes, 0);
    EXPECT_U64_EQ(0, info_of(other).zero_bytes);
    EXPECT_OK(map_zeros(other, 3, 2));
    EXPECT_LEDGER(w, chunk_bytes, PAGE);
    EXPECT_OK(map_zeros(larger, 2, 4));
    EXPECT_LEDGER(w, chunk_bytes, 3 * PAGE);
    const mend_stats stats = mend_world_stats(w);
    EXPECT_FIELDS(stats, zero_bytes, (PAGES + 2 + 4) * PAGE, zero_chunk_bytes, 3 * PAGE);
    EXPECT_FIELDS(stats, reserved_bytes, 0, mapped_bytes, stats.zero_bytes);
    EXPECT_TRUE(mend_world_check(w));
    EXPECT_OK(mend_range_destroy(other, NULL));
    EXPECT_OK(mend_range_destroy(larger, NULL));
}

KIT_LAST_TEST(pool_zeros, cannot_be_written, kit_open_default(w))
{
    mend_range *range = create(w, PAGES * PAGE, PAGE);
    EXPECT_OK(map_zeros(range, 0, PAGES));
    EXPECT_INT_EQ(0, w->driver->context_push(w->driver, w->info.context));
    EXPECT_INT_EQ(0, w->driver->fill(w->driver, (uintptr_t)at(range, PAGE), 1, 4, NULL));
    EXPECT_INT_EQ(MEND_DRIVER_ILLEGAL_ADDRESS, w->driver->context_synchronize(w->driver));
    EXPECT_TRUE(strstr(mend_sim_first_violation(w->sim), "may only read") != NULL);
    (void)mend_pool_destroy(w->pool);
}

ZEROS_TEST(pool_zeros, a_commit_takes_their_place_and_waits_for_readers, 0)
{
    EXPECT_OK(map_zeros(range, 0, PAGES));
    kit_launch(w, S(1), MEND_SIM_WORK_TOUCH, at(range, 0), 4 * PAGE, 0,
               mend_sim_now_ns(w->sim) + 1000000);
    const uint64_t waits = mend_world_stats(w).host_waits;
    expect_commit(range, 2 * PAGE, 2 * PAGE, S(0));
    EXPECT_STATS(w, host_waits, waits + 1);
    kit_write(w, S(0), at(range, 2 * PAGE), 2 * PAGE);
    kit_verify(w, S(0), at(range, 2 * PAGE), 2 * PAGE);
    expect_zeros(w, range, 0, 2);
    expect_zeros(w, range, 4, PAGES - 4);
    EXPECT_FIELDS(info_of(range), zero_bytes, (PAGES - 2) * PAGE, committed_bytes, 2 * PAGE);
    expect_commit(range, 4 * PAGE, 2 * PAGE, S(0));
    EXPECT_TRUE(mend_world_check(w));

    /* And back. The free memory that was mapped there stays in the pool. */
    use(w, range, 2 * PAGE, 2 * PAGE, S(0));
    expect_decommit(range, 2 * PAGE, 2 * PAGE, S(0));
    EXPECT_OK(map_zeros(range, 0, PAGES));
    expect_zeros(w, range, 0, 4);
    expect_zeros(w, range, 6, PAGES - 6);
    EXPECT_STATS(w, free_bytes, 2 * PAGE);
}

ZEROS_TEST(pool_zeros, a_commit_without_memory_leaves_them, 6 * PAGE)
{
    EXPECT_OK(map_zeros(range, 0, PAGES));
    void *block = kit_alloc(w, PAGE, S(1));
    kit_leave_in_flight(w, PAGE, S(1), 1000, S(1));
    EXPECT_ERROR(OUT_OF_MEMORY, mend_range_commit(range, PAGE, 8 * PAGE, S(0)));
    EXPECT_U64_EQ(PAGES * PAGE, info_of(range).zero_bytes);
    expect_zeros(w, range, 0, PAGES);
    EXPECT_TRUE(mend_world_check(w));
    EXPECT_ERROR(OUT_OF_MEMORY, mend_range_commit(range, 0, 5 * PAGE, S(0)));
    expect_zeros(w, range, 0, PAGES);
    expect_commit(range, 0, PAGE, S(0)); /* beside zeros, and the chunk of the block */
    expect_zeros(w, range, 1, PAGES - 1);
    kit_free(w, block, S(1));
}

/* A second device, whose pool came later, is current. */
typedef struct beside {
    mend_world w;
    mend_range *range;
    mend_pool *other;
    mend_device_info second;
} beside;

static bool open_beside(beside *r)
{
    *r = (beside){.range = NULL};
    if (!kit_open_set(&r->w, r->w.sim_config.device_count = 2)) {
        return false;
    }
    r->range = create(&r->w, PAGES * PAGE, PAGE);
    EXPECT_OK(map_zeros(r->range, 0, 2));
    EXPECT_OK(map_zeros(r->range, 4, 2));
    mend_pool_config config = r->w.pool_config;
    config.device = 1;
    EXPECT_OK(mend_pool_create(&config, &r->other));
    EXPECT_INT_EQ(0, r->w.driver->device_open(r->w.driver, 1, &r->second));
    EXPECT_INT_EQ(0, r->w.driver->context_push(r->w.driver, r->second.context));
    return !mend_test_has_failed();
}

/* Nor may it write them: its context is lost. */
KIT_RIG_TEST(pool_zeros, another_device_may_not_write_them, beside, open_beside(r), (void)0)
{
    EXPECT_INT_EQ(0, w->driver->fill(w->driver, (uintptr_t)at(r->range, PAGE), 1, 4, NULL));
    EXPECT_INT_EQ(MEND_DRIVER_ILLEGAL_ADDRESS, w->driver->context_synchronize(w->driver));
    EXPECT_TRUE(strstr(mend_sim_first_violation(w->sim), "may only read") != NULL);
    (void)mend_pool_destroy(r->other);
    (void)mend_pool_destroy(w->pool);
    mend_sim_destroy(w->sim);
}

/* A device full of zeros whose range is gone, and another pool that may ask for their memory. */
static mend_pool *leave_zeros(mend_world *w)
{
    mend_pool *other = kit_pool(w);
    mend_range *range = create(w, PAGES * PAGE, PAGE);
    EXPECT_OK(map_zeros(range, 0, 4));
    EXPECT_OK(mend_range_destroy(range, S(0)));
    return other;
}

KIT_EACH(pool_zeros, what_a_destroyed_range_leaves_serves_others, int, by_peer, 2,
         kit_open_set(w, w->sim_config.memory_bytes = 4 * PAGE))
{
    void *block = NULL;
    mend_pool *other = leave_zeros(w);
    mend_pool *asked = by_peer ? other : w->pool;
    EXPECT_OK(mend_alloc(asked, 4 * PAGE, S(0), &block));
    EXPECT_STATS(w, zero_chunk_bytes, 0);
    EXPECT_OK(mend_free(asked, block, S(0)));
    EXPECT_OK(mend_pool_destroy(other));
}

/* The pool with the zeros does not know the stream of the capture that the other pool serves. */
KIT_TEST_IN(pool_zeros, what_a_destroyed_range_leaves_waits_for_a_capture_of_another_pool,
            kit_open_set(w, w->sim_config.memory_bytes = 4 * PAGE))
{
    void *block = NULL;
    mend_pool *other = leave_zeros(w);
    kit_begin_capture(w, S(1));
    EXPECT_ERROR(OUT_OF_MEMORY, mend_alloc(other, 4 * PAGE, S(1), &block));
    mend_sim_graph_destroy(w->sim, kit_end_capture(w, S(1)));
    EXPECT_OK(mend_alloc(other, 4 * PAGE, S(1), &block));
    EXPECT_OK(mend_free(other, block, S(1)));
    EXPECT_OK(mend_pool_destroy(other));
}

ZEROS_TEST(pool_zeros, what_a_destroyed_range_leaves_serves_a_wake, 0)
{
    mend_range *zeros = create(w, PAGES * PAGE, PAGE);
    expect_commit(range, 0, 4 * PAGE, S(0));
    kit_write(w, S(0), at(range, 0), 4 * PAGE);
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    EXPECT_OK(map_zeros(zeros, 0, 4));
    EXPECT_OK(mend_set_limit(w->pool, 4 * PAGE));
    EXPECT_ERROR(OUT_OF_MEMORY, mend_wake(w->pool, NULL, 0, NULL));
    EXPECT_OK(mend_range_destroy(zeros, S(0)));
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    kit_verify(w, S(0), at(range, 0), 4 * PAGE);
}

/* What a full device had once is not what it has now. */
ZEROS_TEST(pool_zeros, others_have_left_meanwhile, 8 * PAGE)
{
    mend_sim_set_foreign_bytes(w->sim, 0, 6 * PAGE);
    expect_commit(range, 0, 2 * PAGE, S(0));
    EXPECT_ERROR(OUT_OF_MEMORY, mend_range_commit(range, 2 * PAGE, 2 * PAGE, S(0)));
    EXPECT_ERROR(OUT_OF_MEMORY, map_zeros(range, 8, 4));
    mend_sim_set_foreign_bytes(w->sim, 0, 0);
    EXPECT_OK(map_zeros(range, 8, 4));
}

/* To give back the larger of two free chunks may bring nothing: another process may hold it. */
KIT_SET_TEST(pool_zeros, are_made_of_what_no_other_process_holds,
             (w->placement.low_pressure_percent = 100, w->placement.chunk_bytes = 16 * MEND_MIB,
              w->pool_config.front_cache = -1, w->pool_config.shareable = 1))
{
    mend_export_token token;
    void *exported = kit_alloc(w, 4 * MEND_MIB, S(0));
    void *own = kit_alloc(w, 2 * MEND_MIB, S(0));
    EXPECT_OK(mend_export(w->pool, exported, NULL, &token, MEND_EXPORT_TOKEN_BYTES, NULL, NULL));
    kit_free(w, exported, S(0));
    kit_free(w, own, S(0));
    EXPECT_STATS(w, reserved_bytes, 6 * MEND_MIB);
    mend_sim_set_foreign_bytes(w->sim, 0, w->sim_config.memory_bytes - 6 * MEND_MIB);
    mend_range *range = create(w, PAGES * PAGE, PAGE);
    EXPECT_OK(map_zeros(range, 0, PAGES));
    EXPECT_STATS(w, reserved_bytes, 4 * MEND_MIB);
    end(w, range);
}

/* Also where it is old what the pool knows of the device. Both lack more than is free in the pool.
 */
KIT_EACH(pool_zeros, that_lack_memory_give_none_back, int, by_limit, 2,
         kit_open_set(w, w->sim_config.memory_bytes = 64 * MEND_MIB))
{
    kit_free(w, kit_alloc(w, 8 * MEND_MIB, S(0)), S(0));
    mend_range *range = create(w, 64 * MEND_MIB, 16 * MEND_MIB);
    if (by_limit) {
        EXPECT_OK(mend_set_limit(w->pool, 10 * MEND_MIB));
    } else {
        mend_sim_set_foreign_bytes(w->sim, 0, 56 * MEND_MIB);
    }
    EXPECT_REFUSAL(OUT_OF_MEMORY,
                   by_limit ? "and the limit lacks 6291456" : "and the device lacks 8388608",
                   mend_range_map_zeros(range, 0, 16 * MEND_MIB));
    EXPECT_STATS(w, reserved_bytes, 8 * MEND_MIB);
    EXPECT_OK(mend_range_destroy(range, S(0)));
}

/* Zeros end within the request, and what the pool knew of the device with them: without a new
 * question only the limit would seem to lack. */
KIT_SET_TEST(pool_zeros, whose_end_is_not_enough_give_nothing_with_them,
             w->sim_config.memory_bytes = 64 * MEND_MIB, w->pool_config.limit_bytes = 58 * MEND_MIB)
{
    const mend_alloc_options *options = KIT_OPTIONS(mend_alloc_options, .in_one_chunk = 1);
    const uint64_t sizes_mib[] = {4, 4, 10};
    mend_range *range = create(w, 24 * MEND_MIB, 12 * MEND_MIB);
    void *blocks[3];
    for (int i = 0; i < 3; i++) {
        EXPECT_OK(mend_alloc_with(w->pool, sizes_mib[i] * MEND_MIB, S(0), options, &blocks[i]));
    }
    EXPECT_OK(mend_range_map_zeros(range, 0, MEND_MIB));
    for (int i = 0; i < 3; i++) {
        kit_free(w, blocks[i], S(0));
    }
    EXPECT_OK(mend_range_destroy(range, S(0)));
    mend_sim_set_foreign_bytes(w->sim, 0, 34 * MEND_MIB);
    EXPECT_ERROR(OUT_OF_MEMORY, mend_alloc_with(w->pool, 46 * MEND_MIB, S(0), options, &blocks[0]));
    EXPECT_STATS(w, free_empty_bytes, 18 * MEND_MIB);
    EXPECT_STATS(w, zero_chunk_bytes, 0);
}

/* The wait for the fill is refused; and then the one that ends it before the page is unmapped. */
ZEROS_TEST(pool_zeros, pages_stay_mapped_while_they_are_filled, 0)
{
    for (int i = 0; i < 2; i++) {
        kit_fail(w, "context_synchronize", 1, 1, MEND_DRIVER_UNKNOWN);
        kit_fail(w, "stream_synchronize", 0, (uint64_t)i, MEND_DRIVER_UNKNOWN);
        EXPECT_ERROR(DRIVER, map_zeros(range, 2, 2));
        mend_sim_clear_faults(w->sim);
        EXPECT_OK(mend_audit(w->pool));
    }
    EXPECT_OK(map_zeros(range, 2, 2));
    expect_zeros(w, range, 2, 2);
}

ZEROS_TEST(pool_zeros, every_misuse_has_its_error, 0)
{
    EXPECT_INVALID(mend_range_map_zeros(NULL, 0, PAGE));
    EXPECT_INVALID(mend_range_map_zeros(range, 0, 0));
    EXPECT_REFUSAL(INVALID_ARGUMENT, "mend_range_map_zeros", map_zeros(range, PAGES, 1));
    w->pool->heap.device.aliasing = false;
    EXPECT_REFUSAL(NOT_SUPPORTED, "one address only", map_zeros(range, 0, 1));
    w->pool->heap.device.aliasing = true;
    expect_commit(range, 0, PAGE, S(0));
    EXPECT_OK(mend_pin(w->pool, at(range, 0), PAGE));
    expect_decommit(range, 0, PAGE, S(0));
    EXPECT_ERROR(PINNED, map_zeros(range, 0, 2));
    EXPECT_U64_EQ(0, info_of(range).zero_bytes);
    EXPECT_OK(mend_unpin(w->pool, at(range, 0), PAGE));
    EXPECT_OK(map_zeros(range, 0, 2));
}
