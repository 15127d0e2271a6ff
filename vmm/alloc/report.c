/* Where the memory is: the figures of an allocation that ran out of it, and an estimate of what
 * could be allocated now. */
#include "alloc/heap.h"

#include <stdio.h>
#include <string.h>

#include "base/words.h"

/* Free memory that a request could use. */
typedef struct mend_usable {
    uint64_t empty_bytes;   /* bytes of empty chunks, which can be joined */
    uint64_t longest_bytes; /* the longest stretch in one run, in a zone that the request may use */
} mend_usable;

/* Whether other reasons than `holds` forbid the memory to the request. */
static bool is_held(const mend_heap *heap, const mend_request *request, const mend_span *span,
                    unsigned holds)
{
    return (mend_waits_blocked_by(&heap->streams, &span->waits, request->stream) & ~holds) != 0;
}

/* ---- what is free, and why it does not serve ------------------------------------------------ */

static void count_holds(const mend_heap *heap, uint32_t stream, mend_oom_report *short_of)
{
    for (int i = 0; i < MEND_ZONE_COUNT; i++) {
        const mend_zone *zone = &heap->zones[i];
        MEND_TREE_EACH(const mend_run, run, by_address, &zone->runs_by_address) {
            for (const mend_span *span = run->first; span != run->last->next; span = span->next) {
                const unsigned holds = mend_waits_blocked_by(&heap->streams, &span->waits, stream);
                if (holds & MEND_BLOCKED_BY_GRAPH_POOLS) {
                    short_of->graph_pool_bytes += span->size_bytes;
                } else if (holds & MEND_BLOCKED_UNTIL_WAIT) {
                    short_of->waiting_context_bytes += span->size_bytes;
                } else if (holds & MEND_BLOCKED_BY_STREAMS) {
                    short_of->waiting_stream_bytes += span->size_bytes;
                }
            }
        }
    }
}

uint64_t mend_report_graph_pool_bytes(const mend_heap *heap)
{
    mend_oom_report found = {0};
    if (heap->graph_pools.count > 0) {
        count_holds(heap, MEND_STREAM_UNKNOWN, &found);
    }
    return found.graph_pool_bytes;
}

/* Bytes of a run's empty chunks that the request could use, apart from `holds`. */
static uint64_t empty_bytes_of(const mend_heap *heap, const mend_request *request,
                               const mend_run *run, unsigned holds)
{
    uint64_t bytes = 0;
    const mend_span *span = run->first;
    const mend_chunk *chunk = mend_chunk_at(&heap->chunks, run->address);
    for (; chunk != NULL && chunk->address < mend_run_end(run); chunk = mend_chunk_next(chunk)) {
        const bool is_pinned = mend_chunk_is_kept_by_pins(chunk);
        bool is_usable =
            mend_chunk_is_empty(chunk) || (is_pinned && (holds & MEND_BLOCKED_BY_PINS));
        uint64_t end = chunk->address + chunk->size_bytes;
        while (is_usable && mend_span_end(span) <= chunk->address) {
            span = span->next;
        }
        for (const mend_span *in = span; is_usable && in != NULL && in->address < end;
             in = in->next) {
            is_usable = !is_held(heap, request, in, holds);
        }
        bytes += is_usable ? chunk->size_bytes : 0;
    }
    return bytes;
}

/* The longest stretch of a run that the request could use, apart from `holds`, from where a block
 * may begin. None for a block in one chunk. */
static uint64_t longest_in_run(const mend_heap *heap, const mend_request *request,
                               const mend_run *run, unsigned holds)
{
    uint64_t longest_bytes = 0;
    uint64_t start = mend_align_up(run->address, request->alignment_bytes);
    for (const mend_span *span = run->first;; span = span->next) {
        uint64_t end = mend_span_end(span);
        if (is_held(heap, request, span, holds)) {
            mend_raise_u64(&start, mend_align_up(end, request->alignment_bytes));
        } else if (end > start) {
            longest_bytes = mend_max_u64(longest_bytes, end - start);
        }
        if (span == run->last) {
            return request->in_one_chunk ? 0 : longest_bytes;
        }
    }
}

/* The part of these bytes of empty chunks that can be created again with another size. Importers
 * may hold exported chunks. */
static uint64_t made_again_of(const mend_heap *heap, uint64_t empty_bytes)
{
    uint64_t bytes = 0;
    MEND_TREE_EACH(const mend_chunk, chunk, memory.by_number, &heap->chunks.all) {
        bytes += chunk->memory.was_exported && chunk->live_bytes == 0 ? chunk->size_bytes : 0;
    }
    return empty_bytes - mend_min_u64(bytes, empty_bytes);
}

static mend_usable look_past(const mend_heap *heap, const mend_request *request, unsigned holds)
{
    mend_usable found = {.empty_bytes = heap->chunks.unmapped_bytes};
    mend_request giver = *request; /* no stream may use memory that is released for one chunk */
    giver.stream = request->in_one_chunk ? MEND_STREAM_UNKNOWN : request->stream;
    for (int zone = 0; zone < MEND_ZONE_COUNT; zone++) {
        /* A small one: in both. */
        bool may_lie_here =
            request->pages == NULL && zone >= request->zone && zone < MEND_ZONES_OF_BLOCKS;
        const uint64_t most_bytes =
            zone == MEND_ZONE_SMALL ? heap->config.placement.small_request_bytes : UINT64_MAX;
        MEND_TREE_EACH(const mend_run, run, by_address, &heap->zones[zone].runs_by_address) {
            found.empty_bytes += empty_bytes_of(heap, &giver, run, holds);
            if (may_lie_here) {
                const uint64_t bytes = longest_in_run(heap, request, run, holds);
                mend_raise_u64(&found.longest_bytes, mend_min_u64(bytes, most_bytes));
            }
        }
    }
    if (mend_request_makes_chunks(request)) {
        found.empty_bytes = made_again_of(heap, found.empty_bytes);
    }
    return found;
}

/* The partly used chunk with most free bytes, and a block in it. */
static const mend_span *emptiest_owner(const mend_heap *heap, uint64_t *free_most_bytes)
{
    const mend_chunk *emptiest = NULL;
    *free_most_bytes = 0;
    MEND_TREE_EACH(const mend_chunk, chunk, by_address, &heap->chunks.mapped) {
        uint64_t bytes = chunk->size_bytes - chunk->live_bytes;
        if (chunk->live_bytes != 0 && !mend_chunk_sleeps(chunk) && bytes > *free_most_bytes) {
            *free_most_bytes = bytes;
            emptiest = chunk;
        }
    }
    if (emptiest == NULL) {
        return NULL;
    }
    const mend_span *span = mend_heap_span_at(heap, emptiest->address + emptiest->size_bytes - 1);
    while (!span->live) {
        span = span->previous;
    }
    return span;
}

/* ---- what would help ------------------------------------------------------------------------- */

bool mend_report_is_hopeless(const mend_heap *heap, const mend_request *request)
{
    const uint64_t most_bytes =
        mend_max_u64(mend_budget_limit_of_chunks(heap), heap->chunks.reserved_bytes);
    return request->size_bytes > most_bytes - mend_heap_awake_bytes(heap);
}

/* All empty chunks, with new ones. For chunks of another size, memory above the limit or for others
 * is released first. */
static uint64_t joined_bytes(const mend_heap *heap, const mend_request *request,
                             const mend_usable *usable)
{
    const bool is_refused = heap->effective_limit.is_refused ||
                            (heap->shortage.refused_bytes > 0 && !heap->effective_limit.is_known);
    const uint64_t creatable_bytes = is_refused ? 0 : mend_budget_room_bytes(heap, request);
    const uint64_t bytes =
        usable->empty_bytes + mend_align_down(creatable_bytes, heap->device.granularity_bytes);
    if (!mend_request_makes_chunks(request)) {
        return bytes;
    }
    const mend_others *others = heap->config.others;
    const uint64_t unkept_bytes = others != NULL ? others->min_free_bytes - others->kept_bytes : 0;
    const uint64_t reserved_bytes = heap->chunks.reserved_bytes;
    const uint64_t over_bytes =
        reserved_bytes - mend_min_u64(mend_budget_hard_limit(heap), reserved_bytes);
    return bytes - mend_min_u64(mend_max_u64(over_bytes, unkept_bytes), bytes);
}

/* About the largest request like this one. */
static uint64_t room_of(const mend_heap *heap, const mend_request *request,
                        const mend_usable *usable)
{
    return mend_max_u64(usable->longest_bytes, joined_bytes(heap, request, usable));
}

/* About the largest request like `asking`. With `waits` also memory that waits for work. */
static uint64_t room_bytes_for(const mend_heap *heap, const mend_request *asking, bool waits)
{
    const mend_usable usable = look_past(heap, asking, waits ? MEND_BLOCKED_BY_WORK : 0);
    return asking->creates_nothing ? usable.longest_bytes : room_of(heap, asking, &usable);
}

bool mend_report_would_fit(const mend_heap *heap, const mend_request *request, uint32_t stream,
                           unsigned holds)
{
    mend_request later = *request;
    later.stream = stream;
    const mend_usable usable = look_past(heap, &later, holds);
    return room_of(heap, request, &usable) >= request->size_bytes;
}

/* A limit under which the request would have succeeded. 0: none. Often the lowest, but free memory
 * that was there and did not serve is not counted. */
static uint64_t sufficient_limit_bytes(const mend_heap *heap, const mend_request *request,
                                       const mend_usable *as_is)
{
    if (heap->shortage.refused_bytes > 0) {
        return 0;
    }
    const bool would_fit = room_of(heap, request, as_is) >= request->size_bytes;
    const uint64_t empty_bytes = would_fit ? 0 : as_is->empty_bytes;
    const uint64_t size_bytes = mend_align_up(request->size_bytes, heap->device.granularity_bytes);
    const uint64_t limit_bytes = heap->chunks.reserved_bytes - empty_bytes + size_bytes;
    const bool is_possible = size_bytes <= heap->shortage.device_free_bytes + empty_bytes;
    return is_possible ? limit_bytes : 0;
}

/* ---- the report ------------------------------------------------------------------------------ */

/* The figures of a request that fails, which could use so much memory as it is, and after waits. */
static mend_oom_report figures_of(const mend_heap *heap, const mend_request *request,
                                  const mend_usable *as_is, const mend_usable *usable)
{
    const uint64_t empty_bytes = mend_chunks_empty_bytes(&heap->chunks);
    const uint64_t kept_bytes =
        mend_min_u64(heap->config.others != NULL ? heap->config.others->kept_bytes : 0,
                     heap->shortage.others_bytes);
    const uint64_t step_bytes = request->pages != NULL  ? request->pages->page_bytes
                                : request->in_one_chunk ? heap->device.granularity_bytes
                                                        : MEND_GRANULE_BYTES;
    const uint64_t fitting_bytes = mend_align_down(
        mend_min_u64(room_of(heap, request, usable), request->size_bytes - MEND_GRANULE_BYTES),
        step_bytes);
    mend_oom_report figures = {
        .struct_size = sizeof(figures),
        .requested_bytes = request->requested_bytes,
        .fitting_bytes = fitting_bytes - mend_min_u64(heap->config.guard_bytes, fitting_bytes),
        .limit_bytes = heap->config.limit_bytes,
        .sufficient_limit_bytes = sufficient_limit_bytes(heap, request, as_is),
        .reserved_bytes = heap->chunks.reserved_bytes,
        .live_bytes = mend_heap_awake_bytes(heap),
        .free_empty_bytes = empty_bytes,
        .free_partial_bytes =
            heap->chunks.reserved_bytes - mend_heap_awake_bytes(heap) - empty_bytes,
        .device_bytes = heap->device.total_bytes,
        .device_free_bytes = heap->shortage.device_free_bytes,
        .device_others_bytes = heap->shortage.others_bytes - kept_bytes,
        .device_kept_bytes = kept_bytes,
        .pinned_bytes = mend_chunks_kept_by_pins(&heap->chunks),
    };
    count_holds(heap, request->stream, &figures);
    const mend_span *owner = emptiest_owner(heap, &figures.emptiest_bytes);
    if (owner != NULL) {
        figures.owner_address = owner->address;
        figures.owner_bytes = owner->size_bytes;
    }
    return figures;
}

mend_result mend_report_out_of_memory(mend_heap *heap, const mend_request *request,
                                      bool is_captured)
{
    mend_usable as_is = look_past(heap, request, 0);
    if (is_captured && mend_request_makes_chunks(request)) { /* then nothing is unmapped for them */
        as_is.empty_bytes = made_again_of(heap, heap->chunks.unmapped_bytes);
    }
    const mend_usable usable = is_captured ? as_is : look_past(heap, request, MEND_BLOCKED_BY_WORK);
    const mend_oom_report figures = figures_of(heap, request, &as_is, &usable);
    const mend_unserved unserved = {
        .request = request,
        .figures = &figures,
        .is_captured = is_captured,
        .refused_bytes = heap->shortage.refused_bytes,
        .most_bytes = heap->effective_limit.is_refused ? heap->effective_limit.bytes
                                                       : heap->chunks.reserved_bytes,
        .empty_bytes = usable.empty_bytes,
        .joined_bytes = joined_bytes(heap, request, &usable),
        .graph_pools = heap->graph_pools.count - heap->graph_pools.capture_count,
        .captures = heap->graph_pools.capture_count,
    };
    mend_owner owners[MEND_OWNERS_TOLD] = {0};
    char text[MEND_MESSAGE_BYTES];
    snprintf(
        text, sizeof(text), "out of memory: %s requested; the limit is %s, in use %s, reserved %s",
        mend_words_amount(figures.requested_bytes).text,
        mend_words_amount(figures.limit_bytes).text, mend_words_amount(figures.live_bytes).text,
        mend_words_amount(figures.reserved_bytes).text);
    MEND_FEATURES_CALL(describe, heap, &unserved, owners, text, sizeof(text));
    const mend_result result = mend_failure(MEND_ERROR_OUT_OF_MEMORY, "%s", text);
    mend_thread_error *failure = mend_process_failure();
    failure->oom_report = figures;
    memcpy(failure->owners, owners, sizeof(failure->owners));
    return result;
}

/* ---- an estimate of the memory that could be allocated now, and its parts -------------------- */

/* Also with one stream: a request without a stream needs idle memory. */
static mend_result measure(mend_heap *heap, mend_request *asking, mend_available *available)
{
    bool is_captured = false;
    mend_capture_graph_pools_collect(heap);
    mend_retire_flush(heap, asking->stream);
    MEND_TRY(mend_fallback_ask_others(heap, asking));
    MEND_TRY(mend_streams_find_capture(&heap->streams, asking->stream, &is_captured));
    mend_effective_limit_learn(heap);
    available->device_free_bytes = heap->shortage.device_free_bytes;
    available->graph_pool_bytes = mend_report_graph_pool_bytes(heap);
    available->pinned_bytes = mend_chunks_kept_by_pins(&heap->chunks);
    mend_request now = *asking;
    now.creates_nothing =
        mend_fallback_awaits_much(heap, asking) && mend_fallback_waits_on_host(heap, asking);
    available->now_bytes = room_bytes_for(heap, &now, false);
    available->after_waiting_bytes = room_bytes_for(heap, asking, !is_captured);
    return MEND_OK;
}

/* The driver gives memory of its own in steps. */
#define PASSED_STEP_BYTES (2 * MEND_MIB)

/* A pool that passes its requests through has no memory beside blocks. */
static mend_result room_of_passed(mend_heap *heap, mend_available *available)
{
    const uint64_t limit_bytes = mend_budget_limit_of_chunks(heap);
    mend_driver_scope scope;
    uint64_t free_bytes = 0;
    uint64_t total_bytes = 0;
    MEND_TRY(mend_driver_scope_open(heap, &scope));
    const mend_result result = mend_driver_result(
        heap, MEND_ANSWER(memory_info,
                          heap->driver->memory_info(heap->driver, &free_bytes, &total_bytes)));
    mend_driver_scope_close(heap, &scope);
    if (result == MEND_OK) {
        available->device_free_bytes = free_bytes;
        available->now_bytes = mend_min_u64(mend_align_down(free_bytes, PASSED_STEP_BYTES),
                                            mend_align_down(limit_bytes, MEND_GRANULE_BYTES));
        available->after_waiting_bytes = available->now_bytes;
    }
    return result;
}

mend_result mend_fallback_get_available(mend_heap *heap, mend_order order,
                                        mend_available *available)
{
    mend_request asking = {
        .alignment_bytes = MEND_GRANULE_BYTES, .handle = order.stream, .capture = order.capture};
    if (order.stream == MEND_EVERY_STREAM) {
        return mend_failure(MEND_ERROR_INVALID_ARGUMENT,
                            "MEND_EVERY_STREAM is for mend_graph_pool_begin");
    }
    if (heap->config.passes != MEND_PASSES_NONE) {
        return room_of_passed(heap, available);
    }
    if (order.stream != MEND_NO_STREAM) { /* it would count as a request */
        MEND_TRY(mend_requester_find(heap, &asking));
    }
    mend_driver_scope scope;
    MEND_TRY(mend_enter(heap, &scope));
    mend_result result = measure(heap, &asking, available);
    mend_driver_scope_close(heap, &scope);
    return result;
}
