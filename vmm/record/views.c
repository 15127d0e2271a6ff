/* The calls that show the memory of a pool, and its history. */
#include <stdlib.h>

#include "base/names.h"
#include "base/struct_size.h"
#include "pool/pool.h"
#include "record/owners.h"
#include "record/record.h"

/* Events that a reader copies before it lets other threads have the lock. */
enum { EVENTS_AT_A_TIME = 256 };

mend_result mend_get_regions(mend_pool *pool, mend_region *regions, size_t region_bytes,
                             size_t capacity, size_t *count)
{
    MEND_TRY(
        mend_pool_check_array(pool, regions, region_bytes, capacity, count, "mend_get_regions"));
    mend_heap *heap = &pool->heap;
    mend_heap_lock_to_read(heap);
    mend_usage_settle(heap);
    *count = mend_observe_regions(heap, NULL, region_bytes, 0);
    if (*count <= capacity) {
        mend_observe_regions(heap, regions, region_bytes, capacity);
    }
    mend_heap_unlock_after_read(heap);
    return MEND_OK;
}

static mend_history *history_of(const mend_pool *pool)
{
    return &mend_observers_of(&pool->heap)->history;
}

mend_result mend_history_start(mend_pool *pool, uint64_t capacity_events)
{
    MEND_INVALID_IF(pool == NULL, "mend_history_start: pool is NULL");
    MEND_TRY(mend_pool_check_process(pool));
    mend_history_event *events = capacity_events > 0 ? mend_history_make(capacity_events) : NULL;
    if (events == NULL && capacity_events > 0) {
        return mend_fail(MEND_ERROR_OUT_OF_HOST_MEMORY,
                         "malloc failed for a history of %llu events",
                         (unsigned long long)capacity_events);
    }
    mend_result result = mend_pool_enter(pool);
    if (result == MEND_OK) {
        events = mend_history_exchange(history_of(pool), events, capacity_events);
        result = mend_pool_leave(pool, MEND_OK);
    }
    free(events);
    return result;
}

mend_result mend_history_read(mend_pool *pool, uint64_t *cursor, mend_history_event *events,
                              size_t event_bytes, size_t capacity, size_t *count)
{
    MEND_INVALID_IF(cursor == NULL, "mend_history_read: cursor is NULL");
    MEND_TRY(
        mend_pool_check_array(pool, events, event_bytes, capacity, count, "mend_history_read"));
    mend_heap *heap = &pool->heap;
    size_t done = 0;
    size_t copied;
    do {
        size_t most = (size_t)mend_min_u64(capacity - done, EVENTS_AT_A_TIME);
        mend_heap_lock(heap);
        const mend_history *history = history_of(pool);
        if (done == 0 && *cursor > history->next) {
            mend_heap_unlock(heap);
            return mend_pool_invalid("mend_history_read: the cursor is after the last event");
        }
        void *to = capacity > 0 ? (char *)events + done * event_bytes : NULL;
        copied = mend_history_copy(history, cursor, to, event_bytes, most);
        mend_heap_unlock(heap);
        done += copied;
    } while (copied == EVENTS_AT_A_TIME && done < capacity);
    *count = done;
    return MEND_OK;
}

/* ---- scopes ---------------------------------------------------------------------------------- */

/* The calls of scopes and names, and of owners, which are named by them (mend_inspect.h). */

/* A child of fork shares nothing that began in its parent. */
static bool shares(const mend_thread_marks *own)
{
    return own->shares_from != 0 && own->shares_in == mend_process_generation();
}

/* The thread's scope has changed: so has the scope of threads without one, if it shares its own. */
static void enter(mend_thread_marks *own, uint32_t number)
{
    own->scope = number;
    if (shares(own)) {
        atomic_store_explicit(&mend_process_common_scope, number, memory_order_release);
    }
    atomic_store_explicit(&mend_process_are_marks_set, true, memory_order_relaxed);
}

mend_result mend_scope_push(const char *name, unsigned flags)
{
    mend_thread_marks *own = mend_process_own_marks();
    mend_result result = MEND_OK;
    uint32_t number = 0;
    if (name == NULL || name[0] == '\0' || flags > MEND_SCOPE_OF_ALL_THREADS) {
        result = mend_pool_invalid("mend_scope_push: name is NULL or empty, or flags are unknown");
    } else if (own->failed_scopes == 0) {
        if (mend_process_prepare() == MEND_OK) {
            number = mend_scopes_number(own->scope, name);
        }
        if (number == 0) {
            result = mend_fail(MEND_ERROR_OUT_OF_HOST_MEMORY, "no memory for the name of a scope");
        }
    }
    if (number == 0) {
        own->failed_scopes++;
        return result;
    }
    own->depth++;
    if (flags == MEND_SCOPE_OF_ALL_THREADS && !shares(own)) {
        own->shares_from = own->depth;
        own->shares_in = mend_process_generation();
    }
    enter(own, number);
    return MEND_OK;
}

mend_result mend_scope_pop(void)
{
    mend_thread_marks *own = mend_process_own_marks();
    if (own->failed_scopes > 0) {
        own->failed_scopes--;
        return MEND_OK;
    }
    MEND_INVALID_IF(own->scope == 0, "mend_scope_pop: the thread is in no scope");
    const uint32_t around = mend_scopes_around(own->scope);
    if (shares(own) && own->shares_from == own->depth) {
        enter(own, 0);
        own->shares_from = 0;
    }
    own->depth--;
    enter(own, around);
    return MEND_OK;
}

mend_result mend_stack_set_source(mend_stack_source source, void *context, uint64_t every_bytes)
{
    mend_process_stacks *stacks = &mend_process_own_stacks;
    MEND_INVALID_IF(source != NULL && every_bytes == 0, "mend_stack_set_source: every_bytes is 0");
    if (mend_process_prepare() != MEND_OK) {
        return mend_fail(MEND_ERROR_OUT_OF_HOST_MEMORY, "no memory for a source of stacks");
    }
    mend_mutex_lock(&stacks->mutex);
    stacks->source = source;
    stacks->context = context;
    atomic_store(&stacks->every_bytes, source != NULL ? every_bytes : 0);
    mend_mutex_unlock(&stacks->mutex);
    if (source != NULL) {
        atomic_store_explicit(&mend_process_are_marks_set, true, memory_order_relaxed);
    }
    return MEND_OK;
}

mend_result mend_set_name(mend_name_kind kind, uint64_t number, const char *name)
{
    MEND_INVALID_IF(name == NULL || kind < MEND_NAME_TAG || kind > MEND_NAME_STACK,
                    "mend_set_name: name is NULL, or kind is no mend_name_kind");
    return mend_names_set(kind, number, name)
               ? MEND_OK
               : mend_fail(MEND_ERROR_OUT_OF_HOST_MEMORY, "no memory for a name");
}

/* Sums under the lock, then copies as much of each as the caller knows. */
mend_result mend_get_owners(mend_pool *pool, unsigned by, mend_owner *owners, size_t owner_bytes,
                            size_t capacity, size_t *count)
{
    MEND_TRY(mend_pool_check_array(pool, owners, owner_bytes, capacity, count, "mend_get_owners"));
    MEND_INVALID_IF((by & ~(unsigned)MEND_BY_ANY) != 0,
                    "mend_get_owners: by is not a sum of MEND_BY_...");
    size_t room = mend_min_u64(capacity, MEND_OWNERS_MOST);
    mend_owner *found = calloc(room + 1, sizeof(*found)); /* the last is the suspect */
    size_t total = 0;
    bool is_found = false;
    if (found != NULL) {
        mend_heap_lock(&pool->heap);
        is_found = mend_owners_find(&pool->heap, by != 0 ? by : MEND_BY_DEFAULT, found, room,
                                    &found[room], &total);
        mend_heap_unlock(&pool->heap);
    }
    if (!is_found) {
        free(found);
        return mend_publish(mend_no_host_memory("the sums of owners"));
    }
    for (size_t i = 0; i < room && i < total; i++) {
        mend_element_write(owners, owner_bytes, i, &found[i], sizeof(*found));
    }
    *count = total;
    free(found);
    return MEND_OK;
}
