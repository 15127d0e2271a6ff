/*
 * Measuring the driver's calls: each size alone, pages in batches under one set_access and one
 * unmap, on an idle device and next to a kernel that streams through memory. Durations are those of
 * the table's clock, so the simulated device answers with its prices.
 */
#ifndef MEND_LAB_MEASURE_PRICES_H
#define MEND_LAB_MEASURE_PRICES_H

#include <stdio.h>

#include "lab/measure/measure.h"

/* Measures all calls and fills `series`. What the device has no room for, what fails and what there
 * is no time for is named on `notes`, and the rest goes on. OK, or the first failure other than a
 * lack of memory; what was measured stands all the same. Nothing is left behind on the device. */
mend_status mend_measure(mend_measure_bench *bench, FILE *notes);

#endif
