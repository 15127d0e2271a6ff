/*
 * mend_sleep, as a transaction: memory is copied or dropped, unmapped, and released.
 *
 * Sleeping chunks keep their addresses, their place in the layout and their live blocks, and
 * have no memory. Invariants, checked by the validation:
 *  - such a chunk is frozen, so its free memory is claimed, and memory freed in it becomes claimed.
 *  - without live bytes it is collected: its record, its addresses and its contents go.
 *  - it has `kept`, the description of its contents, and no memory. Memory of a failed wake that
 *    the driver refused to unmap is a part of reserved_bytes and deferred work, and the next wake
 *    uses it.
 *  - each of its blocks of which not all bytes here are kept says so (contents_dropped).
 *  - no pin or export holds it, and no retired mapping maps its memory.
 *  - it is not collected while its free memory is kept for captured graphs, which know the address.
 */
#include "sleep/sleep.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/align.h"
#include "base/words.h"
#include "pool/pool.h"

/* mend_sleep_options.keep_free: memory of sleeping blocks stays with the pool. */
enum { KEEPS_ALL = 2 };

typedef struct sleeping {
    mend_heap *heap;
    const mend_sleep_options *options;
    mend_selection selection;
} sleeping;

/* ---- before anything changes ----------------------------------------------------------------- */

/* The reasons of a refused call, by name. */
static mend_result check(const sleeping *s, const mend_sleep_report *report)
{
    const mend_selection *selection = &s->selection;
    if (selection->pinned_at != 0 && s->options->skip_pinned != 1) {
        return mend_failure(MEND_ERROR_PINNED,
                            "mend_sleep: %llu bytes that are to sleep are pinned or exported, the "
                            "first in the chunk at 0x%llx; skip_pinned leaves them awake",
                            (unsigned long long)report->pinned_bytes,
                            (unsigned long long)selection->pinned_at);
    }
    if (selection->count == 0 && report->stayed_bytes == 0 && selection->asleep_bytes > 0) {
        return mend_failure(MEND_ERROR_ASLEEP,
                            "mend_sleep: all %llu bytes of blocks that are to sleep are asleep",
                            (unsigned long long)selection->asleep_bytes);
    }
    return MEND_OK;
}

/* ---- what can fail --------------------------------------------------------------------------- */

/* The first `unmapped` chunks are mapped again. Returns the failure that led here, or of a refused
 * mapping: then the chunk stays frozen, as after a compaction. */
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

/* For work that touches the block before it is awake. */
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

/* Whether all of the block fell asleep by this sleep, which keeps it. If not, its contents are
 * dropped, and the block says so until one sleep has a backup of all of it. While a part of it
 * sleeps, the program writes no other part. */
static bool has_all(const mend_span *span, uint64_t sleep)
{
    bool has = true;
    for (const mend_chunk *chunk = span->chunk;
         chunk != NULL && chunk->address < mend_span_end(span) && has;
         chunk = mend_chunk_next(chunk)) {
        has = mend_chunk_sleeps(chunk) && chunk->kept->sleep == sleep;
    }
    return has;
}

/* Marks the blocks of a chunk with the fate of their contents, once all chunks of the call sleep.
 * Earlier backups there are no copies of it. Nor, for a block that sleeps for the first time, are
 * backups in the chunks where it stays awake. */
static void note_contents(const sleeping *s, const mend_cluster *at)
{
    mend_copies_forget(s->heap, at->address, at->size_bytes);
    MEND_SPANS_EACH(mend_span, span, s->heap, at) {
        const bool drops = span->live && mend_keep_of(s->options, span->sleep_tag) == MEND_DISCARD;
        span->contents_dropped =
            drops || (span->contents_dropped && !has_all(span, s->heap->counters.sleeps));
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

/* The chunks sleep, and their memory is free and released. Memory that the driver refuses stays
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
        assert(at->chunk->pins == 0 && !mend_chunk_sleeps(at->chunk));
        mend_events_note(chunks->events, MEND_EVENT_SLEEP, at->address, at->size_bytes,
                         at->chunk->memory.number);
        at->chunk = mend_chunk_leave_memory(chunks, at->chunk, at->kept);
        at->kept = NULL;
    }
    mend_usage_note(s->heap);
    for (size_t i = 0; i < s->selection.count; i++) {
        const mend_cluster *at = &s->selection.sleepers[i];
        note_contents(s, at);
        if (s->options->keep_free != KEEPS_ALL) {
            (void)mend_driver_did(s->heap, mend_chunk_release(chunks, at->chunk, false));
        }
    }
}

/* The nodes of waits to freeze a chunk as it is now. */
static size_t count_waits(mend_heap *heap, const mend_chunk *chunk)
{
    size_t count = 0;
    const uint64_t end = chunk->address + chunk->size_bytes;
    const mend_zone *zone = &heap->zones[chunk->zone];
    mend_run *run = mend_layout_run_from(zone, chunk->address);
    for (; run != NULL && run->address < end; run = mend_layout_run_from(zone, mend_run_end(run))) {
        count += mend_layout_count_waits(heap, run, mend_max_u64(chunk->address, run->address),
                                         mend_min_u64(mend_run_end(run), end));
    }
    return count;
}

/*
 * The steps, after all that may refuse a sleep, and with all nodes promised:
 *  - the chunks are frozen: their blocks live and may be freed, but no thread takes memory there.
 *  - their backups are on the host or in the file.
 *  - they are unmapped, one stretch after the other: their blocks cannot be used any more.
 * A failure thaws the chunks, unmapped ones after mapping them again (undo): their memory still has
 * its contents. Then fall_asleep() takes the memory away, and cannot fail.
 */
static mend_result perform(sleeping *s, mend_sleep_report *report)
{
    mend_heap *heap = s->heap;
    const mend_cluster *sleepers = s->selection.sleepers;
    const size_t count = s->selection.count;
    size_t unmapped = 0;
    mend_layout_promise nodes = mend_freeze_nodes(heap, count, s->selection.spans);
    nodes.waits = mend_layout_nodes_for(heap, 1).waits;
    for (size_t i = 0; i < count; i++) { /* before anything changes, so they are known */
        nodes.waits += count_waits(heap, sleepers[i].chunk);
    }
    if (!mend_slab_reserve(&heap->chunks.slab, count) || /* for their memory */
        !mend_layout_promise_these(heap, &nodes)) {
        return mend_no_host_memory("a sleep");
    }
    for (size_t i = 0; i < count; i++) {
        mend_freeze_chunk(heap, sleepers[i].chunk);
    }
    mend_result result = mend_keep_copy(heap, sleepers, count, true, s->options->directory);
    if (result == MEND_OK) {
        mend_status status = mend_step_unmap_parts(heap, sleepers, count, &unmapped);
        result = mend_driver_result(heap, MEND_ANSWER(unmap, status));
    }
    if (result == MEND_OK) {
        heap->counters.sleeps++;
        fall_asleep(s, report);
        /* Blocks that other threads freed meanwhile. */
        mend_retry(heap, MEND_DEFERRED_END, MEND_STREAM_UNKNOWN);
    } else {
        result = undo(s, unmapped, result);
    }
    mend_layout_end_promise(heap, &nodes);
    return result;
}

/* Selects chunks, and puts them to sleep. After a failure all that could have slept stays. */
static mend_result put_selected(sleeping *s, mend_sleep_report *report)
{
    mend_heap *heap = s->heap;
    mend_selection *selection = &s->selection;
    mend_match match = {0};
    MEND_TRY(mend_match_names(heap, s->options, NULL, 0, &match));
    report->matched_bytes = match.bytes;
    report->unmatched_tags = match.unmatched_tags;
    report->unmatched_tag = match.unmatched_tag;
    MEND_TRY(mend_select_to_sleep(heap, s->options, selection, report));
    mend_result result = check(s, report);
    if (result == MEND_OK && selection->count > 0) {
        result = perform(s, report);
    }
    mend_selection_clear(heap, selection);
    return result;
}

static mend_result put(mend_heap *heap, const mend_sleep_options *options,
                       mend_sleep_report *report)
{
    mend_events_begin_call(&heap->events, MEND_CAUSE_SLEEP);
    mend_driver_scope scope;
    sleeping s = {.heap = heap, .options = options};
    const mend_chunks *chunks = &heap->chunks;
    const uint64_t held_bytes = chunks->reserved_bytes + chunks->importers_bytes;
    MEND_TRY(mend_enter(heap, &scope));
    mend_result result = mend_safe_point_begin(heap, true);
    if (result == MEND_OK) {
        result = put_selected(&s, report);
    }
    uint64_t trimmed_bytes;
    if (result == MEND_OK && options->keep_free == 0) {
        mend_trim_to(heap, 0, false, &trimmed_bytes); /* memory that it cannot release stays free */
    }
    assert(chunks->reserved_bytes + chunks->importers_bytes <= held_bytes);
    report->released_bytes = held_bytes - chunks->reserved_bytes - chunks->importers_bytes;
    mend_driver_scope_close(heap, &scope);
    return result;
}

/* ---- the call -------------------------------------------------------------------------------- */

static bool is_keep(int keep)
{
    return keep >= MEND_BACKUP_DEFAULT && keep <= MEND_STAY_RESIDENT;
}

/* A rule in the first version of mend_sleep_options, whose callers pass no size. */
enum { FIRST_RULE_BYTES = 16 };
static_assert(FIRST_RULE_BYTES <= sizeof(mend_sleep_rule), "a rule only grows");

static mend_result check_options(const mend_sleep_options *options)
{
    bool has_files = options->others == MEND_BACKUP_FILE;
    MEND_INVALID_IF(!is_keep(options->others), "mend_sleep_options.others is not a mend_backup");
    MEND_INVALID_IF(options->skip_pinned < -1 || options->skip_pinned > 1,
                    "mend_sleep_options.skip_pinned is not -1, 0 or 1");
    MEND_INVALID_IF(options->keep_free < 0 || options->keep_free > 2,
                    "mend_sleep_options.keep_free is not 0 to 2");
    MEND_INVALID_IF(options->graphs != MEND_BACKUP_DEFAULT && options->graphs != MEND_DISCARD &&
                        options->graphs != MEND_STAY_RESIDENT,
                    "mend_sleep_options.graphs is not 0, MEND_DISCARD or "
                    "MEND_STAY_RESIDENT: no graph reads such memory before it writes");
    MEND_INVALID_IF(options->rule_count > 0 && options->rules == NULL,
                    "mend_sleep_options.rules is NULL");
    MEND_INVALID_IF(!mend_struct_size_is_whole(options->rule_bytes, sizeof(mend_sleep_rule)),
                    "mend_sleep_options.rule_bytes is not sizeof(mend_sleep_rule)");
    for (size_t i = 0; i < options->rule_count; i++) {
        int keep = mend_rule_at(options, i).backup;
        MEND_INVALID_IF(!is_keep(keep) || keep == MEND_BACKUP_DEFAULT,
                        "mend_sleep_rule.backup is not 1 to 4");
        has_files = has_files || keep == MEND_BACKUP_FILE;
    }
    return has_files && options->directory == NULL
               ? mend_pool_invalid(
                     "mend_sleep_options.directory is NULL: MEND_BACKUP_FILE needs one")
               : MEND_OK;
}

mend_result mend_sleep(mend_pool *pool, const mend_sleep_options *given, mend_sleep_report *report)
{
    mend_sleep_options options = MEND_SLEEP_OPTIONS_INIT;
    mend_sleep_report all = MEND_SLEEP_REPORT_INIT;
    MEND_INVALID_IF(pool == NULL, "mend_sleep: pool is NULL");
    MEND_TRY(mend_pool_check_struct(report, "MEND_SLEEP_REPORT_INIT"));
    MEND_TRY(mend_pool_read_struct(given, "MEND_SLEEP_OPTIONS_INIT", &options, sizeof(options)));
    options.rule_bytes = options.rule_bytes != 0 ? options.rule_bytes : FIRST_RULE_BYTES;
    MEND_TRY(check_options(&options));
    MEND_TRY(mend_pool_needs_chunks(pool, "mend_sleep"));
    MEND_TRY(mend_pool_enter_all(pool));
    return mend_pool_leave_all_with(pool, put(&pool->heap, &options, &all), report, &all,
                                    sizeof(all));
}

/* ---- deferred work --------------------------------------------------------------------------- */

/* Frees the addresses of a sleeping chunk without live blocks and memory, its backup and its
 * record. Memory that a captured graph may use stays, without contents. */
static void end_asleep(mend_heap *heap, mend_chunk *chunk)
{
    mend_chunks *chunks = &heap->chunks;
    mend_contents *kept = chunk->kept;
    mend_space *space = mend_heap_space_at(heap, chunk->address);
    bool is_for_graphs = false;
    MEND_SPANS_EACH(const mend_span, span, heap, chunk) {
        is_for_graphs |= mend_waits_for_graphs(&heap->streams, &span->waits);
    }
    if (is_for_graphs) {
        mend_defer(&chunks->deferred, &chunk->deferred, MEND_DEFERRED_GRAPHS, chunk->address);
        if (kept->piece_count > 0) {
            mend_keep_empty(heap, kept); /* releases `state`, not the grow lock */
        }
        return;
    }
    if (!mend_space_reserve_nodes(space, 1)) {
        return;
    }
    assert(mend_chunk_sleeps(chunk) && chunk->missing == MEND_MISSING_MEMORY);
    assert(chunk->live_bytes == 0);
    const uint64_t end = chunk->address + chunk->size_bytes;
    for (mend_span *at = mend_heap_span_at(heap, chunk->address), *next;
         at != NULL && at->address < end; at = next) {
        next = at->next;
        mend_layout_cut(heap, at);
    }
    mend_space_give(space, chunk->address, chunk->size_bytes);
    mend_chunk_set_address(chunks, chunk, chunk->zone, 0);
    mend_chunk_set_kept(chunks, chunk, NULL, MEND_MISSING_NOTHING);
    mend_chunk_end(chunks, chunk);
    mend_keep_count(heap, kept, false);
    mend_keep_drop(heap, kept); /* releases `state` */
}

/* A sleeping chunk has memory: a wake failed, and the driver did not unmap it. */
static void give_memory(mend_heap *heap, mend_chunk *chunk)
{
    if (!mend_retire_copies_have_ended(heap) || !mend_slab_reserve(&heap->chunks.slab, 1)) {
        return; /* copies of a wake write to its chunks */
    }
    mend_status status = heap->driver->unmap(heap->driver, chunk->address, chunk->size_bytes);
    if (status == MEND_DRIVER_OK) {
        status = mend_chunk_release(
            &heap->chunks, mend_chunk_leave_memory(&heap->chunks, chunk, chunk->kept), false);
    }
    (void)mend_driver_did(heap, status);
    if (chunk->missing == MEND_MISSING_MEMORY && chunk->live_bytes == 0) { /* ends have passed */
        end_asleep(heap, chunk);
    }
}

void mend_sleep_retry(mend_heap *heap, mend_deferred *deferred, uint32_t asking)
{
    (void)asking;
    if (deferred->kind == MEND_DEFERRED_HOST_MEMORY) {
        mend_keep_drop(heap, MEND_CONTAINER_OF(deferred, mend_contents, deferred));
    } else if (deferred->kind == MEND_DEFERRED_MEMORY) {
        give_memory(heap, MEND_CONTAINER_OF(deferred, mend_chunk, deferred));
    } else {
        end_asleep(heap, MEND_CONTAINER_OF(deferred, mend_chunk, deferred));
    }
}

void mend_sleep_statistics(const mend_heap *heap, mend_stats *stats)
{
    const mend_chunks *chunks = &heap->chunks;
    stats->asleep_bytes = chunks->asleep_bytes;
    stats->asleep_live_bytes = chunks->asleep_live_bytes;
    stats->backup_host_bytes = heap->keeping.host_bytes;
    stats->backup_file_bytes = heap->keeping.file_bytes;
    stats->backup_cache_bytes = heap->keeping.copies_bytes;
}
