/* MEND_OBSERVERS=OFF: a pool does all but be observed, and says so. */
#include <mend/mend.h>
#include <mend/mend_inspect.h>
#include <mend/mend_sim.h>
#include <mend/mend_sleep.h>
#include <stdio.h>
#include <string.h>

static int failures;

static void expect(int line, int holds)
{
    mend_error error = MEND_ERROR_INIT;
    mend_get_last_error(&error);
    failures += !holds;
    if (!holds) {
        printf("line %d: %s, %s\n", line, mend_result_name(error.result), error.message);
    }
}
#define EXPECT(holds) expect(__LINE__, holds)
#define REFUSED(call) EXPECT((call) == MEND_ERROR_NOT_SUPPORTED)

/* Remembers the last warning. */
static void hear(void *context, mend_log_level level, const char *line)
{
    if (level == MEND_LOG_WARNING) {
        snprintf(context, 256, "%s", line);
    }
}

static mend_result open_pool(mend_sim *sim, const char *record, const char *observe,
                             mend_pool **pool)
{
    mend_pool_config config = MEND_POOL_CONFIG_INIT;
    config.driver = mend_sim_driver(sim);
    config.limit_bytes = 64 << 20;
    config.record = record;
    config.observe = observe;
    return mend_pool_create(&config, pool);
}

static void use(mend_pool *pool)
{
    mend_error error = MEND_ERROR_INIT;
    mend_stats stats = MEND_STATS_INIT;
    mend_owner owner;
    size_t count;
    void *block = NULL;
    void *other = NULL;
    EXPECT(mend_alloc(pool, 48 << 20, NULL, &block) == MEND_OK);
    EXPECT(mend_alloc(pool, 32 << 20, NULL, &other) == MEND_ERROR_OUT_OF_MEMORY);
    mend_get_last_error(&error);
    EXPECT(error.oom_report != NULL && error.oom_report->live_bytes >= 48 << 20);
    EXPECT(error.oom_report != NULL && error.oom_report->owners[0] == NULL);
    EXPECT(strstr(error.message, "32.00 MiB requested; the limit is 64.00 MiB, in use ") != NULL);
    EXPECT(strstr(error.message, "wners") == NULL);
    REFUSED(mend_get_owners(pool, 0, &owner, sizeof(owner), 1, &count));
    REFUSED(mend_history_start(pool, 100));
    REFUSED(mend_scope_push("step", 0));
    EXPECT(mend_sleep(pool, NULL, NULL) == MEND_OK);
    EXPECT(mend_wake(pool, NULL, 0, NULL) == MEND_OK);
    EXPECT(mend_get_stats(pool, &stats) == MEND_OK && stats.sleeps == 1 &&
           stats.history_events == 0);
    EXPECT(mend_pool_destroy(pool) == MEND_OK);
}

int main(void)
{
    mend_sim_config config = MEND_SIM_CONFIG_INIT;
    mend_sim_ledger ledger = MEND_SIM_LEDGER_INIT;
    mend_sim *sim = NULL;
    mend_pool *pool = NULL;
    char line[256] = "";
    EXPECT(mend_sim_create(&config, &sim) == MEND_OK);
    REFUSED(open_pool(sim, "/tmp/none", NULL, &pool));
    REFUSED(open_pool(sim, NULL, "top", &pool));
    REFUSED(open_pool(sim, NULL, "/tmp/none", &pool));
    EXPECT(open_pool(sim, NULL, "poison,guard", &pool) == MEND_OK);
    use(pool);
    EXPECT(open_pool(sim, NULL, NULL, &pool) == MEND_OK);
    mend_log_set_sink(hear, line);
    use(pool);
    EXPECT(strstr(line, "was destroyed with 1 live blocks") != NULL);
    EXPECT(mend_sim_get_ledger(sim, &ledger) == MEND_OK && ledger.chunks == 0);
    EXPECT(ledger.violations == 0);
    mend_sim_destroy(sim);
    return failures == 0 ? 0 : 1;
}
