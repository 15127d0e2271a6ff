/*
 * Operations on pools with many of one thing, for bench/crowded.py, which counts their instructions
 * under callgrind, inside mend_counted only. All pools are filled first: that takes most time.
 *
 *     mend_crowded --list | OPERATION... among NUMBER...
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crowd/crowd.h"
#include "crowd/graph_pools.h"
#include "crowd/imports.h"
#include "mend/mend_frameworks.h"
#include "mend/mend_share.h"
#include "mend/mend_sleep.h"

/* A part of valgrind. Nothing is counted without it. */
#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_START_INSTRUMENTATION
#define CALLGRIND_STOP_INSTRUMENTATION
#define CALLGRIND_DUMP_STATS
#endif

typedef struct operation {
    const char *name;
    size_t times;
    bool looks_at_all;      /* by its nature: it is counted for each */
    void (*fill)(crowd *c); /* the pool */
    void (*before)(crowd *c);
    void (*work)(crowd *c);
    void (*after)(crowd *c);
} operation;

static void ask_inside(crowd *c)
{
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    const char *inside = (const char *)c->blocks[c->at] + 1;
    mend_crowd_require(mend_get_block_info(c->pool, inside, &info) == MEND_OK &&
                           info.base == c->blocks[c->at],
                       "a question about the inside of a block");
}

static void free_again(crowd *c)
{
    mend_result result = mend_free(c->pool, c->blocks[c->at], c->streams[0]);
    mend_crowd_require(result == MEND_ERROR_DOUBLE_FREE, "finding a double free");
}

static void use_on_the_other(crowd *c)
{
    mend_result result = mend_record_stream(c->pool, c->blocks[c->at], c->streams[1]);
    mend_crowd_require(result == MEND_OK, "mend_record_stream");
}

static void forget(crowd *c)
{
    mend_crowd_require(mend_unregister_stream(c->pool, c->streams[1]) == MEND_OK,
                       "mend_unregister_stream");
}

static void audit(crowd *c)
{
    mend_crowd_require(mend_validate(c->pool) == MEND_OK, "mend_validate");
}

/* ---- a chunk of another size: it is created and given back ----------------------------------- */

static void grow_and_trim(crowd *c)
{
    uint64_t released_bytes;
    mend_crowd_free_on(c, mend_crowd_alloc_bytes(c, 3 * PAGE, c->streams[0]), c->streams[0]);
    mend_crowd_require(mend_trim(c->pool, 0, MEND_TRIM_IDLE, &released_bytes) == MEND_OK,
                       "mend_trim");
}

/* ---- ranges ---------------------------------------------------------------------------------- */

static mend_range *create_range(const crowd *c, uint64_t size_bytes)
{
    mend_range *range = NULL;
    mend_crowd_require(mend_range_create(c->pool, size_bytes, NULL, &range) == MEND_OK,
                       "mend_range_create");
    return range;
}

static void commit(const crowd *c, mend_range *range, size_t page, size_t count)
{
    mend_result result = mend_range_commit(range, page * PAGE, count * PAGE, c->streams[0]);
    mend_crowd_require(result == MEND_OK, "mend_range_commit");
}

static void decommit(const crowd *c, mend_range *range, size_t page, size_t count)
{
    mend_result result = mend_range_decommit(range, page * PAGE, count * PAGE, c->streams[0]);
    mend_crowd_require(result == MEND_OK, "mend_range_decommit");
}

static void destroy(const crowd *c, mend_range *range)
{
    mend_crowd_require(mend_range_destroy(range, c->streams[0]) == MEND_OK, "mend_range_destroy");
}

static void make_range(crowd *c)
{
    c->ranges[c->at] = create_range(c, PAGE);
    commit(c, c->ranges[c->at], 0, 1);
}

static void end_range(crowd *c)
{
    destroy(c, c->ranges[c->at]);
}

static void replace_range(crowd *c)
{
    end_range(c);
    make_range(c);
}

static void fill_ranges(crowd *c)
{
    for (c->at = 0; c->at < c->count; c->at++) {
        make_range(c);
    }
}

/* One more, which is destroyed while work uses it. */
static void fill_ranges_and_destroy_one(crowd *c)
{
    mend_range_info info = MEND_RANGE_INFO_INIT;
    fill_ranges(c);
    mend_range *one = create_range(c, PAGE);
    commit(c, one, 0, 1);
    mend_crowd_require(mend_range_get_info(one, &info) == MEND_OK, "mend_range_get_info");
    const mend_sim_work work = {.struct_size = sizeof(mend_sim_work),
                                .kind = MEND_SIM_WORK_TOUCH,
                                .address = (uint64_t)(uintptr_t)info.base,
                                .size_bytes = PAGE,
                                .finish_ns = UINT64_MAX / 2};
    mend_crowd_require(mend_sim_launch(c->sim, c->streams[1], &work) == MEND_OK, "mend_sim_launch");
    mend_crowd_require(mend_range_destroy(one, c->streams[1]) == MEND_OK, "mend_range_destroy");
}

/* ---- pages of one range ---------------------------------------------------------------------- */

static void fill_pages(crowd *c)
{
    c->ranges[0] = create_range(c, c->count * PAGE);
    commit(c, c->ranges[0], 0, c->count);
}

/* Every second page is free memory. */
static void fill_holes(crowd *c)
{
    fill_pages(c);
    for (size_t i = 0; i < c->count; i += 2) {
        decommit(c, c->ranges[0], i, 1);
    }
}

static void ask_range(crowd *c)
{
    mend_range_info info = MEND_RANGE_INFO_INIT;
    mend_crowd_require(mend_range_get_info(c->ranges[0], &info) == MEND_OK, "mend_range_get_info");
}

static void replace_page(crowd *c)
{
    decommit(c, c->ranges[0], c->at, 1);
    commit(c, c->ranges[0], c->at, 1);
}

static void replace_pages(crowd *c)
{
    decommit(c, c->ranges[0], 0, c->count);
    commit(c, c->ranges[0], 0, c->count);
}

/* Every second page has no memory: half of it is free elsewhere, and half is created. */
static void make_gaps(crowd *c)
{
    for (size_t i = 0; i < c->count; i += 2) {
        decommit(c, c->ranges[0], i, 1);
    }
    mend_crowd_require(mend_trim(c->pool, 0, MEND_TRIM_IDLE, NULL) == MEND_OK, "mend_trim");
    commit(c, c->ranges[1], 0, c->count / 4);
    decommit(c, c->ranges[1], 0, c->count / 4);
}

static void fill_gaps(crowd *c)
{
    fill_pages(c);
    c->ranges[1] = create_range(c, c->count * PAGE);
    make_gaps(c);
}

static void commit_gaps(crowd *c)
{
    commit(c, c->ranges[0], 0, c->count);
}

/* At the limit: for each three gaps an empty chunk of three pages is released, which fits none.
 */
static void make_gaps_at_the_limit(crowd *c)
{
    mend_stats stats = MEND_STATS_INIT;
    mend_crowd_require(mend_set_limit(c->pool, 0) == MEND_OK, "mend_set_limit");
    for (size_t i = 0; i < c->count; i += 2) {
        decommit(c, c->ranges[0], i, 1);
    }
    mend_crowd_require(mend_trim(c->pool, 0, MEND_TRIM_IDLE, NULL) == MEND_OK, "mend_trim");
    for (size_t i = 0; i < c->count / 6 + 1; i++) {
        commit(c, c->ranges[1], 3 * i, 3);
    }
    decommit(c, c->ranges[1], 0, 3 * (c->count / 6 + 1));
    mend_crowd_require(mend_get_stats(c->pool, &stats) == MEND_OK, "mend_get_stats");
    mend_crowd_require(mend_set_limit(c->pool, stats.reserved_bytes) == MEND_OK, "mend_set_limit");
}

static void fill_gaps_to_the_limit(crowd *c)
{
    mend_range_options options = MEND_RANGE_OPTIONS_INIT;
    options.page_bytes = 3 * PAGE;
    fill_pages(c);
    mend_crowd_require(mend_range_create(c->pool, 3 * c->count * PAGE, &options, &c->ranges[1]) ==
                           MEND_OK,
                       "mend_range_create");
    make_gaps_at_the_limit(c);
}

static void take_a_hole(crowd *c)
{
    (void)mend_crowd_alloc_bytes(c, PAGE, c->streams[0]);
}

/* ---- out of memory ------------------------------------------------------------------------ */

static void fill_holes_to_the_limit(crowd *c)
{
    mend_stats stats = MEND_STATS_INIT;
    fill_holes(c);
    mend_crowd_require(mend_get_stats(c->pool, &stats) == MEND_OK, "mend_get_stats");
    mend_crowd_require(mend_set_limit(c->pool, stats.reserved_bytes) == MEND_OK, "mend_set_limit");
}

/* For one page more than is free. */
static void be_refused(crowd *c)
{
    void *block = NULL;
    mend_result result =
        mend_alloc(c->pool, ((c->count + 1) / 2 + 1) * PAGE, c->streams[0], &block);
    mend_crowd_require(result == MEND_ERROR_OUT_OF_MEMORY, "a refusal");
}

static void destroy_pages(crowd *c)
{
    destroy(c, c->ranges[0]);
}

/* ---- sleepers -------------------------------------------------------------------------------- */

/* Pages of a range, each of which is a chunk. */
static void fill_sleepers(crowd *c)
{
    mend_sleep_options options = MEND_SLEEP_OPTIONS_INIT;
    options.others = MEND_DISCARD;
    fill_pages(c);
    mend_crowd_require(mend_sleep(c->pool, &options, NULL) == MEND_OK, "mend_sleep");
}

/* Two ranges sleep in turn, so that each page takes host memory that another one has left. */
static void sleep_and_wake(crowd *c)
{
    const mend_sleep_rule rule = {1 + c->turn % 2, MEND_BACKUP_HOST};
    mend_sleep_options options = MEND_SLEEP_OPTIONS_INIT;
    options.rules = &rule;
    options.rule_count = 1;
    mend_crowd_require(mend_sleep(c->pool, &options, NULL) == MEND_OK, "mend_sleep");
    mend_crowd_require(mend_wake(c->pool, NULL, 0, NULL) == MEND_OK, "mend_wake");
    c->turn++;
}

static void fill_two_ranges(crowd *c)
{
    mend_alloc_options options = MEND_ALLOC_OPTIONS_INIT;
    for (size_t i = 0; i < 2; i++) {
        options.sleep_tag = 1 + i;
        mend_crowd_require(mend_set_alloc_options(&options, NULL) == MEND_OK,
                           "mend_set_alloc_options");
        c->ranges[i] = create_range(c, c->count * PAGE);
        commit(c, c->ranges[i], 0, c->count);
    }
    mend_crowd_require(mend_set_alloc_options(NULL, NULL) == MEND_OK, "mend_set_alloc_options");
    sleep_and_wake(c);
}

static void free_page(crowd *c)
{
    decommit(c, c->ranges[0], c->at, 1);
}

/* ---- streams, threads, exports --------------------------------------------------------------- */

static void pair_on(const crowd *c, mend_stream stream)
{
    mend_crowd_free_on(c, mend_crowd_alloc_bytes(c, SMALLEST_BYTES, stream), stream);
}

static void fill_streams(crowd *c)
{
    for (size_t i = 0; i < c->count; i++) {
        mend_stream stream;
        mend_crowd_require(mend_sim_stream_create(c->sim, NULL, &stream) == MEND_OK,
                           "mend_sim_stream_create");
        pair_on(c, stream);
    }
}

static void fill_streams_and_pages(crowd *c)
{
    fill_streams(c);
    fill_pages(c);
}

static void *use_a_thread(void *context)
{
    const crowd *c = context;
    pair_on(c, c->streams[0]);
    return NULL;
}

static void fill_threads(crowd *c)
{
    for (size_t i = 0; i < c->count; i++) {
        pthread_t thread;
        mend_crowd_require(pthread_create(&thread, NULL, use_a_thread, c) == 0, "pthread_create");
        mend_crowd_require(pthread_join(thread, NULL) == 0, "pthread_join");
    }
}

static void pair(crowd *c)
{
    pair_on(c, c->streams[0]);
}

static void export(crowd *c)
{
    mend_export_token token;
    mend_crowd_require(mend_export(c->pool, c->blocks[c->at], NULL, &token, MEND_EXPORT_TOKEN_BYTES,
                                   NULL, NULL) == MEND_OK,
                       "mend_export");
}

static void fill_exports(crowd *c)
{
    mend_crowd_fill_blocks(c);
    for (c->at = 0; c->at < c->count; c->at++) {
        export(c);
    }
}

/* The free ends the export. */
static void replace_export(crowd *c)
{
    mend_crowd_replace(c);
    export(c);
}

/* ---- polls ----------------------------------------------------------------------------------- */

static void ask_statistics(crowd *c)
{
    mend_stats stats = MEND_STATS_INIT;
    mend_crowd_require(mend_get_stats(c->pool, &stats) == MEND_OK, "mend_get_stats");
}

/* ---- users of one block ---------------------------------------------------------------------- */

/* One block, and a stream for each that is counted. */
static void use_on_all(crowd *c)
{
    c->blocks[0] = mend_crowd_alloc_bytes(c, SMALLEST_BYTES, c->streams[0]);
    for (size_t i = 0; i < c->count; i++) {
        mend_crowd_require(mend_record_stream(c->pool, c->blocks[0], c->users[i]) == MEND_OK,
                           "mend_record_stream");
    }
}

static void fill_users(crowd *c)
{
    for (size_t i = 0; i < c->count; i++) {
        mend_crowd_require(mend_sim_stream_create(c->sim, NULL, &c->users[i]) == MEND_OK,
                           "mend_sim_stream_create");
    }
    use_on_all(c);
}

static void use_again(crowd *c)
{
    mend_crowd_require(mend_record_stream(c->pool, c->blocks[0], c->users[0]) == MEND_OK,
                       "mend_record_stream");
}

static void free_used(crowd *c)
{
    mend_crowd_free_on(c, c->blocks[0], c->streams[0]);
}

/* ---- the table ------------------------------------------------------------------------------- */

static const operation operations[] = {
    {"alloc", 200, false, mend_crowd_fill_blocks, mend_crowd_give, mend_crowd_take, NULL},
    {"free", 200, false, mend_crowd_fill_blocks, NULL, mend_crowd_give, mend_crowd_take},
    {"interior_query", 200, false, mend_crowd_fill_blocks, NULL, ask_inside, NULL},
    {"double_free", 200, false, mend_crowd_fill_blocks, mend_crowd_give, free_again,
     mend_crowd_take},
    {"unregister_stream", 200, false, mend_crowd_fill_blocks, use_on_the_other, forget,
     mend_crowd_replace},
    {"audit_of_each_block", 1, true, mend_crowd_fill_blocks, NULL, audit, NULL},
    {"range_beside_ranges", 50, false, fill_ranges, NULL, replace_range, NULL},
    {"grow_and_trim_beside_a_destroyed_range", 50, false, fill_ranges_and_destroy_one, NULL,
     grow_and_trim, NULL},
    {"info_of_a_range_of_pages", 50, false, fill_pages, NULL, ask_range, NULL},
    {"page_beside_pages", 50, false, fill_pages, NULL, replace_page, NULL},
    {"alloc_from_holes_between_pages", 50, false, fill_holes, NULL, take_a_hole, NULL},
    {"refusal_beside_each_page", 1, true, fill_holes_to_the_limit, NULL, be_refused, NULL},
    {"each_page_beside_streams", 1, true, fill_streams_and_pages, NULL, replace_pages, NULL},
    {"commit_of_each_gap", 1, true, fill_gaps, NULL, commit_gaps, make_gaps},
    {"commit_of_each_gap_at_the_limit", 1, true, fill_gaps_to_the_limit, NULL, commit_gaps,
     make_gaps_at_the_limit},
    {"destruction_of_each_page", 1, true, fill_pages, NULL, destroy_pages, fill_pages},
    {"graph_pool_of_nothing_beside_blocks", 50, false, mend_crowd_fill_blocks_and_a_graph_pool,
     NULL, mend_crowd_restore_nothing, NULL},
    {"restoration_of_each_block", 1, true, mend_crowd_fill_graph_pool_of_blocks, NULL,
     mend_crowd_restore_blocks, mend_crowd_restore_nothing},
    {"way_back_of_each_chunk", 1, true, mend_crowd_fill_graph_pool_of_chunks, NULL,
     mend_crowd_restore_blocks, mend_crowd_move_chunks},
    {"graph_pool_beside_graph_pools", 50, false, mend_crowd_fill_graph_pools, NULL,
     mend_crowd_make_graph_pool, mend_crowd_release_graph_pool},
    {"release_beside_graph_pools", 50, false, mend_crowd_fill_graph_pools,
     mend_crowd_make_graph_pool, mend_crowd_release_graph_pool, NULL},
    {"grow_beside_graph_pools", 50, false, mend_crowd_fill_graph_pools, NULL, grow_and_trim, NULL},
    {"grow_beside_graph_pools_of_chunks", 50, false, mend_crowd_fill_graph_pools_of_chunks, NULL,
     grow_and_trim, NULL},
    {"grow_beside_graphs", 50, false, mend_crowd_fill_graphs, NULL, grow_and_trim, NULL},
    {"grow_and_trim_beside_sleepers", 50, false, fill_sleepers, NULL, grow_and_trim, NULL},
    {"sleep_of_each_in_the_place_of_another", 1, true, fill_two_ranges, NULL, sleep_and_wake, NULL},
    {"free_beside_sleepers", 50, false, fill_sleepers, NULL, free_page, NULL},
    {"pair_beside_streams", 200, false, fill_streams, NULL, pair, NULL},
    {"pair_beside_threads", 200, false, fill_threads, NULL, pair, NULL},
    {"export_beside_exports", 50, false, fill_exports, NULL, replace_export, NULL},
    {"import_beside_imports", 50, false, mend_crowd_fill_imports, mend_crowd_close_import,
     mend_crowd_import, NULL},
    {"end_of_import_beside_imports", 50, false, mend_crowd_fill_imports, NULL,
     mend_crowd_close_import, mend_crowd_import},
    {"statistics_beside_exports", 50, false, fill_exports, NULL, ask_statistics, NULL},
    {"statistics_beside_imports", 50, false, mend_crowd_fill_imports, NULL, ask_statistics, NULL},
    {"statistics_beside_blocks", 50, false, mend_crowd_fill_blocks, NULL, ask_statistics, NULL},
    {"statistics_beside_pages", 50, false, fill_pages, NULL, ask_statistics, NULL},
    {"statistics_beside_streams", 50, false, fill_streams, NULL, ask_statistics, NULL},
    {"statistics_beside_graph_pools", 50, false, mend_crowd_fill_graph_pools, NULL, ask_statistics,
     NULL},
    {"use_again_beside_each_user", 1, true, fill_users, NULL, use_again, NULL},
    {"free_of_each_user", 1, true, fill_users, NULL, free_used, use_on_all},
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
    mend_sim_config sim_config = MEND_SIM_CONFIG_INIT;
    sim_config.fabric = MEND_SIM_FABRIC_WORKS;
    mend_crowd_require(mend_sim_create(&sim_config, &c->sim) == MEND_OK, "mend_sim_create");
    mend_pool_config config = MEND_POOL_CONFIG_INIT;
    config.driver = mend_sim_driver(c->sim);
    config.shareable = MEND_SHAREABLE_ON;
    mend_crowd_require(mend_pool_create(&config, &c->pool) == MEND_OK, "mend_pool_create");
    for (size_t i = 0; i < STREAMS; i++) {
        mend_crowd_require(mend_sim_stream_create(c->sim, NULL, &c->streams[i]) == MEND_OK,
                           "mend_sim_stream_create");
    }
    c->blocks = calloc(count, sizeof(void *));
    c->ranges = calloc(count, sizeof(void *));
    c->listed = calloc(count, sizeof(*c->listed));
    c->users = calloc(count, sizeof(void *));
    mend_crowd_require(
        c->blocks != NULL && c->ranges != NULL && c->listed != NULL && c->users != NULL, "malloc");
}

static void do_one(const operation *one, crowd *c, bool counted)
{
    c->at = mend_random_below(&c->random, c->count);
    if (one->before != NULL) {
        one->before(c);
    }
    if (counted) {
        mend_counted(one->work, c);
    } else {
        one->work(c);
    }
    if (one->after != NULL) {
        one->after(c);
    }
}

static void fill(const operation *one, crowd *c, size_t count)
{
    open_crowd(c, count);
    one->fill(c);
}

static void close_crowd(crowd *c)
{
    mend_pool_destroy(c->pool);
    mend_pool_destroy(c->exporter);
    mend_sim_destroy(c->sim);
    free(c->blocks);
    free(c->tokens);
    free(c->ranges);
    free(c->listed);
    free(c->users);
}

/* The figure is for one of so many. The first time it also makes nodes, and the linker finds
 * functions. */
static void run(const operation *one, crowd *c)
{
    do_one(one, c, false);
    for (size_t i = 0; i < one->times; i++) {
        do_one(one, c, true);
    }
    printf("%zu\n", one->looks_at_all ? one->times * c->count : one->times);
    CALLGRIND_DUMP_STATS;
}

static const operation *find(const char *name)
{
    for (size_t i = 0; i < OPERATIONS; i++) {
        if (strcmp(name, operations[i].name) == 0) {
            return &operations[i];
        }
    }
    fprintf(stderr, "mend_crowded: no operation \"%s\"\n", name);
    exit(2);
}

/* A line for each operation and each number: how many were counted. */
static void run_all(char **names, size_t name_count, char **numbers, size_t number_count)
{
    size_t count = name_count * number_count;
    crowd *crowds = calloc(count, sizeof(*crowds));
    mend_crowd_require(crowds != NULL, "malloc");
    for (size_t i = 0; i < count; i++) {
        fill(find(names[i / number_count]), &crowds[i],
             strtoul(numbers[i % number_count], NULL, 10));
    }
    CALLGRIND_START_INSTRUMENTATION;
    for (size_t i = 0; i < count; i++) {
        run(find(names[i / number_count]), &crowds[i]);
    }
    CALLGRIND_STOP_INSTRUMENTATION;
    for (size_t i = 0; i < count; i++) {
        close_crowd(&crowds[i]);
    }
    free(crowds);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        for (size_t i = 0; i < OPERATIONS; i++) {
            printf("%s\n", operations[i].name);
        }
        return 0;
    }
    int between = 1;
    while (between < argc && strcmp(argv[between], "among") != 0) {
        between++;
    }
    if (between == 1 || between + 1 >= argc) {
        fprintf(stderr, "usage: mend_crowded --list | OPERATION... among NUMBER...\n");
        return 2;
    }
    run_all(argv + 1, (size_t)between - 1, argv + between + 1, (size_t)(argc - between) - 1);
    return 0;
}
