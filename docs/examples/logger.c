/* A logger under every hook of the process, wrapped around Mend's own pool of the device. */
#include <mend/mend_devices.h>
#include <mend/mend_sim.h>
#include <stdio.h>

typedef struct logger {
    mend_allocator wrapped;
    int lines;
} logger;

static int log_alloc(void *ctx, void **pointer, size_t size_bytes, mend_stream stream)
{
    logger *l = ctx;
    int result = l->wrapped.handler.alloc(l->wrapped.handler.ctx, pointer, size_bytes, stream);
    printf("%zu bytes: %s\n", size_bytes, mend_result_name((mend_result)result));
    l->lines++;
    return result;
}

static int log_free(void *ctx, void *pointer, size_t size_bytes, mend_stream stream)
{
    logger *l = ctx;
    return l->wrapped.handler.free(l->wrapped.handler.ctx, pointer, size_bytes, stream);
}

static int log_record_stream(void *ctx, void *pointer, mend_stream stream)
{
    logger *l = ctx;
    return l->wrapped.record_stream(l->wrapped.handler.ctx, pointer, stream);
}

static void end(void *ctx)
{
    printf("the logger retires, after %d lines\n", ((logger *)ctx)->lines);
}

int main(void)
{
    static logger l = {.wrapped = MEND_ALLOCATOR_INIT};
    mend_allocator allocator = MEND_ALLOCATOR_INIT;
    mend_sim_config device = MEND_SIM_CONFIG_INIT;
    mend_pool_config config = MEND_POOL_CONFIG_INIT;
    mend_sim *sim = NULL;
    mend_pool *pool = NULL;
    void *block = NULL;
    if (mend_sim_create(&device, &sim) != MEND_OK) {
        return 1;
    }
    config.driver = mend_sim_driver(sim); /* on a GPU leave this out */
    mend_set_default_config(0, &config);
    mend_get_allocator(0, &l.wrapped);
    allocator.handler =
        (mend_device_handler){.ctx = &l, .alloc = log_alloc, .free = log_free, .name = "logger"};
    allocator.record_stream = log_record_stream;
    allocator.retired = end;
    mend_set_allocator(0, &allocator);
    mend_device_alloc(0, 1 << 20, NULL, &block); /* as hooks do for their frameworks */
    mend_set_allocator(0, NULL);
    mend_device_free(0, block, 1 << 20, NULL); /* by the logger still, which then retires */
    if (mend_pool_for_device(0, &pool) == MEND_OK) {
        mend_pool_destroy(pool);
    }
    mend_sim_destroy(sim);
    return l.lines != 1;
}
