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

/* Notes the bits of each span at its pages. Free memory that is kept for captured graphs which may
 * run while others sleep stays. */
static void look_at_pages(const mend_heap *heap, const mend_sleep_options *options,
                          const mend_chunk *chunk, unsigned char *pages)
{
    const uint64_t page_bytes = heap->device.granularity_bytes;
    const uint64_t end = chunk->address + chunk->size_bytes;
    MEND_SPANS_EACH(const mend_span, span, heap, chunk) {
        const uint64_t from = mend_max_u64(span->address, chunk->address) - chunk->address;
        const uint64_t to = mend_min_u64(mend_span_end(span), end) - chunk->address;
        const bool sleeps = span->live ? mend_keep_of(options, span) != MEND_KEEP_AWAKE
                                       : mend_graphs_sleep(options, span);
        const bool has_fate = span->live || mend_is_for_graphs(heap, span);
        const unsigned char bits = !has_fate ? 0 : sleeps ? TO_SLEEP : TO_STAY;
        for (uint64_t at = from / page_bytes; at * page_bytes < to; at++) {
            pages[at] |= bits;
        }
    }
}

/* The parts that a chunk of these pages becomes: neighbours with the same fate are one. Returns
 * their number; 0: no page can sleep that cannot now. */
static size_t cut(const unsigned char *pages, const mend_chunk *chunk, uint64_t page_bytes,
                  mend_cluster *cuts)
{
    const size_t count = (size_t)(chunk->size_bytes / page_bytes);
    size_t parts = 0;
    bool gains = false;
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || (pages[i] & TO_STAY) != (pages[i - 1] & TO_STAY)) {
            cuts[parts++].address = chunk->address + i * page_bytes;
        }
        cuts[parts - 1].size_bytes += page_bytes;
        gains = gains || pages[i] == TO_SLEEP;
    }
    return gains ? parts : 0;
}

/* Splits a chunk; MEND_ERROR_OUT_OF_HOST_MEMORY is one of the reasons not to. */
static mend_result split(mend_heap *heap, const mend_sleep_options *options, mend_chunk *chunk,
                         mend_splits *splits)
{
    const uint64_t page_bytes = heap->device.granularity_bytes;
    const size_t page_count = (size_t)(chunk->size_bytes / page_bytes);
    assert(chunk->size_bytes % page_bytes == 0);
    unsigned char *pages = calloc(page_count, 1);
    mend_cluster *parts = calloc(page_count, sizeof(parts[0]));
    mend_result result = MEND_ERROR_OUT_OF_HOST_MEMORY;
    if (pages != NULL && parts != NULL) {
        look_at_pages(heap, options, chunk, pages);
        mend_exchange_order order = {.chunk = chunk, .parts = parts};
        order.count = cut(pages, chunk, page_bytes, parts);
        mend_exchange_report done = {0};
        result = order.count > 0 ? mend_relocate_in_device(heap, &order, &splits->refusals, &done)
                                 : MEND_OK;
        splits->count += result == MEND_OK && order.count > 0;
        splits->copied_bytes += result == MEND_OK ? done.copied_bytes : 0;
    }
    free(pages);
    free(parts);
    return result;
}

mend_result mend_sleep_split(mend_heap *heap, const mend_sleep_options *options,
                             mend_splits *splits)
{
    assert(mend_mutex_is_held(&heap->grow));
    assert(mend_mutex_is_held(&heap->state));
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
