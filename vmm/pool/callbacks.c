/*
 * Whom a pool asks if it has no room: other pools and processes, which give back idle memory, and
 * callbacks of the program, which free what it can do without. No lock is held meanwhile.
 */
#include "pool/pool.h"
#include "quota/quota.h"

#include <stdlib.h>

#define ENTRY_OF(at)  MEND_CONTAINER_OF(at, mend_callback_entry, link)
#define POOL_OF(heap) MEND_CONTAINER_OF(heap, mend_pool, heap)

void mend_callbacks_init(mend_callbacks *callbacks)
{
    *callbacks = (mend_callbacks){0};
    mend_list_init(&callbacks->entries);
    mend_condition_init(&callbacks->changed);
}

void mend_callbacks_destroy(mend_callbacks *callbacks)
{
    while (!mend_list_is_empty(&callbacks->entries)) {
        mend_callback_entry *entry = ENTRY_OF(callbacks->entries.next);
        mend_list_remove(&entry->link);
        free(entry);
    }
    mend_condition_destroy(&callbacks->changed);
}

/* ---- callbacks ------------------------------------------------------------------------------- */

static mend_callback_entry *find(const mend_callbacks *callbacks, mend_pressure_callback callback,
                                 const void *context)
{
    MEND_LIST_EACH(mend_callback_entry, entry, link, &callbacks->entries) {
        if (!entry->is_removed && entry->callback == callback && entry->context == context) {
            return entry;
        }
    }
    return NULL;
}

mend_result mend_add_pressure_callback(mend_pool *pool, mend_pressure_callback callback,
                                       void *context)
{
    MEND_INVALID_IF(pool == NULL || callback == NULL,
                    "mend_add_pressure_callback: pool or callback is NULL");
    MEND_TRY(mend_pool_check_process(pool));
    mend_callback_entry *entry = malloc(sizeof(*entry));
    if (entry == NULL) {
        return mend_publish(mend_no_host_memory("a callback"));
    }
    *entry = (mend_callback_entry){.callback = callback, .context = context};
    mend_list_init(&entry->runs);
    mend_heap_lock(&pool->heap);
    bool is_new = find(&pool->callbacks, callback, context) == NULL;
    if (is_new) {
        entry->number = ++pool->callbacks.last_entry;
        mend_list_append(&pool->callbacks.entries, &entry->link);
    }
    mend_heap_unlock(&pool->heap);
    if (!is_new) {
        free(entry);
        return mend_pool_invalid("mend_add_pressure_callback: it is added already");
    }
    return MEND_OK;
}

/* Frees a removed entry when no thread runs it any more. */
static void drop_if_done(mend_callback_entry *entry)
{
    if (entry->is_removed && mend_list_is_empty(&entry->runs)) {
        mend_list_remove(&entry->link);
        free(entry);
    }
}

/* Whether other threads are inside the callback. */
static bool others_run(const mend_callback_entry *entry)
{
    MEND_LIST_EACH(const mend_callback_run, run, link, &entry->runs) {
        if (!pthread_equal(run->thread, pthread_self())) {
            return true;
        }
    }
    return false;
}

mend_result mend_remove_pressure_callback(mend_pool *pool, mend_pressure_callback callback,
                                          void *context)
{
    MEND_INVALID_IF(pool == NULL || callback == NULL,
                    "mend_remove_pressure_callback: pool or callback is NULL");
    MEND_TRY(mend_pool_look(pool));
    mend_callbacks *callbacks = &pool->callbacks;
    mend_callback_entry *entry = find(callbacks, callback, context);
    if (entry != NULL) {
        mend_callback_run remover = {.thread = pthread_self()};
        entry->is_removed = true;
        mend_list_append(&entry->runs, &remover.link); /* keeps the entry while this thread waits */
        while (others_run(entry)) {
            mend_condition_wait(&callbacks->changed, &pool->heap.state);
        }
        mend_list_remove(&remover.link);
        drop_if_done(entry);
    }
    mend_heap_unlock(&pool->heap);
    return entry != NULL ? MEND_OK
                         : mend_pool_invalid("mend_remove_pressure_callback: it was not added");
}

/* ---- the functions for the ladder ------------------------------------------------------------ */

static bool has_callbacks(mend_heap *heap)
{
    bool is_in_callback = *mend_process_callback_depth() > 0; /* the calling thread, on any pool */
    return !is_in_callback && !mend_list_is_empty(&POOL_OF(heap)->callbacks.entries);
}

/* Those of the process, and then, behind work, the other processes of the limit file. */
static bool trim_others(const mend_seek *seek)
{
    mend_heap *heap = seek->heap;
    mend_pool *pool = POOL_OF(heap);
    const uint64_t bytes = seek->lacking_bytes;
    const uint64_t whole_bytes = bytes + seek->free_bytes;
    const uint64_t kept_bytes = mend_min_u64(pool->ration.keep_free_bytes, UINT64_MAX - bytes);
    mend_heap_unlock(heap);
    assert(mend_mutex_none_is_held_from(MEND_RANK_PROCESS));
    bool gave =
        mend_peer_pools_trim(pool, bytes + kept_bytes, seek->may_wait && !seek->is_captured);
    if (seek->may_wait && bytes != UINT64_MAX) {
        gave |= mend_ration_wait(&pool->ration, whole_bytes);
    }
    mend_heap_lock(heap);
    pool->callbacks.peer_pool_trims += gave;
    return gave;
}

/* The context was lost in a callback, perhaps in a call whose failure was worked around. Opening a
 * driver scope notes the driver's status, if the driver still reports it. */
static void name_loss(mend_pool *pool)
{
    mend_driver_scope scope;
    const mend_result result = mend_driver_scope_open(&pool->heap, &scope);
    if (result == MEND_OK) {
        mend_driver_scope_close(&pool->heap, &scope);
    }
    if (result != MEND_ERROR_DEVICE_LOST) {
        mend_pool_check_context(pool);
    }
}

/* Calls one callback without the lock. True if it freed anything. */
static bool call_one(mend_pool *pool, uint64_t needed_bytes, const mend_callback_entry *entry)
{
    pool->callbacks.calls++;
    mend_heap_unlock(&pool->heap);
    ++*mend_process_callback_depth();
    assert(mend_mutex_none_is_held_from(MEND_RANK_PROCESS));
    int answer = entry->callback(entry->context, pool, needed_bytes);
    --*mend_process_callback_depth();
    mend_heap_lock(&pool->heap);
    return answer != 0;
}

/* Calls the callbacks that were added before the first one is called, until there is room. */
static mend_outcome call_back(mend_seek *seek)
{
    mend_heap *heap = seek->heap;
    mend_pool *pool = POOL_OF(heap);
    mend_callbacks *callbacks = &pool->callbacks;
    mend_outcome outcome = MEND_NOTHING;
    uint64_t last_entry = callbacks->last_entry;
    mend_list *at = callbacks->entries.next;
    if (!has_callbacks(heap)) {
        return MEND_NOTHING;
    }
    while (at != &callbacks->entries && ENTRY_OF(at)->number <= last_entry &&
           outcome == MEND_NOTHING) {
        mend_callback_entry *entry = ENTRY_OF(at);
        mend_callback_run own = {.thread = pthread_self()};
        mend_list_append(&entry->runs, &own.link); /* keeps the entry in the list */
        bool has_freed = !entry->is_removed && call_one(pool, seek->needed_bytes, entry);
        if (heap->unlocking.lost != MEND_DRIVER_OK) {
            name_loss(pool);
            outcome = MEND_FAILED;
        } else if (has_freed) {
            outcome = seek->attempt(seek);
        }
        at = at->next;
        mend_list_remove(&own.link);
        drop_if_done(entry);
        mend_condition_wake_all(&callbacks->changed);
    }
    return outcome;
}

const mend_helpers mend_pool_helpers = {has_callbacks, trim_others, call_back};
