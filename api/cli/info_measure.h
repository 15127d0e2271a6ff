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
    mend_stream work;      /* where kernels run while calls are measured or tried */
    mend_stream other;     /* a second one */
    uint64_t end_ns;       /* of the table's clock: when to stop measuring and trying; 0: never */
    unsigned left_out;     /* what was not measured as often as it should be; each was named */
    uint64_t load_address; /* memory for kernels next to which calls are measured; 0: none */
    uint64_t load_bytes;
    unsigned series_count;
    mend_info_series *series; /* MEND_INFO_MOST_SERIES */
} mend_info_bench;

/* Quantiles of a finished series. 0 without samples. */
uint64_t mend_info_median_ns(const mend_info_series *series);
uint64_t mend_info_p99_ns(const mend_info_series *series);
uint64_t mend_info_max_ns(const mend_info_series *series);

/* Keeps `work` busy for at least a while; returns at once. */
mend_status mend_info_spin(const mend_info_bench *bench, uint64_t duration_ns);

bool mend_info_is_over(const mend_info_bench *bench);

/* Measures all calls and fills `series`. What the device has no room for, what fails and what there
 * is no time for is named on `notes`, and the rest goes on. OK, or the first failure other than a
 * lack of memory; what was measured stands all the same. Nothing is left behind on the device. */
mend_status mend_info_measure(mend_info_bench *bench, FILE *notes);

void mend_info_print_prices(const mend_info_bench *bench, FILE *out);

/* The measurements as a price list (docs/formats/costs.md) and as JSON. */
void mend_info_write_costs(const mend_info_bench *bench, FILE *out);
void mend_info_write_json(const mend_info_bench *bench, FILE *out);

/* Tries what no document tells, and prints each answer with what was seen; a question whose trial
 * fails is left, and the next one asked. OK when every question was answered, else the first
 * failure. Nothing is left behind on the device. */
mend_status mend_info_try(const mend_info_bench *bench, FILE *out);

#endif
