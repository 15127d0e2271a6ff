/* The default pool of each device, and the allocator that hooks forward to. That is the default
 * pool, unless the program set an override. The state itself is in base/process.h. */
#ifndef MEND_HOOKS_HOOKS_H
#define MEND_HOOKS_HOOKS_H

#include <stdbool.h>

#include "base/process.h"
#include "layout/feature.h"
#include "mend/mend_devices.h"

/* ---- default pools --------------------------------------------------------------------------- */

/* MEND_OK, or MEND_ERROR_NO_DEVICE: `device` is no index of the table, nor (may_be_all)
 * MEND_ALL_DEVICES. */
mend_result mend_devices_check(int device, bool may_be_all);

/* A hook of the table: the default pool of a device ends. */
mend_result mend_devices_hear(mend_pool *pool, mend_moment moment, const mend_pool_config *config);

/* The devices for a call: one, or all of the table. */
typedef struct mend_device_range {
    int first, end;
} mend_device_range;
mend_device_range mend_devices_range(int device);

/* The default pool of a device of the table. NULL: not created yet. Takes no lock. */
mend_pool *mend_devices_pool(int device);

/* The calls of mend.h on default pools, as an allocator that an override can wrap: the functions of
 * mend_allocator. The ctx is the device, which the caller checked. Each returns a mend_result. */
static inline void *mend_devices_ctx(int device)
{
    return (void *)(intptr_t)device;
}
int mend_devices_alloc(void *ctx, void **pointer, size_t size_bytes, mend_stream stream);
int mend_devices_free(void *ctx, void *pointer, size_t size_bytes, mend_stream stream);
int mend_devices_record_stream(void *ctx, void *pointer, mend_stream stream);
int mend_devices_block_info(void *ctx, const void *pointer, mend_block_info *info);
int mend_devices_trim(void *ctx, uint64_t keep_bytes, mend_trim_mode mode,
                      uint64_t *released_bytes);

/* Frees the live block that begins at the pointer, in the order of its own stream, if it has no
 * tag. Fills *info (of full size) with the block, also if it has one. info->base is NULL if no
 * block of this pool begins there. Results as mend_free. */
mend_result mend_pool_free_untagged(mend_pool *pool, void *pointer, mend_block_info *info);

/* ---- overrides ------------------------------------------------------------------------------- */

/* An allocator that the program set. It lives while a device uses it, a call of it is in progress,
 * or one of its blocks is live. The thread that ends the last of these retires it. */
typedef struct mend_override {
    mend_allocator allocator; /* a copy of full size */
    uint64_t holds; /* number of devices, calls and blocks. Guarded by the table's mutex */
} mend_override;

/* Whether there are overrides. In a process that sets none this costs one load. */
static inline bool mend_devices_have_overrides(void)
{
    return atomic_load_explicit(&mend_process_own_devices.override_count, memory_order_acquire) !=
           0;
}

/* The override of a block. NULL: there is none. The caller ends its use with a call of it. */
mend_override *mend_override_of_block(const void *pointer);

/* Frees a block, which stays in the table if that fails. Errors as mend_device_free. Ends the use.
 */
mend_result mend_override_free(mend_override *override, void *pointer, uint64_t size_bytes,
                               mend_stream stream);

#endif
