/*
 * Where the reserved memory of a pool is that is not live: every such byte once, by zone, by its
 * place in its chunk, and by the reason why a stream cannot use it. And which blocks keep partly
 * used chunks.
 */
#ifndef MEND_LAB_HEAP_EXPLAIN_H
#define MEND_LAB_HEAP_EXPLAIN_H

#include "pool/pool.h"
#include "record/record.h"

/* The place of a free byte in its chunk. An empty chunk can be mapped at any address. The edges of
 * a partly used chunk may join with the next chunk's. A hole between two live blocks joins with
 * nothing. */
typedef enum mend_free_place {
    MEND_FREE_EMPTY, /* in an empty chunk */
    MEND_FREE_EDGE,  /* before the first live byte of its chunk, or behind the last */
    MEND_FREE_HOLE,  /* between two live blocks of its chunk */
    MEND_FREE_PLACES
} mend_free_place;

/* Classes of block sizes: class 0 is up to 1 MiB, each next one up to twice as much. The last has
 * no bound. */
enum { MEND_EXPLAIN_CLASSES = 12, MEND_EXPLAIN_OWNER_COUNTS = 4, MEND_EXPLAIN_EMPTIEST = 8 };

/* A sum over partly used chunks of one kind. */
typedef struct mend_partial_sum {
    uint64_t chunks;
    uint64_t free_bytes; /* free bytes in them */
} mend_partial_sum;

/* One partly used chunk, and the block with most bytes in it. */
typedef struct mend_partial_chunk {
    uint64_t address;
    uint64_t size_bytes;
    uint64_t free_bytes;
    uint64_t owners; /* live blocks that lie in it, completely or in part */
    int zone;
    uint64_t owner_address;
    uint64_t owner_bytes; /* size of the block */
    uint64_t held_bytes;  /* bytes of the block in this chunk */
} mend_partial_chunk;

typedef struct mend_explanation {
    uint64_t reserved_bytes;
    uint64_t live_bytes;
    uint64_t unmapped_bytes; /* in empty chunks that are not mapped, so in no zone */
    /* Together with unmapped_bytes: all bytes that are reserved and not live. */
    uint64_t free_bytes[MEND_ZONE_COUNT][MEND_FREE_PLACES][MEND_FREE_REASONS];

    /* Partly used chunks, by the size of the block with most bytes in each, and by the number of
     * blocks in each: 1, 2, 3 to 4, more. Each adds up to the free bytes of edges and holes. */
    mend_partial_sum by_owner_size[MEND_ZONE_COUNT][MEND_EXPLAIN_CLASSES];
    mend_partial_sum by_owner_count[MEND_ZONE_COUNT][MEND_EXPLAIN_OWNER_COUNTS];
    /* Of these, chunks that contain no complete block: only blocks of neighbors overlap them. */
    mend_partial_sum reached_into[MEND_ZONE_COUNT];
    mend_partial_chunk emptiest[MEND_EXPLAIN_EMPTIEST]; /* those with most free bytes, in falling
                                                         * order */
    size_t emptiest_count;

    uint64_t lent_bytes;   /* live bytes of small requests that were placed in the large zone */
    uint64_t usable_bytes; /* the longest stretch of mapped free memory that the stream may use */
    uint64_t retired_mappings;
    uint64_t retired_bytes; /* bytes of addresses in retired mappings. Their memory is counted
                             * elsewhere */
} mend_explanation;

/* Explains a pool from the view of the stream `asking`. A stream that it does not know owns
 * nothing. Takes both locks. O(chunks and spans). MEND_ERROR_FORKED. */
mend_result mend_pool_explain(mend_pool *pool, mend_stream asking, mend_explanation *explanation);

/* Free bytes for all reasons together, and those in partly used chunks of one zone. */
uint64_t mend_explanation_free_bytes(const mend_explanation *explanation);
uint64_t mend_explanation_partial_bytes(const mend_explanation *explanation, int zone);

/* The class of a block's size, and the largest size of a class (UINT64_MAX: no bound). */
size_t mend_explain_class(uint64_t size_bytes);
uint64_t mend_explain_class_bytes(size_t size_class);

#endif
