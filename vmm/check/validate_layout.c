/* The validation of the layout: spans, runs and the front cache of a zone, the chunks below, and
 * the streams that memory waits for. */
#include "check/validate_parts.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "check/check.h"
#include "layout/layout.h"
#include "map/map.h"
#include "share/share.h"
#include "sleep/sleep.h"

#define SPAN_MUST(holds, words) MUST(holds, "span 0x%lx " words, span->address)

bool mend_validate_broken(const mend_validate_walk *a, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(a->finding, MEND_VALIDATE_FINDING_BYTES, format, arguments);
    va_end(arguments);
    return false;
}

/* ---- streams --------------------------------------------------------------------------------- */

/* A stamp that has not passed has a fence or belongs to the open epoch. A user declared for a live
 * block has no epoch yet. Its stream is known, unless destroyed streams are detected. */
static bool stamp_is_right(const mend_validate_walk *a, mend_stamp stamp, bool may_be_user)
{
    const mend_streams *streams = &a->heap->streams;
    if (stamp.stream >= streams->count) {
        return false;
    }
    const mend_stream_state *state = &streams->items[stamp.stream];
    if (stamp.epoch == 0) {
        return !may_be_user || state->known || state->graph_pool != 0 || state->has_ended ||
               streams->verify;
    }
    return mend_stamp_has_passed(streams, stamp) || mend_stamp_has_fence(streams, stamp) ||
           state->recordings > 0 || (stamp.epoch <= state->open_epoch && state->open);
}

/* The mark of a user. Different sets of users have different sums. */
static uint64_t mark_of(uint32_t stream)
{
    uint64_t mark = (stream + 1) * UINT64_C(0x9E3779B97F4A7C15);
    return (mark ^ (mark >> 29)) * UINT64_C(0xBF58476D1CE4E5B9);
}

bool mend_validate_waits(mend_validate_walk *a, const mend_waits *waits, uint64_t address)
{
    bool are_right = stamp_is_right(a, waits->first, false);
    for (const mend_wait *at = waits->others; at != NULL; at = at->next) {
        are_right = are_right && stamp_is_right(a, at->stamp, true);
        a->wait_nodes++;
        a->user_marks += at->stamp.epoch == 0 ? mark_of(at->stamp.stream) : 0;
    }
    MUST(are_right, "0x%lx waits for an epoch that cannot pass", address);
    return true;
}

static bool is_listed(const mend_streams *streams, uint32_t at, mend_slot_list list, uint32_t slot)
{
    for (uint32_t k = 0; at != MEND_STREAM_UNKNOWN && at != slot && k < streams->count; k++) {
        at = streams->items[at].in[list].next;
    }
    return at == slot;
}

static bool belongs(const mend_stream_state *state, mend_slot_list list)
{
    return list == MEND_SLOTS_CAPTURED   ? state->seen_captured
           : list == MEND_SLOTS_UNPASSED ? state->is_unpassed
                                         : state->graph_pool == 0 && !state->is_free_slot;
}

/* Whether the list that [MEND_STREAM_UNKNOWN] begins and ends has all slots that belong there, and
 * no other. */
static bool has_all(const mend_streams *streams, mend_slot_list list)
{
    uint32_t count = 0;
    for (uint32_t i = MEND_STREAM_UNKNOWN + 1; i < streams->count; i++) {
        count += belongs(&streams->items[i], list);
    }
    uint32_t at = MEND_STREAM_UNKNOWN;
    for (uint32_t k = 0, next; k < count; k++, at = next) {
        next = streams->items[at].in[list].next;
        if (next == MEND_STREAM_UNKNOWN || streams->items[next].in[list].previous != at ||
            !belongs(&streams->items[next], list)) {
            return false;
        }
    }
    return streams->items[at].in[list].next == MEND_STREAM_UNKNOWN &&
           streams->items[MEND_STREAM_UNKNOWN].in[list].previous == at;
}

/* Each slot is in the lists where it is looked for. */
static bool lists_are_right(const mend_validate_walk *a)
{
    const mend_streams *streams = &a->heap->streams;
    bool are_right = has_all(streams, MEND_SLOTS_OF_GRAPH_POOL) &&
                     has_all(streams, MEND_SLOTS_CAPTURED) && has_all(streams, MEND_SLOTS_UNPASSED);
    for (uint32_t i = MEND_STREAM_UNKNOWN + 1; i < streams->count && are_right; i++) {
        const mend_stream_state *state = &streams->items[i];
        const uint64_t key = mend_slots_key(state->handle, state->thread, state->graph_pool);
        are_right =
            (state->is_unpassed || state->graph_pool != 0 ||
             (!state->open && state->fence_count == 0)) &&
            (!state->known || is_listed(streams, *mend_slots_head(streams, MEND_SLOTS_OF_PAIR, key),
                                        MEND_SLOTS_OF_PAIR, i)) &&
            (state->graph_pool == 0 ||
             is_listed(streams, mend_slots_first_of(streams, state->graph_pool),
                       MEND_SLOTS_OF_GRAPH_POOL, i));
    }
    MUST(are_right, "the lists of streams' slots are wrong");
    mend_streams noted = *streams;
    noted.may_be_several = true;
    MUST(streams->may_be_several || !mend_streams_are_several(&noted),
         "that there are several streams was not noted");
    return true;
}

/* Fences are in order, after the passed epoch and before the open one. A graph pool has none before
 * its release. Each stream's count of users equals the nodes that name it. */
bool mend_validate_streams(const mend_validate_walk *a)
{
    const mend_streams *streams = &a->heap->streams;
    uint64_t events = streams->idle_event_count;
    for (uint32_t k = 0; k < streams->context_event_count * MEND_CONTEXTS; k++) {
        events += streams->context_events[k / MEND_CONTEXTS].of[k % MEND_CONTEXTS] != NULL;
    }
    uint64_t marks = 0;
    uint32_t known = 0;
    for (uint32_t i = 0; i < streams->count; i++) {
        const mend_stream_state *state = &streams->items[i];
        known += i != MEND_STREAM_UNKNOWN && state->known && state->graph_pool == 0;
        uint64_t epoch = state->passed_epoch;
        uint64_t before = 0;
        uint64_t order = 0;
        for (size_t k = 0; k < state->fence_count; k++) {
            MUST(state->fences[k].epoch > epoch,
                 "stream %u: the fence of epoch %lu is out of order", i, state->fences[k].epoch);
            MUST(state->fences[k].order >= order && state->fences[k].order <= streams->closed_bytes,
                 "stream %u: the fence of epoch %lu is younger than it says", i,
                 state->fences[k].epoch);
            epoch = state->fences[k].epoch;
            order = state->fences[k].order;
        }
        for (uint32_t k = 0; k <= MEND_CONTEXT_EVENTS; k++) {
            const uint64_t awaited = state->awaited[k].epoch;
            MUST(awaited == 0 || (k < streams->context_event_count && awaited >= before),
                 "stream %u: the context's event %u covers epoch %lu", i, k, awaited);
            before = awaited;
            epoch = mend_max_u64(epoch, awaited);
        }
        MUST(state->open_epoch > epoch, "stream %u: epoch %lu is open and has a fence", i, epoch);
        MUST(state->graph_pool == 0 ||
                 (state->fence_count == 0 && state->passed_epoch < state->first_epoch),
             "stream %u: memory of a graph pool became idle", i);
        events += state->fence_count + state->recordings;
        marks += state->users * mark_of(i);
    }
    MUST(known == streams->known_count, "the count of known streams is wrong");
    MUST(events == streams->events_held, "the counts of events are wrong");
    MUST(marks == a->user_marks, "the counts of users of blocks are wrong");
    return lists_are_right(a);
}

/* ---- spans ----------------------------------------------------------------------------------- */

static bool run_is_right(const mend_validate_walk *a, const mend_zone *zone, const mend_span *first,
                         const mend_span *last)
{
    const mend_run *run = first->run;
    MUST(run != NULL && run == last->run && run->first == first && run->last == last &&
             run->address == first->address && mend_run_end(run) == mend_span_end(last),
         "the free spans from 0x%lx form no run", first->address);
    MUST(run->chunk == first->chunk, "run 0x%lx: another chunk is its first", run->address);
    MUST(run->extensible == (last->next == NULL), "run 0x%lx: extensible is wrong", run->address);
    mend_run key = {.address = run->address, .size_bytes = run->size_bytes};
    const bool in_growth =
        mend_tree_at_or_after(&zone->runs_by_growth, &key.by_growth) == &run->by_growth;
    MUST(mend_tree_at_or_after(&zone->runs_by_address, &key.by_address) == &run->by_address &&
             mend_sizes_has(&zone->runs_by_size, run) && in_growth == run->extensible,
         "run 0x%lx is not in its indices", run->address);
    return true;
}

/* Free, in a chunk that sleeps, or that a failed transaction left without its mapping: no request
 * may get it. */
static bool is_claimed(const mend_span *span)
{
    return !span->live && span->chunk->missing != MEND_MISSING_NOTHING;
}

/* Free, and in no run. */
static bool is_apart(const mend_span *span)
{
    return span->cached || is_claimed(span);
}

/* A cached span is in the cache's list, has no neighbor that it should be joined with, and will be
 * ready for the stream it was freed on. */
static bool cached_is_right(mend_validate_walk *a, const mend_span *span)
{
    mend_stamp stamp = span->waits.first;
    const mend_span *left = span->previous;
    const mend_span *right = span->next;
    const mend_cache *cache = &a->heap->zones[span->zone].cache;
    bool is_listed = span->cache_index < cache->count && cache->spans[span->cache_index] == span;
    SPAN_MUST(is_listed && !span->live && span->run == NULL && span->waits.others == NULL &&
                  !span->skips_cache && stamp.stream < a->heap->streams.count &&
                  stamp.stream != MEND_STREAM_UNKNOWN &&
                  a->heap->streams.items[stamp.stream].graph_pool == 0 &&
                  (left == NULL || left->live) &&
                  (right == NULL || right->live || right->run != NULL),
              "should not be cached");
    a->cached[span->zone]++;
    return true;
}

static bool span_is_right(mend_validate_walk *a, const mend_span *span, int zone)
{
    const mend_heap *heap = a->heap;
    SPAN_MUST(span->zone == zone && span->size_bytes > 0 &&
                  (span->address | span->size_bytes) % MEND_GRANULE_BYTES == 0,
              "has a wrong zone, size or address");
    SPAN_MUST(span->next == NULL ||
                  (span->next->previous == span && mend_span_end(span) == span->next->address),
              "does not touch its neighbour");
    bool in_map = zone == MEND_ZONE_RANGE
                      ? heap->ranges.page_at(heap, span->address) == span
                      : mend_pointer_map_find(&heap->blocks, span->address) == span;
    MUST(in_map == (span->live || span->cached), "span 0x%lx: live and the pointer map disagree",
         span->address);
    SPAN_MUST(span->chunk == mend_chunk_at(&heap->chunks, span->address),
              "begins in another chunk");
    SPAN_MUST(zone != MEND_ZONE_PASSED ||
                  (span->live && span->chunk == NULL && span->previous == NULL &&
                   span->next == NULL && !span->of_graph_pool && !span->is_exported &&
                   !span->in_one_chunk),
              "is passed through, and not a block by itself");
    SPAN_MUST(zone == MEND_ZONE_PASSED || span->chunk != NULL, "has no chunk");
    SPAN_MUST(!span->live || span->requested_bytes <= span->size_bytes, "was asked to be larger");
    SPAN_MUST(!span->live || zone >= MEND_ZONES_OF_BLOCKS ||
                  span->skips_cache ==
                      (span->size_bytes >= heap->config.in_one_chunk_bytes ||
                       (zone == MEND_ZONE_SMALL) !=
                           (span->requested_bytes <= heap->config.placement.small_request_bytes)),
              "skips the cache, or does not, against the rule");
    SPAN_MUST(span->live || !span->is_exported, "is free and exported");
    SPAN_MUST(!span->in_one_chunk ||
                  (span->live && mend_span_is_in_one_chunk(span) && span->chunk->pins > 0),
              "is not in one pinned chunk");
    SPAN_MUST(span->live || (is_claimed(span) && span->run == NULL && !span->cached) ||
                  !(mend_layout_misses_mapping(heap, span) || mend_layout_sleeps(heap, span)),
              "may be taken, but its chunk is frozen");
    SPAN_MUST(!is_claimed(span) || mend_span_is_in_one_chunk(span),
              "is claimed, and crosses the edge of its chunk");
    if ((span->cached && !cached_is_right(a, span)) ||
        !mend_validate_waits(a, &span->waits, span->address)) {
        return false;
    }
    SPAN_MUST(!mend_span_is_pending(span) || (!span->live && !is_apart(span)),
              "is pending, and not free memory of a run");
    a->pending_blocks += mend_span_is_pending(span);
    a->pending_bytes += mend_span_is_pending(span) ? span->size_bytes : 0;
    a->spans++;
    a->exported += span->is_exported;
    if (span->live) {
        a->live[span->zone].blocks++;
        a->live[span->zone].bytes += span->size_bytes;
        a->live[span->zone].requested_bytes += span->requested_bytes;
    }
    return true;
}

/* Walks a segment from its end. Adds its runs and free bytes to the zone's totals. */
static bool segment_is_right(mend_validate_walk *a, int zone_number, const mend_span *end,
                             size_t *runs, uint64_t *free_bytes)
{
    const mend_zone *zone = &a->heap->zones[zone_number];
    const mend_span *run_last = NULL;
    MUST(end->next == NULL, "span 0x%lx is no segment's end", end->address);
    for (const mend_span *span = end; span != NULL; span = span->previous) {
        if (!span_is_right(a, span, zone_number)) {
            return false;
        }
        *free_bytes += span->live ? 0 : span->size_bytes;
        if (span->live || is_apart(span)) {
            continue;
        }
        run_last = run_last != NULL ? run_last : span;
        if (span->previous == NULL || span->previous->live || is_apart(span->previous)) {
            if (!run_is_right(a, zone, span, run_last)) {
                return false;
            }
            run_last = NULL;
            (*runs)++;
        }
    }
    return true;
}

bool mend_validate_zone(mend_validate_walk *a, int zone_number)
{
    const mend_zone *zone = &a->heap->zones[zone_number];
    const mend_cache *cache = &zone->cache;
    size_t runs = 0;
    uint64_t free_bytes = 0;
    MUST(mend_tree_is_valid(&zone->runs_by_address) && mend_sizes_are_valid(&zone->runs_by_size) &&
             mend_tree_is_valid(&zone->runs_by_growth) && mend_tree_is_valid(&zone->segment_ends),
         "a tree of zone %d is out of order", zone_number);
    MEND_TREE_EACH(const mend_span, end, by_end, &zone->segment_ends) {
        if (!segment_is_right(a, zone_number, end, &runs, &free_bytes)) {
            return false;
        }
    }
    MUST(runs == zone->runs_by_address.count && runs == zone->runs_by_size.count,
         "zone %d has %zu runs, its indices %zu and %zu", zone_number, runs,
         zone->runs_by_address.count, zone->runs_by_size.count);
    a->runs += runs;
    /* It lists exactly the cached spans. It is empty while closed. */
    MUST(cache->count == a->cached[zone_number] && cache->count <= cache->promised &&
             cache->promised <= MEND_CACHE_SPANS &&
             (cache->promised == 0 || a->heap->caching.closings == 0),
         "the front cache of zone %d is wrong", zone_number);
    MUST(free_bytes == zone->free_bytes, "zone %d: %lu bytes are free, %lu are counted",
         zone_number, free_bytes, zone->free_bytes);
    return true;
}

/* X(figure): sums over chunks. */
#define CHUNK_SUMS(X)                                                                              \
    X(reserved_bytes)                                                                              \
    X(empty_in)                                                                                    \
    X(empty_unmapped_bytes)                                                                        \
    X(unmapped_bytes)                                                                              \
    X(pinned_bytes)                                                                                \
    X(frozen_count)                                                                                \
    X(missing_count)                                                                               \
    X(asleep_count)                                                                                \
    X(unmapped_frozen_count)                                                                       \
    X(unmapped_frozen_bytes)                                                                       \
    X(asleep_bytes)                                                                                \
    X(asleep_live_bytes)                                                                           \
    X(away_in)                                                                                     \
    X(away_live_in)                                                                                \
    X(reserved_in)                                                                                 \
    X(deferred.count[MEND_DEFERRED_RESTORE])                                                       \
    X(deferred.count[MEND_DEFERRED_END])                                                           \
    X(deferred.count[MEND_DEFERRED_MEMORY])                                                        \
    X(deferred.count[MEND_DEFERRED_GRAPHS])                                                        \
    X(empty.count)                                                                                 \
    X(mapped.count)

/* ---- what lies in a mapped chunk ------------------------------------------------------------- */

/* Whether the memory still waits for the holds of the chunk. */
static bool is_held(mend_stamp held_by, const mend_span *span)
{
    const mend_wait first = {span->waits.first, span->waits.others};
    const mend_wait *at = &first;
    while (at != NULL && (at->stamp.stream != held_by.stream || at->stamp.epoch < held_by.epoch)) {
        at = at->next;
    }
    return at != NULL;
}

static bool spans_are_right(const mend_validate_walk *a, const mend_chunk *chunk,
                            const mend_span **lowest)
{
    uint64_t live_bytes = 0;
    bool held = mend_stamp_has_passed(&a->heap->streams, chunk->held_by);
    uint64_t end = chunk->address + chunk->size_bytes;
    const mend_span *span = mend_layout_last_span(a->heap, chunk, *lowest);
    MUST(span != NULL, "chunk 0x%lx has no spans", chunk->address);
    for (; span != NULL && mend_span_end(span) > chunk->address; span = span->previous) {
        uint64_t from = mend_max_u64(span->address, chunk->address);
        uint64_t to = mend_min_u64(mend_span_end(span), end);
        live_bytes += span->live ? to - from : 0;
        held = held || is_held(chunk->held_by, span);
        *lowest = span;
    }
    MUST(held, "nothing in the chunk 0x%lx waits for its reason", chunk->address);
    MUST(live_bytes == chunk->live_bytes, "chunk 0x%lx: %lu bytes are live, %lu are counted",
         chunk->address, live_bytes, chunk->live_bytes);
    return true;
}

/* ---- asleep ---------------------------------------------------------------------------------- */

/* A sleeping chunk. The pieces of its backup lie in it, one behind the other, and fill the backup,
 * which is counted. */
static bool asleep_is_right(mend_validate_walk *a, const mend_chunk *chunk)
{
    const mend_contents *kept = chunk->kept;
    uint64_t end = 0;
    uint64_t host_bytes = 0;
    uint64_t file_bytes = 0;
    bool has_memory = chunk->missing != MEND_MISSING_MEMORY;
    bool is_right = true;
    MUST(chunk->is_frozen && chunk->missing != MEND_MISSING_NOTHING && chunk->pins == 0 &&
             !mend_chunk_is_exported(chunk) && has_memory == (chunk->memory.handle != 0) &&
             !(has_memory && mend_retire_holds(a->heap, chunk) != NULL),
         "the chunk 0x%lx sleeps, and is in use", chunk->address);
    for (size_t i = 0; i < kept->piece_count; i++) {
        const mend_kept_piece *piece = &kept->pieces[i];
        is_right = is_right && piece->offset_bytes >= end && piece->size_bytes > 0 &&
                   (piece->backup == MEND_BACKUP_HOST || piece->backup == MEND_BACKUP_FILE);
        end = piece->offset_bytes + piece->size_bytes;
        *(piece->backup == MEND_BACKUP_HOST ? &host_bytes : &file_bytes) += piece->size_bytes;
    }
    MUST(is_right && end <= chunk->size_bytes && host_bytes == kept->host_bytes &&
             file_bytes == kept->file_bytes && (host_bytes > 0) == (kept->host != NULL) &&
             kept->room_bytes >= host_bytes && (host_bytes > 0 || kept->room_bytes == 0) &&
             (file_bytes > 0) == (kept->file != NULL) && kept->address == chunk->address,
         "the backup of the chunk 0x%lx is wrong", chunk->address);
    a->kept.host_bytes += host_bytes;
    a->kept.file_bytes += file_bytes;
    a->kept.room_bytes += kept->room_bytes;
    MEND_SPANS_EACH(const mend_span, span, a->heap, chunk) {
        MUST(!span->live || span->contents_dropped || mend_keep_has_part(chunk, span),
             "the block 0x%lx does not know that a sleep dropped it", span->address);
    }
    return true;
}

/* ---- chunks ---------------------------------------------------------------------------------- */

/* One that has memory, or sleeps without. Counts it. */
static bool chunk_is_right(mend_validate_walk *a, const mend_chunk *chunk)
{
    mend_chunks *found = &a->chunks;
    const uint64_t bytes = chunk->size_bytes;
    const bool is_mapped = chunk->address != 0;
    const bool is_empty = mend_chunk_is_empty(chunk);
    const bool sleeps = mend_chunk_sleeps(chunk);
    const bool is_reserved = mend_chunk_is_reserved(chunk);
    a->records++;
    found->empty.count += is_empty && mend_list_is_empty(&chunk->newly);
    found->mapped.count += is_mapped;
    found->deferred.count[chunk->deferred.kind]++;
    found->reserved_bytes += is_reserved ? bytes : 0;
    found->empty_unmapped_bytes += !is_mapped && is_empty ? bytes : 0;
    found->unmapped_bytes += is_mapped || !is_reserved ? 0 : bytes;
    found->pinned_bytes += chunk->pins > 0 ? bytes : 0;
    found->frozen_count += chunk->is_frozen;
    found->missing_count += mend_chunk_misses_mapping(chunk);
    found->asleep_count += sleeps;
    found->unmapped_frozen_count += !mend_chunk_has_mapping(chunk);
    found->unmapped_frozen_bytes += mend_chunk_has_mapping(chunk) ? 0 : bytes;
    found->asleep_bytes += sleeps ? bytes : 0;
    found->asleep_live_bytes += sleeps ? chunk->live_bytes : 0;
    found->empty_in[chunk->zone] += is_mapped && is_empty ? bytes : 0;
    found->away_in[chunk->zone] += is_mapped && !is_reserved ? bytes : 0;
    found->away_live_in[chunk->zone] += sleeps ? chunk->live_bytes : 0;
    found->reserved_in[chunk->zone] += is_mapped && is_reserved;
    MUST(chunk->claim.address == 0, "a chunk is still claimed");
    MUST(chunk->pins ==
             mend_pins_of(a->heap, chunk) + mend_exports_in(a->heap, chunk, MEND_EXPORT_WAYS),
         "a chunk has not the pins that cover it");
    MUST(chunk->deferred.kind == mend_chunk_deferred_kind(chunk),
         "deferred work of chunks is not noted");
    for (mend_export_way way = 0; way < MEND_EXPORT_WAYS; way++) {
        MUST(chunk->exports[way] == mend_exports_in(a->heap, chunk, way),
             "a chunk has not the exports that it counts");
    }
    MUST(is_reserved || sleeps, "the chunk 0x%lx has no memory, and does not sleep",
         chunk->address);
    MUST(!chunk->is_frozen || chunk->missing != MEND_MISSING_NOTHING,
         "a frozen chunk has its memory");
    return !sleeps || asleep_is_right(a, chunk);
}

bool mend_validate_chunks(mend_validate_walk *a)
{
    const mend_chunks *chunks = &a->heap->chunks;
    const mend_keeping *keeping = &a->heap->keeping;
    const mend_span *lowest = NULL;
    uint64_t bytes = 0;
    MUST(mend_chunks_are_in_order(chunks), "a tree of chunks is out of order");
    MEND_TREE_EACH(const mend_chunk, chunk, memory.by_number, &chunks->all) {
        MUST(chunk->missing != MEND_MISSING_MEMORY,
             "the chunk 0x%lx has no memory, and is among the chunks with memory", chunk->address);
        if (!chunk_is_right(a, chunk)) {
            return false;
        }
    }
    for (mend_tree_node *at = mend_tree_last(&chunks->mapped); at != NULL;
         at = mend_tree_previous(at)) { /* so the spans of all are passed once */
        const mend_chunk *chunk = MEND_CONTAINER_OF(at, mend_chunk, by_address);
        const bool is_new = chunk->missing == MEND_MISSING_MEMORY;
        if ((is_new && !chunk_is_right(a, chunk)) || !spans_are_right(a, chunk, &lowest)) {
            return false;
        }
    }
#define X(sum)                                                                                     \
    MUST(memcmp(&a->chunks.sum, &chunks->sum, sizeof(chunks->sum)) == 0,                           \
         "the counts of chunks are wrong: " #sum);
    CHUNK_SUMS(X);
#undef X
    /* Copies that wakes left on the host are counted, within the limit and the most that ever
     * slept. */
    bool is_right = mend_tree_is_valid(&keeping->copies) &&
                    mend_tree_is_valid(&keeping->copies_by_room) &&
                    keeping->copies_by_room.count == keeping->copies.count;
    MUST(is_right, "a tree of copies is out of order");
    MEND_TREE_EACH(const mend_contents, copy, by_address, &keeping->copies) {
        bytes += copy->room_bytes;
        is_right = is_right && copy->host != NULL && copy->file == NULL &&
                   copy->room_bytes >= copy->host_bytes;
    }
    MUST(is_right && bytes == keeping->copies_bytes && bytes <= keeping->copies_limit &&
             bytes + a->kept.room_bytes == keeping->room_bytes &&
             keeping->room_bytes <= keeping->most_bytes,
         "the copies that wakes left are wrong");
    MUST(a->kept.host_bytes == keeping->host_bytes && a->kept.file_bytes == keeping->file_bytes,
         "the counts of backups are wrong");
    return true;
}
