/*
 * Blocks: what the fast calls (heap/fast.c) share with the full ones (heap/block.c).
 *
 * Guarded by the heap's `state` lock.
 */
#ifndef MEND_HEAP_BLOCK_H
#define MEND_HEAP_BLOCK_H

#include <assert.h>

#include "base/thread.h"
#include "layout/state.h"
/* The streams that a use of a block counts for. `first` is the stream, inside a group or outside
 * all. If a capture records the use, `second` is the stream outside all groups, because its earlier
 * work may still use the block. */
typedef struct mend_block_users {
    uint32_t first;
    uint32_t second; /* MEND_STREAM_UNKNOWN: none */
} mend_block_users;

/* Finds the block at an address, and the streams whose use ends with a free in this order. May
 * release `state`. Errors as mend_free. */
mend_result mend_block_find_to_free(mend_heap *heap, uint64_t address, mend_order order,
                                    mend_span **span, mend_block_users *users);

/* Makes memory that was taken for a request a block. Needs a node of waits and room in the pointer
 * map. */
void mend_block_hand_out(mend_heap *heap, const mend_request *request, mend_span *span);

/* Frees a block; no fence is recorded. The caller reserved nodes (mend_layout_reserve). Returns the
 * first of the chain of its other users. */
uint32_t mend_block_let_go(mend_heap *heap, mend_span *span, mend_block_users users);

/* Turns the declared users of a live span into stamps of now, and adds that of the stream that it
 * is freed on. The caller reserved nodes. Returns the first of the chain of users. */
uint32_t mend_block_stamp(mend_heap *heap, mend_span *span, uint32_t freed_on);

/* Adds a user to a live span; it is stamped when the span is freed. Idempotent.
 * MEND_ERROR_OUT_OF_HOST_MEMORY. */
mend_result mend_block_add_user(mend_heap *heap, mend_span *span, uint32_t user);

/* The result of finding the users of what is freed, which fails only where a free may fail. */
mend_result mend_block_excuse(const mend_heap *heap, mend_result result, mend_block_users *users);

/* Records a fence for frees; and, if it is of use, for a free on the stream. Calls the driver, and
 * releases `state` in between; if the driver refuses, the free still succeeds. */
void mend_block_record_fence(mend_heap *heap, uint32_t stream);
void mend_block_record_fence_at_free(mend_heap *heap, uint32_t stream);

/* Frees a block that the cache cannot keep. MEND_ERROR_OUT_OF_HOST_MEMORY: the block is still
 * live. */
mend_result mend_block_free_into_runs(mend_heap *heap, mend_span *span, mend_block_users users);

/* Whether other streams are likely to request what is freed on one stream. */
static inline bool mend_block_wants_early_fence(const mend_heap *heap)
{
    return heap->frees.early_fences_left > 0 && mend_streams_are_several(&heap->streams);
}

/* Records a fence if enough bytes were freed on the stream. Calls the driver. */
void mend_block_record_early_fence(mend_heap *heap, uint32_t freed_on);

static inline void mend_block_count_alloc(mend_heap *heap, mend_span *span,
                                          uint64_t requested_bytes, mend_stream stream)
{
    mend_heap_counters *counters = &heap->counters;
    mend_zone_counters *zone = &counters->zone[span->zone];
    assert(span->live);
    assert(requested_bytes > 0);
    assert(requested_bytes <= span->size_bytes);
    span->requested_bytes = requested_bytes;
    span->stream = stream;
    span->tag = 0;
    span->sleep_tag = 0;
    span->scope = 0;
    zone->allocations++;
    zone->allocated_bytes += span->size_bytes;
    zone->allocated_requested_bytes += requested_bytes;
    zone->live_bytes += span->size_bytes;
    zone->requested_bytes += requested_bytes;
    mend_raise_u64(&zone->peak_live_blocks, zone->allocations - zone->frees);
    mend_raise_u64(&zone->peak_live_bytes, zone->live_bytes);
    mend_raise_u64(&zone->peak_requested_bytes, zone->requested_bytes);
    counters->live_bytes += span->size_bytes;
    mend_raise_u64(&counters->peak_live_blocks, mend_heap_live_blocks(heap));
    mend_raise_u64(&counters->peak_live_bytes, counters->live_bytes);
    mend_raise_u64(&counters->peak_requested_bytes, MEND_HEAP_SUM(heap, requested_bytes));
    if (mend_process_has_marks()) {
        const mend_thread_marks marks = mend_process_marks();
        span->sleep_tag = marks.sleep_tag;
        span->scope = marks.scope;
        if (span->scope != 0) {
            mend_scopes_count_alloc(&heap->scopes, &span->scope, span->size_bytes,
                                    counters->live_bytes, heap->chunks.reserved_bytes);
        }
    }
}

static inline void mend_block_count_free(mend_heap *heap, const mend_span *span)
{
    mend_zone_counters *zone = &heap->counters.zone[span->zone];
    assert(zone->allocations > zone->frees);
    assert(zone->live_bytes >= span->size_bytes);
    assert(zone->requested_bytes >= span->requested_bytes);
    assert(heap->counters.live_bytes >= zone->live_bytes);
    zone->frees++;
    zone->live_bytes -= span->size_bytes;
    zone->requested_bytes -= span->requested_bytes;
    heap->counters.live_bytes -= span->size_bytes;
    if (span->scope != 0) {
        mend_scopes_count_free(&heap->scopes, span->scope, span->size_bytes);
    }
}

#endif
