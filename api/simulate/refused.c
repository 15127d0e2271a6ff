/*
 * Functions that programs link to and the simulated runtime refuses, because CUDA's own library
 * would find no driver. tests/simulate/imports.txt lists the symbols that programs link to.
 */
#include "simulate/entry.h"
#include "simulate/errors.h"

/* X(function of the runtime) */
#define OF_RUNTIME(X)                                                                              \
    X(cudaDeviceGetGraphMemAttribute)                                                              \
    X(cudaDeviceSetGraphMemAttribute)                                                              \
    X(cudaGetSymbolAddress)                                                                        \
    X(cudaGraphAddNode)                                                                            \
    X(cudaGraphConditionalHandleCreate)                                                            \
    X(cudaGraphNodeGetDependencies)                                                                \
    X(cudaKernelSetAttributeForDevice)                                                             \
    X(cudaLibraryGetGlobal)                                                                        \
    X(cudaLibraryGetKernel)                                                                        \
    X(cudaLibraryGetKernelCount)                                                                   \
    X(cudaLibraryGetManaged)                                                                       \
    X(cudaLibraryGetUnifiedFunction)                                                               \
    X(cudaLibraryLoadData)                                                                         \
    X(cudaLibraryLoadFromFile)                                                                     \
    X(cudaLibraryUnload)                                                                           \
    X(cudaMemcpyToSymbol)                                                                          \
    X(cudaStreamBeginCaptureToGraph)                                                               \
    X(cudaStreamUpdateCaptureDependencies)

#define X(name)                                                                                    \
    SIMULATE_EXPORT int name(void)                                                                 \
    {                                                                                              \
        return simulate_answer(CUDA_NOT_SUPPORTED);                                                \
    }
OF_RUNTIME(X)
#undef X

/* X(function of the driver) */
#define OF_DRIVER(X)                                                                               \
    X(cuLinkAddData_v2)                                                                            \
    X(cuLinkComplete)                                                                              \
    X(cuLinkCreate_v2)                                                                             \
    X(cuPointerGetAttributes)

#define X(name)                                                                                    \
    SIMULATE_EXPORT int name(void)                                                                 \
    {                                                                                              \
        return CUDA_NOT_SUPPORTED;                                                                 \
    }
OF_DRIVER(X)
#undef X
