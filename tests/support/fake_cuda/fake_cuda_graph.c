/* The entry points of capture and graphs, which programs call and Mend does not. */
#include "tests/support/fake_cuda/entries.h"

/* A graph and its instance are one object, which goes with the graph. */
typedef mend_sim_graph *fake_graph;

MEND_API mend_status fake_begin_capture(mend_stream stream,
                                        int mode) __asm__("cuStreamBeginCapture_v2");
MEND_API mend_status fake_end_capture(mend_stream stream,
                                      fake_graph *graph) __asm__("cuStreamEndCapture");
MEND_API mend_status
fake_instantiate(fake_graph *executable, fake_graph graph,
                 unsigned long long flags) __asm__("cuGraphInstantiateWithFlags");
MEND_API mend_status fake_graph_launch(fake_graph executable,
                                       mend_stream stream) __asm__("cuGraphLaunch");
MEND_API mend_status fake_executable_destroy(fake_graph executable) __asm__("cuGraphExecDestroy");
MEND_API mend_status fake_graph_destroy(fake_graph graph) __asm__("cuGraphDestroy");

mend_status fake_begin_capture(mend_stream stream, int mode)
{
    mend_result result =
        mend_sim_begin_capture(fake_cuda_get()->sim, stream, (mend_sim_capture_mode)mode);
    return result == MEND_OK ? MEND_DRIVER_OK : MEND_DRIVER_ILLEGAL_STATE;
}

mend_status fake_end_capture(mend_stream stream, fake_graph *graph)
{
    *graph = NULL;
    mend_result result = mend_sim_end_capture(fake_cuda_get()->sim, stream, graph);
    if (result == MEND_ERROR_DRIVER) {
        return MEND_DRIVER_CAPTURE_INVALIDATED;
    }
    return result == MEND_OK ? MEND_DRIVER_OK : MEND_DRIVER_ILLEGAL_STATE;
}

mend_status fake_instantiate(fake_graph *executable, fake_graph graph, unsigned long long flags)
{
    *executable = graph;
    return flags == 0 ? MEND_DRIVER_OK : MEND_DRIVER_INVALID_VALUE;
}

mend_status fake_graph_launch(fake_graph executable, mend_stream stream)
{
    mend_result result = mend_sim_graph_launch(fake_cuda_get()->sim, executable, stream, 0);
    return result == MEND_OK ? MEND_DRIVER_OK : MEND_DRIVER_INVALID_VALUE;
}

mend_status fake_executable_destroy(fake_graph executable)
{
    return executable != NULL ? MEND_DRIVER_OK : MEND_DRIVER_INVALID_VALUE;
}

mend_status fake_graph_destroy(fake_graph graph)
{
    mend_sim_graph_destroy(fake_cuda_get()->sim, graph);
    return MEND_DRIVER_OK;
}
