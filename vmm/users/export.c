#include "users/export.h"

#include <assert.h>
#include <stdlib.h>

#include "base/error.h"
#include "layout/locate.h"
#include "move/scope.h"
#include "share/server.h"
#include "users/pin.h"

typedef struct exported {
    mend_tree_node by_address;
    mend_span *span; /* the block */
    uint64_t address;
    uint64_t size_bytes;
    mend_published published;
    mend_shared_chunk chunks[]; /* published.count of them */
} exported;

#define EXPORT_OF(node) ((node) ? MEND_CONTAINER_OF(node, exported, by_address) : NULL)

static int compare_addresses(const mend_tree_node *first, const mend_tree_node *second)
{
    uint64_t a = MEND_CONTAINER_OF(first, exported, by_address)->address;
    uint64_t b = MEND_CONTAINER_OF(second, exported, by_address)->address;
    return (a > b) - (a < b);
}

void mend_exports_init(mend_heap *heap)
{
    mend_tree_init(&heap->exports.by_address, compare_addresses);
}

static exported *find(const mend_heap *heap, const mend_span *span)
{
    exported key = {.address = span->address};
    exported *found = EXPORT_OF(mend_tree_at_or_after(&heap->exports.by_address, &key.by_address));
    assert(found != NULL);
    assert(found->span == span);
    return found;
}

static size_t count_chunks(const mend_heap *heap, const mend_span *span)
{
    size_t count = 0;
    for (const mend_chunk *at = mend_chunk_at(&heap->chunks, span->address);
         at != NULL && at->address < mend_span_end(span); at = mend_chunk_next(at)) {
        count++;
    }
    return count;
}

static exported *make(const mend_heap *heap, mend_span *span)
{
    const size_t count = count_chunks(heap, span);
    exported *export = calloc(1, sizeof(*export) + count * sizeof(export->chunks[0]));
    if (export != NULL) {
        const mend_chunk *first = mend_chunk_at(&heap->chunks, span->address);
        export->span = span;
        export->address = span->address;
        export->size_bytes = span->size_bytes;
        export->published = (mend_published){.offset_bytes = span->address - first->address,
                                             .size_bytes = span->size_bytes,
                                             .chunks = export->chunks,
                                             .count = count};
    }
    return export;
}

/* Takes the block from the first `count` chunks that hold it. */
static void end_in_chunks(mend_heap *heap, const exported *export, size_t count)
{
    mend_chunk *at = mend_chunk_at(&heap->chunks, export->address);
    for (size_t i = 0; i < count; i++) {
        assert(at != NULL);
        mend_chunk *next = mend_chunk_next(at);
        mend_chunk_end_export(&heap->chunks, at);
        at = next;
    }
}

/* Has a file made for each chunk that has none. */
static mend_result export_chunks(mend_heap *heap, exported *export)
{
    mend_chunk *at = mend_chunk_at(&heap->chunks, export->address);
    for (size_t i = 0; i < export->published.count; i++) {
        mend_status status = mend_chunk_export(&heap->chunks, at);
        if (status != MEND_DRIVER_OK) {
            end_in_chunks(heap, export, i);
            return mend_driver_refused(heap, MEND_CALL_export_handle, status);
        }
        export->chunks[i] = (mend_shared_chunk){at->file, at->size_bytes};
        at = mend_chunk_next(at);
    }
    return MEND_OK;
}

static mend_result export_and_pin(mend_heap *heap, exported *export)
{
    mend_scope scope;
    mend_result result = mend_scope_open(heap, &scope);
    if (result != MEND_OK) {
        return result;
    }
    result = export_chunks(heap, export);
    if (result == MEND_OK) {
        result = mend_pins_add(heap, export->address, export->size_bytes, MEND_PIN_OF_EXPORT);
        if (result != MEND_OK) {
            end_in_chunks(heap, export, export->published.count);
        }
    }
    mend_scope_close(heap, &scope);
    return result;
}

static mend_result add(mend_heap *heap, mend_span *span)
{
    if (!heap->config.shareable) {
        return mend_failure(MEND_ERROR_NOT_SUPPORTED,
                            "the pool's memory cannot leave the process: create the pool with "
                            "mend_pool_config.shareable");
    }
    mend_result result = mend_share_open();
    if (result != MEND_OK) {
        return result;
    }
    exported *export = make(heap, span);
    if (export == NULL) {
        return mend_failure(MEND_ERROR_OUT_OF_HOST_MEMORY, "malloc failed for an export");
    }
    result = export_and_pin(heap, export);
    if (result != MEND_OK) {
        free(export);
        return result;
    }
    mend_tree_insert(&heap->exports.by_address, &export->by_address);
    span->is_exported = true;
    mend_share_publish(&export->published);
    return MEND_OK;
}

mend_result mend_exports_add(mend_heap *heap, mend_span *span, mend_export_token *token)
{
    assert(mend_mutex_is_held(&heap->grow));
    assert(mend_mutex_is_held(&heap->state));
    assert(span->live);
    mend_result result = span->is_exported ? MEND_OK : add(heap, span);
    if (result == MEND_OK) {
        mend_share_write_token(&find(heap, span)->published, token);
    }
    return result;
}

static void end(mend_heap *heap, exported *export)
{
    mend_share_withdraw(&export->published);
    mend_result unpinned =
        mend_pins_remove(heap, export->address, export->size_bytes, MEND_PIN_OF_EXPORT);
    assert(unpinned == MEND_OK);
    (void)unpinned;
    end_in_chunks(heap, export, export->published.count);
    mend_tree_remove(&heap->exports.by_address, &export->by_address);
    export->span->is_exported = false;
    free(export);
}

void mend_exports_end(mend_heap *heap, mend_span *span)
{
    assert(mend_mutex_is_held(&heap->state));
    assert(span->live);
    end(heap, find(heap, span));
}

void mend_exports_clear(mend_heap *heap)
{
    mend_tree_node *at;
    while ((at = mend_tree_first(&heap->exports.by_address)) != NULL) {
        end(heap, MEND_CONTAINER_OF(at, exported, by_address));
    }
}

/* ---- for the audit --------------------------------------------------------------------------- */

uint64_t mend_exports_in(const mend_heap *heap, const mend_chunk *chunk)
{
    uint64_t count = 0;
    const uint64_t end = chunk->address + chunk->size_bytes;
    for (const mend_tree_node *at = mend_tree_first(&heap->exports.by_address); at != NULL;
         at = mend_tree_next(at)) {
        const exported *export = MEND_CONTAINER_OF(at, exported, by_address);
        count += chunk->address != 0 && export->address < end &&
                 chunk->address < export->address + export->size_bytes;
    }
    return count;
}

/* The chunks of an export are those that hold the block, with their files. */
static bool names_its_chunks(const mend_heap *heap, const exported *export)
{
    const mend_chunk *at = mend_chunk_at(&heap->chunks, export->address);
    for (size_t i = 0; i < export->published.count; i++) {
        if (at == NULL || at->file != export->chunks[i].file || at->pins == 0 ||
            at->size_bytes != export->chunks[i].size_bytes) {
            return false;
        }
        at = mend_chunk_next(at);
    }
    return export->published.count == count_chunks(heap, export->span);
}

bool mend_exports_are_right(const mend_heap *heap, uint64_t marked_blocks)
{
    for (const mend_tree_node *at = mend_tree_first(&heap->exports.by_address); at != NULL;
         at = mend_tree_next(at)) {
        const exported *export = MEND_CONTAINER_OF(at, exported, by_address);
        const mend_span *span = export->span;
        if (!span->live || !span->is_exported || span->address != export->address ||
            span->size_bytes != export->size_bytes || !names_its_chunks(heap, export)) {
            return false;
        }
    }
    return mend_tree_is_valid(&heap->exports.by_address) &&
           marked_blocks == heap->exports.by_address.count;
}
