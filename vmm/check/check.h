/* What finds damage: the validation of all invariants, guards behind blocks, poison in freed
 * ones. */
#ifndef MEND_CHECK_CHECK_H
#define MEND_CHECK_CHECK_H

#include <stdbool.h>

#include "layout/state.h"
#include "mend/mend.h"

/* ---- validate.c ------------------------------------------------------------------------------ */

enum { MEND_VALIDATE_FINDING_BYTES = 256 };

/*
 * True if every invariant holds; otherwise `finding` says which one is broken, and where. O(n log
 * n); allocates nothing and does not call the driver. The caller holds both locks of the heap.
 *
 *  - trees and indices are in order and have exactly what they should;
 *  - spans tile each segment; neighbouring free spans form one maximal run; a free span in no run
 *    is cached, or claimed and inside one frozen chunk: so a mapped chunk without live bytes lies
 *    in one run, or is frozen, or has a cached span;
 *  - a live span is in the pointer map; its bytes lie in mapped chunks, whose live_bytes add up;
 *  - mapped chunks, retired mappings and gaps do not overlap, and tile every reservation;
 *  - every wait is for an epoch that has passed, has a fence or is open; fences are in order;
 *  - nothing freed in a graph pool became idle before the graph pool's release;
 *  - a sleeping chunk is frozen, held by nothing, and what is kept of it is counted;
 *  - counters equal what is counted, and no node is lost.
 */
bool mend_observe_validate(const mend_heap *heap, char finding[MEND_VALIDATE_FINDING_BYTES]);

/* Only the sums, in O(1): live and free bytes add up to what is reserved. The caller holds
 * `state`. */
bool mend_observe_validate_sums(const mend_heap *heap, char finding[MEND_VALIDATE_FINDING_BYTES]);

/* ---- checks.c -------------------------------------------------------------------------------- */

/* Starts to check, as the pool is observed. MEND_ERROR_OUT_OF_HOST_MEMORY. */
mend_result mend_checks_start(mend_pool *pool);

/* The block was allocated in this order. The caller holds `state`, which is released in between.
 * MEND_ERROR_CORRUPTION: it is free again. */
mend_result mend_checks_alloc(mend_pool *pool, uint64_t address, mend_order order);

/* mend_free, where anything is checked. The caller holds no lock. */
mend_result mend_checks_free(mend_pool *pool, uint64_t address, mend_order order);

/* Reads the guards of live blocks. MEND_ERROR_CORRUPTION: of the first that was written. The caller
 * holds no lock. */
mend_result mend_checks_end(mend_pool *pool);

/* Does nothing if nothing is checked. The heap is gone, and the device is open. */
void mend_checks_stop(mend_pool *pool);

#endif
