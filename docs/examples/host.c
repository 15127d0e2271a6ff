/*
 * Blocks on the host: optimizer states find the device full and live on the host; when the
 * activations are gone they move to the device, at the same addresses.
 */
#include <mend/mend_host.h>
#include <mend/mend_sim.h>
#include <stdio.h>
#include <string.h>

enum { MIB = 1 << 20, STATES = 3 };

static mend_pool *open_pool(mend_sim **sim)
{
    mend_sim_config device = MEND_SIM_CONFIG_INIT;
    device.memory_bytes = 64ull * MIB;
    device.content = MEND_SIM_CONTENT_BYTES; /* so that the bytes can be compared */
    if (mend_sim_create(&device, sim) != MEND_OK) {
        return NULL;
    }
    mend_pool_config config = MEND_POOL_CONFIG_INIT;
    config.driver = mend_sim_driver(*sim);
    config.host_bytes = 32ull * MIB;
    mend_pool *pool = NULL;
    return mend_pool_create(&config, &pool) == MEND_OK ? pool : NULL;
}

static int is_on_host(mend_pool *pool, const void *block)
{
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    return mend_get_block_info(pool, block, &info) == MEND_OK && info.is_on_host;
}

static void report(mend_pool *pool, const char *when, void *const states[STATES])
{
    mend_stats stats = MEND_STATS_INIT;
    int there = 0;
    mend_get_stats(pool, &stats);
    for (int i = 0; i < STATES; i++) {
        there += is_on_host(pool, states[i]);
    }
    printf("%s: %llu MiB of the device, %llu MiB of the host, %d of %d states there\n", when,
           (unsigned long long)stats.reserved_bytes / MIB,
           (unsigned long long)stats.host_bytes / MIB, there, (int)STATES);
}

static int is_whole(void *const states[STATES])
{
    int whole = 1;
    for (int i = 0; i < STATES; i++) {
        const unsigned char *bytes = states[i];
        for (size_t at = 0; at < 8ull * MIB; at += 512) {
            whole = whole && bytes[at] == (unsigned char)(i + 1);
        }
    }
    return whole;
}

int main(void)
{
    mend_sim *sim = NULL;
    void *activations = NULL;
    void *states[STATES];
    mend_pool *pool = open_pool(&sim);
    if (pool == NULL || mend_alloc(pool, 48ull * MIB, NULL, &activations) != MEND_OK) {
        return 1;
    }
    mend_set_host_allowed(1); /* the states may be slow; the activations may not */
    for (int i = 0; i < STATES; i++) {
        if (mend_alloc(pool, 8ull * MIB, NULL, &states[i]) != MEND_OK) {
            return 1;
        }
        memset(states[i], i + 1, 8ull * MIB); /* a program would launch a kernel here */
    }
    mend_set_host_allowed(0);
    report(pool, "the device is full", states);

    mend_free(pool, activations, NULL);
    mend_move_report moved = MEND_MOVE_REPORT_INIT;
    mend_result result = mend_move(pool, MEND_MOVE_TO_DEVICE, NULL, 0, &moved);
    report(pool, "moved to the device", states);
    printf("%llu MiB copied, %s\n", (unsigned long long)moved.copied_bytes / MIB,
           is_whole(states) ? "every byte is there" : "bytes are lost");

    int whole = is_whole(states);
    for (int i = 0; i < STATES; i++) {
        mend_free(pool, states[i], NULL);
    }
    mend_pool_destroy(pool);
    int broken = mend_sim_first_violation(sim)[0] != 0;
    mend_sim_destroy(sim);
    return broken || !whole || result != MEND_OK;
}
