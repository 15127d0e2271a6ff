/*
 * Streams and stamps: when memory that a stream used becomes idle.
 *
 * Each stream counts epochs. A free in its order is stamped with the open epoch. Closing the epoch
 * records one event that covers all of it (physical/fence.h); later frees belong to the next epoch.
 * A stamp has passed when its event has.
 *
 * A group of blocks for captured graphs has streams of its own, one for each stream that it is used
 * on: memory freed there is ready only for the same stream of the same group, until the group is
 * released.
 *
 * Guarded by the heap's `state` lock. Calls that reach the driver say so and need a current
 * context.
 */
#ifndef MEND_PHYSICAL_STREAM_H
#define MEND_PHYSICAL_STREAM_H

#include <assert.h>

#include "physical/stream_state.h"
/* MEND_ERROR_OUT_OF_HOST_MEMORY. */
mend_result mend_streams_init(mend_streams *streams, const mend_driver *driver,
                              mend_context context);

/* Destroys all events, and closes the other devices. Calls the driver; goes on after a refusal, and
 * returns the first failure with its call. */
mend_status mend_streams_clear(mend_streams *streams, mend_driver_call *call);

/*
 * The index of a stream in a group (0: none); registers the stream if it is new. Calls the driver
 * for a new stream, for the per-thread stream, and for every stream if `verify` is set.
 *
 * The identity of a captured stream cannot be asked for. A new one is known by its handle and its
 * capture, and by its identity from the first time that it is reached without a capture. With
 * `verify`, a slot is made for the pair (handle, capture), until that capture ends. If afterwards
 * the handle means the stream that it meant before the capture, that slot becomes a *double* of the
 * stream's slot. Otherwise nothing tells which stream it was: what it freed waits for the context.
 *
 * MEND_ERROR_UNKNOWN_STREAM (the stream's context is neither a device's primary one nor a green
 * one, or the driver does not know the stream), MEND_ERROR_CAPTURING (the identity must be
 * verified, but the stream's capture was invalidated), MEND_ERROR_DRIVER, MEND_ERROR_DEVICE_LOST,
 * MEND_ERROR_OUT_OF_HOST_MEMORY.
 */
mend_result mend_streams_find(mend_streams *streams, mend_stream handle, uint32_t group,
                              uint32_t *index);

/* Whether the handle identifies the stream, without asking the driver. */
static inline bool mend_streams_handle_suffices(const mend_streams *streams, mend_stream handle)
{
    return handle != MEND_STREAM_PER_THREAD && !streams->verify;
}

/* The index of a known stream, by its handle alone; MEND_STREAM_UNKNOWN if there is none. Usually
 * it is the stream of the last lookup. */
uint32_t mend_streams_lookup_other(mend_streams *streams, mend_stream handle, uint32_t group);
static inline uint32_t mend_streams_lookup(mend_streams *streams, mend_stream handle,
                                           uint32_t group)
{
    return handle == streams->last_handle && group == 0
               ? streams->last_found
               : mend_streams_lookup_other(streams, handle, group);
}

/* Whether the stamps matter: there is more than one stream, or memory was freed or requested
 * without a stream, or a group holds memory. Memory freed without a stream is not idle before the
 * wait for the context has returned. */
static inline bool mend_streams_are_several(const mend_streams *streams)
{
    const mend_stream_state *unknown = &streams->items[MEND_STREAM_UNKNOWN];
    return streams->count > 2 || streams->serves_any || unknown->open ||
           unknown->awaited[0].epoch != 0 || (streams->count == 2 && streams->items[1].group != 0);
}

/* Whether memory that was freed without a stream is not known to be idle. */
static inline bool mend_streams_have_unfenced(const mend_streams *streams)
{
    const mend_stream_state *unknown = &streams->items[MEND_STREAM_UNKNOWN];
    return unknown->open || unknown->awaited[0].epoch != 0;
}

/* The number of events that cover the context, in all contexts. */
static inline uint64_t mend_streams_context_events(const mend_streams *streams)
{
    uint64_t count = streams->context_event_count;
    for (uint32_t k = 0; k < streams->context_event_count; k++) {
        for (int i = 0; i < MEND_DEVICE_LIMIT; i++) {
            count += streams->context_events[k].others[i] != NULL;
        }
    }
    return count;
}

/* Whether memory is requested without a stream, or was freed so and is not known to be idle. */
static inline bool mend_streams_lack_names(const mend_streams *streams)
{
    return streams->serves_any || mend_streams_have_unfenced(streams);
}

/* The stamp for bytes that are freed now. Cannot fail; does not call the driver. */
static inline mend_stamp mend_streams_stamp(mend_streams *streams, uint32_t stream,
                                            uint64_t size_bytes)
{
    mend_stream_state *state = &streams->items[stream];
    assert(stream < streams->count);
    assert(!state->has_ended);
    assert(!state->is_free_slot);
    assert(state->open_epoch > state->passed_epoch);
    state->open = true;
    state->open_bytes += size_bytes;
    return (mend_stamp){.epoch = state->open_epoch, .stream = stream};
}

/* A stamp that covers all that an ended stream did. */
static inline mend_stamp mend_streams_last_stamp(const mend_streams *streams, uint32_t stream)
{
    assert(stream < streams->count);
    const mend_stream_state *state = &streams->items[stream];
    uint64_t last_epoch = state->open ? state->open_epoch : state->open_epoch - 1;
    return (mend_stamp){.epoch = last_epoch, .stream = stream};
}

/* The stamp for bytes freed now that the stream was a user of. */
static inline mend_stamp mend_streams_stamp_use(mend_streams *streams, uint32_t stream,
                                                uint64_t size_bytes)
{
    mend_stream_state *state = &streams->items[stream];
    if (!state->has_ended) {
        return mend_streams_stamp(streams, stream, size_bytes);
    }
    state->open_bytes += state->open ? size_bytes : 0;
    return mend_streams_last_stamp(streams, stream);
}

/* Whether the work before the stamp is known to be done. */
static inline bool mend_stamp_has_passed(const mend_streams *streams, mend_stamp stamp)
{
    assert(stamp.stream < streams->count);
    return stamp.epoch <= streams->items[stamp.stream].passed_epoch;
}

/* Whether `stream` may use the memory now: the stamp is its own, has passed, or is behind a wait
 * that was queued before. */
static inline bool mend_stamp_is_ready(const mend_streams *streams, mend_stamp stamp,
                                       uint32_t stream)
{
    if ((stamp.stream == stream && stream != MEND_STREAM_UNKNOWN) ||
        mend_stamp_has_passed(streams, stamp)) {
        return true;
    }
    assert(stream < streams->count);
    const mend_stream_state *state = &streams->items[stream];
    return stamp.stream < state->waited_capacity &&
           stamp.epoch <= state->waited_epochs[stamp.stream];
}

/* Whether an event was recorded that covers the stamp. */
bool mend_stamp_has_fence(const mend_streams *streams, mend_stamp stamp);

/* Whether a stream can be made to wait for the stamp; or, while looks_ahead is set, whether waits
 * of the host could make it pass. */
static inline bool mend_stamp_can_be_awaited(const mend_streams *streams, mend_stamp stamp)
{
    return mend_stamp_has_fence(streams, stamp) ||
           (streams->looks_ahead && streams->items[stamp.stream].group == 0);
}

/* A slot of the stream in a group, if the stream was captured when the driver was last asked; or
 * UNKNOWN. */
uint32_t mend_streams_lookup_captured(const mend_streams *streams, mend_stream handle);

/* A stream ends. Its slots in groups stay, but are no longer known, so that a new stream with the
 * same handle does not get them. id 0: every stream with the handle. */
void mend_streams_leave_groups(mend_streams *streams, mend_stream handle, uint64_t id);

/* All use of the group's memory is over: what was freed in it is idle. */
void mend_streams_end_group(mend_streams *streams, uint32_t group);

/* The slots of a group become those of a forgotten stream: the memory waits for its fences, or for
 * the context. */
void mend_streams_release_group(mend_streams *streams, uint32_t group);

/* The driver has answered about the stream: learns its identity from *info. *is_same is false if it
 * is another stream now, or one that the pool cannot serve. If the result is not OK, *call is the
 * refused call. */
mend_status mend_streams_learn(mend_streams *streams, mend_stream_state *state,
                               const mend_stream_info *info, bool *is_same, mend_driver_call *call);

/* Notes a failed driver call, and returns its result. */
mend_result mend_streams_driver_failed(mend_streams *streams, mend_driver_call call,
                                       mend_status status);

#endif
