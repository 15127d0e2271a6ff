/*
 * A model of RMM's arenas: one plain allocation of all the memory that it may have, split into
 * superblocks of 1 MiB or more. Small blocks come from superblocks of the stream's own arena,
 * larger ones from shared superblocks, both from the lowest address that fits. Before a larger
 * block, or one of another stream, is freed, the CPU waits for the stream. When memory runs out,
 * the CPU waits for the device, and all arenas return their superblocks. Reserved memory is counted
 * up to the highest byte ever used.
 */
#include <stdlib.h>

#include "base/align.h"
#include "base/error.h"
#include "base/pointer_map.h"
#include "base/thread.h"
#include "lab/peers/free_list.h"
#include "lab/peers/models.h"

enum { MAX_STREAMS = 64 };

#define SUPERBLOCK_BYTES MEND_MIB

typedef struct superblock {
    mend_tree_node by_address; /* in one arena */
    uint64_t address;
    uint64_t size_bytes;
    free_list blocks;
} superblock;

/* The superblocks of one stream, or the shared ones. */
typedef struct arena {
    mend_stream stream;
    mend_tree superblocks;
} arena;

typedef struct rmm_arena {
    mend_peer peer;
    mend_peer_config config;
    mend_mutex mutex;
    uint64_t address; /* 0: not allocated yet */
    arena shared;
    arena streams[MAX_STREAMS];
    size_t stream_count;
    mend_pointer_map live; /* from a block's address to its size */
    mend_slab superblocks;
    mend_slab blocks;
    mend_peer_usage usage;
} rmm_arena;

static superblock *superblock_of(const mend_tree_node *node)
{
    return node == NULL ? NULL : MEND_CONTAINER_OF(node, superblock, by_address);
}

static int by_address(const mend_tree_node *a, const mend_tree_node *b)
{
    const superblock *left = superblock_of(a);
    const superblock *right = superblock_of(b);
    return (left->address > right->address) - (left->address < right->address);
}

static bool is_large(uint64_t size_bytes)
{
    return size_bytes > SUPERBLOCK_BYTES;
}

static bool is_empty(const superblock *block)
{
    return free_list_largest_bytes(&block->blocks) == block->size_bytes;
}

static mend_result fail(mend_status status, const char *call)
{
    if (status == MEND_DRIVER_OUT_OF_MEMORY) {
        return MEND_ERROR_OUT_OF_MEMORY;
    }
    return mend_fail_driver(MEND_ERROR_DRIVER, call, status, mend_status_name(status),
                            "the model of RMM's arenas cannot go on");
}

/* An empty superblock, in no arena. The caller reserved one of each in the slabs. */
static superblock *make_superblock(rmm_arena *self, uint64_t address, uint64_t size_bytes)
{
    superblock *made = mend_slab_take(&self->superblocks);
    made->address = address;
    made->size_bytes = size_bytes;
    free_list_init(&made->blocks);
    free_list_put(&made->blocks, &self->blocks, address, size_bytes, false);
    return made;
}

/* Allocates all the memory that it may have: the limit, or half of the free memory. */
static mend_result open_arena(rmm_arena *self)
{
    const mend_driver *driver = self->config.driver;
    uint64_t bytes = self->config.limit_bytes;
    if (bytes == 0) {
        uint64_t total_bytes;
        mend_status status = driver->memory_info(driver, &bytes, &total_bytes);
        if (status != MEND_DRIVER_OK) {
            return fail(status, "cuMemGetInfo");
        }
        bytes /= 2;
    }
    bytes = mend_align_down(bytes, MEND_GRANULE_BYTES);
    mend_status status = driver->plain_alloc(driver, bytes, &self->address);
    if (status != MEND_DRIVER_OK) {
        return fail(status, "cuMemAlloc");
    }
    superblock *whole = make_superblock(self, self->address, bytes);
    mend_tree_insert(&self->shared.superblocks, &whole->by_address);
    return MEND_OK;
}

static mend_result find_arena(rmm_arena *self, mend_stream stream, arena **own)
{
    size_t at = 0;
    while (at < self->stream_count && self->streams[at].stream != stream) {
        at++;
    }
    if (at == MAX_STREAMS) {
        return mend_fail(MEND_ERROR_NOT_SUPPORTED, "the model of RMM's arenas knows %d streams",
                         MAX_STREAMS);
    }
    *own = &self->streams[at];
    if (at == self->stream_count) {
        (*own)->stream = stream;
        mend_tree_init(&(*own)->superblocks, by_address);
        self->stream_count++;
    }
    return MEND_OK;
}

/* ---- superblocks ----------------------------------------------------------------------------- */

/* The lowest superblock in which a block of this size fits. NULL: none. */
static superblock *first_fit(const arena *from, uint64_t size_bytes)
{
    superblock *at = superblock_of(mend_tree_first(&from->superblocks));
    while (at != NULL && free_list_largest_bytes(&at->blocks) < size_bytes) {
        at = superblock_of(mend_tree_next(&at->by_address));
    }
    return at;
}

/* A shared superblock that fits the block. An empty one is split to the block's size. */
static superblock *first_fit_shared(rmm_arena *self, uint64_t size_bytes)
{
    superblock *found = first_fit(&self->shared, size_bytes);
    uint64_t head_bytes = mend_max_u64(SUPERBLOCK_BYTES, size_bytes);
    if (found == NULL || !is_empty(found) || found->size_bytes < head_bytes + SUPERBLOCK_BYTES) {
        return found;
    }
    free_block *whole = free_list_first_fit(&found->blocks, found->size_bytes);
    free_list_take(&found->blocks, &self->blocks, whole, found->size_bytes);
    superblock *rest =
        make_superblock(self, found->address + head_bytes, found->size_bytes - head_bytes);
    found->size_bytes = head_bytes;
    free_list_put(&found->blocks, &self->blocks, found->address, head_bytes, false);
    mend_tree_insert(&self->shared.superblocks, &rest->by_address);
    return found;
}

static bool joins(const superblock *left, const superblock *right)
{
    return left != NULL && right != NULL && is_empty(left) && is_empty(right) &&
           left->address + left->size_bytes == right->address;
}

/* Joins `right`, which is in no arena, to the end of `left`. Both are empty. */
static void join(rmm_arena *self, superblock *left, superblock *right)
{
    uint64_t address =
        free_list_take(&right->blocks, &self->blocks,
                       free_list_first_fit(&right->blocks, right->size_bytes), right->size_bytes);
    free_list_put(&left->blocks, &self->blocks, address, right->size_bytes, false);
    left->size_bytes += right->size_bytes;
    mend_slab_give(&self->superblocks, right);
}

/* Makes a superblock shared. An empty one is joined with empty neighbors. */
static void give_superblock(rmm_arena *self, superblock *given)
{
    mend_tree *shared = &self->shared.superblocks;
    mend_tree_insert(shared, &given->by_address);
    superblock *next = superblock_of(mend_tree_next(&given->by_address));
    if (joins(given, next)) {
        mend_tree_remove(shared, &next->by_address);
        join(self, given, next);
    }
    superblock *before = superblock_of(mend_tree_previous(&given->by_address));
    if (joins(before, given)) {
        mend_tree_remove(shared, &given->by_address);
        join(self, before, given);
    }
}

/* Waits for the device. All arenas return their superblocks. */
static mend_result defragment(rmm_arena *self)
{
    const mend_driver *driver = self->config.driver;
    mend_status status = driver->context_synchronize(driver);
    if (status != MEND_DRIVER_OK) {
        return fail(status, "cuCtxSynchronize");
    }
    for (size_t i = 0; i < self->stream_count; i++) {
        mend_tree *superblocks = &self->streams[i].superblocks;
        superblock *given;
        while ((given = superblock_of(mend_tree_first(superblocks))) != NULL) {
            mend_tree_remove(superblocks, &given->by_address);
            give_superblock(self, given);
        }
    }
    return MEND_OK;
}

/* ---- allocate and free ----------------------------------------------------------------------- */

/* Returns 0 if nothing fits. */
static uint64_t try_alloc(rmm_arena *self, arena *own, uint64_t size_bytes)
{
    superblock *found = is_large(size_bytes) ? NULL : first_fit(own, size_bytes);
    if (found == NULL) {
        found = first_fit_shared(self, size_bytes);
        if (found == NULL) {
            return 0;
        }
        if (!is_large(size_bytes)) {
            mend_tree_remove(&self->shared.superblocks, &found->by_address);
            mend_tree_insert(&own->superblocks, &found->by_address);
        }
    }
    return free_list_take(&found->blocks, &self->blocks,
                          free_list_first_fit(&found->blocks, size_bytes), size_bytes);
}

static mend_result alloc_locked(rmm_arena *self, uint64_t size_bytes, mend_stream stream,
                                uint64_t *address)
{
    enum { BLOCKS_NEEDED = 3 }; /* one to split a superblock, and one for the block */
    arena *own = NULL;
    if (!mend_slab_reserve(&self->blocks, BLOCKS_NEEDED) ||
        !mend_slab_reserve(&self->superblocks, 1) || !mend_pointer_map_reserve(&self->live)) {
        return MEND_ERROR_OUT_OF_HOST_MEMORY;
    }
    mend_result result = self->address != 0 ? MEND_OK : open_arena(self);
    if (result == MEND_OK) {
        result = find_arena(self, stream, &own);
    }
    if (result != MEND_OK) {
        return result;
    }
    if (!mend_slab_reserve(&self->blocks, BLOCKS_NEEDED) ||
        !mend_slab_reserve(&self->superblocks, 1)) {
        return MEND_ERROR_OUT_OF_HOST_MEMORY;
    }
    uint64_t rounded_bytes = mend_align_up(size_bytes, MEND_GRANULE_BYTES);
    uint64_t found = try_alloc(self, own, rounded_bytes);
    if (found == 0) {
        result = defragment(self);
        found = result == MEND_OK ? try_alloc(self, own, rounded_bytes) : 0;
    }
    if (found == 0) {
        return result == MEND_OK ? MEND_ERROR_OUT_OF_MEMORY : result;
    }
    mend_pointer_map_insert(&self->live, found, (void *)(uintptr_t)rounded_bytes);
    uint64_t end_bytes = found + rounded_bytes - self->address;
    self->usage.peak_reserved_bytes = mend_max_u64(self->usage.peak_reserved_bytes, end_bytes);
    self->usage.reserved_bytes = self->usage.peak_reserved_bytes;
    *address = found;
    return MEND_OK;
}

static mend_result rmm_arena_alloc(mend_peer *peer, uint64_t size_bytes, mend_stream stream,
                                   uint64_t *address)
{
    rmm_arena *self = MEND_CONTAINER_OF(peer, rmm_arena, peer);
    mend_mutex_lock(&self->mutex);
    mend_result result = alloc_locked(self, size_bytes, stream, address);
    mend_mutex_unlock(&self->mutex);
    return result;
}

/* The superblock of an arena that contains the address. NULL: none. */
static superblock *find_superblock(const arena *in, uint64_t address)
{
    superblock key = {.address = address};
    superblock *at = superblock_of(mend_tree_at_or_before(&in->superblocks, &key.by_address));
    return at != NULL && address < at->address + at->size_bytes ? at : NULL;
}

static superblock *find_in_streams(const rmm_arena *self, uint64_t address)
{
    superblock *found = NULL;
    for (size_t i = 0; i < self->stream_count && found == NULL; i++) {
        found = find_superblock(&self->streams[i], address);
    }
    return found;
}

static mend_result synchronize(const rmm_arena *self, mend_stream stream)
{
    const mend_driver *driver = self->config.driver;
    mend_status status = driver->stream_synchronize(driver, stream);
    return status == MEND_DRIVER_OK ? MEND_OK : fail(status, "cuStreamSynchronize");
}

static mend_result return_block(rmm_arena *self, const arena *own, uint64_t address,
                                uint64_t size_bytes)
{
    superblock *owner = find_superblock(own, address);
    bool waited = is_large(size_bytes) || owner == NULL;
    mend_result result = waited ? synchronize(self, own->stream) : MEND_OK;
    owner = owner != NULL ? owner : find_in_streams(self, address);
    bool is_shared = owner == NULL;
    owner = is_shared ? find_superblock(&self->shared, address) : owner;
    free_list_put(&owner->blocks, &self->blocks, address, size_bytes, false);
    if (is_shared && is_large(size_bytes) && is_empty(owner)) {
        mend_tree_remove(&self->shared.superblocks, &owner->by_address);
        give_superblock(self, owner);
    }
    return result;
}

static mend_result rmm_arena_free(mend_peer *peer, uint64_t address, mend_stream stream)
{
    rmm_arena *self = MEND_CONTAINER_OF(peer, rmm_arena, peer);
    mend_mutex_lock(&self->mutex);
    arena *own = NULL;
    mend_result result = find_arena(self, stream, &own);
    if (result == MEND_OK && !mend_slab_reserve(&self->blocks, 1)) {
        result = MEND_ERROR_OUT_OF_HOST_MEMORY;
    }
    if (result == MEND_OK) {
        uint64_t size_bytes = (uintptr_t)mend_pointer_map_remove(&self->live, address);
        result = size_bytes == 0 ? MEND_ERROR_FOREIGN_POINTER
                                 : return_block(self, own, address, size_bytes);
    }
    mend_mutex_unlock(&self->mutex);
    return result;
}

static void rmm_arena_get_usage(mend_peer *peer, mend_peer_usage *usage)
{
    rmm_arena *self = MEND_CONTAINER_OF(peer, rmm_arena, peer);
    mend_mutex_lock(&self->mutex);
    *usage = self->usage;
    mend_mutex_unlock(&self->mutex);
}

static mend_result rmm_arena_destroy(mend_peer *peer)
{
    rmm_arena *self = MEND_CONTAINER_OF(peer, rmm_arena, peer);
    const mend_driver *driver = self->config.driver;
    mend_status status = MEND_DRIVER_OK;
    if (self->address != 0) {
        status = driver->plain_free(driver, self->address);
    }
    mend_pointer_map_clear(&self->live);
    mend_slab_clear(&self->superblocks);
    mend_slab_clear(&self->blocks);
    mend_mutex_destroy(&self->mutex);
    free(self);
    return status == MEND_DRIVER_OK ? MEND_OK : fail(status, "cuMemFree");
}

static const mend_peer_operations rmm_arena_operations = {rmm_arena_alloc, rmm_arena_free,
                                                          rmm_arena_get_usage, rmm_arena_destroy};

mend_result mend_peer_create_rmm_arena(const mend_peer_config *config, mend_peer **peer)
{
    rmm_arena *self = calloc(1, sizeof(rmm_arena));
    if (self == NULL) {
        return MEND_ERROR_OUT_OF_HOST_MEMORY;
    }
    self->peer.operations = &rmm_arena_operations;
    self->config = *config;
    mend_mutex_init(&self->mutex, MEND_RANK_POOL);
    mend_tree_init(&self->shared.superblocks, by_address);
    mend_pointer_map_init(&self->live);
    mend_slab_init(&self->superblocks, sizeof(superblock));
    mend_slab_init(&self->blocks, sizeof(free_block));
    *peer = &self->peer;
    return MEND_OK;
}
