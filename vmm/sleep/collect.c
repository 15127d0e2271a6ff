/*
 * The end of sleeping chunks that have lost their last block: their addresses, what is kept of them
 * and their records go. Those whose free memory is kept for captured graphs stay.
 */
#include "sleep/sleep.h"

#include <assert.h>

#include "layout/layout.h"
#include "layout/ranges.h"
#include "move/driver_scope.h"
#include "move/move.h"
#include "physical/chunk.h"

#define CHUNK_OF(node) MEND_CONTAINER_OF(node, mend_chunk, left)

/* Whether a captured graph may use its memory again. */
static bool is_for_graphs(mend_heap *heap, const mend_chunk *chunk)
{
    uint64_t end = chunk->address + chunk->size_bytes;
    bool any = false;
    for (const mend_span *span = mend_heap_span_at(heap, chunk->address);
         span != NULL && span->address < end; span = span->next) {
        assert(!span->live);
        any = any || mend_is_for_graphs(heap, span);
    }
    return any;
}

static void end_chunk(mend_heap *heap, mend_chunk *chunk)
{
    uint64_t end = chunk->address + chunk->size_bytes;
    mend_kept *kept = chunk->kept;
    mend_span *span = mend_heap_span_at(heap, chunk->address);
    while (span != NULL && span->address < end) {
        mend_span *next = span->next;
        mend_layout_cut(heap, span);
        span = next;
    }
    mend_space_give(mend_heap_space_at(heap, chunk->address), chunk->address, chunk->size_bytes);
    mend_chunk_end_asleep(&heap->chunks, chunk);
    mend_keep_uncount(heap, kept);
    mend_keep_drop(heap, kept); /* releases `state` */
}

/* Whether it can end now. What is kept of one that stays for graphs goes. */
static bool may_end(mend_heap *heap, mend_chunk *chunk)
{
    if (!mend_chunk_sleeps(chunk) || chunk->missing != MEND_MISSING_MEMORY) {
        return false;
    }
    const bool is_to_stay = is_for_graphs(heap, chunk);
    if (is_to_stay && chunk->kept->piece_count > 0) {
        mend_keep_empty(heap, chunk->kept); /* releases `state`, not the grow lock */
    }
    return !is_to_stay;
}

/* Nobody else takes a chunk out of the ring without the grow lock. */
void mend_sleep_collect(mend_heap *heap)
{
    assert(mend_mutex_is_held(&heap->grow));
    assert(mend_mutex_is_held(&heap->state));
    heap->chunks.left_asleep = 0;
    mend_list *ring = &heap->chunks.left;
    for (mend_list *at = heap->chunks.asleep_count > 0 ? ring->next : ring, *next; at != ring;
         at = next) {
        mend_chunk *chunk = CHUNK_OF(at);
        next = at->next;
        if (may_end(heap, chunk)) {
            if (!mend_space_reserve_nodes(mend_heap_space_at(heap, chunk->address), 1)) {
                return;
            }
            end_chunk(heap, chunk);
        }
    }
}

void mend_sleep_collect_all(mend_heap *heap)
{
    mend_driver_scope scope;
    if (heap->chunks.asleep_count == 0 && heap->keeping.refused == NULL &&
        heap->chunks.host_count == 0 && heap->chunks.host_spares == 0) {
        return;
    }
    const mend_thread_error noted = *mend_process_failure();
    if (mend_driver_scope_open(heap, &scope) == MEND_OK) {
        mend_sleep_settle(heap);
        mend_sleep_collect(heap);
        mend_retire_flush(heap, MEND_STREAM_UNKNOWN);
        mend_host_collect(heap);
        mend_retire_flush(heap, MEND_STREAM_UNKNOWN);
        mend_driver_scope_close(heap, &scope);
    }
    *mend_process_failure() = noted; /* of the call that collects */
}

void mend_sleep_collect_now(mend_heap *heap)
{
    if (mend_mutex_try_lock(&heap->grow)) {
        mend_cache_close(heap);
        mend_sleep_collect_all(heap);
        mend_heap_unlock_grow(heap);
    }
}

void mend_sleep_clear(mend_heap *heap)
{
    mend_tree_node *at =
        heap->chunks.asleep_count > 0 ? mend_tree_first(&heap->chunks.mapped) : NULL;
    for (; at != NULL; at = mend_tree_next(at)) {
        mend_keep_drop(heap, MEND_CONTAINER_OF(at, mend_chunk, by_address)->kept);
    }
    mend_copies_clear(heap);
    mend_keep_free_refused(heap);
    mend_keep_abandon_refused(heap);
}
