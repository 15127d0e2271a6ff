/* Blocks for PyTorch. While no pool of PyTorch's takes requests or keeps memory, each call goes
 * straight to the calls for hooks. */
#include "hooks/failures.h"
#include "mend/mend_frameworks.h"
#include "torch/heaps.h"
#include "torch/pools.h"
#include "torch/rounding.h"

/* address: NULL: anywhere. */
static mend_result alloc_in(mend_torch_pool *pool, int device, uint64_t size_bytes,
                            mend_stream stream, void *address, void **pointer)
{
    mend_pool *heap;
    mend_alloc_options options = MEND_ALLOC_OPTIONS_INIT;
    options.address = address;
    options.tag = mend_torch_pool_number(pool);
    mend_result result = mend_torch_pool_graph_pool_of(pool, &options.graph_pool);
    if (result == MEND_OK) {
        result = mend_torch_heap(device, &heap);
    }
    return result == MEND_OK ? mend_alloc_with(heap, size_bytes, stream, &options, pointer)
                             : result;
}

mend_result mend_torch_use_device(int device)
{
    mend_pool *heap;
    mend_stats stats = MEND_STATS_INIT;
    mend_result result = mend_torch_heap(device, &heap);
    result = result == MEND_OK ? mend_get_stats(heap, &stats) : result;
    return result == MEND_OK && stats.bare_device != 0 ? mend_torch_pools_leave(device) : result;
}

/* `is_taken`: a pool of PyTorch's took the request. */
static mend_result alloc(int device, uint64_t size_bytes, mend_stream stream, void **pointer,
                         int *is_foreign, bool *is_taken)
{
    *is_foreign = 0;
    mend_torch_pool *pool = NULL;
    if (mend_torch_pools_take(device) && size_bytes != 0) {
        pool = mend_torch_pool_taking(device, stream);
    }
    *is_taken = pool != NULL;
    if (pool == NULL) {
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

mend_result mend_torch_block_alloc(int device, uint64_t size_bytes, mend_stream stream,
                                   void **pointer, int *is_foreign)
{
    bool is_taken;
    return alloc(device, size_bytes, stream, pointer, is_foreign, &is_taken);
}

/* PyTorch's small blocks. */
enum { SMALL_BYTES = 1 << 20 };

mend_result mend_torch_block_alloc_rounded(int device, uint64_t size_bytes, uint64_t rounded_bytes,
                                           mend_stream stream, void **pointer, int *is_foreign)
{
    bool is_taken;
    mend_result result = alloc(device, rounded_bytes, stream, pointer, is_foreign, &is_taken);
    /* A checkpoint of a pool brings blocks back with the sizes that Mend knows. */
    if (result == MEND_OK && rounded_bytes > size_bytes && !is_taken) {
        const mend_torch_rounded rounded = {.excess_bytes = rounded_bytes - size_bytes,
                                            .device = device,
                                            .is_small = rounded_bytes <= SMALL_BYTES};
        mend_torch_rounding_add(*pointer, rounded);
    }
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

mend_result mend_torch_block_alloc_in(int device, mend_torch_pool_id id, uint64_t size_bytes,
                                      mend_stream stream, void **pointer)
{
    mend_torch_pool *pool = mend_torch_pool_named(device, id);
    if (pool == NULL) {
        return mend_set_last_error(MEND_ERROR_OUT_OF_MEMORY,
                                   "the memory pool of PyTorch's keeps no memory of Mend's");
    }
    mend_result result = alloc_in(pool, device, size_bytes, stream, NULL, pointer);
    mend_torch_pool_let_go(pool);
    return result;
}

/* An allocator that was set may not know the requested size. */
static uint64_t without_excess(uint64_t requested_bytes, uint64_t excess_bytes)
{
    return requested_bytes > excess_bytes ? requested_bytes - excess_bytes : requested_bytes;
}

uint64_t mend_torch_block_requested(const void *base, uint64_t requested_bytes)
{
    return without_excess(requested_bytes, mend_torch_rounding_of(base).excess_bytes);
}

static mend_torch_block described(const mend_block_info *info, int device, uint64_t excess_bytes)
{
    return (mend_torch_block){.base = info->base,
                              .requested_bytes =
                                  without_excess(info->requested_bytes, excess_bytes),
                              .usable_bytes = info->usable_bytes,
                              .stream = info->stream,
                              .device = device,
                              .tag = info->tag};
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
        *block = described(&info, mend_torch_device_of(info.pool),
                           mend_torch_rounding_of(info.base).excess_bytes);
    }
    return result;
}

static mend_result free_block(const mend_torch_block *block, uint64_t size_bytes)
{
    if (block->tag != 0 && block->stream != MEND_NO_STREAM && mend_torch_pools_keep()) {
        mend_torch_pool *pool = mend_torch_pool_keeping(block->tag);
        if (pool != NULL) {
            mend_graph_pool *graph_pool = NULL;
            mend_result result = mend_torch_pool_graph_pool_of(pool, &graph_pool);
            if (result == MEND_OK) {
                result = mend_graph_pool_free(graph_pool, block->base, block->stream);
            }
            mend_torch_pool_let_go(pool);
            return result;
        }
    }
    return mend_device_free(block->device, block->base, size_bytes, block->stream);
}

/* In the capture of the pool that the block is of the use is one of that pool's graphs. */
mend_result mend_torch_block_record_stream(void *pointer, mend_stream stream)
{
    mend_torch_block block = {0};
    mend_torch_pool *pool = NULL;
    if (mend_torch_pools_keep() && mend_torch_block_find(pointer, &block) == MEND_OK &&
        block.tag != 0) {
        pool = mend_torch_pool_taking(block.device, stream);
    }
    if (pool == NULL) {
        return mend_device_record_stream(MEND_ALL_DEVICES, pointer, stream);
    }
    mend_graph_pool *graph_pool = NULL;
    bool is_of_pool = mend_torch_pool_number(pool) == block.tag &&
                      mend_torch_pool_graph_pool_of(pool, &graph_pool) == MEND_OK &&
                      graph_pool != NULL;
    mend_result result = is_of_pool ? mend_graph_pool_record_stream(graph_pool, pointer, stream)
                                    : mend_device_record_stream(MEND_ALL_DEVICES, pointer, stream);
    mend_torch_pool_let_go(pool);
    return result;
}

mend_result mend_torch_block_free(const mend_torch_block *block)
{
    const mend_torch_rounded rounded = mend_torch_rounding_end(block->base);
    const uint64_t size_bytes = block->requested_bytes + rounded.excess_bytes;
    mend_result result = free_block(block, size_bytes);
    if (result == MEND_ERROR_CORRUPTION) { /* the log has told it. Once */
        result = free_block(block, size_bytes);
    }
    if (result != MEND_OK) {
        mend_torch_rounding_put_back(block->base, rounded);
    }
    return result;
}

/* `excess_bytes`: of the block at the pointer. */
static mend_result give(void *pointer, uint64_t excess_bytes, mend_torch_block *block)
{
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    mend_torch_block found;
    int device = MEND_ALL_DEVICES;
    mend_result result = mend_device_free_untagged(pointer, &info, &device);
    if (result == MEND_OK && info.tag == 0) {
        *block = described(&info, device, excess_bytes);
        return MEND_OK;
    }
    if (result == MEND_OK) {
        found = described(&info, device, excess_bytes);
    } else if (result == MEND_ERROR_NOT_SUPPORTED) {
        result = mend_torch_block_find(pointer, &found);
    }
    if (result == MEND_OK) {
        result = free_block(&found, found.requested_bytes + excess_bytes);
    }
    if (result == MEND_OK) {
        *block = found;
    }
    return result;
}

mend_result mend_torch_block_give(void *pointer, mend_torch_block *block)
{
    /* The note ends before another block can begin there. */
    const mend_torch_rounded rounded = mend_torch_rounding_end(pointer);
    mend_result result = give(pointer, rounded.excess_bytes, block);
    if (result == MEND_ERROR_CORRUPTION) { /* as above */
        result = give(pointer, rounded.excess_bytes, block);
    }
    if (result != MEND_OK) {
        mend_torch_rounding_put_back(pointer, rounded);
    }
    return result;
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
