/*
 * Carries out a plan: the one transaction in which chunks are created, moved and mapped. All steps
 * that can fail come first (perform). After a failure they are undone, and the heap is as before.
 */
#include "map/map.h"

#include <stdlib.h>

/* The steps done so far, to be undone if a later one fails. */
typedef struct transaction {
    mend_heap *heap;
    const mend_plan *plan;
    mend_layout_promise nodes; /* of the layout, promised until the end */
    mend_span *base; /* the claimed part of the run, as one span. NULL: none, or not claimed yet */
    int zone;
    mend_space *space;   /* the addresses that it uses */
    mend_cluster *parts; /* the mapped chunks, in order: claimed ones, created ones */
    size_t count;
    size_t mapped; /* of these, so far */
    size_t reservations_before;
    uint64_t address; /* where the first one is mapped */
    uint64_t total_bytes;
} transaction;

/* Nodes of the layout are promised, because other threads take nodes during driver calls. Only a
 * thread that holds the grow lock uses the others. */
static bool reserve_nodes(transaction *t)
{
    mend_heap *heap = t->heap;
    size_t created = 0;
    for (uint64_t left = t->plan->create_bytes; left > 0; created++) {
        left -= mend_plan_next_chunk(t->plan, left);
    }
    size_t chunks = t->plan->picks.count + created;
    t->parts = calloc(chunks, sizeof(t->parts[0]));
    t->nodes = mend_layout_nodes_for(heap, chunks);
    t->nodes.waits = mend_layout_nodes_for(heap, 1).waits;
    for (size_t i = 0; i < t->plan->picks.count; i++) {
        const mend_chunk *at = t->plan->picks.chunks[i];
        if (at->address != 0) { /* only a mapped one has waits: it is claimed before any change */
            mend_run *run = mend_layout_run_at(&heap->zones[at->zone], at->address);
            t->nodes.waits +=
                mend_layout_count_waits(heap, run, at->address, at->address + at->size_bytes);
        }
    }
    return t->parts != NULL && mend_retire_reserve(heap, chunks) &&
           mend_slab_reserve(&heap->chunks.slab, created) &&
           mend_space_reserve_nodes(t->space, 1) && mend_layout_promise_these(heap, &t->nodes);
}

/* The next part. */
static void enter(transaction *t, mend_chunk *chunk, bool is_created)
{
    t->parts[t->count++] =
        (mend_cluster){.size_bytes = chunk->size_bytes, .chunk = chunk, .is_created = is_created};
}

/* Takes everything that the plan uses out of reach of other threads, before driver calls. */
static void claim(transaction *t)
{
    mend_heap *heap = t->heap;
    mend_run *base = t->plan->base;
    if (base != NULL) {
        uint64_t start = t->plan->start;
        assert(start >= t->plan->base_address && start >= base->address);
        t->address = mend_run_end(base);
        /* The part before the block stays in the run. */
        t->base = mend_layout_claim_part(heap, base, start, t->address - start);
    }
    for (size_t i = 0; i < t->plan->picks.count; i++) {
        mend_step_claim(heap, t->plan->picks.chunks[i]);
        enter(t, t->plan->picks.chunks[i], false);
    }
}

static void end_claim_of_base(transaction *t)
{
    if (t->base != NULL) {
        mend_layout_end_claim(t->heap, t->base);
        t->base = NULL;
    }
}

static mend_result create_chunks(transaction *t)
{
    uint64_t left_bytes = t->plan->create_bytes;
    while (left_bytes > 0) {
        uint64_t size_bytes = mend_plan_next_chunk(t->plan, left_bytes);
        mend_chunk *chunk;
        assert(size_bytes > 0 && size_bytes <= left_bytes);
        MEND_TRY(mend_step_create(t->heap, size_bytes, false, &chunk));
        enter(t, chunk, true);
        left_bytes -= size_bytes;
    }
    return MEND_OK;
}

/* If addresses are short, the attempt fails like one without memory: retired mappings, or callbacks
 * of the program, may free some. Small chunks are mapped one after the other: at the end of the
 * zone's last segment, if there is space behind it. */
static mend_result choose_address(transaction *t, const mend_request *request)
{
    mend_heap *heap = t->heap;
    if (t->plan->fixed_address != 0) {
        t->address = t->plan->fixed_address;
        assert(mend_space_free_from(t->space, t->address) >= t->total_bytes);
        return MEND_OK;
    }
    if (t->plan->base != NULL) {
        return MEND_OK;
    }
    mend_tree_node *last = mend_tree_last(&heap->zones[t->zone].segment_ends);
    if (t->zone == MEND_ZONE_SMALL && last != NULL) {
        t->address = mend_span_end(MEND_CONTAINER_OF(last, mend_span, by_end));
        if (mend_space_room_at(&heap->space, t->address) >= t->total_bytes) {
            return MEND_OK;
        }
    }
    const mend_status status = mend_space_place(&heap->space, t->zone, t->total_bytes,
                                                request->alignment_bytes, &t->address);
    if (status == MEND_DRIVER_OUT_OF_MEMORY) {
        heap->shortage.no_addresses = status;
        return MEND_ERROR_OUT_OF_MEMORY;
    }
    return mend_driver_result(heap, MEND_ANSWER(reserve, status));
}

static mend_result map_chunks(transaction *t)
{
    uint64_t address = t->address;
    assert(address != 0);
    for (size_t i = 0; i < t->count; i++) {
        t->parts[i].address = address;
        address += t->parts[i].size_bytes;
    }
    assert(address == t->address + t->total_bytes);
    return mend_driver_result(t->heap,
                              mend_step_map_parts(t->heap, t->parts, t->count, &t->mapped));
}

/* Undoes every step. Memory that the driver refuses to release stays usable: a chunk as free
 * memory, a mapping as a retired one, with its chunk. */
static void undo(transaction *t)
{
    mend_heap *heap = t->heap;
    size_t left = 0; /* the first part that the driver did not unmap */
    (void)mend_driver_did(heap, mend_step_unmap_parts(heap, t->parts, t->mapped, &left));
    for (; left < t->mapped; left++) {
        const mend_cluster *part = &t->parts[left];
        mend_waits idle = {0};
        mend_space_take(t->space, part->address, part->size_bytes);
        mend_retire_mapping(heap, part->chunk, part->address, &idle);
    }
    mend_step_drop_parts(heap, t->parts, t->count);
    mend_space_trim(&heap->space, t->reservations_before);
    end_claim_of_base(t);
    mend_layout_note_peaks(heap, false);
}

/* From here on nothing fails: the chunks change places, and their old mappings retire. Returns the
 * block that it takes, in the base, or where the first chunk is mapped. NULL at a fixed address. */
static mend_span *commit(transaction *t, const mend_request *request)
{
    mend_heap *heap = t->heap;
    mend_wait_env env = mend_heap_wait_env(heap);
    assert(t->mapped == t->count);
    mend_space_take(t->space, t->address, t->total_bytes);
    end_claim_of_base(t);
    for (size_t i = 0; i < t->count; i++) {
        mend_chunk *at = t->parts[i].chunk;
        mend_waits waits = {0};
        if (at->claim.address != 0) {
            mend_waits_add_all(env, &waits, &at->claim.waits);
            mend_retire_claim(heap, at);
            heap->counters.chunks_moved++;
        }
        mend_layout_attach(heap, at, t->zone, t->parts[i].address, &waits);
    }
    mend_layout_note_peaks(heap, false);
    if (t->plan->fixed_address != 0) {
        return NULL;
    }
    const bool extends = t->plan->base != NULL;
    const uint64_t address =
        mend_align_up(extends ? t->plan->start : t->address, request->alignment_bytes);
    mend_run *run = mend_layout_run_at(&heap->zones[t->zone], address);
    assert(mend_run_end(run) - address >= request->size_bytes);
    heap->counters.placed_by_extension += extends;
    heap->counters.placed_at_new_address += !extends;
    return mend_layout_take(heap, run, address, request->size_bytes, request->home);
}

/*
 * The steps, which need only promised host memory, and the state after each:
 *  - waits: the stream waits for the last use of all that it takes. These stay queued.
 *  - claim: no other thread finds the chunks of the plan. Old mappings are as they were.
 *  - creation: the missing chunks exist, mapped nowhere.
 *  - address: one is chosen, and still in a gap: no other thread takes addresses meanwhile.
 *  - mappings: all chunks can be used there, and moving ones at their old addresses, too.
 * Then commit() takes the addresses and attaches the chunks. After a failure undo() unmaps mapped
 * chunks, releases created ones, and returns claimed ones to their run.
 */
static mend_result perform(transaction *t, const mend_request *request)
{
    mend_heap *heap = t->heap;
    const mend_plan *plan = t->plan;
    if (request->behind_wait != 0 && plan->base != NULL) {
        MEND_TRY(mend_layout_make_ready(heap, plan->base, plan->start,
                                        mend_run_end(plan->base) - plan->start, request->stream));
    }
    for (size_t i = 0; i < plan->picks.count && request->behind_wait != 0; i++) {
        const mend_chunk *at = plan->picks.chunks[i];
        if (at->address != 0) { /* one that is not mapped has nothing to wait for */
            mend_run *run = mend_layout_run_at(&heap->zones[at->zone], at->address);
            MEND_TRY(
                mend_layout_make_ready(heap, run, at->address, at->size_bytes, request->stream));
        }
    }
    claim(t);
    MEND_TRY(create_chunks(t));
    MEND_TRY(choose_address(t, request));
    return map_chunks(t);
}

mend_outcome mend_grow(mend_heap *heap, const mend_request *request, const mend_plan *plan,
                       mend_span **span)
{
    transaction t = {.heap = heap,
                     .plan = plan,
                     .zone = request->zone,
                     .space = request->pages != NULL ? &heap->range_space : &heap->space,
                     .total_bytes = plan->picked_bytes + plan->create_bytes};
    assert(t.total_bytes > 0 && request->size_bytes % MEND_GRANULE_BYTES == 0);
    assert(t.total_bytes % heap->device.granularity_bytes == 0);
    t.reservations_before = heap->space.reservations_by_address.count;
    if (!reserve_nodes(&t)) {
        free(t.parts);
        return mend_outcome_of(mend_no_host_memory("new memory"));
    }
    mend_outcome outcome = mend_outcome_of(perform(&t, request));
    if (outcome == MEND_PLACED) {
        *span = commit(&t, request);
    } else {
        undo(&t);
    }
    if (outcome == MEND_NOTHING) { /* the device had none */
        mend_budget_note_lack(heap,
                              mend_max_u64(plan->create_bytes, heap->device.granularity_bytes));
    }
    mend_layout_end_promise(heap, &t.nodes);
    free(t.parts);
    return outcome;
}
