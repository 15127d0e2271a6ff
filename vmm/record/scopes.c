/*
 * The counters of a pool for each scope. It reserves counters for the numbers that it meets. If the
 * host has no memory for it, a block counts for the scope around, so counting never fails. A live
 * span's number has a place.
 */
#include <stdlib.h>

#include "base/names.h"
#include "base/struct_size.h"
#include "pool/pool.h"
#include "record/record.h"

enum { FIRST_CAPACITY = 64 };

/* Makes a place for each number up to this one. */
static bool make_place(mend_scopes *scopes, uint32_t number)
{
    uint32_t capacity = scopes->capacity == 0 ? FIRST_CAPACITY : scopes->capacity;
    while (capacity <= number) {
        capacity *= 2;
    }
    mend_scope_info *of = realloc(scopes->of, capacity * sizeof(*of));
    if (of == NULL) {
        return false;
    }
    for (uint32_t i = scopes->capacity; i < capacity; i++) {
        of[i] = (mend_scope_info){.number = i};
    }
    scopes->of = of;
    scopes->capacity = capacity;
    return true;
}

static void count_alloc(mend_scopes *scopes, mend_history_event *event)
{
    const mend_heap *heap = scopes->heap;
    if (event->scope >= scopes->capacity && !make_place(scopes, event->scope)) {
        while (event->scope >= scopes->capacity && event->scope != 0) {
            event->scope = mend_scopes_around(event->scope);
        }
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

static void reset_peaks(mend_scopes *scopes)
{
    for (uint32_t i = 1; i < scopes->capacity; i++) {
        scopes->of[i].peak_live_bytes = scopes->of[i].live_bytes;
        scopes->of[i].pool_peak_bytes = 0;
        scopes->of[i].pool_reserved_bytes = 0;
    }
}

void mend_scopes_hear(mend_listener *listener, mend_history_event *event)
{
    mend_scopes *scopes = MEND_CONTAINER_OF(listener, mend_scopes, listener);
    switch (event->kind) {
    case MEND_TOLD_MARKED:
        count_alloc(scopes, event);
        break;
    case MEND_TOLD_UNMARKED:
        count_free(scopes, event);
        break;
    default:
        reset_peaks(scopes);
    }
}

/* They listen as long as the pool lives, so that all observers are found by them. */
mend_observers *mend_observers_of(const mend_heap *heap)
{
    return MEND_CONTAINER_OR_NULL(mend_events_find(&heap->events, mend_scopes_hear), mend_observers,
                                  scopes.listener);
}

/* Writes as many as fit. Returns their number. */
static size_t list(const mend_scopes *scopes, mend_scope_info *to, size_t scope_bytes,
                   size_t capacity)
{
    size_t count = 0;
    for (uint32_t number = 1; number < scopes->capacity; number++) {
        const mend_scope_info *scope = &scopes->of[number];
        if (scope->allocations > 0 && count++ < capacity) {
            mend_element_write(to, scope_bytes, count - 1, scope, sizeof(*scope));
        }
    }
    return count;
}

mend_result mend_get_scopes(mend_pool *pool, mend_scope_info *scopes, size_t scope_bytes,
                            size_t capacity, size_t *count)
{
    MEND_TRY(mend_pool_check_array(pool, scopes, scope_bytes, capacity, count, "mend_get_scopes"));
    mend_heap_lock(&pool->heap);
    const mend_scopes *of = &mend_observers_of(&pool->heap)->scopes;
    *count = list(of, NULL, scope_bytes, 0);
    if (*count <= capacity) {
        list(of, scopes, scope_bytes, capacity);
    }
    mend_heap_unlock(&pool->heap);
    return MEND_OK;
}
