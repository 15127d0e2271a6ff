/*
 * A program that meets the limit of its pool: it asks how much fits, lets a callback drop cached
 * blocks, and reads the report of an allocation that failed.
 */
#include <mend/mend.h>
#include <mend/mend_sim.h>
#include <stdio.h>

enum { MIB = 1 << 20, CACHED = 4 };

/* Blocks that the program can compute again: a cache of keys and values, for example. */
typedef struct cache {
    void *blocks[CACHED];
    int count;
} cache;

/* The pool calls this before an allocation fails. Returns whether it freed anything. */
static int drop_some(void *context, mend_pool *pool, uint64_t needed_bytes)
{
    cache *c = context;
    uint64_t freed_bytes = 0;
    while (c->count > 0 && freed_bytes < needed_bytes) {
        mend_free(pool, c->blocks[--c->count], NULL);
        freed_bytes += 64ull * MIB;
    }
    printf("the callback drops %llu MiB\n", (unsigned long long)(freed_bytes / MIB));
    return freed_bytes > 0;
}

static unsigned long long fits_now(mend_pool *pool)
{
    mend_available available = MEND_AVAILABLE_INIT;
    mend_get_available(pool, NULL, &available);
    return available.now_bytes / MIB;
}

static mend_pool *open_pool(mend_sim **sim)
{
    mend_sim_config device = MEND_SIM_CONFIG_INIT;
    mend_pool_config config = MEND_POOL_CONFIG_INIT;
    mend_pool *pool = NULL;
    device.memory_bytes = 1024ull * MIB;
    if (mend_sim_create(&device, sim) != MEND_OK) {
        return NULL;
    }
    config.driver = mend_sim_driver(*sim);
    config.limit_bytes = 512ull * MIB;
    return mend_pool_create(&config, &pool) == MEND_OK ? pool : NULL;
}

int main(void)
{
    mend_sim *sim = NULL;
    void *weights = NULL;
    void *batch = NULL;
    cache c = {.count = 0};
    mend_pool *pool = open_pool(&sim);
    if (pool == NULL || mend_alloc(pool, 192ull * MIB, NULL, &weights) != MEND_OK) {
        return 1;
    }
    while (c.count < CACHED && mend_alloc(pool, 64ull * MIB, NULL, &c.blocks[c.count]) == MEND_OK) {
        c.count++;
    }
    printf("a request of %llu MiB fits\n", fits_now(pool));

    /* 160 MiB do not fit beside the cache: the callback frees memory, and the request succeeds. */
    mend_add_pressure_callback(pool, drop_some, &c);
    mend_result served = mend_alloc(pool, 160ull * MIB, NULL, &batch);
    printf("160 MiB: %s\n", mend_result_name(served));

    /* 400 MiB fit beside nothing: an error, with a report. The pool and its blocks stay usable. */
    void *too_much = NULL;
    mend_result refused = mend_alloc(pool, 400ull * MIB, NULL, &too_much);
    mend_error error = MEND_ERROR_INIT;
    mend_get_last_error(&error);
    printf("400 MiB: %s\n%s\n", mend_result_name(refused), error.message);
    if (error.oom_report != NULL) { /* the same in exact bytes, for programs */
        printf("in bytes: %llu requested, %llu would fit\n",
               (unsigned long long)error.oom_report->requested_bytes,
               (unsigned long long)error.oom_report->fitting_bytes);
    }
    mend_remove_pressure_callback(pool, drop_some, &c);
    while (c.count > 0) {
        mend_free(pool, c.blocks[--c.count], NULL);
    }
    mend_free(pool, batch, NULL);
    mend_free(pool, weights, NULL);
    mend_pool_destroy(pool);
    int broken = mend_sim_first_violation(sim)[0] != 0;
    mend_sim_destroy(sim);
    return broken || served != MEND_OK || refused != MEND_ERROR_OUT_OF_MEMORY;
}
