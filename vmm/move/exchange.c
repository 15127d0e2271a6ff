#include "move/exchange.h"

#include <assert.h>

#include "base/error.h"
#include "move/attainable.h"
#include "move/freeze.h"
#include "move/remap.h"
#include "move/retire.h"
#include "move/scope.h"
#include "move/steps.h"
#include "physical/on_host.h"

typedef struct exchange {
    mend_heap *heap;
    mend_chunk *chunk;
    mend_exchange_kind kind;
    mend_chunk *other; /* the other memory, then the old one; NULL: not created yet */
    mend_layout_promise nodes;
    bool was_frozen; /* before the exchange */
    size_t reservations_before;
    uint64_t scratch;      /* where the other memory is mapped for the copy */
    uint64_t mapped_bytes; /* ... if it is */
    uint64_t copied_bytes;
} exchange;

static mend_result no_host_memory(void)
{
    return mend_failure(MEND_ERROR_OUT_OF_HOST_MEMORY, "malloc failed for an exchange of memory");
}

static mend_result refused(const exchange *x, mend_driver_call call, mend_status status)
{
    return status == MEND_DRIVER_OK ? MEND_OK : mend_driver_refused(x->heap, call, status);
}

static bool reserve_nodes(exchange *x)
{
    mend_heap *heap = x->heap;
    uint64_t end = x->chunk->address + x->chunk->size_bytes;
    size_t spans = mend_remap_count_spans(mend_heap_span_at(heap, x->chunk->address), end);
    x->nodes = mend_freeze_nodes(heap, 1, spans);
    return mend_layout_promise_these(heap, &x->nodes);
}

/* ---- what can fail --------------------------------------------------------------------------- */

static mend_result create(exchange *x)
{
    mend_chunks *chunks = &x->heap->chunks;
    const uint64_t bytes = x->chunk->size_bytes;
    mend_status status =
        x->kind == MEND_EXCHANGE_TO_HOST      ? mend_chunk_create_on_host(chunks, bytes, &x->other)
        : x->kind == MEND_EXCHANGE_TO_PRIVATE ? mend_chunk_create_private(chunks, bytes, &x->other)
                                              : mend_chunk_create(chunks, bytes, &x->other);
    mend_result result = refused(x, MEND_CALL_create, status);
    if (result == MEND_ERROR_OUT_OF_MEMORY && x->kind != MEND_EXCHANGE_TO_HOST) {
        mend_attainable_note_refusal(x->heap);
    }
    return result;
}

static mend_result map_scratch(exchange *x)
{
    mend_heap *heap = x->heap;
    const uint64_t bytes = x->chunk->size_bytes;
    mend_status status = mend_space_place(&heap->space, MEND_ZONE_LARGE, bytes, 0, &x->scratch);
    if (status != MEND_DRIVER_OK) { /* a lack of addresses counts as a lack of memory */
        return status == MEND_DRIVER_OUT_OF_MEMORY ? MEND_ERROR_OUT_OF_MEMORY
                                                   : refused(x, MEND_CALL_reserve, status);
    }
    status = mend_step_map(heap, x->scratch, x->other);
    if (status != MEND_DRIVER_OK) {
        return refused(x, MEND_CALL_map, status);
    }
    x->mapped_bytes = bytes;
    return refused(x, MEND_CALL_set_access, mend_step_allow(heap, x->scratch, bytes));
}

/* Copies from the first live byte of the chunk to its last one, and waits. */
static mend_result copy(exchange *x)
{
    const mend_driver *driver = x->heap->driver;
    const mend_chunk *chunk = x->chunk;
    const uint64_t end = chunk->address + chunk->size_bytes;
    uint64_t from = end;
    uint64_t to = chunk->address;
    for (const mend_span *span = mend_heap_span_at(x->heap, chunk->address);
         span != NULL && span->address < end; span = span->next) {
        if (span->live) {
            from = mend_min_u64(from, mend_max_u64(span->address, chunk->address));
            to = mend_min_u64(mend_span_end(span), end);
        }
    }
    if (from >= to) {
        return MEND_OK; /* other threads have freed the blocks meanwhile */
    }
    x->copied_bytes = to - from;
    mend_result result =
        refused(x, MEND_CALL_copy,
                driver->copy(driver, x->scratch + (from - chunk->address), from, to - from, NULL));
    return result != MEND_OK
               ? result
               : refused(x, MEND_CALL_context_synchronize, driver->context_synchronize(driver));
}

/* Unmaps the scratch mapping. If the driver refuses, it retires, and a later flush tries again. */
static void leave_scratch(exchange *x)
{
    mend_heap *heap = x->heap;
    if (x->mapped_bytes == 0 ||
        heap->driver->unmap(heap->driver, x->scratch, x->mapped_bytes) == MEND_DRIVER_OK) {
        return;
    }
    heap->counters.driver_failures++;
    mend_waits idle = {0};
    mend_space_take(&heap->space, x->scratch, x->mapped_bytes);
    mend_retire_mapping(heap, x->other, x->scratch, &idle);
}

/* ---- the end --------------------------------------------------------------------------------- */

/* Gives the memory back that the chunk does not have. What the driver refuses stays, accounted
 * for: as free memory, or as a spare chunk on the host. */
static void give_back(mend_heap *heap, mend_chunk *other)
{
    if (mend_retire_holds(heap, other->handle) != NULL) {
        return;
    }
    mend_status status = other->on_host ? mend_chunk_release_on_host(&heap->chunks, other)
                                        : mend_chunk_release(&heap->chunks, other);
    heap->counters.driver_failures += status != MEND_DRIVER_OK;
}

static void undo(exchange *x)
{
    mend_heap *heap = x->heap;
    const mend_chunk *other = x->other;
    if (other != NULL && !other->on_host && !mend_retire_holds(heap, other->handle)) {
        mend_step_undo_create(heap, x->other);
    } else if (other != NULL) {
        give_back(heap, x->other);
    }
    if (!x->was_frozen) {
        mend_thaw_chunk(heap, x->chunk);
    }
    mend_space_trim(&heap->space, x->reservations_before);
}

/* Maps what the chunk has now; it is not mapped. */
static mend_status map_again(exchange *x, mend_driver_call *call)
{
    mend_chunk_set_missing(&x->heap->chunks, x->chunk, MEND_MISSING_MAPPING);
    return mend_remap_chunk(x->heap, x->chunk, mend_heap_span_at(x->heap, x->chunk->address), call);
}

/* The driver refused to map the other memory. The chunk goes back to its old one, unless the driver
 * refuses that, too: then it lacks its mapping. */
static mend_result go_back(exchange *x, mend_driver_call call, mend_status status)
{
    mend_heap *heap = x->heap;
    mend_chunk *chunk = x->chunk;
    const bool is_mapped = mend_chunk_has_mapping(chunk);
    if (is_mapped &&
        heap->driver->unmap(heap->driver, chunk->address, chunk->size_bytes) != MEND_DRIVER_OK) {
        return mend_remap_failed(heap, call, status);
    }
    mend_chunk_set_missing(&heap->chunks, chunk, MEND_MISSING_NOTHING);
    mend_chunk_exchange(&heap->chunks, chunk, x->other);
    mend_driver_call second = MEND_CALL_map;
    mend_status mapped = map_again(x, &second);
    return mapped == MEND_DRIVER_OK ? refused(x, call, status)
                                    : mend_remap_failed(heap, second, mapped);
}

static mend_result finish(exchange *x)
{
    mend_heap *heap = x->heap;
    mend_driver_call call = MEND_CALL_map;
    mend_chunk_exchange(&heap->chunks, x->chunk, x->other);
    mend_status status = map_again(x, &call);
    mend_result result = status == MEND_DRIVER_OK ? MEND_OK : go_back(x, call, status);
    mend_step_note_peaks(heap);
    give_back(heap, x->other);
    mend_attainable_forget(heap);
    return result;
}

static mend_result perform(exchange *x)
{
    mend_heap *heap = x->heap;
    const mend_driver *driver = heap->driver;
    if (!x->was_frozen) {
        mend_freeze_chunk(heap, x->chunk);
    }
    mend_result result = create(x);
    if (result == MEND_OK) {
        result = map_scratch(x);
    }
    if (result == MEND_OK) {
        result = copy(x);
    }
    leave_scratch(x);
    if (result == MEND_OK) {
        result = refused(x, MEND_CALL_unmap,
                         driver->unmap(driver, x->chunk->address, x->chunk->size_bytes));
    }
    if (result != MEND_OK) {
        undo(x);
        return result;
    }
    return finish(x);
}

mend_result mend_exchange_memory(mend_heap *heap, mend_chunk *chunk, mend_exchange_kind kind,
                                 uint64_t *copied_bytes)
{
    assert(mend_mutex_is_held(&heap->grow));
    assert(mend_mutex_is_held(&heap->state));
    assert(chunk->missing == MEND_MISSING_NOTHING);
    assert(chunk->is_frozen == chunk->on_host);
    assert(mend_retire_holds(heap, chunk->handle) == NULL);
    exchange x = {.heap = heap, .chunk = chunk, .kind = kind, .was_frozen = chunk->is_frozen};
    x.reservations_before = heap->space.reservation_count;
    if (!reserve_nodes(&x)) {
        return no_host_memory();
    }
    const bool has_nodes = mend_retire_reserve(heap, 1) &&
                           mend_slab_reserve(&heap->chunks.slab, 1) &&
                           mend_space_reserve_nodes(&heap->space, 2);
    mend_result result = has_nodes ? perform(&x) : no_host_memory();
    mend_layout_end_promise(heap, &x.nodes);
    *copied_bytes = result == MEND_OK ? x.copied_bytes : 0;
    return result;
}
