/* A user's program with a library that takes a memory handler, on the simulated device. */
#include <mend/mend_hooks.h>
#include <mend/mend_sim.h>
#include <stdio.h>

int main(void)
{
    mend_sim_config device = MEND_SIM_CONFIG_INIT;
    mend_pool_config config = MEND_POOL_CONFIG_INIT;
    mend_device_handler handler;
    mend_pool *pool = NULL;
    mend_sim *sim = NULL;
    void *block = NULL;
    if (mend_sim_create(&device, &sim) != MEND_OK) {
        return 1;
    }
    config.driver = mend_sim_driver(sim);
    if (mend_set_default_config(0, &config) != MEND_OK ||
        mend_hook_handler(0, &handler) != MEND_OK ||
        handler.alloc(handler.ctx, &block, 1000, NULL) != 0 || block == NULL ||
        handler.free(handler.ctx, block, 1000, NULL) != 0 ||
        mend_pool_for_device(0, &pool) != MEND_OK || mend_pool_destroy(pool) != MEND_OK) {
        return 1;
    }
    mend_sim_destroy(sim);
    int version = mend_version();
    printf("Mend %d.%d.%d\n", version / 10000, version / 100 % 100, version % 100);
    return 0;
}
