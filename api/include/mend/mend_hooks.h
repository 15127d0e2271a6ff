/*
 * Hooks in plain C, in libmend_hooks: for CuPy, RMM, Numba, cuStateVec, cuTensorNet, cuDSS and ONNX
 * Runtime. They forward to mend_device_alloc and its sisters, by any thread. Size 0 succeeds with
 * NULL, and freeing NULL does nothing.
 */
#ifndef MEND_MEND_HOOKS_H
#define MEND_MEND_HOOKS_H

#include "mend/mend_devices.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- in stream order ------------------------------------------------------------------------- */

/* For foreign-function interfaces: mend_device_alloc and its sisters, with plain types. Results as
 * theirs. */
MEND_API int mend_hook_alloc(int device, size_t size, mend_stream stream, void **pointer);
MEND_API int mend_hook_free(int device, void *pointer, size_t size, mend_stream stream);
MEND_API int mend_hook_record_stream(int device, void *pointer, mend_stream stream);
MEND_API int mend_hook_trim(int device, size_t keep);

/* ---- cuStateVec, cuTensorNet, cuDSS ---------------------------------------------------------- */

/* Fills *handler for custatevecSetDeviceMemHandler and its like: on a device, or MEND_ALL_DEVICES
 * for whichever is current. It needs no end. MEND_OK; MEND_ERROR_INVALID_ARGUMENT;
 * MEND_ERROR_NO_DEVICE. */
MEND_API mend_result mend_hook_handler(int device, mend_device_handler *handler);

/* ---- CuPy ------------------------------------------------------------------------------------ */

/* For cupy.cuda.memory.CFunctionAllocator, with any `param`. CuPy names no stream: memory is idle
 * when it is handed out, and after a free is handed on only when all work of the device is done.
 * NULL where memory cannot be had, which CuPy does not look for by itself. */
MEND_API void *mend_cupy_malloc(void *param, size_t size, int device);
MEND_API void mend_cupy_free(void *param, void *pointer, int device);

/* ---- ONNX Runtime ---------------------------------------------------------------------------- */

/* For the provider options gpu_external_alloc, gpu_external_free and gpu_external_empty_cache, on
 * the device that is current. No stream is named: as with CuPy. NULL where memory cannot be had. */
MEND_API void *mend_ort_alloc(size_t size);
MEND_API void mend_ort_free(void *pointer);
MEND_API void mend_ort_empty_cache(void);

/* How often something failed that could not be returned; each was logged as a warning. */
MEND_API uint64_t mend_hook_failures(void);

#ifdef __cplusplus
}
#endif

#endif
