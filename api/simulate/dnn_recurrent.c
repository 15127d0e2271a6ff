/* cuDNN's recurrent networks: where each matrix and bias lies in the weights, which is documented,
 * and how much they need beside them, which is not. */
#include <stdbool.h>
#include <stdlib.h>

#include "simulate/device.h"
#include "simulate/dnn.h"
#include "simulate/entry.h"
#include "simulate/unknown.h"

enum { LSTM = 2, GRU = 3 };                     /* cudnnRNNMode_t */
enum { NO_BIAS = 0, DOUBLE_BIAS = 2 };          /* cudnnRNNBiasMode_t */
enum { FOR_TRAINING = 1 };                      /* cudnnForwardMode_t */
enum { PROCESSORS = 16, THREADS = 39 };         /* cudaDeviceAttr */
enum { STATE_BYTES = 48, LEAST_STATES = 1024 }; /* of a thread's random numbers */

typedef struct network {
    int gates, biases, directions, type, input, hidden, output, layers;
} network;

/* The steps of a batch. */
typedef struct sequences {
    int steps, batch;
} sequences;

/* X(what is described, type) */
#define DESCRIPTIONS(X)                                                                            \
    X(RNN, network)                                                                                \
    X(RNNData, sequences)

#define X(what, type)                                                                              \
    SIMULATE_EXPORT int cudnnCreate##what##Descriptor(type **description)                          \
    {                                                                                              \
        *description = calloc(1, sizeof(type));                                                    \
        return *description != NULL ? DNN_SUCCESS : DNN_ALLOC_FAILED;                              \
    }                                                                                              \
    SIMULATE_EXPORT int cudnnDestroy##what##Descriptor(type *description)                          \
    {                                                                                              \
        free(description);                                                                         \
        return DNN_SUCCESS;                                                                        \
    }
DESCRIPTIONS(X)
#undef X

SIMULATE_EXPORT int cudnnSetRNNDescriptor_v8(network *n, int algorithm, int mode, int bias,
                                             int direction, int input_mode, int type, int precision,
                                             int math, int input, int hidden, int projection,
                                             int layers, const void *dropout, unsigned flags)
{
    (void)algorithm, (void)input_mode, (void)precision, (void)math, (void)dropout, (void)flags;
    *n = (network){.gates = mode == LSTM  ? 4
                            : mode == GRU ? 3
                                          : 1,
                   .biases = bias == NO_BIAS       ? 0
                             : bias == DOUBLE_BIAS ? 2
                                                   : 1,
                   .directions = direction != 0 ? 2 : 1,
                   .type = type,
                   .input = input,
                   .hidden = hidden,
                   .output = projection > 0 && projection < hidden ? projection : hidden,
                   .layers = layers};
    return DNN_SUCCESS;
}

SIMULATE_EXPORT int cudnnSetRNNDataDescriptor(sequences *s, int type, int layout, int steps,
                                              int batch, int width, const int *lengths, void *fill)
{
    (void)type, (void)layout, (void)width, (void)lengths, (void)fill;
    *s = (sequences){steps, batch};
    return DNN_SUCCESS;
}

/* ---- weights: all matrices of all layers, then all biases ------------------------------------ */

/* A layer in one direction has a matrix a gate for its input, one for its state, and one for the
 * projection, which has no elements where there is none. */
static int matrices_of(const network *n)
{
    return 2 * n->gates + 1;
}

static uint64_t matrix(const network *n, int layer, int which, int *rows, int *columns)
{
    bool is_first = layer / n->directions == 0;
    *rows = n->hidden;
    *columns = which >= n->gates ? n->output : is_first ? n->input : n->output * n->directions;
    if (which == 2 * n->gates) {
        *rows = n->output == n->hidden ? 0 : n->output;
        *columns = n->hidden;
    }
    return (uint64_t)*rows * (uint64_t)*columns;
}

/* Elements before a matrix. The last entry has the sum of all. */
static uint64_t place_of_matrix(const network *n, int layer, int which)
{
    uint64_t place = 0;
    int rows = 0;
    int columns = 0;
    for (int i = 0; i < layer * matrices_of(n) + which; i++) {
        place += matrix(n, i / matrices_of(n), i % matrices_of(n), &rows, &columns);
    }
    return place;
}

static uint64_t place_of_bias(const network *n, int layer, int which)
{
    const int biases = layer * n->biases * n->gates + which;
    return place_of_matrix(n, n->layers * n->directions, 0) +
           (uint64_t)biases * (uint64_t)n->hidden;
}

SIMULATE_EXPORT int cudnnGetRNNWeightSpaceSize(dnn_handle *handle, const network *n, size_t *bytes)
{
    (void)handle;
    *bytes = place_of_bias(n, n->layers * n->directions, 0) * simulate_dnn_width(n->type);
    return DNN_SUCCESS;
}

/* Outputs that the caller does not want have no description. */
SIMULATE_EXPORT int cudnnGetRNNWeightParams(dnn_handle *handle, const network *n, int layer,
                                            size_t bytes, char *weights, int which,
                                            dnn_tensor *matrix_of, void **matrix_at,
                                            dnn_tensor *bias_of, void **bias_at)
{
    (void)handle, (void)bytes;
    uint64_t width = simulate_dnn_width(n->type);
    int rows = 0;
    int columns = 0;
    if (matrix_of != NULL && matrix_at != NULL) {
        bool is_there = matrix(n, layer, which, &rows, &columns) > 0;
        const int sizes[] = {1, rows, columns};
        const int strides[] = {rows * columns, columns, 1};
        *matrix_at = is_there ? weights + place_of_matrix(n, layer, which) * width : NULL;
        cudnnSetTensorNdDescriptor(matrix_of, n->type, 3, sizes, strides);
    }
    if (bias_of != NULL && bias_at != NULL) {
        bool is_there = which < n->biases * n->gates;
        const int sizes[] = {1, n->hidden, 1};
        const int strides[] = {n->hidden, 1, 1};
        *bias_at = is_there ? weights + place_of_bias(n, layer, which) * width : NULL;
        cudnnSetTensorNdDescriptor(bias_of, n->type, 3, sizes, strides);
    }
    return DNN_SUCCESS;
}

/* ---- what else they need --------------------------------------------------------------------- */

/* At least the needs of a backward pass: the gates of each layer. At most the states beside them,
 * and as workspace the gates of one layer twice. Both are guesses. */
SIMULATE_EXPORT int cudnnGetRNNTempSpaceSizes(dnn_handle *handle, const network *n, int mode,
                                              const sequences *x, size_t *workspace,
                                              size_t *reserve)
{
    (void)handle;
    uint64_t states = (uint64_t)x->steps * (uint64_t)x->batch * (uint64_t)n->hidden *
                      (uint64_t)n->directions * simulate_dnn_width(n->type);
    uint64_t gates = states * (uint64_t)n->gates;
    uint64_t layers = mode == FOR_TRAINING ? (uint64_t)n->layers : 0;
    if (workspace != NULL) {
        *workspace = simulate_unknown(SIMULATE_RECURRENT, 0, 2 * gates);
    }
    if (reserve != NULL) {
        *reserve =
            simulate_unknown(SIMULATE_RECURRENT, layers * gates, layers * (gates + 2 * states));
    }
    return DNN_SUCCESS;
}

/* Random numbers of dropout: a state for each thread that the device runs, at most. */
SIMULATE_EXPORT int cudnnDropoutGetStatesSize(dnn_handle *handle, size_t *bytes)
{
    (void)handle;
    uint64_t threads =
        (uint64_t)simulate_attribute(PROCESSORS, 0) * (uint64_t)simulate_attribute(THREADS, 0);
    *bytes = simulate_unknown(SIMULATE_RECURRENT, (uint64_t)LEAST_STATES * STATE_BYTES,
                              threads * STATE_BYTES);
    return DNN_SUCCESS;
}
