/*
 * Hooks in plain C, in libmend_hooks, which use the calls for hooks, in any thread. Size 0 succeeds
 * with NULL, and freeing NULL does nothing.
 */
#ifndef MEND_MEND_HOOKS_H
#define MEND_MEND_HOOKS_H

#include "mend/mend_devices.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- cuStateVec, cuTensorNet, cuDSS ---------------------------------------------------------- */

/*
 * Make a handler for custatevecSetDeviceMemHandler and similar calls: for a device, or
 * MEND_ALL_DEVICES for the current one. MEND_OK; MEND_ERROR_INVALID_ARGUMENT; MEND_ERROR_NO_DEVICE.
 *
 *     mend_device_handler handler;
 *     mend_hook_handler(MEND_ALL_DEVICES, &handler);
 *     custatevecSetDeviceMemHandler(handle, (custatevecDeviceMemHandler_t *)&handler);
 */
MEND_API mend_result mend_hook_handler(int device, mend_device_handler *handler);

/* ---- ONNX Runtime ---------------------------------------------------------------------------- */

/* The most streams of a process with functions of their own. */
#define MEND_ORT_STREAMS 16

/* Values for the provider options gpu_external_alloc, gpu_external_free and
 * gpu_external_empty_cache. */
typedef struct mend_ort_functions {
    size_t struct_size;
    void *(*alloc)(size_t size); /* on the current device. NULL on failure */
    void (*free)(void *pointer);
    void (*empty_cache)(void); /* releases all free memory, with MEND_TRIM_WAIT outside of
                                * captures */
} mend_ort_functions;
#define MEND_ORT_FUNCTIONS_INIT                                                                    \
    {                                                                                              \
        sizeof(mend_ort_functions), NULL, NULL, NULL                                               \
    }

/*
 * Get functions that allocate and free in the order of `stream` (provider option
 * user_compute_stream), once for each session. With a non-blocking stream, create sessions while it
 * is idle, because their weights are copied on the default stream. Before you destroy the stream,
 * end the sessions and call mend_device_unregister_stream. The functions live as long as the
 * process.
 *
 *     mend_ort_functions functions = MEND_ORT_FUNCTIONS_INIT;
 *     mend_ort_functions_for(stream, &functions); // gpu_external_alloc is functions.alloc
 *
 * With MEND_NO_STREAM, the per-thread stream, and more than MEND_ORT_STREAMS streams, the functions
 * name no stream. MEND_OK; MEND_ERROR_INVALID_ARGUMENT.
 */
MEND_API mend_result mend_ort_functions_for(mend_stream stream, mend_ort_functions *functions);

/* Return the number of failures that a hook could not return. Each was logged as a warning. */
MEND_API uint64_t mend_hook_failures(void);

#ifdef __cplusplus
}
#endif

#endif
