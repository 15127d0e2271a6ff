/* The validation of addresses: chunks, retired mappings and imports. */
#include "check/validate_parts.h"

#include <stdarg.h>
#include <stdio.h>

#include "check/check.h"
#include "map/map.h"
#include "pool/pool.h"
#include "share/share.h"

/* ---- addresses ------------------------------------------------------------------------------- */

/* The size of the import whose mappings begin at an address. 0: none does. */
static uint64_t import_at(const mend_heap *heap, uint64_t address)
{
    mend_imported key = {.address = address};
    mend_tree_node *at = mend_tree_at_or_after(&heap->imports.by_address, &key.mapped.by_address);
    const mend_imported *import = MEND_CONTAINER_OR_NULL(at, mend_imported, mapped.by_address);
    return import != NULL && import->mapped.at == address ? import->mapped.bytes : 0;
}

/* The size of the chunk that is mapped from an address on. 0: none is. */
static uint64_t chunk_at(const mend_heap *heap, uint64_t address)
{
    const mend_chunk *chunk = mend_chunk_from(&heap->chunks, address);
    const bool is_there = chunk != NULL && chunk->address == address;
    return is_there ? chunk->size_bytes : 0;
}

static uint64_t retired_at(const mend_heap *heap, uint64_t address)
{
    const mend_retired *retired = mend_retire_at(heap, address);
    return retired != NULL && retired->address == address ? retired->size_bytes : 0;
}

/* The size of the gap, mapped chunk, retired mapping or import that begins at an address. 0: none
 * does, or two do. */
static uint64_t piece_at(const mend_heap *heap, const mend_space *space, uint64_t address)
{
    const uint64_t pieces[] = {
        mend_space_room_at(space, address),
        chunk_at(heap, address),
        retired_at(heap, address),
        import_at(heap, address),
    };
    uint64_t size_bytes = 0;
    for (size_t i = 0; i < sizeof(pieces) / sizeof(*pieces); i++) {
        if (size_bytes > 0 && pieces[i] > 0) {
            return 0;
        }
        size_bytes += pieces[i];
    }
    return size_bytes;
}

static bool reservation_is_right(const mend_validate_walk *a, const mend_space *space,
                                 const mend_reservation *reservation, size_t *gaps)
{
    uint64_t end = reservation->address + reservation->size_bytes - space->page_bytes;
    uint64_t taken_bytes = 0;
    for (uint64_t address = reservation->address; address < end;) {
        uint64_t size_bytes = piece_at(a->heap, space, address);
        MUST(size_bytes > 0 && size_bytes <= end - address,
             "not exactly one of gap, chunk, retired and import at 0x%llx",
             MEND_VALIDATE_HEX(address));
        bool is_gap = mend_space_room_at(space, address) != 0;
        *gaps += is_gap;
        taken_bytes += is_gap ? 0 : size_bytes;
        address += size_bytes;
    }
    MUST(taken_bytes == reservation->taken_bytes,
         "the taken bytes of the reservation 0x%llx are wrong",
         MEND_VALIDATE_HEX(reservation->address));
    return true;
}

bool mend_validate_space(const mend_validate_walk *a, const mend_space *space)
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

bool mend_validate_retired(mend_validate_walk *a)
{
    const mend_heap *heap = a->heap;
    uint64_t retired_bytes = 0;
    for (const mend_retired *retired = mend_retire_first(heap); retired != NULL;
         retired = mend_retire_next(retired)) {
        retired_bytes += retired->size_bytes;
        if (!mend_validate_waits(a, &retired->waits, retired->address)) {
            return false;
        }
    }
    MUST(retired_bytes == heap->retire.bytes, "the bytes of retired mappings are wrong");
    return true;
}

/* ---- imports --------------------------------------------------------------------------------- */

static bool import_is_right(const mend_validate_walk *a, const mend_imported *import)
{
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
    return true;
}

bool mend_validate_imports(const mend_validate_walk *a)
{
    const mend_imports *imports = &a->heap->imports;
    uint64_t bytes = 0;
    uint64_t mappings = 0;
    MEND_TREE_EACH(const mend_imported, import, mapped.by_address, &imports->by_address) {
        bytes += import->mapped.bytes;
        mappings += import->count;
        if (!import_is_right(a, import)) {
            return false;
        }
    }
    MUST(mend_tree_is_valid(&imports->by_address) && mend_tree_is_valid(&imports->by_name),
         "a tree of imports is out of order");
    MUST(imports->by_address.count == imports->by_name.count && bytes == imports->bytes &&
             mappings == imports->mappings,
         "the counts of imports are wrong");
    return true;
}

/* ---- streams --------------------------------------------------------------------------------- */

/* The validation of streams: their fences, and the stamps that wait for them. Also how to report a
 * finding. */

bool mend_validate_broken(const mend_validate_walk *a, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(a->finding, MEND_VALIDATE_FINDING_BYTES, format, arguments);
    va_end(arguments);
    return false;
}

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

bool mend_validate_streams(const mend_validate_walk *a)
{
    return streams_are_right(a) && lists_are_right(a);
}
