#include "tests/simulate/runtime.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/files.h"

static runtime the_runtime;
static bool is_whole;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void find(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);
    if (found == NULL) {
        mend_test_fail(__FILE__, __LINE__, "%s is missing", name);
        is_whole = false;
    }
    memcpy(function, &found, sizeof(found));
}

static void open_runtime(void)
{
    mend_test_files_stay = true;
    setenv("MEND_SIMULATE_MEMORY", "268435456", 1);
    setenv("MEND_SIMULATE_DEVICES", "2", 1);
    setenv("MEND_SIMULATE_FABRIC", "1", 1);
    the_runtime.cuda = dlopen(LIBRARY_CUDA, RTLD_NOW | RTLD_LOCAL);
    the_runtime.nvml = dlopen(LIBRARY_NVML, RTLD_NOW | RTLD_LOCAL);
    is_whole = the_runtime.cuda != NULL && the_runtime.nvml != NULL;
    if (!is_whole) {
        mend_test_fail(__FILE__, __LINE__, "%s", dlerror());
        return;
    }
#define X(name, parameters) find(the_runtime.cuda, #name, &the_runtime.name);
    RUNTIME_FUNCTIONS(X)
#undef X
    find(the_runtime.cuda, "cudaGetErrorName", &the_runtime.cudaGetErrorName);
    find(the_runtime.cuda, "cudaGetErrorString", &the_runtime.cudaGetErrorString);
    find(the_runtime.cuda, "__cudaRegisterFunction", &the_runtime.__cudaRegisterFunction);
}

const runtime *runtime_get(void)
{
    pthread_once(&once, open_runtime);
    return is_whole ? &the_runtime : NULL;
}

void runtime_symbol(const runtime *r, const char *name, void *function)
{
    find(r->cuda, name, function);
}

void runtime_entry(const runtime *r, const char *name, void *function)
{
    int status = -1;
    EXPECT_OK(r->cuGetProcAddress_v2(name, function, 13020, 0, &status));
    EXPECT_INT_EQ(0, status);
}

enum { MOST_MADE = 4 };
static stream streams[MOST_MADE];
static event events[MOST_MADE];
static void *blocks[MOST_MADE];
static int stream_count, event_count, block_count;

stream runtime_stream(const runtime *r)
{
    EXPECT_OK(r->cudaStreamCreateWithFlags(&streams[stream_count], NON_BLOCKING));
    return streams[stream_count++];
}

event runtime_event(const runtime *r)
{
    EXPECT_OK(r->cudaEventCreateWithFlags(&events[event_count], 0));
    return events[event_count++];
}

void *runtime_block(const runtime *r, size_t bytes)
{
    EXPECT_OK(r->cudaMalloc(&blocks[block_count], bytes));
    return blocks[block_count++];
}

void runtime_end(const runtime *r)
{
    EXPECT_OK(r->cudaSetDevice(0));
    EXPECT_OK(r->cudaDeviceSynchronize());
    while (stream_count > 0) {
        EXPECT_OK(r->cudaStreamDestroy(streams[--stream_count]));
    }
    while (event_count > 0) {
        EXPECT_OK(r->cudaEventDestroy(events[--event_count]));
    }
    while (block_count > 0) {
        EXPECT_OK(r->cudaFree(blocks[--block_count]));
    }
    (void)r->cudaGetLastError();
}

int runtime_launch(const runtime *r, stream on)
{
    const dimensions one = {1, 1, 1};
    return r->cudaLaunchKernel("kernel", one, one, NULL, 0, on);
}
