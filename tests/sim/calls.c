/* Calls of the pool, each in a thread that may make it, and their possible results. */
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "map/map.h"
#include "pool/pool.h"
#include "tests/sim/asleep.h"
#include "tests/sim/quotas.h"
#include "tests/sim/ranges.h"
#include "tests/support/call.h"
#include "tests/support/options.h"

#define LLU(value) ((unsigned long long)(value))

mend_stream trial_handle(const trial *t, int stream, bool other_name)
{
    mend_stream handle = t->streams[stream].handle;
    return handle == NULL && other_name ? MEND_STREAM_LEGACY : handle;
}

int trial_thread_of(const trial *t, int stream, uint8_t wish)
{
    int own = t->streams[stream].thread;
    return own != ANY_THREAD ? own : wish % t->turns.count;
}

static mend_result trial_call_alloc(trial_call *call, mend_pool *pool)
{
    mend_alloc_options options = MEND_ALLOC_OPTIONS_INIT;
    options.address = call->wanted;
    options.in_one_chunk = call->in_one_chunk;
    options.alignment_bytes = call->wanted != NULL ? 0 : call->alignment_bytes;
    options.plain = trial_refuses_plain(call) ? -1 : 0;
    return call->graph_pool != NULL
               ? trial_call_in_graph_pool(call, pool)
               : mend_alloc_with(pool, call->size_bytes, call->stream, &options, &call->pointer);
}

static mend_result trial_call_free(trial_call *call, mend_pool *pool)
{
    return call->graph_pool != NULL ? trial_call_in_graph_pool(call, pool)
           : call->by_pointer       ? trial_free_by_pointer(call, pool)
                                    : mend_free(pool, call->pointer, call->stream);
}

static mend_result call_directly(trial_call *call, mend_pool *pool)
{
    switch (call->kind) {
#define X(kind, made)                                                                              \
    case CALL_##kind:                                                                              \
        return made;
        TRIAL_POOL_CALLS(X)
#undef X
    default:
        return MEND_OK;
    }
}

/* The thread's last error is marked last, so that a call that sets it is seen. */
static void call_pool(trial_call *call, mend_pool *pool)
{
    mend_test_call begun;
    const uint64_t outer_tag = mend_process_own_marks.sleep_tag;
    trial_mark_call(call); /* malloc may fail there, too */
    mend_fail(MEND_ERROR_INTERNAL, "there was call %d to come", (int)call->kind);
    mend_test_begin_call(&begun);
    if (call->graph_pool != NULL || !trial_hooks_take(call)) {
        call->result = call_directly(call, pool);
    }
    call->remains = mend_test_remains_of_call(&begun, call->result);
    if (call->result != MEND_OK) {
        trial_read_failure(call);
    }
    if (mend_process_callback_depth > 0) {
        mend_process_own_marks.sleep_tag = outer_tag; /* a callback leaves the thread as it was */
    }
}

void trial_perform(void *argument)
{
    trial_call *call = argument;
    trial *t = call->trial;
    if (call->kind >= CALL_LAUNCH) {
        trial_perform_on_device(call);
        return;
    }
    bool arms = t->malloc_fails && !t->malloc_armed;
    if (arms) {
        t->malloc_armed = true;
        mend_test_fail_host_memory_after(t->malloc_after, t->malloc_count);
        mend_test_watch_host_memory(true);
    }
    trial *outer = trial_may_wait(t);
    call_pool(call, t->pools[call->pool].pool);
    trial_may_wait(outer);
    if (arms) {
        mend_test_watch_host_memory(false);
        mend_test_heal_host_memory();
        t->outcome->tally.failed_mallocs += mend_test_failed_host_allocations();
        t->lacked_memory |= mend_test_failed_host_allocations() > 0;
        t->malloc_fails = false;
        t->malloc_armed = false;
    }
}

/* One is under way, or, where streams may vanish, was, and no call has named its stream since. */
static bool may_know_a_capture(const trial *t)
{
    /* With streams that vanish, one that was met in its capture is known by that capture alone. */
    bool may_know = t->captures > 0 || (t->config.vanish && t->last_capture > 0);
    for (int i = 0; i < t->stream_count; i++) {
        may_know |= t->streams[i].unnamed != 0;
    }
    return may_know;
}

/* Where streams may vanish nobody can tell a stream whose capture was spoilt. */
static bool names_a_spoilt_capture(const trial *t, const trial_call *call)
{
    bool is_named = false;
    for (int i = 0; i < t->stream_count; i++) {
        const trial_stream *stream = &t->streams[i];
        is_named |= stream->handle == call->stream && stream->captured &&
                    (stream->spoilt || stream->unsure || t->has_spoilt);
    }
    return t->config.vanish && is_named;
}

/* A block that the driver gave is for no graph. The driver refuses its free on the legacy stream
 * while a blocking one is captured. */
static bool is_passed_in_capture(const trial *t, const trial_call *call)
{
    return t->config.plain != 0 && t->captures > 0 &&
           (call->kind == CALL_ALLOC || call->kind == CALL_FREE || call->kind == CALL_RECORD);
}

/* Answers that only something planted explains. */
static bool may_answer_when_faulty(const trial *t, const trial_call *call)
{
    const bool exports = call->kind == CALL_EXPORT || call->kind == CALL_EXPORT_BY_FABRIC;
    switch (call->result) {
    case MEND_ERROR_DRIVER:
        return t->faults_stand || t->may_be_lost || t->has_spoilt || is_passed_in_capture(t, call);
    case MEND_ERROR_DEVICE_LOST:
        return t->may_be_lost || t->stopped;
    case MEND_ERROR_OUT_OF_HOST_MEMORY:
        return call->faulty;
    case MEND_ERROR_UNKNOWN_STREAM:
        return t->faults_stand || t->may_be_lost;
    case MEND_ERROR_FOREIGN_POINTER:
        return call->kind == CALL_PIN;
    case MEND_ERROR_NOT_SUPPORTED:
        return call->kind == CALL_FIND_KEPT || is_passed_in_capture(t, call) ||
               trial_may_lack_fabric(t, call) || (exports && t->had_prepare_checkpoint) ||
               (t->config.plain != 0 && call->kind == CALL_EXPORT_BY_FABRIC);
    case MEND_ERROR_INVALID_ARGUMENT:
        return call->kind == CALL_READ_KEPT || call->kind == CALL_FIND_KEPT ||
               (call->kind == CALL_GRAPH_POOL_RESTORE && trial_holds_chunks(t, call->pool));
    case MEND_ERROR_OUT_OF_MEMORY:
    case MEND_ERROR_OUT_OF_ADDRESS_SPACE:
        return call->kind == CALL_ALLOC || call->kind == CALL_WAKE ||
               call->kind == CALL_PREPARE_CHECKPOINT ||
               trial_may_answer_range(t, call, may_know_a_capture(t)) ||
               /* An import finds no addresses, or the driver no memory for its mappings. */
               (trial_is_import(call) && (t->faults_stand || t->config.address_devices != 0));
    case MEND_ERROR_PINNED:
        return trial_may_answer_asleep(t, call) || trial_may_answer_range(t, call, false);
    case MEND_ERROR_CAPTURING:
        if (call->kind == CALL_ALLOC || call->kind == CALL_RECORD || call->kind == CALL_ROOM ||
            (call->kind >= CALL_COMMIT && call->kind <= CALL_RANGE_DESTROY)) {
            return names_a_spoilt_capture(t, call);
        }
        /* A wake waits for the context after a call whose copies may still run. */
        return (call->kind == CALL_COMPACT ||
                (call->kind == CALL_WAKE &&
                 t->pools[call->pool].pool->heap.retire.copies.epoch != 0) ||
                call->kind == CALL_CLOSE || call->kind == CALL_SLEEP || call->kind == CALL_FORGET ||
                (call->kind == CALL_FREE && t->config.plain != 0) ||
                call->kind == CALL_PREPARE_CHECKPOINT ||
                (call->kind == CALL_TRIM && call->waits)) &&
               may_know_a_capture(t);
    default:
        return trial_may_answer_asleep(t, call);
    }
}

/* After the first call that found the device lost, all find it so. */
static void check_lost(trial *t, const trial_call *call)
{
    bool is_free = call->kind == CALL_FREE || call->kind == CALL_DECOMMIT;
    bool frees_in_peace = t->stopped && is_free;
    bool was_asked = !t->refused; /* by an allocator in its place */
    trial_pool *pool = &t->pools[call->pool];
    if (call->result == MEND_ERROR_DEVICE_LOST) {
        pool->lost = true;
        /* A context that was broken before the driver's end stays so: no call asks again. */
        trial_claim(t, TRIAL_RESULT, !frees_in_peace || t->may_be_lost,
                    "a free was refused after the driver's end");
    } else if (pool->lost && was_asked && !frees_in_peace &&
               call->result != MEND_ERROR_OUT_OF_HOST_MEMORY && call->expected != call->result) {
        trial_claim(t, TRIAL_RESULT, false, "call %d answers %s though the device is lost",
                    (int)call->kind, mend_result_name(call->result));
    }
}

/* A pool that has heard of the capture of the stream a call names heeds it until it hears of its
 * end. Streams that a graph pool takes are watched, and need not be remembered. Streams that may be
 * destroyed are known by more than their handle. Without host memory nothing can be remembered, and
 * a capture that was spoilt cannot be spoilt again: its graph pool may have ended. */
static void note_seen(trial *t, const trial_call *call, trial_stream *stream)
{
    bool is_told = t->witness.captured == call->stream && call->stream != MEND_NO_STREAM;
    bool is_alone = t->config.vanish == 0 && !stream->spoilt && !stream->unsure &&
                    call->result != MEND_ERROR_OUT_OF_HOST_MEMORY;
    for (int i = 0; i < TRIAL_GRAPH_POOLS; i++) {
        is_alone = is_alone && (t->graph_pools[i].graph_pool == NULL || !t->graph_pools[i].begun);
    }
    if (is_told && is_alone && stream->captured && call->kind == CALL_ALLOC) {
        stream->seen |= trial_bit(call->pool);
    }
}

/* Where streams may vanish, only the stream that a call names is asked whether its capture is over.
 */
static void note_named(trial *t, const trial_call *call, int thread)
{
    for (int i = 0; i < t->stream_count; i++) {
        trial_stream *stream = &t->streams[i];
        bool is_meant = stream->handle == call->stream &&
                        (stream->thread == ANY_THREAD || stream->thread == thread);
        if (is_meant) {
            note_seen(t, call, stream);
        }
        if (is_meant && call->result == MEND_OK) {
            /* Graph pools are the first pool's: another one's use of the stream watches nothing. */
            bool is_used = call->pool == 0 && !t->disturbed &&
                           (call->kind == CALL_ALLOC || call->kind == CALL_FREE ||
                            call->kind == CALL_RECORD || call->kind == CALL_GRAPH_POOL_BEGIN);
            stream->unnamed &= ~trial_bit(call->pool);
            stream->is_new = stream->is_new && !is_used;
        }
    }
}

/* The pool keeps memory for the capture from now on, unless a graph pool of the program's does. */
static void note_recorded(trial *t, const trial_call *call, int thread)
{
    bool is_use = call->kind == CALL_ALLOC || call->kind == CALL_FREE ||
                  call->kind == CALL_RECORD || call->kind == CALL_ROOM;
    for (int i = 0; is_use && i < t->stream_count; i++) {
        const trial_stream *stream = &t->streams[i];
        bool is_meant = stream->handle == call->stream &&
                        (stream->thread == ANY_THREAD || stream->thread == thread);
        bool has_graph_pool = call->pool == 0 && trial_graph_pool_taking(t, call->stream) != NOBODY;
        if (is_meant && trial_is_recorded(t, i) && !has_graph_pool) {
            trial_capture_graph_pool(t, i);
        }
    }
}

static bool can_take(mend_mutex *mutex)
{
    bool is_free = mend_mutex_try_lock(mutex);
    if (is_free) {
        mend_mutex_unlock(mutex);
    }
    return is_free;
}

/* The next call would wait for ever, and so would the end of the trial: the process ends here. */
void trial_check_locks(trial *t, int pool)
{
    mend_heap *heap = &t->pools[pool].pool->heap;
    if (!can_take(&heap->grow) || !can_take(&heap->state)) {
        fprintf(stderr, "a call of pool %d keeps a lock (%s)\n", pool, operation_name(t->op->kind));
        abort();
    }
}

/* Memory that a failed request must not keep, if no release was refused, and every undone mapping
 * is there again. */
typedef struct held {
    uint64_t reservations;
    uint64_t compactions;
    uint64_t refused;
    uint64_t host_waits;
    uint64_t lingering_bytes;
    uint64_t imported_bytes; /* that pools have released */
    uint64_t most_bytes;     /* that the pool can hold */
} held;

static held look_at_held(trial *t, int pool)
{
    const mend_heap *heap = &t->pools[pool].pool->heap;
    mend_driver_counters counters;
    mend_traced_driver_get(t->traced, &counters);
    return (held){.host_waits = heap->streams.host_waits,
                  .lingering_bytes = trial_lingering_bytes(t),
                  .imported_bytes = trial_kept_by_importers(t),
                  .most_bytes = mend_max_u64(heap->config.limit_bytes, heap->chunks.reserved_bytes),
                  .reservations = heap->space.reservations_by_address.count,
                  .compactions = heap->counters.compactions,
                  .refused = counters.call[MEND_CALL_unmap].failures +
                             counters.call[MEND_CALL_address_free].failures};
}

static void check_failed(trial *t, const trial_call *call, const held *before)
{
    held after = look_at_held(t, call->pool);
    bool is_checked = call->result != MEND_OK && call->kind == CALL_ALLOC &&
                      after.compactions == before->compactions &&
                      after.refused == before->refused &&
                      t->pools[call->pool].pool->heap.chunks.missing_count == 0;
    trial_claim(t, TRIAL_RESULT, !is_checked || after.reservations <= before->reservations,
                "a request that failed keeps addresses");
    /* Closed imports wait in any case. */
    const bool may_wait = trial_passes_all(t) || before->lingering_bytes > 0 || t->was_called;
    trial_claim(t, TRIAL_MODEL,
                !is_checked || call->faulty || may_wait ||
                    call->size_bytes <= mend_max_u64(before->most_bytes, after.most_bytes) ||
                    after.host_waits == before->host_waits,
                "the host waits for a request that can never be served");
}

/* A callback that frees one and a quarter of the needed bytes serves the call. But no memory is
 * moved, or released and created again, that captures and others know, or if addresses are few, or
 * the driver cannot map. */
static void check_given(trial *t, const trial_call *call)
{
    const bool is_unsure = call->faulty || t->config.address_devices != 0 || t->config.plain != 0 ||
                           trial_holds_memory_for_graphs(t) ||
                           ((trial_makes_chunks(call) || call->kind == CALL_WAKE) &&
                            (trial_any_was_exported(t, call->pool) || trial_has_quota(t)));
    trial_claim(t, TRIAL_REFUSED,
                is_unsure || call->result != MEND_ERROR_OUT_OF_MEMORY || !t->was_given,
                "call %d lacks memory, and a callback gave more than that: %s", (int)call->kind,
                call->message);
}

static void check_remains(trial *t, const trial_call *call)
{
    mend_heap *heap = &t->pools[call->pool].pool->heap;
    trial_claim(t, TRIAL_RESULT, call->remains == NULL, "call %d of the pool, which answers %s: %s",
                (int)call->kind, mend_result_name(call->result), call->remains);
    trial_claim(t, TRIAL_RESULT, t->calling != NULL || heap->blocks.promised_count == 0,
                "call %d of the pool keeps room for a pointer", (int)call->kind);
    if (t->calling == NULL) {
        trial_check_locks(t, call->pool);
    }
}

/* Memory that a request may count on. */
static uint64_t room_for(trial *t, const trial_call *call)
{
    const uint64_t room_bytes = trial_room(t, call->pool);
    return trial_makes_chunks(call)
               ? mend_min_u64(room_bytes, trial_room_with_peer_pools(t, call->pool, true))
               : room_bytes;
}

/* ---- devices with few addresses ---- */

/* A request may find no addresses only if, without all mappings that can be undone, no stretch of
 * the pool's reservations holds it. Live blocks, and memory that graphs may still use, stay. */

/* The first import in a range, which stays where it is. `end` if there is none, and then *behind
 * stays. */
static uint64_t next_import(const mend_heap *heap, uint64_t from, uint64_t end, uint64_t *behind)
{
    MEND_TREE_EACH(const mend_mapped_import, import, by_address, &heap->imports.by_address) {
        uint64_t import_end = import->at + import->bytes;
        if (import->at < end && import_end > from) {
            *behind = import_end;
            return mend_max_u64(import->at, from);
        }
    }
    return end;
}

/* The first address that is pinned, from one on. `end` where nothing is. *behind is where that
 * ends. */
static uint64_t next_pinned(const mend_heap *heap, uint64_t from, uint64_t end, uint64_t *behind)
{
    mend_chunk key = {.address = from};
    mend_tree_node *at = mend_tree_at_or_after(&heap->chunks.mapped, &key.by_address);
    for (; at != NULL; at = mend_tree_next(at)) {
        const mend_chunk *chunk = MEND_CONTAINER_OF(at, mend_chunk, by_address);
        if (chunk->address >= end) {
            break;
        }
        if (!mend_chunk_is_empty(chunk)) {
            *behind = chunk->address + chunk->size_bytes;
            return next_import(heap, from, chunk->address, behind);
        }
    }
    *behind = end;
    return next_import(heap, from, end, behind);
}

/* A stretch of the reservation that nothing pins holds so many bytes, aligned. */
static bool has_stretch(const mend_heap *heap, const mend_reservation *reservation,
                        uint64_t size_bytes, uint64_t alignment_bytes)
{
    uint64_t end = reservation->address + reservation->size_bytes - heap->space.page_bytes;
    for (uint64_t from = reservation->address; from < end;) {
        uint64_t behind;
        uint64_t pinned = next_pinned(heap, from, end, &behind);
        uint64_t start = mend_align_up(from, alignment_bytes);
        if (start < pinned && pinned - start >= size_bytes) {
            return true;
        }
        from = behind;
    }
    return false;
}

static void check_addresses(trial *t, const trial_call *call)
{
    const mend_heap *heap = &t->pools[call->pool].pool->heap;
    uint64_t largest_bytes = heap->device.granularity_bytes;
    MEND_TREE_EACH(const mend_chunk, chunk, memory.by_number, &heap->chunks.all) {
        largest_bytes = mend_max_u64(largest_bytes, chunk->size_bytes);
    }
    /* It may map more than it needs: the chunks in whose free ends it begins and ends. */
    const uint64_t size_bytes = call->size_bytes + 2 * largest_bytes;
    bool has_any = false;
    MEND_LIST_EACH(const mend_reservation, at, link, &heap->space.reservations) {
        has_any = has_any || has_stretch(heap, at, size_bytes, call->alignment_bytes);
    }
    trial_claim(t, TRIAL_REFUSED, t->config.address_devices != 0,
                "no addresses for %llu bytes where there are 128 TiB", LLU(call->size_bytes));
    trial_claim(t, TRIAL_REFUSED, !has_any || trial_holds_memory_for_graphs(t),
                "no addresses for %llu bytes, though a stretch is free that holds them",
                LLU(call->size_bytes));
}

mend_result trial_call_pool(trial *t, int thread, trial_call *call)
{
    static char untouched;
    void *before = call->kind == CALL_ALLOC ? &untouched : call->pointer;
    call->trial = t;
    call->pointer = before;
    call->faulty = trial_is_faulty(t);
    if (trial_needs_chunks(call)) {
        call->expected = MEND_ERROR_NOT_SUPPORTED;
    }
    int outer_thread = t->calling_thread;
    const trial_call *outer = t->calling;
    t->calling = call;
    t->calling_thread = thread == HERE ? outer_thread : thread;
    t->has_called = true;
    t->refused = false;
    if (outer == NULL) {
        t->was_given = false;
        t->was_called = false;
        trial_witness_call(t);
    }
    bool is_request = call->kind == CALL_ALLOC || call->kind == CALL_COMMIT;
    bool is_checked = is_request && outer == NULL && !trial_is_faulty(t);
    call->room_bytes = is_checked ? room_for(t, call) : 0;
    call->makes_none = is_checked && !trial_can_make_chunks(t, call->pool);
    note_recorded(t, call, t->calling_thread);
    const held before_it = look_at_held(t, call->pool);
    turns_run(&t->turns, thread == HERE ? 0 : thread, trial_perform, call);
    note_named(t, call, t->calling_thread);
    t->calling = outer;
    t->calling_thread = outer_thread;
    t->outcome->tally.answered[t->op->kind][call->result % TRIAL_RESULTS]++;
    call->faulty = call->faulty || t->disturbed || t->refused;
    t->may_unmap |= trial_may_remap(call) && call->faulty;
    check_remains(t, call);
    t->had_others |= before_it.imported_bytes > 0;
    check_failed(t, call, &before_it);
    check_given(t, call);
    check_lost(t, call);
    bool is_full = is_request && call->result == MEND_ERROR_OUT_OF_MEMORY;
    t->pools[call->pool].out_of_memory += is_full && !t->refused;
    trial_claim(t, TRIAL_RESULT,
                call->expected == MEND_OK || call->faulty || call->result == call->expected,
                "call %d of the pool: %s, expected %s", (int)call->kind,
                mend_result_name(call->result), mend_result_name(call->expected));
    if (call->result == MEND_OK) {
        return MEND_OK;
    }
    trial_claim(t, TRIAL_RESULT, call->pointer == before, "a failed call touched its output");
    if (call->result == MEND_ERROR_OUT_OF_MEMORY && is_request) {
        if (is_checked && !trial_is_faulty(t) && !t->refused) {
            trial_check_refusal(t, call);
        }
    } else if (call->result == MEND_ERROR_OUT_OF_ADDRESS_SPACE && is_checked && !call->faulty &&
               call->kind == CALL_ALLOC) {
        if (call->wanted == NULL) {
            check_addresses(t, call);
        }
    } else if (call->expected == MEND_OK || call->result != call->expected) {
        trial_claim(t, TRIAL_RESULT, may_answer_when_faulty(t, call),
                    "call %d of the pool: %s (%s)", (int)call->kind, mend_result_name(call->result),
                    call->message);
    }
    return call->result;
}
