/* Checks for damage: the validation of all invariants, guards behind blocks, poison in freed
 * ones. */
#ifndef MEND_CHECK_CHECK_H
#define MEND_CHECK_CHECK_H

#include <stdbool.h>

#include "layout/feature.h"
#include "mend/mend.h"

/* ---- validate.c ------------------------------------------------------------------------------ */

enum { MEND_VALIDATE_FINDING_BYTES = 256 };

/*
 * True if every invariant holds. Otherwise `finding` says which one is broken, and where. O(n log
 * n). Allocates nothing and does not call the driver. The caller holds both locks of the heap.
 *
 *  - trees and indices are in order and complete.
 *  - spans tile each segment. Neighboring free spans form one maximal run. A free span in no run
 *    is cached, or claimed and inside one frozen chunk: so a mapped chunk without live bytes lies
 *    in one run, or is frozen, or has a cached span.
 *  - a live span is in the pointer map. Its bytes lie in mapped chunks, whose live_bytes add up.
 *  - mapped chunks, retired mappings and gaps do not overlap, and tile every reservation.
 *  - every wait is for an epoch that has passed, has a fence or is open. Fences are in order.
 *  - nothing freed in a graph pool became idle before the graph pool's release.
 *  - a sleeping chunk is frozen, held by nothing, and its backup is counted.
 *  - counters are right, and no node is lost.
 */
bool mend_observe_validate(const mend_heap *heap, char finding[MEND_VALIDATE_FINDING_BYTES]);

/* Only the sums, in O(1): live and free bytes add up to reserved bytes. The caller holds
 * `state`. */
bool mend_observe_validate_sums(const mend_heap *heap, char finding[MEND_VALIDATE_FINDING_BYTES]);

/* Runs the validation of pool/pool.h, under both locks. */
bool mend_pool_validate(mend_pool *pool, char finding[MEND_VALIDATE_FINDING_BYTES]);

/* ---- checks.c -------------------------------------------------------------------------------- */

/* The hooks of the checks: poison and guards begin with the pool, and blocks are checked. As the
 * pool is left, the guards of live blocks are read. MEND_ERROR_CORRUPTION. */
mend_result mend_checks_hear(mend_pool *pool, mend_moment moment, const mend_pool_config *config);
mend_result mend_checks_of_block(mend_pool *pool, bool is_new, uint64_t address, mend_order order);

#endif
