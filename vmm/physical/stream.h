/*
 * Streams, and stamps: when memory that a stream used becomes idle.
 *
 * Each stream counts epochs. What is freed in its order is stamped with the open epoch; closing the
 * epoch records one event that covers all of it (physical/fence.h), and later frees belong to the
 * next. A stamp has passed when its event has.
 *
 * A group of blocks for captured graphs has streams of its own, one for each stream it is used on:
 * what is freed there is ready for the same stream of the same group, and for nobody else until the
 * group is released.
 *
 * Guarded by the pool's lock. Calls that reach the driver say so and need a current context.
 */
#ifndef MEND_PHYSICAL_STREAM_H
#define MEND_PHYSICAL_STREAM_H

#include "physical/stream_state.h"

/* MEND_ERROR_OUT_OF_HOST_MEMORY. */
mend_result mend_streams_init(mend_streams *streams, const mend_driver *driver,
                              mend_context context);

/* Destroys all events, and lets go of the contexts of other devices. Reaches the driver; goes on
 * when it refuses, and returns its first answer, with the call that was refused. */
mend_status mend_streams_clear(mend_streams *streams, mend_driver_call *call);

/*
 * The index of a stream in a group (0: outside all), registering it when it is new. Reaches the
 * driver for a new stream, for the per-thread stream, and for every one where identities are to be
 * verified.
 *
 * Who a captured stream is cannot be asked. One that is new is known by its handle and its capture
 * then, and by its identity from the first time on that it is reached without a capture. Where
 * identities are to be verified, a slot is made for handle and capture, which are one until that
 * capture ends. If a stream has the handle afterwards that had it before, the slot was for that
 * one, and becomes its double. Otherwise nothing will tell which stream it was: what it freed waits
 * for the context.
 *
 * MEND_ERROR_UNKNOWN_STREAM (of a context that is no device's primary one, nor a green one; or the
 * driver does not know it),
 * MEND_ERROR_CAPTURING (which stream it is must be verified, and its capture was spoilt),
 * MEND_ERROR_DRIVER, MEND_ERROR_DEVICE_LOST, MEND_ERROR_OUT_OF_HOST_MEMORY.
 */
mend_result mend_streams_find(mend_streams *streams, mend_stream handle, uint32_t group,
                              uint32_t *index);

/* The handle alone tells which stream is meant: no need to ask the driver. */
static inline bool mend_streams_handle_suffices(const mend_streams *streams, mend_stream handle)
{
    return handle != MEND_STREAM_PER_THREAD && !streams->verify;
}

/* The index of a stream the pool has seen, by its handle alone; MEND_STREAM_UNKNOWN when it has
 * not. It is most often the one that was asked for last. */
uint32_t mend_streams_lookup_other(mend_streams *streams, mend_stream handle, uint32_t group);
static inline uint32_t mend_streams_lookup(mend_streams *streams, mend_stream handle,
                                           uint32_t group)
{
    return handle == streams->last_handle && group == 0
               ? streams->last_found
               : mend_streams_lookup_other(streams, handle, group);
}

/* More than one stream has been seen, memory was freed or asked for without one, or is held for
 * graphs. What was freed without one is not idle before the wait for the context is over. */
static inline bool mend_streams_are_several(const mend_streams *streams)
{
    const mend_stream_state *unknown = &streams->items[MEND_STREAM_UNKNOWN];
    return streams->count > 2 || streams->serves_any || unknown->open ||
           unknown->awaited_epoch != 0 || (streams->count == 2 && streams->items[1].group != 0);
}

/* Stamps bytes freed now. Cannot fail, calls nothing. */
static inline mend_stamp mend_streams_stamp(mend_streams *streams, uint32_t stream,
                                            uint64_t size_bytes)
{
    mend_stream_state *state = &streams->items[stream];
    state->open = true;
    state->open_bytes += size_bytes;
    return (mend_stamp){.epoch = state->open_epoch, .stream = stream};
}

/* What stands for all that a stream did before it ended. */
static inline mend_stamp mend_streams_last_stamp(const mend_streams *streams, uint32_t stream)
{
    const mend_stream_state *state = &streams->items[stream];
    uint64_t last_epoch = state->open ? state->open_epoch : state->open_epoch - 1;
    return (mend_stamp){.epoch = last_epoch, .stream = stream};
}

/* Stamps bytes freed now that the stream was a user of. */
static inline mend_stamp mend_streams_stamp_use(mend_streams *streams, uint32_t stream,
                                                uint64_t size_bytes)
{
    return streams->items[stream].has_ended ? mend_streams_last_stamp(streams, stream)
                                            : mend_streams_stamp(streams, stream, size_bytes);
}

/* The work behind the stamp is known to be done. */
static inline bool mend_stamp_has_passed(const mend_streams *streams, mend_stamp stamp)
{
    return stamp.epoch <= streams->items[stamp.stream].passed_epoch;
}

/* `stream` may use the memory now: its own, done, or behind a wait made earlier. */
static inline bool mend_stamp_is_ready(const mend_streams *streams, mend_stamp stamp,
                                       uint32_t stream)
{
    if ((stamp.stream == stream && stream != MEND_STREAM_UNKNOWN) ||
        mend_stamp_has_passed(streams, stamp)) {
        return true;
    }
    const mend_stream_state *state = &streams->items[stream];
    return stamp.stream < state->waited_capacity &&
           stamp.epoch <= state->waited_epochs[stamp.stream];
}

/* An event was recorded behind the work of the stamp. */
bool mend_stamp_has_fence(const mend_streams *streams, mend_stamp stamp);

/* A stream can be made to wait for it; or it has been asked what waits of the host would bring. */
static inline bool mend_stamp_can_be_awaited(const mend_streams *streams, mend_stamp stamp)
{
    return mend_stamp_has_fence(streams, stamp) ||
           (streams->looks_ahead && streams->items[stamp.stream].group == 0);
}

/* A slot of the stream in a group, that was seen captured when the driver was last asked; or
 * UNKNOWN. */
uint32_t mend_streams_lookup_captured(const mend_streams *streams, mend_stream handle);

/* A stream ends: what was freed on it in groups stays with them, in slots that are known no more,
 * and a new stream of the same handle is not taken for it. id 0: whichever the handle means. */
void mend_streams_leave_groups(mend_streams *streams, mend_stream handle, uint64_t id);

/* All use of a group's memory is over: what was freed in it is idle. */
void mend_streams_end_group(mend_streams *streams, uint32_t group);

/* The slots of a group become those of a forgotten stream: their memory waits for its fences, or
 * for the context. */
void mend_streams_release_group(mend_streams *streams, uint32_t group);

/* The stream was asked, and its identity is to be learned: *is_same is false where it is not this
 * stream, or can never be. *call is the one that was refused, where not OK. */
mend_status mend_streams_learn(mend_streams *streams, mend_stream_state *state,
                               const mend_stream_info *info, bool *is_same, mend_driver_call *call);

/* The result of a failed driver call, with its detail. */
mend_result mend_streams_driver_failed(mend_streams *streams, mend_driver_call call,
                                       mend_status status);

#endif
