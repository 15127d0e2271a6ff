/* The audit of addresses: what is mapped at each of them, retired mappings and imports. */
#include "check/audit_parts.h"
#include "map/map.h"
#include "share/share.h"

/* ---- addresses ------------------------------------------------------------------------------- */

/* The size of the import whose mappings begin at an address; 0: none does. */
static uint64_t import_at(const mend_heap *heap, uint64_t address)
{
    mend_imported key = {.address = address};
    mend_tree_node *at = mend_tree_at_or_after(&heap->imports.by_address, &key.by_address);
    const mend_imported *import = MEND_CONTAINER_OR_NULL(at, mend_imported, by_address);
    return import != NULL && import->mapped_at == address ? import->all_bytes : 0;
}

/* The size of the chunk that is mapped from an address on; 0: none is. */
static uint64_t chunk_at(const mend_heap *heap, uint64_t address)
{
    const mend_chunk *chunk = mend_chunk_from(&heap->chunks, address);
    const bool is_there = chunk != NULL && chunk->address == address;
    return is_there ? chunk->size_bytes : 0;
}

static uint64_t retired_at(const mend_heap *heap, uint64_t address)
{
    const mend_retired *retired = mend_retire_at(heap, address);
    return retired != NULL && retired->address == address ? retired->size_bytes : 0;
}

/* The size of what begins at an address: what was lent, a gap, a mapped chunk, a retired mapping,
 * an import; 0: nothing begins there, or two do. What lies at a lent address is the borrower's. */
static uint64_t piece_at(const mend_heap *heap, const mend_space *space, uint64_t address)
{
    const bool is_lender = space == heap->range_space.lender;
    const uint64_t lent_bytes = is_lender ? mend_space_lent_at(&heap->range_space, address) : 0;
    const uint64_t pieces[] = {
        mend_space_room_at(space, address),
        lent_bytes,
        lent_bytes > 0 ? 0 : chunk_at(heap, address),
        lent_bytes > 0 ? 0 : retired_at(heap, address),
        lent_bytes > 0 ? 0 : import_at(heap, address),
    };
    uint64_t size_bytes = 0;
    for (size_t i = 0; i < sizeof(pieces) / sizeof(*pieces); i++) {
        if (size_bytes > 0 && pieces[i] > 0) {
            return 0;
        }
        size_bytes += pieces[i];
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
        MUST(size_bytes > 0 && size_bytes <= end - address,
             "not exactly one of gap, chunk, retired and import at 0x%llx",
             MEND_AUDIT_HEX(address));
        bool is_gap = mend_space_room_at(space, address) != 0;
        *gaps += is_gap;
        taken_bytes += is_gap ? 0 : size_bytes;
        address += size_bytes;
    }
    MUST(taken_bytes == reservation->taken_bytes,
         "the taken bytes of the reservation 0x%llx are wrong",
         MEND_AUDIT_HEX(reservation->address));
    return true;
}

bool mend_audit_space(const mend_audit_walk *a, const mend_space *space)
{
    uint64_t address_bytes = 0;
    uint64_t taken_bytes = 0;
    uint64_t borrowed_bytes = 0;
    uint64_t lent_bytes = 0;
    size_t gaps = 0;
    size_t count = 0;
    MEND_LIST_EACH(const mend_reservation, reservation, link, &space->reservations) {
        address_bytes += reservation->size_bytes;
        taken_bytes += reservation->taken_bytes;
        borrowed_bytes += reservation->is_borrowed ? reservation->size_bytes : 0;
        lent_bytes += reservation->is_borrowed ? space->page_bytes + reservation->size_bytes : 0;
        count++;
        if (!reservation_is_right(a, space, reservation, &gaps)) {
            return false;
        }
    }
    MUST(mend_tree_is_valid(&space->gaps) && mend_tree_is_valid(&space->gaps_by_size) &&
             space->gaps_by_size.count == space->gaps.count &&
             mend_tree_is_valid(&space->reservations_by_address),
         "a tree of addresses is out of order");
    MUST(address_bytes == space->address_bytes && taken_bytes == space->taken_bytes &&
             gaps == space->gaps.count && count == space->reservations_by_address.count &&
             borrowed_bytes == space->borrowed_bytes &&
             (space->lender == NULL || lent_bytes == space->lender->lent_bytes) &&
             count == space->reservations_by_address.count,
         "the counts of addresses are wrong");
    MUST(gaps == space->gap_slab.used_count && count == space->reservation_slab.used_count,
         "nodes of gaps or reservations are lost");
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
    MUST(retired_bytes == heap->retire.bytes, "the bytes of retired mappings are wrong");
    return true;
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
    MUST(has_handles == (import->owed.kind == MEND_OWED_HANDLES),
         "an import has handles that are not to be released, or none");
    MUST(import->uses > 0 && import->count > 0 && all_bytes == import->all_bytes &&
             import->address == import->mapped_at + import->offset_bytes &&
             import->offset_bytes < import->chunks[0].size_bytes &&
             import->size_bytes <= all_bytes - import->offset_bytes &&
             mend_imports_find_named(a->heap, &import->name) == import,
         "the import at 0x%llx is wrong", MEND_AUDIT_HEX(import->address));
    return true;
}

bool mend_audit_imports(const mend_audit_walk *a)
{
    const mend_imports *imports = &a->heap->imports;
    uint64_t bytes = 0;
    uint64_t mappings = 0;
    MEND_TREE_EACH(const mend_imported, import, by_address, &imports->by_address) {
        bytes += import->all_bytes;
        mappings += import->count;
        if (!import_is_right(a, import)) {
            return false;
        }
    }
    MUST(mend_tree_is_valid(&imports->by_address) && mend_tree_is_valid(&imports->by_name),
         "a tree of imports is out of order");
    MUST(imports->by_address.count == imports->by_name.count && bytes == imports->bytes &&
             mappings == imports->mappings,
         "the counts of imports are wrong");
    return true;
}
