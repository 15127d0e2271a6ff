/* Calls of the device, each in a thread that may make it, and the order of two streams. */
#include "tests/sim/trial.h"

static mend_result result_of(mend_status status)
{
    return status == MEND_DRIVER_OK ? MEND_OK : MEND_ERROR_DRIVER;
}

static mend_result mark(const mend_driver *device, trial_call *call)
{
    mend_status status = device->event_create(device, &call->event);
    if (status != MEND_DRIVER_OK) {
        return MEND_ERROR_DRIVER;
    }
    status = device->event_record(device, call->event, call->stream);
    if (status != MEND_DRIVER_OK) {
        device->event_destroy(device, call->event);
    }
    return result_of(status);
}

/* Waits for all devices. */
static mend_result synchronize(const trial *t, const mend_driver *device)
{
    mend_status status = device->context_synchronize(device);
    for (int i = 0; status == MEND_DRIVER_OK && i < trial_other_devices(&t->config); i++) {
        status = device->context_push(device, t->other_contexts[i]);
        if (status == MEND_DRIVER_OK) {
            status = device->context_synchronize(device);
            device->context_pop(device);
        }
    }
    return result_of(status);
}

void trial_perform_on_device(trial_call *call)
{
    trial *t = call->trial;
    const mend_driver *device = t->device;
    switch (call->kind) {
    case CALL_LAUNCH:
        call->work.struct_size = sizeof(call->work);
        call->result = mend_sim_launch(t->sim, call->stream, &call->work);
        break;
    case CALL_LAUNCH_GRAPH:
        call->result =
            mend_sim_graph_launch(t->sim, call->graph, call->stream, call->work.finish_ns);
        break;
    case CALL_ORDER:
        call->result = mend_sim_stream_wait(t->sim, call->stream, call->other);
        break;
    case CALL_SYNCHRONIZE:
        call->result = synchronize(t, device);
        break;
    case CALL_BEGIN_CAPTURE:
        call->result =
            mend_sim_begin_capture(t->sim, call->stream, (mend_sim_capture_mode)call->mode);
        device->stream_get_info(device, call->stream, &call->info);
        break;
    case CALL_END_CAPTURE:
        call->result = mend_sim_end_capture(t->sim, call->stream, &call->graph);
        break;
    case CALL_SPOIL:
        t->forgiving = true;
        device->stream_query(device, call->stream);
        t->forgiving = false;
        call->result = MEND_OK;
        break;
    case CALL_MARK:
        call->result = mark(device, call);
        break;
    case CALL_WAIT:
        call->result = result_of(device->stream_wait(device, call->stream, call->event));
        device->event_destroy(device, call->event);
        break;
    case CALL_ENTER:
        call->result = result_of(device->context_push(device, t->context));
        break;
    default:
        call->result = result_of(device->context_pop(device));
        break;
    }
}

bool trial_call_device(trial *t, int thread, trial_call *call)
{
    call->trial = t;
    turns_run(&t->turns, thread, trial_perform, call);
    if (call->result == MEND_OK) {
        return true;
    }
    const bool is_of_table =
        call->kind == CALL_SYNCHRONIZE || call->kind == CALL_MARK || call->kind == CALL_WAIT;
    bool explained = t->may_be_lost || t->stopped || (t->faults_stand && is_of_table) ||
                     (call->kind == CALL_END_CAPTURE && call->result == MEND_ERROR_DRIVER);
    trial_claim(t, TRIAL_RESULT, explained, "call %d of the device: %s; %s", (int)call->kind,
                mend_result_name(call->result), t->violation);
    return false;
}

/* A blocking stream that is captured takes the legacy stream out of use. */
static bool is_shut(const trial *t, int stream)
{
    if (t->streams[stream].handle != NULL) {
        return false;
    }
    for (int i = 0; i < t->stream_count; i++) {
        if (t->streams[i].captured && t->streams[i].blocking) {
            return true;
        }
    }
    return false;
}

bool trial_is_open(const trial *t, int stream)
{
    return !t->streams[stream].captured && !is_shut(t, stream) && !t->stopped;
}

/* Two streams of two threads: the one marks, the other waits. */
static bool order_threads(trial *t, int from, int to)
{
    trial_call call = {.kind = CALL_MARK, .stream = trial_handle(t, from, false)};
    if (!trial_call_device(t, t->streams[from].thread, &call)) {
        return false;
    }
    call.kind = CALL_WAIT;
    call.stream = trial_handle(t, to, false);
    return trial_call_device(t, t->streams[to].thread, &call);
}

bool trial_order(trial *t, int from, int to)
{
    const bool can =
        trial_is_beside(t, from, to) || (trial_is_open(t, from) && trial_is_open(t, to));
    return from == to || t->config.sin || (can && trial_wait(t, from, to));
}

bool trial_wait(trial *t, int from, int to)
{
    int from_thread = t->streams[from].thread;
    int to_thread = t->streams[to].thread;
    trial_call call = {.kind = CALL_ORDER,
                       .stream = trial_handle(t, to, false),
                       .other = trial_handle(t, from, false)};
    int thread = from_thread != ANY_THREAD ? from_thread : trial_thread_of(t, to, 0);
    const bool is_ordered = from_thread != ANY_THREAD && to_thread != ANY_THREAD
                                ? order_threads(t, from, to)
                                : trial_call_device(t, thread, &call);
    if (is_ordered) {
        trial_note_order(t, from, to);
    }
    return is_ordered;
}
