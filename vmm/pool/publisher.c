/*
 * The thread that publishes a pool: see mend_pool_config.publish. It sums the pool up once a
 * second, and less often where that takes long: at most a hundredth of the time the locks are its
 * own.
 */
#include "pool/pool.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/live_page.h"

enum { PERIOD_MS = 1000, LEAST_IDLE_PARTS = 100 };

struct mend_publisher {
    mend_pool *pool;
    pthread_t thread;
    int file;
    int bell; /* written: a page is wanted at once, or the thread is to end */
    atomic_bool ends;
    mend_live_page page; /* the thread's own */
};

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static mend_live_free free_of(const mend_explanation *why)
{
    mend_live_free found = {.whole_bytes = why->unmapped_bytes};
    for (int zone = 0; zone < MEND_ZONE_COUNT; zone++) {
        for (int place = 0; place < MEND_FREE_PLACES; place++) {
            const uint64_t *bytes = why->free_bytes[zone][place];
            uint64_t *idle = place == MEND_FREE_EMPTY ? &found.whole_bytes : &found.beside_bytes;
            *idle += bytes[MEND_FREE_IDLE];
            found.streams_bytes += bytes[MEND_FREE_OWN] + bytes[MEND_FREE_STREAMS];
            found.no_stream_bytes += bytes[MEND_FREE_STREAMLESS];
            found.graphs_bytes += bytes[MEND_FREE_GROUPS];
        }
    }
    return found;
}

/* False: the pool tells nothing, because a call failed; the page stays as it was. */
static bool sum_up(struct mend_publisher *p)
{
    mend_live_page *next = &p->page;
    mend_explanation why;
    size_t count = 0;
    next->before = next->stats;
    next->before_ns = next->time_ns;
    next->stats = (mend_stats)MEND_STATS_INIT;
    if (mend_get_stats(p->pool, &next->stats) != MEND_OK ||
        mend_pool_explain(p->pool, MEND_NO_STREAM, &why) != MEND_OK ||
        mend_get_holders(p->pool, next->holders, sizeof(mend_holder), MEND_LIVE_HOLDERS, &count) !=
            MEND_OK) {
        return false;
    }
    next->free = free_of(&why);
    next->holder_count = count;
    next->time_ns = now_ns();
    return true;
}

static void write_at(const struct mend_publisher *p, size_t from, size_t bytes)
{
    (void)!pwrite(p->file, (const char *)&p->page + from, bytes, (off_t)from);
}

static void write_page(struct mend_publisher *p)
{
    enum {
        SEQUENCE = offsetof(mend_live_page, sequence),
        TIME = offsetof(mend_live_page, time_ns)
    };
    if (sum_up(p)) {
        p->page.sequence++;
        write_at(p, SEQUENCE, sizeof(p->page.sequence));
        write_at(p, TIME, sizeof(p->page) - TIME);
        p->page.sequence++;
        write_at(p, SEQUENCE, sizeof(p->page.sequence));
    }
}

static void *publish(void *context)
{
    struct mend_publisher *p = context;
    struct pollfd bell = {.fd = p->bell, .events = POLLIN};
    eventfd_t rung;
    while (!atomic_load(&p->ends)) {
        const uint64_t began_ns = now_ns();
        write_page(p);
        const uint64_t took_ms = (now_ns() - began_ns) / UINT64_C(1000000);
        const uint64_t idle_ms =
            mend_min_u64(mend_max_u64(PERIOD_MS, took_ms * LEAST_IDLE_PARTS), INT_MAX);
        (void)poll(&bell, 1, (int)idle_ms);
        (void)eventfd_read(p->bell, &rung);
    }
    return NULL;
}

/* A file in memory that nobody can cut while it is read. */
static mend_result open_page(struct mend_publisher *p)
{
    p->file = memfd_create(MEND_LIVE_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (p->file < 0 || ftruncate(p->file, sizeof(mend_live_page)) != 0 ||
        fcntl(p->file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
        return mend_failure(MEND_ERROR_SYSTEM, "no file to publish the pool: %s", strerror(errno));
    }
    p->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    p->page = (mend_live_page){.magic = MEND_LIVE_MAGIC,
                               .version = MEND_LIVE_VERSION,
                               .page_bytes = sizeof(p->page),
                               .process = (uint64_t)getpid(),
                               .device = p->pool->device};
    if (p->bell < 0 || pwrite(p->file, &p->page, sizeof(p->page), 0) != sizeof(p->page)) {
        return mend_failure(MEND_ERROR_SYSTEM, "no page to publish the pool: %s", strerror(errno));
    }
    return MEND_OK;
}

static void close_all(struct mend_publisher *p)
{
    if (p->bell >= 0) {
        close(p->bell);
    }
    if (p->file >= 0) {
        close(p->file);
    }
    free(p);
}

mend_result mend_publisher_start(mend_pool *pool)
{
    struct mend_publisher *p = calloc(1, sizeof(*p));
    if (p == NULL) {
        return mend_failure(MEND_ERROR_OUT_OF_HOST_MEMORY, "malloc failed to publish a pool");
    }
    p->pool = pool;
    p->file = -1;
    p->bell = -1;
    mend_result result = open_page(p);
    if (result == MEND_OK && !mend_share_start_thread(&p->thread, publish, p)) {
        result = mend_failure(MEND_ERROR_SYSTEM, "the system started no thread to publish a pool");
    }
    if (result != MEND_OK) {
        close_all(p);
        return result;
    }
    pool->publisher = p;
    return MEND_OK;
}

void mend_publisher_ring(const mend_pool *pool)
{
    (void)eventfd_write(pool->publisher->bell, 1);
}

void mend_publisher_stop(mend_pool *pool)
{
    struct mend_publisher *p = pool->publisher;
    if (p != NULL) {
        atomic_store(&p->ends, true);
        mend_publisher_ring(pool);
        pthread_join(p->thread, NULL);
        close_all(p);
        pool->publisher = NULL;
    }
}
