/* Other threads allocate and free, commit and decommit while one puts memory to sleep and wakes it:
 * their blocks and pages, and sleeping ones. */
#include <stdatomic.h>

#include "tests/support/threads.h"
#include "tests/unit/sleep/sleep_rig.h"

/* A race is seen the first time that two threads take its ways, whatever comes of it. */
#if defined(__SANITIZE_THREAD__)
enum { CYCLES = 12 };
#else
enum { CYCLES = 60 };
#endif

enum { THREADS = 3, OTHERS = 24, OTHER_BYTES = 120 << 10, OWN_PAGES = 6 };

typedef struct arena {
    sleep_rig r;
    atomic_bool is_over;
    _Atomic(void *) others[OTHERS]; /* blocks of tags 3 and 4, which any thread may free */
} arena;

typedef struct worker {
    arena *a;
    int number; /* 0: sleeps and wakes */
} worker;

/* Pages of its own behind the rig's. */
static void commit_or_decommit(arena *a, int number, mend_test_random *random)
{
    const uint64_t first = mend_test_random_below(random, OWN_PAGES);
    const uint64_t count = 1 + mend_test_random_below(random, OWN_PAGES - first);
    const uint64_t at = (SLEEP_PAGES + (uint64_t)number * OWN_PAGES + first) * SLEEP_PAGE;
    const mend_stream stream = a->r.w.streams[0];
    EXPECT_OK(mend_test_random_below(random, 2) == 0
                  ? mend_range_commit(a->r.range, at, count * SLEEP_PAGE, stream)
                  : mend_range_decommit(a->r.range, at, count * SLEEP_PAGE, stream));
}

/* No work of the GPU: memory of the pool is not touched meanwhile. */
static void come_and_go(arena *a, int number)
{
    mend_test_random random;
    mend_test_random_init(&random, (uint64_t)number);
    while (!atomic_load(&a->is_over)) {
        if (mend_test_random_below(&random, 3) == 0) {
            commit_or_decommit(a, number, &random);
            continue;
        }
        KIT_THREAD(.sleep_tag = 3 + mend_test_random_below(&random, 2));
        uint64_t size_bytes = 512 * (1 + mend_test_random_below(&random, 3000));
        void *block = NULL;
        if (mend_alloc(a->r.w.pool, size_bytes, a->r.w.streams[number % 3], &block) != MEND_OK) {
            continue;
        }
        block = atomic_exchange(&a->others[mend_test_random_below(&random, OTHERS)], block);
        EXPECT_OK(mend_free(a->r.w.pool, block, a->r.w.streams[number % 3]));
    }
}

static void *work_on(void *argument)
{
    const worker *w = argument;
    arena *a = w->a;
    if (w->number > 0) {
        come_and_go(a, w->number);
        return NULL;
    }
    const uint64_t tags[] = {1, 3};
    mend_sleep_options options = MEND_SLEEP_OPTIONS_INIT;
    options.directory = sleep_rig_directory();
    for (int i = 0; i < CYCLES; i++) {
        options.others = i % 3 == 0 ? MEND_BACKUP_FILE : MEND_BACKUP_HOST;
        EXPECT_OK(mend_sleep(a->r.w.pool, &options, NULL));
        EXPECT_OK(mend_wake(a->r.w.pool, tags, (size_t)(i % 3), NULL));
        EXPECT_OK(mend_wake(a->r.w.pool, NULL, 0, NULL));
    }
    atomic_store(&a->is_over, true);
    return NULL;
}

MEND_TEST(pool_sleep_threads, others_allocate_and_free_meanwhile)
{
    static arena arena_of_all;
    arena *a = &arena_of_all;
    worker workers[THREADS];
    ASSERT_TRUE(sleep_rig_open(&a->r) && sleep_rig_add_pages(&a->r));
    /* Blocks of tags 3 and 4 in turn where one block was, so that the first sleep meets chunks of
     * both, however late the other threads run. */
    const uint64_t row_bytes = (uint64_t)OTHERS * OTHER_BYTES;
    void *row = NULL;
    EXPECT_OK(mend_alloc(a->r.w.pool, row_bytes, a->r.w.streams[0], &row));
    EXPECT_OK(mend_free(a->r.w.pool, row, a->r.w.streams[0]));
    for (int i = 0; i < OTHERS; i++) {
        void *block = NULL;
        KIT_THREAD(.sleep_tag = 3 + (uint64_t)i % 2);
        EXPECT_OK(mend_alloc(a->r.w.pool, OTHER_BYTES, a->r.w.streams[0], &block));
        atomic_init(&a->others[i], block);
    }
    mend_set_alloc_options(NULL, NULL);
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){a, i};
    }
    mend_test_run_threads(work_on, workers, THREADS);
    for (int i = 0; i < OTHERS; i++) {
        EXPECT_OK(mend_free(a->r.w.pool, atomic_load(&a->others[i]), NULL));
    }
    EXPECT_STATS(&a->r.w, asleep_bytes, 0);
    sleep_rig_close(&a->r);
}
