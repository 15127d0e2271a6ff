/*
 * Chunks on the host: their memory is the host's, and the device uses it over the link. Invariants,
 * checked by the audit:
 *  - one that is mapped is frozen, so its free memory is claimed, and what is freed in it becomes
 *    claimed: nothing but the blocks that live there uses memory of the host;
 *  - its blocks are in use as all others; it may be pinned, and is never exported;
 *  - it is in no sum of the device's memory (reserved_bytes), and never among the empty chunks;
 *  - without live bytes it is collected;
 *  - one that is not mapped is spare: the driver refused to take its memory back.
 */
#include "physical/chunk.h"

#include <assert.h>
#include <string.h>

/* A driver that makes no memory of the host, or not for this process, has none of it. */
static mend_status lack_of(mend_status status)
{
    return status == MEND_DRIVER_NOT_PERMITTED || status == MEND_DRIVER_NOT_SUPPORTED
               ? MEND_DRIVER_OUT_OF_MEMORY
               : status;
}

mend_status mend_chunk_create_on_host(mend_chunks *chunks, uint64_t size_bytes, mend_chunk **chunk)
{
    const mend_driver *driver = chunks->driver;
    const mend_chunk_properties properties = {.device = chunks->properties.device, .on_host = true};
    mend_chunk_handle handle;
    assert(size_bytes > 0);
    assert(size_bytes % MEND_GRANULE_BYTES == 0);
    mend_status status = driver->create(driver, size_bytes, &properties, &handle);
    if (status != MEND_DRIVER_OK) {
        return lack_of(status);
    }
    mend_chunk *made = mend_slab_take(&chunks->slab);
    made->handle = handle;
    made->size_bytes = size_bytes;
    made->number = chunks->next_number++;
    made->on_host = true;
    made->holds = mend_chunk_holds(made);
    mend_list_init(&made->newly);
    mend_list_init(&made->noted);
    mend_tree_insert(&chunks->all, &made->by_number);
    chunks->host_spare_bytes += size_bytes;
    mend_chunk_note_owed(chunks, made);
    *chunk = made;
    return MEND_DRIVER_OK;
}

static void forget_spare(mend_chunks *chunks, mend_chunk *chunk)
{
    assert(chunks->host_spare_bytes >= chunk->size_bytes);
    chunks->host_spare_bytes -= chunk->size_bytes;
    mend_owe(&chunks->owing, &chunk->owed, MEND_OWED_NOTHING, 0);
    mend_tree_remove(&chunks->all, &chunk->by_number);
    mend_slab_give(&chunks->slab, chunk);
}

mend_status mend_chunk_release_on_host(mend_chunks *chunks, mend_chunk *chunk)
{
    assert(chunk->on_host);
    assert(chunk->address == 0);
    mend_status status = chunks->driver->release(chunks->driver, chunk->handle);
    if (status == MEND_DRIVER_OK) {
        forget_spare(chunks, chunk);
    }
    return status;
}

void mend_chunk_note_taken_on_host(mend_chunks *chunks, mend_chunk *chunk, uint64_t size_bytes)
{
    mend_chunk_note_owed(chunks, chunk);
    chunks->host_live_bytes += size_bytes;
    assert(chunks->host_live_bytes <= chunks->host_bytes);
}

void mend_chunk_note_freed_on_host(mend_chunks *chunks, mend_chunk *chunk, uint64_t size_bytes)
{
    assert(chunk->on_host);
    assert(chunks->host_live_bytes >= size_bytes);
    chunks->host_live_bytes -= size_bytes;
    if (chunk->live_bytes == 0) {
        mend_chunk_note_owed(chunks, chunk);
    }
}

void mend_chunk_end_on_host(mend_chunks *chunks, mend_chunk *chunk)
{
    assert(chunk->on_host && chunk->is_frozen);
    assert(chunk->live_bytes == 0 && chunk->pins == 0);
    assert(chunk->missing == MEND_MISSING_NOTHING);
    mend_chunk_set_address(chunks, chunk, chunk->zone, 0); /* it is spare now */
    assert(chunks->frozen_count > 0);
    chunks->frozen_count--;
    forget_spare(chunks, chunk);
}
