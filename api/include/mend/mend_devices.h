/*
 * What a process has one of for each device: a default pool, and the allocator that every hook
 * allocates through, which is that pool unless somebody set another.
 *
 * Devices are numbered 0 to 63. After a fork the default pool of a device, if it had one, answers
 * MEND_ERROR_FORKED, and allocators that were set are forgotten.
 */
#ifndef MEND_MEND_DEVICES_H
#define MEND_MEND_DEVICES_H

#include "mend/mend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- default pools --------------------------------------------------------------------------- */

/* Where a device is asked for: all of them, or whichever it is. */
#define MEND_ALL_DEVICES (-1)

/*
 * The default pool of a device, made on first use: that of the whole process, in which every hook
 * allocates. It is never destroyed by the library; a program that is done with all its blocks may
 * do so (mend_pool_destroy), and the next use makes another. Results as mend_pool_create;
 * MEND_ERROR_NO_DEVICE for a device outside 0 to 63, too.
 */
MEND_API mend_result mend_pool_for_device(int device, mend_pool **pool);

/*
 * How the default pool of a device (MEND_ALL_DEVICES: of each) is to be made; `config` is copied,
 * its field `device` does not count. NULL: all defaults. To be called before the pool is used,
 * which then says what is wrong with a field. No driver call. MEND_OK; MEND_ERROR_INVALID_ARGUMENT
 * (struct_size, or the pool exists already: nothing changed); MEND_ERROR_NO_DEVICE (outside 0 to
 * 63); MEND_ERROR_OUT_OF_HOST_MEMORY.
 */
MEND_API mend_result mend_set_default_config(int device, const mend_pool_config *config);

/* ---- allocators in their place --------------------------------------------------------------- */

/*
 * What frameworks exchange: exactly the layout of the memory handlers of cuStateVec, cuTensorNet
 * and cuDSS. 0 is success, anything else a failure. The block is used in the order of `stream`, and
 * freed in the order of the stream that free is given, with the size that was asked for.
 */
typedef struct mend_device_handler {
    void *ctx;
    int (*alloc)(void *ctx, void **pointer, size_t size_bytes, mend_stream stream);
    int (*free)(void *ctx, void *pointer, size_t size_bytes, mend_stream stream);
    char name[64]; /* for messages */
} mend_device_handler;

/*
 * An allocator that stands in for Mend's own pools beneath every hook: a logger, a limiter,
 * cudaMallocAsync. Its functions are called by any thread, by several at once, and without a lock;
 * they may call Mend, and mend_set_allocator too, but mend_device_alloc would come back to them.
 * Each is given handler.ctx. What they answer is a mend_result; of other numbers an allocation
 * makes MEND_ERROR_OUT_OF_MEMORY, and everything else MEND_ERROR_DRIVER. Sizes are never 0 (but of
 * a free, where the framework does not say), pointers never NULL, and each pointer that alloc gives
 * is freed by the same allocator, once. Where a framework names no stream they are given
 * MEND_NO_STREAM: the memory must be idle for every stream when it is handed out, and after a free
 * be handed on only when all work of the device is done. A function of an allocator for all devices
 * is called with the device current in the thread.
 */
typedef struct mend_allocator {
    size_t struct_size;
    mend_device_handler handler; /* alloc and free must be there */
    int (*record_stream)(void *ctx, void *pointer,
                         mend_stream stream); /* `stream` uses the block too, until it is freed.
                                                 NULL: not supported */
    int (*trim)(void *ctx, uint64_t keep_bytes,
                uint64_t *released_bytes); /* gives back what is free until at most so much is held.
                                              NULL: there is nothing to give back */
    int (*block_info)(void *ctx, const void *pointer,
                      mend_block_info *info); /* the block around a pointer. NULL: not supported */
    void (*retired)(void *ctx); /* called once, as the last of all, when the allocator has been
                                   replaced everywhere, no call of it is under way and none of its
                                   blocks is left: ctx may go. NULL: nobody asks */
    int (*trim_wait)(void *ctx, uint64_t keep_bytes,
                     uint64_t *released_bytes); /* the same as trim, and waits for the GPU where
                                                   that gives more back. NULL: trim is called */
} mend_allocator;
#define MEND_ALLOCATOR_INIT                                                                        \
    {                                                                                              \
        sizeof(mend_allocator), {NULL, NULL, NULL, {0}}, NULL, NULL, NULL, NULL, NULL              \
    }

/*
 * Sets what every hook of the process forwards to, for a device or for all of them (those included
 * for which one was set alone). NULL: Mend's default pools again. The allocator is copied; its ctx
 * is borrowed until `retired`. Allocations that begin after the return go to the new one. The old
 * one still frees its blocks, and may be inside of a call: nobody waits for it, so that a function
 * of an allocator may replace it. No driver call. MEND_OK; MEND_ERROR_INVALID_ARGUMENT (alloc or
 * free is NULL); MEND_ERROR_NO_DEVICE (outside 0 to 63); MEND_ERROR_OUT_OF_HOST_MEMORY.
 */
MEND_API mend_result mend_set_allocator(int device, const mend_allocator *allocator);

/*
 * Fills *allocator with what is set, or with an allocator on Mend's default pool of the device: to
 * be called by one that wraps it. For MEND_ALL_DEVICES: what was set last for all; Mend's own
 * serves the device that is current when it is called. What was set may be called as long as it is
 * set, and while blocks that the hooks got from it live; Mend's own for ever. If you install a
 * wrapper, the wrapped allocator must stay valid as long as the wrapper uses it. `retired` is NULL.
 * No driver call. MEND_OK; MEND_ERROR_INVALID_ARGUMENT; MEND_ERROR_NO_DEVICE (outside 0 to 63).
 */
MEND_API mend_result mend_get_allocator(int device, mend_allocator *allocator);

/* ---- calls for hooks ------------------------------------------------------------------------- */

/*
 * The calls that hooks are made of: as those of a pool, through the allocator that is set for the
 * device, else in its default pool. A block goes back through the allocator it came from.
 * MEND_ALL_DEVICES: an allocation goes to the device that is current in the thread (0 where none
 * is), which the driver is asked for; all others to whichever device the block is of, which takes a
 * look at each. A custom allocator may return other
 * results. MEND_NO_STREAM where no stream is
 * known.
 */

/* Where size_bytes is 0 it succeeds, and *pointer is NULL. Results as mend_alloc, and as
 * mend_pool_for_device. */
MEND_API mend_result mend_device_alloc(int device, uint64_t size_bytes, mend_stream stream,
                                       void **pointer);

/* NULL succeeds. `size_bytes` is handed on to an allocator that is set; Mend's pools know it.
 * Results as mend_free. */
MEND_API mend_result mend_device_free(int device, void *pointer, uint64_t size_bytes,
                                      mend_stream stream);

/* Results as mend_record_stream; MEND_ERROR_NOT_SUPPORTED by an allocator that has none. */
MEND_API mend_result mend_device_record_stream(int device, void *pointer, mend_stream stream);

/* The stream is about to be destroyed: the device's default pool, where there is one, knows it no
 * more; an allocator that was set is not told. MEND_ALL_DEVICES: each pool. Results as
 * mend_forget_stream: the first failure, though all were told. */
MEND_API mend_result mend_device_forget_stream(int device, mend_stream stream);

/* Results as mend_get_block_info; MEND_ERROR_NOT_SUPPORTED by an allocator that has none. */
MEND_API mend_result mend_device_block_info(int device, const void *pointer, mend_block_info *info);

/* Each device keeps at most so much; *released_bytes (may be NULL) is the sum. A device that was
 * not used has nothing to give. Results as mend_trim: the first failure, though all devices were
 * asked. */
MEND_API mend_result mend_device_trim(int device, uint64_t keep_bytes, uint64_t *released_bytes);

/* The same, waiting for the GPU where that gives more back. Results as mend_trim_wait. */
MEND_API mend_result mend_device_trim_wait(int device, uint64_t keep_bytes,
                                           uint64_t *released_bytes);

/* The device that is current in the thread; 0 where none is. Asks the driver of the default pools
 * (mend_set_default_config), which is loaded if need be. MEND_OK; MEND_ERROR_INVALID_ARGUMENT;
 * MEND_ERROR_NO_DRIVER; MEND_ERROR_DRIVER; MEND_ERROR_NO_DEVICE (outside 0 to 63). */
MEND_API mend_result mend_current_device(int *device);

#ifdef __cplusplus
}
#endif

#endif
