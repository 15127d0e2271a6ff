#include "lab/support/histogram.h"

#include <stddef.h>

#include "base/align.h"

/* Small values have a bucket each. Above them, each doubling has STEPS buckets. */
static size_t bucket_of(uint64_t value)
{
    if (value < MEND_HISTOGRAM_STEPS) {
        return (size_t)value;
    }
    unsigned exponent = 63 - (unsigned)__builtin_clzll(value);
    unsigned shift = exponent - 5;
    return (size_t)(shift + 1) * MEND_HISTOGRAM_STEPS +
           (size_t)((value >> shift) - MEND_HISTOGRAM_STEPS);
}

/* The largest value of a bucket. */
static uint64_t end_of(size_t bucket)
{
    if (bucket < MEND_HISTOGRAM_STEPS) {
        return bucket;
    }
    size_t shift = bucket / MEND_HISTOGRAM_STEPS - 1;
    uint64_t step = bucket % MEND_HISTOGRAM_STEPS + MEND_HISTOGRAM_STEPS;
    return ((step + 1) << shift) - 1;
}

void mend_histogram_add(mend_histogram *histogram, uint64_t value)
{
    histogram->counts[bucket_of(value)]++;
    histogram->count++;
    histogram->sum += value;
    histogram->max = mend_max_u64(histogram->max, value);
}

void mend_histogram_merge(mend_histogram *histogram, const mend_histogram *other)
{
    for (size_t i = 0; i < MEND_HISTOGRAM_BUCKETS; i++) {
        histogram->counts[i] += other->counts[i];
    }
    histogram->count += other->count;
    histogram->sum += other->sum;
    histogram->max = mend_max_u64(histogram->max, other->max);
}

uint64_t mend_histogram_quantile(const mend_histogram *histogram, double fraction)
{
    uint64_t seen = 0;
    for (size_t i = 0; i < MEND_HISTOGRAM_BUCKETS; i++) {
        seen += histogram->counts[i];
        if (seen > 0 && (double)seen >= fraction * (double)histogram->count) {
            return mend_min_u64(end_of(i), histogram->max);
        }
    }
    return histogram->max;
}
