/*
 * A process has once for each device: a default pool, and the allocator that every hook uses,
 * which is that pool unless the program sets another.
 *
 * Devices are numbered 0 to 63. After a fork, an existing default pool fails with MEND_ERROR_FORKED
 * in the child, and allocators that were set are forgotten there.
 */
#ifndef MEND_MEND_DEVICES_H
#define MEND_MEND_DEVICES_H

#include "mend/mend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- default pools --------------------------------------------------------------------------- */

/* In the place of a device: all of them, or any. */
#define MEND_ALL_DEVICES (-1)

/*
 * The default pool of a device, created at first use. The whole process shares it, and every hook
 * allocates in it. The library never destroys it; a program that is done with all its blocks may do
 * so (mend_pool_destroy), and the next use creates another. Meanwhile no thread may be in a call of
 * this header that finds the device of a block or goes to all devices: such a call looks into each
 * pool. Results as mend_pool_create; also MEND_ERROR_NO_DEVICE for a device outside 0 to 63.
 */
MEND_API mend_result mend_pool_for_device(int device, mend_pool **pool);

/* Whether a device (MEND_ALL_DEVICES: any) has a default pool now: 1 or 0. It creates none. Any
 * thread may ask, at any time. */
MEND_API int mend_has_pool(int device);

/*
 * Sets the config for the default pool of a device (MEND_ALL_DEVICES: of each); `config` is copied,
 * its field `device` is ignored. NULL: all defaults. Call it before the pool is used first; that
 * use reports wrong fields. No driver call. MEND_OK; MEND_ERROR_INVALID_ARGUMENT (struct_size is
 * wrong, or the pool exists already: nothing changed); MEND_ERROR_NO_DEVICE (outside 0 to 63);
 * MEND_ERROR_OUT_OF_HOST_MEMORY.
 */
MEND_API mend_result mend_set_default_config(int device, const mend_pool_config *config);

/* ---- other allocators under the hooks ------------------------------------------------------- */

/*
 * The struct that frameworks exchange, with the layout of the memory handlers of cuStateVec,
 * cuTensorNet and cuDSS. 0 is success, anything else a failure. A block is used in the order of
 * `stream`, and freed in the order of the stream given to free, with the size that was asked for.
 */
typedef struct mend_device_handler {
    void *ctx;
    int (*alloc)(void *ctx, void **pointer, size_t size_bytes, mend_stream stream);
    int (*free)(void *ctx, void *pointer, size_t size_bytes, mend_stream stream);
    char name[64]; /* for messages */
} mend_device_handler;

/*
 * An allocator that serves every hook in the place of Mend's pools (an override): a logger, a
 * limiter, cudaMallocAsync. Any thread calls its functions, several at once, and without a lock.
 * They may call Mend, and mend_set_allocator too, but mend_device_alloc would call them again. Each
 * gets handler.ctx.
 *
 * They return a mend_result. Any other number counts as MEND_ERROR_OUT_OF_MEMORY for an allocation,
 * and as MEND_ERROR_DRIVER for the other functions. Sizes are never 0 (except in a free, if the
 * framework does not say), pointers never NULL. Each pointer from alloc is freed by the same
 * allocator, once.
 *
 * If a framework names no stream, they get MEND_NO_STREAM: the block must be idle for every stream
 * when alloc returns it, and after free it may be reused only when all work of the device is done.
 * If the allocator is set for all devices, the device of the call is current in the thread.
 */
typedef struct mend_allocator {
    size_t struct_size;
    mend_device_handler handler; /* alloc and free are required */
    int (*record_stream)(void *ctx, void *pointer,
                         mend_stream stream); /* `stream` also uses the block, until it is freed.
                                               * NULL: not supported */
    int (*trim)(void *ctx, uint64_t keep_bytes, mend_trim_mode mode,
                uint64_t *released_bytes); /* releases free memory until at most this much is held,
                                            * as mend_trim. NULL: there is nothing to release */
    int (*block_info)(void *ctx, const void *pointer,
                      mend_block_info *info); /* the block that contains a pointer. NULL: not
                                               * supported */
    void (*retired)(void *ctx); /* called once, as the last function: the allocator has been
                                 * replaced everywhere, no call of it is in progress and none of its
                                 * blocks is left. ctx may be freed. NULL: not called */
} mend_allocator;
#define MEND_ALLOCATOR_INIT                                                                        \
    {                                                                                              \
        sizeof(mend_allocator), {NULL, NULL, NULL, {0}}, NULL, NULL, NULL, NULL                    \
    }

/*
 * Sets the allocator that every hook of the process uses for a device, or for all of them (also for
 * those with one of their own). NULL: Mend's default pools again. The allocator is copied; its ctx
 * is borrowed until `retired`. Allocations that begin after the return go to the new one. The old
 * one still frees its blocks, and may be inside a call: this function does not wait for it, so a
 * function of an allocator may replace that allocator. No driver call. MEND_OK;
 * MEND_ERROR_INVALID_ARGUMENT (alloc or free is NULL); MEND_ERROR_NO_DEVICE (outside 0 to 63);
 * MEND_ERROR_OUT_OF_HOST_MEMORY.
 */
MEND_API mend_result mend_set_allocator(int device, const mend_allocator *allocator);

/*
 * Fills *allocator with the one that is set, or with one that uses Mend's default pool of the
 * device: a wrapper calls it. For MEND_ALL_DEVICES: the one that was last set for all; Mend's own
 * serves the device that is current when it is called. The returned functions may be called while
 * the allocator is set, and while it has blocks from the hooks; Mend's own always. If you install a
 * wrapper, the wrapped allocator must stay valid as long as the wrapper uses it. `retired` is NULL.
 * No driver call. MEND_OK; MEND_ERROR_INVALID_ARGUMENT; MEND_ERROR_NO_DEVICE (outside 0 to 63).
 */
MEND_API mend_result mend_get_allocator(int device, mend_allocator *allocator);

/* ---- calls for hooks ------------------------------------------------------------------------- */

/*
 * The calls that hooks use: like a pool's calls, but through the allocator that is set for the
 * device, or through its default pool. A block is freed by the allocator that made it. With
 * MEND_ALL_DEVICES an allocation goes to the device that is current in the thread (0 if none is),
 * for which it asks the driver; the other calls find the device of the block, which takes one
 * lookup for each. A device that is neither that nor 0 to 63 is MEND_ERROR_NO_DEVICE. A custom
 * allocator may return other results. Use MEND_NO_STREAM if no stream is known.
 */

/* If size_bytes is 0 it succeeds, and *pointer is NULL. Results as mend_alloc, and as
 * mend_pool_for_device. */
MEND_API mend_result mend_device_alloc(int device, uint64_t size_bytes, mend_stream stream,
                                       void **pointer);

/* NULL succeeds. `size_bytes` is passed to an allocator that is set; Mend's pools know it. Results
 * as mend_free. */
MEND_API mend_result mend_device_free(int device, void *pointer, uint64_t size_bytes,
                                      mend_stream stream);

/*
 * For a framework whose free is given a pointer alone: frees a block in the order of the stream
 * that it was allocated on, and fills *info with what it was, and *device with its device. A block
 * with a tag (mend_alloc_with) is described and not freed: info->tag is not 0, and the caller frees
 * it as it likes. The device is MEND_ALL_DEVICES while an allocator is set.
 *
 * Takes one lookup, in each pool until the block is found, where mend_device_block_info and
 * mend_device_free take three; one more if the driver must be asked whether the stream is captured.
 * Results as mend_device_free, for NULL too MEND_ERROR_INVALID_ARGUMENT; MEND_ERROR_NOT_SUPPORTED
 * if an allocator is set that cannot describe its blocks (nothing is freed).
 */
MEND_API mend_result mend_device_free_untagged(void *pointer, mend_block_info *info, int *device);

/* Results as mend_record_stream; MEND_ERROR_NOT_SUPPORTED if the allocator has no such function. */
MEND_API mend_result mend_device_record_stream(int device, void *pointer, mend_stream stream);

/* Call it before you destroy a stream: the device's default pool, if there is one, forgets it. An
 * allocator that is set is not called. MEND_ALL_DEVICES: each pool. Results as
 * mend_unregister_stream: the first failure, after all pools were called. */
MEND_API mend_result mend_device_unregister_stream(int device, mend_stream stream);

/* Results as mend_get_block_info; MEND_ERROR_NOT_SUPPORTED if the allocator has no such
 * function. */
MEND_API mend_result mend_device_block_info(int device, const void *pointer, mend_block_info *info);

/* Each device keeps at most this much; *released_bytes (may be NULL) is the sum. A device that was
 * not used has nothing to release. Results as mend_trim: the first failure, after all devices were
 * called. */
MEND_API mend_result mend_device_trim(int device, uint64_t keep_bytes, mend_trim_mode mode,
                                      uint64_t *released_bytes);

/* The device that is current in the thread; 0 if none is. Asks the driver of the default pools
 * (mend_set_default_config), and loads it if necessary. MEND_OK; MEND_ERROR_INVALID_ARGUMENT;
 * MEND_ERROR_NO_DRIVER; MEND_ERROR_DRIVER; MEND_ERROR_NO_DEVICE (outside 0 to 63). */
MEND_API mend_result mend_current_device(int *device);

#ifdef __cplusplus
}
#endif

#endif
