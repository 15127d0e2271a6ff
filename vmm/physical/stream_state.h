/*
 * The state of each stream, and of all: the records that the files of this room work on.
 * physical/stream.h explains epochs, stamps and groups.
 *
 * Guarded by the heap's `state` lock. Nothing here calls the driver.
 */
#ifndef MEND_PHYSICAL_STREAM_STATE_H
#define MEND_PHYSICAL_STREAM_STATE_H

#include <stdbool.h>

#include "base/history.h"
#include "base/list.h"
#include "base/mutex.h"
#include "base/process.h"
#include "driver/driver.h"

/* The index for memory that was freed without a stream: only a wait for the context makes it
 * idle. */
enum { MEND_STREAM_UNKNOWN = 0 };

/* Added to the numbers of groups that the pool makes for captures. */
#define MEND_GROUP_OF_CAPTURE (UINT32_C(1) << 31)

/* "All that was freed on `stream` up to `epoch`." Epoch 0: nothing, idle. */
typedef struct mend_stamp {
    uint64_t epoch;
    uint32_t stream;
} mend_stamp;

typedef struct mend_fence {
    uint64_t epoch;
    uint64_t bytes; /* freed in the epochs that it alone covers */
    mend_event event;
    mend_context context; /* of the event, and of the stream it was recorded on */
} mend_fence;

/* The most events of the context that wait at a time. A later one covers what an earlier one does,
 * so once there are as many, the last one gives way to the next. */
enum { MEND_CONTEXT_EVENTS = 4 };

/* One event of the pool's context, and one of each other device's whose streams use the memory: all
 * must pass. */
typedef struct mend_context_event {
    mend_event own;
    mend_event others[MEND_DEVICE_LIMIT]; /* by device; NULL: none */
} mend_context_event;

/* What an event of the context, or a wait for it, covers of a stream. */
typedef struct mend_awaited {
    uint64_t epoch; /* the last one; 0: none */
    uint64_t bytes; /* freed in epochs that it alone covers; 0 if it closed none */
    bool was_open;  /* value of `open` when it began */
} mend_awaited;

/* A slot's place in a list of slots; index 0 ends it. */
typedef struct mend_slot_link {
    uint32_t next;
    uint32_t previous;
} mend_slot_link;

typedef struct mend_stream_state {
    mend_stream handle;
    uint64_t thread;      /* number of the thread whose per-thread stream it is; 0: another
                           * stream */
    uint64_t id;          /* unique, unlike the handle; 0: not known yet, because the stream was
                           * captured each time that the driver was asked */
    uint64_t capture_id;  /* if id is 0: the capture in which the stream was first seen */
    bool is_double;       /* an older slot has the same stream */
    bool serves_capture;  /* of a group that a call named on a captured stream: no watch tells when
                           * that capture ends */
    uint64_t freed_by;    /* number of the last freed block that this stream used */
    uint32_t freed_next;  /* the next user of that block; or UNKNOWN */
    uint64_t users;       /* nodes of live blocks that name the slot; not reused before it is 0 */
    bool has_ended;       /* forgotten, or its group was released: it gets no more stamps */
    mend_context context; /* of the stream and of its events; known with the id */
    uint32_t group;       /* its group, plus MEND_GROUP_OF_CAPTURE if a capture made the group; 0:
                           * none */
    bool known;           /* false: forgotten; the slot waits for its fences */
    mend_slot_link by_handle; /* the lists that the slot is in: see slots.h */
    mend_slot_link by_pair;   /* next: the next free slot, too */
    mend_slot_link in_group;
    mend_slot_link in_captures;
    bool is_free_slot;     /* free for a new stream */
    bool was_found;        /* looked up since the last collection */
    bool seen_captured;    /* the driver's last answer */
    uint64_t seen_capture; /* if so: the capture; 0: one that was invalidated */
    bool open;             /* the open epoch has frees, which no fence covers */
    uint64_t open_bytes;   /* bytes freed in the open epoch */
    uint64_t open_epoch;   /* from 1 */
    uint64_t passed_epoch; /* all stamps up to this one have passed */
    uint64_t due_epoch;    /* the current host waits are for epochs up to this one */
    uint64_t first_epoch;  /* the open epoch when the slot was made */
    uint32_t recordings;   /* closed epochs whose fences are not yet in `fences` */
    uint32_t calls;        /* calls in progress, without the `state` lock, that use the stream */
    mend_awaited awaited[MEND_CONTEXT_EVENTS + 1]; /* by each of context_events, and by the one
                                                    * that is made now, or the current wait */
    mend_fence *fences; /* not yet passed, oldest first; there is room for `recordings` more */
    size_t fence_count;
    size_t fence_capacity;
    uint64_t *waited_epochs; /* by stream index: the epoch that this stream waits for on the
                              * device */
    size_t waited_capacity;
} mend_stream_state;

/* A stream that the program will capture. The program keeps it alive, or forgets it. */
typedef struct mend_watch {
    mend_list link;
    mend_stream handle; /* MEND_EVERY_STREAM: any stream */
} mend_watch;

typedef struct mend_streams {
    const mend_driver *driver;
    mend_context context;
    uint64_t foreign_devices; /* bit n: streams of device n use the memory (foreign.h) */
    mend_context foreign[MEND_DEVICE_LIMIT]; /* their contexts, by device */
    bool verify; /* streams may be destroyed without mend_forget_stream: a handle may mean another
                  * stream at any time, so every lookup asks the driver, and nothing else asks about
                  * the stream */
    bool serves_any;   /* memory was requested for use on any stream, so it matters what is idle */
    bool looks_ahead;  /* while the pool computes what waits would bring, without driver calls:
                        * stamps that the host could wait for count as awaitable */
    mend_list watches; /* see capture.h */
    mend_stream_state *items; /* [MEND_STREAM_UNKNOWN] is for memory freed without a stream */
    uint32_t count;
    uint32_t capacity;
    uint32_t *buckets;        /* heads of the lists of slots: see slots.h */
    uint32_t bucket_count;    /* of each kind */
    uint32_t first_free_slot; /* index, or UNKNOWN */
    uint32_t collect_at;      /* number of slots at which to collect */
    bool wants_collection;
    uint32_t last_found;     /* the last stream looked up, outside all groups; or UNKNOWN */
    mend_stream last_handle; /* its handle, which identifies it */
    mend_event *idle_events;
    size_t idle_event_count;
    size_t idle_event_capacity;
    uint64_t passes;      /* number of times that stamps may have passed */
    uint64_t events_held; /* created and not destroyed yet */
    mend_context_event context_events[MEND_CONTEXT_EVENTS]; /* recorded, oldest first: `awaited` */
    uint32_t context_event_count;
    bool lacks_context_events; /* the driver is too old for them */
    uint32_t hidden_captures;  /* such events that the driver refused, and waits that an unknown
                                * capture refused, which is lost: the pool tries less often */
    mend_condition call_ended; /* `calls` of some stream fell to 0 */
    uint32_t call_waiters;     /* threads that wait for call_ended */
    uint64_t stream_waits;
    uint64_t host_waits;
    uint64_t context_fences;
    mend_history *history; /* NULL: none */
} mend_streams;

/* The last epoch that an event of the context covers, or the current wait for it; 0: none. */
static inline uint64_t mend_stream_awaited_epoch(const mend_stream_state *state)
{
    uint64_t epoch = 0;
    for (int k = 0; k <= MEND_CONTEXT_EVENTS; k++) {
        epoch = state->awaited[k].epoch > epoch ? state->awaited[k].epoch : epoch;
    }
    return epoch;
}

/* Clears the last lookup, because a stream is no longer known. */
static inline void mend_streams_look_up_anew(mend_streams *streams)
{
    streams->last_found = MEND_STREAM_UNKNOWN;
    streams->last_handle = MEND_NO_STREAM;
}

/* Makes room for `count` elements of an array, zeroed. False if malloc fails: nothing changed. */
bool mend_streams_grow(void *array, size_t *capacity, size_t count, size_t element_bytes);

#endif
