/*
 * mend_wake, as a transaction: it takes all memory, maps it, and copies the contents back, before
 * any chunk is usable. If that fails, it releases all of it.
 */
#include "sleep/sleep.h"

#include <stdlib.h>

#include "alloc/heap.h"
#include "base/words.h"
#include "pool/pool.h"

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

static mend_result find(waking *w, const uint64_t *tags, size_t tag_count)
{
    w->sleepers = calloc((size_t)w->heap->chunks.asleep_count + 1, sizeof(w->sleepers[0]));
    if (w->sleepers == NULL) {
        return mend_no_host_memory("a wake");
    }
    for (mend_chunk *chunk = mend_chunk_from(&w->heap->chunks, 0); chunk != NULL;
         chunk = mend_chunk_next(chunk)) {
        if (!mend_chunk_sleeps(chunk)) {
            continue;
        }
        bool wakes = tag_count == 0 || (chunk->live_bytes == 0 && !chunk->kept->has_rule);
        size_t spans = 0;
        MEND_SPANS_EACH(mend_span, span, w->heap, chunk) {
            const bool is_for_graphs = mend_is_for_graphs(w->heap, span);
            wakes = wakes ||
                    ((span->live || is_for_graphs) &&
                     mend_is_tag_of(span->sleep_tag, tags, tag_count)) ||
                    (is_for_graphs && span->sleep_tag == 0 && chunk->live_bytes == 0); /* always */
            spans++;
        }
        if (!wakes) {
            continue;
        }
        w->sleepers[w->count++] = (mend_cluster){.address = chunk->address,
                                                 .size_bytes = chunk->size_bytes,
                                                 .chunk = chunk,
                                                 .kept = chunk->kept};
        w->spans += spans;
        if (chunk->missing == MEND_MISSING_MEMORY) {
            w->needed_bytes += chunk->size_bytes;
            w->least_bytes = mend_min_u64(w->least_bytes, chunk->size_bytes);
        }
    }
    return MEND_OK;
}

static bool lacks_any(mend_lack lack)
{
    return lack.limit_bytes > 0 || lack.device_bytes > 0;
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

/* Memory for all chunks without it. Free chunks of the pool become the memory of chunks of their
 * size, which takes no creation and no memory of the device. For the rest it is created, and empty
 * chunks of the pool are released for memory missing on the device. */
static mend_result take_memory(waking *w)
{
    mend_heap *heap = w->heap;
    mend_lack lack = {0}; /* nothing, also above the limit, if nothing is taken */
    if (mend_chunks_empty_bytes(&heap->chunks) >= w->least_bytes) { /* else without a driver call */
        qsort(w->sleepers, w->count, sizeof(w->sleepers[0]), compare_sizes);
        mend_result result = mend_trim_give_to(heap, w->sleepers, w->count, &w->reused_bytes);
        qsort(w->sleepers, w->count, sizeof(w->sleepers[0]), compare_addresses);
        MEND_TRY(result);
    }
    w->left_bytes = w->needed_bytes - w->reused_bytes;
    if (w->left_bytes > 0 &&
        heap->chunks.reserved_bytes + w->left_bytes > mend_budget_limit_of_chunks(heap)) {
        MEND_TRY(mend_trim_to_create(heap, w->left_bytes, false, &lack));
    }
    if (lacks_any(lack)) {
        return no_room(w, lack, "the device");
    }
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
        MEND_TRY(mend_trim_to_create(heap, w->left_bytes, true, &lack));
        if (lacks_any(lack)) {
            return no_room(w, lack, "the device");
        }
    }
    mend_effective_limit_note_growth(heap);
    return MEND_OK;
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
    if (mend_retire_copies_have_ended(heap)) {
        (void)mend_driver_did(heap, mend_step_unmap_parts(heap, w->sleepers, w->mapped, &unmapped));
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
                (void)mend_driver_did(heap, mend_chunk_release(&heap->chunks, memory, true));
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
static mend_result perform(waking *w, mend_wake_report *report)
{
    mend_heap *heap = w->heap;
    const mend_layout_promise nodes = {.runs = w->spans};
    if (!mend_slab_reserve(&heap->chunks.slab, w->count) ||
        !mend_layout_promise_these(heap, &nodes)) {
        return mend_no_host_memory("a wake");
    }
    mend_result result = take_memory(w);
    if (result == MEND_OK) {
        result =
            mend_driver_result(heap, mend_step_map_parts(heap, w->sleepers, w->count, &w->mapped));
    }
    if (result == MEND_OK) {
        result = mend_keep_copy(heap, w->sleepers, w->count, false, NULL);
    }
    if (result == MEND_OK) {
        wake_up(w, report);
    } else {
        undo(w);
    }
    if (result == MEND_ERROR_OUT_OF_MEMORY && !lacks_any(w->lack)) { /* for page tables */
        const uint64_t bytes = mend_max_u64(w->needed_bytes, heap->device.granularity_bytes);
        result = no_room(w, (mend_lack){.device_bytes = bytes}, "the driver");
    }
    mend_layout_end_promise(heap, &nodes);
    return result;
}

/* ---- the call -------------------------------------------------------------------------------- */

typedef struct waker {
    mend_seek seek;
    mend_pool *pool;
    const uint64_t *tags;
    size_t tag_count; /* 0: all that sleeps */
    mend_wake_report report;
    mend_result result;
    mend_thread_error answer; /* why it failed. Calls of peer pools and callbacks note others */
} waker;

/* Frees chunks that have lost their last block first, so that they take no memory. Notes in the
 * seek the bytes of the wake, and the bytes missing on the device below the limit. Waits for the
 * context, which `waits` allows, only if free memory must become idle for the chunks, or copies of
 * a failed wake may run. */
static mend_result wake(waker *x, bool waits)
{
    mend_heap *heap = &x->pool->heap;
    mend_seek *seek = &x->seek;
    mend_wake_report *report = &x->report;
    mend_events_begin_call(&heap->events, MEND_CAUSE_SLEEP);
    mend_driver_scope scope;
    waking w = {.heap = heap, .least_bytes = UINT64_MAX};
    mend_match match = {0};
    MEND_TRY(mend_match_names(heap, NULL, x->tags, x->tag_count, &match));
    report->matched_bytes = match.bytes;
    report->unmatched_tags = match.unmatched_tags;
    report->unmatched_tag = match.unmatched_tag;
    if (heap->chunks.asleep_count == 0) {
        return MEND_OK;
    }
    MEND_TRY(mend_driver_scope_open(heap, &scope));
    mend_retry(heap, MEND_DEFERRED_END, MEND_STREAM_UNKNOWN);
    mend_result result = MEND_OK;
    if (waits || /* for free memory. And copies of a failed wake may still write to it */
        !mend_retire_copies_have_ended(heap)) {
        result = mend_streams_wait_context(&heap->streams, MEND_STREAM_UNKNOWN);
    }
    if (result == MEND_OK) {
        mend_capture_graph_pools_collect(heap); /* memory of ended graphs is free */
        result = find(&w, x->tags, x->tag_count);
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

/* The caller holds `state` alone. */
static mend_outcome try_to_wake(mend_seek *seek)
{
    waker *w = MEND_CONTAINER_OF(seek, waker, seek);
    mend_heap *heap = &w->pool->heap;
    const mend_thread_error lacking = w->answer;
    const mend_seek lacked = *seek;
    mend_heap_unlock(heap);
    mend_heap_lock_all(heap);
    const bool waits = seek->may_wait && !seek->is_captured;
    w->result =
        heap->unlocking.lost == MEND_DRIVER_OK ? wake(w, waits) : mend_pool_check_context(w->pool);
    w->answer = *mend_process_failure();
    if (seek->may_wait && w->result == MEND_ERROR_CAPTURING) { /* a capture forbids the wait */
        *seek = lacked;                                        /* others may still give it */
        seek->is_captured = true;
        w->result = MEND_ERROR_OUT_OF_MEMORY;
        w->answer = lacking;
    }
    mend_heap_unlock_grow(heap);
    if (w->result == MEND_OK) {
        return MEND_PLACED;
    }
    return w->result == MEND_ERROR_OUT_OF_MEMORY ? MEND_NOTHING : MEND_FAILED;
}

mend_result mend_wake(mend_pool *pool, const uint64_t *tags, size_t tag_count,
                      mend_wake_report *report)
{
    MEND_INVALID_IF(pool == NULL || (tags == NULL && tag_count > 0),
                    "mend_wake: pool or tags is NULL");
    waker w = {.seek = {.heap = &pool->heap, .attempt = try_to_wake},
               .pool = pool,
               .tags = tags,
               .tag_count = tag_count,
               .report = MEND_WAKE_REPORT_INIT};
    MEND_TRY(mend_pool_check_struct(report, "MEND_WAKE_REPORT_INIT"));
    MEND_TRY(mend_pool_enter(pool));
    const mend_outcome outcome = mend_seek_room(&w.seek, true);
    if (outcome == MEND_FAILED && w.result == MEND_ERROR_OUT_OF_MEMORY) {
        w.result = MEND_ERROR_DEVICE_LOST; /* in a callback, which has noted it */
    } else if (w.result != MEND_OK) {
        *mend_process_failure() = w.answer;
    } else if (report != NULL) {
        mend_struct_write(report, &w.report, sizeof(w.report));
    }
    return mend_pool_leave(pool, w.result);
}
