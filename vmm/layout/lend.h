/*
 * A part of a chunk is lent to an alias of it (physical/alias.h): a span at the chunk's own address
 * that counts as live, but is no block, and the same bytes as free memory at the alias. Nothing
 * here fails or calls the driver; callers reserve the nodes.
 */
#ifndef MEND_LAYOUT_LEND_H
#define MEND_LAYOUT_LEND_H

#include "layout/layout.h"

/* Takes free memory of a chunk, at the chunk's end or start, out of reach of other threads, and
 * holds the chunk; and puts it back. */
mend_span *mend_layout_claim_end(mend_heap *heap, mend_chunk *chunk, uint64_t address,
                                 uint64_t size_bytes);
void mend_layout_end_claim_of_end(mend_heap *heap, mend_chunk *chunk, mend_span *span);

/* Lends a claimed part to an alias of its chunk, which is mapped once more at `mapping_address`.
 * There it is free memory, with what it waits for. */
void mend_layout_lend(mend_heap *heap, mend_chunk *chunk, mend_span *span,
                      uint64_t mapping_address);

/* Whether nothing needs the alias: no block, pin or captured graph. */
bool mend_layout_is_alias_unused(const mend_heap *heap, const mend_chunk *alias);

/* Ends an unused alias: its part is free memory of the chunk again, and waits for what used it.
 * Adds that to *waits, for the mapping. */
void mend_layout_take_back(mend_heap *heap, mend_chunk *alias, mend_waits *waits);

#endif
