/*
 * Hooks in plain C, in libmend_hooks: for CuPy, RMM, Numba, cuStateVec, cuTensorNet, cuDSS and ONNX
 * Runtime. They forward to mend_device_alloc and the other calls for hooks, in any thread. Size 0
 * succeeds with NULL, and freeing NULL does nothing.
 */
#ifndef MEND_MEND_HOOKS_H
#define MEND_MEND_HOOKS_H

#include "mend/mend_devices.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- hooks in stream order ------------------------------------------------------------------ */

/* For foreign-function interfaces: mend_device_alloc, mend_device_free, mend_device_record_stream
 * and mend_device_trim with plain types. Results as theirs. */
MEND_API int mend_hook_alloc(int device, size_t size, mend_stream stream, void **pointer);
MEND_API int mend_hook_free(int device, void *pointer, size_t size, mend_stream stream);
MEND_API int mend_hook_record_stream(int device, void *pointer, mend_stream stream);
MEND_API int mend_hook_trim(int device, size_t keep);

/* ---- cuStateVec, cuTensorNet, cuDSS ---------------------------------------------------------- */

/* Fills *handler for custatevecSetDeviceMemHandler and similar calls: for a device, or
 * MEND_ALL_DEVICES for the current one. The handler needs no cleanup. MEND_OK;
 * MEND_ERROR_INVALID_ARGUMENT; MEND_ERROR_NO_DEVICE. */
MEND_API mend_result mend_hook_handler(int device, mend_device_handler *handler);

/* ---- CuPy ------------------------------------------------------------------------------------ */

/* For cupy.cuda.memory.CFunctionAllocator, with any `param`. CuPy names no stream: a block is idle
 * when it is returned, and after a free its memory is reused only when all work of the device is
 * done. NULL if memory cannot be allocated; CuPy itself does not check for that. */
MEND_API void *mend_cupy_malloc(void *param, size_t size, int device);
MEND_API void mend_cupy_free(void *param, void *pointer, int device);

/* ---- ONNX Runtime ---------------------------------------------------------------------------- */

/* For the provider options gpu_external_alloc, gpu_external_free and gpu_external_empty_cache, on
 * the current device. No stream is named: as with CuPy. NULL if memory cannot be allocated. */
MEND_API void *mend_ort_alloc(size_t size);
MEND_API void mend_ort_free(void *pointer);
MEND_API void mend_ort_empty_cache(void);

/* Number of failures that could not be returned; each was logged as a warning. */
MEND_API uint64_t mend_hook_failures(void);

#ifdef __cplusplus
}
#endif

#endif
