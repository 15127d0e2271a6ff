/*
 * What a process has one of for each device: the default pool, and the allocator that every hook
 * forwards to, which is that pool unless the program set another (an override). The state itself is
 * a part of base/process.h.
 */
#ifndef MEND_DEVICES_DEVICES_H
#define MEND_DEVICES_DEVICES_H

#include <stdbool.h>

#include "base/process.h"
#include "mend/mend_devices.h"

/* ---- default pools ----------------------------------------------------------------------------
 */

/* MEND_OK, or MEND_ERROR_NO_DEVICE: neither a device of the table nor (may_be_all)
 * MEND_ALL_DEVICES. */
mend_result mend_devices_check(int device, bool may_be_all);

/* The devices a call is about: one, or all of the table. */
void mend_devices_range(int device, int *first, int *end);

/* The default pool of a device of the table; NULL where none was made. No lock. */
mend_pool *mend_devices_pool(int device);

/* The calls of mend.h on the default pools alone, whatever was set: those that an override which
 * wraps Mend is given. `device` is checked. */
mend_result mend_devices_alloc(int device, uint64_t size_bytes, mend_stream stream, void **pointer);
mend_result mend_devices_free(int device, void *pointer, mend_stream stream);
mend_result mend_devices_record_stream(int device, void *pointer, mend_stream stream);
mend_result mend_devices_block_info(int device, const void *pointer, mend_block_info *info);
mend_result mend_devices_trim(int device, bool waits, uint64_t keep_bytes,
                              uint64_t *released_bytes);

/* ---- overrides --------------------------------------------------------------------------------
 */

/*
 * An allocator that was set. It lives while a device has it, a call of it is under way, or one of
 * its blocks lives; who takes the last of these away retires it.
 */
typedef struct mend_override {
    mend_allocator allocator; /* of full size */
    uint64_t generation;      /* of the process that set it: in a child of fork that one of its
                                 functions made, there is nothing to let go of */
    uint64_t holds;           /* devices, calls and blocks; guarded by the table's mutex */
} mend_override;

/* Somebody set an allocator that may still have a say. False in the usual process, where nobody
 * did: a load, and no more. */
static inline bool mend_devices_have_overrides(void)
{
    return atomic_load_explicit(&mend_process_get_devices()->override_count,
                                memory_order_acquire) != 0;
}

/* That of a device (or what was set for all), or that of a block; held until mend_override_let_go.
 * NULL: it is Mend's own. */
mend_override *mend_override_of_device(int device);
mend_override *mend_override_of_block(const void *pointer);
void mend_override_let_go(mend_override *override);

/* An allocation and a free, with the block's entry in the table. Errors as mend_device_alloc and
 * mend_device_free; a block that is not freed stays the override's. */
mend_result mend_override_alloc(mend_override *override, uint64_t size_bytes, mend_stream stream,
                                void **pointer);
mend_result mend_override_free(mend_override *override, void *pointer, uint64_t size_bytes,
                               mend_stream stream);
mend_result mend_override_record_stream(mend_override *override, void *pointer, mend_stream stream);
mend_result mend_override_block_info(mend_override *override, const void *pointer,
                                     mend_block_info *info);
mend_result mend_override_trim(mend_override *override, bool waits, uint64_t keep_bytes,
                               uint64_t *released_bytes);

#endif
