#include "tests/unit/hooks/devices_counter.h"

#include "tests/support/kit.h"

int counter_alloc(void *ctx, void **pointer, KIT_UNUSED size_t size_bytes, mend_stream stream)
{
    counter *c = ctx;
    if (c->allocs < LOGGED) {
        c->streams[c->allocs] = stream;
    }
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
