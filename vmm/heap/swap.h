/*
 * Swaps at a quiet point: the live memory of a partly used chunk is copied to chunks no larger than
 * it needs, which take its place at the same addresses. The chunk is wholly free then; pointers and
 * contents stay. All work of the context has been waited for, and nobody launches any meanwhile:
 * the program has declared so.
 *
 * While a chunk is swapped it is *held*: its free memory is claimed, so that nobody takes it, and
 * what is freed in it is claimed at once (mend_layout_free). When the hold ends it is free memory
 * as any other. A new chunk stays held longer when the driver refuses to map it at its address: the
 * bytes are safe in it, its blocks cannot be used, and later calls try again.
 *
 * Both locks are held, the door is open; `state` is let go of around slow calls of the driver.
 */
#ifndef MEND_HEAP_SWAP_H
#define MEND_HEAP_SWAP_H

#include "heap/layout.h"

/* Neighbouring pages of a chunk that live blocks touch, and the chunk that is to hold them. */
typedef struct mend_cluster {
    uint64_t address;
    uint64_t size_bytes;
    uint64_t live_address; /* from the first live byte to the end of the last: what is copied */
    uint64_t live_end;
    mend_chunk *chunk;
    bool is_created;  /* the chunk, for this swap */
    mend_span *first; /* that reaches into it */
} mend_cluster;

/* What a swap costs, and what it gives. */
typedef struct mend_swap_size {
    size_t clusters;
    uint64_t used_bytes;   /* of the clusters: what it needs elsewhere */
    uint64_t copied_bytes; /* of these, those that are copied */
    uint64_t gained_bytes; /* in pages without a live byte */
} mend_swap_size;

/* How far a pass goes; 0: no bound. */
typedef struct mend_swap_limits {
    uint64_t copied_bytes;
    uint64_t driver_calls;
    uint64_t duration_ns;
} mend_swap_limits;

typedef struct mend_swap_candidate {
    uint64_t number; /* of the chunk; 0: tried already */
    mend_swap_size size;
} mend_swap_candidate;

/* One pass over the heap: what could be swapped when it began, and what has been done. */
typedef struct mend_swap_pass {
    mend_heap *heap;
    mend_swap_limits limits;
    uint64_t begun_ns;
    mend_swap_candidate *candidates;
    size_t candidate_count;
    uint64_t swaps;
    uint64_t copied_bytes;
    uint64_t gained_bytes;
    uint64_t driver_calls;
    mend_defrag_stop stop; /* why the last mend_swap_next did nothing */
} mend_swap_pass;

/* ---- a pass (swap_pass.c) ----------------------------------------------------------------------
 */

/*
 * Waits for the context on behalf of `asking`, gives blocks back what they miss, and looks for
 * candidates. mend_swap_end follows, whatever the result. MEND_ERROR_CAPTURING: a capture is known;
 * MEND_ERROR_OUT_OF_HOST_MEMORY, MEND_ERROR_DRIVER, MEND_ERROR_DEVICE_LOST.
 */
mend_result mend_swap_begin(mend_heap *heap, uint32_t asking, const mend_swap_limits *limits,
                            mend_swap_pass *pass);
void mend_swap_end(mend_swap_pass *pass);

/* The same for a request that found no room. MEND_ERROR_OUT_OF_MEMORY: it would find none after all
 * swaps either, or there can be none now. */
mend_result mend_swap_begin_for(mend_heap *heap, const mend_request *request, mend_swap_pass *pass);

/* One swap: of the candidate that copies least for each byte gained, of which no more than
 * `need_bytes` count. *swapped is false when none is left within the limits. Errors as begin: then
 * the heap is as it was before this swap, or blocks miss their mappings. */
mend_result mend_swap_next(mend_swap_pass *pass, uint64_t need_bytes, bool *swapped);

/* Room under the limit that requests leave alone where swaps are made for them, so that there is
 * memory to copy to; the last search before out of memory may have it. And what makes it anew, from
 * chunks that swaps have freed, as far as that goes. */
uint64_t mend_swap_most_kept_bytes(const mend_heap *heap);
static inline uint64_t mend_swap_kept_bytes(const mend_heap *heap)
{
    bool keeps_none = !heap->config.swap_when_full || heap->spends_last_room;
    return keeps_none ? 0 : mend_swap_most_kept_bytes(heap);
}
void mend_swap_keep_room(mend_heap *heap);

/* ---- choosing (swap_choose.c) ------------------------------------------------------------------
 */

/* A partly used chunk may change its place or its memory: no graph counts on it, and what is free
 * in it is idle. */
bool mend_chunk_may_move(mend_heap *heap, const mend_chunk *chunk);

/* It is partly used, may move, and a page of it may be free. */
bool mend_swap_may_gain(mend_heap *heap, const mend_chunk *chunk);

/* Finds the clusters of a partly used chunk: `clusters`, if not NULL, has room for all. */
void mend_swap_measure(const mend_heap *heap, const mend_chunk *chunk, mend_cluster *clusters,
                       mend_swap_size *size);

/* Lists all chunks that a swap would gain a page of. False when malloc fails. */
bool mend_swap_find_candidates(mend_swap_pass *pass);

/* The best one within the limits, whose chunk may still move; it is marked as tried. NULL when
 * there is none: pass->stop says why. */
mend_chunk *mend_swap_choose(mend_swap_pass *pass, uint64_t need_bytes);

/* ---- one swap (swap.c), and what it left missing (swap_restore.c) ------------------------------
 */

/* Swaps one chunk. Errors as mend_swap_next; MEND_ERROR_OUT_OF_MEMORY: there is no memory for it
 * elsewhere. */
mend_result mend_swap_chunk(mend_swap_pass *pass, mend_chunk *chunk);

/* Tries again to map what could not be mapped. MEND_OK: nothing is missing any more;
 * MEND_ERROR_OUT_OF_HOST_MEMORY, MEND_ERROR_DRIVER, MEND_ERROR_DEVICE_LOST. */
mend_result mend_swap_restore(mend_heap *heap);

/* The same on behalf of other calls, which do not fail with it. */
void mend_swap_try_restore(mend_heap *heap);

/* Asks the driver for what a held chunk misses at its address, and ends the hold when it has it
 * all. `first` is the span that reaches into the chunk first; runs for its spans were promised. */
mend_status mend_swap_restore_chunk(mend_heap *heap, mend_chunk *chunk, mend_span *first,
                                    mend_driver_call *refused);

/* The result of a refusal to restore. MEND_ERROR_DRIVER, MEND_ERROR_DEVICE_LOST. */
mend_result mend_swap_restoring_failed(mend_heap *heap, mend_driver_call call, mend_status status);

/* What is claimed in spans from `first` up to `end` is free memory again, as far as no chunk under
 * it is held. */
void mend_swap_end_claims(mend_heap *heap, mend_span *first, uint64_t end);

/* Spans from `first` up to the address. */
size_t mend_swap_count_spans(const mend_span *first, uint64_t end);

#endif
