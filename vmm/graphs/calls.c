/* The calls about groups. A group has a pointer to its pool, which outlives it. */
#include "alloc/users.h"
#include "base/struct_size.h"

#include <stdlib.h>

#include "graphs/graphs.h"
#include "pool/pool.h"

mend_result mend_group_create(mend_pool *pool, mend_group **group)
{
    MEND_INVALID_IF(pool == NULL || group == NULL, "mend_group_create: pool or group is NULL");
    MEND_TRY(mend_pool_check_process(pool));
    MEND_TRY(mend_pool_needs_chunks(pool, "mend_group_create"));
    mend_group *made = malloc(sizeof(*made));
    if (made == NULL) {
        return mend_publish(mend_no_host_memory("a group"));
    }
    mend_result result = mend_pool_enter(pool);
    if (result != MEND_OK) {
        free(made);
        return result;
    }
    mend_group_enter(&pool->heap, made, pool);
    *group = made;
    return mend_pool_leave(pool, MEND_OK);
}

static mend_result set_begun(mend_group *group, mend_stream stream, bool is_begun,
                             const char *mistake)
{
    mend_pool *pool = group->pool;
    MEND_TRY(mend_pool_enter(pool));
    if (is_begun) {
        mend_ladder_close_before_group(&pool->heap);
    }
    if (group->is_begun == is_begun) {
        return mend_pool_leave(pool, mend_pool_invalid(mistake));
    }
    mend_group_set_begun(&pool->heap, group, stream, is_begun);
    return mend_pool_leave(pool, MEND_OK);
}

mend_result mend_group_begin(mend_group *group, mend_stream stream)
{
    MEND_INVALID_IF(group == NULL || stream == MEND_NO_STREAM,
                    "mend_group_begin: group is NULL, or MEND_NO_STREAM");
    mend_result result =
        set_begun(group, stream, true, "mend_group_begin: the group is already begun");
    if (result == MEND_OK) {
        mend_process_await_unsafe_call(); /* the program may begin its capture now */
    }
    return result;
}

mend_result mend_group_end(mend_group *group)
{
    MEND_INVALID_IF(group == NULL, "mend_group_end: group is NULL");
    return set_begun(group, NULL, false, "mend_group_end: the group was not begun");
}

mend_result mend_group_destroy(mend_group *group, mend_stream stream)
{
    MEND_INVALID_IF(group == NULL || stream == MEND_EVERY_STREAM,
                    "mend_group_destroy: group is NULL, or MEND_EVERY_STREAM");
    mend_pool *pool = group->pool;
    MEND_TRY(mend_pool_enter_all(pool));
    mend_result result = group->is_begun
                             ? mend_pool_invalid("mend_group_destroy: the group was not ended")
                             : mend_group_leave(&pool->heap, group, stream);
    if (result == MEND_OK) {
        mend_group_drop(&pool->heap, group);
        free(group);
        mend_settle_all(&pool->heap);
    }
    return mend_pool_leave_all(pool, result);
}

/* ---- blocks of a group ---------------------------------------------------------------------- */

mend_result mend_group_free(mend_group *group, void *pointer, mend_stream stream)
{
    MEND_INVALID_IF(group == NULL || stream == MEND_NO_STREAM || stream == MEND_EVERY_STREAM,
                    "mend_group_free: group is NULL, or MEND_NO_STREAM, or MEND_EVERY_STREAM");
    if (pointer == NULL) {
        return MEND_OK;
    }
    mend_pool *pool = group->pool;
    mend_order order;
    MEND_TRY(mend_pool_find_order(pool, stream, &order));
    MEND_TRY(mend_pool_take_to_free(pool));
    return mend_pool_leave(pool, mend_heap_free_in_group(&pool->heap, (uint64_t)(uintptr_t)pointer,
                                                         order, group->number));
}

mend_result mend_group_record_stream(mend_group *group, void *pointer, mend_stream stream)
{
    MEND_INVALID_IF(group == NULL || pointer == NULL || stream == MEND_NO_STREAM ||
                        stream == MEND_EVERY_STREAM,
                    "mend_group_record_stream: group or pointer is NULL, or"
                    " MEND_NO_STREAM, or MEND_EVERY_STREAM");
    mend_pool *pool = group->pool;
    mend_order order;
    MEND_TRY(mend_pool_find_order(pool, stream, &order));
    MEND_TRY(mend_pool_take(pool));
    return mend_pool_leave(pool, mend_heap_record_stream(&pool->heap, (uint64_t)(uintptr_t)pointer,
                                                         order, group->number));
}

/* A block as an element of the array that a caller has. */
static bool is_whole(size_t block_bytes)
{
    return mend_struct_size_is_whole(block_bytes, sizeof(mend_group_block));
}

mend_result mend_group_get_blocks(mend_group *group, mend_group_block *blocks, size_t block_bytes,
                                  size_t capacity, size_t *count)
{
    MEND_INVALID_IF(group == NULL || count == NULL || (blocks == NULL && capacity > 0) ||
                        !is_whole(block_bytes),
                    "mend_group_get_blocks: group, count or blocks is NULL, or "
                    "block_bytes is not sizeof(mend_group_block)");
    mend_pool *pool = group->pool;
    MEND_TRY(mend_pool_enter(pool));
    mend_heap_list_group(&pool->heap, group->number, blocks, block_bytes, capacity, count);
    return mend_pool_leave(pool, MEND_OK);
}

mend_result mend_group_set_blocks(mend_group *group, const mend_group_block *blocks,
                                  size_t block_bytes, size_t count)
{
    MEND_INVALID_IF(group == NULL || (blocks == NULL && count > 0) || !is_whole(block_bytes),
                    "mend_group_set_blocks: group or blocks is NULL, or block_bytes "
                    "is not sizeof(mend_group_block)");
    mend_pool *pool = group->pool;
    MEND_TRY(mend_pool_enter_all(pool));
    return mend_pool_leave_all(
        pool, mend_heap_restore_group(&pool->heap, group->number, blocks, block_bytes, count));
}
