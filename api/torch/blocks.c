/* Blocks for PyTorch. While no pool of PyTorch's takes requests or keeps memory, each call goes
 * straight to the calls for hooks. */
#include <stdatomic.h>
#include <stddef.h>

#include "hooks/failures.h"
#include "torch/heaps.h"
#include "torch/pools.h"

/* address: NULL: anywhere. */
static mend_result alloc_in(mend_torch_pool *pool, int device, uint64_t size_bytes,
                            mend_stream stream, void *address, void **pointer)
{
    mend_pool *heap;
    mend_alloc_options options = MEND_ALLOC_OPTIONS_INIT;
    options.address = address;
    options.tag = mend_torch_pool_number(pool);
    mend_result result = mend_torch_pool_group_of(pool, &options.group);
    if (result == MEND_OK) {
        result = mend_torch_heap(device, &heap);
    }
    return result == MEND_OK ? mend_alloc_with(heap, size_bytes, stream, &options, pointer)
                             : result;
}

mend_result mend_torch_use_device(int device)
{
    mend_pool *heap;
    return mend_torch_heap(device, &heap);
}

mend_result mend_torch_block_alloc(int device, uint64_t size_bytes, mend_stream stream,
                                   void **pointer, int *is_foreign)
{
    *is_foreign = 0;
    mend_torch_pool *pool = NULL;
    if (!mend_torch_pools_take(device) || size_bytes == 0 ||
        (pool = mend_torch_pool_taking(device, stream)) == NULL) {
        return mend_device_alloc(device, size_bytes, stream, pointer);
    }
    mend_result result = MEND_OK;
    if (mend_torch_pool_is_foreign(pool)) {
        *is_foreign = 1;
    } else {
        result = alloc_in(pool, device, size_bytes, stream, NULL, pointer);
    }
    mend_torch_pool_let_go(pool);
    return result;
}

mend_result mend_torch_block_alloc_at(int device, uint64_t size_bytes, mend_stream stream,
                                      void *address)
{
    mend_pool *heap;
    void *pointer;
    mend_alloc_options options = MEND_ALLOC_OPTIONS_INIT;
    options.address = address;
    mend_torch_pool *pool =
        mend_torch_pools_take(device) ? mend_torch_pool_taking(device, stream) : NULL;
    if (pool != NULL) {
        mend_result result = alloc_in(pool, device, size_bytes, stream, address, &pointer);
        mend_torch_pool_let_go(pool);
        return result;
    }
    mend_result result = mend_torch_heap(device, &heap);
    return result == MEND_OK ? mend_alloc_with(heap, size_bytes, stream, &options, &pointer)
                             : result;
}

mend_result mend_torch_block_find(const void *pointer, mend_torch_block *block)
{
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    mend_result result = mend_device_block_info(MEND_ALL_DEVICES, pointer, &info);
    if (result == MEND_ERROR_NOT_SUPPORTED) {
        info.base = (void *)(uintptr_t)pointer;
        info.stream = MEND_NO_STREAM;
        result = MEND_OK;
    }
    if (result == MEND_OK) {
        block->base = info.base;
        block->requested_bytes = info.requested_bytes;
        block->usable_bytes = info.usable_bytes;
        block->stream = info.stream;
        block->device = mend_torch_device_of(info.pool);
        block->tag = info.tag;
    }
    return result;
}

mend_result mend_torch_block_free(const mend_torch_block *block)
{
    if (block->tag != 0 && block->stream != MEND_NO_STREAM && mend_torch_pools_keep()) {
        mend_torch_pool *pool = mend_torch_pool_keeping(block->tag);
        if (pool != NULL) {
            mend_group *group = NULL;
            mend_result result = mend_torch_pool_group_of(pool, &group);
            if (result == MEND_OK) {
                result = mend_group_free(group, block->base, block->stream);
            }
            mend_torch_pool_let_go(pool);
            return result;
        }
    }
    return mend_device_free(block->device, block->base, block->requested_bytes, block->stream);
}

/* ---- a MemPool over Mend -------------------------------------------------------------------- */

void *mend_torch_alloc_or_null(size_t size, int device, mend_stream stream)
{
    void *pointer = NULL;
    return mend_device_alloc(device, size, stream, &pointer) == MEND_OK ? pointer : NULL;
}

void mend_torch_free(void *pointer, size_t size, int device, mend_stream stream)
{
    mend_hooks_note(mend_device_free(device, pointer, size, stream), "a free of PyTorch");
}

uint64_t mend_torch_failures(void)
{
    return mend_hooks_failures();
}
