/* The helpers of a full pool: other pools and processes, which release idle memory, and callbacks
 * of the program, which free memory that it can do without. No lock is held meanwhile. */
#include "pool/pool.h"

#include <stdlib.h>

#define ENTRY_OF(at)  MEND_CONTAINER_OF(at, mend_callback_entry, link)
#define POOL_OF(heap) MEND_CONTAINER_OF(heap, mend_pool, heap)

void mend_callbacks_destroy(mend_callbacks *callbacks)
{
    while (!mend_list_is_empty(&callbacks->entries)) {
        mend_callback_entry *entry = ENTRY_OF(callbacks->entries.next);
        mend_list_remove(&entry->link);
        free(entry);
    }
    pthread_cond_destroy(&callbacks->changed);
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

/* ---- other pools of the device --------------------------------------------------------------- */

/* Whether a pool knows of a capture, or cannot tell. Another one may not know the stream. */
static bool knows_a_capture(mend_pool *pool)
{
    mend_heap *heap = &pool->heap;
    mend_driver_scope scope;
    bool is_captured = false;
    mend_result result = MEND_OK;
    mend_heap_lock(heap);
    if (heap->unlocking.lost == MEND_DRIVER_OK &&
        (result = mend_driver_scope_open(heap, &scope)) == MEND_OK) {
        result = mend_streams_find_capture(&heap->streams, MEND_STREAM_UNKNOWN, &is_captured);
        mend_driver_scope_close(heap, &scope);
    }
    mend_heap_unlock(heap);
    return is_captured || result != MEND_OK;
}

/* A pool whose context is lost gives nothing. While it waits for its work, its grow lock is held:
 * its threads go on with free memory. */
static bool trim(mend_pool *other, uint64_t bytes, bool waits, bool is_captured)
{
    mend_heap *heap = &other->heap;
    bool gave = false;
    mend_heap_lock_all(heap);
    if (heap->unlocking.lost == MEND_DRIVER_OK) {
        gave = mend_fallback_give_back(heap, bytes, waits && !is_captured, is_captured);
    }
    mend_heap_unlock_all(heap);
    return gave;
}

/* The other pools of the device release about so much idle memory, and with `waits` also memory
 * that waits for their work. True if any did. The caller holds no lock, because another pool may be
 * asking this one at the same time. */
static bool trim_peers(mend_pool *pool, uint64_t bytes, bool waits)
{
    bool any = false;
    bool is_captured = false;
    for (int trims = 0; trims <= 1; trims++) {
        uint64_t cursor = 0;
        mend_process_member *member = NULL;
        while ((member = mend_process_visit_next(&mend_process_pools, pool->driver, pool->device,
                                                 &cursor)) != NULL) {
            mend_pool *other = MEND_CONTAINER_OF(member, mend_pool, member);
            if (!trims) {
                is_captured |= knows_a_capture(other);
            } else if (other != pool) {
                any |= trim(other, bytes, waits, is_captured);
            }
            mend_process_visit_end(&mend_process_pools, member);
        }
    }
    return any;
}

/* ---- the functions for the fallback chain ---------------------------------------------------- */

static bool has_callbacks(mend_heap *heap)
{
    bool is_in_callback = mend_process_callback_depth > 0; /* the calling thread, on any pool */
    return !is_in_callback && !mend_list_is_empty(&POOL_OF(heap)->callbacks.entries);
}

/* The pools of the process, and then, behind work, the other processes of the shared limit file. */
static bool trim_others(const mend_seek *seek)
{
    mend_heap *heap = seek->heap;
    mend_pool *pool = POOL_OF(heap);
    const uint64_t bytes = seek->lacking_bytes;
    mend_others *others = pool->others;
    const uint64_t kept_bytes =
        mend_min_u64(others != NULL ? others->min_free_bytes : 0, UINT64_MAX - bytes);
    mend_heap_unlock(heap);
    assert(mend_mutex_none_is_held_from(MEND_RANK_PROCESS));
    bool gave = trim_peers(pool, bytes + kept_bytes, seek->may_wait && !seek->is_captured);
    if (others != NULL && seek->may_wait && bytes != UINT64_MAX) {
        gave |= others->wait(others, bytes);
    }
    mend_heap_lock(heap);
    pool->callbacks.peer_pool_trims += gave;
    return gave;
}

/* Calls the callbacks that were added before the first one is called, without the lock, until there
 * is memory. */
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
        bool has_freed = false;
        if (!entry->is_removed) {
            callbacks->calls++;
            mend_heap_unlock(heap);
            ++mend_process_callback_depth;
            assert(mend_mutex_none_is_held_from(MEND_RANK_PROCESS));
            has_freed = entry->callback(entry->context, pool, seek->needed_bytes) != 0;
            --mend_process_callback_depth;
            mend_heap_lock(heap);
        }
        if (heap->unlocking.lost != MEND_DRIVER_OK) {
            mend_pool_check_context(pool);
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
