/*
 * What the driver knows of a stream: whether it is being captured, its identity and its context.
 *
 * The capture status may be asked for at any time. The identity and the context may not be asked
 * for during a capture: cuStreamGetId and cuStreamGetCtx then fail and invalidate the capture. So
 * the capture status comes first, the rest only if there is no capture. The special streams need no
 * question: there is one legacy stream for each context, and one per-thread stream for each context
 * and thread.
 */
#include "base/process.h"
#include "driver/cuda_state.h"

/* Marks the identities that Mend makes: the driver's count from 1. */
#define SPECIAL_ID (UINT64_C(1) << 63)

static bool is_special(mend_stream stream)
{
    return stream == NULL || stream == MEND_STREAM_LEGACY || stream == MEND_STREAM_PER_THREAD;
}

/* For a green context: the primary context of its device. NULL if Mend has not opened the
 * device. */
static mend_status ask_primary(mend_cuda *cuda, mend_context green, mend_context *primary)
{
    const mend_cu_functions *functions = &cuda->functions;
    mend_cu_device device = 0;
    mend_context popped = NULL;
    MEND_TRY_CALL(functions->cuCtxPushCurrent(green));
    mend_status status = functions->cuCtxGetDevice(&device);
    functions->cuCtxPopCurrent(&popped);
    *primary = NULL;
    if (status == MEND_DRIVER_OK && device >= 0 && device < MEND_CUDA_DEVICE_LIMIT) {
        mend_mutex_lock(&cuda->mutex);
        *primary = cuda->device[device].context;
        mend_mutex_unlock(&cuda->mutex);
    }
    return status;
}

/* A stream of another context than the current one may belong to a green context. */
static mend_status ask_home(mend_cuda *cuda, mend_stream stream, mend_stream_info *info)
{
    const mend_cu_functions *functions = &cuda->functions;
    mend_context current = NULL;
    mend_cu_green_context green = NULL;
    info->home = info->context;
    mend_status status = functions->cuCtxGetCurrent(&current);
    if (status != MEND_DRIVER_OK || current == info->context ||
        functions->cuStreamGetGreenCtx == NULL) {
        return status;
    }
    status = functions->cuStreamGetGreenCtx(stream, &green);
    return status == MEND_DRIVER_OK && green != NULL ? ask_primary(cuda, info->context, &info->home)
                                                     : status;
}

/*
 * Drivers before 12.0 have no identity that outlives the handle, so the handle itself is used.
 * Users must call mend_forget_stream before they destroy a stream, which ends its meaning in time.
 */
static mend_status ask_created(mend_cuda *cuda, mend_stream stream, mend_stream_info *info)
{
    const mend_cu_functions *functions = &cuda->functions;
    unsigned long long id = (uintptr_t)stream;
    if (functions->cuStreamGetId != NULL) {
        MEND_TRY_CALL(functions->cuStreamGetId(stream, &id));
    }
    info->id = id;
    MEND_TRY_CALL(functions->cuStreamGetCtx(stream, &info->context));
    return ask_home(cuda, stream, info);
}

static mend_status ask_special(const mend_cu_functions *functions, mend_stream stream,
                               mend_stream_info *info)
{
    mend_status status = functions->cuCtxGetCurrent(&info->context);
    if (status == MEND_DRIVER_OK && info->context == NULL) {
        return MEND_DRIVER_INVALID_CONTEXT;
    }
    info->home = info->context;
    info->id = SPECIAL_ID;
    if (stream == MEND_STREAM_PER_THREAD) {
        info->id += mend_process_thread_number();
    }
    return status;
}

static mend_status ask_capture(const mend_cu_functions *functions, mend_stream stream,
                               mend_stream_info *info)
{
    mend_cu_capture_status capture = 0;
    mend_cu_id capture_id = 0;
    mend_status status =
        functions->cuStreamGetCaptureInfo(stream, &capture, &capture_id, NULL, NULL, NULL);
    if (status == MEND_DRIVER_CAPTURE_IMPLICIT) {
        /* The legacy stream while a blocking stream captures: not captured itself, but not
         * usable. */
        info->capture = MEND_CAPTURE_ACTIVE;
        return MEND_DRIVER_OK;
    }
    if (status == MEND_DRIVER_OK) {
        info->capture = (mend_capture_state)capture;
        info->capture_id = info->capture == MEND_CAPTURE_ACTIVE ? capture_id : 0;
    }
    return status;
}

/* Another thread may begin a capture between the two questions. */
static mend_status ask_whole(mend_cuda *cuda, mend_stream stream, mend_stream_info *info)
{
    mend_status status = ask_capture(&cuda->functions, stream, info);
    if (status != MEND_DRIVER_OK || info->capture != MEND_CAPTURE_NONE) {
        return status;
    }
    status = ask_created(cuda, stream, info);
    if (!mend_status_is_of_any_capture(status)) {
        return status;
    }
    *info = (mend_stream_info){0};
    mend_status again = ask_capture(&cuda->functions, stream, info);
    return again == MEND_DRIVER_OK && info->capture == MEND_CAPTURE_NONE ? status : again;
}

mend_status mend_cuda_stream_get_info(const mend_driver *driver, mend_stream stream,
                                      mend_stream_info *info)
{
    mend_cuda *cuda = mend_cuda_of(driver);
    mend_stream_info found = {0};
    if (is_special(stream)) {
        MEND_TRY_CALL(ask_special(&cuda->functions, stream, &found));
        MEND_TRY_CALL(ask_capture(&cuda->functions, stream, &found));
    } else {
        MEND_TRY_CALL(ask_whole(cuda, stream, &found));
    }
    *info = found;
    return MEND_DRIVER_OK;
}
