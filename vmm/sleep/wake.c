/*
 * Waking, as a transaction: it takes all memory, maps it, and copies the contents back, before any
 * chunk is usable. If that fails, it releases all of it.
 */
#include "sleep/sleep.h"

#include <stdlib.h>

#include "alloc/heap.h"
#include "base/words.h"

typedef struct waking {
    mend_heap *heap;
    mend_cluster *sleepers; /* by address */
    size_t count;
    size_t mapped;         /* so many of them */
    size_t spans;          /* in these chunks */
    uint64_t needed_bytes; /* of chunks without memory. The others have memory of a failed wake */
    uint64_t least_bytes;  /* of such a chunk */
    uint64_t reused_bytes; /* of needed_bytes: free memory that the pool held */
    uint64_t left_bytes;   /* of needed_bytes: not created yet */
    mend_lack lack;
} waking;

/* ---- which chunks ---------------------------------------------------------------------------- */

static void look_at(waking *w, mend_chunk *chunk, const mend_wake_order *order)
{
    bool wakes = order->tag_count == 0 || (chunk->live_bytes == 0 && !chunk->kept->has_rule);
    size_t spans = 0;
    MEND_SPANS_EACH(const mend_span, span, w->heap, chunk) {
        const bool is_for_graphs = mend_is_for_graphs(w->heap, span);
        wakes = wakes ||
                ((span->live || is_for_graphs) &&
                 mend_is_tag_of(span->sleep_tag, order->tags, order->tag_count)) ||
                (is_for_graphs && span->sleep_tag == 0 && chunk->live_bytes == 0); /* always */
        spans++;
    }
    if (wakes) {
        w->sleepers[w->count++] = (mend_cluster){.address = chunk->address,
                                                 .size_bytes = chunk->size_bytes,
                                                 .chunk = chunk,
                                                 .kept = chunk->kept};
        w->spans += spans;
    }
    if (wakes && chunk->missing == MEND_MISSING_MEMORY) {
        w->needed_bytes += chunk->size_bytes;
        w->least_bytes = mend_min_u64(w->least_bytes, chunk->size_bytes);
    }
}

static mend_result find(waking *w, const mend_wake_order *order)
{
    w->sleepers = calloc((size_t)w->heap->chunks.asleep_count + 1, sizeof(w->sleepers[0]));
    if (w->sleepers == NULL) {
        return mend_no_host_memory("a wake");
    }
    for (mend_chunk *chunk = mend_chunk_from(&w->heap->chunks, 0); chunk != NULL;
         chunk = mend_chunk_next(chunk)) {
        if (mend_chunk_sleeps(chunk)) {
            look_at(w, chunk, order);
        }
    }
    return MEND_OK;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* The limit, or else `who`, has too little memory. */
static mend_result no_room(waking *w, mend_lack lack, const char *who)
{
    const uint64_t lacking_bytes = lack.limit_bytes > 0 ? lack.limit_bytes : lack.device_bytes;
    w->lack = lack;
    return mend_failure(
        MEND_ERROR_OUT_OF_MEMORY,
        "waking takes %s of memory, and %s is short of %s (%llu bytes); everything "
        "sleeps as before",
        mend_words_amount(w->needed_bytes).text, lack.limit_bytes > 0 ? "the limit" : who,
        mend_words_amount_above(lacking_bytes).text, (unsigned long long)lacking_bytes);
}

static int compare_sizes(const void *a, const void *b)
{
    return mend_compare_u64(((const mend_cluster *)a)->size_bytes,
                            ((const mend_cluster *)b)->size_bytes);
}

static int compare_addresses(const void *a, const void *b)
{
    return mend_compare_u64(((const mend_cluster *)a)->address, ((const mend_cluster *)b)->address);
}

/* Creates memory for all chunks without it. Releases empty chunks of the pool for memory missing on
 * the device. */
static mend_result create_memory(waking *w)
{
    mend_heap *heap = w->heap;
    for (size_t i = 0; i < w->count;) {
        mend_chunk *chunk = w->sleepers[i].chunk;
        mend_chunk *made;
        if (chunk->missing != MEND_MISSING_MEMORY) {
            i++;
            continue;
        }
        mend_status status = mend_chunk_create(&heap->chunks, chunk->size_bytes, false, &made);
        if (status == MEND_DRIVER_OK) {
            mend_chunk_take_memory(&heap->chunks, chunk, made);
            w->sleepers[i].is_created = true;
            w->left_bytes -= chunk->size_bytes;
            continue;
        }
        mend_result result = mend_driver_refused(heap, MEND_ANSWER(create, status));
        if (result != MEND_ERROR_OUT_OF_MEMORY) {
            return result;
        }
        mend_lack lack = {0};
        MEND_TRY(mend_trim_to_create(heap, w->left_bytes, true, &lack));
        if (mend_lacks_any(lack)) {
            return no_room(w, lack, "the device");
        }
    }
    return MEND_OK;
}

/* Free chunks of the pool become the memory of chunks of their size, which takes no creation and no
 * memory of the device. */
static mend_result take_memory(waking *w)
{
    if (mend_chunks_empty_bytes(&w->heap->chunks) >=
        w->least_bytes) { /* otherwise without a driver call */
        qsort(w->sleepers, w->count, sizeof(w->sleepers[0]), compare_sizes);
        mend_result result = mend_trim_give_to(w->heap, w->sleepers, w->count, &w->reused_bytes);
        qsort(w->sleepers, w->count, sizeof(w->sleepers[0]), compare_addresses);
        MEND_TRY(result);
    }
    w->left_bytes = w->needed_bytes - w->reused_bytes;
    mend_lack lack = {0}; /* nothing, also above the limit, if nothing is taken */
    if (w->left_bytes > 0 && !mend_sleep_fits_limit(w->heap, w->left_bytes)) {
        MEND_TRY(mend_trim_to_create(w->heap, w->left_bytes, false, &lack));
    }
    return mend_lacks_any(lack) ? no_room(w, lack, "the device") : create_memory(w);
}

/* ---- mappings and contents ------------------------------------------------------------------- */

static void wake_up(waking *w, mend_wake_report *report)
{
    mend_heap *heap = w->heap;
    for (size_t i = 0; i < w->count; i++) {
        mend_chunk *chunk = w->sleepers[i].chunk;
        mend_contents *kept = chunk->kept;
        const uint64_t size_bytes = chunk->size_bytes;
        report->woken_bytes += size_bytes;
        report->host_bytes += kept->host_bytes;
        report->file_bytes += kept->file_bytes;
        assert(mend_chunk_sleeps(chunk) && chunk->missing != MEND_MISSING_MEMORY);
        mend_chunk_set_kept(&heap->chunks, chunk, NULL, MEND_MISSING_NOTHING);
        mend_events_note(&heap->events, MEND_EVENT_WAKE, chunk->address, size_bytes,
                         chunk->memory.number);
        mend_thaw_chunk(heap, chunk);
        mend_keep_count(heap, kept, false);
        /* Releases `state`: another thread may use the chunk now. */
        mend_copies_leave(heap, kept, size_bytes);
    }
    report->reused_bytes = report->woken_bytes - (w->needed_bytes - w->reused_bytes);
    heap->counters.wakes++;
    mend_layout_note_peaks(heap, false);
}

/* Everything sleeps as before: new memory is released, and free memory is free again. Memory that
 * the driver refuses to unmap, or that copies may still write to, stays for the next wake. */
static void undo(waking *w)
{
    mend_heap *heap = w->heap;
    size_t unmapped = 0;
    uint64_t calls = 0;
    if (mend_retire_copies_have_ended(heap)) {
        (void)mend_driver_did(
            heap, mend_step_unmap_parts(heap, w->sleepers, w->mapped, &unmapped, &calls));
    }
    for (size_t i = 0; i < w->count; i++) {
        mend_chunk *chunk = w->sleepers[i].chunk;
        const bool was_mapped = chunk->missing == MEND_MISSING_ACCESS; /* by a wake that failed */
        const bool is_mapped = i < w->mapped ? i >= unmapped : was_mapped;
        if (is_mapped && !was_mapped) {
            mend_chunk_set_missing(&heap->chunks, chunk, MEND_MISSING_ACCESS);
        } else if (!is_mapped && chunk->missing != MEND_MISSING_MEMORY) {
            mend_chunk *memory = mend_chunk_leave_memory(&heap->chunks, chunk, chunk->kept);
            if (w->sleepers[i].is_created) {
                mend_step_undo_create(heap, memory);
            }
        }
    }
}

/*
 * The steps that can fail. The chunks are frozen all the while, so that no other thread sees how
 * far they are:
 *  - each has memory of its size: an empty chunk of the pool, a new one, or memory of a failed
 *    wake.
 *  - it is mapped at the addresses of the chunk, for all devices that may use it.
 *  - it has the contents that were kept.
 * After a failure undo() unmaps it again, and the chunks sleep as before: the backups are untouched
 * until wake_up().
 */
static mend_result take_map_and_load(waking *w)
{
    uint64_t calls = 0;
    MEND_TRY(take_memory(w));
    MEND_TRY(mend_driver_result(
        w->heap, mend_step_map_parts(w->heap, w->sleepers, w->count, &w->mapped, &calls)));
    return mend_keep_copy(w->heap, w->sleepers, w->count, false, NULL);
}

static mend_result perform(waking *w, mend_wake_report *report)
{
    mend_heap *heap = w->heap;
    const mend_layout_promise nodes = {.runs = w->spans};
    if (!mend_slab_reserve(&heap->chunks.slab, w->count) ||
        !mend_layout_promise_these(heap, &nodes)) {
        return mend_no_host_memory("a wake");
    }
    mend_result result = take_map_and_load(w);
    if (result == MEND_OK) {
        wake_up(w, report);
    } else {
        undo(w);
    }
    if (result == MEND_ERROR_OUT_OF_MEMORY && !mend_lacks_any(w->lack)) { /* for page tables */
        const uint64_t bytes = mend_max_u64(w->needed_bytes, heap->device.granularity_bytes);
        result = no_room(w, (mend_lack){.device_bytes = bytes}, "the driver");
    }
    mend_layout_end_promise(heap, &nodes);
    return result;
}

/* Frees chunks that have lost their last block first, so that they take no memory. Waits for the
 * context only if free memory must become idle for the chunks, or copies of a failed wake may
 * run. */
mend_result mend_sleep_wake(mend_heap *heap, const mend_wake_order *order, mend_wake_report *report,
                            mend_seek *seek)
{
    mend_events_begin_call(&heap->events, MEND_CAUSE_SLEEP);
    mend_driver_scope scope;
    waking w = {.heap = heap, .least_bytes = UINT64_MAX};
    mend_match match = {0};
    MEND_TRY(mend_match_names(heap, NULL, order->tags, order->tag_count, &match));
    report->matched_bytes = match.bytes;
    report->unmatched_tags = match.unmatched_tags;
    report->unmatched_tag = match.unmatched_tag;
    if (heap->chunks.asleep_count == 0) {
        return MEND_OK;
    }
    MEND_TRY(mend_driver_scope_open(heap, &scope));
    mend_retry(heap, MEND_DEFERRED_END, MEND_STREAM_UNKNOWN);
    mend_result result = MEND_OK;
    if (order->waits || /* for free memory. And copies of a failed wake may still write to it */
        !mend_retire_copies_have_ended(heap)) {
        result = mend_streams_wait_context(&heap->streams, MEND_STREAM_UNKNOWN);
    }
    if (result == MEND_OK) {
        mend_capture_graph_pools_collect(heap); /* memory of ended graphs is free */
        result = find(&w, order);
    }
    if (result == MEND_OK && w.count > 0) {
        result = perform(&w, report);
    }
    free(w.sleepers);
    mend_driver_scope_close(heap, &scope);
    seek->needed_bytes = mend_max_u64(w.needed_bytes, heap->device.granularity_bytes);
    const bool lacks_device = w.lack.limit_bytes == 0 && w.lack.device_bytes > 0;
    seek->lacking_bytes = lacks_device ? w.needed_bytes : 0;
    return result;
}
