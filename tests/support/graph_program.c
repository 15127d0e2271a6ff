#include "tests/support/graph_program.h"

#include <string.h>

static bool open_program(graph_program *p)
{
    if (!mend_world_open(&p->world)) {
        return false;
    }
    p->driver = mend_sim_driver(p->world.sim);
    bool is_open = p->driver->device_open(p->driver, 0, &p->info) == MEND_DRIVER_OK;
    for (int i = 0; i < PROGRAM_STREAMS; i++) {
        is_open = is_open && mend_sim_stream_create(p->world.sim, &p->streams[i]) == MEND_OK;
    }
    return is_open;
}

static bool open_on(graph_program *p, int devices, uint64_t memory_bytes,
                    void (*configure)(mend_pool_config *))
{
    *p = (graph_program){0};
    mend_world_init(&p->world);
    p->world.sim_config.device_count = devices;
    p->world.sim_config.memory_bytes = memory_bytes;
    p->world.pool_config.peers = devices > 1 ? 2 : 0;
    if (configure != NULL) {
        configure(&p->world.pool_config);
    }
    return open_program(p);
}

bool graph_program_open(graph_program *p, uint64_t memory_bytes,
                        void (*configure)(mend_pool_config *))
{
    return open_on(p, 1, memory_bytes, configure);
}

bool graph_program_open_beside_another(graph_program *p, uint64_t memory_bytes,
                                       void (*configure)(mend_pool_config *))
{
    return open_on(p, 2, memory_bytes, configure);
}

void graph_program_close(graph_program *p)
{
    mend_sim_advance(p->world.sim, UINT64_C(1) << 30);
    mend_world_check(&p->world);
    for (int i = 0; i < PROGRAM_STREAMS; i++) {
        EXPECT_RESULT(MEND_OK, mend_forget_stream(p->world.pool, p->streams[i]));
        EXPECT_RESULT(MEND_OK, mend_sim_stream_destroy(p->world.sim, p->streams[i]));
    }
    EXPECT_INT_EQ(MEND_DRIVER_OK, p->driver->device_close(p->driver, 0));
    mend_world_close(&p->world);
}

void *graph_program_alloc(graph_program *p, uint64_t size_bytes, mend_stream stream)
{
    void *block = NULL;
    EXPECT_RESULT(MEND_OK, mend_alloc(p->world.pool, size_bytes, stream, &block));
    return block;
}

void graph_program_free(graph_program *p, void *block, mend_stream stream)
{
    EXPECT_RESULT(MEND_OK, mend_free(p->world.pool, block, stream));
}

void graph_program_expect_none(graph_program *p, uint64_t size_bytes, mend_stream stream,
                               const char *advice)
{
    void *block = NULL;
    mend_error error = MEND_ERROR_INIT;
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY, mend_alloc(p->world.pool, size_bytes, stream, &block));
    EXPECT_PTR_EQ(NULL, block);
    EXPECT_RESULT(MEND_OK, mend_last_error(&error));
    MEND_TEST_CHECK(strstr(error.message, advice) != NULL, (void)0, "\"%s\" does not say \"%s\"",
                    error.message, advice);
    mend_world_check(&p->world);
}

static void spin(graph_program *p, mend_stream stream, uint64_t duration_ns)
{
    const mend_kernel kernel = {.kind = MEND_KERNEL_SPIN, .duration_ns = duration_ns};
    EXPECT_INT_EQ(MEND_DRIVER_OK, p->driver->context_push(p->driver, p->info.context));
    EXPECT_INT_EQ(MEND_DRIVER_OK, p->driver->launch(p->driver, stream, &kernel));
    EXPECT_INT_EQ(MEND_DRIVER_OK, p->driver->context_pop(p->driver));
}

void graph_program_use(graph_program *p, mend_stream stream, void *block, uint64_t size_bytes,
                       uint64_t duration_ns)
{
    mend_sim_work work = {.kind = MEND_SIM_WORK_WRITE,
                          .address = (uint64_t)(uintptr_t)block,
                          .size_bytes = size_bytes,
                          .tag = atomic_fetch_add(&p->last_tag, 1) + 1};
    EXPECT_RESULT(MEND_OK, mend_sim_launch(p->world.sim, stream, &work));
    spin(p, stream, duration_ns);
    work.kind = MEND_SIM_WORK_VERIFY;
    EXPECT_RESULT(MEND_OK, mend_sim_launch(p->world.sim, stream, &work));
}

mend_group *graph_program_begin_group(graph_program *p, mend_stream stream)
{
    mend_group *group = NULL;
    EXPECT_RESULT(MEND_OK, mend_group_create(p->world.pool, &group));
    EXPECT_RESULT(MEND_OK, mend_group_begin(group, stream));
    return group;
}

void graph_program_begin_capture(graph_program *p, mend_stream stream)
{
    EXPECT_RESULT(MEND_OK, mend_sim_begin_capture(p->world.sim, stream, MEND_SIM_CAPTURE_GLOBAL));
}

mend_sim_graph *graph_program_end_capture(graph_program *p, mend_stream stream)
{
    mend_sim_graph *graph = NULL;
    EXPECT_RESULT(MEND_OK, mend_sim_end_capture(p->world.sim, stream, &graph));
    return graph;
}

void graph_program_launch(graph_program *p, mend_sim_graph *graph, mend_stream stream)
{
    EXPECT_RESULT(MEND_OK, mend_sim_graph_launch(p->world.sim, graph, stream, 0));
}
