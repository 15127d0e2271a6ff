#include "lab/replay/gpu.h"

#include "base/align.h"
#include "base/error.h"
#include "driver/driver.h"
#include "lab/driver/kernels.h"

/* ---- sizes ----------------------------------------------------------------------------------- */

static mend_status read_free_bytes(const mend_driver *driver, uint64_t *free_bytes)
{
    mend_device_info info;
    uint64_t total_bytes = 0;
    mend_status status = driver->device_open(driver, 0, &info);
    if (status != MEND_DRIVER_OK) {
        return status;
    }
    status = driver->context_push(driver, info.context);
    if (status == MEND_DRIVER_OK) {
        status = driver->memory_info(driver, free_bytes, &total_bytes);
        driver->context_pop(driver);
    }
    driver->device_close(driver, 0);
    return status;
}

mend_result mend_replay_scale_to_gpu(mend_trace *trace, double *factor)
{
    enum { LARGEST_FACTOR = 1 << 20 };
    const mend_driver *driver = NULL;
    uint64_t free_bytes = 0;
    mend_result result = mend_cuda_driver_with_kernels(&driver);
    if (result != MEND_OK) {
        return result;
    }
    mend_status status = read_free_bytes(driver, &free_bytes);
    if (status != MEND_DRIVER_OK) {
        return mend_fail_driver(MEND_ERROR_NO_DEVICE, "cuMemGetInfo", status,
                                mend_status_name(status), "the GPU's free memory is unknown: %s",
                                mend_status_name(status));
    }
    double wanted_bytes = 1.25 * (double)trace->peak_live_bytes;
    double smallest = 1;
    while (wanted_bytes / smallest > (double)free_bytes * 15 / 16) {
        smallest *= 2;
        if (smallest > (double)LARGEST_FACTOR) {
            return mend_fail(MEND_ERROR_OUT_OF_MEMORY, "%llu bytes are free on the GPU",
                             (unsigned long long)free_bytes);
        }
    }
    result = smallest > 1 ? mend_trace_scale(trace, smallest) : MEND_OK;
    *factor = result == MEND_OK ? smallest : *factor;
    return result;
}

/* ---- ballast --------------------------------------------------------------------------------- */

/* Takes up to `wanted_bytes` in pieces, of half the size where one is refused. */
static mend_status take(mend_replay_ballast *ballast, const mend_driver *driver,
                        uint64_t page_bytes, uint64_t wanted_bytes)
{
    const mend_chunk_properties properties = {0};
    uint64_t piece_bytes = mend_align_down(wanted_bytes, page_bytes);
    while (piece_bytes >= page_bytes && ballast->count < MEND_REPLAY_MOST_BALLAST) {
        mend_status status =
            driver->create(driver, piece_bytes, &properties, &ballast->piece[ballast->count]);
        if (status != MEND_DRIVER_OK && status != MEND_DRIVER_OUT_OF_MEMORY) {
            return status;
        }
        if (status == MEND_DRIVER_OK) {
            ballast->count++;
            ballast->size_bytes += piece_bytes;
        } else {
            piece_bytes = mend_align_down(piece_bytes / 2, page_bytes);
        }
        uint64_t missing_bytes = mend_align_down(wanted_bytes - ballast->size_bytes, page_bytes);
        piece_bytes = mend_min_u64(piece_bytes, missing_bytes);
    }
    return MEND_DRIVER_OK;
}

/* Some memory that the driver reports as free cannot be allocated, so it is tried first, and then
 * less. */
mend_status mend_replay_ballast_open(mend_replay_ballast *ballast, const mend_driver *driver,
                                     uint64_t page_bytes, uint64_t left_bytes)
{
    uint64_t free_bytes = 0;
    uint64_t total_bytes = 0;
    *ballast = (mend_replay_ballast){0};
    mend_status status = driver->memory_info(driver, &free_bytes, &total_bytes);
    if (status == MEND_DRIVER_OK) {
        status = take(ballast, driver, page_bytes, free_bytes);
    }
    uint64_t all_bytes = ballast->size_bytes;
    mend_replay_ballast_close(ballast, driver);
    if (status == MEND_DRIVER_OK && all_bytes < left_bytes) {
        status = MEND_DRIVER_OUT_OF_MEMORY;
    }
    if (status == MEND_DRIVER_OK) {
        status = take(ballast, driver, page_bytes, all_bytes - left_bytes);
    }
    if (status != MEND_DRIVER_OK) {
        mend_replay_ballast_close(ballast, driver);
    }
    return status;
}

void mend_replay_ballast_close(mend_replay_ballast *ballast, const mend_driver *driver)
{
    while (ballast->count > 0) {
        driver->release(driver, ballast->piece[--ballast->count]);
    }
    ballast->size_bytes = 0;
}

/* ---- the load -------------------------------------------------------------------------------- */

/* The load takes the whole device while it runs, so it runs for a third of the time: a row takes
 * about 12 us. */
static const uint64_t load_ns = 2 * UINT64_C(1000000);
enum { ROWS_A_LOOK = 512 };

mend_status mend_replay_load_open(mend_replay_load *load, const mend_driver *driver)
{
    uint64_t free_bytes = 0;
    uint64_t total_bytes = 0;
    mend_stream stream = NULL;
    uint64_t address = 0;
    mend_status status = driver->memory_info(driver, &free_bytes, &total_bytes);
    if (status != MEND_DRIVER_OK) {
        return status;
    }
    uint64_t size_bytes =
        mend_align_down(mend_min_u64(256 * MEND_MIB, free_bytes / 16), MEND_KERNEL_TILE_BYTES);
    status = driver->plain_alloc(driver, size_bytes, &address);
    if (status != MEND_DRIVER_OK) {
        return status;
    }
    status = driver->stream_create(driver, &stream);
    if (status != MEND_DRIVER_OK) {
        driver->plain_free(driver, address);
        return status;
    }
    load->stream = stream;
    load->address = address;
    load->size_bytes = size_bytes;
    return MEND_DRIVER_OK;
}

void mend_replay_load_tick(mend_replay_load *load, const mend_driver *driver)
{
    if (atomic_fetch_add(&load->rows, 1) % ROWS_A_LOOK != 0 ||
        driver->stream_query(driver, load->stream) != MEND_DRIVER_OK) {
        return;
    }
    const mend_kernel kernel = {.kind = MEND_KERNEL_STREAM,
                                .duration_ns = load_ns,
                                .address = load->address,
                                .granule_bytes = MEND_KERNEL_TILE_BYTES,
                                .stride_bytes = MEND_KERNEL_TILE_BYTES,
                                .granule_count = load->size_bytes / MEND_KERNEL_TILE_BYTES};
    driver->launch(driver, load->stream, &kernel);
}

void mend_replay_load_close(mend_replay_load *load, const mend_driver *driver)
{
    driver->stream_destroy(driver, load->stream);
    driver->plain_free(driver, load->address);
}
