/* A sleep, as a transaction: memory is copied or dropped, unmapped, and given back. */
#include "sleep/sleep.h"

#include <stdio.h>
#include <stdlib.h>

#include "record/names.h"

/* mend_sleep_options.keep_free: what sleeps leaves its memory to the pool. */
enum { KEEPS_ALL = 2 };

typedef struct sleeping {
    mend_heap *heap;
    const mend_sleep_options *options;
    mend_selection selection;
    uint64_t lingering_bytes; /* released, but others hold it */
} sleeping;

/* ---- before anything changes ----------------------------------------------------------------- */

/* Reasons by name for a call that cannot do what it was asked for. */
static mend_result check(const sleeping *s)
{
    const mend_selection *selection = &s->selection;
    if (selection->pinned_at != 0 && s->options->skip_pinned != 1) {
        return mend_failure(MEND_ERROR_PINNED,
                            "mend_sleep: %llu bytes that are to sleep are pinned or exported, the "
                            "first in the chunk at 0x%llx; skip_pinned leaves them awake",
                            (unsigned long long)selection->pinned_bytes,
                            (unsigned long long)selection->pinned_at);
    }
    uint64_t stayed = selection->shared_bytes + selection->pinned_bytes + selection->mapped_bytes;
    if (selection->count == 0 && stayed == 0 && selection->asleep_bytes > 0) {
        return mend_failure(MEND_ERROR_ASLEEP,
                            "mend_sleep: all %llu bytes of blocks that are to sleep are asleep",
                            (unsigned long long)selection->asleep_bytes);
    }
    return MEND_OK;
}

/* ---- what can fail --------------------------------------------------------------------------- */

/* The first `unmapped` chunks are mapped again. Returns the failure that led here, or that of a
 * refused mapping: then the chunk stays frozen, as after a compaction. */
static mend_result undo(sleeping *s, size_t unmapped, mend_result result)
{
    mend_heap *heap = s->heap;
    for (size_t i = 0; i < s->selection.count; i++) {
        mend_chunk *chunk = s->selection.sleepers[i].chunk;
        if (i >= unmapped) {
            mend_thaw_chunk(heap, chunk);
            continue;
        }
        mend_chunk_set_missing(&heap->chunks, chunk, MEND_MISSING_MAPPING);
        const mend_answer answer = mend_remap_chunk(heap, chunk);
        result = answer.status == MEND_DRIVER_OK ? result : mend_remap_failed(heap, answer);
    }
    return result;
}

/* ---- what cannot fail ------------------------------------------------------------------------ */

/* For who touches the block before it is awake. */
static void tell_driver(const mend_heap *heap, const mend_span *span, const mend_cluster *at)
{
    const uint64_t from = mend_max_u64(span->address, at->address);
    const uint64_t end =
        mend_min_u64(span->address + span->size_bytes, at->address + at->size_bytes);
    const char *name =
        span->sleep_tag != 0 ? mend_names_find(MEND_NAME_TAG, span->sleep_tag) : NULL;
    char what[MEND_NAME_BYTES + 64];
    if (name != NULL) {
        snprintf(what, sizeof(what), "it was put to sleep, by the sleep tag \"%s\"", name);
    } else if (span->sleep_tag != 0) {
        snprintf(what, sizeof(what), "it was put to sleep, by the sleep tag %llu",
                 (unsigned long long)span->sleep_tag);
    } else {
        snprintf(what, sizeof(what), "it was put to sleep");
    }
    heap->driver->note_asleep(heap->driver, from, end - from, what);
}

/* The blocks of a chunk say what became of their contents, once all chunks of the call sleep. What
 * slept there before is no copy of it; nor, for a block that sleeps for the first time, is what did
 * in the chunks where it stays awake. */
static void note_contents(const sleeping *s, const mend_cluster *at)
{
    mend_copies_forget(s->heap, at->address, at->size_bytes);
    MEND_SPANS_EACH(mend_span, span, s->heap, at) {
        const bool drops = span->live && mend_keep_of(s->options, span) == MEND_KEEP_NOTHING;
        span->contents_dropped =
            drops || (span->contents_dropped && !mend_keep_has_all(span, s->heap->counters.sleeps));
        span->is_guarded = span->is_guarded && !drops;
        if (span->live && s->heap->driver->note_asleep != NULL) {
            tell_driver(s->heap, span, at);
        }
        if (span->live && !span->has_copy) {
            mend_copies_forget(s->heap, span->address, span->size_bytes);
            span->has_copy = true;
        }
    }
}

/* The chunks sleep, and their memory is free, and given back; what the driver does not take stays
 * free. */
static void fall_asleep(sleeping *s, mend_sleep_report *report)
{
    mend_chunks *chunks = &s->heap->chunks;
    for (size_t i = 0; i < s->selection.count; i++) {
        mend_cluster *at = &s->selection.sleepers[i];
        report->host_bytes += at->kept->host_bytes;
        report->file_bytes += at->kept->file_bytes;
        report->dropped_bytes += at->kept->dropped_bytes;
        report->asleep_bytes += at->size_bytes;
        at->kept->sleep = s->heap->counters.sleeps;
        mend_keep_count(s->heap, at->kept, true);
        at->chunk = mend_chunk_fall_asleep(chunks, at->chunk, at->kept);
        at->kept = NULL;
    }
    mend_usage_note(s->heap);
    for (size_t i = 0; i < s->selection.count; i++) {
        const mend_cluster *at = &s->selection.sleepers[i];
        note_contents(s, at);
        if (s->options->keep_free != KEEPS_ALL) {
            const bool is_shared = at->chunk->memory.was_exported;
            const mend_status status = mend_chunk_release(chunks, at->chunk, false);
            const bool is_released = mend_driver_did(s->heap, status);
            s->lingering_bytes += is_released && is_shared ? at->size_bytes : 0;
        }
    }
}

/*
 * The steps, after all that may refuse a sleep, and with all nodes promised:
 *  - the chunks are frozen: their blocks live and may be freed, but no thread takes memory there;
 *  - what is to be kept of them is on the host or in the file;
 *  - they are unmapped, one stretch after the other: their blocks cannot be used any more.
 * A failure thaws the chunks, those that were unmapped after they are mapped again (undo): their
 * memory has its contents still. Then fall_asleep() takes the memory away, and cannot fail.
 */
static mend_result perform(sleeping *s, mend_sleep_report *report)
{
    mend_heap *heap = s->heap;
    const mend_cluster *sleepers = s->selection.sleepers;
    const size_t count = s->selection.count;
    size_t unmapped = 0;
    uint64_t calls = 0;
    for (size_t i = 0; i < count; i++) {
        mend_freeze_chunk(heap, sleepers[i].chunk);
    }
    mend_result result = mend_keep_copy(heap, sleepers, count, true, s->options->directory);
    if (result == MEND_OK) {
        mend_status status = mend_step_unmap_parts(heap, sleepers, count, &unmapped, &calls);
        result = mend_driver_result(heap, MEND_ANSWER(unmap, status));
    }
    if (result != MEND_OK) {
        return undo(s, unmapped, result);
    }
    heap->counters.sleeps += report->asleep_bytes == 0;
    fall_asleep(s, report);
    /* Blocks that other threads freed meanwhile. */
    mend_settle(heap, MEND_OWED_END, MEND_STREAM_UNKNOWN);
    return MEND_OK;
}

/* Selects, and puts to sleep what is selected. After a failure all that could have slept stays. */
static mend_result put_selected(sleeping *s, mend_sleep_report *report)
{
    mend_heap *heap = s->heap;
    mend_selection *selection = &s->selection;
    MEND_TRY(mend_select_to_sleep(heap, s->options, selection));
    report->shared_bytes = selection->shared_bytes;
    report->pinned_bytes = selection->pinned_bytes;
    report->mapped_bytes = selection->mapped_bytes;
    mend_result result = check(s);
    if (result == MEND_OK && selection->count > 0) {
        /* The chunks freeze before anything changes: what their free memory waits for is known. */
        size_t waits = mend_layout_nodes_for(heap, 1).waits;
        for (size_t i = 0; i < selection->count; i++) {
            waits += mend_freeze_waits(heap, selection->sleepers[i].chunk);
        }
        mend_layout_promise nodes = mend_freeze_nodes(heap, selection->count, selection->spans);
        nodes.waits = waits;
        if (mend_slab_reserve(&heap->chunks.slab, selection->count) && /* for their memory */
            mend_layout_promise_these(heap, &nodes)) {
            result = perform(s, report);
            mend_layout_end_promise(heap, &nodes);
        } else {
            result = mend_no_host_memory("a sleep");
        }
    }
    report->shared_bytes += result != MEND_OK ? selection->chosen_bytes : 0;
    mend_selection_clear(heap, selection);
    return result;
}

/* ---- shared chunks --------------------------------------------------------------------------- */

/*
 * Chunks that hold blocks which are to sleep beside blocks which stay awake: split at pages, so
 * that the first can sleep. Each becomes chunks that hold nothing of what stays awake, and chunks
 * between, all with their contents (map/map.h). Best effort: a chunk for whose copy there is
 * no room, or that the driver refuses to split, stays as it is.
 */

typedef struct splits {
    size_t count;          /* chunks that were split */
    uint64_t copied_bytes; /* for that */
    bool lacks_room;       /* for another one */
} splits;

/* Whether a failure is more than a reason to leave a chunk as it is. */
static bool must_tell(const mend_heap *heap)
{
    return heap->unlocking.lost != MEND_DRIVER_OK || heap->chunks.missing_count > 0;
}

/* What a page of a chunk holds, as bits. */
enum { TO_SLEEP = 1, TO_STAY = 2 };

/* Free memory that is kept for captured graphs which may run while others sleep stays. */
static unsigned bits_of(const mend_heap *heap, const mend_sleep_options *options,
                        const mend_cluster *page)
{
    unsigned bits = 0;
    MEND_SPANS_EACH(const mend_span, span, heap, page) {
        if (span->live || mend_is_for_graphs(heap, span)) {
            bits |= mend_is_to_sleep(options, span) ? TO_SLEEP : TO_STAY;
        }
    }
    return bits;
}

/* The parts that a chunk becomes: neighbouring pages with the same fate are one. Returns their
 * number; 0: no page can sleep that cannot now. */
static size_t cut(const mend_heap *heap, const mend_sleep_options *options, const mend_chunk *chunk,
                  mend_cluster *cuts)
{
    mend_cluster page = {.address = chunk->address, .size_bytes = heap->device.granularity_bytes};
    size_t parts = 0;
    unsigned before = 0;
    bool gains = false;
    for (; page.address < chunk->address + chunk->size_bytes; page.address += page.size_bytes) {
        const unsigned bits = bits_of(heap, options, &page);
        if (parts == 0 || (bits & TO_STAY) != (before & TO_STAY)) {
            cuts[parts++].address = page.address;
        }
        cuts[parts - 1].size_bytes += page.size_bytes;
        gains = gains || bits == TO_SLEEP;
        before = bits;
    }
    return gains ? parts : 0;
}

/* Splits a chunk; MEND_ERROR_OUT_OF_HOST_MEMORY is one of the reasons not to. */
static mend_result split(mend_heap *heap, const mend_sleep_options *options, mend_chunk *chunk,
                         splits *made)
{
    const uint64_t page_bytes = heap->device.granularity_bytes;
    assert(chunk->size_bytes % page_bytes == 0);
    mend_cluster *parts = calloc((size_t)(chunk->size_bytes / page_bytes), sizeof(parts[0]));
    if (parts == NULL) {
        return MEND_ERROR_OUT_OF_HOST_MEMORY;
    }
    const mend_exchange_order order = {
        .chunk = chunk, .parts = parts, .count = cut(heap, options, chunk, parts)};
    mend_exchange_report done = {0};
    const mend_result result = order.count > 0 ? mend_sleep_exchange(heap, &order, &done) : MEND_OK;
    made->count += result == MEND_OK && order.count > 0;
    made->copied_bytes += result == MEND_OK ? done.copied_bytes : 0;
    free(parts);
    return result;
}

/* Splits those that can be; gives the pool's empty chunks back if they are in the way of a copy.
 * MEND_ERROR_DRIVER: a chunk lacks its mapping. */
static mend_result split_all(mend_heap *heap, const mend_sleep_options *options, splits *made)
{
    mend_result result = MEND_OK;
    uint64_t behind = 0;
    *made = (splits){0};
    for (mend_chunk *chunk;
         result == MEND_OK && (chunk = mend_chunk_from(&heap->chunks, behind)) != NULL;) {
        behind = chunk->address + chunk->size_bytes; /* and its parts */
        if (chunk->size_bytes == heap->device.granularity_bytes ||
            !mend_is_shared(heap, options, chunk)) {
            continue; /* one of one page cannot be split */
        }
        result = split(heap, options, chunk, made);
        made->lacks_room = made->lacks_room || result == MEND_ERROR_OUT_OF_MEMORY;
        result = must_tell(heap) ? result : MEND_OK;
    }
    return result;
}

/* Splits chunks, and puts to sleep what can then; what sleeps so makes room for the next ones. Best
 * effort: it fails only if the device is lost, or a block lacks its mapping. */
static mend_result put_shared(sleeping *s, mend_sleep_report *report)
{
    mend_heap *heap = s->heap;
    mend_result result = MEND_OK;
    splits made = {.lacks_room = report->shared_bytes > 0};
    while (made.lacks_room && result == MEND_OK) {
        result = split_all(heap, s->options, &made);
        report->copied_bytes += made.copied_bytes;
        if (result != MEND_OK || made.count == 0 || !mend_step_copies_have_ended(heap)) {
            break; /* or copies of a refused split run, and what they read is not unmapped */
        }
        mend_retire_flush(heap, MEND_STREAM_UNKNOWN); /* scratch mappings that were refused */
        result = put_selected(s, report);
    }
    return must_tell(heap) ? result : MEND_OK;
}

mend_result mend_sleep_put(mend_heap *heap, const mend_sleep_options *options,
                           mend_sleep_report *report)
{
    mend_history_begin_call(&heap->history, MEND_CAUSE_SLEEP);
    mend_driver_scope scope;
    sleeping s = {.heap = heap, .options = options};
    const mend_chunks *chunks = &heap->chunks;
    const uint64_t reserved_bytes = chunks->reserved_bytes;
    MEND_TRY(mend_enter(heap, &scope));
    mend_result result = mend_quiet_begin(heap, MEND_STREAM_UNKNOWN, true);
    if (result == MEND_OK) {
        const mend_match match = mend_match_rules(heap, options);
        report->matched_bytes = match.bytes;
        report->unmatched_tags = match.unmatched_tags;
        report->unmatched_tag = match.unmatched_tag;
        result = put_selected(&s, report);
        result = result == MEND_OK ? put_shared(&s, report) : result;
        report->stayed_bytes = report->shared_bytes + report->pinned_bytes + report->mapped_bytes;
    }
    uint64_t trimmed_bytes;
    if (result == MEND_OK && options->keep_free == 0) {
        mend_trim_to(heap, 0, false, &trimmed_bytes); /* what it cannot give back stays free */
    }
    const uint64_t given_bytes =
        reserved_bytes - mend_min_u64(chunks->reserved_bytes, reserved_bytes);
    report->released_bytes = given_bytes - mend_min_u64(s.lingering_bytes, given_bytes);
    mend_driver_scope_close(heap, &scope);
    return result;
}
