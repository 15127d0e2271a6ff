/* The thread that shows a pool to others: see mend_pool_config.observe. It sums the pool up once a
 * second, or less often if that is slow: it works for at most a hundredth of the time, and has the
 * locks for some 50 us at once. Snapshots it writes when SIGUSR2 has come: its handler stands above
 * the program's own, which it calls, rings the bells of such threads, and is taken away again. */
#include "pool/pool.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/system.h"
#include "base/thread.h"
#include "record/record.h"

enum { PERIOD_MS = 1000, LEAST_IDLE_PARTS = 100 };

/* ---- SIGUSR2 --------------------------------------------------------------------------------- */

/* Runs in any thread of the program, anywhere in it: it takes no lock, and calls write alone. */
static void ring(int number, siginfo_t *info, void *context)
{
    mend_process_signal *process = &mend_process_own_signal;
    const uint64_t one = 1;
    const int kept = errno;
    struct sigaction next = {.sa_handler = SIG_DFL};
    atomic_fetch_add(&process->handling, 1);
    atomic_fetch_add(&process->count, 1);
    for (int i = 0; i < MEND_BELLS; i++) {
        const int bell = atomic_load(&process->bells[i]);
        if (bell != 0) {
            (void)!write(bell - 1, &one, sizeof(one));
        }
    }
    if (atomic_load(&process->is_known)) {
        next = *process->over;
    }
    atomic_fetch_sub(&process->handling, 1);
    errno = kept;
    if ((next.sa_flags & SA_SIGINFO) != 0) {
        next.sa_sigaction(number, info, context);
    } else if (next.sa_handler != SIG_DFL && next.sa_handler != SIG_IGN) {
        next.sa_handler(number);
    }
}

static bool is_on_top(void)
{
    struct sigaction now;
    return sigaction(SIGUSR2, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) != 0 &&
           now.sa_sigaction == ring;
}

/* False: another handler has come above Mend's. That one may call it, so it stays. Also in a child
 * of fork. */
static bool unhook(mend_process_signal *process)
{
    return is_on_top() && sigaction(SIGUSR2, process->over, NULL) == 0;
}

/* Handlers that began before this have finished. */
static void await_handlers(mend_process_signal *process)
{
    while (atomic_load(&process->handling) != 0) {
        nanosleep(&(struct timespec){.tv_nsec = 1000}, NULL);
    }
}

/* With the flags and the mask of the program's own handler, which it calls. */
static bool hook(mend_process_signal *process)
{
    struct sigaction own = {.sa_flags = SA_RESTART};
    atomic_store(&process->is_known, false);
    await_handlers(process);
    if (sigaction(SIGUSR2, NULL, process->over) != 0) {
        return false;
    }
    atomic_store(&process->is_known, true);
    process->unhook = unhook;
    if ((process->over->sa_flags & SA_SIGINFO) != 0 ||
        (process->over->sa_handler != SIG_DFL && process->over->sa_handler != SIG_IGN)) {
        own = *process->over;
    }
    own.sa_flags &= (int)~(unsigned)SA_RESETHAND;
    own.sa_flags |= SA_SIGINFO | SA_ONSTACK;
    own.sa_sigaction = ring;
    return sigaction(SIGUSR2, &own, NULL) == 0;
}

bool mend_signals_hear(int bell)
{
    mend_process_signal *process = &mend_process_own_signal;
    int at = 0;
    mend_mutex_lock(&process->mutex);
    while (at < MEND_BELLS && atomic_load(&process->bells[at]) != 0) {
        at++;
    }
    bool hears = at < MEND_BELLS;
    if (hears) {
        process->is_hooked = process->is_hooked || hook(process);
        hears = process->is_hooked && is_on_top();
        atomic_store(&process->bells[at], hears ? bell + 1 : 0);
    }
    mend_mutex_unlock(&process->mutex);
    return hears;
}

void mend_signals_miss(int bell)
{
    mend_process_signal *process = &mend_process_own_signal;
    bool are_left = false;
    mend_mutex_lock(&process->mutex);
    for (int i = 0; i < MEND_BELLS; i++) {
        int its = bell + 1;
        atomic_compare_exchange_strong(&process->bells[i], &its, 0);
        are_left = are_left || atomic_load(&process->bells[i]) != 0;
    }
    process->is_hooked = process->is_hooked && (are_left || !unhook(process));
    mend_mutex_unlock(&process->mutex);
    await_handlers(process);
}

/* ---- the thread ------------------------------------------------------------------------------ */

struct mend_publisher {
    mend_pool *pool;
    pthread_t thread;
    int file;         /* of the page. -1: none */
    int bell;         /* written: a page or a snapshot is wanted at once, or the thread is to end */
    bool hears;       /* SIGUSR2 rings the bell */
    unsigned number;  /* of the last snapshot */
    unsigned signals; /* that were there at the last look */
    atomic_bool ends;
    bool runs;           /* the thread */
    mend_live_page page; /* the thread's own */
};

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* All of one moment. Of several, if there are more blocks than a step sums up. False: the host has
 * no memory for it. The page stays as it was. */
static bool sum_up(struct mend_publisher *p)
{
    mend_live_page *next = &p->page;
    mend_heap *heap = &p->pool->heap;
    mend_owner suspect;
    size_t count = 0;
    bool goes_on = true;
    mend_owners_sum *owners = mend_owners_begin(MEND_BY_DEFAULT, &next->free);
    if (owners == NULL) {
        return false;
    }
    do {
        mend_heap_lock_to_read(heap);
        goes_on = mend_owners_add(owners, heap, MEND_SPANS_OF_A_STEP);
        if (!goes_on) {
            mend_owners_end(owners, heap, next->owners, MEND_LIVE_OWNERS, &suspect, &count);
            next->before = next->stats;
            next->before_ns = next->time_ns;
            mend_pool_statistics(p->pool, &next->stats);
            next->time_ns = now_ns();
        }
        mend_heap_unlock_after_read(heap);
    } while (goes_on);
    next->owner_count = count;
    return true;
}

static void write_at(const struct mend_publisher *p, size_t from, size_t bytes)
{
    (void)!pwrite(p->file, (const char *)&p->page + from, bytes, (off_t)from);
}

static void *publish(void *context)
{
    enum {
        SEQUENCE = offsetof(mend_live_page, sequence),
        TIME = offsetof(mend_live_page, time_ns)
    };
    struct mend_publisher *p = context;
    struct pollfd bell = {.fd = p->bell, .events = POLLIN};
    eventfd_t rung;
    do {
        int idle_ms = -1; /* until the bell is written */
        if (p->file >= 0) {
            const uint64_t began_ns = now_ns();
            if (sum_up(p)) {
                p->page.sequence++;
                write_at(p, SEQUENCE, sizeof(p->page.sequence));
                write_at(p, TIME, sizeof(p->page) - TIME);
                p->page.sequence++;
                write_at(p, SEQUENCE, sizeof(p->page.sequence));
            }
            const uint64_t took_ms = (now_ns() - began_ns) / UINT64_C(1000000);
            idle_ms =
                (int)mend_min_u64(mend_max_u64(PERIOD_MS, took_ms * LEAST_IDLE_PARTS), INT_MAX);
        }
        (void)poll(&bell, 1, idle_ms);
        (void)eventfd_read(p->bell, &rung);
        const unsigned signals = atomic_load(&mend_process_own_signal.count);
        if (p->hears && signals != p->signals) { /* also one from just before the end */
            p->signals = signals;
            mend_pool_snapshot(p->pool, p->pool->observed.snapshots, &p->number);
        }
    } while (!atomic_load(&p->ends));
    return NULL;
}

/* After a failure the pool ends, and closes it. The page is a file in memory that cannot be cut
 * while it is read. */
mend_result mend_publisher_start(mend_observers *observers)
{
    const mend_pool *pool = observers->pool;
    const bool writes_snapshots = pool->observed.snapshots[0] != '\0';
    if (!pool->observed.top && !writes_snapshots) {
        return MEND_OK;
    }
    struct mend_publisher *p = calloc(1, sizeof(*p));
    if (p == NULL) {
        return mend_failure(MEND_ERROR_OUT_OF_HOST_MEMORY, "malloc failed to publish a pool");
    }
    p->pool = observers->pool;
    p->file = -1;
    p->bell = mend_file_keep(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    p->page = (mend_live_page){.magic = MEND_LIVE_MAGIC,
                               .version = MEND_LIVE_VERSION,
                               .page_bytes = sizeof(p->page),
                               .process = (uint64_t)getpid(),
                               .device = pool->device,
                               .stats = MEND_STATS_INIT};
    observers->publisher = p;
    if (p->bell < 0) {
        return mend_failure(MEND_ERROR_SYSTEM, "no bell to publish a pool: %s", strerror(errno));
    }
    if (pool->observed.top) {
        p->file = mend_file_keep(memfd_create(MEND_LIVE_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING));
        if (p->file < 0 || pwrite(p->file, &p->page, sizeof(p->page), 0) != sizeof(p->page) ||
            fcntl(p->file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
            return mend_failure(MEND_ERROR_SYSTEM, "no file to publish the pool: %s",
                                strerror(errno));
        }
    }
    p->signals = atomic_load(&mend_process_own_signal.count);
    p->hears = writes_snapshots && mend_signals_hear(p->bell);
    if (writes_snapshots && !p->hears) {
        return mend_failure(MEND_ERROR_SYSTEM,
                            "no snapshots on SIGUSR2: the program has set a handler above Mend's, "
                            "or %d pools hear the signal",
                            MEND_BELLS);
    }
    p->runs = mend_start_service(&p->thread, "mend-publisher", publish, p);
    return p->runs
               ? MEND_OK
               : mend_failure(MEND_ERROR_SYSTEM, "the system started no thread to publish a pool");
}

void mend_publisher_ring(const mend_observers *observers)
{
    (void)eventfd_write(observers->publisher->bell, 1);
}

void mend_publisher_stop(mend_observers *observers)
{
    struct mend_publisher *p = observers->publisher;
    if (p == NULL) {
        return;
    }
    if (p->runs) {
        atomic_store(&p->ends, true);
        mend_publisher_ring(observers);
        pthread_join(p->thread, NULL);
    }
    if (p->hears) {
        mend_signals_miss(p->bell);
    }
    if (p->bell >= 0) {
        close(p->bell);
    }
    if (p->file >= 0) {
        close(p->file);
    }
    free(p);
    observers->publisher = NULL;
}
