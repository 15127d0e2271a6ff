/* Changes of spans and runs: taken, freed, claimed, split and joined. */
#include "layout/layout.h"

#include <stdlib.h>

MEND_TREE_ORDER(compare_by_address, mend_run, by_address, address);
MEND_TREE_ORDER_BY_TWO(compare_by_growth, mend_run, by_growth, size_bytes, address);

static int compare_by_end(const mend_tree_node *a, const mend_tree_node *b)
{
    const uint64_t one = mend_span_end(MEND_CONTAINER_OF(a, mend_span, by_end));
    const uint64_t other = mend_span_end(MEND_CONTAINER_OF(b, mend_span, by_end));
    return mend_compare_u64(one, other);
}

void mend_layout_init(mend_heap *heap)
{
    for (int i = 0; i < MEND_ZONE_COUNT; i++) {
        mend_zone *zone = &heap->zones[i];
        mend_tree_init(&zone->runs_by_address, compare_by_address);
        mend_tree_init(&zone->runs_by_growth, compare_by_growth);
        mend_tree_init(&zone->segment_ends, compare_by_end);
    }
    heap->caching.closings = 1;
    mend_list_init(&heap->usage.pending);
    mend_pointer_map_init(&heap->blocks);
    mend_slab_init(&heap->nodes.spans, sizeof(mend_span));
    mend_slab_init(&heap->nodes.runs, sizeof(mend_run));
    mend_slab_init(&heap->nodes.waits, sizeof(mend_wait));
}

void mend_layout_clear(mend_heap *heap)
{
    mend_pointer_map_clear(&heap->blocks);
    mend_slab_clear(&heap->nodes.spans);
    mend_slab_clear(&heap->nodes.runs);
    mend_slab_clear(&heap->nodes.waits);
}

/* ---- runs and their indices ---------------------------------------------------------------- */

static void leave_sizes(mend_zone *zone, mend_run *run)
{
    mend_sizes_remove(&zone->runs_by_size, run);
    zone->changes++;
    if (run->extensible) {
        mend_tree_remove(&zone->runs_by_growth, &run->by_growth);
    }
}

/* The caller has set the run's first and last span, which get their pointer to it. */
static void enter_sizes(mend_zone *zone, mend_run *run)
{
    run->address = run->first->address;
    run->size_bytes = mend_span_end(run->last) - run->address;
    run->first->run = run;
    run->last->run = run;
    run->chunk = run->first->chunk;
    run->extensible = run->last->next == NULL;
    mend_sizes_insert(&zone->runs_by_size, run);
    zone->changes++;
    if (run->extensible) {
        mend_tree_insert_by(&zone->runs_by_growth, &run->by_growth, compare_by_growth);
    }
}

static void add_run(mend_heap *heap, mend_zone *zone, mend_span *first, mend_span *last)
{
    mend_run *run = mend_slab_take_as_it_is(&heap->nodes.runs); /* written here, and by indices */
    run->first = first;
    run->last = last;
    enter_sizes(zone, run);
    mend_tree_insert_by(&zone->runs_by_address, &run->by_address, compare_by_address);
}

static void drop_run(mend_heap *heap, mend_zone *zone, mend_run *run)
{
    assert(zone->runs_by_size.count < zone->runs_by_address.count);
    mend_tree_remove(&zone->runs_by_address, &run->by_address);
    mend_slab_give(&heap->nodes.runs, run);
}

/* ---- spans: joins and splits keep the right-hand node, so that the end of a segment stays ---- */

static void link_spans(mend_span *left, mend_span *right)
{
    assert(left != right);
    if (left != NULL) {
        left->next = right;
    }
    if (right != NULL) {
        right->previous = left;
    }
}

mend_span *mend_layout_split_left(mend_heap *heap, mend_span *span, uint64_t at)
{
    assert(!span->live);
    assert(at > span->address && at < mend_span_end(span));
    assert(at % MEND_GRANULE_BYTES == 0);
    const bool is_pending = mend_span_is_pending(span);
    mend_usage_end_pending(heap, span); /* both parts are, below */
    mend_span *left = mend_slab_take(&heap->nodes.spans);
    left->address = span->address;
    left->size_bytes = at - span->address;
    left->zone = span->zone;
    left->chunk = span->chunk;
    left->run = span->run;
    left->sleep_tag = span->sleep_tag;
    mend_waits_add_all(mend_heap_wait_env(heap), &left->waits, &span->waits);
    link_spans(span->previous, left);
    link_spans(left, span);
    span->chunk = mend_span_chunk_at(heap, span, at);
    span->address = at;
    span->size_bytes -= left->size_bytes;
    if (is_pending) {
        mend_usage_begin_pending(heap, left, span->freed_on);
        mend_usage_begin_pending(heap, span, span->freed_on);
    }
    return left;
}

/* Spans that wait for the same: both are idle, or have the same stream. That stream may use either
 * at once. No other stream can use the earlier one once it waits for the later one. Memory that was
 * freed without a stream has no stream of its own, and joins within its epoch. With only one stream
 * in the pool, idle memory joins with any, because the difference has no effect. Memory of graphs
 * sleeps by its last tag, so memory of two tags stays two spans. */
static bool can_join(mend_wait_env env, const mend_span *left, const mend_span *right)
{
    const mend_stamp a = left->waits.first;
    const mend_stamp b = right->waits.first;
    return left->waits.others == NULL && right->waits.others == NULL &&
           !mend_span_is_pending(left) && !mend_span_is_pending(right) &&
           (a.epoch == 0 || b.epoch == 0
                ? a.epoch == b.epoch || !mend_streams_are_several(env.streams)
                : a.stream == b.stream &&
                      (a.stream != MEND_STREAM_UNKNOWN || a.epoch == b.epoch)) &&
           (left->sleep_tag == right->sleep_tag ||
            !mend_waits_for_graphs(env.streams, &left->waits));
}

/* Joins the span before `span` into `span`. The result has the waits of both. */
static void join_left(mend_heap *heap, mend_span *span)
{
    mend_wait_env env = mend_heap_wait_env(heap);
    mend_span *left = span->previous;
    assert(!left->live && !left->cached);
    assert(!mend_span_is_pending(left) && !mend_span_is_pending(span));
    assert(left->zone == span->zone);
    assert(mend_span_end(left) == span->address);
    assert(!mend_layout_walk_is_at(heap, left));
    mend_waits_add_all(env, &span->waits, &left->waits);
    mend_waits_clear(env, &left->waits);
    span->chunk = left->chunk;
    span->address = left->address;
    span->size_bytes += left->size_bytes;
    link_spans(left->previous, span);
    mend_slab_give(&heap->nodes.spans, left);
}

/*
 * Takes [address, address + size) out of a run, as one span that is in no run and has no waits.
 * Adds the waits of its memory to *waits.
 */
static mend_span *carve(mend_heap *heap, mend_run *run, uint64_t address, uint64_t size_bytes,
                        mend_waits *waits)
{
    mend_wait_env env = mend_heap_wait_env(heap);
    uint64_t end = address + size_bytes;
    uint64_t run_end = mend_run_end(run);
    mend_zone *zone = &heap->zones[run->first->zone];
    assert(size_bytes > 0 && address >= run->address && end <= run_end);
    assert((address | size_bytes) % MEND_GRANULE_BYTES == 0);
    leave_sizes(zone, run);

    const bool is_near_end = address - run->address > run->size_bytes / 2;
    mend_span *span = mend_span_walk(is_near_end ? run->last : run->first, address);
    mend_span *head = run->first;
    if (address > span->address) {
        mend_span *left = mend_layout_split_left(heap, span, address);
        head = head == span ? left : head;
    }
    for (;;) {
        span = mend_span_end(span) > end ? mend_layout_split_left(heap, span, end) : span;
        mend_usage_end_pending(heap, span);
        mend_waits_add_all(env, waits, &span->waits);
        mend_waits_clear(env, &span->waits);
        if (span->address > address) { /* it absorbs the one before */
            join_left(heap, span);
        }
        if (mend_span_end(span) == end) {
            break;
        }
        span = span->next;
    }

    uint64_t run_address = run->address;
    if (end < run_end) { /* the run goes on behind the part taken */
        run->first = span->next;
        enter_sizes(zone, run);
        if (address > run_address) {
            add_run(heap, zone, head, span->previous);
        }
    } else if (address > run_address) {
        run->first = head;
        run->last = span->previous;
        enter_sizes(zone, run);
    } else {
        drop_run(heap, zone, run);
    }
    span->run = NULL;
    assert(span->address == address && span->size_bytes == size_bytes);
    return span;
}

/* Whether free memory joins with this neighbor: it is neither live, claimed nor cached. */
static bool is_in_run(const mend_span *span)
{
    return span != NULL && !span->live && span->run != NULL;
}

void mend_layout_end_claim(mend_heap *heap, mend_span *span)
{
    assert(mend_mutex_is_held(&heap->state));
    assert(!span->live && !span->cached);
    assert(span->run == NULL);
    mend_wait_env env = mend_heap_wait_env(heap);
    mend_zone *zone = &heap->zones[span->zone];
    if (span->waits.others != NULL) {
        mend_usage_begin_pending(heap, span, span->waits.first.stream);
    }
    mend_span *left = is_in_run(span->previous) ? span->previous : NULL;
    mend_span *right = is_in_run(span->next) ? span->next : NULL;
    mend_run *left_run = left != NULL ? left->run : NULL;
    mend_run *right_run = right != NULL ? right->run : NULL;
    mend_span *first = left_run != NULL ? left_run->first : span;
    mend_span *last = right_run != NULL ? right_run->last : span;
    if (left_run != NULL) {
        leave_sizes(zone, left_run);
    }
    if (right_run != NULL) {
        leave_sizes(zone, right_run);
    }
    if (left != NULL && can_join(env, left, span)) {
        first = first == left ? span : first;
        join_left(heap, span);
    }
    if (right != NULL && can_join(env, span, right)) {
        first = first == span ? right : first;
        join_left(heap, right);
    }
    assert(!is_in_run(first->previous));
    assert(!is_in_run(last->next));
    mend_run *run = left_run != NULL ? left_run : right_run;
    if (run == NULL) {
        add_run(heap, zone, first, last);
        return;
    }
    if (left_run != NULL && right_run != NULL) {
        drop_run(heap, zone, right_run);
    }
    run->first = first;
    run->last = last;
    enter_sizes(zone, run);
}

void mend_layout_tidy(mend_heap *heap, mend_run *run, bool from_end, uint64_t most_spans)
{
    assert(mend_mutex_is_held(&heap->state));
    assert(run->first->previous == NULL || run->first->previous->run != run);
    mend_wait_env env = mend_heap_wait_env(heap);
    mend_span *span = from_end ? run->last : run->first;
    mend_waits_drop_passed(env, &span->waits);
    (void)mend_usage_look(heap, span);
    while (span != (from_end ? run->first : run->last) && most_spans-- > 0) {
        mend_span *right = from_end ? span : span->next;
        mend_span *left = right->previous;
        span = from_end ? left : right;
        mend_waits_drop_passed(env, &span->waits);
        (void)mend_usage_look(heap, span);
        if (can_join(env, left, right)) {
            run->first = run->first == left ? right : run->first;
            heap->zones[right->zone].walk_run = NULL; /* its span may go */
            join_left(heap, right);
            span = right;
        }
    }
    run->first->run = run;
}

uint16_t mend_layout_tell_scope(mend_heap *heap, const mend_span *span, int kind)
{
    mend_history_event event = {.kind = kind, .scope = span->scope, .size_bytes = span->size_bytes};
    if (mend_events_has(&heap->events, kind)) {
        mend_events_put(&heap->events, &event);
    }
    return (uint16_t)event.scope;
}

void mend_layout_mark(mend_heap *heap, mend_span *span)
{
    const mend_thread_marks marks = mend_process_marks();
    span->sleep_tag = marks.sleep_tag;
    span->scope = (uint16_t)marks.scope;
    span->stack = (uint16_t)mend_process_take_stack();
    if (span->scope != 0) {
        span->scope = mend_layout_tell_scope(heap, span, MEND_TOLD_MARKED);
    }
}

mend_span *mend_layout_add_passed(mend_heap *heap, uint64_t address, uint64_t size_bytes)
{
    mend_span *span = mend_slab_take(&heap->nodes.spans);
    span->address = address;
    span->size_bytes = size_bytes;
    span->zone = MEND_ZONE_PASSED;
    span->live = true;
    mend_tree_insert(&heap->zones[MEND_ZONE_PASSED].segment_ends, &span->by_end);
    return span;
}

void mend_layout_drop_passed(mend_heap *heap, mend_span *span)
{
    mend_waits_clear(mend_heap_wait_env(heap), &span->waits);
    mend_tree_remove(&heap->zones[MEND_ZONE_PASSED].segment_ends, &span->by_end);
    mend_slab_give(&heap->nodes.spans, span);
}

/* ---- the changes ----------------------------------------------------------------------------- */

mend_span *mend_layout_take(mend_heap *heap, mend_run *run, uint64_t address, uint64_t size_bytes,
                            uint64_t home)
{
    mend_span *span = mend_layout_claim_part(heap, run, address, size_bytes);
    mend_layout_set_live(heap, &heap->zones[span->zone], span, true);
    const uint64_t end = mend_span_end(span);
    for (mend_chunk *at = heap->has_homes ? span->chunk : NULL; at != NULL && at->address < end;
         at = at->next) {
        /* The first and the last chunk may hold others beside it. */
        const uint64_t from = mend_max_u64(span->address, at->address);
        const uint64_t part_bytes = mend_min_u64(end, at->address + at->size_bytes) - from;
        at->sleep_tag = at->live_bytes == part_bytes ? home : at->sleep_tag;
    }
    return span;
}

void mend_layout_free(mend_heap *heap, mend_span *span)
{
    assert(mend_mutex_is_held(&heap->state));
    mend_layout_set_live(heap, &heap->zones[span->zone], span, false);
    if (heap->chunks.frozen_count == 0) {
        mend_layout_end_claim(heap, span);
        return;
    }
    for (mend_span *rest; span != NULL; span = rest) {
        /* Up to there it lies in one frozen chunk, or in none. */
        const mend_chunk *last = span->chunk;
        uint64_t end = last->address + last->size_bytes;
        while (!span->chunk->is_frozen && end < mend_span_end(span) &&
               !mend_chunk_next(last)->is_frozen) {
            last = mend_chunk_next(last);
            end = last->address + last->size_bytes;
        }
        rest = end < mend_span_end(span) ? span : NULL;
        span = rest != NULL ? mend_layout_split_left(heap, span, end) : span;
        if (!span->chunk->is_frozen) {
            mend_layout_end_claim(heap, span);
        } else if (mend_chunk_sleeps(span->chunk)) {
            mend_chunk_note_freed_asleep(&heap->chunks, span->chunk, span->size_bytes);
            mend_usage_note(heap);
        }
    }
}

mend_span *mend_layout_claim_part(mend_heap *heap, mend_run *run, uint64_t address,
                                  uint64_t size_bytes)
{
    assert(mend_mutex_is_held(&heap->state));
    mend_waits waits = {0};
    mend_span *span = carve(heap, run, address, size_bytes, &waits);
    span->waits = waits;
    return span;
}

/* The chunk continues the segments that touch it on either side. Then it joins the runs there. */
void mend_layout_attach(mend_heap *heap, mend_chunk *chunk, int zone_number, uint64_t address,
                        mend_waits *waits)
{
    mend_zone *zone = &heap->zones[zone_number];
    assert(mend_mutex_is_held(&heap->state));
    assert(zone_number >= 0);
    assert(zone_number < MEND_ZONE_COUNT);
    assert(address != 0);
    mend_chunk_set_address(&heap->chunks, chunk, zone_number, address);
    mend_events_note(&heap->events, MEND_EVENT_MAP, address, chunk->size_bytes,
                     chunk->memory.number);
    mend_span *span = mend_slab_take(&heap->nodes.spans);
    span->address = address;
    span->size_bytes = chunk->size_bytes;
    span->zone = (uint8_t)zone_number;
    span->chunk = chunk;
    span->waits = *waits;
    *waits = (mend_waits){0};
    zone->free_bytes += span->size_bytes;
    mend_span *before = mend_layout_segment_end(zone, address);
    before = before != NULL && mend_span_end(before) == address ? before : NULL;
    const uint64_t end = address + chunk->size_bytes;
    const mend_chunk *next = mend_chunk_at(&heap->chunks, end);
    mend_span *behind =
        next != NULL && next->zone == zone_number ? mend_heap_span_at(heap, end) : NULL;
    assert(before == NULL || before->next == NULL);
    assert(behind == NULL || behind->previous == NULL);
    if (before != NULL) {
        mend_tree_remove(&zone->segment_ends, &before->by_end);
        link_spans(before, span);
    }
    if (behind != NULL) {
        link_spans(span, behind);
    } else {
        mend_tree_insert(&zone->segment_ends, &span->by_end);
    }
    mend_layout_end_claim(heap, span);
}

void mend_layout_cut(mend_heap *heap, mend_span *span)
{
    assert(mend_mutex_is_held(&heap->state));
    assert(!span->live && !span->cached);
    assert(span->run == NULL);
    mend_zone *zone = &heap->zones[span->zone];
    assert(zone->free_bytes >= span->size_bytes);
    mend_span *before = span->previous;
    zone->free_bytes -= span->size_bytes;
    mend_events_note(&heap->events, MEND_EVENT_UNMAP, span->address, span->size_bytes,
                     mend_chunk_told_number(span->chunk));
    if (span->next != NULL) {
        span->next->previous = NULL;
    } else {
        mend_tree_remove(&zone->segment_ends, &span->by_end);
    }
    if (before != NULL) {
        bool is_free = is_in_run(before);
        if (is_free) {
            leave_sizes(zone, before->run);
        }
        before->next = NULL;
        mend_tree_insert(&zone->segment_ends, &before->by_end);
        if (is_free) {
            enter_sizes(zone, before->run);
        }
    }
    mend_waits_clear(mend_heap_wait_env(heap), &span->waits);
    mend_slab_give(&heap->nodes.spans, span);
}

void mend_layout_detach(mend_heap *heap, mend_chunk *chunk, mend_waits *waits)
{
    assert(chunk->address != 0);
    assert(chunk->live_bytes == 0);
    mend_run *run = mend_layout_run_at(&heap->zones[chunk->zone], chunk->address);
    mend_layout_cut(heap, carve(heap, run, chunk->address, chunk->size_bytes, waits));
    mend_chunk_set_address(&heap->chunks, chunk, chunk->zone, 0);
}

/* ---- nodes: all that a change may need is there before it begins ----------------------------- */

/* Each part has the waits of the whole: its present ones, and the stamps of the free and of copies
 * that may run. */
mend_layout_promise mend_layout_nodes_to_free(const mend_heap *heap, const mend_span *span,
                                              size_t chunk_count)
{
    mend_layout_promise nodes = mend_layout_nodes_for(heap, chunk_count);
    if (chunk_count > 1) {
        nodes.waits = mend_layout_nodes_for(heap, 1).waits +
                      2 * chunk_count * (mend_waits_count_others(&span->waits) + 3);
    }
    return nodes;
}
