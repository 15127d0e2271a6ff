/*
 * The state of a stream in the driver. During a capture cuStreamGetId and cuStreamGetCtx fail and
 * invalidate it, so the capture status is asked first. The special streams need no question: there
 * is one legacy stream for each context, and one per-thread stream for each context and thread.
 */
#include <stdlib.h>

#include "driver/cuda_state.h"

/* Marks the identities that Mend makes: the driver's count from 1. */
#define SPECIAL_ID (UINT64_C(1) << 63)

/* The identity, the context, and of a green context the primary one of its device, if Mend has
 * opened that. Drivers before 12.0 have no identity that outlives the handle: the handle is used,
 * until mend_unregister_stream. */
static mend_status ask_created(mend_cuda *cuda, mend_stream stream, mend_stream_info *info)
{
    const mend_cu_functions *functions = &cuda->functions;
    unsigned long long id = (uintptr_t)stream;
    mend_context current = NULL;
    mend_cu_green_context green = NULL;
    mend_cu_device device = 0;
    if (functions->cuStreamGetId != NULL) {
        MEND_TRY_CALL(functions->cuStreamGetId(stream, &id));
    }
    info->id = id;
    MEND_TRY_CALL(functions->cuStreamGetCtx(stream, &info->context));
    info->home = info->context;
    MEND_TRY_CALL(functions->cuCtxGetCurrent(&current));
    /* A stream of another context than the current one may belong to a green context. */
    if (current == info->context || functions->cuStreamGetGreenCtx == NULL) {
        return MEND_DRIVER_OK;
    }
    MEND_TRY_CALL(functions->cuStreamGetGreenCtx(stream, &green));
    if (green == NULL) {
        return MEND_DRIVER_OK;
    }
    MEND_TRY_CALL(functions->cuCtxPushCurrent(info->context));
    mend_status status = functions->cuCtxGetDevice(&device);
    functions->cuCtxPopCurrent(&current);
    info->home = NULL;
    if (status == MEND_DRIVER_OK && device >= 0 && device < MEND_CUDA_DEVICE_LIMIT) {
        mend_mutex_lock(&cuda->mutex);
        info->home = cuda->device[device].context;
        mend_mutex_unlock(&cuda->mutex);
    }
    return status;
}

/* The dependencies of a stream's next node, copied because the driver's list lives until the next
 * call for that stream. */
enum { MOST_DEPENDENCIES = 64 };
typedef struct ends {
    mend_cu_graph_node nodes[MOST_DEPENDENCIES];
    size_t count;
} ends;

/* The state of its capture. The id is 0 if the stream is not captured, or the list is too long.
 * `graph` and `of` may be NULL. */
static mend_status get_capture(const mend_cu_functions *functions, mend_stream stream,
                               mend_stream_info *info, mend_cu_graph *graph, ends *of)
{
    mend_cu_capture_status capture = 0;
    mend_cu_id id = 0;
    const mend_cu_graph_node *nodes = NULL;
    MEND_TRY_CALL(functions->cuStreamGetCaptureInfo(
        stream, &capture, &id, graph, of != NULL ? &nodes : NULL, of != NULL ? &of->count : NULL));
    const bool is_known =
        capture == MEND_CAPTURE_ACTIVE && (of == NULL || of->count <= MOST_DEPENDENCIES);
    info->capture = (mend_capture_state)capture;
    info->capture_id = is_known ? id : 0;
    for (size_t i = 0; is_known && of != NULL && i < of->count; i++) {
        of->nodes[i] = nodes[i];
    }
    return MEND_DRIVER_OK;
}

/* The legacy stream while a blocking stream captures is not captured itself, but not usable. */
static mend_status ask_capture(const mend_cu_functions *functions, mend_stream stream,
                               mend_stream_info *info)
{
    const mend_status status = get_capture(functions, stream, info, NULL, NULL);
    if (status == MEND_DRIVER_CAPTURE_IMPLICIT) {
        info->capture = MEND_CAPTURE_ACTIVE;
        return MEND_DRIVER_OK;
    }
    return status;
}

mend_status mend_cuda_stream_get_info(const mend_driver *driver, mend_stream stream,
                                      mend_stream_info *info)
{
    mend_cuda *cuda = mend_cuda_of(driver);
    const mend_cu_functions *functions = &cuda->functions;
    const bool is_special =
        stream == NULL || stream == MEND_STREAM_LEGACY || stream == MEND_STREAM_PER_THREAD;
    mend_stream_info found = {0};
    if (is_special) {
        MEND_TRY_CALL(functions->cuCtxGetCurrent(&found.context));
        if (found.context == NULL) {
            return MEND_DRIVER_INVALID_CONTEXT;
        }
        found.home = found.context;
        found.id = SPECIAL_ID;
        found.id += stream == MEND_STREAM_PER_THREAD ? mend_process_thread_number() : 0;
    }
    MEND_TRY_CALL(ask_capture(functions, stream, &found));
    if (!is_special && found.capture == MEND_CAPTURE_NONE) {
        mend_status status = ask_created(cuda, stream, &found);
        if (mend_status_is_of_any_capture(status)) { /* another thread began one meanwhile */
            found = (mend_stream_info){0};
            MEND_TRY_CALL(ask_capture(functions, stream, &found));
            status = found.capture == MEND_CAPTURE_NONE ? status : MEND_DRIVER_OK;
        }
        MEND_TRY_CALL(status);
    }
    *info = found;
    return MEND_DRIVER_OK;
}

/* ---- captures -------------------------------------------------------------------------------- */

/* A user object reports when nothing that a capture recorded can run any more: its graph owns it,
 * and so does everything instantiated from it. The destructor runs when the last owner is destroyed
 * and its launches are done (CUDA programming guide, "CUDA User Objects"). This is its argument,
 * which it frees. */
typedef struct keeper {
    mend_capture_ended ended; /* NULL: the graph did not get the object */
    void *context;
} keeper;

static void destroy(void *data)
{
    keeper *k = data;
    if (k->ended != NULL) {
        k->ended(k->context);
    }
    free(k);
}

mend_status mend_cuda_stream_get_capture(const mend_driver *driver, mend_stream stream,
                                         uint64_t *id)
{
    mend_stream_info info = {0};
    MEND_TRY_CALL(get_capture(mend_cuda_functions(driver), stream, &info, NULL, NULL));
    *id = info.capture_id;
    return MEND_DRIVER_OK;
}

/* ---- the order of two streams in one capture ------------------------------------------------- */

/* The most nodes that are followed: a question costs so many calls. */
enum { MOST_NODES = 1024, MOST_SLOTS = 2 * MOST_NODES };

/* Nodes that precede the next node of a stream, and how many of `wanted` are not among them yet. */
typedef struct ancestors {
    mend_cu_graph_node found[MOST_SLOTS];   /* a hash table. NULL: free */
    mend_cu_graph_node waiting[MOST_NODES]; /* of these, to be followed */
    size_t count;
    size_t waiting_count;
    const ends *wanted;
    size_t missing;
} ancestors;

static void add(ancestors *a, const ends *of)
{
    for (size_t i = 0; i < of->count && a->count < MOST_NODES; i++) {
        const mend_cu_graph_node node = of->nodes[i];
        uint64_t at = ((uint64_t)(uintptr_t)node * UINT64_C(0x9E3779B97F4A7C15)) >> 32;
        while (a->found[at % MOST_SLOTS] != NULL && a->found[at % MOST_SLOTS] != node) {
            at++;
        }
        if (a->found[at % MOST_SLOTS] == NULL) {
            a->found[at % MOST_SLOTS] = node;
            a->count++;
            a->waiting[a->waiting_count++] = node;
            for (size_t k = 0; k < a->wanted->count; k++) {
                a->missing -= a->wanted->nodes[k] == node;
            }
        }
    }
}

mend_status mend_cuda_stream_is_behind(const mend_driver *driver, mend_stream stream,
                                       mend_stream before, bool *is_behind)
{
    const mend_cu_functions *functions = mend_cuda_functions(driver);
    ends own;
    ends of_before;
    mend_stream_info info = {0};
    mend_stream_info info_before = {0};
    *is_behind = false;
    MEND_TRY_CALL(get_capture(functions, before, &info_before, NULL, &of_before));
    if (info_before.capture_id != 0) {
        MEND_TRY_CALL(get_capture(functions, stream, &info, NULL, &own));
    }
    if (info.capture_id == 0 || info.capture_id != info_before.capture_id) {
        return MEND_DRIVER_OK;
    }
    ancestors a = {.wanted = &of_before, .missing = of_before.count};
    add(&a, &own);
    while (a.missing > 0 && a.waiting_count > 0) {
        /* the newest node first: the last wait of a stream is near its end */
        const mend_cu_graph_node node = a.waiting[--a.waiting_count];
        own.count = MOST_DEPENDENCIES;
        MEND_TRY_CALL(functions->cuGraphNodeGetDependencies(node, own.nodes, &own.count));
        own.count = mend_min_u64(own.count, MOST_DEPENDENCIES);
        add(&a, &own);
    }
    *is_behind = a.missing == 0;
    return MEND_DRIVER_OK;
}

mend_status mend_cuda_capture_keep(const mend_driver *driver, mend_stream stream,
                                   mend_capture_ended ended, void *context)
{
    assert(ended != NULL);
    const mend_cu_functions *functions = mend_cuda_functions(driver);
    mend_cu_graph graph = NULL;
    mend_cu_user_object object = NULL;
    mend_stream_info info = {0};
    MEND_TRY_CALL(get_capture(functions, stream, &info, &graph, NULL));
    keeper *k = info.capture_id != 0 ? malloc(sizeof(*k)) : NULL;
    if (k == NULL) {
        return info.capture_id != 0 ? MEND_DRIVER_OUT_OF_MEMORY : MEND_DRIVER_INVALID_VALUE;
    }
    *k = (keeper){ended, context};
    mend_status status =
        functions->cuUserObjectCreate(&object, k, destroy, 1, MEND_CU_USER_OBJECT_NO_SYNC);
    if (status != MEND_DRIVER_OK) {
        free(k);
        return status;
    }
    status = functions->cuGraphRetainUserObject(graph, object, 1, MEND_CU_USER_OBJECT_MOVE);
    if (status != MEND_DRIVER_OK) {
        k->ended = NULL;
        functions->cuUserObjectRelease(object, 1);
    }
    return status;
}
