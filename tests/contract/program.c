/* The program around Mend, through the simulated device or the driver's own entry points. */
#include "tests/contract/program.h"
#include "tests/support/options.h"

#include <dlfcn.h>
#include <string.h>

/* X(member, symbol, parameters): driver functions for a GPU beside Mend's. */
#define ENTRY_POINTS(X)                                                                            \
    X(stream_create, "cuStreamCreate", (mend_stream * stream, unsigned int flags))                 \
    X(begin_capture, "cuStreamBeginCapture_v2", (mend_stream stream, int mode))                    \
    X(end_capture, "cuStreamEndCapture", (mend_stream stream, void **graph))                       \
    X(instantiate, "cuGraphInstantiateWithFlags",                                                  \
      (void **executable, void *graph, unsigned long long flags))                                  \
    X(graph_launch, "cuGraphLaunch", (void *executable, mend_stream stream))                       \
    X(executable_destroy, "cuGraphExecDestroy", (void *executable))                                \
    X(graph_destroy, "cuGraphDestroy", (void *graph))

typedef struct entry_points {
#define X(member, symbol, parameters) mend_status(*member) parameters;
    ENTRY_POINTS(X)
#undef X
} entry_points;

/* All of them, or a failed test and false. */
static bool find_entry_points(entry_points *entries)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    bool found = library != NULL;
    void *function = NULL;
#define X(member, symbol, parameters)                                                              \
    function = found ? dlsym(library, symbol) : NULL;                                              \
    found = function != NULL;                                                                      \
    memcpy(&entries->member, &function, sizeof(function));
    ENTRY_POINTS(X)
#undef X
    EXPECT_TRUE(found);
    return found;
}

mend_stream program_make_blocking_stream(contract *c)
{
    mend_stream stream = NULL;
    entry_points driver;
    if (c->sim != NULL) {
        EXPECT_RESULT(MEND_OK,
                      mend_sim_stream_create(
                          c->sim, KIT_OPTIONS(mend_sim_stream_options, .is_blocking = 1), &stream));
    } else if (find_entry_points(&driver)) {
        EXPECT_OK(driver.stream_create(&stream, 0));
    }
    return stream;
}

void program_begin_capture(contract *c, mend_stream stream, mend_capture_mode mode)
{
    entry_points driver;
    if (c->sim != NULL) {
        EXPECT_RESULT(MEND_OK, mend_sim_begin_capture(c->sim, stream, (mend_sim_capture_mode)mode));
    } else if (find_entry_points(&driver)) {
        EXPECT_OK(driver.begin_capture(stream, (int)mode));
    }
}

program_graph program_end_capture(contract *c, mend_stream stream)
{
    program_graph ended = {NULL, NULL};
    entry_points driver;
    if (c->sim != NULL) {
        mend_sim_graph *graph = NULL;
        EXPECT_RESULT(MEND_OK, mend_sim_end_capture(c->sim, stream, &graph));
        ended.graph = graph;
    } else if (find_entry_points(&driver)) {
        EXPECT_OK(driver.end_capture(stream, &ended.graph));
        EXPECT_OK(driver.instantiate(&ended.executable, ended.graph, 0));
    }
    return ended;
}

void program_end_spoilt_capture(contract *c, mend_stream stream)
{
    entry_points driver;
    if (c->sim != NULL) {
        EXPECT_RESULT(MEND_ERROR_DRIVER, mend_sim_end_capture(c->sim, stream, NULL));
    } else if (find_entry_points(&driver)) {
        void *graph = NULL;
        EXPECT_TRUE(driver.end_capture(stream, &graph) != MEND_DRIVER_OK);
        EXPECT_TRUE(graph == NULL);
    }
}

void program_launch_graph(contract *c, const program_graph *graph, mend_stream stream)
{
    entry_points driver;
    if (c->sim != NULL) {
        EXPECT_RESULT(MEND_OK, mend_sim_graph_launch(c->sim, graph->graph, stream, 0));
    } else if (find_entry_points(&driver)) {
        EXPECT_OK(driver.graph_launch(graph->executable, stream));
    }
}

void program_destroy_graph(contract *c, program_graph *graph)
{
    entry_points driver;
    if (c->sim != NULL) {
        mend_sim_graph_destroy(c->sim, graph->graph);
    } else if (find_entry_points(&driver)) {
        EXPECT_OK(driver.executable_destroy(graph->executable));
        EXPECT_OK(driver.graph_destroy(graph->graph));
    }
}
