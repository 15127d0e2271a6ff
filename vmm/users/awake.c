/*
 * What sleeps has no memory, so nothing outside of the pool may begin to rely on it. Guarded by
 * `state`.
 */
#include "users/users.h"

#include "base/error.h"

mend_result mend_users_find_asleep(const mend_heap *heap, uint64_t address, uint64_t size_bytes,
                                   const char *what)
{
    const mend_chunk *chunk = mend_chunk_at(&heap->chunks, address);
    for (; chunk != NULL && chunk->address < address + size_bytes; chunk = mend_chunk_next(chunk)) {
        if (mend_chunk_sleeps(chunk)) {
            return mend_failure(MEND_ERROR_ASLEEP,
                                "%s: the memory at 0x%llx sleeps; call mend_wake first", what,
                                (unsigned long long)mend_max_u64(address, chunk->address));
        }
    }
    return MEND_OK;
}
