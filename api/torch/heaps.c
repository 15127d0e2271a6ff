#include "torch/heaps.h"

#include <stdatomic.h>
#include <stdbool.h>

static _Atomic(mend_pool *) heaps[MEND_TORCH_DEVICES];

mend_result mend_torch_heap(int device, mend_pool **heap)
{
    mend_pool *found = NULL;
    mend_result result = mend_pool_for_device(device, &found);
    if (result == MEND_OK) {
        atomic_store_explicit(&heaps[device], found, memory_order_relaxed);
        *heap = found;
    }
    return result;
}

/* A program may destroy a default pool, and the next one may lie at the same address. */
static bool is_still(int device, const mend_pool *heap)
{
    mend_pool *now = NULL;
    return mend_pool_for_device(device, &now) == MEND_OK && now == heap;
}

int mend_torch_device_of(const mend_pool *heap)
{
    for (int i = 0; heap != NULL && i < MEND_TORCH_DEVICES; i++) {
        if (atomic_load_explicit(&heaps[i], memory_order_relaxed) == heap && is_still(i, heap)) {
            return i;
        }
    }
    return MEND_ALL_DEVICES;
}
