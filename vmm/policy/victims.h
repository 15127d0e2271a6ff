/*
 * Victims: which partly used chunk a compaction empties. What a chunk costs to copy and what it
 * gains is measured without a driver; a pass keeps the candidates it found and the limits it has.
 *
 * Guarded by the heap's `state` lock.
 */
#ifndef MEND_POLICY_VICTIMS_H
#define MEND_POLICY_VICTIMS_H

#include "layout/layout.h"

/* Neighbouring pages of a chunk that live blocks touch, and the chunk that is to hold them. */
typedef struct mend_cluster {
    uint64_t address;
    uint64_t size_bytes;
    uint64_t live_address; /* from the first live byte to the end of the last: what is copied */
    uint64_t live_end;
    mend_chunk *chunk;
    bool is_created;  /* the chunk, for this compaction */
    mend_span *first; /* that reaches into it */
} mend_cluster;

/* What a compaction costs, and what it gives. */
typedef struct mend_compact_size {
    size_t clusters;
    uint64_t used_bytes;   /* of the clusters: what it needs elsewhere */
    uint64_t copied_bytes; /* of these, those that are copied */
    uint64_t gained_bytes; /* in pages without a live byte */
} mend_compact_size;

/* How far a pass goes; 0: no bound. */
typedef struct mend_compact_limits {
    uint64_t copied_bytes;
    uint64_t driver_calls;
    uint64_t duration_ns;
} mend_compact_limits;

typedef struct mend_compact_candidate {
    uint64_t number; /* of the chunk; 0: tried already */
    mend_compact_size size;
} mend_compact_candidate;

/* One pass over the heap: what could be compacted when it began, and what has been done. */
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
    mend_defrag_stop stop; /* why nothing was chosen last */
} mend_compact_pass;

/* A partly used chunk may change its place or its memory: no graph counts on it, and what is free
 * in it is idle. */
bool mend_victims_may_move(mend_heap *heap, const mend_chunk *chunk);

/* It is partly used, may move, and a page of it may be free. */
bool mend_victims_may_gain(mend_heap *heap, const mend_chunk *chunk);

/* Finds the clusters of a partly used chunk: `clusters`, if not NULL, has room for all. */
void mend_victims_measure(const mend_heap *heap, const mend_chunk *chunk, mend_cluster *clusters,
                          mend_compact_size *size);

/* Lists all chunks that a compaction would gain a page of. False when malloc fails. */
bool mend_victims_find(mend_compact_pass *pass);

/* The best one within the limits, `elapsed_ns` after the pass began, whose chunk may still move; it
 * is marked as tried. NULL when there is none: pass->stop says why. */
mend_chunk *mend_victims_choose(mend_compact_pass *pass, uint64_t need_bytes, uint64_t elapsed_ns);

#endif
