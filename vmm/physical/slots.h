/*
 * The slots of streams: found by the handle and the group in O(1), and reused. A slot stays with
 * its stream while a stamp of it has not passed, a block names it, or a call uses it. After that,
 * its stamps have passed, so they mean idle memory whichever stream gets the slot.
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

/* The lists of slots, each with a head for its key, which other keys may share: of known slots with
 * one handle; of those with one handle and group; of all slots of one group. */
typedef enum mend_slot_list {
    MEND_SLOTS_OF_HANDLE,
    MEND_SLOTS_OF_PAIR,
    MEND_SLOTS_OF_GROUP,
    MEND_SLOT_LISTS
} mend_slot_list;

static inline uint32_t *mend_slots_head(const mend_streams *streams, mend_slot_list list,
                                        uint64_t key)
{
    const uint64_t mixed = key * UINT64_C(0x9E3779B97F4A7C15) >> 32;
    return &streams->buckets[list * streams->bucket_count + (mixed & (streams->bucket_count - 1))];
}

static inline uint64_t mend_slots_key(mend_stream handle, uint64_t thread, uint32_t group)
{
    return ((uint64_t)(uintptr_t)handle ^ (thread << 32)) + group * UINT64_C(0xD6E8FEB86659FD93);
}

/* The calling thread's number if the handle is the per-thread stream; otherwise 0. */
uint64_t mend_slots_thread_of(mend_stream handle);

/* The slots with a handle, in no order: known ones, of all groups; for the per-thread handle, those
 * of the calling thread. A lost slot is no longer in the chain. */
uint32_t mend_slots_first(const mend_streams *streams, mend_stream handle);
uint32_t mend_slots_next(const mend_streams *streams, uint32_t slot);

/* All slots of a group, in no order; lost ones, too. Of group 0 in the order in which they came to
 * be, without those that are free: [MEND_STREAM_UNKNOWN] begins and ends the list. A slot stays
 * while a call uses it, so that a walk may release `state` then. */
static inline uint32_t mend_slots_skip_others(const mend_streams *streams, uint32_t slot,
                                              uint32_t group)
{
    while (slot != MEND_STREAM_UNKNOWN && streams->items[slot].group != group) {
        slot = streams->items[slot].in_group.next;
    }
    return slot;
}
static inline uint32_t mend_slots_first_of(const mend_streams *streams, uint32_t group)
{
    const uint32_t head = group == 0 ? streams->items[MEND_STREAM_UNKNOWN].in_group.next
                                     : *mend_slots_head(streams, MEND_SLOTS_OF_GROUP, group);
    return mend_slots_skip_others(streams, head, group);
}
static inline uint32_t mend_slots_next_of(const mend_streams *streams, uint32_t slot)
{
    const mend_stream_state *state = &streams->items[slot];
    return mend_slots_skip_others(streams, state->in_group.next, state->group);
}

/* Takes the slot out of its group, among those outside of all groups. */
void mend_slots_leave_group(mend_streams *streams, uint32_t slot);

/* Notes what was seen of a capture of the stream. The slots that were last seen captured are a
 * list, which [MEND_STREAM_UNKNOWN] begins and ends. */
void mend_slots_see(mend_streams *streams, uint32_t slot, bool captured, uint64_t capture);
static inline uint32_t mend_slots_next_captured(const mend_streams *streams, uint32_t slot)
{
    return streams->items[slot].in_captures.next;
}

/* A slot for a new stream: a free one, or a new one. MEND_ERROR_OUT_OF_HOST_MEMORY: nothing
 * changed. */
mend_result mend_slots_add(mend_streams *streams, mend_stream handle, const mend_stream_info *info,
                           uint32_t group, uint32_t *index);

/* Removes the slot from its handle's lists: the stream is not known any more. */
void mend_slots_lose(mend_streams *streams, uint32_t slot);

/* Frees the slots that are unused and whose streams may have been destroyed. The caller holds the
 * `grow` lock and has not looked up a stream yet, and no other thread keeps the index of a slot
 * without marking it as used. mend_streams.wants_collection tells when to call it. */
void mend_slots_collect(mend_streams *streams);

/* Frees host memory. */
void mend_slots_clear(mend_streams *streams);

#endif
