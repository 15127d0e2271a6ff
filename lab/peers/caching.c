/*
 * A model of PyTorch's native caching allocator: it gets segments from cudaMalloc and splits them
 * into blocks. It frees a segment only after an allocation has failed, and only if no block in it
 * is in use.
 */
#include <stdlib.h>

#include "base/align.h"
#include "lab/peers/models.h"
#include "lab/peers/torch.h"

static uint64_t segment_bytes(const torch_pool *pool, uint64_t size_bytes)
{
    if (pool->is_small) {
        return TORCH_SMALL_SEGMENT_BYTES;
    }
    if (size_bytes < TORCH_PACKED_REQUEST_BYTES) {
        return TORCH_LARGE_SEGMENT_BYTES;
    }
    return mend_align_up(size_bytes, TORCH_ROUND_BYTES);
}

static mend_result grow(torch_model *model, torch_pool *pool, uint64_t size_bytes,
                        mend_stream stream, torch_block **block)
{
    const mend_driver *driver = model->config.driver;
    uint64_t bytes = segment_bytes(pool, size_bytes);
    if (!torch_has_room(model, bytes)) {
        return MEND_ERROR_OUT_OF_MEMORY;
    }
    torch_segment *segment = calloc(1, sizeof(torch_segment));
    if (segment == NULL || !mend_slab_reserve(&model->blocks, 1)) {
        free(segment);
        return MEND_ERROR_OUT_OF_HOST_MEMORY;
    }
    segment->size_bytes = bytes;
    mend_status status = driver->plain_alloc(driver, bytes, &segment->address);
    if (status != MEND_DRIVER_OK) {
        free(segment);
        return torch_fail(status, "cuMemAlloc");
    }
    torch_take_bytes(model, bytes);
    *block = torch_segment_block(model, pool, segment, stream, true);
    return MEND_OK;
}

static mend_result drop(torch_model *model, torch_segment *segment)
{
    const mend_driver *driver = model->config.driver;
    mend_status status = driver->plain_free(driver, segment->address);
    torch_give_bytes(model, segment->size_bytes);
    return status == MEND_DRIVER_OK ? MEND_OK : torch_fail(status, "cuMemFree");
}

static mend_result release(torch_model *model, torch_pool *pool)
{
    mend_tree_node *next;
    for (mend_tree_node *at = mend_tree_first(&pool->free_blocks); at != NULL; at = next) {
        next = mend_tree_next(at);
        torch_block *block = MEND_CONTAINER_OF(at, torch_block, in_pool);
        if (block->previous != NULL || block->next != NULL) {
            continue;
        }
        mend_result result = drop(model, block->segment);
        if (result != MEND_OK) {
            return result;
        }
        torch_block_remove(block);
        torch_segment_forget(model, block);
    }
    return MEND_OK;
}

mend_result mend_peer_create_caching(const mend_peer_config *config, mend_peer **peer)
{
    return torch_model_create(config, grow, release, drop, false, peer);
}
