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

#include <stdbool.h>

#include "base/list.h"
#include "base/mutex.h"
#include "base/process.h"
#include "driver/driver.h"

/* The index of memory freed without a stream: only a wait for the whole context makes it idle. */
enum { MEND_STREAM_UNKNOWN = 0 };

/* Added to the numbers of groups that captures made. */
#define MEND_GROUP_OF_CAPTURE (UINT32_C(1) << 31)

/* "Everything freed on `stream` up to `epoch`." epoch 0: nothing, idle. */
typedef struct mend_stamp {
    uint64_t epoch;
    uint32_t stream;
} mend_stamp;

typedef struct mend_fence {
    uint64_t epoch;
    mend_event event;
    mend_context context; /* of the event: that of the stream it was recorded on */
} mend_fence;

typedef struct mend_stream_state {
    mend_stream handle;
    uint64_t thread;        /* whose own stream it is, by its number; 0: not a per-thread stream */
    uint64_t id;            /* unique for ever, unlike the handle; 0: not known yet, for the stream
                               was captured whenever it was asked */
    uint64_t capture_id;    /* id 0: the capture in which it was met */
    bool is_double;         /* an older slot stands for the same stream */
    uint64_t freed_by;      /* number of the last free of a block that it used */
    uint32_t freed_next;    /* the next stream that used that block; or UNKNOWN */
    uint64_t users;         /* nodes of live blocks that name it: it stays so long */
    bool has_ended;         /* forgotten, or its group was released: nothing is stamped any more */
    mend_context context;   /* its own, of the events recorded on it; known with the id */
    uint32_t group;         /* the group it belongs to, MEND_GROUP_OF_CAPTURE added for one that a
                               capture made; 0: none */
    bool known;             /* false: forgotten, the slot waits for its fences */
    uint32_t next;          /* slot of its chain, or the next free one: see slots.h */
    bool is_free_slot;      /* waits for a stream */
    bool was_found;         /* since slots were collected last */
    bool seen_captured;     /* when the driver was last asked about it */
    bool open;              /* something is stamped with an epoch that no fence covers */
    uint64_t open_bytes;    /* freed in the open epoch */
    uint64_t open_epoch;    /* from 1 */
    uint64_t passed_epoch;  /* all stamps up to it have passed */
    uint64_t due_epoch;     /* host waits that are under way are for epochs up to it */
    uint64_t first_epoch;   /* that was open when the slot was made */
    uint32_t recordings;    /* epochs that are closed, and whose fences are not in `fences` yet */
    uint32_t calls;         /* under way, without the pool's lock, that name the stream */
    uint64_t awaited_epoch; /* will have passed when the wait for the context is over; or 0 */
    bool was_open;          /* when that wait began */
    mend_fence *fences;     /* recorded and not passed, oldest first; there is room for `recordings`
                               more */
    size_t fence_count;
    size_t fence_capacity;
    uint64_t *waited_epochs; /* by stream index: this stream waits, on the device, for that epoch */
    size_t waited_capacity;
} mend_stream_state;

/* A stream that the program is about to capture, and keeps alive meanwhile, or forgets. */
typedef struct mend_watch {
    mend_list link;
    mend_stream handle; /* MEND_EVERY_STREAM: any */
} mend_watch;

typedef struct mend_streams {
    const mend_driver *driver;
    mend_context context;
    uint64_t foreign_devices; /* bit n: device n has streams that use the memory, foreign.h */
    mend_context foreign[MEND_DEVICE_LIMIT]; /* of these devices */
    bool verify; /* streams end without a word: a handle may mean another stream at any time, so it
                    is asked at each find, and only then */
    bool serves_any;   /* memory was asked for that any stream may use: it matters what is idle */
    bool looks_ahead;  /* while a question is answered, without a call of the driver: what the host
                          could wait for counts as what a stream can */
    mend_list watches; /* see capture.h */
    mend_stream_state *items; /* [MEND_STREAM_UNKNOWN] stands for no stream */
    uint32_t count;
    uint32_t capacity;
    uint32_t *buckets; /* of known slots, by handle: see slots.h */
    uint32_t bucket_count;
    uint32_t first_free_slot; /* slot, or UNKNOWN */
    uint32_t collect_at;      /* slots */
    bool wants_collection;
    uint32_t last_found; /* the stream that was looked up last, outside all groups; or UNKNOWN */
    mend_stream last_handle; /* which it is found by: it alone tells the stream */
    mend_event *idle_events;
    size_t idle_event_count;
    size_t idle_event_capacity;
    uint64_t events_held;      /* created and not destroyed */
    mend_condition call_ended; /* of some stream: its `calls` fell to 0 */
    uint32_t call_waiters;     /* threads that wait for it */
    uint64_t stream_waits;
    uint64_t host_waits;
} mend_streams;

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

/* A stream is known no more: it is not found by the handle. */
static inline void mend_streams_look_up_anew(mend_streams *streams)
{
    streams->last_found = MEND_STREAM_UNKNOWN;
    streams->last_handle = MEND_NO_STREAM;
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

/* Makes room for `count` elements of an array, zeroed; false when malloc fails: nothing changed. */
bool mend_streams_grow(void *array, size_t *capacity, size_t count, size_t element_bytes);

#endif
