/*
 * Blocks on the host: a block that finds no memory of the device gets a chunk of its own there
 * (physical/chunk.h), if the program has allowed it; and the end of such chunks.
 */
#include "move/move.h"

#include <assert.h>

#include "base/error.h"
#include "move/driver_scope.h"
#include "physical/chunk.h"
#include "physical/waits.h"

#define CHUNK_OF(node, member) MEND_CONTAINER_OR_NULL(node, mend_chunk, member)

uint64_t mend_host_chunk_bytes(const mend_heap *heap, uint64_t size_bytes)
{
    if (heap->config.host_limit_bytes == 0 || heap->device.host_page_bytes == 0) {
        return 0;
    }
    return mend_align_up(
        size_bytes, mend_max_u64(heap->device.granularity_bytes, heap->device.host_page_bytes));
}

bool mend_host_has_room(const mend_heap *heap, uint64_t chunk_bytes)
{
    const uint64_t limit = heap->config.host_limit_bytes;
    const uint64_t used =
        heap->chunks.host_bytes + heap->chunks.host_spare_bytes + heap->retire.host_bytes;
    return used <= limit && chunk_bytes <= limit - used;
}

/* ---- a block --------------------------------------------------------------------------------- */

typedef struct placing {
    mend_heap *heap;
    mend_chunk *chunk; /* NULL: not created yet */
    uint64_t address;
    bool is_mapped;
} placing;

static mend_outcome refused(const placing *p, mend_driver_call call, mend_status status)
{
    return status == MEND_DRIVER_OK ? MEND_PLACED
                                    : mend_outcome_of(mend_driver_refused(p->heap, call, status));
}

/* A lack of addresses counts as a lack of memory. */
static mend_outcome find_address(placing *p, uint64_t alignment_bytes)
{
    mend_status status = mend_space_place(&p->heap->space, MEND_ZONE_LARGE, p->chunk->size_bytes,
                                          alignment_bytes, &p->address);
    return status == MEND_DRIVER_OUT_OF_MEMORY ? MEND_NOTHING
                                               : refused(p, MEND_CALL_reserve, status);
}

static mend_outcome make_usable(placing *p, uint64_t alignment_bytes)
{
    mend_heap *heap = p->heap;
    mend_outcome outcome = find_address(p, alignment_bytes);
    if (outcome != MEND_PLACED) {
        return outcome;
    }
    outcome = refused(p, MEND_CALL_map, mend_step_map(heap, p->address, p->chunk));
    p->is_mapped = outcome == MEND_PLACED;
    return outcome == MEND_PLACED ? refused(p, MEND_CALL_set_access,
                                            mend_step_allow(heap, p->address, p->chunk->size_bytes))
                                  : outcome;
}

/* What the driver does not take back stays: a mapping retires, a chunk is spare. */
static void undo(const placing *p)
{
    mend_heap *heap = p->heap;
    const mend_driver *driver = heap->driver;
    bool is_left = p->is_mapped;
    if (p->is_mapped && driver->unmap(driver, p->address, p->chunk->size_bytes) == MEND_DRIVER_OK) {
        is_left = false;
    } else if (p->is_mapped) {
        mend_waits idle = {0};
        heap->counters.driver_failures++;
        mend_space_take(&heap->space, p->address, p->chunk->size_bytes);
        mend_retire_mapping(heap, p->chunk, p->address, &idle);
    }
    if (!is_left && mend_chunk_release_on_host(&heap->chunks, p->chunk) != MEND_DRIVER_OK) {
        heap->counters.driver_failures++;
    }
}

/* The block is at the start of the chunk; the rest is claimed. No driver call: `state` stays. */
static mend_span *enter(const placing *p, const mend_request *request)
{
    mend_heap *heap = p->heap;
    mend_waits none = {0};
    mend_space_take(&heap->space, p->address, p->chunk->size_bytes);
    mend_layout_attach(heap, p->chunk, MEND_ZONE_LARGE, p->address, &none);
    mend_step_note_peaks(heap);
    mend_run *run = mend_layout_run_at(&heap->zones[MEND_ZONE_LARGE], p->address);
    mend_span *span = mend_layout_take(heap, run, p->address, request->size_bytes);
    assert(p->chunk->on_host);
    mend_chunk_note_taken_on_host(&heap->chunks, request->size_bytes);
    mend_freeze_chunk(heap, p->chunk);
    heap->counters.placed_on_host++;
    return span;
}

static bool reserve_nodes(mend_heap *heap)
{
    return mend_retire_reserve(heap, 1) && mend_slab_reserve(&heap->chunks.slab, 1) &&
           mend_space_reserve_nodes(&heap->space, 2);
}

/* Gives back what has lost its blocks, and if that is not enough waits for the work that uses it.
 */
static bool make_room(mend_heap *heap, uint64_t bytes, uint32_t stream)
{
    mend_host_collect(heap);
    mend_retire_flush(heap, stream);
    if (!mend_host_has_room(heap, bytes) && heap->retire.host_bytes > 0 &&
        mend_streams_wait_context(&heap->streams, stream) == MEND_OK) {
        mend_retire_flush(heap, stream);
    }
    return mend_host_has_room(heap, bytes);
}

static mend_outcome place(mend_heap *heap, const mend_request *request, mend_span **span)
{
    placing p = {.heap = heap};
    const size_t reservations_before = heap->space.reservation_count;
    assert(mend_mutex_is_held(&heap->grow));
    assert(mend_mutex_is_held(&heap->state));
    assert(request->pages == NULL);
    const uint64_t bytes = mend_host_chunk_bytes(heap, request->size_bytes);
    if (bytes == 0 || !make_room(heap, bytes, request->stream)) {
        return MEND_NOTHING;
    }
    if (!reserve_nodes(heap)) {
        return mend_outcome_without_host_memory();
    }
    mend_outcome outcome =
        refused(&p, MEND_CALL_create, mend_chunk_create_on_host(&heap->chunks, bytes, &p.chunk));
    if (outcome != MEND_PLACED) {
        return outcome;
    }
    outcome = make_usable(&p, request->alignment_bytes);
    if (outcome == MEND_PLACED && !mend_layout_reserve(heap, 2)) {
        outcome = mend_outcome_without_host_memory();
    }
    if (outcome == MEND_PLACED) {
        *span = enter(&p, request);
        return outcome;
    }
    undo(&p);
    mend_space_trim(&heap->space, reservations_before);
    return outcome;
}

mend_outcome mend_host_place(mend_heap *heap, const mend_request *request, mend_span **span)
{
    mend_driver_scope scope;
    if (request->group != 0) {
        return MEND_NOTHING; /* captured graphs rely on memory that stays with them */
    }
    if (mend_driver_scope_open(heap, &scope) != MEND_OK) {
        return MEND_FAILED;
    }
    mend_outcome outcome = place(heap, request, span);
    mend_driver_scope_close(heap, &scope);
    return outcome;
}

/* ---- the end of chunks ----------------------------------------------------------------------- */

/* What the memory of a chunk without live blocks waits for. */
static mend_waits waits_of(mend_heap *heap, const mend_chunk *chunk)
{
    uint64_t end = chunk->address + chunk->size_bytes;
    mend_waits waits = {0};
    for (mend_span *span = mend_heap_span_at(heap, chunk->address);
         span != NULL && span->address < end; span = span->next) {
        assert(!span->live);
        mend_waits_add_all(mend_heap_wait_env(heap), &waits, &span->waits);
    }
    return waits;
}

/* Takes the chunk out of the layout; its mapping retires. */
static void retire_chunk(mend_heap *heap, mend_chunk *chunk)
{
    uint64_t end = chunk->address + chunk->size_bytes;
    mend_waits waits = waits_of(heap, chunk);
    mend_span *span = mend_heap_span_at(heap, chunk->address);
    while (span != NULL && span->address < end) {
        mend_span *next = span->next;
        mend_layout_cut(heap, span);
        span = next;
    }
    mend_retire_released(heap, chunk, &waits);
    mend_chunk_end_on_host(&heap->chunks, chunk);
}

static bool can_end(const mend_chunk *chunk)
{
    return chunk->on_host && chunk->live_bytes == 0 && chunk->pins == 0 &&
           chunk->missing == MEND_MISSING_NOTHING;
}

/* Asks the driver once more to take spare chunks back, unless they are still mapped somewhere. */
static void release_spares(mend_heap *heap)
{
    mend_tree_node *at = heap->chunks.host_spares > 0 ? mend_tree_first(&heap->chunks.all) : NULL;
    while (at != NULL) {
        mend_chunk *chunk = CHUNK_OF(at, by_number);
        at = mend_tree_next(at); /* nobody else adds or removes chunks without the grow lock */
        if (chunk->on_host && chunk->address == 0 && !mend_retire_holds(heap, chunk->handle) &&
            mend_chunk_release_on_host(&heap->chunks, chunk) != MEND_DRIVER_OK) {
            heap->counters.driver_failures++;
        }
    }
}

void mend_host_collect(mend_heap *heap)
{
    const mend_driver *driver = heap->driver;
    assert(mend_mutex_is_held(&heap->grow));
    assert(mend_mutex_is_held(&heap->state));
    heap->chunks.left_on_host = 0;
    release_spares(heap);
    const mend_list *ring = &heap->chunks.left; /* which only this thread takes chunks out of */
    for (mend_list *at = ring->next, *next; at != ring; at = next) {
        mend_chunk *chunk = CHUNK_OF(at, left);
        next = at->next;
        if (!can_end(chunk)) {
            continue;
        }
        mend_layout_promise nodes;
        if (!mend_retire_reserve(heap, 1) || !mend_layout_promise_nodes(heap, 1, &nodes)) {
            heap->chunks.left_on_host++; /* a later collection goes on */
            return;
        }
        if (driver->release(driver, chunk->handle) == MEND_DRIVER_OK) {
            retire_chunk(heap, chunk);
        } else {
            heap->counters.driver_failures++;
        }
        mend_layout_end_promise(heap, &nodes);
    }
}
