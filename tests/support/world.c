#include "tests/support/world.h"

#include "base/align.h"
#include "check/check.h"
#include "lab/heap/explain.h"
#include "pool/pool.h"
#include "tests/support/place.h"
#include "tests/support/regions.h"
#include "tests/support/test.h"

void mend_world_init(mend_world *world)
{
    *world = (mend_world){.sim_config = MEND_SIM_CONFIG_INIT, .pool_config = MEND_POOL_CONFIG_INIT};
    world->sim_config.memory_bytes = 64 * MEND_MIB;
    world->sim_config.page_bytes = 64 * MEND_KIB;
    world->sim_config.content = MEND_SIM_CONTENT_BYTES;
    world->sim_config.copy_ns = 100; /* so that a missing wait behind one shows */
    world->placement.chunk_bytes = 1 * MEND_MIB;
    world->placement.small_chunk_bytes = 256 * MEND_KIB;
    /* less of so little memory would be next to no chunk */
    world->placement.low_pressure_percent = 90;
    world->placement.small_request_bytes = 32 * MEND_KIB;
    world->pool_config.address_reservation_bytes = 1 * MEND_GIB;
}

bool mend_world_open_device(mend_world *world)
{
    mend_result result = mend_sim_create(&world->sim_config, &world->sim);
    if (result != MEND_OK) {
        mend_test_fail(__FILE__, __LINE__, "mend_sim_create: %s", mend_result_name(result));
    }
    return result == MEND_OK;
}

mend_result mend_world_create_pool(const mend_world *world, mend_pool **pool)
{
    mend_result result = mend_pool_create(&world->pool_config, pool);
    if (result == MEND_OK) {
        mend_test_place(*pool, &world->placement);
    }
    return result;
}

bool mend_world_open_pool(mend_world *world, const mend_driver *driver)
{
    world->pool_config.driver = driver;
    mend_result result = mend_world_create_pool(world, &world->pool);
    if (result != MEND_OK) {
        mend_test_fail(__FILE__, __LINE__, "mend_pool_create: %s", mend_result_name(result));
        mend_sim_destroy(world->sim);
    }
    return result == MEND_OK;
}

bool mend_world_open(mend_world *world)
{
    return mend_world_open_device(world) &&
           mend_world_open_pool(world, mend_sim_driver(world->sim));
}

mend_stats mend_world_stats(mend_world *world)
{
    mend_stats stats = MEND_STATS_INIT;
    EXPECT_RESULT(MEND_OK, mend_get_stats(world->pool, &stats));
    return stats;
}

mend_sim_ledger mend_world_ledger(mend_world *world)
{
    mend_sim_ledger ledger = MEND_SIM_LEDGER_INIT;
    EXPECT_RESULT(MEND_OK, mend_sim_get_ledger(world->sim, &ledger));
    return ledger;
}

static bool device_is_well(mend_world *world, const mend_sim_ledger *ledger)
{
    if (ledger->violations != world->violations_meant) {
        mend_test_fail(__FILE__, __LINE__, "a rule of the driver was broken: %s",
                       mend_sim_first_violation(world->sim));
    }
    if (ledger->content_errors > 0) {
        mend_test_fail(__FILE__, __LINE__, "%llu granules hold wrong bytes",
                       (unsigned long long)ledger->content_errors);
    }
    EXPECT_U64_EQ(world->captured_records_meant, ledger->captured_records);
    return ledger->violations == world->violations_meant && ledger->content_errors == 0;
}

/* Every byte that is reserved and not live has one cause. */
static void check_explanation(mend_world *world, const mend_stats *stats)
{
    mend_explanation explanation;
    EXPECT_RESULT(MEND_OK, mend_pool_explain(world->pool, NULL, &explanation));
    EXPECT_U64_EQ(stats->free_bytes, mend_explanation_free_bytes(&explanation));
    EXPECT_U64_EQ(stats->free_partial_bytes,
                  mend_explanation_partial_bytes(&explanation, MEND_ZONE_LARGE) +
                      mend_explanation_partial_bytes(&explanation, MEND_ZONE_RANGE));
    EXPECT_U64_EQ(stats->free_small_bytes,
                  mend_explanation_partial_bytes(&explanation, MEND_ZONE_SMALL));
}

bool mend_world_check(mend_world *world)
{
    char finding[MEND_VALIDATE_FINDING_BYTES];
    if (!mend_pool_validate(world->pool, finding)) {
        mend_test_fail(__FILE__, __LINE__, "audit: %s", finding);
        return false;
    }
    char regions_finding[MEND_REGIONS_FINDING_BYTES];
    if (!mend_regions_are_right(world->pool, regions_finding)) {
        mend_test_fail(__FILE__, __LINE__, "%s", regions_finding);
        return false;
    }
    mend_stats stats = mend_world_stats(world);
    mend_sim_ledger ledger = mend_world_ledger(world);
    EXPECT_U64_EQ(stats.reserved_bytes, ledger.chunk_bytes);
    EXPECT_U64_EQ(stats.chunks, ledger.chunks);
    EXPECT_U64_EQ(stats.mappings, ledger.mappings);
    EXPECT_U64_EQ(stats.mapped_bytes, ledger.mapped_bytes);
    /* A mapping that the driver refused to undo after a failure may have no access. */
    EXPECT_TRUE(ledger.accessible_bytes <= stats.mapped_bytes);
    EXPECT_TRUE(ledger.accessible_bytes + stats.retired_bytes >= stats.mapped_bytes ||
                world->pool->heap.chunks.missing_count > 0 ||
                world->pool->heap.chunks.deferred.count[MEND_DEFERRED_MEMORY] > 0);
    EXPECT_U64_EQ(stats.address_bytes, ledger.address_bytes);
    EXPECT_U64_EQ(stats.reserved_bytes + stats.asleep_live_bytes,
                  stats.live_bytes + stats.free_bytes);
    /* The world has one pool, and nothing else in it asks for memory of the host, but checks. */
    const uint64_t pinned_bytes = stats.backup_host_bytes + stats.backup_cache_bytes;
    EXPECT_TRUE(ledger.host_bytes >= pinned_bytes);
    EXPECT_TRUE((ledger.host_allocations > 0) == (pinned_bytes > 0) ||
                world->pool->checks != NULL ||
                world->pool->heap.chunks.deferred.count[MEND_DEFERRED_HOST_MEMORY] > 0);
    EXPECT_U64_EQ(stats.free_bytes,
                  stats.free_empty_bytes + stats.free_partial_bytes + stats.free_small_bytes);
    check_explanation(world, &stats);
    return device_is_well(world, &ledger) && !mend_test_has_failed();
}

void mend_world_close(mend_world *world)
{
    EXPECT_RESULT(MEND_OK, mend_pool_destroy(world->pool));
    mend_sim_ledger ledger = mend_world_ledger(world);
    device_is_well(world, &ledger);
    EXPECT_U64_EQ(0, ledger.chunks);
    EXPECT_U64_EQ(0, ledger.mappings);
    EXPECT_U64_EQ(0, ledger.reservations);
    EXPECT_U64_EQ(0, ledger.events);
    EXPECT_U64_EQ(0, ledger.contexts_open);
    EXPECT_U64_EQ(0, ledger.host_allocations);
    mend_sim_destroy(world->sim);
}
