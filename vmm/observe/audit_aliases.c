/* The audit of aliases: each is one part of one chunk, which is lent to it alone. */
#include "layout/layout.h"
#include "observe/audit_parts.h"
#include "users/users.h"

#define CHUNK_OF(node) MEND_CONTAINER_OF(node, mend_chunk, by_address)

static uint64_t aliases_of(const mend_heap *heap, const mend_chunk *chunk)
{
    uint64_t count = 0;
    const mend_tree_node *at = mend_tree_first(&heap->chunks.mapped);
    for (; at != NULL; at = mend_tree_next(at)) {
        count += CHUNK_OF(at)->alias_of == chunk;
    }
    return count;
}

/* The lent span and the alias are the same part of the chunk, at its end or its start. */
static bool part_is_right(const mend_heap *heap, const mend_chunk *alias)
{
    const mend_chunk *chunk = alias->alias_of;
    const mend_span *span = alias->lent;
    const uint64_t offset_bytes = alias->address - alias->mapping_address;
    return offset_bytes < chunk->size_bytes && alias->size_bytes < chunk->size_bytes &&
           (offset_bytes == 0 || offset_bytes + alias->size_bytes == chunk->size_bytes) &&
           mend_heap_span_at(heap, chunk->address + offset_bytes) == span && span->lent &&
           span->address == chunk->address + offset_bytes && span->size_bytes == alias->size_bytes;
}

static bool alias_is_right(const mend_audit_walk *a, const mend_chunk *alias)
{
    const mend_chunk *chunk = alias->alias_of;
    if (chunk->address == 0 || mend_chunk_is_alias(chunk) || chunk->is_frozen ||
        chunk->handle != alias->handle || chunk->zone != alias->zone ||
        chunk->aliases != aliases_of(a->heap, chunk)) {
        return mend_audit_broken(a, "the alias 0x%llx has no chunk, or one that is not held for it",
                                 MEND_AUDIT_HEX(alias->address));
    }
    if (alias->is_frozen || alias->aliases != 0 || alias->number != 0 ||
        alias->holds != mend_chunk_holds(alias) || alias->pins != mend_pins_of(a->heap, alias) ||
        mend_chunk_is_exported(alias)) {
        return mend_audit_broken(a, "the alias 0x%llx is counted as a chunk of its own",
                                 MEND_AUDIT_HEX(alias->address));
    }
    return part_is_right(a->heap, alias) ||
           mend_audit_broken(a, "the alias 0x%llx is not the part that is lent to it",
                             MEND_AUDIT_HEX(alias->address));
}

/* Each lent span belongs to an alias, because their bytes are equal and no two aliases have the
 * same. */
bool mend_audit_aliases(const mend_audit_walk *a)
{
    const mend_heap *heap = a->heap;
    uint64_t count = 0;
    uint64_t bytes = 0;
    uint64_t held = 0;
    const mend_tree_node *at = mend_tree_first(&heap->chunks.all);
    for (; at != NULL; at = mend_tree_next(at)) {
        held += MEND_CONTAINER_OF(at, mend_chunk, by_number)->aliases;
    }
    at = mend_tree_first(&heap->chunks.mapped);
    for (; at != NULL; at = mend_tree_next(at)) {
        const mend_chunk *chunk = CHUNK_OF(at);
        if (mend_chunk_is_alias(chunk)) {
            count++;
            bytes += chunk->size_bytes;
            if (!alias_is_right(a, chunk)) {
                return false;
            }
        }
    }
    return (count == heap->chunks.owing.count[MEND_OWED_ALIAS] && held == count &&
            bytes == a->lent_bytes && bytes == heap->chunks.lent_bytes) ||
           mend_audit_broken(a, "the counts of aliases and of what is lent are wrong");
}
