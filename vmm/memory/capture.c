/*
 * Captures: which streams may be used. While a stream is captured, the pool must not record on it,
 * wait on it or query it: that would invalidate the capture or become part of its graph. A wait for
 * the context would invalidate it too. Asking whether the stream is captured is always safe.
 */
#include "memory/waits.h"

#include "base/error.h"

/* Asks the legacy stream of each context, which a captured blocking stream makes unusable, and the
 * streams that any pool of the process watches there, until one is captured: on the devices that
 * the pool would wait for. *any_stream is set if all streams are watched. */
static mend_result ask_watched(mend_streams *streams, bool *any_stream, bool *is_captured)
{
    const mend_driver *driver = streams->driver;
    *any_stream = *is_captured = false;
    for (int i = 0; i < MEND_CONTEXTS && !*is_captured; i++) {
        const mend_context context = streams->contexts[i];
        const int device = i == MEND_OWN_CONTEXT ? streams->home->device : i - 1;
        mend_stream_info info = {0};
        if (context == NULL) {
            continue;
        }
        mend_answer answer = mend_foreign_enter(streams, context);
        if (answer.status == MEND_DRIVER_OK) {
            answer = MEND_ANSWER(stream_get_info,
                                 driver->stream_get_info(driver, MEND_STREAM_LEGACY, &info));
            mend_foreign_leave(streams, context);
        }
        uint64_t cursor = 0;
        mend_process_member *member = NULL;
        while (answer.status == MEND_DRIVER_OK && info.capture == MEND_CAPTURE_NONE &&
               (member = mend_process_visit_next(&mend_process_watches, streams->home->domain,
                                                 device, &cursor)) != NULL) {
            const mend_watch *watch = MEND_CONTAINER_OF(member, mend_watch, member);
            if (watch->handle == MEND_EVERY_STREAM) {
                *any_stream = true;
            } else if (!watch->was_seen || watch->owner != streams) {
                answer = MEND_ANSWER(stream_get_info,
                                     driver->stream_get_info(driver, watch->handle, &info));
            }
            mend_process_visit_end(&mend_process_watches, member);
        }
        MEND_TRY(mend_streams_driver_result(streams, answer.call, answer.status));
        *is_captured = info.capture != MEND_CAPTURE_NONE;
    }
    return MEND_OK;
}

/* Whether this is the legacy stream. It has been asked already, and its capture ends before one of
 * a blocking stream. Nor need a per-thread stream be asked, which is a blocking one. */
static bool is_legacy(const mend_stream_state *state)
{
    return state->handle == NULL;
}

/* Whether earlier answers say that the stream is captured, where asking is forbidden: until a call
 * names it again, or its graph ends. In a graph pool that holds while the pool serves its capture,
 * and has not learned of its end. */
static bool counts_as_captured(const mend_stream_state *state, bool any_stream)
{
    return state->known && state->seen_captured && !is_legacy(state) &&
           (any_stream || state->graph_pool == 0 || state->serves_capture ||
            (state->graph_pool & MEND_GRAPH_POOL_OF_CAPTURE) != 0);
}

/* Asks the stream if it is `asking`, or if it is known and may be captured, until one is captured.
 * With detect_destroyed_streams, no other one is asked. */
static mend_result ask_slot(mend_streams *streams, uint32_t slot, uint32_t asking, bool any_stream,
                            bool *is_captured)
{
    const mend_stream_state *state = &streams->items[slot];
    const bool is_default = is_legacy(state) || state->handle == MEND_STREAM_PER_THREAD;
    if (*is_captured) {
        return MEND_OK;
    }
    if (slot != asking && streams->verify) {
        *is_captured = counts_as_captured(state, any_stream);
    } else if (slot == asking || (state->known && (state->seen_captured || !is_default))) {
        mend_reach reach = MEND_REACH_GONE;
        MEND_TRY(mend_streams_reach(streams, slot, &reach));
        *is_captured = reach == MEND_REACH_CAPTURED;
    }
    return MEND_OK;
}

mend_result mend_streams_find_capture(mend_streams *streams, uint32_t asking, bool *is_captured)
{
    assert(asking < streams->count);
    bool any_stream;
    MEND_TRY(ask_watched(streams, &any_stream, is_captured));
    /* Those outside of graph pools. Of graph pools `asking`, and streams seen captured, or all. */
    MEND_SLOTS_EACH(i, streams, 0) {
        MEND_TRY(ask_slot(streams, i, asking, any_stream, is_captured));
    }
    if (streams->items[asking].graph_pool != 0) {
        MEND_TRY(ask_slot(streams, asking, asking, any_stream, is_captured));
    }
    MEND_SLOTS_EACH_IN(i, streams, MEND_SLOTS_CAPTURED) {
        MEND_TRY(ask_slot(streams, i, asking, any_stream, is_captured));
    }
    for (uint32_t i = MEND_STREAM_UNKNOWN + 1; any_stream && i < streams->count; i++) {
        if (streams->items[i].graph_pool != 0) {
            MEND_TRY(ask_slot(streams, i, asking, any_stream, is_captured));
        }
    }
    return MEND_OK;
}

mend_result mend_streams_find_capture_at_end(mend_streams *streams, bool *is_captured)
{
    bool any_stream;
    MEND_TRY(ask_watched(streams, &any_stream, is_captured));
    MEND_SLOTS_EACH_IN(i, streams, MEND_SLOTS_CAPTURED) {
        MEND_TRY(streams->verify ? MEND_OK
                                 : ask_slot(streams, i, MEND_STREAM_UNKNOWN, false, is_captured));
    }
    return MEND_OK;
}

mend_result mend_streams_keep_captured(mend_streams *streams, uint32_t graph_pool)
{
    MEND_SLOTS_EACH(i, streams, graph_pool) {
        uint32_t kept;
        const mend_stream_state *state = &streams->items[i];
        const bool is_default = is_legacy(state) || state->handle == MEND_STREAM_PER_THREAD;
        if (is_default || !counts_as_captured(state, !streams->verify)) {
            continue;
        }
        const uint32_t outside = mend_streams_lookup(streams, state->handle, 0);
        /* A stream without an identity in its capture may have a slot that was not asked in it. */
        if (streams->verify ? !streams->items[outside].seen_captured
                            : outside == MEND_STREAM_UNKNOWN) {
            const mend_stream_info info = {.id = state->id,
                                           .context = state->context,
                                           .capture = MEND_CAPTURE_ACTIVE,
                                           .capture_id = state->id == 0 ? state->capture_id
                                                                        : state->seen_capture};
            MEND_TRY(mend_slots_add(streams, state->handle, &info, 0, &kept));
        }
    }
    return MEND_OK;
}

void mend_streams_learn_order(mend_streams *streams, uint32_t waiter, uint64_t capture)
{
    const mend_driver *driver = streams->driver;
    mend_stream_state *state = &streams->items[waiter];
    assert(state->graph_pool != 0);
    if (streams->verify || !mend_streams_grow(&state->waited_epochs, &state->waited_capacity,
                                              streams->count, sizeof(uint64_t))) {
        return;
    }
    MEND_SLOTS_EACH(i, streams, state->graph_pool) {
        mend_stream_state *before = &streams->items[i];
        /* Something was freed in its order that only the graph can put before others' work. */
        const bool may_be_before = before->open && before->known && !before->has_ended &&
                                   !before->used_outside && before->named_in == capture &&
                                   before->handle != MEND_STREAM_PER_THREAD;
        bool is_behind = false;
        if (i != waiter && may_be_before &&
            driver->stream_is_behind(driver, state->handle, before->handle, &is_behind) ==
                MEND_DRIVER_OK &&
            is_behind) {
            state->waited_epochs[i] = before->open_epoch++;
            streams->passes++;
        }
    }
}
