/* Blocks: allocation, free, the streams that use one, and the errors for other pointers. */
#include "alloc/fast.h"

#include "plan/constants.h"

static mend_result check_size(uint64_t size_bytes, uint64_t alignment_bytes)
{
    if (size_bytes == 0 || size_bytes > MEND_LARGEST_REQUEST_BYTES) {
        return mend_failure(MEND_ERROR_INVALID_ARGUMENT,
                            "a block of %llu bytes is not possible; sizes are 1 to 2^60 bytes",
                            (unsigned long long)size_bytes);
    }
    if (!mend_is_power_of_two(alignment_bytes) || alignment_bytes > MEND_LARGEST_ALIGNMENT_BYTES) {
        return mend_failure(MEND_ERROR_INVALID_ARGUMENT,
                            "alignment_bytes is %llu; it takes powers of two up to 2^40",
                            (unsigned long long)alignment_bytes);
    }
    return MEND_OK;
}

void mend_block_hand_out(mend_heap *heap, const mend_request *request, mend_span *span)
{
    assert(span->live);
    assert(span->size_bytes == request->size_bytes);
    assert(span->address % request->alignment_bytes == 0);
    span->of_graph_pool = false;
    if (request->graph_pool != 0) { /* a user that stays until the graph pool is released */
        span->of_graph_pool = true;
        mend_waits_add_user(mend_heap_wait_env(heap), &span->waits, request->stream);
    }
    span->skips_cache =
        span->size_bytes >= heap->config.in_one_chunk_bytes ||
        (span->zone == MEND_ZONE_SMALL) !=
            (request->requested_bytes <= heap->config.placement.small_request_bytes);
    mend_pointer_map_insert(&heap->blocks, span->address, span);
    mend_layout_count_alloc(heap, &heap->zones[span->zone], span, request->requested_bytes,
                            request->handle);
    span->tag = request->tag;
    /* The sleep tag of a restored block, of the thread, or else the tag. */
    span->sleep_tag = request->sleep_tag != 0 ? request->sleep_tag
                      : span->sleep_tag != 0  ? span->sleep_tag
                                              : request->tag;
    span->stack = request->stack;
    if (mend_events_has(&heap->events, MEND_EVENT_ALLOC)) {
        mend_events_alloc(heap, span, request->service);
    }
}

/* Takes the memory at the request's address, if all of it is free and ready. */
static mend_result place_at(mend_heap *heap, mend_request *request, mend_span **span)
{
    MEND_TRY(mend_requester_find(heap, request));
    if (!mend_pointer_map_reserve(&heap->blocks) || !mend_layout_reserve(heap, 0)) {
        return mend_no_host_memory("the pool's own records");
    }
    mend_run *run = NULL;
    for (int zone = 0; zone < MEND_ZONES_OF_BLOCKS && run == NULL; zone++) {
        mend_cache_flush(heap, zone);
        run = mend_layout_run_at(&heap->zones[zone], request->at);
    }
    if (run == NULL || mend_run_end(run) - request->at < request->size_bytes ||
        !mend_layout_is_ready(heap, run, request->at, request->size_bytes, request->stream, 0)) {
        return mend_failure(MEND_ERROR_OUT_OF_ADDRESS_SPACE,
                            "%llu bytes at 0x%llx are not free memory that the stream may use now",
                            (unsigned long long)request->size_bytes,
                            (unsigned long long)request->at);
    }
    *span = mend_layout_take(heap, run, request->at, request->size_bytes, request->home);
    heap->counters.placed_in_run++;
    return MEND_OK;
}

/* The sleep tag of the request or of the thread. The options' tag, once the pool has slept. Memory
 * of graphs without a tag sleeps by its own rule. */
static uint64_t home_of(mend_heap *heap, const mend_request *terms, mend_order order,
                        uint64_t sleep_tag)
{
    const uint64_t own = terms->sleep_tag != 0 ? terms->sleep_tag : sleep_tag;
    const uint64_t home = own == 0 && heap->counters.sleeps > 0 ? terms->tag : own;
    heap->has_homes |= home != 0;
    const bool is_for_graphs = order.capture != 0 || terms->owner != 0;
    return home == 0 && heap->has_homes && is_for_graphs ? UINT64_MAX : home;
}

/* A switch of mend_alloc_options: the call says it, or else the thread, or else the pool. */
static int resolve(int call, int thread, bool pool)
{
    const int said = call != 0 ? call : thread;
    return said != 0 ? said > 0 : pool;
}

mend_result mend_heap_alloc(mend_heap *heap, uint64_t size_bytes, const mend_request *terms,
                            mend_order order, uint64_t *address)
{
    assert(mend_mutex_is_held(&heap->state));
    /* At once: a failure leaves none for later requests, and pressure callbacks allocate, too. */
    static const mend_thread_marks none = {0};
    const bool has_marks = mend_process_has_marks();
    const mend_thread_marks *own = has_marks ? &mend_process_own_marks : &none;
    mend_request request = *terms;
    request.stack = has_marks ? (uint16_t)mend_process_take_stack() : 0;
    MEND_TRY(check_size(size_bytes, terms->alignment_bytes));
    const bool has_defaults = terms->at == 0 && heap->device.virtual_memory;
    if (has_defaults) {
        mend_raise_u64(&request.alignment_bytes, own->alignment_bytes);
    }
    request.in_one_chunk = resolve(terms->in_one_chunk, has_defaults ? own->in_one_chunk : -1,
                                   size_bytes >= heap->config.in_one_chunk_bytes);
    if (order.stream == MEND_EVERY_STREAM) {
        return mend_failure(MEND_ERROR_INVALID_ARGUMENT,
                            "MEND_EVERY_STREAM is for mend_graph_pool_begin");
    }
    /* A chunk is aligned to a page, so a larger alignment goes to the large zone. */
    const bool is_small = size_bytes <= heap->config.placement.small_request_bytes &&
                          request.alignment_bytes <= heap->device.granularity_bytes;
    request.size_bytes = mend_align_up(size_bytes + heap->config.guard_bytes, MEND_GRANULE_BYTES);
    mend_raise_u64(&request.alignment_bytes, MEND_GRANULE_BYTES);
    request.requested_bytes = size_bytes;
    request.handle = order.stream;
    request.capture = order.capture;
    request.zone = is_small ? MEND_ZONE_SMALL : MEND_ZONE_LARGE;
    request.plain = resolve(terms->plain, own->plain, false);
    request.home = home_of(heap, terms, order, own->sleep_tag);
    mend_span *span = NULL;
    const bool is_passed = request.plain || heap->config.passes != MEND_PASSES_NONE;
    mend_result result = is_passed         ? mend_pass_alloc(heap, &request, &span)
                         : request.at != 0 ? place_at(heap, &request, &span)
                                           : mend_fallback_run(heap, &request, &span);
    if (result == MEND_ERROR_OUT_OF_MEMORY) {
        mend_events_refuse(heap, request.size_bytes, request.handle);
    }
    if (result == MEND_OK) {
        mend_block_hand_out(heap, &request, span);
        *address = span->address;
    }
    if (result == MEND_OK && is_passed) {
        mend_layout_note_peaks(heap, false);
        mend_heap_unlock_grow(heap); /* so the cache knows its part of the limit */
    }
    return result;
}

/* Returns the error for a pointer that is not the start of a live block. */
__attribute__((noinline)) static mend_result explain_pointer(const mend_heap *heap,
                                                             uint64_t address)
{
    const uint64_t range = heap->ranges.around(heap, address);
    if (range != 0) {
        return mend_failure(MEND_ERROR_FOREIGN_POINTER,
                            "0x%llx lies in the range 0x%llx, not in a block: see mend_range.h",
                            (unsigned long long)address, (unsigned long long)range);
    }
    if (!mend_heap_holds(heap, address)) {
        return mend_failure(MEND_ERROR_FOREIGN_POINTER, "0x%llx is not memory of this pool",
                            (unsigned long long)address);
    }
    const mend_span *span = mend_heap_block_at(heap, address);
    if (span != NULL) {
        return mend_failure(
            MEND_ERROR_INTERIOR_POINTER, "0x%llx lies %llu bytes inside the block at 0x%llx",
            (unsigned long long)address, (unsigned long long)(address - span->address),
            (unsigned long long)span->address);
    }
    return mend_failure(MEND_ERROR_DOUBLE_FREE, "0x%llx lies in memory that was already freed",
                        (unsigned long long)address);
}

mend_result mend_block_around(const mend_heap *heap, uint64_t address, mend_span **span)
{
    *span = mend_heap_block_at(heap, address);
    return *span != NULL ? MEND_OK : explain_pointer(heap, address);
}

mend_span *mend_heap_find(const mend_heap *heap, uint64_t address)
{
    assert(mend_mutex_is_held(&heap->state));
    mend_span *span = mend_pointer_map_find(&heap->blocks, address);
    return span == NULL || !span->live ? NULL : span;
}

static mend_result find_block(const mend_heap *heap, uint64_t address, mend_span **span)
{
    *span = mend_heap_find(heap, address);
    return *span != NULL ? MEND_OK : explain_pointer(heap, address);
}

static void record_fence(mend_heap *heap, uint32_t stream)
{
    mend_driver_scope scope;
    if (mend_driver_scope_open(heap, &scope) == MEND_OK) {
        mend_users_record_fence(heap, stream);
        mend_driver_scope_close(heap, &scope);
    }
}

/* The earlier waits of the memory stay, unless the stream is behind them: the freeing stream may
 * not be ordered after the work of the block's stream. */
void mend_block_stamp(mend_heap *heap, mend_span *span, uint32_t freed_on)
{
    mend_streams *streams = &heap->streams;
    mend_stamp inherited = span->waits.first;
    span->waits.first = mend_streams_stamp(streams, freed_on, span->size_bytes);
    if (span->waits.others != NULL) {
        mend_waits_end_uses(mend_heap_wait_env(heap), &span->waits, freed_on, span->size_bytes,
                            ++heap->frees.of_users);
    }
    if (!mend_stamp_is_ready(streams, inherited, freed_on)) {
        mend_waits_add(mend_heap_wait_env(heap), &span->waits, inherited);
    }
}

void mend_block_record_early_fence(mend_heap *heap, uint32_t freed_on)
{
    assert(heap->frees.early_fences_left > 0);
    uint64_t epoch_bytes = mend_budget_usual_chunk(heap, MEND_ZONE_LARGE) * CHUNKS_OF_EPOCH;
    /* Only if no thread holds `grow`: such a thread records the events that it needs, and may be
     * inside a driver call. */
    if (heap->streams.items[freed_on].open_bytes >= epoch_bytes &&
        mend_mutex_try_lock(&heap->grow)) {
        heap->frees.early_fences_left--;
        record_fence(heap, freed_on);
        mend_mutex_unlock(&heap->grow);
    }
}

/* Each record releases `state`: if another free has named a user since, that free records it. */
void mend_block_record_fences(mend_heap *heap, uint32_t stream, uint64_t of_users_before)
{
    const uint64_t of_users = heap->frees.of_users;
    const bool may_vanish = heap->config.detect_destroyed_streams;
    if (stream != MEND_STREAM_UNKNOWN && heap->streams.items[stream].graph_pool == 0) {
        if (may_vanish) {
            record_fence(heap, stream);
        } else if (mend_block_wants_early_fence(heap)) {
            mend_block_record_early_fence(heap, stream);
        }
    }
    for (uint32_t i = may_vanish && of_users > of_users_before ? heap->streams.count : 0; i > 0;
         i--) {
        const uint64_t freed_by =
            i <= heap->streams.count ? heap->streams.items[i - 1].freed_by : 0;
        if (freed_by > of_users_before && freed_by <= of_users) {
            record_fence(heap, i - 1);
        }
    }
}

/* The users of a block used inside a graph pool, and perhaps outside as well. */
static mend_result find_users_in(mend_heap *heap, uint32_t graph_pool, bool is_own,
                                 mend_order order, mend_block_users *users)
{
    do { /* the first may be unregistered while the second is found */
        MEND_TRY(mend_requester_find_stream(heap, order, graph_pool, &users->first));
        MEND_TRY(is_own ? MEND_OK : mend_users_find_stream(heap, order.stream, 0, &users->second));
    } while (!heap->streams.items[users->first].known);
    return MEND_OK;
}

/* The graph of a capture uses the block at every launch, even if the block is of another graph
 * pool. A graph pool that is begun outside of a capture affects only its own blocks. */
__attribute__((noinline)) static mend_result
find_users_of_graph_pool(mend_heap *heap, const mend_span *span, mend_order order, uint32_t named,
                         mend_block_users *users)
{
    if (named != 0) {
        return find_users_in(heap, named, mend_graph_pool_number_of(heap, span) == named, order,
                             users);
    }
    uint32_t graph_pool;
    MEND_TRY(mend_requester_find_graph_pool(heap, order, &graph_pool));
    assert(graph_pool != 0 || order.capture == 0);
    bool is_own = mend_graph_pool_number_of(heap, span) == graph_pool;
    if (is_own || order.capture != 0) {
        return find_users_in(heap, graph_pool, is_own, order, users);
    }
    MEND_TRY(mend_users_find_stream(heap, order.stream, 0, &users->first));
    if (graph_pool != 0) {
        mend_graph_pool_watch_again(heap, order.stream);
    }
    return MEND_OK;
}

/* The user in the usual case: a known stream, and no graph pool. Or UNKNOWN. `named` is the
 * caller's graph pool, or 0. */
static inline uint32_t usual_user(mend_heap *heap, mend_order order, uint32_t named)
{
    return mend_heap_has_begun_graph_pools(heap) || order.capture != 0 || named != 0
               ? MEND_STREAM_UNKNOWN
               : mend_users_known_stream(heap, order.stream);
}

/* Finds the users otherwise. May release `state`, so the caller looks for the block again. */
__attribute__((noinline)) static mend_result find_users(mend_heap *heap, const mend_span *span,
                                                        mend_order order, uint32_t named,
                                                        mend_block_users *users)
{
    return mend_heap_has_begun_graph_pools(heap) || order.capture != 0 || named != 0
               ? find_users_of_graph_pool(heap, span, order, named, users)
               : mend_users_find_stream(heap, order.stream, 0, &users->first);
}

/* The result of finding the users of a block that is freed. A free does not fail in two cases. If a
 * capture was invalidated, the stream cannot be identified, and a wait for the context covers the
 * work. If the driver has shut down, no work will use the block again. */
mend_result mend_block_go_without_users(const mend_heap *heap, mend_result result,
                                        mend_block_users *users)
{
    bool is_spoilt = result == MEND_ERROR_CAPTURING && heap->config.detect_destroyed_streams;
    bool is_over =
        result == MEND_ERROR_DEVICE_LOST && heap->unlocking.lost == MEND_DRIVER_DEINITIALIZED;
    if (is_spoilt || is_over) {
        *users = (mend_block_users){MEND_STREAM_UNKNOWN, MEND_STREAM_UNKNOWN};
        return MEND_OK;
    }
    return result;
}

void mend_block_let_go(mend_heap *heap, mend_span *span, mend_block_users users)
{
    assert(users.first != MEND_STREAM_UNKNOWN || users.second == MEND_STREAM_UNKNOWN);
    if (span->is_exported) {
        MEND_FEATURES_CALL(block_ends, heap, span);
    }
    if (span->in_one_chunk) {
        span->in_one_chunk = false;
        mend_chunk_unpin(&heap->chunks, span->chunk);
    }
    if (span->previous != NULL && span->previous->cached) {
        mend_cache_put_back(heap, span->previous);
    }
    if (span->next != NULL && span->next->cached) {
        mend_cache_put_back(heap, span->next);
    }
    mend_pointer_map_remove(&heap->blocks, span->address);
    mend_layout_count_free(heap, &heap->zones[span->zone], span);
    if (mend_events_has(&heap->events, MEND_EVENT_FREE)) {
        const bool has_stream = users.first != MEND_STREAM_UNKNOWN;
        mend_events_free(heap, span,
                         has_stream ? heap->streams.items[users.first].handle : MEND_NO_STREAM);
    }
    mend_block_stamp(heap, span, users.first);
    if (users.second != MEND_STREAM_UNKNOWN) {
        mend_waits_add(mend_heap_wait_env(heap), &span->waits,
                       mend_streams_stamp(&heap->streams, users.second, span->size_bytes));
    }
    assert(span->waits.first.epoch != 0 || span->waits.others == NULL);
    mend_layout_free(heap, span);
}

mend_result mend_block_free_into_runs(mend_heap *heap, mend_span *span, mend_block_users users)
{
    const bool may_sleep = heap->chunks.frozen_count > 0;
    const mend_layout_promise nodes =
        mend_layout_nodes_to_free(heap, span, may_sleep ? mend_layout_count_chunks(heap, span) : 0);
    if (!mend_layout_reserve_these(heap, &nodes)) {
        return mend_no_host_memory("the pool's own records");
    }
    const uint64_t of_users_before = heap->frees.of_users;
    /* A fill of a check whose end could not be waited for may write to it. */
    mend_waits_add(mend_heap_wait_env(heap), &span->waits, heap->retire.copies);
    mend_block_let_go(heap, span, users);
    if (heap->config.detect_destroyed_streams || mend_block_wants_early_fence(heap)) {
        mend_block_record_fences(heap, users.first, of_users_before);
    }
    if (heap->chunks.deferred.count[MEND_DEFERRED_END] > 0) {
        mend_retry_ends(heap);
    }
    return MEND_OK;
}

mend_result mend_block_find_to_free(mend_heap *heap, uint64_t address, mend_order order,
                                    uint32_t graph_pool, mend_span **span, mend_block_users *users)
{
    *users = (mend_block_users){MEND_STREAM_UNKNOWN, MEND_STREAM_UNKNOWN};
    MEND_TRY(find_block(heap, address, span));
    if (order.stream == MEND_NO_STREAM) {
        return MEND_OK;
    }
    users->first = usual_user(heap, order, graph_pool);
    if (users->first != MEND_STREAM_UNKNOWN) {
        return MEND_OK;
    }
    MEND_TRY(mend_block_go_without_users(heap, find_users(heap, *span, order, graph_pool, users),
                                         users));
    return find_block(heap, address, span);
}

mend_result mend_block_add_user(mend_heap *heap, mend_span *span, uint32_t user)
{
    assert(span->live);
    assert(user != MEND_STREAM_UNKNOWN);
    for (const mend_wait *at = span->waits.others; at != NULL; at = at->next) {
        if (at->stamp.stream == user && at->stamp.epoch == 0) {
            return MEND_OK;
        }
    }
    const mend_wait_env env = mend_heap_wait_env(heap);
    if (!mend_slab_reserve(env.nodes, 1)) {
        return mend_no_host_memory("the pool's own records");
    }
    mend_waits_add_user(env, &span->waits, user);
    return MEND_OK;
}

/* The stream is captured or unknown, or graph pools are begun. */
__attribute__((noinline)) static mend_result
record_other_stream(mend_heap *heap, mend_span *span, mend_order order, uint32_t graph_pool)
{
    const uint64_t address = span->address;
    mend_block_users users = {MEND_STREAM_UNKNOWN, MEND_STREAM_UNKNOWN};
    MEND_TRY(find_users(heap, span, order, order.capture != 0 ? graph_pool : 0, &users));
    MEND_TRY(find_block(heap, address, &span));
    MEND_TRY(mend_block_add_user(heap, span, users.first));
    return users.second != MEND_STREAM_UNKNOWN ? mend_block_add_user(heap, span, users.second)
                                               : MEND_OK;
}

mend_result mend_heap_record_stream(mend_heap *heap, uint64_t address, mend_order order,
                                    uint32_t graph_pool)
{
    assert(mend_mutex_is_held(&heap->state));
    mend_span *span;
    MEND_TRY(find_block(heap, address, &span));
    MEND_TRY(span->chunk != NULL ? MEND_OK : mend_pass_check_order(order, "mend_record_stream"));
    MEND_TRY(mend_heap_check_awake(heap, span->address, span->size_bytes, "mend_record_stream"));
    const uint32_t user = usual_user(heap, order, 0);
    return user != MEND_STREAM_UNKNOWN ? mend_block_add_user(heap, span, user)
                                       : record_other_stream(heap, span, order, graph_pool);
}

/* ---- beside the usual case: blocks that are found, unusual streams ------------------------- */

bool mend_fast_breaks_a_chunk(const mend_span *span)
{
    const mend_chunk *chunk = span->chunk;
    while (!mend_chunk_is_empty(chunk)) {
        if (mend_span_end(span) - chunk->address <= chunk->size_bytes) {
            return false;
        }
        chunk = mend_chunk_next(chunk);
        assert(chunk != NULL);
    }
    return true;
}

mend_result mend_block_free(mend_heap *heap, mend_span *span, mend_block_users users)
{
    const bool is_ordered =
        users.first != MEND_STREAM_UNKNOWN && heap->streams.items[users.first].graph_pool == 0;
    return is_ordered ? mend_fast_free_block(heap, span, users.first)
                      : mend_block_free_into_runs(heap, span, users);
}

/* Frees a block that is passed through. `state` is released in between. */
static mend_result free_passed(mend_heap *heap, uint64_t address, mend_order order)
{
    MEND_TRY(mend_pass_check_order(order, "mend_free"));
    mend_heap_unlock(heap);
    mend_heap_lock_all(heap);
    mend_span *span = NULL;
    mend_result result = find_block(heap, address, &span); /* another thread may have freed it */
    if (result == MEND_OK) {
        span->live = false; /* no other thread frees it while the lock is released */
        result = mend_pass_give_back(heap, span, order);
        span->live = true;
    }
    if (result == MEND_OK) {
        mend_pointer_map_remove(&heap->blocks, address);
        mend_layout_count_free(heap, &heap->zones[MEND_ZONE_PASSED], span);
        if (mend_events_has(&heap->events, MEND_EVENT_FREE)) {
            mend_events_free(heap, span, order.stream);
        }
        mend_waits_end_uses(mend_heap_wait_env(heap), &span->waits, MEND_STREAM_UNKNOWN, 0,
                            heap->frees.of_users);
        mend_layout_drop_passed(heap, span);
        mend_usage_note(heap);
    }
    mend_heap_unlock_grow(heap);
    return result;
}

/* The unusual cases: bad pointers, streams to be looked up, graph pools. */
__attribute__((noinline)) mend_result mend_heap_free_in_graph_pool(mend_heap *heap,
                                                                   uint64_t address,
                                                                   mend_order order,
                                                                   uint32_t graph_pool)
{
    mend_span *span = mend_heap_find(heap, address);
    mend_block_users users;
    if (order.stream == MEND_EVERY_STREAM) {
        return mend_failure(MEND_ERROR_INVALID_ARGUMENT,
                            "mend_free: MEND_EVERY_STREAM is for mend_graph_pool_begin");
    }
    if (span != NULL && span->chunk == NULL) {
        return free_passed(heap, address, order);
    }
    MEND_TRY(mend_block_find_to_free(heap, address, order, graph_pool, &span, &users));
    return mend_block_free(heap, span, users);
}

/* ---- what is told ------------------------------------------------------------------ */

static mend_history_event event_of(const mend_heap *heap, mend_event_kind kind,
                                   const mend_span *span, mend_stream stream)
{
    /* Memory in the cache is of no graph pool. */
    const uint32_t graph_pool = span->live ? mend_graph_pool_number_of(heap, span) : 0;
    return (mend_history_event){.kind = (int)kind,
                                .is_for_graphs = graph_pool != 0,
                                .address = (void *)(uintptr_t)span->address,
                                .size_bytes = span->size_bytes,
                                .stream = stream,
                                .graph_pool = mend_graph_pool_numbered(heap, graph_pool),
                                .tag = mend_span_shown_tag(span),
                                .requested_bytes = span->requested_bytes,
                                .chunk =
                                    span->chunk != NULL ? mend_chunk_told_number(span->chunk) : 0,
                                .scope = span->scope,
                                .stack = span->stack};
}

void mend_events_alloc(mend_heap *heap, const mend_span *span, mend_service service)
{
    assert(span->live);
    mend_history_event event = event_of(heap, MEND_EVENT_ALLOC, span, span->stream);
    event.cause = (int)(service.cause != MEND_CAUSE_NONE ? service.cause : MEND_CAUSE_RUN);
    event.duration_ns = service.duration_ns;
    mend_events_put(&heap->events, &event);
}

void mend_events_free(mend_heap *heap, const mend_span *span, mend_stream stream)
{
    mend_history_event event = event_of(heap, MEND_EVENT_FREE, span, stream);
    mend_events_put(&heap->events, &event);
}

void mend_events_refuse(mend_heap *heap, uint64_t size_bytes, mend_stream stream)
{
    const bool by_device = heap->shortage.refused_bytes > 0;
    heap->counters.out_of_memory++;
    if (mend_events_has(&heap->events, MEND_EVENT_OUT_OF_MEMORY)) {
        const mend_event_cause cause =
            by_device ? MEND_CAUSE_DEVICE_REFUSED : MEND_CAUSE_LIMIT_REFUSED;
        mend_events_put_step(&heap->events, &(mend_history_event){.kind = MEND_EVENT_OUT_OF_MEMORY,
                                                                  .size_bytes = size_bytes,
                                                                  .stream = stream,
                                                                  .cause = (int)cause});
    }
}
