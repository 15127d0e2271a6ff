#include "tests/unit/hooks/devices_fixture.h"

#include "hooks/hooks.h"
#include "mend/mend_frameworks.h"

bool devices_open(devices_world *r)
{
    mend_world *w = &r->w;
    *r = (devices_world){.c = {.next = 0}};
    mend_world_init(w);
    w->sim_config.device_count = DEVICES;
    if (!mend_world_open_device(w)) {
        return false;
    }
    w->driver = w->pool_config.driver = mend_sim_driver(w->sim);
    EXPECT_OK(mend_sim_stream_create(w->sim, NULL, &w->streams[0]));
    EXPECT_OK(mend_set_default_config(MEND_ALL_DEVICES, &w->pool_config));
    return !mend_test_has_failed();
}

bool devices_open_counted(devices_world *r)
{
    const bool is_open = devices_open(r);
    counter_serve(&r->c, 0, 4096);
    return is_open && !mend_test_has_failed();
}

void devices_close(devices_world *r)
{
    EXPECT_OK(mend_set_allocator(MEND_ALL_DEVICES, NULL));
    EXPECT_FALSE(mend_devices_have_overrides());
    mend_sim_advance(r->w.sim, UINT64_C(1) << 40);
    for (int i = 0; i < DEVICES; i++) {
        mend_pool *pool = mend_devices_pool(i);
        EXPECT_OK(pool != NULL ? mend_validate(pool) : MEND_OK);
        EXPECT_OK(mend_pool_destroy(pool));
        EXPECT_PTR_EQ(NULL, mend_devices_pool(i));
    }
    EXPECT_OK(mend_set_default_config(MEND_ALL_DEVICES, NULL));
    EXPECT_OK(mend_sim_stream_destroy(r->w.sim, r->w.streams[0]));
    mend_world_close(&r->w);
}

void devices_enter(devices_world *r, int device)
{
    const mend_driver *driver = r->w.driver;
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->device_open(driver, device, &r->open[device]));
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->context_push(driver, r->open[device].context));
}

void devices_leave(devices_world *r, int device)
{
    const mend_driver *driver = r->w.driver;
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->context_pop(driver));
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->device_close(driver, device));
}

mend_pool *devices_pool_of(int device)
{
    mend_pool *pool = NULL;
    EXPECT_OK(mend_pool_for_device(device, &pool));
    return pool;
}

/* ---- the allocator --------------------------------------------------------------------------- */

int counter_alloc(void *ctx, void **pointer, KIT_UNUSED size_t size_bytes, mend_stream stream)
{
    counter *c = ctx;
    c->stream = stream;
    c->allocs++;
    c->next += c->gives_one_address && c->allocs > 1 ? 0 : 4096;
    if (!c->gives_null) {
        *pointer = (void *)(uintptr_t)c->next;
    }
    return c->answer;
}

static int count_free(void *ctx, void *pointer, size_t size_bytes, KIT_UNUSED mend_stream stream)
{
    counter *c = ctx;
    c->frees++;
    c->freed_bytes += size_bytes;
    c->freed = pointer;
    return c->answer;
}

static int count_record(void *ctx, KIT_UNUSED void *pointer, KIT_UNUSED mend_stream stream)
{
    counter *c = ctx;
    c->records++;
    return c->answer;
}

static int count_trim(void *ctx, uint64_t keep_bytes, mend_trim_mode mode, uint64_t *released_bytes)
{
    counter *c = ctx;
    c->trims++;
    *released_bytes = 100 * (1 + (uint64_t)mode) + keep_bytes;
    return c->answer;
}

static int count_info(void *ctx, const void *pointer, mend_block_info *info)
{
    counter *c = ctx;
    c->infos++;
    info->base = (void *)((uintptr_t)pointer & ~(uintptr_t)4095);
    return (uintptr_t)info->base <= c->next ? c->answer : MEND_ERROR_FOREIGN_POINTER;
}

static void count_retirement(void *ctx)
{
    counter *c = ctx;
    c->retirements++;
}

mend_allocator counter_allocator(counter *c, uint64_t first_address)
{
    *c = (counter){.next = first_address};
    mend_allocator allocator = MEND_ALLOCATOR_INIT;
    allocator.handler = (mend_device_handler){
        .ctx = c, .alloc = counter_alloc, .free = count_free, .name = "counter"};
    allocator.record_stream = count_record;
    allocator.trim = count_trim;
    allocator.block_info = count_info;
    allocator.retired = count_retirement;
    return allocator;
}

void counter_serve(counter *c, int device, uint64_t first_address)
{
    mend_allocator allocator = counter_allocator(c, first_address);
    EXPECT_OK(mend_set_allocator(device, &allocator));
}

void *counter_allocate(int device)
{
    void *pointer = NULL;
    EXPECT_OK(mend_device_alloc(device, BLOCK, NULL, &pointer));
    return pointer;
}

void counter_give(int device, void *pointer)
{
    EXPECT_OK(mend_device_free(device, pointer, BLOCK, NULL));
}
