/*
 * The slots of streams: found by the handle in O(1), and used again. A slot stays with its stream
 * for as long as something is stamped with it that has not passed, a block names it, or a call is
 * under way; what passed before is idle whichever stream has the slot.
 *
 * A forgotten stream leaves its slot at once, for the next stream that comes. Streams that end
 * without a word leave theirs when slots are collected: a slot that is of no use and was not found
 * since they were collected last. The stream of one that is found again gets another. So there are
 * at most a few times as many slots as streams in use, however many there have been.
 *
 * Guarded by the pool's lock. Nothing here reaches the driver.
 */
#ifndef MEND_PHYSICAL_SLOTS_H
#define MEND_PHYSICAL_SLOTS_H

#include "physical/stream_state.h"

/* The legacy stream has two handles: the one that slots have. */
static inline mend_stream mend_slots_handle(mend_stream handle)
{
    return handle == MEND_STREAM_LEGACY ? NULL : handle;
}

/* Where the chain of a handle, and of some others, begins. */
static inline uint32_t *mend_slots_bucket(const mend_streams *streams, mend_stream handle,
                                          uint64_t thread)
{
    uint64_t key = ((uint64_t)(uintptr_t)handle ^ (thread << 32)) * UINT64_C(0x9E3779B97F4A7C15);
    return &streams->buckets[(key >> 32) & (streams->bucket_count - 1)];
}

/* Of the calling thread, where the handle means its own stream; else 0. */
uint64_t mend_slots_thread_of(mend_stream handle);

/* The slots of a handle, in no order: all known, of all groups, and of the calling thread where
 * each thread has a stream of that handle. A slot that is lost leaves the chain. */
uint32_t mend_slots_first(const mend_streams *streams, mend_stream handle);
uint32_t mend_slots_next(const mend_streams *streams, uint32_t slot);

/* A slot for a new stream: a free one, or one more. MEND_ERROR_OUT_OF_HOST_MEMORY: nothing
 * changed. */
mend_result mend_slots_add(mend_streams *streams, mend_stream handle, const mend_stream_info *info,
                           uint32_t group, uint32_t *index);

/* The stream is known no more, and not found by its handle. */
void mend_slots_lose(mend_streams *streams, uint32_t slot);

/* Takes the slots back that are of no use to streams which may have ended without a word. Nobody
 * holds the index of a slot meanwhile that he has not marked as in use: for who has the right to
 * make room, before he finds a stream. mend_streams.wants_collection says that it is time. */
void mend_slots_collect(mend_streams *streams);

/* Frees host memory. */
void mend_slots_clear(mend_streams *streams);

#endif
