/*
 * Events, recorded only when the pool needs to know that memory is idle: behind the frees of a
 * stream, or behind all work of the context. And waits for the context.
 */
#include "memory/waits.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* ---- events: cached for reuse, and recorded -------------------------------------------------- */

/* Events of green contexts are not reused: after such a context ends, another one may get its
 * handle, and nothing tells to which one an event belongs. */
static bool is_used_again(const mend_streams *streams, mend_context context)
{
    return context == streams->contexts[MEND_OWN_CONTEXT];
}

mend_result mend_streams_take_event(mend_streams *streams, mend_context context, mend_event *event)
{
    if (is_used_again(streams, context) && streams->idle_event_count > 0) {
        assert(streams->idle_event_count <= streams->events_held);
        *event = streams->idle_events[--streams->idle_event_count];
        return MEND_OK;
    }
    /* Space for the event is reserved before, so that missing host memory cannot lose it. */
    if (!mend_streams_grow(&streams->idle_events, &streams->idle_event_capacity,
                           (size_t)streams->events_held + 1, sizeof(mend_event))) {
        return mend_no_host_memory("a stream's fences");
    }
    mend_status status = mend_foreign_enter(streams, context).status;
    if (status == MEND_DRIVER_OK) {
        status = streams->driver->event_create(streams->driver, event);
        mend_foreign_leave(streams, context);
    }
    streams->events_held += status == MEND_DRIVER_OK;
    return mend_streams_driver_result(streams, MEND_CALL_event_create, status);
}

void mend_streams_keep_event(mend_streams *streams, mend_event event, mend_context context)
{
    assert(event != NULL && streams->events_held > 0);
    if (is_used_again(streams, context)) {
        assert(streams->idle_event_count < streams->idle_event_capacity);
        streams->idle_events[streams->idle_event_count++] = event;
    } else {
        streams->driver->event_destroy(streams->driver, event);
        streams->events_held--;
    }
}

/* The recording failed: the frees of the closed epoch wait with those made now. If the new epoch
 * number is unused, the old one is open again. */
static void reopen_epoch(mend_stream_state *state, uint64_t epoch, uint64_t bytes)
{
    assert(state->recordings > 0 && epoch < state->open_epoch);
    bool is_as_before = !state->open && state->open_epoch == epoch + 1 &&
                        state->passed_epoch < epoch && mend_stream_awaited_epoch(state) < epoch;
    state->open_epoch -= is_as_before ? 1 : 0;
    state->open = true;
    state->open_bytes += bytes;
    state->recordings--;
}

/* From now on the fence counts. It is not needed if another thread recorded a later one meanwhile,
 * or if a wait for the context covered it. */
static void add_fence(mend_streams *streams, mend_stream_state *state, mend_fence fence)
{
    assert(state->recordings > 0 && fence.epoch < state->open_epoch && fence.event != NULL);
    state->recordings--;
    bool is_covered =
        fence.epoch <= state->passed_epoch ||
        (state->fence_count > 0 && fence.epoch <= state->fences[state->fence_count - 1].epoch);
    if (is_covered) {
        mend_streams_keep_event(streams, fence.event, fence.context);
        if (state->fence_count > 0 && fence.epoch > state->passed_epoch) {
            state->fences[state->fence_count - 1].bytes += fence.bytes;
        }
    } else {
        assert(state->fence_count < state->fence_capacity);
        state->fences[state->fence_count++] = fence;
    }
}

void mend_streams_pass_fences(mend_streams *streams, mend_stream_state *state, size_t count)
{
    assert(count <= state->fence_count);
    streams->passes++;
    for (size_t i = 0; i < count; i++) {
        assert(state->fences[i].epoch > state->passed_epoch);
        state->passed_epoch = state->fences[i].epoch;
        mend_streams_keep_event(streams, state->fences[i].event, state->fences[i].context);
    }
    if (count == 0) {
        return;
    }
    state->fence_count -= count;
    memmove(state->fences, state->fences + count, state->fence_count * sizeof(mend_fence));
}

void mend_streams_end_call(mend_streams *streams, uint32_t stream)
{
    assert(stream < streams->count && streams->items[stream].calls > 0);
    if (--streams->items[stream].calls == 0 && streams->call_waiters > 0) {
        mend_condition_wake_all(&streams->call_ended);
    }
}

/*
 * Closes the open epoch of `stream` and records an event behind it on `recorder`. If a capture of
 * `recorder` began meanwhile, fence->event stays NULL and the epoch is open again.
 *
 * The driver is called without the `state` lock. Meanwhile the epoch is closed, so frees of other
 * threads belong to a later one. No fence covers it, so its memory stays unused. The slot and the
 * stream stay, because `recordings` and `calls` are not 0. The fence has its space.
 */
static mend_result record_event(mend_streams *streams, uint32_t stream, uint32_t recorder,
                                mend_fence *fence)
{
    const mend_driver *driver = streams->driver;
    const mend_stream handle = streams->items[recorder].handle;
    const mend_context context = streams->items[recorder].context;
    mend_stream_state *state = &streams->items[stream];
    assert(state->open && streams->items[recorder].known && fence->event == NULL);
    if (!mend_streams_grow(&state->fences, &state->fence_capacity,
                           state->fence_count + state->recordings + 1, sizeof(mend_fence))) {
        return mend_no_host_memory("a stream's fences");
    }
    mend_event event;
    MEND_TRY(mend_streams_take_event(streams, context, &event));
    const uint64_t epoch = state->open_epoch++; /* from here on frees belong to the next one */
    const uint64_t bytes = state->open_bytes;
    state->open = false;
    state->open_bytes = 0;
    state->recordings++;
    const uint64_t order = streams->closed_bytes += bytes;
    /* Another thread may have begun a capture of the stream since the pool asked. Then the event
     * marks a place in a graph, and a stream that waits for it would join the capture. So it asks
     * again. */
    mend_stream_info info = {.capture = MEND_CAPTURE_ACTIVE};
    mend_streams_begin_call(streams, recorder);
    mend_answer answer = MEND_ANSWER(event_record, driver->event_record(driver, event, handle));
    if (answer.status == MEND_DRIVER_OK) {
        answer = MEND_ANSWER(stream_get_info, driver->stream_get_info(driver, handle, &info));
    }
    mend_streams_end_call(streams, recorder);
    if (answer.status == MEND_DRIVER_OK && info.capture == MEND_CAPTURE_NONE) {
        *fence = (mend_fence){epoch, bytes, event, context, order};
        return MEND_OK;
    }
    reopen_epoch(&streams->items[stream], epoch, bytes);
    mend_streams_keep_event(streams, event, context);
    return mend_status_is_of_any_capture(answer.status)
               ? MEND_OK
               : mend_streams_driver_result(streams, answer.call, answer.status);
}

mend_result mend_streams_close_epoch(mend_streams *streams, uint32_t stream)
{
    return streams->verify ? MEND_OK : mend_streams_close_named(streams, stream);
}

mend_result mend_streams_close_named(mend_streams *streams, uint32_t stream)
{
    assert(stream < streams->count);
    const mend_stream_state *state = &streams->items[stream];
    if (!state->open || state->graph_pool != 0) {
        return MEND_OK;
    }
    mend_reach reach = MEND_REACH_GONE;
    mend_fence fence = {0};
    MEND_TRY(mend_streams_reach(streams, stream, &reach));
    MEND_TRY(reach == MEND_REACH_OPEN ? record_event(streams, stream, stream, &fence) : MEND_OK);
    if (fence.event != NULL) {
        add_fence(streams, &streams->items[stream], fence);
    }
    return MEND_OK;
}

typedef struct fence_of_graph_pool {
    uint32_t stream;
    mend_fence fence;
} fence_of_graph_pool;

mend_result mend_streams_close_graph_pool(mend_streams *streams, uint32_t graph_pool,
                                          uint32_t recorder)
{
    assert(graph_pool != 0 && recorder < streams->count);
    assert(streams->items[recorder].graph_pool == 0);
    mend_reach reach = MEND_REACH_GONE;
    MEND_TRY(mend_streams_reach(streams, recorder, &reach));
    const void *handle = streams->items[recorder].handle;
    if (reach == MEND_REACH_GONE) {
        return mend_failure(MEND_ERROR_UNKNOWN_STREAM, "the stream %p was destroyed", handle);
    }
    size_t count = 0; /* streams registered later do not belong to the graph pool */
    MEND_SLOTS_EACH(i, streams, graph_pool) {
        count++;
    }
    fence_of_graph_pool *made = calloc(count + 1, sizeof(*made));
    if (made == NULL) {
        return mend_no_host_memory("a stream's fences");
    }
    count = 0;
    MEND_SLOTS_EACH(i, streams, graph_pool) {
        made[count++].stream = i;
    }
    mend_result result = MEND_OK;
    bool is_captured = reach == MEND_REACH_CAPTURED;
    for (size_t k = 0; k < count && result == MEND_OK && !is_captured; k++) {
        if (streams->items[made[k].stream].open) {
            result = record_event(streams, made[k].stream, recorder, &made[k].fence);
            is_captured = result == MEND_OK && made[k].fence.event == NULL;
        }
    }
    if (is_captured) {
        result = mend_failure(MEND_ERROR_CAPTURING, "the stream %p is being captured", handle);
    }
    /* Publishes the fences only after all were recorded, because any thread may wait for a
     * published one. If the graph pool continues, none of its memory may become idle. */
    for (size_t k = 0; k < count; k++) {
        const mend_fence fence = made[k].fence;
        if (fence.event != NULL && result == MEND_OK) {
            add_fence(streams, &streams->items[made[k].stream], fence);
        } else if (fence.event != NULL) {
            reopen_epoch(&streams->items[made[k].stream], fence.epoch, fence.bytes);
            mend_streams_keep_event(streams, fence.event, fence.context);
        }
    }
    free(made);
    return result;
}

/* ---- the context ----------------------------------------------------------------------------- */

/*
 * Waits for the whole context: for memory freed without a stream, or on streams out of reach.
 * Streams wait for an event of the context on the device, or the CPU waits. Several events may wait
 * at a time. Neither covers frees in a graph pool, whose graphs may be launched again.
 */

mend_answer mend_foreign_synchronize(const mend_streams *streams, uint64_t *waits)
{
    *waits = 0;
    for (int i = 0; i < MEND_CONTEXTS; i++) {
        const mend_context context = streams->contexts[i];
        if (context != NULL) {
            MEND_TRY_ANSWER(mend_foreign_enter(streams, context));
            const mend_status status = streams->driver->context_synchronize(streams->driver);
            mend_foreign_leave(streams, context);
            MEND_TRY_ANSWER(MEND_ANSWER(context_synchronize, status));
            ++*waits;
        }
    }
    return MEND_ANSWER(context_synchronize, MEND_DRIVER_OK);
}

/* From here on frees belong to a new epoch of each stream. A slot that is free, or a graph pool's,
 * awaits nothing: the stream that comes to have it meanwhile may pass epochs of its own. One such
 * wait begins at a time: its place follows the events. */
static void begin_context_wait(mend_streams *streams)
{
    streams->may_be_several = true; /* UNKNOWN awaits something from here on */
    MEND_SLOTS_EACH_AND_UNKNOWN(i, streams) {
        mend_stream_state *state = &streams->items[i];
        state->awaited[streams->context_event_count] = (mend_awaited){
            .epoch = state->open ? state->open_epoch++ : state->open_epoch - 1,
            .was_open = state->open,
            .bytes = state->open_bytes,
        };
        state->open = false;
        state->open_bytes = 0;
    }
}

/* It failed, and the closed epochs wait as before. Streams that were registered meanwhile have no
 * awaited epoch. */
static void undo_context_wait(mend_streams *streams)
{
    MEND_SLOTS_EACH_AND_UNKNOWN(i, streams) {
        mend_stream_state *state = &streams->items[i];
        mend_awaited *awaited = &state->awaited[streams->context_event_count];
        state->open = state->open || awaited->was_open;
        state->open_bytes += awaited->was_open ? awaited->bytes : 0;
        *awaited = (mend_awaited){0};
    }
}

static void keep_events(mend_streams *streams, const mend_context_event *made)
{
    for (int i = 0; i < MEND_CONTEXTS; i++) {
        if (made->of[i] != NULL) {
            mend_streams_keep_event(streams, made->of[i], streams->contexts[i]);
        }
    }
}

/* All that waited for the first `count` has passed: for events, also those before an event that
 * has, and for the wait behind them. */
static void pass_awaited(mend_streams *streams, uint32_t count)
{
    assert(count > 0 && count <= streams->context_event_count + 1);
    const uint32_t events = count <= streams->context_event_count ? count : count - 1;
    for (uint32_t k = 0; k < events; k++) {
        keep_events(streams, &streams->context_events[k]);
    }
    streams->context_event_count -= events;
    memmove(streams->context_events, streams->context_events + events,
            streams->context_event_count * sizeof(mend_context_event));
    streams->passes++;
    MEND_SLOTS_EACH_AND_UNKNOWN(i, streams) {
        mend_stream_state *state = &streams->items[i];
        const uint64_t epoch = state->awaited[count - 1].epoch;
        if (epoch > state->passed_epoch) { /* later than its own fences */
            size_t covered = 0;            /* a fence recorded during the wait is not covered */
            while (covered < state->fence_count && state->fences[covered].epoch <= epoch) {
                covered++;
            }
            assert(epoch < state->open_epoch);
            mend_streams_pass_fences(streams, state, covered);
            state->passed_epoch = epoch;
        }
        const uint32_t left = MEND_CONTEXT_EVENTS + 1 - count;
        memmove(state->awaited, state->awaited + count, left * sizeof(mend_awaited));
        memset(state->awaited + left, 0, count * sizeof(mend_awaited));
    }
}

/* ---- events of the context ------------------------------------------------------------------- */

/* *is_whole is false if a stream of one more device was seen meanwhile. */
static mend_answer record_events(mend_streams *streams, const mend_context_event *made,
                                 bool *is_whole)
{
    const mend_driver *driver = streams->driver;
    mend_answer answer = MEND_ANSWER(context_record, MEND_DRIVER_OK);
    *is_whole = true;
    for (int i = 0; i < MEND_CONTEXTS && answer.status == MEND_DRIVER_OK; i++) {
        if (made->of[i] != NULL) {
            const mend_context context = streams->contexts[i];
            MEND_TRY_ANSWER(mend_foreign_enter(streams, context));
            answer = MEND_ANSWER(context_record, driver->context_record(driver, made->of[i]));
            mend_foreign_leave(streams, context);
            streams->context_fences += answer.status == MEND_DRIVER_OK;
        }
        *is_whole = *is_whole && (streams->contexts[i] != NULL) == (made->of[i] != NULL);
    }
    return answer;
}

/* The event counts from now on. If there are too many, it takes the place of the last one, whose
 * frees it covers too. */
static void add_context_event(mend_streams *streams, const mend_context_event *made)
{
    uint32_t at = streams->context_event_count;
    if (at == MEND_CONTEXT_EVENTS) {
        keep_events(streams, &streams->context_events[--at]);
        MEND_SLOTS_EACH_AND_UNKNOWN(i, streams) {
            mend_awaited *awaited = streams->items[i].awaited;
            awaited[at + 1].bytes += awaited[at].bytes;
            awaited[at] = awaited[at + 1];
            awaited[at + 1] = (mend_awaited){0};
        }
    }
    streams->context_events[at] = *made;
    streams->context_event_count = at + 1;
}

static bool has_passed(const mend_streams *streams, const mend_context_event *event)
{
    const mend_driver *driver = streams->driver;
    bool passed = true;
    for (int i = 0; i < MEND_CONTEXTS && passed; i++) {
        passed =
            event->of[i] == NULL || driver->event_query(driver, event->of[i]) == MEND_DRIVER_OK;
    }
    return passed;
}

bool mend_context_poll(mend_streams *streams)
{
    uint32_t passed = 0;
    while (passed < streams->context_event_count &&
           has_passed(streams, &streams->context_events[passed])) {
        passed++;
    }
    if (passed > 0) {
        pass_awaited(streams, passed);
    }
    return passed > 0;
}

/* Not while the pool knows of a capture, or a graph pool is begun in the process, whose capture may
 * begin at any time. The open epochs are closed first, then each context records its event, and
 * only then the frees wait for these. If one is refused, or a stream of one more context was seen
 * meanwhile, the epochs are open again. */
mend_result mend_streams_record_context(mend_streams *streams, uint32_t asking)
{
    assert(asking < streams->count);
    bool is_captured = false;
    bool is_whole = false;
    mend_context_event made = {0};
    if (streams->lacks_context_events) {
        return MEND_OK;
    }
    mend_result result = mend_streams_find_capture(streams, asking, &is_captured);
    for (int i = 0; i < MEND_CONTEXTS && result == MEND_OK && !is_captured; i++) {
        if (streams->contexts[i] != NULL) {
            result = mend_streams_take_event(streams, streams->contexts[i], &made.of[i]);
        }
    }
    if (result != MEND_OK || is_captured || !mend_process_begin_unsafe_call()) {
        keep_events(streams, &made);
        return result;
    }
    begin_context_wait(streams);
    const mend_answer answer = record_events(streams, &made, &is_whole);
    const mend_status status = answer.status;
    mend_process_end_unsafe_call();
    if (is_whole && status == MEND_DRIVER_OK) {
        add_context_event(streams, &made);
        return MEND_OK;
    }
    undo_context_wait(streams);
    keep_events(streams, &made);
    streams->lacks_context_events |= status == MEND_DRIVER_NOT_SUPPORTED;
    streams->hidden_captures += status != MEND_DRIVER_OK && status != MEND_DRIVER_NOT_SUPPORTED;
    return mend_status_is_fatal(status) ? mend_streams_driver_result(streams, answer.call, status)
                                        : MEND_OK;
}

void mend_streams_note_host_waits(mend_streams *streams, uint64_t count)
{
    streams->host_waits += count;
    for (; count > 0; count--) {
        mend_events_note(streams->events, MEND_EVENT_HOST_WAIT, 0, 0, 0);
    }
}

mend_result mend_streams_wait_context(mend_streams *streams, uint32_t asking)
{
    assert(asking < streams->count);
    bool is_captured = false;
    MEND_TRY(mend_streams_find_capture(streams, asking, &is_captured));
    if (is_captured) {
        return mend_failure(MEND_ERROR_CAPTURING,
                            "a stream is being captured: the pool cannot wait for the context");
    }
    begin_context_wait(streams);
    uint64_t waits = 0;
    const mend_answer answer = mend_foreign_synchronize(streams, &waits);
    const mend_status status = answer.status;
    if (status == MEND_DRIVER_OK) { /* and so have the events */
        pass_awaited(streams, streams->context_event_count + 1);
    } else {
        undo_context_wait(streams);
    }
    mend_streams_note_host_waits(streams, waits);
    if (mend_status_is_of_capture(status)) {
        streams->hidden_captures++;
        return mend_refused(streams->driver, MEND_ERROR_CAPTURING, MEND_CALL_context_synchronize,
                            status,
                            "a stream that the pool does not know is being captured: end the "
                            "capture, and call again");
    }
    return mend_streams_driver_result(streams, answer.call, status);
}

mend_result mend_streams_wait_unfenced(mend_streams *streams, uint32_t asking)
{
    MEND_TRY(streams->context_event_count > 0 || streams->hidden_captures > 0
                 ? MEND_OK
                 : mend_streams_record_context(streams, asking));
    if (streams->context_event_count == 0) {
        return mend_streams_wait_context(streams, asking);
    }
    if (mend_context_poll(streams)) {
        return MEND_OK; /* the GPU was idle */
    }
    /* The CPU waits for the work before the oldest event, not for later work. */
    const mend_driver *driver = streams->driver;
    const mend_context_event *oldest = &streams->context_events[0]; /* stays while `grow` is held */
    for (int i = 0; i < MEND_CONTEXTS; i++) {
        if (oldest->of[i] != NULL) {
            mend_status status = driver->event_synchronize(driver, oldest->of[i]);
            MEND_TRY(mend_streams_driver_result(streams, MEND_CALL_event_synchronize, status));
            mend_streams_note_host_waits(streams, 1);
        }
    }
    pass_awaited(streams, 1);
    return MEND_OK;
}
