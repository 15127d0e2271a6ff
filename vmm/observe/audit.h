/* The audit: every invariant of the heap, checked from scratch against what the rooms keep. */
#ifndef MEND_OBSERVE_AUDIT_H
#define MEND_OBSERVE_AUDIT_H

#include "layout/state.h"

enum { MEND_AUDIT_FINDING_BYTES = 256 };

/*
 * True when every invariant holds; otherwise `finding` says which is broken, and where. O(n log n),
 * no driver call, allocates nothing; under both locks of the heap.
 *
 *  - trees and indices are in order and hold what they should, no more;
 *  - spans tile each segment; neighbouring free spans form one maximal run; a free span that is in
 * no run is cached, or claimed and inside one held chunk: so a mapped chunk without live bytes lies
 *    in one run, or is held, or has a cached span;
 *  - a live span stands in the pointer map; its bytes lie in mapped chunks, whose live_bytes add
 * up;
 *  - mapped chunks, retired mappings and gaps do not overlap, and tile every reservation;
 *  - every wait is for an epoch that has passed, has a fence or is open; fences stand in order;
 *  - nothing freed in a group became idle before its release;
 *  - counters equal what is counted, and no node is lost.
 */
bool mend_observe_audit(const mend_heap *heap, char finding[MEND_AUDIT_FINDING_BYTES]);

/* The sums alone, in O(1): live and free are what is reserved. Under the `state` lock. */
bool mend_observe_audit_sums(const mend_heap *heap, char finding[MEND_AUDIT_FINDING_BYTES]);

#endif
