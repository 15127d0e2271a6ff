/*
 * Streams and fences: when memory that a stream used becomes idle.
 *
 * Each stream counts epochs. What is freed in its order is stamped with the open epoch; closing the
 * epoch records one event that covers all of it, and later frees belong to the next. A stamp has
 * passed when its event has. Events are recorded only when somebody needs to know.
 *
 * Guarded by the pool's lock. Calls that reach the driver say so and need a current context.
 */
#ifndef MEND_PHYSICAL_STREAM_H
#define MEND_PHYSICAL_STREAM_H

#include <stdbool.h>

#include "driver/driver.h"

/* The index of memory freed without a stream: only a wait for the whole context makes it idle. */
enum { MEND_STREAM_UNKNOWN = 0 };

/* "Everything freed on `stream` up to `epoch`." epoch 0: nothing, idle. */
typedef struct mend_stamp {
    uint64_t epoch;
    uint32_t stream;
} mend_stamp;

typedef struct mend_fence {
    uint64_t epoch;
    mend_event event;
} mend_fence;

typedef struct mend_stream_state {
    mend_stream handle;
    uint64_t id;           /* unique for ever, unlike the handle */
    bool known;            /* false: forgotten, the slot waits for its fences */
    bool open;             /* something is stamped with the open epoch */
    uint64_t open_bytes;   /* freed in the open epoch */
    uint64_t open_epoch;   /* from 1 */
    uint64_t passed_epoch; /* all stamps up to it have passed */
    mend_fence *fences;    /* recorded and not passed, oldest first; capacity fence_capacity */
    size_t fence_count;
    size_t fence_capacity;
    uint64_t *waited_epochs; /* by stream index: this stream waits, on the device, for that epoch */
    size_t waited_capacity;
} mend_stream_state;

typedef struct mend_streams {
    const mend_driver *driver;
    mend_context context;     /* streams of other contexts are refused */
    mend_stream_state *items; /* [MEND_STREAM_UNKNOWN] stands for no stream */
    uint32_t count;
    uint32_t capacity;
    uint32_t last_found; /* index of the stream asked for last */
    mend_event *spare_events;
    size_t spare_count;
    size_t spare_capacity;
    uint64_t events_held; /* created and not destroyed */
    uint64_t stream_waits;
    uint64_t host_waits;
    mend_status broken; /* a status that means the context is lost, or OK */
} mend_streams;

mend_result mend_streams_init(mend_streams *streams, const mend_driver *driver,
                              mend_context context);

/* Destroys all events. Reaches the driver; goes on when it refuses, and returns its first answer.
 */
mend_status mend_streams_clear(mend_streams *streams);

/*
 * The index of a stream, registering it when it is new. Reaches the driver for a new stream and for
 * the per-thread stream. MEND_ERROR_UNKNOWN_STREAM (another context, or the driver does not know
 * it), MEND_ERROR_OUT_OF_HOST_MEMORY.
 */
mend_result mend_streams_find(mend_streams *streams, mend_stream handle, uint32_t *index);

/* The index of a stream the pool has seen; false when it has not. */
bool mend_streams_lookup(mend_streams *streams, mend_stream handle, uint32_t *index);

/* More than one stream has been seen, or memory was freed without one. */
bool mend_streams_are_several(const mend_streams *streams);

/* Stamps bytes freed now. Cannot fail, calls nothing. */
mend_stamp mend_streams_stamp(mend_streams *streams, uint32_t stream, uint64_t size_bytes);

/* The work behind the stamp is known to be done. */
bool mend_stamp_has_passed(const mend_streams *streams, mend_stamp stamp);

/* `stream` may use the memory now: its own, done, or behind a wait made earlier. */
bool mend_stamp_is_ready(const mend_streams *streams, mend_stamp stamp, uint32_t stream);

/* A stream can be made to wait for the stamp on the device: its epoch is closed. */
bool mend_stamp_can_be_waited_for(const mend_streams *streams, mend_stamp stamp);

/* Whether events can be recorded on a stream, and waits queued. */
typedef enum mend_reach {
    MEND_REACH_OPEN,
    MEND_REACH_CAPTURED, /* work queued now would end up in a graph */
    MEND_REACH_GONE      /* its handle means another stream: it is the per-thread stream of another
                            thread, or was destroyed without a word */
} mend_reach;

/* Reaches the driver. MEND_ERROR_DRIVER, MEND_ERROR_DEVICE_LOST. */
mend_result mend_streams_reach(mend_streams *streams, uint32_t stream, mend_reach *reach);

/* Records the event of the open epoch, if anything is stamped with it. Does nothing for a stream
 * out of reach: its memory waits for the context then. Reaches the driver.
 * MEND_ERROR_OUT_OF_HOST_MEMORY, MEND_ERROR_DRIVER, MEND_ERROR_DEVICE_LOST. */
mend_result mend_streams_close_epoch(mend_streams *streams, uint32_t stream);

/* Asks the oldest events whether they have passed. True when any has. Reaches the driver. */
bool mend_streams_poll(mend_streams *streams);

/* Makes `waiter` wait, on the device, for the stamp, which can be waited for. Reaches the driver.
 * Errors as close_epoch. */
mend_result mend_streams_make_wait(mend_streams *streams, uint32_t waiter, mend_stamp stamp);

/*
 * Waits on the host for the oldest fence of any stream but `except`, closing epochs first; for the
 * whole context when only memory is left for which no event can be recorded (freed without a
 * stream, or on one out of reach). *waited is false when there was nothing
 * to wait for. Errors as close_epoch.
 */
mend_result mend_streams_wait_oldest(mend_streams *streams, uint32_t except, bool *waited);

/* Records what is pending and gives up the handle. Errors as close_epoch,
 * MEND_ERROR_UNKNOWN_STREAM: nothing changed then. */
mend_result mend_streams_forget(mend_streams *streams, uint32_t stream);

/* A status after which every call of the context fails. */
bool mend_status_is_fatal(mend_status status);

#endif
