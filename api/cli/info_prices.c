/*
 * Measuring the driver's calls: each size alone, pages in batches under one set_access and one
 * unmap, on an idle device and next to a running kernel. Durations are those of the table's clock,
 * so the simulated device answers with its prices.
 */
#include <stdlib.h>

#include "base/align.h"
#include "cli/info_measure.h"

static const uint64_t sizes_mib[] = {2, 8, 32, 128, 512, 1024};
#define LARGEST_COPY_BYTES (32 * MEND_MIB)
static const uint64_t spin_ns = 20 * UINT64_C(1000000);
static const unsigned batches[] = {4, 16, 64, MEND_INFO_MOST_BATCH};

/* ---- samples ----------------------------------------------------------------------------- */

static mend_info_series *series_of(mend_info_bench *bench, mend_driver_call call,
                                   uint64_t size_bytes, uint64_t mappings, bool busy)
{
    for (unsigned i = 0; i < bench->series_count; i++) {
        mend_info_series *series = &bench->series[i];
        if (series->call == call && series->size_bytes == size_bytes &&
            series->mappings == mappings && series->busy == busy) {
            return series;
        }
    }
    if (bench->series_count == MEND_INFO_MOST_SERIES) {
        return NULL;
    }
    mend_info_series *series = &bench->series[bench->series_count++];
    *series = (mend_info_series){
        .call = call, .size_bytes = size_bytes, .mappings = mappings, .busy = busy};
    return series;
}

/* One measured call: `call_began` and `call_ended` around it. */
typedef struct timed_call {
    mend_info_bench *bench;
    uint64_t size_bytes;
    uint64_t mappings;
    bool busy;
    uint64_t start_ns;
} timed_call;

/* A busy call begins while a kernel runs, however long the calls before it took. */
static void call_began(timed_call *timed)
{
    const mend_driver *driver = timed->bench->driver;
    if (timed->busy && driver->stream_query(driver, timed->bench->work) == MEND_DRIVER_OK) {
        mend_info_spin(timed->bench, spin_ns);
    }
    timed->start_ns = driver->clock_ns(driver);
}

static mend_status call_ended(timed_call *timed, mend_driver_call call, mend_status status)
{
    const mend_driver *driver = timed->bench->driver;
    uint64_t duration_ns = driver->clock_ns(driver) - timed->start_ns;
    mend_info_series *series =
        series_of(timed->bench, call, timed->size_bytes, timed->mappings, timed->busy);
    if (status == MEND_DRIVER_OK && series != NULL &&
        series->sample_count < MEND_INFO_MOST_SAMPLES) {
        series->sample_ns[series->sample_count++] = duration_ns;
    }
    return status;
}

/* Makes the call `member` with the table as its first argument, and keeps how long it took. */
#define MEASURE(timed, member, ...)                                                                \
    (call_began(timed),                                                                            \
     call_ended(timed, MEND_CALL_##member,                                                         \
                (timed)->bench->driver->member((timed)->bench->driver, __VA_ARGS__)))

static int compare_u64(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a;
    uint64_t right = *(const uint64_t *)b;
    return left < right ? -1 : left > right;
}

static uint64_t quantile_ns(const mend_info_series *series, unsigned percent)
{
    if (series->sample_count == 0) {
        return 0;
    }
    return series->sample_ns[(series->sample_count - 1) * percent / 100];
}

uint64_t mend_info_median_ns(const mend_info_series *series)
{
    return quantile_ns(series, 50);
}

uint64_t mend_info_p99_ns(const mend_info_series *series)
{
    return quantile_ns(series, 99);
}

uint64_t mend_info_max_ns(const mend_info_series *series)
{
    return quantile_ns(series, 100);
}

mend_status mend_info_spin(const mend_info_bench *bench, uint64_t duration_ns)
{
    mend_kernel kernel = {.kind = MEND_KERNEL_SPIN, .duration_ns = duration_ns};
    return bench->driver->launch(bench->driver, bench->work, &kernel);
}

/* ---- virtual memory ---------------------------------------------------------------------- */

/* What one round holds; `unwind` gives it back. */
typedef struct map_round {
    uint64_t address;
    uint64_t chunk_bytes;
    uint64_t chunk_count; /* to be mapped */
    uint64_t created;
    uint64_t mapped;
    mend_chunk_handle chunk[MEND_INFO_MOST_BATCH];
} map_round;

static mend_status build(timed_call *one, timed_call *all, map_round *round)
{
    mend_status status = MEASURE(all, reserve, all->size_bytes, 0, 0, &round->address);
    mend_chunk_properties properties = {.device = one->bench->device};
    while (status == MEND_DRIVER_OK && round->created < round->chunk_count) {
        status =
            MEASURE(one, create, round->chunk_bytes, &properties, &round->chunk[round->created]);
        if (status == MEND_DRIVER_OK) {
            round->created++;
            status = MEASURE(one, map, round->address + round->mapped * round->chunk_bytes,
                             round->chunk_bytes, 0, round->chunk[round->mapped]);
        }
        round->mapped += status == MEND_DRIVER_OK ? 1 : 0;
    }
    if (status == MEND_DRIVER_OK) {
        status = MEASURE(all, set_access, round->address, all->size_bytes, &one->bench->device, 1);
    }
    return status;
}

/* The first failure is reported, and everything that can be given back is. */
static mend_status unwind(timed_call *one, timed_call *all, map_round *round)
{
    const mend_driver *driver = one->bench->driver;
    mend_status first = MEND_DRIVER_OK;
    if (round->mapped == round->chunk_count) {
        first = MEASURE(all, unmap, round->address, all->size_bytes);
    } else if (round->mapped > 0) {
        first = driver->unmap(driver, round->address, round->mapped * round->chunk_bytes);
    }
    for (uint64_t i = 0; i < round->created; i++) {
        mend_status status = MEASURE(one, release, round->chunk[i]);
        first = first == MEND_DRIVER_OK ? status : first;
    }
    if (round->address != 0) {
        mend_status status = MEASURE(all, address_free, round->address, all->size_bytes);
        first = first == MEND_DRIVER_OK ? status : first;
    }
    return first;
}

/* Reserve, create, map, access; unmap, release, free: `count` chunks of `chunk_bytes`, once. */
static mend_status measure_round(mend_info_bench *bench, uint64_t chunk_bytes, uint64_t count,
                                 bool busy)
{
    timed_call one = {.bench = bench, .size_bytes = chunk_bytes, .mappings = 1, .busy = busy};
    timed_call all = {
        .bench = bench, .size_bytes = chunk_bytes * count, .mappings = count, .busy = busy};
    map_round round = {.chunk_bytes = chunk_bytes, .chunk_count = count};
    mend_status built = build(&one, &all, &round);
    mend_status unwound = unwind(&one, &all, &round);
    return built != MEND_DRIVER_OK ? built : unwound;
}

/* Rounds that keep a measurement under about a second on a GPU. */
static unsigned rounds(uint64_t total_bytes, bool busy)
{
    uint64_t fit = 16 * MEND_GIB / total_bytes;
    return (unsigned)mend_max_u64(10, mend_min_u64(busy ? 30 : MEND_INFO_MOST_SAMPLES, fit));
}

static mend_status measure_mapping(mend_info_bench *bench, uint64_t chunk_bytes, uint64_t count,
                                   bool busy)
{
    mend_status status = MEND_DRIVER_OK;
    unsigned most = rounds(chunk_bytes * count, busy);
    for (unsigned i = 0; status == MEND_DRIVER_OK && i < most; i++) {
        status = measure_round(bench, chunk_bytes, count, busy);
    }
    mend_status waited = bench->driver->stream_synchronize(bench->driver, bench->work);
    return status != MEND_DRIVER_OK ? status : waited;
}

/* ---- the other calls --------------------------------------------------------------------- */

static mend_status measure_allocators(mend_info_bench *bench, uint64_t size_bytes)
{
    timed_call timed = {.bench = bench, .size_bytes = size_bytes};
    uint64_t address = 0;
    timed_call half = {.bench = bench, .size_bytes = size_bytes / 2};
    mend_status status = MEASURE(&timed, plain_alloc, size_bytes, &address);
    /* Of a copy, what the call takes: it goes on behind it. Large ones tell nothing more. */
    if (status == MEND_DRIVER_OK && size_bytes <= LARGEST_COPY_BYTES) {
        status =
            MEASURE(&half, copy, address + size_bytes / 2, address, size_bytes / 2, bench->work);
    }
    if (status == MEND_DRIVER_OK) {
        status = MEASURE(&timed, plain_free, address);
    }
    if (status == MEND_DRIVER_OK) {
        status = MEASURE(&timed, async_alloc, size_bytes, bench->work, &address);
        if (status == MEND_DRIVER_NOT_SUPPORTED) {
            return MEND_DRIVER_OK; /* a driver without memory pools: no figures */
        }
    }
    if (status == MEND_DRIVER_OK) {
        status = MEASURE(&timed, async_free, address, bench->work);
    }
    return status;
}

static mend_status measure_events(mend_info_bench *bench, mend_event event)
{
    timed_call timed = {.bench = bench};
    uint64_t free_bytes = 0;
    uint64_t total_bytes = 0;
    mend_status status = MEASURE(&timed, event_record, event, bench->work);
    if (status == MEND_DRIVER_OK) {
        status = MEASURE(&timed, stream_wait, bench->other, event);
    }
    if (status == MEND_DRIVER_OK) {
        status = MEASURE(&timed, stream_synchronize, bench->work);
    }
    if (status == MEND_DRIVER_OK) {
        status = MEASURE(&timed, event_query, event);
    }
    return status == MEND_DRIVER_OK ? MEASURE(&timed, memory_info, &free_bytes, &total_bytes)
                                    : status;
}

static mend_status measure_others(mend_info_bench *bench)
{
    const mend_driver *driver = bench->driver;
    mend_event event = NULL;
    mend_status status = driver->event_create(driver, &event);
    if (status != MEND_DRIVER_OK) {
        return status;
    }
    for (unsigned i = 0; status == MEND_DRIVER_OK && i < MEND_INFO_MOST_SAMPLES; i++) {
        status = measure_events(bench, event);
    }
    for (size_t size = 0; size < sizeof(sizes_mib) / sizeof(sizes_mib[0]); size++) {
        for (unsigned i = 0; status == MEND_DRIVER_OK && i < 10; i++) {
            status = measure_allocators(bench, sizes_mib[size] * MEND_MIB);
        }
    }
    mend_status destroyed = driver->event_destroy(driver, event);
    return status == MEND_DRIVER_OK || status == MEND_DRIVER_OUT_OF_MEMORY ? destroyed : status;
}

static mend_status measure_or_skip(mend_info_bench *bench, uint64_t chunk_bytes, uint64_t count,
                                   FILE *notes)
{
    for (int busy = 0; busy < 2; busy++) {
        mend_status status = measure_mapping(bench, chunk_bytes, count, busy == 1);
        if (status == MEND_DRIVER_OUT_OF_MEMORY) {
            fprintf(notes, "left out: %llu x %llu MiB (out of memory)\n", (unsigned long long)count,
                    (unsigned long long)(chunk_bytes / MEND_MIB));
            return MEND_DRIVER_OK;
        }
        if (status != MEND_DRIVER_OK) {
            return status;
        }
    }
    return MEND_DRIVER_OK;
}

mend_status mend_info_measure(mend_info_bench *bench, FILE *notes)
{
    uint64_t page_bytes = bench->info.granularity_bytes;
    mend_status status = measure_round(bench, page_bytes, 1, false);
    bench->series_count = 0; /* the first round of all warms up */
    for (size_t i = 0; status == MEND_DRIVER_OK && i < sizeof(sizes_mib) / sizeof(sizes_mib[0]);
         i++) {
        uint64_t chunk_bytes = mend_align_up(sizes_mib[i] * MEND_MIB, page_bytes);
        status = measure_or_skip(bench, chunk_bytes, 1, notes);
    }
    for (size_t i = 0; status == MEND_DRIVER_OK && i < sizeof(batches) / sizeof(batches[0]); i++) {
        status = measure_or_skip(bench, page_bytes, batches[i], notes);
    }
    if (status == MEND_DRIVER_OK) {
        status = measure_others(bench);
    }
    for (unsigned i = 0; i < bench->series_count; i++) {
        mend_info_series *series = &bench->series[i];
        qsort(series->sample_ns, series->sample_count, sizeof(series->sample_ns[0]), compare_u64);
    }
    return status;
}
