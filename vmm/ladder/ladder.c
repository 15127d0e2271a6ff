#include "ladder/ladder.h"

#include "base/error.h"
#include "base/process.h"
#include "ladder/defrag.h"
#include "ladder/report.h"
#include "layout/cache.h"
#include "move/attainable.h"
#include "move/grow.h"
#include "move/remap.h"
#include "move/retire.h"
#include "move/trim.h"
#include "physical/fence.h"
#include "policy/budget.h"
#include "policy/fit.h"
#include "policy/headroom.h"
#include "users/capture_group.h"

/* Small requests may live in fragments of the large zone up to this size. */
#define LENT_RUN_BYTES (2 * MEND_MIB)

/* How often a request searches again because others freed memory while it searched. Those who go on
 * allocating and freeing must not keep it for ever from its answer. */
enum { SEARCHES = 8 };

static const mend_plan_rules use_what_is_free = {.may_extend = true, .may_move = true};
static const mend_plan_rules create_without_moves = {.may_extend = true, .may_create = true};
static const mend_plan_rules extend_and_create = {
    .may_extend = true, .may_create = true, .may_move = true};
static const mend_plan_rules create_at_new_address = {.may_create = true, .may_move = true};
static const mend_plan_rules extend_and_create_exactly = {
    .may_extend = true, .may_create = true, .may_move = true, .exact = true};
static const mend_plan_rules create_at_new_address_exactly = {
    .may_create = true, .may_move = true, .exact = true};

static mend_result no_host_memory(void)
{
    return mend_failure(MEND_ERROR_OUT_OF_HOST_MEMORY, "malloc failed for the pool's own records");
}

/* Takes the place, if there is any. While the driver was busy others may have taken what host
 * memory was reserved before. */
static mend_result take(mend_heap *heap, const mend_request *request, mend_fit fit,
                        mend_span **span)
{
    if (fit.run == NULL) {
        return MEND_OK;
    }
    mend_result result = mend_layout_reserve(heap, 0) ? MEND_OK : no_host_memory();
    if (result == MEND_OK && request->behind_wait) {
        result = mend_layout_make_ready(heap, fit.run, fit.address, request->size_bytes,
                                        request->stream);
    }
    if (result == MEND_OK) {
        *span = mend_layout_take(heap, fit.run, fit.address, request->size_bytes);
        heap->counters.placed_in_run++;
    }
    return result;
}

/* The best place in one zone among runs not above `largest_bytes`. */
static mend_result take_fit(mend_heap *heap, const mend_request *request, int zone_number,
                            uint64_t largest_bytes, mend_span **span)
{
    mend_cache_flush(heap, zone_number);
    return take(heap, request, mend_fit_find(heap, request, zone_number, largest_bytes), span);
}

mend_result mend_place_in_run(mend_heap *heap, const mend_request *request, mend_span **span)
{
    mend_result result = take_fit(heap, request, request->zone, UINT64_MAX, span);
    if (result == MEND_OK && *span == NULL && request->zone == MEND_ZONE_SMALL) {
        result = take_fit(heap, request, MEND_ZONE_LARGE, LENT_RUN_BYTES, span);
    }
    return result;
}

/* Finds a plan by the rules and carries it out. OUT_OF_MEMORY when there is none. */
static mend_result try_plan(mend_heap *heap, const mend_request *request, mend_plan_rules rules,
                            mend_span **span)
{
    mend_plan plan;
    if (!mend_plan_find(heap, request, rules, &plan)) {
        return MEND_ERROR_OUT_OF_MEMORY;
    }
    return mend_grow(heap, request, &plan, span);
}

/* Creation is unavoidable: behind a run, or at a fresh place when that creates less. */
static mend_result create_least(mend_heap *heap, const mend_request *request, mend_span **span)
{
    mend_plan extended;
    mend_plan afresh;
    bool can_extend = mend_plan_find(heap, request, extend_and_create, &extended);
    uint64_t extended_bytes = extended.create_bytes;
    bool can_at_new_address = mend_plan_find(heap, request, create_at_new_address, &afresh);
    if (!can_extend && !can_at_new_address) {
        return MEND_ERROR_OUT_OF_MEMORY;
    }
    if (can_at_new_address && (!can_extend || afresh.create_bytes < extended_bytes)) {
        return mend_grow(heap, request, &afresh, span);
    }
    return try_plan(heap, request, extend_and_create, span); /* the second plan reused the links */
}

/* What to create instead of moving chunks, where that is worth it. */
static bool plan_to_avoid_moves(mend_heap *heap, const mend_request *request, mend_plan *plan)
{
    return mend_headroom_allows(heap, 0) &&
           mend_plan_find(heap, request, create_without_moves, plan) &&
           mend_headroom_allows(heap, plan->create_bytes);
}

/* The driver may have no memory for what only saves calls: then nothing was asked of it. */
static mend_result create_to_avoid_moves(mend_heap *heap, const mend_request *request,
                                         mend_plan *plan, mend_span **span)
{
    mend_shortage before = heap->shortage;
    mend_result result = mend_grow(heap, request, plan, span);
    if (result == MEND_OK) {
        mend_headroom_note_creation(heap);
        heap->counters.moves_avoided++;
    } else if (result == MEND_ERROR_OUT_OF_MEMORY) {
        mend_headroom_note_refusal(heap);
        before.device_is_asked = heap->shortage.device_is_asked;
        heap->shortage = before;
    }
    return result;
}

/* What is free would do: moves it, or creates what spares the moves. */
static mend_result place_in_free_chunks(mend_heap *heap, const mend_request *request,
                                        mend_span **span)
{
    mend_plan moves;
    mend_plan instead;
    mend_headroom_note_request(heap, request->size_bytes);
    if (!mend_plan_find(heap, request, use_what_is_free, &moves)) {
        return MEND_ERROR_OUT_OF_MEMORY;
    }
    mend_shortage before = heap->shortage;
    if (moves.moved_count == 0 || !plan_to_avoid_moves(heap, request, &instead)) {
        heap->shortage = before;
        return mend_grow(heap, request, &moves, span); /* whose links the other leaves alone */
    }
    mend_result result = create_to_avoid_moves(heap, request, &instead, span);
    return result == MEND_ERROR_OUT_OF_MEMORY ? try_plan(heap, request, use_what_is_free, span)
                                              : result;
}

/* The ways of a large request, cheapest first; OUT_OF_MEMORY when all are closed. */
static mend_result place_large(mend_heap *heap, const mend_request *request, mend_span **span)
{
    mend_result result = place_in_free_chunks(heap, request, span);
    if (result == MEND_ERROR_OUT_OF_MEMORY) {
        result = create_least(heap, request, span);
    }
    if (result == MEND_ERROR_OUT_OF_MEMORY) {
        result = try_plan(heap, request, extend_and_create_exactly, span);
    }
    if (result == MEND_ERROR_OUT_OF_MEMORY) {
        result = try_plan(heap, request, create_at_new_address_exactly, span);
    }
    return result;
}

static mend_result try_small_plan(mend_heap *heap, const mend_request *request,
                                  uint64_t largest_bytes, mend_span **span)
{
    mend_plan plan;
    if (!mend_plan_find_small(heap, request, largest_bytes, &plan)) {
        return MEND_ERROR_OUT_OF_MEMORY;
    }
    return mend_grow(heap, request, &plan, span);
}

static mend_result create_small(mend_heap *heap, const mend_request *request, mend_plan_rules rules,
                                mend_span **span)
{
    mend_plan plan;
    if (!mend_plan_create_only(heap, request, rules, &plan)) {
        return MEND_ERROR_OUT_OF_MEMORY;
    }
    return mend_grow(heap, request, &plan, span);
}

/* The ways of a small request: a small chunk that is free, a new one, any run of the large zone,
 * any chunks that are free. */
static mend_result place_small(mend_heap *heap, const mend_request *request, mend_span **span)
{
    uint64_t usual = mend_budget_usual_chunk(heap, MEND_ZONE_SMALL);
    uint64_t largest =
        mend_max_u64(usual, mend_align_up(request->size_bytes, heap->device.granularity_bytes));
    mend_result result = try_small_plan(heap, request, largest, span);
    if (result == MEND_ERROR_OUT_OF_MEMORY) {
        result = create_small(heap, request, create_at_new_address, span);
    }
    if (result == MEND_ERROR_OUT_OF_MEMORY) {
        result = create_small(heap, request, create_at_new_address_exactly, span);
    }
    if (result == MEND_ERROR_OUT_OF_MEMORY) {
        mend_result fit = take_fit(heap, request, MEND_ZONE_LARGE, UINT64_MAX, span);
        result = fit != MEND_OK || *span != NULL ? fit : result;
    }
    return result == MEND_ERROR_OUT_OF_MEMORY
               ? try_plan(heap, request, create_at_new_address_exactly, span)
               : result;
}

/* In free runs, then by making room; OUT_OF_MEMORY when all ways are closed. */
static mend_result place_by_rules(mend_heap *heap, const mend_request *request, mend_span **span)
{
    mend_budget_note_use(heap);
    mend_result result = mend_place_in_run(heap, request, span);
    if (result != MEND_OK || *span != NULL) {
        return result;
    }
    return request->zone == MEND_ZONE_SMALL ? place_small(heap, request, span)
                                            : place_large(heap, request, span);
}

/* Gives a chunk back that is too large for the request, so that one of the right size can be
 * created. */
static mend_result remake_chunk(mend_heap *heap, const mend_request *request, bool *remade)
{
    mend_plan plan;
    *remade = false;
    if (mend_plan_find(heap, request, extend_and_create_exactly, &plan)) {
        return MEND_OK;
    }
    mend_result result = mend_trim_one(heap, request->stream, plan.lacking_bytes, remade);
    heap->counters.chunks_remade += *remade ? 1 : 0;
    return result;
}

/* Memory is tight, and there is only room where empty chunks must be broken: one of them is
 * remade, or else broken. */
static mend_result place_by_breaking(mend_heap *heap, const mend_request *request, mend_span **span)
{
    bool remade;
    mend_result result = remake_chunk(heap, request, &remade);
    if (result == MEND_OK) {
        result = remade ? place_by_rules(heap, request, span) : MEND_ERROR_OUT_OF_MEMORY;
    }
    if (result == MEND_ERROR_OUT_OF_MEMORY) {
        mend_request breaking = *request;
        breaking.may_break = true;
        result = place_by_rules(heap, &breaking, span);
    }
    return result;
}

/* All ways that need no memory of other streams beyond what `request` allows. */
static mend_result place_anywhere(mend_heap *heap, const mend_request *request, mend_span **span)
{
    mend_result result = place_by_rules(heap, request, span);
    bool spared =
        request->zone == MEND_ZONE_LARGE && mend_budget_pressure(heap) == MEND_PRESSURE_CRITICAL;
    return result == MEND_ERROR_OUT_OF_MEMORY && spared ? place_by_breaking(heap, request, span)
                                                        : result;
}

/* Every place is looked at before others are asked for memory, or anybody waits on the host. */
static mend_result place_in_stretch(mend_heap *heap, const mend_request *request, mend_span **span)
{
    mend_result result = MEND_ERROR_OUT_OF_MEMORY;
    for (int zone = request->zone; result == MEND_ERROR_OUT_OF_MEMORY && zone < MEND_ZONE_COUNT;
         zone++) {
        mend_fit fit = mend_fit_find_anywhere(heap, request, zone);
        result = fit.run != NULL ? take(heap, request, fit, span) : result;
    }
    return result;
}

/* Records what other streams have freed, so that the next poll can see it pass, and polls. */
static mend_result refresh_fences(mend_heap *heap, const mend_request *request)
{
    mend_streams *streams = &heap->streams;
    if (!mend_streams_are_several(streams)) {
        return MEND_OK;
    }
    for (uint32_t i = MEND_STREAM_UNKNOWN + 1; i < streams->count; i++) {
        if (i != request->stream) {
            mend_result result = mend_streams_close_epoch(streams, i);
            if (result != MEND_OK) {
                return result;
            }
        }
    }
    mend_streams_poll(streams);
    return MEND_OK;
}

mend_result mend_place_refresh(mend_heap *heap, const mend_request *request)
{
    mend_retire_flush(heap, request->stream);
    return refresh_fences(heap, request);
}

/* A graph may be launched on any stream, so that a wait of one does not help a group; and a request
 * without a stream has none to wait with. */
mend_result mend_place_may_wait_behind(mend_heap *heap, const mend_request *request, bool *may_wait)
{
    *may_wait = false;
    if (!heap->config.allow_stream_waits || request->group != 0 ||
        !mend_streams_are_several(&heap->streams)) {
        return MEND_OK;
    }
    mend_reach reach = MEND_REACH_GONE;
    mend_result result = mend_streams_reach(&heap->streams, request->stream, &reach);
    *may_wait = result == MEND_OK && reach == MEND_REACH_OPEN;
    return result;
}

/* With the memory of other streams, whose last use the stream is made to wait for. */
static mend_result place_behind_waits(mend_heap *heap, const mend_request *request,
                                      mend_span **span)
{
    bool may_wait;
    mend_result result = mend_place_may_wait_behind(heap, request, &may_wait);
    if (result != MEND_OK || !may_wait) {
        return result != MEND_OK ? result : MEND_ERROR_OUT_OF_MEMORY;
    }
    mend_request behind = *request;
    behind.behind_wait = true;
    /* One wait after the other, each queued without the pool's lock; none is queued twice. */
    do {
        result = place_anywhere(heap, &behind, span);
    } while (result == MEND_LOOK_AGAIN);
    return result;
}

/* Now, or behind waits of the stream on the device. */
static mend_result place_here(mend_heap *heap, const mend_request *request, mend_span **span)
{
    mend_result result = place_anywhere(heap, request, span);
    if (result == MEND_ERROR_OUT_OF_MEMORY) {
        result = place_behind_waits(heap, request, span);
    }
    return result == MEND_ERROR_OUT_OF_MEMORY ? place_in_stretch(heap, request, span) : result;
}

/* Places; and once more where only addresses are short, when what is free gave up its own. */
static mend_result place_or_unmap(mend_heap *heap, const mend_request *request, mend_span **span,
                                  mend_result (*place)(mend_heap *, const mend_request *,
                                                       mend_span **))
{
    heap->shortage.no_addresses = MEND_DRIVER_OK;
    mend_result result = place(heap, request, span);
    if (result == MEND_ERROR_OUT_OF_MEMORY && heap->shortage.no_addresses != MEND_DRIVER_OK &&
        mend_trim_addresses(heap, request->stream)) {
        heap->shortage.no_addresses = MEND_DRIVER_OK;
        result = place(heap, request, span);
    }
    return result;
}

/* All that can be done without the host waiting for the GPU. */
static mend_result place_without_host_wait(mend_heap *heap, const mend_request *request,
                                           mend_span **span)
{
    mend_result result = mend_place_refresh(heap, request);
    return result == MEND_OK ? place_or_unmap(heap, request, span, place_here) : result;
}

static mend_result place_after_wait(mend_heap *heap, const mend_request *request, mend_span **span)
{
    mend_retire_flush(heap, request->stream);
    mend_result result = place_or_unmap(heap, request, span, place_anywhere);
    return result == MEND_ERROR_OUT_OF_MEMORY ? place_in_stretch(heap, request, span) : result;
}

/* Lets the host wait for the oldest work, again and again, until there is room or nothing to wait
 * for. Where a capture forbids the wait, there is nothing to wait for. */
static mend_result place_behind_host_waits(mend_heap *heap, const mend_request *request,
                                           mend_span **span)
{
    bool waited = !mend_report_is_hopeless(heap, request);
    bool has_graphs = waited && heap->capture_count > 0;
    mend_streams_begin_host_waits(&heap->streams);
    mend_result result = MEND_ERROR_OUT_OF_MEMORY;
    while (result == MEND_ERROR_OUT_OF_MEMORY && waited) {
        /* Memory of the stream's own needs no wait, but addresses it may still use do. */
        bool lacks_addresses = heap->shortage.no_addresses != MEND_DRIVER_OK;
        mend_result wait_result = mend_capture_groups_wait_oldest(
            heap, request->stream, lacks_addresses, &has_graphs, &waited);
        if (wait_result != MEND_OK && wait_result != MEND_ERROR_CAPTURING) {
            return wait_result;
        }
        result = waited ? place_after_wait(heap, request, span) : result;
    }
    return result;
}

/* Compactions, one after the other, until there is room. OUT_OF_MEMORY: no more swap helps. */
static mend_result compact_for(mend_heap *heap, const mend_request *request, mend_span **span)
{
    mend_compact_pass pass;
    bool compacted = true;
    mend_result result = mend_compact_begin_for(heap, request, &pass);
    mend_result place_result = MEND_ERROR_OUT_OF_MEMORY;
    while (result == MEND_OK && compacted && place_result == MEND_ERROR_OUT_OF_MEMORY) {
        result = mend_compact_next(&pass, request->size_bytes, &compacted);
        if (result == MEND_OK && compacted) {
            mend_compact_keep_room(heap);
            place_result = place_or_unmap(heap, request, span, place_anywhere);
        }
    }
    mend_compact_end(&pass);
    return result == MEND_OK ? place_result : result;
}

/* Where the program declared quiet points: what lives in partly used chunks is copied together. At
 * last the request may have the room that is kept to copy to; not while blocks of the program are
 * unmapped, which it has to hear of. */
static mend_result place_behind_compactions(mend_heap *heap, const mend_request *request,
                                            mend_span **span)
{
    mend_result compact_result = compact_for(heap, request, span);
    bool is_over = compact_result == MEND_OK || mend_heap_lost_by(heap) != MEND_DRIVER_OK;
    if (is_over || heap->chunks.missing_count > 0) {
        return compact_result;
    }
    const mend_thread_error compact_error = *mend_process_failure();
    heap->spends_last_room = true;
    mend_result result = place_or_unmap(heap, request, span, place_anywhere);
    heap->spends_last_room = false;
    bool is_explained = compact_result == MEND_ERROR_OUT_OF_MEMORY;
    if (result != MEND_ERROR_OUT_OF_MEMORY || is_explained) {
        return result;
    }
    *mend_process_failure() = compact_error;
    return compact_result;
}

static mend_result search(mend_heap *heap, const mend_request *request, mend_effort effort,
                          mend_span **span)
{
    heap->shortage = (mend_shortage){0};
    mend_attainable_begin_search(heap);
    mend_remap_try(heap);
    mend_result result = place_without_host_wait(heap, request, span);
    if (result == MEND_ERROR_OUT_OF_MEMORY && mend_attainable_has_grown(heap)) {
        result = place_without_host_wait(heap, request, span);
    }
    if (result == MEND_ERROR_OUT_OF_MEMORY && effort == MEND_EFFORT_ALL) {
        result = place_behind_host_waits(heap, request, span);
    }
    if (result == MEND_ERROR_OUT_OF_MEMORY && effort == MEND_EFFORT_ALL &&
        heap->config.compact_when_full) {
        result = place_behind_compactions(heap, request, span);
    }
    if (result == MEND_ERROR_OUT_OF_MEMORY &&
        (effort == MEND_EFFORT_ALL || heap->shortage.refused_bytes > 0)) {
        mend_attainable_look(heap);
    }
    return result;
}

/* There was memory for the request, but no place to map it. */
static mend_result out_of_addresses(const mend_heap *heap, const mend_request *request)
{
    mend_status status = heap->shortage.no_addresses;
    return mend_driver_failure(
        MEND_ERROR_OUT_OF_ADDRESSES, mend_driver_call_name(MEND_CALL_reserve), status,
        heap->driver->status_name(heap->driver, status),
        "no range of addresses is left for %llu bytes", (unsigned long long)request->size_bytes);
}

mend_result mend_place_with_effort(mend_heap *heap, const mend_request *request, mend_effort effort,
                                   mend_span **span)
{
    int searches = 0;
    uint64_t frees_before;
    mend_result result;
    do {
        frees_before = MEND_HEAP_SUM(heap, frees);
        result = search(heap, request, effort, span);
        /* What others freed while the driver was busy may be just what is missing. */
    } while (result == MEND_ERROR_OUT_OF_MEMORY && MEND_HEAP_SUM(heap, frees) != frees_before &&
             ++searches < SEARCHES);
    if (result != MEND_ERROR_OUT_OF_MEMORY || effort != MEND_EFFORT_ALL) {
        return result;
    }
    return heap->shortage.no_addresses != MEND_DRIVER_OK ? out_of_addresses(heap, request)
                                                         : mend_report_out_of_memory(heap, request);
}
