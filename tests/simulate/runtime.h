/*
 * The simulated CUDA runtime: functions found by symbol, with the types of CUDA's headers. The
 * simulated machine, of two devices with 256 MiB each, is one for the process. A test frees its
 * memory, but for what the functions here make.
 */
#ifndef MEND_TESTS_SIMULATE_RUNTIME_H
#define MEND_TESTS_SIMULATE_RUNTIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/align.h"
#include "tests/support/test.h"

typedef struct stream *stream;
typedef struct event *event;
typedef struct graph *graph;

typedef struct dimensions {
    unsigned x, y, z;
} dimensions;

typedef struct pointer_attributes {
    int type; /* 0: not of CUDA, 1: host, 2: device */
    int device;
    void *device_pointer;
    void *host_pointer;
} pointer_attributes;

/* cudaMemcpyKind, cudaStreamCaptureMode, cudaStreamNonBlocking */
enum { TO_DEVICE = 1, TO_HOST = 2, WITHIN_DEVICE = 3, ANY = 4 };
enum { GLOBAL, THREAD_LOCAL, RELAXED };
enum { NON_BLOCKING = 1 };

enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    INVALID_DIRECTION = 21,
    MISSING_CONFIGURATION = 52,
    INVALID_DEVICE = 101,
    INVALID_HANDLE = 400,
    ILLEGAL_STATE = 401,
    NOT_READY = 600,
    NOT_REGISTERED = 713,
    NOT_SUPPORTED = 801,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_INVALIDATED = 901,
    CAPTURE_UNMATCHED = 903,
    CAPTURE_UNJOINED = 904,
    CAPTURE_WRONG_THREAD = 908
};

/* X(name, parameters): all return a cudaError_t. */
#define RUNTIME_FUNCTIONS(X)                                                                       \
    X(cudaGetLastError, (void))                                                                    \
    X(cudaPeekAtLastError, (void))                                                                 \
    X(cudaIpcGetMemHandle, (void *, void *))                                                       \
    X(cudaIpcCloseMemHandle, (void *))                                                             \
    X(cudaSetDevice, (int))                                                                        \
    X(cudaDeviceSynchronize, (void))                                                               \
    X(cudaGetDeviceProperties, (void *, int))                                                      \
    X(cudaGetDeviceProperties_v2, (void *, int))                                                   \
    X(cudaDeviceGetAttribute, (int *, int, int))                                                   \
    X(cudaDeviceGetPCIBusId, (char *, int, int))                                                   \
    X(cudaDeviceCanAccessPeer, (int *, int, int))                                                  \
    X(cudaDeviceEnablePeerAccess, (int, unsigned))                                                 \
    X(cudaDeviceDisablePeerAccess, (int))                                                          \
    X(cudaMemGetInfo, (size_t *, size_t *))                                                        \
    X(cudaMalloc, (void **, size_t))                                                               \
    X(cudaFree, (void *))                                                                          \
    X(cudaMallocAsync, (void **, size_t, stream))                                                  \
    X(cudaFreeAsync, (void *, stream))                                                             \
    X(cudaHostAlloc, (void **, size_t, unsigned))                                                  \
    X(cudaFreeHost, (void *))                                                                      \
    X(cudaHostRegister, (void *, size_t, unsigned))                                                \
    X(cudaHostUnregister, (void *))                                                                \
    X(cudaPointerGetAttributes, (pointer_attributes *, const void *))                              \
    X(cudaMemcpy, (void *, const void *, size_t, int))                                             \
    X(cudaMemcpyAsync, (void *, const void *, size_t, int, stream))                                \
    X(cudaMemcpy2D, (void *, size_t, const void *, size_t, size_t, size_t, int))                   \
    X(cudaMemcpyPeer, (void *, int, const void *, int, size_t))                                    \
    X(cudaMemset, (void *, int, size_t))                                                           \
    X(cudaMemsetAsync, (void *, int, size_t, stream))                                              \
    X(cudaStreamCreate, (stream *))                                                                \
    X(cudaStreamCreateWithFlags, (stream *, unsigned))                                             \
    X(cudaStreamDestroy, (stream))                                                                 \
    X(cudaStreamQuery, (stream))                                                                   \
    X(cudaStreamSynchronize, (stream))                                                             \
    X(cudaStreamWaitEvent, (stream, event, unsigned))                                              \
    X(cudaStreamGetDevice, (stream, int *))                                                        \
    X(cudaLaunchHostFunc, (stream, void (*)(void *), void *))                                      \
    X(cudaStreamAddCallback, (stream, void (*)(stream, int, void *), void *, unsigned))            \
    X(cudaEventCreateWithFlags, (event *, unsigned))                                               \
    X(cudaEventDestroy, (event))                                                                   \
    X(cudaEventRecord, (event, stream))                                                            \
    X(cudaEventQuery, (event))                                                                     \
    X(cudaEventSynchronize, (event))                                                               \
    X(cudaEventElapsedTime, (float *, event, event))                                               \
    X(cudaStreamBeginCapture, (stream, int))                                                       \
    X(cudaStreamEndCapture, (stream, graph *))                                                     \
    X(cudaStreamIsCapturing, (stream, int *))                                                      \
    X(cudaStreamGetCaptureInfo_v2,                                                                 \
      (stream, int *, unsigned long long *, graph *, void ***, size_t *))                          \
    X(cudaThreadExchangeStreamCaptureMode, (int *))                                                \
    X(cudaGraphInstantiate, (graph *, graph, unsigned long long))                                  \
    X(cudaGraphLaunch, (graph, stream))                                                            \
    X(cudaGraphGetNodes, (graph, void **, size_t *))                                               \
    X(cudaGraphDestroy, (graph))                                                                   \
    X(cudaGraphExecDestroy, (graph))                                                               \
    X(cudaUserObjectCreate, (void **, void *, void (*)(void *), unsigned, unsigned))               \
    X(cudaGraphRetainUserObject, (graph, void *, unsigned, unsigned))                              \
    X(cudaLaunchKernel, (const void *, dimensions, dimensions, void **, size_t, stream))           \
    X(__cudaPushCallConfiguration, (dimensions, dimensions, size_t, stream))                       \
    X(__cudaPopCallConfiguration, (dimensions *, dimensions *, size_t *, stream *))                \
    X(cudaGetDriverEntryPoint, (const char *, void **, unsigned long long, int *))                 \
    X(cuGetProcAddress_v2, (const char *, void **, int, unsigned long long, int *))                \
    X(cuGetErrorName, (int, const char **))                                                        \
    X(cuGetErrorString, (int, const char **))                                                      \
    X(cublasCreate_v2, (void **))                                                                  \
    X(cublasSetStream_v2, (void *, stream))                                                        \
    X(cublasDestroy_v2, (void *))                                                                  \
    X(cublasSgemm_v2, (void *))

typedef struct runtime {
#define X(name, parameters) int(*name) parameters;
    RUNTIME_FUNCTIONS(X)
#undef X
    const char *(*cudaGetErrorName)(int);
    const char *(*cudaGetErrorString)(int);
    void (*__cudaRegisterFunction)(void **, const char *, char *, const char *, int, void *, void *,
                                   void *, void *, int *);
    void *cuda; /* the library */
    void *nvml;
} runtime;

/* Opened once for the process. NULL: a library or a function is missing, which has been recorded.
 */
const runtime *runtime_get(void);

/* A stream that does not block, an event that can be timed, a block of device 0: they end with the
 * test. */
stream runtime_stream(const runtime *r);
event runtime_event(const runtime *r);
void *runtime_block(const runtime *r, size_t bytes);
void runtime_end(const runtime *r);

/* A kernel on a stream. Its function is never called. */
int runtime_launch(const runtime *r, stream on);

/* Fills a pointer to a function: of the library by its symbol, or as the driver finds it by name.
 */
void runtime_symbol(const runtime *r, const char *name, void *function);
void runtime_entry(const runtime *r, const char *name, void *function);

#define RUNTIME_TEST(suite, name)                                                                  \
    static void suite##_##name##_on_runtime(const runtime *r);                                     \
    MEND_TEST(suite, name)                                                                         \
    {                                                                                              \
        const runtime *r = runtime_get();                                                          \
        ASSERT_TRUE(r != NULL);                                                                    \
        EXPECT_INT_EQ(SUCCESS, r->cudaSetDevice(0));                                               \
        suite##_##name##_on_runtime(r);                                                            \
        runtime_end(r);                                                                            \
    }                                                                                              \
    static void suite##_##name##_on_runtime(const runtime *r)

#define EXPECT_ERROR(expected, call) EXPECT_INT_EQ(expected, (call))
#define EXPECT_OK(call)              EXPECT_INT_EQ(SUCCESS, (call))
#define ASSERT_OK(call)              ASSERT_INT_EQ(SUCCESS, (call))

#endif
