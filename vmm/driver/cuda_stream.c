/*
 * The state of a stream in the driver: its capture, its identity and its context.
 *
 * The capture status may be asked for at any time. The identity and the context may not be asked
 * for during a capture: cuStreamGetId and cuStreamGetCtx then fail and invalidate the capture. So
 * the capture status comes first, the rest only if there is no capture. The special streams need no
 * question: there is one legacy stream for each context, and one per-thread stream for each context
 * and thread.
 */
#include <stdlib.h>
#include <string.h>

#include "driver/cuda_state.h"

/* Marks the identities that Mend makes: the driver's count from 1. */
#define SPECIAL_ID (UINT64_C(1) << 63)

/*
 * The identity, the context, and of a green context the primary one of its device, if Mend has
 * opened that.
 *
 * Drivers before 12.0 have no identity that outlives the handle, so the handle itself is used.
 * Users must call mend_unregister_stream before they destroy a stream, which ends its meaning in
 * time.
 */
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

static mend_status ask_capture(const mend_cu_functions *functions, mend_stream stream,
                               mend_stream_info *info)
{
    mend_cu_capture_status capture = 0;
    mend_cu_id capture_id = 0;
    mend_status status =
        functions->cuStreamGetCaptureInfo(stream, &capture, &capture_id, NULL, NULL, NULL);
    if (status == MEND_DRIVER_CAPTURE_IMPLICIT) {
        /* The legacy stream while a blocking stream captures: not captured itself, but not
         * usable. */
        info->capture = MEND_CAPTURE_ACTIVE;
        return MEND_DRIVER_OK;
    }
    if (status == MEND_DRIVER_OK) {
        info->capture = (mend_capture_state)capture;
        info->capture_id = info->capture == MEND_CAPTURE_ACTIVE ? capture_id : 0;
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

/*
 * Which capture records the work queued on a stream, and when none of the recorded work can run any
 * more. A user object reports the latter: the graph under capture owns it, and so does everything
 * instantiated from that graph. Its destructor runs when the last owner is destroyed and its
 * launches are done (CUDA programming guide, "CUDA User Objects").
 */

/* The argument of the destructor, which always frees it. */
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

/* The dependencies of a stream's next node, copied because the driver's list lives until the next
 * call for that stream. */
enum { MOST_DEPENDENCIES = 64 };
typedef struct ends {
    mend_cu_graph_node nodes[MOST_DEPENDENCIES];
    size_t count;
} ends;

/* *id is 0 if the stream is not captured, or the list is too long. `graph` and `of` may be NULL. */
static mend_status get_capture(const mend_driver *driver, mend_stream stream, uint64_t *id,
                               mend_cu_graph *graph, ends *of)
{
    mend_cu_capture_status capture = 0;
    mend_cu_id found = 0;
    const mend_cu_graph_node *nodes = NULL;
    size_t *count = of != NULL ? &of->count : NULL;
    mend_status status = mend_cuda_functions(driver)->cuStreamGetCaptureInfo(
        stream, &capture, &found, graph, of != NULL ? &nodes : NULL, count);
    bool is_known = status == MEND_DRIVER_OK && capture == MEND_CAPTURE_ACTIVE &&
                    (of == NULL || of->count <= MOST_DEPENDENCIES);
    *id = is_known ? found : 0;
    for (size_t i = 0; is_known && of != NULL && i < of->count; i++) {
        of->nodes[i] = nodes[i];
    }
    return status;
}

mend_status mend_cuda_stream_get_capture(const mend_driver *driver, mend_stream stream,
                                         uint64_t *id)
{
    uint64_t found = 0;
    MEND_TRY_CALL(get_capture(driver, stream, &found, NULL, NULL));
    *id = found;
    return MEND_DRIVER_OK;
}

/* ---- the order of two streams in one capture ------------------------------------------------- */

/* The most nodes that are followed: a question costs so many calls. */
enum { MOST_NODES = 1024, MOST_SLOTS = 2 * MOST_NODES };

/* Nodes found so far that precede the next node of a stream. */
typedef struct ancestors {
    mend_cu_graph_node slots[MOST_SLOTS]; /* a hash table. NULL: free */
    mend_cu_graph_node waiting[MOST_NODES];
    size_t waiting_count;
    size_t count;
} ancestors;

static mend_cu_graph_node *slot_of(ancestors *found, mend_cu_graph_node node)
{
    size_t at = (size_t)(((uint64_t)(uintptr_t)node * UINT64_C(0x9E3779B97F4A7C15)) >> 32);
    while (found->slots[at % MOST_SLOTS] != NULL && found->slots[at % MOST_SLOTS] != node) {
        at++;
    }
    return &found->slots[at % MOST_SLOTS];
}

static void add(ancestors *found, const ends *of)
{
    for (size_t i = 0; i < of->count && found->count < MOST_NODES; i++) {
        mend_cu_graph_node *slot = slot_of(found, of->nodes[i]);
        if (*slot == NULL) {
            *slot = of->nodes[i];
            found->waiting[found->waiting_count++] = of->nodes[i];
            found->count++;
        }
    }
}

static bool has_all(ancestors *found, const ends *of)
{
    for (size_t i = 0; i < of->count; i++) {
        if (*slot_of(found, of->nodes[i]) == NULL) {
            return false;
        }
    }
    return true;
}

mend_status mend_cuda_stream_is_behind(const mend_driver *driver, mend_stream stream,
                                       mend_stream before, bool *is_behind)
{
    ends own;
    ends of_before;
    uint64_t id = 0;
    uint64_t id_before = 0;
    ancestors found;
    mend_status status = get_capture(driver, before, &id_before, NULL, &of_before);
    if (status == MEND_DRIVER_OK && id_before != 0) {
        status = get_capture(driver, stream, &id, NULL, &own);
    }
    *is_behind = false;
    if (status != MEND_DRIVER_OK || id == 0 || id != id_before) {
        return status;
    }
    memset(&found, 0, sizeof(found));
    add(&found, &own);
    *is_behind = has_all(&found, &of_before);
    while (!*is_behind && found.waiting_count > 0) {
        /* the newest node first: the last wait of a stream is near its end */
        const mend_cu_graph_node node = found.waiting[--found.waiting_count];
        own.count = MOST_DEPENDENCIES;
        MEND_TRY_CALL(
            mend_cuda_functions(driver)->cuGraphNodeGetDependencies(node, own.nodes, &own.count));
        own.count = mend_min_u64(own.count, MOST_DEPENDENCIES);
        add(&found, &own);
        *is_behind = has_all(&found, &of_before);
    }
    return MEND_DRIVER_OK;
}

mend_status mend_cuda_capture_keep(const mend_driver *driver, mend_stream stream,
                                   mend_capture_ended ended, void *context)
{
    assert(ended != NULL);
    const mend_cu_functions *functions = mend_cuda_functions(driver);
    mend_cu_graph graph = NULL;
    mend_cu_user_object object = NULL;
    uint64_t id = 0;
    mend_status status = get_capture(driver, stream, &id, &graph, NULL);
    if (status != MEND_DRIVER_OK || id == 0) {
        return status != MEND_DRIVER_OK ? status : MEND_DRIVER_INVALID_VALUE;
    }
    keeper *k = malloc(sizeof(*k));
    if (k == NULL) {
        return MEND_DRIVER_OUT_OF_MEMORY;
    }
    *k = (keeper){ended, context};
    status = functions->cuUserObjectCreate(&object, k, destroy, 1, MEND_CU_USER_OBJECT_NO_SYNC);
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
