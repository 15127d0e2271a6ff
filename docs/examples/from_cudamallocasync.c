/*
 * cudaMallocAsync and its pool calls, written with Mend. The functions have the signatures of the
 * runtime's, so that a program changes its names and little else.
 */
#include <mend/mend.h>
#include <mend/mend_sim.h>
#include <stdio.h>

enum { MIB = 1 << 20 };

/* The numbers of cudaError_t that an allocation may return. */
enum { SUCCESS = 0, INVALID_VALUE = 1, MEMORY_ALLOCATION = 2, UNKNOWN = 999 };

static int code_of(mend_result result)
{
    switch (result) {
    case MEND_OK:
        return SUCCESS;
    case MEND_ERROR_OUT_OF_MEMORY:
    case MEND_ERROR_OUT_OF_ADDRESS_SPACE:
    case MEND_ERROR_OUT_OF_HOST_MEMORY:
        return MEMORY_ALLOCATION;
    case MEND_ERROR_INVALID_ARGUMENT:
    case MEND_ERROR_FOREIGN_POINTER:
    case MEND_ERROR_INTERIOR_POINTER:
    case MEND_ERROR_DOUBLE_FREE:
        return INVALID_VALUE;
    default: /* mend_get_last_error has the reason */
        return UNKNOWN;
    }
}

/* cudaMallocFromPoolAsync. The runtime takes a size of 0, mend_alloc does not. */
static int malloc_async(void **pointer, size_t size_bytes, mend_pool *pool, mend_stream stream)
{
    if (size_bytes == 0) {
        *pointer = NULL;
        return SUCCESS;
    }
    return code_of(mend_alloc(pool, size_bytes, stream, pointer));
}

/* cudaFreeAsync */
static int free_async(void *pointer, mend_pool *pool, mend_stream stream)
{
    return code_of(mend_free(pool, pointer, stream));
}

/* cudaMemPoolTrimTo, after a synchronization of the streams */
static int trim_to(mend_pool *pool, size_t keep_bytes)
{
    return code_of(mend_trim(pool, keep_bytes, MEND_TRIM_WAIT, NULL));
}

/* cudaMemPoolAttrReservedMemCurrent */
static unsigned long long reserved_mib(mend_pool *pool)
{
    mend_stats stats = MEND_STATS_INIT;
    mend_get_stats(pool, &stats);
    return stats.reserved_bytes / MIB;
}

int main(void)
{
    mend_sim_config device = MEND_SIM_CONFIG_INIT;
    mend_pool_config config = MEND_POOL_CONFIG_INIT;
    mend_sim *sim = NULL;
    mend_stream stream = NULL;
    mend_pool *pool = NULL;
    void *a = NULL;
    void *b = NULL;
    device.memory_bytes = 1024ull * MIB;
    if (mend_sim_create(&device, &sim) != MEND_OK) {
        return 1;
    }
    config.driver = mend_sim_driver(sim);
    if (mend_pool_create(&config, &pool) != MEND_OK ||
        mend_sim_stream_create(sim, NULL, &stream) != MEND_OK) {
        return 1;
    }
    printf("malloc %d, ", malloc_async(&a, 300ull * MIB, pool, stream));
    printf("malloc of nothing %d, ", malloc_async(&b, 0, pool, stream));
    printf("malloc of too much %d\n", malloc_async(&b, 900ull * MIB, pool, stream));
    printf("free %d, ", free_async(a, pool, stream));
    printf("second free %d\n", free_async(a, pool, stream));
    printf("reserved %llu MiB, ", reserved_mib(pool));
    printf("trim %d, ", trim_to(pool, 0));
    printf("reserved %llu MiB\n", reserved_mib(pool));

    mend_unregister_stream(pool, stream); /* before cudaStreamDestroy */
    mend_sim_stream_destroy(sim, stream);
    mend_pool_destroy(pool);
    int broken = mend_sim_first_violation(sim)[0] != 0;
    mend_sim_destroy(sim);
    return broken;
}
