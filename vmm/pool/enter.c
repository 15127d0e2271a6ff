/*
 * The begin and the end of each call: its arguments, the process, the capture of the stream, the
 * locks, a lost context, and the one place where a failure is published.
 */
#include "pool/pool.h"

#include <string.h>

#include "base/align.h"

mend_result mend_pool_invalid(const char *what)
{
    return mend_fail(MEND_ERROR_INVALID_ARGUMENT, "%s", what);
}

mend_result mend_pool_check_struct(const void *given, const char *init)
{
    size_t given_bytes = sizeof(size_t);
    if (given != NULL) {
        memcpy(&given_bytes, given, sizeof(given_bytes));
    }
    return mend_struct_size_is_whole(given_bytes, sizeof(given_bytes))
               ? MEND_OK
               : mend_fail(MEND_ERROR_INVALID_ARGUMENT, "struct_size is wrong: begin with %s",
                           init);
}

mend_result mend_pool_read_struct(const void *given, const char *init, void *own, size_t own_bytes)
{
    MEND_TRY(mend_pool_check_struct(given, init));
    return given == NULL || mend_struct_read(own, given, own_bytes)
               ? MEND_OK
               : mend_fail(MEND_ERROR_INVALID_ARGUMENT,
                           "struct_size: the struct of %s is of a newer version than the library",
                           init);
}

mend_result mend_pool_check_array(const mend_pool *pool, const void *array, size_t element_bytes,
                                  size_t capacity, const size_t *count, const char *call)
{
    if (pool == NULL || count == NULL || (array == NULL && capacity > 0)) {
        return mend_fail(MEND_ERROR_INVALID_ARGUMENT, "%s: pool, count or the array is NULL", call);
    }
    return mend_struct_size_is_whole(element_bytes, sizeof(size_t))
               ? mend_pool_check_process(pool)
               : mend_fail(MEND_ERROR_INVALID_ARGUMENT, "%s: pass sizeof an element as its bytes",
                           call);
}

mend_result mend_pool_needs_chunks(const mend_pool *pool, const char *what)
{
    return pool->heap.config.passes == MEND_PASSES_NONE
               ? MEND_OK
               : mend_fail(MEND_ERROR_NOT_SUPPORTED,
                           "%s: the pool passes its requests through to the driver (%s)", what,
                           pool->heap.device.virtual_memory ? "plain"
                                                            : "the device has no virtual memory");
}

mend_result mend_pool_unusable(const mend_pool *pool)
{
    return pool->generation == 0
               ? mend_fail(MEND_ERROR_INVALID_ARGUMENT,
                           "the pool was destroyed, and its blocks with it")
               : mend_fail(MEND_ERROR_FORKED, "the pool was inherited through fork");
}

mend_result mend_pool_check_context(const mend_pool *pool)
{
    const mend_heap *heap = &pool->heap;
    mend_status lost = heap->unlocking.lost;
    assert(mend_mutex_is_held(&heap->state));
    return lost == MEND_DRIVER_OK
               ? MEND_OK
               : mend_fail_driver(MEND_ERROR_DEVICE_LOST,
                                  mend_driver_call_name(heap->unlocking.lost_in), lost,
                                  heap->driver->status_name(heap->driver, lost),
                                  "the context was broken by an earlier failure");
}

mend_result mend_pool_refuse(mend_pool *pool)
{
    mend_result result = mend_pool_check_context(pool);
    assert(result != MEND_OK);
    mend_process_own_marks.stack = 0; /* the pointer of a block that is not allocated */
    mend_heap_unlock(&pool->heap);
    return result;
}

/* A context that was lost before is the failure of the call. If this result says that it is lost,
 * this call returns the driver's code, and the next call fails. */
mend_result mend_pool_miss_capture(mend_pool *pool, mend_stream stream, mend_answer answer,
                                   uint64_t *capture)
{
    const mend_status status = answer.status;
    assert(status != MEND_DRIVER_OK);
    mend_heap_lock(&pool->heap);
    (void)mend_driver_did(&pool->heap, status);
    const bool is_over = status == MEND_DRIVER_DEINITIALIZED; /* frees must still succeed then */
    const mend_result result = is_over ? MEND_OK : mend_pool_check_context(pool);
    mend_unlocking_remember(&pool->heap.unlocking, answer);
    mend_heap_unlock(&pool->heap);
    *capture = 0;
    if (is_over || result != MEND_OK) {
        return result;
    }
    const bool is_unknown = stream != MEND_STREAM_PER_THREAD && mend_status_is_of_stream(status);
    return mend_publish(mend_refused(
        pool->driver, is_unknown ? MEND_ERROR_UNKNOWN_STREAM : mend_status_result(status),
        answer.call, status,
        "the driver cannot say whether the stream %p is captured: it may have been destroyed",
        (void *)stream));
}

/* The per-thread handle means a stream of the current context, so the pool's context is pushed. */
mend_result mend_pool_ask_own_capture(mend_pool *pool, uint64_t *capture)
{
    const mend_driver *driver = pool->driver;
    mend_answer answer =
        MEND_ANSWER(context_push, driver->context_push(driver, pool->heap.device.context));
    if (answer.status == MEND_DRIVER_OK) {
        answer = MEND_ANSWER(stream_get_capture,
                             driver->stream_get_capture(driver, MEND_STREAM_PER_THREAD, capture));
        driver->context_pop(driver);
    }
    return answer.status == MEND_DRIVER_OK
               ? MEND_OK
               : mend_pool_miss_capture(pool, MEND_STREAM_PER_THREAD, answer, capture);
}

mend_result mend_pool_enter_all(mend_pool *pool)
{
    MEND_TRY(mend_pool_check_process(pool));
    mend_heap_lock_all(&pool->heap);
    mend_result result = mend_pool_check_context(pool);
    if (result != MEND_OK) {
        mend_heap_unlock_all(&pool->heap);
    }
    return result;
}

mend_result mend_pool_leave_all_with(mend_pool *pool, mend_result result, void *given,
                                     const void *all, size_t all_bytes)
{
    if (result == MEND_OK && given != NULL) {
        mend_struct_write(given, all, all_bytes);
    }
    return mend_pool_leave_all(pool, result);
}

mend_result mend_pool_leave_all(mend_pool *pool, mend_result result)
{
    assert(mend_mutex_is_held(&pool->heap.grow));
    assert(mend_mutex_is_held(&pool->heap.state));
    mend_heap_unlock_all(&pool->heap);
    mend_publish(result);
    mend_pool_tell_lost_limit(pool);
    return result;
}

bool mend_pool_holds(mend_pool *pool, const void *pointer)
{
    if (pool->generation != mend_process_generation()) {
        return true;
    }
    mend_heap_lock(&pool->heap);
    bool holds = mend_heap_holds(&pool->heap, (uint64_t)(uintptr_t)pointer);
    mend_heap_unlock(&pool->heap);
    return holds;
}

mend_result mend_pool_leave_of(mend_pool *pool, const void *pointer, mend_result result)
{
    (void)mend_pool_leave(pool, result);
    bool is_found = result != MEND_ERROR_FOREIGN_POINTER;
    for (int i = 0; i < MEND_DEVICE_LIMIT && !is_found; i++) {
        uint64_t cursor = 0;
        mend_process_member *member;
        while (!is_found && (member = mend_process_visit_next(&mend_process_pools, pool->driver, i,
                                                              &cursor)) != NULL) {
            mend_pool *other = MEND_CONTAINER_OF(member, mend_pool, member);
            is_found = mend_pool_holds(other, pointer);
            if (is_found && other != pool) {
                (void)mend_fail(MEND_ERROR_FOREIGN_POINTER,
                                "%p is memory of another pool: %p, on device %d", pointer,
                                (void *)other, other->device);
            }
            mend_process_visit_end(&mend_process_pools, member);
        }
    }
    return result;
}
