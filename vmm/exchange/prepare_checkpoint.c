/*
 * Private memory for chunks, one by one, so that a pool holds no memory that other
 * processes can know, for a checkpoint of the process.
 */
#include "exchange/exchange.h"
#include "layout/feature.h"
#include "pool/pool.h"

/* Memory that other processes can know, or might. */
static bool is_shareable(const mend_chunk *chunk)
{
    return chunk->missing != MEND_MISSING_MEMORY && chunk->memory.share_types != MEND_SHARE_NONE;
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
        const bool is_mapped_twice = mend_retire_holds(heap, at) != NULL;
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

/* Chunks get memory that no other process can know. All free memory was released before. Chunks
 * come and go only under the grow lock, but other threads free blocks meanwhile. */
static mend_result make_private(mend_heap *heap, mend_prepare_checkpoint_report *report)
{
    mend_result result = check(heap);
    uint64_t behind = 0;
    for (mend_chunk *chunk;
         result == MEND_OK && (chunk = mend_chunk_from(&heap->chunks, behind)) != NULL;) {
        const uint64_t size_bytes = chunk->size_bytes;
        behind = chunk->address + size_bytes;
        if (is_shareable(chunk) && !mend_chunk_sleeps(chunk)) {
            mend_exchange_report done;
            result = heap->chunks.reserved_bytes + size_bytes <= mend_budget_limit_of_chunks(heap)
                         ? mend_exchange_memory(heap, chunk, NULL, 0, &done)
                         : MEND_ERROR_OUT_OF_MEMORY;
            report->exchanged_bytes += result == MEND_OK ? size_bytes : 0;
        }
    }
    return result == MEND_ERROR_OUT_OF_MEMORY
               ? mend_failure(MEND_ERROR_OUT_OF_MEMORY, "mend_prepare_checkpoint: no memory for "
                                                        "the copy of a chunk; put blocks to sleep "
                                                        "first")
               : result;
}

static mend_result prepare_checkpoint(mend_heap *heap, mend_prepare_checkpoint_report *report)
{
    uint64_t first_bytes = 0;
    uint64_t last_bytes = 0;
    MEND_TRY(mend_safe_point_begin(heap, true));
    MEND_TRY(mend_trim_to(heap, 0, false, &first_bytes));
    MEND_FEATURES_CALL(trim, heap, true); /* a checkpoint would keep their caches */
    MEND_TRY(make_private(heap, report));
    MEND_TRY(mend_trim_to(heap, 0, false, &last_bytes)); /* memory that others have freed
                                                          * meanwhile */
    report->released_bytes = first_bytes + last_bytes;
    report->reserved_bytes = heap->chunks.reserved_bytes + mend_heap_passed_bytes(heap);
    return MEND_OK;
}

mend_result mend_prepare_checkpoint(mend_pool *pool, mend_prepare_checkpoint_report *report)
{
    mend_prepare_checkpoint_report all = MEND_PREPARE_CHECKPOINT_REPORT_INIT;
    MEND_TRY(mend_pool_check_struct(report, "MEND_PREPARE_CHECKPOINT_REPORT_INIT"));
    MEND_INVALID_IF(pool == NULL, "mend_prepare_checkpoint: pool is NULL");
    MEND_TRY(mend_pool_enter_all(pool));
    mend_driver_scope scope;
    mend_events_begin_call(&pool->heap.events, MEND_CAUSE_SLEEP);
    mend_result result = mend_enter(&pool->heap, &scope);
    if (result == MEND_OK) {
        result = prepare_checkpoint(&pool->heap, &all);
        mend_driver_scope_close(&pool->heap, &scope);
    }
    return mend_pool_leave_all_with(pool, result, report, &all, sizeof(all));
}
