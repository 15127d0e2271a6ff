/* A histogram of durations, exact to about three percent, in constant memory and time. */
#ifndef MEND_LAB_SUPPORT_HISTOGRAM_H
#define MEND_LAB_SUPPORT_HISTOGRAM_H

#include <stdint.h>

enum { MEND_HISTOGRAM_STEPS = 32, MEND_HISTOGRAM_BUCKETS = 60 * MEND_HISTOGRAM_STEPS };

typedef struct mend_histogram {
    uint64_t counts[MEND_HISTOGRAM_BUCKETS];
    uint64_t count;
    uint64_t sum;
    uint64_t max;
} mend_histogram;

void mend_histogram_add(mend_histogram *histogram, uint64_t value);
void mend_histogram_merge(mend_histogram *histogram, const mend_histogram *other);

/* The value that `fraction` (0 to 1) of all values do not exceed. 0 if there are none. */
uint64_t mend_histogram_quantile(const mend_histogram *histogram, double fraction);

#endif
