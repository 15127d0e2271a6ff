/*
 * Other memory behind a live chunk, at the same address: memory of the host for that of the device,
 * and back; or several chunks for one, which is how a chunk is split, because the driver cannot do
 * that. A transaction: all steps that can fail come first, while the chunk keeps its mapping: other
 * memory is created, mapped at a scratch address, and the contents are copied. Then the chunk is
 * unmapped, the other memory is mapped at its address, and only if the driver does that the chunk
 * gets it, or becomes several. If the driver refuses, the chunk is mapped to its old memory again;
 * if it refuses that, too, the chunk lacks its mapping, and later calls try again (move/move.h).
 * What it does not unmap on that way back stays: then the chunk has the other memory, and what is
 * not mapped of it lacks its mapping.
 */
#include "move/move.h"

#include <assert.h>
#include <stdlib.h>

#include "base/error.h"
#include "layout/layout.h"
#include "move/driver_scope.h"
#include "physical/chunk.h"

/* One of the chunks that the chunk becomes. */
typedef struct part {
    mend_chunk *other; /* the other memory; of the first part then the old one; NULL: not created */
    uint64_t offset_bytes;
    uint64_t size_bytes;
} part;

typedef struct exchange {
    mend_heap *heap;
    mend_chunk *chunk;
    mend_exchange_kind kind;
    part *parts;
    mend_chunk **others; /* those of all parts, in order, once they are created */
    size_t count;
    mend_layout_promise nodes;
    bool was_frozen; /* before the exchange */
    size_t reservations_before;
    uint64_t scratch;       /* where the other memory is mapped for the copy */
    uint64_t scratch_bytes; /* ... as far as it is */
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
    x->nodes = mend_freeze_nodes(heap, x->count, spans);
    return mend_layout_promise_these(heap, &x->nodes);
}

/* ---- what can fail --------------------------------------------------------------------------- */

/* Memory that cannot be shared with other processes. */
static mend_status create_private(mend_chunks *chunks, uint64_t size_bytes, mend_chunk **chunk)
{
    const int share_types = chunks->properties.share_types;
    chunks->properties.share_types = 0; /* nobody else creates meanwhile */
    mend_status status = mend_chunk_create(chunks, size_bytes, chunk);
    chunks->properties.share_types = share_types;
    return status;
}

static mend_result create_part(const exchange *x, part *one)
{
    mend_chunks *chunks = &x->heap->chunks;
    const uint64_t bytes = one->size_bytes;
    mend_status status =
        x->kind == MEND_EXCHANGE_TO_HOST ? mend_chunk_create_on_host(chunks, bytes, &one->other)
        : x->kind == MEND_EXCHANGE_TO_PRIVATE ? create_private(chunks, bytes, &one->other)
                                              : mend_chunk_create(chunks, bytes, &one->other);
    mend_result result = refused(x, MEND_CALL_create, status);
    if (result == MEND_ERROR_OUT_OF_MEMORY && x->kind != MEND_EXCHANGE_TO_HOST) {
        mend_attainable_note_refusal(x->heap);
    }
    return result;
}

static mend_result create(exchange *x)
{
    mend_result result = MEND_OK;
    for (size_t i = 0; i < x->count && result == MEND_OK; i++) {
        result = create_part(x, &x->parts[i]);
        x->others[i] = x->parts[i].other;
    }
    return result;
}

/* Maps the parts from an address on, side by side, and allows access; *mapped_bytes says how far
 * they are mapped. */
static mend_status map_parts(const exchange *x, uint64_t address, uint64_t *mapped_bytes,
                             mend_driver_call *call)
{
    mend_status status = MEND_DRIVER_OK;
    *call = MEND_CALL_map;
    *mapped_bytes = 0;
    for (size_t i = 0; i < x->count && status == MEND_DRIVER_OK; i++) {
        const part *one = &x->parts[i];
        status = mend_step_map(x->heap, address + one->offset_bytes, one->other);
        *mapped_bytes += status == MEND_DRIVER_OK ? one->size_bytes : 0;
    }
    if (status == MEND_DRIVER_OK) {
        *call = MEND_CALL_set_access;
        status = mend_step_allow(x->heap, address, x->chunk->size_bytes);
    }
    return status;
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
    mend_driver_call call;
    status = map_parts(x, x->scratch, &x->scratch_bytes, &call);
    return refused(x, call, status);
}

/* Copies from the first live byte of a part to its last one. */
static mend_result copy_part(exchange *x, const part *one)
{
    const mend_driver *driver = x->heap->driver;
    const uint64_t begin = x->chunk->address + one->offset_bytes;
    const uint64_t end = begin + one->size_bytes;
    uint64_t from = end;
    uint64_t to = begin;
    for (const mend_span *span = mend_heap_span_at(x->heap, x->chunk->address);
         span != NULL && span->address < end; span = span->next) {
        if (span->live && mend_span_end(span) > begin) {
            from = mend_min_u64(from, mend_max_u64(span->address, begin));
            to = mend_min_u64(mend_span_end(span), end);
        }
    }
    if (from >= to) {
        return MEND_OK; /* other threads have freed the blocks meanwhile, or there were none */
    }
    x->copied_bytes += to - from;
    const uint64_t target = x->scratch + (from - x->chunk->address);
    return refused(x, MEND_CALL_copy, driver->copy(driver, target, from, to - from, NULL));
}

static mend_result copy(exchange *x)
{
    const mend_driver *driver = x->heap->driver;
    mend_result result = MEND_OK;
    for (size_t i = 0; i < x->count && result == MEND_OK; i++) {
        result = copy_part(x, &x->parts[i]);
    }
    return result != MEND_OK || x->copied_bytes == 0
               ? result
               : refused(x, MEND_CALL_context_synchronize, driver->context_synchronize(driver));
}

/* Unmaps the scratch mappings. If the driver refuses, or if copies may still use them, they stay,
 * and a later flush tries again. */
static void leave_scratch(exchange *x, bool copies_have_ended)
{
    mend_heap *heap = x->heap;
    if (x->scratch_bytes == 0) {
        return;
    }
    copies_have_ended =
        copies_have_ended || x->copied_bytes == 0 || mend_step_end_copies(heap, NULL);
    if (copies_have_ended &&
        heap->driver->unmap(heap->driver, x->scratch, x->scratch_bytes) == MEND_DRIVER_OK) {
        return;
    }
    heap->counters.driver_failures += copies_have_ended;
    for (size_t i = 0; i < x->count && x->parts[i].offset_bytes < x->scratch_bytes; i++) {
        mend_retire_scratch(heap, x->parts[i].other, MEND_ZONE_LARGE,
                            x->scratch + x->parts[i].offset_bytes);
    }
}

/* ---- the end --------------------------------------------------------------------------------- */

/* Gives the memory back that the chunk does not have. What the driver refuses stays, accounted
 * for: as free memory, or as a spare chunk on the host. */
static void give_back(mend_heap *heap, mend_chunk *other)
{
    if (other->address != 0 || mend_retire_holds(heap, other->handle) != NULL) {
        return;
    }
    mend_status status = other->on_host ? mend_chunk_release_on_host(&heap->chunks, other)
                                        : mend_chunk_release(&heap->chunks, other);
    heap->counters.driver_failures += status != MEND_DRIVER_OK;
}

/* Gives back what was created. */
static void drop_parts(exchange *x)
{
    mend_heap *heap = x->heap;
    for (size_t i = 0; i < x->count && x->parts[i].other != NULL; i++) {
        mend_chunk *other = x->parts[i].other;
        if (!other->on_host && other->address == 0 &&
            mend_retire_holds(heap, other->handle) == NULL) {
            mend_step_undo_create(heap, other);
        } else {
            give_back(heap, other);
        }
    }
}

static void undo(exchange *x)
{
    drop_parts(x);
    if (!x->was_frozen) {
        mend_thaw_chunk(x->heap, x->chunk);
    }
    mend_space_trim(&x->heap->space, x->reservations_before);
}

/* The chunk becomes its parts, of which the first `mapped_bytes` are mapped; `is_whole`: all are,
 * with access. What lacks something stays frozen. Then the old memory is given back. */
static void install(exchange *x, uint64_t mapped_bytes, bool is_whole)
{
    mend_heap *heap = x->heap;
    mend_chunk *old = x->others[0];
    mend_chunk_set_missing(&heap->chunks, x->chunk, MEND_MISSING_NOTHING);
    mend_layout_replace(heap, x->chunk, x->others, x->count);
    mend_step_note_peaks(heap);
    for (size_t i = 0; i < x->count; i++) {
        mend_chunk *chunk = i == 0 ? x->chunk : x->others[i];
        if (!is_whole) {
            bool is_mapped = x->parts[i].offset_bytes < mapped_bytes;
            mend_chunk_set_missing(&heap->chunks, chunk,
                                   is_mapped ? MEND_MISSING_ACCESS : MEND_MISSING_MAPPING);
        } else if (!chunk->on_host) {
            mend_thaw_chunk(heap, chunk);
        }
    }
    give_back(heap, old);
}

/* The driver refused to map the other memory. The chunk goes back to its old one; if the driver
 * refuses that, too, it lacks its mapping. */
static mend_result go_back(exchange *x, mend_driver_call call, mend_status status)
{
    mend_driver_call second = MEND_CALL_map;
    mend_span *first = mend_heap_span_at(x->heap, x->chunk->address);
    mend_status mapped = mend_remap_chunk(x->heap, x->chunk, first, &second);
    mend_step_note_peaks(x->heap);
    drop_parts(x);
    return mapped == MEND_DRIVER_OK ? refused(x, call, status)
                                    : mend_remap_failed(x->heap, second, mapped);
}

/* The chunk is not mapped. */
static mend_result finish(exchange *x)
{
    mend_heap *heap = x->heap;
    const mend_driver *driver = heap->driver;
    const uint64_t address = x->chunk->address;
    mend_driver_call call;
    uint64_t mapped_bytes;
    mend_chunk_set_missing(&heap->chunks, x->chunk, MEND_MISSING_MAPPING);
    mend_status status = map_parts(x, address, &mapped_bytes, &call);
    mend_result result = MEND_OK;
    if (status == MEND_DRIVER_OK) {
        install(x, mapped_bytes, true);
    } else if (mapped_bytes == 0 ||
               driver->unmap(driver, address, mapped_bytes) == MEND_DRIVER_OK) {
        result = go_back(x, call, status);
    } else {
        install(x, mapped_bytes, false);
        result = mend_remap_failed(heap, call, status);
    }
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
    leave_scratch(x, result == MEND_OK);
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

/* The parts, by their sizes. NULL: malloc failed. */
static part *make_parts(const mend_exchange_order *order, size_t count)
{
    part *parts = calloc(count, sizeof(*parts));
    uint64_t end = 0;
    for (size_t i = 0; i < count && parts != NULL; i++) {
        parts[i].offset_bytes = end;
        parts[i].size_bytes = order->sizes != NULL ? order->sizes[i] : order->chunk->size_bytes;
        end += parts[i].size_bytes;
    }
    assert(parts == NULL || end == order->chunk->size_bytes);
    return parts;
}

mend_result mend_exchange_memory(mend_heap *heap, const mend_exchange_order *order,
                                 uint64_t *copied_bytes)
{
    mend_chunk *chunk = order->chunk;
    assert(mend_mutex_is_held(&heap->grow));
    assert(mend_mutex_is_held(&heap->state));
    assert(chunk->missing == MEND_MISSING_NOTHING);
    assert(chunk->is_frozen == chunk->on_host);
    assert(order->sizes == NULL || order->kind == MEND_EXCHANGE_TO_DEVICE);
    assert(mend_retire_holds(heap, chunk->handle) == NULL);
    *copied_bytes = 0;
    exchange x = {.heap = heap,
                  .chunk = chunk,
                  .kind = order->kind,
                  .count = order->sizes != NULL ? order->count : 1,
                  .was_frozen = chunk->is_frozen};
    x.reservations_before = heap->space.reservation_count;
    x.parts = make_parts(order, x.count);
    x.others = calloc(x.count, sizeof(mend_chunk *));
    if (x.parts == NULL || x.others == NULL || !reserve_nodes(&x)) {
        free(x.parts);
        free(x.others);
        return no_host_memory();
    }
    const bool has_nodes = mend_retire_reserve(heap, x.count) &&
                           mend_slab_reserve(&heap->chunks.slab, x.count) &&
                           mend_space_reserve_nodes(&heap->space, x.count + 1);
    mend_result result = has_nodes ? perform(&x) : no_host_memory();
    mend_layout_end_promise(heap, &x.nodes);
    free(x.parts);
    free(x.others);
    *copied_bytes = result == MEND_OK ? x.copied_bytes : 0;
    return result;
}
