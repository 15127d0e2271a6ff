/*
 * The slots of streams: found by the handle in O(1), and reused. A slot stays with its stream while
 * a stamp of it has not passed, a block names it, or a call uses it. After that, its stamps have
 * passed, so they mean idle memory whichever stream gets the slot.
 *
 * A forgotten stream gives up its slot at once. A stream that was destroyed without
 * mend_forget_stream loses its slot in a collection, which takes the slots that are unused and were
 * not looked up since the collection before. If such a stream still exists, it gets another slot
 * when it is used again. So the number of slots is at most a few times the number of streams in
 * use, however many streams there have been.
 *
 * Guarded by the heap's `state` lock. Nothing here calls the driver.
 */
#ifndef MEND_PHYSICAL_SLOTS_H
#define MEND_PHYSICAL_SLOTS_H

#include "physical/stream_state.h"

/* The legacy stream has two handles; slots use this one. */
static inline mend_stream mend_slots_handle(mend_stream handle)
{
    return handle == MEND_STREAM_LEGACY ? NULL : handle;
}

/* The head of the chain for a handle; other handles may share the chain. */
static inline uint32_t *mend_slots_bucket(const mend_streams *streams, mend_stream handle,
                                          uint64_t thread)
{
    uint64_t key = ((uint64_t)(uintptr_t)handle ^ (thread << 32)) * UINT64_C(0x9E3779B97F4A7C15);
    return &streams->buckets[(key >> 32) & (streams->bucket_count - 1)];
}

/* The calling thread's number if the handle is the per-thread stream; otherwise 0. */
uint64_t mend_slots_thread_of(mend_stream handle);

/* The slots with a handle, in no order: known ones, of all groups; for the per-thread handle, those
 * of the calling thread. A lost slot is no longer in the chain. */
uint32_t mend_slots_first(const mend_streams *streams, mend_stream handle);
uint32_t mend_slots_next(const mend_streams *streams, uint32_t slot);

/* A slot for a new stream: a free one, or a new one. MEND_ERROR_OUT_OF_HOST_MEMORY: nothing
 * changed. */
mend_result mend_slots_add(mend_streams *streams, mend_stream handle, const mend_stream_info *info,
                           uint32_t group, uint32_t *index);

/* Removes the slot from its handle's chain: the stream is not known any more. */
void mend_slots_lose(mend_streams *streams, uint32_t slot);

/* Frees the slots that are unused and whose streams may have been destroyed. The caller holds the
 * `grow` lock and has not looked up a stream yet, and no other thread keeps the index of a slot
 * without marking it as used. mend_streams.wants_collection tells when to call it. */
void mend_slots_collect(mend_streams *streams);

/* Frees host memory. */
void mend_slots_clear(mend_streams *streams);

#endif
