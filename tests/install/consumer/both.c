/* A user's program: allocates on a simulated device, uses the memory, frees, and checks. */
#include <mend/mend.h>
#include <mend/mend_sim.h>
#include <stdio.h>

static int expect(int holds, const char *what)
{
    mend_error error = MEND_ERROR_INIT;
    if (!holds) {
        mend_get_last_error(&error);
        printf("%s: %s, %s\n", what, mend_result_name(error.result), error.message);
    }
    return !holds;
}

/* Allocates, frees, frees again by mistake. */
static int use_pool(mend_sim *sim, mend_pool *pool)
{
    void *block = NULL;
    mend_stats stats = MEND_STATS_INIT;
    mend_sim_ledger ledger = MEND_SIM_LEDGER_INIT;
    int failures = expect(mend_alloc(pool, 1000, NULL, &block) == MEND_OK, "mend_alloc");

    failures += expect(mend_get_stats(pool, &stats) == MEND_OK, "mend_get_stats");
    failures += expect(mend_sim_get_ledger(sim, &ledger) == MEND_OK, "mend_sim_get_ledger");
    failures += expect(stats.live_bytes == 1024 && stats.live_blocks == 1, "what is live");
    failures += expect(stats.reserved_bytes == ledger.chunk_bytes, "what the device lent");

    failures += expect(mend_free(pool, block, NULL) == MEND_OK, "mend_free");
    failures += expect(mend_free(pool, block, NULL) == MEND_ERROR_DOUBLE_FREE, "freeing twice");
    failures += expect(mend_trim(pool, 0, MEND_TRIM_IDLE, NULL) == MEND_OK, "mend_trim");
    return failures;
}

int main(void)
{
    mend_sim_config sim_config = MEND_SIM_CONFIG_INIT;
    mend_pool_config config = MEND_POOL_CONFIG_INIT;
    mend_sim_ledger ledger = MEND_SIM_LEDGER_INIT;
    mend_sim *sim = NULL;
    mend_pool *pool = NULL;
    int version = mend_version();
    int failures = expect(mend_sim_create(&sim_config, &sim) == MEND_OK, "mend_sim_create");

    config.driver = mend_sim_driver(sim);
    failures += expect(mend_pool_create(&config, &pool) == MEND_OK, "mend_pool_create");
    failures += use_pool(sim, pool);
    failures += expect(mend_pool_destroy(pool) == MEND_OK, "mend_pool_destroy");

    failures += expect(mend_sim_get_ledger(sim, &ledger) == MEND_OK, "mend_sim_get_ledger");
    failures += expect(ledger.chunks == 0 && ledger.reservations == 0, "nothing is left");
    failures += expect(ledger.violations == 0, mend_sim_first_violation(sim));
    mend_sim_destroy(sim);
    printf("Mend %d.%d.%d\n", version / 10000, version / 100 % 100, version % 100);
    return failures == 0 ? 0 : 1;
}
