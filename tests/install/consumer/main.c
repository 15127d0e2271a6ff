/* A user's program: allocates on a simulated device through the installed library. */
#include <mend/mend.h>
#include <mend/mend_sim.h>
#include <stdio.h>

static int expect(mend_result expected, mend_result actual, const char *what)
{
    if (actual != expected) {
        printf("%s: %s\n", what, mend_result_name(actual));
    }
    return actual != expected;
}

int main(void)
{
    mend_sim_config sim_config = MEND_SIM_CONFIG_INIT;
    mend_sim *sim = NULL;
    int failures = expect(MEND_OK, mend_sim_create(&sim_config, &sim), "mend_sim_create");

    mend_pool_config config = MEND_POOL_CONFIG_INIT;
    config.driver = mend_sim_driver(sim);
    mend_pool *pool = NULL;
    failures += expect(MEND_OK, mend_pool_create(&config, &pool), "mend_pool_create");

    void *block = NULL;
    failures += expect(MEND_OK, mend_alloc(pool, 1000, NULL, &block), "mend_alloc");
    failures += expect(MEND_OK, mend_free(pool, block, NULL), "mend_free");
    failures += expect(MEND_ERROR_DOUBLE_FREE, mend_free(pool, block, NULL), "freeing twice");
    mend_error error = MEND_ERROR_INIT;
    failures += expect(MEND_OK, mend_last_error(&error), "mend_last_error");
    failures += expect(MEND_ERROR_DOUBLE_FREE, error.result, "the last error");

    failures += expect(MEND_OK, mend_pool_destroy(pool), "mend_pool_destroy");
    mend_sim_destroy(sim);
    printf("Mend %d: %d failures\n", mend_version(), failures);
    return failures == 0 ? 0 : 1;
}
