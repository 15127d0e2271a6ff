/*
 * Freezing and thawing a chunk: no thread takes memory in a frozen one, and memory freed in it
 * becomes claimed. The caller holds both locks.
 *
 * If the driver refuses a mapping or access after the old mapping is gone, the new chunk has the
 * bytes and stays frozen at its address. Its blocks are live but cannot be used until a later call
 * succeeds.
 */
#include "map/map.h"

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
