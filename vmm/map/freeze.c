/*
 * Freezing and thawing a chunk: no thread takes memory in a frozen one, and memory freed in it
 * becomes claimed. The caller holds both locks.
 *
 * If the driver refuses a mapping or access after the old mapping is gone, the new chunk has the
 * bytes and stays frozen at its address. Its blocks are live but cannot be used until a later call
 * succeeds.
 */
#include "map/map.h"

#include "layout/feature.h"

size_t mend_freeze_spans(const mend_heap *heap, const mend_chunk *chunk)
{
    size_t count = 0;
    MEND_SPANS_EACH(const mend_span, span, heap, chunk) {
        count++;
    }
    return count;
}

/* A claimed span may be split at the edges of its chunk, and becomes a run when the chunk thaws. */
mend_layout_promise mend_freeze_nodes(const mend_heap *heap, size_t chunks, size_t spans)
{
    mend_layout_promise nodes = mend_layout_nodes_for(heap, chunks);
    nodes.spans += 2 * chunks;
    nodes.runs += spans + 2 * chunks;
    return nodes;
}

size_t mend_freeze_waits(mend_heap *heap, const mend_chunk *chunk)
{
    size_t count = 0;
    const uint64_t end = chunk->address + chunk->size_bytes;
    const mend_zone *zone = &heap->zones[chunk->zone];
    mend_run *run = mend_layout_run_from(zone, chunk->address);
    for (; run != NULL && run->address < end; run = mend_layout_run_from(zone, mend_run_end(run))) {
        count += mend_layout_count_waits(heap, run, mend_max_u64(chunk->address, run->address),
                                         mend_min_u64(mend_run_end(run), end));
    }
    return count;
}

void mend_freeze_chunk(mend_heap *heap, mend_chunk *chunk)
{
    const uint64_t end = chunk->address + chunk->size_bytes;
    const mend_zone *zone = &heap->zones[chunk->zone];
    mend_chunk_freeze(&heap->chunks, chunk);
    mend_run *run = mend_layout_run_from(zone, chunk->address);
    while (run != NULL && run->address < end) {
        const uint64_t from = mend_max_u64(chunk->address, run->address);
        const uint64_t to = mend_min_u64(mend_span_end(mend_span_walk(run->first, from)), end);
        mend_layout_claim_part(heap, run, from, to - from);
        run = mend_layout_run_from(zone, to);
    }
}

void mend_thaw_chunk(mend_heap *heap, mend_chunk *chunk)
{
    const uint64_t end = chunk->address + chunk->size_bytes;
    mend_span *span = mend_heap_span_at(heap, chunk->address);
    mend_chunk_thaw(&heap->chunks, chunk);
    for (mend_span *next; span != NULL && span->address < end; span = next) {
        next = span->next;
        assert(!span->cached);
        if (!span->live && span->run == NULL) {
            assert(mend_layout_frozen_under(heap, span) == NULL); /* a claim ends when its chunk
                                                                   * thaws */
            mend_layout_end_claim(heap, span);
        }
    }
}

/* ---- what could not be mapped again ---------------------------------------------------------- */

mend_answer mend_remap_chunk(mend_heap *heap, mend_chunk *chunk)
{
    mend_chunks *chunks = &heap->chunks;
    mend_status status = MEND_DRIVER_OK;
    assert(chunk->address != 0);
    assert(chunk->is_frozen);
    assert(chunk->missing != MEND_MISSING_NOTHING);
    if (chunk->missing == MEND_MISSING_MAPPING) {
        status = mend_step_map(heap, chunk->address, chunk);
        if (status != MEND_DRIVER_OK) {
            return MEND_ANSWER(map, status);
        }
        mend_chunk_set_missing(chunks, chunk, MEND_MISSING_ACCESS);
    }
    status = mend_step_allow(heap, chunk->address, chunk->size_bytes);
    if (status == MEND_DRIVER_OK) {
        mend_chunk_set_missing(chunks, chunk, MEND_MISSING_NOTHING);
        mend_thaw_chunk(heap, chunk);
    }
    return MEND_ANSWER(set_access, status);
}

mend_result mend_remap_failed(mend_heap *heap, mend_answer answer)
{
    (void)mend_driver_did(heap, answer.status);
    return mend_refused(heap->driver, mend_status_result(answer.status), answer.call, answer.status,
                        "%u chunks of live blocks could not be mapped at their addresses: "
                        "nothing is lost, and later calls try again",
                        heap->chunks.missing_count);
}

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

/* ---- retries --------------------------------------------------------------------------------- */

/*
 * Deferred work (memory/chunk.h) is done here, retired mappings also by each search for memory
 * (map/retire.c). A call that reaches the driver begins with a retry (mend_enter). Work that became
 * possible meanwhile, after a wait or a free, is done by another. Refused work stays for the next
 * retry.
 */

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
