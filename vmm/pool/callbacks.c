/*
 * What a pool tries if it has no room, before the host waits for the GPU and after: peer pools give
 * back idle memory, and callbacks of the program free what it can do without. No lock is held
 * meanwhile.
 */
#include "pool/pool.h"

#include <stdlib.h>

#include "users/users.h"

#define ENTRY_OF(at)  MEND_CONTAINER_OF(at, mend_callback_entry, link)
#define POOL_OF(heap) MEND_CONTAINER_OF(heap, mend_pool, heap)

void mend_callbacks_init(mend_callbacks *callbacks)
{
    *callbacks = (mend_callbacks){0};
    mend_list_init(&callbacks->entries);
    mend_list_init(&callbacks->rounds);
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

/* Those of the process, and then the other processes of the limit file. */
static bool ask_peer_pool(mend_heap *heap, mend_need need, mend_asked *asked, bool *gave)
{
    mend_pool *pool = POOL_OF(heap);
    *gave = false;
    mend_heap_unlock(&pool->heap);
    assert(mend_mutex_none_is_held_from(MEND_RANK_PROCESS));
    bool is_asked = asked->last != UINT64_MAX && mend_peer_pools_trim_next(pool, need, asked, gave);
    if (!is_asked) {
        asked->last = UINT64_MAX;
        is_asked = *gave = need.bytes != UINT64_MAX &&
                           mend_ration_wait(&pool->ration, need.whole_bytes, &asked->end_ms);
    }
    mend_heap_lock(&pool->heap);
    pool->callbacks.peer_pool_trims += is_asked;
    return is_asked;
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

/* What a callback hears. The callback before, or another thread, may have decommitted pages, or
 * trimmed the pool: then the driver is asked again. The budget is as if it had been in this search,
 * and before others see it, as it was: the caller does not hold `grow`. What the pool owes to
 * others goes before chunks of a size of their own are created. */
static uint64_t missing_bytes_of(mend_heap *heap, const mend_request *request)
{
    mend_ration *ration = mend_request_makes_chunks(request) ? heap->config.ration : NULL;
    mend_stream stream = request->handle;
    mend_request now = *request;
    mend_driver_scope scope;
    uint64_t free_bytes = 0;
    uint64_t total_bytes = 0;
    uint64_t owed_bytes = 0;
    bool is_told = false;
    if ((!heap->budget.attainable.is_known || ration != NULL) &&
        mend_driver_scope_open(heap, &scope) == MEND_OK) {
        is_told =
            !heap->budget.attainable.is_known &&
            heap->driver->memory_info(heap->driver, &free_bytes, &total_bytes) == MEND_DRIVER_OK;
        owed_bytes = ration != NULL ? mend_owed_to_others(heap, is_told) : 0;
        mend_driver_scope_close(heap, &scope);
    }
    uint32_t group = stream == MEND_NO_STREAM ? 0 : mend_group_taking(heap, stream);
    now.size_bytes = mend_request_missing_bytes(request);
    now.group = 0;
    now.zone = 0;
    now.stream = stream == MEND_NO_STREAM ? MEND_STREAM_UNKNOWN
                                          : mend_streams_lookup(&heap->streams, stream, group);
    const mend_budget budget = heap->budget;
    if (is_told && !budget.attainable.is_known) {
        heap->budget.attainable =
            (mend_attainable){.is_known = true, .bytes = free_bytes + heap->chunks.reserved_bytes};
    }
    heap->budget.keeps_soft_limit = request->keeps_soft_limit;
    const uint64_t missing_bytes = mend_report_missing_bytes(heap, &now, owed_bytes);
    heap->budget = budget;
    return missing_bytes;
}

/* Calls one callback without the lock. True if it freed anything. */
static bool call_one(mend_pool *pool, const mend_request *request, const mend_callback_entry *entry)
{
    uint64_t missing_bytes = missing_bytes_of(&pool->heap, request);
    pool->callbacks.calls++;
    mend_heap_unlock(&pool->heap);
    ++*mend_process_callback_depth();
    assert(mend_mutex_none_is_held_from(MEND_RANK_PROCESS));
    int answer = entry->callback(entry->context, pool, request->requested_bytes, missing_bytes);
    --*mend_process_callback_depth();
    mend_heap_lock(&pool->heap);
    return answer != 0;
}

/* One round: calls the callbacks that were added before it began, until there is room. */
static mend_outcome call_back(mend_heap *heap, const mend_request *request,
                              mend_try_again try_again, void *climb)
{
    mend_pool *pool = POOL_OF(heap);
    mend_callbacks *callbacks = &pool->callbacks;
    mend_outcome outcome = MEND_NOTHING;
    mend_callback_round round = {.number = ++callbacks->last_round};
    uint64_t last_entry = callbacks->last_entry;
    mend_list_append(&callbacks->rounds, &round.link);
    mend_list *at = callbacks->entries.next;
    while (at != &callbacks->entries && ENTRY_OF(at)->number <= last_entry &&
           outcome == MEND_NOTHING) {
        mend_callback_entry *entry = ENTRY_OF(at);
        mend_callback_run own = {.thread = pthread_self()};
        mend_list_append(&entry->runs, &own.link); /* keeps the entry in the list */
        bool has_freed = !entry->is_removed && call_one(pool, request, entry);
        if (pool->heap.unlocking.lost != MEND_DRIVER_OK) {
            name_loss(pool);
            outcome = MEND_FAILED;
        } else if (has_freed) {
            outcome = try_again(climb);
        }
        at = at->next;
        mend_list_remove(&own.link);
        drop_if_done(entry);
        mend_condition_wake_all(&callbacks->changed);
    }
    mend_list_remove(&round.link);
    mend_condition_wake_all(&callbacks->changed);
    return outcome;
}

/* The rounds in progress with a number up to last_round. */
static uint64_t count_rounds(const mend_callbacks *callbacks, uint64_t last_round)
{
    uint64_t count = 0;
    MEND_LIST_EACH(const mend_callback_round, round, link, &callbacks->rounds) {
        count += round->number <= last_round;
    }
    return count;
}

/* Before the pool answers out of memory, it waits until every round of other threads that is in
 * progress now has ended. A thread inside a callback waits for none: its own round is in
 * progress. */
static mend_outcome try_behind_callbacks(mend_heap *heap, mend_try_again try_again, void *climb)
{
    mend_callbacks *callbacks = &POOL_OF(heap)->callbacks;
    uint64_t last_round = *mend_process_callback_depth() > 0 ? 0 : callbacks->last_round;
    uint64_t before;
    mend_outcome outcome;
    do {
        before = count_rounds(callbacks, last_round);
        outcome = try_again(climb);
        while (outcome == MEND_NOTHING && before > 0 &&
               count_rounds(callbacks, last_round) == before) {
            mend_condition_wait(&callbacks->changed, &heap->state);
        }
    } while (outcome == MEND_NOTHING && before > 0);
    return outcome;
}

const mend_helpers mend_pool_helpers = {has_callbacks, ask_peer_pool, call_back,
                                        try_behind_callbacks};
