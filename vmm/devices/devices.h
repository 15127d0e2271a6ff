/*
 * What a process has one of for each device: the default pool, and the allocator that every hook
 * forwards to, which is that pool unless somebody set another (a stand-in). The state itself is a
 * part of base/process.h.
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

/* The calls of mend.h on the default pools alone, whatever was set: those that a stand-in which
 * wraps Mend is given. `device` is checked. */
mend_result mend_devices_alloc(int device, uint64_t size_bytes, mend_stream stream, void **pointer);
mend_result mend_devices_free(int device, void *pointer, mend_stream stream);
mend_result mend_devices_record_stream(int device, void *pointer, mend_stream stream);
mend_result mend_devices_block_info(int device, const void *pointer, mend_block_info *info);
mend_result mend_devices_trim(int device, bool waits, uint64_t keep_bytes,
                              uint64_t *released_bytes);

/* ---- stand-ins --------------------------------------------------------------------------------
 */

/*
 * An allocator that was set. It lives while a device has it, a call of it is under way, or one of
 * its blocks lives; who takes the last of these away retires it.
 */
typedef struct mend_stand_in {
    mend_allocator allocator; /* of full size */
    uint64_t generation;      /* of the process that set it: in a child of fork that one of its
                                 functions made, there is nothing to let go of */
    uint64_t holds;           /* devices, calls and blocks; guarded by the table's mutex */
} mend_stand_in;

/* Somebody set an allocator that may still have a say. False in the usual process, where nobody
 * did: a load, and no more. */
static inline bool mend_devices_have_stand_ins(void)
{
    return atomic_load_explicit(&mend_process_get_devices()->stand_in_count,
                                memory_order_acquire) != 0;
}

/* That of a device (or what was set for all), or that of a block; held until mend_stand_in_let_go.
 * NULL: it is Mend's own. */
mend_stand_in *mend_stand_in_of_device(int device);
mend_stand_in *mend_stand_in_of_block(const void *pointer);
void mend_stand_in_let_go(mend_stand_in *stand_in);

/* An allocation and a free, with the block's entry in the table. Errors as mend_device_alloc and
 * mend_device_free; a block that is not freed stays the stand-in's. */
mend_result mend_stand_in_alloc(mend_stand_in *stand_in, uint64_t size_bytes, mend_stream stream,
                                void **pointer);
mend_result mend_stand_in_free(mend_stand_in *stand_in, void *pointer, uint64_t size_bytes,
                               mend_stream stream);
mend_result mend_stand_in_record_stream(mend_stand_in *stand_in, void *pointer, mend_stream stream);
mend_result mend_stand_in_block_info(mend_stand_in *stand_in, const void *pointer,
                                     mend_block_info *info);
mend_result mend_stand_in_trim(mend_stand_in *stand_in, bool waits, uint64_t keep_bytes,
                               uint64_t *released_bytes);

#endif
