/*
 * Measures the driver's calls: each size alone, and batches of pages under one set_access and one
 * unmap, on an idle device and while a kernel streams through memory. Durations are of the table's
 * clock, so the simulated device reports its prices.
 */
#ifndef MEND_LAB_MEASURE_PRICES_H
#define MEND_LAB_MEASURE_PRICES_H

#include <stdio.h>

#include "lab/measure/measure.h"

/* Measures all calls and fills `series`. If the device is full, a call fails or time runs out, it
 * names the subject on `notes` and goes on. OK, or the first failure other than missing memory. the
 * results stay valid. Leaves nothing on the device. */
mend_status mend_measure(mend_measure_bench *bench, FILE *notes);

#endif
