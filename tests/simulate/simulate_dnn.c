/* cuDNN: a convolution as PyTorch builds one, with a workspace that is not known. The weights of a
 * recurrent network. Refusals. */
#include <stdlib.h>
#include <string.h>

#include "tests/simulate/runtime.h"

typedef struct thing *thing; /* a handle or a descriptor */

/* X(name, parameters) */
#define DNN_FUNCTIONS(X)                                                                           \
    X(cudnnCreate, (thing *))                                                                      \
    X(cudnnDestroy, (thing))                                                                       \
    X(cudnnSetStream, (thing, stream))                                                             \
    X(cudnnGetStream, (thing, stream *))                                                           \
    X(cudnnGetProperty, (int, int *))                                                              \
    X(cudnnBackendCreateDescriptor, (int, thing *))                                                \
    X(cudnnBackendDestroyDescriptor, (thing))                                                      \
    X(cudnnBackendSetAttribute, (thing, int, int, int64_t, const void *))                          \
    X(cudnnBackendGetAttribute, (thing, int, int, int64_t, int64_t *, void *))                     \
    X(cudnnBackendFinalize, (thing))                                                               \
    X(cudnnBackendExecute, (thing, thing, thing))                                                  \
    X(cudnnConvolutionForward, (thing))                                                            \
    X(cudnnCreateRNNDescriptor, (thing *))                                                         \
    X(cudnnDestroyRNNDescriptor, (thing))                                                          \
    X(cudnnSetRNNDescriptor_v8,                                                                    \
      (thing, int, int, int, int, int, int, int, int, int, int, int, int, void *, unsigned))       \
    X(cudnnGetRNNWeightSpaceSize, (thing, thing, size_t *))                                        \
    X(cudnnGetRNNWeightParams,                                                                     \
      (thing, thing, int, size_t, char *, int, thing, void **, thing, void **))                    \
    X(cudnnCreateTensorDescriptor, (thing *))                                                      \
    X(cudnnDestroyTensorDescriptor, (thing))                                                       \
    X(cudnnGetTensorNdDescriptor, (thing, int, int *, int *, int *, int *))

typedef struct dnn {
#define X(name, parameters) int(*name) parameters;
    DNN_FUNCTIONS(X)
#undef X
    const char *(*mend_simulate_unknown)(unsigned, uint64_t *);
    size_t (*cudnnGetVersion)(void);
} dnn;

static dnn functions_of(const runtime *r)
{
    dnn d;
#define X(name, parameters) runtime_symbol(r, #name, &d.name);
    DNN_FUNCTIONS(X)
    X(mend_simulate_unknown, )
    X(cudnnGetVersion, )
#undef X
    return d;
}

/* As cudnn_backend.h has them. */
enum { FLOAT = 0, HALF = 2 };
enum { OF_TYPE = 1, OF_NUMBERS = 3, OF_DESCRIPTORS = 15 };
enum {
    HEURISTICS = 4,
    CONFIGURATION = 3,
    PLAN = 5,
    FORWARD = 10,
    GRAPH = 15,
    PACK = 16,
    TENSOR = 17
};
enum { HEURISTICS_GRAPH = 201, HEURISTICS_RESULTS = 202, CONFIGURATION_WORKSPACE = 303 };
enum { PLAN_CONFIGURATION = 401, PLAN_WORKSPACE = 402, GRAPH_OPERATIONS = 801 };
enum { FORWARD_W = 703, FORWARD_X = 704, FORWARD_Y = 705 };
enum { TENSOR_TYPE = 901, TENSOR_SIZES = 902, TENSOR_STRIDES = 903 };

enum { MOST_MADE = 16 };
static thing made[MOST_MADE];
static int made_count;

static thing make(const dnn *d, int kind)
{
    EXPECT_OK(d->cudnnBackendCreateDescriptor(kind, &made[made_count]));
    return made[made_count++];
}

static void set(const dnn *d, thing of, int name, int type, int64_t count, const void *values)
{
    EXPECT_OK(d->cudnnBackendSetAttribute(of, name, type, count, values));
}

/* A tensor of 8 pictures, channels last or not. */
static thing tensor(const dnn *d, int64_t channels, int64_t side, bool is_last)
{
    const int type = HALF;
    const int64_t sizes[] = {8, channels, side, side};
    const int64_t strides[] = {channels * side * side, is_last ? 1 : side * side,
                               is_last ? side * channels : side, is_last ? channels : 1};
    thing t = make(d, TENSOR);
    set(d, t, TENSOR_TYPE, OF_TYPE, 1, &type);
    set(d, t, TENSOR_SIZES, OF_NUMBERS, 4, sizes);
    set(d, t, TENSOR_STRIDES, OF_NUMBERS, 4, strides);
    EXPECT_OK(d->cudnnBackendFinalize(t));
    return t;
}

/* A convolution of 3 to 64 channels, and its engines' configurations, best first. */
static int64_t engines_of(const dnn *d, bool is_last, thing engines[2])
{
    const thing operands[] = {tensor(d, 64, 3, is_last), tensor(d, 3, 32, is_last),
                              tensor(d, 64, 32, is_last)};
    thing operation = make(d, FORWARD);
    for (int i = 0; i < 3; i++) {
        set(d, operation, FORWARD_W + i, OF_DESCRIPTORS, 1, &operands[i]);
    }
    thing whole = make(d, GRAPH);
    set(d, whole, GRAPH_OPERATIONS, OF_DESCRIPTORS, 1, &operation);
    EXPECT_OK(d->cudnnBackendFinalize(whole));
    thing heuristics = make(d, HEURISTICS);
    set(d, heuristics, HEURISTICS_GRAPH, OF_DESCRIPTORS, 1, &whole);
    EXPECT_OK(d->cudnnBackendFinalize(heuristics));
    int64_t count = 0;
    engines[0] = make(d, CONFIGURATION);
    engines[1] = make(d, CONFIGURATION);
    EXPECT_OK(d->cudnnBackendGetAttribute(heuristics, HEURISTICS_RESULTS, OF_DESCRIPTORS, 2, &count,
                                          engines));
    return count;
}

static int64_t workspace_of(const dnn *d, thing engine, thing *plan)
{
    int64_t of_engine = -1;
    int64_t bytes = -1;
    int64_t count = 0;
    *plan = make(d, PLAN);
    set(d, *plan, PLAN_CONFIGURATION, OF_DESCRIPTORS, 1, &engine);
    EXPECT_OK(d->cudnnBackendFinalize(*plan));
    EXPECT_OK(d->cudnnBackendGetAttribute(engine, CONFIGURATION_WORKSPACE, OF_NUMBERS, 1, &count,
                                          &of_engine));
    EXPECT_OK(d->cudnnBackendGetAttribute(*plan, PLAN_WORKSPACE, OF_NUMBERS, 1, &count, &bytes));
    EXPECT_INT_EQ(1, count);
    EXPECT_INT_EQ(of_engine, bytes);
    return bytes;
}

static void unmake(const dnn *d)
{
    while (made_count > 0) {
        EXPECT_OK(d->cudnnBackendDestroyDescriptor(made[--made_count]));
    }
}

static uint64_t unknown_convolutions(const dnn *d)
{
    uint64_t count = 0;
    EXPECT_STR_EQ("cuDNN's convolutions", d->mend_simulate_unknown(0, &count));
    return count;
}

RUNTIME_TEST(simulate_dnn, a_convolution_takes_nothing_or_a_copy_of_its_operands)
{
    const dnn d = functions_of(r);
    thing engines[2], plan = NULL, handle = NULL;
    stream on = runtime_stream(r), asked = NULL;
    ASSERT_OK(d.cudnnCreate(&handle));
    ASSERT_OK(d.cudnnSetStream(handle, on));
    EXPECT_OK(d.cudnnGetStream(handle, &asked));
    EXPECT_TRUE(asked == on);
    uint64_t before = unknown_convolutions(&d);
    EXPECT_INT_EQ(1, engines_of(&d, false, engines));
    EXPECT_INT_EQ(0, workspace_of(&d, engines[0], &plan));
    EXPECT_INT_EQ(1, unknown_convolutions(&d) - before);
    EXPECT_OK(d.cudnnBackendExecute(handle, plan, make(&d, PACK)));
    EXPECT_ERROR(NOT_READY, r->cudaStreamQuery(on));
    unmake(&d);
    setenv("MEND_SIMULATE_WORKSPACES", "most", 1);
    EXPECT_INT_EQ(2, engines_of(&d, false, engines));
    /* Channels in eights, each copy in 256 bytes. */
    const int64_t copies = 2 * 8 * (64 * 9 + 8 * 1024 + 64 * 1024);
    EXPECT_INT_EQ(copies, workspace_of(&d, engines[0], &plan));
    EXPECT_INT_EQ(0, workspace_of(&d, engines[1], &plan));
    unmake(&d);
    before = unknown_convolutions(&d);
    EXPECT_INT_EQ(1, engines_of(&d, true, engines)); /* nothing is to be brought into order */
    EXPECT_INT_EQ(0, workspace_of(&d, engines[0], &plan));
    EXPECT_INT_EQ(0, unknown_convolutions(&d) - before);
    unmake(&d);
    unsetenv("MEND_SIMULATE_WORKSPACES");
    EXPECT_OK(d.cudnnDestroy(handle));
}

/* An LSTM of two layers with a projection: PyTorch copies its parameters to these places. */
RUNTIME_TEST(simulate_dnn, the_weights_of_a_recurrent_network_fill_their_space)
{
    enum { LSTM = 2, BOTH_BIASES = 2, INPUT = 5, HIDDEN = 7, OUTPUT = 3, LAYERS = 2, GATES = 4 };
    const dnn d = functions_of(r);
    thing network = NULL, matrix = NULL, bias = NULL;
    ASSERT_OK(d.cudnnCreateRNNDescriptor(&network));
    ASSERT_OK(d.cudnnCreateTensorDescriptor(&matrix));
    ASSERT_OK(d.cudnnCreateTensorDescriptor(&bias));
    ASSERT_OK(d.cudnnSetRNNDescriptor_v8(network, 0, LSTM, BOTH_BIASES, 0, 0, FLOAT, FLOAT, 0,
                                         INPUT, HIDDEN, OUTPUT, LAYERS, NULL, 0));
    size_t bytes = 0;
    EXPECT_OK(d.cudnnGetRNNWeightSpaceSize(NULL, network, &bytes));
    const size_t matrices = GATES * HIDDEN * (INPUT + 3 * OUTPUT) + LAYERS * OUTPUT * HIDDEN;
    const size_t biases = LAYERS * 2 * GATES * HIDDEN;
    EXPECT_INT_EQ(4 * (matrices + biases), bytes);
    char *weights = calloc(1, bytes);
    for (int i = 0; i < LAYERS * (2 * GATES + 1); i++) {
        int type = -1, count = 0, sizes[3] = {0}, strides[3] = {0};
        void *matrix_at = NULL;
        void *bias_at = NULL;
        int which = i % (2 * GATES + 1);
        EXPECT_OK(d.cudnnGetRNNWeightParams(NULL, network, i / (2 * GATES + 1), bytes, weights,
                                            which, matrix, &matrix_at, bias, &bias_at));
        EXPECT_OK(d.cudnnGetTensorNdDescriptor(matrix, 3, &type, &count, sizes, strides));
        memset(matrix_at, 1, sizeof(float) * (size_t)sizes[1] * (size_t)sizes[2]);
        EXPECT_TRUE((bias_at == NULL) == (which == 2 * GATES));
        if (bias_at != NULL) {
            memset(bias_at, 1, sizeof(float) * HIDDEN);
        }
    }
    EXPECT_TRUE(memchr(weights, 0, bytes) == NULL);
    free(weights);
    EXPECT_OK(d.cudnnDestroyRNNDescriptor(network));
    EXPECT_OK(d.cudnnDestroyTensorDescriptor(matrix));
    EXPECT_OK(d.cudnnDestroyTensorDescriptor(bias));
}

RUNTIME_TEST(simulate_dnn, has_a_version_and_refuses_the_older_convolutions)
{
    const dnn d = functions_of(r);
    int major = 0, minor = 0, patch = 0;
    EXPECT_OK(d.cudnnGetProperty(0, &major));
    EXPECT_OK(d.cudnnGetProperty(1, &minor));
    EXPECT_OK(d.cudnnGetProperty(2, &patch));
    EXPECT_INT_EQ(d.cudnnGetVersion(), 10000 * major + 100 * minor + patch);
    EXPECT_INT_EQ(9, major);
    EXPECT_ERROR(3000, d.cudnnConvolutionForward(NULL));
    EXPECT_ERROR(2000, d.cudnnSetStream(NULL, NULL));
    EXPECT_ERROR(2000, d.cudnnBackendExecute(NULL, NULL, NULL));
}
