/* Streams and events: when queued work is done, and waits for it by the device or the host. A
 * stream is, for that, the time at which its last work will be done, its tail. An event is the tail
 * at its record. So a wait on the device moves a tail, and a wait of the host moves the clock. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/align.h"
#include "sim/captures.h"
#include "sim/state.h"

mend_sim_stream *mend_sim_stream_make(mend_sim *sim, int context, mend_sim_stream_kind kind)
{
    assert(mend_mutex_is_held(&sim->mutex));
    assert(mend_sim_device_of(context) < sim->config.device_count);
    bool with_handle = kind == MEND_SIM_STREAM_BLOCKING || kind == MEND_SIM_STREAM_NON_BLOCKING;
    if (!mend_slab_reserve(&sim->stream_slab, 1) ||
        (with_handle && !mend_sim_handles_reserve(&sim->stream_handles))) {
        return NULL;
    }
    uint64_t *queue = sim->config.queue_entries > 0
                          ? calloc((size_t)sim->config.queue_entries, sizeof(*queue))
                          : NULL;
    if (queue == NULL && sim->config.queue_entries > 0) {
        return NULL;
    }
    mend_sim_stream *stream = mend_slab_take(&sim->stream_slab);
    stream->queue = queue;
    stream->id = ++sim->last_stream_id;
    stream->kind = kind;
    stream->context = context;
    stream->device = mend_sim_device_of(context);
    mend_list_append(&sim->streams, &stream->link);
    if (with_handle) {
        stream->handle = mend_sim_handles_add(&sim->stream_handles, stream);
        sim->ledger.streams++;
    }
    return stream;
}

bool mend_sim_stream_is_default(mend_stream handle)
{
    return handle == NULL || handle == MEND_STREAM_LEGACY || handle == MEND_STREAM_PER_THREAD;
}

mend_status mend_sim_stream_find_default(mend_sim *sim, mend_sim_thread *thread, int device,
                                         mend_stream handle, mend_sim_stream **stream)
{
    assert(mend_sim_stream_is_default(handle));
    assert(device >= 0);
    assert(device < sim->config.device_count);
    bool per_thread = handle == MEND_STREAM_PER_THREAD;
    mend_sim_stream **own = per_thread ? &thread->streams[device] : &sim->devices[device].legacy;
    if (*own == NULL) {
        *own = mend_sim_stream_make(
            sim, device, per_thread ? MEND_SIM_STREAM_PER_THREAD : MEND_SIM_STREAM_LEGACY);
    }
    *stream = *own;
    return *own != NULL ? MEND_DRIVER_OK : MEND_DRIVER_OUT_OF_MEMORY;
}

mend_status mend_sim_stream_find(mend_sim *sim, mend_stream handle, mend_sim_stream **stream)
{
    if (mend_sim_stream_is_default(handle)) {
        int device = 0;
        TRY(mend_sim_current_device(sim, &device));
        return mend_sim_stream_find_default(sim, mend_sim_thread_get(sim), device, handle, stream);
    }
    *stream = mend_sim_handles_find(&sim->stream_handles, (uintptr_t)handle);
    FORBID(*stream == NULL, MEND_DRIVER_UNKNOWN,
           "%s: %p is not a stream, or was destroyed: a driver reads what it "
           "points to, and the process may die of it",
           mend_driver_call_name(sim->call), (void *)handle);
    return MEND_DRIVER_OK;
}

mend_status mend_sim_stream_find_for_use(mend_sim *sim, mend_stream handle,
                                         mend_sim_stream **stream)
{
    TRY(mend_sim_stream_find(sim, handle, stream));
    return mend_sim_capture_admits_legacy(sim, *stream);
}

mend_status mend_sim_stream_find_for_work(mend_sim *sim, mend_stream handle,
                                          mend_sim_stream **stream)
{
    int device = 0;
    TRY(mend_sim_current_device(sim, &device));
    return mend_sim_stream_find_for_use(sim, handle, stream);
}

static mend_status find_event(mend_sim *sim, mend_event handle, mend_sim_event **event)
{
    *event = mend_sim_handles_find(&sim->event_handles, (uintptr_t)handle);
    FORBID(*event == NULL, MEND_DRIVER_INVALID_HANDLE, "%s: %p is not an event, or was destroyed",
           mend_driver_call_name(sim->call), (void *)handle);
    return MEND_DRIVER_OK;
}

uint64_t mend_sim_stream_tail(const mend_sim *sim, const mend_sim_stream *stream)
{
    const mend_sim_device *device = &sim->devices[stream->device];
    uint64_t awaited_ns = 0;
    if (stream->kind == MEND_SIM_STREAM_LEGACY) {
        awaited_ns = device->blocking_tail_ns;
    } else if (mend_sim_stream_is_blocking(stream) && device->legacy != NULL) {
        awaited_ns = device->legacy->tail_ns;
    }
    return mend_max_u64(stream->tail_ns, awaited_ns);
}

mend_status mend_sim_stream_make_room(mend_sim *sim, mend_sim_stream *stream)
{
    if (stream->queue != NULL) {
        uint64_t oldest_ns = stream->queue[stream->queued % sim->config.queue_entries];
        sim->ledger.queue_waits += oldest_ns > sim->now_ns;
        mend_sim_run_until(sim, oldest_ns);
    }
    return sim->broken;
}

void mend_sim_stream_extend(mend_sim *sim, mend_sim_stream *stream, uint64_t until_ns)
{
    mend_sim_device *device = &sim->devices[stream->device];
    stream->tail_ns = mend_max_u64(stream->tail_ns, until_ns);
    if (stream->queue != NULL) {
        stream->queue[stream->queued++ % sim->config.queue_entries] = stream->tail_ns;
    }
    device->tail_ns = mend_max_u64(device->tail_ns, stream->tail_ns);
    assert(device->blocking_tail_ns <= device->tail_ns);
    if (mend_sim_stream_is_blocking(stream)) {
        device->blocking_tail_ns = mend_max_u64(device->blocking_tail_ns, stream->tail_ns);
    }
}

/* A CPU stall: the clock jumps to the time when the work is done. */
static mend_status wait_host(mend_sim *sim, uint64_t until_ns)
{
    sim->ledger.host_syncs++;
    mend_sim_run_until(sim, until_ns);
    return sim->broken;
}

mend_status mend_sim_do_stream_create(mend_sim *sim, mend_stream *stream)
{
    int context = 0;
    TRY(mend_sim_current_context(sim, &context));
    mend_sim_stream *made = mend_sim_stream_make(sim, context, MEND_SIM_STREAM_NON_BLOCKING);
    NEED(made != NULL);
    *stream = (mend_stream)made->handle;
    return MEND_DRIVER_OK;
}

/* Work queued on a destroyed stream still runs. */
mend_status mend_sim_do_stream_destroy(mend_sim *sim, mend_stream handle)
{
    mend_sim_stream *stream = NULL;
    TRY(mend_sim_stream_find(sim, handle, &stream));
    FORBID(stream->handle == 0, MEND_DRIVER_INVALID_HANDLE,
           "stream_destroy: %p is not a stream that was created", (void *)handle);
    TRY(mend_sim_capture_forbids_stream(sim, stream));
    assert(sim->ledger.streams > 0);
    assert(stream->capture == NULL);
    mend_sim_handles_remove(&sim->stream_handles, stream->handle);
    mend_list_remove(&stream->link);
    free(stream->queue);
    mend_slab_give(&sim->stream_slab, stream);
    sim->ledger.streams--;
    return MEND_DRIVER_OK;
}

mend_status mend_sim_do_stream_query(mend_sim *sim, mend_stream handle)
{
    mend_sim_stream *stream = NULL;
    TRY(mend_sim_stream_find_for_use(sim, handle, &stream));
    TRY(mend_sim_capture_forbids_stream(sim, stream));
    TRY(mend_sim_capture_admits_unsafe(sim));
    return mend_sim_stream_tail(sim, stream) <= sim->now_ns ? MEND_DRIVER_OK
                                                            : MEND_DRIVER_NOT_READY;
}

mend_status mend_sim_do_stream_synchronize(mend_sim *sim, mend_stream handle)
{
    mend_sim_stream *stream = NULL;
    TRY(mend_sim_stream_find_for_use(sim, handle, &stream));
    TRY(mend_sim_capture_forbids_stream(sim, stream));
    return wait_host(sim, mend_sim_stream_tail(sim, stream));
}

mend_status mend_sim_stream_wait_mark(mend_sim *sim, mend_sim_stream *stream,
                                      const mend_sim_event *event)
{
    bool captured = false;
    TRY(mend_sim_capture_takes_wait(sim, stream, event, &captured));
    if (!captured) {
        TRY(mend_sim_stream_make_room(sim, stream));
        uint64_t tail_ns = mend_sim_stream_tail(sim, stream);
        mend_sim_stream_extend(sim, stream, mend_max_u64(tail_ns, event->ready_ns));
    }
    return MEND_DRIVER_OK;
}

mend_status mend_sim_do_stream_wait(mend_sim *sim, mend_stream handle, mend_event event)
{
    mend_sim_stream *stream = NULL;
    mend_sim_event *fence = NULL;
    TRY(mend_sim_stream_find_for_use(sim, handle, &stream));
    TRY(find_event(sim, event, &fence));
    return mend_sim_stream_wait_mark(sim, stream, fence);
}

mend_status mend_sim_do_stream_get_info(mend_sim *sim, mend_stream handle, mend_stream_info *info)
{
    mend_sim_stream *stream = NULL;
    TRY(mend_sim_stream_find(sim, handle, &stream));
    mend_capture_state capture = mend_sim_capture_state(stream->capture);
    uint64_t capture_id = capture == MEND_CAPTURE_ACTIVE ? stream->capture->id : 0;
    if (mend_sim_capture_shuts_legacy(sim, stream) != NULL) {
        capture = MEND_CAPTURE_ACTIVE;
    }
    *info = (mend_stream_info){.capture = capture, .capture_id = capture_id};
    if (capture == MEND_CAPTURE_NONE || mend_sim_stream_is_default(handle)) {
        info->id = stream->id;
        info->context = mend_sim_context_of(stream->context);
        info->home = mend_sim_context_of(stream->device);
    }
    return MEND_DRIVER_OK;
}

int mend_sim_stream_identity(mend_sim *sim, mend_stream handle, mend_sim_identity *identity)
{
    mend_sim_stream *stream = NULL;
    mend_mutex_lock(&sim->mutex);
    sim->call = MEND_CALL_stream_get_info;
    mend_status status = mend_sim_out_of_order(sim, sim->call);
    if (status == MEND_DRIVER_OK) {
        status = mend_sim_stream_find(sim, handle, &stream);
    }
    if (status == MEND_DRIVER_OK) {
        status = mend_sim_capture_admits_identity(sim, stream);
    }
    if (status == MEND_DRIVER_OK) {
        const mend_sim_identity found = {.id = stream->id,
                                         .context = (void *)mend_sim_context_of(stream->context),
                                         .is_green = stream->context != stream->device};
        mend_struct_write(identity, &found, sizeof(found));
    }
    mend_mutex_unlock(&sim->mutex);
    return status;
}

mend_status mend_sim_do_context_synchronize(mend_sim *sim)
{
    int device = 0;
    TRY(mend_sim_current_device(sim, &device));
    TRY(mend_sim_capture_forbids_device(sim, device));
    return wait_host(sim, sim->devices[device].tail_ns);
}

mend_status mend_sim_do_event_create(mend_sim *sim, mend_event *handle)
{
    int context = 0;
    TRY(mend_sim_current_context(sim, &context));
    NEED(mend_slab_reserve(&sim->event_slab, 1) && mend_sim_handles_reserve(&sim->event_handles));
    mend_sim_event *event = mend_slab_take(&sim->event_slab);
    event->context = context;
    event->handle = mend_sim_handles_add(&sim->event_handles, event);
    sim->ledger.events++;
    *handle = (mend_event)event->handle;
    return MEND_DRIVER_OK;
}

mend_status mend_sim_event_mark(mend_sim *sim, mend_sim_event *event, mend_sim_stream *stream)
{
    bool captured = false;
    TRY(mend_sim_capture_takes_work(sim, stream, &captured));
    if (!captured) {
        TRY(mend_sim_stream_make_room(sim, stream));
    }
    assert(captured == (stream->capture != NULL));
    event->capture_id = captured ? stream->capture->id : 0;
    event->tip = stream->tip;
    if (!captured) {
        event->ready_ns = mend_max_u64(sim->now_ns, mend_sim_stream_tail(sim, stream));
        mend_sim_stream_extend(sim, stream, event->ready_ns);
    }
    return MEND_DRIVER_OK;
}

mend_status mend_sim_do_event_record(mend_sim *sim, mend_event handle, mend_stream stream_handle)
{
    mend_sim_event *event = NULL;
    mend_sim_stream *stream = NULL;
    TRY(find_event(sim, handle, &event));
    TRY(mend_sim_stream_find_for_use(sim, stream_handle, &stream));
    FORBID(event->context != stream->context, MEND_DRIVER_INVALID_HANDLE,
           "event_record: an event of context %p on a stream of context %p",
           (void *)mend_sim_context_of(event->context),
           (void *)mend_sim_context_of(stream->context));
    sim->ledger.captured_records += stream->capture != NULL;
    return mend_sim_event_mark(sim, event, stream);
}

/* The device's streams together, with the streams of its green contexts. */
mend_status mend_sim_do_context_record(mend_sim *sim, mend_event handle)
{
    int context = 0;
    mend_sim_event *event = NULL;
    TRY(sim->config.has_no_context_events != 0 ? MEND_DRIVER_NOT_SUPPORTED
                                               : find_event(sim, handle, &event));
    TRY(mend_sim_current_context(sim, &context));
    TRY(mend_sim_capture_forbids_device(sim, mend_sim_device_of(context)));
    FORBID(event->context != context, MEND_DRIVER_INVALID_HANDLE,
           "context_record: an event of context %p in context %p",
           (void *)mend_sim_context_of(event->context), (void *)mend_sim_context_of(context));
    event->capture_id = 0;
    event->tip = NULL;
    event->ready_ns = mend_max_u64(sim->now_ns, sim->devices[mend_sim_device_of(context)].tail_ns);
    return MEND_DRIVER_OK;
}

/* When the host learns that the event is complete. */
static uint64_t heard_ns(const mend_sim *sim, const mend_sim_event *event)
{
    return event->ready_ns == 0 ? 0 : event->ready_ns + sim->event_delay_ns;
}

mend_status mend_sim_do_event_query(mend_sim *sim, mend_event handle)
{
    mend_sim_event *event = NULL;
    TRY(find_event(sim, handle, &event));
    TRY(mend_sim_capture_forbids_event(sim, event));
    TRY(mend_sim_capture_admits_unsafe(sim));
    return heard_ns(sim, event) <= sim->now_ns ? MEND_DRIVER_OK : MEND_DRIVER_NOT_READY;
}

mend_status mend_sim_do_event_synchronize(mend_sim *sim, mend_event handle)
{
    mend_sim_event *event = NULL;
    TRY(find_event(sim, handle, &event));
    TRY(mend_sim_capture_forbids_event(sim, event));
    TRY(mend_sim_capture_admits_unsafe(sim));
    return wait_host(sim, heard_ns(sim, event));
}

mend_status mend_sim_do_event_destroy(mend_sim *sim, mend_event handle)
{
    mend_sim_event *event = NULL;
    TRY(find_event(sim, handle, &event));
    assert(sim->ledger.events > 0);
    mend_sim_handles_remove(&sim->event_handles, event->handle);
    mend_slab_give(&sim->event_slab, event);
    sim->ledger.events--;
    return MEND_DRIVER_OK;
}
