/*
 * Sleeping chunks: they keep their addresses, their place in the layout and their live blocks, and
 * have no memory. Invariants, checked by the validation:
 *  - such a chunk is frozen, so its free memory is claimed, and memory freed in it becomes claimed.
 *  - without live bytes it is collected: its record, its addresses and its contents go.
 *  - it has `kept`, the description of its contents, and no memory. Memory of a failed wake that
 *    the driver refused to unmap is a part of reserved_bytes and deferred work, and the next wake
 *    uses it.
 *  - each of its blocks of which not all bytes here are kept says so (contents_dropped).
 *  - no pin or export holds it, and no retired mapping maps its memory.
 *  - it is not collected while its free memory is kept for captured graphs, which know the address.
 */
#include "map/map.h"
#include "sleep/keep.h"
#include "sleep/sleep.h"

mend_chunk *mend_chunk_fall_asleep(mend_chunks *chunks, mend_chunk *chunk, mend_contents *kept)
{
    assert(chunk->pins == 0);
    assert(!mend_chunk_sleeps(chunk));
    mend_events_note(chunks->events, MEND_EVENT_SLEEP, chunk->address, chunk->size_bytes,
                     chunk->memory.number);
    return mend_chunk_leave_memory(chunks, chunk, kept);
}

void mend_chunk_wake_up(mend_chunks *chunks, mend_chunk *chunk)
{
    assert(mend_chunk_sleeps(chunk) && chunk->missing != MEND_MISSING_MEMORY);
    mend_chunk_set_kept(chunks, chunk, NULL, MEND_MISSING_NOTHING);
    mend_events_note(chunks->events, MEND_EVENT_WAKE, chunk->address, chunk->size_bytes,
                     chunk->memory.number);
}

/* The end of a sleeping chunk without live blocks and memory, which left the layout. */
static void end_chunk(mend_chunks *chunks, mend_chunk *chunk)
{
    assert(mend_chunk_sleeps(chunk) && chunk->missing == MEND_MISSING_MEMORY);
    assert(chunk->live_bytes == 0);
    mend_chunk_set_address(chunks, chunk, chunk->zone, 0);
    mend_chunk_set_kept(chunks, chunk, NULL, MEND_MISSING_NOTHING);
    mend_chunk_end(chunks, chunk);
}

/* ---- deferred work --------------------------------------------------------------------------- */

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

/* Frees the addresses of a sleeping chunk, its backup and its record. Memory that a captured graph
 * may use stays, without contents. */
static void end_asleep(mend_heap *heap, mend_chunk *chunk)
{
    mend_contents *kept = chunk->kept;
    mend_space *space = mend_heap_space_at(heap, chunk->address);
    if (mend_layout_is_for_graphs(heap, chunk)) {
        mend_defer(&heap->chunks.deferred, &chunk->deferred, MEND_DEFERRED_GRAPHS, chunk->address);
        if (kept->piece_count > 0) {
            mend_keep_empty(heap, kept); /* releases `state`, not the grow lock */
        }
    } else if (mend_space_reserve_nodes(space, 1)) {
        cut_out(heap, chunk);
        mend_space_give(space, chunk->address, chunk->size_bytes);
        end_chunk(&heap->chunks, chunk);
        mend_keep_count(heap, kept, false);
        mend_keep_drop(heap, kept); /* releases `state` */
    }
}

/* A sleeping chunk has memory: a wake failed, and the driver did not unmap it. */
static void give_memory(mend_heap *heap, mend_chunk *chunk)
{
    if (!mend_step_copies_have_ended(heap) || !mend_slab_reserve(&heap->chunks.slab, 1)) {
        return; /* copies of a wake write to its chunks */
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

void mend_sleep_retry(mend_heap *heap, mend_deferred *deferred, uint32_t asking)
{
    (void)asking;
    if (deferred->kind == MEND_DEFERRED_HOST_MEMORY) {
        mend_keep_drop(heap, MEND_CONTAINER_OF(deferred, mend_contents, deferred));
    } else if (deferred->kind == MEND_DEFERRED_MEMORY) {
        give_memory(heap, MEND_CONTAINER_OF(deferred, mend_chunk, deferred));
    } else {
        end_asleep(heap, MEND_CONTAINER_OF(deferred, mend_chunk, deferred));
    }
}

void mend_sleep_statistics(const mend_heap *heap, mend_stats *stats)
{
    const mend_chunks *chunks = &heap->chunks;
    stats->asleep_bytes = chunks->asleep_bytes;
    stats->asleep_live_bytes = chunks->asleep_live_bytes;
    stats->backup_host_bytes = heap->keeping.host_bytes;
    stats->backup_file_bytes = heap->keeping.file_bytes;
    stats->backup_cache_bytes = heap->keeping.copies_bytes;
}
