/*
 * Imports, mend_import and mend_import_close: blocks of other processes, mapped among the pool's
 * own addresses. An import takes addresses for the chunks that hold the block, and nothing else. It
 * has mappings but no handles: the driver keeps the memory as long as it is mapped. It is no chunk
 * of the pool: nothing of it is moved, given to requests or counted as reserved. A handle that the
 * driver does not take back is offered again later, so that the exporter's memory does not stay in
 * use for it. Invariants, checked by the validation:
 * - the mappings of an import follow each other, and take their addresses.
 * - an import is in both trees, and is used at least once. Only one that is closed is in none.
 * - deferred releases are exactly the imports with a handle.
 */
#include <stdlib.h>
#include <string.h>

#include "alloc/heap.h"
#include "map/map.h"
#include "pool/pool.h"
#include "share/share.h"

MEND_TREE_ORDER(compare_addresses, mend_imported, mapped.by_address, address);

static int compare_names(const mend_tree_node *first, const mend_tree_node *second)
{
    const mend_import_name *a = &MEND_CONTAINER_OF(first, mend_imported, by_name)->name;
    const mend_import_name *b = &MEND_CONTAINER_OF(second, mend_imported, by_name)->name;
    int order = mend_compare_u64(a->number, b->number);
    return order != 0 ? order : memcmp(a->bytes, b->bytes, sizeof(a->bytes));
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
    mend_tree_node *at = mend_tree_at_or_after(&heap->imports.by_name, &key.by_name);
    return at != NULL && compare_names(at, &key.by_name) == 0
               ? MEND_CONTAINER_OF(at, mend_imported, by_name)
               : NULL;
}

/* ---- mapping --------------------------------------------------------------------------------- */

/* Finds addresses. Empty reservations are freed first, if the driver has no other addresses. */
static mend_result place(mend_heap *heap, mend_imported *import)
{
    mend_space *space = &heap->space;
    mend_status status = MEND_DRIVER_OUT_OF_MEMORY;
    for (int tries = 0; tries <= 1 && status == MEND_DRIVER_OUT_OF_MEMORY; tries++) {
        if (tries == 1) {
            mend_space_trim(space, 0);
        }
        if (!mend_space_reserve_nodes(space, 1)) {
            return mend_no_host_memory("an import");
        }
        status = mend_space_place(space, MEND_SPACE_PACKED, import->mapped.bytes,
                                  heap->device.granularity_bytes, &import->mapped.at);
    }
    if (status == MEND_DRIVER_OK) {
        return MEND_OK;
    }
    mend_result result = mend_driver_refused(heap, MEND_ANSWER(reserve, status));
    return status == MEND_DRIVER_OUT_OF_MEMORY
               ? mend_failure(MEND_ERROR_OUT_OF_ADDRESS_SPACE,
                              "no addresses are left for an import of %lu bytes",
                              import->mapped.bytes)
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
                                                .zone = MEND_ZONE_LARGE,
                                                .waits = {.first = stamp}});
        address += size_bytes;
    }
}

/* Addresses are chosen, the chunks are mapped there, and only then the import is in the heap, which
 * owns it, takes the addresses, and needs its handles no more. Before that a failure unmaps all
 * chunks. A mapping that the driver refuses to unmap retires, and is unmapped later. */
static mend_result map_in_scope(mend_heap *heap, mend_imported *import)
{
    size_t mapped = 0;
    const size_t reservations_before = heap->space.reservations_by_address.count;
    assert(import->count > 0);
    mend_retire_flush(heap, MEND_STREAM_UNKNOWN); /* it may free addresses */
    if (!mend_retire_reserve(heap, import->count)) {
        return mend_no_host_memory("an import");
    }
    mend_result result = place(heap, import);
    if (result == MEND_OK) {
        result = map_all(heap, import, &mapped);
    }
    if (result == MEND_OK) {
        mend_space_take(&heap->space, import->mapped.at, import->mapped.bytes);
        import->address = import->mapped.at + import->offset_bytes;
        import->uses = 1;
        mend_tree_insert(&heap->imports.by_address, &import->mapped.by_address);
        mend_tree_insert(&heap->imports.by_name, &import->by_name);
        heap->imports.bytes += import->mapped.bytes;
        heap->imports.mappings += import->count;
        mend_layout_note_peaks(heap, false);
        release_handles(heap, import);
        return MEND_OK;
    }
    uint64_t bytes = 0;
    for (size_t i = 0; i < mapped; i++) {
        bytes += import->chunks[i].size_bytes;
    }
    if (bytes > 0 &&
        !mend_driver_did(heap, heap->driver->unmap(heap->driver, import->mapped.at, bytes))) {
        mend_space_take(&heap->space, import->mapped.at, bytes);
        retire_first(heap, import, mapped, (mend_stamp){0});
    }
    mend_space_trim(&heap->space, reservations_before);
    return result;
}

/* ---- mend_import ----------------------------------------------------------------------------- */

/* A token: its kind, its content, and the name by which the pool knows the import. And the chunks
 * that the import has fetched so far. */
typedef struct fetching {
    const mend_pool *pool;
    bool by_fabric;
    mend_token_content content; /* of a socket's token */
    mend_description head;      /* of fabric handles */
    mend_import_name name;
    mend_imported *import;
    size_t taken;
    mend_status refused; /* the driver's refusal of a chunk, or OK */
} fetching;

static mend_result read_token(const void *token, size_t token_bytes, fetching *f)
{
    f->by_fabric = token_bytes != MEND_EXPORT_TOKEN_BYTES;
    if (!f->by_fabric) {
        memcpy(f->name.bytes, token, sizeof(f->name.bytes));
        return mend_token_read(token, &f->content)
                   ? MEND_OK
                   : mend_pool_invalid("mend_import: the token is cut or changed, or of another "
                                       "version of the library");
    }
    const char *wrong = mend_description_read(token, token_bytes, &f->head);
    if (wrong != NULL) {
        return mend_fail(MEND_ERROR_INVALID_ARGUMENT, "mend_import: the token %s", wrong);
    }
    const mend_described_chunk first = mend_description_chunk(token, 0);
    memcpy(f->name.bytes, first.handle, sizeof(f->name.bytes));
    f->name.number = f->head.number;
    return MEND_OK;
}

static mend_result begin(void *context, const mend_fetched *all)
{
    fetching *f = context;
    mend_imported *import =
        calloc(1, sizeof(*import) + (size_t)all->count * sizeof(import->chunks[0]));
    if (import == NULL) {
        return mend_no_host_memory("an import");
    }
    import->name = f->name;
    import->mapped.bytes = all->all_bytes;
    import->offset_bytes = all->offset_bytes;
    import->size_bytes = all->size_bytes;
    import->count = (size_t)all->count;
    f->import = import;
    return MEND_OK;
}

/* The driver refused a chunk. For a file the code says nothing. A fabric handle may be of another
 * IMEX channel, or stale. */
static mend_result refused_chunk(const fetching *f, int share_type)
{
    const bool by_fabric = share_type == MEND_SHARE_FABRIC;
    mend_result result = MEND_ERROR_DRIVER;
    const char *why = "the driver does not import a chunk";
    uint64_t limit;
    if (mend_status_is_fatal(f->refused)) {
        result = MEND_ERROR_DEVICE_LOST;
    } else if (!by_fabric && mend_share_lacks_files(&limit)) {
        result = MEND_ERROR_SYSTEM;
        why = "the process has too many open files: raise the limit (ulimit -n)";
    } else if (by_fabric && (f->refused == MEND_DRIVER_NOT_PERMITTED ||
                             f->refused == MEND_DRIVER_NOT_SUPPORTED)) {
        result = MEND_ERROR_NOT_SUPPORTED;
        why = "this process may not use the exporter's memory: the device has no fabric handles, "
              "or the two have not the same IMEX channel";
    } else if (by_fabric && (f->refused == MEND_DRIVER_INVALID_VALUE ||
                             f->refused == MEND_DRIVER_INVALID_HANDLE)) {
        result = MEND_ERROR_EXPORTER_GONE;
        why = "the process that exported the memory has ended, or gave it back";
    }
    return mend_refused(f->pool->driver, result, MEND_CALL_import_handle, f->refused, "%s", why);
}

/* The next chunk, by the file or handle at `shared`. */
static mend_result take_chunk(fetching *f, const void *shared, int share_type, uint64_t size_bytes)
{
    const mend_driver *driver = f->pool->driver;
    const uint64_t page_bytes = f->pool->heap.device.granularity_bytes;
    mend_imported_chunk *chunk = &f->import->chunks[f->taken];
    if (size_bytes % page_bytes != 0) {
        return mend_failure(MEND_ERROR_NOT_SUPPORTED,
                            "a chunk of %lu bytes was exported, but a page of this device has "
                            "%lu bytes",
                            size_bytes, page_bytes);
    }
    f->refused = driver->import_handle(driver, shared, share_type, &chunk->handle);
    if (f->refused != MEND_DRIVER_OK) {
        return refused_chunk(f, share_type);
    }
    chunk->size_bytes = size_bytes;
    f->taken++;
    return MEND_OK;
}

static mend_result take(void *context, int file, uint64_t size_bytes)
{
    return take_chunk(context, &file, MEND_SHARE_FILE_DESCRIPTOR, size_bytes);
}

/* Releases fetched chunks that are not needed, and frees the import. The caller holds no lock. */
static void discard(mend_heap *heap, mend_imported *import)
{
    mend_driver_scope scope;
    if (import == NULL) {
        return;
    }
    mend_heap_lock_all(heap);
    bool is_open = mend_driver_scope_open(heap, &scope) == MEND_OK;
    assert(import->uses == 0);
    release_handles(heap, import);
    if (is_open) {
        mend_driver_scope_close(heap, &scope);
    }
    mend_heap_unlock_all(heap);
}

/* Talks to the exporter, or takes the chunks of the description. The caller holds no lock. */
static mend_result fetch(fetching *f, const void *token)
{
    if (!f->by_fabric) {
        const mend_share_taker taker = {begin, take, f};
        MEND_TRY(mend_share_fetch(&f->content, MEND_SHARE_PATIENCE_MS, &taker));
        return f->import->offset_bytes >= f->import->chunks[0].size_bytes
                   ? mend_failure(MEND_ERROR_EXPORTER_GONE,
                                  "the exporter answers with another version of the library")
                   : MEND_OK;
    }
    MEND_TRY(begin(f, &f->head.all));
    for (size_t i = 0; i < f->head.all.count; i++) {
        const mend_described_chunk chunk = mend_description_chunk(token, i);
        MEND_TRY(take_chunk(f, chunk.handle, MEND_SHARE_FABRIC, chunk.size_bytes));
    }
    return MEND_OK;
}

static void use(mend_imported *import, void **pointer, uint64_t *size_bytes)
{
    *pointer = (void *)(uintptr_t)import->address;
    if (size_bytes != NULL) {
        *size_bytes = import->size_bytes;
    }
}

/* The import, if the pool has it already: one more use of it. */
static bool use_again(mend_pool *pool, const mend_import_name *name, void **pointer,
                      uint64_t *size_bytes)
{
    mend_imported *import = mend_imports_find_named(&pool->heap, name);
    if (import != NULL) {
        import->uses++;
        use(import, pointer, size_bytes);
    }
    return import != NULL;
}

/* Maps the fetched chunks, unless another thread has imported the same meanwhile. */
static mend_result map(mend_pool *pool, fetching *f, void **pointer, uint64_t *size_bytes)
{
    mend_driver_scope scope;
    MEND_TRY(mend_pool_enter_all(pool));
    if (use_again(pool, &f->name, pointer, size_bytes)) {
        return mend_pool_leave_all(pool, MEND_OK);
    }
    mend_result result = mend_enter(&pool->heap, &scope);
    if (result == MEND_OK) {
        result = map_in_scope(&pool->heap, f->import);
        mend_driver_scope_close(&pool->heap, &scope);
    }
    if (result == MEND_OK) {
        use(f->import, pointer, size_bytes);
        f->import = NULL; /* the heap's */
    }
    return mend_pool_leave_all(pool, result);
}

/* The pool is asked twice whether it has the import: before the exporter is, and when all chunks
 * have come, because another thread may have imported the same meanwhile. In between no lock is
 * held. Releases fetched chunks that are not mapped. */
mend_result mend_import(mend_pool *pool, const void *token, size_t token_bytes, void **pointer,
                        uint64_t *size_bytes)
{
    fetching f = {.pool = pool};
    MEND_INVALID_IF(pool == NULL || token == NULL || pointer == NULL,
                    "mend_import: pool, token or pointer is NULL");
    MEND_TRY(read_token(token, token_bytes, &f));
    mend_heap *heap = &pool->heap;
    MEND_TRY(mend_pool_enter_all(pool));
    const bool is_here = use_again(pool, &f.name, pointer, size_bytes);
    mend_result result = mend_pool_leave_all(pool, MEND_OK);
    if (is_here) {
        return result;
    }
    result = fetch(&f, token);
    if (f.refused != MEND_DRIVER_OK) {
        mend_heap_lock(heap);
        (void)mend_driver_did(heap, f.refused);
        mend_unlocking_remember(&heap->unlocking, MEND_ANSWER(import_handle, f.refused));
        mend_heap_unlock(heap);
    }
    mend_publish(result);
    if (result == MEND_OK) {
        result = map(pool, &f, pointer, size_bytes);
    }
    discard(heap, f.import);
    return result;
}

/* ---- mend_import_close ----------------------------------------------------------------------- */

/* Removes an import with its last use, and retires its mappings, which are idle behind the stamp of
 * the stream. Without one the CPU waits, and they are idle now. */
static mend_result close_last(mend_heap *heap, mend_imported *import, mend_order order)
{
    mend_driver_scope scope;
    mend_stamp stamp = {0};
    uint32_t asking = MEND_STREAM_UNKNOWN;
    if (order.capture != 0) {
        return mend_failure(MEND_ERROR_CAPTURING,
                            "the stream %p is being captured: close the import after the capture",
                            (void *)order.stream);
    }
    MEND_TRY(mend_enter(heap, &scope));
    mend_result result = order.stream == MEND_NO_STREAM
                             ? mend_streams_wait_context(&heap->streams, MEND_STREAM_UNKNOWN)
                             : mend_users_find_stream(heap, order.stream, 0, &asking);
    if (result == MEND_OK && asking != MEND_STREAM_UNKNOWN) {
        stamp = mend_streams_stamp(&heap->streams, asking, import->mapped.bytes);
        if (heap->config.detect_destroyed_streams) {
            mend_users_record_fence(heap, asking); /* nothing else asks about the stream */
        }
    }
    if (result == MEND_OK && !mend_retire_reserve(heap, import->count)) {
        result = mend_no_host_memory("an import");
    }
    if (result == MEND_OK) {
        assert(import->uses == 1);
        leave_trees(heap, import);
        retire_first(heap, import, import->count, stamp);
        import->uses = 0;
        if (import->deferred.kind == MEND_DEFERRED_NOTHING) {
            free(import);
        }
        mend_retire_flush(heap, asking);
    }
    mend_driver_scope_close(heap, &scope);
    return result;
}

mend_result mend_import_close(mend_pool *pool, void *pointer, mend_stream stream)
{
    MEND_INVALID_IF(
        pool == NULL || pointer == NULL || stream == MEND_EVERY_STREAM,
        "mend_import_close: pool or pointer is NULL, or the stream is MEND_EVERY_STREAM");
    mend_order order = {.stream = stream};
    MEND_TRY(mend_pool_find_capture(pool, stream, &order.capture));
    MEND_TRY(mend_pool_enter_all(pool));
    mend_imported key = {.address = (uint64_t)(uintptr_t)pointer};
    mend_tree_node *at =
        mend_tree_at_or_after(&pool->heap.imports.by_address, &key.mapped.by_address);
    mend_imported *import = MEND_CONTAINER_OR_NULL(at, mend_imported, mapped.by_address);
    mend_result result = MEND_OK;
    if (import == NULL || import->address != key.address) {
        result =
            mend_failure(MEND_ERROR_FOREIGN_POINTER, "%p was not returned by an import", pointer);
    } else if (import->uses > 1) {
        import->uses--;
    } else {
        result = close_last(&pool->heap, import, order);
    }
    return mend_pool_leave_all(pool, result);
}
