/*
 * One compaction, a transaction. All steps that can fail come first, while the chunk keeps its
 * mapping: create memory for the clusters, map it at a scratch address, copy. Then the chunk is
 * unmapped and the new chunks replace it in the layout, without their mappings; these are made
 * last.
 */
#include "move/move.h"

#include <assert.h>
#include <stdlib.h>

#include "base/error.h"
#include "layout/layout.h"
#include "move/driver_scope.h"

typedef struct compaction {
    mend_compact_pass *pass;
    mend_heap *heap;
    mend_chunk *chunk;
    mend_zone *zone;
    mend_span *first; /* overlaps the chunk, while that is frozen */
    mend_cluster *clusters;
    mend_compact_size size;
    mend_layout_promise nodes;
    bool has_nodes;
    size_t reservations_before;
    uint64_t scratch; /* scratch address, where the new chunks are mapped one after the other */
    uint64_t mapped_bytes;
    bool has_copies; /* the GPU has got some */
} compaction;

static mend_result no_host_memory(void)
{
    return mend_failure(MEND_ERROR_OUT_OF_HOST_MEMORY, "malloc failed for a compaction");
}

static mend_result failed(compaction *s, mend_driver_call call, mend_status status)
{
    return status == MEND_DRIVER_OK ? MEND_OK : mend_driver_refused(s->heap, call, status);
}

/* Includes the room that requests leave free, which is kept for this. */
static uint64_t room_under_limit(const mend_heap *heap)
{
    uint64_t limit = mend_budget_limit(heap);
    uint64_t reserved = heap->chunks.reserved_bytes;
    return limit > reserved ? limit - reserved : 0;
}

/* ---- before driver calls
 * ---------------------------------------------------------------------- */

static bool is_taken(const compaction *s, size_t cluster_count, const mend_chunk *chunk)
{
    assert(cluster_count <= s->size.clusters);
    for (size_t i = 0; i < cluster_count; i++) {
        if (s->clusters[i].chunk == chunk) {
            return true;
        }
    }
    return false;
}

/* An idle empty chunk with exactly the size of a cluster that no other cluster has. */
static mend_chunk *find_fitting(compaction *s, size_t cluster)
{
    mend_heap *heap = s->heap;
    uint64_t size_bytes = s->clusters[cluster].size_bytes;
    mend_chunk *at = mend_chunk_empty_at_least(&heap->chunks, size_bytes, 0);
    for (; at != NULL && at->size_bytes == size_bytes; at = mend_chunk_empty_next(at)) {
        if (!is_taken(s, cluster, at) &&
            mend_layout_chunk_is_ready(heap, at, MEND_STREAM_UNKNOWN, false)) {
            return at;
        }
    }
    return NULL;
}

/* Gives each cluster an empty chunk of its size, if there is one. Returns the bytes to create. */
static uint64_t pick_chunks(compaction *s)
{
    uint64_t missing_bytes = 0;
    for (size_t i = 0; i < s->size.clusters; i++) {
        s->clusters[i].chunk = find_fitting(s, i);
        missing_bytes += s->clusters[i].chunk == NULL ? s->clusters[i].size_bytes : 0;
    }
    return missing_bytes;
}

/* Measures the chunk's clusters as they are now. */
static mend_result measure(compaction *s)
{
    mend_heap *heap = s->heap;
    free(s->clusters);
    mend_victims_measure(heap, s->chunk, NULL, &s->size);
    s->clusters = calloc(s->size.clusters + 1, sizeof(*s->clusters));
    if (s->clusters == NULL) {
        return no_host_memory();
    }
    size_t clusters = s->size.clusters;
    mend_victims_measure(heap, s->chunk, s->clusters, &s->size);
    assert(s->size.clusters == clusters);
    assert(s->size.used_bytes <= s->chunk->size_bytes);
    (void)clusters;
    return MEND_OK;
}

/* Makes sure that the clusters can be created; gives back empty chunks if necessary. */
static mend_result plan(compaction *s)
{
    mend_heap *heap = s->heap;
    mend_result result = measure(s);
    if (result != MEND_OK || pick_chunks(s) <= room_under_limit(heap)) {
        return result;
    }
    uint64_t released_bytes;
    uint64_t number = s->chunk->number;
    uint64_t limit = mend_budget_limit(heap);
    uint64_t used = s->size.used_bytes;
    result = mend_trim_to(heap, limit > used ? limit - used : 0, true, &released_bytes);
    if (result != MEND_OK) {
        return result;
    }
    if (mend_chunk_numbered(&heap->chunks, number) != s->chunk ||
        !mend_victims_may_gain(heap, s->chunk)) {
        return MEND_ERROR_OUT_OF_MEMORY; /* other threads changed it meanwhile */
    }
    result = measure(s);
    if (result != MEND_OK || pick_chunks(s) <= room_under_limit(heap)) {
        return result;
    }
    return MEND_ERROR_OUT_OF_MEMORY;
}

/* Free memory is claimed in pieces: a free span is split at the ends of clusters. Each piece, and
 * each block that is freed meanwhile, may become a run. */
static bool reserve_nodes(compaction *s)
{
    mend_heap *heap = s->heap;
    size_t clusters = s->size.clusters;
    uint64_t end = s->chunk->address + s->chunk->size_bytes;
    size_t pieces = mend_remap_count_spans(s->first, end) + 2 * clusters + 2;
    s->nodes =
        (mend_layout_promise){.spans = 2 * pieces + 3 * clusters, .runs = pieces + 2 * clusters};
    s->has_nodes = mend_layout_promise_these(heap, &s->nodes);
    return s->has_nodes && mend_retire_reserve(heap, 2 * clusters) &&
           mend_slab_reserve(&heap->chunks.slab, clusters) &&
           mend_space_reserve_nodes(&s->heap->space, clusters + 2);
}

/* ---- freezing the chunk
 * ----------------------------------------------------------------------- */

/* The next end of a cluster after the address; *next is the first cluster to look at. */
static uint64_t next_cut(const compaction *s, uint64_t address, size_t *next)
{
    for (; *next < s->size.clusters; (*next)++) {
        const mend_cluster *cluster = &s->clusters[*next];
        if (address < cluster->address) {
            return cluster->address;
        }
        if (address < cluster->address + cluster->size_bytes) {
            return cluster->address + cluster->size_bytes;
        }
    }
    return s->chunk->address + s->chunk->size_bytes;
}

static void freeze(compaction *s)
{
    mend_heap *heap = s->heap;
    uint64_t end = s->chunk->address + s->chunk->size_bytes;
    size_t next = 0;
    assert(!s->chunk->is_frozen);
    mend_chunk_freeze(&heap->chunks, s->chunk);
    for (uint64_t at = s->chunk->address; at < end;) {
        mend_run *run = mend_layout_run_from(s->zone, at);
        if (run == NULL || run->address >= end) {
            break;
        }
        uint64_t from = mend_max_u64(at, run->address);
        at = mend_min_u64(mend_run_end(run), next_cut(s, from, &next));
        mend_span *piece = mend_layout_claim_part(heap, run, from, at - from);
        s->first = from == s->chunk->address ? piece : s->first;
    }
    for (size_t i = 0; i < s->size.clusters; i++) {
        mend_chunk *chunk = s->clusters[i].chunk;
        uint64_t address = chunk != NULL ? chunk->address : 0;
        if (address != 0) {
            assert(mend_chunk_is_empty(chunk));
            assert(chunk->claimed_address == 0);
            mend_layout_detach(heap, chunk, &chunk->claimed_waits);
            chunk->claimed_address = address;
        }
    }
}

/* ---- what can fail ----------------------------------------------------------------------------
 */

static mend_result create_chunks(compaction *s)
{
    for (size_t i = 0; i < s->size.clusters; i++) {
        mend_cluster *cluster = &s->clusters[i];
        assert(cluster->size_bytes % s->heap->device.granularity_bytes == 0);
        if (cluster->chunk == NULL) {
            mend_status status =
                mend_chunk_create(&s->heap->chunks, cluster->size_bytes, &cluster->chunk);
            s->pass->driver_calls++;
            if (status != MEND_DRIVER_OK) {
                mend_result result = failed(s, MEND_CALL_create, status);
                if (result == MEND_ERROR_OUT_OF_MEMORY) {
                    mend_attainable_note_refusal(s->heap);
                }
                return result;
            }
            cluster->is_created = true;
        }
    }
    return MEND_OK;
}

/* Maps the new chunks at a scratch address. */
static mend_result map_scratch(compaction *s)
{
    mend_status status =
        mend_space_place(&s->heap->space, s->chunk->zone, s->size.used_bytes, 0, &s->scratch);
    if (status != MEND_DRIVER_OK) { /* a lack of addresses counts as a lack of memory */
        return status == MEND_DRIVER_OUT_OF_MEMORY ? MEND_ERROR_OUT_OF_MEMORY
                                                   : failed(s, MEND_CALL_reserve, status);
    }
    for (size_t i = 0; i < s->size.clusters; i++) {
        status = mend_step_map(s->heap, s->scratch + s->mapped_bytes, s->clusters[i].chunk);
        s->pass->driver_calls++;
        if (status != MEND_DRIVER_OK) {
            return failed(s, MEND_CALL_map, status);
        }
        s->mapped_bytes += s->clusters[i].size_bytes;
    }
    assert(s->mapped_bytes == s->size.used_bytes);
    status = mend_step_allow(s->heap, s->scratch, s->mapped_bytes);
    s->pass->driver_calls++;
    return failed(s, MEND_CALL_set_access, status);
}

static mend_result copy(compaction *s)
{
    const mend_driver *driver = s->heap->driver;
    uint64_t scratch = s->scratch;
    for (size_t i = 0; i < s->size.clusters; i++) {
        const mend_cluster *cluster = &s->clusters[i];
        assert(cluster->live_address >= cluster->address);
        assert(cluster->live_end <= cluster->address + cluster->size_bytes);
        uint64_t to = scratch + (cluster->live_address - cluster->address);
        mend_status status = driver->copy(driver, to, cluster->live_address,
                                          cluster->live_end - cluster->live_address, NULL);
        s->pass->driver_calls++;
        if (status != MEND_DRIVER_OK) {
            return failed(s, MEND_CALL_copy, status);
        }
        s->has_copies = true;
        scratch += cluster->size_bytes;
    }
    assert(scratch == s->scratch + s->mapped_bytes);
    s->pass->driver_calls++;
    return failed(s, MEND_CALL_context_synchronize, driver->context_synchronize(driver));
}

static mend_result unmap_chunk(compaction *s)
{
    const mend_driver *driver = s->heap->driver;
    mend_status status = driver->unmap(driver, s->chunk->address, s->chunk->size_bytes);
    s->pass->driver_calls++;
    return failed(s, MEND_CALL_unmap, status);
}

/* ---- the end ----------------------------------------------------------------------------------
 */

/* Unmaps the scratch mappings. If the driver refuses, or if copies may still use them, they stay,
 * and a later flush tries again. */
static void leave_scratch(compaction *s, bool copies_have_ended)
{
    mend_heap *heap = s->heap;
    uint64_t address = s->scratch;
    uint64_t end = s->scratch + s->mapped_bytes;
    if (s->mapped_bytes == 0) {
        return;
    }
    copies_have_ended = copies_have_ended || !s->has_copies;
    if (!copies_have_ended) {
        s->pass->driver_calls++;
        copies_have_ended = mend_step_end_copies(heap, NULL);
    }
    if (copies_have_ended) {
        s->pass->driver_calls++;
        if (heap->driver->unmap(heap->driver, s->scratch, s->mapped_bytes) == MEND_DRIVER_OK) {
            return;
        }
        heap->counters.driver_failures++;
    }
    for (size_t i = 0; address < end; i++) {
        assert(i < s->size.clusters);
        mend_retire_scratch(heap, s->clusters[i].chunk, s->chunk->zone, address);
        address += s->clusters[i].size_bytes;
    }
}

/* Undoes every step. What the driver does not take back stays, accounted for. */
static void undo(compaction *s)
{
    mend_heap *heap = s->heap;
    for (size_t i = 0; i < s->size.clusters; i++) {
        mend_chunk *chunk = s->clusters[i].chunk;
        if (chunk == NULL) {
            continue;
        }
        uint64_t address = chunk->claimed_address;
        if (address != 0) {
            chunk->claimed_address = 0;
            mend_layout_attach(heap, chunk, chunk->zone, address, &chunk->claimed_waits);
        } else if (s->clusters[i].is_created && chunk->address == 0 &&
                   !mend_retire_holds(heap, chunk->handle)) {
            mend_step_undo_create(heap, chunk);
        }
    }
    mend_chunk_thaw(&heap->chunks, s->chunk);
    mend_remap_end_claims(heap, s->first, s->chunk->address + s->chunk->size_bytes);
    mend_space_trim(&s->heap->space, s->reservations_before);
}

/* Adds up the live bytes of a cluster; its spans now begin in the cluster's chunk, its free pieces
 * stay claimed. Holes before the cluster are cut out. */
static mend_span *pass_cluster(compaction *s, mend_span *span, mend_cluster *cluster,
                               uint64_t *live_bytes)
{
    uint64_t end = cluster->address + cluster->size_bytes;
    while (mend_span_end(span) <= cluster->address) {
        mend_span *next = span->next;
        assert(!span->live);
        mend_space_give(&s->heap->space, span->address, span->size_bytes);
        mend_layout_cut(s->heap, span);
        span = next;
    }
    cluster->first = span;
    *live_bytes = 0;
    for (;; span = span->next) {
        if (span->live) {
            *live_bytes += mend_min_u64(mend_span_end(span), end) -
                           mend_max_u64(span->address, cluster->address);
        }
        if (span->address >= cluster->address) {
            span->chunk = cluster->chunk;
        }
        if (mend_span_end(span) >= end) {
            return mend_span_end(span) == end ? span->next : span;
        }
    }
}

/* In the layout the new chunks replace the old one, which is empty now. */
static void exchange(compaction *s)
{
    mend_heap *heap = s->heap;
    mend_chunks *chunks = &heap->chunks;
    mend_span *span = s->first;
    int zone = s->chunk->zone;
    uint64_t end = s->chunk->address + s->chunk->size_bytes;
    assert(s->chunk->is_frozen);
    mend_history_note(&heap->history, MEND_EVENT_COMPACT, s->chunk->address, s->chunk->size_bytes,
                      s->chunk->number);
    mend_chunk_set_address(chunks, s->chunk, zone, 0);
    for (size_t i = 0; i < s->size.clusters; i++) {
        mend_cluster *cluster = &s->clusters[i];
        mend_chunk *chunk = cluster->chunk;
        uint64_t live_bytes;
        assert(span != NULL);
        assert(chunk->address == 0);
        span = pass_cluster(s, span, cluster, &live_bytes);
        assert(live_bytes <= cluster->size_bytes);
        if (chunk->claimed_address != 0) {
            mend_retire_mapping(heap, chunk, chunk->claimed_address, &chunk->claimed_waits);
            chunk->claimed_address = 0;
            heap->counters.chunks_moved++;
        }
        mend_chunk_set_address(chunks, chunk, zone, cluster->address);
        mend_history_note(&heap->history, MEND_EVENT_EXCHANGE, chunk->address, chunk->size_bytes,
                          chunk->number);
        if (live_bytes > 0) {
            mend_chunk_add_live(chunks, chunk, live_bytes);
        }
        mend_chunk_freeze(chunks, chunk);
        mend_chunk_set_missing(chunks, chunk, MEND_MISSING_MAPPING);
    }
    while (span != NULL && span->address < end && mend_span_end(span) <= end) {
        mend_span *next = span->next;
        assert(!span->live);
        mend_space_give(&s->heap->space, span->address, span->size_bytes);
        mend_layout_cut(heap, span);
        span = next;
    }
    s->chunk->live_bytes = 0;
    mend_chunk_thaw(chunks, s->chunk);
}

/* Maps the new chunks at their addresses. */
static mend_result restore(compaction *s)
{
    mend_heap *heap = s->heap;
    mend_status first_status = MEND_DRIVER_OK;
    mend_driver_call first_call = MEND_CALL_map;
    for (size_t i = 0; i < s->size.clusters; i++) {
        mend_cluster *cluster = &s->clusters[i];
        mend_driver_call refused;
        mend_status status = mend_remap_chunk(heap, cluster->chunk, cluster->first, &refused);
        s->pass->driver_calls += 2;
        if (status != MEND_DRIVER_OK && first_status == MEND_DRIVER_OK) {
            first_status = status;
            first_call = refused;
        }
    }
    mend_step_note_peaks(heap);
    mend_retire_flush(heap, MEND_STREAM_UNKNOWN);
    return first_status == MEND_DRIVER_OK ? MEND_OK
                                          : mend_remap_failed(heap, first_call, first_status);
}

static mend_result perform(compaction *s)
{
    if (!reserve_nodes(s)) {
        return no_host_memory();
    }
    freeze(s);
    mend_result result = create_chunks(s);
    if (result == MEND_OK) {
        result = map_scratch(s);
    }
    if (result == MEND_OK) {
        result = copy(s);
    }
    leave_scratch(s, result == MEND_OK);
    if (result == MEND_OK) {
        result = unmap_chunk(s);
    }
    if (result != MEND_OK) {
        undo(s);
        return result;
    }
    exchange(s);
    return restore(s);
}

mend_result mend_compact_chunk(mend_compact_pass *pass, mend_chunk *chunk)
{
    mend_heap *heap = pass->heap;
    compaction s = {.pass = pass, .heap = heap, .chunk = chunk, .zone = &heap->zones[chunk->zone]};
    s.reservations_before = heap->space.reservation_count;
    mend_result result = plan(&s);
    if (result == MEND_OK) {
        s.first = mend_layout_first_span(heap, chunk);
        assert(s.first != NULL);
        result = perform(&s);
    }
    if (s.has_nodes) {
        mend_layout_end_promise(heap, &s.nodes);
    }
    free(s.clusters);
    if (result == MEND_OK) {
        pass->compactions++;
        pass->copied_bytes += s.size.copied_bytes;
        pass->gained_bytes += s.size.gained_bytes;
        heap->counters.compactions++;
        heap->counters.copied_bytes += s.size.copied_bytes;
    }
    return result;
}
