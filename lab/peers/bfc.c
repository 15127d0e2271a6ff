/*
 * A model of the "best fit with coalescing" arena of TensorFlow, JAX and ONNX Runtime: one plain
 * allocation of all the memory that it may have, split into blocks for any stream. Programs that
 * use such an arena order streams themselves; here a stream that takes a block waits for the
 * streams that used it before. Reserved memory is counted up to the highest byte ever used, because
 * the arena itself always has everything.
 */
#include <stdlib.h>

#include "base/align.h"
#include "base/error.h"
#include "base/mutex.h"
#include "base/pointer_map.h"
#include "base/slab.h"
#include "base/tree.h"
#include "lab/peers/models.h"

enum { MAX_STREAMS = 64 };

/* A block is split if it is twice as large as needed, or larger by this much. */
#define MAX_WASTE_BYTES (128 * MEND_MIB)

typedef struct bfc_block {
    mend_tree_node by_size; /* when free */
    uint64_t address;
    uint64_t size_bytes;
    uint64_t users; /* bit n: stream n of the table used these bytes last */
    struct bfc_block *previous;
    struct bfc_block *next;
    bool is_free;
} bfc_block;

typedef struct bfc_arena {
    mend_peer peer;
    mend_peer_config config;
    mend_mutex mutex;
    uint64_t address; /* 0: not allocated yet */
    mend_tree free_blocks;
    mend_pointer_map live;
    mend_slab blocks;
    mend_stream streams[MAX_STREAMS];
    size_t stream_count;
    mend_peer_usage usage;
} bfc_arena;

#define BLOCK_OF(node) MEND_CONTAINER_OF(node, bfc_block, by_size)

static int by_size_and_address(const mend_tree_node *a, const mend_tree_node *b)
{
    const bfc_block *left = BLOCK_OF(a);
    const bfc_block *right = BLOCK_OF(b);
    if (left->size_bytes != right->size_bytes) {
        return left->size_bytes < right->size_bytes ? -1 : 1;
    }
    return (left->address > right->address) - (left->address < right->address);
}

static mend_result fail(mend_status status, const char *call)
{
    if (status == MEND_DRIVER_OUT_OF_MEMORY) {
        return MEND_ERROR_OUT_OF_MEMORY;
    }
    return mend_fail_driver(MEND_ERROR_DRIVER, call, status, mend_status_name(status),
                            "the model of an arena cannot go on");
}

/* Allocates all the memory that it may have: the limit, or three quarters of the free memory, as
 * JAX does. */
static mend_result open_arena(bfc_arena *arena)
{
    const mend_driver *driver = arena->config.driver;
    uint64_t bytes = arena->config.limit_bytes;
    if (bytes == 0) {
        uint64_t total_bytes;
        mend_status status = driver->memory_info(driver, &bytes, &total_bytes);
        if (status != MEND_DRIVER_OK) {
            return fail(status, "cuMemGetInfo");
        }
        bytes -= bytes / 4;
    }
    bytes = mend_align_down(bytes, MEND_GRANULE_BYTES);
    if (!mend_slab_reserve(&arena->blocks, 1)) {
        return MEND_ERROR_OUT_OF_HOST_MEMORY;
    }
    mend_status status = driver->plain_alloc(driver, bytes, &arena->address);
    if (status != MEND_DRIVER_OK) {
        return fail(status, "cuMemAlloc");
    }
    bfc_block *whole = mend_slab_take(&arena->blocks);
    whole->address = arena->address;
    whole->size_bytes = bytes;
    whole->is_free = true;
    mend_tree_insert(&arena->free_blocks, &whole->by_size);
    return MEND_OK;
}

/* The index of a stream in the table. MEND_ERROR_NOT_SUPPORTED if there are too many. */
static mend_result find_stream(bfc_arena *arena, mend_stream stream, size_t *index)
{
    size_t at = 0;
    while (at < arena->stream_count && arena->streams[at] != stream) {
        at++;
    }
    if (at == MAX_STREAMS) {
        return mend_fail(MEND_ERROR_NOT_SUPPORTED, "the model of an arena knows %d streams",
                         MAX_STREAMS);
    }
    arena->streams[at] = stream;
    arena->stream_count = at == arena->stream_count ? at + 1 : arena->stream_count;
    *index = at;
    return MEND_OK;
}

static mend_result wait_for_user(bfc_arena *arena, mend_stream user, mend_stream stream)
{
    const mend_driver *driver = arena->config.driver;
    mend_event event;
    mend_status status = driver->event_create(driver, &event);
    if (status != MEND_DRIVER_OK) {
        return fail(status, "cuEventCreate");
    }
    status = driver->event_record(driver, event, user);
    if (status == MEND_DRIVER_OK) {
        status = driver->stream_wait(driver, stream, event);
    }
    driver->event_destroy(driver, event);
    return status == MEND_DRIVER_OK ? MEND_OK : fail(status, "cuStreamWaitEvent");
}

static mend_result wait_for_users(bfc_arena *arena, const bfc_block *block, mend_stream stream)
{
    size_t own = 0;
    mend_result result = find_stream(arena, stream, &own);
    for (size_t i = 0; i < arena->stream_count && result == MEND_OK; i++) {
        if ((block->users >> i & 1) != 0 && i != own) {
            result = wait_for_user(arena, arena->streams[i], stream);
        }
    }
    return result;
}

static void cut(bfc_arena *arena, bfc_block *block, uint64_t size_bytes)
{
    bfc_block *rest = mend_slab_take(&arena->blocks);
    *rest = *block;
    rest->address += size_bytes;
    rest->size_bytes -= size_bytes;
    rest->previous = block;
    if (rest->next != NULL) {
        rest->next->previous = rest;
    }
    block->next = rest;
    block->size_bytes = size_bytes;
    mend_tree_insert(&arena->free_blocks, &rest->by_size);
}

static mend_result alloc_locked(bfc_arena *arena, uint64_t size_bytes, mend_stream stream,
                                uint64_t *address)
{
    if (arena->address == 0) {
        mend_result opened = open_arena(arena);
        if (opened != MEND_OK) {
            return opened;
        }
    }
    if (!mend_pointer_map_reserve(&arena->live) || !mend_slab_reserve(&arena->blocks, 1)) {
        return MEND_ERROR_OUT_OF_HOST_MEMORY;
    }
    bfc_block key = {.size_bytes = mend_align_up(size_bytes, MEND_GRANULE_BYTES)};
    mend_tree_node *node = mend_tree_at_or_after(&arena->free_blocks, &key.by_size);
    if (node == NULL) {
        return MEND_ERROR_OUT_OF_MEMORY;
    }
    bfc_block *block = BLOCK_OF(node);
    mend_result result = wait_for_users(arena, block, stream);
    if (result != MEND_OK) {
        return result;
    }
    mend_tree_remove(&arena->free_blocks, node);
    if (block->size_bytes >= 2 * key.size_bytes ||
        block->size_bytes - key.size_bytes >= MAX_WASTE_BYTES) {
        cut(arena, block, key.size_bytes);
    }
    block->is_free = false;
    mend_pointer_map_insert(&arena->live, block->address, block);
    uint64_t end_bytes = block->address + block->size_bytes - arena->address;
    mend_peer_usage *usage = &arena->usage;
    usage->peak_reserved_bytes = mend_max_u64(usage->peak_reserved_bytes, end_bytes);
    usage->reserved_bytes = usage->peak_reserved_bytes;
    *address = block->address;
    return MEND_OK;
}

static mend_result bfc_alloc(mend_peer *peer, uint64_t size_bytes, mend_stream stream,
                             uint64_t *address)
{
    bfc_arena *arena = MEND_CONTAINER_OF(peer, bfc_arena, peer);
    mend_mutex_lock(&arena->mutex);
    mend_result result = alloc_locked(arena, size_bytes, stream, address);
    mend_mutex_unlock(&arena->mutex);
    return result;
}

/* Joins `right`, which is in no tree, to `left`. */
static bfc_block *join(bfc_arena *arena, bfc_block *left, bfc_block *right)
{
    left->size_bytes += right->size_bytes;
    left->users |= right->users;
    left->next = right->next;
    if (left->next != NULL) {
        left->next->previous = left;
    }
    mend_slab_give(&arena->blocks, right);
    return left;
}

static void return_block(bfc_arena *arena, bfc_block *block)
{
    block->is_free = true;
    if (block->previous != NULL && block->previous->is_free) {
        mend_tree_remove(&arena->free_blocks, &block->previous->by_size);
        block = join(arena, block->previous, block);
    }
    if (block->next != NULL && block->next->is_free) {
        mend_tree_remove(&arena->free_blocks, &block->next->by_size);
        block = join(arena, block, block->next);
    }
    mend_tree_insert(&arena->free_blocks, &block->by_size);
}

static mend_result bfc_free(mend_peer *peer, uint64_t address, mend_stream stream)
{
    bfc_arena *arena = MEND_CONTAINER_OF(peer, bfc_arena, peer);
    mend_mutex_lock(&arena->mutex);
    size_t user = 0;
    mend_result result = find_stream(arena, stream, &user);
    if (result == MEND_OK) {
        bfc_block *block = mend_pointer_map_remove(&arena->live, address);
        if (block != NULL) {
            block->users = UINT64_C(1) << user;
            return_block(arena, block);
        } else {
            result = MEND_ERROR_FOREIGN_POINTER;
        }
    }
    mend_mutex_unlock(&arena->mutex);
    return result;
}

static void bfc_get_usage(mend_peer *peer, mend_peer_usage *usage)
{
    bfc_arena *arena = MEND_CONTAINER_OF(peer, bfc_arena, peer);
    mend_mutex_lock(&arena->mutex);
    *usage = arena->usage;
    mend_mutex_unlock(&arena->mutex);
}

static mend_result bfc_destroy(mend_peer *peer)
{
    bfc_arena *arena = MEND_CONTAINER_OF(peer, bfc_arena, peer);
    const mend_driver *driver = arena->config.driver;
    mend_status status = MEND_DRIVER_OK;
    if (arena->address != 0) {
        status = driver->plain_free(driver, arena->address);
    }
    mend_pointer_map_clear(&arena->live);
    mend_slab_clear(&arena->blocks);
    mend_mutex_destroy(&arena->mutex);
    free(arena);
    return status == MEND_DRIVER_OK ? MEND_OK : fail(status, "cuMemFree");
}

static const mend_peer_operations bfc_operations = {bfc_alloc, bfc_free, bfc_get_usage,
                                                    bfc_destroy};

mend_result mend_peer_create_bfc(const mend_peer_config *config, mend_peer **peer)
{
    bfc_arena *arena = calloc(1, sizeof(bfc_arena));
    if (arena == NULL) {
        return MEND_ERROR_OUT_OF_HOST_MEMORY;
    }
    arena->peer.operations = &bfc_operations;
    arena->config = *config;
    mend_mutex_init(&arena->mutex, MEND_RANK_POOL);
    mend_tree_init(&arena->free_blocks, by_size_and_address);
    mend_pointer_map_init(&arena->live);
    mend_slab_init(&arena->blocks, sizeof(bfc_block));
    *peer = &arena->peer;
    return MEND_OK;
}
