/* Streams as a pool knows them: looked up, learned and left. And the contexts that they belong to.
 */
#include "memory/stream.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "memory/waits.h"

/* ---- streams of other devices ---------------------------------------------------------------- */

/* Work of another device may use the pool's memory, so the pool serves its streams like its own. It
 * records an event in the context of the stream, and a stream can wait for it across devices. */

static bool is_open(const mend_streams *streams, int device)
{
    assert(device >= 0 && device < MEND_DEVICE_LIMIT);
    return streams->contexts[device + 1] != NULL;
}

mend_answer mend_foreign_enter(const mend_streams *streams, mend_context context)
{
    return MEND_ANSWER(context_push, context == streams->contexts[MEND_OWN_CONTEXT]
                                         ? MEND_DRIVER_OK
                                         : streams->driver->context_push(streams->driver, context));
}

void mend_foreign_leave(const mend_streams *streams, mend_context context)
{
    if (context != streams->contexts[MEND_OWN_CONTEXT]) {
        streams->driver->context_pop(streams->driver);
    }
}

static mend_answer hold(mend_streams *streams, int device, const mend_stream_info *info,
                        bool *is_admitted)
{
    const mend_driver *driver = streams->driver;
    assert(!is_open(streams, device));
    mend_device_info opened = {0};
    const mend_answer answer =
        MEND_ANSWER(device_open, driver->device_open(driver, device, &opened));
    MEND_TRY_ANSWER(answer);
    /* The driver does not report the home of a green context before its device is open. */
    *is_admitted = info->home == NULL || info->home == opened.context;
    if (*is_admitted) {
        assert(opened.context != streams->contexts[MEND_OWN_CONTEXT]);
        streams->contexts[device + 1] = opened.context;
    } else {
        driver->device_close(driver, device);
    }
    return answer;
}

/* Decides whether the pool serves an identified stream: of the pool's context, of another device's
 * primary context (which stays open), or of green contexts of these. If the answer is not OK,
 * nothing changed. */
static mend_answer admit(mend_streams *streams, const mend_stream_info *info, bool *is_admitted)
{
    const mend_driver *driver = streams->driver;
    mend_answer answer = MEND_ANSWER(context_device, MEND_DRIVER_OK);
    int own = 0;
    int device = 0;
    *is_admitted = false;
    for (int i = 0; i < MEND_CONTEXTS && info->home != NULL && !*is_admitted; i++) {
        *is_admitted = streams->contexts[i] == info->home;
    }
    if (*is_admitted) {
        return answer;
    }
    answer.status = driver->context_device(driver, &own); /* of the current context: the pool's */
    MEND_TRY_ANSWER(answer);
    MEND_TRY_ANSWER(mend_foreign_enter(streams, info->context));
    answer.status = driver->context_device(driver, &device);
    mend_foreign_leave(streams, info->context);
    const bool is_other = device != own && device >= 0 && device < MEND_DEVICE_LIMIT;
    return answer.status == MEND_DRIVER_OK && is_other && !is_open(streams, device)
               ? hold(streams, device, info, is_admitted)
               : answer;
}

mend_status mend_foreign_admit_device(mend_streams *streams, int device)
{
    const mend_stream_info unknown = {0};
    bool is_admitted = false;
    return is_open(streams, device) ? MEND_DRIVER_OK
                                    : hold(streams, device, &unknown, &is_admitted).status;
}

/* ---- all streams ----------------------------------------------------------------------------- */

mend_result mend_streams_driver_result(mend_streams *streams, mend_driver_call call,
                                       mend_status status)
{
    assert(call < MEND_DRIVER_CALL_COUNT);
    if (status == MEND_DRIVER_OK) {
        return MEND_OK;
    }
    return mend_refused(streams->driver, mend_status_result(status), call, status,
                        "%s failed while ordering memory between streams",
                        mend_driver_call_name(call));
}

mend_result mend_streams_init(mend_streams *streams, const mend_driver *driver,
                              const mend_process_member *home, mend_context context, bool verify,
                              mend_events *events)
{
    *streams = (mend_streams){.driver = driver, .home = home, .verify = verify, .events = events};
    streams->contexts[MEND_OWN_CONTEXT] = context;
    pthread_cond_init(&streams->call_ended, NULL);
    mend_streams_look_up_anew(streams);
    uint32_t unknown;
    const mend_stream_info none = {0};
    mend_result result = mend_slots_add(streams, MEND_NO_STREAM, &none, 0, &unknown);
    if (result != MEND_OK) {
        mend_slots_clear(streams);
    }
    return result;
}

mend_answer mend_streams_clear(mend_streams *streams)
{
    const mend_driver *driver = streams->driver;
    mend_answer first = MEND_ANSWER(event_destroy, MEND_DRIVER_OK);
    assert(streams->call_waiters == 0);
    for (uint32_t i = 0; i < streams->count; i++) {
        mend_stream_state *state = &streams->items[i];
        for (size_t k = 0; k < state->fence_count; k++) {
            mend_answer_note(
                &first,
                MEND_ANSWER(event_destroy, driver->event_destroy(driver, state->fences[k].event)));
        }
        free(state->fences);
        free(state->waited_epochs);
    }
    for (uint32_t k = 0; k < streams->context_event_count * MEND_CONTEXTS; k++) {
        const mend_event of = streams->context_events[k / MEND_CONTEXTS].of[k % MEND_CONTEXTS];
        if (of != NULL) {
            mend_answer_note(&first, MEND_ANSWER(event_destroy, driver->event_destroy(driver, of)));
        }
    }
    for (size_t k = 0; k < streams->idle_event_count; k++) {
        mend_answer_note(&first, MEND_ANSWER(event_destroy, driver->event_destroy(
                                                                driver, streams->idle_events[k])));
    }
    for (int i = 0; i < MEND_DEVICE_LIMIT; i++) {
        if (is_open(streams, i)) {
            mend_answer_note(&first, MEND_ANSWER(device_close, driver->device_close(driver, i)));
        }
    }
    free(streams->idle_events);
    mend_slots_clear(streams);
    pthread_cond_destroy(&streams->call_ended);
    *streams = (mend_streams){0};
    return first;
}

uint32_t mend_streams_lookup_other(mend_streams *streams, mend_stream handle, uint32_t graph_pool)
{
    const mend_stream plain = mend_slots_handle(handle);
    const mend_stream_state *items = streams->items;
    const uint64_t key = mend_slots_key(plain, 0, graph_pool);
    uint32_t at = *mend_slots_head(streams, MEND_SLOTS_OF_PAIR, key);
    while (at != MEND_STREAM_UNKNOWN &&
           (items[at].handle != plain || items[at].graph_pool != graph_pool)) {
        at = items[at].in[MEND_SLOTS_OF_PAIR].next;
    }
    assert(at < streams->count && (at == MEND_STREAM_UNKNOWN || items[at].known));
    if (at != MEND_STREAM_UNKNOWN && graph_pool == 0 && !streams->serves_graph_pools &&
        mend_streams_handle_suffices(streams, handle)) {
        streams->last_found = at;
        streams->last_handle = handle;
    }
    return at;
}

/* Looks up by handle and identity. Any other slot with the handle belongs to a stream that was
 * destroyed without mend_unregister_stream. The capture status is updated in all graph pools of the
 * stream. */
static bool lookup_verified(mend_streams *streams, mend_stream handle, uint32_t graph_pool,
                            const mend_stream_info *info, uint32_t *index)
{
    bool is_found = false;
    assert(info->id != 0 || info->capture_id != 0);
    for (uint32_t i = mend_slots_first(streams, handle), next; i != MEND_STREAM_UNKNOWN; i = next) {
        mend_stream_state *state = &streams->items[i];
        next = mend_slots_next(streams, i);
        /* the stream that was asked: same identity, or both in the same capture, which a stream
         * does not leave before it ends */
        if (info->id != 0 ? state->id == info->id
                          : state->id == 0 && state->capture_id == info->capture_id) {
            mend_slots_see(streams, i, info->capture != MEND_CAPTURE_NONE, info->capture_id);
            state->was_found = true;
            if (state->graph_pool == graph_pool) {
                *index = i;
                is_found = true;
            }
        } else if (handle != MEND_STREAM_PER_THREAD && graph_pool == 0 && state->graph_pool == 0 &&
                   (state->id == 0 || info->id != 0)) {
            /* The slot's stream cannot be found any more: the identity is another one, or the
             * capture by which the slot was known has ended. Blocks may still name it as a user:
             * when they are freed, only a wait for the context covers its work. */
            mend_slots_lose(streams, i);
            state->open = true;
            mend_slots_enter_unpassed(streams, i);
        } else if (handle != MEND_STREAM_PER_THREAD && state->id == 0 &&
                   state->capture_id != info->capture_id) { /* made in a capture that has ended */
            mend_slots_see(streams, i, false, state->seen_capture);
        }
    }
    return is_found;
}

/* Asks the driver which stream the handle means now. */
static mend_result ask(mend_streams *streams, mend_stream handle, mend_stream_info *info)
{
    const mend_driver *driver = streams->driver;
    mend_status status = driver->stream_get_info(driver, handle, info);
    if (mend_status_is_fatal(status)) {
        return mend_streams_driver_result(streams, MEND_CALL_stream_get_info, status);
    }
    if (status != MEND_DRIVER_OK) {
        const mend_result result = mend_status_is_of_stream(status) ? MEND_ERROR_UNKNOWN_STREAM
                                   : mend_status_is_of_capture(status)
                                       ? MEND_ERROR_CAPTURING /* begun meanwhile */
                                       : MEND_ERROR_DRIVER;
        return mend_refused(driver, result, MEND_CALL_stream_get_info, status,
                            "the driver cannot identify the stream %p: it was destroyed, or is of "
                            "another process or context",
                            (void *)handle);
    }
    bool is_admitted = true;
    if (info->id != 0) { /* otherwise the identity is unknown until the capture ends */
        const mend_answer answer = admit(streams, info, &is_admitted);
        MEND_TRY(mend_streams_driver_result(streams, answer.call, answer.status));
    }
    return is_admitted ? MEND_OK
                       : mend_failure(MEND_ERROR_UNKNOWN_STREAM,
                                      "the stream %p belongs to another context than its device's "
                                      "primary one",
                                      (void *)handle);
}

mend_result mend_streams_find(mend_streams *streams, mend_stream handle, uint32_t graph_pool,
                              uint32_t *index)
{
    bool suffices = mend_streams_handle_suffices(streams, handle);
    *index = suffices ? mend_streams_lookup(streams, handle, graph_pool) : MEND_STREAM_UNKNOWN;
    if (*index != MEND_STREAM_UNKNOWN) {
        return MEND_OK;
    }
    mend_stream_info info = {0};
    MEND_TRY(ask(streams, handle, &info));
    if (!suffices && info.id == 0 && info.capture_id == 0) {
        return mend_failure(
            MEND_ERROR_CAPTURING,
            "the capture of the stream %p was invalidated: end it, so that the stream can be "
            "identified",
            (void *)handle);
    }
    handle = mend_slots_handle(handle);
    if (!suffices && lookup_verified(streams, handle, graph_pool, &info, index)) {
        assert(streams->items[*index].known);
        return MEND_OK;
    }
    /* The stream may be captured again: from now on the pool asks about it. */
    if ((graph_pool & MEND_GRAPH_POOL_OF_CAPTURE) != 0 && !streams->verify && handle != NULL &&
        handle != MEND_STREAM_PER_THREAD &&
        mend_streams_lookup(streams, handle, 0) == MEND_STREAM_UNKNOWN) {
        MEND_TRY(mend_slots_add(streams, handle, &info, 0, index));
    }
    return mend_slots_add(streams, handle, &info, graph_pool, index);
}

mend_result mend_streams_reach(mend_streams *streams, uint32_t stream, mend_reach *reach)
{
    assert(stream < streams->count);
    mend_stream_state *state = &streams->items[stream];
    if (!state->known || stream == MEND_STREAM_UNKNOWN) {
        *reach = MEND_REACH_GONE;
        return MEND_OK;
    }
    mend_stream_info info = {0};
    mend_answer answer = MEND_ANSWER(
        stream_get_info, streams->driver->stream_get_info(streams->driver, state->handle, &info));
    const bool is_known = answer.status == MEND_DRIVER_OK;
    bool is_same = is_known && (info.id == 0 || state->id == info.id);
    if (answer.status == MEND_DRIVER_INVALID_HANDLE) {
        answer.status = MEND_DRIVER_OK;
    } else if (is_known && info.id != 0 && state->id == 0 && !streams->verify) {
        answer = admit(streams, &info, &is_same);
        if (is_same) { /* the driver identifies it from now on */
            state->id = info.id;
            state->context = info.context;
        }
    }
    MEND_TRY(mend_streams_driver_result(streams, answer.call, answer.status));
    if (!is_same) {
        *reach = MEND_REACH_GONE;
    } else {
        *reach = info.capture == MEND_CAPTURE_NONE ? MEND_REACH_OPEN : MEND_REACH_CAPTURED;
        mend_slots_see(streams, stream, info.capture != MEND_CAPTURE_NONE, info.capture_id);
    }
    return MEND_OK;
}

bool mend_stamp_has_fence(const mend_streams *streams, mend_stamp stamp)
{
    assert(stamp.stream < streams->count);
    const mend_stream_state *state = &streams->items[stamp.stream];
    const uint32_t events = streams->context_event_count;
    return (state->fence_count > 0 && stamp.epoch <= state->fences[state->fence_count - 1].epoch) ||
           (events > 0 && stamp.epoch <= state->awaited[events - 1].epoch);
}

bool mend_stamp_can_be_awaited(const mend_streams *streams, mend_stamp stamp, uint64_t order)
{
    if (order == MEND_ANY_FENCE) {
        return mend_stamp_has_fence(streams, stamp);
    }
    const mend_stream_state *state = &streams->items[stamp.stream];
    const size_t at = mend_stream_first_fence(state, stamp.epoch);
    return at < state->fence_count && state->fences[at].order <= order;
}

bool mend_stream_awaits(const mend_streams *streams, uint32_t stream, uint32_t other,
                        uint64_t epoch)
{
    assert(stream < streams->count);
    const mend_stream_state *state = &streams->items[stream];
    return other < state->waited_capacity && epoch <= state->waited_epochs[other];
}

uint32_t mend_streams_lookup_captured(const mend_streams *streams, mend_stream handle)
{
    uint32_t at = mend_slots_first(streams, handle);
    while (at != MEND_STREAM_UNKNOWN &&
           (streams->items[at].graph_pool == 0 || !streams->items[at].seen_captured)) {
        at = mend_slots_next(streams, at);
    }
    return at;
}

void mend_streams_leave_graph_pools(mend_streams *streams, mend_stream handle, uint64_t id)
{
    for (uint32_t i = mend_slots_first(streams, handle), next; i != MEND_STREAM_UNKNOWN; i = next) {
        const mend_stream_state *state = &streams->items[i];
        next = mend_slots_next(streams, i);
        if (state->graph_pool != 0 && (id == 0 || state->id == 0 || state->id == id)) {
            mend_slots_lose(streams, i);
        }
    }
}

void mend_streams_end_graph_pool(mend_streams *streams, uint32_t graph_pool, uint64_t capture)
{
    assert(graph_pool != 0 && capture != 0);
    streams->passes++;
    MEND_SLOTS_EACH_IN(i, streams, MEND_SLOTS_CAPTURED) {
        if (streams->items[i].seen_capture == capture) {
            mend_slots_see(streams, i, false, capture);
        }
    }
    MEND_SLOTS_EACH(i, streams, graph_pool) {
        mend_stream_state *state = &streams->items[i];
        assert(state->fence_count == 0);
        state->passed_epoch = state->open_epoch++;
        state->open = false;
        state->open_bytes = 0;
    }
}
