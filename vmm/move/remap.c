/*
 * What a compaction could not map again. If the driver refuses a mapping or access after the old
 * mapping is gone, the new chunk has the bytes and stays frozen at its address. Its blocks are live
 * but cannot be used until a later call succeeds.
 */
#include "move/move.h"

#include <assert.h>

#include "base/error.h"
#include "move/driver_scope.h"

void mend_remap_end_claims(mend_heap *heap, mend_span *first, uint64_t end)
{
    for (mend_span *span = first, *next; span != NULL && span->address < end; span = next) {
        next = span->next;
        assert(!span->cached);
        if (!span->live && span->run == NULL) {
            assert(mend_layout_frozen_under(heap, span) == NULL); /* a claim ends when its chunk
                                                                   * unfreezes */
            mend_layout_end_claim(heap, span);
        }
    }
}

mend_status mend_remap_chunk(mend_heap *heap, mend_chunk *chunk, mend_span *first,
                             mend_driver_call *refused)
{
    mend_chunks *chunks = &heap->chunks;
    mend_status status = MEND_DRIVER_OK;
    assert(chunk->address != 0);
    assert(chunk->is_frozen);
    assert(chunk->missing != MEND_MISSING_NOTHING);
    if (chunk->missing == MEND_MISSING_MAPPING) {
        *refused = MEND_CALL_map;
        status = mend_step_map(heap, chunk->address, chunk);
        if (status == MEND_DRIVER_OK) {
            mend_chunk_set_missing(chunks, chunk, MEND_MISSING_ACCESS);
        }
    }
    if (status == MEND_DRIVER_OK) {
        *refused = MEND_CALL_set_access;
        status = mend_step_allow(heap, chunk->address, chunk->size_bytes);
    }
    if (status == MEND_DRIVER_OK) {
        mend_chunk_set_missing(chunks, chunk, MEND_MISSING_NOTHING);
    }
    if (status == MEND_DRIVER_OK && !chunk->on_host) {
        mend_chunk_thaw(chunks, chunk);
        mend_remap_end_claims(heap, first, chunk->address + chunk->size_bytes);
    }
    return status;
}

mend_result mend_remap_failed(mend_heap *heap, mend_driver_call call, mend_status status)
{
    mend_result result = mend_driver_refused(heap, call, status);
    return mend_driver_failure(result == MEND_ERROR_DEVICE_LOST ? result : MEND_ERROR_DRIVER,
                               mend_driver_call_name(call), status,
                               heap->driver->status_name(heap->driver, status),
                               "%u chunks of live blocks could not be mapped at their addresses: "
                               "nothing is lost, and later calls try again",
                               heap->chunks.missing_count);
}

size_t mend_remap_count_spans(const mend_span *first, uint64_t end)
{
    size_t count = 0;
    for (const mend_span *at = first; at != NULL && at->address < end; at = at->next) {
        count++;
    }
    return count;
}

/* Each span of the chunk may have been freed meanwhile, and then becomes a run. */
static mend_result restore_one(mend_heap *heap, mend_chunk *chunk)
{
    mend_span *first = mend_heap_span_at(heap, chunk->address);
    size_t runs = mend_remap_count_spans(first, chunk->address + chunk->size_bytes);
    if (!mend_slab_promise(&heap->nodes.runs, runs)) {
        return mend_failure(MEND_ERROR_OUT_OF_HOST_MEMORY,
                            "malloc failed while restoring a mapping");
    }
    mend_driver_call refused;
    mend_status status = mend_remap_chunk(heap, chunk, first, &refused);
    mend_slab_end_promise(&heap->nodes.runs, runs);
    return status == MEND_DRIVER_OK ? MEND_OK : mend_remap_failed(heap, refused, status);
}

mend_result mend_remap(mend_heap *heap)
{
    mend_result result = MEND_OK;
    mend_tree_node *at =
        heap->chunks.missing_count > 0 ? mend_tree_first(&heap->chunks.mapped) : NULL;
    for (; at != NULL; at = mend_tree_next(at)) {
        mend_chunk *chunk = MEND_CONTAINER_OF(at, mend_chunk, by_address);
        if (mend_chunk_misses_mapping(chunk)) {
            mend_result one = restore_one(heap, chunk);
            result = result == MEND_OK ? one : result;
        }
    }
    return result;
}

mend_result mend_remap_in_scope(mend_heap *heap)
{
    mend_driver_scope scope;
    mend_result result =
        heap->chunks.missing_count > 0 ? mend_driver_scope_open(heap, &scope) : MEND_OK;
    if (result == MEND_OK && heap->chunks.missing_count > 0) {
        result = mend_remap(heap);
        mend_driver_scope_close(heap, &scope);
    }
    return result;
}

void mend_remap_try(mend_heap *heap)
{
    if (heap->chunks.missing_count > 0) {
        mend_remap(heap);
    }
}
