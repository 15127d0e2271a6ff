/*
 * Memory that two streams share. A block freed in the order of one stream is at once usable there.
 * Another stream gets the memory only when the GPU is done with it.
 */
#include <mend/mend.h>
#include <mend/mend_sim.h>
#include <stdio.h>

enum { MIB = 1 << 20 };

static mend_pool *open_pool(mend_sim **sim)
{
    mend_sim_config device = MEND_SIM_CONFIG_INIT;
    device.memory_bytes = 64ull * MIB; /* so small that the streams must share */
    if (mend_sim_create(&device, sim) != MEND_OK) {
        return NULL;
    }
    mend_pool_config config = MEND_POOL_CONFIG_INIT;
    config.driver = mend_sim_driver(*sim);
    mend_pool *pool = NULL;
    return mend_pool_create(&config, &pool) == MEND_OK ? pool : NULL;
}

/* Work of the GPU on a block, for a millisecond: a program would launch a kernel here. */
static void use(mend_sim *sim, void *block, mend_stream stream)
{
    const mend_sim_work work = {
        .struct_size = sizeof(mend_sim_work),
        .kind = MEND_SIM_WORK_TOUCH,
        .address = (uint64_t)(uintptr_t)block,
        .size_bytes = 48ull * MIB,
        .finish_ns = mend_sim_now_ns(sim) + 1000000,
    };
    mend_sim_launch(sim, stream, &work);
}

int main(void)
{
    mend_sim *sim = NULL;
    mend_stream compute = NULL;
    mend_stream copies = NULL;
    void *first = NULL;
    void *second = NULL;
    mend_pool *pool = open_pool(&sim);
    if (pool == NULL || mend_sim_stream_create(sim, NULL, &compute) != MEND_OK ||
        mend_sim_stream_create(sim, NULL, &copies) != MEND_OK ||
        mend_alloc(pool, 48ull * MIB, compute, &first) != MEND_OK) {
        return 1;
    }
    use(sim, first, compute);
    mend_free(pool, first, compute); /* the work above may still run: that is fine */

    /* A second block does not fit beside the first. The pool makes `copies` wait, on the device,
     * for the work of `compute`. The CPU goes on at once. */
    if (mend_alloc(pool, 48ull * MIB, copies, &second) != MEND_OK) {
        return 1;
    }
    use(sim, second, copies);
    mend_free(pool, second, copies);

    mend_stats stats = MEND_STATS_INIT;
    mend_get_stats(pool, &stats);
    printf("waits on the device: %llu, on the host: %llu\n", (unsigned long long)stats.stream_waits,
           (unsigned long long)stats.host_waits);
    mend_pool_destroy(pool);
    int broken = mend_sim_first_violation(sim)[0] != 0;
    mend_sim_destroy(sim);
    return broken || stats.stream_waits != 1 || stats.host_waits != 0;
}
