/* Readers of the heap: figures, regions, reasons, and the audit of all invariants. */
#ifndef MEND_OBSERVE_OBSERVE_H
#define MEND_OBSERVE_OBSERVE_H

#include <stdbool.h>

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

/* The place of a free byte in its chunk. An empty chunk can be mapped at any address. The edges of
 * a partly used chunk may join with the next chunk's; a hole between two live blocks joins with
 * nothing. */
typedef enum mend_free_place {
    MEND_FREE_EMPTY, /* in an empty chunk */
    MEND_FREE_EDGE,  /* before the first live byte of its chunk, or behind the last */
    MEND_FREE_HOLE,  /* between two live blocks of its chunk */
    MEND_FREE_PLACES
} mend_free_place;

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

/* Classes of block sizes: class 0 is up to 1 MiB, each next one up to twice as much; the last has
 * no bound. */
enum { MEND_EXPLAIN_CLASSES = 12, MEND_EXPLAIN_HOLDER_COUNTS = 4, MEND_EXPLAIN_EMPTIEST = 8 };

/* A sum over partly used chunks of one kind. */
typedef struct mend_partial_sum {
    uint64_t chunks;
    uint64_t free_bytes; /* free bytes in them */
} mend_partial_sum;

/* One partly used chunk, and the block with most bytes in it. What is lent to an alias counts as a
 * block; and so does an alias without blocks, as a chunk. */
typedef struct mend_partial_chunk {
    uint64_t address;
    uint64_t size_bytes;
    uint64_t free_bytes;
    uint64_t holders; /* live blocks that lie in it, completely or in part */
    int zone;
    uint64_t holder_address;
    uint64_t holder_bytes; /* size of the block */
    uint64_t held_bytes;   /* bytes of the block in this chunk */
} mend_partial_chunk;

typedef struct mend_explanation {
    uint64_t reserved_bytes;
    uint64_t live_bytes;
    uint64_t unmapped_bytes; /* in empty chunks that are not mapped, so in no zone */
    /* Together with unmapped_bytes: all bytes that are reserved and not live. */
    uint64_t free_bytes[MEND_ZONE_COUNT][MEND_FREE_PLACES][MEND_FREE_REASONS];

    /* Partly used chunks, by the size of the block with most bytes in each, and by the number of
     * blocks in each: 1, 2, 3 to 4, more. Each adds up to the free bytes of edges and holes. */
    mend_partial_sum by_holder_size[MEND_ZONE_COUNT][MEND_EXPLAIN_CLASSES];
    mend_partial_sum by_holder_count[MEND_ZONE_COUNT][MEND_EXPLAIN_HOLDER_COUNTS];
    /* Of these, chunks that contain no complete block: only blocks of neighbours overlap them. */
    mend_partial_sum reached_into[MEND_ZONE_COUNT];
    mend_partial_chunk emptiest[MEND_EXPLAIN_EMPTIEST]; /* those with most free bytes, in falling
                                                         * order */
    size_t emptiest_count;

    uint64_t lent_bytes;   /* live bytes of small requests that were placed in the large zone */
    uint64_t usable_bytes; /* the longest stretch of mapped free memory that the stream may use */
    uint64_t retired_mappings;
    uint64_t retired_bytes; /* bytes of addresses in retired mappings; their memory is counted
                             * elsewhere */
} mend_explanation;

/* Explains the heap from the view of the stream `asking`; MEND_STREAM_UNKNOWN: a stream that owns
 * nothing. Time proportional to the number of chunks and spans. Allocates nothing and does not call
 * the driver; the caller holds both locks of the heap. */
void mend_observe_explain(const mend_heap *heap, uint32_t asking, mend_explanation *explanation);

/* Free bytes for all reasons together; and those in partly used chunks of one zone. */
uint64_t mend_explanation_free_bytes(const mend_explanation *explanation);
uint64_t mend_explanation_partial_bytes(const mend_explanation *explanation, int zone);

/* The class of a block's size, and the largest size of a class (UINT64_MAX: no bound). */
size_t mend_explain_class(uint64_t size_bytes);
uint64_t mend_explain_class_bytes(size_t size_class);

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

/* Fills every field except struct_size. O(chunks), no driver call; the caller holds
 * `state`. */
void mend_observe_statistics(mend_heap *heap, mend_stats *stats);

/* Sets every peak to its current value. */
void mend_observe_reset_peaks(mend_heap *heap);

#endif
