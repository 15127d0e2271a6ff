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
#include "ranges/ranges.h"
#include "sleep/keep.h"
#include "sleep/sleep.h"

static void move_memory(mend_chunks *chunks, mend_chunk *to, mend_chunk *from)
{
    to->memory = from->memory;
    mend_tree_replace(&chunks->all, &from->memory.by_number, &to->memory.by_number);
    from->memory.handle = 0;
    from->memory.was_exported = false;
    from->memory.has_fabric = false;
}

mend_chunk *mend_chunk_leave_memory(mend_chunks *chunks, mend_chunk *chunk, struct mend_kept *kept)
{
    assert(!mend_chunk_is_exported(chunk));
    mend_chunk *empty = mend_chunk_begin(chunks, chunk->size_bytes);
    move_memory(chunks, empty, chunk);
    mend_chunk_set_kept(chunks, chunk, kept, MEND_MISSING_MEMORY);
    mend_chunk_count(chunks, empty, true);
    mend_chunk_enter_empty(chunks, empty, &chunks->empty_unmapped_bytes);
    return empty;
}

mend_chunk *mend_chunk_fall_asleep(mend_chunks *chunks, mend_chunk *chunk, struct mend_kept *kept)
{
    assert(chunk->pins == 0);
    assert(!mend_chunk_sleeps(chunk));
    mend_events_note(chunks->events, MEND_EVENT_SLEEP, chunk->address, chunk->size_bytes,
                     chunk->memory.number);
    return mend_chunk_leave_memory(chunks, chunk, kept);
}

void mend_chunk_take_memory(mend_chunks *chunks, mend_chunk *chunk, mend_chunk *empty)
{
    assert(chunk->missing == MEND_MISSING_MEMORY);
    assert(empty->claim.address == 0 && mend_chunk_is_empty(empty));
    assert(empty->size_bytes == chunk->size_bytes);
    mend_chunk_leave_empty(chunks, empty, &chunks->empty_unmapped_bytes);
    mend_chunk_count(chunks, empty, false);
    move_memory(chunks, chunk, empty);
    mend_list_remove(&empty->newly);
    mend_slab_give(&chunks->slab, empty);
    mend_chunk_count(chunks, chunk, false);
    chunk->missing = MEND_MISSING_MAPPING; /* of a transaction: not deferred */
    mend_chunk_count(chunks, chunk, true);
}

void mend_chunk_wake_up(mend_chunks *chunks, mend_chunk *chunk)
{
    assert(mend_chunk_sleeps(chunk) && chunk->missing != MEND_MISSING_MEMORY);
    mend_chunk_set_kept(chunks, chunk, NULL, MEND_MISSING_NOTHING);
    mend_events_note(chunks->events, MEND_EVENT_WAKE, chunk->address, chunk->size_bytes,
                     chunk->memory.number);
}

void mend_chunk_note_freed_asleep(mend_chunks *chunks, mend_chunk *chunk, uint64_t size_bytes)
{
    assert(mend_chunk_sleeps(chunk));
    chunks->asleep_live_bytes -= size_bytes;
    chunks->away_live_in[chunk->zone] -= size_bytes;
    assert(chunks->asleep_live_bytes >= chunk->live_bytes);
    if (chunk->live_bytes == 0) {
        mend_chunk_note_owed(chunks, chunk);
    }
    if (chunk->sums != NULL) {
        chunk->sums->asleep_live_bytes -= size_bytes;
        assert(chunk->sums->asleep_live_bytes >= chunk->live_bytes);
    }
}

void mend_chunk_end_asleep(mend_chunks *chunks, mend_chunk *chunk)
{
    assert(mend_chunk_sleeps(chunk) && chunk->missing == MEND_MISSING_MEMORY);
    assert(chunk->live_bytes == 0);
    mend_chunk_set_address(chunks, chunk, chunk->zone, 0);
    mend_chunk_set_kept(chunks, chunk, NULL, MEND_MISSING_NOTHING);
    mend_chunk_end(chunks, chunk);
}

/* ---- what is owed ---------------------------------------------------------------------------- */

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

void mend_sleep_settle(mend_heap *heap, mend_owed *owed, uint32_t asking)
{
    (void)asking;
    if (owed->kind == MEND_OWED_HOST_MEMORY) {
        mend_keep_drop(heap, MEND_CONTAINER_OF(owed, mend_kept, owed));
    } else if (owed->kind == MEND_OWED_MEMORY) {
        give_memory(heap, MEND_CONTAINER_OF(owed, mend_chunk, owed));
    } else {
        end_asleep(heap, MEND_CONTAINER_OF(owed, mend_chunk, owed));
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
