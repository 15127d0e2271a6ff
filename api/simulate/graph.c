#include "simulate/graph.h"

#include <stdio.h>
#include <stdlib.h>

#include "simulate/entry.h"
#include "simulate/errors.h"

/* Something of the program's that graphs keep, and that is destroyed with the last of them. */
typedef struct user_object {
    void *pointer;
    void (*destroy)(void *);
    uint64_t references;
} user_object;

struct simulate_kept_object {
    simulate_kept_object *next;
    user_object *object;
    unsigned count;
};

static simulate_graph *graphs;
static pthread_mutex_t graphs_mutex = PTHREAD_MUTEX_INITIALIZER;

/* ---- the list of graphs ---------------------------------------------------------------------- */

simulate_graph *simulate_graph_add(simulate_graph *original)
{
    simulate_graph *graph = calloc(1, sizeof(*graph));
    if (graph == NULL) {
        return NULL;
    }
    graph->references = 1;
    graph->original = original;
    pthread_mutex_lock(&graphs_mutex);
    if (original != NULL) {
        original->references++;
    }
    graph->next = graphs;
    graphs = graph;
    pthread_mutex_unlock(&graphs_mutex);
    return graph;
}

bool simulate_graph_take_out(simulate_graph *graph, bool is_executable)
{
    bool is_there = false;
    pthread_mutex_lock(&graphs_mutex);
    for (simulate_graph **at = &graphs; *at != NULL; at = &(*at)->next) {
        if (*at == graph && (graph->original != NULL) == is_executable) {
            *at = graph->next;
            is_there = true;
            break;
        }
    }
    pthread_mutex_unlock(&graphs_mutex);
    return is_there;
}

static bool is_known(const simulate_graph *graph, bool is_executable)
{
    bool found = false;
    pthread_mutex_lock(&graphs_mutex);
    for (const simulate_graph *at = graphs; at != NULL && !found; at = at->next) {
        found = at == graph && (at->original != NULL) == is_executable;
    }
    pthread_mutex_unlock(&graphs_mutex);
    return found;
}

simulate_graph *simulate_graph_find_origin(mend_stream stream)
{
    simulate_graph *graph = NULL;
    pthread_mutex_lock(&graphs_mutex);
    for (graph = graphs; graph != NULL; graph = graph->next) {
        if (graph->capture_id != 0 && graph->origin == stream) {
            break;
        }
    }
    pthread_mutex_unlock(&graphs_mutex);
    return graph;
}

static void give_objects_back(simulate_graph *graph)
{
    while (graph->kept != NULL) {
        simulate_kept_object *kept = graph->kept;
        graph->kept = kept->next;
        if (__atomic_sub_fetch(&kept->object->references, kept->count, __ATOMIC_ACQ_REL) == 0) {
            kept->object->destroy(kept->object->pointer);
            free(kept->object);
        }
        free(kept);
    }
}

void simulate_graph_drop(simulate_graph *graph)
{
    pthread_mutex_lock(&graphs_mutex);
    bool is_last = --graph->references == 0;
    pthread_mutex_unlock(&graphs_mutex);
    if (!is_last) {
        return;
    }
    if (graph->original != NULL) {
        simulate_graph_drop(graph->original);
    }
    mend_sim_graph_destroy(simulate_here.sim, graph->recorded);
    give_objects_back(graph);
    free(graph->effects);
    free(graph);
}

/* ---- what a capture records ------------------------------------------------------------------ */

simulate_graph *simulate_graph_of(mend_stream stream)
{
    uint64_t id = 0;
    if (stream == NULL || stream == MEND_STREAM_LEGACY ||
        SIMULATE_DRIVER(stream_get_capture, stream, &id) != MEND_DRIVER_OK || id == 0) {
        return NULL;
    }
    simulate_graph *graph = NULL;
    pthread_mutex_lock(&graphs_mutex);
    for (graph = graphs; graph != NULL && graph->capture_id != id; graph = graph->next) {
    }
    pthread_mutex_unlock(&graphs_mutex);
    return graph;
}

int simulate_graph_record(simulate_graph *graph, const simulate_effect *effect)
{
    int error = CUDA_SUCCESS;
    pthread_mutex_lock(&graphs_mutex);
    if (graph->effect_count == graph->effect_room) {
        size_t room = graph->effect_room > 0 ? 2 * graph->effect_room : 64;
        simulate_effect *effects = realloc(graph->effects, room * sizeof(*effects));
        if (effects != NULL) {
            graph->effects = effects;
            graph->effect_room = room;
        }
    }
    if (graph->effect_count < graph->effect_room) {
        graph->effects[graph->effect_count++] = *effect;
    } else {
        error = CUDA_OUT_OF_MEMORY;
    }
    pthread_mutex_unlock(&graphs_mutex);
    return error;
}

void simulate_graph_count(simulate_graph *graph)
{
    __atomic_add_fetch(&graph->node_count, 1, __ATOMIC_RELAXED);
}

/* ---- graphs ---------------------------------------------------------------------------------- */

SIMULATE_EXPORT int cudaGraphCreate(simulate_graph **graph, unsigned flags)
{
    int error = simulate_enter_if(graph != NULL && flags == 0);
    if (error == CUDA_SUCCESS) {
        *graph = simulate_graph_add(NULL);
        error = *graph != NULL ? CUDA_SUCCESS : CUDA_OUT_OF_MEMORY;
    }
    return simulate_answer(error);
}

SIMULATE_EXPORT int cudaGraphInstantiate(simulate_graph **executable, simulate_graph *graph,
                                         unsigned long long flags)
{
    (void)flags; /* the owner of allocations in the graph: there are none */
    if (executable == NULL || !is_known(graph, false) || graph->capture_id != 0) {
        return simulate_answer(CUDA_INVALID_VALUE);
    }
    *executable = simulate_graph_add(graph);
    return simulate_answer(*executable != NULL ? CUDA_SUCCESS : CUDA_OUT_OF_MEMORY);
}

SIMULATE_EXPORT int cudaGraphInstantiateWithFlags(simulate_graph **executable,
                                                  simulate_graph *graph, unsigned long long flags)
{
    return cudaGraphInstantiate(executable, graph, flags);
}

SIMULATE_EXPORT int cudaGraphUpload(simulate_graph *executable, mend_stream stream)
{
    (void)stream;
    return simulate_answer(is_known(executable, true) ? CUDA_SUCCESS : CUDA_INVALID_VALUE);
}

static int launch(const simulate_graph *graph, mend_stream stream)
{
    if (simulate_graph_of(stream) != NULL) {
        return CUDA_NOT_SUPPORTED; /* a graph within a graph */
    }
    int error = CUDA_SUCCESS;
    if (graph->recorded != NULL) {
        error =
            simulate_error_of(mend_sim_graph_launch(simulate_here.sim, graph->recorded, stream, 0));
    }
    for (size_t i = 0; i < graph->effect_count && error == CUDA_SUCCESS; i++) {
        error = simulate_effect_run(&graph->effects[i]);
    }
    return error;
}

SIMULATE_EXPORT int cudaGraphLaunch(simulate_graph *executable, mend_stream stream)
{
    int error = simulate_enter();
    if (error == CUDA_SUCCESS && !is_known(executable, true)) {
        error = CUDA_INVALID_VALUE;
    }
    return simulate_answer(error != CUDA_SUCCESS ? error : launch(executable->original, stream));
}

/* The nodes cannot be looked into. Each is a different pointer. */
SIMULATE_EXPORT int cudaGraphGetNodes(simulate_graph *graph, void **nodes, size_t *count)
{
    if (count == NULL || !is_known(graph, false)) {
        return simulate_answer(CUDA_INVALID_VALUE);
    }
    if (nodes == NULL) {
        *count = graph->node_count;
        return CUDA_SUCCESS;
    }
    for (size_t i = 0; i < *count; i++) {
        nodes[i] = i < graph->node_count ? (char *)graph + i : NULL;
    }
    *count = *count < graph->node_count ? *count : graph->node_count;
    return CUDA_SUCCESS;
}

SIMULATE_EXPORT int cudaGraphDebugDotPrint(simulate_graph *graph, const char *path, unsigned flags)
{
    (void)flags;
    if (path == NULL || !is_known(graph, false)) {
        return simulate_answer(CUDA_INVALID_VALUE);
    }
    FILE *file = fopen(path, "w");
    if (file == NULL) {
        return simulate_answer(CUDA_INVALID_VALUE);
    }
    fprintf(file, "digraph dot {\n/* %zu pieces of work, as Mend's simulation records them */\n}\n",
            graph->node_count);
    return simulate_answer(fclose(file) == 0 ? CUDA_SUCCESS : CUDA_INVALID_VALUE);
}

static int destroy(simulate_graph *graph, bool is_executable)
{
    int error = simulate_enter();
    if (error == CUDA_SUCCESS && !simulate_graph_take_out(graph, is_executable)) {
        error = CUDA_INVALID_VALUE;
    }
    if (error == CUDA_SUCCESS) {
        simulate_graph_drop(graph);
    }
    return simulate_answer(error);
}

SIMULATE_EXPORT int cudaGraphDestroy(simulate_graph *graph)
{
    return destroy(graph, false);
}

SIMULATE_EXPORT int cudaGraphExecDestroy(simulate_graph *executable)
{
    return destroy(executable, true);
}

/* ---- user objects ---------------------------------------------------------------------------- */

static void release_object(user_object *object, unsigned count)
{
    if (__atomic_sub_fetch(&object->references, count, __ATOMIC_ACQ_REL) == 0) {
        object->destroy(object->pointer);
        free(object);
    }
}

SIMULATE_EXPORT int cudaUserObjectCreate(user_object **object, void *pointer,
                                         void (*destroy_pointer)(void *), unsigned references,
                                         unsigned flags)
{
    (void)flags;
    if (object == NULL || destroy_pointer == NULL || references == 0) {
        return simulate_answer(CUDA_INVALID_VALUE);
    }
    user_object *made = malloc(sizeof(*made));
    if (made == NULL) {
        return simulate_answer(CUDA_OUT_OF_MEMORY);
    }
    *made = (user_object){pointer, destroy_pointer, references};
    *object = made;
    return CUDA_SUCCESS;
}

SIMULATE_EXPORT int cudaUserObjectRelease(user_object *object, unsigned count)
{
    if (object == NULL || count == 0 || count > object->references) {
        return simulate_answer(CUDA_INVALID_VALUE);
    }
    release_object(object, count);
    return CUDA_SUCCESS;
}

SIMULATE_EXPORT int cudaGraphRetainUserObject(simulate_graph *graph, user_object *object,
                                              unsigned count, unsigned flags)
{
    enum { MOVE = 1 }; /* the caller's references become the graph's */
    simulate_kept_object *kept = malloc(sizeof(*kept));
    if (kept == NULL || object == NULL || count == 0 || !is_known(graph, false)) {
        bool is_lack = kept == NULL;
        free(kept);
        return simulate_answer(is_lack ? CUDA_OUT_OF_MEMORY : CUDA_INVALID_VALUE);
    }
    if ((flags & MOVE) == 0) {
        __atomic_add_fetch(&object->references, count, __ATOMIC_RELAXED);
    }
    pthread_mutex_lock(&graphs_mutex);
    *kept = (simulate_kept_object){.next = graph->kept, .object = object, .count = count};
    graph->kept = kept;
    pthread_mutex_unlock(&graphs_mutex);
    return CUDA_SUCCESS;
}
