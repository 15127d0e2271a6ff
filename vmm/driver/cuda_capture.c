/*
 * Which capture records the work queued on a stream, and when none of the recorded work can run any
 * more. A user object reports the latter: the graph under capture owns it, and so does everything
 * instantiated from that graph. Its destructor runs when the last owner is destroyed and its
 * launches are done (CUDA programming guide, "CUDA User Objects").
 */
#include <assert.h>
#include <stdlib.h>

#include "driver/cuda_state.h"

/* What the destructor needs; the destructor frees it in every case. */
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

static mend_status get_capture(const mend_cu_functions *functions, mend_stream stream, uint64_t *id,
                               mend_cu_graph *graph)
{
    mend_cu_capture_status capture = 0;
    mend_cu_id found = 0;
    mend_status status =
        functions->cuStreamGetCaptureInfo(stream, &capture, &found, graph, NULL, NULL);
    *id = status == MEND_DRIVER_OK && capture == MEND_CAPTURE_ACTIVE ? found : 0;
    return status;
}

mend_status mend_cuda_stream_get_capture(const mend_driver *driver, mend_stream stream,
                                         uint64_t *id)
{
    uint64_t found = 0;
    mend_status status = get_capture(mend_cuda_functions(driver), stream, &found, NULL);
    if (status == MEND_DRIVER_OK) {
        *id = found;
    }
    return status;
}

mend_status mend_cuda_capture_keep(const mend_driver *driver, mend_stream stream,
                                   mend_capture_ended ended, void *context)
{
    assert(ended != NULL);
    const mend_cu_functions *functions = mend_cuda_functions(driver);
    mend_cu_graph graph = NULL;
    mend_cu_user_object object = NULL;
    uint64_t id = 0;
    mend_status status = get_capture(functions, stream, &id, &graph);
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
