/*
 * Sleeping chunks: they keep their addresses, their place in the layout and their live blocks, and
 * have no memory. Invariants, checked by the audit:
 *  - such a chunk is frozen, so its free memory is claimed, and what is freed in it becomes
 *    claimed;
 *  - without live bytes it is collected: its record, its addresses and its contents go;
 *  - it has `kept`, the description of its contents, and lacks its memory. One that a wake gave it,
 *    and that the driver did not unmap when the wake failed, is a part of reserved_bytes and owed;
 *    the next wake uses it;
 *  - each of its blocks of which not all bytes here are kept says so (contents_dropped);
 *  - no pin or export holds it, and no retired mapping maps its memory;
 *  - it is not collected while its free memory is kept for captured graphs, which know the address.
 */
#include "memory/chunk.h"
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
    mend_history_note(chunks->history, MEND_EVENT_SLEEP, chunk->address, chunk->size_bytes,
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
    chunk->missing = MEND_MISSING_MAPPING; /* of a transaction: that is not owed */
    mend_chunk_count(chunks, chunk, true);
}

void mend_chunk_wake_up(mend_chunks *chunks, mend_chunk *chunk)
{
    assert(mend_chunk_sleeps(chunk) && chunk->missing != MEND_MISSING_MEMORY);
    mend_chunk_set_kept(chunks, chunk, NULL, MEND_MISSING_NOTHING);
    mend_history_note(chunks->history, MEND_EVENT_WAKE, chunk->address, chunk->size_bytes,
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
