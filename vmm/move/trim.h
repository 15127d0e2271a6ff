/* Giving empty chunks back, for callers with an open driver scope. */
#ifndef MEND_MOVE_TRIM_H
#define MEND_MOVE_TRIM_H

#include "policy/plan.h"

/* Tries to map what is missing, and gives back idle empty chunks until at most `keep_bytes` are
 * reserved; `to_create`: only chunks from whose memory others can be created. Errors as
 * mend_trim. */
mend_result mend_trim_to(mend_heap *heap, uint64_t keep_bytes, bool to_create,
                         uint64_t *released_bytes);

/* The same, but only chunks that no block has used for `unused_ns` by the driver's clock, as far as
 * earlier calls of this function saw. Without such a chunk there is no driver call. */
mend_result mend_trim_unused(mend_heap *heap, uint64_t unused_ns, uint64_t *released_bytes);

/* Gives back one idle empty chunk that the plan does not use: the smallest one with at least the
 * bytes that the plan lacks. *released is false if there is none, or if it could not be given back:
 * it stays as free memory. Calls the driver; fails only if the context is lost. */
mend_result mend_trim_one(mend_heap *heap, uint32_t asking, mend_plan *plan, bool *released);

/*
 * Gives back idle empty chunks that the plan does not use, until there are as many bytes as the
 * plan lacks: the smallest one that is enough, or several, the largest first. *released is false if
 * there are not enough, or if not all could be given back. Errors as mend_trim_one, or
 * MEND_ERROR_OUT_OF_HOST_MEMORY.
 */
mend_result mend_trim_for(mend_heap *heap, uint32_t asking, mend_plan *plan, bool *released);

/* Unmaps idle empty chunks that are mapped between two addresses; then they are mapped nowhere, and
 * stay free memory. What is not idle, or refused by the driver, stays. Errors as mend_trim_for:
 * only some are unmapped. */
mend_result mend_trim_between(mend_heap *heap, uint64_t from, uint64_t end, uint32_t asking);

/* A chunk that lacks memory, and one that has it. */
typedef struct mend_trim_match {
    mend_chunk *chunk;
    mend_chunk *found; /* unmapped, empty and of the same size; NULL: none */
} mend_trim_match;

/*
 * Unmaps an idle empty chunk for each of these chunks, which ascend by size, as far as there are
 * such, but none that can be shared less than what the pool would create. What it found is free
 * memory still, and the caller's while it holds the grow lock. During a capture it finds only what
 * is not mapped. Calls the driver; what it refuses is not found, and it fails only if the context
 * is lost.
 */
mend_result mend_trim_match_sizes(mend_heap *heap, mend_trim_match *matches, size_t count);

/* Whether mend_trim_one would find a chunk to give back. `may_unmap`: also one that is mapped.
 * Takes idle what is known to be. No driver call. */
bool mend_trim_finds_one(mend_heap *heap, mend_plan *plan, bool may_unmap);

/* Called if addresses are short: unmaps idle empty chunks, which can then be mapped anywhere, and
 * frees empty reservations. True if any addresses became free. Calls the driver; what it refuses
 * stays. */
bool mend_trim_addresses(mend_heap *heap, uint32_t asking);

#endif
