/*
 * The stamps that must pass before a stretch of memory is idle: one stamp almost always, several if
 * several streams used it. Further stamps are nodes of a slab. Each function that adds stamps says
 * how many nodes to reserve.
 *
 * Guarded by the heap's `state` lock. Functions below "---- capture.c ----" call the driver, with
 * the pool's context current, unless their comment says otherwise.
 */
#ifndef MEND_MEMORY_WAITS_H
#define MEND_MEMORY_WAITS_H

#include "base/slab.h"
#include "memory/stream.h"

typedef struct mend_wait {
    mend_stamp stamp;
    struct mend_wait *next;
} mend_wait;

/* Idle if first.epoch is 0 and there are no others. At most one stamp for each stream. */
typedef union mend_waits {
    struct {
        mend_stamp first;
        mend_wait *others;
    };
    mend_wait all; /* the same: the first of all stamps, which may be idle */
} mend_waits;

/* The environment of stamps: the fences, which tell whether a stamp has passed, and the nodes. */
typedef struct mend_wait_env {
    mend_streams *streams;
    mend_slab *nodes;
} mend_wait_env;

/* The number of nodes. */
static inline size_t mend_waits_count_others(const mend_waits *waits)
{
    size_t count = 0;
    for (const mend_wait *at = waits->others; at != NULL; at = at->next) {
        count++;
    }
    return count;
}

/* Adds a stamp to those behind the first, which have none of its stream. Needs one node. */
static inline void mend_waits_push(mend_wait_env env, mend_waits *waits, mend_stamp stamp)
{
    mend_wait *node = mend_slab_take_as_it_is(env.nodes);
    *node = (mend_wait){stamp, waits->others};
    waits->others = node;
}

/* Adds a user of live memory, which is none of it yet: a node without an epoch, which the slot of
 * the stream counts. Needs one node. */
static inline void mend_waits_add_user(mend_wait_env env, mend_waits *waits, uint32_t stream)
{
    env.streams->items[stream].users++;
    mend_waits_push(env, waits, (mend_stamp){0, stream});
}

/* The memory is freed, as the `number`th that had users: each gets a stamp, but `freed_on`, and no
 * stamp stays that it is behind. The first stamp is the caller's. */
void mend_waits_end_uses(mend_wait_env env, mend_waits *waits, uint32_t freed_on,
                         uint64_t size_bytes, uint64_t number);

/* Adds a stamp, unless it has passed or a later stamp of its stream is there. Needs one node. */
void mend_waits_add_other(mend_wait_env env, mend_waits *waits, mend_stamp stamp);
static inline void mend_waits_add(mend_wait_env env, mend_waits *waits, mend_stamp stamp)
{
    assert(stamp.stream < env.streams->count);
    assert(stamp.epoch <= env.streams->items[stamp.stream].open_epoch);
    if (stamp.epoch == 0 || mend_stamp_has_passed(env.streams, stamp)) {
        return;
    }
    if (waits->first.epoch == 0) {
        waits->first = stamp;
    } else {
        mend_waits_add_other(env, waits, stamp);
    }
}

/* Adds all of `from` to `to`. Needs as many nodes as there are streams. */
static inline void mend_waits_add_all(mend_wait_env env, mend_waits *to, const mend_waits *from)
{
    assert(to != from);
    for (const mend_wait *at = &from->all; at != NULL; at = at->next) {
        mend_waits_add(env, to, at->stamp);
    }
}

/* Removes stamps that have passed. True if nothing is left. */
bool mend_waits_drop_passed_of_several(mend_wait_env env, mend_waits *waits);
static inline bool mend_waits_drop_passed(mend_wait_env env, mend_waits *waits)
{
    if (waits->others != NULL) {
        return mend_waits_drop_passed_of_several(env, waits);
    }
    if (waits->first.epoch != 0 && mend_stamp_has_passed(env.streams, waits->first)) {
        waits->first = (mend_stamp){0};
    }
    return waits->first.epoch == 0;
}

/* Whether all stamps are ready for `stream` or, with behind_wait, can be made so by a wait on the
 * device. */
static inline bool mend_waits_stamp_is_ready(const mend_streams *streams, mend_stamp stamp,
                                             uint32_t stream, uint64_t behind_wait)
{
    return stamp.epoch == 0 || mend_stamp_is_ready(streams, stamp, stream) ||
           (behind_wait != 0 && mend_stamp_can_be_awaited(streams, stamp, behind_wait));
}
static inline bool mend_waits_are_ready(const mend_streams *streams, const mend_waits *waits,
                                        uint32_t stream, uint64_t behind_wait)
{
    const mend_wait *at = &waits->all;
    while (at != NULL && mend_waits_stamp_is_ready(streams, at->stamp, stream, behind_wait)) {
        at = at->next;
    }
    return at == NULL;
}

/* One of the stamps that are not ready. */
mend_stamp mend_waits_first_blocking(const mend_streams *streams, const mend_waits *waits,
                                     uint32_t stream, uint64_t behind_wait);

/* Why a stream cannot use free memory: bits, several may be set. */
enum {
    MEND_BLOCKED_BY_STREAMS = 1, /* work of streams may still use it */
    MEND_BLOCKED_UNTIL_WAIT = 2, /* freed without a stream, or on one that is unknown by now: only a
                                  * wait for the context makes it idle */
    MEND_BLOCKED_BY_GRAPH_POOLS = 4, /* graphs may still use it */
    MEND_BLOCKED_BY_ANY = 7
};

/* Why `stream` cannot use the memory, or 0. For MEND_STREAM_UNKNOWN: why it is not idle. */
unsigned mend_waits_blocked_by(const mend_streams *streams, const mend_waits *waits,
                               uint32_t stream);

/* Whether captured graphs may still use free memory. */
static inline bool mend_waits_for_graphs(const mend_streams *streams, const mend_waits *waits)
{
    return (mend_waits_blocked_by(streams, waits, MEND_STREAM_UNKNOWN) &
            MEND_BLOCKED_BY_GRAPH_POOLS) != 0;
}

/* Returns the nodes to the slab. The waits are idle then. */
static inline void mend_waits_clear(mend_wait_env env, mend_waits *waits)
{
    while (waits->others != NULL) {
        mend_wait *node = waits->others;
        waits->others = node->next;
        mend_slab_give(env.nodes, node);
    }
    waits->first = (mend_stamp){0};
}

/* ---- capture.c ------------------------------------------------------------------------------- */

/*
 * No driver call lists all captures. The pool finds the captures of
 *  - blocking streams, per-thread streams included: the legacy stream of their device is then
 *    unusable.
 *  - watched streams: of graph pools that are begun, in any pool of the process, and streams that
 *    another pool saw captured.
 *  - known streams: named by a call outside of graph pools, and not forgotten. With
 *    detect_destroyed_streams (`verify`), it asks only about the stream that a call names.
 * It learns of any other capture only when the driver refuses an event of the context, or a wait
 * for it, which invalidates the capture.
 */

/* Whether any stream is being captured, as far as the pool can know. `asking` is the stream that
 * the current call names (MEND_STREAM_UNKNOWN: none). */
mend_result mend_streams_find_capture(mend_streams *streams, uint32_t asking, bool *is_captured);

/* The same when the pool is destroyed, perhaps after its streams: of the known streams it asks only
 * streams seen captured. */
mend_result mend_streams_find_capture_at_end(mend_streams *streams, bool *is_captured);

/* Before a graph pool is released: a stream that only its slot has seen captured gets one outside
 * of graph pools. So no wait for the context breaks that capture. A default stream needs none: the
 * legacy stream is asked. After a failure the graph pool stays. Calls no driver. */
mend_result mend_streams_keep_captured(mend_streams *streams, uint32_t graph_pool);

/* For a stream in a capture of a graph pool: finds its other streams whose recorded work precedes
 * the next work of this one in the graph. Memory that they freed so far is then ready for it. A
 * stream that was also used outside of captures is left out, because a graph does not wait for
 * that. Asks the driver. Unanswered questions stay unknown. */
void mend_streams_learn_order(mend_streams *streams, uint32_t waiter, uint64_t capture);

/* ---- context.c ------------------------------------------------------------------------------- */

/* An event of the context, kept or new. */
mend_result mend_streams_take_event(mend_streams *streams, mend_context context, mend_event *event);

/* Keeps an event for reuse. Destroys it if it is of a green context. */
void mend_streams_keep_event(mend_streams *streams, mend_event event, mend_context context);

/* Records an event for the open epoch of the stream, if the epoch has frees. Does nothing for a
 * stream out of reach or of a graph pool: that memory waits for the context, or for the release of
 * the graph pool. */
mend_result mend_streams_close_named(mend_streams *streams, uint32_t stream);

/* The same for a stream that the current call does not name. Does nothing with
 * detect_destroyed_streams: the stream may not exist any more. */
mend_result mend_streams_close_epoch(mend_streams *streams, uint32_t stream);

/* Records events on `recorder` that cover the open epochs of a graph pool. MEND_ERROR_CAPTURING,
 * MEND_ERROR_UNKNOWN_STREAM: `recorder` is out of reach. */
mend_result mend_streams_close_graph_pool(mend_streams *streams, uint32_t graph_pool,
                                          uint32_t recorder);

/* Removes the first `count` fences of the stream, which have passed. Calls the driver only for
 * events of green contexts. */
void mend_streams_pass_fences(mend_streams *streams, mend_stream_state *state, size_t count);

/* A call that uses the stream while it releases the lock: the slot stays. Calls no driver. */
static inline void mend_streams_begin_call(mend_streams *streams, uint32_t stream)
{
    streams->items[stream].calls++;
}
void mend_streams_end_call(mend_streams *streams, uint32_t stream);

/* All calls below need the `grow` lock too, unless their comment says otherwise, and release
 * `state` while they stall the CPU, record an event or queue a wait, which block while the stream's
 * queue is full. Afterwards streams and frees may have changed. */

/* Waits for all work of the pool's context and of the others. *waits: number of contexts waited
 * for, also if a later one fails. */
mend_answer mend_foreign_synchronize(const mend_streams *streams, uint64_t *waits);

/* Counts waits of the host, with an event for each. Calls no driver. */
void mend_streams_note_host_waits(mend_streams *streams, uint64_t count);

/* Queries the events, the oldest first. True if any has passed. */
bool mend_context_poll(mend_streams *streams);

/* Records an event for all work of the context, if the driver can (lacks_context_events), and no
 * capture that a pool of the process knows of forbids it. It covers all frees made so far, with a
 * stream or without. */
mend_result mend_streams_record_context(mend_streams *streams, uint32_t asking);

/* Waits for the oldest such event, which is recorded if there is none, or else for the context. If
 * the event has passed already, the host does not wait. MEND_ERROR_CAPTURING. */
mend_result mend_streams_wait_unfenced(mend_streams *streams, uint32_t asking);

/* Waits for all work of the pool's context, and of the contexts of other devices whose streams use
 * the memory. All earlier frees are then idle. `asking` is the stream that needs memory.
 * MEND_ERROR_CAPTURING: a capture forbids it. */
mend_result mend_streams_wait_context(mend_streams *streams, uint32_t asking);

/* ---- fence.c --------------------------------------------------------------------------------- */

/* Queries the oldest events of each stream. True if any has passed. */
bool mend_streams_poll(mend_streams *streams);

/* `state` was released, so earlier findings of the caller may be stale. An internal result, never
 * returned to the program. */
#define MEND_LOOK_AGAIN ((mend_result)-1)

/* Makes `waiter` wait, on the device, for a stamp that has a fence. MEND_OK: it already waits for
 * it. MEND_LOOK_AGAIN: the wait was queued now. */
mend_result mend_streams_make_wait(mend_streams *streams, uint32_t waiter, mend_stamp stamp);

/* From here on CPU stalls are only for frees made so far, not for later frees of other threads, so
 * that they end. No driver call. */
void mend_streams_begin_host_waits(mend_streams *streams);

/*
 * Closes epochs, then waits for the oldest fence of any stream, with or without `asking`, the
 * stream that needs memory. If only memory without a fence is left (freed without a stream, or on a
 * stream out of reach), it waits for the context. *waited is false if there was nothing to wait
 * for. MEND_ERROR_CAPTURING: only a wait for the context is left, and a capture forbids it.
 */
mend_result mend_streams_wait_oldest(mend_streams *streams, uint32_t asking, bool with_asking,
                                     bool *waited);

/* Records the open epoch and unregisters the stream. Before the program may destroy the stream,
 * wait for calls that use it (mend_streams_await_calls). MEND_ERROR_CAPTURING. */
mend_result mend_streams_forget(mend_streams *streams, uint32_t stream);

/* Waits for calls of other threads that use the stream. Releases `lock`, the heap's `state`,
 * meanwhile. */
void mend_streams_await_calls(mend_streams *streams, uint32_t stream, mend_mutex *lock);

#endif
