/* The audit: checks every invariant of the heap from scratch against the records of all rooms. */
#ifndef MEND_OBSERVE_AUDIT_H
#define MEND_OBSERVE_AUDIT_H

#include "layout/state.h"

enum { MEND_AUDIT_FINDING_BYTES = 256 };

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
 *  - nothing freed in a group became idle before the group's release;
 *  - a sleeping chunk is frozen, held by nothing, and what is kept of it is counted;
 *  - counters equal what is counted, and no node is lost.
 */
bool mend_observe_audit(const mend_heap *heap, char finding[MEND_AUDIT_FINDING_BYTES]);

/* Only the sums, in O(1): live and free bytes add up to what is reserved. The caller holds
 * `state`. */
bool mend_observe_audit_sums(const mend_heap *heap, char finding[MEND_AUDIT_FINDING_BYTES]);

#endif
