#include "tests/hooks/hook.h"

#include "tests/support/test.h"

/* ---- PyTorch --------------------------------------------------------------------------------- */

static void *pool_alloc(hooks_rig *rig, size_t size, mend_stream stream)
{
    return rig->f->mend_torch_alloc_or_null(size, 0, stream);
}

static void torch_free(hooks_rig *rig, void *pointer, size_t size, mend_stream stream)
{
    rig->f->mend_torch_free(pointer, size, 0, stream);
}

/* ---- by a foreign-function interface, and by the handler of cuStateVec ----------------------- */

static void *plain_alloc(hooks_rig *rig, size_t size, mend_stream stream)
{
    void *pointer = NULL;
    return rig->f->mend_device_alloc(0, size, stream, &pointer) == 0 ? pointer : NULL;
}

static void plain_free(hooks_rig *rig, void *pointer, size_t size, mend_stream stream)
{
    (void)rig->f->mend_device_free(0, pointer, size, stream);
}

/* As the header of cuStateVec declares it. */
typedef struct custatevec_handler {
    void *ctx;
    int (*device_alloc)(void *ctx, void **ptr, size_t size, struct CUstream_st *stream);
    int (*device_free)(void *ctx, void *ptr, size_t size, struct CUstream_st *stream);
    char name[64];
} custatevec_handler;

_Static_assert(sizeof(custatevec_handler) == sizeof(mend_device_handler) &&
                   offsetof(custatevec_handler, device_alloc) ==
                       offsetof(mend_device_handler, alloc) &&
                   offsetof(custatevec_handler, device_free) ==
                       offsetof(mend_device_handler, free) &&
                   offsetof(custatevec_handler, name) == offsetof(mend_device_handler, name),
               "the handler has the layout that cuStateVec, cuTensorNet and cuDSS take");

static custatevec_handler handler_of(hooks_rig *rig)
{
    custatevec_handler handler;
    HOOKS_OK(mend_hook_handler(0, (mend_device_handler *)&handler));
    return handler;
}

static void *handler_alloc(hooks_rig *rig, size_t size, mend_stream stream)
{
    custatevec_handler handler = handler_of(rig);
    void *pointer = NULL;
    return handler.device_alloc(handler.ctx, &pointer, size, stream) == 0 ? pointer : NULL;
}

static void handler_free(hooks_rig *rig, void *pointer, size_t size, mend_stream stream)
{
    custatevec_handler handler = handler_of(rig);
    (void)handler.device_free(handler.ctx, pointer, size, stream);
}

/* ---- ONNX Runtime, with user_compute_stream and without -------------------------------------- */

mend_ort_functions hooks_ort_functions(hooks_rig *rig, mend_stream stream)
{
    mend_ort_functions functions = MEND_ORT_FUNCTIONS_INIT;
    HOOKS_OK(mend_ort_functions_for(stream, &functions));
    return functions;
}

static void *computing_alloc(hooks_rig *rig, size_t size, mend_stream stream)
{
    return hooks_ort_functions(rig, stream).alloc(size);
}

static void computing_free(hooks_rig *rig, void *pointer, size_t size, mend_stream stream)
{
    (void)size;
    hooks_ort_functions(rig, stream).free(pointer);
}

static void *ort_alloc(hooks_rig *rig, size_t size, mend_stream stream)
{
    (void)stream;
    return hooks_ort_functions(rig, MEND_NO_STREAM).alloc(size);
}

static void ort_free(hooks_rig *rig, void *pointer, size_t size, mend_stream stream)
{
    (void)size;
    (void)stream;
    hooks_ort_functions(rig, MEND_NO_STREAM).free(pointer);
}

const hook hooks[HOOKS] = {
    {"PyTorch's MemPool", true, true, pool_alloc, torch_free},
    {"foreign functions", true, true, plain_alloc, plain_free},
    {"cuStateVec's handler", true, true, handler_alloc, handler_free},
    {"ONNX Runtime with a stream", true, false, computing_alloc, computing_free},
    {"ONNX Runtime", false, false, ort_alloc, ort_free},
};

uint64_t hooks_failures(hooks_rig *rig)
{
    return rig->f->mend_torch_failures() + rig->f->mend_hook_failures();
}
