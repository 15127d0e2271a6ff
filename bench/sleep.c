/*
 * The cost of sleep and wake on the simulated device, beside the floor of the cost table: each step
 * once, for all neighbors by one call. Fails if the cost is above the floor by more than a
 * twentieth.
 *
 *     mend_sleep_cost
 */
#include <stdio.h>
#include <stdlib.h>

#include "mend/mend_sim.h"
#include "mend/mend_sleep.h"

enum { MIB = 1 << 20, PAGE_MIB = 2, BLOCKS = 16 };

typedef struct world {
    mend_sim *sim;
    mend_pool *pool;
    mend_sim_prices prices;
    void *blocks[BLOCKS];
} world;

static void require(int condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "mend_sleep_cost: %s failed\n", what);
        exit(1);
    }
}

static void open_world(world *w, uint64_t block_mib)
{
    mend_sim_config device = MEND_SIM_CONFIG_INIT;
    mend_pool_config config = MEND_POOL_CONFIG_INIT;
    w->prices = (mend_sim_prices)MEND_SIM_PRICES_INIT;
    mend_sim_prices_named("reference", &w->prices);
    require(mend_sim_create(&device, &w->sim) == MEND_OK, "a device");
    config.driver = mend_sim_driver(w->sim);
    require(mend_pool_create(&config, &w->pool) == MEND_OK, "a pool");
    for (int i = 0; i < BLOCKS; i++) {
        require(mend_alloc(w->pool, block_mib * MIB, NULL, &w->blocks[i]) == MEND_OK, "a block");
    }
}

static uint64_t driver_ns(const world *w)
{
    mend_sim_ledger ledger = MEND_SIM_LEDGER_INIT;
    mend_sim_get_ledger(w->sim, &ledger);
    return ledger.driver_time_ns;
}

/* A call for all, with so many mappings and MiB. */
static uint64_t price(mend_sim_price price, uint64_t calls, uint64_t mappings, uint64_t mib)
{
    return price.call_ns * calls + price.mapping_ns * mappings + price.mib_ns * mib;
}

/* The least cost of the steps: `kept_mib` are copied there and back, chunk by chunk. Only a first
 * sleep pins memory for them. */
static uint64_t floor_ns(const world *w, uint64_t chunks, uint64_t mib, uint64_t kept_mib,
                         int is_first)
{
    const mend_sim_prices *p = &w->prices;
    uint64_t copies = kept_mib > 0 ? chunks : 0;
    uint64_t pinning = is_first ? price(p->host_alloc, copies, 0, kept_mib) : 0;
    return price(p->unmap, 1, chunks, 0) + price(p->release, chunks, 0, mib) +
           price(p->create, chunks, 0, mib) + price(p->map, chunks, chunks, 0) +
           price(p->set_access, 1, chunks, 0) + pinning +
           2 * price(p->host_copy, copies, 0, kept_mib);
}

/* Returns whether the cost of a cycle is near the floor. */
static int measure_cycle(world *w, uint64_t block_mib, int keep, const char *name, int is_first)
{
    mend_stats stats = MEND_STATS_INIT;
    mend_sleep_options options = MEND_SLEEP_OPTIONS_INIT;
    mend_get_stats(w->pool, &stats);
    uint64_t mib = stats.reserved_bytes / MIB;
    uint64_t begun = driver_ns(w);
    options.others = keep;
    require(mend_sleep(w->pool, &options, NULL) == MEND_OK, "the sleep");
    uint64_t slept = driver_ns(w);
    require(mend_wake(w->pool, NULL, 0, NULL) == MEND_OK, "the wake");
    uint64_t woken = driver_ns(w);
    uint64_t kept_mib = keep == MEND_BACKUP_HOST ? stats.live_bytes / MIB : 0;
    /* The waits: of the context once, of the copies' stream twice for each call. */
    uint64_t waits = 5 * w->prices.synchronize.call_ns;
    uint64_t least = floor_ns(w, stats.chunks, mib, kept_mib, is_first) + waits;
    double pages = (double)mib / (double)PAGE_MIB;
    printf("%5llu MiB  %-8s %10.2f %10.2f %10.2f %8.3f\n", (unsigned long long)block_mib, name,
           (double)(slept - begun) / 1000 / pages, (double)(woken - slept) / 1000 / pages,
           (double)least / 1000 / pages, (double)(woken - begun) / (double)least);
    return (woken - begun) * 20 <= least * 21;
}

static int measure(uint64_t block_mib)
{
    world w = {.sim = NULL};
    open_world(&w, block_mib);
    int is_near = measure_cycle(&w, block_mib, MEND_BACKUP_HOST, "on host", 1);
    is_near &= measure_cycle(&w, block_mib, MEND_BACKUP_HOST, "again", 0);
    is_near &= measure_cycle(&w, block_mib, MEND_DISCARD, "dropped", 0);
    mend_pool_destroy(w.pool);
    mend_sim_destroy(w.sim);
    return is_near;
}

int main(void)
{
    static const uint64_t sizes_mib[] = {2, 20, 128, 512};
    int is_near = 1;
    printf("us a page of 2 MiB, by the list `reference`\n");
    printf("%9s  %-8s %10s %10s %10s %8s\n", "blocks", "kept", "asleep", "awake", "floor",
           "of floor");
    for (size_t i = 0; i < sizeof(sizes_mib) / sizeof(sizes_mib[0]); i++) {
        is_near &= measure(sizes_mib[i]);
    }
    return is_near ? 0 : 1;
}
