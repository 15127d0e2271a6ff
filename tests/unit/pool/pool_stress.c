/*
 * Threads that do everything at once, on pools of one device that is too small for them: blocks
 * pass between threads, streams and callbacks, graph pools and pages of a range come and go, peer
 * pools are made, asked for memory and destroyed, and the history tells of it. Nothing but the
 * locks of the pools orders them, so that the thread sanitizer sees unguarded accesses.
 * tests/interleave searches through the orders.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "mend/mend_frameworks.h"
#include "mend/mend_range.h"
#include "tests/support/follower.h"
#include "tests/support/kit.h"
#include "tests/support/threads.h"

enum { THREADS = 4, POOLS = 2, ROUNDS = 250, SLOTS = 12, MOST_PAGES = 12, RANGE_PAGES = 4 };
#define RANGE_PAGE (256 * MEND_KIB)

typedef struct block {
    mend_pool *pool; /* NULL: none */
    void *pointer;
    uint64_t size_bytes;
    uint64_t tag;
    mend_stream stream;
} block;

typedef struct stress {
    mend_world w;
    mend_pool *pools[POOLS]; /* the first with a history, and a range */
    mend_range *range;
    char *base;
    pthread_mutex_t mutex;
    block slots[SLOTS]; /* guarded by mutex */
    atomic_int refused; /* calls that may not fail, and did */
} stress;

typedef struct worker {
    stress *shared;
    mend_stream stream;
    mend_test_random random;
    atomic_bool is_added; /* its callback */
    uint64_t number;
    uint64_t cursor; /* in the history */
} worker;

static void must(stress *s, mend_result result)
{
    atomic_fetch_add(&s->refused, result != MEND_OK);
}

static void launch(stress *s, const block *b, mend_sim_work_kind kind)
{
    kit_launch(&s->w, b->stream, kind, b->pointer, b->size_bytes, b->tag,
               mend_sim_now_ns(s->w.sim) + 30);
}

static block swap(stress *s, uint64_t slot, block mine)
{
    pthread_mutex_lock(&s->mutex);
    block other = s->slots[slot];
    s->slots[slot] = mine;
    pthread_mutex_unlock(&s->mutex);
    return other;
}

static bool release(stress *s, const block *b)
{
    if (b->pool == NULL) {
        return false;
    }
    launch(s, b, MEND_SIM_WORK_VERIFY);
    must(s, mend_free(b->pool, b->pointer, b->stream));
    return true;
}

static block take(worker *w, mend_pool *pool)
{
    stress *s = w->shared;
    block b = {.size_bytes = (1 + mend_test_random_below(&w->random, MOST_PAGES)) * 32 * MEND_KIB,
               .tag = __atomic_add_fetch(&s->w.last_tag, 1, __ATOMIC_RELAXED),
               .stream = w->stream};
    mend_result result = mend_alloc(pool, b.size_bytes, w->stream, &b.pointer);
    if (result == MEND_OK) {
        b.pool = pool;
        launch(s, &b, MEND_SIM_WORK_WRITE);
    }
    must(s, result == MEND_ERROR_OUT_OF_MEMORY ? MEND_OK : result);
    return b;
}

/* Frees the block of a slot, of any pool and thread. */
KIT_PRESSURE(press)
{
    worker *w = context;
    atomic_fetch_add(&w->shared->refused, !atomic_load(&w->is_added));
    block b = swap(w->shared, needed_bytes % SLOTS, (block){0});
    return release(w->shared, &b);
}

static void change_callback(worker *w)
{
    mend_pool *pool = w->shared->pools[0];
    if (atomic_load(&w->is_added)) {
        must(w->shared, mend_remove_pressure_callback(pool, press, w));
        atomic_store(&w->is_added, false);
    } else {
        atomic_store(&w->is_added, true);
        must(w->shared, mend_add_pressure_callback(pool, press, w));
    }
}

/* A block of the graph pool goes to another thread, and lives on when the graph pool has been
 * released. */
static void use_graph_pool(worker *w, mend_pool *pool)
{
    stress *s = w->shared;
    mend_graph_pool *graph_pool;
    must(s, mend_graph_pool_create(pool, &graph_pool));
    must(s, mend_graph_pool_begin(graph_pool, w->stream));
    block first = take(w, pool);
    release(s, &first);
    block second = take(w, pool);
    must(s, mend_graph_pool_end(graph_pool));
    second = swap(s, mend_test_random_below(&w->random, SLOTS), second);
    release(s, &second);
    must(s, mend_graph_pool_destroy(graph_pool, MEND_NO_STREAM));
}

/* One that others ask for memory while it goes. */
static void use_peer_pool(worker *w)
{
    stress *s = w->shared;
    mend_pool *pool;
    mend_result result = mend_world_create_pool(&s->w, &pool);
    must(s, result);
    if (result == MEND_OK) {
        block b = take(w, pool);
        release(s, &b);
        must(s, mend_pool_destroy(pool));
    }
}

/* Pages of two threads alternate, so that gaps and runs of both touch. */
static void change_page(worker *w)
{
    stress *s = w->shared;
    const uint64_t page = mend_test_random_below(&w->random, RANGE_PAGES) * THREADS + w->number;
    mend_result result = mend_range_commit(s->range, page * RANGE_PAGE, RANGE_PAGE, w->stream);
    if (result == MEND_OK) {
        kit_use(&s->w, w->stream, s->base + page * RANGE_PAGE, RANGE_PAGE, 20);
    }
    must(s, result == MEND_ERROR_OUT_OF_MEMORY ? MEND_OK : result);
    if (mend_test_random_below(&w->random, 3) > 0) {
        must(s, mend_range_decommit(s->range, page * RANGE_PAGE, RANGE_PAGE, w->stream));
    }
}

/* The events come one after the other, for every reader. */
static void read_along(worker *w)
{
    mend_history_event events[32];
    size_t count = 0;
    uint64_t last = 0;
    must(w->shared,
         mend_history_read(w->shared->pools[0], &w->cursor, events, sizeof(*events), 32, &count));
    for (size_t i = 0; i < count; i++) {
        must(w->shared, i == 0 || events[i].sequence == last + 1 ? MEND_OK : MEND_ERROR_INTERNAL);
        last = events[i].sequence;
    }
}

static void look(stress *s, mend_pool *pool)
{
    mend_stats stats = MEND_STATS_INIT;
    must(s, mend_get_stats(pool, &stats));
    must(s, stats.live_bytes + stats.free_bytes == stats.reserved_bytes ? MEND_OK
                                                                        : MEND_ERROR_INTERNAL);
    must(s, mend_reset_peak_stats(pool));
    must(s, mend_validate(pool));
}

static void do_something_else(worker *w, mend_pool *pool)
{
    stress *s = w->shared;
    switch (mend_test_random_below(&w->random, 15)) {
    case 0:
        change_callback(w);
        break;
    case 1:
        use_graph_pool(w, pool);
        break;
    case 2:
        use_peer_pool(w);
        break;
    case 3:
        must(s, mend_trim(pool, 1 * MEND_MIB, MEND_TRIM_IDLE, NULL));
        break;
    case 4:
        must(s, mend_unregister_stream(pool, w->stream));
        break;
    case 5:
        look(s, pool);
        break;
    case 6:
    case 7:
        change_page(w);
        break;
    case 8:
        read_along(w);
        break;
    case 9:
        must(s, mend_set_limit(pool, (1 + mend_test_random_below(&w->random, 3)) * MEND_MIB));
        break;
    default:
        mend_sim_advance(s->w.sim, 20);
        break;
    }
}

static void *work_on(void *argument)
{
    worker *w = argument;
    stress *s = w->shared;
    for (int i = 0; i < ROUNDS; i++) {
        mend_pool *pool = s->pools[mend_test_random_below(&w->random, POOLS)];
        block b = take(w, pool);
        b = swap(s, mend_test_random_below(&w->random, SLOTS), b);
        release(s, &b);
        do_something_else(w, pool);
    }
    if (atomic_load(&w->is_added)) {
        change_callback(w);
    }
    return NULL;
}

MEND_TEST(pool_stress, threads_do_everything_at_once)
{
    static stress s;
    static worker workers[THREADS];
    s = (stress){.mutex = PTHREAD_MUTEX_INITIALIZER};
    mend_world *w = &s.w;
    mend_follower follower = {.pool = NULL};
    mend_range_info info = MEND_RANGE_INFO_INIT;
    char finding[MEND_FOLLOWER_FINDING_BYTES] = "";
    ASSERT_TRUE(kit_open_set(w, w->sim_config.memory_bytes = 3 * MEND_MIB,
                             w->placement.chunk_bytes = 256 * MEND_KIB));
    s.pools[0] = w->pool;
    s.pools[1] = kit_pool(w);
    EXPECT_OK(mend_range_create(
        w->pool, MEND_GIB, KIT_OPTIONS(mend_range_options, .page_bytes = RANGE_PAGE), &s.range));
    EXPECT_OK(mend_range_get_info(s.range, &info));
    s.base = info.base;
    EXPECT_OK(mend_history_start(w->pool, 1 << 16));
    EXPECT_TRUE(mend_follower_begin(&follower, w->pool));
    for (uint64_t i = 0; i < THREADS; i++) {
        workers[i] = (worker){.shared = &s, .number = i, .stream = kit_stream(w)};
        mend_test_random_init(&workers[i].random, mend_test_seed() + i);
    }
    mend_test_run_threads(work_on, workers, THREADS);
    for (int i = 0; i < SLOTS; i++) {
        release(&s, &s.slots[i]);
    }
    mend_sim_advance(w->sim, 1000);
    EXPECT_INT_EQ(0, atomic_load(&s.refused));
    EXPECT_TRUE(mend_world_stats(w).pages_committed > 0);
    MEND_TEST_CHECK(mend_follower_follow(&follower, finding), (void)0, "%s", finding);
    EXPECT_U64_EQ(0, follower.lost);
    EXPECT_TRUE(follower.seen[MEND_EVENT_ALLOC] > THREADS * ROUNDS / 4);
    mend_follower_end(&follower);
    EXPECT_OK(mend_range_destroy(s.range, MEND_NO_STREAM));
    EXPECT_OK(mend_validate(s.pools[1]));
    EXPECT_OK(mend_pool_destroy(s.pools[1]));
    kit_close(w);
}
