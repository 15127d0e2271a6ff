/* Streams and events of the simulated runtime: order, queries, waits, times, kernels that take
 * time. */
#include "tests/simulate/runtime.h"

RUNTIME_TEST(simulate_streams, a_kernel_takes_time_on_its_stream_alone)
{
    stream busy = runtime_stream(r);
    stream idle = runtime_stream(r);
    EXPECT_OK(runtime_launch(r, busy));
    EXPECT_ERROR(NOT_READY, r->cudaStreamQuery(busy));
    EXPECT_OK(r->cudaStreamQuery(idle));
    EXPECT_OK(r->cudaStreamSynchronize(busy));
    EXPECT_OK(r->cudaStreamQuery(busy));
}

/* torch.cuda._sleep is a kernel of this name, whose argument is how many cycles it takes. */
RUNTIME_TEST(simulate_streams, a_kernel_that_only_waits_takes_as_long_as_it_is_told)
{
    const dimensions one = {1, 1, 1};
    static char waiting[] = "waits";
    int64_t cycles = 3000000;
    void *arguments[] = {&cycles};
    stream busy = runtime_stream(r);
    event start = runtime_event(r);
    event end = runtime_event(r);
    float passed_ms = 0;
    r->__cudaRegisterFunction(NULL, waiting, waiting, "_ZN2at4cuda11spin_kernelEl", -1, NULL, NULL,
                              NULL, NULL, NULL);
    EXPECT_OK(r->cudaEventRecord(start, busy));
    EXPECT_OK(r->cudaLaunchKernel(waiting, one, one, arguments, 0, busy));
    EXPECT_OK(r->cudaEventRecord(end, busy));
    EXPECT_OK(r->cudaStreamSynchronize(busy));
    EXPECT_OK(r->cudaEventElapsedTime(&passed_ms, start, end));
    EXPECT_TRUE(passed_ms > 2.9F && passed_ms < 3.1F);
}

RUNTIME_TEST(simulate_streams, who_asks_again_and_again_gets_an_end)
{
    stream busy = runtime_stream(r);
    event end = runtime_event(r);
    int questions = 0;
    EXPECT_OK(runtime_launch(r, busy));
    EXPECT_OK(r->cudaEventRecord(end, busy));
    while (r->cudaEventQuery(end) == NOT_READY && questions < 1000) {
        questions++;
    }
    EXPECT_TRUE(questions > 0 && questions < 1000);
}

RUNTIME_TEST(simulate_streams, a_stream_waits_for_an_event_of_another)
{
    stream first = runtime_stream(r);
    stream second = runtime_stream(r);
    event between = runtime_event(r);
    EXPECT_OK(runtime_launch(r, first));
    EXPECT_OK(r->cudaEventRecord(between, first));
    EXPECT_OK(r->cudaStreamWaitEvent(second, between, 0));
    EXPECT_ERROR(NOT_READY, r->cudaStreamQuery(second));
    EXPECT_OK(r->cudaEventSynchronize(between));
    EXPECT_OK(r->cudaStreamQuery(second));
}

RUNTIME_TEST(simulate_streams, a_blocking_stream_and_the_default_one_wait_for_each_other)
{
    stream blocking = NULL;
    int device = -1;
    ASSERT_OK(r->cudaSetDevice(1));
    EXPECT_OK(r->cudaStreamCreate(&blocking));
    EXPECT_OK(runtime_launch(r, blocking));
    EXPECT_ERROR(NOT_READY, r->cudaStreamQuery(NULL));
    EXPECT_OK(r->cudaStreamSynchronize(NULL));
    EXPECT_OK(r->cudaStreamQuery(blocking));
    EXPECT_OK(r->cudaStreamGetDevice(blocking, &device));
    EXPECT_INT_EQ(1, device);
    EXPECT_OK(r->cudaStreamDestroy(blocking));
}

RUNTIME_TEST(simulate_streams, times_are_those_of_the_virtual_clock)
{
    stream busy = runtime_stream(r);
    event start = runtime_event(r);
    event end = runtime_event(r);
    float once = 0;
    float thrice = 0;
    EXPECT_OK(r->cudaEventRecord(start, busy));
    EXPECT_OK(runtime_launch(r, busy));
    EXPECT_ERROR(INVALID_HANDLE, r->cudaEventElapsedTime(&once, start, end));
    EXPECT_OK(r->cudaEventRecord(end, busy));
    EXPECT_ERROR(NOT_READY, r->cudaEventElapsedTime(&once, start, end));
    EXPECT_OK(r->cudaEventSynchronize(end));
    EXPECT_OK(r->cudaEventElapsedTime(&once, start, end));
    EXPECT_OK(r->cudaEventRecord(start, busy));
    for (int i = 0; i < 3; i++) {
        EXPECT_OK(runtime_launch(r, busy));
    }
    EXPECT_OK(r->cudaEventRecord(end, busy));
    EXPECT_OK(r->cudaStreamSynchronize(busy));
    EXPECT_OK(r->cudaEventElapsedTime(&thrice, start, end));
    EXPECT_INT_EQ(20, (int)(once * 1000 + 0.5F));
    EXPECT_INT_EQ(60, (int)(thrice * 1000 + 0.5F));
}

static void count(void *counter)
{
    ++*(int *)counter;
}

static void count_callback(stream on, int error, void *counter)
{
    (void)on;
    *(int *)counter += error == SUCCESS ? 10 : 0;
}

RUNTIME_TEST(simulate_streams, functions_of_the_host_are_called)
{
    stream on = runtime_stream(r);
    int counter = 0;
    EXPECT_OK(r->cudaLaunchHostFunc(on, count, &counter));
    EXPECT_OK(r->cudaStreamAddCallback(on, count_callback, &counter, 0));
    EXPECT_OK(r->cudaStreamSynchronize(on));
    EXPECT_INT_EQ(11, counter);
    EXPECT_ERROR(INVALID_VALUE, r->cudaLaunchHostFunc(on, NULL, NULL));
}

RUNTIME_TEST(simulate_streams, handles_that_are_none_are_refused)
{
    stream gone = NULL;
    event past = NULL;
    EXPECT_OK(r->cudaStreamCreateWithFlags(&gone, NON_BLOCKING));
    EXPECT_OK(r->cudaEventCreateWithFlags(&past, 0));
    EXPECT_OK(r->cudaStreamDestroy(gone));
    EXPECT_OK(r->cudaEventDestroy(past));
    EXPECT_ERROR(INVALID_HANDLE, r->cudaStreamQuery(gone));
    EXPECT_ERROR(INVALID_HANDLE, r->cudaStreamSynchronize(gone));
    EXPECT_ERROR(INVALID_HANDLE, r->cudaStreamDestroy(gone));
    EXPECT_ERROR(INVALID_HANDLE, r->cudaStreamDestroy(NULL));
    EXPECT_ERROR(INVALID_HANDLE, runtime_launch(r, gone));
    EXPECT_ERROR(INVALID_HANDLE, r->cudaEventRecord(past, NULL));
    EXPECT_ERROR(INVALID_HANDLE, r->cudaEventQuery(past));
    EXPECT_ERROR(INVALID_HANDLE, r->cudaEventDestroy(past));
    EXPECT_ERROR(INVALID_VALUE, r->cudaStreamCreateWithFlags(&gone, 2));
    EXPECT_ERROR(INVALID_VALUE, r->cudaEventCreateWithFlags(&past, 8));
}

RUNTIME_TEST(simulate_streams, a_launch_written_as_a_call_finds_its_configuration)
{
    const dimensions grid = {2, 3, 4};
    const dimensions block = {32, 1, 1};
    dimensions a = {0};
    dimensions b = {0};
    size_t bytes = 0;
    stream on = NULL;
    EXPECT_OK(r->__cudaPushCallConfiguration(grid, block, 100, (stream)2));
    EXPECT_OK(r->__cudaPopCallConfiguration(&a, &b, &bytes, &on));
    EXPECT_TRUE(a.z == 4 && b.x == 32 && bytes == 100 && on == (stream)2);
    EXPECT_ERROR(MISSING_CONFIGURATION, r->__cudaPopCallConfiguration(&a, &b, &bytes, &on));
    EXPECT_ERROR(9, r->cudaLaunchKernel("kernel", (dimensions){0, 1, 1}, block, NULL, 0, NULL));
}
