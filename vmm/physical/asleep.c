/*
 * Sleeping chunks. A sleeping chunk keeps its address, its place in the layout and its live blocks;
 * its memory goes back to the driver. Invariants, checked by the audit:
 *  - it is frozen, so its free memory is claimed, and what is freed in it becomes claimed;
 *  - it has `kept`, the description of its contents, and lacks something (`missing`). Between calls
 *    that is its memory, or as much as a refusal of the driver has left: whatever it has is a part
 *    of reserved_bytes, and the next wake goes on from there;
 *  - each of its blocks of which not all bytes here are kept says so (contents_dropped);
 *  - no pin, export or alias holds it, and no retired mapping maps its memory;
 *  - without live bytes it is collected: its record, its addresses and its contents go, unless its
 *    free memory is kept for captured graphs, which know the address.
 */
#include "physical/chunk.h"

#include <assert.h>
#include <string.h>

void mend_chunk_fall_asleep(mend_chunks *chunks, mend_chunk *chunk, struct mend_kept *kept)
{
    assert(chunk->pins == 0);
    assert(chunk->aliases == 0 && !mend_chunk_is_alias(chunk));
    assert(!mend_chunk_sleeps(chunk));
    mend_chunk_set_kept(chunks, chunk, kept, MEND_MISSING_MAPPING);
    chunks->asleep_count++;
    chunks->asleep_bytes += chunk->size_bytes;
    chunks->asleep_live_bytes += chunk->live_bytes;
    mend_history_note(chunks->history, MEND_EVENT_SLEEP, chunk->address, chunk->size_bytes,
                      chunk->number);
}

static void lose_memory(mend_chunks *chunks, mend_chunk *chunk)
{
    mend_chunk_set_missing(chunks, chunk, MEND_MISSING_MEMORY);
    if (chunk->live_bytes == 0 || chunk->owed.kind != MEND_OWED_NOTHING) {
        mend_chunk_note_owed(chunks, chunk);
    }
    chunk->handle = 0;
    chunk->was_exported = false;
    chunk->has_fabric = false;
    chunks->away_count++;
    chunks->away_bytes += chunk->size_bytes;
}

mend_status mend_chunk_give_memory(mend_chunks *chunks, mend_chunk *chunk)
{
    assert(mend_chunk_sleeps(chunk));
    assert(chunk->missing == MEND_MISSING_MAPPING);
    assert(!mend_chunk_is_exported(chunk));
    mend_status status = chunks->driver->release(chunks->driver, chunk->handle);
    if (status != MEND_DRIVER_OK) {
        mend_chunk_note_owed(chunks, chunk);
        return status;
    }
    assert(chunks->reserved_bytes >= chunk->size_bytes);
    lose_memory(chunks, chunk);
    chunks->reserved_bytes -= chunk->size_bytes;
    chunks->released++;
    mend_history_note(chunks->history, MEND_EVENT_RELEASE, 0, chunk->size_bytes, chunk->number);
    return MEND_DRIVER_OK;
}

/* It is not counted among those without memory any more. */
static void have_memory(mend_chunks *chunks, mend_chunk *chunk, mend_chunk_handle handle)
{
    assert(chunks->away_count > 0);
    assert(chunks->away_bytes >= chunk->size_bytes);
    mend_chunk_set_missing(chunks, chunk, MEND_MISSING_MAPPING);
    chunk->handle = handle;
    chunks->away_count--;
    chunks->away_bytes -= chunk->size_bytes;
}

mend_status mend_chunk_take_memory(mend_chunks *chunks, mend_chunk *chunk)
{
    assert(chunk->missing == MEND_MISSING_MEMORY);
    mend_chunk_handle handle;
    mend_status status = mend_chunk_ask_memory(chunks, chunk->size_bytes, &handle);
    if (status != MEND_DRIVER_OK) {
        return status;
    }
    have_memory(chunks, chunk, handle);
    chunk->share_types = chunks->properties.share_types;
    chunks->reserved_bytes += chunk->size_bytes;
    chunks->created++;
    chunks->created_bytes += chunk->size_bytes;
    mend_history_note(chunks->history, MEND_EVENT_CREATE, 0, chunk->size_bytes, chunk->number);
    return MEND_DRIVER_OK;
}

static void move_shares(mend_chunk *to, const mend_chunk *from)
{
    to->share_types = from->share_types;
    to->was_exported = from->was_exported;
    to->has_fabric = from->has_fabric;
    memcpy(to->fabric, from->fabric, sizeof(to->fabric));
}

/* For the history memory is a chunk's, whose number it has: one ends, and another begins. */
static void note_change_of_hands(const mend_chunks *chunks, const mend_chunk *from,
                                 const mend_chunk *to)
{
    mend_history_note(chunks->history, MEND_EVENT_RELEASE, 0, from->size_bytes, from->number);
    mend_history_note(chunks->history, MEND_EVENT_CREATE, 0, to->size_bytes, to->number);
}

void mend_chunk_leave_memory(mend_chunks *chunks, mend_chunk *chunk)
{
    assert(mend_chunk_sleeps(chunk));
    assert(chunk->missing == MEND_MISSING_MAPPING);
    assert(!mend_chunk_is_exported(chunk));
    mend_chunk *empty = mend_chunk_begin_empty(chunks, chunk->handle, chunk->size_bytes);
    move_shares(empty, chunk);
    lose_memory(chunks, chunk);
    note_change_of_hands(chunks, chunk, empty);
}

void mend_chunk_take_over(mend_chunks *chunks, mend_chunk *chunk, mend_chunk *empty)
{
    assert(chunk->missing == MEND_MISSING_MEMORY);
    assert(empty->address == 0 && empty->claimed_address == 0 && mend_chunk_is_empty(empty));
    assert(empty->size_bytes == chunk->size_bytes);
    have_memory(chunks, chunk, empty->handle);
    move_shares(chunk, empty);
    note_change_of_hands(chunks, empty, chunk);
    mend_chunk_end_empty(chunks, empty);
}

/* It is not counted among the sleeping ones any more. */
static void leave_asleep(mend_chunks *chunks, mend_chunk *chunk)
{
    assert(chunks->asleep_count > 0);
    assert(chunks->asleep_bytes >= chunk->size_bytes);
    assert(chunks->asleep_live_bytes >= chunk->live_bytes);
    chunks->asleep_count--;
    chunks->asleep_bytes -= chunk->size_bytes;
    chunks->asleep_live_bytes -= chunk->live_bytes;
}

void mend_chunk_wake_up(mend_chunks *chunks, mend_chunk *chunk)
{
    assert(mend_chunk_sleeps(chunk));
    assert(chunk->missing == MEND_MISSING_ACCESS);
    leave_asleep(chunks, chunk);
    mend_chunk_set_kept(chunks, chunk, NULL, MEND_MISSING_NOTHING);
    mend_history_note(chunks->history, MEND_EVENT_WAKE, chunk->address, chunk->size_bytes,
                      chunk->number);
}

void mend_chunk_end_asleep(mend_chunks *chunks, mend_chunk *chunk)
{
    assert(chunk->missing == MEND_MISSING_MEMORY);
    assert(chunk->live_bytes == 0);
    mend_chunk_set_address(chunks, chunk, chunk->zone, 0);
    leave_asleep(chunks, chunk);
    chunks->away_count--;
    chunks->away_bytes -= chunk->size_bytes;
    mend_chunk_set_kept(chunks, chunk, NULL, MEND_MISSING_NOTHING);
    assert(chunks->frozen_count > 0);
    chunks->frozen_count--;
    mend_tree_remove(&chunks->all, &chunk->by_number);
    mend_slab_give(&chunks->slab, chunk);
}

void mend_chunk_note_freed_asleep(mend_chunks *chunks, mend_chunk *chunk, uint64_t size_bytes)
{
    assert(mend_chunk_sleeps(chunk));
    assert(chunks->asleep_live_bytes >= size_bytes);
    chunks->asleep_live_bytes -= size_bytes;
    if (chunk->live_bytes == 0) {
        mend_chunk_note_owed(chunks, chunk);
    }
    if (chunk->sums != NULL) {
        assert(chunk->sums->asleep_live_bytes >= size_bytes);
        chunk->sums->asleep_live_bytes -= size_bytes;
    }
}
