/* The audit of chunks on the host: each is frozen, and counted apart from memory of the device. */
#include "observe/audit_parts.h"

static bool chunk_is_right(const mend_audit_walk *a, const mend_chunk *chunk)
{
    return (chunk->is_frozen == (chunk->address != 0) && !mend_chunk_sleeps(chunk) &&
            !mend_chunk_is_exported(chunk) && chunk->aliases == 0 && chunk->handle != 0 &&
            !mend_chunk_is_empty(chunk) && chunk->zone != MEND_ZONE_RANGE) ||
           mend_audit_broken(a, "the chunk 0x%llx on the host is not set aside",
                             MEND_AUDIT_HEX(chunk->address));
}

bool mend_audit_on_host(const mend_audit_walk *a)
{
    const mend_chunks *chunks = &a->heap->chunks;
    uint64_t count = 0;
    uint64_t bytes = 0;
    uint64_t live_bytes = 0;
    uint64_t spare_bytes = 0;
    for (const mend_tree_node *at = mend_tree_first(&chunks->all); at != NULL;
         at = mend_tree_next(at)) {
        const mend_chunk *chunk = MEND_CONTAINER_OF(at, mend_chunk, by_number);
        if (!chunk->on_host) {
            continue;
        }
        if (!chunk_is_right(a, chunk)) {
            return false;
        }
        bool is_mapped = chunk->address != 0;
        count += is_mapped;
        bytes += is_mapped ? chunk->size_bytes : 0;
        live_bytes += chunk->live_bytes;
        spare_bytes += is_mapped ? 0 : chunk->size_bytes;
    }
    return (count == chunks->host_count && bytes == chunks->host_bytes &&
            live_bytes == chunks->host_live_bytes && spare_bytes == chunks->host_spare_bytes) ||
           mend_audit_broken(a, "the counts of what is on the host are wrong");
}
