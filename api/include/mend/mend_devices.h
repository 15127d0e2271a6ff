/*
 * Each device of a process has one default pool, and one allocator for all hooks: that pool, until
 * you set another.
 *
 * Devices are numbered 0 to 63: any other number is MEND_ERROR_NO_DEVICE. After a fork, the default
 * pool fails with MEND_ERROR_FORKED in the child, which also forgets allocators that were set.
 */
#ifndef MEND_MEND_DEVICES_H
#define MEND_MEND_DEVICES_H

#include "mend/mend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- default pools --------------------------------------------------------------------------- */

/* In place of a device: all devices, or any. */
#define MEND_ALL_DEVICES (-1)

/*
 * Get the default pool of a device, which the first use creates. The whole process and every hook
 * share it.
 *
 *     mend_pool *pool;
 *     mend_pool_for_device(0, &pool);
 *
 * The library never destroys it. You may, when you are done with all its blocks and no thread is in
 * a call of this header that finds the device of a block or goes to all devices. The next use
 * creates another. Results as mend_pool_create.
 */
MEND_API mend_result mend_pool_for_device(int device, mend_pool **pool);

/*
 * Set the config for the default pool of a device (MEND_ALL_DEVICES: each). Call it before the
 * first use, which reports wrong fields. `config` is copied without its `device`, and NULL means
 * all defaults. MEND_OK; MEND_ERROR_INVALID_ARGUMENT (also if the pool exists already);
 * MEND_ERROR_NO_DEVICE; MEND_ERROR_OUT_OF_HOST_MEMORY.
 */
MEND_API mend_result mend_set_default_config(int device, const mend_pool_config *config);

/* ---- other allocators under the hooks ------------------------------------------------------- */

/*
 * The memory handler of cuStateVec, cuTensorNet and cuDSS. 0 is success, anything else a failure. A
 * block is used in the order of `stream`, and freed in the order of the stream given to free, with
 * the requested size.
 */
typedef struct mend_device_handler {
    void *ctx;
    int (*alloc)(void *ctx, void **pointer, size_t size_bytes, mend_stream stream);
    int (*free)(void *ctx, void *pointer, size_t size_bytes, mend_stream stream);
    char name[64]; /* for messages */
} mend_device_handler;

/*
 * An allocator that serves every hook instead of Mend's pools: a logger, a limiter,
 * cudaMallocAsync. Any threads call its functions with handler.ctx, at the same time and without a
 * lock. They may call Mend, and mend_set_allocator too, but mend_device_alloc would call them
 * again. They may not fork.
 *
 * The functions return a mend_result. Any other number counts as MEND_ERROR_OUT_OF_MEMORY for an
 * allocation, and as MEND_ERROR_DRIVER otherwise. Sizes are never 0, except in a free if the
 * framework does not know. Pointers are never NULL. Each pointer from alloc is freed once, by the
 * same allocator.
 *
 * With MEND_NO_STREAM the block must be idle for every stream when alloc returns it, and is reused
 * only when all work of the device is done. If the allocator is set for all devices, the device of
 * the call is current in the thread.
 */
typedef struct mend_allocator {
    size_t struct_size;
    mend_device_handler handler; /* alloc and free are required */
    int (*record_stream)(void *ctx, void *pointer,
                         mend_stream stream); /* `stream` also uses the block, until its free. May
                                               * be NULL */
    int (*trim)(void *ctx, uint64_t keep_bytes, mend_trim_mode mode,
                uint64_t *released_bytes); /* as mend_trim. May be NULL */
    int (*block_info)(void *ctx, const void *pointer,
                      mend_block_info *info); /* describes the block that contains a pointer. May be
                                               * NULL */
    void (*retired)(void *ctx); /* the last call: the allocator is replaced everywhere, no call of
                                 * it is in progress, and it has no blocks. You may free ctx. May be
                                 * NULL */
} mend_allocator;
#define MEND_ALLOCATOR_INIT                                                                        \
    {                                                                                              \
        sizeof(mend_allocator), {NULL, NULL, NULL, {0}}, NULL, NULL, NULL, NULL                    \
    }

/*
 * Set the allocator that every hook uses for a device, or for all devices, even those with one of
 * their own. NULL restores Mend's default pools. The allocator is copied, and its ctx is borrowed
 * until `retired`. Allocations that begin after the return use it. The previous allocator still
 * frees its blocks, and may be inside a call, for which this does not wait.
 *
 *     mend_allocator logger = MEND_ALLOCATOR_INIT;
 *     logger.handler.alloc = log_alloc; // which call the functions of mend_get_allocator
 *     logger.handler.free = log_free;
 *     mend_set_allocator(MEND_ALL_DEVICES, &logger);
 *
 * MEND_OK; MEND_ERROR_INVALID_ARGUMENT (also without alloc or free); MEND_ERROR_NO_DEVICE;
 * MEND_ERROR_OUT_OF_HOST_MEMORY.
 */
MEND_API mend_result mend_set_allocator(int device, const mend_allocator *allocator);

/*
 * Get the allocator that is set, to wrap it, or one that uses Mend's default pool of the device.
 * For MEND_ALL_DEVICES you get the one that was last set for all, and Mend's own then serves the
 * current device of each call. You may call the functions while the allocator is set or has blocks
 * from the hooks, and Mend's own at any time. `retired` is NULL. MEND_OK;
 * MEND_ERROR_INVALID_ARGUMENT; MEND_ERROR_NO_DEVICE.
 */
MEND_API mend_result mend_get_allocator(int device, mend_allocator *allocator);

/* ---- calls for hooks ------------------------------------------------------------------------- */

/*
 * Calls for hooks, which work as the calls on a pool, but through the allocator or the default pool
 * of the device. The allocator of a block frees it. With MEND_ALL_DEVICES an allocation asks the
 * driver for the current device of the thread (0 if none is). The other calls find the device of
 * the block, with one lookup for each device. A custom allocator may return other results. Pass
 * MEND_NO_STREAM if you know no stream.
 */

/* Allocate memory. Size 0 succeeds with NULL. Results as mend_alloc, and as mend_pool_create. */
MEND_API mend_result mend_device_alloc(int device, uint64_t size_bytes, mend_stream stream,
                                       void **pointer);

/* Free a block. NULL succeeds. `size_bytes` is for an allocator that is set, because Mend's pools
 * know it. Results as mend_free. */
MEND_API mend_result mend_device_free(int device, void *pointer, uint64_t size_bytes,
                                      mend_stream stream);

/* Unregister a stream, before you destroy it, from the default pool of the device, if there is one.
 * MEND_ALL_DEVICES means each pool. No allocator is called. Results as mend_unregister_stream: the
 * first failure, after all pools were called. */
MEND_API mend_result mend_device_unregister_stream(int device, mend_stream stream);

#ifdef __cplusplus
}
#endif

#endif
