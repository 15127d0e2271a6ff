/*
 * Private memory for chunks, one by one (map/map.h), so that a pool holds no memory that other
 * processes can know, for a checkpoint of the process.
 */
#include "sleep/sleep.h"

static bool fits_limit(const mend_heap *heap, uint64_t bytes)
{
    return heap->chunks.reserved_bytes + bytes <= mend_budget_limit_of_chunks(heap);
}

mend_result mend_sleep_make_room(mend_heap *heap, uint64_t bytes, mend_lack *lack)
{
    *lack = (mend_lack){0};
    return fits_limit(heap, bytes) ? MEND_OK : mend_trim_to_create(heap, bytes, false, lack);
}

static mend_result exchange(mend_heap *heap, mend_chunk *chunk)
{
    const mend_exchange_order order = {.chunk = chunk};
    const uint64_t size_bytes = chunk->size_bytes;
    mend_exchange_report done;
    mend_lack lack;
    MEND_TRY(mend_sleep_make_room(heap, size_bytes, &lack));
    mend_result result = MEND_ERROR_OUT_OF_MEMORY;
    for (int tries = 0; tries <= 1 && result == MEND_ERROR_OUT_OF_MEMORY && !mend_lacks_any(lack);
         tries++) {
        result = mend_exchange_memory(heap, &order, &done);
        if (result == MEND_ERROR_OUT_OF_MEMORY && tries == 0) {
            MEND_TRY(mend_trim_to_create(heap, size_bytes, true, &lack));
        }
    }
    return result;
}

/* Gives a chunk memory that no other process can know. */
static mend_result make_chunk_private(mend_heap *heap, mend_chunk *chunk)
{
    const size_t reservations_before = heap->space.reservations_by_address.count;
    const mend_result result = exchange(heap, chunk);
    if (result == MEND_ERROR_OUT_OF_MEMORY) {
        mend_space_trim(&heap->space, reservations_before);
    }
    return result;
}

/* ---- for a checkpoint ------------------------------------------------------------------------ */

/* Memory that other processes can know, or might. */
static bool is_shareable(const mend_chunk *chunk)
{
    return chunk->missing != MEND_MISSING_MEMORY &&
           (chunk->memory.share_types != MEND_SHARE_NONE || chunk->memory.was_exported);
}

/* The reasons why memory stays, by name. */
static mend_result check(const mend_heap *heap)
{
    if (heap->exports.count > 0 || heap->imports.by_address.count > 0) {
        return mend_failure(
            MEND_ERROR_PINNED,
            "mend_prepare_checkpoint: %zu blocks are exported and %zu imported; free or close "
            "them first",
            heap->exports.count, heap->imports.by_address.count);
    }
    for (const mend_chunk *at = mend_chunk_from(&heap->chunks, 0); at != NULL;
         at = mend_chunk_next(at)) {
        if (!is_shareable(at)) {
            continue;
        }
        if (at->zone == MEND_ZONE_RANGE && at->live_bytes > 0) {
            return mend_failure(
                MEND_ERROR_PINNED,
                "mend_prepare_checkpoint: memory at 0x%llx was created to be shared, and holds "
                "pages of a range; put them to sleep (mend_sleep keeps their contents), or "
                "decommit them first",
                (unsigned long long)at->address);
        }
        const bool is_mapped_twice = mend_retire_holds(heap, at->memory.handle) != NULL;
        if (at->pins > 0 || is_mapped_twice) {
            return mend_failure(
                MEND_ERROR_PINNED,
                "mend_prepare_checkpoint: the chunk at 0x%llx was created to be shared, and is %s",
                (unsigned long long)at->address,
                is_mapped_twice
                    ? "mapped at a second address"
                    : "pinned; undo its pins (mend_unpin), or free its blocks in_one_chunk, "
                      "first");
        }
    }
    return MEND_OK;
}

/* Chunks come and go only under the grow lock, but other threads free blocks meanwhile. */
static mend_result make_private(mend_heap *heap, mend_prepare_checkpoint_report *report)
{
    mend_result result = check(heap);
    uint64_t behind = 0;
    for (mend_chunk *chunk;
         result == MEND_OK && (chunk = mend_chunk_from(&heap->chunks, behind)) != NULL;) {
        const uint64_t size_bytes = chunk->size_bytes;
        behind = chunk->address + size_bytes;
        if (is_shareable(chunk) && !mend_chunk_sleeps(chunk)) {
            result = make_chunk_private(heap, chunk);
            report->exchanged_bytes += result == MEND_OK ? size_bytes : 0;
        }
    }
    return result == MEND_ERROR_OUT_OF_MEMORY
               ? mend_failure(MEND_ERROR_OUT_OF_MEMORY, "mend_prepare_checkpoint: no room for the "
                                                        "copy of a chunk; put blocks to sleep "
                                                        "first")
               : result;
}

static mend_result prepare_checkpoint(mend_heap *heap, mend_prepare_checkpoint_report *report)
{
    uint64_t first_bytes = 0;
    uint64_t last_bytes = 0;
    MEND_TRY(mend_safe_point_begin(heap, MEND_STREAM_UNKNOWN, true));
    MEND_TRY(mend_trim_to(heap, 0, false, &first_bytes));
    mend_copies_shrink(heap, 0); /* a checkpoint would keep them */
    MEND_TRY(make_private(heap, report));
    MEND_TRY(mend_trim_to(heap, 0, false, &last_bytes)); /* memory that others have freed
                                                          * meanwhile */
    report->released_bytes = first_bytes + last_bytes;
    report->reserved_bytes = heap->chunks.reserved_bytes;
    return MEND_OK;
}

mend_result mend_heap_prepare_checkpoint(mend_heap *heap, mend_prepare_checkpoint_report *report)
{
    mend_events_begin_call(&heap->events, MEND_CAUSE_SLEEP);
    mend_driver_scope scope;
    MEND_TRY(mend_enter(heap, &scope));
    const mend_result result = prepare_checkpoint(heap, report);
    mend_driver_scope_close(heap, &scope);
    return result;
}
