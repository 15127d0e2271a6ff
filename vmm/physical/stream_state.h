/*
 * What a pool keeps of each stream, and of all: the records on which the files of this room work.
 * physical/stream.h says what epochs, stamps and groups are.
 *
 * Guarded by the pool's lock. Nothing here reaches the driver.
 */
#ifndef MEND_PHYSICAL_STREAM_STATE_H
#define MEND_PHYSICAL_STREAM_STATE_H

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

/* A stream is known no more: it is not found by the handle. */
static inline void mend_streams_look_up_anew(mend_streams *streams)
{
    streams->last_found = MEND_STREAM_UNKNOWN;
    streams->last_handle = MEND_NO_STREAM;
}

/* Makes room for `count` elements of an array, zeroed; false when malloc fails: nothing changed. */
bool mend_streams_grow(void *array, size_t *capacity, size_t count, size_t element_bytes);

#endif
