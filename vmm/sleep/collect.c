#include "sleep/collect.h"

#include <assert.h>

#include "layout/cache.h"
#include "layout/layout.h"
#include "layout/range.h"
#include "move/host.h"
#include "move/locks.h"
#include "move/retire.h"
#include "move/scope.h"
#include "physical/asleep.h"
#include "sleep/keep.h"
#include "sleep/settle.h"

#define CHUNK_OF(node) MEND_CONTAINER_OF(node, mend_chunk, by_address)

/* Whether a captured graph may use its memory again. */
static bool is_for_graphs(mend_heap *heap, const mend_chunk *chunk)
{
    uint64_t end = chunk->address + chunk->size_bytes;
    unsigned holds = 0;
    for (const mend_span *span = mend_heap_span_at(heap, chunk->address);
         span != NULL && span->address < end; span = span->next) {
        assert(!span->live);
        holds |= mend_waits_blocked_by(&heap->streams, &span->waits, MEND_STREAM_UNKNOWN);
    }
    return (holds & MEND_BLOCKED_BY_GROUPS) != 0;
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

/* The first chunk behind the address that can end; NULL: none. */
static mend_chunk *next_to_end(mend_heap *heap, uint64_t behind)
{
    mend_chunk key = {.address = behind + 1};
    mend_tree_node *at = mend_tree_at_or_after(&heap->chunks.mapped, &key.by_address);
    for (; at != NULL; at = mend_tree_next(at)) {
        mend_chunk *chunk = CHUNK_OF(at);
        bool is_left = mend_chunk_sleeps(chunk) && chunk->live_bytes == 0 &&
                       chunk->missing == MEND_MISSING_MEMORY;
        if (is_left && !is_for_graphs(heap, chunk)) {
            mend_space *space = mend_heap_space_at(heap, chunk->address);
            return mend_space_reserve_nodes(space, 1) ? chunk : NULL;
        }
        if (is_left && chunk->kept->piece_count > 0) {
            mend_keep_empty(heap, chunk->kept); /* releases `state`, not the grow lock */
        }
    }
    return NULL;
}

void mend_sleep_collect(mend_heap *heap)
{
    assert(mend_mutex_is_held(&heap->grow));
    assert(mend_mutex_is_held(&heap->state));
    heap->chunks.left_asleep = 0;
    mend_chunk *chunk = heap->chunks.asleep_count > 0 ? next_to_end(heap, 0) : NULL;
    while (chunk != NULL) {
        uint64_t address = chunk->address;
        end_chunk(heap, chunk);
        chunk = next_to_end(heap, address);
    }
}

void mend_sleep_collect_all(mend_heap *heap)
{
    mend_scope scope;
    bool any = heap->chunks.asleep_count > 0 || heap->keeping.refused != NULL ||
               heap->chunks.host_count > 0 || heap->chunks.host_spares > 0;
    if (any && mend_scope_open(heap, &scope) == MEND_OK) {
        mend_sleep_settle(heap);
        mend_sleep_collect(heap);
        mend_retire_flush(heap, MEND_STREAM_UNKNOWN);
        mend_host_collect(heap);
        mend_retire_flush(heap, MEND_STREAM_UNKNOWN);
        mend_scope_close(heap, &scope);
    }
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
        mend_keep_drop(heap, CHUNK_OF(at)->kept);
    }
    mend_keep_free_refused(heap);
    mend_keep_abandon_refused(heap);
}
