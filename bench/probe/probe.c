/* An open device, the driver's entry points, records and samples. */
#include "probe/probe.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "driver/cuda_state.h"
#include "driver/driver.h"
#include "lab/driver/kernels.h"

/* ---- the device ------------------------------------------------------------------------------ */

static bool find_entry_points(probe_program *program)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    bool found = library != NULL;
    void *function = NULL;
#define X(member, symbol, parameters)                                                              \
    function = found ? dlsym(library, symbol) : NULL;                                              \
    found = function != NULL;                                                                      \
    memcpy(&program->member, &function, sizeof(function));
    PROBE_ENTRY_POINTS(X)
#undef X
    return found;
}

bool probe_open(probe *p)
{
    mend_error error = MEND_ERROR_INIT;
    if (mend_cuda_driver_with_kernels(&p->driver) != MEND_OK) {
        mend_get_last_error(&error);
        fprintf(stderr, "mend-probe: %s\n", error.message);
        return false;
    }
    mend_status status = p->driver->device_open(p->driver, 0, &p->info);
    if (status == MEND_DRIVER_OK) {
        status = p->driver->context_push(p->driver, p->info.context);
    }
    if (status != MEND_DRIVER_OK || !p->info.virtual_memory) {
        fprintf(stderr, "mend-probe: no device with virtual memory (%s)\n", probe_name(p, status));
        return false;
    }
    if (!find_entry_points(&p->program)) {
        fprintf(stderr, "mend-probe: the driver lacks entry points of captures and graphs\n");
        return false;
    }
    p->raw = mend_cuda_functions(p->driver);
    p->page_bytes = p->info.granularity_bytes;
    return true;
}

void probe_close(probe *p)
{
    p->driver->context_synchronize(p->driver);
    p->driver->context_pop(p->driver);
    p->driver->device_close(p->driver, 0);
}

uint64_t probe_now_ns(const probe *p)
{
    return p->driver->clock_ns(p->driver);
}

bool probe_is_over(const probe *p)
{
    return probe_now_ns(p) >= p->end_ns;
}

const char *probe_name(const probe *p, mend_status status)
{
    return p->driver->status_name(p->driver, status);
}

uint64_t probe_free_bytes(const probe *p)
{
    uint64_t free_bytes = 0;
    uint64_t total_bytes = 0;
    mend_status status = p->driver->memory_info(p->driver, &free_bytes, &total_bytes);
    return status == MEND_DRIVER_OK ? free_bytes : 0;
}

bool probe_expect(probe *p, const char *what, mend_status status)
{
    if (status == MEND_DRIVER_OK) {
        return true;
    }
    p->problems++;
    printf("FAILED: %s: %s\n", what, probe_name(p, status));
    mend_json record = probe_record(p, "problem");
    mend_json_string(&record, "what", what);
    mend_json_string(&record, "status", probe_name(p, status));
    probe_record_end(p, &record);
    return false;
}

/* ---- records --------------------------------------------------------------------------------- */

mend_json probe_record(probe *p, const char *kind)
{
    if (p->records == NULL) {
        p->records = fopen("/dev/null", "w");
    }
    mend_json json = {.out = p->records};
    mend_json_begin_object(&json, NULL);
    mend_json_string(&json, "record", kind);
    return json;
}

void probe_record_end(probe *p, mend_json *record)
{
    mend_json_end_object(record);
    fputc('\n', p->records);
    fflush(p->records);
    fflush(stdout);
}

/* ---- samples --------------------------------------------------------------------------------- */

void probe_sample(probe_samples *samples, uint64_t duration_ns)
{
    if (samples->count < PROBE_MOST_SAMPLES) {
        samples->ns[samples->count++] = duration_ns;
    }
}

static int compare_u64(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a;
    uint64_t right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

uint64_t probe_quantile_ns(probe_samples *samples, unsigned percent)
{
    if (samples->count == 0) {
        return 0;
    }
    qsort(samples->ns, samples->count, sizeof(samples->ns[0]), compare_u64);
    return samples->ns[(samples->count - 1) * percent / 100];
}

void probe_record_samples(mend_json *record, probe_samples *samples)
{
    mend_json_integer(record, "count", samples->count);
    mend_json_integer(record, "median_ns", probe_quantile_ns(samples, 50));
    mend_json_integer(record, "p99_ns", probe_quantile_ns(samples, 99));
    mend_json_integer(record, "max_ns", probe_quantile_ns(samples, 100));
}
