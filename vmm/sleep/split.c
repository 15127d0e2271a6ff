/*
 * Chunks that hold blocks which are to sleep beside blocks which stay awake: split at pages, so
 * that the first can sleep. Each becomes chunks that hold nothing of what stays awake, and chunks
 * between, all with their contents (move/move.h). Best effort: a chunk for whose copy there is
 * no room, or that the driver refuses to split, stays as it is.
 */
#include "sleep/sleep.h"

#include <stdlib.h>

/* What a page of a chunk holds, as bits. */
enum { TO_SLEEP = 1, TO_STAY = 2 };

/* Free memory that is kept for captured graphs which may run while others sleep stays. */
static unsigned bits_of(const mend_heap *heap, const mend_sleep_options *options,
                        const mend_cluster *page)
{
    unsigned bits = 0;
    MEND_SPANS_EACH(const mend_span, span, heap, page) {
        if (span->live || mend_is_for_graphs(heap, span)) {
            bits |= mend_is_to_sleep(options, span) ? TO_SLEEP : TO_STAY;
        }
    }
    return bits;
}

/* The parts that a chunk becomes: neighbouring pages with the same fate are one. Returns their
 * number; 0: no page can sleep that cannot now. */
static size_t cut(const mend_heap *heap, const mend_sleep_options *options, const mend_chunk *chunk,
                  mend_cluster *cuts)
{
    mend_cluster page = {.address = chunk->address, .size_bytes = heap->device.granularity_bytes};
    size_t parts = 0;
    unsigned before = 0;
    bool gains = false;
    for (; page.address < chunk->address + chunk->size_bytes; page.address += page.size_bytes) {
        const unsigned bits = bits_of(heap, options, &page);
        if (parts == 0 || (bits & TO_STAY) != (before & TO_STAY)) {
            cuts[parts++].address = page.address;
        }
        cuts[parts - 1].size_bytes += page.size_bytes;
        gains = gains || bits == TO_SLEEP;
        before = bits;
    }
    return gains ? parts : 0;
}

/* Splits a chunk; MEND_ERROR_OUT_OF_HOST_MEMORY is one of the reasons not to. */
static mend_result split(mend_heap *heap, const mend_sleep_options *options, mend_chunk *chunk,
                         mend_splits *splits)
{
    const uint64_t page_bytes = heap->device.granularity_bytes;
    assert(chunk->size_bytes % page_bytes == 0);
    mend_cluster *parts = calloc((size_t)(chunk->size_bytes / page_bytes), sizeof(parts[0]));
    if (parts == NULL) {
        return MEND_ERROR_OUT_OF_HOST_MEMORY;
    }
    const mend_exchange_order order = {
        .chunk = chunk, .parts = parts, .count = cut(heap, options, chunk, parts)};
    mend_exchange_report done = {0};
    const mend_result result =
        order.count > 0 ? mend_relocate_in_device(heap, &order, &splits->refusals, &done) : MEND_OK;
    splits->count += result == MEND_OK && order.count > 0;
    splits->copied_bytes += result == MEND_OK ? done.copied_bytes : 0;
    free(parts);
    return result;
}

mend_result mend_sleep_split(mend_heap *heap, const mend_sleep_options *options,
                             mend_splits *splits)
{
    assert(mend_mutex_is_held(&heap->grow) && mend_mutex_is_held(&heap->state));
    mend_result result = MEND_OK;
    uint64_t behind = 0;
    *splits = (mend_splits){0};
    for (mend_chunk *chunk;
         result == MEND_OK && (chunk = mend_chunk_from(&heap->chunks, behind)) != NULL;) {
        behind = chunk->address + chunk->size_bytes; /* and its parts */
        if (chunk->size_bytes == heap->device.granularity_bytes ||
            !mend_is_shared(heap, options, chunk)) {
            continue; /* one of one page cannot be split */
        }
        result = split(heap, options, chunk, splits);
        splits->lacks_room = splits->lacks_room || result == MEND_ERROR_OUT_OF_MEMORY;
        bool must_tell = heap->unlocking.lost != MEND_DRIVER_OK || heap->chunks.missing_count > 0;
        result = must_tell ? result : MEND_OK;
    }
    return result;
}
