/*
 * A model of RMM's pool: a few large plain allocations, split into blocks by best fit, with one
 * list of free blocks for each stream. If no block of its list fits, a stream takes one from
 * another list behind a wait on the device, or merges the other lists into its own. Then the pool
 * grows by its own size, or by half of it, and so on, until the driver does not refuse. It never
 * releases memory.
 */
#include <stdlib.h>

#include "base/align.h"
#include "base/error.h"
#include "base/pointer_map.h"
#include "base/thread.h"
#include "lab/peers/free_list.h"
#include "lab/peers/models.h"

enum { MAX_STREAMS = 64, PAGE_BYTES = 2 << 20 };

/* Free memory that was last used on a stream, and the event recorded after that use. */
typedef struct stream_list {
    mend_stream stream;
    mend_event event;
    free_list blocks;
} stream_list;

typedef struct rmm_pool {
    mend_peer peer;
    mend_peer_config config;
    mend_mutex mutex;
    stream_list lists[MAX_STREAMS]; /* in the order in which the streams were first seen */
    size_t list_count;
    mend_pointer_map upstream; /* from the address of a driver allocation to its size */
    mend_pointer_map live;     /* from a block's address to its size */
    mend_slab blocks;
    bool is_open; /* the initial allocation was made */
    mend_peer_usage usage;
} rmm_pool;

static mend_result fail(mend_status status, const char *call)
{
    if (status == MEND_DRIVER_OUT_OF_MEMORY) {
        return MEND_ERROR_OUT_OF_MEMORY;
    }
    return mend_fail_driver(MEND_ERROR_DRIVER, call, status, mend_status_name(status),
                            "the model of RMM's pool cannot go on");
}

/* The list of a stream, created when the stream is first seen. */
static mend_result find_list(rmm_pool *pool, mend_stream stream, stream_list **list)
{
    const mend_driver *driver = pool->config.driver;
    size_t at = 0;
    while (at < pool->list_count && pool->lists[at].stream != stream) {
        at++;
    }
    *list = &pool->lists[at];
    if (at < pool->list_count) {
        return MEND_OK;
    }
    if (at == MAX_STREAMS) {
        return mend_fail(MEND_ERROR_NOT_SUPPORTED, "the model of RMM's pool knows %d streams",
                         MAX_STREAMS);
    }
    mend_status status = driver->event_create(driver, &(*list)->event);
    if (status != MEND_DRIVER_OK) {
        return fail(status, "cuEventCreate");
    }
    (*list)->stream = stream;
    free_list_init(&(*list)->blocks);
    pool->list_count++;
    return MEND_OK;
}

/* ---- growth ---------------------------------------------------------------------------------- */

static bool has_room(const rmm_pool *pool, uint64_t size_bytes)
{
    uint64_t limit_bytes = pool->config.limit_bytes;
    return limit_bytes == 0 ||
           (size_bytes <= limit_bytes && pool->usage.reserved_bytes <= limit_bytes - size_bytes);
}

/* Adds one driver allocation to a list. */
static mend_result take_from_driver(rmm_pool *pool, uint64_t size_bytes, free_list *list)
{
    const mend_driver *driver = pool->config.driver;
    if (!has_room(pool, size_bytes)) {
        return MEND_ERROR_OUT_OF_MEMORY;
    }
    if (!mend_slab_reserve(&pool->blocks, 1) || !mend_pointer_map_reserve(&pool->upstream)) {
        return MEND_ERROR_OUT_OF_HOST_MEMORY;
    }
    uint64_t address;
    mend_status status = driver->plain_alloc(driver, size_bytes, &address);
    if (status != MEND_DRIVER_OK) {
        return fail(status, "cuMemAlloc");
    }
    mend_pointer_map_insert(&pool->upstream, address, (void *)(uintptr_t)size_bytes);
    free_list_put(list, &pool->blocks, address, size_bytes, true);
    mend_peer_usage *usage = &pool->usage;
    usage->reserved_bytes += size_bytes;
    usage->peak_reserved_bytes = mend_max_u64(usage->peak_reserved_bytes, usage->reserved_bytes);
    return MEND_OK;
}

/* Doubles the pool. If that fails, tries half as much, and so on, down to the needed size. */
static mend_result grow(rmm_pool *pool, uint64_t size_bytes, free_list *list)
{
    uint64_t bytes = mend_max_u64(size_bytes, pool->usage.reserved_bytes);
    mend_result result = take_from_driver(pool, bytes, list);
    while (result == MEND_ERROR_OUT_OF_MEMORY && bytes > size_bytes) {
        bytes = mend_max_u64(size_bytes, mend_align_down(bytes / 2, MEND_GRANULE_BYTES));
        result = take_from_driver(pool, bytes, list);
    }
    return result;
}

/* Under a limit the pool starts with half of it, in complete pages, as RMM does without an initial
 * size: so the other half is there when the pool doubles. Without a limit it starts empty, because
 * half of an unlimited device means nothing. */
static mend_result open_pool(rmm_pool *pool)
{
    uint64_t bytes = mend_align_down(pool->config.limit_bytes / 2, PAGE_BYTES);
    stream_list *legacy = NULL;
    mend_result result = find_list(pool, NULL, &legacy);
    if (result == MEND_OK && bytes != 0) {
        result = take_from_driver(pool, bytes, &legacy->blocks);
    }
    pool->is_open = result == MEND_OK;
    return result;
}

/* ---- allocate and free ----------------------------------------------------------------------- */

static mend_result wait_for(rmm_pool *pool, const stream_list *own, const stream_list *other)
{
    const mend_driver *driver = pool->config.driver;
    mend_status status = driver->stream_wait(driver, own->stream, other->event);
    return status == MEND_DRIVER_OK ? MEND_OK : fail(status, "cuStreamWaitEvent");
}

/* Takes a block from another stream's list. The rest of it stays there. */
static mend_result find_elsewhere(rmm_pool *pool, stream_list *own, uint64_t size_bytes,
                                  stream_list **list, free_block **block)
{
    for (size_t i = 0; i < pool->list_count; i++) {
        stream_list *other = &pool->lists[i];
        *block = other == own ? NULL : free_list_best_fit(&other->blocks, size_bytes);
        if (*block != NULL) {
            *list = other;
            return wait_for(pool, own, other);
        }
    }
    return MEND_OK;
}

/* Merges the other lists into the stream's own, one by one, until a block fits. */
static mend_result merge_lists(rmm_pool *pool, stream_list *own, uint64_t size_bytes,
                               free_block **block)
{
    for (size_t i = 0; i < pool->list_count && *block == NULL; i++) {
        stream_list *other = &pool->lists[i];
        if (other == own || other->blocks.by_size.count == 0) {
            continue;
        }
        mend_result result = wait_for(pool, own, other);
        if (result != MEND_OK) {
            return result;
        }
        free_list_merge(&own->blocks, &pool->blocks, &other->blocks);
        *block = free_list_best_fit(&own->blocks, size_bytes);
    }
    return MEND_OK;
}

/* Finds a block that is large enough, and its list. */
static mend_result find_block(rmm_pool *pool, stream_list *own, uint64_t size_bytes,
                              stream_list **list, free_block **block)
{
    *list = own;
    *block = free_list_best_fit(&own->blocks, size_bytes);
    mend_result result = MEND_OK;
    if (*block == NULL) {
        result = find_elsewhere(pool, own, size_bytes, list, block);
    }
    if (result == MEND_OK && *block == NULL) {
        result = merge_lists(pool, own, size_bytes, block);
    }
    if (result == MEND_OK && *block == NULL) {
        result = grow(pool, size_bytes, &own->blocks);
        *block = result == MEND_OK ? free_list_best_fit(&own->blocks, size_bytes) : NULL;
    }
    return result;
}

static mend_result alloc_locked(rmm_pool *pool, uint64_t size_bytes, mend_stream stream,
                                uint64_t *address)
{
    mend_result result = pool->is_open ? MEND_OK : open_pool(pool);
    stream_list *own = NULL;
    if (result == MEND_OK) {
        result = find_list(pool, stream, &own);
    }
    if (result == MEND_OK && !mend_pointer_map_reserve(&pool->live)) {
        result = MEND_ERROR_OUT_OF_HOST_MEMORY;
    }
    uint64_t rounded_bytes = mend_align_up(size_bytes, MEND_GRANULE_BYTES);
    stream_list *list = NULL;
    free_block *block = NULL;
    if (result == MEND_OK) {
        result = find_block(pool, own, rounded_bytes, &list, &block);
    }
    if (result == MEND_OK) {
        *address = free_list_take(&list->blocks, &pool->blocks, block, rounded_bytes);
        mend_pointer_map_insert(&pool->live, *address, (void *)(uintptr_t)rounded_bytes);
    }
    return result;
}

static mend_result rmm_pool_alloc(mend_peer *peer, uint64_t size_bytes, mend_stream stream,
                                  uint64_t *address)
{
    rmm_pool *pool = MEND_CONTAINER_OF(peer, rmm_pool, peer);
    mend_mutex_lock(&pool->mutex);
    mend_result result = alloc_locked(pool, size_bytes, stream, address);
    mend_mutex_unlock(&pool->mutex);
    return result;
}

static mend_result free_locked(rmm_pool *pool, uint64_t address, mend_stream stream)
{
    const mend_driver *driver = pool->config.driver;
    stream_list *list = NULL;
    mend_result result = find_list(pool, stream, &list);
    if (result != MEND_OK) {
        return result;
    }
    if (!mend_slab_reserve(&pool->blocks, 1)) {
        return MEND_ERROR_OUT_OF_HOST_MEMORY;
    }
    uint64_t size_bytes = (uintptr_t)mend_pointer_map_remove(&pool->live, address);
    if (size_bytes == 0) {
        return MEND_ERROR_FOREIGN_POINTER;
    }
    mend_status status = driver->event_record(driver, list->event, stream);
    bool is_head = mend_pointer_map_find(&pool->upstream, address) != NULL;
    free_list_put(&list->blocks, &pool->blocks, address, size_bytes, is_head);
    return status == MEND_DRIVER_OK ? MEND_OK : fail(status, "cuEventRecord");
}

static mend_result rmm_pool_free(mend_peer *peer, uint64_t address, mend_stream stream)
{
    rmm_pool *pool = MEND_CONTAINER_OF(peer, rmm_pool, peer);
    mend_mutex_lock(&pool->mutex);
    mend_result result = free_locked(pool, address, stream);
    mend_mutex_unlock(&pool->mutex);
    return result;
}

static void rmm_pool_get_usage(mend_peer *peer, mend_peer_usage *usage)
{
    rmm_pool *pool = MEND_CONTAINER_OF(peer, rmm_pool, peer);
    mend_mutex_lock(&pool->mutex);
    *usage = pool->usage;
    mend_mutex_unlock(&pool->mutex);
}

static mend_result rmm_pool_destroy(mend_peer *peer)
{
    rmm_pool *pool = MEND_CONTAINER_OF(peer, rmm_pool, peer);
    const mend_driver *driver = pool->config.driver;
    mend_status status = MEND_DRIVER_OK;
    for (size_t i = 0; i < pool->list_count; i++) {
        driver->event_synchronize(driver, pool->lists[i].event);
        driver->event_destroy(driver, pool->lists[i].event);
    }
    for (size_t i = 0; i < pool->upstream.capacity; i++) {
        if (pool->upstream.entries[i].key != 0) {
            mend_status freed = driver->plain_free(driver, pool->upstream.entries[i].key);
            status = status == MEND_DRIVER_OK ? freed : status;
        }
    }
    mend_pointer_map_clear(&pool->upstream);
    mend_pointer_map_clear(&pool->live);
    mend_slab_clear(&pool->blocks);
    mend_mutex_destroy(&pool->mutex);
    free(pool);
    return status == MEND_DRIVER_OK ? MEND_OK : fail(status, "cuMemFree");
}

static const mend_peer_operations rmm_pool_operations = {rmm_pool_alloc, rmm_pool_free,
                                                         rmm_pool_get_usage, rmm_pool_destroy};

mend_result mend_peer_create_rmm_pool(const mend_peer_config *config, mend_peer **peer)
{
    rmm_pool *pool = calloc(1, sizeof(rmm_pool));
    if (pool == NULL) {
        return MEND_ERROR_OUT_OF_HOST_MEMORY;
    }
    pool->peer.operations = &rmm_pool_operations;
    pool->config = *config;
    mend_mutex_init(&pool->mutex, MEND_RANK_POOL);
    mend_pointer_map_init(&pool->upstream);
    mend_pointer_map_init(&pool->live);
    mend_slab_init(&pool->blocks, sizeof(free_block));
    *peer = &pool->peer;
    return MEND_OK;
}
