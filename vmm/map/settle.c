/*
 * Settlements: what is owed (memory/owed.h) is done here; retired mappings also by
 * whoever needs room (map/retire.c). A call that reaches the driver begins with one (mend_enter);
 * what became possible meanwhile, after a wait or a free, is done by another. What cannot be done
 * stays, and the next settlement tries again.
 */
#include "map/map.h"

#include <stdlib.h>

#include "ranges/ranges.h"
#include "share/share.h"
#include "sleep/keep.h"
#include "sleep/sleep.h"

#define CHUNK_OF(at) MEND_CONTAINER_OF(at, mend_chunk, owed)
#define RANGE_OF(at) MEND_CONTAINER_OF(at, mend_range, owed)

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

/* ---- chunks that have lost their last block -------------------------------------------------- */

static void cut_out(mend_heap *heap, const mend_chunk *chunk)
{
    const uint64_t end = chunk->address + chunk->size_bytes;
    mend_span *span = mend_heap_span_at(heap, chunk->address);
    while (span != NULL && span->address < end) {
        mend_span *next = span->next;
        mend_layout_cut(heap, span);
        span = next;
    }
}

/* The addresses of a sleeping chunk, what is kept of it and its record go. What a captured graph
 * may use stays, without contents. */
static void end_asleep(mend_heap *heap, mend_chunk *chunk)
{
    mend_kept *kept = chunk->kept;
    mend_space *space = mend_heap_space_at(heap, chunk->address);
    if (mend_layout_is_for_graphs(heap, chunk)) {
        mend_owe(&heap->chunks.owing, &chunk->owed, MEND_OWED_GRAPHS, chunk->address);
        if (kept->piece_count > 0) {
            mend_keep_empty(heap, kept); /* releases `state`, not the grow lock */
        }
    } else if (mend_space_reserve_nodes(space, 1)) {
        cut_out(heap, chunk);
        mend_space_give(space, chunk->address, chunk->size_bytes);
        mend_chunk_end_asleep(&heap->chunks, chunk);
        mend_keep_count(heap, kept, false);
        mend_keep_drop(heap, kept); /* releases `state` */
    }
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* A sleeping chunk has memory: a wake failed, and the driver did not unmap it. */
static void give_memory(mend_heap *heap, mend_chunk *chunk)
{
    if (!mend_step_copies_have_ended(heap) || !mend_slab_reserve(&heap->chunks.slab, 1)) {
        return; /* those of a wake write to what it woke */
    }
    mend_status status = heap->driver->unmap(heap->driver, chunk->address, chunk->size_bytes);
    if (status == MEND_DRIVER_OK) {
        status = mend_chunk_release(
            &heap->chunks, mend_chunk_leave_memory(&heap->chunks, chunk, chunk->kept), false);
    }
    (void)mend_driver_did(heap, status);
    if (chunk->missing == MEND_MISSING_MEMORY && chunk->live_bytes == 0) {
        end_asleep(heap, chunk);
    }
}

void mend_settle_handles(mend_heap *heap, mend_imported *import)
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
    mend_owe(&heap->chunks.owing, &import->owed, are_left ? MEND_OWED_HANDLES : MEND_OWED_NOTHING,
             MEND_OWED_LAST);
    if (!are_left && import->uses == 0) {
        free(import);
    }
}

/* Its idle memory is unmapped; when nothing is left there, its addresses go back. */
static void end_range(mend_heap *heap, mend_range *range, uint32_t asking)
{
    mend_space *space = &heap->range_space;
    (void)mend_trim_between(heap, range->address, mend_range_end(range), asking);
    if (mend_space_free_from(space, range->address) >= range->size_bytes &&
        mend_space_disown(space, range->address)) {
        mend_range_drop(heap, range);
    }
}

/* ---- all of it ------------------------------------------------------------------------------- */

static mend_result settle_one(mend_heap *heap, mend_owed *owed, uint32_t asking)
{
    switch (owed->kind) {
    case MEND_OWED_RESTORE:
        return restore(heap, CHUNK_OF(owed));
    case MEND_OWED_END:
    case MEND_OWED_GRAPHS:
        end_asleep(heap, CHUNK_OF(owed));
        break;
    case MEND_OWED_HOST_MEMORY:
        mend_keep_drop(heap, MEND_CONTAINER_OF(owed, mend_kept, owed));
        break;
    case MEND_OWED_HANDLES:
        mend_settle_handles(heap, MEND_CONTAINER_OF(owed, mend_imported, owed));
        break;
    case MEND_OWED_MEMORY:
        give_memory(heap, CHUNK_OF(owed));
        break;
    case MEND_OWED_RANGE:
        end_range(heap, RANGE_OF(owed), asking);
        break;
    default:
        assert(false);
    }
    return MEND_OK;
}

static mend_result settle(mend_heap *heap, mend_owed_kind first, mend_owed_kind last,
                          uint32_t asking)
{
    mend_result result = MEND_OK;
    assert(mend_mutex_is_held(&heap->grow) && mend_mutex_is_held(&heap->state));
    for (mend_owed_kind kind = first; kind <= last; kind++) {
        uint64_t at = 0;
        if (kind == MEND_OWED_MAPPING) {
            mend_retire_flush(heap, asking);
            continue;
        }
        for (mend_owed *owed; (owed = mend_owed_from(&heap->chunks.owing, kind, at)) != NULL;) {
            at = owed->at + 1; /* what is noted meanwhile comes behind */
            mend_result one = settle_one(heap, owed, asking);
            result = result == MEND_OK ? one : result;
        }
    }
    return result;
}

mend_result mend_settle_restores(mend_heap *heap)
{
    return settle(heap, MEND_OWED_RESTORE, MEND_OWED_RESTORE, MEND_STREAM_UNKNOWN);
}

void mend_settle_these(mend_heap *heap, mend_owed_kind first, mend_owed_kind last, uint32_t asking)
{
    const mend_thread_error noted = *mend_process_failure();
    (void)settle(heap, first, last, asking);
    *mend_process_failure() = noted; /* of the call, if of any */
}

void mend_settle_ranges(mend_heap *heap)
{
    mend_settle_these(heap, MEND_OWED_RANGE, MEND_OWED_RANGE, MEND_STREAM_UNKNOWN);
}

void mend_settle_all(mend_heap *heap)
{
    mend_driver_scope scope;
    if (mend_owing_any(&heap->chunks.owing, MEND_OWED_GRAPHS) &&
        mend_driver_scope_open(heap, &scope) == MEND_OK) {
        mend_settle(heap, MEND_OWED_GRAPHS, MEND_STREAM_UNKNOWN);
        mend_driver_scope_close(heap, &scope);
    }
}

void mend_settle_ends(mend_heap *heap)
{
    if (mend_mutex_try_lock(&heap->grow)) {
        mend_cache_close(heap);
        mend_settle_all(heap);
        mend_heap_unlock_grow(heap);
    }
}
