/*
 * Deferred work (memory/chunk.h), and its retries. Most of it is retired mappings: the old address
 * of a moved chunk, still mapped because work in flight may use it. It is unmapped, in batches of
 * neighbors, when that work has passed its fences. Only then can its addresses be used again.
 * Chunks that are released retire too, and so do mappings of other processes' chunks.
 */
#include "map/map.h"

#include "layout/feature.h"

#define RETIRED_OF(at) MEND_CONTAINER_OR_NULL(at, mend_retired, deferred)

void mend_retire(mend_heap *heap, const mend_retired *mapping)
{
    mend_retired *retired = mend_slab_take(&heap->retire.nodes);
    *retired = *mapping;
    mend_defer(&heap->chunks.deferred, &retired->deferred, MEND_DEFERRED_MAPPING, retired->address);
    heap->retire.bytes += mapping->size_bytes;
}

void mend_retire_mapping(mend_heap *heap, const mend_chunk *chunk, uint64_t address,
                         mend_waits *waits)
{
    assert(chunk->address != address); /* the old mapping, not the current one */
    mend_retire(heap, &(const mend_retired){.address = address,
                                            .size_bytes = chunk->size_bytes,
                                            .number = chunk->memory.number,
                                            .zone = chunk->zone,
                                            .waits = *waits});
    *waits = (mend_waits){0};
}

bool mend_retire_claim(mend_heap *heap, mend_chunk *chunk)
{
    const uint64_t address = chunk->claim.address;
    if (address != 0) {
        mend_retire_mapping(heap, chunk, address, &chunk->claim.waits);
        chunk->claim.address = 0;
    }
    return address != 0;
}

bool mend_retire_end_copies(mend_heap *heap, mend_stream stream)
{
    if (mend_driver_did(heap, heap->driver->stream_synchronize(heap->driver, stream))) {
        return true;
    }
    heap->retire.copies = mend_streams_stamp(&heap->streams, MEND_STREAM_UNKNOWN, 0);
    return false;
}

bool mend_retire_copies_have_ended(const mend_heap *heap)
{
    return mend_stamp_has_passed(&heap->streams, heap->retire.copies);
}

mend_retired *mend_retire_first(const mend_heap *heap)
{
    return RETIRED_OF(mend_deferred_from(&heap->chunks.deferred, MEND_DEFERRED_MAPPING, 0));
}

mend_retired *mend_retire_next(const mend_retired *retired)
{
    return RETIRED_OF(mend_deferred_next(&retired->deferred));
}

static void forget(mend_heap *heap, mend_retired *unmapped)
{
    heap->retire.bytes -= unmapped->size_bytes;
    mend_defer(&heap->chunks.deferred, &unmapped->deferred, MEND_DEFERRED_NOTHING, 0);
    mend_slab_give(&heap->retire.nodes, unmapped);
}

/* Unmaps the neighbors from `first` up to `end` (not included) with one call. Refused mappings
 * stay. */
static void unmap_batch(mend_heap *heap, mend_retired *first, const mend_retired *end,
                        uint64_t size_bytes)
{
    mend_space *space = mend_heap_space_at(heap, first->address);
    assert(size_bytes >= first->size_bytes && size_bytes <= heap->retire.bytes);
    if (!mend_space_reserve_nodes(space, 1)) {
        heap->retire.lacked_nodes = true;
        return;
    }
    mend_status status = heap->driver->unmap(heap->driver, first->address, size_bytes);
    if (!mend_driver_did(heap, status)) {
        heap->retire.refused = status;
        return;
    }
    mend_space_give(space, first->address, size_bytes);
    while (first != end) {
        mend_retired *next = mend_retire_next(first);
        forget(heap, first);
        first = next;
    }
}

/* The first idle mapping from `at` on. NULL: none. */
static mend_retired *find_idle(mend_heap *heap, mend_retired *at)
{
    mend_wait_env env = mend_heap_wait_env(heap);
    while (at != NULL && !mend_waits_drop_passed(env, &at->waits)) {
        at = mend_retire_next(at);
    }
    return at;
}

void mend_retire_flush(mend_heap *heap, uint32_t asking)
{
    mend_wait_env env = mend_heap_wait_env(heap);
    heap->retire.refused = MEND_DRIVER_OK;
    heap->retire.lacked_nodes = false;
    if (heap->chunks.deferred.count[MEND_DEFERRED_MAPPING] == 0) {
        return;
    }
    mend_result closed = MEND_OK; /* records events for open epochs. Else a later flush tries */
    for (mend_retired *each = mend_retire_first(heap); each != NULL && closed == MEND_OK;
         each = mend_retire_next(each)) {
        const mend_wait *wait = &each->waits.all;
        for (; wait != NULL && closed == MEND_OK; wait = wait->next) {
            if (!mend_stamp_has_passed(env.streams, wait->stamp) &&
                !mend_stamp_has_fence(env.streams, wait->stamp)) {
                closed = mend_streams_close_epoch(env.streams, wait->stamp.stream);
            }
        }
        mend_driver_work_around(heap, closed);
    }
    mend_streams_poll(&heap->streams);
    mend_retired *at = find_idle(heap, mend_retire_first(heap));
    /* Copies that run use mappings of free memory and of blocks, freed or not. */
    if (at == NULL || !mend_retire_copies_have_ended(heap)) {
        return;
    }
    /* Nor during a capture: the graph may be recording the addresses. */
    bool is_captured = false;
    const mend_result answer = mend_streams_find_capture(&heap->streams, asking, &is_captured);
    mend_driver_work_around(heap, answer);
    if (answer != MEND_OK || is_captured) {
        return;
    }
    while (at != NULL) {
        mend_retired *end = mend_retire_next(at);
        uint64_t size_bytes = at->size_bytes;
        while (end != NULL && end->address == at->address + size_bytes &&
               mend_waits_drop_passed(env, &end->waits)) {
            size_bytes += end->size_bytes;
            end = mend_retire_next(end);
        }
        unmap_batch(heap, at, end, size_bytes);
        at = find_idle(heap, end);
    }
}

mend_retired *mend_retire_holds(const mend_heap *heap, const mend_chunk *chunk)
{
    mend_retired *at = mend_retire_first(heap);
    while (at != NULL && at->number != chunk->memory.number) {
        at = mend_retire_next(at);
    }
    return at;
}

void mend_step_drop_parts(mend_heap *heap, mend_cluster parts[], size_t count)
{
    for (size_t i = 0; i < count; i++) {
        mend_chunk *chunk = parts[i].chunk;
        const uint64_t address = chunk != NULL ? chunk->claim.address : 0;
        if (address != 0) {
            chunk->claim.address = 0;
            mend_layout_attach(heap, chunk, chunk->zone, address, &chunk->claim.waits);
        } else if (parts[i].is_created && chunk->address == 0 &&
                   mend_retire_holds(heap, chunk) == NULL) {
            (void)mend_driver_did(heap, mend_chunk_release(&heap->chunks, chunk, true));
        }
        parts[i].chunk = NULL;
        parts[i].is_created = false;
    }
}

mend_retired *mend_retire_at(const mend_heap *heap, uint64_t address)
{
    const mend_deferred key = {.kind = MEND_DEFERRED_MAPPING, .at = address};
    mend_tree_node *node = mend_tree_at_or_before(&heap->chunks.deferred.tree, &key.node);
    mend_deferred *deferred = MEND_CONTAINER_OR_NULL(node, mend_deferred, node);
    mend_retired *retired =
        deferred != NULL && deferred->kind == MEND_DEFERRED_MAPPING ? RETIRED_OF(deferred) : NULL;
    return retired != NULL && address - retired->address < retired->size_bytes ? retired : NULL;
}

void mend_retire_swap(mend_heap *heap, mend_retired *retired, mend_chunk *chunk)
{
    mend_wait_env env = mend_heap_wait_env(heap);
    const uint64_t present = chunk->address;
    const uint64_t address = retired->address;
    const int zone = retired->zone;
    mend_waits waits = {0};
    mend_waits of_present = {0};
    assert(retired->number == chunk->memory.number && mend_chunk_is_empty(chunk) && present != 0);
    mend_layout_detach(heap, chunk, &waits);
    mend_waits_add_all(env, &of_present, &waits);
    mend_waits_add_all(env, &waits, &retired->waits);
    mend_waits_clear(env, &retired->waits);
    forget(heap, retired);
    mend_retire_mapping(heap, chunk, present, &of_present);
    mend_layout_attach(heap, chunk, zone, address, &waits);
}

/* ---- retries --------------------------------------------------------------------------------- */

static mend_result retry_one(mend_heap *heap, mend_deferred *deferred, uint32_t asking)
{
    if (deferred->kind == MEND_DEFERRED_RESTORE) {
        mend_chunk *chunk = MEND_CONTAINER_OF(deferred, mend_chunk, deferred);
        /* Each of its spans may have been freed meanwhile, and then becomes a run. */
        const mend_layout_promise nodes = {.runs = mend_freeze_spans(heap, chunk)};
        if (!mend_layout_promise_these(heap, &nodes)) {
            return mend_no_host_memory("a mapping");
        }
        const mend_answer answer = mend_remap_chunk(heap, chunk);
        mend_layout_end_promise(heap, &nodes);
        return answer.status == MEND_DRIVER_OK ? MEND_OK : mend_remap_failed(heap, answer);
    }
    const uint32_t kind = 1u << deferred->kind;
    for (int i = 0; i < MEND_FEATURES; i++) {
        if ((mend_features[i].retries & kind) != 0) {
            mend_features[i].retry(heap, deferred, asking);
            return MEND_OK; /* the record may be gone */
        }
    }
    assert(false);
    return MEND_OK;
}

static mend_result retry_kinds(mend_heap *heap, mend_deferred_kind first, mend_deferred_kind last,
                               uint32_t asking)
{
    mend_result result = MEND_OK;
    assert(mend_mutex_is_held(&heap->grow) && mend_mutex_is_held(&heap->state));
    for (mend_deferred_kind kind = first; kind <= last; kind++) {
        uint64_t at = 0;
        if (kind == MEND_DEFERRED_MAPPING) {
            mend_retire_flush(heap, asking);
            continue;
        }
        for (mend_deferred *deferred;
             (deferred = mend_deferred_from(&heap->chunks.deferred, kind, at)) != NULL;) {
            at = deferred->at + 1; /* later notes come behind */
            mend_result one = retry_one(heap, deferred, asking);
            result = result == MEND_OK ? one : result;
        }
    }
    return result;
}

mend_result mend_retry_restores(mend_heap *heap)
{
    return retry_kinds(heap, MEND_DEFERRED_RESTORE, MEND_DEFERRED_RESTORE, MEND_STREAM_UNKNOWN);
}

void mend_retry_these(mend_heap *heap, mend_deferred_kind first, mend_deferred_kind last,
                      uint32_t asking)
{
    const mend_thread_error noted = *mend_process_failure();
    (void)retry_kinds(heap, first, last, asking);
    *mend_process_failure() = noted; /* of the call, if of any */
}

void mend_retry_all(mend_heap *heap)
{
    mend_driver_scope scope;
    if (mend_deferred_any(&heap->chunks.deferred, MEND_DEFERRED_GRAPHS) &&
        mend_driver_scope_open(heap, &scope) == MEND_OK) {
        mend_retry(heap, MEND_DEFERRED_GRAPHS, MEND_STREAM_UNKNOWN);
        mend_driver_scope_close(heap, &scope);
    }
}

void mend_retry_ends(mend_heap *heap)
{
    if (mend_mutex_try_lock(&heap->grow)) {
        mend_cache_close(heap);
        mend_retry_all(heap);
        mend_heap_unlock_grow(heap);
    }
}
