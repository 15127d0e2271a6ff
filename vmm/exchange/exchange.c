/*
 * Other memory for a live chunk, at the same addresses: memory that others cannot know, or chunks
 * for its live pages alone, which is a compaction. A transaction, whose steps leave this:
 *  - the chunk is frozen, its new empty chunks are claimed, and missing ones are created.
 *  - these are mapped at a scratch address, get the contents there, and leave it. Up to here the
 *    chunk has its mapping, and a failure restores all (undo).
 *  - the chunk is unmapped. From here its blocks cannot be used, until
 *  - the others are mapped at its addresses. Only then they get its blocks in the layout (install),
 *    and its old memory is released, or is an empty chunk.
 *
 * If the driver refuses the last step, the chunk is mapped to its old memory again. If that is
 * refused, too, it stays unmapped, as deferred work (memory/chunk.h). Other chunks that are
 * mapped by then, and cannot be unmapped again, stay: then the others have the addresses, and the
 * rest of them are unmapped.
 */
#include "exchange/exchange.h"

#include <stdlib.h>

typedef struct exchange {
    mend_heap *heap;
    mend_exchange_report *report;
    mend_chunk *chunk;
    mend_cluster *parts;
    size_t count;
    bool is_private; /* one new part, for memory that others cannot know */
    mend_layout_promise nodes;
    size_t reservations_before;
    uint64_t scratch;      /* the parts are mapped here for the copy, one behind the other */
    size_t scratch_mapped; /* ... so many of them */
} exchange;

/* Of blocks. */
static int scratch_zone(const mend_chunk *chunk)
{
    return chunk->zone == MEND_ZONE_SMALL ? MEND_ZONE_SMALL : MEND_ZONE_LARGE;
}

static mend_result done(const exchange *x, mend_answer answer)
{
    x->report->driver_calls++;
    return mend_driver_result(x->heap, answer);
}

static uint64_t bytes_of(const mend_cluster parts[], size_t count)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        bytes += parts[i].size_bytes;
    }
    return bytes;
}

/* ---- what can fail --------------------------------------------------------------------------- */

static mend_result create(exchange *x)
{
    for (size_t i = 0; i < x->count; i++) {
        mend_cluster *part = &x->parts[i];
        if (part->chunk == NULL) {
            x->report->driver_calls++;
            MEND_TRY(mend_step_create(x->heap, part->size_bytes, x->is_private, &part->chunk));
            part->is_created = true;
        }
    }
    return MEND_OK;
}

static mend_result map_scratch(exchange *x)
{
    mend_heap *heap = x->heap;
    const uint64_t bytes = bytes_of(x->parts, x->count);
    mend_status status =
        mend_space_place(&heap->space, scratch_zone(x->chunk), bytes, 0, &x->scratch);
    if (status != MEND_DRIVER_OK) { /* a shortage counts as out of memory, and is not noted */
        return status == MEND_DRIVER_OUT_OF_MEMORY
                   ? MEND_ERROR_OUT_OF_MEMORY
                   : mend_driver_result(heap, MEND_ANSWER(reserve, status));
    }
    uint64_t address = x->scratch;
    for (size_t i = 0; i < x->count && status == MEND_DRIVER_OK; i++) {
        x->report->driver_calls++;
        status = mend_step_map(heap, address, x->parts[i].chunk);
        x->scratch_mapped += status == MEND_DRIVER_OK;
        address += x->parts[i].size_bytes;
    }
    return status == MEND_DRIVER_OK
               ? done(x, MEND_ANSWER(set_access, mend_step_allow(heap, x->scratch, bytes)))
               : mend_driver_result(x->heap, MEND_ANSWER(map, status));
}

/* Copies from the first live byte of each part to its last one. There is none if other threads have
 * freed its blocks meanwhile. */
static mend_result copy(exchange *x)
{
    const mend_driver *driver = x->heap->driver;
    uint64_t target = x->scratch;
    for (size_t i = 0; i < x->count; i++) {
        const mend_cluster *part = &x->parts[i];
        const uint64_t end = part->address + part->size_bytes;
        uint64_t from = end;
        uint64_t to = part->address;
        MEND_SPANS_EACH(const mend_span, span, x->heap, part) {
            if (span->live) {
                from = mend_min_u64(from, mend_max_u64(span->address, part->address));
                to = mend_min_u64(mend_span_end(span), end);
            }
        }
        if (from < to) {
            x->report->copied_bytes += to - from;
            MEND_TRY(done(x, MEND_ANSWER(copy, driver->copy(driver, target + (from - part->address),
                                                            from, to - from, NULL))));
        }
        target += part->size_bytes;
    }
    return x->report->copied_bytes == 0
               ? MEND_OK
               : done(x, MEND_ANSWER(context_synchronize, driver->context_synchronize(driver)));
}

/* Unmaps the scratch mappings. If the driver refuses, or if copies may still use them, they retire.
 * But if copies may still write to memory of the device, the chunks stay there, as free memory that
 * waits for their end, and their claimed mappings retire instead. */
static void leave_scratch(exchange *x, bool copies_have_ended)
{
    mend_heap *heap = x->heap;
    const uint64_t bytes = bytes_of(x->parts, x->scratch_mapped);
    if (bytes == 0) {
        return;
    }
    copies_have_ended =
        copies_have_ended || x->report->copied_bytes == 0 || mend_retire_end_copies(heap, NULL);
    x->report->driver_calls++;
    if (copies_have_ended &&
        mend_driver_did(heap, heap->driver->unmap(heap->driver, x->scratch, bytes))) {
        return;
    }
    uint64_t address = x->scratch;
    for (size_t i = 0; i < x->scratch_mapped; i++) {
        mend_chunk *chunk = x->parts[i].chunk;
        mend_waits waits = {.first = mend_streams_last_stamp(&heap->streams, MEND_STREAM_UNKNOWN)};
        mend_space_take(&heap->space, address, chunk->size_bytes);
        if (mend_retire_copies_have_ended(heap)) {
            waits = (mend_waits){0};
            mend_retire_mapping(heap, chunk, address, &waits);
        } else {
            mend_retire_claim(heap, chunk);
            mend_layout_attach(heap, chunk, scratch_zone(x->chunk), address, &waits);
        }
        address += x->parts[i].size_bytes;
    }
}

/* ---- the end --------------------------------------------------------------------------------- */

/* A claimed span at these addresses is cut at the edges of parts. Memory between parts is removed.
 * Returns the span behind it. */
static mend_span *cut_at_parts(mend_heap *heap, mend_chunk *old, mend_span *span,
                               const mend_cluster **from, const mend_cluster *behind)
{
    while (*from < behind && (*from)->address + (*from)->size_bytes <= span->address) {
        ++*from;
    }
    const mend_cluster *part = *from;
    const bool is_between = part == behind || span->address < part->address;
    const uint64_t end = part == behind ? UINT64_MAX
                         : is_between   ? part->address
                                        : part->address + part->size_bytes;
    if (mend_span_end(span) > end) {
        span = mend_layout_split_left(heap, span, end);
    }
    mend_span *next = span->next;
    span->chunk = is_between ? old : part->chunk;
    if (is_between) {
        mend_layout_cut(heap, span);
    }
    return next;
}

/* In the layout. The chunk leaves its addresses without live bytes, the parts get them, in their
 * order, frozen. Then each span there is handed over: a live one counts in the parts below it, a
 * claimed one is cut where they end, so that it lies in one. The addresses between them are freed.
 */
static void replace(mend_heap *heap, mend_chunk *chunk, const mend_cluster parts[], size_t count)
{
    mend_chunks *chunks = &heap->chunks;
    const uint64_t from = chunk->address;
    const uint64_t end = chunk->address + chunk->size_bytes;
    mend_span *span = mend_heap_span_at(heap, from);
    assert(chunk->is_frozen && chunk->missing == MEND_MISSING_NOTHING);
    if (chunk->live_bytes > 0) {
        mend_chunk_change_live(chunks, chunk, false, chunk->live_bytes);
    }
    mend_chunk_set_address(chunks, chunk, chunk->zone, 0);
    mend_chunk_thaw(chunks, chunk);
    for (size_t i = 0; i < count; i++) {
        mend_chunk_set_address(chunks, parts[i].chunk, chunk->zone, parts[i].address);
        mend_chunk_freeze(chunks, parts[i].chunk);
        parts[i].chunk->sleep_tag = chunk->sleep_tag;
        mend_events_note(&heap->events, MEND_EVENT_EXCHANGE, parts[i].address, parts[i].size_bytes,
                         parts[i].chunk->memory.number);
    }
    const mend_cluster *part = parts;
    while (span != NULL && span->address < end) {
        if (!span->live) {
            span = cut_at_parts(heap, chunk, span, &part, parts + count);
            continue;
        }
        const uint64_t at = mend_max_u64(from, span->address); /* one part has all of it */
        mend_chunk *below = mend_chunk_at(chunks, at);
        const uint64_t bytes = mend_min_u64(end, mend_span_end(span)) - at;
        assert(at - below->address + bytes <= below->size_bytes);
        mend_chunk_change_live(chunks, below, true, bytes);
        span->chunk = span->address >= from ? below : span->chunk;
        span = span->next;
    }
    uint64_t hole = from;
    for (size_t i = 0; i <= count; i++) {
        const uint64_t to = i < count ? parts[i].address : end;
        if (to > hole) {
            mend_space_give(mend_heap_space_at(heap, from), hole, to - hole);
        }
        hole = i < count ? to + parts[i].size_bytes : end;
    }
}

/* The parts get the addresses of the chunk. Those from `first` to `mapped` are mapped. `is_whole`:
 * all are, with access. Unmapped chunks stay frozen. Then the old memory is released, which is
 * mapped nowhere. Refused memory stays, as free memory. */
static void install(exchange *x, size_t first, size_t mapped, bool is_whole)
{
    mend_heap *heap = x->heap;
    mend_chunk *chunk = x->chunk;
    if (!x->is_private) {
        mend_events_note(&heap->events, MEND_EVENT_COMPACT, chunk->address, chunk->size_bytes,
                         chunk->memory.number);
    }
    for (size_t i = 0; i < x->count; i++) {
        heap->counters.chunks_moved += mend_retire_claim(heap, x->parts[i].chunk);
    }
    mend_chunk_set_missing(&heap->chunks, chunk, MEND_MISSING_NOTHING);
    replace(heap, chunk, x->parts, x->count);
    for (size_t i = 0; i < x->count; i++) {
        mend_chunk *other = x->parts[i].chunk;
        if (!is_whole) {
            mend_chunk_set_missing(&heap->chunks, other,
                                   i >= first && i < mapped ? MEND_MISSING_ACCESS
                                                            : MEND_MISSING_MAPPING);
        } else {
            mend_thaw_chunk(heap, other);
        }
    }
    mend_layout_note_peaks(heap, false);
    if (x->is_private) {
        (void)mend_driver_did(heap, mend_chunk_release(&heap->chunks, chunk, false));
    }
}

/* The chunk is not mapped. If the driver refuses to map the other memory, it gets its old one
 * again. If the driver refuses that, too, it stays unmapped. */
static mend_result finish(exchange *x)
{
    mend_heap *heap = x->heap;
    size_t first = 0;
    size_t mapped;
    mend_result result = MEND_OK;
    mend_chunk_set_missing(&heap->chunks, x->chunk, MEND_MISSING_MAPPING);
    const mend_answer answer = mend_step_map_parts(heap, x->parts, x->count, &mapped);
    x->report->driver_calls += mapped + x->count; /* each part has its own access: none adjoin */
    if (answer.status == MEND_DRIVER_OK) {
        install(x, 0, mapped, true);
    } else if (mend_step_unmap_parts(heap, x->parts, mapped, &first) == MEND_DRIVER_OK) {
        const mend_answer back = mend_remap_chunk(heap, x->chunk);
        mend_step_drop_parts(heap, x->parts, x->count);
        mend_layout_note_peaks(heap, false);
        result = back.status == MEND_DRIVER_OK ? mend_driver_refused(heap, answer)
                                               : mend_remap_failed(heap, back);
    } else {
        install(x, first, mapped, false);
        result = mend_remap_failed(heap, answer);
    }
    if (x->is_private) {
        mend_effective_limit_forget(heap);
    }
    return result;
}

mend_result mend_exchange_memory(mend_heap *heap, mend_chunk *chunk, mend_cluster *parts,
                                 size_t count, mend_exchange_report *report)
{
    mend_cluster whole = {.address = chunk->address, .size_bytes = chunk->size_bytes};
    assert(mend_mutex_is_held(&heap->grow) && mend_mutex_is_held(&heap->state));
    assert(chunk->missing == MEND_MISSING_NOTHING && !chunk->is_frozen);
    assert(parts != NULL || mend_retire_holds(heap, chunk) == NULL);
    *report = (mend_exchange_report){.copied_bytes = 0};
    exchange x = {.heap = heap,
                  .report = report,
                  .chunk = chunk,
                  .parts = parts != NULL ? parts : &whole,
                  .count = parts != NULL ? count : 1,
                  .is_private = parts == NULL,
                  .reservations_before = heap->space.reservations_by_address.count};
    /* Nodes of the layout are promised, because other threads take nodes during driver calls. Each
     * part is attached, and may be detached elsewhere before. */
    x.nodes = mend_freeze_nodes(heap, 3 * x.count + 1, mend_freeze_spans(heap, chunk));
    if (!mend_retire_reserve(heap, 2 * x.count) ||
        !mend_slab_reserve(&heap->chunks.slab, x.count) ||
        !mend_space_reserve_nodes(&heap->space, 2 * x.count + 2) ||
        !mend_space_reserve_nodes(mend_heap_space_at(heap, chunk->address), x.count + 2) ||
        !mend_layout_promise_these(heap, &x.nodes)) {
        return mend_no_host_memory("an exchange of memory");
    }
    mend_freeze_chunk(heap, chunk); /* no thread takes memory in it ... */
    for (size_t i = 0; i < x.count; i++) {
        if (x.parts[i].chunk != NULL) {
            mend_step_claim(heap, x.parts[i].chunk); /* ... nor the free chunks that it gets */
        }
    }
    mend_result result = create(&x);
    result = result == MEND_OK ? map_scratch(&x) : result;
    result = result == MEND_OK ? copy(&x) : result;
    leave_scratch(&x, result == MEND_OK);
    if (result == MEND_OK) {
        const mend_driver *driver = heap->driver;
        result =
            done(&x, MEND_ANSWER(unmap, driver->unmap(driver, chunk->address, chunk->size_bytes)));
    }
    if (result == MEND_OK) {
        result = finish(&x);
    } else {
        mend_step_drop_parts(heap, x.parts, x.count);
        mend_thaw_chunk(heap, chunk);
        mend_space_trim(&heap->space, x.reservations_before);
    }
    mend_layout_end_promise(heap, &x.nodes);
    return result;
}
