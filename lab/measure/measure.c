#include "lab/measure/measure.h"

static uint64_t quantile_ns(const mend_measure_series *series, unsigned percent)
{
    if (series->sample_count == 0) {
        return 0;
    }
    return series->sample_ns[(series->sample_count - 1) * percent / 100];
}

uint64_t mend_measure_median_ns(const mend_measure_series *series)
{
    return quantile_ns(series, 50);
}

uint64_t mend_measure_p99_ns(const mend_measure_series *series)
{
    return quantile_ns(series, 99);
}

uint64_t mend_measure_max_ns(const mend_measure_series *series)
{
    return quantile_ns(series, 100);
}

mend_status mend_measure_spin(const mend_measure_bench *bench, uint64_t duration_ns)
{
    mend_kernel kernel = {.kind = MEND_KERNEL_SPIN, .duration_ns = duration_ns};
    return bench->driver->launch(bench->driver, bench->work, &kernel);
}

bool mend_measure_is_over(const mend_measure_bench *bench)
{
    return bench->end_ns != 0 && bench->driver->clock_ns(bench->driver) >= bench->end_ns;
}
