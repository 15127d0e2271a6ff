/* The calls for memory of other processes, and for memory that they may have. */
#include <stdlib.h>
#include <string.h>

#include "alloc/heap.h"
#include "base/system.h"
#include "pool/pool.h"
#include "share/share.h"

/* ---- import ---------------------------------------------------------------------------------- */

/* The chunks that an import has fetched so far. */
typedef struct fetching {
    const mend_driver *driver;
    uint64_t page_bytes;
    mend_import_name name;
    mend_imported *import;
    size_t taken;
    mend_status refused; /* the driver's refusal of a chunk, or OK */
} fetching;

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

/* The result of a refused import. For a file the code says nothing. A fabric handle may be of
 * another IMEX channel, or stale. */
static mend_result meaning_of(mend_status refused, int share_type)
{
    if (mend_status_is_fatal(refused)) {
        return MEND_ERROR_DEVICE_LOST;
    }
    if (share_type != MEND_SHARE_FABRIC) {
        return MEND_ERROR_DRIVER;
    }
    switch (refused) {
    case MEND_DRIVER_NOT_PERMITTED:
    case MEND_DRIVER_NOT_SUPPORTED:
        return MEND_ERROR_NOT_SUPPORTED;
    case MEND_DRIVER_INVALID_VALUE:
    case MEND_DRIVER_INVALID_HANDLE:
        return MEND_ERROR_EXPORTER_GONE;
    default:
        return MEND_ERROR_DRIVER;
    }
}

static const char *words_of(mend_result result)
{
    switch (result) {
    case MEND_ERROR_NOT_SUPPORTED:
        return "this process may not use the exporter's memory: the device has no fabric handles, "
               "or the two have not the same IMEX channel";
    case MEND_ERROR_SYSTEM:
        return "the process has too many open files: raise the limit (ulimit -n)";
    case MEND_ERROR_EXPORTER_GONE:
        return "the process that exported the memory has ended, or gave it back";
    default:
        return "the driver does not import a chunk";
    }
}

/* The next chunk, by the file or handle at `shared`. */
static mend_result take_chunk(fetching *f, const void *shared, int share_type, uint64_t size_bytes)
{
    mend_imported_chunk *chunk = &f->import->chunks[f->taken];
    if (size_bytes % f->page_bytes != 0) {
        return mend_failure(MEND_ERROR_NOT_SUPPORTED,
                            "a chunk of %llu bytes was exported, but a page of this device has "
                            "%llu bytes",
                            (unsigned long long)size_bytes, (unsigned long long)f->page_bytes);
    }
    f->refused = f->driver->import_handle(f->driver, shared, share_type, &chunk->handle);
    if (f->refused != MEND_DRIVER_OK) {
        uint64_t limit;
        const mend_result meaning = meaning_of(f->refused, share_type);
        const bool lacks_files = meaning == MEND_ERROR_DRIVER &&
                                 share_type == MEND_SHARE_FILE_DESCRIPTOR &&
                                 mend_lacks_files(&limit);
        const mend_result result = lacks_files ? MEND_ERROR_SYSTEM : meaning;
        return mend_refused(f->driver, result, MEND_CALL_import_handle, f->refused, "%s",
                            words_of(result));
    }
    chunk->size_bytes = size_bytes;
    f->taken++;
    return MEND_OK;
}

static mend_result take(void *context, int file, uint64_t size_bytes)
{
    return take_chunk(context, &file, MEND_SHARE_FILE_DESCRIPTOR, size_bytes);
}

/* Releases fetched chunks that are not needed. */
static void discard(mend_pool *pool, fetching *f)
{
    if (f->taken == 0) {
        free(f->import);
        return;
    }
    mend_heap_lock_all(&pool->heap);
    mend_imports_discard(&pool->heap, f->import);
    mend_heap_unlock_all(&pool->heap);
}

/* A refusal of the driver's counts. The caller holds no lock. */
static void note_refusal(mend_pool *pool, const fetching *f)
{
    if (f->refused != MEND_DRIVER_OK) {
        mend_heap_lock(&pool->heap);
        (void)mend_driver_did(&pool->heap, f->refused);
        mend_unlocking_remember(&pool->heap.unlocking, MEND_ANSWER(import_handle, f->refused));
        mend_heap_unlock(&pool->heap);
    }
}

/* Talks to the exporter without a lock. */
static mend_result fetch(fetching *f, const mend_token_content *content)
{
    const mend_share_taker taker = {begin, take, f};
    MEND_TRY(mend_share_fetch(content, MEND_SHARE_PATIENCE_MS, &taker));
    return f->import->offset_bytes >= f->import->chunks[0].size_bytes
               ? mend_failure(MEND_ERROR_EXPORTER_GONE,
                              "the exporter answers with another version of the library")
               : MEND_OK;
}

/* Takes the chunks of a description, without a lock. */
static mend_result fetch_described(fetching *f, const void *description,
                                   const mend_description *head)
{
    MEND_TRY(begin(f, &head->all));
    for (size_t i = 0; i < head->all.count; i++) {
        const mend_described_chunk chunk = mend_description_chunk(description, i);
        MEND_TRY(take_chunk(f, chunk.handle, MEND_SHARE_FABRIC, chunk.size_bytes));
    }
    return MEND_OK;
}

static mend_result no_import(const void *pointer)
{
    return mend_failure(MEND_ERROR_FOREIGN_POINTER, "%p was not returned by an import", pointer);
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
    MEND_TRY(mend_pool_enter_all(pool));
    mend_result result = MEND_OK;
    if (!use_again(pool, &f->name, pointer, size_bytes)) {
        result = mend_imports_map(&pool->heap, f->import);
        if (result == MEND_OK) {
            use(f->import, pointer, size_bytes);
            f->import = NULL; /* the heap's */
            f->taken = 0;
        }
    }
    return mend_pool_leave_all(pool, result);
}

/* The contents of a token: the kind, and the name by which the pool knows the import. */
typedef struct token_read {
    bool by_fabric;
    mend_token_content content; /* of a socket's */
    mend_description head;      /* of fabric handles */
    mend_import_name name;
} token_read;

static mend_result read_token(const void *token, size_t token_bytes, token_read *read)
{
    *read = (token_read){.by_fabric = token_bytes != MEND_EXPORT_TOKEN_BYTES};
    if (!read->by_fabric) {
        memcpy(read->name.bytes, token, sizeof(read->name.bytes));
        return mend_token_read(token, &read->content)
                   ? MEND_OK
                   : mend_pool_invalid("mend_import: the token is cut or changed, or of another "
                                       "version of the library");
    }
    const char *wrong = mend_description_read(token, token_bytes, &read->head);
    if (wrong != NULL) {
        return mend_fail(MEND_ERROR_INVALID_ARGUMENT, "mend_import: the token %s", wrong);
    }
    const mend_described_chunk first = mend_description_chunk(token, 0);
    memcpy(read->name.bytes, first.handle, sizeof(read->name.bytes));
    read->name.number = read->head.number;
    return MEND_OK;
}

/* The pool is asked twice whether it has the import: before the exporter is, and when all chunks
 * have come, because another thread may have imported the same meanwhile. In between no lock is
 * held. Releases fetched chunks that are not mapped. */
mend_result mend_import(mend_pool *pool, const void *token, size_t token_bytes, void **pointer,
                        uint64_t *size_bytes)
{
    token_read read;
    MEND_INVALID_IF(pool == NULL || token == NULL || pointer == NULL,
                    "mend_import: pool, token or pointer is NULL");
    MEND_TRY(read_token(token, token_bytes, &read));
    MEND_TRY(mend_pool_enter_all(pool));
    const bool is_here = use_again(pool, &read.name, pointer, size_bytes);
    mend_result result = mend_pool_leave_all(pool, MEND_OK);
    if (is_here) {
        return result;
    }
    fetching f = {.driver = pool->driver,
                  .page_bytes = pool->heap.device.granularity_bytes,
                  .name = read.name};
    result = read.by_fabric ? fetch_described(&f, token, &read.head) : fetch(&f, &read.content);
    note_refusal(pool, &f);
    mend_publish(result);
    if (result == MEND_OK) {
        result = map(pool, &f, pointer, size_bytes);
    }
    discard(pool, &f);
    return result;
}

/* ---- close ----------------------------------------------------------------------------------- */

/* The stamp behind which the mapping is idle. Without a stream the CPU waits, and the mapping is
 * idle now. */
static mend_result find_end(mend_heap *heap, mend_order order, uint64_t all_bytes,
                            mend_stamp *stamp, uint32_t *asking)
{
    *stamp = (mend_stamp){0};
    *asking = MEND_STREAM_UNKNOWN;
    if (order.stream == MEND_NO_STREAM) {
        return mend_streams_wait_context(&heap->streams, MEND_STREAM_UNKNOWN);
    }
    if (order.capture != 0) {
        return mend_failure(MEND_ERROR_CAPTURING,
                            "the stream %p is being captured: close the import after the capture",
                            (void *)order.stream);
    }
    MEND_TRY(mend_users_find_stream(heap, order.stream, 0, asking));
    *stamp = mend_streams_stamp(&heap->streams, *asking, all_bytes);
    if (heap->config.detect_destroyed_streams) {
        mend_users_record_fence(heap, *asking); /* nothing else asks about the stream */
    }
    return MEND_OK;
}

static mend_result close_last(mend_heap *heap, mend_imported *import, mend_order order)
{
    mend_driver_scope scope;
    MEND_TRY(mend_enter(heap, &scope));
    mend_stamp stamp;
    uint32_t asking;
    mend_result result = find_end(heap, order, import->mapped.bytes, &stamp, &asking);
    if (result == MEND_OK) {
        result = mend_imports_close(heap, import, stamp, asking);
    }
    mend_driver_scope_close(heap, &scope);
    return result;
}

mend_result mend_import_close(mend_pool *pool, void *pointer, mend_stream stream)
{
    MEND_INVALID_IF(
        pool == NULL || pointer == NULL || stream == MEND_EVERY_STREAM,
        "mend_import_close: pool or pointer is NULL, or the stream is MEND_EVERY_STREAM");
    mend_order order;
    MEND_TRY(mend_pool_find_order(pool, stream, &order));
    MEND_TRY(mend_pool_enter_all(pool));
    mend_heap *heap = &pool->heap;
    mend_imported *import = mend_imports_find_address(heap, (uint64_t)(uintptr_t)pointer);
    if (import != NULL && import->uses > 1) {
        import->uses--;
        return mend_pool_leave_all(pool, MEND_OK);
    }
    return mend_pool_leave_all(pool, import == NULL ? no_import(pointer)
                                                    : close_last(heap, import, order));
}

/* All pages are committed. Pages that are exported already must be in one export that has all of
 * them. */
static mend_result find_pages(const mend_heap *heap, uint64_t range, uint64_t address,
                              uint64_t size_bytes, mend_extent *what)
{
    const uint64_t last = address + size_bytes - 1;
    if (last < address || heap->ranges.around(heap, last) != range) {
        return mend_failure(
            MEND_ERROR_INVALID_ARGUMENT, "%llu bytes at 0x%llx are not in the range 0x%llx",
            (unsigned long long)size_bytes, (unsigned long long)address, (unsigned long long)range);
    }
    bool any_exported = false;
    uint64_t end = address;
    while (end <= last) {
        const mend_span *page = heap->ranges.page_at(heap, end);
        if (page == NULL) {
            return mend_failure(MEND_ERROR_DOUBLE_FREE,
                                "the page at 0x%llx is not committed, and is not exported",
                                (unsigned long long)end);
        }
        any_exported |= page->is_exported;
        end = mend_span_end(page);
    }
    mend_extent pages = {.first = heap->ranges.page_at(heap, address)};
    pages.address = pages.first->address;
    pages.size_bytes = end - pages.address;
    if (any_exported && (!mend_exports_find(heap, pages.address, &pages) ||
                         end > pages.address + pages.size_bytes)) {
        return mend_failure(MEND_ERROR_INVALID_ARGUMENT,
                            "some of the pages at 0x%llx are exported already, with other "
                            "pages or without; a page is in one export",
                            (unsigned long long)address);
    }
    *what = pages;
    return MEND_OK;
}

/* The block or pages of an export of `size_bytes` from the pointer on. Of a range one page at
 * least: 0 names a pointer alone. */
static mend_result find_what(mend_heap *heap, const void *pointer, uint64_t size_bytes,
                             mend_extent *what)
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
                            "mend_export: the block at 0x%llx is passed through to the driver; "
                            "cudaIpcGetMemHandle exports it",
                            (unsigned long long)span->address);
    }
    *what = (mend_extent){.first = span, .address = span->address, .size_bytes = span->size_bytes};
    return MEND_OK;
}

/* Finds the block or pages, and the size of its token. Exports it if that fits, or fails if the
 * caller does not ask for the size. */
static mend_result export_it(mend_pool *pool, const void *pointer,
                             const mend_export_options *options, void *token, size_t capacity_bytes,
                             size_t *token_bytes, uint64_t *offset_bytes)
{
    const bool by_fabric = options->kind == MEND_EXPORT_FABRIC;
    mend_extent what = {.first = NULL};
    MEND_TRY(find_what(&pool->heap, pointer, options->size_bytes, &what));
    size_t needed_bytes = MEND_EXPORT_TOKEN_BYTES;
    MEND_TRY(by_fabric ? mend_exports_description_size(&pool->heap, &what, &needed_bytes)
                       : MEND_OK);
    if (needed_bytes <= capacity_bytes) {
        MEND_TRY(by_fabric ? mend_exports_describe(&pool->heap, &what, token)
                           : mend_exports_add(&pool->heap, &what, token));
    } else if (token_bytes == NULL) {
        return mend_failure(MEND_ERROR_INVALID_ARGUMENT,
                            "mend_export: the token has %llu bytes, and the array has %llu",
                            (unsigned long long)needed_bytes, (unsigned long long)capacity_bytes);
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
    MEND_TRY(mend_pool_read_struct(options, "mend_export_options", &all, sizeof(all)));
    MEND_INVALID_IF(all.kind != MEND_EXPORT_SOCKET && all.kind != MEND_EXPORT_FABRIC,
                    "mend_export_options.kind is no mend_export_kind");
    MEND_TRY(mend_pool_enter_all(pool));
    return mend_pool_leave_all(
        pool, export_it(pool, pointer, &all, token, capacity_bytes, token_bytes, offset_bytes));
}
