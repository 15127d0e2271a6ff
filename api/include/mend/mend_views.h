/* What a pool shows of itself: its memory, region by region. mend.h includes this file. */
#ifndef MEND_MEND_VIEWS_H
#define MEND_MEND_VIEWS_H

#include <stddef.h>
#include <stdint.h>

#include "mend/mend_results.h"
#include "mend/mend_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- regions --------------------------------------------------------------------------------- */

/* The kind of a region. Later versions may add kinds. */
typedef enum mend_region_kind {
    MEND_REGION_LIVE = 1,   /* a live block */
    MEND_REGION_FREE = 2,   /* free memory, and known to be idle */
    MEND_REGION_WAITING = 3 /* free memory that work or graphs may still use */
} mend_region_kind;

/* A stretch of mapped memory in one state: a live block, or free memory of which each byte has the
 * same fields. It may span several chunks. Fields may be added at the end. */
typedef struct mend_region {
    void *address;
    uint64_t size_bytes;      /* of a block: rounded up to 512 */
    void *segment;            /* the start of the contiguous mapped addresses that it lies in */
    int kind;                 /* a mend_region_kind */
    int is_small;             /* 1: in the small zone, whose chunks are small */
    int is_pinned;            /* 1: in a pinned chunk (a block: one of its chunks is); see
                               * mend_pin */
    int is_for_graphs;        /* 1: kept for captured graphs: for those of `group`, or, if that is
                               * NULL, of a capture outside of groups */
    uint64_t requested_bytes; /* of a block: the size asked for; 0: free memory */
    mend_stream stream;       /* of a block: the stream that it was allocated for. Of waiting
                               * memory: the stream that may still use it. MEND_NO_STREAM: none,
                               * several, or one that the program has forgotten */
    mend_group *group;        /* the group that the memory belongs to; NULL: none */
    uint64_t tag;             /* of a block: the tag that it was allocated with; 0: none */
    int is_unmapped;          /* 1: a compaction could not map it again (of a block: a part of it),
                               * and it cannot be used now; see mend_defrag */
} mend_region;

/*
 * Lists all mapped memory of the pool by rising address, as one consistent picture: the regions of
 * a segment follow each other without a gap. Free regions that touch differ in a field. Retired
 * mappings, and empty chunks that are mapped nowhere, are in no region. What a region says of work
 * is what the pool knows without asking the driver: waiting memory may be idle by now.
 *
 * Fills `regions` with *count elements of `region_bytes` each: pass sizeof(mend_region). If there
 * are more than `capacity`, only *count is set, to their number; call again with more room, because
 * the pool may have changed. `regions` may be NULL if `capacity` is 0. The time is proportional to
 * the number of blocks, chunks and pieces of free memory. Waits for a thread that makes room; no
 * driver call. MEND_OK; MEND_ERROR_INVALID_ARGUMENT (`region_bytes` is 0 or ends inside a field).
 */
MEND_API mend_result mend_get_regions(mend_pool *pool, mend_region *regions, size_t region_bytes,
                                      size_t capacity, size_t *count);

#ifdef __cplusplus
}
#endif

#endif
