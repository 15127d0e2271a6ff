/* The audit of sleeping chunks: each is held by nothing, and what is kept of them is counted. */
#include "layout/layout.h"
#include "move/move.h"
#include "observe/audit_parts.h"
#include "sleep/sleep.h"

/* The pieces lie in the chunk, one behind the other, and fill what is kept. */
static bool pieces_are_right(const mend_chunk *chunk)
{
    const mend_kept *kept = chunk->kept;
    uint64_t end = 0;
    uint64_t host_bytes = 0;
    uint64_t file_bytes = 0;
    for (size_t i = 0; i < kept->piece_count; i++) {
        const mend_kept_piece *piece = &kept->pieces[i];
        if (piece->offset_bytes < end || piece->size_bytes == 0 ||
            (piece->keep != MEND_KEEP_HOST && piece->keep != MEND_KEEP_FILE)) {
            return false;
        }
        end = piece->offset_bytes + piece->size_bytes;
        *(piece->keep == MEND_KEEP_HOST ? &host_bytes : &file_bytes) += piece->size_bytes;
    }
    return end <= chunk->size_bytes && host_bytes == kept->host_bytes &&
           file_bytes == kept->file_bytes && (host_bytes > 0) == (kept->host != NULL) &&
           kept->room_bytes >= host_bytes && (host_bytes > 0 || kept->room_bytes == 0) &&
           (file_bytes > 0) == (kept->file != NULL) && kept->address == chunk->address;
}

bool mend_audit_asleep(mend_audit_walk *a, const mend_chunk *chunk)
{
    bool has_memory = chunk->missing != MEND_MISSING_MEMORY;
    MUST(chunk->is_frozen && chunk->missing != MEND_MISSING_NOTHING && chunk->pins == 0 &&
             chunk->aliases == 0 && !mend_chunk_is_exported(chunk) &&
             has_memory == (chunk->memory.handle != 0) &&
             !(has_memory && mend_retire_holds(a->heap, chunk->memory.handle) != NULL),
         "the chunk 0x%llx sleeps, and is in use", MEND_AUDIT_HEX(chunk->address));
    MUST(pieces_are_right(chunk), "what is kept of the chunk 0x%llx is wrong",
         MEND_AUDIT_HEX(chunk->address));
    a->kept.host_bytes += chunk->kept->host_bytes;
    a->kept.file_bytes += chunk->kept->file_bytes;
    a->kept.room_bytes += chunk->kept->room_bytes;
    const uint64_t end = chunk->address + chunk->size_bytes;
    for (const mend_span *span = mend_heap_span_at(a->heap, chunk->address);
         span != NULL && span->address < end; span = span->next) {
        MUST(!span->live || span->contents_dropped || mend_keep_has_part(chunk, span),
             "the block 0x%llx does not know that a sleep dropped it",
             MEND_AUDIT_HEX(span->address));
    }
    return true;
}

/* What wakes left on the host is counted, and no more than the limit, nor than what ever slept. */
bool mend_audit_kept(const mend_audit_walk *a)
{
    const mend_keeping *keeping = &a->heap->keeping;
    uint64_t bytes = 0;
    bool is_right = mend_tree_is_valid(&keeping->copies) &&
                    mend_tree_is_valid(&keeping->copies_by_room) &&
                    keeping->copies_by_room.count == keeping->copies.count;
    MUST(is_right, "a tree of copies is out of order");
    MEND_TREE_EACH(const mend_kept, copy, by_address, &keeping->copies) {
        bytes += copy->room_bytes;
        is_right = is_right && copy->host != NULL && copy->file == NULL &&
                   copy->room_bytes >= copy->host_bytes;
    }
    MUST(is_right && bytes == keeping->copies_bytes && bytes <= keeping->copies_limit &&
             bytes + a->kept.room_bytes == keeping->room_bytes &&
             keeping->room_bytes <= keeping->most_bytes,
         "the copies that wakes left are wrong");
    MUST(a->kept.host_bytes == keeping->host_bytes && a->kept.file_bytes == keeping->file_bytes,
         "the counts of what is kept are wrong");
    return true;
}
