/* A first pool: allocate, free, and use free pieces that are not neighbors as one block. */
#include <mend/mend.h>
#include <mend/mend_sim.h>
#include <stdio.h>

enum { MIB = 1 << 20, BLOCKS = 6 };

static void show(mend_pool *pool, const char *when)
{
    mend_stats stats = MEND_STATS_INIT;
    mend_get_stats(pool, &stats);
    printf("%-26s %4llu MiB reserved, %4llu MiB live\n", when,
           (unsigned long long)(stats.reserved_bytes / MIB),
           (unsigned long long)(stats.live_bytes / MIB));
}

static int failed(const char *what)
{
    mend_error error = MEND_ERROR_INIT;
    mend_get_last_error(&error);
    printf("%s: %s: %s\n", what, mend_result_name(error.result), error.message);
    return 1;
}

int main(void)
{
    /* The device: 1 GiB, simulated. On a GPU leave `driver` out: the pool opens CUDA. */
    mend_sim_config device = MEND_SIM_CONFIG_INIT;
    mend_sim *sim = NULL;
    device.memory_bytes = 1024ull * MIB;
    if (mend_sim_create(&device, &sim) != MEND_OK) {
        return failed("mend_sim_create");
    }

    /* The pool: it may hold 768 MiB and holds nothing yet. */
    mend_pool_config config = MEND_POOL_CONFIG_INIT;
    mend_pool *pool = NULL;
    config.driver = mend_sim_driver(sim);
    config.limit_bytes = 768ull * MIB;
    if (mend_pool_create(&config, &pool) != MEND_OK) {
        return failed("mend_pool_create");
    }
    show(pool, "a new pool:");

    /* Six blocks fill it. The stream NULL is the default stream. */
    void *blocks[BLOCKS] = {NULL};
    for (int i = 0; i < BLOCKS; i++) {
        if (mend_alloc(pool, 128ull * MIB, NULL, &blocks[i]) != MEND_OK) {
            return failed("mend_alloc");
        }
    }
    show(pool, "six blocks of 128 MiB:");

    /* Every second block is freed: 384 MiB are free, in three pieces of 128 MiB. */
    for (int i = 0; i < BLOCKS; i += 2) {
        mend_free(pool, blocks[i], NULL);
    }
    show(pool, "every second one freed:");

    /* One block of 384 MiB: the pool maps the three pieces next to each other. */
    void *large = NULL;
    if (mend_alloc(pool, 384ull * MIB, NULL, &large) != MEND_OK) {
        return failed("mend_alloc");
    }
    show(pool, "one block of 384 MiB:");

    /* Free everything, and give the memory back to the device. */
    uint64_t released_bytes = 0;
    mend_free(pool, large, NULL);
    for (int i = 1; i < BLOCKS; i += 2) {
        mend_free(pool, blocks[i], NULL);
    }
    mend_trim(pool, 0, MEND_TRIM_IDLE, &released_bytes);
    printf("given back: %llu MiB\n", (unsigned long long)(released_bytes / MIB));

    mend_pool_destroy(pool);
    int broken = mend_sim_first_violation(sim)[0] != 0; /* was a rule of the driver broken? */
    mend_sim_destroy(sim);
    return broken;
}
