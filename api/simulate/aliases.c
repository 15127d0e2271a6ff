/*
 * Functions of the driver that are the runtime's by another name: streams, events, memory and
 * copies, for programs of the driver such as cuda.core. A failure here does not become the error of
 * cudaGetLastError.
 */
#include "driver/cuda_abi.h"
#include "simulate/entry.h"
#include "simulate/errors.h"

enum { COPY_BY_ADDRESSES = 4 }; /* cudaMemcpyDefault */

/* As the files of the runtime define them, with pointers that say nothing. */
int cudaStreamCreateWithPriority(void *stream, unsigned flags, int priority);
int cudaStreamDestroy(mend_stream stream);
int cudaStreamQuery(mend_stream stream);
int cudaStreamSynchronize(mend_stream stream);
int cudaStreamWaitEvent(mend_stream stream, mend_event event, unsigned flags);
int cudaStreamGetPriority(mend_stream stream, int *priority);
int cudaStreamGetFlags(mend_stream stream, unsigned *flags);
int cudaStreamGetId(mend_stream stream, unsigned long long *id);
int cudaStreamGetDevice(mend_stream stream, int *device);
int cudaStreamIsCapturing(mend_stream stream, int *status);
int cudaLaunchHostFunc(mend_stream stream, void (*function)(void *), void *argument);
int cudaEventCreateWithFlags(mend_event *event, unsigned flags);
int cudaEventDestroy(mend_event event);
int cudaEventRecordWithFlags(mend_event event, mend_stream stream, unsigned flags);
int cudaEventQuery(mend_event event);
int cudaEventSynchronize(mend_event event);
int cudaEventElapsedTime(float *milliseconds, mend_event start, mend_event end);
int cudaMalloc(void **pointer, size_t bytes);
int cudaFree(void *pointer);
int cudaMallocAsync(void **pointer, size_t bytes, mend_stream stream);
int cudaFreeAsync(void *pointer, mend_stream stream);
int cudaHostAlloc(void **pointer, size_t bytes, unsigned flags);
int cudaFreeHost(void *pointer);
int cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes);
int cudaMemcpy(void *target, const void *source, size_t bytes, int direction);
int cudaMemcpyAsync(void *target, const void *source, size_t bytes, int direction,
                    mend_stream stream);
int cudaMemsetAsync(void *target, int value, size_t bytes, mend_stream stream);
int cudaDeviceSynchronize(void);
int cudaDeviceGetLimit(size_t *value, int limit);
int cudaDeviceSetLimit(int limit, size_t value);
int cudaDeviceGetStreamPriorityRange(int *least, int *greatest);
int cudaDeviceGetPCIBusId(char *text, int bytes, int device);

/* X(driver's name, parameters, the runtime's call) */
#define ALIASES(X)                                                                                 \
    X(cuStreamCreate, (void **stream, unsigned flags),                                             \
      cudaStreamCreateWithPriority(stream, flags, 0))                                              \
    X(cuStreamCreateWithPriority, (void **stream, unsigned flags, int priority),                   \
      cudaStreamCreateWithPriority(stream, flags, priority))                                       \
    X(cuStreamDestroy_v2, (mend_stream stream), cudaStreamDestroy(stream))                         \
    X(cuStreamQuery, (mend_stream stream), cudaStreamQuery(stream))                                \
    X(cuStreamSynchronize, (mend_stream stream), cudaStreamSynchronize(stream))                    \
    X(cuStreamWaitEvent, (mend_stream stream, mend_event event, unsigned flags),                   \
      cudaStreamWaitEvent(stream, event, flags))                                                   \
    X(cuStreamGetPriority, (mend_stream stream, int *priority),                                    \
      cudaStreamGetPriority(stream, priority))                                                     \
    X(cuStreamGetFlags, (mend_stream stream, unsigned *flags), cudaStreamGetFlags(stream, flags))  \
    X(cuStreamGetId, (mend_stream stream, unsigned long long *id), cudaStreamGetId(stream, id))    \
    X(cuStreamGetDevice, (mend_stream stream, int *device), cudaStreamGetDevice(stream, device))   \
    X(cuStreamIsCapturing, (mend_stream stream, int *status),                                      \
      cudaStreamIsCapturing(stream, status))                                                       \
    X(cuLaunchHostFunc, (mend_stream stream, void (*function)(void *), void *argument),            \
      cudaLaunchHostFunc(stream, function, argument))                                              \
    X(cuEventCreate, (mend_event * event, unsigned flags), cudaEventCreateWithFlags(event, flags)) \
    X(cuEventDestroy_v2, (mend_event event), cudaEventDestroy(event))                              \
    X(cuEventRecord, (mend_event event, mend_stream stream),                                       \
      cudaEventRecordWithFlags(event, stream, 0))                                                  \
    X(cuEventRecordWithFlags, (mend_event event, mend_stream stream, unsigned flags),              \
      cudaEventRecordWithFlags(event, stream, flags))                                              \
    X(cuEventQuery, (mend_event event), cudaEventQuery(event))                                     \
    X(cuEventSynchronize, (mend_event event), cudaEventSynchronize(event))                         \
    X(cuEventElapsedTime, (float *milliseconds, mend_event start, mend_event end),                 \
      cudaEventElapsedTime(milliseconds, start, end))                                              \
    X(cuEventElapsedTime_v2, (float *milliseconds, mend_event start, mend_event end),              \
      cudaEventElapsedTime(milliseconds, start, end))                                              \
    X(cuMemAlloc_v2, (void **pointer, size_t bytes), cudaMalloc(pointer, bytes))                   \
    X(cuMemFree_v2, (void *pointer), cudaFree(pointer))                                            \
    X(cuMemAllocAsync, (void **pointer, size_t bytes, mend_stream stream),                         \
      cudaMallocAsync(pointer, bytes, stream))                                                     \
    X(cuMemFreeAsync, (void *pointer, mend_stream stream), cudaFreeAsync(pointer, stream))         \
    X(cuMemAllocHost_v2, (void **pointer, size_t bytes), cudaHostAlloc(pointer, bytes, 0))         \
    X(cuMemHostAlloc, (void **pointer, size_t bytes, unsigned flags),                              \
      cudaHostAlloc(pointer, bytes, flags))                                                        \
    X(cuMemFreeHost, (void *pointer), cudaFreeHost(pointer))                                       \
    X(cuMemGetInfo_v2, (size_t * free_bytes, size_t * total_bytes),                                \
      cudaMemGetInfo(free_bytes, total_bytes))                                                     \
    X(cuMemcpy, (void *target, const void *source, size_t bytes),                                  \
      cudaMemcpy(target, source, bytes, COPY_BY_ADDRESSES))                                        \
    X(cuMemcpyAsync, (void *target, const void *source, size_t bytes, mend_stream stream),         \
      cudaMemcpyAsync(target, source, bytes, COPY_BY_ADDRESSES, stream))                           \
    X(cuMemcpyHtoD_v2, (void *target, const void *source, size_t bytes),                           \
      cudaMemcpy(target, source, bytes, COPY_BY_ADDRESSES))                                        \
    X(cuMemcpyDtoH_v2, (void *target, const void *source, size_t bytes),                           \
      cudaMemcpy(target, source, bytes, COPY_BY_ADDRESSES))                                        \
    X(cuMemsetD8Async, (void *target, unsigned char value, size_t bytes, mend_stream stream),      \
      cudaMemsetAsync(target, value, bytes, stream))                                               \
    X(cuCtxSynchronize, (void), cudaDeviceSynchronize())                                           \
    X(cuCtxGetLimit, (size_t * value, int limit), cudaDeviceGetLimit(value, limit))                \
    X(cuCtxSetLimit, (int limit, size_t value), cudaDeviceSetLimit(limit, value))                  \
    X(cuCtxGetStreamPriorityRange, (int *least, int *greatest),                                    \
      cudaDeviceGetStreamPriorityRange(least, greatest))                                           \
    X(cuDeviceGetPCIBusId, (char *text, int bytes, int device),                                    \
      cudaDeviceGetPCIBusId(text, bytes, device))

#define X(name, parameters, call)                                                                  \
    SIMULATE_EXPORT int name parameters                                                            \
    {                                                                                              \
        int before = cudaPeekAtLastError();                                                        \
        int error = call;                                                                          \
        simulate_restore_error(before);                                                            \
        return error;                                                                              \
    }
ALIASES(X)
#undef X
