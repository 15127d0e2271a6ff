/*
 * One operation on a pool with so many live blocks, for bench/crowded.py, which counts its
 * instructions under callgrind: only what runs inside mend_counted is counted.
 *
 *     mend_crowded --list | OPERATION BLOCKS
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/align.h"
#include "lab/workloads/population.h"
#include "speed/library.h"

enum { STREAMS = 2, SMALLEST_BYTES = 512, LARGEST_BYTES = 2048 };

typedef struct crowd {
    speed_library library;
    mend_sim *sim;
    mend_pool *pool;
    mend_stream streams[STREAMS];
    void **blocks;
    size_t count;
    size_t at; /* the block that the operation is about */
    mend_random random;
} crowd;

typedef struct operation {
    const char *name;
    size_t times;
    bool looks_at_all; /* by its nature: it is counted for each block */
    void (*before)(crowd *c);
    void (*work)(crowd *c);
    void (*after)(crowd *c);
} operation;

static void require(bool condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "mend_crowded: %s failed\n", what);
        exit(1);
    }
}

static void take(crowd *c)
{
    uint64_t size_bytes = mend_random_between(&c->random, SMALLEST_BYTES, LARGEST_BYTES);
    mend_result result =
        c->library.mend_alloc(c->pool, size_bytes, c->streams[0], &c->blocks[c->at]);
    require(result == MEND_OK, "an allocation");
}

static void give(crowd *c)
{
    mend_result result = c->library.mend_free(c->pool, c->blocks[c->at], c->streams[0]);
    require(result == MEND_OK, "a free");
}

static void replace(crowd *c)
{
    give(c);
    take(c);
}

static void ask_inside(crowd *c)
{
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    const char *inside = (const char *)c->blocks[c->at] + 1;
    require(c->library.mend_get_block_info(c->pool, inside, &info) == MEND_OK &&
                info.base == c->blocks[c->at],
            "a question about the inside of a block");
}

static void free_again(crowd *c)
{
    mend_result result = c->library.mend_free(c->pool, c->blocks[c->at], c->streams[0]);
    require(result == MEND_ERROR_DOUBLE_FREE, "finding a double free");
}

static void use_on_the_other(crowd *c)
{
    mend_result result = c->library.mend_record_stream(c->pool, c->blocks[c->at], c->streams[1]);
    require(result == MEND_OK, "mend_record_stream");
}

static void forget(crowd *c)
{
    require(c->library.mend_forget_stream(c->pool, c->streams[1]) == MEND_OK, "mend_forget_stream");
}

static void audit(crowd *c)
{
    require(c->library.mend_audit(c->pool) == MEND_OK, "mend_audit");
}

static const operation operations[] = {
    {"alloc", 200, false, give, take, NULL},
    {"free", 200, false, NULL, give, take},
    {"interior_query", 200, false, NULL, ask_inside, NULL},
    {"double_free", 200, false, give, free_again, take},
    {"forget_stream", 200, false, use_on_the_other, forget, replace},
    {"audit_of_each_block", 1, true, NULL, audit, NULL},
};
enum { OPERATIONS = sizeof(operations) / sizeof(*operations) };

void mend_counted(void (*work)(crowd *c), crowd *c);

/* callgrind knows this function by its name, so it must be one: neither inlined nor left by a jump
 * into the operation. */
__attribute__((noinline)) void mend_counted(void (*work)(crowd *c), crowd *c)
{
    work(c);
    __asm__ volatile("" ::: "memory");
}

static void open_crowd(crowd *c, size_t count)
{
    *c = (crowd){.count = count, .random = {.state = 7}};
    require(speed_library_open(NULL, &c->library), "loading the libraries");
    mend_sim_config sim_config = MEND_SIM_CONFIG_INIT;
    require(c->library.mend_sim_create(&sim_config, &c->sim) == MEND_OK, "mend_sim_create");
    mend_pool_config config = MEND_POOL_CONFIG_INIT;
    config.driver = c->library.mend_sim_driver(c->sim);
    require(c->library.mend_pool_create(&config, &c->pool) == MEND_OK, "mend_pool_create");
    for (size_t i = 0; i < STREAMS; i++) {
        require(c->library.mend_sim_stream_create(c->sim, &c->streams[i]) == MEND_OK,
                "mend_sim_stream_create");
    }
    c->blocks = calloc(count, sizeof(void *));
    require(c->blocks != NULL, "malloc");
    for (c->at = 0; c->at < count; c->at++) {
        take(c);
    }
    for (size_t i = 0; i < count; i++) { /* some in another place, and holes between them */
        c->at = mend_random_below(&c->random, count);
        replace(c);
    }
}

/* The figure is for one of so many. */
static void run(const operation *one, size_t count)
{
    crowd c;
    open_crowd(&c, count);
    for (size_t i = 0; i < one->times; i++) {
        c.at = mend_random_below(&c.random, count);
        if (one->before != NULL) {
            one->before(&c);
        }
        mend_counted(one->work, &c);
        if (one->after != NULL) {
            one->after(&c);
        }
    }
    printf("%zu\n", one->looks_at_all ? one->times * count : one->times);
    c.library.mend_pool_destroy(c.pool);
    c.library.mend_sim_destroy(c.sim);
    free(c.blocks);
}

int main(int argc, char **argv)
{
    bool lists = argc == 2 && strcmp(argv[1], "--list") == 0;
    size_t count = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
    for (size_t i = 0; i < OPERATIONS; i++) {
        if (lists) {
            printf("%s\n", operations[i].name);
        } else if (count > 0 && strcmp(argv[1], operations[i].name) == 0) {
            run(&operations[i], count);
            return 0;
        }
    }
    if (!lists) {
        fprintf(stderr, "usage: mend_crowded --list | OPERATION BLOCKS\n");
    }
    return lists ? 0 : 2;
}
