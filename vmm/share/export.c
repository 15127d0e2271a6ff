/*
 * Exports and mend_export: live blocks, and committed pages of a range, that other processes can
 * import, by file, by fabric handles, or in both ways. Invariants, checked by the validation:
 * - an export is of one live block, or of committed pages that follow each other, which are marked,
 *   and have one export.
 * - the chunks of an export are pinned once for it, and count it in each of its ways.
 * - a chunk has a file exactly while it counts an export by file, and a fabric handle if it counts
 *   an export by fabric handles.
 * - an export by file is published, in the number of its chunks and with their files.
 */
#include "alloc/heap.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/system.h"
#include "map/map.h"
#include "pool/pool.h"
#include "share/share.h"

/* The memory of an export: a live block, or committed pages that follow each other. */
typedef struct extent {
    mend_span *first; /* the block, or the first page: the others follow it */
    uint64_t address;
    uint64_t size_bytes;
} extent;

typedef struct exported {
    mend_tree_node by_address;
    extent what;
    bool is_in[MEND_EXPORT_WAYS]; /* the ways in which it is exported: one at least */
    mend_published published;     /* in the process, while it is exported by file */
    mend_shared_chunk by_file[];  /* for each chunk, then */
} exported;

MEND_TREE_ORDER(compare_addresses, exported, by_address, what.address);

/* Visits the chunks of an export, or of a future one. */
#define CHUNKS_OF_EACH(type, chunk, heap, what)                                                    \
    MEND_CHUNKS_EACH(type, chunk, heap, (what)->address, end_of(what))

static uint64_t end_of(const extent *what)
{
    return what->address + what->size_bytes;
}

/* The export of the memory at an address. NULL: none. */
static exported *find(const mend_heap *heap, uint64_t address)
{
    exported key = {.what = {.address = address}};
    mend_tree_node *at = mend_tree_at_or_before(&heap->exports, &key.by_address);
    exported *found = MEND_CONTAINER_OR_NULL(at, exported, by_address);
    return found != NULL && address < end_of(&found->what) ? found : NULL;
}

/* Marks the block, or each page. */
static void mark(const extent *what, bool is_exported)
{
    for (mend_span *at = what->first; at != NULL && at->address < end_of(what); at = at->next) {
        at->is_exported = is_exported;
    }
}

static size_t count_chunks(const mend_heap *heap, const extent *what)
{
    size_t count = 0;
    CHUNKS_OF_EACH(const mend_chunk, chunk, heap, what) {
        count++;
    }
    return count;
}

/* An export begins in the mapping of its first chunk. */
static exported *make(const mend_heap *heap, const extent *what)
{
    const size_t count = count_chunks(heap, what);
    const mend_chunk *first = mend_chunk_at(&heap->chunks, what->address);
    exported *export = calloc(1, sizeof(*export) + count * sizeof(export->by_file[0]));
    if (export == NULL) {
        return NULL;
    }
    export->what = *what;
    export->published.chunks = export->by_file;
    export->published.number = mend_share_next_number();
    export->published.all = (mend_fetched){.count = count,
                                           .offset_bytes = what->address - first->address,
                                           .size_bytes = what->size_bytes};
    CHUNKS_OF_EACH(const mend_chunk, chunk, heap, what) {
        export->published.all.all_bytes += chunk->size_bytes;
    }
    return export;
}

static const int share_types[MEND_EXPORT_WAYS] = {[MEND_EXPORT_BY_FILE] =
                                                      MEND_SHARE_FILE_DESCRIPTOR,
                                                  [MEND_EXPORT_BY_FABRIC] = MEND_SHARE_FABRIC};

/* The first export of a chunk asks the driver for a file or a fabric handle. The chunk keeps the
 * file until its last export by file ends, and the handle until its memory is released. A failure
 * changes nothing. */
static mend_status begin_in_chunk(mend_heap *heap, mend_chunk *chunk, mend_export_way way)
{
    const bool is_by_file = way == MEND_EXPORT_BY_FILE;
    if (is_by_file ? chunk->exports[way] == 0 : !chunk->memory.has_fabric) {
        void *out = is_by_file ? (void *)&chunk->file : chunk->memory.fabric;
        MEND_TRY_CALL(
            heap->driver->export_handle(heap->driver, chunk->memory.handle, share_types[way], out));
        chunk->file = is_by_file ? mend_file_keep(chunk->file) : chunk->file;
        if (is_by_file && chunk->file < 0) {
            return MEND_DRIVER_OUT_OF_MEMORY; /* as drivers call it */
        }
        chunk->memory.has_fabric = chunk->memory.has_fabric || !is_by_file;
    }
    heap->exported_bytes += mend_chunk_is_exported(chunk) ? 0 : chunk->size_bytes;
    chunk->exports[way]++;
    return MEND_DRIVER_OK;
}

/* Takes the block from the first `count` chunks that hold it. */
static void end_in_chunks(mend_heap *heap, const exported *export, mend_export_way way,
                          uint64_t count)
{
    CHUNKS_OF_EACH(mend_chunk, chunk, heap, &export->what) {
        if (count-- == 0) {
            return;
        }
        if (--chunk->exports[way] == 0 && way == MEND_EXPORT_BY_FILE) {
            close(chunk->file);
        }
        heap->exported_bytes -= mend_chunk_is_exported(chunk) ? 0 : chunk->size_bytes;
    }
}

/* A driver calls it "out of memory" when a process has too many open files. */
static mend_result refused_chunk(mend_heap *heap, const exported *export, mend_export_way way,
                                 mend_status status)
{
    const mend_result result = mend_driver_refused(heap, MEND_ANSWER(export_handle, status));
    uint64_t limit;
    if (way != MEND_EXPORT_BY_FILE || result == MEND_ERROR_DEVICE_LOST ||
        !mend_share_lacks_files(&limit)) {
        return result;
    }
    return mend_refused(
        heap->driver, MEND_ERROR_SYSTEM, MEND_CALL_export_handle, status,
        "mend_export: the process has too many open files (at most %lu); an exported chunk keeps "
        "one open, and the block has %lu chunks: raise the limit (ulimit -n), export fewer "
        "blocks, or have larger chunks (mend_pool_config.strategy)",
        limit, export->published.all.count);
}

/* Has a file or fabric handle made for each chunk that has none. */
static mend_result export_chunks(mend_heap *heap, const exported *export, mend_export_way way)
{
    mend_driver_scope scope;
    mend_result result = MEND_OK;
    size_t done = 0;
    MEND_TRY(
        mend_heap_check_awake(heap, export->what.address, export->what.size_bytes, "mend_export"));
    MEND_TRY(mend_driver_scope_open(heap, &scope));
    CHUNKS_OF_EACH(mend_chunk, chunk, heap, &export->what) {
        mend_status status = begin_in_chunk(heap, chunk, way);
        if (status != MEND_DRIVER_OK) {
            result = refused_chunk(heap, export, way, status);
            end_in_chunks(heap, export, way, done);
            break;
        }
        done++;
    }
    mend_driver_scope_close(heap, &scope);
    return result;
}

static mend_result check_way(const mend_heap *heap, const extent *what, mend_export_way way)
{
    bool can_export = true;
    bool is_private = false; /* some of it, in a pool whose chunks can be shared */
    CHUNKS_OF_EACH(const mend_chunk, chunk, heap, what) {
        can_export = can_export && (chunk->memory.share_types & share_types[way]) != 0;
        is_private = is_private || (chunk->memory.share_types == MEND_SHARE_NONE &&
                                    heap->chunks.properties.share_types != MEND_SHARE_NONE);
    }
    if (can_export) {
        return way == MEND_EXPORT_BY_FILE ? mend_share_open() : MEND_OK;
    }
    if (is_private) {
        return mend_failure(MEND_ERROR_NOT_SUPPORTED,
                            "mend_export: mend_prepare_checkpoint has made the memory at 0x%lx "
                            "private",
                            what->address);
    }
    const mend_status refusal = heap->chunks.fabric_refusal;
    if (way == MEND_EXPORT_BY_FABRIC && refusal != MEND_DRIVER_OK) {
        return mend_failure(MEND_ERROR_NOT_SUPPORTED,
                            "the driver refused memory with fabric handles (%s): an IMEX channel "
                            "may be missing",
                            heap->driver->status_name(heap->driver, refusal));
    }
    return mend_failure(
        MEND_ERROR_NOT_SUPPORTED,
        way == MEND_EXPORT_BY_FABRIC
            ? "the pool's memory has no fabric handles: create the pool with "
              "mend_pool_config.shareable = MEND_SHAREABLE_FABRIC, on a device that has them"
        : heap->config.share_types == MEND_SHARE_NONE
            ? "the pool's memory cannot leave the process: create the pool with "
              "mend_pool_config.shareable, on a device that can"
            : "the device cannot share memory by file descriptors: use MEND_EXPORT_FABRIC");
}

/* In a further way if *added is the export already. Files or handles of the chunks come first,
 * which can fail. Then the chunks are pinned, the block is marked, and importers may ask for it. */
static mend_result add(mend_heap *heap, const extent *what, mend_export_way way, exported **added)
{
    const bool is_first = *added == NULL;
    exported *export = is_first ? make(heap, what) : *added;
    if (export == NULL) {
        return mend_no_host_memory("an export");
    }
    mend_result result = export_chunks(heap, export, way);
    if (result != MEND_OK) {
        if (is_first) {
            free(export);
        }
        return result;
    }
    CHUNKS_OF_EACH(mend_chunk, chunk, heap, what) {
        chunk->memory.was_exported = true; /* of an export that failed others have nothing */
        if (is_first) {
            mend_chunk_pin(&heap->chunks, chunk);
        }
    }
    if (is_first) {
        mend_tree_insert(&heap->exports, &export->by_address);
        mark(what, true);
        mend_events_note(&heap->events, MEND_EVENT_PIN, what->address, what->size_bytes, 0);
    }
    export->is_in[way] = true;
    if (way == MEND_EXPORT_BY_FILE) {
        size_t i = 0;
        CHUNKS_OF_EACH(const mend_chunk, chunk, heap, what) {
            export->by_file[i++] = (mend_shared_chunk){chunk->file, chunk->size_bytes};
        }
        mend_share_publish(&export->published);
    }
    *added = export;
    return MEND_OK;
}

/* ---- mend_export ----------------------------------------------------------------------------- */

/* All pages are committed. Pages that are exported already must be in one export that has all of
 * them. */
static mend_result find_pages(const mend_heap *heap, uint64_t range, uint64_t address,
                              uint64_t size_bytes, extent *what)
{
    const uint64_t last = address + size_bytes - 1;
    if (last < address || heap->ranges.around(heap, last) != range) {
        return mend_failure(MEND_ERROR_INVALID_ARGUMENT,
                            "%lu bytes at 0x%lx are not in the range 0x%lx", size_bytes, address,
                            range);
    }
    bool any_exported = false;
    uint64_t end = address;
    while (end <= last) {
        const mend_span *page = heap->ranges.page_at(heap, end);
        if (page == NULL) {
            return mend_failure(MEND_ERROR_DOUBLE_FREE,
                                "the page at 0x%lx is not committed, and is not exported", end);
        }
        any_exported |= page->is_exported;
        end = mend_span_end(page);
    }
    extent pages = {.first = heap->ranges.page_at(heap, address)};
    pages.address = pages.first->address;
    pages.size_bytes = end - pages.address;
    const exported *export = any_exported ? find(heap, pages.address) : NULL;
    if (any_exported && (export == NULL || end > end_of(&export->what))) {
        return mend_failure(MEND_ERROR_INVALID_ARGUMENT,
                            "some of the pages at 0x%lx are exported already, with other "
                            "pages or without; a page is in one export",
                            address);
    }
    *what = export != NULL ? export->what : pages;
    return MEND_OK;
}

/* The block or pages of an export of `size_bytes` from the pointer on. Of a range one page at
 * least: 0 names a pointer alone. */
static mend_result find_what(mend_heap *heap, const void *pointer, uint64_t size_bytes,
                             extent *what)
{
    const uint64_t address = (uint64_t)(uintptr_t)pointer;
    const uint64_t range = heap->ranges.around(heap, address);
    mend_span *span = NULL;
    if (range != 0) {
        return find_pages(heap, range, address, size_bytes > 0 ? size_bytes : 1, what);
    }
    if (size_bytes > 0) {
        return mend_failure(MEND_ERROR_FOREIGN_POINTER,
                            "%p lies in no range of this pool; a block is exported as a whole, "
                            "without size_bytes",
                            pointer);
    }
    MEND_TRY(mend_block_around(heap, address, &span));
    if (span->chunk == NULL) {
        return mend_failure(MEND_ERROR_NOT_SUPPORTED,
                            "mend_export: the block at 0x%lx is passed through to the driver; "
                            "cudaIpcGetMemHandle exports it",
                            span->address);
    }
    *what = (extent){.first = span, .address = span->address, .size_bytes = span->size_bytes};
    return MEND_OK;
}

/* Finds the block or pages, and the size of its token. Exports it if that fits, unless that is
 * done, or fails if the caller does not ask for the size. An export is of the whole, or there is
 * none. */
static mend_result export_it(mend_pool *pool, const void *pointer,
                             const mend_export_options *options, void *token, size_t capacity_bytes,
                             size_t *token_bytes, uint64_t *offset_bytes)
{
    mend_heap *heap = &pool->heap;
    const bool by_fabric = options->kind == MEND_EXPORT_FABRIC;
    const mend_export_way way = by_fabric ? MEND_EXPORT_BY_FABRIC : MEND_EXPORT_BY_FILE;
    extent what = {.first = NULL};
    assert(mend_mutex_is_held(&heap->grow) && mend_mutex_is_held(&heap->state));
    MEND_TRY(find_what(heap, pointer, options->size_bytes, &what));
    const size_t needed_bytes = by_fabric ? mend_description_size(count_chunks(heap, &what))
                                          : (size_t)MEND_EXPORT_TOKEN_BYTES;
    const bool fits = needed_bytes <= capacity_bytes;
    exported *export = find(heap, what.address);
    const bool is_there = export != NULL && export->is_in[way];
    if (!is_there && (by_fabric || fits)) {
        MEND_TRY(check_way(heap, &what, way));
    }
    if (!fits && token_bytes == NULL) {
        return mend_failure(MEND_ERROR_INVALID_ARGUMENT,
                            "mend_export: the token has %lu bytes, and the array has %lu",
                            needed_bytes, capacity_bytes);
    }
    if (fits && !is_there) {
        MEND_TRY(add(heap, &what, way, &export));
    }
    if (fits && !by_fabric) {
        mend_share_write_token(&export->published, token);
    }
    if (fits && by_fabric) {
        size_t i = 0;
        CHUNKS_OF_EACH(const mend_chunk, chunk, heap, &what) {
            mend_described_chunk described = {.size_bytes = chunk->size_bytes};
            memcpy(described.handle, chunk->memory.fabric, sizeof(described.handle));
            mend_description_write_chunk(token, i++, &described);
        }
        mend_description_write_head(token, &(mend_description){.number = export->published.number,
                                                               .all = export->published.all});
    }
    if (token_bytes != NULL) {
        *token_bytes = needed_bytes;
    }
    if (offset_bytes != NULL) {
        *offset_bytes = (uint64_t)(uintptr_t)pointer - what.address;
    }
    return MEND_OK;
}

mend_result mend_export(mend_pool *pool, const void *pointer, const mend_export_options *options,
                        void *token, size_t capacity_bytes, size_t *token_bytes,
                        uint64_t *offset_bytes)
{
    mend_export_options all = MEND_EXPORT_OPTIONS_INIT;
    MEND_INVALID_IF(pool == NULL || pointer == NULL ||
                        (token == NULL && (capacity_bytes > 0 || token_bytes == NULL)),
                    "mend_export: pool, pointer or token is NULL");
    MEND_TRY(mend_pool_read_struct(options, "MEND_EXPORT_OPTIONS_INIT", &all, sizeof(all)));
    MEND_INVALID_IF(all.kind != MEND_EXPORT_SOCKET && all.kind != MEND_EXPORT_FABRIC,
                    "mend_export_options.kind is no mend_export_kind");
    MEND_TRY(mend_pool_enter_all(pool));
    return mend_pool_leave_all(
        pool, export_it(pool, pointer, &all, token, capacity_bytes, token_bytes, offset_bytes));
}

/* ---- the end --------------------------------------------------------------------------------- */

void mend_exports_end(mend_heap *heap, const mend_span *span)
{
    exported *export = find(heap, span->address);
    assert(mend_mutex_is_held(&heap->state));
    assert(span->live && span->is_exported);
    if (export->is_in[MEND_EXPORT_BY_FILE]) {
        mend_share_withdraw(&export->published);
    }
    CHUNKS_OF_EACH(mend_chunk, chunk, heap, &export->what) {
        mend_chunk_unpin(&heap->chunks, chunk);
    }
    mend_events_note(&heap->events, MEND_EVENT_UNPIN, export->what.address, export->what.size_bytes,
                     0);
    for (mend_export_way way = 0; way < MEND_EXPORT_WAYS; way++) {
        if (export->is_in[way]) {
            end_in_chunks(heap, export, way, export->published.all.count);
        }
    }
    mend_tree_remove(&heap->exports, &export->by_address);
    mark(&export->what, false);
    free(export);
}

/* ---- for the validation ---------------------------------------------------------------------- */

uint64_t mend_exports_in(const mend_heap *heap, const mend_chunk *chunk, mend_export_way way)
{
    uint64_t count = 0;
    const uint64_t end = chunk->address + chunk->size_bytes;
    MEND_TREE_EACH(const exported, export, by_address, &heap->exports) {
        count += chunk->address != 0 && (way == MEND_EXPORT_WAYS || export->is_in[way]) &&
                 export->what.address < end && chunk->address < end_of(&export->what);
    }
    return count;
}

bool mend_exports_are_right(const mend_heap *heap, uint64_t marked)
{
    uint64_t end = 0;
    MEND_TREE_EACH(const exported, export, by_address, &heap->exports) {
        const extent *what = &export->what;
        const bool is_by_file = export->is_in[MEND_EXPORT_BY_FILE];
        const bool is_by_fabric = export->is_in[MEND_EXPORT_BY_FABRIC];
        size_t count = 0;
        CHUNKS_OF_EACH(const mend_chunk, chunk, heap, what) { /* they have handles for others */
            const mend_shared_chunk *file = &export->by_file[count];
            if (count++ >= export->published.all.count || chunk->pins == 0 ||
                (is_by_fabric && !chunk->memory.has_fabric) ||
                (is_by_file &&
                 (chunk->file != file->file || chunk->size_bytes != file->size_bytes))) {
                return false;
            }
        }
        if (what->address < end || (!is_by_file && !is_by_fabric) ||
            export->published.all.count != count) {
            return false;
        }
        end = what->address;
        for (const mend_span *at = what->first; at != NULL && end < end_of(what); at = at->next) {
            if (!at->live || !at->is_exported || at->address != end || marked == 0) {
                return false;
            }
            end = mend_span_end(at);
            marked--;
        }
        if (end != end_of(what)) {
            return false;
        }
    }
    uint64_t bytes = 0;
    MEND_TREE_EACH(const mend_chunk, chunk, by_address, &heap->chunks.mapped) {
        bytes += mend_chunk_is_exported(chunk) ? chunk->size_bytes : 0;
    }
    return mend_tree_is_valid(&heap->exports) && marked == 0 && bytes == heap->exported_bytes;
}

/* ---- hooks of the feature -------------------------------------------------------------------- */

void mend_share_init(mend_heap *heap)
{
    mend_tree_init(&heap->exports, compare_addresses);
    mend_imports_init(heap);
    mend_pins_init(heap);
}

void mend_share_give_back(mend_heap *heap, mend_ending *ending)
{
    mend_tree_node *at;
    while ((at = mend_tree_first(&heap->exports)) != NULL) {
        mend_exports_end(heap, MEND_CONTAINER_OF(at, exported, by_address)->what.first);
    }
    if (ending->is_idle) {
        mend_imports_give_back(heap, ending);
    }
}

void mend_share_clear(mend_heap *heap)
{
    mend_imports_clear(heap);
    mend_slab_clear(&heap->pins.nodes);
}

void mend_share_statistics(const mend_heap *heap, mend_stats *stats)
{
    const mend_chunks *chunks = &heap->chunks;
    stats->exported_blocks = heap->exports.count;
    stats->exported_bytes = heap->exported_bytes;
    stats->importers_bytes = chunks->importers_bytes;
    stats->imports = heap->imports.by_address.count;
    stats->imported_bytes = heap->imports.bytes;
    stats->pinned_bytes = chunks->pinned_bytes;
}
