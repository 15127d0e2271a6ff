/* Searches among the runs of a zone by growth and by address; layout/sizes.h has those by size.
 * Read-only. */
#ifndef MEND_LAYOUT_RUN_H
#define MEND_LAYOUT_RUN_H

#include "layout/state.h"

static inline uint64_t mend_span_end(const mend_span *span)
{
    return span->address + span->size_bytes;
}

static inline uint64_t mend_run_end(const mend_run *run)
{
    return run->address + run->size_bytes;
}

/* Runs with unmapped addresses behind them: the largest one below a size, and the next smaller
 * one. */
mend_run *mend_layout_growing_below(const mend_zone *zone, uint64_t size_bytes);
mend_run *mend_layout_growing_smaller(const mend_run *run);

/* The run that contains the address, or NULL. And the same or, if there is none, the next run
 * behind the address. */
mend_run *mend_layout_run_at(const mend_zone *zone, uint64_t address);
mend_run *mend_layout_run_from(const mend_zone *zone, uint64_t address);

#endif
