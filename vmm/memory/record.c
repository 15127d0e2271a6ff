/*
 * Events: created, cached for reuse, and recorded behind frees, only when the pool needs to know.
 * event_record runs without the `state` lock, because it blocks while the stream's queue is full.
 * Streams and frees may have changed afterwards.
 */
#include "memory/waits.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

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
    assert(event != NULL);
    assert(streams->events_held > 0);
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
    assert(state->recordings > 0);
    assert(epoch < state->open_epoch);
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
    assert(state->recordings > 0);
    assert(fence.epoch < state->open_epoch);
    assert(fence.event != NULL);
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
    assert(stream < streams->count);
    assert(streams->items[stream].calls > 0);
    if (--streams->items[stream].calls == 0 && streams->call_waiters > 0) {
        mend_condition_wake_all(&streams->call_ended);
    }
}

/* Records the event. Another thread may have begun a capture of the stream since the pool asked.
 * Then the event marks a place in a graph, and a stream that waits for it would join the capture.
 * So it asks again. *is_outside is false if a capture took the event. The result is MEND_OK then
 * too. */
static mend_result record(mend_streams *streams, mend_event event, uint32_t recorder,
                          bool *is_outside)
{
    const mend_driver *driver = streams->driver;
    assert(event != NULL);
    const mend_stream handle = streams->items[recorder].handle;
    mend_stream_info info = {.capture = MEND_CAPTURE_ACTIVE};
    mend_streams_begin_call(streams, recorder);
    mend_answer answer = MEND_ANSWER(event_record, driver->event_record(driver, event, handle));
    if (answer.status == MEND_DRIVER_OK) {
        answer = MEND_ANSWER(stream_get_info, driver->stream_get_info(driver, handle, &info));
    }
    mend_streams_end_call(streams, recorder);
    *is_outside = info.capture == MEND_CAPTURE_NONE;
    return mend_status_is_of_any_capture(answer.status)
               ? MEND_OK
               : mend_streams_driver_result(streams, answer.call, answer.status);
}

/*
 * Closes the open epoch of `stream` and records an event behind it on `recorder`. If a capture of
 * `recorder` began meanwhile, fence->event is NULL and the epoch is open again.
 *
 * The driver is called without the `state` lock. Meanwhile the epoch is closed, so frees of other
 * threads belong to a later one. No fence covers it, so its memory stays unused. The slot and the
 * stream stay, because `recordings` and `calls` are not 0. The fence has its space.
 */
static mend_result record_event(mend_streams *streams, uint32_t stream, uint32_t recorder,
                                mend_fence *fence)
{
    mend_stream_state *state = &streams->items[stream];
    assert(state->open);
    assert(streams->items[recorder].known);
    *fence = (mend_fence){0};
    if (!mend_streams_grow(&state->fences, &state->fence_capacity,
                           state->fence_count + state->recordings + 1, sizeof(mend_fence))) {
        return mend_no_host_memory("a stream's fences");
    }
    mend_event event;
    mend_context context = streams->items[recorder].context;
    MEND_TRY(mend_streams_take_event(streams, context, &event));
    const uint64_t epoch = state->open_epoch++; /* from here on frees belong to the next one */
    const uint64_t bytes = state->open_bytes;
    state->open = false;
    state->open_bytes = 0;
    state->recordings++;
    const uint64_t order = streams->closed_bytes += bytes;
    bool is_outside = false;
    mend_result result = record(streams, event, recorder, &is_outside);
    if (result == MEND_OK && is_outside) {
        *fence = (mend_fence){epoch, bytes, event, context, order};
        return MEND_OK;
    }
    reopen_epoch(&streams->items[stream], epoch, bytes);
    mend_streams_keep_event(streams, event, context);
    return result;
}

static mend_result record_fence(mend_streams *streams, uint32_t stream)
{
    mend_fence fence;
    mend_result result = record_event(streams, stream, stream, &fence);
    if (fence.event != NULL) {
        add_fence(streams, &streams->items[stream], fence);
    }
    return result;
}

mend_result mend_streams_close_epoch(mend_streams *streams, uint32_t stream)
{
    return streams->verify ? MEND_OK : mend_streams_close_named(streams, stream);
}

static mend_result close_slot(mend_streams *streams, uint32_t stream)
{
    assert(stream < streams->count);
    const mend_stream_state *state = &streams->items[stream];
    if (!state->open || state->graph_pool != 0) {
        return MEND_OK;
    }
    mend_reach reach = MEND_REACH_GONE;
    mend_result result = mend_streams_reach(streams, stream, &reach);
    return result != MEND_OK || reach != MEND_REACH_OPEN ? result : record_fence(streams, stream);
}

/* The next slot after `last` that is a double of a stream. UNKNOWN: there is none. */
static uint32_t next_double(const mend_streams *streams, mend_stream handle, uint64_t id,
                            uint32_t last)
{
    uint32_t found = MEND_STREAM_UNKNOWN;
    for (uint32_t i = mend_slots_first(streams, handle); i != MEND_STREAM_UNKNOWN;
         i = mend_slots_next(streams, i)) {
        const mend_stream_state *state = &streams->items[i];
        bool is_one = state->is_double && state->id == id && i > last;
        found = is_one && (found == MEND_STREAM_UNKNOWN || i < found) ? i : found;
    }
    return found;
}

/* Each recording may release `state`, and the chains may change. Of the doubles it records the
 * frees of the stream's captures that have ended. Blocks may still name such a slot as a user. When
 * they are freed, only a wait for the context covers its work. */
mend_result mend_streams_close_named(mend_streams *streams, uint32_t stream)
{
    assert(stream < streams->count);
    const mend_stream handle = streams->items[stream].handle;
    const uint64_t id = streams->items[stream].id;
    uint32_t at = MEND_STREAM_UNKNOWN;
    MEND_TRY(close_slot(streams, stream));
    while (streams->verify && (at = next_double(streams, handle, id, at)) != MEND_STREAM_UNKNOWN) {
        MEND_TRY(close_slot(streams, at));
        if (!streams->items[at].open) {
            mend_slots_lose(streams, at);
        }
    }
    return MEND_OK;
}

static mend_result check_recorder(mend_streams *streams, uint32_t recorder)
{
    assert(recorder < streams->count);
    assert(streams->items[recorder].graph_pool == 0);
    mend_reach reach = MEND_REACH_GONE;
    MEND_TRY(mend_streams_reach(streams, recorder, &reach));
    const void *handle = streams->items[recorder].handle;
    return reach == MEND_REACH_OPEN ? MEND_OK
           : reach == MEND_REACH_CAPTURED
               ? mend_failure(MEND_ERROR_CAPTURING, "the stream %p is being captured", handle)
               : mend_failure(MEND_ERROR_UNKNOWN_STREAM, "the stream %p was destroyed", handle);
}

typedef struct fence_of_graph_pool {
    uint32_t stream;
    mend_fence fence;
} fence_of_graph_pool;

mend_result mend_streams_close_graph_pool(mend_streams *streams, uint32_t graph_pool,
                                          uint32_t recorder)
{
    assert(graph_pool != 0);
    MEND_TRY(check_recorder(streams, recorder));
    size_t count = 0; /* streams registered later do not belong to the graph pool */
    MEND_SLOTS_EACH(i, streams, graph_pool) {
        count++;
    }
    fence_of_graph_pool *made = calloc(count + 1, sizeof(*made));
    if (made == NULL) {
        return mend_no_host_memory("a stream's fences");
    }
    mend_result result = MEND_OK;
    size_t last = 0;
    MEND_SLOTS_EACH(i, streams, graph_pool) {
        made[last++].stream = i;
    }
    for (size_t k = 0; k < count && result == MEND_OK; k++) {
        if (streams->items[made[k].stream].open) {
            result = record_event(streams, made[k].stream, recorder, &made[k].fence);
            if (result == MEND_OK && made[k].fence.event == NULL) {
                result = mend_failure(MEND_ERROR_CAPTURING, "the stream %p is being captured",
                                      (const void *)streams->items[recorder].handle);
            }
        }
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
