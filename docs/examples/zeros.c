/*
 * A sparse table: 16 GiB of rows, of which three are there. Rows that are not there read as zeros,
 * at the cost of one page of memory.
 */
#include <mend/mend_range.h>
#include <mend/mend_sim.h>
#include <stdio.h>
#include <string.h>

enum { MIB = 1 << 20 };
#define PAGE_BYTES  (32ull * MIB)
#define TABLE_BYTES (16384ull * MIB)

/* A program would launch a kernel here. */
static unsigned long long sum(const unsigned char *table)
{
    unsigned long long all = 0;
    for (unsigned long long at = 0; at < TABLE_BYTES; at += MIB) {
        all += table[at];
    }
    return all;
}

int main(void)
{
    mend_sim *sim = NULL;
    mend_pool *pool = NULL;
    mend_range *range = NULL;
    mend_sim_config device = MEND_SIM_CONFIG_INIT;
    device.memory_bytes = 256ull * MIB;
    device.content = MEND_SIM_CONTENT_BYTES; /* so that the bytes can be read */
    mend_pool_config config = MEND_POOL_CONFIG_INIT;
    mend_range_options options = MEND_RANGE_OPTIONS_INIT;
    options.page_bytes = PAGE_BYTES;
    if (mend_sim_create(&device, &sim) != MEND_OK) {
        return 1;
    }
    config.driver = mend_sim_driver(sim);
    if (mend_pool_create(&config, &pool) != MEND_OK ||
        mend_range_create(pool, TABLE_BYTES, &options, &range) != MEND_OK ||
        mend_range_map_zeros(range, 0, TABLE_BYTES) != MEND_OK) {
        return 1;
    }
    mend_range_info info = MEND_RANGE_INFO_INIT;
    mend_range_get_info(range, &info);
    unsigned char *table = info.base;
    printf("empty: the sum is %llu\n", sum(table));

    const unsigned long long rows[] = {3, 100, 511};
    for (int i = 0; i < 3; i++) {
        if (mend_range_commit(range, rows[i] * PAGE_BYTES, PAGE_BYTES, NULL) != MEND_OK) {
            return 1;
        }
        memset(table + rows[i] * PAGE_BYTES, i + 1, PAGE_BYTES);
    }
    mend_stats stats = MEND_STATS_INIT;
    mend_get_stats(pool, &stats);
    printf("three rows: the sum is %llu\n", sum(table));
    printf("memory: %llu MiB of rows, %llu MiB of zeros for %llu MiB\n",
           (unsigned long long)stats.range_bytes / MIB,
           (unsigned long long)stats.zero_chunk_bytes / MIB,
           (unsigned long long)stats.zero_bytes / MIB);

    mend_range_destroy(range, NULL);
    mend_result result = mend_pool_destroy(pool);
    mend_sim_destroy(sim);
    return result == MEND_OK ? 0 : 1;
}
