/* The audit of sleeping chunks: each is held by nothing, and what is kept of them is counted. */
#include "layout/layout.h"
#include "move/move.h"
#include "observe/audit_parts.h"
#include "sleep/sleep.h"

#define CHUNK_OF(node) MEND_CONTAINER_OF(node, mend_chunk, by_address)

typedef struct sums {
    uint64_t chunks;
    uint64_t bytes;
    uint64_t live_bytes;
    uint64_t away;
    uint64_t away_bytes;
    uint64_t host_bytes;
    uint64_t file_bytes;
    uint64_t room_bytes;
    uint64_t away_in[MEND_ZONE_COUNT]; /* also on the host */
} sums;

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
        host_bytes += piece->keep == MEND_KEEP_HOST ? piece->size_bytes : 0;
        file_bytes += piece->keep == MEND_KEEP_FILE ? piece->size_bytes : 0;
    }
    return end <= chunk->size_bytes && host_bytes == kept->host_bytes &&
           file_bytes == kept->file_bytes && (host_bytes > 0) == (kept->host != NULL) &&
           kept->room_bytes >= host_bytes && (host_bytes > 0 || kept->room_bytes == 0) &&
           (file_bytes > 0) == (kept->file != NULL) && kept->address == chunk->address;
}

/* What wakes left on the host is counted, and no more than the limit, nor than what ever slept. */
static bool copies_are_right(const mend_audit_walk *a, uint64_t asleep_room_bytes)
{
    const mend_keeping *keeping = &a->heap->keeping;
    uint64_t bytes = 0;
    bool is_right = mend_tree_is_valid(&keeping->copies) &&
                    mend_tree_is_valid(&keeping->copies_by_room) &&
                    keeping->copies_by_room.count == keeping->copies.count;
    for (const mend_tree_node *at = is_right ? mend_tree_first(&keeping->copies) : NULL; at != NULL;
         at = mend_tree_next(at)) {
        const mend_kept *copy = MEND_CONTAINER_OF(at, mend_kept, by_address);
        bytes += copy->room_bytes;
        is_right = is_right && copy->host != NULL && copy->file == NULL &&
                   copy->room_bytes >= copy->host_bytes;
    }
    return (is_right && bytes == keeping->copies_bytes && bytes <= keeping->copies_limit &&
            bytes + asleep_room_bytes == keeping->room_bytes &&
            keeping->room_bytes <= keeping->most_bytes) ||
           mend_audit_broken(a, "the copies that wakes left are wrong");
}

/* Of what lies in the chunk. */
static bool lost_contents_are_known(const mend_audit_walk *a, const mend_chunk *chunk)
{
    const uint64_t end = chunk->address + chunk->size_bytes;
    for (const mend_span *span = mend_heap_span_at(a->heap, chunk->address);
         span != NULL && span->address < end; span = span->next) {
        if (span->live && !span->contents_dropped && !mend_keep_has_part(chunk, span)) {
            return mend_audit_broken(a, "the block 0x%llx does not know that a sleep dropped it",
                                     MEND_AUDIT_HEX(span->address));
        }
    }
    return true;
}

static bool chunk_is_right(const mend_audit_walk *a, const mend_chunk *chunk)
{
    bool has_memory = chunk->missing != MEND_MISSING_MEMORY;
    if (!chunk->is_frozen || chunk->missing == MEND_MISSING_NOTHING || chunk->pins != 0 ||
        chunk->aliases != 0 || mend_chunk_is_alias(chunk) || mend_chunk_is_exported(chunk) ||
        has_memory != (chunk->handle != 0) ||
        (has_memory && mend_retire_holds(a->heap, chunk->handle) != NULL)) {
        return mend_audit_broken(a, "the chunk 0x%llx sleeps, and is in use",
                                 MEND_AUDIT_HEX(chunk->address));
    }
    if (!pieces_are_right(chunk)) {
        return mend_audit_broken(a, "what is kept of the chunk 0x%llx is wrong",
                                 MEND_AUDIT_HEX(chunk->address));
    }
    return lost_contents_are_known(a, chunk);
}

/* What is owed of chunks is noted; nothing else has these kinds. */
static bool chunks_owe_what_is_noted(const mend_audit_walk *a, uint64_t count, bool is_right)
{
    const mend_owing *owing = &a->heap->chunks.owing;
    for (const mend_tree_node *at = mend_tree_first(&a->heap->chunks.all); at != NULL;
         at = mend_tree_next(at)) {
        const mend_chunk *chunk = MEND_CONTAINER_OF(at, mend_chunk, by_number);
        is_right = is_right && chunk->owed.kind == mend_chunk_owes(chunk);
        count += chunk->owed.kind != MEND_OWED_NOTHING;
    }
    return (is_right && count == (uint64_t)owing->count[MEND_OWED_RESTORE] +
                                     owing->count[MEND_OWED_END] + owing->count[MEND_OWED_MEMORY] +
                                     owing->count[MEND_OWED_SPARE] +
                                     owing->count[MEND_OWED_GRAPHS]) ||
           mend_audit_broken(a, "what is owed of chunks is not noted");
}

static bool counts_aside_are_right(const mend_audit_walk *a, const sums *s)
{
    const mend_chunks *chunks = &a->heap->chunks;
    bool is_right = true;
    for (int zone = 0; zone < MEND_ZONE_COUNT; zone++) {
        is_right = is_right && s->away_in[zone] == chunks->away_in[zone];
    }
    return is_right || mend_audit_broken(a, "the counts of what is set aside are wrong");
}

bool mend_audit_asleep(const mend_audit_walk *a)
{
    const mend_chunks *chunks = &a->heap->chunks;
    const mend_keeping *keeping = &a->heap->keeping;
    sums s = {0};
    uint64_t owed = 0;
    bool is_noted = true;
    for (const mend_tree_node *at = mend_tree_first(&chunks->mapped); at != NULL;
         at = mend_tree_next(at)) {
        const mend_chunk *chunk = CHUNK_OF(at);
        bool is_away = chunk->missing == MEND_MISSING_MEMORY;
        s.away_in[chunk->zone] += is_away || chunk->on_host ? chunk->size_bytes : 0;
        if (!mend_chunk_sleeps(chunk)) {
            if (is_away) {
                return mend_audit_broken(a, "the chunk 0x%llx lacks memory, and does not sleep",
                                         MEND_AUDIT_HEX(chunk->address));
            }
            continue;
        }
        s.chunks++;
        s.bytes += chunk->size_bytes;
        s.live_bytes += chunk->live_bytes;
        s.away += is_away;
        owed += is_away && chunk->owed.kind != MEND_OWED_NOTHING;
        is_noted = is_noted && chunk->owed.kind == mend_chunk_owes(chunk);
        s.away_bytes += is_away ? chunk->size_bytes : 0;
        s.host_bytes += chunk->kept->host_bytes;
        s.file_bytes += chunk->kept->file_bytes;
        s.room_bytes += chunk->kept->room_bytes;
        if (!chunk_is_right(a, chunk)) {
            return false;
        }
    }
    return chunks_owe_what_is_noted(a, owed, is_noted) && counts_aside_are_right(a, &s) &&
           copies_are_right(a, s.room_bytes) &&
           ((s.chunks == chunks->asleep_count && s.bytes == chunks->asleep_bytes &&
             s.live_bytes == chunks->asleep_live_bytes && s.away == chunks->away_count &&
             s.away_bytes == chunks->away_bytes && s.host_bytes == keeping->host_bytes &&
             s.file_bytes == keeping->file_bytes) ||
            mend_audit_broken(a, "the counts of what sleeps are wrong"));
}
