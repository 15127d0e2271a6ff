/*
 * Aliases: one chunk, mapped a second time, so that a free part of it serves at another address.
 * The part is at the chunk's end or start, and continues other memory there. Each granule of the
 * chunk is used through one of its mappings only.
 *
 * An alias is a node in `mapped` with the address and the size of its part. The rest of its mapping
 * takes addresses, and belongs to nothing. It is in no other list, and its bytes are those of its
 * chunk: they are reserved once. While a chunk has an alias, or a transaction makes one, it is
 * held: never empty, so it keeps its mapping; and no compaction chooses it.
 *
 * Guarded by the heap's `state` lock.
 */
#ifndef MEND_PHYSICAL_ALIAS_H
#define MEND_PHYSICAL_ALIAS_H

#include "physical/chunk.h"

/* Holds a mapped chunk that will have an alias; and ends that. */
void mend_chunk_hold_for_alias(mend_chunks *chunks, mend_chunk *chunk);
void mend_chunk_end_hold_for_alias(mend_chunks *chunks, mend_chunk *chunk);

/* An alias, not mapped yet, for a part of a held chunk that is mapped once more at
 * `mapping_address`. The caller reserved a node of the slab. */
mend_chunk *mend_chunk_make_alias(mend_chunks *chunks, mend_chunk *chunk, uint64_t mapping_address,
                                  uint64_t size_bytes);

/* The end of an alias that is not mapped any more. The chunk stays held. */
void mend_chunk_drop_alias(mend_chunks *chunks, mend_chunk *alias);

#endif
