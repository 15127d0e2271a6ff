/*
 * Aliases: one chunk, mapped a second time, so that a free part of it serves at another address.
 * The part is at the chunk's end or start, and continues other memory there. Each granule of the
 * chunk is used through one of its mappings only.
 */
#include "physical/chunk.h"

void mend_chunk_hold_for_alias(mend_chunks *chunks, mend_chunk *chunk)
{
    assert(chunk->address != 0);
    assert(!chunk->is_frozen);
    assert(!mend_chunk_is_alias(chunk));
    mend_chunk_hold(chunks, chunk);
    chunk->aliases++;
}

void mend_chunk_end_hold_for_alias(mend_chunks *chunks, mend_chunk *chunk)
{
    assert(chunk->aliases > 0);
    chunk->aliases--;
    mend_chunk_end_hold(chunks, chunk);
}

mend_chunk *mend_chunk_make_alias(mend_chunks *chunks, mend_chunk *chunk, uint64_t mapping_address,
                                  uint64_t size_bytes)
{
    assert(chunk->aliases > 0);
    assert(size_bytes < chunk->size_bytes);
    mend_chunk *alias = mend_slab_take(&chunks->slab);
    alias->memory.handle = chunk->memory.handle;
    alias->alias.of = chunk;
    alias->alias.mapping_address = mapping_address;
    alias->size_bytes = size_bytes;
    alias->holds = 1;
    alias->memory.share_types = chunk->memory.share_types;
    mend_list_init(&alias->newly);
    mend_list_init(&alias->noted);
    mend_owe(&chunks->owing, &alias->owed, MEND_OWED_ALIAS, mapping_address);
    chunks->lent_bytes += size_bytes;
    return alias;
}

void mend_chunk_drop_alias(mend_chunks *chunks, mend_chunk *alias)
{
    assert(mend_chunk_is_alias(alias));
    assert(alias->address == 0);
    assert(alias->live_bytes == 0);
    assert(alias->holds == 1);
    assert(chunks->lent_bytes >= alias->size_bytes);
    mend_owe(&chunks->owing, &alias->owed, MEND_OWED_NOTHING, 0);
    chunks->lent_bytes -= alias->size_bytes;
    mend_slab_give(&chunks->slab, alias);
}
