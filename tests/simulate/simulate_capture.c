/* Captures and graphs of the simulated runtime: recorded work runs at each launch and not
 * before. */
#include <pthread.h>

#include "tests/simulate/runtime.h"

typedef struct scene {
    const runtime *r;
    stream on;
    char *device; /* 1 KiB */
} scene;

/* The first byte of the device's memory. */
static int first_byte(const scene *s)
{
    char byte = 0;
    EXPECT_OK(s->r->cudaMemcpy(&byte, s->device, 1, TO_HOST));
    return byte;
}

static int capturing(const scene *s)
{
    int status = -1;
    EXPECT_OK(s->r->cudaStreamIsCapturing(s->on, &status));
    return status;
}

/* A test in a scene `s`. */
#define SCENE_TEST(name)                                                                           \
    static void name(const runtime *r, scene *s);                                                  \
    RUNTIME_TEST(simulate_capture, name)                                                           \
    {                                                                                              \
        scene s = {.r = r, .on = runtime_stream(r), .device = runtime_block(r, 1024)};             \
        name(r, &s);                                                                               \
    }                                                                                              \
    static void name(const runtime *r, scene *s)

static void add_one(void *byte)
{
    ++*(char *)byte;
}

SCENE_TEST(work_runs_at_each_launch_in_the_recorded_order)
{
    graph recorded = NULL;
    graph executable = NULL;
    size_t nodes = 0;
    EXPECT_OK(r->cudaMemset(s->device, 1, 1024));
    ASSERT_OK(r->cudaStreamBeginCapture(s->on, GLOBAL));
    EXPECT_INT_EQ(1, capturing(s));
    EXPECT_OK(r->cudaMemcpyAsync(s->device + 8, s->device, 1, WITHIN_DEVICE, s->on));
    EXPECT_OK(r->cudaLaunchHostFunc(s->on, add_one, s->device + 8));
    EXPECT_OK(r->cudaMemcpyAsync(s->device, s->device + 8, 1, WITHIN_DEVICE, s->on));
    EXPECT_OK(runtime_launch(r, s->on));
    ASSERT_OK(r->cudaStreamEndCapture(s->on, &recorded));
    EXPECT_INT_EQ(0, capturing(s));
    EXPECT_INT_EQ(1, first_byte(s));
    EXPECT_OK(r->cudaGraphGetNodes(recorded, NULL, &nodes));
    EXPECT_U64_EQ(4, nodes);
    ASSERT_OK(r->cudaGraphInstantiate(&executable, recorded, 0));
    EXPECT_OK(r->cudaGraphDestroy(recorded));
    for (int i = 2; i < 5; i++) {
        EXPECT_OK(r->cudaGraphLaunch(executable, s->on));
        EXPECT_INT_EQ(i, first_byte(s));
    }
    EXPECT_ERROR(NOT_READY, r->cudaStreamQuery(s->on));
    EXPECT_OK(r->cudaGraphExecDestroy(executable));
    EXPECT_ERROR(INVALID_VALUE, r->cudaGraphLaunch(executable, s->on));
    EXPECT_ERROR(INVALID_VALUE, r->cudaGraphExecDestroy(executable));
}

SCENE_TEST(a_stream_that_waits_for_an_event_joins)
{
    graph recorded = NULL;
    stream other = runtime_stream(r);
    event fork = runtime_event(r);
    event join = runtime_event(r);
    int status = 0;
    unsigned long long ids[2] = {0, 0};
    ASSERT_OK(r->cudaStreamBeginCapture(s->on, THREAD_LOCAL));
    EXPECT_OK(r->cudaEventRecord(fork, s->on));
    EXPECT_OK(r->cudaStreamWaitEvent(other, fork, 0));
    EXPECT_OK(r->cudaStreamGetCaptureInfo_v2(s->on, &status, &ids[0], NULL, NULL, NULL));
    EXPECT_OK(r->cudaStreamGetCaptureInfo_v2(other, &status, &ids[1], NULL, NULL, NULL));
    EXPECT_INT_EQ(1, status);
    EXPECT_U64_EQ(ids[0], ids[1]);
    EXPECT_OK(r->cudaMemsetAsync(s->device, 9, 1, other));
    EXPECT_ERROR(CAPTURE_UNMATCHED, r->cudaStreamEndCapture(other, &recorded));
    EXPECT_OK(r->cudaEventRecord(join, other));
    EXPECT_OK(r->cudaStreamWaitEvent(s->on, join, 0));
    ASSERT_OK(r->cudaStreamEndCapture(s->on, &recorded));
    EXPECT_OK(r->cudaGraphDestroy(recorded));
}

SCENE_TEST(work_that_does_not_come_back_leaves_no_graph)
{
    stream other = runtime_stream(r);
    event fork = runtime_event(r);
    graph recorded = (graph)s;
    ASSERT_OK(r->cudaStreamBeginCapture(s->on, RELAXED));
    EXPECT_OK(r->cudaEventRecord(fork, s->on));
    EXPECT_OK(r->cudaStreamWaitEvent(other, fork, 0));
    EXPECT_OK(runtime_launch(r, other));
    EXPECT_ERROR(CAPTURE_UNJOINED, r->cudaStreamEndCapture(s->on, &recorded));
    EXPECT_PTR_EQ(NULL, recorded);
}

SCENE_TEST(an_unsafe_call_spoils_it_but_not_in_the_relaxed_mode)
{
    graph recorded = NULL;
    void *pointer = NULL;
    int mode = RELAXED;
    ASSERT_OK(r->cudaStreamBeginCapture(s->on, GLOBAL));
    EXPECT_OK(r->cudaThreadExchangeStreamCaptureMode(&mode));
    EXPECT_INT_EQ(GLOBAL, mode);
    EXPECT_OK(r->cudaMalloc(&pointer, 512));
    EXPECT_OK(r->cudaThreadExchangeStreamCaptureMode(&mode));
    EXPECT_INT_EQ(1, capturing(s));
    EXPECT_ERROR(CAPTURE_UNSUPPORTED, r->cudaMalloc(&pointer, 512));
    EXPECT_INT_EQ(2, capturing(s));
    EXPECT_ERROR(CAPTURE_INVALIDATED, runtime_launch(r, s->on));
    EXPECT_ERROR(CAPTURE_INVALIDATED, r->cudaStreamEndCapture(s->on, &recorded));
    EXPECT_INT_EQ(0, capturing(s));
    EXPECT_OK(r->cudaFree(pointer));
}

SCENE_TEST(begins_and_ends_in_the_wrong_place_are_refused)
{
    graph recorded = NULL;
    EXPECT_ERROR(CAPTURE_UNSUPPORTED, r->cudaStreamBeginCapture(NULL, GLOBAL));
    EXPECT_ERROR(INVALID_VALUE, r->cudaStreamBeginCapture(s->on, 3));
    EXPECT_ERROR(ILLEGAL_STATE, r->cudaStreamEndCapture(s->on, &recorded));
    ASSERT_OK(r->cudaStreamBeginCapture(s->on, GLOBAL));
    EXPECT_ERROR(ILLEGAL_STATE, r->cudaStreamBeginCapture(s->on, GLOBAL));
    ASSERT_OK(r->cudaStreamEndCapture(s->on, &recorded));
    EXPECT_OK(r->cudaGraphDestroy(recorded));
    EXPECT_ERROR(INVALID_VALUE, r->cudaGraphDestroy(recorded));
    EXPECT_ERROR(INVALID_VALUE, r->cudaGraphInstantiate(&recorded, recorded, 0));
}

static void *end_elsewhere(void *argument)
{
    scene *s = argument;
    graph recorded = NULL;
    EXPECT_ERROR(CAPTURE_WRONG_THREAD, s->r->cudaStreamEndCapture(s->on, &recorded));
    return NULL;
}

SCENE_TEST(another_thread_does_not_end_it)
{
    graph recorded = NULL;
    pthread_t thread;
    ASSERT_OK(r->cudaStreamBeginCapture(s->on, THREAD_LOCAL));
    ASSERT_INT_EQ(0, pthread_create(&thread, NULL, end_elsewhere, s));
    pthread_join(thread, NULL);
    ASSERT_OK(r->cudaStreamEndCapture(s->on, &recorded));
    EXPECT_OK(r->cudaGraphDestroy(recorded));
}

SCENE_TEST(objects_of_the_program_end_with_the_last_of_the_graphs)
{
    graph recorded = NULL;
    graph executable = NULL;
    void *object = NULL;
    char ended = 0;
    ASSERT_OK(r->cudaStreamBeginCapture(s->on, GLOBAL));
    ASSERT_OK(r->cudaStreamEndCapture(s->on, &recorded));
    EXPECT_OK(r->cudaUserObjectCreate(&object, &ended, add_one, 1, 1));
    EXPECT_OK(r->cudaGraphRetainUserObject(recorded, object, 1, 1));
    ASSERT_OK(r->cudaGraphInstantiate(&executable, recorded, 0));
    EXPECT_OK(r->cudaGraphDestroy(recorded));
    EXPECT_INT_EQ(0, ended);
    EXPECT_OK(r->cudaGraphExecDestroy(executable));
    EXPECT_INT_EQ(1, ended);
}

SCENE_TEST(a_multiplication_of_cublas_is_work_of_its_stream)
{
    void *handle = NULL;
    EXPECT_OK(r->cublasCreate_v2(&handle));
    EXPECT_OK(r->cublasSetStream_v2(handle, s->on));
    EXPECT_OK(r->cublasSgemm_v2(handle));
    EXPECT_ERROR(NOT_READY, r->cudaStreamQuery(s->on));
    EXPECT_OK(r->cublasDestroy_v2(handle));
}
