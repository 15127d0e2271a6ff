/*
 * Streams of other devices. Work of another device may use the pool's memory, so the pool serves
 * its streams like its own: it records an event in the context of the stream, and a stream that
 * waits for the event waits across devices.
 */
#include "physical/waits.h"

#include <limits.h>

static_assert(MEND_DEVICE_LIMIT <= sizeof(uint64_t) * CHAR_BIT, "a device is a bit of a number");
static bool is_open(const mend_streams *streams, int device)
{
    assert(device >= 0);
    assert(device < MEND_DEVICE_LIMIT);
    return (streams->foreign_devices >> device & 1) != 0;
}

static bool is_known(const mend_streams *streams, mend_context home)
{
    bool is_there = home == streams->context;
    for (int i = 0; i < MEND_DEVICE_LIMIT && !is_there; i++) {
        is_there = is_open(streams, i) && streams->foreign[i] == home;
    }
    return is_there;
}

/* Makes another context current until `leave`. */
static mend_status enter(const mend_streams *streams, mend_context context, mend_driver_call *call)
{
    *call = MEND_CALL_context_push;
    return streams->driver->context_push(streams->driver, context);
}

static void leave(const mend_streams *streams)
{
    streams->driver->context_pop(streams->driver);
}

/* Finds the device of the current context (the pool's) and that of another one. */
static mend_status find_devices(const mend_streams *streams, mend_context context, int *own,
                                int *device, mend_driver_call *call)
{
    const mend_driver *driver = streams->driver;
    *call = MEND_CALL_context_device;
    MEND_TRY_CALL(driver->context_device(driver, own));
    MEND_TRY_CALL(enter(streams, context, call));
    *call = MEND_CALL_context_device;
    const mend_status status = driver->context_device(driver, device);
    leave(streams);
    return status;
}

/* The driver does not report the home of a green context before its device is open. */
static bool is_home(const mend_stream_info *info, mend_context primary)
{
    return info->home == NULL || info->home == primary;
}

static mend_status hold(mend_streams *streams, int device, const mend_stream_info *info,
                        bool *is_admitted)
{
    const mend_driver *driver = streams->driver;
    assert(!is_open(streams, device));
    mend_device_info opened = {0};
    MEND_TRY_CALL(driver->device_open(driver, device, &opened));
    *is_admitted = is_home(info, opened.context);
    if (*is_admitted) {
        assert(opened.context != streams->context);
        streams->foreign[device] = opened.context;
        streams->foreign_devices |= UINT64_C(1) << device;
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
    MEND_TRY_CALL(enter(streams, context, call));
    *call = MEND_CALL_stream_get_info;
    const mend_status status =
        streams->driver->stream_get_info(streams->driver, MEND_STREAM_LEGACY, &info);
    leave(streams);
    *is_captured = info.capture != MEND_CAPTURE_NONE;
    return status;
}

mend_status mend_foreign_find_capture(const mend_streams *streams, bool *is_captured,
                                      mend_driver_call *call)
{
    mend_status status = MEND_DRIVER_OK;
    *is_captured = false;
    for (int i = 0; i < MEND_DEVICE_LIMIT && status == MEND_DRIVER_OK && !*is_captured; i++) {
        if (is_open(streams, i)) {
            status = ask_legacy(streams, streams->foreign[i], is_captured, call);
        }
    }
    return status;
}

static mend_status synchronize(const mend_streams *streams, mend_context context,
                               mend_driver_call *call)
{
    MEND_TRY_CALL(enter(streams, context, call));
    *call = MEND_CALL_context_synchronize;
    const mend_status status = streams->driver->context_synchronize(streams->driver);
    leave(streams);
    return status;
}

mend_status mend_foreign_synchronize(const mend_streams *streams, uint64_t *waits,
                                     mend_driver_call *call)
{
    *call = MEND_CALL_context_synchronize;
    mend_status status = streams->driver->context_synchronize(streams->driver);
    *waits = status == MEND_DRIVER_OK;
    for (int i = 0; i < MEND_DEVICE_LIMIT && status == MEND_DRIVER_OK; i++) {
        if (is_open(streams, i)) {
            status = synchronize(streams, streams->foreign[i], call);
            *waits += status == MEND_DRIVER_OK;
        }
    }
    return status;
}

mend_status mend_foreign_record(const mend_streams *streams, int device, mend_event event,
                                mend_driver_call *call)
{
    assert(is_open(streams, device));
    MEND_TRY_CALL(enter(streams, streams->foreign[device], call));
    *call = MEND_CALL_context_record;
    const mend_status status = streams->driver->context_record(streams->driver, event);
    leave(streams);
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
    }
    streams->foreign_devices = 0;
    return first;
}
