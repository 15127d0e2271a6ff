/* The audit of memory: chunks, retired mappings, and the use of every address of a zone. */
#include "layout/layout.h"
#include "layout/ranges.h"
#include "move/move.h"
#include "observe/audit_parts.h"
#include "users/users.h"

#define CHUNK_OF(node)       MEND_CONTAINER_OF(node, mend_chunk, by_address)
#define RESERVATION_OF(node) MEND_CONTAINER_OF(node, mend_reservation, link)

/* ---- chunks ---------------------------------------------------------------------------------- */

/* The last span of a chunk. Chunks are visited from high to low addresses. `above` is the lowest
 * span of the chunk visited before, so each span is passed once, or once for each chunk that it
 * covers. */
static const mend_span *last_span_of(const mend_audit_walk *a, const mend_chunk *chunk,
                                     const mend_span *above)
{
    uint64_t end = chunk->address + chunk->size_bytes;
    if (above != NULL && above->address >= end) {
        above = above->previous; /* NULL if a segment begins behind the chunk */
    }
    return above != NULL && mend_span_end(above) >= end ? above
                                                        : mend_heap_span_at(a->heap, end - 1);
}

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

static bool chunk_is_right(const mend_audit_walk *a, const mend_chunk *chunk,
                           const mend_span **lowest)
{
    uint64_t live_bytes = 0;
    bool held = mend_stamp_has_passed(&a->heap->streams, chunk->held_by);
    uint64_t end = chunk->address + chunk->size_bytes;
    const mend_span *span = last_span_of(a, chunk, *lowest);
    if (span == NULL) {
        return mend_audit_broken(a, "chunk 0x%llx has no spans", MEND_AUDIT_HEX(chunk->address));
    }
    for (; span != NULL && mend_span_end(span) > chunk->address; span = span->previous) {
        uint64_t from = mend_max_u64(span->address, chunk->address);
        uint64_t to = mend_min_u64(mend_span_end(span), end);
        live_bytes += span->live ? to - from : 0;
        held = held || is_held(chunk->held_by, span);
        *lowest = span;
    }
    if (!held) {
        return mend_audit_broken(a, "nothing in the chunk 0x%llx waits for what holds it",
                                 MEND_AUDIT_HEX(chunk->address));
    }
    if (live_bytes != chunk->live_bytes) {
        return mend_audit_broken(a, "chunk 0x%llx: %llu bytes are live, %llu are counted",
                                 MEND_AUDIT_HEX(chunk->address), MEND_AUDIT_HEX(live_bytes),
                                 MEND_AUDIT_HEX(chunk->live_bytes));
    }
    return true;
}

/* Mapped chunks, from high to low addresses. */
static bool mapped_chunks_are_right(const mend_audit_walk *a)
{
    const mend_span *lowest = NULL;
    for (mend_tree_node *at = mend_tree_last(&a->heap->chunks.mapped); at != NULL;
         at = mend_tree_previous(at)) {
        if (!chunk_is_right(a, CHUNK_OF(at), &lowest)) {
            return false;
        }
    }
    return true;
}

static bool is_kept_by_group(const mend_heap *heap, const mend_chunk *chunk)
{
    const mend_stamp stamp = chunk->held_by;
    return mend_chunk_is_empty(chunk) && chunk->address != 0 && stamp.epoch != 0 &&
           heap->streams.items[stamp.stream].group != 0 &&
           !mend_stamp_has_passed(&heap->streams, stamp);
}

bool mend_audit_chunks(const mend_audit_walk *a)
{
    const mend_chunks *chunks = &a->heap->chunks;
    uint64_t reserved_bytes = 0;
    uint64_t empty_bytes = 0;
    uint64_t unmapped_bytes = 0;
    uint64_t lost_bytes = chunks->away_bytes; /* these and the next are in no tree of memory */
    size_t whole = 0;
    size_t newly = 0;
    size_t mapped = chunks->away_count;
    size_t held = chunks->away_count;
    size_t missing = 0;
    size_t on_host = 0; /* mapped, and lacking nothing */
    uint64_t pinned_bytes = 0;
    uint64_t exported_bytes = 0;
    if (!mend_chunks_are_in_order(chunks)) {
        return mend_audit_broken(a, "a tree of chunks is out of order");
    }
    for (mend_tree_node *at = mend_tree_first(&chunks->all); at != NULL; at = mend_tree_next(at)) {
        const mend_chunk *chunk = MEND_CONTAINER_OF(at, mend_chunk, by_number);
        bool on_device = !chunk->on_host;
        reserved_bytes += on_device ? chunk->size_bytes : 0;
        empty_bytes += mend_chunk_is_empty(chunk) ? chunk->size_bytes : 0;
        whole += mend_chunk_is_empty(chunk);
        newly += !mend_list_is_empty(&chunk->newly);
        if (chunk->is_parked && !is_kept_by_group(a->heap, chunk)) {
            return mend_audit_broken(a, "a parked chunk is not kept by a group");
        }
        held += chunk->is_frozen;
        missing += mend_chunk_misses_mapping(chunk);
        lost_bytes += mend_chunk_has_mapping(chunk) ? 0 : chunk->size_bytes;
        mapped += chunk->address != 0;
        unmapped_bytes += chunk->address == 0 && on_device ? chunk->size_bytes : 0;
        on_host += chunk->on_host && chunk->missing == MEND_MISSING_NOTHING && chunk->address != 0;
        pinned_bytes += chunk->pins > 0 ? chunk->size_bytes : 0;
        if (!mend_chunk_is_empty(chunk) && !mend_list_is_empty(&chunk->newly)) {
            return mend_audit_broken(a, "a chunk in use is among the newly empty ones");
        }
        if (chunk->pins != mend_pins_of(a->heap, chunk)) {
            return mend_audit_broken(a, "a chunk has not the pins that cover it");
        }
        if (chunk->holds != mend_chunk_holds(chunk)) {
            return mend_audit_broken(a, "the holds of a chunk are wrong");
        }
        exported_bytes += mend_chunk_is_exported(chunk) ? chunk->size_bytes : 0;
        for (mend_export_way way = 0; way < MEND_EXPORT_WAYS; way++) {
            if (chunk->exports[way] != mend_exports_in(a->heap, chunk, way)) {
                return mend_audit_broken(a, "a chunk has not the exports that it counts");
            }
        }
    }
    if (!mapped_chunks_are_right(a)) {
        return false;
    }
    if (reserved_bytes != chunks->reserved_bytes || empty_bytes != chunks->empty_bytes ||
        unmapped_bytes != chunks->unmapped_bytes ||
        whole != chunks->empty.count + chunks->parked.count + newly ||
        mapped + chunks->owing.count[MEND_OWED_ALIAS] != chunks->mapped.count ||
        held != chunks->frozen_count || pinned_bytes != chunks->pinned_bytes ||
        exported_bytes != chunks->exported_bytes) {
        return mend_audit_broken(a, "the counts of chunks are wrong");
    }
    if (held != missing + chunks->asleep_count + on_host || missing != chunks->missing_count ||
        lost_bytes != chunks->lost_bytes) {
        return mend_audit_broken(a, "a frozen chunk lacks nothing");
    }
    return mend_audit_asleep(a) && mend_audit_on_host(a);
}

/* ---- addresses ------------------------------------------------------------------------------- */

/* The size of the import whose mappings begin at an address; 0: none does. */
static uint64_t import_at(const mend_heap *heap, uint64_t address)
{
    mend_imported key = {.address = address};
    mend_tree_node *at = mend_tree_at_or_after(&heap->imports.by_address, &key.by_address);
    const mend_imported *import =
        at != NULL ? MEND_CONTAINER_OF(at, mend_imported, by_address) : NULL;
    return import != NULL && import->mapped_at == address ? import->all_bytes : 0;
}

/* The size of what begins at an address: what was lent, a gap, a mapped chunk, a retired mapping, a
 * page of zeros or an import; 0: nothing begins there. */
static uint64_t piece_at(const mend_heap *heap, const mend_space *space, uint64_t address)
{
    uint64_t size_bytes = mend_space_room_at(space, address);
    const uint64_t lent_bytes =
        space == heap->ranges.space.lender ? mend_space_lent_at(&heap->ranges.space, address) : 0;
    if (lent_bytes > 0) { /* what is there is the borrower's */
        return size_bytes == 0 ? lent_bytes : 0;
    }
    mend_chunk chunk_key = {.address = address};
    mend_tree_node *at = mend_tree_at_or_after(&heap->chunks.mapped, &chunk_key.by_address);
    if (at != NULL && mend_chunk_mapping_address(CHUNK_OF(at)) == address) {
        size_bytes = size_bytes == 0 ? mend_chunk_mapping_bytes(CHUNK_OF(at)) : 0;
    }
    const mend_retired *retired = mend_retire_at(heap, address);
    if (retired != NULL && retired->address == address) {
        size_bytes = size_bytes == 0 ? retired->size_bytes : 0;
    }
    uint64_t zero_bytes = mend_zeros_mapping_at(heap, address);
    if (zero_bytes != 0) {
        size_bytes = size_bytes == 0 ? zero_bytes : 0;
    }
    uint64_t import_bytes = import_at(heap, address);
    if (import_bytes != 0) {
        size_bytes = size_bytes == 0 ? import_bytes : 0;
    }
    return size_bytes;
}

static bool reservation_is_right(const mend_audit_walk *a, const mend_space *space,
                                 const mend_reservation *reservation, size_t *gaps)
{
    uint64_t end = reservation->address + reservation->size_bytes - space->page_bytes;
    uint64_t taken_bytes = 0;
    for (uint64_t address = reservation->address; address < end;) {
        uint64_t size_bytes = piece_at(a->heap, space, address);
        if (size_bytes == 0 || size_bytes > end - address) {
            return mend_audit_broken(a,
                                     "not exactly one of gap, chunk, retired, zeros and import "
                                     "at 0x%llx",
                                     MEND_AUDIT_HEX(address));
        }
        bool is_gap = mend_space_room_at(space, address) != 0;
        *gaps += is_gap;
        taken_bytes += is_gap ? 0 : size_bytes;
        address += size_bytes;
    }
    return taken_bytes == reservation->taken_bytes ||
           mend_audit_broken(a, "the taken bytes of the reservation 0x%llx are wrong",
                             MEND_AUDIT_HEX(reservation->address));
}

bool mend_audit_space(const mend_audit_walk *a, const mend_space *space)
{
    uint64_t address_bytes = 0;
    uint64_t taken_bytes = 0;
    uint64_t borrowed_bytes = 0;
    uint64_t lent_bytes = 0;
    size_t gaps = 0;
    size_t count = 0;
    const mend_list *head = &space->reservations;
    for (const mend_list *at = head->next; at != head; at = at->next) {
        const mend_reservation *reservation = RESERVATION_OF(at);
        address_bytes += reservation->size_bytes;
        taken_bytes += reservation->taken_bytes;
        borrowed_bytes += reservation->is_borrowed ? reservation->size_bytes : 0;
        lent_bytes += reservation->is_borrowed ? space->page_bytes + reservation->size_bytes : 0;
        count++;
        if (!reservation_is_right(a, space, reservation, &gaps)) {
            return false;
        }
    }
    if (!mend_tree_is_valid(&space->gaps) || !mend_tree_is_valid(&space->gaps_by_size) ||
        space->gaps_by_size.count != space->gaps.count ||
        !mend_tree_is_valid(&space->reservations_by_address)) {
        return mend_audit_broken(a, "a tree of addresses is out of order");
    }
    if (address_bytes != space->address_bytes || taken_bytes != space->taken_bytes ||
        gaps != space->gaps.count || count != space->reservation_count ||
        borrowed_bytes != space->borrowed_bytes ||
        (space->lender != NULL && lent_bytes != space->lender->lent_bytes) ||
        count != space->reservations_by_address.count) {
        return mend_audit_broken(a, "the counts of addresses are wrong");
    }
    return true;
}

bool mend_audit_retired(mend_audit_walk *a)
{
    const mend_heap *heap = a->heap;
    uint64_t retired_bytes = 0;
    for (const mend_retired *retired = mend_retire_first(heap); retired != NULL;
         retired = mend_retire_next(retired)) {
        retired_bytes += retired->size_bytes;
        if (!mend_audit_waits(a, &retired->waits, retired->address)) {
            return false;
        }
    }
    return retired_bytes == heap->retire.bytes ||
           mend_audit_broken(a, "the bytes of retired mappings are wrong");
}

/* ---- imports --------------------------------------------------------------------------------- */

static bool import_is_right(const mend_audit_walk *a, const mend_imported *import)
{
    uint64_t all_bytes = 0;
    bool has_handles = false;
    for (size_t i = 0; i < import->count; i++) {
        all_bytes += import->chunks[i].size_bytes;
        has_handles = has_handles || import->chunks[i].handle != 0;
    }
    if (has_handles != (import->owed.kind == MEND_OWED_HANDLES)) {
        return mend_audit_broken(a, "an import has handles that are not to be released, or none");
    }
    bool is_right = import->uses > 0 && import->count > 0 && all_bytes == import->all_bytes &&
                    import->address == import->mapped_at + import->offset_bytes &&
                    import->offset_bytes < import->chunks[0].size_bytes &&
                    import->size_bytes <= all_bytes - import->offset_bytes &&
                    mend_imports_find_named(a->heap, &import->name) == import;
    return is_right ||
           mend_audit_broken(a, "the import at 0x%llx is wrong", MEND_AUDIT_HEX(import->address));
}

bool mend_audit_imports(const mend_audit_walk *a)
{
    const mend_imports *imports = &a->heap->imports;
    uint64_t bytes = 0;
    uint64_t mappings = 0;
    for (mend_tree_node *at = mend_tree_first(&imports->by_address); at != NULL;
         at = mend_tree_next(at)) {
        const mend_imported *import = MEND_CONTAINER_OF(at, mend_imported, by_address);
        bytes += import->all_bytes;
        mappings += import->count;
        if (!import_is_right(a, import)) {
            return false;
        }
    }
    if (!mend_tree_is_valid(&imports->by_address) || !mend_tree_is_valid(&imports->by_name)) {
        return mend_audit_broken(a, "a tree of imports is out of order");
    }
    return (imports->by_address.count == imports->by_name.count && bytes == imports->bytes &&
            mappings == imports->mappings) ||
           mend_audit_broken(a, "the counts of imports are wrong");
}
