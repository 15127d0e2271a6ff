/*
 * Retries: deferred work (memory/chunk.h) is done here, retired mappings also by each search for
 * memory (map/retire.c). A call that reaches the driver begins with one (mend_enter). Work that
 * became possible meanwhile, after a wait or a free, is done by another. Refused work stays for the
 * next retry.
 */
#include "map/map.h"

#include "layout/feature.h"

/* ---- mappings of live blocks ----------------------------------------------------------------- */

/* Each span of the chunk may have been freed meanwhile, and then becomes a run. */
static mend_result restore(mend_heap *heap, mend_chunk *chunk)
{
    const mend_layout_promise nodes = {.runs = mend_freeze_spans(heap, chunk)};
    if (!mend_layout_promise_these(heap, &nodes)) {
        return mend_no_host_memory("a mapping");
    }
    const mend_answer answer = mend_remap_chunk(heap, chunk);
    mend_layout_end_promise(heap, &nodes);
    return answer.status == MEND_DRIVER_OK ? MEND_OK : mend_remap_failed(heap, answer);
}

/* ---- all of it ------------------------------------------------------------------------------- */

static mend_result retry_one(mend_heap *heap, mend_deferred *deferred, uint32_t asking)
{
    if (deferred->kind == MEND_DEFERRED_RESTORE) {
        return restore(heap, MEND_CONTAINER_OF(deferred, mend_chunk, deferred));
    }
    const uint32_t kind = 1u << deferred->kind;
    for (int i = 0; i < MEND_FEATURES; i++) {
        if ((mend_features[i].retries & kind) != 0) {
            mend_features[i].retry(heap, deferred, asking);
            return MEND_OK; /* the record may be gone */
        }
    }
    assert(false);
    return MEND_OK;
}

static mend_result retry_kinds(mend_heap *heap, mend_deferred_kind first, mend_deferred_kind last,
                               uint32_t asking)
{
    mend_result result = MEND_OK;
    assert(mend_mutex_is_held(&heap->grow) && mend_mutex_is_held(&heap->state));
    for (mend_deferred_kind kind = first; kind <= last; kind++) {
        uint64_t at = 0;
        if (kind == MEND_DEFERRED_MAPPING) {
            mend_retire_flush(heap, asking);
            continue;
        }
        for (mend_deferred *deferred;
             (deferred = mend_deferred_from(&heap->chunks.deferred, kind, at)) != NULL;) {
            at = deferred->at + 1; /* later notes come behind */
            mend_result one = retry_one(heap, deferred, asking);
            result = result == MEND_OK ? one : result;
        }
    }
    return result;
}

mend_result mend_retry_restores(mend_heap *heap)
{
    return retry_kinds(heap, MEND_DEFERRED_RESTORE, MEND_DEFERRED_RESTORE, MEND_STREAM_UNKNOWN);
}

void mend_retry_these(mend_heap *heap, mend_deferred_kind first, mend_deferred_kind last,
                      uint32_t asking)
{
    const mend_thread_error noted = *mend_process_failure();
    (void)retry_kinds(heap, first, last, asking);
    *mend_process_failure() = noted; /* of the call, if of any */
}

void mend_retry_all(mend_heap *heap)
{
    mend_driver_scope scope;
    if (mend_deferred_any(&heap->chunks.deferred, MEND_DEFERRED_GRAPHS) &&
        mend_driver_scope_open(heap, &scope) == MEND_OK) {
        mend_retry(heap, MEND_DEFERRED_GRAPHS, MEND_STREAM_UNKNOWN);
        mend_driver_scope_close(heap, &scope);
    }
}

void mend_retry_ends(mend_heap *heap)
{
    if (mend_mutex_try_lock(&heap->grow)) {
        mend_cache_close(heap);
        mend_retry_all(heap);
        mend_heap_unlock_grow(heap);
    }
}
