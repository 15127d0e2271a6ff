/*
 * A checkpoint of the process, as cuda-checkpoint makes it. The pool shares memory with other
 * processes, so it prepares itself. Contents that can be computed again are dropped before that.
 */
#include <mend/mend_sim.h>
#include <mend/mend_sleep.h>
#include <stdio.h>
#include <string.h>

enum { MIB = 1 << 20, WEIGHTS = 1, CACHE = 2 };

static unsigned char *allocate(mend_pool *pool, uint64_t tag, size_t size_bytes)
{
    void *block = NULL;
    mend_alloc_options options = MEND_ALLOC_OPTIONS_INIT;
    options.sleep_tag = tag;
    return mend_alloc_with(pool, size_bytes, NULL, &options, &block) == MEND_OK ? block : NULL;
}

static int checkpoint(mend_sim *sim)
{
    const char *reason = "";
    mend_result result = mend_sim_checkpoint(sim, &reason);
    printf("checkpoint: %s%s%s\n", mend_result_name(result), result != MEND_OK ? ", " : "",
           result != MEND_OK ? reason : "");
    return result == MEND_OK;
}

int main(void)
{
    mend_sim *sim = NULL;
    mend_pool *pool = NULL;
    mend_sim_config device = MEND_SIM_CONFIG_INIT;
    device.memory_bytes = 128ull * MIB;
    device.content = MEND_SIM_CONTENT_BYTES; /* so that the bytes can be compared */
    mend_pool_config config = MEND_POOL_CONFIG_INIT;
    config.shareable = MEND_SHAREABLE_ON;
    if (mend_sim_create(&device, &sim) != MEND_OK) {
        return 1;
    }
    config.driver = mend_sim_driver(sim);
    if (mend_pool_create(&config, &pool) != MEND_OK) {
        return 1;
    }
    unsigned char *weights = allocate(pool, WEIGHTS, 16ull * MIB);
    unsigned char *cache = allocate(pool, CACHE, 64ull * MIB);
    memset(weights, 7, 16ull * MIB); /* a program would launch a kernel here */
    memset(cache, 8, 64ull * MIB);
    checkpoint(sim);

    const mend_sleep_rule rules[] = {{CACHE, MEND_DISCARD}};
    mend_sleep_options options = MEND_SLEEP_OPTIONS_INIT;
    options.rules = rules;
    options.rule_count = 1;
    mend_prepare_checkpoint_report report = MEND_PREPARE_CHECKPOINT_REPORT_INIT;
    if (mend_sleep(pool, &options, NULL) != MEND_OK ||
        mend_prepare_checkpoint(pool, &report) != MEND_OK) {
        return 1;
    }
    printf("private now: %llu MiB; a checkpoint keeps %llu MiB\n",
           (unsigned long long)report.exchanged_bytes / MIB,
           (unsigned long long)report.reserved_bytes / MIB);
    if (!checkpoint(sim) || mend_sim_restore(sim) != MEND_OK) { /* elsewhere, another day */
        return 1;
    }
    if (mend_wake(pool, NULL, 0, NULL) != MEND_OK) {
        return 1;
    }
    printf("restored: the weights are %s\n",
           weights[0] == 7 && weights[16ull * MIB - 1] == 7 ? "whole" : "lost");

    mend_free(pool, weights, NULL);
    mend_free(pool, cache, NULL);
    mend_result result = mend_pool_destroy(pool);
    mend_sim_destroy(sim);
    return result == MEND_OK ? 0 : 1;
}
