/*
 * Streams of other devices. Work of another device may use the pool's memory, so the pool serves
 * its streams like its own. It records an event in the context of the stream, and a stream can wait
 * for it across devices.
 */
#include "memory/waits.h"

/* Ends the function with the answer to a call that failed. */
#define MEND_TRY_ANSWER(call)                                                                      \
    do {                                                                                           \
        const mend_answer tried = (call);                                                          \
        if (tried.status != MEND_DRIVER_OK) {                                                      \
            return tried;                                                                          \
        }                                                                                          \
    } while (0)

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

/* Finds the devices of the current context (the pool's) and of another one. */
static mend_answer find_devices(const mend_streams *streams, mend_context context, int *own,
                                int *device)
{
    const mend_driver *driver = streams->driver;
    MEND_TRY_ANSWER(MEND_ANSWER(context_device, driver->context_device(driver, own)));
    MEND_TRY_ANSWER(mend_foreign_enter(streams, context));
    const mend_status status = driver->context_device(driver, device);
    mend_foreign_leave(streams, context);
    return MEND_ANSWER(context_device, status);
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
    const mend_answer answer = find_devices(streams, info->context, &own, &device);
    bool can_hold = answer.status == MEND_DRIVER_OK && device != own && device >= 0 &&
                    device < MEND_DEVICE_LIMIT && !is_open(streams, device);
    *call = can_hold ? MEND_CALL_device_open : answer.call;
    return can_hold ? hold(streams, device, info, is_admitted) : answer.status;
}

mend_status mend_foreign_admit_device(mend_streams *streams, int device)
{
    const mend_stream_info unknown = {0};
    bool is_admitted = false;
    return is_open(streams, device) ? MEND_DRIVER_OK
                                    : hold(streams, device, &unknown, &is_admitted);
}

mend_answer mend_foreign_find_capture(const mend_streams *streams, bool *is_captured)
{
    *is_captured = false;
    for (int i = 0; i < MEND_CONTEXTS && !*is_captured; i++) {
        const mend_context context = streams->contexts[i];
        mend_stream_info info = {0};
        if (context != NULL) {
            MEND_TRY_ANSWER(mend_foreign_enter(streams, context));
            const mend_status status =
                streams->driver->stream_get_info(streams->driver, MEND_STREAM_LEGACY, &info);
            mend_foreign_leave(streams, context);
            MEND_TRY_ANSWER(MEND_ANSWER(stream_get_info, status));
            *is_captured = info.capture != MEND_CAPTURE_NONE;
        }
    }
    return MEND_ANSWER(stream_get_info, MEND_DRIVER_OK);
}

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

mend_answer mend_foreign_record(const mend_streams *streams, int number, mend_event event)
{
    const mend_context context = streams->contexts[number];
    assert(context != NULL);
    MEND_TRY_ANSWER(mend_foreign_enter(streams, context));
    const mend_status status = streams->driver->context_record(streams->driver, event);
    mend_foreign_leave(streams, context);
    return MEND_ANSWER(context_record, status);
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
