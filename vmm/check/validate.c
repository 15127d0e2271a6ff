/* The validation: checks every invariant of the heap from scratch against the records of all rooms.
 * One walk counts objects in all files of the validation. At its end the counts must equal the
 * heap's. Needs both locks: in a transaction the sums alone must hold. */
#include "pool/pool.h"

#include <stdarg.h>
#include <stdio.h>

#include "alloc/users.h"
#include "check/check.h"
#include "check/validate_parts.h"
#include "map/map.h"
#include "mend/mend_frameworks.h"
#include "plan/policy.h"
#include "share/share.h"

#define IN_CACHES(heap, figure)                                                                    \
    ((heap)->zones[MEND_ZONE_SMALL].cache.figure + (heap)->zones[MEND_ZONE_LARGE].cache.figure)

bool mend_validate_broken(const mend_validate_walk *a, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(a->finding, MEND_VALIDATE_FINDING_BYTES, format, arguments);
    va_end(arguments);
    return false;
}

/* ---- addresses ------------------------------------------------------------------------------- */

/* Of gaps, mapped chunks, retired mappings and imports one begins where the one before ends. */
static bool reservation_is_right(const mend_validate_walk *a, const mend_space *space,
                                 const mend_reservation *reservation, size_t *gaps)
{
    const mend_heap *heap = a->heap;
    uint64_t end = reservation->address + reservation->size_bytes - space->page_bytes;
    uint64_t taken_bytes = 0;
    for (uint64_t address = reservation->address; address < end;) {
        const mend_imported key = {.address = address};
        const mend_chunk *chunk = mend_chunk_from(&heap->chunks, address);
        const mend_retired *retired = mend_retire_at(heap, address);
        const mend_imported *import = MEND_CONTAINER_OR_NULL(
            mend_tree_at_or_after(&heap->imports.by_address, &key.mapped.by_address), mend_imported,
            mapped.by_address);
        const uint64_t pieces[] = {
            mend_space_room_at(space, address),
            chunk != NULL && chunk->address == address ? chunk->size_bytes : 0,
            retired != NULL && retired->address == address ? retired->size_bytes : 0,
            import != NULL && import->mapped.at == address ? import->mapped.bytes : 0,
        };
        uint64_t size_bytes = 0;
        int count = 0;
        for (size_t i = 0; i < sizeof(pieces) / sizeof(*pieces); i++) {
            size_bytes += pieces[i];
            count += pieces[i] > 0;
        }
        MUST(count == 1 && size_bytes <= end - address,
             "not exactly one of gap, chunk, retired and import at 0x%llx",
             MEND_VALIDATE_HEX(address));
        *gaps += pieces[0] > 0;
        taken_bytes += pieces[0] > 0 ? 0 : size_bytes;
        address += size_bytes;
    }
    MUST(taken_bytes == reservation->taken_bytes,
         "the taken bytes of the reservation 0x%llx are wrong",
         MEND_VALIDATE_HEX(reservation->address));
    return true;
}

static bool space_is_right(const mend_validate_walk *a, const mend_space *space)
{
    uint64_t address_bytes = 0;
    uint64_t taken_bytes = 0;
    size_t gaps = 0;
    size_t count = 0;
    MEND_LIST_EACH(const mend_reservation, reservation, link, &space->reservations) {
        address_bytes += reservation->size_bytes;
        taken_bytes += reservation->taken_bytes;
        count++;
        if (!reservation_is_right(a, space, reservation, &gaps)) {
            return false;
        }
    }
    MUST(mend_tree_is_valid(&space->gaps) && mend_tree_is_valid(&space->gaps_by_size) &&
             space->gaps_by_size.count == space->gaps.count &&
             mend_tree_is_valid(&space->reservations_by_address),
         "a tree of addresses is out of order");
    MUST(address_bytes == space->address_bytes && taken_bytes == space->taken_bytes &&
             gaps == space->gaps.count && count == space->reservations_by_address.count,
         "the counts of addresses are wrong");
    MUST(gaps == space->gap_slab.used_count && count == space->reservation_slab.used_count,
         "nodes of gaps or reservations are lost");
    return true;
}

/* ---- imports --------------------------------------------------------------------------------- */

static bool imports_are_right(const mend_validate_walk *a)
{
    const mend_imports *imports = &a->heap->imports;
    uint64_t bytes = 0;
    uint64_t mappings = 0;
    MEND_TREE_EACH(const mend_imported, import, mapped.by_address, &imports->by_address) {
        uint64_t all_bytes = 0;
        bool has_handles = false;
        for (size_t i = 0; i < import->count; i++) {
            all_bytes += import->chunks[i].size_bytes;
            has_handles = has_handles || import->chunks[i].handle != 0;
        }
        MUST(has_handles == (import->deferred.kind == MEND_DEFERRED_HANDLES),
             "an import has handles that are not to be released, or none");
        MUST(import->uses > 0 && import->count > 0 && all_bytes == import->mapped.bytes &&
                 import->address == import->mapped.at + import->offset_bytes &&
                 import->offset_bytes < import->chunks[0].size_bytes &&
                 import->size_bytes <= all_bytes - import->offset_bytes &&
                 mend_imports_find_named(a->heap, &import->name) == import,
             "the import at 0x%llx is wrong", MEND_VALIDATE_HEX(import->address));
        bytes += import->mapped.bytes;
        mappings += import->count;
    }
    MUST(mend_tree_is_valid(&imports->by_address) && mend_tree_is_valid(&imports->by_name),
         "a tree of imports is out of order");
    MUST(imports->by_address.count == imports->by_name.count && bytes == imports->bytes &&
             mappings == imports->mappings,
         "the counts of imports are wrong");
    return true;
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
    MUST(are_right, "0x%llx waits for an epoch that cannot pass", MEND_VALIDATE_HEX(address));
    return true;
}

/* Fences are in order, after the passed epoch and before the open one. A graph pool has none before
 * its release. Each stream's count of users equals the nodes that name it. */
static bool streams_are_right(const mend_validate_walk *a)
{
    const mend_streams *streams = &a->heap->streams;
    uint64_t events = streams->idle_event_count + mend_streams_context_events(streams);
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
                 "stream %u: the fence of epoch %llu is out of order", i,
                 MEND_VALIDATE_HEX(state->fences[k].epoch));
            MUST(state->fences[k].order >= order && state->fences[k].order <= streams->closed_bytes,
                 "stream %u: the fence of epoch %llu is younger than it says", i,
                 MEND_VALIDATE_HEX(state->fences[k].epoch));
            epoch = state->fences[k].epoch;
            order = state->fences[k].order;
        }
        for (uint32_t k = 0; k <= MEND_CONTEXT_EVENTS; k++) {
            const uint64_t awaited = state->awaited[k].epoch;
            MUST(awaited == 0 || (k < streams->context_event_count && awaited >= before),
                 "stream %u: the context's event %u covers epoch %llu", i, k,
                 MEND_VALIDATE_HEX(awaited));
            before = awaited;
            epoch = mend_max_u64(epoch, awaited);
        }
        MUST(state->open_epoch > epoch, "stream %u: epoch %llu is open and has a fence", i,
             MEND_VALIDATE_HEX(epoch));
        MUST(state->graph_pool == 0 ||
                 (state->fence_count == 0 && state->passed_epoch < state->first_epoch),
             "stream %u: memory of a graph pool became idle", i);
        events += state->fence_count + state->recordings;
        marks += state->users * mark_of(i);
    }
    MUST(known == streams->known_count, "the count of known streams is wrong");
    MUST(events == streams->events_held, "the counts of events are wrong");
    MUST(marks == a->user_marks, "the counts of users of blocks are wrong");
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

/* ---- counts ---------------------------------------------------------------------------------- */

static bool counts_are_right(const mend_validate_walk *a)
{
    const mend_heap *heap = a->heap;
    const mend_nodes *nodes = &heap->nodes;
    uint64_t live_bytes = 0;
    uint64_t births = 0;
    bool all_are = true;
    MUST(a->spans == nodes->spans.used_count && a->runs == nodes->runs.used_count &&
             a->wait_nodes == nodes->waits.used_count &&
             heap->chunks.deferred.count[MEND_DEFERRED_MAPPING] == heap->retire.nodes.used_count &&
             heap->chunks.all.count + heap->chunks.away_count == heap->chunks.slab.used_count,
         "nodes of spans, runs, waits, retired mappings or chunks are lost");
    MUST(nodes->spans.promised_count == 0 && nodes->waits.promised_count == 0 &&
             nodes->runs.promised_count == IN_CACHES(heap, promised),
         "nodes are still promised"); /* only a transaction in progress has promises */
    for (int i = 0; i < MEND_ZONE_COUNT; i++) {
        const mend_zone_counters *zone = &heap->zones[i].counters;
        all_are = all_are && a->live[i].blocks == zone->live_blocks &&
                  a->live[i].bytes == zone->live_bytes &&
                  a->live[i].requested_bytes == zone->requested_bytes;
        live_bytes += zone->live_bytes;
        births += zone->allocations;
    }
    MUST(all_are && live_bytes == heap->counters.live_bytes && births == heap->counters.births,
         "the counts of live blocks are wrong");
    MUST(a->pending_blocks == heap->usage.pending_blocks[MEND_USAGE_ALL] &&
             a->pending_bytes == heap->usage.pending_bytes[MEND_USAGE_ALL],
         "the counts of pending memory are wrong");
    MUST(mend_exports_are_right(heap, a->exported),
         "the exports are not the blocks that are marked");
    MUST(heap->caching.closings > 0 ||
             heap->caching.keeps_empty_chunks == mend_budget_is_pressed(heap),
         "the front cache does not know how scarce memory is");
    return true;
}

static bool sums_are_right(const mend_validate_walk *a)
{
    const mend_heap *heap = a->heap;
    uint64_t free_bytes = 0;
    uint64_t away_bytes = 0;
    for (int zone = 0; zone < MEND_CHUNK_ZONES; zone++) {
        free_bytes += heap->zones[zone].free_bytes - heap->chunks.away_in[zone];
        away_bytes += heap->chunks.away_live_in[zone];
    }
    MUST(free_bytes + heap->chunks.unmapped_bytes + heap->counters.live_bytes ==
             heap->chunks.reserved_bytes + mend_heap_passed_bytes(heap),
         "live and free do not add up to reserved, asleep and on the host");
    MUST(mend_heap_awake_bytes(heap) + away_bytes + mend_heap_passed_bytes(heap) ==
             heap->counters.live_bytes,
         "sleeping or host memory is not the sum of the zones");
    MUST(MEND_HEAP_SUM(heap, live_blocks) + IN_CACHES(heap, count) == heap->blocks.count,
         "the counts of live blocks are wrong");
    return true;
}

bool mend_observe_validate_sums(const mend_heap *heap, char finding[MEND_VALIDATE_FINDING_BYTES])
{
    return sums_are_right(&(mend_validate_walk){.heap = heap, .finding = finding});
}

bool mend_observe_validate(const mend_heap *heap, char finding[MEND_VALIDATE_FINDING_BYTES])
{
    mend_validate_walk *a = &(mend_validate_walk){.heap = heap, .finding = finding};
    uint64_t retired_bytes = 0;
    uint32_t graph_pools = 0;
    bool begun_are_over = false;
    finding[0] = '\0';
    for (int zone = 0; zone < MEND_ZONE_COUNT; zone++) {
        if (!mend_validate_zone(a, zone)) {
            return false;
        }
    }
    if (!space_is_right(a, &heap->space) || !space_is_right(a, &heap->range_space) ||
        !mend_validate_ranges(a) || !mend_validate_chunks(a)) {
        return false;
    }
    for (const mend_retired *retired = mend_retire_first(heap); retired != NULL;
         retired = mend_retire_next(retired)) {
        retired_bytes += retired->size_bytes;
        if (!mend_validate_waits(a, &retired->waits, retired->address)) {
            return false;
        }
    }
    MUST(retired_bytes == heap->retire.bytes, "the bytes of retired mappings are wrong");
    MEND_LIST_EACH(const mend_graph_pool, graph_pool, link, &heap->graph_pools.list) {
        MUST(!graph_pool->is_begun || !begun_are_over,
             "graph pool %u comes after one that is not begun", graph_pool->number);
        begun_are_over = !graph_pool->is_begun;
        graph_pools++;
    }
    MUST(graph_pools == heap->graph_pools.count, "the count of graph pools is wrong");
    return imports_are_right(a) && streams_are_right(a) && lists_are_right(a) &&
           counts_are_right(a) && sums_are_right(a);
}

bool mend_pool_validate(mend_pool *pool, char finding[MEND_VALIDATE_FINDING_BYTES])
{
    assert(mend_mutex_none_is_held_from(MEND_RANK_GROW));
    mend_heap_lock_to_read(&pool->heap);
    bool is_right = mend_observe_validate(&pool->heap, finding);
    mend_heap_unlock_after_read(&pool->heap);
    return is_right;
}
