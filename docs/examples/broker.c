/*
 * Weights that survive a crash of the engine: a broker process loads and exports them, engines
 * import them. The first engine is killed in the middle of its work. The second one has the weights
 * at once, and loads nothing.
 */
#include <mend/mend.h>
#include <mend/mend_share.h>
#include <mend/mend_sim.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MIB = 1 << 20, WEIGHTS_BYTES = 24 * MIB };

/* A simulated GPU, whose memory the processes share as on a real one, and which the CPU can read.
 */
static mend_pool *open_pool(mend_sim **sim)
{
    mend_sim_config device = MEND_SIM_CONFIG_INIT;
    mend_pool_config config = MEND_POOL_CONFIG_INIT;
    mend_pool *pool = NULL;
    device.memory_bytes = 128ull * MIB;
    device.content = MEND_SIM_CONTENT_BYTES;
    if (mend_sim_create(&device, sim) != MEND_OK) {
        return NULL;
    }
    config.driver = mend_sim_driver(*sim);
    config.shareable = MEND_SHAREABLE_ON;
    return mend_pool_create(&config, &pool) == MEND_OK ? pool : NULL;
}

/* An engine: imports the weights and checks them. Returns its exit status. */
static int run_engine(const char *name, const mend_export_token *token, int says, int is_to_crash)
{
    mend_sim *sim = NULL;
    mend_pool *pool = open_pool(&sim);
    void *memory = NULL;
    uint64_t size_bytes = 0;
    if (pool == NULL || mend_import(pool, token, sizeof(*token), &memory, &size_bytes) != MEND_OK) {
        return 1;
    }
    const unsigned char *weights = memory;
    int is_whole = weights[0] == 42 && memcmp(weights, weights + 1, size_bytes - 1) == 0;
    printf("the %s engine has %llu MiB of weights: %s\n", name,
           (unsigned long long)(size_bytes / MIB), is_whole ? "whole" : "damaged");
    fflush(stdout);
    if (write(says, "r", 1) != 1) {
        return 1;
    }
    if (is_to_crash) {
        pause(); /* until it is killed */
    }
    mend_import_close(pool, memory, NULL);
    mend_result result = mend_pool_destroy(pool);
    mend_sim_destroy(sim);
    return result == MEND_OK ? 0 : 1;
}

/* Starts an engine and waits until it works. Returns its process. */
static pid_t start_engine(const char *name, const mend_export_token *token, int is_to_crash)
{
    int ready[2];
    char answer;
    if (pipe(ready) != 0) {
        return -1;
    }
    pid_t engine = fork();
    if (engine == 0) {
        _exit(run_engine(name, token, ready[1], is_to_crash));
    }
    close(ready[1]);
    int is_ready = read(ready[0], &answer, 1) == 1;
    close(ready[0]);
    return is_ready ? engine : -1;
}

int main(void)
{
    mend_sim *sim = NULL;
    mend_pool *pool = open_pool(&sim); /* the broker's: no kernel runs in it, so none breaks it */
    void *weights = NULL;
    mend_export_token token;
    if (pool == NULL || mend_alloc(pool, WEIGHTS_BYTES, NULL, &weights) != MEND_OK) {
        return 1;
    }
    memset(weights, 42, WEIGHTS_BYTES); /* loads the model */
    if (mend_export(pool, weights, NULL, &token, sizeof(token), NULL, NULL) != MEND_OK) {
        return 1;
    }
    pid_t first = start_engine("first", &token, 1);
    kill(first, SIGKILL);
    waitpid(first, NULL, 0);
    printf("the first engine is dead\n");
    fflush(stdout);
    int status = 1;
    pid_t second = start_engine("second", &token, 0);
    waitpid(second, &status, 0);
    mend_free(pool, weights, NULL);
    mend_pool_destroy(pool);
    mend_sim_destroy(sim);
    return status;
}
