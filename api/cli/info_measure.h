/* What `mend info` measures and tries on a device; shared by its files. */
#ifndef MEND_CLI_INFO_MEASURE_H
#define MEND_CLI_INFO_MEASURE_H

#include <stdio.h>

#include "driver/driver.h"

enum { MEND_INFO_MOST_SERIES = 512, MEND_INFO_MOST_SAMPLES = 100, MEND_INFO_MOST_BATCH = 256 };

/* The durations of one call under one condition. */
typedef struct mend_info_series {
    mend_driver_call call;
    uint64_t size_bytes;   /* what the call was about, in all; 0 where it has no size */
    uint64_t mappings;     /* covered by the call; 0 where it covers none */
    bool busy;             /* a kernel was running on another stream */
    unsigned sample_count; /* while measuring; sorted in the end */
    uint64_t sample_ns[MEND_INFO_MOST_SAMPLES];
} mend_info_series;

/* An open device, its context current, with room for what is measured on it. */
typedef struct mend_info_bench {
    const mend_driver *driver;
    mend_device_info info;
    int device;
    mend_stream work;  /* where kernels run while calls are measured or tried */
    mend_stream other; /* a second one */
    unsigned series_count;
    mend_info_series *series; /* MEND_INFO_MOST_SERIES */
} mend_info_bench;

/* Quantiles of a finished series. 0 without samples. */
uint64_t mend_info_median_ns(const mend_info_series *series);
uint64_t mend_info_p99_ns(const mend_info_series *series);
uint64_t mend_info_max_ns(const mend_info_series *series);

/* Keeps `work` busy for at least a while; returns at once. */
mend_status mend_info_spin(const mend_info_bench *bench, uint64_t duration_ns);

/* Measures all calls and fills `series`. Sizes the device has no room for are left out and named
 * on `notes`. OK, or the failure that ended it. Nothing is left behind on the device. */
mend_status mend_info_measure(mend_info_bench *bench, FILE *notes);

void mend_info_print_prices(const mend_info_bench *bench, FILE *out);

/* The measurements as a price list (docs/formats/costs.md) and as JSON. */
void mend_info_write_costs(const mend_info_bench *bench, FILE *out);
void mend_info_write_json(const mend_info_bench *bench, FILE *out);

/* Tries what no document tells, and prints each answer with what was seen. OK when every question
 * was answered. Nothing is left behind on the device. */
mend_status mend_info_try(const mend_info_bench *bench, FILE *out);

#endif
