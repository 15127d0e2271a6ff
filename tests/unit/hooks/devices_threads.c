/* Allocators are replaced while other threads are inside of them: no thread calls a retired one,
 * and every block returns to its allocator. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "mend/mend_frameworks.h"
#include "tests/support/kit.h"
#include "tests/unit/hooks/devices_fixture.h"

enum { THREADS = 4, STEPS = 400, SLOTS = 8, REPLACEMENTS = 120, LARGEST = 96 << 10 };

/* Wraps Mend's own. Its memory goes when it retires, so that a call that comes later is a use after
 * free for the sanitizers. */
typedef struct wrapper {
    mend_allocator inner;
    atomic_int inside;
    atomic_int blocks;
} wrapper;

static atomic_int made;
static atomic_int gone;

static int wrapped_alloc(void *ctx, void **pointer, size_t size_bytes, mend_stream stream)
{
    wrapper *w = ctx;
    atomic_fetch_add(&w->inside, 1);
    int answer = w->inner.handler.alloc(w->inner.handler.ctx, pointer, size_bytes, stream);
    atomic_fetch_add(&w->blocks, answer == 0);
    atomic_fetch_sub(&w->inside, 1);
    return answer;
}

static int wrapped_free(void *ctx, void *pointer, size_t size_bytes, mend_stream stream)
{
    wrapper *w = ctx;
    atomic_fetch_add(&w->inside, 1);
    int answer = w->inner.handler.free(w->inner.handler.ctx, pointer, size_bytes, stream);
    atomic_fetch_sub(&w->blocks, answer == 0);
    atomic_fetch_sub(&w->inside, 1);
    return answer;
}

static int wrapped_record(void *ctx, void *pointer, mend_stream stream)
{
    wrapper *w = ctx;
    atomic_fetch_add(&w->inside, 1);
    int answer = w->inner.record_stream(w->inner.handler.ctx, pointer, stream);
    atomic_fetch_sub(&w->inside, 1);
    return answer;
}

static void wrapped_end(void *ctx)
{
    wrapper *w = ctx;
    EXPECT_INT_EQ(0, atomic_load(&w->inside));
    EXPECT_INT_EQ(0, atomic_load(&w->blocks));
    atomic_fetch_add(&gone, 1);
    free(w);
}

static void set_wrapper(int device)
{
    wrapper *w = calloc(1, sizeof(*w));
    mend_allocator allocator = MEND_ALLOCATOR_INIT;
    w->inner = (mend_allocator)MEND_ALLOCATOR_INIT;
    EXPECT_OK(mend_get_allocator(0, &w->inner));
    /* The one below is always Mend's own: another one may retire while it is wrapped. */
    EXPECT_STR_EQ("mend", w->inner.handler.name);
    allocator.handler =
        (mend_device_handler){.ctx = w, .alloc = wrapped_alloc, .free = wrapped_free};
    allocator.record_stream = wrapped_record;
    allocator.retired = wrapped_end;
    atomic_fetch_add(&made, 1);
    EXPECT_OK(mend_set_allocator(device, &allocator));
}

typedef struct worker {
    pthread_t thread;
    uint64_t seed;
    mend_stream stream;
    _Atomic(void *) *slots; /* shared by all */
} worker;

static void give(void *block, mend_stream stream)
{
    EXPECT_OK(mend_device_free(0, block, LARGEST, stream));
}

static void *work(void *argument)
{
    worker *w = argument;
    mend_test_random random;
    mend_test_random_init(&random, w->seed);
    for (int i = 0; i < STEPS; i++) {
        void *block = NULL;
        uint64_t bytes = 1 + mend_test_random_below(&random, LARGEST);
        EXPECT_OK(mend_device_alloc(0, bytes, w->stream, &block));
        if (mend_test_random_below(&random, 4) == 0) {
            EXPECT_OK(mend_device_record_stream(MEND_ALL_DEVICES, block, NULL));
        }
        block = atomic_exchange(&w->slots[mend_test_random_below(&random, SLOTS)], block);
        if (block != NULL) {
            give(block, w->stream);
        }
    }
    return NULL;
}

/* Takes turns between a new wrapper and Mend's own, so that a wrapper never wraps another. */
static void replace(mend_test_random *random)
{
    for (int i = 0; i < REPLACEMENTS; i++) {
        int device = mend_test_random_below(random, 2) == 0 ? 0 : MEND_ALL_DEVICES;
        set_wrapper(device);
        EXPECT_OK(mend_set_allocator(MEND_ALL_DEVICES, NULL));
    }
}

DEVICES_TEST(devices_threads, allocators_are_replaced_while_they_work)
{
    worker workers[THREADS];
    _Atomic(void *) slots[SLOTS];
    mend_test_random random;
    mend_test_random_init(&random, mend_test_seed());
    atomic_store(&made, 0);
    atomic_store(&gone, 0);
    for (int i = 0; i < SLOTS; i++) {
        atomic_init(&slots[i], NULL);
    }
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){
            .seed = mend_test_random_next(&random), .stream = i == 0 ? S(0) : NULL, .slots = slots};
        pthread_create(&workers[i].thread, NULL, work, &workers[i]);
    }
    replace(&random);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
    }
    for (int i = 0; i < SLOTS; i++) {
        give(atomic_load(&slots[i]), NULL);
    }
    EXPECT_INT_EQ(REPLACEMENTS, atomic_load(&made));
    EXPECT_INT_EQ(REPLACEMENTS, atomic_load(&gone));
}
