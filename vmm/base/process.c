/* The variables of the process, each with its lock, and their state in a child of fork. */
#include "base/process.h"

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOG_MUTEX_INITIALIZER     MEND_MUTEX_INITIALIZER(MEND_RANK_LOG)
#define PROCESS_MUTEX_INITIALIZER MEND_MUTEX_INITIALIZER(MEND_RANK_PROCESS)
#define SHARE_MUTEX_INITIALIZER   MEND_MUTEX_INITIALIZER(MEND_RANK_SHARE)

_Atomic uint64_t mend_process_generation_now = 1; /* a child of fork adds one */

static atomic_bool is_prepared;

mend_process_log mend_process_own_log = {.mutex = LOG_MUTEX_INITIALIZER};

static mend_mutex driver_mutex = PROCESS_MUTEX_INITIALIZER;
static const mend_driver *cuda_driver;

#define MEMBERS_INITIALIZER(members, lock_rank)                                                    \
    {                                                                                              \
        .mutex = MEND_MUTEX_INITIALIZER(lock_rank), .visit_ended = PTHREAD_COND_INITIALIZER,       \
        .list = {                                                                                  \
            &(members).list,                                                                       \
            &(members).list                                                                        \
        }                                                                                          \
    }
mend_process_members mend_process_pools =
    MEMBERS_INITIALIZER(mend_process_pools, MEND_RANK_PROCESS);
mend_process_members mend_process_watches =
    MEMBERS_INITIALIZER(mend_process_watches, MEND_RANK_SHARE);

static void *buried[MEND_POOLS_KEPT]; /* guarded by the mutex of pools */
static unsigned buried_count;

static mend_mutex begun_mutex = SHARE_MUTEX_INITIALIZER;
static pthread_cond_t unsafe_call_ended = PTHREAD_COND_INITIALIZER;
atomic_uint mend_process_begun_count;
static bool is_in_unsafe_call;

mend_process_devices mend_process_own_devices = {.mutex = PROCESS_MUTEX_INITIALIZER};

mend_nvtx mend_process_nvtx = {.mutex = PROCESS_MUTEX_INITIALIZER};

static struct sigaction handled_before;
mend_process_signal mend_process_own_signal = {.mutex = PROCESS_MUTEX_INITIALIZER,
                                               .over = &handled_before};

MEND_TREE_ORDER(compare_numbers, mend_published, by_number, number);
mend_process_shares mend_process_own_shares = {.mutex = SHARE_MUTEX_INITIALIZER,
                                               .published = {.compare = compare_numbers}};

mend_process_names mend_process_own_scopes = {.mutex = LOG_MUTEX_INITIALIZER};
mend_process_names mend_process_own_names = {.mutex = LOG_MUTEX_INITIALIZER};
mend_process_stacks mend_process_own_stacks = {.mutex = LOG_MUTEX_INITIALIZER};

/* ---- fork ------------------------------------------------------------------------------------ */

/* Whatever the thread holds: no thread waits for anything while it holds such a lock. */
static void before_fork(void)
{
    pthread_mutex_lock(&mend_process_own_shares.mutex.mutex);
}

static void after_fork_in_parent(void)
{
    pthread_mutex_unlock(&mend_process_own_shares.mutex.mutex);
}

/* Runs in the child. Other threads of the parent may have been anywhere, so it reads, frees and
 * unlocks nothing inherited but the exports. It only stores and closes files, which is all that a
 * child of a threaded process may do. It drops the sink, which may need a lock that one of those
 * threads held, and the driver's table. */
static void start_anew(void)
{
    /* The files of exports would keep the memory after the parent has freed it, and importers would
     * find a dead socket. No other thread is about to change them: see before_fork. */
    MEND_TREE_EACH(const mend_published, export, by_number, &mend_process_own_shares.published) {
        for (size_t i = 0; i < export->all.count; i++) {
            (void)close(export->chunks[i].file); /* two exports may have one chunk */
        }
    }
    for (int i = 0; i < MEND_SHARE_VISITORS; i++) {
        if (mend_process_own_shares.visitors[i].is_here) {
            (void)close(mend_process_own_shares.visitors[i].socket);
        }
    }
    if (mend_process_own_shares.is_open) {
        (void)close(mend_process_own_shares.listener);
    }
    pthread_mutex_unlock(&mend_process_own_shares.mutex.mutex);
    mend_process_own_shares = (mend_process_shares){.mutex = SHARE_MUTEX_INITIALIZER,
                                                    .published = {.compare = compare_numbers}};
    mend_process_signal *signal = &mend_process_own_signal; /* the bells are the parent's */
    for (int i = 0; i < MEND_BELLS; i++) {
        atomic_store_explicit(&signal->bells[i], 0, memory_order_relaxed);
    }
    atomic_store_explicit(&signal->handling, 0, memory_order_relaxed);
    signal->mutex = (mend_mutex)PROCESS_MUTEX_INITIALIZER;
    signal->is_hooked = signal->is_hooked && !signal->unhook(signal);
    atomic_fetch_add_explicit(&mend_process_generation_now, 1, memory_order_relaxed);
    mend_process_own_log =
        (mend_process_log){.mutex = LOG_MUTEX_INITIALIZER, .shown = mend_process_own_log.shown};
    driver_mutex = (mend_mutex)PROCESS_MUTEX_INITIALIZER;
    cuda_driver = NULL;
    mend_process_nvtx.mutex = (mend_mutex)PROCESS_MUTEX_INITIALIZER;
    mend_process_pools =
        (mend_process_members)MEMBERS_INITIALIZER(mend_process_pools, MEND_RANK_PROCESS);
    mend_process_watches =
        (mend_process_members)MEMBERS_INITIALIZER(mend_process_watches, MEND_RANK_SHARE);
    begun_mutex = (mend_mutex)SHARE_MUTEX_INITIALIZER;
    unsafe_call_ended = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    atomic_store_explicit(&mend_process_begun_count, 0, memory_order_relaxed);
    is_in_unsafe_call = false;
    mend_process_own_devices.mutex = (mend_mutex)PROCESS_MUTEX_INITIALIZER;
    memset(mend_process_own_devices.override, 0, sizeof(mend_process_own_devices.override));
    atomic_store_explicit(&mend_process_own_devices.override_count, 0, memory_order_relaxed);
    mend_pointer_map_init(&mend_process_own_devices.blocks);
    mend_process_own_scopes.mutex = (mend_mutex)LOG_MUTEX_INITIALIZER;
    mend_process_own_names.mutex = (mend_mutex)LOG_MUTEX_INITIALIZER;
    mend_process_own_stacks.mutex = (mend_mutex)LOG_MUTEX_INITIALIZER;
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

void mend_process_join(mend_process_members *members, mend_process_member *member)
{
    mend_mutex_lock(&members->mutex);
    member->number = ++members->last_number;
    mend_list_append(&members->list, &member->link);
    mend_mutex_unlock(&members->mutex);
}

void mend_process_leave(mend_process_members *members, mend_process_member *member)
{
    mend_mutex_lock(&members->mutex);
    assert(member->number != 0);
    mend_list_remove(&member->link);
    while (member->visitors > 0) {
        mend_condition_wait(&members->visit_ended, &members->mutex);
    }
    member->number = 0;
    mend_mutex_unlock(&members->mutex);
}

void *mend_process_bury(void *pool)
{
    mend_mutex_lock(&mend_process_pools.mutex);
    void **place = &buried[buried_count++ % MEND_POOLS_KEPT];
    void *before = *place;
    *place = pool;
    mend_mutex_unlock(&mend_process_pools.mutex);
    return before;
}

/* When the library is unloaded, or the process ends. */
__attribute__((destructor)) static void forget_the_buried(void)
{
    for (int i = 0; i < MEND_POOLS_KEPT; i++) {
        free(buried[i]);
        buried[i] = NULL;
    }
}

mend_process_member *mend_process_visit_next(mend_process_members *members, const void *domain,
                                             int device, uint64_t *cursor)
{
    mend_mutex_lock(&members->mutex);
    mend_process_member *found = NULL;
    MEND_LIST_EACH(mend_process_member, member, link, &members->list) {
        const bool is_meant =
            domain == NULL || (member->domain == domain && member->device == device);
        if (member->number > *cursor && is_meant) {
            member->visitors++;
            *cursor = member->number;
            found = member;
            break;
        }
    }
    mend_mutex_unlock(&members->mutex);
    return found;
}

void mend_process_visit_end(mend_process_members *members, mend_process_member *member)
{
    mend_mutex_lock(&members->mutex);
    assert(member->visitors != 0);
    member->visitors--;
    if (member->visitors == 0) {
        mend_condition_wake_all(&members->visit_ended);
    }
    mend_mutex_unlock(&members->mutex);
}

/* ---- captures that the program announced -------------------------------------------------- */

atomic_uint mend_process_graph_ends;

void mend_process_note_begun(bool is_begun)
{
    mend_mutex_lock(&begun_mutex);
    atomic_fetch_add(&mend_process_begun_count, is_begun ? 1u : UINT_MAX);
    mend_mutex_unlock(&begun_mutex);
}

bool mend_process_begin_unsafe_call(void)
{
    mend_mutex_lock(&begun_mutex);
    const bool may_call = atomic_load(&mend_process_begun_count) == 0 && !is_in_unsafe_call;
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

/* ---- stacks -------------------------------------------------------------------------------- */

void mend_process_ask_stack(uint64_t size_bytes)
{
    mend_process_stacks *stacks = &mend_process_own_stacks;
    mend_thread_marks *own = &mend_process_own_marks;
    const uint64_t every_bytes = atomic_load_explicit(&stacks->every_bytes, memory_order_relaxed);
    own->stack = 0;
    if (every_bytes == 0 || own->is_in_source) {
        return;
    }
    if (size_bytes < every_bytes) {
        own->unasked_bytes += size_bytes;
        if (own->unasked_bytes < every_bytes) {
            return;
        }
        own->unasked_bytes = 0;
    }
    mend_mutex_lock(&stacks->mutex);
    const mend_stack_source source = stacks->source;
    void *context = stacks->context;
    mend_mutex_unlock(&stacks->mutex);
    if (source != NULL) {
        own->is_in_source = true;
        const uint32_t stack = source(context, size_bytes);
        own->is_in_source = false;
        own->stack = stack < UINT16_MAX ? stack : UINT16_MAX;
    }
}

/* ---- driver --------------------------------------------------------------------------------- */

mend_result mend_process_cuda_driver(mend_result (*load)(const mend_driver **driver),
                                     const mend_driver **driver)
{
    mend_mutex_lock(&driver_mutex);
    mend_result result = cuda_driver != NULL ? MEND_OK : load(&cuda_driver);
    if (result == MEND_OK) {
        *driver = cuda_driver;
    }
    mend_mutex_unlock(&driver_mutex);
    return result;
}

/* ---- the environment ------------------------------------------------------------------------- */

const char *mend_process_variable(const char *name)
{
    const char *value = secure_getenv(name);
    return value != NULL && value[0] != 0 ? value : NULL;
}
