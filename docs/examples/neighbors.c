/*
 * Two engines on one GPU, in two processes, share a limit of 512 MiB by a file. The first frees its
 * cache and is idle. Its thread releases the memory for the second one, which asks for more than
 * its share. Then the first one dies, and its share is free.
 */
#include <mend/mend.h>
#include <mend/mend_sim.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MIB = 1 << 20 };

/* A simulated GPU for each process. On a real one both name the same device. */
static mend_pool *open_pool(const char *file, mend_sim **sim)
{
    mend_sim_config device = MEND_SIM_CONFIG_INIT;
    mend_pool_config config = MEND_POOL_CONFIG_INIT;
    mend_pool *pool = NULL;
    device.memory_bytes = 1024ull * MIB;
    if (mend_sim_create(&device, sim) != MEND_OK) {
        return NULL;
    }
    config.driver = mend_sim_driver(*sim);
    config.limit_bytes = 512ull * MIB;
    config.shared_limit_file = file; /* the limit of both engines together */
    config.idle_ms = 1000;           /* a thread releases memory that the other one waits for */
    return mend_pool_create(&config, &pool) == MEND_OK ? pool : NULL;
}

static unsigned long long reserved(mend_pool *pool)
{
    mend_stats stats = MEND_STATS_INIT;
    mend_get_stats(pool, &stats);
    return stats.reserved_bytes / MIB;
}

/* The first engine: weights, and a cache that it no longer needs. */
static int first_engine(const char *file, int says)
{
    mend_sim *sim = NULL;
    mend_pool *pool = open_pool(file, &sim);
    void *weights = NULL;
    void *cache = NULL;
    if (pool == NULL || mend_alloc(pool, 64ull * MIB, NULL, &weights) != MEND_OK ||
        mend_alloc(pool, 384ull * MIB, NULL, &cache) != MEND_OK) {
        return 1;
    }
    mend_free(pool, cache, NULL);
    mend_trim(pool, 0, MEND_TRIM_BY_POLICY, NULL); /* reports the releasable memory */
    printf("the first engine holds %llu MiB, and uses 64\n", reserved(pool));
    fflush(stdout);
    if (write(says, "r", 1) != 1) {
        return 1;
    }
    pause(); /* its thread works */
    return 0;
}

int main(void)
{
    char file[64];
    char ready;
    int pipes[2];
    void *batch = NULL;
    void *more = NULL;
    snprintf(file, sizeof(file), "/tmp/mend-neighbors-%ld", (long)getpid());
    if (pipe(pipes) != 0) {
        return 1;
    }
    pid_t first = fork();
    if (first == 0) {
        return first_engine(file, pipes[1]);
    }
    mend_sim *sim = NULL;
    mend_pool *pool = open_pool(file, &sim);
    if (pool == NULL || read(pipes[0], &ready, 1) != 1) {
        return 1;
    }
    mend_result result = mend_alloc(pool, 320ull * MIB, NULL, &batch);
    printf("the second engine asks for 320 MiB: %s\n", mend_result_name(result));
    result = mend_alloc(pool, 160ull * MIB, NULL, &more);
    printf("and for 160 MiB more: %s\n", mend_result_name(result));
    kill(first, SIGKILL);
    waitpid(first, NULL, 0);
    result = mend_alloc(pool, 160ull * MIB, NULL, &more);
    printf("and again, after the first one died: %s\n", mend_result_name(result));
    printf("the second engine holds %llu MiB\n", reserved(pool));
    mend_free(pool, batch, NULL);
    mend_free(pool, more, NULL);
    mend_pool_destroy(pool);
    mend_sim_destroy(sim);
    unlink(file);
    return 0;
}
