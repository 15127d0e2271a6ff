/* The runs of a zone, as they are found: by size, by growth, by address. Nothing is changed. */
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

/* Runs of a zone in order of (size, address): the first not smaller, and the next larger. */
mend_run *mend_layout_run_at_least(const mend_zone *zone, uint64_t size_bytes);
mend_run *mend_layout_run_larger(const mend_run *run);

/* Runs behind which addresses are unmapped: the largest below a size, and the next smaller. */
mend_run *mend_layout_growing_below(const mend_zone *zone, uint64_t size_bytes);
mend_run *mend_layout_growing_smaller(const mend_run *run);

/* The run that contains the address; NULL when none does. And that, or the next behind it. */
mend_run *mend_layout_run_at(const mend_zone *zone, uint64_t address);
mend_run *mend_layout_run_from(const mend_zone *zone, uint64_t address);

#endif
