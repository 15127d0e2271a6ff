/*
 * Tries out undocumented behavior: whether a part of a chunk can be mapped, whether one call may
 * cover two reservations, and which calls wait for a running kernel.
 */
#ifndef MEND_LAB_MEASURE_TRIALS_H
#define MEND_LAB_MEASURE_TRIALS_H

#include <stdio.h>

#include "lab/measure/measure.h"

/* Prints each answer with the observation. A question whose trial fails is skipped. OK if every
 * question was answered, otherwise the first failure. Leaves nothing on the device. */
mend_status mend_measure_try(const mend_measure_bench *bench, FILE *out);

#endif
