#include "lab/measure/prices.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/align.h"

/* The subjects take turns of a few rounds each, so that a short time budget gives some samples of
 * each. A subject that fails is dropped. The others go on. */

static const uint64_t sizes_mib[] = {2, 8, 32, 128, 512, 1024};
#define LARGEST_COPY_BYTES (32 * MEND_MIB)
#define LARGEST_HOST_BYTES (128 * MEND_MIB)
#define LARGEST_LOAD_BYTES (256 * MEND_MIB)
static const uint64_t load_ns = 20 * UINT64_C(1000000);
static const uint64_t warm_up_ns = UINT64_C(1000000000);
static const unsigned batches[] = {4, 16, 64, MEND_MEASURE_MOST_BATCH};

/* How many calls for single chunks are measured in a busy round: if each waits for a kernel, all
 * calls of a large batch would take ten seconds. */
enum { MOST_BUSY_CHUNKS = 16, ROUNDS_A_TURN = 3 };

/* ---- samples --------------------------------------------------------------------------------- */

static mend_measure_series *series_of(mend_measure_bench *bench, mend_driver_call call,
                                      uint64_t size_bytes, uint64_t mappings, bool busy)
{
    for (unsigned i = 0; i < bench->series_count; i++) {
        mend_measure_series *series = &bench->series[i];
        if (series->call == call && series->size_bytes == size_bytes &&
            series->mappings == mappings && series->busy == busy) {
            return series;
        }
    }
    if (bench->series_count == MEND_MEASURE_MOST_SERIES) {
        return NULL;
    }
    mend_measure_series *series = &bench->series[bench->series_count++];
    *series = (mend_measure_series){
        .call = call, .size_bytes = size_bytes, .mappings = mappings, .busy = busy};
    return series;
}

/* One measured call: `call_began` and `call_ended` around it. */
typedef struct timed_call {
    mend_measure_bench *bench;
    uint64_t size_bytes;
    uint64_t mappings;
    bool busy;
    uint64_t start_ns;
} timed_call;

/* Runs a kernel that streams through the load's memory for a while. Without such memory, one that
 * spins in one thread. */
static mend_status start_load(const mend_measure_bench *bench, uint64_t duration_ns)
{
    mend_kernel kernel = {.kind = MEND_KERNEL_STREAM,
                          .duration_ns = duration_ns,
                          .address = bench->load_address,
                          .granule_bytes = MEND_KERNEL_TILE_BYTES,
                          .stride_bytes = MEND_KERNEL_TILE_BYTES,
                          .granule_count = bench->load_bytes / MEND_KERNEL_TILE_BYTES};
    return bench->load_address != 0 ? bench->driver->launch(bench->driver, bench->work, &kernel)
                                    : mend_measure_spin(bench, duration_ns);
}

/* A busy call begins while a kernel runs, however long the earlier calls took. */
static void call_began(timed_call *timed)
{
    const mend_driver *driver = timed->bench->driver;
    if (timed->busy && driver->stream_query(driver, timed->bench->work) == MEND_DRIVER_OK) {
        start_load(timed->bench, load_ns);
    }
    timed->start_ns = driver->clock_ns(driver);
}

static mend_status call_ended(timed_call *timed, mend_driver_call call, mend_status status)
{
    const mend_driver *driver = timed->bench->driver;
    uint64_t duration_ns = driver->clock_ns(driver) - timed->start_ns;
    mend_measure_series *series =
        series_of(timed->bench, call, timed->size_bytes, timed->mappings, timed->busy);
    if (status == MEND_DRIVER_OK && series != NULL &&
        series->sample_count < MEND_MEASURE_MOST_SAMPLES) {
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

/* ---- virtual memory -------------------------------------------------------------------------- */

/* The resources of one round. `unwind` releases them. */
typedef struct map_round {
    uint64_t address;
    uint64_t chunk_bytes;
    uint64_t chunk_count; /* to be mapped */
    uint64_t created;
    uint64_t mapped;
    mend_chunk_handle chunk[MEND_MEASURE_MOST_BATCH];
} map_round;

/* Whether the calls for chunk number `index` are measured. */
static bool counts(const timed_call *one, uint64_t index)
{
    return !one->busy || index < MOST_BUSY_CHUNKS;
}

static mend_status add_chunk(timed_call *one, map_round *round)
{
    const mend_driver *driver = one->bench->driver;
    const mend_chunk_properties properties = {.device = one->bench->device};
    const bool measured = counts(one, round->created);
    const uint64_t address = round->address + round->mapped * round->chunk_bytes;
    mend_chunk_handle chunk = 0;
    mend_status status = measured ? MEASURE(one, create, round->chunk_bytes, &properties, &chunk)
                                  : driver->create(driver, round->chunk_bytes, &properties, &chunk);
    if (status != MEND_DRIVER_OK) {
        return status;
    }
    round->chunk[round->created++] = chunk;
    status = measured ? MEASURE(one, map, address, round->chunk_bytes, 0, chunk)
                      : driver->map(driver, address, round->chunk_bytes, 0, chunk);
    round->mapped += status == MEND_DRIVER_OK ? 1 : 0;
    return status;
}

static mend_status build(timed_call *one, timed_call *all, map_round *round)
{
    mend_status status = MEASURE(all, reserve, all->size_bytes, 0, 0, &round->address);
    while (status == MEND_DRIVER_OK && round->created < round->chunk_count) {
        status = add_chunk(one, round);
    }
    if (status == MEND_DRIVER_OK) {
        status = MEASURE(all, set_access, round->address, all->size_bytes, &one->bench->device, 1,
                         MEND_ACCESS_READ_WRITE);
    }
    return status;
}

/* Releases everything that it can, and returns the first failure. */
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
        mend_status status = counts(one, i) ? MEASURE(one, release, round->chunk[i])
                                            : driver->release(driver, round->chunk[i]);
        first = first == MEND_DRIVER_OK ? status : first;
    }
    if (round->address != 0) {
        mend_status status = MEASURE(all, address_free, round->address, all->size_bytes);
        first = first == MEND_DRIVER_OK ? status : first;
    }
    return first;
}

/* Reserve, create, map, access. Unmap, release, free: `count` chunks of `chunk_bytes`, once. */
static mend_status measure_round(mend_measure_bench *bench, uint64_t chunk_bytes, uint64_t count,
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

/* A number of rounds that takes less than about a second on a GPU. */
static unsigned rounds(uint64_t total_bytes, bool busy)
{
    uint64_t fit = 16 * MEND_GIB / total_bytes;
    return (unsigned)mend_max_u64(10, mend_min_u64(busy ? 30 : MEND_MEASURE_MOST_SAMPLES, fit));
}

/* ---- the other calls ------------------------------------------------------------------------- */

/* Pinned memory of the host. Larger sizes measure nothing more. */
static mend_status measure_host_memory(mend_measure_bench *bench, uint64_t size_bytes)
{
    timed_call timed = {.bench = bench, .size_bytes = size_bytes};
    void *memory = NULL;
    if (size_bytes > LARGEST_HOST_BYTES) {
        return MEND_DRIVER_OK;
    }
    mend_status status = MEASURE(&timed, host_alloc, size_bytes, &memory);
    return status == MEND_DRIVER_OK ? MEASURE(&timed, host_free, memory) : status;
}

static mend_status measure_allocators(mend_measure_bench *bench, uint64_t size_bytes)
{
    timed_call timed = {.bench = bench, .size_bytes = size_bytes};
    uint64_t address = 0;
    timed_call half = {.bench = bench, .size_bytes = size_bytes / 2};
    mend_status status = MEASURE(&timed, plain_alloc, size_bytes, &address);
    /* A copy call returns before the copy is done. Larger copies measure nothing more. */
    if (status == MEND_DRIVER_OK && size_bytes <= LARGEST_COPY_BYTES) {
        status =
            MEASURE(&half, copy, address + size_bytes / 2, address, size_bytes / 2, bench->work);
    }
    if (status == MEND_DRIVER_OK) {
        status = MEASURE(&timed, plain_free, address);
    }
    if (status == MEND_DRIVER_OK) {
        status = measure_host_memory(bench, size_bytes);
    }
    if (status == MEND_DRIVER_OK) {
        status = MEASURE(&timed, async_alloc, size_bytes, bench->work, &address);
        if (status == MEND_DRIVER_NOT_SUPPORTED) {
            return MEND_DRIVER_OK; /* a driver without memory pools has no figures */
        }
    }
    if (status == MEND_DRIVER_OK) {
        status = MEASURE(&timed, async_free, address, bench->work);
    }
    return status;
}

static mend_status measure_events(mend_measure_bench *bench, mend_event event)
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

/* ---- turns ----------------------------------------------------------------------------------- */

/* Measured in rounds: chunks in a batch, the driver's own allocators, or events. */
typedef struct subject {
    uint64_t size_bytes; /* of a chunk, or of an allocation */
    uint64_t count;      /* chunks */
    enum { SUBJECT_CHUNKS, SUBJECT_ALLOCATORS, SUBJECT_EVENTS } kind;
    unsigned rounds_left;
    unsigned rounds_done;
    bool busy;
} subject;

enum {
    SIZE_COUNT = sizeof(sizes_mib) / sizeof(sizes_mib[0]),
    BATCH_COUNT = sizeof(batches) / sizeof(batches[0]),
    MOST_SUBJECTS = 3 * SIZE_COUNT + 2 * BATCH_COUNT + 1
};

static unsigned list_chunks(subject *subjects, uint64_t chunk_bytes, uint64_t count)
{
    for (int busy = 0; busy < 2; busy++) {
        subjects[busy] = (subject){.kind = SUBJECT_CHUNKS,
                                   .size_bytes = chunk_bytes,
                                   .count = count,
                                   .busy = busy == 1,
                                   .rounds_left = rounds(chunk_bytes * count, busy == 1)};
    }
    return 2;
}

static unsigned list_subjects(const mend_measure_bench *bench, subject *subjects)
{
    uint64_t page_bytes = bench->info.granularity_bytes;
    unsigned count = 0;
    for (size_t i = 0; i < SIZE_COUNT; i++) {
        uint64_t chunk_bytes = mend_align_up(sizes_mib[i] * MEND_MIB, page_bytes);
        count += list_chunks(&subjects[count], chunk_bytes, 1);
    }
    for (size_t i = 0; i < BATCH_COUNT; i++) {
        count += list_chunks(&subjects[count], page_bytes, batches[i]);
    }
    subjects[count++] = (subject){.kind = SUBJECT_EVENTS, .rounds_left = MEND_MEASURE_MOST_SAMPLES};
    for (size_t i = 0; i < SIZE_COUNT; i++) {
        subjects[count++] = (subject){
            .kind = SUBJECT_ALLOCATORS, .size_bytes = sizes_mib[i] * MEND_MIB, .rounds_left = 10};
    }
    return count;
}

static mend_status measure_subject(mend_measure_bench *bench, const subject *what, mend_event event)
{
    switch (what->kind) {
    case SUBJECT_CHUNKS:
        return measure_round(bench, what->size_bytes, what->count, what->busy);
    case SUBJECT_ALLOCATORS:
        return measure_allocators(bench, what->size_bytes);
    case SUBJECT_EVENTS:
        return measure_events(bench, event);
    }
    return MEND_DRIVER_INVALID_VALUE;
}

static void note(mend_measure_bench *bench, const subject *what, const char *why, FILE *notes)
{
    static const char *const kinds[] = {"chunks", "the driver's own allocators", "events"};
    bench->left_out++;
    fprintf(notes, "%s: %s", what->rounds_done > 0 ? "cut short" : "left out", kinds[what->kind]);
    if (what->kind != SUBJECT_EVENTS) {
        fprintf(notes, ", %" PRIu64 " x %" PRIu64 " MiB", mend_max_u64(1, what->count),
                what->size_bytes / MEND_MIB);
    }
    fprintf(notes, "%s (%s)\n", what->busy ? ", next to a kernel" : "", why);
}

/* Runs a few rounds. A failure ends the subject and is printed. True while rounds are left. */
static bool take_turn(mend_measure_bench *bench, subject *what, mend_event event,
                      mend_status *first_failure, FILE *notes)
{
    const mend_driver *driver = bench->driver;
    for (unsigned i = 0; i < ROUNDS_A_TURN && what->rounds_left > 0; i++) {
        mend_status status = measure_subject(bench, what, event);
        if (status != MEND_DRIVER_OK) {
            what->rounds_left = 0;
            note(bench, what, driver->status_name(driver, status), notes);
            bool failed = status != MEND_DRIVER_OUT_OF_MEMORY && *first_failure == MEND_DRIVER_OK;
            *first_failure = failed ? status : *first_failure;
            break;
        }
        what->rounds_done++;
        what->rounds_left--;
        if (mend_measure_is_over(bench)) {
            break;
        }
    }
    if (what->busy) {
        driver->stream_synchronize(driver, bench->work); /* the next subject may need an idle
                                                          * device */
    }
    return what->rounds_left > 0;
}

/* Turns until everything is measured, time runs out or the device is lost. */
static mend_status measure_all(mend_measure_bench *bench, mend_event event, FILE *notes)
{
    subject subjects[MOST_SUBJECTS];
    unsigned count = list_subjects(bench, subjects);
    mend_status first_failure = MEND_DRIVER_OK;
    bool goes_on = true;
    while (goes_on && !mend_measure_is_over(bench) && !mend_status_is_fatal(first_failure)) {
        goes_on = false;
        for (unsigned i = 0; i < count && !mend_measure_is_over(bench); i++) {
            goes_on = take_turn(bench, &subjects[i], event, &first_failure, notes) || goes_on;
        }
    }
    for (unsigned i = 0; i < count; i++) {
        if (subjects[i].rounds_left > 0) {
            note(bench, &subjects[i], "time is over", notes);
        }
    }
    return first_failure;
}

/* ---- before and after ------------------------------------------------------------------------ */

/* A GPU that was idle is slow at first. Without memory for a load, one thread spins. */
static void warm_up(mend_measure_bench *bench)
{
    const mend_driver *driver = bench->driver;
    uint64_t free_bytes = 0;
    uint64_t total_bytes = 0;
    if (driver->memory_info(driver, &free_bytes, &total_bytes) == MEND_DRIVER_OK) {
        uint64_t load_bytes = mend_min_u64(LARGEST_LOAD_BYTES, free_bytes / 16);
        bench->load_bytes = mend_align_down(load_bytes, MEND_KERNEL_TILE_BYTES);
    }
    if (bench->load_bytes == 0 ||
        driver->plain_alloc(driver, bench->load_bytes, &bench->load_address) != MEND_DRIVER_OK) {
        bench->load_address = 0;
    }
    start_load(bench, warm_up_ns);
    driver->stream_synchronize(driver, bench->work);
    measure_round(bench, bench->info.granularity_bytes, 1, false); /* the very first round */
    bench->series_count = 0;
}

mend_status mend_measure(mend_measure_bench *bench, FILE *notes)
{
    const mend_driver *driver = bench->driver;
    mend_event event = NULL;
    bench->left_out = 0;
    mend_status status = driver->event_create(driver, &event);
    if (status != MEND_DRIVER_OK) {
        return status;
    }
    warm_up(bench);
    status = measure_all(bench, event, notes);
    driver->stream_synchronize(driver, bench->work);
    driver->event_destroy(driver, event);
    if (bench->load_address != 0) {
        driver->plain_free(driver, bench->load_address);
        bench->load_address = 0;
    }
    for (unsigned i = 0; i < bench->series_count; i++) {
        mend_measure_series *series = &bench->series[i];
        qsort(series->sample_ns, series->sample_count, sizeof(series->sample_ns[0]), compare_u64);
    }
    return status;
}
