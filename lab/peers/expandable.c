/*
 * A model of PyTorch's expandable segments: one wide range of addresses for each stream and pool,
 * mapped page by page from its start. New pages always come from the driver, never from elsewhere
 * in the cache. All free pages are released when an allocation has failed.
 */
#include <stdlib.h>

#include "base/align.h"
#include "base/error.h"
#include "lab/peers/models.h"
#include "lab/peers/torch.h"

static torch_block *block_of(const mend_tree_node *node)
{
    return node == NULL ? NULL : MEND_CONTAINER_OF(node, torch_block, in_pool);
}

/* ---- pages ----------------------------------------------------------------------------------- */

static void release_pages(const mend_driver *driver, mend_chunk_handle *handles, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        driver->release(driver, handles[i]);
        handles[i] = 0;
    }
}

/* Creates, maps and gives access to the pages of a range. */
static mend_result map_pages(torch_model *model, torch_segment *segment, uint64_t address,
                             uint64_t size_bytes)
{
    const mend_driver *driver = model->config.driver;
    mend_chunk_properties properties = {.device = model->config.device};
    uint64_t page_bytes = segment->page_bytes;
    uint64_t count = size_bytes / page_bytes;
    mend_chunk_handle *handles = segment->handles + (address - segment->address) / page_bytes;
    for (uint64_t i = 0; i < count; i++) {
        mend_status status = driver->create(driver, page_bytes, &properties, &handles[i]);
        if (status != MEND_DRIVER_OK) {
            release_pages(driver, handles, i);
            return torch_fail(status, "cuMemCreate");
        }
    }
    mend_status status = MEND_DRIVER_OK;
    uint64_t mapped = 0;
    while (status == MEND_DRIVER_OK && mapped < count) {
        status = driver->map(driver, address + mapped * page_bytes, page_bytes, 0, handles[mapped]);
        mapped += status == MEND_DRIVER_OK;
    }
    if (status == MEND_DRIVER_OK) {
        status = driver->set_access(driver, address, size_bytes, &model->config.device, 1,
                                    MEND_ACCESS_READ_WRITE);
    }
    if (status != MEND_DRIVER_OK) {
        if (mapped > 0) {
            driver->unmap(driver, address, mapped * page_bytes);
        }
        release_pages(driver, handles, count);
        return torch_fail(status, "cuMemMap");
    }
    segment->mapped_pages += count;
    torch_take_bytes(model, size_bytes);
    return MEND_OK;
}

/* Waits for the stream, then releases the pages of a range. */
static mend_result unmap_pages(torch_model *model, torch_segment *segment, mend_stream stream,
                               uint64_t address, uint64_t size_bytes)
{
    const mend_driver *driver = model->config.driver;
    uint64_t page_bytes = segment->page_bytes;
    mend_chunk_handle *handles = segment->handles + (address - segment->address) / page_bytes;
    mend_status status = driver->stream_synchronize(driver, stream);
    if (status != MEND_DRIVER_OK) {
        return torch_fail(status, "cuStreamSynchronize");
    }
    for (uint64_t i = 0; i < size_bytes / page_bytes; i++) {
        status = driver->unmap(driver, address + i * page_bytes, page_bytes);
        if (status != MEND_DRIVER_OK) {
            return torch_fail(status, "cuMemUnmap");
        }
        driver->release(driver, handles[i]);
        handles[i] = 0;
        segment->mapped_pages--;
        torch_give_bytes(model, page_bytes);
    }
    return MEND_OK;
}

/* ---- growing --------------------------------------------------------------------------------- */

/* A new range of addresses, 9/8 of the device's memory as in PyTorch. */
static mend_result add_segment(torch_model *model, torch_pool *pool, mend_stream stream,
                               torch_block **block)
{
    const mend_driver *driver = model->config.driver;
    uint64_t free_bytes;
    uint64_t total_bytes;
    mend_status status = driver->memory_info(driver, &free_bytes, &total_bytes);
    if (status != MEND_DRIVER_OK) {
        return torch_fail(status, "cuMemGetInfo");
    }
    uint64_t page_bytes = pool->is_small ? TORCH_SMALL_SEGMENT_BYTES : TORCH_LARGE_SEGMENT_BYTES;
    uint64_t pages = (total_bytes + total_bytes / 8 + page_bytes - 1) / page_bytes;
    torch_segment *segment = calloc(1, sizeof(torch_segment));
    mend_chunk_handle *handles = calloc(pages, sizeof(mend_chunk_handle));
    if (segment == NULL || handles == NULL || !mend_slab_reserve(&model->blocks, 1)) {
        free(segment);
        free(handles);
        return MEND_ERROR_OUT_OF_HOST_MEMORY;
    }
    segment->handles = handles;
    segment->page_bytes = page_bytes;
    segment->size_bytes = pages * page_bytes;
    status = driver->reserve(driver, segment->size_bytes, 0, 0, &segment->address);
    if (status != MEND_DRIVER_OK) {
        free(segment);
        free(handles);
        return torch_fail(status, "cuMemAddressReserve");
    }
    *block = torch_segment_block(model, pool, segment, stream, false);
    torch_block_insert(*block);
    return MEND_OK;
}

static bool has_addresses(const torch_block *block, uint64_t size_bytes)
{
    uint64_t bytes = 0;
    for (; block != NULL && block->is_free && bytes < size_bytes; block = block->next) {
        bytes += block->size_bytes;
    }
    return bytes >= size_bytes;
}

/* The free blocks, mapped or not, that follow each other and are large enough together, at the
 * lowest address. */
static torch_block *find_row(torch_pool *pool, uint64_t size_bytes, mend_stream stream)
{
    torch_block key = {.stream = stream};
    for (torch_block *block = block_of(mend_tree_at_or_after(&pool->unmapped_blocks, &key.in_pool));
         block != NULL && block->stream == stream;
         block = block_of(mend_tree_next(&block->in_pool))) {
        torch_block *first = block;
        if (block->previous != NULL && block->previous->is_free) {
            first = block->previous;
        }
        if (has_addresses(first, size_bytes)) {
            return first;
        }
    }
    return NULL;
}

/* Maps the start of an unmapped block and joins it with free neighbors. The result is in the pool
 * and in *block. */
static mend_result map_start(torch_model *model, torch_block **block, uint64_t size_bytes)
{
    torch_block *start = *block;
    uint64_t bytes =
        mend_align_up(mend_min_u64(size_bytes, start->size_bytes), start->segment->page_bytes);
    if (!torch_has_room(model, bytes)) {
        return MEND_ERROR_OUT_OF_MEMORY;
    }
    if (!mend_slab_reserve(&model->blocks, 1)) {
        return MEND_ERROR_OUT_OF_HOST_MEMORY;
    }
    mend_result result = map_pages(model, start->segment, start->address, bytes);
    if (result != MEND_OK) {
        return result;
    }
    torch_block_remove(start);
    if (bytes < start->size_bytes) {
        torch_block_insert(torch_block_cut(model, start, bytes));
    }
    start->is_mapped = true;
    *block = torch_block_join(model, start);
    torch_block_insert(*block);
    return MEND_OK;
}

static mend_result grow(torch_model *model, torch_pool *pool, uint64_t size_bytes,
                        mend_stream stream, torch_block **block)
{
    torch_block *row = find_row(pool, size_bytes, stream);
    mend_result result = MEND_OK;
    if (row == NULL) {
        result = add_segment(model, pool, stream, &row);
    }
    if (result == MEND_OK && !row->is_mapped) {
        result = map_start(model, &row, size_bytes);
    }
    while (result == MEND_OK && row->size_bytes < size_bytes) {
        uint64_t missing_bytes = size_bytes - row->size_bytes;
        row = row->next;
        result = map_start(model, &row, missing_bytes);
    }
    if (result == MEND_OK) {
        torch_block_remove(row);
        *block = row;
    }
    return result;
}

/* ---- giving back ----------------------------------------------------------------------------- */

/* Unmaps the complete pages inside a free block, which is in its pool. The ends stay mapped. */
static mend_result unmap_inside(torch_model *model, torch_block *block)
{
    torch_segment *segment = block->segment;
    uint64_t page_bytes = segment->page_bytes;
    uint64_t offset = block->address - segment->address;
    uint64_t first = mend_align_up(offset, page_bytes);
    uint64_t last = mend_align_down(offset + block->size_bytes, page_bytes);
    if (first >= last) {
        return MEND_OK;
    }
    if (!mend_slab_reserve(&model->blocks, 2)) {
        return MEND_ERROR_OUT_OF_HOST_MEMORY;
    }
    mend_result result =
        unmap_pages(model, segment, block->stream, segment->address + first, last - first);
    if (result != MEND_OK) {
        return result;
    }
    torch_block_remove(block);
    if (last < offset + block->size_bytes) {
        torch_block_insert(torch_block_cut(model, block, last - offset));
    }
    if (first > offset) {
        torch_block *inside = torch_block_cut(model, block, first - offset);
        torch_block_insert(block);
        block = inside;
    }
    block->is_mapped = false;
    block = torch_block_join(model, block);
    if (block->previous == NULL && block->next == NULL) {
        const mend_driver *driver = model->config.driver;
        driver->address_free(driver, segment->address, segment->size_bytes);
        torch_segment_forget(model, block);
        return MEND_OK;
    }
    torch_block_insert(block);
    return MEND_OK;
}

/* Unmapping a block changes the pool, but not the free blocks that come later in its order. */
static mend_result release(torch_model *model, torch_pool *pool)
{
    size_t count = pool->free_blocks.count;
    torch_block **blocks = calloc(count + 1, sizeof(torch_block *));
    if (blocks == NULL) {
        return MEND_ERROR_OUT_OF_HOST_MEMORY;
    }
    size_t found = 0;
    for (mend_tree_node *at = mend_tree_first(&pool->free_blocks); at != NULL;
         at = mend_tree_next(at)) {
        blocks[found++] = block_of(at);
    }
    mend_result result = MEND_OK;
    for (size_t i = 0; i < found && result == MEND_OK; i++) {
        result = unmap_inside(model, blocks[i]);
    }
    free(blocks);
    return result;
}

static mend_result drop(torch_model *model, torch_segment *segment)
{
    const mend_driver *driver = model->config.driver;
    uint64_t page_bytes = segment->page_bytes;
    mend_status status = MEND_DRIVER_OK;
    for (uint64_t i = 0; segment->mapped_pages > 0; i++) {
        if (segment->handles[i] == 0) {
            continue;
        }
        mend_status unmapped = driver->unmap(driver, segment->address + i * page_bytes, page_bytes);
        status = status == MEND_DRIVER_OK ? unmapped : status;
        driver->release(driver, segment->handles[i]);
        segment->mapped_pages--;
        torch_give_bytes(model, page_bytes);
    }
    mend_status freed = driver->address_free(driver, segment->address, segment->size_bytes);
    status = status == MEND_DRIVER_OK ? freed : status;
    return status == MEND_DRIVER_OK ? MEND_OK : torch_fail(status, "cuMemUnmap");
}

mend_result mend_peer_create_expandable(const mend_peer_config *config, mend_peer **peer)
{
    return torch_model_create(config, grow, release, drop, true, peer);
}
