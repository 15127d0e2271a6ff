/*
 * Small fixed programs whose instructions bench/counts.py counts under callgrind, inside
 * mend_counted only. Counts are the same on a busy machine as on a quiet one.
 *
 *     mend_counts --list | --build | CASE
 */
#include <gnu/libc-version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/align.h"
#include "lab/trace/read.h"
#include "lab/trace/trace.h"
#include "lab/workloads/population.h"
#include "speed/library.h"

enum { STREAMS = 2, BLOCKS = 10000, REPLAYED_EVENTS = 20000 };

typedef struct world {
    speed_library library;
    mend_sim *sim;
    mend_pool *pool;
    mend_stream streams[STREAMS];
    void **blocks;
    mend_trace *trace;
    uint64_t size_bytes;
    size_t index; /* of the operation */
} world;

/* A case: its setup, the counted operation, and the steps before and after each time. */
typedef struct count_case {
    const char *name;
    uint64_t size_bytes;
    size_t operations;
    void (*set_up)(world *w);
    void (*before)(world *w);
    void (*operation)(world *w);
    void (*after)(world *w);
    /* The counter that shows that the case does its named work. 0: none. */
    uint64_t most_reserved_bytes;
} count_case;

static void require(bool condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "mend_counts: %s failed\n", what);
        exit(1);
    }
}

static void *alloc_on(const world *w, size_t stream, uint64_t size_bytes)
{
    void *block = NULL;
    mend_result result = w->library.mend_alloc(w->pool, size_bytes, w->streams[stream], &block);
    require(result == MEND_OK, "an allocation");
    return block;
}

static void free_on(const world *w, size_t stream, void *block)
{
    require(w->library.mend_free(w->pool, block, w->streams[stream]) == MEND_OK, "a free");
}

/* ---- cached pairs ---------------------------------------------------------------------------- */

static void pair(world *w)
{
    free_on(w, 0, alloc_on(w, 0, w->size_bytes));
}

static void warm_up(world *w)
{
    for (size_t i = 0; i < 100; i++) {
        pair(w);
    }
}

/* Blocks of up to 2 KiB, and a hole for every four. */
static void fill_with_others(world *w)
{
    mend_random random = {.state = 7};
    for (size_t i = 0; i < BLOCKS; i++) {
        w->blocks[i] = alloc_on(w, 0, mend_random_between(&random, 512, 2048));
    }
    for (size_t i = 0; i < BLOCKS; i += 5) {
        free_on(w, 0, w->blocks[i]);
    }
    warm_up(w);
}

/* ---- as hooks call --------------------------------------------------------------------------- */

static void hook_pair(world *w)
{
    void *block = NULL;
    mend_result result = w->library.mend_device_alloc(0, w->size_bytes, w->streams[0], &block);
    require(result == MEND_OK, "mend_device_alloc");
    require(w->library.mend_device_free(0, block, w->size_bytes, w->streams[0]) == MEND_OK,
            "mend_device_free");
}

/* The device's default pool is used in the place of the world's. */
static void warm_up_default_pool(world *w)
{
    mend_pool_config config = MEND_POOL_CONFIG_INIT;
    config.driver = w->library.mend_sim_driver(w->sim);
    require(w->library.mend_pool_destroy(w->pool) == MEND_OK, "mend_pool_destroy");
    require(w->library.mend_set_default_config(0, &config) == MEND_OK, "mend_set_default_config");
    require(w->library.mend_pool_for_device(0, &w->pool) == MEND_OK, "mend_pool_for_device");
    for (size_t i = 0; i < 100; i++) {
        hook_pair(w);
    }
}

/* ---- single calls ---------------------------------------------------------------------------- */

static void alloc_one(world *w)
{
    w->blocks[w->index] = alloc_on(w, 0, w->size_bytes);
}

static void free_one(world *w)
{
    free_on(w, 0, w->blocks[w->index]);
}

/* All, in no order. */
static void alloc_all(world *w)
{
    mend_random random = {.state = 7};
    for (size_t i = 0; i < BLOCKS; i++) {
        w->blocks[i] = alloc_on(w, 0, w->size_bytes);
    }
    for (size_t i = BLOCKS; i > 1; i--) {
        size_t other = mend_random_below(&random, i);
        void *block = w->blocks[i - 1];
        w->blocks[i - 1] = w->blocks[other];
        w->blocks[other] = block;
    }
}

/* The pool releases all memory and takes one chunk, half of which stays free. */
static void leave_half_a_chunk(world *w)
{
    require(w->library.mend_trim(w->pool, 0, MEND_TRIM_IDLE, NULL) == MEND_OK, "a trim");
    w->blocks[BLOCKS] = alloc_on(w, 0, 60 * MEND_MIB);
}

static void free_both(world *w)
{
    free_one(w);
    free_on(w, 0, w->blocks[BLOCKS]);
}

static void alloc_between_holes(world *w)
{
    void *before = alloc_on(w, 0, w->size_bytes);
    alloc_one(w);
    void *behind = alloc_on(w, 0, w->size_bytes);
    w->blocks[BLOCKS] = alloc_on(w, 0, w->size_bytes);
    free_on(w, 0, before);
    free_on(w, 0, behind);
}

static void free_the_last(world *w)
{
    free_on(w, 0, w->blocks[BLOCKS]);
}

static void record_stream(world *w)
{
    mend_result result = w->library.mend_record_stream(w->pool, w->blocks[w->index], w->streams[1]);
    require(result == MEND_OK, "mend_record_stream");
}

static void alloc_from_the_other(world *w)
{
    w->blocks[w->index] = alloc_on(w, 1, w->size_bytes);
}

static void free_on_the_other(world *w)
{
    free_on(w, 1, w->blocks[w->index]);
}

/* ---- a recording ----------------------------------------------------------------------------- */

static void read_recording(world *w, const char *name)
{
    require(mend_trace_read(name, &w->trace) == MEND_OK, name);
    free(w->blocks);
    w->blocks = calloc(w->trace->block_count, sizeof(void *));
    require(w->blocks != NULL, "malloc");
}

static void read_gpt2(world *w)
{
    read_recording(w, MEND_TRACES_DIR "/gpt2-medium-pretrain.csv.gz");
}

static void read_fsdp(world *w)
{
    read_recording(w, MEND_TRACES_DIR "/fsdp-llama-2stream.csv.gz");
}

static void replay_event(world *w)
{
    const mend_trace_event *event = &w->trace->events[w->index];
    size_t stream = event->stream % STREAMS;
    if (event->size_bytes == 0) {
        return;
    }
    if (event->is_alloc) {
        w->blocks[event->block] = alloc_on(w, stream, event->size_bytes);
    } else {
        free_on(w, stream, w->blocks[event->block]);
    }
}

/* ---- the table ------------------------------------------------------------------------------- */

static const count_case cases[] = {
    {"pair_512B", 512, 1000, warm_up, NULL, pair, NULL, 0},
    {"pair_2MiB", 2 * MEND_MIB, 1000, warm_up, NULL, pair, NULL, 0},
    {"pair_128MiB", 128 * MEND_MIB, 1000, warm_up, NULL, pair, NULL, 0},
    {"pair_512B_among_8000", 512, 1000, fill_with_others, NULL, pair, NULL, 0},
    {"pair_2MiB_among_8000", 2 * MEND_MIB, 1000, fill_with_others, NULL, pair, NULL, 0},
    {"hook_pair_2MiB", 2 * MEND_MIB, 1000, warm_up_default_pool, NULL, hook_pair, NULL, 0},
    {"fill_4KiB", 4 * MEND_KIB, BLOCKS, NULL, NULL, alloc_one, NULL, 0},
    {"drain_4KiB", 4 * MEND_KIB, BLOCKS, alloc_all, NULL, free_one, NULL, 0},
    {"free_between_holes_4MiB", 4 * MEND_MIB, 1000, NULL, alloc_between_holes, free_one,
     free_the_last, 0},
    {"alloc_by_creation_192MiB", 192 * MEND_MIB, 200, NULL, leave_half_a_chunk, alloc_one,
     free_both, 0},
    {"record_stream_2MiB", 2 * MEND_MIB, 1000, NULL, alloc_one, record_stream, free_one, 0},
    {"alloc_from_other_stream_128MiB", 128 * MEND_MIB, 1000, NULL, pair, alloc_from_the_other,
     free_on_the_other, 128 * MEND_MIB},
    {"replay_gpt2", 0, REPLAYED_EVENTS, read_gpt2, NULL, replay_event, NULL, 0},
    {"replay_fsdp", 0, REPLAYED_EVENTS, read_fsdp, NULL, replay_event, NULL, 0},
};
enum { CASES = sizeof(cases) / sizeof(*cases) };

/* ---- running one ----------------------------------------------------------------------------- */

void mend_counted(void (*operation)(world *w), world *w);

/* callgrind knows this function by its name, so it must be one: neither inlined nor left by a jump
 * into the operation. */
__attribute__((noinline)) void mend_counted(void (*operation)(world *w), world *w)
{
    operation(w);
    __asm__ volatile("" ::: "memory");
}

static void open_world(world *w, const count_case *one)
{
    require(speed_library_open(NULL, &w->library), "loading the libraries");
    mend_sim_config config = MEND_SIM_CONFIG_INIT;
    require(w->library.mend_sim_create(&config, &w->sim) == MEND_OK, "mend_sim_create");
    mend_pool_config pool_config = MEND_POOL_CONFIG_INIT;
    pool_config.driver = w->library.mend_sim_driver(w->sim);
    require(w->library.mend_pool_create(&pool_config, &w->pool) == MEND_OK, "mend_pool_create");
    w->blocks = calloc(BLOCKS + 1, sizeof(void *));
    require(w->blocks != NULL, "malloc");
    for (size_t i = 0; i < STREAMS; i++) {
        require(w->library.mend_sim_stream_create(w->sim, NULL, &w->streams[i]) == MEND_OK,
                "mend_sim_stream_create");
    }
    w->size_bytes = one->size_bytes;
}

static void close_world(world *w)
{
    w->library.mend_pool_destroy(w->pool);
    w->library.mend_sim_destroy(w->sim);
    mend_trace_destroy(w->trace);
    free(w->blocks);
}

static void run(const count_case *one)
{
    world w = {0};
    open_world(&w, one);
    if (one->set_up != NULL) {
        one->set_up(&w);
    }
    for (w.index = 0; w.index < one->operations; w.index++) {
        if (one->before != NULL) {
            one->before(&w);
        }
        mend_counted(one->operation, &w);
        if (one->after != NULL) {
            one->after(&w);
        }
    }
    mend_stats stats = MEND_STATS_INIT;
    require(w.library.mend_get_stats(w.pool, &stats) == MEND_OK, "mend_get_stats");
    require(one->most_reserved_bytes == 0 || stats.peak_reserved_bytes <= one->most_reserved_bytes,
            "using the memory of the other stream");
    close_world(&w);
}

int main(int argc, char **argv)
{
    const char *wanted = argc == 2 ? argv[1] : "";
    if (strcmp(wanted, "--build") == 0) {
#ifdef __clang__
        printf("clang %d.%d.%d, glibc %s\n", __clang_major__, __clang_minor__, __clang_patchlevel__,
               gnu_get_libc_version());
#else
        printf("gcc %s, glibc %s\n", __VERSION__, gnu_get_libc_version());
#endif
        return 0;
    }
    for (size_t i = 0; i < CASES; i++) {
        if (strcmp(wanted, "--list") == 0) {
            printf("%s %zu\n", cases[i].name, cases[i].operations);
        } else if (strcmp(wanted, cases[i].name) == 0) {
            run(&cases[i]);
            return 0;
        }
    }
    if (strcmp(wanted, "--list") == 0) {
        return 0;
    }
    fprintf(stderr, "usage: mend_counts --list | --build | CASE\n");
    return 2;
}
