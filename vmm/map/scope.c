/*
 * The frame of a transaction: the driver scope, in which the context is current and the capture
 * mode is set, the meaning of a failed call, and the locks of the heap. `state` alone is for calls
 * that free mapped memory serves, both are to change mappings (layout/state.h has the data under
 * each). While a thread holds both to change something, the front cache is closed, and so empty.
 */
#include "map/map.h"

/* Calls that make memory usable may find that there is none. NOT_READY means the same. */
static bool is_lack_of_memory(mend_answer a)
{
    return (a.call == MEND_CALL_create || a.call == MEND_CALL_map ||
            a.call == MEND_CALL_set_access) &&
           (a.status == MEND_DRIVER_OUT_OF_MEMORY || a.status == MEND_DRIVER_NOT_READY);
}

bool mend_driver_did(mend_heap *heap, mend_status status)
{
    heap->counters.driver_failures += status != MEND_DRIVER_OK;
    return status == MEND_DRIVER_OK;
}

mend_result mend_driver_refused(mend_heap *heap, mend_answer answer)
{
    (void)mend_driver_did(heap, answer.status);
    return mend_refused(
        heap->driver,
        is_lack_of_memory(answer) ? MEND_ERROR_OUT_OF_MEMORY : mend_status_result(answer.status),
        answer.call, answer.status, "%s failed", mend_driver_call_name(answer.call));
}

mend_result mend_driver_result(mend_heap *heap, mend_answer answer)
{
    return answer.status == MEND_DRIVER_OK ? MEND_OK : mend_driver_refused(heap, answer);
}

void mend_driver_work_around(mend_heap *heap, mend_result result)
{
    bool is_of_driver = result == MEND_ERROR_DRIVER || result == MEND_ERROR_DEVICE_LOST;
    heap->counters.driver_failures += is_of_driver;
}

mend_result mend_driver_scope_open(mend_heap *heap, mend_driver_scope *scope)
{
    const mend_driver *driver = heap->driver;
    scope->answer = MEND_ANSWER(context_push, driver->context_push(driver, heap->device.context));
    if (scope->answer.status == MEND_DRIVER_OK) {
        scope->mode = MEND_CAPTURE_MODE_RELAXED;
        scope->answer =
            MEND_ANSWER(exchange_capture_mode, driver->exchange_capture_mode(driver, &scope->mode));
        if (scope->answer.status == MEND_DRIVER_OK) {
            return MEND_OK;
        }
        driver->context_pop(driver);
    }
    return mend_driver_refused(heap, scope->answer);
}

void mend_driver_scope_close(mend_heap *heap, mend_driver_scope *scope)
{
    const mend_driver *driver = heap->driver;
    (void)mend_driver_did(heap, driver->exchange_capture_mode(driver, &scope->mode));
    (void)mend_driver_did(heap, driver->context_pop(driver));
}

/* ---- locks ----------------------------------------------------------------------------------- */

void mend_heap_lock_all(mend_heap *heap)
{
    mend_mutex_lock(&heap->grow);
    mend_mutex_lock(&heap->state);
    mend_cache_close(heap);
}

void mend_heap_lock_to_read(mend_heap *heap)
{
    mend_mutex_lock(&heap->grow);
    mend_heap_lock(heap);
}

void mend_heap_unlock_after_read(mend_heap *heap)
{
    mend_mutex_unlock(&heap->state);
    mend_mutex_unlock(&heap->grow);
}

void mend_heap_unlock_grow(mend_heap *heap)
{
    mend_events_end_call(&heap->events);
    mend_cache_open(heap, mend_budget_is_pressed(heap));
    mend_mutex_unlock(&heap->grow);
}

void mend_heap_unlock_all(mend_heap *heap)
{
    mend_heap_unlock_grow(heap);
    mend_heap_unlock(heap);
}
