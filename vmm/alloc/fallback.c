/*
 * All steps of the fallback chain, from the cheapest to the most expensive. docs/design.md has
 * their numbers:
 *  - in_mapped: free mapped memory (1).
 *  - search, with both locks: place() for empty chunks, creation, and waits of streams (2 to 4).
 *    mend_place_behind() (5).
 *  - mend_seek_room: peer pools (6) and callbacks (7), without the grow lock, so that others can
 *    release memory. Then the same search with CPU stalls (8), and at last waits of peer pools.
 *
 * Each step is PLACED, NOTHING (the next step is tried) or FAILED (no further step is tried).
 */
#include "alloc/heap.h"

#include "base/process.h"
#include "memory/waits.h"
#include "plan/constants.h"

/* The most searches of one request: threads that keep allocating and freeing must not delay its
 * answer for ever. */
enum { SEARCHES = 8 };

/* Counters that tell which step served a request, and when it came to the lock. */
typedef struct mark {
    uint64_t began_ns;                       /* or MEND_HISTORY_NO_TIME */
    uint64_t of[MEND_CAUSE_HOST_WAITED + 1]; /* by cause, from the cheapest */
} mark;

/* One request on its way through the chain. */
typedef struct chain {
    mend_seek seek; /* may_wait: this search may wait for the GPU */
    mend_request *request;
    mend_span *span;
    mend_thread_error *answer; /* why the last complete search found nothing */
    bool has_looked;           /* in mapped memory, since the lock was released last */
    bool has_turn;             /* this thread has both locks */
    mark before;               /* when it got them */
} chain;

/* ---- with the grow lock: what the pool does by itself ---------------------------------------- */

/* Releases unused addresses, of destroyed ranges and of the pool. True if it released any. */
static bool trim_addresses(mend_heap *heap, uint32_t asking)
{
    const uint64_t range_bytes = heap->range_space.address_bytes;
    const uint64_t block_bytes = heap->space.address_bytes;
    const uint64_t taken_bytes = heap->space.taken_bytes;
    mend_retry_these(heap, MEND_DEFERRED_RANGE, MEND_DEFERRED_RANGE, asking);
    mend_trim_between(heap, 0, UINT64_MAX, asking);
    mend_space_trim(&heap->space, 0);
    return heap->space.taken_bytes < taken_bytes || heap->space.address_bytes < block_bytes ||
           heap->range_space.address_bytes < range_bytes;
}

/* The try that follows each step. `asks_streams`: also memory that other streams freed, if it is
 * idle or behind a wait on the device. If only addresses are short, it unmaps idle chunks and tries
 * once more. */
static mend_outcome place(chain *c, bool asks_streams)
{
    mend_heap *heap = c->seek.heap;
    if (asks_streams) { /* unmaps retired mappings, records and polls fences */
        mend_retire_flush(heap, c->request->stream);
        if (mend_streams_are_several(&heap->streams) &&
            mend_fallback_ask_others(heap, c->request) != MEND_OK) {
            return MEND_FAILED;
        }
    }
    if (asks_streams && mend_fallback_awaits_much(heap, c->request)) {
        MEND_TRY_NEXT(mend_fallback_place_without_growth(heap, c->request, &c->span));
    }
    if (asks_streams && heap->config.growth_percent != 0) {
        MEND_TRY_NEXT(mend_fallback_place_before_growth(heap, c->request, &c->span));
    }
    bool gave_addresses = false;
    do {
        heap->shortage.no_addresses = MEND_DRIVER_OK;
        MEND_TRY_NEXT(mend_place(heap, c->request, &c->span));
        if (asks_streams) {
            MEND_TRY_NEXT(mend_fallback_behind_device_waits(heap, c->request, MEND_ANY_FENCE,
                                                            mend_place, &c->span));
        }
        MEND_TRY_NEXT(mend_place_in_stretch(heap, c->request, &c->span));
        gave_addresses = !gave_addresses && heap->shortage.no_addresses != MEND_DRIVER_OK &&
                         trim_addresses(heap, c->request->stream);
    } while (gave_addresses);
    return MEND_NOTHING;
}

/* Waits for the oldest work, again and again, until the request is placed or there is no more work.
 * At last once for the context: launches of graphs that were destroyed keep their memory.
 * If a capture forbids the wait, there is nothing to wait for. */
static mend_outcome behind_host_waits(chain *c)
{
    mend_heap *heap = c->seek.heap;
    mend_outcome outcome = MEND_NOTHING;
    bool waited = true;
    bool has_graphs = heap->graph_pools.capture_count > 0;
    bool waits_for_own = mend_request_makes_chunks(c->request);
    mend_streams_begin_host_waits(&heap->streams);
    assert(c->seek.may_wait);
    while (outcome == MEND_NOTHING && waited) {
        /* Memory of the request's own stream needs no wait. Addresses that it may still use do, and
         * chunks that are to be released as pages, or for a larger one. A search forgets that
         * addresses were short. */
        waits_for_own |= heap->shortage.no_addresses != MEND_DRIVER_OK;
        mend_result result =
            mend_streams_wait_oldest(&heap->streams, c->request->stream, waits_for_own, &waited);
        if (result == MEND_OK && !waited && has_graphs) {
            has_graphs = false;
            result = mend_streams_wait_context(&heap->streams, c->request->stream);
            waited = result == MEND_OK;
        }
        mend_capture_graph_pools_collect(heap);
        if (result != MEND_OK && result != MEND_ERROR_CAPTURING) {
            return MEND_FAILED;
        }
        heap->shortage.wait_is_refused |= result == MEND_ERROR_CAPTURING;
        if (waited) { /* also for copies of a failed wake, which kept chunks mapped */
            mend_retry_these(heap, MEND_DEFERRED_MEMORY, MEND_DEFERRED_MEMORY, c->request->stream);
            mend_retire_flush(heap, c->request->stream);
            outcome = place(c, false);
        }
    }
    return outcome;
}

/* There was memory, but no addresses to map it: old mappings may use the addresses of a range. */
static mend_result out_of_addresses(const mend_heap *heap, const mend_request *request)
{
    const mend_status refused = heap->retire.refused;
    const unsigned long long range = heap->shortage.held_range;
    if (range == 0) {
        return mend_refused(heap->driver, MEND_ERROR_OUT_OF_ADDRESS_SPACE, MEND_CALL_reserve,
                            heap->shortage.no_addresses,
                            "no range of addresses is left for %llu bytes",
                            (unsigned long long)request->size_bytes);
    }
    return refused != MEND_DRIVER_OK /* old mappings keep its pages */
               ? mend_refused(heap->driver, MEND_ERROR_OUT_OF_ADDRESS_SPACE, MEND_CALL_unmap,
                              refused, "pages of the range 0x%llx could not be unmapped", range)
               : mend_failure(MEND_ERROR_OUT_OF_ADDRESS_SPACE,
                              "pages of the range 0x%llx are still mapped for earlier work, and "
                              "a capture in progress keeps them so",
                              range);
}

/* Notes the bytes to ask others for, and the report. If the driver cannot say whether a
 * capture forbids waits, one does. */
static void note_shortage(chain *c)
{
    mend_heap *heap = c->seek.heap;
    const mend_shortage *shortage = &heap->shortage;
    const bool lacks_addresses = shortage->no_addresses != MEND_DRIVER_OK;
    const uint64_t whole_bytes =
        mend_align_up(mend_request_missing_bytes(c->request), heap->device.granularity_bytes);
    c->seek.lacking_bytes = lacks_addresses               ? UINT64_MAX
                            : shortage->refused_bytes > 0 ? whole_bytes
                                                          : 0;
    if (!c->seek.may_wait) {
        return;
    }
    const mend_result result =
        mend_streams_find_capture(&heap->streams, c->request->stream, &c->seek.is_captured);
    c->seek.is_captured |= result != MEND_OK || shortage->wait_is_refused;
    if (lacks_addresses || shortage->held_range != 0) {
        out_of_addresses(heap, c->request);
    } else {
        mend_report_out_of_memory(heap, c->request, c->seek.is_captured);
    }
    *c->answer = *mend_process_failure();
}

/* ---- into the right to make room, and out of it ---------------------------------------------- */

/* Free mapped memory, which needs no grow lock, but the pin of a block in one chunk does. */
static inline mend_outcome in_mapped(mend_heap *heap, mend_request *request, bool holds_grow,
                                     mend_span **span)
{
    if (mend_requester_find(heap, request) != MEND_OK) {
        return MEND_FAILED;
    }
    if (request->pages != NULL) {
        return request->pages->commit(heap, request, false);
    }
    if (request->in_one_chunk && !holds_grow) {
        return MEND_NOTHING;
    }
    return holds_grow || mend_pointer_map_reserve(&heap->blocks)
               ? mend_place_mapped(heap, request, span)
               : mend_outcome_without_host_memory();
}

static mark mark_of(const mend_heap *heap, uint64_t began_ns)
{
    const mend_heap_counters *counters = &heap->counters;
    return (mark){.began_ns = began_ns,
                  .of = {[MEND_CAUSE_MOVED] = counters->chunks_moved,
                         [MEND_CAUSE_CREATED] = heap->chunks.created,
                         [MEND_CAUSE_STREAM_WAITED] = heap->streams.stream_waits,
                         [MEND_CAUSE_HOST_WAITED] = heap->streams.host_waits}};
}

/* Takes the grow lock. While this thread waits for it, a stream may be unregistered, a graph pool
 * destroyed, or memory freed: then it looks in mapped memory once more. The caller always ends with
 * end_turn. */
static mend_outcome take_turn(chain *c)
{
    mend_heap *heap = c->seek.heap;
    assert(c->has_looked);
    const bool is_next = mend_mutex_try_lock(&heap->grow);
    const bool knows_mapped = is_next && !c->request->in_one_chunk &&
                              mend_requester_known(heap, c->request) != MEND_STREAM_UNKNOWN;
    c->has_turn = c->has_looked = false;
    if (!mend_pointer_map_promise(&heap->blocks)) {
        if (is_next) {
            mend_mutex_unlock(&heap->grow);
        }
        return mend_outcome_without_host_memory();
    }
    const uint64_t began_ns = mend_events_now_ns(&heap->events);
    if (is_next) {
        mend_cache_close(heap);
    } else {
        mend_heap_unlock(heap);
        mend_heap_lock_all(heap);
    }
    c->has_turn = true;
    mend_events_begin_call(&heap->events, MEND_CAUSE_REQUEST);
    c->before = mark_of(heap, began_ns);
    return knows_mapped ? MEND_NOTHING : in_mapped(heap, c->request, true, &c->span);
}

/* Notes in the request, for its event, the most expensive step that served it, and the time, with
 * the wait for the lock. */
static mend_outcome end_turn(chain *c, mend_outcome outcome)
{
    mend_heap *heap = c->seek.heap;
    if (!c->has_turn) {
        return outcome;
    }
    if (outcome == MEND_PLACED && c->request->in_one_chunk) { /* it pins its chunk */
        assert(mend_span_is_in_one_chunk(c->span));
        c->span->in_one_chunk = true;
        mend_chunk_pin(&heap->chunks, c->span->chunk);
    }
    const mark now = mark_of(heap, 0);
    mend_service *service = &c->request->service;
    mend_event_cause dearest = MEND_CAUSE_HOST_WAITED; /* of the steps that this turn took */
    while (dearest > MEND_CAUSE_RUN && now.of[dearest] == c->before.of[dearest]) {
        dearest--;
    }
    service->cause = dearest > service->cause ? dearest : service->cause;
    service->duration_ns += mend_events_since_ns(&heap->events, c->before.began_ns);
    mend_heap_unlock_grow(heap);
    mend_pointer_map_end_promise(&heap->blocks);
    return outcome;
}

/* ---- the steps ------------------------------------------------------------------------------- */

/* Everything that the pool does by itself, in order. */
static mend_outcome search_once(chain *c)
{
    mend_heap *heap = c->seek.heap;
    const bool is_hopeless = mend_report_is_hopeless(heap, c->request);
    if (!is_hopeless) {
        MEND_TRY_NEXT(place(c, true));
    }
    if (!is_hopeless && !c->request->keeps_soft_limit) {
        MEND_TRY_NEXT(mend_place_behind(heap, c->request, &c->span));
        MEND_TRY_NEXT(mend_fallback_behind_device_waits(heap, c->request, MEND_ANY_FENCE,
                                                        mend_place_behind, &c->span));
    }
    if (!is_hopeless && c->seek.may_wait) {
        MEND_TRY_NEXT(behind_host_waits(c));
        MEND_TRY_NEXT(mend_place_behind(heap, c->request, &c->span));
    }
    if (c->seek.may_wait || heap->shortage.refused_bytes > 0) {
        mend_effective_limit_learn(heap);
    }
    return MEND_NOTHING;
}

/* The same again if other threads freed memory meanwhile, or the device has more or less memory
 * than was known. Once in a search, memory that the driver refused before may be there by now. */
static mend_outcome search(chain *c)
{
    mend_heap *heap = c->seek.heap;
    mend_driver_scope scope;
    mend_outcome outcome = take_turn(c);
    if (outcome != MEND_NOTHING || mend_enter(heap, &scope) != MEND_OK) {
        return end_turn(c, outcome != MEND_NOTHING ? outcome : MEND_FAILED);
    }
    int searches = 0;
    bool asks_again = true;
    uint64_t frees_before;
    uint64_t limit_before; /* memory that the pool could have, by the memory of the device */
    heap->frees.early_fences_left = SEARCH_TRIES;
    do {
        frees_before = mend_heap_frees(heap);
        mend_effective_limit_begin_search(heap);
        limit_before = mend_budget_hard_limit(heap);
        heap->shortage = (mend_shortage){0};
        outcome = search_once(c);
        if (outcome == MEND_NOTHING && asks_again && mend_budget_hard_limit(heap) == limit_before) {
            asks_again = false;
            mend_effective_limit_forget_refusal(heap);
        }
    } while (
        outcome == MEND_NOTHING &&
        (mend_heap_frees(heap) != frees_before || mend_budget_hard_limit(heap) != limit_before) &&
        ++searches < SEARCHES);
    if (outcome == MEND_NOTHING) {
        note_shortage(c);
    }
    mend_driver_scope_close(heap, &scope);
    return end_turn(c, outcome);
}

/* ---- the fallback chain ---------------------------------------------------------------------- */

/* In mapped memory, unless that was just looked at, and then everything. */
static mend_outcome attempt(mend_seek *seek)
{
    chain *c = MEND_CONTAINER_OF(seek, chain, seek);
    mend_outcome outcome =
        c->has_looked ? MEND_NOTHING : in_mapped(c->seek.heap, c->request, false, &c->span);
    c->has_looked = true;
    return outcome == MEND_NOTHING ? search(c) : outcome;
}

/* A search without CPU stalls, except stalls that growth would only delay, comes only if peer pools
 * or callbacks may release memory before a stall. Otherwise the last search is the first. Its
 * shortage is the result, whatever calls of peer pools and callbacks have noted since. */
mend_result mend_fallback_run(mend_heap *heap, mend_request *request, mend_span **span)
{
    mend_outcome outcome = in_mapped(heap, request, false, span);
    if (outcome == MEND_PLACED) {
        return MEND_OK;
    }
    mend_thread_error answer; /* large, so it is written only if needed */
    chain c = {.seek = {.heap = heap, .attempt = attempt, .needed_bytes = request->requested_bytes},
               .request = request,
               .answer = &answer,
               .has_looked = true};
    const uint64_t soft_limit_bytes = heap->config.soft_limit_bytes;
    bool keeps_soft_limit = outcome == MEND_NOTHING && soft_limit_bytes != 0 &&
                            soft_limit_bytes < mend_budget_hard_limit(heap);
    if (keeps_soft_limit) { /* before the pool grows above it: steps without growth, callbacks */
        request->keeps_soft_limit = true;
        outcome = search(&c);
        if (outcome == MEND_NOTHING) {
            outcome = heap->config.helpers->call_back(&c.seek);
        }
        request->keeps_soft_limit = false;
        keeps_soft_limit = outcome == MEND_NOTHING;
    }
    uint64_t reserved_bytes = heap->chunks.reserved_bytes;
    if (outcome == MEND_NOTHING) { /* something else may give memory back */
        outcome = mend_seek_room(&c.seek, heap->config.limit_bytes > heap->chunks.reserved_bytes ||
                                              heap->config.helpers->has_callbacks(heap));
    }
    heap->counters.waited_requests += request->service.cause == MEND_CAUSE_HOST_WAITED;
    if (outcome == MEND_PLACED) {
        assert(request->pages != NULL || c.span->size_bytes == request->size_bytes);
        heap->counters.soft_limit_passed +=
            keeps_soft_limit && heap->chunks.reserved_bytes > reserved_bytes &&
            heap->chunks.reserved_bytes > heap->config.soft_limit_bytes;
        *span = c.span;
        return MEND_OK;
    }
    if (outcome == MEND_NOTHING) {
        assert(c.seek.may_wait); /* the last search was complete */
        *mend_process_failure() = *c.answer;
    }
    return mend_process_failure()->result;
}

/* ---- who is asked ---------------------------------------------------------------------------- */

static mend_outcome beside_others(mend_seek *seek)
{
    return seek->lacking_bytes > 0 && seek->heap->config.helpers->trim_others(seek)
               ? seek->attempt(seek)
               : MEND_NOTHING;
}

/* The sources of memory, in turn: none, idle memory of others, callbacks, its own work, and at last
 * work of others. Each is asked once. */
mend_outcome mend_seek_room(mend_seek *seek, bool is_helped)
{
    if (is_helped) {
        MEND_TRY_NEXT(seek->attempt(seek));
        MEND_TRY_NEXT(beside_others(seek));
        MEND_TRY_NEXT(seek->heap->config.helpers->call_back(seek));
    }
    seek->may_wait = true;
    MEND_TRY_NEXT(seek->attempt(seek));
    return beside_others(seek);
}
