/*
 * Where memory is that is reserved and not live: every such byte once, by zone, by its place in its
 * chunk, and by what keeps it from a stream; and the blocks that keep partly used chunks in place.
 */
#ifndef MEND_OBSERVE_EXPLAIN_H
#define MEND_OBSERVE_EXPLAIN_H

#include "layout/state.h"

/* Where in its chunk a free byte lies. An empty chunk can go to any place; of a partly used
 * one the edges can join with the next chunk's, what lies between two live blocks stays alone. */
typedef enum mend_free_place {
    MEND_FREE_EMPTY, /* in an empty chunk */
    MEND_FREE_EDGE,  /* before the first live byte of its chunk, or behind the last */
    MEND_FREE_HOLE,  /* between two live blocks of its chunk */
    MEND_FREE_PLACES
} mend_free_place;

/* What keeps it from the stream that asks. Of several reasons the last counts; an empty chunk
 * has one for all its bytes, for it is moved as one. */
typedef enum mend_free_reason {
    MEND_FREE_IDLE,       /* nothing, and it could be unmapped */
    MEND_FREE_OWN,        /* nothing, in the order of that stream; but work may still use it */
    MEND_FREE_STREAMS,    /* work of other streams may still use it */
    MEND_FREE_STREAMLESS, /* freed without a stream: only a wait for the context helps */
    MEND_FREE_GROUPS,     /* it is held for graphs */
    MEND_FREE_REASONS
} mend_free_reason;

/* Blocks by size: class 0 up to 1 MiB, each next one up to twice as much, the last without end. */
enum { MEND_EXPLAIN_CLASSES = 12, MEND_EXPLAIN_HOLDER_COUNTS = 4, MEND_EXPLAIN_EMPTIEST = 8 };

/* Partly used chunks of one kind. */
typedef struct mend_partial_sum {
    uint64_t chunks;
    uint64_t free_bytes; /* in them */
} mend_partial_sum;

/* One partly used chunk, and the block that holds most of it. */
typedef struct mend_partial_chunk {
    uint64_t address;
    uint64_t size_bytes;
    uint64_t free_bytes;
    uint64_t holders; /* live blocks that lie in it, all of them or a part */
    int zone;
    uint64_t holder_address;
    uint64_t holder_bytes; /* of the whole block */
    uint64_t held_bytes;   /* of the block, in this chunk */
} mend_partial_chunk;

typedef struct mend_explanation {
    uint64_t reserved_bytes;
    uint64_t live_bytes;
    uint64_t unmapped_bytes; /* in empty chunks mapped nowhere, which stand in no zone */
    /* With unmapped_bytes: exactly what is reserved and not live. */
    uint64_t free_bytes[MEND_ZONE_COUNT][MEND_FREE_PLACES][MEND_FREE_REASONS];

    /* Partly used chunks, by the size of the block that holds most of each, and by how many blocks
     * hold it: 1, 2, 3 to 4, more. Each sums up to the free bytes of edges and holes. */
    mend_partial_sum by_holder_size[MEND_ZONE_COUNT][MEND_EXPLAIN_CLASSES];
    mend_partial_sum by_holder_count[MEND_ZONE_COUNT][MEND_EXPLAIN_HOLDER_COUNTS];
    /* Of these, chunks in which no block lies wholly: neighbours alone reach into them. */
    mend_partial_sum reached_into[MEND_ZONE_COUNT];
    mend_partial_chunk emptiest[MEND_EXPLAIN_EMPTIEST]; /* with most free bytes, the most first */
    size_t emptiest_count;

    uint64_t lent_bytes;   /* live, of small requests that were placed in the large zone */
    uint64_t usable_bytes; /* the longest stretch of mapped free memory the stream may use */
    uint64_t retired_mappings;
    uint64_t retired_bytes; /* of addresses, behind which no memory is held that is not counted */
} mend_explanation;

/* Explains the heap as `asking` finds it; MEND_STREAM_UNKNOWN: a stream that owns nothing. In a
 * time proportional to all it holds. Allocates nothing, no driver call; under both locks of the
 * heap. */
void mend_observe_explain(const mend_heap *heap, uint32_t asking, mend_explanation *explanation);

/* What is free, by all causes together; in partly used chunks alone, of one zone. */
uint64_t mend_explanation_free_bytes(const mend_explanation *explanation);
uint64_t mend_explanation_partial_bytes(const mend_explanation *explanation, int zone);

/* The class of a block's size, and the most that a class holds (UINT64_MAX: no bound). */
size_t mend_explain_class(uint64_t size_bytes);
uint64_t mend_explain_class_bytes(size_t size_class);

#endif
