/* Streams: made, asked, waited for, and functions of the host in their order. */
#include <stdlib.h>

#include "simulate/entry.h"
#include "simulate/errors.h"
#include "simulate/work.h"

/* Priorities run from 0 down to this. All streams have the same, which is 0. */
enum { GREATEST_PRIORITY = -5, NON_BLOCKING = 1 };

/* ---- made ------------------------------------------------------------------------------------ */

SIMULATE_EXPORT int cudaStreamCreateWithPriority(mend_stream *stream, unsigned flags, int priority)
{
    (void)priority;
    int error = simulate_enter_if(stream != NULL && flags <= NON_BLOCKING);
    if (error == CUDA_SUCCESS && flags == NON_BLOCKING) {
        error = SIMULATE_DRIVER(stream_create, stream);
    } else if (error == CUDA_SUCCESS) {
        mend_sim_stream_options options = MEND_SIM_STREAM_OPTIONS_INIT;
        options.device = simulate_current();
        options.is_blocking = 1;
        error = mend_sim_stream_create(simulate_here.sim, &options, stream) == MEND_OK
                    ? CUDA_SUCCESS
                    : CUDA_OUT_OF_MEMORY;
    }
    return simulate_answer(error);
}

SIMULATE_EXPORT int cudaStreamCreateWithFlags(mend_stream *stream, unsigned flags)
{
    return cudaStreamCreateWithPriority(stream, flags, 0);
}

SIMULATE_EXPORT int cudaStreamCreate(mend_stream *stream)
{
    return cudaStreamCreateWithPriority(stream, 0, 0);
}

SIMULATE_EXPORT int cudaStreamDestroy(mend_stream stream)
{
    int error = simulate_enter();
    return simulate_answer(error != CUDA_SUCCESS ? error : SIMULATE_DRIVER(stream_destroy, stream));
}

/* ---- asked ----------------------------------------------------------------------------------- */

SIMULATE_EXPORT int cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    if (least != NULL) {
        *least = 0;
    }
    if (greatest != NULL) {
        *greatest = GREATEST_PRIORITY;
    }
    return CUDA_SUCCESS;
}

/* The identity of a stream, or an error. */
static int identify(mend_stream stream, mend_stream_info *info)
{
    int error = simulate_enter();
    return error == CUDA_SUCCESS ? SIMULATE_DRIVER(stream_get_info, stream, info) : error;
}

SIMULATE_EXPORT int cudaStreamGetPriority(mend_stream stream, int *priority)
{
    mend_stream_info info;
    int error = identify(stream, &info);
    if (error == CUDA_SUCCESS) {
        *priority = 0;
    }
    return simulate_answer(error);
}

SIMULATE_EXPORT int cudaStreamGetFlags(mend_stream stream, unsigned *flags)
{
    mend_stream_info info;
    int error = identify(stream, &info);
    if (error == CUDA_SUCCESS) {
        *flags = stream == NULL || stream == MEND_STREAM_LEGACY ? 0 : NON_BLOCKING;
    }
    return simulate_answer(error);
}

SIMULATE_EXPORT int cudaStreamGetId(mend_stream stream, unsigned long long *id)
{
    mend_stream_info info = {0};
    int error = identify(stream, &info);
    if (error == CUDA_SUCCESS) {
        *id = info.id;
    }
    return simulate_answer(error);
}

SIMULATE_EXPORT int cudaStreamGetDevice(mend_stream stream, int *device)
{
    mend_stream_info info = {0};
    int error = simulate_enter();
    if (error == CUDA_SUCCESS) {
        error = identify(stream, &info);
    }
    for (int i = 0; error == CUDA_SUCCESS && i < simulate_here.device_count; i++) {
        if (simulate_here.contexts[i] == info.home) {
            *device = i;
        }
    }
    return simulate_answer(error);
}

SIMULATE_EXPORT int cudaStreamQuery(mend_stream stream)
{
    int error = simulate_enter();
    return simulate_answer(
        error != CUDA_SUCCESS ? error : simulate_work_asked(SIMULATE_DRIVER(stream_query, stream)));
}

/* ---- waited for ------------------------------------------------------------------------------ */

SIMULATE_EXPORT int cudaStreamSynchronize(mend_stream stream)
{
    int error = simulate_enter();
    return simulate_answer(error != CUDA_SUCCESS ? error
                                                 : SIMULATE_DRIVER(stream_synchronize, stream));
}

SIMULATE_EXPORT int cudaStreamWaitEvent(mend_stream stream, mend_event event, unsigned flags)
{
    (void)flags; /* how an event of another program is meant: there is none */
    int error = simulate_enter();
    return simulate_answer(error != CUDA_SUCCESS ? error
                                                 : SIMULATE_DRIVER(stream_wait, stream, event));
}

/* ---- functions of the host ------------------------------------------------------------------- */

SIMULATE_EXPORT int cudaLaunchHostFunc(mend_stream stream, void (*function)(void *), void *argument)
{
    int error = simulate_enter_if(function != NULL);
    if (error == CUDA_SUCCESS) {
        const simulate_effect effect = {
            .kind = SIMULATE_HOST, .host = function, .argument = argument};
        error = simulate_work_effect(stream, &effect);
    }
    return simulate_answer(error);
}

/* The older kind of function: it gets the stream and the error so far, and cannot be captured.
 */
typedef void (*stream_callback)(mend_stream stream, int error, void *argument);

SIMULATE_EXPORT int cudaStreamAddCallback(mend_stream stream, stream_callback callback,
                                          void *argument, unsigned flags)
{
    mend_stream_info info = {0};
    int error = simulate_enter_if(callback != NULL && flags == 0);
    if (error == CUDA_SUCCESS) {
        error = SIMULATE_DRIVER(stream_get_info, stream, &info);
    }
    if (error == CUDA_SUCCESS && info.capture != MEND_CAPTURE_NONE) {
        error = CUDA_CAPTURE_UNSUPPORTED;
    }
    if (error == CUDA_SUCCESS) {
        error = simulate_work_kernel(stream, SIMULATE_QUESTION_NS);
    }
    if (error == CUDA_SUCCESS) {
        callback(stream, CUDA_SUCCESS, argument);
    }
    return simulate_answer(error);
}
