/*
 * Sleep and wake: a server gives the memory of its weights and of its cache back to the device
 * while a training phase needs it. The weights are kept in the memory of the host, the cache is
 * dropped.
 */
#include <mend/mend_sim.h>
#include <mend/mend_sleep.h>
#include <stdio.h>
#include <string.h>

enum { MIB = 1 << 20, WEIGHTS = 1, CACHE = 2, BLOCKS = 4 };

static mend_pool *open_pool(mend_sim **sim)
{
    mend_sim_config device = MEND_SIM_CONFIG_INIT;
    device.memory_bytes = 64ull * MIB;
    device.content = MEND_SIM_CONTENT_BYTES; /* so that the bytes can be compared */
    if (mend_sim_create(&device, sim) != MEND_OK) {
        return NULL;
    }
    mend_pool_config config = MEND_POOL_CONFIG_INIT;
    config.driver = mend_sim_driver(*sim);
    mend_pool *pool = NULL;
    return mend_pool_create(&config, &pool) == MEND_OK ? pool : NULL;
}

/* All allocations of a thread get the tag of its phase. */
static int load(mend_pool *pool, uint64_t tag, void *blocks[BLOCKS])
{
    int loaded = 0;
    mend_alloc_options options = MEND_ALLOC_OPTIONS_INIT;
    options.sleep_tag = tag;
    mend_set_alloc_options(&options, NULL);
    for (int i = 0; i < BLOCKS; i++) {
        loaded += mend_alloc(pool, 6ull * MIB, NULL, &blocks[i]) == MEND_OK;
    }
    mend_set_alloc_options(NULL, NULL);
    return loaded == BLOCKS;
}

/* Physical memory of the device that is taken. */
static unsigned long long held_mib(mend_sim *sim)
{
    mend_sim_ledger ledger = MEND_SIM_LEDGER_INIT;
    mend_sim_get_ledger(sim, &ledger);
    return ledger.chunk_bytes / MIB;
}

static int is_whole(void *const blocks[BLOCKS])
{
    int whole = 1;
    for (int i = 0; i < BLOCKS; i++) {
        const unsigned char *bytes = blocks[i];
        for (size_t at = 0; at < 6ull * MIB; at += 512) {
            whole = whole && bytes[at] == (unsigned char)(i + 1);
        }
    }
    return whole;
}

int main(void)
{
    mend_sim *sim = NULL;
    void *weights[BLOCKS];
    void *cache[BLOCKS];
    mend_pool *pool = open_pool(&sim);
    if (pool == NULL || !load(pool, WEIGHTS, weights) || !load(pool, CACHE, cache)) {
        return 1;
    }
    for (int i = 0; i < BLOCKS; i++) {
        memset(weights[i], i + 1, 6ull * MIB); /* a program would copy to the device here */
    }
    printf("serving: %llu MiB of the device\n", held_mib(sim));

    const mend_sleep_rule rules[] = {{WEIGHTS, MEND_BACKUP_HOST}, {CACHE, MEND_DISCARD}};
    mend_sleep_options options = MEND_SLEEP_OPTIONS_INIT;
    mend_sleep_report report = MEND_SLEEP_REPORT_INIT;
    options.rules = rules;
    options.rule_count = 2;
    mend_result slept = mend_sleep(pool, &options, &report);
    printf("asleep: %llu MiB of the device, %llu MiB kept, %llu MiB dropped, %llu MiB stayed\n",
           held_mib(sim), (unsigned long long)report.host_bytes / MIB,
           (unsigned long long)report.dropped_bytes / MIB,
           (unsigned long long)report.stayed_bytes / MIB);

    const uint64_t first = WEIGHTS;
    mend_result woke = mend_wake(pool, &first, 1, NULL);
    printf("the weights are awake: %llu MiB of the device, %s\n", held_mib(sim),
           is_whole(weights) ? "every byte is there" : "bytes are lost");
    mend_result all_woke = mend_wake(pool, NULL, 0, NULL);
    printf("serving again: %llu MiB of the device\n", held_mib(sim));

    int whole = is_whole(weights);
    for (int i = 0; i < BLOCKS; i++) {
        mend_free(pool, weights[i], NULL);
        mend_free(pool, cache[i], NULL);
    }
    mend_pool_destroy(pool);
    int broken = mend_sim_first_violation(sim)[0] != 0;
    mend_sim_destroy(sim);
    return broken || !whole || slept != MEND_OK || woke != MEND_OK || all_woke != MEND_OK;
}
