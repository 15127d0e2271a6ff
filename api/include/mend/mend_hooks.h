/*
 * Hooks in plain C, in libmend_hooks: for cuStateVec, cuTensorNet, cuDSS and ONNX Runtime. They
 * forward to mend_device_alloc and the other calls for hooks, in any thread. Size 0 succeeds with
 * NULL, and freeing NULL does nothing. Foreign-function interfaces, as of CuPy, RMM and Numba, call
 * mend_device_alloc itself.
 */
#ifndef MEND_MEND_HOOKS_H
#define MEND_MEND_HOOKS_H

#include "mend/mend_devices.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- cuStateVec, cuTensorNet, cuDSS ---------------------------------------------------------- */

/* Fills *handler for custatevecSetDeviceMemHandler and similar calls: for a device, or
 * MEND_ALL_DEVICES for the current one. The handler needs no cleanup. MEND_OK;
 * MEND_ERROR_INVALID_ARGUMENT; MEND_ERROR_NO_DEVICE. */
MEND_API mend_result mend_hook_handler(int device, mend_device_handler *handler);

/* ---- ONNX Runtime ---------------------------------------------------------------------------- */

/* Most streams of a process for which there are such functions. */
#define MEND_ORT_STREAMS 16

/* For the provider options gpu_external_alloc, gpu_external_free and gpu_external_empty_cache. */
typedef struct mend_ort_functions {
    size_t struct_size;
    void *(*alloc)(size_t size); /* on the current device; NULL if memory cannot be allocated */
    void (*free)(void *pointer);
    void (*empty_cache)(void); /* gives all free memory back, and waits for the GPU if that releases
                                * more; during a capture only what is idle */
} mend_ort_functions;
#define MEND_ORT_FUNCTIONS_INIT                                                                    \
    {                                                                                              \
        sizeof(mend_ort_functions), NULL, NULL, NULL                                               \
    }

/*
 * Fills *functions with those that allocate and free in the order of `stream` (provider option
 * user_compute_stream), for sessions that compute on it. All their work on the memory must be
 * ordered by that stream: with a non-blocking one create sessions while it is idle, because their
 * weights are copied on the default stream. Before you destroy the stream, end the sessions and
 * call mend_device_unregister_stream. One call for each session; the functions live as long as the
 * process.
 *
 * For MEND_NO_STREAM, the per-thread stream, and more streams than MEND_ORT_STREAMS no stream is
 * named: a block is idle when it is returned, and after a free its memory is reused only when all
 * work of the device is done. No driver call. MEND_OK; MEND_ERROR_INVALID_ARGUMENT.
 */
MEND_API mend_result mend_ort_functions_for(mend_stream stream, mend_ort_functions *functions);

/* Number of failures that could not be returned; each was logged as a warning. */
MEND_API uint64_t mend_hook_failures(void);

#ifdef __cplusplus
}
#endif

#endif
