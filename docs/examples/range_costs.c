/*
 * The cost of a page of a growable range in driver calls, by a cost table of the simulated device.
 * Beside it the least cost of any allocator: create, map and access a new page, or map and access
 * an existing one.
 */
#include <mend/mend_range.h>
#include <mend/mend_sim.h>
#include <stdio.h>

enum { PAGES = 64, MIB = 1 << 20 };

static mend_sim *sim;
static mend_stream stream;

static uint64_t time_ns(void)
{
    mend_sim_ledger ledger = MEND_SIM_LEDGER_INIT;
    mend_sim_get_ledger(sim, &ledger);
    return ledger.driver_time_ns;
}

/* The driver's time for each page since `start_ns`. */
static void print(const char *what, uint64_t start_ns)
{
    printf("  %-44s %7.2f\n", what, (double)(time_ns() - start_ns) / (double)PAGES / 1000);
}

/* Lets the GPU finish, so that the pool can unmap old mappings. */
static void settle(mend_pool *pool)
{
    mend_sim_advance(sim, 1000000);
    mend_trim(pool, UINT64_MAX, MEND_TRIM_IDLE, NULL);
}

static void measure(mend_pool *pool, mend_range *range, uint64_t page)
{
    void *block = NULL;
    const uint64_t all = PAGES * page;
    uint64_t start = time_ns();
    mend_range_commit(range, 0, all, stream);
    print("commit, new memory", start);
    start = time_ns();
    mend_range_decommit(range, 0, all, stream);
    print("decommit", start);
    start = time_ns();
    mend_range_commit(range, 0, all, stream);
    print("commit of the same pages", start);
    mend_range_decommit(range, 0, all, stream);
    start = time_ns();
    mend_alloc(pool, all, stream, &block);
    settle(pool);
    print("a block takes the decommitted memory", start);
    mend_free(pool, block, stream);
    start = time_ns();
    mend_range_commit(range, 0, all, stream);
    settle(pool);
    print("commit of memory that a block has freed", start);
    mend_set_limit(pool, 2 * PAGES * page);
    start = time_ns();
    for (uint64_t i = 0; i < PAGES; i++) {
        mend_range_commit(range, all + i * page, page, stream);
    }
    print("commit, new memory, page by page", start);
}

static uint64_t price_ns(const mend_sim_price *price, uint64_t size_bytes)
{
    return price->call_ns + price->mapping_ns + price->mib_ns * (size_bytes / MIB);
}

static int run(const char *list, uint64_t page)
{
    mend_sim_prices prices = MEND_SIM_PRICES_INIT;
    mend_sim_config device = MEND_SIM_CONFIG_INIT;
    mend_range_options options = MEND_RANGE_OPTIONS_INIT;
    mend_pool_config config = MEND_POOL_CONFIG_INIT;
    mend_pool *pool = NULL;
    mend_range *range = NULL;
    if (mend_sim_prices_named(list, &prices) != MEND_OK) {
        return 1;
    }
    device.prices = &prices;
    device.memory_bytes = 16384ull * MIB;
    options.page_bytes = page;
    if (mend_sim_create(&device, &sim) != MEND_OK ||
        mend_sim_stream_create(sim, NULL, &stream) != MEND_OK) {
        return 1;
    }
    config.driver = mend_sim_driver(sim);
    config.limit_bytes = PAGES * page; /* blocks and pages must share */
    if (mend_pool_create(&config, &pool) != MEND_OK ||
        mend_range_create(pool, 1ull << 40, &options, &range) != MEND_OK) {
        return 1;
    }
    printf("%s, pages of %llu MiB, microseconds for each page\n", list,
           (unsigned long long)(page / MIB));
    const uint64_t map_ns = price_ns(&prices.map, page) + price_ns(&prices.set_access, page);
    printf("  %-44s %7.2f\n", "floor: create, map, access of a page",
           (double)(price_ns(&prices.create, page) + map_ns) / 1000);
    printf("  %-44s %7.2f\n", "floor: map, access, unmap",
           (double)(map_ns + price_ns(&prices.unmap, page)) / 1000);
    measure(pool, range, page);
    mend_range_destroy(range, stream);
    mend_pool_destroy(pool);
    int broken = mend_sim_first_violation(sim)[0] != 0;
    mend_sim_destroy(sim);
    return broken;
}

int main(void)
{
    return run("h200", 2 * MIB) || run("h200", 32 * MIB);
}
