/*
 * What no document tells, tried: whether a part of a chunk can be mapped, whether one call covers
 * two reservations, which calls wait for a running kernel, and whether two kernels may write
 * neighbouring granules through two aliases.
 */
#ifndef MEND_LAB_MEASURE_TRIALS_H
#define MEND_LAB_MEASURE_TRIALS_H

#include <stdio.h>

#include "lab/measure/measure.h"

/* Tries what no document tells, and prints each answer with what was seen; a question whose trial
 * fails is left, and the next one asked. OK when every question was answered, else the first
 * failure. Nothing is left behind on the device. */
mend_status mend_measure_try(const mend_measure_bench *bench, FILE *out);

#endif
