/*
 * The speed of kernels over memory of one size, made by cuMemAlloc, in one chunk, in chunks of 2
 * MiB to 1 GiB, and in shuffled chunks. Streaming, reading, and reading at random, which is where
 * small pages would show.
 */
#include "probe/questions.h"
#include "probe/range.h"

typedef struct layout {
    const char *name;
    uint64_t chunk_mib; /* 0: cuMemAlloc. UINT64_MAX: one chunk */
    bool shuffled;
} layout;

static const layout layouts[] = {
    {"cuMemAlloc", 0, false},      {"one chunk", UINT64_MAX, false},
    {"2 MiB", 2, false},           {"2 MiB shuffled", 2, true},
    {"20 MiB", 20, false},         {"128 MiB", 128, false},
    {"1 GiB", 1024, false},        {"8 MiB", 8, false},
    {"32 MiB", 32, false},         {"512 MiB", 512, false},
    {"20 MiB shuffled", 20, true}, {"128 MiB shuffled", 128, true},
};

static const struct {
    const char *name;
    mend_kernel_kind kind;
    double bytes_moved; /* for each byte of the range */
} kernels[] = {{"stream", MEND_KERNEL_STREAM, 2},
               {"read", MEND_KERNEL_READ, 1},
               {"gather", MEND_KERNEL_GATHER, 2}}; /* 16 bytes of a sector of 32 */

static void time_kernel(probe *p, const layout *how, size_t which, mend_stream stream,
                        uint64_t address, uint64_t size_bytes)
{
    enum { PASSES = 8, ROUNDS = 7 };
    static probe_samples samples;
    mend_status status = MEND_DRIVER_OK;
    samples.count = 0;
    for (int round = 0; status == MEND_DRIVER_OK && round < (p->quick ? 2 : ROUNDS); round++) {
        uint64_t began_ns = probe_now_ns(p);
        for (int i = 0; status == MEND_DRIVER_OK && i < PASSES; i++) {
            status = probe_stream(p, stream, kernels[which].kind, address, size_bytes, 0);
        }
        if (status == MEND_DRIVER_OK) {
            status = p->driver->stream_synchronize(p->driver, stream);
        }
        if (round > 0) { /* the first warms up */
            probe_sample(&samples, (probe_now_ns(p) - began_ns) / PASSES);
        }
    }
    uint64_t median_ns = mend_max_u64(1, probe_quantile_ns(&samples, 50));
    double gb_s = (double)size_bytes * kernels[which].bytes_moved / (double)median_ns;
    mend_json record = probe_record(p, "bandwidth");
    mend_json_string(&record, "layout", how->name);
    mend_json_string(&record, "kernel", kernels[which].name);
    mend_json_integer(&record, "size_bytes", size_bytes);
    mend_json_string(&record, "status", probe_name(p, status));
    mend_json_number(&record, "gb_per_s", gb_s, 1);
    probe_record_samples(&record, &samples);
    probe_record_end(p, &record);
    printf("%-18s %-8s %10.1f GB/s\n", how->name, kernels[which].name, gb_s);
    probe_expect(p, how->name, status);
}

/* An odd number that shares no factor with `count`, so that its multiples reach every chunk. */
static uint64_t shuffling_stride(uint64_t count)
{
    uint64_t stride = count / 2 + count / 8 + 1;
    for (;; stride++) {
        uint64_t a = stride;
        uint64_t b = count;
        while (b != 0) {
            uint64_t rest = a % b;
            a = b;
            b = rest;
        }
        if (a == 1) {
            return stride;
        }
    }
}

static bool run_layout(probe *p, const layout *how, mend_stream stream, uint64_t wanted_bytes)
{
    probe_range range = {0};
    uint64_t address = 0;
    uint64_t size_bytes = wanted_bytes;
    mend_status status;
    if (how->chunk_mib == 0) {
        status = p->driver->plain_alloc(p->driver, size_bytes, &address);
    } else {
        uint64_t chunk_bytes = how->chunk_mib == UINT64_MAX
                                   ? mend_align_down(wanted_bytes, p->page_bytes)
                                   : mend_align_up(how->chunk_mib * MEND_MIB, p->page_bytes);
        uint64_t count = mend_max_u64(1, wanted_bytes / chunk_bytes);
        size_bytes = count * chunk_bytes;
        status = probe_range_create(p, &range, chunk_bytes, count);
        if (status == MEND_DRIVER_OK) {
            status = probe_range_map(p, &range, how->shuffled ? shuffling_stride(count) : 1);
        }
        address = range.address;
    }
    for (size_t i = 0; status == MEND_DRIVER_OK && i < 3 && !probe_is_over(p); i++) {
        time_kernel(p, how, i, stream, address, size_bytes);
    }
    p->driver->stream_synchronize(p->driver, stream);
    if (how->chunk_mib == 0 && address != 0) {
        p->driver->plain_free(p->driver, address);
    }
    probe_range_drop(p, &range);
    return probe_expect(p, how->name, status) || !mend_status_is_fatal(status);
}

void probe_bandwidth(probe *p)
{
    mend_stream stream = NULL;
    uint64_t most_bytes = p->quick ? 128 * MEND_MIB : 8 * MEND_GIB;
    uint64_t size_bytes =
        mend_align_down(mend_min_u64(most_bytes, probe_free_bytes(p) / 4), 2 * p->page_bytes);
    if (!probe_expect(p, "a stream", p->driver->stream_create(p->driver, &stream))) {
        return;
    }
    printf("%llu MiB each\n", (unsigned long long)(size_bytes / MEND_MIB));
    bool goes_on = true;
    for (size_t i = 0; goes_on && i < sizeof(layouts) / sizeof(layouts[0]); i++) {
        goes_on = !probe_is_over(p) && run_layout(p, &layouts[i], stream, size_bytes);
    }
    p->driver->stream_destroy(p->driver, stream);
}
