/* The device that `libmend info` measures, and the results. */
#ifndef MEND_LAB_MEASURE_MEASURE_H
#define MEND_LAB_MEASURE_MEASURE_H

#include "driver/driver.h"

enum {
    MEND_MEASURE_MOST_SERIES = 512,
    MEND_MEASURE_MOST_SAMPLES = 100,
    MEND_MEASURE_MOST_BATCH = 256
};

/* The durations of one call under one condition. */
typedef struct mend_measure_series {
    mend_driver_call call;
    uint64_t size_bytes;   /* bytes that the call is about. 0: it has no size */
    uint64_t mappings;     /* mappings that the call covers. 0: none */
    bool busy;             /* a kernel was running on another stream */
    unsigned sample_count; /* while measuring. Sorted at the end */
    uint64_t sample_ns[MEND_MEASURE_MOST_SAMPLES];
} mend_measure_series;

/* An open device with its context current, and the results. */
typedef struct mend_measure_bench {
    const mend_driver *driver;
    mend_device_info info;
    int device;
    mend_stream work;      /* stream for kernels that run during calls */
    mend_stream other;     /* a second one */
    uint64_t end_ns;       /* of the table's clock: when to stop measuring and trying. 0: never */
    unsigned left_out;     /* number of subjects with too few samples. Each was named */
    uint64_t load_address; /* memory for kernels that run during calls. 0: none */
    uint64_t load_bytes;
    unsigned series_count;
    mend_measure_series *series; /* MEND_MEASURE_MOST_SERIES */
} mend_measure_bench;

/* Quantiles of a finished series. 0 if it has no samples. */
uint64_t mend_measure_median_ns(const mend_measure_series *series);
uint64_t mend_measure_p99_ns(const mend_measure_series *series);
uint64_t mend_measure_max_ns(const mend_measure_series *series);

/* Keeps `work` busy at least this long. Returns at once. */
mend_status mend_measure_spin(const mend_measure_bench *bench, uint64_t duration_ns);

bool mend_measure_is_over(const mend_measure_bench *bench);

#endif
