/* The cases beside the usual one: of blocks that are found, and of unusual streams. */
#include "alloc/fast.h"

bool mend_fast_breaks_a_chunk(const mend_span *span)
{
    const mend_chunk *chunk = span->chunk;
    while (!mend_chunk_is_empty(chunk)) {
        if (mend_span_end(span) - chunk->address <= chunk->size_bytes) {
            return false;
        }
        chunk = mend_chunk_next(chunk);
        assert(chunk != NULL);
    }
    return true;
}

mend_result mend_block_free(mend_heap *heap, mend_span *span, mend_block_users users)
{
    const bool is_ordered =
        users.first != MEND_STREAM_UNKNOWN && heap->streams.items[users.first].graph_pool == 0;
    return is_ordered ? mend_fast_free_block(heap, span, users.first)
                      : mend_block_free_into_runs(heap, span, users);
}

/* The unusual cases: bad pointers, streams to be looked up, graph pools. */
__attribute__((noinline)) mend_result mend_heap_free_in_graph_pool(mend_heap *heap,
                                                                   uint64_t address,
                                                                   mend_order order,
                                                                   uint32_t graph_pool)
{
    mend_span *span = mend_pointer_map_find(&heap->blocks, address);
    mend_block_users users;
    if (span != NULL && span->chunk == NULL && span->live) {
        return mend_block_free_passed(heap, address, order);
    }
    MEND_TRY(mend_block_find_to_free(heap, address, order, graph_pool, &span, &users));
    return mend_block_free(heap, span, users);
}

mend_span *mend_heap_find(mend_heap *heap, uint64_t address)
{
    assert(mend_mutex_is_held(&heap->state));
    mend_span *span = mend_pointer_map_find(&heap->blocks, address);
    return span == NULL || !span->live ? NULL : span;
}

mend_result mend_heap_free_found(mend_heap *heap, mend_span *span, mend_order order)
{
    assert(mend_mutex_is_held(&heap->state));
    assert(mend_heap_find(heap, span->address) == span);
    uint32_t freed_on = order.capture == 0 && span->chunk != NULL
                            ? mend_users_known_stream(heap, order.stream)
                            : MEND_STREAM_UNKNOWN;
    return freed_on != MEND_STREAM_UNKNOWN
               ? mend_block_free(heap, span, (mend_block_users){freed_on, MEND_STREAM_UNKNOWN})
               : mend_heap_free_in_graph_pool(heap, span->address, order, 0);
}
