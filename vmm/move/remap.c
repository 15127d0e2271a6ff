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
