/* A pool on a simulated GPU of 80 GiB. On a real one leave out `sim`: the pool finds CUDA. */
#include <mend/mend.h>
#include <mend/mend_sim.h>
#include <stdio.h>

int main(void)
{
    mend_sim_config device = MEND_SIM_CONFIG_INIT;
    mend_pool_config config = MEND_POOL_CONFIG_INIT;
    mend_sim *sim = NULL;
    mend_pool *pool = NULL;
    void *weights = NULL;
    if (mend_sim_create(&device, &sim) == MEND_OK) {
        config.driver = mend_sim_driver(sim);
    }
    if (mend_pool_create(&config, &pool) == MEND_OK &&
        mend_alloc(pool, 3ull << 30, NULL, &weights) == MEND_OK) { /* 3 GiB, default stream */
        printf("3 GiB of device memory allocated\n");
        mend_free(pool, weights, NULL); /* after all work queued on that stream so far */
    } else {
        mend_error error = MEND_ERROR_INIT;
        mend_get_last_error(&error);
        printf("%s: %s\n", mend_result_name(error.result), error.message);
    }
    mend_pool_destroy(pool);
    mend_sim_destroy(sim);
    return weights == NULL;
}
