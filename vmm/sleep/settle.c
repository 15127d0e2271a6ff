/*
 * Sleeping chunks that still have memory: because a wake failed, or the driver refused to take it
 * back.
 */
#include "sleep/sleep.h"

#include "move/move.h"
#include "physical/chunk.h"

static void settle(mend_heap *heap, mend_chunk *chunk)
{
    const mend_driver *driver = heap->driver;
    mend_status status = MEND_DRIVER_OK;
    if (mend_chunk_has_mapping(chunk)) {
        status = driver->unmap(driver, chunk->address, chunk->size_bytes);
        if (status == MEND_DRIVER_OK) {
            mend_chunk_set_missing(&heap->chunks, chunk, MEND_MISSING_MAPPING);
        }
    }
    if (status == MEND_DRIVER_OK) {
        status = mend_chunk_give_memory(&heap->chunks, chunk);
    }
    heap->counters.driver_failures += status != MEND_DRIVER_OK;
}

void mend_sleep_settle(mend_heap *heap)
{
    mend_keep_free_refused(heap);
    bool any = heap->chunks.asleep_count > heap->chunks.away_count &&
               mend_step_copies_have_ended(heap); /* those of a wake write to what it woke */
    for (mend_tree_node *at = any ? mend_tree_first(&heap->chunks.mapped) : NULL; at != NULL;
         at = mend_tree_next(at)) {
        mend_chunk *chunk = MEND_CONTAINER_OF(at, mend_chunk, by_address);
        if (mend_chunk_sleeps(chunk) && chunk->missing != MEND_MISSING_MEMORY) {
            settle(heap, chunk);
        }
    }
}
