/* Readers of the heap: figures, regions, reasons, and the audit of all invariants. */
#ifndef MEND_OBSERVE_OBSERVE_H
#define MEND_OBSERVE_OBSERVE_H

#include <stdbool.h>

#include "base/live_page.h"
#include "layout/state.h"
#include "mend/mend_views.h"

/* ---- audit.c --------------------------------------------------------------------------------- */

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

/* ---- explain.c ------------------------------------------------------------------------------- */

/* What keeps a free byte from the asking stream. If there are several reasons, the last in this
 * list counts. An empty chunk has one reason for all its bytes, because it moves as a whole. */
typedef enum mend_free_reason {
    MEND_FREE_IDLE,       /* nothing, and it may be unmapped */
    MEND_FREE_OWN,        /* nothing for this stream; but work of this stream may still use it */
    MEND_FREE_STREAMS,    /* work of other streams may still use it */
    MEND_FREE_STREAMLESS, /* freed without a stream: only a wait for the context helps */
    MEND_FREE_GROUPS,     /* captured graphs may still use it */
    MEND_FREE_REASONS
} mend_free_reason;

/* That of a free span; MEND_STREAM_UNKNOWN asks for a stream that owns nothing. */
mend_free_reason mend_observe_reason(const mend_heap *heap, const mend_span *span, uint32_t asking);

/* All bytes that are reserved and not live, as a stream that owns nothing sees them: in steps of
 * some `spans`, between which the caller need not hold the two locks of the heap. *below is
 * UINT64_MAX at first. False: all are summed. Allocates nothing and does not call the driver. */
bool mend_observe_free(const mend_heap *heap, size_t spans, uint64_t *below, mend_live_free *sums);

enum { MEND_REMAINS_BYTES = 896 };

/* Writes how many ranges there are and their committed bytes; how many blocks are live, their
 * bytes, the three largest, the three holders with most of them, and what looks like a leak. False,
 * and "": there is none of both. The caller holds `state`. O(n). */
bool mend_observe_remains(const mend_heap *heap, char line[MEND_REMAINS_BYTES]);

/* ---- regions.c ------------------------------------------------------------------------------- */

/* Writes the regions, up to `capacity` of them, each `region_bytes` behind the one before, and
 * returns how many there are. The caller holds both locks of the heap. Allocates nothing and does
 * not call the driver. */
size_t mend_observe_regions(const mend_heap *heap, void *regions, size_t region_bytes,
                            size_t capacity);

/* ---- statistics.c ---------------------------------------------------------------------------- */

/* Fills every field except struct_size. No driver call; the caller holds `state`. O(1), but while
 * a driver refuses to map blocks again, and while there are groups. */
void mend_observe_statistics(mend_heap *heap, mend_stats *stats);

#endif
