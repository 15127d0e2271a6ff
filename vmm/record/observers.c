/* Observers begin and end with their pool. The scopes are always there. They reserve counters for
 * the numbers that they meet. If the host has no memory for it, a block counts for the scope
 * around, so counting never fails. A live span's number has a place. */
#include <stdlib.h>
#include <string.h>

#include "base/align.h"
#include "base/thread.h"
#include "base/words.h"
#include "pool/pool.h"
#include "record/record.h"

#define RECORD_BYTES (256 * MEND_MIB)
#define SCOPES       (1u << MEND_TOLD_MARKED | 1u << MEND_TOLD_UNMARKED | 1u << MEND_TOLD_PEAKS)

enum { FIRST_CAPACITY = 64 };

/* ---- counters of scopes ---------------------------------------------------------------------- */

static void count_alloc(mend_scopes *scopes, mend_history_event *event)
{
    const mend_heap *heap = scopes->heap;
    uint32_t capacity = scopes->capacity == 0 ? FIRST_CAPACITY : scopes->capacity;
    while (capacity <= event->scope) {
        capacity *= 2;
    }
    mend_scope_info *of =
        event->scope >= scopes->capacity ? realloc(scopes->of, capacity * sizeof(*of)) : NULL;
    if (of != NULL) {
        for (uint32_t i = scopes->capacity; i < capacity; i++) {
            of[i] = (mend_scope_info){.number = i};
        }
        scopes->of = of;
        scopes->capacity = capacity;
    }
    while (event->scope >= scopes->capacity && event->scope != 0) { /* no host memory */
        event->scope = mend_scopes_around(event->scope);
    }
    for (uint32_t at = event->scope; at != 0; at = scopes->of[at].around) {
        mend_scope_info *scope = &scopes->of[at];
        scope->name = mend_scopes_entry(at)->name;
        scope->around = mend_scopes_around(at);
        scope->own_live_bytes += at == event->scope ? event->size_bytes : 0;
        scope->own_live_blocks += at == event->scope;
        scope->allocations++;
        scope->live_bytes += event->size_bytes;
        mend_raise_u64(&scope->peak_live_bytes, scope->live_bytes);
        mend_raise_u64(&scope->pool_peak_bytes, heap->counters.live_bytes);
        mend_raise_u64(&scope->pool_reserved_bytes,
                       heap->chunks.reserved_bytes + mend_heap_passed_bytes(heap));
    }
}

static void count_free(mend_scopes *scopes, const mend_history_event *event)
{
    assert(event->scope < scopes->capacity);
    assert(scopes->of[event->scope].own_live_blocks > 0);
    scopes->of[event->scope].own_live_bytes -= event->size_bytes;
    scopes->of[event->scope].own_live_blocks--;
    for (uint32_t at = event->scope; at != 0; at = scopes->of[at].around) {
        assert(scopes->of[at].live_bytes >= event->size_bytes);
        scopes->of[at].live_bytes -= event->size_bytes;
    }
}

static void hear(mend_listener *listener, mend_history_event *event)
{
    mend_scopes *scopes = MEND_CONTAINER_OF(listener, mend_scopes, listener);
    switch (event->kind) {
    case MEND_TOLD_MARKED:
        count_alloc(scopes, event);
        break;
    case MEND_TOLD_UNMARKED:
        count_free(scopes, event);
        break;
    default: /* peaks are reset */
        for (uint32_t i = 1; i < scopes->capacity; i++) {
            scopes->of[i].peak_live_bytes = scopes->of[i].live_bytes;
            scopes->of[i].pool_peak_bytes = 0;
            scopes->of[i].pool_reserved_bytes = 0;
        }
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

void mend_observers_count(const mend_heap *heap, mend_stats *stats)
{
    const mend_observers *observers = mend_observers_of(heap);
    if (observers != NULL) {
        const mend_history *history = &observers->history;
        stats->history_events = history->next - 1;
        stats->history_lost = history->next - 1 - history->held;
        stats->record_lost =
            history->recording != NULL ? atomic_load(&history->recording->lost) : 0;
    }
}

static mend_result begin(mend_pool *pool, const mend_pool_config *config)
{
    mend_heap *heap = &pool->heap;
    mend_observers *observers = calloc(1, sizeof(*observers));
    if (observers == NULL) {
        return mend_no_host_memory("a pool");
    }
    observers->pool = pool;
    observers->scopes = (mend_scopes){.listener.hear = hear, .heap = heap};
    mend_heap_lock(heap);
    mend_history_init(&observers->history, &heap->events);
    mend_events_listen(&heap->events, &observers->scopes.listener, SCOPES);
    mend_heap_unlock(heap);
    MEND_TRY(config->record != NULL ? mend_recorder_start(observers, config->record, RECORD_BYTES)
                                    : MEND_OK);
    return mend_publisher_start(observers);
}

mend_result mend_observers_hear(mend_pool *pool, mend_moment moment, const mend_pool_config *config)
{
    if (moment == MEND_POOL_IS_MADE) {
        mend_nvtx_load();
        return MEND_OK;
    }
    if (moment == MEND_POOL_BEGINS) {
        return begin(pool, config);
    }
    mend_observers *observers = mend_observers_of(&pool->heap);
    if (observers == NULL) {
        return MEND_OK;
    }
    if (moment == MEND_POOL_STAYS) {
        return mend_publisher_start(observers);
    }
    mend_publisher_stop(observers);
    if (moment == MEND_POOL_ENDED) { /* the heap is gone */
        mend_recorder_stop(observers);
        free(observers->history.events);
        free(observers->scopes.of);
        free(observers);
    }
    return MEND_OK;
}

/* ---- names ----------------------------------------------------------------------------------- */

static_assert((uint64_t)MEND_NAME_PIECES * MEND_NAME_PIECE > MEND_NAMES_MOST,
              "each index has its place");

/* The caller holds the mutex. The index of the new entry, 0: there is no host memory, or the table
 * is full. The count is written when the entry is whole, and the bucket last: a child of a fork in
 * between has the name in no bucket, and names it again. */
static uint32_t add_entry(mend_process_names *names, _Atomic(uint32_t) *bucket, uint64_t number,
                          uint32_t kind, const char *name)
{
    const uint32_t index = mend_names_count(names) + 1;
    if (index > MEND_NAMES_MOST) {
        return 0;
    }
    mend_name_entry **piece = &names->pieces[index / MEND_NAME_PIECE];
    if (*piece == NULL) {
        *piece = calloc(MEND_NAME_PIECE, sizeof(**piece));
    }
    if (*piece == NULL) {
        return 0;
    }
    mend_name_entry *entry = &(*piece)[index % MEND_NAME_PIECE];
    *entry = (mend_name_entry){.number = number, .kind = kind, .next = *bucket};
    memcpy(entry->name, name, strlen(name));
    atomic_store_explicit(&names->count, index, memory_order_release);
    atomic_store_explicit(bucket, index, memory_order_release);
    return index;
}

/* A new name for a number comes before the older ones. The same one is stored once. */
mend_result mend_set_name(mend_name_kind kind, uint64_t number, const char *name)
{
    MEND_INVALID_IF(name == NULL || kind < MEND_NAME_TAG || kind > MEND_NAME_STACK,
                    "mend_set_name: name is NULL, or kind is no mend_name_kind");
    mend_process_names *names = &mend_process_own_names;
    char kept[MEND_NAME_BYTES] = "";
    mend_words_join(kept, sizeof(kept), name);
    mend_mutex_lock(&names->mutex);
    const char *before = mend_names_find(kind, number);
    const bool is_known =
        strcmp(before != NULL ? before : "", kept) == 0 ||
        add_entry(names, mend_names_bucket(kind, number), number, (uint32_t)kind, kept) != 0;
    mend_mutex_unlock(&names->mutex);
    return is_known ? MEND_OK : mend_fail(MEND_ERROR_OUT_OF_HOST_MEMORY, "no memory for a name");
}

/* The number of `name` inside `around`. A new one for a new name. 0: there is no host memory, or no
 * number left. */
static uint32_t number_of(uint32_t around, const char *name)
{
    mend_process_names *scopes = &mend_process_own_scopes;
    char kept[MEND_SCOPE_NAME_BYTES] = ""; /* the counted part of a long name */
    const size_t length = mend_words_join(kept, sizeof(kept), name);
    const uint64_t hash = mend_hash(MEND_HASH_OF_NOTHING ^ around, kept, length);
    _Atomic(uint32_t) *bucket = &scopes->buckets[(hash >> 32) % MEND_NAME_BUCKETS];
    mend_mutex_lock(&scopes->mutex);
    uint32_t number = *bucket;
    while (number != 0 && (mend_scopes_around(number) != around ||
                           strcmp(mend_scopes_entry(number)->name, kept) != 0)) {
        number = mend_scopes_entry(number)->next;
    }
    if (number == 0) {
        number = add_entry(scopes, bucket, around, 0, kept);
    }
    mend_mutex_unlock(&scopes->mutex);
    return number;
}

/* ---- calls ----------------------------------------------------------------------------------- */

mend_result mend_get_scopes(mend_pool *pool, mend_scope_info *scopes, size_t scope_bytes,
                            size_t capacity, size_t *count)
{
    MEND_TRY(mend_pool_check_array(pool, scopes, scope_bytes, capacity, count, "mend_get_scopes"));
    mend_heap_lock(&pool->heap);
    const mend_scopes *of = &mend_observers_of(&pool->heap)->scopes;
    *count = 0;
    for (uint32_t number = 1; number < of->capacity; number++) {
        *count += of->of[number].allocations > 0;
    }
    size_t at = 0;
    for (uint32_t number = 1; number < of->capacity && *count <= capacity; number++) {
        if (of->of[number].allocations > 0) {
            mend_element_write(scopes, scope_bytes, at++, &of->of[number], sizeof(*scopes));
        }
    }
    mend_heap_unlock(&pool->heap);
    return MEND_OK;
}

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
    mend_thread_marks *own = &mend_process_own_marks;
    mend_result result = MEND_OK;
    uint32_t number = 0;
    if (name == NULL || name[0] == '\0' || flags > MEND_SCOPE_OF_ALL_THREADS) {
        result = mend_pool_invalid("mend_scope_push: name is NULL or empty, or flags are unknown");
    } else if (own->failed_scopes == 0) {
        if (mend_process_prepare() == MEND_OK) {
            number = number_of(own->scope, name);
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
    mend_thread_marks *own = &mend_process_own_marks;
    if (own->failed_scopes > 0) {
        own->failed_scopes--;
        return MEND_OK;
    }
    MEND_INVALID_IF(own->scope == 0, "mend_scope_pop: the thread is in no scope");
    const uint32_t around = mend_scopes_around(own->scope);
    if (own->shares_from == own->depth) {
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
