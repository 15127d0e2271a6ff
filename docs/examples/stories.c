/*
 * Troubles with memory, each a function: `stories NAME` has the trouble, `stories NAME cured` has
 * not. docs/troubleshooting.md tells them, from symptom to cure.
 */
#include <mend/mend.h>
#include <mend/mend_graph_pools.h>
#include <mend/mend_inspect.h>
#include <mend/mend_sim.h>
#include <mend/mend_sleep.h>
#include <stdio.h>
#include <string.h>

enum { MIB = 1 << 20 };

static mend_sim *gpu;
static mend_pool *pool;

static mend_pool *open_pool(void)
{
    mend_pool_config config = MEND_POOL_CONFIG_INIT;
    mend_pool *opened = NULL;
    config.driver = mend_sim_driver(gpu);
    mend_pool_create(&config, &opened);
    return opened;
}

static void ignore(void *context, mend_log_level level, const char *line)
{
    (void)context, (void)level, (void)line;
}

/* A block. Without one, prints the reason, a part of a sentence a line. */
static void *get(mend_pool *from, unsigned mib, mend_stream stream)
{
    void *block = NULL;
    mend_error error = MEND_ERROR_INIT;
    if (mend_alloc(from, (uint64_t)mib * MIB, stream, &block) != MEND_OK) {
        mend_get_last_error(&error);
        for (const char *at = error.message; *at != 0; at++) {
            putchar(*at == ' ' && (at[-1] == '.' || at[-1] == ';') ? '\n' : *at);
        }
        putchar('\n');
    }
    return block;
}

/* Work of the GPU for a millisecond: a program would launch a kernel here. */
static void use(void *block, mend_stream stream)
{
    const mend_sim_work work = {.struct_size = sizeof(mend_sim_work),
                                .kind = MEND_SIM_WORK_TOUCH,
                                .address = (uint64_t)(uintptr_t)block,
                                .size_bytes = MIB,
                                .finish_ns = mend_sim_now_ns(gpu) + 1000000};
    mend_sim_launch(gpu, stream, &work);
}

static mend_stats stats(void)
{
    mend_stats now = MEND_STATS_INIT;
    mend_get_stats(pool, &now);
    return now;
}

/* 300 steps. Each keeps the losses that it wrote to the log. */
static void leak(int is_cured)
{
    for (int step = 0; step < 300; step++) {
        mend_scope_push("forward", 0);
        void *activations = get(pool, 64, NULL);
        mend_scope_pop();
        mend_scope_push("log", 0);
        void *losses = get(pool, 1, NULL);
        mend_scope_pop();
        mend_free(pool, activations, NULL);
        if (activations == NULL || losses == NULL) {
            printf("the end, in step %d\n", step);
            return;
        }
        if (is_cured) {
            mend_free(pool, losses, NULL);
        }
    }
    printf("done; at most %u MiB live\n", (unsigned)(stats().peak_live_bytes / MIB));
}

/* Steps of eight micro-batches, whose outputs are needed until the next one, and kept until the
 * step ends. */
static void accumulate(int is_cured)
{
    for (int step = 0; step < 60; step++) {
        void *outputs[8];
        mend_scope_push("outputs", 0);
        for (int i = 0; i < 8; i++) {
            outputs[i] = get(pool, 24, NULL);
            if (is_cured && i > 0) {
                mend_free(pool, outputs[i - 1], NULL);
            }
        }
        mend_scope_pop();
        for (int i = is_cured ? 7 : 0; i < 8; i++) {
            mend_free(pool, outputs[i], NULL);
        }
    }
    printf("done; at most %u MiB live\n", (unsigned)(stats().peak_live_bytes / MIB));
}

/* Batches that one stream fills and frees, and that a second one asks for again. */
static void streams(int is_cured)
{
    mend_stream copies = NULL;
    mend_stream compute = NULL;
    mend_sim_stream_create(gpu, NULL, &copies);
    mend_sim_stream_create(gpu, NULL, &compute);
    for (int i = 0; i < 10; i++) {
        void *batch = get(pool, 160, copies);
        use(batch, copies);
        mend_free(pool, batch, is_cured ? copies : MEND_NO_STREAM);
        mend_available available = MEND_AVAILABLE_INIT;
        mend_get_available(pool, compute, &available);
        if (i == 0) {
            printf("fits now: %u MiB; after a wait of the host: %u MiB\n",
                   (unsigned)(available.now_bytes / MIB),
                   (unsigned)(available.after_waiting_bytes / MIB));
        }
        void *input = get(pool, 160, compute);
        use(input, compute);
        mend_free(pool, input, is_cured ? compute : MEND_NO_STREAM);
    }
    printf("waits of the host: %u\n", (unsigned)stats().host_waits);
}

/* A server and a training job in turns on one GPU. */
static void others(int is_cured)
{
    mend_pool *server = open_pool();
    void *cache = get(server, 200, NULL);
    if (is_cured) {
        mend_sleep(server, NULL, NULL); /* its bytes go to the memory of the host */
    }
    void *batch = get(pool, 128, NULL);
    printf("the job %s\n", batch != NULL ? "runs" : "does not run");
    mend_free(pool, batch, NULL);
    mend_trim(pool, 0, MEND_TRIM_IDLE, NULL);
    if (is_cured) {
        printf("wake: %s\n", mend_result_name(mend_wake(server, NULL, 0, NULL)));
    }
    mend_free(server, cache, NULL);
    mend_pool_destroy(server);
}

/* A captured graph, which is no longer launched when a larger batch comes. */
static void graphs(int is_cured)
{
    mend_stream stream = NULL;
    mend_graph_pool *graph_pool = NULL;
    mend_sim_graph *graph = NULL;
    mend_sim_stream_create(gpu, NULL, &stream);
    mend_graph_pool_create(pool, &graph_pool);
    mend_graph_pool_begin(graph_pool, stream);
    mend_sim_begin_capture(gpu, stream, MEND_SIM_CAPTURE_GLOBAL);
    void *inner = get(pool, 160, stream);
    use(inner, stream);
    mend_free(pool, inner, stream);
    mend_sim_end_capture(gpu, stream, &graph);
    mend_graph_pool_end(graph_pool);
    mend_sim_graph_launch(gpu, graph, stream, 0);
    mend_sim_graph_destroy(gpu, graph);
    if (is_cured) {
        mend_graph_pool_destroy(graph_pool, stream);
    }
    void *batch = get(pool, 192, stream);
    printf("the larger batch %s\n", batch != NULL ? "fits" : "does not fit");
}

/* Weights and a batch, under the limit that MEND_CONF sets. */
static void limit(int is_cured)
{
    (void)is_cured;
    void *weights = get(pool, 96, NULL);
    void *batch = get(pool, 64, NULL);
    printf("the batch %s\n", weights != NULL && batch != NULL ? "fits" : "does not fit");
}

/* A phase frees its blocks, but for every eighth one: results, which stay. */
static void phases(int is_cured)
{
    enum { BLOCKS = 4000 };
    void *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = get(pool, 1, NULL);
    }
    for (int i = 0; i < BLOCKS; i++) {
        if (i % 8 != 0) {
            mend_free(pool, blocks[i], NULL);
        }
    }
    if (is_cured) {
        mend_compact(pool, NULL, NULL); /* the GPU is idle between two phases */
    }
    void *first = get(pool, 3000, NULL);
    printf("the first block of the next phase %s\n", first != NULL ? "fits" : "does not fit");
}

/* As many pools as there are models, in a process with few addresses. */
static void addresses(int is_cured)
{
    mend_pool *models[4];
    void *weights[4];
    int opened = 0;
    (void)is_cured;
    for (int i = 0; i < 4; i++) {
        models[i] = open_pool();
        weights[i] = models[i] != NULL ? get(models[i], 16, NULL) : NULL;
        opened += weights[i] != NULL;
    }
    printf("%d of 4 models have memory\n", opened);
    for (int i = 0; i < 4; i++) {
        mend_free(models[i], weights[i], NULL);
        mend_pool_destroy(models[i]);
    }
}

typedef struct story {
    const char *name;
    void (*tell)(int is_cured);
    unsigned memory_mib;
    unsigned address_mib; /* 0: as many as a GPU has */
} story;

static const story all[] = {{"leak", leak, 256, 0},       {"accumulate", accumulate, 256, 0},
                            {"streams", streams, 256, 0}, {"others", others, 256, 0},
                            {"graphs", graphs, 256, 0},   {"limit", limit, 256, 0},
                            {"phases", phases, 4096, 0},  {"addresses", addresses, 256, 1024}};

int main(int argument_count, char **arguments)
{
    mend_sim_config device = MEND_SIM_CONFIG_INIT;
    device.has_no_context_events = 1; /* a driver before CUDA 12.5 */
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (argument_count > 1 && strcmp(arguments[1], all[i].name) == 0) {
            device.memory_bytes = (uint64_t)all[i].memory_mib * MIB;
            device.address_bytes = (uint64_t)all[i].address_mib * MIB;
            if (mend_sim_create(&device, &gpu) != MEND_OK || (pool = open_pool()) == NULL) {
                return 1;
            }
            all[i].tell(argument_count > 2);
            mend_log_set_sink(ignore, NULL); /* a story leaves blocks to the end of its pool */
            mend_pool_destroy(pool);
            int broken = mend_sim_first_violation(gpu)[0] != 0;
            mend_sim_destroy(gpu);
            return broken;
        }
    }
    return 2;
}
