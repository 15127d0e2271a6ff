/*
 * The walk over all mapped memory of a heap, by address: live blocks, and free memory cut where one
 * of its properties changes. mend_views.h has what a region says.
 */
#ifndef MEND_OBSERVE_REGIONS_H
#define MEND_OBSERVE_REGIONS_H

#include "layout/state.h"
#include "mend/mend_views.h"

/* Writes the regions, up to `capacity` of them, each `region_bytes` behind the one before, and
 * returns how many there are. The caller holds both locks of the heap. Allocates nothing and does
 * not call the driver. */
size_t mend_observe_regions(const mend_heap *heap, void *regions, size_t region_bytes,
                            size_t capacity);

#endif
