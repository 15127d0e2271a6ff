/* A program for tests of captures and groups: a small world, streams, work with bytes that last for
 * a while, and graphs. */
#ifndef MEND_TESTS_SUPPORT_GRAPH_PROGRAM_H
#define MEND_TESTS_SUPPORT_GRAPH_PROGRAM_H

#include <stdatomic.h>

#include "base/align.h"
#include "driver/driver.h"
#include "tests/support/test.h"
#include "tests/support/world.h"

#define PROGRAM_PER_THREAD ((mend_stream)(uintptr_t)2)

enum { PROGRAM_STREAMS = 3 };

typedef struct graph_program {
    mend_world world;
    const mend_driver *driver;
    mend_device_info info;
    mend_stream streams[PROGRAM_STREAMS];
    atomic_uint_fast64_t last_tag; /* threads of a test may write at once */
} graph_program;

/* A device of so much memory, and three streams. `configure` may be NULL. */
bool graph_program_open(graph_program *p, uint64_t memory_bytes,
                        void (*configure)(mend_pool_config *));

/* The same with a second device, which may use the pool's memory. */
bool graph_program_open_beside_another(graph_program *p, uint64_t memory_bytes,
                                       void (*configure)(mend_pool_config *));

/* Lets all work end, checks everything, and closes; streams are forgotten first. */
void graph_program_close(graph_program *p);

void *graph_program_alloc(graph_program *p, uint64_t size_bytes, mend_stream stream);
void graph_program_free(graph_program *p, void *block, mend_stream stream);

/* The request ends in out of memory, and the advice contains the words. */
void graph_program_expect_none(graph_program *p, uint64_t size_bytes, mend_stream stream,
                               const char *advice);

/* Writes the block, and compares it so much later, in the order of the stream. */
void graph_program_use(graph_program *p, mend_stream stream, void *block, uint64_t size_bytes,
                       uint64_t duration_ns);

mend_group *graph_program_begin_group(graph_program *p, mend_stream stream);
void graph_program_begin_capture(graph_program *p, mend_stream stream);
mend_sim_graph *graph_program_end_capture(graph_program *p, mend_stream stream);
void graph_program_launch(graph_program *p, mend_sim_graph *graph, mend_stream stream);

#endif
