/* Captures: begun, ended, asked about. The simulated device records the work and its rules. The
 * effects are recorded beside it. */
#include <pthread.h>

#include "simulate/entry.h"
#include "simulate/errors.h"
#include "simulate/graph.h"

/* ---- begin and end --------------------------------------------------------------------------- */

static int begin(mend_stream stream, int mode)
{
    mend_stream_info info = {0};
    if (mode < MEND_SIM_CAPTURE_GLOBAL || mode > MEND_SIM_CAPTURE_RELAXED) {
        return CUDA_INVALID_VALUE;
    }
    if (stream == NULL || stream == MEND_STREAM_LEGACY) {
        return CUDA_CAPTURE_UNSUPPORTED;
    }
    int error = SIMULATE_DRIVER(stream_get_info, stream, &info);
    if (error != CUDA_SUCCESS || info.capture != MEND_CAPTURE_NONE) {
        return error != CUDA_SUCCESS ? error : CUDA_ILLEGAL_STATE;
    }
    simulate_graph *graph = simulate_graph_add(NULL);
    if (graph == NULL ||
        mend_sim_begin_capture(simulate_here.sim, stream, (mend_sim_capture_mode)mode) != MEND_OK) {
        if (graph != NULL && simulate_graph_take_out(graph, false)) {
            simulate_graph_drop(graph);
        }
        return CUDA_OUT_OF_MEMORY;
    }
    SIMULATE_DRIVER(stream_get_info, stream, &info);
    graph->origin = stream;
    graph->thread = pthread_self();
    graph->mode = mode;
    graph->capture_id = info.capture_id;
    return CUDA_SUCCESS;
}

SIMULATE_EXPORT int cudaStreamBeginCapture(mend_stream stream, int mode)
{
    int error = simulate_enter();
    return simulate_answer(error == CUDA_SUCCESS ? begin(stream, mode) : error);
}

static int end(mend_stream stream, simulate_graph **ended)
{
    mend_stream_info info = {0};
    int error = SIMULATE_DRIVER(stream_get_info, stream, &info);
    if (error != CUDA_SUCCESS || info.capture == MEND_CAPTURE_NONE) {
        return error != CUDA_SUCCESS ? error : CUDA_ILLEGAL_STATE;
    }
    simulate_graph *graph = simulate_graph_find_origin(stream);
    if (graph == NULL) {
        return CUDA_CAPTURE_UNMATCHED;
    }
    if (graph->mode != MEND_SIM_CAPTURE_RELAXED && !pthread_equal(graph->thread, pthread_self())) {
        return CUDA_CAPTURE_WRONG_THREAD;
    }
    bool is_spoilt = info.capture == MEND_CAPTURE_INVALIDATED;
    mend_result result = mend_sim_end_capture(simulate_here.sim, stream, &graph->recorded);
    graph->capture_id = 0;
    graph->origin = NULL;
    if (result == MEND_OK) {
        *ended = graph;
        return CUDA_SUCCESS;
    }
    if (simulate_graph_take_out(graph, false)) {
        simulate_graph_drop(graph);
    }
    return is_spoilt ? CUDA_CAPTURE_INVALIDATED : CUDA_CAPTURE_UNJOINED;
}

SIMULATE_EXPORT int cudaStreamEndCapture(mend_stream stream, simulate_graph **graph)
{
    simulate_graph *ended = NULL;
    int error = simulate_enter_if(graph != NULL);
    if (error == CUDA_SUCCESS) {
        error = end(stream, &ended);
        *graph = ended;
    }
    return simulate_answer(error);
}

SIMULATE_EXPORT int cudaThreadExchangeStreamCaptureMode(int *mode)
{
    int error = simulate_enter_if(mode != NULL);
    if (error == CUDA_SUCCESS) {
        mend_capture_mode exchanged = (mend_capture_mode)*mode;
        error = SIMULATE_DRIVER(exchange_capture_mode, &exchanged);
        *mode = error == CUDA_SUCCESS ? (int)exchanged : *mode;
    }
    return simulate_answer(error);
}

/* ---- questions ------------------------------------------------------------------------------- */

/* The parts that the program asks for, without the dependencies of a stream's next work. */
static int ask(mend_stream stream, int *status, unsigned long long *id, simulate_graph **graph,
               void ***dependencies, void **edges, size_t *count)
{
    mend_stream_info info = {0};
    int error = simulate_enter_if(status != NULL);
    if (error == CUDA_SUCCESS) {
        error = SIMULATE_DRIVER(stream_get_info, stream, &info);
    }
    if (error == CUDA_SUCCESS && info.capture == MEND_CAPTURE_ACTIVE && info.capture_id == 0) {
        error = 906; /* the legacy stream, while a blocking one is captured */
    }
    if (error != CUDA_SUCCESS) {
        return simulate_answer(error);
    }
    *status = (int)info.capture;
    if (id != NULL) {
        *id = info.capture_id;
    }
    if (graph != NULL) {
        *graph = simulate_graph_of(stream);
    }
    if (dependencies != NULL) {
        *dependencies = NULL;
    }
    if (edges != NULL) {
        *edges = NULL;
    }
    if (count != NULL) {
        *count = 0;
    }
    return CUDA_SUCCESS;
}

SIMULATE_EXPORT int cudaStreamIsCapturing(mend_stream stream, int *status)
{
    return ask(stream, status, NULL, NULL, NULL, NULL, NULL);
}

/* As programs of CUDA 12 call it. */
SIMULATE_EXPORT int cudaStreamGetCaptureInfo_v2(mend_stream stream, int *status,
                                                unsigned long long *id, simulate_graph **graph,
                                                void ***dependencies, size_t *count)
{
    return ask(stream, status, id, graph, dependencies, NULL, count);
}

SIMULATE_EXPORT int cudaStreamGetCaptureInfo_v3(mend_stream stream, int *status,
                                                unsigned long long *id, simulate_graph **graph,
                                                void ***dependencies, void **edges, size_t *count)
{
    return ask(stream, status, id, graph, dependencies, edges, count);
}

/* As programs of CUDA 13 call it. */
SIMULATE_EXPORT int cudaStreamGetCaptureInfo(mend_stream stream, int *status,
                                             unsigned long long *id, simulate_graph **graph,
                                             void ***dependencies, void **edges, size_t *count)
{
    return ask(stream, status, id, graph, dependencies, edges, count);
}
