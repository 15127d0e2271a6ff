/*
 * Searches among the runs of a zone by growth and by address; layout/sizes.h has those by size.
 * Read-only.
 */
#include "layout/layout.h"

#include <assert.h>
#define RUN_OF(node, member) MEND_CONTAINER_OR_NULL(node, mend_run, member)

mend_run *mend_layout_growing_below(const mend_zone *zone, uint64_t size_bytes)
{
    mend_run key = {.size_bytes = size_bytes};
    return RUN_OF(mend_tree_at_or_before(&zone->runs_by_growth, &key.by_growth), by_growth);
}

mend_run *mend_layout_growing_smaller(const mend_run *run)
{
    assert(run->extensible);
    return RUN_OF(mend_tree_previous(&run->by_growth), by_growth);
}

mend_run *mend_layout_run_at(const mend_zone *zone, uint64_t address)
{
    mend_run key = {.address = address};
    mend_run *run =
        RUN_OF(mend_tree_at_or_before(&zone->runs_by_address, &key.by_address), by_address);
    return run != NULL && address - run->address < run->size_bytes ? run : NULL;
}

mend_run *mend_layout_run_from(const mend_zone *zone, uint64_t address)
{
    mend_run key = {.address = address};
    mend_run *run = mend_layout_run_at(zone, address);
    return run != NULL
               ? run
               : RUN_OF(mend_tree_at_or_after(&zone->runs_by_address, &key.by_address), by_address);
}
