/* The variables of the process, each with its lock, and what a fork makes of them in the child. */
#include "base/process.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/align.h"
#include "base/mutex.h"

#define LOG_MUTEX_INITIALIZER     MEND_MUTEX_INITIALIZER(MEND_RANK_LOG)
#define PROCESS_MUTEX_INITIALIZER MEND_MUTEX_INITIALIZER(MEND_RANK_PROCESS)
#define SHARE_MUTEX_INITIALIZER   MEND_MUTEX_INITIALIZER(MEND_RANK_SHARE)

static atomic_bool is_prepared;

static mend_mutex log_mutex = LOG_MUTEX_INITIALIZER;
static mend_log_sink log_sink;
static int log_shown; /* this level and above go to standard error; 0: none */
static void *log_context;

static mend_mutex driver_mutex = PROCESS_MUTEX_INITIALIZER;
static const mend_driver *cuda_driver;

static mend_mutex member_mutex = PROCESS_MUTEX_INITIALIZER;
static mend_condition visit_ended = MEND_CONDITION_INITIALIZER;
static mend_list members = {&members, &members}; /* in order of their numbers */
static uint64_t last_number;

static mend_mutex begun_mutex = SHARE_MUTEX_INITIALIZER;
static mend_condition unsafe_call_ended = MEND_CONDITION_INITIALIZER;
static unsigned begun_count; /* groups of all pools */
static bool is_in_unsafe_call;

static mend_process_devices devices = {.mutex = PROCESS_MUTEX_INITIALIZER};

static mend_mutex signal_mutex = PROCESS_MUTEX_INITIALIZER; /* guards the first two */
static bool is_hooked;                                      /* the handler is Mend's */
static struct sigaction hooked_over;                        /* the program's */
static atomic_bool is_known;         /* hooked_over is whole: for the handler, as the next three */
static atomic_int bells[MEND_BELLS]; /* files + 1; 0: none */
static atomic_uint signals;
static atomic_int handling; /* handlers that look at these now */

static int compare_numbers(const mend_tree_node *a, const mend_tree_node *b)
{
    uint64_t first = MEND_CONTAINER_OF(a, mend_published, by_number)->number;
    uint64_t second = MEND_CONTAINER_OF(b, mend_published, by_number)->number;
    return (first > second) - (first < second);
}

static mend_process_shares shares = {.mutex = SHARE_MUTEX_INITIALIZER,
                                     .published = {.compare = compare_numbers}};

static mend_process_scopes scopes = {.mutex = LOG_MUTEX_INITIALIZER};

/* ---- fork ------------------------------------------------------------------------------------ */

/*
 * The files of exports would keep the memory after the parent has freed it, and importers would
 * find a socket that nobody serves. No other thread is about to change them: see before_fork.
 */
static void close_shares(void)
{
    for (const mend_tree_node *at = mend_tree_first(&shares.published); at != NULL;
         at = mend_tree_next(at)) {
        const mend_published *export = MEND_CONTAINER_OF(at, mend_published, by_number);
        for (size_t i = 0; i < export->count; i++) {
            (void)close(export->chunks[i].file); /* two exports may have one chunk */
        }
    }
    for (int i = 0; i < MEND_SHARE_VISITORS; i++) {
        if (shares.visitors[i].is_here) {
            (void)close(shares.visitors[i].socket);
        }
    }
    if (shares.is_open) {
        (void)close(shares.listener);
    }
    shares = (mend_process_shares){.mutex = SHARE_MUTEX_INITIALIZER,
                                   .published = {.compare = compare_numbers}};
}

static void hear_signal(int number, siginfo_t *info, void *context);

static bool is_ours(const struct sigaction *action)
{
    return (action->sa_flags & SA_SIGINFO) != 0 && action->sa_sigaction == hear_signal;
}

/* False: another handler has come above Mend's. That one may call it, so it stays. */
static bool unhook(void)
{
    struct sigaction now;
    if (sigaction(SIGUSR2, NULL, &now) != 0 || !is_ours(&now)) {
        return false;
    }
    return sigaction(SIGUSR2, &hooked_over, NULL) == 0;
}

/* The bells are the parent's. */
static void forget_signal(void)
{
    for (int i = 0; i < MEND_BELLS; i++) {
        atomic_store_explicit(&bells[i], 0, memory_order_relaxed);
    }
    atomic_store_explicit(&handling, 0, memory_order_relaxed);
    signal_mutex = (mend_mutex)PROCESS_MUTEX_INITIALIZER;
    is_hooked = is_hooked && !unhook();
}

static void before_fork(void)
{
    mend_mutex_lock_for_fork(&shares.mutex);
}

static void after_fork_in_parent(void)
{
    mend_mutex_unlock_after_fork(&shares.mutex);
}

/*
 * Runs in the child. Other threads of the parent may have been anywhere, so it reads, frees and
 * unlocks nothing inherited but the exports. It only stores and closes files, which is all that a
 * child of a threaded process may do. It drops the sink, which may need a lock that one of those
 * threads held, and the driver's table.
 */
static void start_anew(void)
{
    close_shares();
    forget_signal();
    mend_process_next_generation();
    log_mutex = (mend_mutex)LOG_MUTEX_INITIALIZER;
    log_sink = NULL;
    log_context = NULL;
    driver_mutex = (mend_mutex)PROCESS_MUTEX_INITIALIZER;
    cuda_driver = NULL;
    member_mutex = (mend_mutex)PROCESS_MUTEX_INITIALIZER;
    visit_ended = (mend_condition)MEND_CONDITION_INITIALIZER;
    mend_list_init(&members);
    begun_mutex = (mend_mutex)SHARE_MUTEX_INITIALIZER;
    unsafe_call_ended = (mend_condition)MEND_CONDITION_INITIALIZER;
    begun_count = 0;
    is_in_unsafe_call = false;
    devices.mutex = (mend_mutex)PROCESS_MUTEX_INITIALIZER;
    memset(devices.override, 0, sizeof(devices.override));
    atomic_store_explicit(&devices.override_count, 0, memory_order_relaxed);
    mend_pointer_map_init(&devices.blocks);
    scopes.mutex = (mend_mutex)LOG_MUTEX_INITIALIZER;
    /* The thread that shared it may not exist here, and would never end it. */
    atomic_store_explicit(&mend_process_common_scope, 0, memory_order_relaxed);
}

/* Two threads may both register the handler, which does no harm. A lock here could be held during a
 * fork, before the handler exists that would reset it in the child. */
mend_result mend_process_prepare(void)
{
    if (atomic_load_explicit(&is_prepared, memory_order_acquire)) {
        return MEND_OK;
    }
    if (pthread_atfork(before_fork, after_fork_in_parent, start_anew) != 0) {
        return MEND_ERROR_OUT_OF_HOST_MEMORY;
    }
    atomic_store_explicit(&is_prepared, true, memory_order_release);
    return MEND_OK;
}

/* ---- members --------------------------------------------------------------------------------- */

void mend_process_join(mend_process_member *member)
{
    mend_mutex_lock(&member_mutex);
    member->visitors = 0;
    member->number = ++last_number;
    mend_list_append(&members, &member->link);
    mend_mutex_unlock(&member_mutex);
}

void mend_process_leave(mend_process_member *member)
{
    mend_mutex_lock(&member_mutex);
    assert(member->number != 0);
    mend_list_remove(&member->link);
    while (member->visitors > 0) {
        mend_condition_wait(&visit_ended, &member_mutex);
    }
    mend_mutex_unlock(&member_mutex);
}

/* The caller holds member_mutex. */
static mend_process_member *member_after(uint64_t number, const void *domain, int device)
{
    assert(mend_mutex_is_held(&member_mutex));
    for (mend_list *at = members.next; at != &members; at = at->next) {
        mend_process_member *member = MEND_CONTAINER_OF(at, mend_process_member, link);
        if (member->number > number && member->domain == domain && member->device == device) {
            return member;
        }
    }
    return NULL;
}

mend_process_member *mend_process_visit_next(const void *domain, int device, uint64_t *cursor)
{
    mend_mutex_lock(&member_mutex);
    mend_process_member *member = member_after(*cursor, domain, device);
    if (member != NULL) {
        assert(member->number > *cursor);
        member->visitors++;
        *cursor = member->number;
    }
    mend_mutex_unlock(&member_mutex);
    return member;
}

void mend_process_visit_end(mend_process_member *member)
{
    mend_mutex_lock(&member_mutex);
    assert(member->visitors != 0);
    member->visitors--;
    if (member->visitors == 0) {
        mend_condition_wake_all(&visit_ended);
    }
    mend_mutex_unlock(&member_mutex);
}

/* ---- devices --------------------------------------------------------------------------------- */

mend_process_devices *mend_process_get_devices(void)
{
    return &devices;
}

void mend_process_drop_pool(int device, const mend_pool *pool)
{
    assert(device >= 0);
    assert(pool != NULL);
    mend_mutex_lock(&devices.mutex);
    if (device < MEND_DEVICE_LIMIT && atomic_load(&devices.device[device].pool) == pool) {
        atomic_store(&devices.device[device].pool, NULL);
    }
    mend_mutex_unlock(&devices.mutex);
}

/* ---- captures that the program announced -----------------------------------------------------
 */

static atomic_uint graph_ends;

void mend_process_note_graph_end(void)
{
    atomic_fetch_add(&graph_ends, 1u);
}

unsigned mend_process_graph_ends(void)
{
    return atomic_load(&graph_ends);
}

void mend_process_note_begun(bool is_begun)
{
    mend_mutex_lock(&begun_mutex);
    begun_count += is_begun ? 1u : UINT_MAX;
    mend_mutex_unlock(&begun_mutex);
}

bool mend_process_has_begun(void)
{
    mend_mutex_lock(&begun_mutex);
    const bool any = begun_count > 0;
    mend_mutex_unlock(&begun_mutex);
    return any;
}

bool mend_process_begin_unsafe_call(void)
{
    mend_mutex_lock(&begun_mutex);
    const bool may_call = begun_count == 0 && !is_in_unsafe_call;
    is_in_unsafe_call |= may_call;
    mend_mutex_unlock(&begun_mutex);
    return may_call;
}

void mend_process_end_unsafe_call(void)
{
    mend_mutex_lock(&begun_mutex);
    assert(is_in_unsafe_call);
    is_in_unsafe_call = false;
    mend_condition_wake_all(&unsafe_call_ended);
    mend_mutex_unlock(&begun_mutex);
}

void mend_process_await_unsafe_call(void)
{
    mend_mutex_lock(&begun_mutex);
    while (is_in_unsafe_call) {
        mend_condition_wait(&unsafe_call_ended, &begun_mutex);
    }
    mend_mutex_unlock(&begun_mutex);
}

/* ---- exports --------------------------------------------------------------------------------- */

mend_process_shares *mend_process_get_shares(void)
{
    return &shares;
}

mend_process_scopes *mend_process_get_scopes(void)
{
    return &scopes;
}

/* ---- SIGUSR2 --------------------------------------------------------------------------------- */

/* Runs in any thread of the program, anywhere in it: it takes no lock, and calls write alone. */
static void hear_signal(int number, siginfo_t *info, void *context)
{
    const uint64_t one = 1;
    const int kept = errno;
    struct sigaction next = {.sa_handler = SIG_DFL};
    atomic_fetch_add(&handling, 1);
    atomic_fetch_add(&signals, 1);
    for (int i = 0; i < MEND_BELLS; i++) {
        const int bell = atomic_load(&bells[i]);
        if (bell != 0) {
            (void)!write(bell - 1, &one, sizeof(one));
        }
    }
    if (atomic_load(&is_known)) {
        next = hooked_over;
    }
    atomic_fetch_sub(&handling, 1);
    errno = kept;
    if ((next.sa_flags & SA_SIGINFO) != 0) {
        next.sa_sigaction(number, info, context);
    } else if (next.sa_handler != SIG_DFL && next.sa_handler != SIG_IGN) {
        next.sa_handler(number);
    }
}

/* No handler looks at what was stored over before this. */
static void await_handlers(void)
{
    while (atomic_load(&handling) != 0) {
        nanosleep(&(struct timespec){.tv_nsec = 1000}, NULL);
    }
}

/* With the flags and the mask of the program's own handler, which it calls. */
static bool hook(void)
{
    struct sigaction ours = {.sa_flags = 0};
    atomic_store(&is_known, false);
    await_handlers();
    if (sigaction(SIGUSR2, NULL, &hooked_over) != 0) {
        return false;
    }
    atomic_store(&is_known, true);
    const bool is_handled =
        (hooked_over.sa_flags & SA_SIGINFO) != 0 ||
        (hooked_over.sa_handler != SIG_DFL && hooked_over.sa_handler != SIG_IGN);
    if (is_handled) {
        ours = hooked_over;
    }
    ours.sa_flags &= (int)~(unsigned)SA_RESETHAND;
    ours.sa_flags |= SA_SIGINFO | SA_ONSTACK | (is_handled ? 0 : SA_RESTART);
    ours.sa_sigaction = hear_signal;
    return sigaction(SIGUSR2, &ours, NULL) == 0;
}

/* The caller holds signal_mutex. */
static bool add_bell(int bell)
{
    struct sigaction now;
    for (int i = 0; i < MEND_BELLS; i++) {
        if (atomic_load(&bells[i]) == 0) {
            is_hooked = is_hooked || hook();
            const bool hears = is_hooked && sigaction(SIGUSR2, NULL, &now) == 0 && is_ours(&now);
            atomic_store(&bells[i], hears ? bell + 1 : 0);
            return hears;
        }
    }
    return false;
}

bool mend_process_hear_signal(int bell)
{
    mend_mutex_lock(&signal_mutex);
    const bool hears = add_bell(bell);
    mend_mutex_unlock(&signal_mutex);
    return hears;
}

void mend_process_miss_signal(int bell)
{
    bool are_left = false;
    mend_mutex_lock(&signal_mutex);
    for (int i = 0; i < MEND_BELLS; i++) {
        int its = bell + 1;
        atomic_compare_exchange_strong(&bells[i], &its, 0);
        are_left = are_left || atomic_load(&bells[i]) != 0;
    }
    is_hooked = is_hooked && (are_left || !unhook());
    mend_mutex_unlock(&signal_mutex);
    await_handlers();
}

unsigned mend_process_signals(void)
{
    return atomic_load(&signals);
}

/* ---- log and driver -------------------------------------------------------------------------- */

int mend_process_get_log_sink(mend_log_sink *sink, void **context)
{
    mend_mutex_lock(&log_mutex);
    *sink = log_sink;
    *context = log_context;
    int shown = log_shown;
    mend_mutex_unlock(&log_mutex);
    return shown;
}

void mend_process_show_log(int level)
{
    assert(level > 0);
    mend_mutex_lock(&log_mutex);
    log_shown = log_shown == 0 || level < log_shown ? level : log_shown;
    mend_mutex_unlock(&log_mutex);
}

void mend_process_set_log_sink(mend_log_sink sink, void *context)
{
    (void)mend_process_prepare(); /* if it fails, a child of fork keeps the sink, and nothing
                                   * else */
    mend_mutex_lock(&log_mutex);
    log_sink = sink;
    log_context = context;
    mend_mutex_unlock(&log_mutex);
}

mend_result mend_process_cuda_driver(mend_result (*load)(const mend_driver **driver),
                                     const mend_driver **driver)
{
    mend_mutex_lock(&driver_mutex);
    mend_result result = cuda_driver != NULL ? MEND_OK : load(&cuda_driver);
    if (result == MEND_OK) {
        assert(cuda_driver != NULL);
        *driver = cuda_driver;
    }
    mend_mutex_unlock(&driver_mutex);
    return result;
}

const char *mend_process_configuration(void)
{
    return secure_getenv("MEND_CONF");
}

const char *mend_process_recording(void)
{
    const char *path = secure_getenv("MEND_RECORD");
    return path != NULL && path[0] != 0 ? path : NULL;
}
