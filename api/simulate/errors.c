#include "simulate/errors.h"

#include <stddef.h>

#include "simulate/entry.h"

/* X(code, name in the runtime, words) */
#define ERRORS(X)                                                                                  \
    X(CUDA_SUCCESS, cudaSuccess, "no error")                                                       \
    X(CUDA_INVALID_VALUE, cudaErrorInvalidValue, "invalid argument")                               \
    X(CUDA_OUT_OF_MEMORY, cudaErrorMemoryAllocation, "out of memory")                              \
    X(CUDA_NOT_INITIALIZED, cudaErrorInitializationError, "initialization error")                  \
    X(4, cudaErrorCudartUnloading, "driver shutting down")                                         \
    X(CUDA_INVALID_DIRECTION, cudaErrorInvalidMemcpyDirection, "invalid copy direction")           \
    X(CUDA_MISSING_CONFIGURATION, cudaErrorMissingConfiguration, "missing launch configuration")   \
    X(CUDA_NO_DEVICE, cudaErrorNoDevice, "no CUDA-capable device is detected")                     \
    X(CUDA_INVALID_DEVICE, cudaErrorInvalidDevice, "invalid device ordinal")                       \
    X(201, cudaErrorDeviceUninitialized, "invalid device context")                                 \
    X(CUDA_INVALID_HANDLE, cudaErrorInvalidResourceHandle, "invalid resource handle")              \
    X(CUDA_ILLEGAL_STATE, cudaErrorIllegalState, "the operation cannot be done in this state")     \
    X(CUDA_NOT_FOUND, cudaErrorSymbolNotFound, "named symbol not found")                           \
    X(CUDA_NOT_READY, cudaErrorNotReady, "device not ready")                                       \
    X(CUDA_ILLEGAL_ADDRESS, cudaErrorIllegalAddress, "an illegal memory access was encountered")   \
    X(CUDA_PEER_ENABLED, cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled")      \
    X(CUDA_PEER_NOT_ENABLED, cudaErrorPeerAccessNotEnabled, "peer access has not been enabled")    \
    X(CUDA_REGISTERED, cudaErrorHostMemoryAlreadyRegistered,                                       \
      "part or all of the requested memory range is already mapped")                               \
    X(CUDA_NOT_REGISTERED, cudaErrorHostMemoryNotRegistered,                                       \
      "pointer does not correspond to a registered memory region")                                 \
    X(719, cudaErrorLaunchFailure, "unspecified launch failure")                                   \
    X(800, cudaErrorNotPermitted, "operation not permitted")                                       \
    X(CUDA_NOT_SUPPORTED, cudaErrorNotSupported, "operation not supported")                        \
    X(CUDA_CAPTURE_UNSUPPORTED, cudaErrorStreamCaptureUnsupported,                                 \
      "operation not permitted when stream is capturing")                                          \
    X(CUDA_CAPTURE_INVALIDATED, cudaErrorStreamCaptureInvalidated,                                 \
      "operation failed due to a previous error during capture")                                   \
    X(902, cudaErrorStreamCaptureMerge,                                                            \
      "operation would result in a merge of separate capture sequences")                           \
    X(CUDA_CAPTURE_UNMATCHED, cudaErrorStreamCaptureUnmatched,                                     \
      "capture was not ended in the same stream as it began")                                      \
    X(CUDA_CAPTURE_UNJOINED, cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work") \
    X(905, cudaErrorStreamCaptureIsolation,                                                        \
      "dependency created on uncaptured work in another stream")                                   \
    X(906, cudaErrorStreamCaptureImplicit,                                                         \
      "operation would make the legacy stream depend on a capturing blocking stream")              \
    X(907, cudaErrorCapturedEvent,                                                                 \
      "operation not permitted on an event last recorded in a "                                    \
      "capturing stream")                                                                          \
    X(CUDA_CAPTURE_WRONG_THREAD, cudaErrorStreamCaptureWrongThread,                                \
      "attempt to terminate a thread-local capture sequence from another thread")                  \
    X(CUDA_UNKNOWN, cudaErrorUnknown, "unknown error")

static const struct {
    int code;
    const char *name;
    const char *text;
} errors[] = {
#define X(code, name, text) {code, #name, text},
    ERRORS(X)
#undef X
};

static _Thread_local int last_error;

int simulate_answer(int status)
{
    /* The simulated device says so of a stream it does not know. */
    int error = status == CUDA_UNKNOWN ? CUDA_INVALID_HANDLE : status;
    if (error != CUDA_SUCCESS) {
        last_error = error;
    }
    return error;
}

int simulate_error_of(mend_result result)
{
    switch (result) {
    case MEND_OK:
        return CUDA_SUCCESS;
    case MEND_ERROR_DEVICE_LOST:
        return CUDA_ILLEGAL_ADDRESS;
    case MEND_ERROR_OUT_OF_HOST_MEMORY:
        return CUDA_OUT_OF_MEMORY;
    default:
        return CUDA_INVALID_HANDLE;
    }
}

const char *simulate_error_name(int error)
{
    for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++) {
        if (errors[i].code == error) {
            return errors[i].name;
        }
    }
    return "unrecognized error code";
}

const char *simulate_error_text(int error)
{
    for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++) {
        if (errors[i].code == error) {
            return errors[i].text;
        }
    }
    return "unrecognized error code";
}

SIMULATE_EXPORT int cudaGetLastError(void)
{
    int error = last_error;
    last_error = CUDA_SUCCESS;
    return error;
}

SIMULATE_EXPORT int cudaPeekAtLastError(void)
{
    return last_error;
}

SIMULATE_EXPORT const char *cudaGetErrorName(int error)
{
    return simulate_error_name(error);
}

SIMULATE_EXPORT const char *cudaGetErrorString(int error)
{
    return simulate_error_text(error);
}
