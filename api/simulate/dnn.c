/* cuDNN: handles, descriptions, and functions that take time on their stream and compute nothing.
 * Recurrent networks and graphs have files of their own. Convolutions of the older interface are
 * refused: PyTorch makes graphs of them. */
#include "simulate/dnn.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "simulate/entry.h"
#include "simulate/launch.h"
#include "simulate/unknown.h"

enum { USUAL_VERSION = 91002 }; /* 9.10.2 */

/* ---- the library ----------------------------------------------------------------------------- */

/* The version of the program's own cuDNN, which PyTorch compares with the one it was built for.
 */
SIMULATE_EXPORT size_t cudnnGetVersion(void)
{
    size_t (*real)(void) = NULL;
    void *library = dlopen("libcudnn.so.9", RTLD_NOLOAD | RTLD_LAZY);
    void *found = library != NULL ? dlsym(library, "cudnnGetVersion") : NULL;
    memcpy(&real, &found, sizeof(real));
    return real != NULL ? real() : USUAL_VERSION;
}

SIMULATE_EXPORT int cudnnGetProperty(int property, int *value)
{
    enum { MAJOR, MINOR };
    int version = (int)cudnnGetVersion();
    *value = property == MAJOR   ? version / 10000
             : property == MINOR ? version / 100 % 100
                                 : version % 100;
    return DNN_SUCCESS;
}

SIMULATE_EXPORT size_t cudnnGetCudartVersion(void)
{
    return SIMULATE_DRIVER_VERSION;
}

SIMULATE_EXPORT const char *cudnnGetErrorString(int status)
{
    return status == DNN_SUCCESS         ? "CUDNN_STATUS_SUCCESS"
           : status == DNN_BAD_PARAMETER ? "CUDNN_STATUS_BAD_PARAM"
           : status == DNN_NOT_SUPPORTED ? "CUDNN_STATUS_NOT_SUPPORTED"
           : status == DNN_ALLOC_FAILED  ? "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED"
                                         : "CUDNN_STATUS_EXECUTION_FAILED";
}

SIMULATE_EXPORT void cudnnGetLastErrorString(char *message, size_t bytes)
{
    if (bytes > 0) {
        *message = 0;
    }
}

SIMULATE_EXPORT int cudnnCreate(dnn_handle **handle)
{
    *handle = calloc(1, sizeof(**handle));
    return *handle != NULL ? DNN_SUCCESS : DNN_ALLOC_FAILED;
}

SIMULATE_EXPORT int cudnnSetStream(dnn_handle *handle, mend_stream stream)
{
    if (handle == NULL) {
        return DNN_BAD_PARAMETER;
    }
    handle->stream = stream;
    return DNN_SUCCESS;
}

SIMULATE_EXPORT int cudnnGetStream(const dnn_handle *handle, mend_stream *stream)
{
    if (handle == NULL) {
        return DNN_BAD_PARAMETER;
    }
    *stream = handle->stream;
    return DNN_SUCCESS;
}

int simulate_dnn_launch(const dnn_handle *handle)
{
    if (handle == NULL) {
        return DNN_BAD_PARAMETER;
    }
    return simulate_launch(handle->stream) == CUDA_SUCCESS ? DNN_SUCCESS : DNN_FAILED;
}

/* ---- tensors --------------------------------------------------------------------------------- */

uint64_t simulate_dnn_width(int type)
{
    enum { FLOAT = 0, DOUBLE = 1, HALF = 2, INT32 = 4, BFLOAT16 = 9, INT64 = 10 };
    return type == DOUBLE || type == INT64    ? 8
           : type == FLOAT || type == INT32   ? 4
           : type == HALF || type == BFLOAT16 ? 2
                                              : 1;
}

static uint64_t elements_of(const dnn_tensor *tensor)
{
    uint64_t elements = 1;
    for (int i = 0; i < tensor->count; i++) {
        elements *= (uint64_t)tensor->sizes[i];
    }
    return elements;
}

SIMULATE_EXPORT int cudnnSetTensorNdDescriptor(dnn_tensor *tensor, int type, int count,
                                               const int *sizes, const int *strides)
{
    if (tensor == NULL || sizes == NULL || count < 1 || count > DNN_MOST_DIMENSIONS) {
        return DNN_BAD_PARAMETER;
    }
    *tensor = (dnn_tensor){.type = type, .count = count};
    for (int i = 0; i < count; i++) {
        tensor->sizes[i] = sizes[i];
        tensor->strides[i] = strides != NULL ? strides[i] : 0;
    }
    return DNN_SUCCESS;
}

SIMULATE_EXPORT int cudnnSetFilterNdDescriptor(dnn_tensor *filter, int type, int format, int count,
                                               const int *sizes)
{
    (void)format;
    return cudnnSetTensorNdDescriptor(filter, type, count, sizes, NULL);
}

SIMULATE_EXPORT int cudnnGetTensorNdDescriptor(const dnn_tensor *tensor, int wanted, int *type,
                                               int *count, int *sizes, int *strides)
{
    *type = tensor->type;
    *count = tensor->count;
    for (int i = 0; i < tensor->count && i < wanted; i++) {
        sizes[i] = tensor->sizes[i];
        strides[i] = tensor->strides[i];
    }
    return DNN_SUCCESS;
}

SIMULATE_EXPORT int cudnnGetFilterNdDescriptor(const dnn_tensor *filter, int wanted, int *type,
                                               int *format, int *count, int *sizes)
{
    int strides[DNN_MOST_DIMENSIONS];
    *format = 0;
    wanted = wanted < DNN_MOST_DIMENSIONS ? wanted : DNN_MOST_DIMENSIONS;
    return cudnnGetTensorNdDescriptor(filter, wanted, type, count, sizes, strides);
}

/* X(what is described): made as zeros, which nothing but the functions above reads. */
#define DESCRIPTIONS(X)                                                                            \
    X(Activation)                                                                                  \
    X(CTCLoss)                                                                                     \
    X(Convolution)                                                                                 \
    X(Dropout)                                                                                     \
    X(Filter)                                                                                      \
    X(Pooling)                                                                                     \
    X(SpatialTransformer)                                                                          \
    X(Tensor)

#define X(what)                                                                                    \
    SIMULATE_EXPORT int cudnnCreate##what##Descriptor(void **description)                          \
    {                                                                                              \
        *description = calloc(1, sizeof(dnn_tensor));                                              \
        return *description != NULL ? DNN_SUCCESS : DNN_ALLOC_FAILED;                              \
    }                                                                                              \
    SIMULATE_EXPORT int cudnnDestroy##what##Descriptor(void *description)                          \
    {                                                                                              \
        free(description);                                                                         \
        return DNN_SUCCESS;                                                                        \
    }
DESCRIPTIONS(X)
#undef X

SIMULATE_EXPORT int cudnnDestroy(dnn_handle *handle)
{
    free(handle);
    return DNN_SUCCESS;
}

/* ---- functions ------------------------------------------------------------------------------- */

/* X(function): its first argument is the handle. The others do not matter. */
#define ON_HANDLE(X)                                                                               \
    X(cudnnBatchNormalizationBackwardEx)                                                           \
    X(cudnnBatchNormalizationForwardInference)                                                     \
    X(cudnnBatchNormalizationForwardTrainingEx)                                                    \
    X(cudnnCTCLoss)                                                                                \
    X(cudnnCTCLoss_v8)                                                                             \
    X(cudnnPoolingForward)                                                                         \
    X(cudnnRNNBackwardData_v8)                                                                     \
    X(cudnnRNNBackwardWeights_v8)                                                                  \
    X(cudnnRNNForward)                                                                             \
    X(cudnnSpatialTfGridGeneratorBackward)                                                         \
    X(cudnnSpatialTfGridGeneratorForward)                                                          \
    X(cudnnSpatialTfSamplerBackward)                                                               \
    X(cudnnSpatialTfSamplerForward)

#define X(function)                                                                                \
    SIMULATE_EXPORT int function(const dnn_handle *handle)                                         \
    {                                                                                              \
        return simulate_dnn_launch(handle);                                                        \
    }
ON_HANDLE(X)
#undef X

/* X(function): nothing that it sets is read. */
#define WITHOUT_EFFECT(X)                                                                          \
    X(cudnnRestoreDropoutDescriptor)                                                               \
    X(cudnnSetActivationDescriptor)                                                                \
    X(cudnnSetCTCLossDescriptorEx)                                                                 \
    X(cudnnSetCTCLossDescriptor_v9)                                                                \
    X(cudnnSetConvolutionGroupCount)                                                               \
    X(cudnnSetConvolutionMathType)                                                                 \
    X(cudnnSetConvolutionNdDescriptor)                                                             \
    X(cudnnSetDropoutDescriptor)                                                                   \
    X(cudnnSetPooling2dDescriptor)                                                                 \
    X(cudnnSetSpatialTransformerNdDescriptor)

#define X(function)                                                                                \
    SIMULATE_EXPORT int function(void)                                                             \
    {                                                                                              \
        return DNN_SUCCESS;                                                                        \
    }
WITHOUT_EFFECT(X)
#undef X

/* X(function): refused. */
#define REFUSED(X)                                                                                 \
    X(cudnnConvolutionBackwardData)                                                                \
    X(cudnnConvolutionBackwardFilter)                                                              \
    X(cudnnConvolutionBiasActivationForward)                                                       \
    X(cudnnConvolutionForward)                                                                     \
    X(cudnnFindConvolutionBackwardDataAlgorithmEx)                                                 \
    X(cudnnFindConvolutionBackwardFilterAlgorithmEx)                                               \
    X(cudnnFindConvolutionForwardAlgorithmEx)                                                      \
    X(cudnnGetConvolutionBackwardDataAlgorithm_v7)                                                 \
    X(cudnnGetConvolutionBackwardDataWorkspaceSize)                                                \
    X(cudnnGetConvolutionBackwardFilterAlgorithm_v7)                                               \
    X(cudnnGetConvolutionBackwardFilterWorkspaceSize)                                              \
    X(cudnnGetConvolutionForwardAlgorithm_v7)                                                      \
    X(cudnnGetConvolutionForwardWorkspaceSize)

#define X(function)                                                                                \
    SIMULATE_EXPORT int function(void)                                                             \
    {                                                                                              \
        return DNN_NOT_SUPPORTED;                                                                  \
    }
REFUSED(X)
#undef X

/* ---- sizes that are not known ---------------------------------------------------------------- */

/* A bit an element, as of a ReLU that is done on the way. The workspace is guessed as large. */
static int get_size_of_norm(const dnn_tensor *x, size_t *bytes)
{
    *bytes = simulate_unknown(SIMULATE_OTHERS, 0, (elements_of(x) + 7) / 8);
    return DNN_SUCCESS;
}

SIMULATE_EXPORT int cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(
    dnn_handle *handle, int mode, int operations, const dnn_tensor *x, const dnn_tensor *z,
    const dnn_tensor *y, const dnn_tensor *norm, const void *activation, size_t *bytes)
{
    (void)handle, (void)mode, (void)operations, (void)z, (void)y, (void)norm, (void)activation;
    return get_size_of_norm(x, bytes);
}

SIMULATE_EXPORT int cudnnGetBatchNormalizationBackwardExWorkspaceSize(
    dnn_handle *handle, int mode, int operations, const dnn_tensor *x, const dnn_tensor *y,
    const dnn_tensor *dy, const dnn_tensor *dz, const dnn_tensor *dx, const dnn_tensor *norm,
    const void *activation, size_t *bytes)
{
    (void)handle, (void)mode, (void)operations, (void)y, (void)dy, (void)dz, (void)dx;
    (void)norm, (void)activation;
    return get_size_of_norm(x, bytes);
}

SIMULATE_EXPORT int cudnnGetBatchNormalizationTrainingExReserveSpaceSize(dnn_handle *handle,
                                                                         int mode, int operations,
                                                                         const void *activation,
                                                                         const dnn_tensor *x,
                                                                         size_t *bytes)
{
    (void)handle, (void)mode, (void)operations, (void)activation;
    return get_size_of_norm(x, bytes);
}

/* Alphas of all steps in single precision, twice at most. */
static int get_size_of_ctc(const dnn_tensor *probabilities, size_t *bytes)
{
    *bytes = simulate_unknown(SIMULATE_OTHERS, 0, 8 * elements_of(probabilities));
    return DNN_SUCCESS;
}

SIMULATE_EXPORT int cudnnGetCTCLossWorkspaceSize(dnn_handle *handle,
                                                 const dnn_tensor *probabilities,
                                                 const dnn_tensor *gradients, const int *labels,
                                                 const int *label_lengths, const int *input_lengths,
                                                 int algorithm, const void *loss, size_t *bytes)
{
    (void)handle, (void)gradients, (void)labels, (void)label_lengths, (void)input_lengths;
    (void)algorithm, (void)loss;
    return get_size_of_ctc(probabilities, bytes);
}

SIMULATE_EXPORT int cudnnGetCTCLossWorkspaceSize_v8(dnn_handle *handle, int algorithm,
                                                    const void *loss,
                                                    const dnn_tensor *probabilities,
                                                    const dnn_tensor *gradients, size_t *bytes)
{
    (void)handle, (void)algorithm, (void)loss, (void)gradients;
    return get_size_of_ctc(probabilities, bytes);
}
