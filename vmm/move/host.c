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
    mend_chunk_note_taken_on_host(&heap->chunks, p->chunk, request->size_bytes);
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
    if (mend_enter(heap, &scope) != MEND_OK) {
        return MEND_FAILED;
    }
    mend_outcome outcome = place(heap, request, span);
    mend_driver_scope_close(heap, &scope);
    return outcome;
}
