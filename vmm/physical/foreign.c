/*
 * Streams of other devices. Work of another device may use the pool's memory, so the pool serves
 * its streams like its own: it records an event in the context of the stream, and a stream that
 * waits for the event waits across devices.
 */
#include "physical/waits.h"

static bool is_open(const mend_streams *streams, int device)
{
    assert(device >= 0);
    assert(device < MEND_DEVICE_LIMIT);
    return streams->contexts[device + 1] != NULL;
}

static bool is_known(const mend_streams *streams, mend_context home)
{
    bool is_there = false;
    for (int i = 0; i < MEND_CONTEXTS && home != NULL && !is_there; i++) {
        is_there = streams->contexts[i] == home;
    }
    return is_there;
}

mend_status mend_foreign_enter(const mend_streams *streams, mend_context context,
                               mend_driver_call *call)
{
    *call = MEND_CALL_context_push;
    return context == streams->contexts[MEND_OWN_CONTEXT]
               ? MEND_DRIVER_OK
               : streams->driver->context_push(streams->driver, context);
}

void mend_foreign_leave(const mend_streams *streams, mend_context context)
{
    if (context != streams->contexts[MEND_OWN_CONTEXT]) {
        streams->driver->context_pop(streams->driver);
    }
}

/* Finds the device of the current context (the pool's) and that of another one. */
static mend_status find_devices(const mend_streams *streams, mend_context context, int *own,
                                int *device, mend_driver_call *call)
{
    const mend_driver *driver = streams->driver;
    *call = MEND_CALL_context_device;
    MEND_TRY_CALL(driver->context_device(driver, own));
    MEND_TRY_CALL(mend_foreign_enter(streams, context, call));
    *call = MEND_CALL_context_device;
    const mend_status status = driver->context_device(driver, device);
    mend_foreign_leave(streams, context);
    return status;
}

static mend_status hold(mend_streams *streams, int device, const mend_stream_info *info,
                        bool *is_admitted)
{
    const mend_driver *driver = streams->driver;
    assert(!is_open(streams, device));
    mend_device_info opened = {0};
    MEND_TRY_CALL(driver->device_open(driver, device, &opened));
    /* The driver does not report the home of a green context before its device is open. */
    *is_admitted = info->home == NULL || info->home == opened.context;
    if (*is_admitted) {
        assert(opened.context != streams->contexts[MEND_OWN_CONTEXT]);
        streams->contexts[device + 1] = opened.context;
    } else {
        driver->device_close(driver, device);
    }
    return MEND_DRIVER_OK;
}

mend_status mend_foreign_admit(mend_streams *streams, const mend_stream_info *info,
                               bool *is_admitted, mend_driver_call *call)
{
    int own = 0;
    int device = 0;
    *is_admitted = is_known(streams, info->home);
    if (*is_admitted) {
        return MEND_DRIVER_OK;
    }
    mend_status status = find_devices(streams, info->context, &own, &device, call);
    bool can_hold = status == MEND_DRIVER_OK && device != own && device >= 0 &&
                    device < MEND_DEVICE_LIMIT && !is_open(streams, device);
    if (!can_hold) {
        return status;
    }
    *call = MEND_CALL_device_open;
    return hold(streams, device, info, is_admitted);
}

mend_status mend_foreign_admit_device(mend_streams *streams, int device)
{
    const mend_stream_info unknown = {0};
    bool is_admitted = false;
    return is_open(streams, device) ? MEND_DRIVER_OK
                                    : hold(streams, device, &unknown, &is_admitted);
}

static mend_status ask_legacy(const mend_streams *streams, mend_context context, bool *is_captured,
                              mend_driver_call *call)
{
    mend_stream_info info = {0};
    MEND_TRY_CALL(mend_foreign_enter(streams, context, call));
    *call = MEND_CALL_stream_get_info;
    const mend_status status =
        streams->driver->stream_get_info(streams->driver, MEND_STREAM_LEGACY, &info);
    mend_foreign_leave(streams, context);
    *is_captured = info.capture != MEND_CAPTURE_NONE;
    return status;
}

mend_status mend_foreign_find_capture(const mend_streams *streams, bool *is_captured,
                                      mend_driver_call *call)
{
    mend_status status = MEND_DRIVER_OK;
    *is_captured = false;
    for (int i = 0; i < MEND_CONTEXTS && status == MEND_DRIVER_OK && !*is_captured; i++) {
        if (streams->contexts[i] != NULL) {
            status = ask_legacy(streams, streams->contexts[i], is_captured, call);
        }
    }
    return status;
}

static mend_status synchronize(const mend_streams *streams, mend_context context,
                               mend_driver_call *call)
{
    MEND_TRY_CALL(mend_foreign_enter(streams, context, call));
    *call = MEND_CALL_context_synchronize;
    const mend_status status = streams->driver->context_synchronize(streams->driver);
    mend_foreign_leave(streams, context);
    return status;
}

mend_status mend_foreign_synchronize(const mend_streams *streams, uint64_t *waits,
                                     mend_driver_call *call)
{
    mend_status status = MEND_DRIVER_OK;
    *waits = 0;
    for (int i = 0; i < MEND_CONTEXTS && status == MEND_DRIVER_OK; i++) {
        if (streams->contexts[i] != NULL) {
            status = synchronize(streams, streams->contexts[i], call);
            *waits += status == MEND_DRIVER_OK;
        }
    }
    return status;
}

mend_status mend_foreign_record(const mend_streams *streams, int number, mend_event event,
                                mend_driver_call *call)
{
    const mend_context context = streams->contexts[number];
    assert(context != NULL);
    MEND_TRY_CALL(mend_foreign_enter(streams, context, call));
    *call = MEND_CALL_context_record;
    const mend_status status = streams->driver->context_record(streams->driver, event);
    mend_foreign_leave(streams, context);
    return status;
}

mend_status mend_foreign_close(mend_streams *streams)
{
    mend_status first = MEND_DRIVER_OK;
    for (int i = 0; i < MEND_DEVICE_LIMIT; i++) {
        if (is_open(streams, i)) {
            mend_status status = streams->driver->device_close(streams->driver, i);
            first = first != MEND_DRIVER_OK ? first : status;
        }
        streams->contexts[i + 1] = NULL;
    }
    return first;
}
