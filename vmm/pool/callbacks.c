#include "pool/callbacks.h"

#include <stdlib.h>

#include "base/error.h"
#include "ladder/report.h"
#include "move/scope.h"
#include "pool/peer_pools.h"
#include "pool/pool.h"
#include "users/group.h"

#define ENTRY_OF(at) MEND_CONTAINER_OF(at, mend_callback_entry, link)
#define RUN_OF(at)   MEND_CONTAINER_OF(at, mend_callback_run, link)

void mend_callbacks_init(mend_pressure *pressure)
{
    *pressure = (mend_pressure){0};
    mend_list_init(&pressure->entries);
    mend_list_init(&pressure->rounds);
    mend_condition_init(&pressure->changed);
}

void mend_callbacks_destroy(mend_pressure *pressure)
{
    while (!mend_list_is_empty(&pressure->entries)) {
        mend_callback_entry *entry = ENTRY_OF(pressure->entries.next);
        mend_list_remove(&entry->link);
        free(entry);
    }
    mend_condition_destroy(&pressure->changed);
}

/* ---- callbacks ----------------------------------------------------------------------------------
 */

static mend_callback_entry *find(const mend_pressure *pressure, mend_pressure_callback callback,
                                 const void *context)
{
    const mend_list *end = &pressure->entries;
    for (mend_list *at = end->next; at != end; at = at->next) {
        mend_callback_entry *entry = ENTRY_OF(at);
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
    mend_callback_entry *entry = malloc(sizeof(*entry));
    if (entry == NULL) {
        return mend_fail(MEND_ERROR_OUT_OF_HOST_MEMORY, "malloc failed for a callback");
    }
    *entry = (mend_callback_entry){.callback = callback, .context = context};
    mend_list_init(&entry->runs);
    mend_heap_lock(&pool->heap);
    bool is_new = find(&pool->pressure, callback, context) == NULL;
    if (is_new) {
        entry->number = ++pool->pressure.last_entry;
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
static void drop_if_done(mend_callback_entry *entry)
{
    if (entry->is_removed && mend_list_is_empty(&entry->runs)) {
        mend_list_remove(&entry->link);
        free(entry);
    }
}

/* Other threads are inside the callback. */
static bool others_run(const mend_callback_entry *entry)
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
    mend_callback_entry *entry = find(pressure, callback, context);
    if (entry != NULL) {
        mend_callback_run remover = {.thread = pthread_self()};
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

/* ---- the ladder ---------------------------------------------------------------------------------
 */

typedef struct attempt {
    uint64_t size_bytes;
    uint64_t alignment_bytes;
    mend_order order;
    uint64_t *address;
    bool is_in_callback; /* of this thread, on any pool */
} attempt;

static mend_result allocate(mend_pool *pool, const attempt *a, mend_effort effort)
{
    return mend_heap_alloc(&pool->heap, a->size_bytes, a->alignment_bytes, a->order, effort,
                           a->address);
}

/* Searches anew; what was freed meanwhile may serve without waiting for one's turn to make room. */
static mend_result search(mend_pool *pool, const attempt *a, mend_effort effort)
{
    mend_result result = allocate(pool, a, MEND_EFFORT_NONE);
    return result == MEND_ERROR_OUT_OF_MEMORY ? allocate(pool, a, effort) : result;
}

/* What the device lacks of the memory it refused. All of it where the driver counts enough as free
 * and refuses it all the same. */
static uint64_t lacking_bytes(const mend_shortage *shortage)
{
    return shortage->refused_bytes > shortage->device_free_bytes
               ? shortage->refused_bytes - shortage->device_free_bytes
               : shortage->refused_bytes;
}

/* Asks the next peer pool, without the lock. False when there is none left. Its failures are none
 * of this call. */
static bool ask_peer_pool(mend_pool *pool, uint64_t bytes, uint64_t *cursor, bool *gave)
{
    *gave = false;
    mend_heap_unlock(&pool->heap);
    bool is_asked = mend_peer_pools_trim_next(pool, bytes, cursor, gave);
    mend_heap_lock(&pool->heap);
    pool->pressure.peer_pool_trims += is_asked;
    return is_asked;
}

/* Peer pools give back what the device lacks, one after the other until there is room. They are
 * left alone when it is the limit that stands in the way. */
static mend_result try_after_peer_pools(mend_pool *pool, const attempt *a)
{
    mend_result result = MEND_ERROR_OUT_OF_MEMORY;
    mend_shortage shortage = pool->heap.shortage;
    uint64_t cursor = 0;
    bool gave = false;
    while (result == MEND_ERROR_OUT_OF_MEMORY && shortage.refused_bytes > 0 &&
           ask_peer_pool(pool, lacking_bytes(&shortage), &cursor, &gave)) {
        if (gave) {
            result = search(pool, a, MEND_EFFORT_NO_HOST_WAIT);
            shortage = pool->heap.shortage;
        }
    }
    return result;
}

/* The context broke in a callback, perhaps in a call whose failure was worked around: the driver
 * says by which status, unless it refuses for another reason. */
static mend_result name_loss(mend_pool *pool)
{
    mend_scope scope;
    mend_result result = mend_scope_open(&pool->heap, &scope);
    if (result == MEND_OK) {
        mend_scope_close(&pool->heap, &scope);
    }
    return result == MEND_ERROR_DEVICE_LOST ? result : mend_pool_check_context(pool);
}

static uint64_t missing_bytes_of(mend_heap *heap, const attempt *a)
{
    mend_stream stream = a->order.stream;
    uint32_t group = stream == MEND_NO_STREAM ? 0 : mend_group_taking(heap, stream);
    mend_request request = {
        .size_bytes = mend_align_up(a->size_bytes, MEND_GRANULE_BYTES),
        .alignment_bytes = mend_max_u64(a->alignment_bytes, MEND_GRANULE_BYTES),
        .stream = stream == MEND_NO_STREAM ? MEND_STREAM_UNKNOWN
                                           : mend_streams_lookup(&heap->streams, stream, group),
    };
    return mend_report_missing_bytes(heap, &request);
}

/* Calls one callback, without the lock, and searches again when it freed anything. */
static mend_result try_after_callback(mend_pool *pool, const attempt *a,
                                      const mend_callback_entry *entry)
{
    uint64_t missing_bytes = missing_bytes_of(&pool->heap, a);
    pool->pressure.calls++;
    mend_heap_unlock(&pool->heap);
    ++*mend_process_callback_depth();
    bool has_freed = entry->callback(entry->context, pool, a->size_bytes, missing_bytes) != 0;
    --*mend_process_callback_depth();
    mend_heap_lock(&pool->heap);
    if (mend_heap_lost_by(&pool->heap) != MEND_DRIVER_OK) {
        return name_loss(pool);
    }
    return has_freed ? search(pool, a, MEND_EFFORT_NO_HOST_WAIT) : MEND_ERROR_OUT_OF_MEMORY;
}

/* One round: those that were added before it began. */
static mend_result try_after_callbacks(mend_pool *pool, const attempt *a)
{
    mend_pressure *pressure = &pool->pressure;
    mend_result result = MEND_ERROR_OUT_OF_MEMORY;
    mend_callback_round round = {.number = ++pressure->last_round};
    uint64_t last_entry = pressure->last_entry;
    mend_list_append(&pressure->rounds, &round.link);
    mend_list *at = pressure->entries.next;
    while (at != &pressure->entries && ENTRY_OF(at)->number <= last_entry &&
           result == MEND_ERROR_OUT_OF_MEMORY) {
        mend_callback_entry *entry = ENTRY_OF(at);
        mend_callback_run own = {.thread = pthread_self()};
        mend_list_append(&entry->runs, &own.link); /* keeps the entry in its place */
        if (!entry->is_removed) {
            result = try_after_callback(pool, a, entry);
        }
        at = at->next;
        mend_list_remove(&own.link);
        drop_if_done(entry);
        mend_condition_wake_all(&pressure->changed);
    }
    mend_list_remove(&round.link);
    mend_condition_wake_all(&pressure->changed);
    return result;
}

/* Rounds under way, of those that began up to one. */
static uint64_t count_rounds(const mend_pressure *pressure, uint64_t last_round)
{
    uint64_t count = 0;
    const mend_list *end = &pressure->rounds;
    for (const mend_list *at = end->next;
         at != end && MEND_CONTAINER_OF(at, mend_callback_round, link)->number <= last_round;
         at = at->next) {
        count++;
    }
    return count;
}

/* The last search, with all effort. Other threads in their callbacks may free just what is missing:
 * before out of memory is answered, every round that is under way now has come to its end. */
static mend_result search_to_the_end(mend_pool *pool, const attempt *a)
{
    mend_pressure *pressure = &pool->pressure;
    uint64_t last_round = a->is_in_callback ? 0 : pressure->last_round;
    uint64_t before;
    mend_result result;
    do {
        before = count_rounds(pressure, last_round);
        result = search(pool, a, MEND_EFFORT_ALL);
        while (result == MEND_ERROR_OUT_OF_MEMORY && before > 0 &&
               count_rounds(pressure, last_round) == before) {
            mend_condition_wait(&pressure->changed, &pool->heap.state);
        }
    } while (result == MEND_ERROR_OUT_OF_MEMORY && before > 0);
    return result;
}

/* What peer pools are to give when the last search has failed. Where it lacked addresses alone, all
 * that they do not use; memory where only this search was refused any, for what a pool keeps to
 * swap with is spent at last. 0: they cannot help. */
static uint64_t wanted_at_last(const mend_pool *pool, mend_result result, bool were_asked)
{
    if (result == MEND_ERROR_OUT_OF_ADDRESSES) {
        return UINT64_MAX;
    }
    return result == MEND_ERROR_OUT_OF_MEMORY && !were_asked ? lacking_bytes(&pool->heap.shortage)
                                                             : 0;
}

/* What other threads did that may leave room: they free, or create more than they need. */
static uint64_t changes_of(const mend_heap *heap)
{
    return MEND_HEAP_SUM(heap, frees) + heap->chunks.created;
}

/* The last search, and again after each peer pool that gives anything, or beside which others have
 * left room here. */
static mend_result search_with_peer_pools(mend_pool *pool, const attempt *a, bool were_asked)
{
    mend_result result = search_to_the_end(pool, a);
    uint64_t wanted_bytes = wanted_at_last(pool, result, were_asked);
    uint64_t cursor = 0;
    bool is_asked = wanted_bytes > 0;
    while (is_asked) {
        bool gave = false;
        const uint64_t changes = changes_of(&pool->heap);
        is_asked = ask_peer_pool(pool, wanted_bytes, &cursor, &gave);
        if (gave || changes_of(&pool->heap) != changes) {
            result = search_to_the_end(pool, a);
            wanted_bytes = wanted_at_last(pool, result, were_asked);
        }
        is_asked = is_asked && wanted_bytes > 0;
    }
    return result;
}

/* Something but the GPU itself may give memory back. */
static bool has_helpers(const mend_pool *pool, const attempt *a)
{
    bool has_callbacks = !a->is_in_callback && !mend_list_is_empty(&pool->pressure.entries);
    uint64_t reserved_bytes = pool->heap.chunks.reserved_bytes;
    return has_callbacks || pool->heap.config.limit_bytes > reserved_bytes;
}

static mend_result climb(mend_pool *pool, const attempt *a)
{
    if (!has_helpers(pool, a)) {
        return search_with_peer_pools(pool, a, false);
    }
    mend_result result = allocate(pool, a, MEND_EFFORT_NO_HOST_WAIT);
    bool were_asked = result == MEND_ERROR_OUT_OF_MEMORY && pool->heap.shortage.refused_bytes > 0;
    if (were_asked) {
        result = try_after_peer_pools(pool, a);
    }
    if (result == MEND_ERROR_OUT_OF_MEMORY && !a->is_in_callback) {
        result = try_after_callbacks(pool, a);
    }
    return result == MEND_ERROR_OUT_OF_MEMORY ? search_with_peer_pools(pool, a, were_asked)
                                              : result;
}

static mend_result make_room(mend_pool *pool, const attempt *a)
{
    mend_result result = climb(pool, a);
    pool->heap.counters.out_of_memory += result == MEND_ERROR_OUT_OF_MEMORY;
    return result;
}

mend_result mend_pressure_alloc(mend_pool *pool, uint64_t size_bytes, uint64_t alignment_bytes,
                                mend_order order, void **pointer)
{
    uint64_t address;
    bool is_in_callback = *mend_process_callback_depth() > 0;
    attempt a = {size_bytes, alignment_bytes, order, &address, is_in_callback};
    mend_result result = allocate(pool, &a, MEND_EFFORT_NONE);
    if (result == MEND_ERROR_OUT_OF_MEMORY) {
        result = make_room(pool, &a);
    }
    if (result == MEND_OK) {
        *pointer = (void *)(uintptr_t)address;
    }
    return result;
}
