#include "lab/heap/explain.h"

#include "layout/layout.h"

#define CHUNK_OF(node) MEND_CONTAINER_OF(node, mend_chunk, by_address)

static_assert(MEND_EXPLAIN_OWNER_COUNTS == 4, "1, 2, 3 to 4, and more");
static_assert((MEND_MIB << MEND_EXPLAIN_CLASSES) > 0, "each class has its size");

/* A walk over one chunk, from its end to its start. */
typedef struct chunk_walk {
    uint64_t free_bytes[MEND_FREE_PLACES][MEND_FREE_REASONS];
    uint64_t pending_bytes[MEND_FREE_REASONS]; /* free bytes since the last live byte that was
                                                * visited */
    mend_free_reason worst;
    mend_partial_chunk chunk; /* the live block with most bytes in it has 0: there is none */
    bool has_inmate;          /* a live block lies completely in the chunk */
    const mend_span *lowest;  /* the lowest span visited. The next chunk's walk begins there */
} chunk_walk;

size_t mend_explain_class(uint64_t size_bytes)
{
    size_t size_class = 0;
    while (size_bytes > mend_explain_class_bytes(size_class)) {
        size_class++;
    }
    assert(size_class < MEND_EXPLAIN_CLASSES);
    return size_class;
}

uint64_t mend_explain_class_bytes(size_t size_class)
{
    return size_class + 1 < MEND_EXPLAIN_CLASSES ? MEND_MIB << size_class : UINT64_MAX;
}

static void end_pending(chunk_walk *walk, mend_free_place place)
{
    for (int reason = 0; reason < MEND_FREE_REASONS; reason++) {
        walk->free_bytes[place][reason] += walk->pending_bytes[reason];
        walk->pending_bytes[reason] = 0;
    }
}

static void set_owner(mend_partial_chunk *chunk, const mend_span *span)
{
    chunk->owner_address = span->address;
    chunk->owner_bytes = span->size_bytes;
}

/* `bytes` of the span lie in the chunk. */
static void meet_span(chunk_walk *walk, const mend_span *span, uint64_t bytes,
                      mend_free_reason reason)
{
    assert(bytes > 0);
    assert(bytes <= span->size_bytes);
    if (!span->live) {
        walk->pending_bytes[reason] += bytes;
        walk->worst = reason > walk->worst ? reason : walk->worst;
        return;
    }
    end_pending(walk, walk->chunk.owners == 0 ? MEND_FREE_EDGE : MEND_FREE_HOLE);
    walk->chunk.owners++;
    walk->has_inmate = walk->has_inmate || bytes == span->size_bytes;
    if (bytes > walk->chunk.held_bytes) {
        walk->chunk.held_bytes = bytes;
        set_owner(&walk->chunk, span);
    }
}

static void walk_chunk(const mend_heap *heap, const mend_chunk *chunk, uint32_t asking,
                       chunk_walk *walk)
{
    uint64_t end = chunk->address + chunk->size_bytes;
    const mend_span *span = mend_layout_last_span(heap, chunk, walk->lowest);
    *walk = (chunk_walk){.worst = MEND_FREE_IDLE,
                         .chunk = {.address = chunk->address,
                                   .size_bytes = chunk->size_bytes,
                                   .free_bytes = chunk->size_bytes - chunk->live_bytes,
                                   .zone = chunk->zone}};
    for (; span != NULL && mend_span_end(span) > chunk->address; span = span->previous) {
        uint64_t from = mend_max_u64(span->address, chunk->address);
        uint64_t to = mend_min_u64(mend_span_end(span), end);
        mend_free_reason reason =
            span->live ? MEND_FREE_IDLE : mend_observe_reason(heap, span, asking);
        meet_span(walk, span, to - from, reason);
        walk->lowest = span;
    }
    end_pending(walk, MEND_FREE_EDGE);
    assert(walk->lowest != NULL);
    assert(walk->lowest->address < end);
}

/* ---- partly used chunks ---------------------------------------------------------------------- */

static void add_sum(mend_partial_sum *sum, uint64_t free_bytes)
{
    sum->chunks++;
    sum->free_bytes += free_bytes;
}

/* Keeps the chunks with most free bytes, in order. */
static void keep_emptiest(mend_explanation *explanation, mend_partial_chunk partial)
{
    bool is_in = false; /* and moves the others on */
    for (size_t i = 0; i < explanation->emptiest_count; i++) {
        is_in = is_in || explanation->emptiest[i].free_bytes < partial.free_bytes;
        if (is_in) {
            mend_partial_chunk fuller = explanation->emptiest[i];
            explanation->emptiest[i] = partial;
            partial = fuller;
        }
    }
    if (explanation->emptiest_count < MEND_EXPLAIN_EMPTIEST) {
        explanation->emptiest[explanation->emptiest_count++] = partial;
    }
}

static void add_chunk(mend_explanation *explanation, const mend_chunk *chunk,
                      const chunk_walk *walk)
{
    const int zone = chunk->zone;
    const uint64_t owners = walk->chunk.owners;
    const uint64_t free_bytes = walk->chunk.free_bytes;
    if (mend_chunk_is_empty(chunk)) {
        explanation->free_bytes[zone][MEND_FREE_EMPTY][walk->worst] += chunk->size_bytes;
        return;
    }
    for (int place = 0; place < MEND_FREE_PLACES; place++) {
        for (int reason = 0; reason < MEND_FREE_REASONS; reason++) {
            explanation->free_bytes[zone][place][reason] += walk->free_bytes[place][reason];
        }
    }
    if (free_bytes == 0 || owners == 0) { /* a frozen chunk that could not be mapped again */
        return;
    }
    add_sum(&explanation->by_owner_size[zone][mend_explain_class(walk->chunk.owner_bytes)],
            free_bytes);
    add_sum(&explanation->by_owner_count[zone][owners > 4   ? 3
                                               : owners > 2 ? 2
                                                            : owners - 1],
            free_bytes);
    if (!walk->has_inmate) {
        add_sum(&explanation->reached_into[zone], free_bytes);
    }
    keep_emptiest(explanation, walk->chunk);
}

/* ---- blocks and runs ------------------------------------------------------------------------- */

static uint64_t lent_bytes(const mend_heap *heap)
{
    uint64_t bytes = 0;
    MEND_TREE_EACH(const mend_span, end, by_end, &heap->zones[MEND_ZONE_LARGE].segment_ends) {
        for (const mend_span *span = end; span != NULL; span = span->previous) {
            bool is_small = span->size_bytes <= heap->config.placement.small_request_bytes;
            bytes += span->live && is_small ? span->size_bytes : 0;
        }
    }
    return bytes;
}

static uint64_t longest_usable(const mend_heap *heap, const mend_run *run, uint32_t asking)
{
    uint64_t longest = 0;
    uint64_t length = 0;
    const mend_span *end = run->last->next;
    for (const mend_span *span = run->first; span != end; span = span->next) {
        bool is_usable = mend_waits_blocked_by(&heap->streams, &span->waits, asking) == 0;
        length = is_usable ? length + span->size_bytes : 0;
        longest = mend_max_u64(longest, length);
    }
    assert(longest <= run->size_bytes);
    return longest;
}

/* The longest stretch from the start of a cached span: the span, and the run that it will begin.
 * Free memory behind it may be unmapped. */
static uint64_t usable_from(const mend_heap *heap, const mend_span *span, uint32_t asking)
{
    assert(span->cached);
    uint64_t length = 0;
    bool has_run = span->next != NULL && !span->next->live;
    uint64_t end = has_run ? mend_run_end(span->next->run) : mend_span_end(span);
    while (span != NULL && span->address < end &&
           mend_waits_blocked_by(&heap->streams, &span->waits, asking) == 0) {
        length += span->size_bytes;
        span = span->next;
    }
    return length;
}

static void explain(const mend_heap *heap, uint32_t asking, mend_explanation *explanation)
{
    assert(mend_mutex_is_held(&heap->grow));
    assert(mend_mutex_is_held(&heap->state));
    assert(asking < heap->streams.count);
    *explanation = (mend_explanation){
        .reserved_bytes = heap->chunks.reserved_bytes,
        .live_bytes = mend_heap_awake_bytes(heap),
        .unmapped_bytes = heap->chunks.unmapped_bytes,
        .lent_bytes = lent_bytes(heap),
        .retired_mappings = heap->chunks.deferred.count[MEND_DEFERRED_MAPPING],
        .retired_bytes = heap->retire.bytes,
    };
    chunk_walk walk = {.lowest = NULL};
    const mend_tree_node *at = mend_tree_last(&heap->chunks.mapped);
    for (; at != NULL; at = mend_tree_previous(at)) {
        const mend_chunk *chunk = CHUNK_OF(at);
        walk_chunk(heap, chunk, asking, &walk);
        if (!mend_chunk_sleeps(chunk)) {
            add_chunk(explanation, chunk, &walk);
        } else if (mend_chunk_is_reserved(chunk)) {
            /* The driver refused to take it back. It is not in use. */
            explanation->free_bytes[chunk->zone][MEND_FREE_EDGE][MEND_FREE_IDLE] +=
                chunk->size_bytes;
        }
    }
    for (int zone = 0; zone < MEND_ZONES_OF_BLOCKS; zone++) {
        MEND_TREE_EACH(const mend_run, run, by_address, &heap->zones[zone].runs_by_address) {
            mend_raise_u64(&explanation->usable_bytes, longest_usable(heap, run, asking));
        }
        const mend_cache *cache = &heap->zones[zone].cache;
        for (uint32_t i = 0; i < cache->count; i++) {
            mend_raise_u64(&explanation->usable_bytes, usable_from(heap, cache->spans[i], asking));
        }
    }
    assert(mend_explanation_free_bytes(explanation) ==
           explanation->reserved_bytes - explanation->live_bytes);
}

/* ---- sums ------------------------------------------------------------------------------------ */

static uint64_t free_at(const mend_explanation *explanation, int zone, mend_free_place place)
{
    uint64_t bytes = 0;
    for (int reason = 0; reason < MEND_FREE_REASONS; reason++) {
        bytes += explanation->free_bytes[zone][place][reason];
    }
    return bytes;
}

uint64_t mend_explanation_partial_bytes(const mend_explanation *explanation, int zone)
{
    return free_at(explanation, zone, MEND_FREE_EDGE) + free_at(explanation, zone, MEND_FREE_HOLE);
}

uint64_t mend_explanation_free_bytes(const mend_explanation *explanation)
{
    uint64_t bytes = explanation->unmapped_bytes;
    for (int zone = 0; zone < MEND_ZONE_COUNT; zone++) {
        bytes += free_at(explanation, zone, MEND_FREE_EMPTY) +
                 mend_explanation_partial_bytes(explanation, zone);
    }
    return bytes;
}

mend_result mend_pool_explain(mend_pool *pool, mend_stream asking, mend_explanation *explanation)
{
    MEND_TRY(mend_pool_check_process(pool));
    mend_heap *heap = &pool->heap;
    mend_heap_lock_to_read(heap);
    uint32_t stream = mend_streams_lookup(&heap->streams, asking, 0);
    explain(heap, stream, explanation);
    mend_heap_unlock_after_read(heap);
    return MEND_OK;
}
