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

#include "base/process.h"
#include "driver/cuda_state.h"

/* Marks the identities that Mend makes: the driver's count from 1. */
#define SPECIAL_ID (UINT64_C(1) << 63)

static bool is_special(mend_stream stream)
{
    return stream == NULL || stream == MEND_STREAM_LEGACY || stream == MEND_STREAM_PER_THREAD;
}

/* For a green context: the primary context of its device. NULL if Mend has not opened the
 * device. */
static mend_status ask_primary(mend_cuda *cuda, mend_context green, mend_context *primary)
{
    const mend_cu_functions *functions = &cuda->functions;
    mend_cu_device device = 0;
    mend_context popped = NULL;
    MEND_TRY_CALL(functions->cuCtxPushCurrent(green));
    mend_status status = functions->cuCtxGetDevice(&device);
    functions->cuCtxPopCurrent(&popped);
    *primary = NULL;
    if (status == MEND_DRIVER_OK && device >= 0 && device < MEND_CUDA_DEVICE_LIMIT) {
        mend_mutex_lock(&cuda->mutex);
        *primary = cuda->device[device].context;
        mend_mutex_unlock(&cuda->mutex);
    }
    return status;
}

/* A stream of another context than the current one may belong to a green context. */
static mend_status ask_home(mend_cuda *cuda, mend_stream stream, mend_stream_info *info)
{
    const mend_cu_functions *functions = &cuda->functions;
    mend_context current = NULL;
    mend_cu_green_context green = NULL;
    info->home = info->context;
    mend_status status = functions->cuCtxGetCurrent(&current);
    if (status != MEND_DRIVER_OK || current == info->context ||
        functions->cuStreamGetGreenCtx == NULL) {
        return status;
    }
    status = functions->cuStreamGetGreenCtx(stream, &green);
    return status == MEND_DRIVER_OK && green != NULL ? ask_primary(cuda, info->context, &info->home)
                                                     : status;
}

/*
 * Drivers before 12.0 have no identity that outlives the handle, so the handle itself is used.
 * Users must call mend_unregister_stream before they destroy a stream, which ends its meaning in
 * time.
 */
static mend_status ask_created(mend_cuda *cuda, mend_stream stream, mend_stream_info *info)
{
    const mend_cu_functions *functions = &cuda->functions;
    unsigned long long id = (uintptr_t)stream;
    if (functions->cuStreamGetId != NULL) {
        MEND_TRY_CALL(functions->cuStreamGetId(stream, &id));
    }
    info->id = id;
    MEND_TRY_CALL(functions->cuStreamGetCtx(stream, &info->context));
    return ask_home(cuda, stream, info);
}

static mend_status ask_special(const mend_cu_functions *functions, mend_stream stream,
                               mend_stream_info *info)
{
    mend_status status = functions->cuCtxGetCurrent(&info->context);
    if (status == MEND_DRIVER_OK && info->context == NULL) {
        return MEND_DRIVER_INVALID_CONTEXT;
    }
    info->home = info->context;
    info->id = SPECIAL_ID;
    if (stream == MEND_STREAM_PER_THREAD) {
        info->id += mend_process_thread_number();
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

/* Another thread may begin a capture between the two questions. */
static mend_status ask_whole(mend_cuda *cuda, mend_stream stream, mend_stream_info *info)
{
    mend_status status = ask_capture(&cuda->functions, stream, info);
    if (status != MEND_DRIVER_OK || info->capture != MEND_CAPTURE_NONE) {
        return status;
    }
    status = ask_created(cuda, stream, info);
    if (!mend_status_is_of_any_capture(status)) {
        return status;
    }
    *info = (mend_stream_info){0};
    mend_status again = ask_capture(&cuda->functions, stream, info);
    return again == MEND_DRIVER_OK && info->capture == MEND_CAPTURE_NONE ? status : again;
}

mend_status mend_cuda_stream_get_info(const mend_driver *driver, mend_stream stream,
                                      mend_stream_info *info)
{
    mend_cuda *cuda = mend_cuda_of(driver);
    mend_stream_info found = {0};
    if (is_special(stream)) {
        MEND_TRY_CALL(ask_special(&cuda->functions, stream, &found));
        MEND_TRY_CALL(ask_capture(&cuda->functions, stream, &found));
    } else {
        MEND_TRY_CALL(ask_whole(cuda, stream, &found));
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

/* Follows the newest node first: the last wait of a stream is near its end. */
static mend_status follow_back(const mend_cu_functions *functions, ancestors *found,
                               const ends *wanted, bool *are_found)
{
    *are_found = has_all(found, wanted);
    while (!*are_found && found->waiting_count > 0) {
        ends before = {.count = MOST_DEPENDENCIES};
        mend_cu_graph_node node = found->waiting[--found->waiting_count];
        MEND_TRY_CALL(functions->cuGraphNodeGetDependencies(node, before.nodes, &before.count));
        before.count = mend_min_u64(before.count, MOST_DEPENDENCIES);
        add(found, &before);
        *are_found = has_all(found, wanted);
    }
    return MEND_DRIVER_OK;
}

mend_status mend_cuda_stream_is_behind(const mend_driver *driver, mend_stream stream,
                                       mend_stream before, bool *is_behind)
{
    const mend_cu_functions *functions = mend_cuda_functions(driver);
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
    return follow_back(functions, &found, &of_before, is_behind);
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
