/*
 * The audit of chunks: each has what its state says, and what is counted of all of them is counted
 * again.
 */
#include "alloc/users.h"
#include "check/audit_parts.h"
#include "layout/layout.h"
#include "map/map.h"
#include "share/share.h"
#include "sleep/keep.h"

/* X(figure): sums over chunks. */
#define CHUNK_SUMS(X)                                                                              \
    X(reserved_bytes)                                                                              \
    X(empty_unmapped_bytes)                                                                        \
    X(unmapped_bytes)                                                                              \
    X(pinned_bytes)                                                                                \
    X(exported_bytes)                                                                              \
    X(frozen_count)                                                                                \
    X(missing_count)                                                                               \
    X(asleep_count)                                                                                \
    X(away_count)                                                                                  \
    X(away_bytes)                                                                                  \
    X(unmapped_frozen_count)                                                                       \
    X(unmapped_frozen_bytes)                                                                       \
    X(asleep_bytes)                                                                                \
    X(asleep_live_bytes)                                                                           \
    X(away_in[MEND_ZONE_SMALL])                                                                    \
    X(away_in[MEND_ZONE_LARGE])                                                                    \
    X(away_in[MEND_ZONE_RANGE])                                                                    \
    X(away_live_in[MEND_ZONE_SMALL])                                                               \
    X(away_live_in[MEND_ZONE_LARGE])                                                               \
    X(away_live_in[MEND_ZONE_RANGE])                                                               \
    X(reserved_in[MEND_ZONE_SMALL])                                                                \
    X(reserved_in[MEND_ZONE_LARGE])                                                                \
    X(reserved_in[MEND_ZONE_RANGE])

/* Beside the sums. */
typedef struct numbers {
    uint64_t empty, mapped, owing;
    uint64_t empty_in[MEND_CHUNK_ZONES];
} numbers;

/* ---- what lies in a mapped chunk ------------------------------------------------------------- */

/* Whether the memory still waits for what holds the chunk. */
static bool is_held(mend_stamp held_by, const mend_span *span)
{
    const mend_wait first = {span->waits.first, span->waits.others};
    const mend_wait *at = &first;
    while (at != NULL && (at->stamp.stream != held_by.stream || at->stamp.epoch < held_by.epoch)) {
        at = at->next;
    }
    return at != NULL;
}

static bool spans_are_right(const mend_audit_walk *a, const mend_chunk *chunk,
                            const mend_span **lowest)
{
    uint64_t live_bytes = 0;
    bool held = mend_stamp_has_passed(&a->heap->streams, chunk->held_by);
    uint64_t end = chunk->address + chunk->size_bytes;
    const mend_span *span = mend_layout_last_span(a->heap, chunk, *lowest);
    MUST(span != NULL, "chunk 0x%llx has no spans", MEND_AUDIT_HEX(chunk->address));
    for (; span != NULL && mend_span_end(span) > chunk->address; span = span->previous) {
        uint64_t from = mend_max_u64(span->address, chunk->address);
        uint64_t to = mend_min_u64(mend_span_end(span), end);
        live_bytes += span->live ? to - from : 0;
        held = held || is_held(chunk->held_by, span);
        *lowest = span;
    }
    MUST(held, "nothing in the chunk 0x%llx waits for what holds it",
         MEND_AUDIT_HEX(chunk->address));
    MUST(live_bytes == chunk->live_bytes, "chunk 0x%llx: %llu bytes are live, %llu are counted",
         MEND_AUDIT_HEX(chunk->address), MEND_AUDIT_HEX(live_bytes),
         MEND_AUDIT_HEX(chunk->live_bytes));
    return true;
}

/* ---- asleep ---------------------------------------------------------------------------------- */

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

/* A chunk that sleeps; counts what is kept of it. */
static bool asleep_is_right(mend_audit_walk *a, const mend_chunk *chunk)
{
    bool has_memory = chunk->missing != MEND_MISSING_MEMORY;
    MUST(chunk->is_frozen && chunk->missing != MEND_MISSING_NOTHING && chunk->pins == 0 &&
             !mend_chunk_is_exported(chunk) && has_memory == (chunk->memory.handle != 0) &&
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
static bool kept_is_right(const mend_audit_walk *a)
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

/* ---- chunks ---------------------------------------------------------------------------------- */

static void count(mend_chunks *found, const mend_chunk *chunk)
{
    const uint64_t bytes = chunk->size_bytes;
    const bool is_mapped = chunk->address != 0;
    const bool is_away = chunk->missing == MEND_MISSING_MEMORY;
    const bool sleeps = mend_chunk_sleeps(chunk);
    const bool is_reserved = mend_chunk_is_reserved(chunk);
    found->reserved_bytes += is_reserved ? bytes : 0;
    found->empty_unmapped_bytes += !is_mapped && mend_chunk_is_empty(chunk) ? bytes : 0;
    found->unmapped_bytes += is_mapped || !is_reserved ? 0 : bytes;
    found->pinned_bytes += chunk->pins > 0 ? bytes : 0;
    found->exported_bytes += mend_chunk_is_exported(chunk) ? bytes : 0;
    found->frozen_count += chunk->is_frozen;
    found->missing_count += mend_chunk_misses_mapping(chunk);
    found->asleep_count += sleeps;
    found->away_count += is_away;
    found->away_bytes += is_away ? bytes : 0;
    found->unmapped_frozen_count += !mend_chunk_has_mapping(chunk);
    found->unmapped_frozen_bytes += mend_chunk_has_mapping(chunk) ? 0 : bytes;
    found->asleep_bytes += sleeps ? bytes : 0;
    found->asleep_live_bytes += sleeps ? chunk->live_bytes : 0;
    found->away_in[chunk->zone] += is_mapped && !is_reserved ? bytes : 0;
    found->away_live_in[chunk->zone] += sleeps ? chunk->live_bytes : 0;
    found->reserved_in[chunk->zone] += is_mapped && is_reserved;
}

static bool chunk_is_right(mend_audit_walk *a, const mend_chunk *chunk)
{
    MUST(chunk->claim.address == 0, "a chunk is still claimed");
    MUST(chunk->pins == mend_pins_of(a->heap, chunk), "a chunk has not the pins that cover it");
    MUST(chunk->holds == mend_chunk_holds(chunk), "the holds of a chunk are wrong");
    MUST(chunk->owed.kind == mend_chunk_owes(chunk), "what is owed of chunks is not noted");
    for (mend_export_way way = 0; way < MEND_EXPORT_WAYS; way++) {
        MUST(chunk->exports[way] == mend_exports_in(a->heap, chunk, way),
             "a chunk has not the exports that it counts");
    }
    MUST(chunk->missing != MEND_MISSING_MEMORY || mend_chunk_sleeps(chunk),
         "the chunk 0x%llx lacks memory, and does not sleep", MEND_AUDIT_HEX(chunk->address));
    MUST(!chunk->is_frozen || chunk->missing != MEND_MISSING_NOTHING,
         "a frozen chunk lacks nothing");
    return !mend_chunk_sleeps(chunk) || asleep_is_right(a, chunk);
}

/* One that has memory, or sleeps without. */
static bool take(mend_audit_walk *a, mend_chunks *found, numbers *of, const mend_chunk *chunk)
{
    count(found, chunk);
    of->empty += mend_chunk_is_empty(chunk) && mend_list_is_empty(&chunk->newly);
    of->empty_in[chunk->zone] +=
        chunk->address != 0 && mend_chunk_is_empty(chunk) ? chunk->size_bytes : 0;
    of->mapped += chunk->address != 0;
    of->owing += chunk->owed.kind != MEND_OWED_NOTHING;
    return chunk_is_right(a, chunk);
}

bool mend_audit_chunks(mend_audit_walk *a)
{
    const mend_chunks *chunks = &a->heap->chunks;
    const mend_owing *owing = &chunks->owing;
    const mend_span *lowest = NULL;
    mend_chunks found = {0};
    numbers of = {0};
    bool is_right = true;
    MUST(mend_chunks_are_in_order(chunks), "a tree of chunks is out of order");
    MEND_TREE_EACH(const mend_chunk, chunk, memory.by_number, &chunks->all) {
        MUST(chunk->missing != MEND_MISSING_MEMORY,
             "the chunk 0x%llx lacks memory, and is among those that have it",
             MEND_AUDIT_HEX(chunk->address));
        is_right = is_right && take(a, &found, &of, chunk);
    }
    for (mend_tree_node *at = mend_tree_last(&chunks->mapped); at != NULL && is_right;
         at = mend_tree_previous(at)) { /* so the spans of all are passed once */
        const mend_chunk *chunk = MEND_CONTAINER_OF(at, mend_chunk, by_address);
        is_right = (chunk->missing != MEND_MISSING_MEMORY || take(a, &found, &of, chunk)) &&
                   spans_are_right(a, chunk, &lowest);
    }
    if (!is_right) {
        return false;
    }
#define X(sum) MUST(found.sum == chunks->sum, "the counts of chunks are wrong: " #sum);
    CHUNK_SUMS(X);
#undef X
    MUST(of.empty == chunks->empty.count && of.mapped == chunks->mapped.count,
         "the counts of chunks are wrong");
    for (int zone = 0; zone < MEND_CHUNK_ZONES; zone++) {
        MUST(of.empty_in[zone] == a->heap->zones[zone].empty_bytes,
             "the empty bytes of a zone are wrong");
    }
    MUST(of.owing == (uint64_t)owing->count[MEND_OWED_RESTORE] + owing->count[MEND_OWED_END] +
                         owing->count[MEND_OWED_MEMORY] + owing->count[MEND_OWED_GRAPHS],
         "what is owed of chunks is not noted");
    return kept_is_right(a);
}
