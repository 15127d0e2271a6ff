/* The calls that pin memory of a pool. */
#include "users/users.h"

#include "pool/pool.h"

static mend_result change(mend_pool *pool, const void *pointer, uint64_t size_bytes,
                          mend_result (*change_pins)(mend_heap *, uint64_t, uint64_t,
                                                     mend_pin_owner),
                          const char *mistake)
{
    const uint64_t address = (uint64_t)(uintptr_t)pointer;
    bool is_right =
        pool != NULL && pointer != NULL && size_bytes != 0 && size_bytes <= UINT64_MAX - address;
    mend_result result = mend_pool_enter_all_if(pool, is_right, mistake);
    return result != MEND_OK
               ? result
               : mend_pool_leave_all(
                     pool, change_pins(&pool->heap, address, size_bytes, MEND_PIN_OF_PROGRAM));
}

mend_result mend_pin(mend_pool *pool, const void *pointer, uint64_t size_bytes)
{
    return change(pool, pointer, size_bytes, mend_pins_add,
                  "mend_pin: pool or pointer is NULL, size_bytes is 0 or too large");
}

mend_result mend_unpin(mend_pool *pool, const void *pointer, uint64_t size_bytes)
{
    return change(pool, pointer, size_bytes, mend_pins_remove,
                  "mend_unpin: pool or pointer is NULL, size_bytes is 0 or too large");
}
