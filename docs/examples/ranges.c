/*
 * A serving engine whose KV cache and activations share a device. The cache is a growable range: it
 * has one address, and as much memory as the requests of the moment need. Prompts need large
 * activations and little cache. Answers need the reverse. A fixed split must choose.
 */
#include <mend/mend_range.h>
#include <mend/mend_sim.h>
#include <stdio.h>

enum { BATCHES = 64, TOKENS_OF_PAGE = 128, PAGE_MIB = 16, DEVICE_MIB = 16384 };

#define MIB 1048576ull

typedef struct engine {
    mend_sim *sim;
    mend_pool *pool;
    mend_stream stream;
    mend_range *cache;
    char *base;           /* of the cache: never changes */
    uint64_t cache_pages; /* committed */
} engine;

/* A batch of the day: how much of the cache its requests fill, and the memory of its kernels. Every
 * fourth one reads long prompts, the others write answers. */
typedef struct batch {
    uint64_t pages;
    uint64_t activation_bytes;
} batch;

static batch batch_of(int number)
{
    const uint64_t wave = (uint64_t)(number * 37 % 16);
    return number % 4 == 0 ? (batch){160 + 8 * wave, (9000 + 64 * wave) * MIB}
                           : (batch){520 + 24 * wave, (700 + 32 * wave) * MIB};
}

static void launch(engine *e, mend_sim_work_kind kind, void *at, uint64_t size_bytes, uint64_t tag)
{
    const mend_sim_work work = {.struct_size = sizeof(mend_sim_work),
                                .kind = kind,
                                .address = (uint64_t)(uintptr_t)at,
                                .size_bytes = size_bytes,
                                .tag = tag,
                                .finish_ns = mend_sim_now_ns(e->sim) + 1000};
    mend_sim_launch(e->sim, e->stream, &work);
}

/* Commits pages behind those there are and fills them, or decommits the last ones: the pages that
 * stay keep their address and their contents. `most`: of a fixed split. */
static int resize(engine *e, uint64_t pages, uint64_t most)
{
    const uint64_t page = PAGE_MIB * MIB;
    if (pages > most) {
        return 0;
    }
    if (pages > e->cache_pages) {
        const uint64_t from = e->cache_pages * page;
        const uint64_t more = (pages - e->cache_pages) * page;
        if (mend_range_commit(e->cache, from, more, e->stream) != MEND_OK) {
            return 0;
        }
        for (uint64_t i = e->cache_pages; i < pages; i++) {
            launch(e, MEND_SIM_WORK_WRITE, e->base + i * page, page, i + 1);
        }
    } else if (pages < e->cache_pages) {
        mend_range_decommit(e->cache, pages * page, (e->cache_pages - pages) * page, e->stream);
    }
    e->cache_pages = pages;
    return 1;
}

/* Reads the cache, and uses activations. */
static int run(engine *e, batch b, uint64_t most_pages, uint64_t most_activation_bytes)
{
    void *activations = NULL;
    if (b.activation_bytes > most_activation_bytes || !resize(e, b.pages, most_pages) ||
        mend_alloc(e->pool, b.activation_bytes, e->stream, &activations) != MEND_OK) {
        return 0;
    }
    for (uint64_t i = 0; i < b.pages; i++) {
        launch(e, MEND_SIM_WORK_VERIFY, e->base + i * PAGE_MIB * MIB, PAGE_MIB * MIB, i + 1);
    }
    launch(e, MEND_SIM_WORK_TOUCH, activations, b.activation_bytes, 0);
    mend_free(e->pool, activations, e->stream);
    mend_sim_advance(e->sim, 100000); /* the batch is computed */
    return 1;
}

static int open_engine(engine *e)
{
    mend_sim_config device = MEND_SIM_CONFIG_INIT;
    device.memory_bytes = DEVICE_MIB * MIB;
    mend_range_options options = MEND_RANGE_OPTIONS_INIT;
    options.page_bytes = PAGE_MIB * MIB;
    mend_range_info info = MEND_RANGE_INFO_INIT;
    *e = (engine){0};
    if (mend_sim_create(&device, &e->sim) != MEND_OK ||
        mend_sim_stream_create(e->sim, NULL, &e->stream) != MEND_OK) {
        return 0;
    }
    mend_pool_config config = MEND_POOL_CONFIG_INIT;
    config.driver = mend_sim_driver(e->sim);
    /* Addresses for the largest model's longest context: they cost nothing. */
    if (mend_pool_create(&config, &e->pool) != MEND_OK ||
        mend_range_create(e->pool, 4ull << 40, &options, &e->cache) != MEND_OK ||
        mend_range_get_info(e->cache, &info) != MEND_OK) {
        return 0;
    }
    e->base = info.base;
    return 1;
}

/* The number of bytes that are wrong, or rules of the driver that were broken. */
static uint64_t close_engine(engine *e)
{
    mend_range_destroy(e->cache, e->stream);
    mend_pool_destroy(e->pool);
    mend_sim_advance(e->sim, 1ull << 40);
    mend_sim_ledger ledger = MEND_SIM_LEDGER_INIT;
    mend_sim_get_ledger(e->sim, &ledger);
    mend_sim_destroy(e->sim);
    return ledger.content_errors + ledger.violations + ledger.chunks + ledger.mappings;
}

/* Runs the day. The cache has this part of the device, or, with 0, as much as it needs. */
static int serve(uint64_t cache_percent)
{
    engine e;
    if (!open_engine(&e)) {
        return 0;
    }
    const uint64_t all_pages = DEVICE_MIB / PAGE_MIB;
    const uint64_t pages = cache_percent != 0 ? all_pages * cache_percent / 100 : all_pages;
    const uint64_t rest_bytes = (all_pages - (cache_percent != 0 ? pages : 0)) * PAGE_MIB * MIB;
    int served = 0;
    uint64_t tokens = 0;
    for (int i = 0; i < BATCHES; i++) {
        const batch b = batch_of(i);
        if (run(&e, b, pages, rest_bytes)) {
            served++;
            tokens += b.pages * TOKENS_OF_PAGE;
        }
    }
    mend_stats stats = MEND_STATS_INIT;
    mend_get_stats(e.pool, &stats);
    if (cache_percent != 0) {
        printf("%2d %% of the device for the cache: ", (int)cache_percent);
    } else {
        printf("shared by a range:             ");
    }
    printf("%2d of %d batches, %5.2f million tokens in the cache\n", served, BATCHES,
           (double)tokens / 1e6);
    if (cache_percent == 0) {
        printf("chunks moved between cache and activations: %llu; copies: %llu bytes\n",
               (unsigned long long)stats.chunks_moved, (unsigned long long)stats.copied_bytes);
    }
    return close_engine(&e) == 0 ? served : 0;
}

int main(void)
{
    int best = 0;
    for (uint64_t percent = 30; percent <= 90; percent += 15) {
        int served = serve(percent);
        best = served > best ? served : best;
    }
    int shared = serve(0);
    return shared == BATCHES && best < BATCHES ? 0 : 1;
}
