/*
 * A device that cannot map memory by handles, as some containers and virtual GPUs: the pool says so
 * once, and passes each request through to the driver. Calls that need mappings return
 * MEND_ERROR_NOT_SUPPORTED.
 */
#include <mend/mend_range.h>
#include <mend/mend_sim.h>
#include <stdio.h>
#include <string.h>

enum { MIB = 1 << 20, BLOCKS = 4 };

static void print_warning(void *context, mend_log_level level, const char *line)
{
    (void)context;
    if (level == MEND_LOG_WARNING) {
        printf("%s\n", line);
    }
}

int main(void)
{
    mend_sim *sim = NULL;
    mend_pool *pool = NULL;
    mend_range *range = NULL;
    unsigned char *blocks[BLOCKS];
    mend_sim_config device = MEND_SIM_CONFIG_INIT;
    device.memory_bytes = 64ull * MIB;
    device.content = MEND_SIM_CONTENT_BYTES; /* so that the bytes can be compared */
    device.has_no_virtual_memory = 1;
    mend_pool_config config = MEND_POOL_CONFIG_INIT;
    mend_log_set_sink(print_warning, NULL);
    if (mend_sim_create(&device, &sim) != MEND_OK) {
        return 1;
    }
    config.driver = mend_sim_driver(sim);
    if (mend_pool_create(&config, &pool) != MEND_OK) {
        return 1;
    }
    int whole = 1;
    for (int i = 0; i < BLOCKS; i++) {
        if (mend_alloc(pool, 8ull * MIB, NULL, (void **)&blocks[i]) != MEND_OK) {
            return 1;
        }
        memset(blocks[i], i + 1, 8ull * MIB); /* a program would launch a kernel here */
    }
    for (int i = 0; i < BLOCKS; i++) {
        whole = whole && blocks[i][0] == i + 1 && blocks[i][8ull * MIB - 1] == i + 1;
        mend_free(pool, blocks[i], NULL);
    }
    printf("blocks: %s\n", whole ? "whole" : "damaged");
    mend_result result = mend_range_create(pool, 1024ull * MIB, NULL, &range);
    printf("a range: %s\n", mend_result_name(result));

    result = mend_pool_destroy(pool);
    mend_sim_destroy(sim);
    return result == MEND_OK ? 0 : 1;
}
