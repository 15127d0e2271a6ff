#include "pool/pressure.h"

#include <stdlib.h>

#include "base/error.h"
#include "pool/pool.h"

#define ENTRY_OF(at) MEND_CONTAINER_OF(at, mend_pressure_entry, link)
#define RUN_OF(at)   MEND_CONTAINER_OF(at, mend_pressure_run, link)

void mend_pressure_init(mend_pressure *pressure)
{
    *pressure = (mend_pressure){0};
    mend_list_init(&pressure->entries);
    mend_condition_init(&pressure->changed);
}

void mend_pressure_destroy(mend_pressure *pressure)
{
    while (!mend_list_is_empty(&pressure->entries)) {
        mend_pressure_entry *entry = ENTRY_OF(pressure->entries.next);
        mend_list_remove(&entry->link);
        free(entry);
    }
    mend_condition_destroy(&pressure->changed);
}

/* ---- callbacks ----------------------------------------------------------------------------------
 */

static mend_pressure_entry *find(const mend_pressure *pressure, mend_pressure_callback callback,
                                 const void *context)
{
    const mend_list *end = &pressure->entries;
    for (mend_list *at = end->next; at != end; at = at->next) {
        mend_pressure_entry *entry = ENTRY_OF(at);
        if (!entry->is_removed && entry->callback == callback && entry->context == context) {
            return entry;
        }
    }
    return NULL;
}

mend_result mend_add_pressure_callback(mend_pool *pool, mend_pressure_callback callback,
                                       void *context)
{
    if (pool == NULL || callback == NULL) {
        return mend_pool_invalid("mend_add_pressure_callback: pool or callback is NULL");
    }
    mend_result result = mend_pool_check_process(pool);
    if (result != MEND_OK) {
        return result;
    }
    mend_pressure_entry *entry = malloc(sizeof(*entry));
    if (entry == NULL) {
        return mend_fail(MEND_ERROR_OUT_OF_HOST_MEMORY, "malloc failed for a callback");
    }
    *entry = (mend_pressure_entry){.callback = callback, .context = context};
    mend_list_init(&entry->runs);
    mend_heap_lock(&pool->heap);
    bool is_new = find(&pool->pressure, callback, context) == NULL;
    if (is_new) {
        mend_list_append(&pool->pressure.entries, &entry->link);
    }
    mend_heap_unlock(&pool->heap);
    if (!is_new) {
        free(entry);
        return mend_pool_invalid("mend_add_pressure_callback: it was added before");
    }
    return MEND_OK;
}

/* Drops an entry that was removed, when nobody runs it any more. */
static void drop_if_done(mend_pressure_entry *entry)
{
    if (entry->is_removed && mend_list_is_empty(&entry->runs)) {
        mend_list_remove(&entry->link);
        free(entry);
    }
}

/* Other threads are inside the callback. */
static bool others_run(const mend_pressure_entry *entry)
{
    for (const mend_list *at = entry->runs.next; at != &entry->runs; at = at->next) {
        if (!pthread_equal(RUN_OF(at)->thread, pthread_self())) {
            return true;
        }
    }
    return false;
}

mend_result mend_remove_pressure_callback(mend_pool *pool, mend_pressure_callback callback,
                                          void *context)
{
    if (pool == NULL || callback == NULL) {
        return mend_pool_invalid("mend_remove_pressure_callback: pool or callback is NULL");
    }
    mend_result result = mend_pool_check_process(pool);
    if (result != MEND_OK) {
        return result;
    }
    mend_pressure *pressure = &pool->pressure;
    mend_heap_lock(&pool->heap);
    mend_pressure_entry *entry = find(pressure, callback, context);
    if (entry != NULL) {
        mend_pressure_run remover = {.thread = pthread_self()};
        entry->is_removed = true;
        mend_list_append(&entry->runs, &remover.link); /* keeps the entry while this waits */
        while (others_run(entry)) {
            mend_condition_wait(&pressure->changed, &pool->heap.state);
        }
        mend_list_remove(&remover.link);
        drop_if_done(entry);
    }
    mend_heap_unlock(&pool->heap);
    return entry != NULL ? MEND_OK
                         : mend_pool_invalid("mend_remove_pressure_callback: it was never added");
}

/* Calls one callback without the lock; true when it freed anything. */
static bool call(mend_pool *pool, const mend_pressure_entry *entry, uint64_t needed_bytes)
{
    pool->pressure.calls++;
    mend_heap_unlock(&pool->heap);
    ++*mend_process_pressing_depth();
    bool has_freed = entry->callback(entry->context, pool, needed_bytes) != 0;
    --*mend_process_pressing_depth();
    mend_heap_lock(&pool->heap);
    return has_freed;
}

/* ---- siblings -----------------------------------------------------------------------------------
 */

/* Asks one pool to give back so much of what lies idle in it; true when it did. */
static bool trim_sibling(mend_pool *sibling, uint64_t bytes)
{
    uint64_t released_bytes = 0;
    mend_thread_error error_before = *mend_process_error();
    if (mend_pool_enter_making(sibling) != MEND_OK) {
        *mend_process_error() = error_before;
        return false;
    }
    uint64_t reserved_bytes = sibling->heap.chunks.reserved_bytes;
    uint64_t keep_bytes = reserved_bytes > bytes ? reserved_bytes - bytes : 0;
    mend_heap_trim(&sibling->heap, keep_bytes, &released_bytes);
    mend_pool_leave_making(sibling, MEND_OK);
    *mend_process_error() = error_before;
    return released_bytes > 0;
}

/* Where the device itself may lack the memory: other pools on it give theirs back. Without locks.
 */
static bool trim_siblings(mend_pool *pool, uint64_t bytes)
{
    bool has_freed = false;
    uint64_t cursor = 0;
    mend_process_member *member;
    while ((member = mend_process_visit_next(pool->driver, pool->device, &cursor)) != NULL) {
        mend_pool *sibling = MEND_CONTAINER_OF(member, mend_pool, member);
        if (sibling != pool) {
            has_freed = trim_sibling(sibling, bytes) || has_freed;
        }
        mend_process_visit_end(member);
    }
    return has_freed;
}

/* ---- the ladder ---------------------------------------------------------------------------------
 */

typedef struct attempt {
    uint64_t size_bytes;
    uint64_t alignment_bytes;
    mend_stream stream;
    uint64_t *address;
} attempt;

static mend_result allocate(mend_pool *pool, const attempt *a, mend_effort effort)
{
    return mend_heap_alloc(&pool->heap, a->size_bytes, a->alignment_bytes, a->stream, effort,
                           a->address);
}

/* The limit is not what stands in the way. */
static bool limit_has_room(const mend_pool *pool, uint64_t size_bytes)
{
    uint64_t reserved_bytes = pool->heap.chunks.reserved_bytes;
    uint64_t limit_bytes = pool->heap.config.limit_bytes;
    return limit_bytes > reserved_bytes && limit_bytes - reserved_bytes >= size_bytes;
}

static mend_result try_after_siblings(mend_pool *pool, const attempt *a)
{
    uint64_t page = pool->heap.device.granularity_bytes;
    if (!limit_has_room(pool, page)) {
        return MEND_ERROR_OUT_OF_MEMORY;
    }
    pool->pressure.sibling_trims++;
    mend_heap_unlock(&pool->heap);
    bool has_freed = trim_siblings(pool, mend_align_up(a->size_bytes, page));
    mend_heap_lock(&pool->heap);
    return has_freed ? allocate(pool, a, MEND_EFFORT_NO_HOST_WAIT) : MEND_ERROR_OUT_OF_MEMORY;
}

/* Calls one callback, and tries again when it freed anything. */
static mend_result try_after_callback(mend_pool *pool, const attempt *a, mend_pressure_entry *entry)
{
    return !entry->is_removed && call(pool, entry, a->size_bytes)
               ? allocate(pool, a, MEND_EFFORT_NO_HOST_WAIT)
               : MEND_ERROR_OUT_OF_MEMORY;
}

static mend_result try_after_callbacks(mend_pool *pool, const attempt *a)
{
    mend_pressure *pressure = &pool->pressure;
    mend_result result = MEND_ERROR_OUT_OF_MEMORY;
    pressure->rounds_under_way++;
    mend_list *at = pressure->entries.next;
    while (at != &pressure->entries && result == MEND_ERROR_OUT_OF_MEMORY) {
        mend_pressure_entry *entry = ENTRY_OF(at);
        mend_pressure_run own = {.thread = pthread_self()};
        mend_list_append(&entry->runs, &own.link); /* keeps the entry in its place */
        result = try_after_callback(pool, a, entry);
        at = at->next;
        mend_list_remove(&own.link);
        drop_if_done(entry);
        mend_condition_wake_all(&pressure->changed);
    }
    pressure->rounds_under_way--;
    pressure->rounds_ended++;
    mend_condition_wake_all(&pressure->changed);
    return result;
}

/* Another thread is in its callbacks, which may free just what is missing. */
static void wait_for_a_round(mend_pool *pool)
{
    mend_pressure *pressure = &pool->pressure;
    uint64_t ended = pressure->rounds_ended;
    while (pressure->rounds_under_way > 0 && pressure->rounds_ended == ended) {
        mend_condition_wait(&pressure->changed, &pool->heap.state);
    }
}

/* Nothing but the GPU itself can give memory back. */
static bool has_no_helpers(const mend_pool *pool, bool is_in_callback)
{
    bool has_callbacks = !is_in_callback && !mend_list_is_empty(&pool->pressure.entries);
    return !has_callbacks && !limit_has_room(pool, pool->heap.device.granularity_bytes);
}

static mend_result climb(mend_pool *pool, const attempt *a, bool is_in_callback)
{
    if (has_no_helpers(pool, is_in_callback)) {
        return allocate(pool, a, MEND_EFFORT_ALL);
    }
    mend_result result = allocate(pool, a, MEND_EFFORT_NO_HOST_WAIT);
    if (result == MEND_ERROR_OUT_OF_MEMORY) {
        result = try_after_siblings(pool, a);
    }
    if (result == MEND_ERROR_OUT_OF_MEMORY && !is_in_callback) {
        result = try_after_callbacks(pool, a);
    }
    return result == MEND_ERROR_OUT_OF_MEMORY ? allocate(pool, a, MEND_EFFORT_ALL) : result;
}

mend_result mend_pressure_alloc(mend_pool *pool, uint64_t size_bytes, uint64_t alignment_bytes,
                                mend_stream stream, uint64_t *address)
{
    attempt a = {size_bytes, alignment_bytes, stream, address};
    bool is_in_callback = *mend_process_pressing_depth() > 0;
    mend_result result = climb(pool, &a, is_in_callback);
    while (result == MEND_ERROR_OUT_OF_MEMORY && !is_in_callback &&
           pool->pressure.rounds_under_way > 0) {
        wait_for_a_round(pool);
        result = allocate(pool, &a, MEND_EFFORT_ALL);
    }
    return result;
}
