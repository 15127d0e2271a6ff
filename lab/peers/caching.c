/*
 * A model of PyTorch's native caching allocator: it gets segments from cudaMalloc and splits them
 * into blocks. It frees a segment only after an allocation has failed, and only if no block in it
 * is in use. Two settings of PyTorch have models of their own: max_split_size_mb, which keeps large
 * blocks from being split, and garbage_collection_threshold, which frees segments earlier.
 */
#include <assert.h>
#include <stdlib.h>

#include "base/align.h"
#include "lab/peers/models.h"
#include "lab/peers/torch.h"

static torch_block *block_of(mend_tree_node *node)
{
    return node == NULL ? NULL : MEND_CONTAINER_OF(node, torch_block, in_pool);
}

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

static bool is_segment(const torch_block *block)
{
    return block->previous == NULL && block->next == NULL;
}

/* Gives the segment of a free block back, which it covers. */
static mend_result release_segment(torch_model *model, torch_block *block)
{
    mend_result result = drop(model, block->segment);
    if (result == MEND_OK) {
        torch_block_remove(block);
        torch_segment_forget(model, block);
    }
    return result;
}

static mend_result release(torch_model *model, torch_pool *pool)
{
    mend_tree_node *next;
    for (mend_tree_node *at = mend_tree_first(&pool->free_blocks); at != NULL; at = next) {
        next = mend_tree_next(at);
        torch_block *block = block_of(at);
        mend_result result = is_segment(block) ? release_segment(model, block) : MEND_OK;
        if (result != MEND_OK) {
            return result;
        }
    }
    return MEND_OK;
}

/* ---- max_split_size_mb ----------------------------------------------------------------------- */

/* The largest free block of the stream, where it is oversize. All oversize blocks cover their
 * segments. */
static torch_block *largest_oversize(const torch_model *model, torch_pool *pool, mend_stream stream)
{
    torch_block key = {.size_bytes = UINT64_MAX, .stream = stream};
    torch_block *block = block_of(mend_tree_at_or_before(&pool->free_blocks, &key.in_pool));
    bool is_one =
        block != NULL && block->stream == stream && block->size_bytes >= model->oversize_bytes;
    assert(!is_one || is_segment(block));
    return is_one ? block : NULL;
}

static mend_result make_room(torch_model *model, torch_pool *pool, uint64_t size_bytes,
                             mend_stream stream)
{
    uint64_t wanted_bytes = mend_max_u64(size_bytes, model->oversize_bytes);
    torch_block key = {.size_bytes = wanted_bytes, .stream = stream};
    torch_block *enough = block_of(mend_tree_at_or_after(&pool->free_blocks, &key.in_pool));
    if (enough != NULL && enough->stream == stream) {
        return release_segment(model, enough);
    }
    uint64_t released_bytes = 0;
    while (released_bytes < wanted_bytes) {
        torch_block *largest = largest_oversize(model, pool, stream);
        if (largest == NULL) {
            return MEND_ERROR_OUT_OF_MEMORY;
        }
        released_bytes += largest->size_bytes;
        mend_result result = release_segment(model, largest);
        if (result != MEND_OK) {
            return result;
        }
    }
    return MEND_OK;
}

mend_result mend_peer_create_caching_split(const mend_peer_config *config, mend_peer **peer)
{
    mend_result result = mend_peer_create_caching(config, peer);
    if (result == MEND_OK) {
        torch_model *model = MEND_CONTAINER_OF(*peer, torch_model, peer);
        model->oversize_bytes = MEND_PEER_OVERSIZE_BYTES;
        model->make_room = make_room;
    }
    return result;
}

/* ---- garbage_collection_threshold ------------------------------------------------------------ */

/* The unused segments of large blocks, and the sum of their ages. */
typedef struct unused_segments {
    uint64_t count;
    uint64_t ages;
} unused_segments;

/* How often a block of its pool was looked for while the block lay unused. */
static uint64_t age_of(const torch_block *block)
{
    return block->pool->searches - block->free_since;
}

static unused_segments find_unused(torch_pool *pool)
{
    unused_segments unused = {0};
    for (mend_tree_node *at = mend_tree_first(&pool->free_blocks); at != NULL;
         at = mend_tree_next(at)) {
        if (is_segment(block_of(at))) {
            unused.count++;
            unused.ages += age_of(block_of(at));
        }
    }
    return unused;
}

/* Releases all segments that are as old as the average or older. There is always one. */
static mend_result release_older_half(torch_model *model, torch_pool *pool, unused_segments unused)
{
    mend_tree_node *next;
    for (mend_tree_node *at = mend_tree_first(&pool->free_blocks); at != NULL; at = next) {
        next = mend_tree_next(at);
        torch_block *block = block_of(at);
        if (is_segment(block) && age_of(block) * unused.count >= unused.ages) {
            mend_result result = release_segment(model, block);
            if (result != MEND_OK) {
                return result;
            }
        }
    }
    return MEND_OK;
}

static mend_result collect(torch_model *model)
{
    torch_pool *large = &model->pools[0];
    uint64_t limit_bytes = model->config.limit_bytes;
    uint64_t threshold_bytes = limit_bytes * MEND_PEER_COLLECT_PERCENT / 100;
    if (limit_bytes == 0) {
        return MEND_OK;
    }
    while (model->usage.reserved_bytes > threshold_bytes) {
        unused_segments unused = find_unused(large);
        if (unused.count == 0) {
            return MEND_OK;
        }
        mend_result result = release_older_half(model, large, unused);
        if (result != MEND_OK) {
            return result;
        }
    }
    return MEND_OK;
}

mend_result mend_peer_create_caching_collect(const mend_peer_config *config, mend_peer **peer)
{
    mend_result result = mend_peer_create_caching(config, peer);
    if (result == MEND_OK) {
        MEND_CONTAINER_OF(*peer, torch_model, peer)->collect = collect;
    }
    return result;
}

/* ---- since PyTorch 2.13 -------------------------------------------------------------------- */

/* Of free blocks of one size, the one in the older segment is taken. Within a segment the lower. */
static mend_result since_2_13(mend_result result, mend_peer **peer)
{
    if (result == MEND_OK) {
        MEND_CONTAINER_OF(*peer, torch_model, peer)->prefers_older = true;
    }
    return result;
}

mend_result mend_peer_create_caching_2_13(const mend_peer_config *config, mend_peer **peer)
{
    return since_2_13(mend_peer_create_caching(config, peer), peer);
}

mend_result mend_peer_create_caching_2_13_split(const mend_peer_config *config, mend_peer **peer)
{
    return since_2_13(mend_peer_create_caching_split(config, peer), peer);
}

mend_result mend_peer_create_caching_2_13_collect(const mend_peer_config *config, mend_peer **peer)
{
    return since_2_13(mend_peer_create_caching_collect(config, peer), peer);
}

/* ---- without settings ------------------------------------------------------------------------ */

mend_result mend_peer_create_caching(const mend_peer_config *config, mend_peer **peer)
{
    return torch_model_create(config, grow, release, drop, false, peer);
}
