#include "lab/measure/trials.h"

#include <inttypes.h>
#include <string.h>

#include "base/align.h"

/* Everything a trial may hold: two chunks and four pages of addresses. */
typedef struct trial_state {
    const mend_measure_bench *bench;
    const mend_driver *driver;
    uint64_t page_bytes;
    uint64_t address;
    mend_chunk_handle chunk;
    uint64_t mapped_bytes[4]; /* of the mapping that begins at page n. 0: none */
} trial_state;

static uint64_t page_address(const trial_state *trial, unsigned page)
{
    return trial->address + page * trial->page_bytes;
}

static mend_status trial_begin(trial_state *trial, const mend_measure_bench *bench,
                               uint64_t chunk_pages)
{
    const mend_driver *driver = bench->driver;
    mend_chunk_properties properties = {.device = bench->device};
    memset(trial, 0, sizeof(*trial));
    trial->bench = bench;
    trial->driver = driver;
    trial->page_bytes = bench->info.granularity_bytes;
    mend_status status = driver->reserve(driver, 4 * trial->page_bytes, 0, 0, &trial->address);
    if (status == MEND_DRIVER_OK) {
        status =
            driver->create(driver, chunk_pages * trial->page_bytes, &properties, &trial->chunk);
    }
    return status;
}

static void trial_end(trial_state *trial)
{
    const mend_driver *driver = trial->driver;
    driver->context_synchronize(driver);
    for (unsigned page = 0; page < 4; page++) {
        if (trial->mapped_bytes[page] != 0) {
            driver->unmap(driver, page_address(trial, page), trial->mapped_bytes[page]);
        }
    }
    if (trial->chunk != 0) {
        driver->release(driver, trial->chunk);
    }
    if (trial->address != 0) {
        driver->address_free(driver, trial->address, 4 * trial->page_bytes);
    }
}

static mend_status map_at(trial_state *trial, unsigned page, uint64_t pages, uint64_t offset_pages)
{
    const mend_driver *driver = trial->driver;
    uint64_t size_bytes = pages * trial->page_bytes;
    mend_status status = driver->map(driver, page_address(trial, page), size_bytes,
                                     offset_pages * trial->page_bytes, trial->chunk);
    if (status != MEND_DRIVER_OK) {
        return status;
    }
    trial->mapped_bytes[page] = size_bytes;
    return driver->set_access(driver, page_address(trial, page), size_bytes, &trial->bench->device,
                              1, MEND_ACCESS_READ_WRITE);
}

/* ---- parts of chunks ------------------------------------------------------------------------- */

static mend_status try_part(const mend_measure_bench *bench, const char *how, uint64_t offset_pages,
                            FILE *out)
{
    trial_state trial;
    mend_status status = trial_begin(&trial, bench, 2);
    if (status == MEND_DRIVER_OK) {
        mend_status mapped = map_at(&trial, 0, 1, offset_pages);
        fprintf(out, "a part of a chunk is mapped by %s: %s (one page of two: %s)\n", how,
                mapped == MEND_DRIVER_OK ? "yes" : "no",
                bench->driver->status_name(bench->driver, mapped));
    }
    trial_end(&trial);
    return status;
}

/* ---- neighboring reservations ---------------------------------------------------------------- */

/* Two reservations of one page, neighbors if the driver follows the hints. */
static mend_status reserve_neighbours(const mend_measure_bench *bench, uint64_t address[2])
{
    const mend_driver *driver = bench->driver;
    uint64_t page_bytes = bench->info.granularity_bytes;
    uint64_t both = 0;
    mend_status status = driver->reserve(driver, 2 * page_bytes, 0, 0, &both);
    if (status == MEND_DRIVER_OK) {
        status = driver->address_free(driver, both, 2 * page_bytes);
    }
    for (unsigned i = 0; status == MEND_DRIVER_OK && i < 2; i++) {
        status = driver->reserve(driver, page_bytes, 0, both + i * page_bytes, &address[i]);
    }
    return status;
}

/* Tries one call over both ranges. If that is refused, one call for each. */
static mend_status cover_both(const mend_measure_bench *bench, const uint64_t address[2],
                              bool unmap, FILE *out)
{
    const mend_driver *driver = bench->driver;
    uint64_t page_bytes = bench->info.granularity_bytes;
    mend_status status = unmap ? driver->unmap(driver, address[0], 2 * page_bytes)
                               : driver->set_access(driver, address[0], 2 * page_bytes,
                                                    &bench->device, 1, MEND_ACCESS_READ_WRITE);
    fprintf(out, "one %s covers two neighbouring reservations: %s (%s)\n",
            unmap ? "unmap" : "set_access", status == MEND_DRIVER_OK ? "yes" : "no",
            driver->status_name(driver, status));
    if (status == MEND_DRIVER_OK) {
        return status;
    }
    status = MEND_DRIVER_OK;
    for (unsigned i = 0; status == MEND_DRIVER_OK && i < 2; i++) {
        status = unmap ? driver->unmap(driver, address[i], page_bytes)
                       : driver->set_access(driver, address[i], page_bytes, &bench->device, 1,
                                            MEND_ACCESS_READ_WRITE);
    }
    return status;
}

static mend_status try_neighbours(const mend_measure_bench *bench, FILE *out)
{
    const mend_driver *driver = bench->driver;
    const uint64_t page_bytes = bench->info.granularity_bytes;
    mend_chunk_properties properties = {.device = bench->device};
    uint64_t address[2] = {0};
    mend_chunk_handle chunk = 0;
    unsigned mapped = 0;
    mend_status status = reserve_neighbours(bench, address);
    bool adjacent = status == MEND_DRIVER_OK && address[1] == address[0] + page_bytes;
    if (status == MEND_DRIVER_OK && !adjacent) {
        fprintf(out, "one call covers two neighbouring reservations: not tried (hints ignored)\n");
    }
    if (adjacent) {
        status = driver->create(driver, page_bytes, &properties, &chunk);
    }
    while (adjacent && status == MEND_DRIVER_OK && mapped < 2) {
        status = driver->map(driver, address[mapped], page_bytes, 0, chunk);
        mapped += status == MEND_DRIVER_OK ? 1 : 0;
    }
    if (mapped == 2) {
        mend_status allowed = cover_both(bench, address, false, out);
        mend_status unmapped = cover_both(bench, address, true, out);
        status = allowed != MEND_DRIVER_OK ? allowed : unmapped;
    } else if (mapped == 1) {
        driver->unmap(driver, address[0], page_bytes);
    }
    if (chunk != 0) {
        driver->release(driver, chunk);
    }
    for (unsigned i = 0; i < 2; i++) {
        if (address[i] != 0) {
            driver->address_free(driver, address[i], page_bytes);
        }
    }
    return status;
}

/* ---- waiting for a kernel -------------------------------------------------------------------- */

static const uint64_t long_spin_ns = 100 * UINT64_C(1000000);

/* The calls to try. `prepare` makes the state that each needs. */
typedef enum tried_call {
    TRIED_CREATE,
    TRIED_MAP,
    TRIED_ACCESS,
    TRIED_UNMAP,
    TRIED_RELEASE,
    TRIED_COUNT
} tried_call;

/* Prepares everything for the call, while the device is idle. */
static mend_status prepare(trial_state *trial, tried_call tried)
{
    const mend_driver *driver = trial->driver;
    mend_status status = MEND_DRIVER_OK;
    if (tried == TRIED_CREATE) {
        status = driver->release(driver, trial->chunk);
        trial->chunk = 0;
    } else if (tried == TRIED_ACCESS) {
        status = driver->map(driver, trial->address, trial->page_bytes, 0, trial->chunk);
        trial->mapped_bytes[0] = status == MEND_DRIVER_OK ? trial->page_bytes : 0;
    } else if (tried == TRIED_UNMAP) {
        status = map_at(trial, 0, 1, 0);
    }
    return status;
}

static mend_status make_call(trial_state *trial, tried_call tried)
{
    const mend_driver *driver = trial->driver;
    const int *device = &trial->bench->device;
    mend_chunk_properties properties = {.device = *device};
    mend_status status = MEND_DRIVER_INVALID_VALUE;
    switch (tried) {
    case TRIED_CREATE:
        return driver->create(driver, trial->page_bytes, &properties, &trial->chunk);
    case TRIED_MAP:
        status = driver->map(driver, trial->address, trial->page_bytes, 0, trial->chunk);
        trial->mapped_bytes[0] = status == MEND_DRIVER_OK ? trial->page_bytes : 0;
        return status;
    case TRIED_ACCESS:
        return driver->set_access(driver, trial->address, trial->page_bytes, device, 1,
                                  MEND_ACCESS_READ_WRITE);
    case TRIED_UNMAP:
        status = driver->unmap(driver, trial->address, trial->page_bytes);
        trial->mapped_bytes[0] = status == MEND_DRIVER_OK ? 0 : trial->page_bytes;
        return status;
    case TRIED_RELEASE:
        status = driver->release(driver, trial->chunk);
        trial->chunk = status == MEND_DRIVER_OK ? 0 : trial->chunk;
        return status;
    case TRIED_COUNT:
        break;
    }
    return status;
}

/* Starts the kernel, makes the call, and then asks whether the kernel still runs. */
static mend_status try_wait(const mend_measure_bench *bench, tried_call tried, const char *name,
                            FILE *out)
{
    const mend_driver *driver = bench->driver;
    trial_state trial;
    mend_status status = trial_begin(&trial, bench, 1);
    if (status == MEND_DRIVER_OK) {
        status = prepare(&trial, tried);
    }
    if (status == MEND_DRIVER_OK) {
        status = mend_measure_spin(bench, long_spin_ns);
    }
    if (status == MEND_DRIVER_OK) {
        uint64_t start_ns = driver->clock_ns(driver);
        status = make_call(&trial, tried);
        uint64_t duration_ns = driver->clock_ns(driver) - start_ns;
        bool kernel_runs = driver->stream_query(driver, bench->work) == MEND_DRIVER_NOT_READY;
        fprintf(out,
                "%s waits for a running kernel: %s (%s, returned after %.3f ms; the kernel of "
                "%.0f ms %s)\n",
                name, kernel_runs ? "no" : "yes", driver->status_name(driver, status),
                (double)duration_ns / 1e6, (double)long_spin_ns / 1e6,
                kernel_runs ? "still ran" : "was done");
    }
    trial_end(&trial);
    return status;
}

/* Question number `question`. There are QUESTION_COUNT. */
static mend_status ask(const mend_measure_bench *bench, int question, FILE *out)
{
    static const char *const names[TRIED_COUNT] = {"create", "map", "set_access", "unmap",
                                                   "release"};
    switch (question) {
    case 0:
        return try_part(bench, "size", 0, out);
    case 1:
        return try_part(bench, "offset", 1, out);
    case 2:
        return try_neighbours(bench, out);
    default:
        return try_wait(bench, (tried_call)(question - 3), names[question - 3], out);
    }
}

mend_status mend_measure_try(const mend_measure_bench *bench, FILE *out)
{
    enum { QUESTION_COUNT = 3 + TRIED_COUNT };
    mend_status first_failure = MEND_DRIVER_OK;
    for (int i = 0; i < QUESTION_COUNT && !mend_status_is_fatal(first_failure); i++) {
        mend_status status = ask(bench, i, out);
        if (status != MEND_DRIVER_OK) {
            fprintf(out, "a question was not answered (%s)\n",
                    bench->driver->status_name(bench->driver, status));
            first_failure = first_failure == MEND_DRIVER_OK ? status : first_failure;
        }
    }
    return first_failure;
}
