/*
 * Imports: blocks of other processes, mapped among the pool's own addresses. An import takes
 * addresses for the chunks that hold the block, and nothing else. It has mappings but no handles:
 * the driver keeps the memory as long as it is mapped. It is no chunk of the pool: nothing of it is
 * moved, given to requests or counted as reserved. A handle that the driver does not take back is
 * offered again later, so that the exporter's memory does not stay in use for it. Invariants,
 * checked by the validation:
 * - the mappings of an import follow each other, and take their addresses.
 * - an import is in both trees, and is used at least once. Only one that is closed is in none.
 * - deferred releases are exactly the imports with a handle.
 */
#include "alloc/heap.h"
#include "map/map.h"
#include "share/share.h"

#include <stdlib.h>
#include <string.h>

#define BY_ADDRESS(node) MEND_CONTAINER_OR_NULL(node, mend_imported, mapped.by_address)
#define BY_NAME(node)    MEND_CONTAINER_OR_NULL(node, mend_imported, by_name)

MEND_TREE_ORDER(compare_addresses, mend_imported, mapped.by_address, address);

static int compare(const mend_import_name *a, const mend_import_name *b)
{
    int order = mend_compare_u64(a->number, b->number);
    return order != 0 ? order : memcmp(a->bytes, b->bytes, sizeof(a->bytes));
}

static int compare_names(const mend_tree_node *first, const mend_tree_node *second)
{
    return compare(&MEND_CONTAINER_OF(first, mend_imported, by_name)->name,
                   &MEND_CONTAINER_OF(second, mend_imported, by_name)->name);
}

void mend_imports_init(mend_heap *heap)
{
    mend_tree_init(&heap->imports.by_address, compare_addresses);
    mend_tree_init(&heap->imports.by_name, compare_names);
}

static void leave_trees(mend_heap *heap, mend_imported *import)
{
    assert(heap->imports.bytes >= import->mapped.bytes);
    assert(heap->imports.mappings >= import->count);
    mend_tree_remove(&heap->imports.by_address, &import->mapped.by_address);
    mend_tree_remove(&heap->imports.by_name, &import->by_name);
    heap->imports.bytes -= import->mapped.bytes;
    heap->imports.mappings -= import->count;
}

void mend_imports_clear(mend_heap *heap)
{
    mend_tree_node *at;
    mend_deferred_list *list = &heap->chunks.deferred;
    for (mend_deferred *deferred;
         (deferred = mend_deferred_from(list, MEND_DEFERRED_HANDLES, 0)) != NULL;) {
        mend_imported *import = MEND_CONTAINER_OF(deferred, mend_imported, deferred);
        mend_defer(list, deferred, MEND_DEFERRED_NOTHING, 0);
        if (import->uses == 0) {
            free(import);
        }
    }
    while ((at = mend_tree_first(&heap->imports.by_address)) != NULL) {
        mend_imported *import = MEND_CONTAINER_OF(at, mend_imported, mapped.by_address);
        leave_trees(heap, import);
        free(import);
    }
}

/* Handles that the driver refuses to release are deferred work. A closed import ends with its last
 * one. */
static void release_handles(mend_heap *heap, mend_imported *import)
{
    bool are_left = false;
    for (size_t i = 0; i < import->count; i++) {
        mend_chunk_handle *handle = &import->chunks[i].handle;
        if (*handle != 0 && !mend_driver_did(heap, heap->driver->release(heap->driver, *handle))) {
            are_left = true;
        } else {
            *handle = 0;
        }
    }
    mend_defer(&heap->chunks.deferred, &import->deferred,
               are_left ? MEND_DEFERRED_HANDLES : MEND_DEFERRED_NOTHING, MEND_DEFERRED_LAST);
    if (!are_left && import->uses == 0) {
        free(import);
    }
}

void mend_imports_retry(mend_heap *heap, mend_deferred *deferred, uint32_t asking)
{
    (void)asking;
    release_handles(heap, MEND_CONTAINER_OF(deferred, mend_imported, deferred));
}

void mend_imports_give_back(mend_heap *heap, mend_ending *ending)
{
    MEND_TREE_EACH(const mend_imported, import, mapped.by_address, &heap->imports.by_address) {
        mend_ending_unmap(heap, ending, import->mapped.at, import->mapped.bytes);
    }
    for (const mend_deferred *at =
             mend_deferred_from(&heap->chunks.deferred, MEND_DEFERRED_HANDLES, 0);
         at != NULL; at = mend_deferred_next(at)) {
        const mend_imported *import = MEND_CONTAINER_OF(at, const mend_imported, deferred);
        for (size_t i = 0; i < import->count; i++) {
            if (import->chunks[i].handle != 0) {
                mend_ending_release(heap, ending, import->chunks[i].handle);
            }
        }
    }
}

mend_imported *mend_imports_find_named(const mend_heap *heap, const mend_import_name *name)
{
    mend_imported key = {.name = *name};
    mend_imported *found = BY_NAME(mend_tree_at_or_after(&heap->imports.by_name, &key.by_name));
    return found != NULL && compare(&found->name, name) == 0 ? found : NULL;
}

mend_imported *mend_imports_find_address(const mend_heap *heap, uint64_t address)
{
    mend_imported key = {.address = address};
    mend_imported *found =
        BY_ADDRESS(mend_tree_at_or_after(&heap->imports.by_address, &key.mapped.by_address));
    return found != NULL && found->address == address ? found : NULL;
}

/* ---- mapping --------------------------------------------------------------------------------- */

/* Finds addresses. Empty reservations are freed first, if the driver has no other addresses. */
static mend_result place(mend_heap *heap, mend_imported *import)
{
    mend_space *space = &heap->space;
    const uint64_t page_bytes = heap->device.granularity_bytes;
    mend_status status = mend_space_place(space, MEND_SPACE_PACKED, import->mapped.bytes,
                                          page_bytes, &import->mapped.at);
    if (status == MEND_DRIVER_OUT_OF_MEMORY) {
        mend_space_trim(space, 0);
        if (!mend_space_reserve_nodes(space, 1)) {
            return mend_no_host_memory("an import");
        }
        status = mend_space_place(space, MEND_SPACE_PACKED, import->mapped.bytes, page_bytes,
                                  &import->mapped.at);
    }
    if (status == MEND_DRIVER_OK) {
        return MEND_OK;
    }
    mend_result result = mend_driver_refused(heap, MEND_ANSWER(reserve, status));
    return status == MEND_DRIVER_OUT_OF_MEMORY
               ? mend_failure(MEND_ERROR_OUT_OF_ADDRESS_SPACE,
                              "no addresses are left for an import of %llu bytes",
                              (unsigned long long)import->mapped.bytes)
               : result;
}

/* Maps chunk after chunk. *mapped counts the mapped ones, also after a failure. */
static mend_result map_all(mend_heap *heap, const mend_imported *import, size_t *mapped)
{
    uint64_t address = import->mapped.at;
    for (*mapped = 0; *mapped < import->count; ++*mapped) {
        const mend_imported_chunk *chunk = &import->chunks[*mapped];
        const mend_chunk foreign = {.memory.handle = chunk->handle,
                                    .size_bytes = chunk->size_bytes};
        mend_status status = mend_step_map(heap, address, &foreign);
        MEND_TRY(mend_driver_result(heap, MEND_ANSWER(map, status)));
        address += chunk->size_bytes;
    }
    assert(address == import->mapped.at + import->mapped.bytes);
    mend_status status = mend_step_allow(heap, import->mapped.at, import->mapped.bytes);
    return mend_driver_result(heap, MEND_ANSWER(set_access, status));
}

static void retire_first(mend_heap *heap, const mend_imported *import, size_t count,
                         mend_stamp stamp)
{
    uint64_t address = import->mapped.at;
    for (size_t i = 0; i < count; i++) {
        const uint64_t size_bytes = import->chunks[i].size_bytes;
        mend_retire(heap, &(const mend_retired){.address = address,
                                                .size_bytes = size_bytes,
                                                .is_foreign = true,
                                                .zone = MEND_ZONE_LARGE,
                                                .waits = {.first = stamp}});
        address += size_bytes;
    }
}

/* A mapping that the driver refuses to unmap retires, and is unmapped later. */
static void unmap_first(mend_heap *heap, const mend_imported *import, size_t count)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        bytes += import->chunks[i].size_bytes;
    }
    if (bytes > 0 &&
        !mend_driver_did(heap, heap->driver->unmap(heap->driver, import->mapped.at, bytes))) {
        mend_space_take(&heap->space, import->mapped.at, bytes);
        retire_first(heap, import, count, (mend_stamp){0});
    }
}

void mend_imports_discard(mend_heap *heap, mend_imported *import)
{
    mend_driver_scope scope;
    bool is_open = mend_driver_scope_open(heap, &scope) == MEND_OK;
    assert(import->uses == 0);
    release_handles(heap, import);
    if (is_open) {
        mend_driver_scope_close(heap, &scope);
    }
}

/* ---- the calls ------------------------------------------------------------------------------- */

static void enter(mend_heap *heap, mend_imported *import)
{
    mend_space_take(&heap->space, import->mapped.at, import->mapped.bytes);
    import->address = import->mapped.at + import->offset_bytes;
    import->uses = 1;
    mend_tree_insert(&heap->imports.by_address, &import->mapped.by_address);
    mend_tree_insert(&heap->imports.by_name, &import->by_name);
    heap->imports.bytes += import->mapped.bytes;
    heap->imports.mappings += import->count;
    mend_layout_note_peaks(heap, false);
}

/* Addresses are chosen, the chunks are mapped there, and only then the import is in the heap, takes
 * the addresses, and needs its handles no more. Before that a failure unmaps all chunks. */
static mend_result map_in_scope(mend_heap *heap, mend_imported *import)
{
    size_t mapped = 0;
    const size_t reservations_before = heap->space.reservations_by_address.count;
    mend_retire_flush(heap, MEND_STREAM_UNKNOWN); /* it may free addresses */
    if (!mend_retire_reserve(heap, import->count) || !mend_space_reserve_nodes(&heap->space, 1)) {
        return mend_no_host_memory("an import");
    }
    mend_result result = place(heap, import);
    if (result == MEND_OK) {
        result = map_all(heap, import, &mapped);
    }
    if (result == MEND_OK) {
        enter(heap, import);
        release_handles(heap, import);
        return MEND_OK;
    }
    unmap_first(heap, import, mapped);
    mend_space_trim(&heap->space, reservations_before);
    return result;
}

mend_result mend_imports_map(mend_heap *heap, mend_imported *import)
{
    mend_driver_scope scope;
    assert(mend_mutex_is_held(&heap->grow) && mend_mutex_is_held(&heap->state));
    assert(import->count > 0);
    MEND_TRY(mend_enter(heap, &scope));
    const mend_result result = map_in_scope(heap, import);
    mend_driver_scope_close(heap, &scope);
    return result;
}

mend_result mend_imports_close(mend_heap *heap, mend_imported *import, mend_stamp stamp,
                               uint32_t asking)
{
    assert(mend_mutex_is_held(&heap->grow) && mend_mutex_is_held(&heap->state));
    assert(import->uses == 1);
    if (!mend_retire_reserve(heap, import->count)) {
        return mend_no_host_memory("an import");
    }
    leave_trees(heap, import);
    retire_first(heap, import, import->count, stamp);
    import->uses = 0;
    if (import->deferred.kind == MEND_DEFERRED_NOTHING) {
        free(import);
    }
    mend_retire_flush(heap, asking);
    return MEND_OK;
}
