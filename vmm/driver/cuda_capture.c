/*
 * Which capture records the work queued on a stream, and when none of the recorded work can run any
 * more. A user object reports the latter: the graph under capture owns it, and so does everything
 * instantiated from that graph. Its destructor runs when the last owner is destroyed and its
 * launches are done (CUDA programming guide, "CUDA User Objects").
 */
#include <stdlib.h>
#include <string.h>

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

/* What a stream's next node comes after, copied, because the driver's list lives until the next
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

/* Nodes that come before what a stream records next, as far as they were found. */
typedef struct ancestors {
    mend_cu_graph_node slots[MOST_SLOTS]; /* a hash table; NULL: free */
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

/* Follows the newest node first: what a stream waited for last is near its end. */
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
