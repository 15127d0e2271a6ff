/* Measurements as a table for people, as a cost table fitted to them, and as JSON. */
#ifndef MEND_LAB_MEASURE_LISTS_H
#define MEND_LAB_MEASURE_LISTS_H

#include <stdio.h>

#include "lab/measure/measure.h"

/* A table for people. */
void mend_measure_print_prices(const mend_measure_bench *bench, FILE *out);

/* The measurements as a cost table (docs/formats/replay.md) and as JSON. */
void mend_measure_write_costs(const mend_measure_bench *bench, FILE *out);
void mend_measure_write_json(const mend_measure_bench *bench, FILE *out);

#endif
