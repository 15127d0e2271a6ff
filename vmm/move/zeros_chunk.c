/*
 * The chunks of zeros of a heap: created in the limit for pages of a size, and released when
 * nothing maps them any more (layout/ranges.h).
 */
#include "move/ranges.h"

#include <stdlib.h>

#include "move/move.h"

#define RANGE_OF(at) MEND_CONTAINER_OF(at, const mend_range, owed)

mend_chunk_of_zeros *mend_zeros_find_chunk(const mend_heap *heap, uint64_t page_bytes)
{
    mend_chunk_of_zeros *chunk = heap->ranges.zeros;
    while (chunk != NULL && chunk->size_bytes != page_bytes) {
        chunk = chunk->next;
    }
    return chunk;
}

/* Whether a range before this one waits for the same chunk. */
static bool is_counted(const mend_heap *heap, const mend_owed *owed)
{
    const mend_owed *at = mend_owed_from(&heap->chunks.owing, MEND_OWED_ZEROS, 0);
    while (at != owed && RANGE_OF(at)->page_bytes != RANGE_OF(owed)->page_bytes) {
        at = mend_owed_next(at);
    }
    return at != owed;
}

/* A range without its chunk has no extra pages, but lost ones. */
uint64_t mend_zeros_owed_bytes(const mend_heap *heap)
{
    uint64_t bytes = 0;
    for (const mend_owed *at = mend_owed_from(&heap->chunks.owing, MEND_OWED_ZEROS, 0); at != NULL;
         at = mend_owed_next(at)) {
        const uint64_t page_bytes = RANGE_OF(at)->page_bytes;
        const bool lacks_chunk = mend_zeros_find_chunk(heap, page_bytes) == NULL;
        bytes += lacks_chunk && !is_counted(heap, at) ? page_bytes : 0;
    }
    return bytes;
}

void mend_zeros_note_mappings(mend_heap *heap, mend_chunk_of_zeros *chunk, uint64_t count)
{
    chunk->mappings = count;
    mend_owe(&heap->chunks.owing, &chunk->owed,
             count == 0 ? MEND_OWED_ZEROS_CHUNK : MEND_OWED_NOTHING, chunk->size_bytes);
}

mend_result mend_zeros_why_not_unmapped(mend_heap *heap)
{
    if (heap->retire.lacked_nodes) {
        return mend_no_host_memory("pages of zeros");
    }
    const mend_status refused = heap->retire.refused; /* counted already */
    if (refused == MEND_DRIVER_OK) {
        return mend_process_failure()->result;
    }
    return mend_refused(heap->driver, mend_status_result(refused), MEND_CALL_unmap, refused,
                        "%s failed", mend_driver_call_name(MEND_CALL_unmap));
}

/* Gives free memory back for a page, if that is enough. */
static mend_result make_room(mend_heap *heap, uint64_t size_bytes, int refusals)
{
    mend_lack lack;
    mend_process_failure()->result = MEND_OK;
    MEND_TRY(mend_trim_to_create(heap, size_bytes, refusals, &lack));
    if (!mend_lacks_any(lack)) {
        return MEND_OK;
    }
    MEND_TRY(mend_zeros_why_not_unmapped(heap));
    const bool is_limit = lack.limit_bytes > 0;
    return mend_failure(MEND_ERROR_OUT_OF_MEMORY,
                        "mend_range_map_zeros: a page takes %llu bytes, and %s lacks %llu",
                        (unsigned long long)size_bytes, is_limit ? "the limit" : "the device",
                        (unsigned long long)(is_limit ? lack.limit_bytes : lack.device_bytes));
}

/* Creates the memory. What is kept for compactions is room, too. */
static mend_result create(mend_heap *heap, uint64_t size_bytes, mend_chunk_handle *handle)
{
    const mend_driver *driver = heap->driver;
    mend_chunk_properties properties = heap->chunks.properties;
    properties.share_types = MEND_SHARE_NONE;
    mend_result result = MEND_OK;
    if (heap->chunks.reserved_bytes + size_bytes > mend_budget_limit_of_chunks(heap)) {
        result = make_room(heap, size_bytes, 0);
    }
    for (int refusals = 1; result == MEND_OK; refusals++) {
        result = mend_driver_result(
            heap, MEND_ANSWER(create, driver->create(driver, size_bytes, &properties, handle)));
        if (result != MEND_ERROR_OUT_OF_MEMORY) {
            return result;
        }
        result = make_room(heap, size_bytes, refusals);
    }
    return result;
}

/* One that the present call created and releases was never there. */
static void count_release(mend_heap *heap, const mend_chunk_of_zeros *chunk)
{
    heap->ranges.zeros_bytes -= chunk->size_bytes;
    heap->ranges.zeros_chunks--;
    heap->chunks.created -= chunk->is_new;
    heap->chunks.created_bytes -= chunk->is_new ? chunk->size_bytes : 0;
    heap->chunks.released += !chunk->is_new;
    mend_history_note(&heap->history, MEND_EVENT_RELEASE, 0, chunk->size_bytes, 0);
    mend_attainable_forget(heap);
}

static void forget(mend_heap *heap, mend_chunk_of_zeros *chunk)
{
    mend_chunk_of_zeros **link = &heap->ranges.zeros;
    while (*link != chunk) {
        link = &(*link)->next;
    }
    *link = chunk->next;
    mend_owe(&heap->chunks.owing, &chunk->owed, MEND_OWED_NOTHING, 0);
    free(chunk);
}

void mend_zeros_release(mend_heap *heap, mend_chunk_of_zeros *chunk)
{
    assert(chunk->mappings == 0);
    if (mend_driver_did(heap, heap->driver->release(heap->driver, chunk->handle))) {
        count_release(heap, chunk);
        forget(heap, chunk);
    } else {
        chunk->is_new = false;
    }
}

void mend_zeros_release_unused(mend_heap *heap)
{
    for (mend_chunk_of_zeros *chunk = heap->ranges.zeros, *next; chunk != NULL; chunk = next) {
        next = chunk->next;
        if (chunk->mappings == 0) {
            mend_zeros_release(heap, chunk);
        } else {
            chunk->is_new = false;
        }
    }
}

mend_result mend_zeros_find_or_create(mend_heap *heap, uint64_t page_bytes,
                                      mend_chunk_of_zeros **chunk)
{
    *chunk = mend_zeros_find_chunk(heap, page_bytes);
    if (*chunk != NULL) {
        return MEND_OK;
    }
    mend_chunk_of_zeros *made = calloc(1, sizeof(*made));
    if (made == NULL) {
        return mend_no_host_memory("pages of zeros");
    }
    mend_result result = create(heap, page_bytes, &made->handle);
    if (result != MEND_OK) {
        free(made);
        return result;
    }
    made->size_bytes = page_bytes;
    made->is_new = true;
    made->next = heap->ranges.zeros;
    heap->ranges.zeros = made;
    mend_zeros_note_mappings(heap, made, 0);
    heap->ranges.zeros_bytes += made->size_bytes;
    heap->ranges.zeros_chunks++;
    heap->chunks.created++;
    heap->chunks.created_bytes += made->size_bytes;
    mend_history_note(&heap->history, MEND_EVENT_CREATE, 0, made->size_bytes, 0);
    *chunk = made;
    return MEND_OK;
}

void mend_zeros_clear(mend_heap *heap)
{
    while (heap->ranges.zeros != NULL) {
        forget(heap, heap->ranges.zeros);
    }
}
