/* What a stream is: its identity, its context and whether it is being captured. */
#include "driver/cuda_state.h"

/*
 * Drivers before 12.0 have no identity that outlives the handle. The handle serves then, and
 * mend_forget_stream, which users owe before they destroy a stream, ends its meaning in time. The
 * per-thread stream has one handle for all threads, so it cannot be told apart.
 */
static mend_status stream_id(const mend_cu_functions *functions, mend_stream stream, uint64_t *id)
{
    unsigned long long found = 0;
    if (functions->cuStreamGetId != NULL) {
        mend_status status = functions->cuStreamGetId(stream, &found);
        *id = found;
        return status;
    }
    if (stream == MEND_STREAM_PER_THREAD) {
        return MEND_DRIVER_NOT_SUPPORTED;
    }
    *id = (uint64_t)(uintptr_t)(stream == NULL ? MEND_STREAM_LEGACY : stream);
    return MEND_DRIVER_OK;
}

mend_status mend_cuda_stream_get_info(const mend_driver *driver, mend_stream stream,
                                      mend_stream_info *info)
{
    const mend_cu_functions *functions = mend_cuda_functions(driver);
    mend_stream_info found = {0};
    mend_status status = stream_id(functions, stream, &found.id);
    if (status == MEND_DRIVER_OK) {
        status = functions->cuStreamGetCtx(stream, &found.context);
    }
    if (status != MEND_DRIVER_OK) {
        return status;
    }
    mend_cu_capture_status capture = 0;
    mend_cu_id capture_id = 0;
    status = functions->cuStreamGetCaptureInfo(stream, &capture, &capture_id, NULL, NULL, NULL);
    if (status == MEND_DRIVER_CAPTURE_IMPLICIT) {
        /* The legacy stream while a blocking stream captures: not captured, but not usable. */
        found.capture = MEND_CAPTURE_ACTIVE;
    } else if (status != MEND_DRIVER_OK) {
        return status;
    } else {
        found.capture = (mend_capture_state)capture;
        found.capture_id = found.capture == MEND_CAPTURE_ACTIVE ? capture_id : 0;
    }
    *info = found;
    return MEND_DRIVER_OK;
}
