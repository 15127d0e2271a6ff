#include "lab/peers/torch.h"

#include <stdlib.h>

#include "base/align.h"
#include "base/error.h"

static torch_block *block_of(const mend_tree_node *node)
{
    return node == NULL ? NULL : MEND_CONTAINER_OF(node, torch_block, in_pool);
}

static int compare_numbers(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int by_stream_and_address(const mend_tree_node *a, const mend_tree_node *b)
{
    int order = compare_numbers((uintptr_t)block_of(a)->stream, (uintptr_t)block_of(b)->stream);
    return order != 0 ? order : compare_numbers(block_of(a)->address, block_of(b)->address);
}

static int by_stream_and_size(const mend_tree_node *a, const mend_tree_node *b)
{
    int order = compare_numbers((uintptr_t)block_of(a)->stream, (uintptr_t)block_of(b)->stream);
    order = order != 0 ? order : compare_numbers(block_of(a)->size_bytes, block_of(b)->size_bytes);
    order = order != 0 ? order
                       : compare_numbers(block_of(a)->segment_number, block_of(b)->segment_number);
    return order != 0 ? order : compare_numbers(block_of(a)->address, block_of(b)->address);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static mend_tree *tree_of(torch_block *block)
{
    return block->is_mapped ? &block->pool->free_blocks : &block->pool->unmapped_blocks;
}

void torch_block_insert(torch_block *block)
{
    block->free_since = block->pool->searches;
    mend_tree_insert(tree_of(block), &block->in_pool);
}

void torch_block_remove(torch_block *block)
{
    mend_tree_remove(tree_of(block), &block->in_pool);
}

torch_block *torch_segment_block(torch_model *model, torch_pool *pool, torch_segment *segment,
                                 mend_stream stream, bool is_mapped)
{
    torch_block *block = mend_slab_take(&model->blocks);
    model->segments_made++;
    *block = (torch_block){.address = segment->address,
                           .size_bytes = segment->size_bytes,
                           .stream = stream,
                           .pool = pool,
                           .segment = segment,
                           .segment_number = model->prefers_older ? model->segments_made : 0,
                           .is_free = true,
                           .is_mapped = is_mapped};
    mend_list_append(&model->segments, &segment->in_segments);
    return block;
}

torch_block *torch_block_cut(torch_model *model, torch_block *block, uint64_t size_bytes)
{
    torch_block *rest = mend_slab_take(&model->blocks);
    *rest = *block;
    rest->address += size_bytes;
    rest->size_bytes -= size_bytes;
    rest->previous = block;
    rest->is_free = true;
    if (rest->next != NULL) {
        rest->next->previous = rest;
    }
    block->next = rest;
    block->size_bytes = size_bytes;
    return rest;
}

/* Joins `right`, which is in no tree, into `left`. */
static void absorb(torch_model *model, torch_block *left, torch_block *right)
{
    left->size_bytes += right->size_bytes;
    left->next = right->next;
    if (left->next != NULL) {
        left->next->previous = left;
    }
    mend_slab_give(&model->blocks, right);
}

static bool can_join(const torch_block *block, const torch_block *neighbour)
{
    return neighbour != NULL && neighbour->is_free && neighbour->is_mapped == block->is_mapped;
}

torch_block *torch_block_join(torch_model *model, torch_block *block)
{
    if (can_join(block, block->previous)) {
        torch_block *left = block->previous;
        torch_block_remove(left);
        absorb(model, left, block);
        block = left;
    }
    if (can_join(block, block->next)) {
        torch_block_remove(block->next);
        absorb(model, block, block->next);
    }
    return block;
}

static void free_segment(torch_segment *segment)
{
    mend_list_remove(&segment->in_segments);
    free(segment->handles);
    free(segment);
}

void torch_segment_forget(torch_model *model, torch_block *block)
{
    free_segment(block->segment);
    mend_slab_give(&model->blocks, block);
}

/* ---- accounts -------------------------------------------------------------------------------- */

bool torch_has_room(const torch_model *model, uint64_t size_bytes)
{
    uint64_t limit_bytes = model->config.limit_bytes;
    return limit_bytes == 0 ||
           (size_bytes <= limit_bytes && model->usage.reserved_bytes <= limit_bytes - size_bytes);
}

void torch_take_bytes(torch_model *model, uint64_t size_bytes)
{
    mend_peer_usage *usage = &model->usage;
    usage->reserved_bytes += size_bytes;
    usage->peak_reserved_bytes = mend_max_u64(usage->peak_reserved_bytes, usage->reserved_bytes);
}

void torch_give_bytes(torch_model *model, uint64_t size_bytes)
{
    model->usage.reserved_bytes -= size_bytes;
}

mend_result torch_fail(mend_status status, const char *call)
{
    if (status == MEND_DRIVER_OUT_OF_MEMORY) {
        return MEND_ERROR_OUT_OF_MEMORY;
    }
    return mend_fail_driver(MEND_ERROR_DRIVER, call, status, mend_status_name(status),
                            "the model of PyTorch's allocator cannot go on");
}

/* ---- use on other streams -------------------------------------------------------------------- */

static void return_block(torch_model *model, torch_block *block)
{
    block->is_free = true;
    torch_block_insert(torch_block_join(model, block));
}

static mend_result wait_for_stream(torch_model *model, torch_block *block, mend_stream stream)
{
    const mend_driver *driver = model->config.driver;
    torch_waiting *waiting = calloc(1, sizeof(torch_waiting));
    if (waiting == NULL) {
        return MEND_ERROR_OUT_OF_HOST_MEMORY;
    }
    waiting->block = block;
    waiting->stream = stream;
    mend_status status = driver->event_create(driver, &waiting->event);
    if (status != MEND_DRIVER_OK) {
        free(waiting);
        return torch_fail(status, "cuEventCreate");
    }
    mend_list_append(&model->waiting, &waiting->in_waiting);
    status = driver->event_record(driver, waiting->event, stream);
    return status == MEND_DRIVER_OK ? MEND_OK : torch_fail(status, "cuEventRecord");
}

static void end_waiting(torch_model *model, torch_waiting *waiting)
{
    model->config.driver->event_destroy(model->config.driver, waiting->event);
    return_block(model, waiting->block);
    mend_list_remove(&waiting->in_waiting);
    free(waiting);
}

static bool waits_earlier(const torch_model *model, const torch_waiting *waiting)
{
    for (const mend_list *at = model->waiting.next; at != &waiting->in_waiting; at = at->next) {
        if (MEND_CONTAINER_OF(at, torch_waiting, in_waiting)->stream == waiting->stream) {
            return true;
        }
    }
    return false;
}

/* Queries the oldest event of each stream, until one is not complete. */
static void take_completed(torch_model *model)
{
    const mend_driver *driver = model->config.driver;
    mend_list *next;
    for (mend_list *at = model->waiting.next; at != &model->waiting; at = next) {
        next = at->next;
        torch_waiting *waiting = MEND_CONTAINER_OF(at, torch_waiting, in_waiting);
        if (!waits_earlier(model, waiting) &&
            driver->event_query(driver, waiting->event) == MEND_DRIVER_OK) {
            end_waiting(model, waiting);
        }
    }
}

static void wait_for_all(torch_model *model)
{
    const mend_driver *driver = model->config.driver;
    while (!mend_list_is_empty(&model->waiting)) {
        torch_waiting *waiting = MEND_CONTAINER_OF(model->waiting.next, torch_waiting, in_waiting);
        driver->event_synchronize(driver, waiting->event);
        end_waiting(model, waiting);
    }
}

/* ---- allocate and free ----------------------------------------------------------------------- */

/* A block at the growing end of a segment counts with the size that it could grow to. */
static uint64_t size_it_can_have(const torch_block *block)
{
    bool grows = block->next != NULL && !block->next->is_mapped;
    return block->size_bytes + (grows ? block->next->size_bytes : 0);
}

/* A request that is not oversize takes no oversize block, and an oversize one takes no block that
 * is larger by a large segment. */
static bool may_serve(const torch_model *model, const torch_block *block, uint64_t size_bytes)
{
    if (size_bytes < model->oversize_bytes) {
        return block->size_bytes < model->oversize_bytes;
    }
    return block->size_bytes < size_bytes + TORCH_LARGE_SEGMENT_BYTES;
}

static torch_block *take_best_fit(const torch_model *model, torch_pool *pool, uint64_t size_bytes,
                                  mend_stream stream)
{
    torch_block key = {.size_bytes = size_bytes, .stream = stream};
    torch_block *best = block_of(mend_tree_at_or_after(&pool->free_blocks, &key.in_pool));
    if (best == NULL || best->stream != stream) {
        return NULL;
    }
    for (torch_block *next = block_of(mend_tree_next(&best->in_pool));
         next != NULL && next->stream == stream && best->segment->page_bytes != 0 &&
         size_it_can_have(next) < size_it_can_have(best);
         next = block_of(mend_tree_next(&next->in_pool))) {
        best = next;
    }
    if (!may_serve(model, best, size_bytes)) {
        return NULL;
    }
    torch_block_remove(best);
    return best;
}

static bool should_split(const torch_model *model, const torch_block *block, uint64_t size_bytes)
{
    uint64_t rest_bytes = block->size_bytes - size_bytes;
    if (block->pool->is_small || model->is_expandable) {
        return rest_bytes >= TORCH_BLOCK_BYTES;
    }
    return size_bytes < model->oversize_bytes && rest_bytes > TORCH_SMALL_REQUEST_BYTES;
}

static mend_result find_block(torch_model *model, torch_pool *pool, uint64_t size_bytes,
                              mend_stream stream, torch_block **block)
{
    pool->searches++;
    *block = take_best_fit(model, pool, size_bytes, stream);
    if (*block != NULL) {
        return MEND_OK;
    }
    mend_result result = model->collect != NULL ? model->collect(model) : MEND_OK;
    if (result == MEND_OK) {
        result = model->grow(model, pool, size_bytes, stream, block);
    }
    if (result == MEND_ERROR_OUT_OF_MEMORY && model->make_room != NULL) {
        result = model->make_room(model, pool, size_bytes, stream);
        if (result == MEND_OK) {
            result = model->grow(model, pool, size_bytes, stream, block);
        }
    }
    if (result != MEND_ERROR_OUT_OF_MEMORY) {
        return result;
    }
    /* The last resort: releases everything cached. Blocks that waited for events are not searched
     * again. */
    wait_for_all(model);
    for (int i = 0; i < 2; i++) {
        result = model->release(model, &model->pools[i]);
        if (result != MEND_OK) {
            return result;
        }
    }
    return model->grow(model, pool, size_bytes, stream, block);
}

static mend_result alloc_locked(torch_model *model, uint64_t size_bytes, mend_stream stream,
                                uint64_t *address)
{
    take_completed(model);
    if (!mend_pointer_map_reserve(&model->live)) {
        return MEND_ERROR_OUT_OF_HOST_MEMORY;
    }
    uint64_t rounded_bytes = mend_align_up(size_bytes, TORCH_BLOCK_BYTES);
    torch_pool *pool = &model->pools[rounded_bytes <= TORCH_SMALL_REQUEST_BYTES];
    torch_block *block = NULL;
    mend_result result = find_block(model, pool, rounded_bytes, stream, &block);
    if (result != MEND_OK) {
        return result;
    }
    if (!mend_slab_reserve(&model->blocks, 1)) {
        torch_block_insert(block);
        return MEND_ERROR_OUT_OF_HOST_MEMORY;
    }
    if (should_split(model, block, rounded_bytes)) {
        torch_block_insert(torch_block_cut(model, block, rounded_bytes));
    }
    block->is_free = false;
    mend_pointer_map_insert(&model->live, block->address, block);
    *address = block->address;
    return MEND_OK;
}

static mend_result torch_alloc(mend_peer *peer, uint64_t size_bytes, mend_stream stream,
                               uint64_t *address)
{
    torch_model *model = MEND_CONTAINER_OF(peer, torch_model, peer);
    mend_mutex_lock(&model->mutex);
    mend_result result = alloc_locked(model, size_bytes, stream, address);
    mend_mutex_unlock(&model->mutex);
    return result;
}

static mend_result torch_free(mend_peer *peer, uint64_t address, mend_stream stream)
{
    torch_model *model = MEND_CONTAINER_OF(peer, torch_model, peer);
    mend_mutex_lock(&model->mutex);
    mend_result result = MEND_ERROR_FOREIGN_POINTER;
    torch_block *block = mend_pointer_map_remove(&model->live, address);
    if (block != NULL && block->stream == stream) {
        return_block(model, block);
        result = MEND_OK;
    } else if (block != NULL) {
        result = wait_for_stream(model, block, stream);
    }
    mend_mutex_unlock(&model->mutex);
    return result;
}

static void torch_get_usage(mend_peer *peer, mend_peer_usage *usage)
{
    torch_model *model = MEND_CONTAINER_OF(peer, torch_model, peer);
    mend_mutex_lock(&model->mutex);
    *usage = model->usage;
    mend_mutex_unlock(&model->mutex);
}

static mend_result torch_destroy(mend_peer *peer)
{
    torch_model *model = MEND_CONTAINER_OF(peer, torch_model, peer);
    wait_for_all(model);
    mend_result result = MEND_OK;
    while (!mend_list_is_empty(&model->segments)) {
        torch_segment *segment =
            MEND_CONTAINER_OF(model->segments.next, torch_segment, in_segments);
        mend_result dropped = model->drop(model, segment);
        result = result == MEND_OK ? dropped : result;
        free_segment(segment);
    }
    mend_pointer_map_clear(&model->live);
    mend_slab_clear(&model->blocks);
    mend_mutex_destroy(&model->mutex);
    free(model);
    return result;
}

static const mend_peer_operations torch_operations = {torch_alloc, torch_free, torch_get_usage,
                                                      torch_destroy};

mend_result torch_model_create(const mend_peer_config *config, torch_grow grow,
                               torch_release release, torch_drop drop, bool is_expandable,
                               mend_peer **peer)
{
    torch_model *model = calloc(1, sizeof(torch_model));
    if (model == NULL) {
        return MEND_ERROR_OUT_OF_HOST_MEMORY;
    }
    model->peer.operations = &torch_operations;
    model->config = *config;
    model->grow = grow;
    model->release = release;
    model->drop = drop;
    model->is_expandable = is_expandable;
    model->oversize_bytes = UINT64_MAX;
    mend_mutex_init(&model->mutex, MEND_RANK_POOL);
    mend_list_init(&model->segments);
    mend_list_init(&model->waiting);
    mend_pointer_map_init(&model->live);
    mend_slab_init(&model->blocks, sizeof(torch_block));
    for (int i = 0; i < 2; i++) {
        mend_tree_init(&model->pools[i].free_blocks, by_stream_and_size);
        mend_tree_init(&model->pools[i].unmapped_blocks, by_stream_and_address);
        model->pools[i].is_small = i == 1;
    }
    *peer = &model->peer;
    return MEND_OK;
}
