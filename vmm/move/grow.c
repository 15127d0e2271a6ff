/*
 * Carries out a plan: the one transaction in which chunks are created, moved and mapped. All steps
 * that can fail come first; after a failure everything is undone and the heap is unchanged.
 */
#include "move/move.h"

#include <assert.h>

#include "base/error.h"
#include "layout/layout.h"
#include "move/driver_scope.h"
#include "policy/policy.h"

/* What the transaction has done so far, to be undone if a later step fails. */
typedef struct transaction {
    mend_heap *heap;
    const mend_plan *plan;
    mend_layout_promise nodes; /* of the layout, promised until the end */
    bool has_nodes;
    mend_span *base; /* the claimed part of the run, as one span; NULL: none, or not claimed yet */
    mend_span *tail_part; /* claimed parts of the plan's ends; NULL: none, or not claimed yet */
    mend_span *head_part;
    mend_zone *zone;
    int zone_number;
    mend_space *space;   /* the addresses that it uses */
    mend_chunk *chunks;  /* claimed ones, then created ones, linked by next_claimed */
    mend_chunk **tail;   /* end of that list */
    mend_chunk *created; /* the first created one */
    size_t reservations_before;
    uint64_t address; /* where the first chunk is mapped */
    uint64_t total_bytes;
    uint64_t mapped_bytes; /* bytes of chunks mapped so far, in order */
} transaction;

static mend_result no_host_memory(void)
{
    return mend_failure(MEND_ERROR_OUT_OF_HOST_MEMORY, "malloc failed while making room");
}

/* Of waits, only chunks that are mapped have any: they are claimed before anything changes. */
static mend_layout_promise count_nodes(const transaction *t, size_t chunks, size_t ends)
{
    mend_layout_promise nodes = mend_layout_nodes_for(t->heap, chunks);
    nodes.waits = mend_layout_nodes_for(t->heap, 1 + 2 * ends).waits;
    for (size_t i = 0; i < t->plan->picks.count; i++) {
        const mend_chunk *at = t->plan->picks.chunks[i];
        if (at->address != 0) {
            mend_run *run = mend_layout_run_at(&t->heap->zones[at->zone], at->address);
            nodes.waits +=
                mend_layout_count_waits(t->heap, run, at->address, at->address + at->size_bytes);
        }
    }
    return nodes;
}

/* Nodes of the layout are promised, because other threads take nodes during driver calls. Only a
 * thread that holds the grow lock uses the others. */
static bool reserve_nodes(transaction *t)
{
    mend_heap *heap = t->heap;
    size_t ends = mend_plan_end_count(t->plan);
    size_t created = mend_plan_create_count(t->plan);
    size_t chunks = t->plan->picks.count + created + 2 * ends; /* an end leaves a run, and enters */
    chunks += t->plan->on_host; /* and what is behind the block is frozen */
    t->nodes = count_nodes(t, chunks, ends);
    t->has_nodes = mend_layout_promise_these(heap, &t->nodes);
    return t->has_nodes && mend_retire_reserve(heap, chunks) &&
           mend_slab_reserve(&heap->chunks.slab, created + ends) &&
           mend_space_reserve_nodes(t->space, 1);
}

static mend_result order_behind_end(mend_heap *heap, const mend_end *end, uint32_t stream)
{
    if (end->chunk == NULL) {
        return MEND_OK;
    }
    mend_run *run = mend_layout_run_at(&heap->zones[end->chunk->zone], end->address);
    return mend_layout_make_ready(heap, run, end->address, end->size_bytes, stream);
}

/* Makes the stream wait for the last use, by other streams, of the memory that the plan takes. */
static mend_result order_streams(const transaction *t, const mend_request *request)
{
    mend_heap *heap = t->heap;
    mend_result result = MEND_OK;
    if (t->plan->base != NULL) {
        mend_run *base = t->plan->base;
        uint64_t start = t->plan->start;
        result =
            mend_layout_make_ready(heap, base, start, mend_run_end(base) - start, request->stream);
    }
    for (size_t i = 0; i < t->plan->picks.count && result == MEND_OK; i++) {
        const mend_chunk *at = t->plan->picks.chunks[i];
        assert(mend_chunk_is_empty(at));
        if (at->address != 0) {
            mend_run *run = mend_layout_run_at(&heap->zones[at->zone], at->address);
            result =
                mend_layout_make_ready(heap, run, at->address, at->size_bytes, request->stream);
        }
    }
    if (result == MEND_OK) {
        result = order_behind_end(heap, &t->plan->tail, request->stream);
    }
    return result == MEND_OK ? order_behind_end(heap, &t->plan->head, request->stream) : result;
}

static void enter(transaction *t, mend_chunk *chunk)
{
    assert(*t->tail == NULL);
    chunk->next_claimed = NULL;
    *t->tail = chunk;
    t->tail = &chunk->next_claimed;
}

static mend_span *claim_end(mend_heap *heap, const mend_end *end)
{
    return end->chunk != NULL
               ? mend_layout_claim_end(heap, end->chunk, end->address, end->size_bytes)
               : NULL;
}

static void end_claim_of_end(mend_heap *heap, const mend_end *end, mend_span *part)
{
    if (part != NULL) {
        mend_layout_end_claim_of_end(heap, end->chunk, part);
    }
}

/* Takes everything that the plan uses out of reach of other threads, before driver calls. */
static void claim(transaction *t)
{
    mend_heap *heap = t->heap;
    mend_run *base = t->plan->base;
    if (base != NULL) {
        uint64_t start = t->plan->start;
        assert(base->address == t->plan->base_address);
        assert(start >= base->address);
        t->address = mend_run_end(base);
        if (start < t->address) { /* the part before the block stays in the run */
            t->base = mend_layout_claim_part(heap, base, start, t->address - start);
        }
    }
    t->tail_part = claim_end(heap, &t->plan->tail);
    t->head_part = claim_end(heap, &t->plan->head);
    for (size_t i = 0; i < t->plan->picks.count; i++) {
        mend_chunk *at = t->plan->picks.chunks[i];
        uint64_t address = at->address;
        assert(mend_chunk_is_empty(at));
        assert(at->claimed_address == 0);
        if (address != 0) {
            mend_layout_detach(heap, at, &at->claimed_waits);
            at->claimed_address = address;
        }
        enter(t, at);
    }
}

/* Puts the base back into its run. */
static void end_claim_of_base(transaction *t)
{
    if (t->base != NULL) {
        mend_layout_end_claim(t->heap, t->base);
        t->base = NULL;
    }
}

/* Puts everything claimed back. */
static void end_claim(transaction *t)
{
    end_claim_of_base(t);
    end_claim_of_end(t->heap, &t->plan->tail, t->tail_part);
    end_claim_of_end(t->heap, &t->plan->head, t->head_part);
    for (mend_chunk *at = t->chunks; at != NULL && at != t->created; at = at->next_claimed) {
        uint64_t address = at->claimed_address;
        assert(at->address == 0);
        if (address != 0) {
            at->claimed_address = 0;
            mend_layout_attach(t->heap, at, at->zone, address, &at->claimed_waits);
        }
    }
}

static mend_result create_chunks(transaction *t)
{
    uint64_t left_bytes = t->plan->create_bytes;
    while (left_bytes > 0) {
        uint64_t size_bytes = mend_plan_next_chunk(t->plan, left_bytes);
        mend_chunk *chunk;
        assert(size_bytes > 0);
        assert(size_bytes <= left_bytes);
        mend_status status = t->plan->on_host
                                 ? mend_chunk_create_on_host(&t->heap->chunks, size_bytes, &chunk)
                                 : mend_chunk_create(&t->heap->chunks, size_bytes, &chunk);
        if (status != MEND_DRIVER_OK) {
            mend_result result = mend_driver_refused(t->heap, MEND_CALL_create, status);
            if (result == MEND_ERROR_OUT_OF_MEMORY && !t->plan->on_host) {
                mend_attainable_note_refusal(t->heap);
            }
            return result;
        }
        enter(t, chunk);
        t->created = t->created != NULL ? t->created : chunk;
        left_bytes -= size_bytes;
    }
    return MEND_OK;
}

/* The end of the zone's last segment, if there is room behind it: small chunks are mapped one after
 * the other. */
static bool find_tail(const transaction *t, uint64_t *address)
{
    mend_tree_node *last = mend_tree_last(&t->zone->segment_ends);
    if (last == NULL) {
        return false;
    }
    const mend_span *span = MEND_CONTAINER_OF(last, mend_span, by_end);
    uint64_t end = span->address + span->size_bytes;
    assert(!span->live || span->run == NULL);
    if (mend_space_room_at(&t->heap->space, end) < t->total_bytes) {
        return false;
    }
    *address = end;
    return true;
}

/* Frees reservations without taken bytes and asks the driver again, if there were any. */
static mend_status place_after_trim(transaction *t, uint64_t alignment_bytes)
{
    mend_space *space = &t->heap->space;
    uint64_t address_bytes = space->address_bytes;
    mend_space_trim(space, 0);
    t->reservations_before = space->reservation_count;
    return space->address_bytes < address_bytes && mend_space_reserve_nodes(space, 1)
               ? mend_space_place(space, t->zone_number, t->total_bytes, alignment_bytes,
                                  &t->address)
               : MEND_DRIVER_OUT_OF_MEMORY;
}

/* If addresses are short, the attempt fails like one without memory: retired mappings, or callbacks
 * of the program, may free some. */
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
    if (t->zone_number == MEND_ZONE_SMALL && find_tail(t, &t->address)) {
        return MEND_OK;
    }
    mend_status status = mend_space_place(&heap->space, t->zone_number, t->total_bytes,
                                          request->alignment_bytes, &t->address);
    if (status == MEND_DRIVER_OUT_OF_MEMORY) {
        status = place_after_trim(t, request->alignment_bytes);
    }
    if (status == MEND_DRIVER_OUT_OF_MEMORY) {
        heap->shortage.no_addresses = status;
        return MEND_ERROR_OUT_OF_MEMORY;
    }
    return status == MEND_DRIVER_OK ? MEND_OK
                                    : mend_driver_refused(heap, MEND_CALL_reserve, status);
}

/* Maps one chunk behind those mapped so far. NULL: none. */
static mend_status map_next(transaction *t, const mend_chunk *chunk)
{
    if (chunk == NULL) {
        return MEND_DRIVER_OK;
    }
    mend_status status = mend_step_map(t->heap, t->address + t->mapped_bytes, chunk);
    t->mapped_bytes += status == MEND_DRIVER_OK ? chunk->size_bytes : 0;
    return status;
}

static mend_result map_chunks(transaction *t)
{
    mend_heap *heap = t->heap;
    assert(t->address != 0);
    assert(t->mapped_bytes == 0);
    mend_status status = map_next(t, t->plan->tail.chunk);
    for (mend_chunk *at = t->chunks; at != NULL && status == MEND_DRIVER_OK;
         at = at->next_claimed) {
        status = map_next(t, at);
    }
    if (status == MEND_DRIVER_OK) {
        status = map_next(t, t->plan->head.chunk);
    }
    if (status != MEND_DRIVER_OK) {
        return mend_driver_refused(heap, MEND_CALL_map, status);
    }
    assert(t->mapped_bytes == t->total_bytes);
    status = mend_step_allow(heap, t->address, t->mapped_bytes);
    return status == MEND_DRIVER_OK ? MEND_OK
                                    : mend_driver_refused(heap, MEND_CALL_set_access, status);
}

/* Retires the mapping of one chunk, if it was made; moves *address behind it. NULL: none. */
static void retire_next(const transaction *t, const mend_chunk *chunk, uint64_t *address)
{
    mend_waits idle = {0};
    if (chunk != NULL && *address < t->address + t->mapped_bytes) {
        mend_retire_mapping(t->heap, chunk, *address, &idle);
        *address += chunk->size_bytes;
    }
}

/* Retires the mappings that could not be undone. */
static void retire_mapped(transaction *t)
{
    uint64_t address = t->address;
    mend_space_take(t->space, t->address, t->mapped_bytes);
    retire_next(t, t->plan->tail.chunk, &address);
    for (mend_chunk *at = t->chunks; at != NULL; at = at->next_claimed) {
        retire_next(t, at, &address);
    }
    retire_next(t, t->plan->head.chunk, &address);
    assert(address == t->address + t->mapped_bytes);
}

static void release_created(transaction *t)
{
    for (mend_chunk *at = t->created; at != NULL;) {
        mend_chunk *next = at->next_claimed;
        assert(at->address == 0);
        mend_step_undo_create(t->heap, at);
        at = next;
    }
}

/* Notes that the driver had no memory for the plan. */
static void note_refusal(const transaction *t)
{
    mend_heap *heap = t->heap;
    mend_budget_note_lack(heap,
                          mend_max_u64(t->plan->create_bytes, heap->device.granularity_bytes));
}

/* Undoes every step. What the driver does not take back stays usable: a chunk as free memory, a
 * mapping as a retired one, together with the chunk that it maps. */
static void undo(transaction *t)
{
    mend_heap *heap = t->heap;
    if (t->mapped_bytes > 0 &&
        heap->driver->unmap(heap->driver, t->address, t->mapped_bytes) != MEND_DRIVER_OK) {
        heap->counters.driver_failures++;
        retire_mapped(t);
    } else {
        release_created(t);
    }
    mend_space_trim(&t->heap->space, t->reservations_before);
    end_claim(t);
    mend_step_note_peaks(heap);
}

/* The part of the block that lies in an end: free memory at the alias, for a moment. */
static void lend(const transaction *t, const mend_end *end, mend_span *part, uint64_t *address)
{
    if (part != NULL) {
        mend_layout_lend(t->heap, end->chunk, part, *address);
        *address += end->chunk->size_bytes;
    }
}

/* From here on nothing fails: the chunks change places, and their old mappings retire. */
static void commit(transaction *t)
{
    mend_heap *heap = t->heap;
    mend_wait_env room = mend_heap_wait_env(heap);
    uint64_t address = t->address;
    assert(t->mapped_bytes == t->total_bytes);
    mend_space_take(t->space, address, t->total_bytes);
    end_claim_of_base(t);
    lend(t, &t->plan->tail, t->tail_part, &address);
    for (mend_chunk *at = t->chunks; at != NULL; at = at->next_claimed) {
        mend_waits waits = {0};
        if (at->claimed_address != 0) {
            mend_waits_add_all(room, &waits, &at->claimed_waits);
            mend_retire_mapping(heap, at, at->claimed_address, &at->claimed_waits);
            at->claimed_address = 0;
            heap->counters.chunks_moved++;
            mend_headroom_note_move(heap);
        }
        mend_layout_attach(heap, at, t->zone_number, address, &waits);
        address += at->size_bytes;
    }
    lend(t, &t->plan->head, t->head_part, &address);
    assert(address == t->address + t->total_bytes);
    mend_step_note_peaks(heap);
}

static mend_result perform(transaction *t, const mend_request *request)
{
    if (!reserve_nodes(t)) {
        return no_host_memory();
    }
    mend_result result = request->behind_wait ? order_streams(t, request) : MEND_OK;
    if (result == MEND_OK) {
        claim(t);
        result = create_chunks(t);
    }
    if (result == MEND_OK) {
        result = choose_address(t, request);
    }
    return result == MEND_OK ? map_chunks(t) : result;
}

static mend_span *take_block(const transaction *t, const mend_request *request, uint64_t start)
{
    mend_heap *heap = t->heap;
    uint64_t address = mend_align_up(start, request->alignment_bytes);
    mend_run *run = mend_layout_run_at(t->zone, address);
    assert(run != NULL);
    assert(mend_run_end(run) - address >= request->size_bytes);
    if (t->plan->on_host) {
        heap->counters.placed_on_host++;
    } else if (mend_plan_end_count(t->plan) > 0) {
        heap->counters.placed_by_alias++;
    } else if (t->plan->base != NULL) {
        heap->counters.placed_by_extension++;
    } else {
        heap->counters.placed_at_new_address++;
    }
    mend_span *span = mend_layout_take(heap, run, address, request->size_bytes);
    if (t->plan->on_host) { /* nothing else uses memory of the host */
        mend_chunk_note_taken_on_host(&heap->chunks, t->created, request->size_bytes);
        mend_freeze_chunk(heap, t->created);
    }
    return span;
}

/* Where the block may begin: in the base, in the tail, or where the first chunk is mapped. */
static uint64_t start_of(const transaction *t)
{
    const mend_end *tail = &t->plan->tail;
    uint64_t offset_bytes = tail->chunk != NULL ? tail->address - tail->chunk->address : 0;
    return t->plan->base != NULL ? t->plan->start : t->address + offset_bytes;
}

mend_outcome mend_grow(mend_heap *heap, const mend_request *request, const mend_plan *plan,
                       mend_span **span)
{
    transaction t = {.heap = heap,
                     .plan = plan,
                     .zone = &heap->zones[request->zone],
                     .zone_number = request->zone,
                     .space = request->pages != NULL ? &heap->ranges.space : &heap->space,
                     .total_bytes = mend_plan_mapped_bytes(plan)};
    assert(t.total_bytes > 0);
    assert(request->size_bytes % MEND_GRANULE_BYTES == 0);
    assert(t.total_bytes % heap->device.granularity_bytes == 0);
    t.tail = &t.chunks;
    t.reservations_before = heap->space.reservation_count;
    mend_outcome outcome = mend_outcome_of(perform(&t, request));
    if (outcome == MEND_PLACED) {
        commit(&t);
        *span = plan->fixed_address == 0 ? take_block(&t, request, start_of(&t)) : NULL;
    } else {
        undo(&t);
    }
    if (outcome == MEND_NOTHING && !plan->on_host) {
        note_refusal(&t);
    }
    if (t.has_nodes) {
        mend_layout_end_promise(heap, &t.nodes);
    }
    return outcome;
}
