/*
 * Victims: which partly used chunk a compaction empties. What a chunk costs to copy and what it
 * gains is computed without the driver. A pass keeps the candidates and its limits.
 *
 * Guarded by the heap's `state` lock.
 */
#ifndef MEND_POLICY_VICTIMS_H
#define MEND_POLICY_VICTIMS_H

#include "layout/layout.h"

/* Neighbouring pages of a chunk with live blocks, and the chunk that will replace them. */
typedef struct mend_cluster {
    uint64_t address;
    uint64_t size_bytes;
    uint64_t live_address; /* from the first live byte to the end of the last one: the bytes to
                            * copy */
    uint64_t live_end;
    mend_chunk *chunk;
    bool is_created;  /* the chunk was created for this compaction */
    mend_span *first; /* first span that overlaps it */
} mend_cluster;

/* The cost and the gain of a compaction. */
typedef struct mend_compact_size {
    size_t clusters;
    uint64_t used_bytes;   /* bytes of all clusters: memory needed elsewhere */
    uint64_t copied_bytes; /* bytes to copy */
    uint64_t gained_bytes; /* bytes of pages without a live byte */
} mend_compact_size;

/* The limits of a pass; 0: none. */
typedef struct mend_compact_limits {
    uint64_t copied_bytes;
    uint64_t driver_calls;
    uint64_t duration_ns;
} mend_compact_limits;

typedef struct mend_compact_candidate {
    uint64_t number; /* number of the chunk; 0: already tried */
    mend_compact_size size;
} mend_compact_candidate;

/* A pass over the heap: the candidates at its beginning, and what has been done. */
typedef struct mend_compact_pass {
    mend_heap *heap;
    mend_compact_limits limits;
    uint64_t begun_ns;
    mend_compact_candidate *candidates;
    size_t candidate_count;
    uint64_t compactions;
    uint64_t copied_bytes;
    uint64_t gained_bytes;
    uint64_t driver_calls;
    mend_defrag_stop stop; /* why nothing was chosen the last time */
} mend_compact_pass;

/* Whether a partly used chunk may move: no graph uses it, and its free memory is idle. */
bool mend_victims_may_move(mend_heap *heap, const mend_chunk *chunk);

/* Whether the chunk is partly used, may move, and may have a page without live bytes. */
bool mend_victims_may_gain(mend_heap *heap, const mend_chunk *chunk);

/* Finds the clusters of a partly used chunk. `clusters` has room for all, or is NULL. */
void mend_victims_measure(const mend_heap *heap, const mend_chunk *chunk, mend_cluster *clusters,
                          mend_compact_size *size);

/* Lists all chunks from which a compaction would gain a page. False if malloc fails. */
bool mend_victims_find(mend_compact_pass *pass);

/* Chooses the best chunk within the limits that may still move, `elapsed_ns` after the pass began,
 * and marks it as tried. NULL: there is none, and pass->stop says why. */
mend_chunk *mend_victims_choose(mend_compact_pass *pass, uint64_t need_bytes, uint64_t elapsed_ns);

#endif
