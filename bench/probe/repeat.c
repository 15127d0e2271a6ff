/*
 * Access that is given again to a range while kernels write there, which is wrong: a driver may
 * remove the mapping for a moment, and the kernel loses its context. Whatever comes of it is the
 * answer. It comes last in a process of its own, because the device may be lost.
 */
#include "probe/questions.h"
#include "probe/range.h"

static mend_status write_for(const probe *p, mend_stream stream, const probe_range *range,
                             uint64_t duration_ns)
{
    const mend_kernel kernel = {.kind = MEND_KERNEL_WRITE,
                                .value = 5,
                                .duration_ns = duration_ns,
                                .address = range->address,
                                .granule_bytes = MEND_GRANULE_BYTES,
                                .stride_bytes = MEND_GRANULE_BYTES,
                                .granule_count = probe_range_bytes(range) / MEND_GRANULE_BYTES};
    return p->driver->launch(p->driver, stream, &kernel);
}

void probe_repeat(probe *p)
{
    const mend_driver *driver = p->driver;
    const int device = 0;
    const unsigned most = p->quick ? 8 : 200;
    static probe_samples samples;
    mend_stream stream = NULL;
    probe_range range = {0};
    unsigned calls = 0;
    samples.count = 0;
    mend_status status = driver->stream_create(driver, &stream);
    if (status == MEND_DRIVER_OK) {
        status = probe_range_create(p, &range, p->page_bytes, 16);
    }
    if (status == MEND_DRIVER_OK) {
        status = probe_range_map(p, &range, 1);
    }
    if (!probe_expect(p, "memory to write to", status)) {
        return;
    }
    while (status == MEND_DRIVER_OK && calls < most && !probe_is_over(p)) {
        mend_status runs = driver->stream_query(driver, stream);
        status = runs == MEND_DRIVER_NOT_READY ? MEND_DRIVER_OK : runs;
        if (runs == MEND_DRIVER_OK) {
            status = write_for(p, stream, &range, 20 * UINT64_C(1000000));
        }
        uint64_t began_ns = probe_now_ns(p);
        if (status == MEND_DRIVER_OK) {
            status = driver->set_access(driver, range.address, probe_range_bytes(&range), &device,
                                        1, MEND_ACCESS_READ_WRITE);
            calls++;
        }
        probe_sample(&samples, probe_now_ns(p) - began_ns);
    }
    mend_status ended = driver->stream_synchronize(driver, stream);
    status = status == MEND_DRIVER_OK ? ended : status;
    mend_json record = probe_record(p, "repeated_access");
    mend_json_integer(&record, "calls", calls);
    mend_json_string(&record, "status", probe_name(p, status));
    mend_json_bool(&record, "survived", status == MEND_DRIVER_OK);
    probe_record_samples(&record, &samples);
    probe_record_end(p, &record);
    printf(
        "access to 16 pages is given again %u times while a kernel writes there: %s (median %.1f "
        "us)\n",
        calls, status == MEND_DRIVER_OK ? "the kernel survives" : probe_name(p, status),
        (double)probe_quantile_ns(&samples, 50) / 1000);
    probe_range_drop(p, &range);
    driver->stream_destroy(driver, stream);
}
