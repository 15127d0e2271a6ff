/*
 * RMM's adaptors, written with Mend: a resource for the device, a limit, statistics, a callback for
 * failures, and a buffer that remembers its stream.
 */
#include <mend/mend_devices.h>
#include <mend/mend_sim.h>
#include <stdio.h>

enum { MIB = 1 << 20 };

/* rmm::device_buffer: memory, its size, and the stream in whose order it is used. */
typedef struct buffer {
    void *data;
    size_t size_bytes;
    mend_stream stream;
} buffer;

static mend_result buffer_create(buffer *b, size_t size_bytes, mend_stream stream)
{
    mend_result result = mend_device_alloc(0, size_bytes, stream, &b->data);
    if (result == MEND_OK) {
        b->size_bytes = size_bytes;
        b->stream = stream;
    }
    return result;
}

static void buffer_destroy(buffer *b)
{
    mend_device_free(0, b->data, b->size_bytes, b->stream);
    *b = (buffer){.data = NULL};
}

/* failure_callback_resource_adaptor: spills a buffer to the host and lets the pool try again. */
static int spill(void *context, mend_pool *pool, uint64_t needed_bytes)
{
    buffer *b = context;
    (void)pool;
    (void)needed_bytes;
    if (b->data == NULL) {
        return 0;
    }
    buffer_destroy(b); /* a program would copy it to the host before */
    printf("spilled a buffer\n");
    return 1;
}

int main(void)
{
    mend_sim_config device = MEND_SIM_CONFIG_INIT;
    mend_pool_config config = MEND_POOL_CONFIG_INIT;
    mend_sim *sim = NULL;
    mend_pool *pool = NULL;
    buffer table = {.data = NULL};
    buffer joined = {.data = NULL};
    device.memory_bytes = 1024ull * MIB;
    if (mend_sim_create(&device, &sim) != MEND_OK) {
        return 1;
    }
    config.driver = mend_sim_driver(sim);            /* on a GPU leave this out */
    config.limit_bytes = 256ull * MIB;               /* limiting_resource_adaptor */
    mend_set_default_config(0, &config);             /* before the first allocation */
    if (mend_pool_for_device(0, &pool) != MEND_OK || /* get_current_device_resource */
        mend_add_pressure_callback(pool, spill, &table) != MEND_OK ||
        buffer_create(&table, 160ull * MIB, NULL) != MEND_OK ||
        buffer_create(&joined, 200ull * MIB, NULL) != MEND_OK) {
        return 1;
    }
    mend_stats stats = MEND_STATS_INIT; /* statistics_resource_adaptor */
    mend_get_stats(pool, &stats);
    printf("%llu MiB in %llu blocks, at most %llu MiB so far\n",
           (unsigned long long)(stats.live_bytes / MIB), (unsigned long long)stats.live_blocks,
           (unsigned long long)(stats.peak_live_bytes / MIB));

    buffer_destroy(&joined);
    mend_pool_destroy(pool); /* the last of its blocks is gone */
    int broken = mend_sim_first_violation(sim)[0] != 0;
    mend_sim_destroy(sim);
    return broken;
}
