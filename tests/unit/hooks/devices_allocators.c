/* Allocators instead of Mend's pools: which calls each serves, for how long, and its results. */
#include <string.h>

#include "hooks/hooks.h"
#include "mend/mend_frameworks.h"
#include "tests/support/child.h"
#include "tests/support/host_memory.h"
#include "tests/support/kit.h"
#include "tests/unit/hooks/devices_fixture.h"

/* Devices where an allocator that counts serves device 0, and ends with them. */
#define COUNTED_TEST(suite, name)                                                                  \
    KIT_RIG_TEST(suite, name, devices_world, devices_open_counted(r), close_counted(r))

static void close_counted(devices_world *r)
{
    devices_close(r);
    EXPECT_INT_EQ(1, r->c.retirements);
}

COUNTED_TEST(devices_allocators, every_call_goes_to_the_one_that_is_set)
{
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    void *nothing = &r->c;
    uint64_t released = 0;
    void *block = NULL;
    EXPECT_OK(mend_device_alloc(0, BLOCK, MEND_NO_STREAM, &block));
    EXPECT_PTR_EQ(MEND_NO_STREAM, r->c.stream);
    EXPECT_OK(mend_device_alloc(0, 0, NULL, &nothing));
    EXPECT_PTR_EQ(NULL, nothing);
    EXPECT_OK(mend_device_record_stream(0, block, S(0)));
    EXPECT_OK(mend_device_block_info(0, block, &info));
    EXPECT_OK(mend_device_block_info(0, (char *)block + 5, &info));
    EXPECT_PTR_EQ(block, info.base);
    EXPECT_OK(mend_device_trim(0, 11, MEND_TRIM_IDLE, &released));
    EXPECT_U64_EQ(111, released);
    EXPECT_OK(mend_device_trim(0, 11, MEND_TRIM_WAIT, &released));
    EXPECT_U64_EQ(211, released);
    EXPECT_OK(mend_device_trim(0, 11, MEND_TRIM_BY_POLICY, &released));
    EXPECT_U64_EQ(311, released);
    EXPECT_INVALID(mend_device_trim(0, 11, (mend_trim_mode)3, &released));
    EXPECT_U64_EQ(311, released);
    EXPECT_OK(mend_device_free(0, NULL, 0, NULL));
    counter_give(0, block);
    EXPECT_FIELDS(r->c, allocs, 1, frees, 1, freed_bytes, BLOCK);
    EXPECT_PTR_EQ(block, r->c.freed);
    EXPECT_FIELDS(r->c, records, 1, infos, 2, trims, 3, retirements, 0);
    EXPECT_U64_EQ(0, mend_world_ledger(w).contexts_open); /* no pool was made */
}

DEVICES_TEST(devices_allocators, a_block_goes_back_where_it_came_from)
{
    static counter c[2]; /* until the devices end */
    void *own = counter_allocate(0);
    counter_serve(&c[0], 0, 4096);
    void *of_first = counter_allocate(0);
    counter_serve(&c[1], 0, 1 << 30);
    void *of_second = counter_allocate(0);
    EXPECT_INT_EQ(0, c[0].retirements); /* it still has a block */
    EXPECT_OK(mend_set_allocator(0, NULL));
    void *own_again = counter_allocate(0);
    EXPECT_OK(mend_device_record_stream(0, of_first, NULL));
    counter_give(0, own);
    counter_give(0, of_second);
    EXPECT_INT_EQ(1, c[1].retirements);
    counter_give(0, of_first);
    counter_give(0, own_again);
    for (int i = 0; i < 2; i++) {
        EXPECT_FIELDS(c[i], allocs, 1, frees, 1, retirements, 1);
    }
    EXPECT_INT_EQ(1, c[0].records);
}

DEVICES_TEST(devices_allocators, one_device_or_all)
{
    static counter of_one; /* until the devices end */
    mend_allocator found = MEND_ALLOCATOR_INIT;
    uint64_t released = 0;
    mend_allocator one = counter_allocator(&of_one, 1 << 30);
    counter_serve(&r->c, MEND_ALL_DEVICES, 4096);
    memset(one.handler.name, 'x', sizeof(one.handler.name)); /* without an end */
    ASSERT_RESULT(MEND_OK, mend_set_allocator(1, &one));
    EXPECT_OK(mend_get_allocator(MEND_ALL_DEVICES, &found));
    EXPECT_PTR_EQ(&r->c, found.handler.ctx);
    EXPECT_OK(mend_get_allocator(1, &found));
    EXPECT_PTR_EQ(&of_one, found.handler.ctx);
    EXPECT_TRUE(found.retired == NULL);
    EXPECT_INT_EQ(0, found.handler.name[sizeof(found.handler.name) - 1]);
    EXPECT_ERROR(FOREIGN_POINTER, mend_device_record_stream(0, NULL, NULL));
    counter_give(0, counter_allocate(0));
    counter_give(63, counter_allocate(63));
    counter_give(1, counter_allocate(1));
    devices_enter(r, 1);
    counter_give(1, counter_allocate(MEND_ALL_DEVICES)); /* of the current one */
    devices_leave(r, 1);
    EXPECT_INT_EQ(2, r->c.allocs);
    EXPECT_INT_EQ(2, of_one.allocs);
    EXPECT_OK(mend_device_trim(MEND_ALL_DEVICES, 0, MEND_TRIM_IDLE, &released));
    EXPECT_U64_EQ(200, released); /* each once */
    EXPECT_OK(mend_set_allocator(1, NULL));
    EXPECT_INT_EQ(1, of_one.retirements);
    counter_give(1, counter_allocate(1));
    EXPECT_U64_EQ(1, mend_world_ledger(w).contexts_open);
    EXPECT_OK(mend_set_allocator(MEND_ALL_DEVICES, NULL));
    EXPECT_INT_EQ(1, r->c.retirements);
}

DEVICES_TEST(devices_allocators, other_devices_stay_mends_own)
{
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    counter_serve(&r->c, 1, 4096);
    void *own = counter_allocate(0);
    void *others = counter_allocate(1);
    EXPECT_OK(mend_device_record_stream(0, own, S(0)));
    EXPECT_INT_EQ(0, r->c.records);
    EXPECT_OK(mend_device_block_info(MEND_ALL_DEVICES, own, &info));
    EXPECT_PTR_EQ(own, info.base);
    EXPECT_OK(mend_device_block_info(MEND_ALL_DEVICES, (char *)others + 5, &info));
    EXPECT_PTR_EQ(others, info.base);
    EXPECT_ERROR(FOREIGN_POINTER, mend_device_block_info(MEND_ALL_DEVICES, r, &info));
    EXPECT_OK(mend_device_trim(MEND_ALL_DEVICES, 0, MEND_TRIM_IDLE, NULL));
    EXPECT_INT_EQ(1, r->c.trims);
    counter_give(0, own);
    counter_give(1, others);
    EXPECT_INT_EQ(1, r->c.frees);
}

COUNTED_TEST(devices_allocators, of_two_that_free_a_block_at_once_one_does)
{
    void *block = counter_allocate(0);
    mend_override *found[2] = {mend_override_of_block(block), mend_override_of_block(block)};
    ASSERT_TRUE(found[0] != NULL && found[0] == found[1]);
    EXPECT_OK(mend_override_free(found[0], block, BLOCK, NULL));
    EXPECT_ERROR(DOUBLE_FREE, mend_override_free(found[1], block, BLOCK, NULL));
    EXPECT_INT_EQ(1, r->c.frees);
    EXPECT_INT_EQ(0, r->c.retirements);
}

/* A wrapper, as a program would write it: Mend's own below, by mend_get_allocator. */
typedef struct wrapper {
    mend_allocator inner;
    int allocs;
} wrapper;

static int wrapped_alloc(void *ctx, void **pointer, size_t size_bytes, mend_stream stream)
{
    wrapper *w = ctx;
    w->allocs++;
    return w->inner.handler.alloc(w->inner.handler.ctx, pointer, size_bytes, stream);
}

static int wrapped_free(void *ctx, void *pointer, size_t size_bytes, mend_stream stream)
{
    wrapper *w = ctx;
    return w->inner.handler.free(w->inner.handler.ctx, pointer, size_bytes, stream);
}

KIT_RIG_EACH(devices_allocators, mends_own_can_be_wrapped, int, of_all, 2, devices_world, r,
             devices_open(r), devices_close(r))
{
    const int device = of_all ? MEND_ALL_DEVICES : 0; /* of all it serves the current one */
    wrapper w = {.inner = MEND_ALLOCATOR_INIT};
    mend_allocator allocator = MEND_ALLOCATOR_INIT;
    void *pointer = NULL;
    ASSERT_RESULT(MEND_OK, mend_get_allocator(device, &w.inner));
    EXPECT_STR_EQ("mend", w.inner.handler.name);
    allocator.handler =
        (mend_device_handler){.ctx = &w, .alloc = wrapped_alloc, .free = wrapped_free};
    ASSERT_RESULT(MEND_OK, mend_set_allocator(device, &allocator));
    void *block = counter_allocate(0);
    EXPECT_INT_EQ(1, w.allocs);
    EXPECT_ERROR(NOT_SUPPORTED, mend_device_record_stream(0, block, NULL));
    EXPECT_INT_EQ(MEND_OK, w.inner.record_stream(w.inner.handler.ctx, block, r->w.streams[0]));
    /* Mend's own explanation comes through. */
    EXPECT_REFUSAL(OUT_OF_MEMORY, "limit", mend_device_alloc(0, UINT64_C(1) << 40, NULL, &pointer));
    EXPECT_PTR_EQ(NULL, pointer);
    kit_launch(&r->w, NULL, MEND_SIM_WORK_TOUCH, block, 512, 0, mend_sim_now_ns(r->w.sim) + 1000);
    counter_give(0, block);
    EXPECT_INT_EQ(MEND_OK, w.inner.trim(w.inner.handler.ctx, 0, MEND_TRIM_IDLE, &(uint64_t){0}));
    EXPECT_TRUE(mend_world_ledger(&r->w).chunks > 0);
    EXPECT_INT_EQ(MEND_OK, w.inner.trim(w.inner.handler.ctx, 0, MEND_TRIM_WAIT, &(uint64_t){0}));
    EXPECT_U64_EQ(0, mend_world_ledger(&r->w).chunks);
}

COUNTED_TEST(devices_allocators, answers_become_results_with_a_reason)
{
    static const struct {
        int answer;
        mend_result alloc;
        mend_result others;
    } rows[] = {{MEND_ERROR_OUT_OF_MEMORY, MEND_ERROR_OUT_OF_MEMORY, MEND_ERROR_OUT_OF_MEMORY},
                {MEND_ERROR_UNKNOWN_STREAM, MEND_ERROR_UNKNOWN_STREAM, MEND_ERROR_UNKNOWN_STREAM},
                {719, MEND_ERROR_OUT_OF_MEMORY, MEND_ERROR_DRIVER},
                {-1, MEND_ERROR_OUT_OF_MEMORY, MEND_ERROR_DRIVER}};
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    void *block = counter_allocate(0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        void *pointer = &r->c;
        uint64_t released = 77;
        r->c.answer = rows[i].answer;
        EXPECT_RESULT(rows[i].alloc, mend_device_alloc(0, BLOCK, NULL, &pointer));
        EXPECT_PTR_EQ(&r->c, pointer);
        kit_expect_words("counter");
        EXPECT_RESULT(rows[i].others, mend_device_record_stream(0, block, NULL));
        EXPECT_RESULT(rows[i].others, mend_device_block_info(0, block, &info));
        EXPECT_RESULT(rows[i].others, mend_device_trim(0, 0, MEND_TRIM_IDLE, &released));
        EXPECT_U64_EQ(77, released);
        EXPECT_RESULT(rows[i].others, mend_device_free(0, block, BLOCK, NULL));
    }
    r->c.answer = 0;
    counter_give(0, block); /* after every refusal it was still the allocator's */
}

COUNTED_TEST(devices_allocators, every_result_of_mends_comes_through)
{
#define X(name, value, meaning)                                                                    \
    r->c.answer = (value);                                                                         \
    EXPECT_RESULT(name, mend_device_trim(0, 0, MEND_TRIM_IDLE, NULL));
    MEND_RESULTS(X)
#undef X
#define X(name, value, meaning) +1
    r->c.answer = 0 MEND_RESULTS(X); /* the number behind the last one */
#undef X
    EXPECT_ERROR(DRIVER, mend_device_trim(0, 0, MEND_TRIM_IDLE, NULL));
}

COUNTED_TEST(devices_allocators, null_is_no_block_and_an_address_in_use_is_noticed)
{
    void *pointer = &r->c;
    r->c.gives_null = true;
    EXPECT_ERROR(OUT_OF_MEMORY, mend_device_alloc(0, BLOCK, NULL, &pointer));
    EXPECT_PTR_EQ(&r->c, pointer);
    r->c = (counter){.next = 4096, .gives_one_address = true};
    void *block = counter_allocate(0);
    EXPECT_PTR_EQ(block, counter_allocate(0));
    counter_give(0, block);
    EXPECT_ERROR(FOREIGN_POINTER, mend_device_free(0, block, BLOCK, NULL));
    EXPECT_INT_EQ(1, r->c.frees);
}

/* An allocator may replace itself in its own call, which ends all the same. */
typedef struct quitter {
    counter c;
    mend_result set;
} quitter;

static int quit(void *ctx, void **pointer, size_t size_bytes, mend_stream stream)
{
    quitter *q = ctx;
    q->set = mend_set_allocator(0, NULL);
    EXPECT_INT_EQ(0, q->c.retirements);
    return counter_alloc(&q->c, pointer, size_bytes, stream);
}

DEVICES_TEST(devices_allocators, one_may_replace_itself)
{
    static quitter q; /* until the devices end */
    mend_allocator allocator = counter_allocator(&q.c, 4096);
    allocator.handler.alloc = quit;
    const int64_t before = mend_test_live_host_allocations();
    ASSERT_RESULT(MEND_OK, mend_set_allocator(0, &allocator));
    void *block = counter_allocate(0);
    EXPECT_OK(q.set);
    EXPECT_INT_EQ(0, q.c.retirements);
    counter_give(0, block);
    EXPECT_INT_EQ(1, q.c.retirements);
    EXPECT_INT_EQ(before, mend_test_live_host_allocations());
}

/* One that knows less of the struct than the library, and one that wants to hear no more. */
DEVICES_TEST(devices_allocators, a_shorter_struct_is_an_older_one)
{
    mend_allocator allocator = counter_allocator(&r->c, 4096);
    allocator.struct_size = offsetof(mend_allocator, record_stream);
    ASSERT_RESULT(MEND_OK, mend_set_allocator(0, &allocator));
    void *block = counter_allocate(0);
    EXPECT_ERROR(NOT_SUPPORTED, mend_device_record_stream(0, block, NULL));
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    EXPECT_ERROR(NOT_SUPPORTED, mend_device_block_info(0, block, &info));
    uint64_t released = 77; /* it holds nothing back that it could give */
    EXPECT_OK(mend_device_trim(0, 0, MEND_TRIM_IDLE, &released));
    EXPECT_U64_EQ(0, released);
    counter_give(0, block);
    EXPECT_OK(mend_set_allocator(0, NULL));
    EXPECT_INT_EQ(0, r->c.retirements);
}

DEVICES_TEST(devices_allocators, host_memory_that_fails_changes_nothing)
{
    void *pointer = &r->c;
    mend_allocator allocator = counter_allocator(&r->c, 4096);
    mend_test_fail_host_memory_after(0, 1);
    mend_test_watch_host_memory(true);
    EXPECT_ERROR(OUT_OF_HOST_MEMORY, mend_set_allocator(0, &allocator));
    mend_test_fail_host_memory_after(1, 1);
    EXPECT_OK(mend_set_allocator(0, &allocator));
    mend_result result = mend_device_alloc(0, BLOCK, NULL, &pointer); /* the table is full */
    mend_test_watch_host_memory(false);
    mend_test_heal_host_memory();
    EXPECT_ERROR(OUT_OF_HOST_MEMORY, result);
    EXPECT_PTR_EQ(&r->c, pointer);
    EXPECT_INT_EQ(0, r->c.allocs);
    counter_give(0, counter_allocate(0));
}

static bool starts_without(void *block)
{
    static counter own; /* which has no blocks */
    mend_allocator found = MEND_ALLOCATOR_INIT;
    counter_serve(&own, 1, UINT64_C(1) << 40);
    return mend_device_free(0, block, BLOCK, NULL) == MEND_ERROR_FOREIGN_POINTER &&
           mend_get_allocator(0, &found) == MEND_OK && found.handler.alloc == mend_devices_alloc;
}

COUNTED_TEST(devices_allocators, a_child_starts_without)
{
    void *block = counter_allocate(0);
    EXPECT_TRUE(mend_test_holds_in_a_child(starts_without, block));
    counter_give(0, block);
}
