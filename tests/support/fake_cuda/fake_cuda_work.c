/* The entry points of work, streams and events, and the one that finds them all. */
#include <string.h>

#include "tests/support/fake_cuda/entries.h"
#include "tests/support/options.h"

/* ---- work -------------------------------------------------------------------------------- */

FORWARD(cuMemcpyAsync, copy,
        (mend_cu_address destination, mend_cu_address source, size_t bytes, mend_stream stream),
        destination, source, bytes, stream)
FORWARD(cuMemsetD8Async, fill,
        (mend_cu_address address, unsigned char value, size_t bytes, mend_stream stream), address,
        value, bytes, stream)

static const char *const entries[] = {"mend_spin",   "mend_write", "mend_verify",
                                      "mend_stream", "mend_read",  "mend_gather"};

mend_status cuModuleLoadData(mend_cu_module *module, const void *image)
{
    if (strncmp(image, ".version ", strlen(".version ")) != 0) {
        return MEND_DRIVER_INVALID_VALUE;
    }
    fake_cuda_get()->modules++;
    *module = (mend_cu_module)(void *)fake_cuda_get();
    return MEND_DRIVER_OK;
}

mend_status cuModuleUnload(mend_cu_module module)
{
    if ((void *)module != fake_cuda_get() || fake_cuda_get()->modules == 0) {
        return MEND_DRIVER_INVALID_HANDLE;
    }
    fake_cuda_get()->modules--;
    return MEND_DRIVER_OK;
}

/* A function is the number of its kernel, from 1. */
mend_status cuModuleGetFunction(mend_cu_function *function, mend_cu_module module, const char *name)
{
    for (uintptr_t i = 0;
         (void *)module == fake_cuda_get() && i < sizeof(entries) / sizeof(*entries); i++) {
        if (strcmp(name, entries[i]) == 0) {
            *function = (mend_cu_function)(i + 1);
            return MEND_DRIVER_OK;
        }
    }
    return MEND_DRIVER_NOT_FOUND;
}

/* Reads one parameter of a kernel. */
static uint64_t parameter_u64(void **parameters, int index)
{
    uint64_t value;
    memcpy(&value, parameters[index], sizeof(value));
    return value;
}

mend_status cuLaunchKernel(mend_cu_function function, unsigned int grid_x, unsigned int grid_y,
                           unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                           unsigned int block_z, unsigned int shared_bytes, mend_stream stream,
                           void **parameters, void **extra)
{
    uintptr_t number = (uintptr_t)function;
    if (number == 0 || number > sizeof(entries) / sizeof(*entries) || extra != NULL ||
        shared_bytes != 0 || grid_x == 0 || grid_y != 1 || grid_z != 1 || block_x == 0 ||
        block_x > 1024 || block_y != 1 || block_z != 1) {
        return MEND_DRIVER_INVALID_VALUE;
    }
    mend_kernel kernel = {.kind = (mend_kernel_kind)(number - 1),
                          .address = parameter_u64(parameters, 0),
                          .granule_bytes = parameter_u64(parameters, 1),
                          .stride_bytes = parameter_u64(parameters, 2),
                          .granule_count = parameter_u64(parameters, 3),
                          .duration_ns = parameter_u64(parameters, 5),
                          .mismatches = parameter_u64(parameters, 6)};
    memcpy(&kernel.value, parameters[4], sizeof(kernel.value));
    return inner()->launch(inner(), stream, &kernel);
}

/* ---- streams and events ------------------------------------------------------------------ */

mend_status cuStreamCreate(mend_stream *stream, unsigned int flags)
{
    if (flags == 0) {
        return mend_sim_stream_create(fake_cuda_get()->sim,
                                      KIT_OPTIONS(mend_sim_stream_options, .is_blocking = 1),
                                      stream) == MEND_OK
                   ? MEND_DRIVER_OK
                   : MEND_DRIVER_OUT_OF_MEMORY;
    }
    return flags != MEND_CU_STREAM_NON_BLOCKING ? MEND_DRIVER_INVALID_VALUE
                                                : inner()->stream_create(inner(), stream);
}

FORWARD(cuStreamDestroy, stream_destroy, (mend_stream stream), stream)
FORWARD(cuStreamQuery, stream_query, (mend_stream stream), stream)
FORWARD(cuStreamSynchronize, stream_synchronize, (mend_stream stream), stream)

/* Of an event of a capture that is over, as CUDA 13.0 answers. */
static mend_status answer_of_event(mend_status status)
{
    return status == MEND_DRIVER_CAPTURED_EVENT ? MEND_DRIVER_INVALID_VALUE : status;
}

mend_status cuStreamWaitEvent(mend_stream stream, mend_event event, unsigned int flags)
{
    return flags != 0 ? MEND_DRIVER_INVALID_VALUE
                      : answer_of_event(inner()->stream_wait(inner(), stream, event));
}

mend_status cuStreamGetCtx(mend_stream stream, mend_context *context)
{
    mend_sim_identity identity = MEND_SIM_IDENTITY_INIT;
    mend_status status = mend_sim_stream_identity(fake_cuda_get()->sim, stream, &identity);
    *context = identity.context;
    return status;
}

/* Writes the existing ones of two nodes. */
static size_t write_nodes(const uintptr_t numbers[2], mend_cu_graph_node *nodes)
{
    size_t count = 0;
    for (int i = 0; numbers != NULL && i < 2; i++) {
        if (numbers[i] != 0) {
            nodes[count++] = (mend_cu_graph_node)numbers[i];
        }
    }
    return count;
}

static const uintptr_t *ends_of(mend_stream stream)
{
    const fake_cuda_order *order = fake_cuda_get()->switches.order;
    for (int i = 0; order != NULL && i < 2; i++) {
        if (order->streams[i] == stream) {
            return order->ends[i];
        }
    }
    return NULL;
}

mend_status cuGraphNodeGetDependencies(mend_cu_graph_node node, mend_cu_graph_node *dependencies,
                                       size_t *count)
{
    const fake_cuda_order *order = fake_cuda_get()->switches.order;
    if (order == NULL || dependencies == NULL || *count < 2) {
        return MEND_DRIVER_INVALID_VALUE;
    }
    *count = write_nodes(order->after[(uintptr_t)node], dependencies);
    return MEND_DRIVER_OK;
}

mend_status cuStreamGetCaptureInfo(mend_stream stream, mend_cu_capture_status *capture,
                                   mend_cu_id *id, mend_cu_graph *graph,
                                   const mend_cu_graph_node **dependencies,
                                   size_t *dependency_count)
{
    static _Thread_local mend_cu_graph_node ends[2]; /* until the next call */
    mend_stream_info info = {0};
    if ((dependencies != NULL) != (dependency_count != NULL)) {
        return MEND_DRIVER_NOT_SUPPORTED;
    }
    if (dependencies != NULL) {
        *dependency_count = write_nodes(ends_of(stream), ends);
        *dependencies = ends;
    }
    if (graph != NULL) {
        *graph = (mend_cu_graph)stream; /* a graph under capture is named by its stream */
    }
    mend_status status = inner()->stream_get_info(inner(), stream, &info);
    if (info.capture == MEND_CAPTURE_ACTIVE && info.capture_id == 0) {
        return MEND_DRIVER_CAPTURE_IMPLICIT;
    }
    *capture = (mend_cu_capture_status)info.capture;
    *id = info.capture_id;
    return status;
}

mend_status cuEventCreate(mend_event *event, unsigned int flags)
{
    return flags != MEND_CU_EVENT_NO_TIMING ? MEND_DRIVER_INVALID_VALUE
                                            : inner()->event_create(inner(), event);
}

FORWARD(cuEventRecord, event_record, (mend_event event, mend_stream stream), event, stream)

mend_status cuEventQuery(mend_event event)
{
    return answer_of_event(inner()->event_query(inner(), event));
}

mend_status cuEventSynchronize(mend_event event)
{
    return answer_of_event(inner()->event_synchronize(inner(), event));
}

FORWARD(cuEventDestroy, event_destroy, (mend_event event), event)

/* ---- what came with CUDA 12.0 ------------------------------------------------------------ */

#ifndef FAKE_CUDA_OLD
mend_status cuStreamGetId(mend_stream stream, unsigned long long *id)
{
    mend_sim_identity identity = MEND_SIM_IDENTITY_INIT;
    mend_status status = mend_sim_stream_identity(fake_cuda_get()->sim, stream, &identity);
    *id = identity.id;
    return status;
}

/* A green context has the number of its CUcontext. */
mend_status cuStreamGetGreenCtx(mend_stream stream, mend_cu_green_context *green)
{
    mend_sim_identity identity = MEND_SIM_IDENTITY_INIT;
    mend_status status = mend_sim_stream_identity(fake_cuda_get()->sim, stream, &identity);
    *green = identity.is_green ? identity.context : NULL;
    return status;
}

/* Of the current context, the only one used. */
mend_status cuCtxRecordEvent(mend_context context, mend_event event)
{
    return context == NULL ? MEND_DRIVER_INVALID_CONTEXT : inner()->context_record(inner(), event);
}

/* The pool releases memory at once: it holds memory taken since its record was reset. */
mend_status cuDeviceGetDefaultMemPool(mend_cu_pool *pool, mend_cu_device device)
{
    if (device != 0) {
        return MEND_DRIVER_INVALID_DEVICE;
    }
    *pool = (mend_cu_pool)fake_cuda_get();
    return MEND_DRIVER_OK;
}

mend_status cuMemPoolTrimTo(mend_cu_pool pool, size_t least_bytes)
{
    (void)least_bytes;
    return pool != NULL ? MEND_DRIVER_OK : MEND_DRIVER_INVALID_VALUE;
}

mend_status cuMemPoolSetAttribute(mend_cu_pool pool, mend_cu_pool_attribute attribute, void *value)
{
    fake_cuda *self = fake_cuda_get();
    uint64_t wanted = *(uint64_t *)value;
    if (pool == NULL || (attribute != MEND_CU_POOL_RELEASE_THRESHOLD &&
                         (attribute != MEND_CU_POOL_RESERVED_HIGH || wanted != 0))) {
        return MEND_DRIVER_INVALID_VALUE;
    }
    if (attribute == MEND_CU_POOL_RESERVED_HIGH) {
        self->pool_base_bytes = fake_cuda_taken_bytes();
        self->pool_high_bytes = self->pool_base_bytes;
    }
    return MEND_DRIVER_OK;
}

mend_status cuMemPoolGetAttribute(mend_cu_pool pool, mend_cu_pool_attribute attribute, void *value)
{
    const fake_cuda *self = fake_cuda_get();
    if (pool == NULL ||
        (attribute != MEND_CU_POOL_RESERVED && attribute != MEND_CU_POOL_RESERVED_HIGH)) {
        return MEND_DRIVER_INVALID_VALUE;
    }
    uint64_t bytes =
        attribute == MEND_CU_POOL_RESERVED ? fake_cuda_taken_bytes() : self->pool_high_bytes;
    *(uint64_t *)value = bytes > self->pool_base_bytes ? bytes - self->pool_base_bytes : 0;
    return MEND_DRIVER_OK;
}

typedef void (*any_function)(void);

/* Finds a function by its plain name, from the version on in which its type came. */
MEND_API mend_status
fake_get_proc_address(const char *symbol, void **function, int version, mend_cu_id flags,
                      mend_cu_symbol_status *found) __asm__("cuGetProcAddress_v2");
mend_status fake_get_proc_address(const char *symbol, void **function, int version,
                                  mend_cu_id flags, mend_cu_symbol_status *found)
{
    static const struct {
        const char *name;
        int version;
        any_function function;
    } known[] = {
#define X(name, version, suffix, parameters) {#name, version, (any_function)name},
        MEND_CU_FUNCTIONS(X) MEND_CU_OPTIONAL_FUNCTIONS(X)
#undef X
    };
    const char *missing = fake_cuda_get()->switches.missing_function;
    *function = NULL;
    *found = 1;
    if (version > FAKE_DRIVER_VERSION || flags != MEND_CU_SYMBOLS_LEGACY_STREAM) {
        return MEND_DRIVER_INVALID_VALUE;
    }
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
        if (strcmp(symbol, known[i].name) == 0 && version >= known[i].version &&
            (missing == NULL || strcmp(symbol, missing) != 0)) {
            memcpy(function, &known[i].function, sizeof(*function));
            *found = 0;
        }
    }
    return MEND_DRIVER_OK;
}
#endif
