/* Chunks mapped into ranges, and the load. */
#include "probe/range.h"

#include <stdlib.h>

mend_status probe_range_create(const probe *p, probe_range *range, uint64_t chunk_bytes,
                               uint64_t count)
{
    const mend_driver *driver = p->driver;
    const mend_chunk_properties properties = {0};
    *range = (probe_range){.chunk_bytes = chunk_bytes, .count = count};
    range->chunk = calloc(count, sizeof(*range->chunk));
    if (range->chunk == NULL) {
        return MEND_DRIVER_OUT_OF_MEMORY;
    }
    mend_status status = driver->reserve(driver, chunk_bytes * count, 0, 0, &range->address);
    while (status == MEND_DRIVER_OK && range->created < count) {
        status = driver->create(driver, chunk_bytes, &properties, &range->chunk[range->created]);
        range->created += status == MEND_DRIVER_OK ? 1 : 0;
    }
    return status;
}

mend_status probe_range_map(const probe *p, probe_range *range, uint64_t stride)
{
    const mend_driver *driver = p->driver;
    const int device = 0;
    mend_status status = MEND_DRIVER_OK;
    while (status == MEND_DRIVER_OK && range->mapped < range->count) {
        uint64_t place = range->mapped;
        status = driver->map(driver, range->address + place * range->chunk_bytes,
                             range->chunk_bytes, 0, range->chunk[place * stride % range->count]);
        range->mapped += status == MEND_DRIVER_OK ? 1 : 0;
    }
    return status != MEND_DRIVER_OK
               ? status
               : driver->set_access(driver, range->address, probe_range_bytes(range), &device, 1,
                                    MEND_ACCESS_READ_WRITE);
}

void probe_range_drop(const probe *p, probe_range *range)
{
    const mend_driver *driver = p->driver;
    if (range->mapped > 0) {
        driver->unmap(driver, range->address, range->mapped * range->chunk_bytes);
    }
    for (uint64_t i = 0; i < range->created; i++) {
        if (range->chunk[i] != 0) {
            driver->release(driver, range->chunk[i]);
        }
    }
    if (range->address != 0) {
        driver->address_free(driver, range->address, probe_range_bytes(range));
    }
    free(range->chunk);
    *range = (probe_range){0};
}

mend_status probe_stream(const probe *p, mend_stream stream, mend_kernel_kind kind,
                         uint64_t address, uint64_t size_bytes, uint64_t duration_ns)
{
    const mend_kernel kernel = {.kind = kind,
                                .duration_ns = duration_ns,
                                .address = address,
                                .granule_bytes = MEND_KERNEL_TILE_BYTES,
                                .stride_bytes = MEND_KERNEL_TILE_BYTES,
                                .granule_count = size_bytes / MEND_KERNEL_TILE_BYTES};
    return p->driver->launch(p->driver, stream, &kernel);
}

mend_status probe_load_open(const probe *p, probe_load *load)
{
    uint64_t wanted_bytes = mend_min_u64(256 * MEND_MIB, probe_free_bytes(p) / 16);
    *load = (probe_load){.size_bytes = mend_align_down(wanted_bytes, MEND_KERNEL_TILE_BYTES)};
    mend_status status = p->driver->stream_create(p->driver, &load->stream);
    return status == MEND_DRIVER_OK
               ? p->driver->plain_alloc(p->driver, load->size_bytes, &load->address)
               : status;
}

void probe_load_close(const probe *p, probe_load *load)
{
    if (load->stream != NULL) {
        p->driver->stream_synchronize(p->driver, load->stream);
        p->driver->stream_destroy(p->driver, load->stream);
    }
    if (load->address != 0) {
        p->driver->plain_free(p->driver, load->address);
    }
    *load = (probe_load){0};
}

mend_status probe_load_keep(const probe *p, const probe_load *load)
{
    const uint64_t duration_ns = 50 * UINT64_C(1000000);
    mend_status status = p->driver->stream_query(p->driver, load->stream);
    return status == MEND_DRIVER_OK ? probe_stream(p, load->stream, MEND_KERNEL_STREAM,
                                                   load->address, load->size_bytes, duration_ns)
                                    : status;
}
