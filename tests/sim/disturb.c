/* Disturbances of a pool: faults, other processes, other threads during a call, the end of the
 * device, fork, callbacks, the clock. */
#include <assert.h>
#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/thread.h"
#include "pool/pool.h"
#include "tests/sim/quotas.h"
#include "tests/sim/ranges.h"
#include "tests/support/child.h"
#include "tests/support/forked.h"

const char *const trial_driver_calls[MEND_DRIVER_CALL_COUNT + 1] = {
#define X(member, name, bytes, parameters, arguments) #member,
    MEND_DRIVER_CALLS(X)
#undef X
        "any call",
};

/* The calls a pool makes: all of them may fail, or any of them. */
static const mend_driver_call failing[] = {
    [FAULT_OF_MEMORY_INFO] = MEND_CALL_memory_info,
    MEND_CALL_context_push,
    [FAULT_OF_WAIT] = MEND_CALL_context_synchronize,
    MEND_CALL_exchange_capture_mode,
    MEND_CALL_reserve,
    MEND_CALL_address_free,
    [FAULT_OF_CREATE] = MEND_CALL_create,
    MEND_CALL_release,
    [FAULT_OF_MAP] = MEND_CALL_map,
    MEND_CALL_unmap,
    [FAULT_OF_SET_ACCESS] = MEND_CALL_set_access,
    MEND_CALL_stream_wait,
    MEND_CALL_stream_get_info,
    MEND_CALL_event_create,
    MEND_CALL_event_record,
    MEND_CALL_event_query,
    MEND_CALL_event_synchronize,
    MEND_DRIVER_CALL_COUNT,
    [FAULT_OF_SYNCHRONIZE] = MEND_CALL_stream_synchronize,
    MEND_CALL_fill,
    MEND_CALL_copy,
    MEND_CALL_stream_create,
    MEND_CALL_host_alloc,
    MEND_CALL_host_free,
};

const char *trial_ambush_name(int action)
{
    static const char *const names[AMBUSH_ACTIONS] = {
        "another process takes memory", "another process gives memory back", "the call takes long",
        "another thread frees a block", "another thread unregisters a stream"};
    return names[action];
}

uint64_t trial_duration(const trial *t, uint8_t code)
{
    static const uint64_t table[] = {40, 4, 0, 400, 4000, 40, 7, 100};
    return table[code % 8] * (t->config.prices != 0 ? 2000 : 1);
}

static void set_foreign(trial *t, uint64_t bytes)
{
    uint64_t left = t->device_bytes - trial_ledger(t).chunk_bytes - trial_ledger(t).plain_bytes;
    t->foreign_bytes = mend_min_u64(bytes, left);
    mend_sim_set_foreign_bytes(t->sim, 0, t->foreign_bytes);
}

/* ---- in the midst of a call ------------------------------------------------------------------ */

/* A thread beside the one that calls, and beside the first, which runs the trial, or NOBODY. */
static int other_thread(const trial *t)
{
    for (int i = 1; i < t->turns.count; i++) {
        if (i != t->calling_thread) {
            return i;
        }
    }
    return NOBODY;
}

/* Whether the call under way leaves the pool's state to others, or also its turn to make room. */
static bool lets_in(const trial *t, int pool, bool in_turn)
{
    mend_heap *heap = &t->pools[pool].pool->heap;
    pthread_mutex_t *mutex = in_turn ? &heap->grow.mutex : &heap->state.mutex;
    const bool is_free = pthread_mutex_trylock(mutex) == 0;
    if (is_free) {
        pthread_mutex_unlock(mutex);
    }
    return is_free && (!in_turn || lets_in(t, pool, false));
}

/* What others do to a pool waits for a moment that lets them in. */
static bool can_spring(trial *t, const char *call)
{
    const bool is_meant = t->ambush.set && t->calling != NULL &&
                          (t->ambush.call == NULL || __builtin_strcmp(call, t->ambush.call) == 0);
    if (is_meant && t->ambush.skips > 0) {
        t->ambush.skips--;
        return false;
    }
    return is_meant && (t->ambush.action < AMBUSH_FREES ||
                        lets_in(t, t->calling->pool, t->ambush.action == AMBUSH_FORGETS));
}

/* Whether the call under way is about the block, so that nobody may free it. The same goes for
 * blocks of a graph pool that it restores or ends. */
static bool is_called_for(const trial *t, const trial_block *block)
{
    const trial_call *call = t->calling;
    const bool is_for_graphs =
        call->kind == CALL_GRAPH_POOL_RESTORE || call->kind == CALL_GRAPH_POOL_RELEASE;
    return (uint64_t)(uintptr_t)call->pointer - block->address < block->size_bytes ||
           (block->range != 0 && call->kind != CALL_COMMIT &&
            t->ranges[block->range - 1].range == call->range) ||
           (block->graph_pool != NOBODY && is_for_graphs) ||
           (block->is_exported && trial_is_import(call));
}

/* The first one from a slot on. A free that checks, or that the driver does, waits for a thread
 * that makes room. */
static void free_amid(trial *t, int slot, int thread)
{
    for (int i = 0; i < TRIAL_BLOCKS && thread != NOBODY && t->config.check == 0; i++) {
        trial_block *block = &t->blocks[(slot + i) % TRIAL_BLOCKS];
        if (block->live && !is_called_for(t, block) && block->zone != MEND_ZONE_PASSED &&
            lets_in(t, block->pool, false)) {
            trial_free_here(t, thread, false, block);
            return;
        }
    }
}

/* A call of the driver under way is about the stream, and its end waits for that. */
static bool is_in_use(const trial *t, int pool, int stream)
{
    const mend_streams *streams = &t->pools[pool].pool->heap.streams;
    bool is = false;
    for (uint32_t i = 0; i < streams->count; i++) {
        is |= streams->items[i].handle == t->streams[stream].handle && streams->items[i].calls > 0;
    }
    return is;
}

/* Not one that the call under way declares. */
static void forget_amid(trial *t, int stream, int thread)
{
    bool can = thread != NOBODY && t->streams[stream].thread == ANY_THREAD &&
               t->calling->kind != CALL_RECORD && t->calling->kind != CALL_RECORD_PAGES;
    for (int i = 0; i < t->pool_count; i++) {
        can = can && lets_in(t, i, true) && !is_in_use(t, i, stream);
    }
    if (can) {
        trial_forget(t, &(operation){.stream = (uint8_t)stream, .thread = (uint8_t)thread});
    }
}

static void spring(void *context, const char *call, int is_after)
{
    trial *t = context;
    t->ambush.was_unseen = t->ambush.was_unseen && !is_after;
    if (is_after || !can_spring(t, call)) {
        return;
    }
    const bool is_unseen = !trial_a_capture_is_known(t); /* this may inform the pool */
    t->ambush.set = false;
    t->disturbed = true;
    t->outcome->tally.ambushes[t->ambush.action]++;
    const int thread = other_thread(t);
    switch (t->ambush.action) {
    case 0:
        set_foreign(t, t->device_bytes / 256 * t->ambush.slot);
        break;
    case 1:
        set_foreign(t, 0);
        break;
    case 2:
        mend_sim_advance(t->sim, 100000);
        break;
    case AMBUSH_FORGETS:
        forget_amid(t, t->ambush.slot % t->stream_count, thread);
        break;
    default:
        free_amid(t, t->ambush.slot, thread);
        break;
    }
    t->ambush.was_unseen = is_unseen;
}

bool trial_lay_ambush(trial *t, const operation *op)
{
    static const char *const calls[] = {"create",
                                        "map",
                                        "set_access",
                                        "unmap",
                                        "release",
                                        "reserve",
                                        "event_synchronize",
                                        "memory_info",
                                        "context_synchronize",
                                        "address_free",
                                        "event_record",
                                        "stream_wait"};
    t->ambush.set = true;
    t->ambush.action = op->amount % AMBUSH_ACTIONS;
    t->ambush.call =
        op->stream % 8 > 3 ? NULL : calls[op->size % (sizeof(calls) / sizeof(calls[0]))];
    t->ambush.skips = (uint8_t)(op->alignment + op->thread * 2);
    t->ambush.slot = op->slot;
    mend_sim_set_call_observer(t->sim, spring, t);
    return true;
}

/* ---- failures -------------------------------------------------------------------------------- */

bool trial_plant_fault(trial *t, const operation *op)
{
    static const int statuses[] = {MEND_DRIVER_OUT_OF_MEMORY, MEND_DRIVER_UNKNOWN,
                                   MEND_DRIVER_NOT_READY, MEND_DRIVER_NOT_PERMITTED};
    static const uint64_t counts[] = {1, 1, 2, 3, 5, 1, UINT64_MAX, 0};
    size_t at = op->size % (sizeof(failing) / sizeof(failing[0]));
    int how = op->amount % 8;
    assert(counts[FAULT_FOR_EVER] == UINT64_MAX);
    mend_sim_fault fault = MEND_SIM_FAULT_INIT;
    fault.call = failing[at] != MEND_DRIVER_CALL_COUNT ? trial_driver_calls[failing[at]] : NULL;
    fault.status = statuses[op->thread % 4];
    fault.after_calls = op->alignment % 24;
    fault.count = counts[how];
    fault.above_bytes = how == 5 ? t->page_bytes : 0;
    fault.until_release = how == 7;
    if (mend_sim_fail(t->sim, &fault) != MEND_OK) {
        return trial_claim(t, TRIAL_RESULT, false, "mend_sim_fail: %s", fault.call);
    }
    t->faults_stand = true;
    t->faults_last = t->faults_last || how >= 6;
    t->outcome->tally.planted[failing[at]]++;
    return true;
}

bool trial_clear_faults(trial *t, const operation *op)
{
    (void)op;
    bool any = t->faults_stand;
    mend_sim_clear_faults(t->sim);
    t->faults_stand = false;
    t->faults_last = false;
    trial_map_again(t);
    return any;
}

bool trial_lose_device(trial *t, const operation *op)
{
    mend_sim_fault fault = MEND_SIM_FAULT_INIT;
    fault.status = MEND_DRIVER_ILLEGAL_ADDRESS;
    fault.after_calls = op->amount % 32;
    fault.sticky = 1;
    t->may_be_lost = true;
    return mend_sim_fail(t->sim, &fault) == MEND_OK;
}

bool trial_shut_down(trial *t, const operation *op)
{
    (void)op;
    if (t->stopped) {
        return false;
    }
    mend_sim_stop(t->sim);
    t->stopped = true;
    for (int i = 0; i < t->stream_count; i++) {
        t->streams[i].captured = false;
    }
    t->captures = 0;
    return true;
}

static int pressed(void *context, mend_pool *pool, uint64_t needed_bytes);

/* Every call of the child says whose pool it is. */
static bool child_is_refused(trial *t)
{
    forked of_parent = {.pool = t->pools[0].pool,
                        .stream = trial_handle(t, 0, false),
                        .block = t,
                        .callback = pressed,
                        FORKED_INIT};
    forked *f = &of_parent;
    bool all = true;
#define X(call)                                                                                    \
    {                                                                                              \
        const mend_result result = (call);                                                         \
        all = all && (result == MEND_ERROR_FORKED ||                                               \
                      (t->config.plain != 0 && result == MEND_ERROR_NOT_SUPPORTED));               \
    }
    FORKED_CALLS(X)
#undef X
    return all && forked_is_untouched(f);
}

bool trial_fork_child(trial *t, const operation *op)
{
    (void)op;
    pid_t child = fork();
    if (child < 0) {
        return false;
    }
    if (child == 0) {
        mend_test_end_child(child_is_refused(t));
    }
    int status = 1;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    trial_claim(t, TRIAL_RESULT, status == 0, "a forked child was not refused (status %d)", status);
    return true;
}

bool trial_fail_malloc(trial *t, const operation *op)
{
    t->malloc_fails = true;
    t->malloc_after = op->slot % 8;
    t->malloc_count = (uint8_t)(op->amount % 3 + 1);
    return true;
}

/* ---- callbacks ------------------------------------------------------------------------------- */

/* Memory that the first pool could create. */
static uint64_t room_to_create(trial *t)
{
    const mend_stats stats = trial_stats(t, 0);
    return mend_min_u64(mend_align_down(trial_limit_room(&stats), t->page_bytes),
                        mend_align_down(trial_quota_room(t), t->page_bytes));
}

/* Below the limit, and of other processes' memory. Not to a pool above its limit, where only empty
 * chunks would help. */
static int give(trial *t, uint64_t bytes)
{
    const mend_stats stats = trial_stats(t, 0);
    const uint64_t limit_bytes = stats.limit_bytes + bytes;
    const uint64_t room_bytes = room_to_create(t) + bytes;
    const bool is_over = stats.reserved_bytes > stats.limit_bytes;
    if (is_over || limit_bytes > t->device_bytes || trial_has_quota(t) || t->config.plain != 0) {
        return 0;
    }
    trial_call call = {.kind = CALL_SET_LIMIT, .size_bytes = limit_bytes};
    if (trial_call_pool(t, HERE, &call) == MEND_OK) {
        t->pools[0].limit_bytes = limit_bytes;
        set_foreign(t, t->foreign_bytes - mend_min_u64(t->foreign_bytes, bytes));
    }
    t->was_given |= room_to_create(t) >= room_bytes;
    return 1;
}

/* As empty chunks of the first pool, which are idle. No pages, which may be the requested ones. */
static int free_blocks(trial *t, uint64_t bytes)
{
    const uint64_t enough_bytes = trial_stats(t, 0).free_empty_bytes + bytes;
    int freed = 0;
    for (int i = 0; i < TRIAL_BLOCKS && trial_stats(t, 0).free_empty_bytes < enough_bytes; i++) {
        trial_block *block = &t->blocks[i];
        freed += block->pool == 0 && block->range == 0 && block->live && trial_synchronize(t) &&
                 block->live && /* else an ambush has freed it */
                 trial_free_here(t, t->calling_thread, true, block);
    }
    const mend_stats stats = trial_stats(t, 0);
    const bool is_over = stats.reserved_bytes > stats.limit_bytes;
    t->was_given |= !is_over && trial_synchronize(t) && stats.free_empty_bytes >= enough_bytes;
    return freed;
}

/* Of its own pool, and of the other one. Gives nothing to the call under way. Earlier creations of
 * that pool, or new ones of the other, are not undone if they are released. */
static void call_pools(trial *t, const trial_callback *callback)
{
    trial_call trim = {.kind = CALL_TRIM,
                       .size_bytes =
                           callback->slot % 2 == 0 ? trial_stats(t, 0).reserved_bytes : 0};
    t->was_called = true;
    t->was_given = false; /* this may have taken it */
    t->witness.born_count = 0;
    if (callback->slot % 4 < 2) {
        trial_call_pool(t, HERE, &trim);
    } else {
        trial_borrow_beside(t);
    }
    t->witness.born_count = 0;
}

static int pressed(void *context, mend_pool *pool, uint64_t needed_bytes)
{
    trial_callback *callback = context;
    trial *t = callback->trial;
    const bool gives = (callback->amount & 4) != 0;
    const bool calls = (callback->amount & 8) != 0;
    const bool frees = (callback->amount & 16) != 0;
    int left = t->callbacks_rest || gives || calls || frees ? 0 : callback->amount % 4 + 1;
    int freed = 0;
    const mend_thread_error before = *mend_process_error(); /* each call marks and sets its own */
    (void)pool;
    t->pools[0].pressure_calls++;
    if (calls && !t->callbacks_rest) {
        call_pools(t, callback);
    } else if (gives && !t->callbacks_rest) {
        freed = give(t, needed_bytes + needed_bytes / 4);
    } else if (frees && !t->callbacks_rest) {
        freed = free_blocks(t, needed_bytes + needed_bytes / 4);
    }
    for (int i = 0; i < TRIAL_BLOCKS && left > 0; i++) {
        trial_block *block = &t->blocks[(callback->slot + i) % TRIAL_BLOCKS];
        if (block->live) {
            freed += trial_free_here(t, t->calling_thread, true, block);
            left--;
        }
    }
    *mend_process_error() = before;
    return freed > 0;
}

bool trial_change_callback(trial *t, const operation *op)
{
    const bool adds = op->kind == OP_ADD_CALLBACK;
    trial_callback *callback = &t->callbacks[op->slot % TRIAL_CALLBACKS];
    mend_pool *pool = t->pools[0].pool;
    if (callback->added == adds) {
        return false;
    }
    mend_result result = adds ? mend_add_pressure_callback(pool, pressed, callback)
                              : mend_remove_pressure_callback(pool, pressed, callback);
    trial_claim(t, TRIAL_RESULT, result == MEND_OK, "a callback: %s", mend_result_name(result));
    if (!trial_is_faulty(t)) {
        trial_expect(t, "the same once more", MEND_ERROR_INVALID_ARGUMENT,
                     adds ? mend_add_pressure_callback(pool, pressed, callback)
                          : mend_remove_pressure_callback(pool, pressed, callback));
    }
    *callback = (trial_callback){t, adds, op->slot, op->amount};
    return true;
}

/* ---- the clock, and what others do ----------------------------------------------------------- */

bool trial_advance(trial *t, const operation *op)
{
    mend_sim_advance(t->sim, trial_duration(t, op->amount) + op->amount / 8u);
    return true;
}

bool trial_change_foreign(trial *t, const operation *op)
{
    if (t->stopped) {
        return false;
    }
    const uint64_t bytes = t->device_bytes / 256 * op->amount;
    if (op->stream % 4 == 3) {
        const uint64_t own_bytes = trial_ledger(t).chunk_bytes + trial_ledger(t).plain_bytes;
        t->hidden_quota_bytes = bytes != 0 ? mend_max_u64(bytes, own_bytes) : 0;
        t->had_hidden_quota = true;
        mend_sim_set_quota(t->sim, 0, t->hidden_quota_bytes);
    } else {
        set_foreign(t, bytes);
    }
    return true;
}

bool trial_delay_events(trial *t, const operation *op)
{
    mend_sim_set_event_delay(t->sim, trial_duration(t, op->amount));
    return true;
}
