/* Threads that commit and decommit pages of one range, and allocate blocks, in a pool that is too
 * small for all of them. Each has pages of its own, and writes and compares them. */
#include <stdatomic.h>

#include "mend/mend_range.h"
#include "tests/support/kit.h"
#include "tests/support/threads.h"

#define PAGE (256 * MEND_KIB)
enum { THREADS = 4, ROUNDS = 300, PAGES = 8 };

typedef struct worker {
    mend_world *w;
    mend_range *range;
    char *base;
    mend_stream stream;
    mend_test_random random;
    uint64_t refused; /* commits and allocations that found no memory */
    int number;
    atomic_int failures; /* of calls that may not fail */
} worker;

/* Pages of two threads alternate, so that gaps and runs of both touch. */
static uint64_t offset_of(const worker *me, uint64_t page)
{
    return (page * THREADS + (uint64_t)me->number) * PAGE;
}

static void may(worker *me, mend_result result)
{
    me->refused += result == MEND_ERROR_OUT_OF_MEMORY;
    atomic_fetch_add(&me->failures, result != MEND_OK && result != MEND_ERROR_OUT_OF_MEMORY);
}

static void use(worker *me, void *memory, uint64_t size_bytes)
{
    kit_use(me->w, me->stream, memory, size_bytes, 20);
}

static void change_page(worker *me)
{
    const uint64_t at = offset_of(me, mend_test_random_below(&me->random, PAGES));
    mend_result result = mend_range_commit(me->range, at, PAGE, me->stream);
    may(me, result);
    if (result == MEND_OK) {
        use(me, me->base + at, PAGE);
    }
    if (mend_test_random_below(&me->random, 3) > 0) {
        may(me, mend_range_decommit(me->range, at, PAGE, me->stream));
    }
}

static void use_block(worker *me)
{
    const uint64_t size_bytes = (1 + mend_test_random_below(&me->random, 5)) * PAGE;
    void *block = NULL;
    mend_result result = mend_alloc(me->w->pool, size_bytes, me->stream, &block);
    may(me, result);
    if (result == MEND_OK) {
        use(me, block, size_bytes);
        may(me, mend_free(me->w->pool, block, me->stream));
    }
}

static void *work(void *argument)
{
    worker *me = argument;
    for (int i = 0; i < ROUNDS; i++) {
        if (mend_test_random_below(&me->random, 4) == 0) {
            use_block(me);
        } else {
            change_page(me);
        }
        mend_sim_advance(me->w->sim, 25);
    }
    return NULL;
}

MEND_TEST(pool_range_threads, share_a_range)
{
    mend_world w;
    mend_world_init(&w);
    w.pool_config.limit_bytes = 14 * PAGE;
    ASSERT_TRUE(kit_open(&w));
    mend_range_options options = MEND_RANGE_OPTIONS_INIT;
    options.page_bytes = PAGE;
    mend_range *range = NULL;
    mend_range_info info = MEND_RANGE_INFO_INIT;
    ASSERT_RESULT(MEND_OK, mend_range_create(w.pool, MEND_GIB, &options, &range));
    ASSERT_RESULT(MEND_OK, mend_range_get_info(range, &info));
    worker workers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){.w = &w, .range = range, .base = info.base, .number = i};
        mend_test_random_init(&workers[i].random, mend_test_seed() + (uint64_t)i);
        EXPECT_RESULT(MEND_OK, mend_sim_stream_create(w.sim, &workers[i].stream));
    }
    mend_test_run_threads(work, workers, THREADS);
    EXPECT_TRUE(mend_world_check(&w));
    EXPECT_TRUE(mend_world_stats(&w).pages_committed > THREADS * PAGES);
    EXPECT_TRUE(mend_world_stats(&w).chunks_moved > 0);
    for (int i = 0; i < THREADS; i++) {
        EXPECT_INT_EQ(0, workers[i].failures);
    }
    mend_sim_advance(w.sim, 1000000);
    EXPECT_RESULT(MEND_OK, mend_range_destroy(range, w.streams[0]));
    for (int i = 0; i < THREADS; i++) {
        EXPECT_RESULT(MEND_OK, mend_forget_stream(w.pool, workers[i].stream));
        EXPECT_RESULT(MEND_OK, mend_sim_stream_destroy(w.sim, workers[i].stream));
    }
    kit_close(&w);
}
