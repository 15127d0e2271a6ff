/* A pool that holds no memory which other processes can know: for a checkpoint of the process. */
#include "sleep/sleep.h"

/* Memory that other processes can know, or might. */
static bool is_shareable(const mend_chunk *chunk)
{
    return !mend_chunk_is_alias(chunk) && chunk->missing != MEND_MISSING_MEMORY &&
           (chunk->memory.share_types != MEND_SHARE_NONE || chunk->memory.was_exported);
}

/* What keeps memory as it is, by name. */
static mend_result check(const mend_heap *heap)
{
    if (heap->exports.by_address.count > 0 || heap->imports.by_address.count > 0) {
        return mend_failure(MEND_ERROR_PINNED,
                            "mend_quiesce: %zu blocks are exported and %zu imported; free or close "
                            "them first",
                            heap->exports.by_address.count, heap->imports.by_address.count);
    }
    for (const mend_chunk *at = mend_chunk_from(&heap->chunks, 0); at != NULL;
         at = mend_chunk_next(at)) {
        if (!is_shareable(at)) {
            continue;
        }
        if (at->zone == MEND_ZONE_RANGE && at->live_bytes > 0) {
            return mend_failure(
                MEND_ERROR_PINNED,
                "mend_quiesce: memory at 0x%llx was created to be shared, and holds "
                "pages of a range; put them to sleep (mend_sleep keeps what is in them), or "
                "decommit them "
                "first",
                (unsigned long long)at->address);
        }
        const bool is_mapped_twice =
            at->aliases > 0 || mend_retire_holds(heap, at->memory.handle) != NULL;
        if (at->pins > 0 || is_mapped_twice) {
            return mend_failure(
                MEND_ERROR_PINNED,
                "mend_quiesce: the chunk at 0x%llx was created to be shared, and is "
                "%s",
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
static mend_result make_private(mend_heap *heap, mend_quiesce_report *report)
{
    mend_result result = check(heap);
    uint64_t behind = 0;
    for (mend_chunk *chunk;
         result == MEND_OK && (chunk = mend_chunk_from(&heap->chunks, behind)) != NULL;) {
        const uint64_t size_bytes = chunk->size_bytes;
        mend_exchange_report done;
        behind = chunk->address + size_bytes;
        if (is_shareable(chunk) && !mend_chunk_sleeps(chunk)) {
            const mend_exchange_order order = {.chunk = chunk, .backing = MEND_BACKING_PRIVATE};
            result = mend_relocate_in_device(heap, &order, &done);
            report->exchanged_bytes += result == MEND_OK ? size_bytes : 0;
        }
    }
    return result == MEND_ERROR_OUT_OF_MEMORY
               ? mend_failure(MEND_ERROR_OUT_OF_MEMORY,
                              "mend_quiesce: no room for the copy of a chunk; put blocks to sleep "
                              "first")
               : result;
}

mend_result mend_heap_quiesce(mend_heap *heap, mend_quiesce_report *report)
{
    mend_history_begin_call(&heap->history, MEND_CAUSE_SLEEP);
    mend_driver_scope scope;
    MEND_TRY(mend_enter(heap, &scope));
    mend_result result = mend_quiet_begin(heap, MEND_STREAM_UNKNOWN, true);
    uint64_t bytes = 0;
    if (result == MEND_OK) {
        result = mend_trim_to(heap, 0, false, &bytes);
        report->released_bytes += bytes;
    }
    if (result == MEND_OK) {
        mend_copies_shrink(heap, 0); /* a checkpoint would keep them */
        result = make_private(heap, report);
    }
    if (result == MEND_OK) { /* what other threads have freed meanwhile */
        bytes = 0;
        result = mend_trim_to(heap, 0, false, &bytes);
        report->released_bytes += bytes;
    }
    report->reserved_bytes = heap->chunks.reserved_bytes;
    mend_driver_scope_close(heap, &scope);
    return result;
}
