/* The calls about graph pools. A graph pool has a pointer to its pool, which outlives it. */
#include "alloc/users.h"
#include "base/struct_size.h"

#include <stdlib.h>

#include "graphs/graphs.h"
#include "pool/pool.h"

mend_result mend_graph_pool_create(mend_pool *pool, mend_graph_pool **graph_pool)
{
    MEND_INVALID_IF(pool == NULL || graph_pool == NULL,
                    "mend_graph_pool_create: pool or graph pool is NULL");
    MEND_TRY(mend_pool_check_process(pool));
    MEND_TRY(mend_pool_needs_chunks(pool, "mend_graph_pool_create"));
    mend_graph_pool *made = malloc(sizeof(*made));
    if (made == NULL) {
        return mend_publish(mend_no_host_memory("a graph pool"));
    }
    mend_result result = mend_pool_enter(pool);
    if (result != MEND_OK) {
        free(made);
        return result;
    }
    mend_graph_pool_enter(&pool->heap, made, pool);
    *graph_pool = made;
    return mend_pool_leave(pool, MEND_OK);
}

static mend_result set_begun(mend_graph_pool *graph_pool, mend_stream stream, bool is_begun,
                             const char *mistake)
{
    mend_pool *pool = graph_pool->pool;
    MEND_TRY(mend_pool_enter(pool));
    if (is_begun) {
        mend_fallback_close_before_graph_pool(&pool->heap);
    }
    if (graph_pool->is_begun == is_begun) {
        return mend_pool_leave(pool, mend_pool_invalid(mistake));
    }
    mend_graph_pool_set_begun(&pool->heap, graph_pool, stream, is_begun);
    return mend_pool_leave(pool, MEND_OK);
}

mend_result mend_graph_pool_begin(mend_graph_pool *graph_pool, mend_stream stream)
{
    MEND_INVALID_IF(graph_pool == NULL || stream == MEND_NO_STREAM,
                    "mend_graph_pool_begin: graph pool is NULL, or MEND_NO_STREAM");
    mend_result result = set_begun(graph_pool, stream, true,
                                   "mend_graph_pool_begin: the graph pool is already begun");
    if (result == MEND_OK) {
        mend_process_await_unsafe_call(); /* the program may begin its capture now */
    }
    return result;
}

mend_result mend_graph_pool_end(mend_graph_pool *graph_pool)
{
    MEND_INVALID_IF(graph_pool == NULL, "mend_graph_pool_end: graph pool is NULL");
    return set_begun(graph_pool, NULL, false, "mend_graph_pool_end: the graph pool was not begun");
}

mend_result mend_graph_pool_destroy(mend_graph_pool *graph_pool, mend_stream stream)
{
    MEND_INVALID_IF(graph_pool == NULL || stream == MEND_EVERY_STREAM,
                    "mend_graph_pool_destroy: graph pool is NULL, or MEND_EVERY_STREAM");
    mend_pool *pool = graph_pool->pool;
    MEND_TRY(mend_pool_enter_all(pool));
    mend_result result =
        graph_pool->is_begun
            ? mend_pool_invalid("mend_graph_pool_destroy: the graph pool was not ended")
            : mend_graph_pool_leave(&pool->heap, graph_pool, stream);
    if (result == MEND_OK) {
        mend_graph_pool_drop(&pool->heap, graph_pool);
        free(graph_pool);
        mend_retry_all(&pool->heap);
    }
    return mend_pool_leave_all(pool, result);
}

/* ---- blocks of a graph pool ------------------------------------------------------------------ */

mend_result mend_graph_pool_free(mend_graph_pool *graph_pool, void *pointer, mend_stream stream)
{
    MEND_INVALID_IF(
        graph_pool == NULL || stream == MEND_NO_STREAM || stream == MEND_EVERY_STREAM,
        "mend_graph_pool_free: graph pool is NULL, or MEND_NO_STREAM, or MEND_EVERY_STREAM");
    if (pointer == NULL) {
        return MEND_OK;
    }
    mend_pool *pool = graph_pool->pool;
    mend_order order;
    MEND_TRY(mend_pool_find_order(pool, stream, &order));
    MEND_TRY(mend_pool_take_to_free(pool));
    return mend_pool_leave(pool,
                           mend_heap_free_in_graph_pool(&pool->heap, (uint64_t)(uintptr_t)pointer,
                                                        order, graph_pool->number));
}

mend_result mend_graph_pool_record_stream(mend_graph_pool *graph_pool, void *pointer,
                                          mend_stream stream)
{
    MEND_INVALID_IF(graph_pool == NULL || pointer == NULL || stream == MEND_NO_STREAM ||
                        stream == MEND_EVERY_STREAM,
                    "mend_graph_pool_record_stream: graph pool or pointer is NULL, or"
                    " MEND_NO_STREAM, or MEND_EVERY_STREAM");
    mend_pool *pool = graph_pool->pool;
    mend_order order;
    MEND_TRY(mend_pool_find_order(pool, stream, &order));
    MEND_TRY(mend_pool_take(pool));
    return mend_pool_leave(pool, mend_heap_record_stream(&pool->heap, (uint64_t)(uintptr_t)pointer,
                                                         order, graph_pool->number));
}

/* A block as an element of the array that a caller has. */
static bool is_whole(size_t block_bytes)
{
    return mend_struct_size_is_whole(block_bytes, sizeof(mend_graph_pool_block));
}

mend_result mend_graph_pool_checkpoint(mend_graph_pool *graph_pool, mend_graph_pool_block *blocks,
                                       size_t block_bytes, size_t capacity, size_t *count)
{
    MEND_INVALID_IF(graph_pool == NULL || count == NULL || (blocks == NULL && capacity > 0) ||
                        !is_whole(block_bytes),
                    "mend_graph_pool_checkpoint: graph pool, count or blocks is NULL, or "
                    "block_bytes is not sizeof(mend_graph_pool_block)");
    mend_pool *pool = graph_pool->pool;
    MEND_TRY(mend_pool_enter(pool));
    mend_heap_list_graph_pool(&pool->heap, graph_pool->number, blocks, block_bytes, capacity,
                              count);
    return mend_pool_leave(pool, MEND_OK);
}

mend_result mend_graph_pool_restore(mend_graph_pool *graph_pool,
                                    const mend_graph_pool_block *blocks, size_t block_bytes,
                                    size_t count)
{
    MEND_INVALID_IF(graph_pool == NULL || (blocks == NULL && count > 0) || !is_whole(block_bytes),
                    "mend_graph_pool_restore: graph pool or blocks is NULL, or block_bytes "
                    "is not sizeof(mend_graph_pool_block)");
    mend_pool *pool = graph_pool->pool;
    MEND_TRY(mend_pool_enter_all(pool));
    return mend_pool_leave_all(pool, mend_heap_restore_graph_pool(&pool->heap, graph_pool->number,
                                                                  blocks, block_bytes, count));
}
