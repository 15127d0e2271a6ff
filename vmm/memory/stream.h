/*
 * Streams and stamps: when memory that a stream used becomes idle.
 *
 * Each stream counts epochs. A free in its order is stamped with the open epoch. Closing the epoch
 * records one event that covers all of it (memory/waits.h). Later frees belong to the next epoch. A
 * stamp has passed when its event has.
 *
 * A graph pool has its own streams, one for each stream that it is used on. Memory freed there is
 * ready only for the same stream of the same graph pool, until the graph pool is released.
 *
 * Guarded by the heap's `state` lock. Calls that reach the driver say so and need a current
 * context.
 */
#ifndef MEND_MEMORY_STREAM_H
#define MEND_MEMORY_STREAM_H

#include <assert.h>
#include <stdbool.h>

#include "base/events.h"
#include "base/process.h"
#include "base/thread.h"
#include "driver/driver.h"

/* ---- stream.c -------------------------------------------------------------------------------- */

/* The index for memory that was freed without a stream: only a wait for the context makes it
 * idle. */
enum { MEND_STREAM_UNKNOWN = 0 };

/* Added to the numbers of graph pools that the pool makes for captures. */
#define MEND_GRAPH_POOL_OF_CAPTURE (UINT32_C(1) << 31)

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
    uint64_t order;       /* mend_streams.closed_bytes when its epoch was closed */
} mend_fence;

/* Instead of an order: fences of any, and stamps that only events of the context cover. */
#define MEND_ANY_FENCE UINT64_MAX

/* The most events of the context that wait at a time. A later one covers all earlier ones, so once
 * there are as many, the next one replaces the last. */
enum { MEND_CONTEXT_EVENTS = 4 };

/* Contexts by number: the pool's own, then those of devices whose streams use the memory, each at
 * its device's number plus one. */
enum { MEND_OWN_CONTEXT = 0, MEND_CONTEXTS = MEND_DEVICE_LIMIT + 1 };

/* An event of each context: all must pass. */
typedef struct mend_context_event {
    mend_event of[MEND_CONTEXTS]; /* NULL: none */
} mend_context_event;

/* The epochs of a stream that an event of the context, or a wait for it, covers. */
typedef struct mend_awaited {
    uint64_t epoch; /* the last one. 0: none */
    uint64_t bytes; /* freed in epochs that it alone covers. 0 if it closed none */
    bool was_open;  /* value of `open` when it began */
} mend_awaited;

/* The lists that slots are in. The first three have a head for each key, which other keys may
 * share: known slots with one handle. Those with one handle and graph pool. All slots of one graph
 * pool. The slots outside of all graph pools are a ring, which [MEND_STREAM_UNKNOWN] begins and
 * ends, as those last seen captured, and those with frees that have not passed. */
typedef enum mend_slot_list {
    MEND_SLOTS_OF_HANDLE,
    MEND_SLOTS_OF_PAIR,
    MEND_SLOTS_OF_GRAPH_POOL,
    MEND_SLOTS_WITH_HEADS,
    MEND_SLOTS_CAPTURED = MEND_SLOTS_WITH_HEADS,
    MEND_SLOTS_UNPASSED,
    MEND_SLOT_LISTS
} mend_slot_list;

/* A slot's place in a list of slots. Index 0 ends it. */
typedef struct mend_slot_link {
    uint32_t next;
    uint32_t previous;
} mend_slot_link;

/* A stream that the program will capture, or that a pool saw captured, for all pools of the process
 * that could spoil the capture: each asks the driver about it (mend_process_watches). The stream
 * exists until the watch has ended. */
typedef struct mend_watch {
    mend_process_member member; /* its number is 0 while the stream is not watched */
    mend_stream handle;         /* MEND_EVERY_STREAM: any stream that the asking pool knows */
    const struct mend_streams *owner;
    bool was_seen; /* captured, by the owner, which asks about the slot */
} mend_watch;

typedef struct mend_stream_state {
    mend_stream handle;
    uint64_t thread;      /* number of the thread whose per-thread stream it is. 0: another
                           * stream */
    uint64_t id;          /* unique, unlike the handle. 0: not known yet, because the stream was
                           * captured each time that the driver was asked */
    uint64_t capture_id;  /* if id is 0: the capture in which the stream was first seen */
    bool serves_capture;  /* of a graph pool that a call named on a captured stream: no watch tells
                           * when that capture ends */
    bool has_ended;       /* forgotten, or its graph pool was released: it gets no more stamps */
    bool known;           /* false: forgotten. The slot waits for its fences */
    uint32_t graph_pool;  /* its graph pool, plus MEND_GRAPH_POOL_OF_CAPTURE if a capture made the
                           * graph pool. 0: none */
    uint64_t freed_by;    /* number of the last freed block that this stream used */
    uint64_t users;       /* nodes of live blocks that name the slot. Not reused before it is 0 */
    mend_context context; /* of the stream and of its events. Known with the id */
    mend_slot_link in[MEND_SLOT_LISTS]; /* a free slot: the next one, in [MEND_SLOTS_OF_PAIR] */
    bool is_free_slot;                  /* free for a new stream */
    bool is_unpassed;      /* in [MEND_SLOTS_UNPASSED], or UNKNOWN's, once it had a free */
    bool was_found;        /* looked up since the last collection */
    bool used_outside;     /* of a graph pool: a call named it while nothing captured it */
    bool seen_captured;    /* the driver's last answer */
    mend_watch *watch;     /* while it is so. The slot's own */
    bool open;             /* the open epoch has frees, which no fence covers */
    uint64_t seen_capture; /* if so: the capture. 0: one that was invalidated */
    uint64_t named_in;     /* of a graph pool: the last capture in which a call named it */
    uint64_t open_bytes;   /* bytes freed in the open epoch */
    uint64_t open_epoch;   /* from 1 */
    uint64_t passed_epoch; /* all stamps up to this one have passed */
    uint64_t due_epoch;    /* the current CPU stalls are for epochs up to this one */
    uint64_t first_epoch;  /* the open epoch when the slot was made */
    uint32_t recordings;   /* closed epochs whose fences are not yet in `fences` */
    uint32_t calls;        /* calls in progress, without the `state` lock, that use the stream */
    mend_awaited awaited[MEND_CONTEXT_EVENTS + 1]; /* by each of context_events, and by the one that
                                                    * is made now, or the current wait */
    mend_fence *fences; /* not yet passed, oldest first. There is space for `recordings` more */
    size_t fence_count;
    size_t fence_capacity;
    uint64_t *waited_epochs; /* by stream index: the epoch that this stream waits for on the
                              * device */
    size_t waited_capacity;
} mend_stream_state;

typedef struct mend_streams {
    const mend_driver *driver;
    const mend_process_member *home;      /* the pool, with its device */
    mend_context contexts[MEND_CONTEXTS]; /* NULL: no stream of it uses the memory */
    bool verify;           /* streams may be destroyed without mend_unregister_stream: a handle may
                            * mean another stream at any time, so every lookup asks the driver, and
                            * nothing else asks about the stream */
    bool may_be_several;   /* mend_streams_are_several has been true once */
    bool serves_any;       /* memory was requested for use on any stream, so idle memory matters */
    uint64_t closed_bytes; /* freed in all closed epochs, by which fences are ordered */
    mend_stream_state *items; /* [MEND_STREAM_UNKNOWN] is for memory freed without a stream */
    uint32_t count;
    uint32_t known_count; /* of these, known and outside all graph pools */
    uint32_t capacity;
    uint32_t *buckets;        /* heads of MEND_SLOTS_WITH_HEADS lists */
    uint32_t bucket_count;    /* of each kind */
    uint32_t first_free_slot; /* index, or UNKNOWN */
    uint32_t collect_at;      /* number of slots at which to collect */
    bool wants_collection;
    bool serves_graph_pools; /* a graph pool is begun, which may take a request: none is kept as
                              * ... */
    uint32_t last_found;     /* the last stream looked up, outside all graph pools, or UNKNOWN */
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
    pthread_cond_t call_ended; /* `calls` of some stream fell to 0 */
    uint32_t call_waiters;     /* threads that wait for call_ended */
    uint64_t stream_waits;
    uint64_t host_waits;
    uint64_t context_fences;
    mend_events *events; /* NULL: none */
} mend_streams;

/* The last epoch that an event of the context covers, or the current wait for it. 0: none. */
static inline uint64_t mend_stream_awaited_epoch(const mend_stream_state *state)
{
    uint64_t epoch = 0;
    for (int k = 0; k <= MEND_CONTEXT_EVENTS; k++) {
        epoch = state->awaited[k].epoch > epoch ? state->awaited[k].epoch : epoch;
    }
    return epoch;
}

/* Which of the stream's fences is the first that covers the epoch. Their number: none. */
static inline size_t mend_stream_first_fence(const mend_stream_state *state, uint64_t epoch)
{
    size_t at = 0;
    while (at < state->fence_count && state->fences[at].epoch < epoch) {
        at++;
    }
    return at;
}

/* Clears the last lookup, because a stream is no longer known. */
static inline void mend_streams_look_up_anew(mend_streams *streams)
{
    streams->last_found = MEND_STREAM_UNKNOWN;
    streams->last_handle = MEND_NO_STREAM;
}

mend_result mend_streams_init(mend_streams *streams, const mend_driver *driver,
                              const mend_process_member *home, mend_context context, bool verify,
                              mend_events *events);

/* Destroys all events, and closes the other devices. Calls the driver. Goes on after a refusal, and
 * returns the first one. */
mend_answer mend_streams_clear(mend_streams *streams);

/*
 * The index of a stream in a graph pool (0: none). Registers the stream if it is new. Calls the
 * driver for a new stream, for the per-thread stream, and for every stream if `verify` is set.
 *
 * The identity of a captured stream cannot be asked for. A new one is known by its handle and its
 * capture, and by its identity from the first time that it is reached without a capture. With
 * `verify` that is another slot, and what it freed before waits for the context.
 *
 * MEND_ERROR_UNKNOWN_STREAM (the stream's context is neither a device's primary one nor a green
 * one, or the driver does not know the stream), MEND_ERROR_CAPTURING (the identity must be
 * verified, but the stream's capture was invalidated).
 */
mend_result mend_streams_find(mend_streams *streams, mend_stream handle, uint32_t graph_pool,
                              uint32_t *index);

/* Whether the handle identifies the stream, without asking the driver. */
static inline bool mend_streams_handle_suffices(const mend_streams *streams, mend_stream handle)
{
    return handle != MEND_STREAM_PER_THREAD && !streams->verify;
}

/* The index of a known stream, by its handle alone. MEND_STREAM_UNKNOWN if there is none. Usually
 * it is the stream of the last lookup. */
uint32_t mend_streams_lookup_other(mend_streams *streams, mend_stream handle, uint32_t graph_pool);
static inline uint32_t mend_streams_lookup(mend_streams *streams, mend_stream handle,
                                           uint32_t graph_pool)
{
    return handle == streams->last_handle && graph_pool == 0
               ? streams->last_found
               : mend_streams_lookup_other(streams, handle, graph_pool);
}

/* Whether memory that was freed without a stream is not known to be idle. */
static inline bool mend_streams_have_unfenced(const mend_streams *streams)
{
    const mend_stream_state *unknown = &streams->items[MEND_STREAM_UNKNOWN];
    return unknown->open || unknown->awaited[0].epoch != 0;
}

/* Whether the stamps matter: there is more than one stream, or memory was freed or requested
 * without a stream, or a graph pool holds memory. Memory freed without a stream is not idle before
 * the wait for the context has returned. */
static inline bool mend_streams_are_several(const mend_streams *streams)
{
    return streams->may_be_several &&
           (streams->count > 2 || streams->serves_any || mend_streams_have_unfenced(streams) ||
            (streams->count == 2 && streams->items[1].graph_pool != 0));
}

/* ---- slots.c --------------------------------------------------------------------------------- */

/* The slots outside of all graph pools with frees that have not passed, open or behind fences, are
 * in the order in which they came to be so. Enters a slot, if it is none of a graph pool, and one
 * that is no longer so leaves. */
void mend_slots_enter_unpassed(mend_streams *streams, uint32_t slot);
void mend_slots_leave_passed(mend_streams *streams, uint32_t slot);

/* Visits a ring that MEND_STREAM_UNKNOWN begins and ends. The slot that is visited may leave it. */
#define MEND_SLOTS_EACH_IN(slot, streams, ring)                                                    \
    for (uint32_t slot = (streams)->items[MEND_STREAM_UNKNOWN].in[ring].next,                      \
                  slot##_next = (streams)->items[slot].in[ring].next;                              \
         slot != MEND_STREAM_UNKNOWN;                                                              \
         slot = slot##_next, slot##_next = (streams)->items[slot].in[ring].next)

/* ---- stream.c -------------------------------------------------------------------------------- */

/* The stamp for bytes that are freed now. Cannot fail. Does not call the driver. */
static inline mend_stamp mend_streams_stamp(mend_streams *streams, uint32_t stream,
                                            uint64_t size_bytes)
{
    mend_stream_state *state = &streams->items[stream];
    assert(stream < streams->count && !state->has_ended && !state->is_free_slot);
    assert(state->open_epoch > state->passed_epoch);
    if (!state->is_unpassed) {
        mend_slots_enter_unpassed(streams, stream);
    }
    state->open = true;
    state->open_bytes += size_bytes;
    return (mend_stamp){.epoch = state->open_epoch, .stream = stream};
}

/* The last stamp with frees: it covers all that an ended stream did. */
static inline mend_stamp mend_streams_last_stamp(const mend_streams *streams, uint32_t stream)
{
    assert(stream < streams->count);
    const mend_stream_state *state = &streams->items[stream];
    uint64_t last_epoch = state->open ? state->open_epoch : state->open_epoch - 1;
    return (mend_stamp){.epoch = last_epoch, .stream = stream};
}

/* Whether the work before the stamp is known to be done. */
static inline bool mend_stamp_has_passed(const mend_streams *streams, mend_stamp stamp)
{
    assert(stamp.stream < streams->count);
    return stamp.epoch <= streams->items[stamp.stream].passed_epoch;
}

/* Whether a wait of the stream for this epoch of another was queued before. */
bool mend_stream_awaits(const mend_streams *streams, uint32_t stream, uint32_t other,
                        uint64_t epoch);

/* Whether `stream` may use the memory now: the stamp is its own, has passed, or is behind a wait
 * that was queued before. */
static inline bool mend_stamp_is_ready(const mend_streams *streams, mend_stamp stamp,
                                       uint32_t stream)
{
    const bool is_own = stamp.stream == stream && stream != MEND_STREAM_UNKNOWN;
    return __builtin_expect(is_own, true) || mend_stamp_has_passed(streams, stamp) ||
           mend_stream_awaits(streams, stream, stamp.stream, stamp.epoch);
}

/* Whether an event was recorded that covers the stamp. */
bool mend_stamp_has_fence(const mend_streams *streams, mend_stamp stamp);

/* Whether a stream can be made to wait for the stamp by fences up to this order. */
bool mend_stamp_can_be_awaited(const mend_streams *streams, mend_stamp stamp, uint64_t order);

/* A slot of the stream in a graph pool, if the stream was captured when the driver was last asked,
 * or UNKNOWN. */
uint32_t mend_streams_lookup_captured(const mend_streams *streams, mend_stream handle);

/* A stream ends. Its slots in graph pools stay, but are no longer known, so that a new stream with
 * the same handle does not get them. id 0: every stream with the handle. */
void mend_streams_leave_graph_pools(mend_streams *streams, mend_stream handle, uint64_t id);

/* The graph of the capture has ended, and so has the capture of every stream that was seen in it.
 * All use of the graph pool's memory is over: its freed memory is idle. */
void mend_streams_end_graph_pool(mend_streams *streams, uint32_t graph_pool, uint64_t capture);

/* Whether the pool can record events and queue waits on a stream. */
typedef enum mend_reach {
    MEND_REACH_OPEN,
    MEND_REACH_CAPTURED, /* work queued now would become part of a graph */
    MEND_REACH_GONE      /* the handle means another stream (the per-thread stream of another
                          * thread, or the stream was destroyed without mend_unregister_stream), or
                          * the stream was forgotten */
} mend_reach;

/* Asks the driver, and learns the stream's identity. */
mend_result mend_streams_reach(mend_streams *streams, uint32_t stream, mend_reach *reach);

/* The pool serves the streams of a device, which the driver does not identify. Errors of
 * device_open. */
mend_status mend_foreign_admit_device(mend_streams *streams, int device);

/* Makes a context current until it is left. The pool's own is so already. */
mend_answer mend_foreign_enter(const mend_streams *streams, mend_context context);
void mend_foreign_leave(const mend_streams *streams, mend_context context);

/* The result of a driver call: notes a failure. */
mend_result mend_streams_driver_result(mend_streams *streams, mend_driver_call call,
                                       mend_status status);

/* ---- slots.c --------------------------------------------------------------------------------- */

/* Makes space for `count` elements of an array, zeroed. False if malloc fails: nothing changed. */
bool mend_streams_grow(void *array, size_t *capacity, size_t count, size_t element_bytes);

/* A stream that was destroyed without mend_unregister_stream loses its slot in a collection, which
 * takes unused slots that were not looked up since the one before. So there are at most a few times
 * as many slots as streams in use. Nothing here calls the driver. */

/* The legacy stream has two handles. Slots use this one. */
static inline mend_stream mend_slots_handle(mend_stream handle)
{
    return handle == MEND_STREAM_LEGACY ? NULL : handle;
}

/* The head of a list for a key. */
static inline uint32_t *mend_slots_head(const mend_streams *streams, mend_slot_list list,
                                        uint64_t key)
{
    const uint64_t mixed = key * UINT64_C(0x9E3779B97F4A7C15) >> 32;
    const size_t first = (size_t)list * streams->bucket_count;
    return &streams->buckets[first + (mixed & (streams->bucket_count - 1))];
}

static inline uint64_t mend_slots_key(mend_stream handle, uint64_t thread, uint32_t graph_pool)
{
    return ((uint64_t)(uintptr_t)handle ^ (thread << 32)) +
           graph_pool * UINT64_C(0xD6E8FEB86659FD93);
}

/* The slots with a handle, in no order: known ones, of all graph pools. For the per-thread handle,
 * slots of the calling thread. A lost slot is no longer in the chain. */
uint32_t mend_slots_first(const mend_streams *streams, mend_stream handle);
uint32_t mend_slots_next(const mend_streams *streams, uint32_t slot);

/* All slots of a graph pool, in no order. Lost ones, too. Of graph pool 0 in the order of creation,
 * without free ones: [MEND_STREAM_UNKNOWN] begins and ends the list. A slot stays while a call uses
 * it, so that a walk may release `state` then. */
static inline uint32_t mend_slots_skip_others(const mend_streams *streams, uint32_t slot,
                                              uint32_t graph_pool)
{
    while (slot != MEND_STREAM_UNKNOWN && streams->items[slot].graph_pool != graph_pool) {
        slot = streams->items[slot].in[MEND_SLOTS_OF_GRAPH_POOL].next;
    }
    return slot;
}
static inline uint32_t mend_slots_first_of(const mend_streams *streams, uint32_t graph_pool)
{
    const uint32_t head =
        graph_pool == 0 ? streams->items[MEND_STREAM_UNKNOWN].in[MEND_SLOTS_OF_GRAPH_POOL].next
                        : *mend_slots_head(streams, MEND_SLOTS_OF_GRAPH_POOL, graph_pool);
    return mend_slots_skip_others(streams, head, graph_pool);
}
static inline uint32_t mend_slots_next_of(const mend_streams *streams, uint32_t slot)
{
    const mend_stream_state *state = &streams->items[slot];
    return mend_slots_skip_others(streams, state->in[MEND_SLOTS_OF_GRAPH_POOL].next,
                                  state->graph_pool);
}
/* Visits them, or the slots of graph pool 0 after MEND_STREAM_UNKNOWN. */
#define MEND_SLOTS_EACH(slot, streams, graph_pool)                                                 \
    for (uint32_t slot = mend_slots_first_of(streams, graph_pool); slot != MEND_STREAM_UNKNOWN;    \
         slot = mend_slots_next_of(streams, slot))
#define MEND_SLOTS_EACH_AND_UNKNOWN(slot, streams)                                                 \
    for (uint32_t slot = MEND_STREAM_UNKNOWN, slot##_left = 1; slot##_left != 0;                   \
         slot = mend_slots_next_of(streams, slot), slot##_left = slot != MEND_STREAM_UNKNOWN)

/* Begins and ends a watch, if it has not. The end waits for other pools that ask the driver about
 * the stream at this moment. Neither calls the driver. */
void mend_watch_begin(const mend_streams *streams, mend_watch *watch, mend_context context);
void mend_watch_end(mend_watch *watch);

/* The slots of a graph pool become slots of a forgotten stream: the memory waits for its fences, or
 * for the context. */
void mend_streams_release_graph_pool(mend_streams *streams, uint32_t graph_pool);

/* Notes whether the stream was seen captured. Other pools know of it then, but for a default
 * stream, and with detect_destroyed_streams, where nobody may ask. */
void mend_slots_see(mend_streams *streams, uint32_t slot, bool captured, uint64_t capture);

/* A slot for a new stream: a free one, or a new one. */
mend_result mend_slots_add(mend_streams *streams, mend_stream handle, const mend_stream_info *info,
                           uint32_t graph_pool, uint32_t *index);

/* Removes the slot from its handle's lists: the stream is not known any more. */
void mend_slots_lose(mend_streams *streams, uint32_t slot);

/* Frees the slots that are unused and whose streams may have been destroyed. The caller holds the
 * `grow` lock and has not looked up a stream yet. No other thread has the index of a slot that it
 * did not mark as used. mend_streams.wants_collection tells when to call it. */
void mend_slots_collect(mend_streams *streams);

/* Frees host memory. */
void mend_slots_clear(mend_streams *streams);

#endif
