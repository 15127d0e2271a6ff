/* Kernels that a program compiles for itself, as Triton launches them. */
#include <string.h>

#include "tests/simulate/runtime.h"

typedef struct launch_configuration {
    unsigned grid[3], block[3], shared_bytes;
    stream on;
    void *attributes;
    unsigned attribute_count;
} launch_configuration;

RUNTIME_TEST(simulate_modules, a_kernel_takes_time_on_its_stream)
{
    int (*load)(void **, const void *) = NULL;
    int (*get)(void **, void *, const char *) = NULL;
    int (*launch)(const launch_configuration *, void *, void **, void **) = NULL;
    runtime_entry(r, "cuModuleLoadData", &load);
    runtime_entry(r, "cuModuleGetFunction", &get);
    runtime_entry(r, "cuLaunchKernelEx", &launch);
    void *module = NULL;
    void *function = NULL;
    ASSERT_OK(load(&module, "an image"));
    ASSERT_OK(get(&function, module, "kernel"));
    launch_configuration c = {.grid = {1, 1, 1}, .block = {128, 1, 1}};
    c.on = runtime_stream(r);
    EXPECT_OK(launch(&c, function, NULL, NULL));
    EXPECT_ERROR(NOT_READY, r->cudaStreamQuery(c.on));
    EXPECT_OK(r->cudaStreamSynchronize(c.on));
    c.block[2] = 0;
    EXPECT_ERROR(INVALID_VALUE, launch(&c, function, NULL, NULL));
    EXPECT_ERROR(INVALID_VALUE, launch(NULL, function, NULL, NULL));
}

RUNTIME_TEST(simulate_modules, what_a_compiler_asks_of_a_kernel_is_answered)
{
    int (*ask)(int *, int, void *) = NULL;
    int (*encode)(void *) = NULL;
    runtime_entry(r, "cuFuncGetAttribute", &ask);
    runtime_entry(r, "cuTensorMapEncodeTiled", &encode);
    int value = 0;
    EXPECT_OK(ask(&value, 0, "kernel"));
    EXPECT_INT_EQ(1024, value);
    EXPECT_OK(ask(&value, 3, "kernel")); /* local bytes: nothing spills */
    EXPECT_INT_EQ(0, value);
    EXPECT_OK(ask(&value, 6, "kernel"));
    EXPECT_INT_EQ(90, value);
    EXPECT_ERROR(INVALID_HANDLE, ask(&value, 0, NULL));
    char map[129];
    memset(map, 1, sizeof(map));
    EXPECT_OK(encode(map));
    EXPECT_TRUE(memchr(map, 1, 128) == NULL);
    EXPECT_INT_EQ(1, map[128]);
}
