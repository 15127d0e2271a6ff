#include "simulate/errors.h"

#include "simulate/entry.h"

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

void simulate_restore_error(int error)
{
    last_error = error;
}

/* The name of an unknown code. */
static const simulate_code *code_of(int error)
{
    static const simulate_code unknown = {0, NULL, NULL, "unrecognized error code"};
    for (const simulate_code *code = simulate_codes; code->text != NULL; code++) {
        if (code->value == error) {
            return code;
        }
    }
    return &unknown;
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
    const simulate_code *code = code_of(error);
    return code->runtime_name != NULL ? code->runtime_name : "unrecognized error code";
}

SIMULATE_EXPORT const char *cudaGetErrorString(int error)
{
    return code_of(error)->text;
}

/* Both return INVALID_VALUE, and NULL, for a number that is no code of the driver. */
SIMULATE_EXPORT int cuGetErrorName(int status, const char **name)
{
    *name = code_of(status)->driver_name;
    return *name != NULL ? CUDA_SUCCESS : CUDA_INVALID_VALUE;
}

SIMULATE_EXPORT int cuGetErrorString(int status, const char **text)
{
    const simulate_code *code = code_of(status);
    *text = code->driver_name != NULL ? code->text : NULL;
    return *text != NULL ? CUDA_SUCCESS : CUDA_INVALID_VALUE;
}
