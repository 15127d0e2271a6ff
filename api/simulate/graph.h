/* Graphs as programs name them, captured or executable, and their effects at each launch beside the
 * simulated device's part. */
#ifndef MEND_SIMULATE_GRAPH_H
#define MEND_SIMULATE_GRAPH_H

#include <pthread.h>

#include "simulate/effect.h"
#include "simulate/machine.h"

typedef struct simulate_kept_object simulate_kept_object;

/* A graph, or one that can be launched, which shares everything with the graph it was made from. */
typedef struct simulate_graph {
    struct simulate_graph *next;     /* of all that the program may name */
    struct simulate_graph *original; /* of an executable one. NULL: it is a graph */
    uint64_t references;             /* the program's own, and one for each executable one */
    mend_sim_graph *recorded;        /* by the simulated device. NULL: nothing yet */
    uint64_t capture_id;             /* 0: not under capture */
    mend_stream origin;              /* where the capture began, in which thread, in which mode */
    pthread_t thread;
    int mode;
    simulate_effect *effects; /* in order */
    size_t effect_count, effect_room;
    size_t node_count;
    simulate_kept_object *kept;
} simulate_graph;

/* A new one in the list of all, with one reference. An executable one holds a reference to its
 * original. NULL: malloc failed. */
simulate_graph *simulate_graph_add(simulate_graph *original);

/* Takes it out of the list if it is in there and of that kind: the program may not name it any
 * more. */
bool simulate_graph_take_out(simulate_graph *graph, bool is_executable);

/* Gives a reference back. The last one destroys. */
void simulate_graph_drop(simulate_graph *graph);

/* The graph whose capture began on this stream. NULL: none. */
simulate_graph *simulate_graph_find_origin(mend_stream stream);

/* The graph that records the work of the stream. NULL: none. It stays until its capture ends, which
 * the program does in order with its work on the stream. */
simulate_graph *simulate_graph_of(mend_stream stream);

/* Records an effect, in order. Counts a piece of work. OUT_OF_MEMORY. */
int simulate_graph_record(simulate_graph *graph, const simulate_effect *effect);
void simulate_graph_count(simulate_graph *graph);

#endif
