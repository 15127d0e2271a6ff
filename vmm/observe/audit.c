#include "observe/audit.h"

#include <stdarg.h>
#include <stdio.h>

#include "heap/cache.h"
#include "heap/group.h"
#include "heap/layout.h"
#include "heap/scarcity.h"

#define RUN_OF(node)         MEND_CONTAINER_OF(node, mend_run, by_address)
#define CHUNK_OF(node)       MEND_CONTAINER_OF(node, mend_chunk, by_address)
#define RETIRED_OF(node)     MEND_CONTAINER_OF(node, mend_retired, by_address)
#define GAP_OF(node)         MEND_CONTAINER_OF(node, mend_gap, by_address)
#define SEGMENT_OF(node)     MEND_CONTAINER_OF(node, mend_span, by_end)
#define RESERVATION_OF(node) MEND_CONTAINER_OF(node, mend_reservation, link)

#define HEX(value)           ((unsigned long long)(value))
#define IN_CACHES(heap, figure)                                                                    \
    ((heap)->zones[MEND_ZONE_SMALL].cache.figure + (heap)->zones[MEND_ZONE_LARGE].cache.figure)

typedef struct audit {
    const mend_heap *heap;
    char *finding;
    struct {
        uint64_t blocks;
        uint64_t bytes;
        uint64_t requested_bytes;
    } live[MEND_ZONE_COUNT];
    uint32_t cached[MEND_ZONE_COUNT]; /* spans that say so */
    uint64_t spans;
    uint64_t runs;
    uint64_t wait_nodes;
} audit;

__attribute__((format(printf, 2, 3))) static bool broken(const audit *a, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(a->finding, MEND_AUDIT_FINDING_BYTES, format, arguments);
    va_end(arguments);
    return false;
}

/* ---- waits --------------------------------------------------------------------------------------
 */

/* Work that is not known to be done has a fence, or belongs to what is still open. A user declared
 * for a live block has no epoch yet, and is known but where streams end without a word. */
static bool stamp_is_right(const audit *a, mend_stamp stamp, bool may_be_user)
{
    const mend_streams *streams = &a->heap->streams;
    if (stamp.stream >= streams->count) {
        return false;
    }
    const mend_stream_state *state = &streams->items[stamp.stream];
    if (stamp.epoch == 0) {
        return !may_be_user || state->known || state->group != 0 || streams->verify;
    }
    return mend_stamp_has_passed(streams, stamp) || mend_stamp_has_fence(streams, stamp) ||
           (stamp.epoch <= state->open_epoch && state->open);
}

static bool waits_are_right(audit *a, const mend_waits *waits, uint64_t address)
{
    bool are_right = stamp_is_right(a, waits->first, false);
    for (const mend_wait *at = waits->others; at != NULL; at = at->next) {
        are_right = are_right && stamp_is_right(a, at->stamp, true);
        a->wait_nodes++;
    }
    return are_right || broken(a, "0x%llx waits for what never comes", HEX(address));
}

/* Fences stand in order, behind what has passed and before the open epoch; those of a group are
 * recorded when it is released. */
static bool streams_are_right(const audit *a)
{
    const mend_streams *streams = &a->heap->streams;
    uint64_t events = streams->spare_count;
    for (uint32_t i = 0; i < streams->count; i++) {
        const mend_stream_state *state = &streams->items[i];
        uint64_t epoch = state->passed_epoch;
        for (size_t k = 0; k < state->fence_count; k++) {
            if (state->fences[k].epoch <= epoch) {
                return broken(a, "stream %u: the fence of epoch %llu is out of order", i,
                              HEX(state->fences[k].epoch));
            }
            epoch = state->fences[k].epoch;
        }
        if (state->open_epoch <= epoch || state->awaited_epoch != 0) {
            return broken(a, "stream %u: epoch %llu is open and has a fence", i, HEX(epoch));
        }
        bool nothing_passed =
            state->fence_count == 0 && state->passed_epoch + 1 == state->open_epoch;
        if (state->group != 0 && !nothing_passed) {
            return broken(a, "stream %u: memory of a group became idle", i);
        }
        events += state->fence_count;
    }
    return events == streams->events_held || broken(a, "the counts of events are wrong");
}

/* ---- spans and runs ----------------------------------------------------------------------------
 */

static bool run_is_right(const audit *a, const mend_zone *zone, const mend_span *first,
                         const mend_span *last)
{
    uint64_t size_bytes = last->address + last->size_bytes - first->address;
    const mend_run *run = first->run;
    if (run == NULL || run != last->run || run->first != first || run->last != last ||
        run->address != first->address || run->size_bytes != size_bytes) {
        return broken(a, "the free spans from 0x%llx form no run", HEX(first->address));
    }
    if (run->extensible != (last->next == NULL)) {
        return broken(a, "run 0x%llx: extensible is wrong", HEX(run->address));
    }
    mend_run key = {.address = run->address, .size_bytes = run->size_bytes};
    bool in_growth =
        mend_tree_at_or_after(&zone->runs_by_growth, &key.by_growth) == &run->by_growth;
    if (mend_tree_at_or_after(&zone->runs_by_address, &key.by_address) != &run->by_address ||
        mend_tree_at_or_after(&zone->runs_by_size, &key.by_size) != &run->by_size ||
        in_growth != run->extensible) {
        return broken(a, "run 0x%llx is not in its indices", HEX(run->address));
    }
    return true;
}

/* Free, but in a chunk that a swap could not map again: nobody may have it. */
static bool is_claimed(const audit *a, const mend_span *span)
{
    return !span->live && mend_layout_misses_mapping(a->heap, span);
}

/* It stands in the list, beside nothing that it should have been joined with, and will be ready for
 * the stream it was freed on. */
static bool cached_is_right(audit *a, const mend_span *span)
{
    mend_stamp stamp = span->waits.first;
    const mend_span *left = span->previous;
    const mend_span *right = span->next;
    const mend_cache *cache = &a->heap->zones[span->zone].cache;
    bool is_listed = span->place < cache->count && cache->spans[span->place] == span;
    if (!is_listed || span->live || span->run != NULL || span->waits.others != NULL ||
        stamp.stream >= a->heap->streams.count || stamp.stream == MEND_STREAM_UNKNOWN ||
        a->heap->streams.items[stamp.stream].group != 0 || (left != NULL && !left->live) ||
        (right != NULL && !right->live && right->run == NULL)) {
        return broken(a, "span 0x%llx should not be cached", HEX(span->address));
    }
    a->cached[span->zone]++;
    return true;
}

/* A cache holds what is cached in its zone, and nothing while it is closed. */
static bool cache_is_right(const audit *a, int zone)
{
    const mend_cache *cache = &a->heap->zones[zone].cache;
    return (cache->count == a->cached[zone] && cache->count <= cache->promised &&
            cache->promised <= MEND_CACHE_SPANS &&
            (cache->promised == 0 || a->heap->cache_closings == 0)) ||
           broken(a, "the front cache of zone %d is wrong", zone);
}

static bool span_is_right(audit *a, const mend_span *span, int zone)
{
    const mend_heap *heap = a->heap;
    if (span->zone != zone || span->size_bytes == 0 ||
        (span->address | span->size_bytes) % MEND_GRANULE_BYTES != 0) {
        return broken(a, "span 0x%llx has a wrong zone, size or address", HEX(span->address));
    }
    if (span->next != NULL &&
        (span->next->previous != span || span->address + span->size_bytes != span->next->address)) {
        return broken(a, "span 0x%llx does not touch its neighbour", HEX(span->address));
    }
    bool in_map = mend_pointer_map_find(&heap->blocks, span->address) == span;
    if (in_map != (span->live || span->cached)) {
        return broken(a, "span 0x%llx: live and the pointer map disagree", HEX(span->address));
    }
    if (span->chunk != mend_chunk_at(&heap->chunks, span->address)) {
        return broken(a, "span 0x%llx begins in another chunk", HEX(span->address));
    }
    if (is_claimed(a, span) && (span->run != NULL || span->cached)) {
        return broken(a, "span 0x%llx can be taken, and is not mapped", HEX(span->address));
    }
    if (span->cached && !cached_is_right(a, span)) {
        return false;
    }
    if (!waits_are_right(a, &span->waits, span->address)) {
        return false;
    }
    if (span->live) {
        a->live[span->zone].blocks++;
        a->live[span->zone].bytes += span->size_bytes;
        a->live[span->zone].requested_bytes += span->requested_bytes;
    }
    a->spans++;
    return true;
}

/* Free, and in no run. */
static bool stands_apart(const audit *a, const mend_span *span)
{
    return span->cached || is_claimed(a, span);
}

/* Walks a segment from its end; adds its runs and free bytes to the zone's totals. */
static bool segment_is_right(audit *a, int zone_number, const mend_span *end, size_t *runs,
                             uint64_t *free_bytes)
{
    const mend_zone *zone = &a->heap->zones[zone_number];
    const mend_span *run_last = NULL;
    if (end->next != NULL) {
        return broken(a, "span 0x%llx is no segment's end", HEX(end->address));
    }
    for (const mend_span *span = end; span != NULL; span = span->previous) {
        if (!span_is_right(a, span, zone_number)) {
            return false;
        }
        if (span->live) {
            continue;
        }
        *free_bytes += span->size_bytes;
        if (stands_apart(a, span)) {
            continue;
        }
        run_last = run_last != NULL ? run_last : span;
        if (span->previous == NULL || span->previous->live || stands_apart(a, span->previous)) {
            if (!run_is_right(a, zone, span, run_last)) {
                return false;
            }
            run_last = NULL;
            (*runs)++;
        }
    }
    return true;
}

static bool zone_is_right(audit *a, int zone_number)
{
    const mend_zone *zone = &a->heap->zones[zone_number];
    size_t runs = 0;
    uint64_t free_bytes = 0;
    if (!mend_tree_is_valid(&zone->runs_by_address) || !mend_tree_is_valid(&zone->runs_by_size) ||
        !mend_tree_is_valid(&zone->runs_by_growth) || !mend_tree_is_valid(&zone->segment_ends)) {
        return broken(a, "a tree of zone %d is out of order", zone_number);
    }
    for (mend_tree_node *at = mend_tree_first(&zone->segment_ends); at != NULL;
         at = mend_tree_next(at)) {
        if (!segment_is_right(a, zone_number, SEGMENT_OF(at), &runs, &free_bytes)) {
            return false;
        }
    }
    if (runs != zone->runs_by_address.count || runs != zone->runs_by_size.count) {
        return broken(a, "zone %d has %zu runs, its indices %zu and %zu", zone_number, runs,
                      zone->runs_by_address.count, zone->runs_by_size.count);
    }
    a->runs += runs;
    if (!cache_is_right(a, zone_number)) {
        return false;
    }
    if (free_bytes != zone->free_bytes) {
        return broken(a, "zone %d: %llu bytes are free, %llu are counted", zone_number,
                      HEX(free_bytes), HEX(zone->free_bytes));
    }
    return true;
}

/* ---- chunks -------------------------------------------------------------------------------------
 */

static bool chunk_is_right(const audit *a, const mend_chunk *chunk)
{
    const mend_heap *heap = a->heap;
    uint64_t live_bytes = 0;
    uint64_t end = chunk->address + chunk->size_bytes;
    const mend_span *span = mend_heap_span_at(heap, end - 1);
    if (span == NULL) {
        return broken(a, "chunk 0x%llx has no spans", HEX(chunk->address));
    }
    for (; span != NULL && span->address + span->size_bytes > chunk->address;
         span = span->previous) {
        uint64_t from = mend_max_u64(span->address, chunk->address);
        uint64_t to = mend_min_u64(span->address + span->size_bytes, end);
        live_bytes += span->live ? to - from : 0;
        if (from == chunk->address) {
            break;
        }
    }
    if (live_bytes != chunk->live_bytes) {
        return broken(a, "chunk 0x%llx: %llu bytes are live, %llu are counted", HEX(chunk->address),
                      HEX(live_bytes), HEX(chunk->live_bytes));
    }
    return true;
}

static bool chunks_are_right(const audit *a)
{
    const mend_chunks *chunks = &a->heap->chunks;
    uint64_t reserved_bytes = 0;
    uint64_t whole_bytes = 0;
    uint64_t unmapped_bytes = 0;
    uint64_t lost_bytes = 0;
    size_t whole = 0;
    size_t mapped = 0;
    size_t held = 0;
    size_t missing = 0;
    if (!mend_chunks_are_in_order(chunks)) {
        return broken(a, "a tree of chunks is out of order");
    }
    for (mend_tree_node *at = mend_tree_first(&chunks->all); at != NULL; at = mend_tree_next(at)) {
        const mend_chunk *chunk = MEND_CONTAINER_OF(at, mend_chunk, by_number);
        reserved_bytes += chunk->size_bytes;
        whole_bytes += mend_chunk_is_whole(chunk) ? chunk->size_bytes : 0;
        whole += mend_chunk_is_whole(chunk);
        held += chunk->is_held;
        missing += chunk->missing != MEND_MISSING_NOTHING;
        lost_bytes += chunk->missing == MEND_MISSING_MAPPING ? chunk->size_bytes : 0;
        mapped += chunk->address != 0;
        unmapped_bytes += chunk->address == 0 ? chunk->size_bytes : 0;
        if (chunk->address != 0 && !chunk_is_right(a, chunk)) {
            return false;
        }
    }
    if (reserved_bytes != chunks->reserved_bytes || whole_bytes != chunks->whole_bytes ||
        unmapped_bytes != chunks->unmapped_bytes || whole != chunks->whole.count ||
        mapped != chunks->mapped.count || held != chunks->held_count) {
        return broken(a, "the counts of chunks are wrong");
    }
    if (held != missing || missing != chunks->missing_count || lost_bytes != chunks->lost_bytes) {
        return broken(a, "a chunk is held that misses nothing");
    }
    return true;
}

/* ---- addresses
 * ------------------------------------------------------------------------------------ */

/* What begins at an address: a gap, a mapped chunk or a retired mapping; 0 when nothing does. */
static uint64_t piece_at(const audit *a, const mend_zone *zone, uint64_t address)
{
    const mend_heap *heap = a->heap;
    uint64_t size_bytes = mend_space_room_at(&zone->space, address);
    mend_chunk chunk_key = {.address = address};
    mend_tree_node *at = mend_tree_at_or_after(&heap->chunks.mapped, &chunk_key.by_address);
    if (at != NULL && CHUNK_OF(at)->address == address) {
        size_bytes = size_bytes == 0 ? CHUNK_OF(at)->size_bytes : 0;
    }
    mend_retired retired_key = {.address = address};
    at = mend_tree_at_or_after(&heap->retired, &retired_key.by_address);
    if (at != NULL && RETIRED_OF(at)->address == address) {
        size_bytes = size_bytes == 0 ? RETIRED_OF(at)->size_bytes : 0;
    }
    return size_bytes;
}

static bool space_is_right(const audit *a, int zone_number)
{
    const mend_zone *zone = &a->heap->zones[zone_number];
    const mend_space *space = &zone->space;
    uint64_t address_bytes = 0;
    const mend_list *head = &space->reservations;
    for (const mend_list *at = head->next; at != head; at = at->next) {
        const mend_reservation *reservation = RESERVATION_OF(at);
        uint64_t end = reservation->address + reservation->size_bytes - space->page_bytes;
        address_bytes += reservation->size_bytes;
        for (uint64_t address = reservation->address; address < end;) {
            uint64_t size_bytes = piece_at(a, zone, address);
            if (size_bytes == 0 || size_bytes > end - address) {
                return broken(a, "zone %d: not exactly one of gap, chunk and retired at 0x%llx",
                              zone_number, HEX(address));
            }
            address += size_bytes;
        }
    }
    if (address_bytes != space->address_bytes) {
        return broken(a, "zone %d: the bytes of reservations are wrong", zone_number);
    }
    return true;
}

static bool retired_are_right(audit *a)
{
    const mend_heap *heap = a->heap;
    uint64_t retired_bytes = 0;
    if (!mend_tree_is_valid(&heap->retired)) {
        return broken(a, "the tree of retired mappings is out of order");
    }
    for (mend_tree_node *at = mend_tree_first(&heap->retired); at != NULL;
         at = mend_tree_next(at)) {
        const mend_retired *retired = RETIRED_OF(at);
        retired_bytes += retired->size_bytes;
        if (!waits_are_right(a, &retired->waits, retired->address)) {
            return false;
        }
    }
    return retired_bytes == heap->retired_bytes ||
           broken(a, "the bytes of retired mappings are wrong");
}

/* Every node that was taken stands somewhere. */
static bool nodes_are_right(const audit *a)
{
    const mend_heap *heap = a->heap;
    return (a->spans == heap->span_slab.used_count && a->runs == heap->run_slab.used_count &&
            a->wait_nodes == heap->wait_slab.used_count &&
            heap->retired.count == heap->retired_slab.used_count &&
            heap->chunks.all.count == heap->chunks.slab.used_count) ||
           broken(a, "nodes of spans, runs, waits, retired mappings or chunks are lost");
}

/* Nobody is in the midst of a transaction, whose claims would be missed elsewhere. */
static bool nothing_is_claimed(const audit *a)
{
    const mend_heap *heap = a->heap;
    for (mend_tree_node *at = mend_tree_first(&heap->chunks.all); at != NULL;
         at = mend_tree_next(at)) {
        if (MEND_CONTAINER_OF(at, mend_chunk, by_number)->claimed_address != 0) {
            return broken(a, "a chunk is claimed by nobody");
        }
    }
    if (heap->span_slab.promised_count != 0 ||
        heap->run_slab.promised_count != IN_CACHES(heap, promised) ||
        heap->wait_slab.promised_count != 0) {
        return broken(a, "nodes are promised to nobody");
    }
    return true;
}

/* Groups that are begun stand before the others, and all are counted. */
static bool groups_are_right(const audit *a)
{
    uint32_t count = 0;
    bool begun_are_over = false;
    const mend_list *end = &a->heap->groups;
    for (const mend_list *at = end->next; at != end; at = at->next) {
        const mend_group *group = MEND_CONTAINER_OF(at, mend_group, link);
        if (group->is_begun && begun_are_over) {
            return broken(a, "group %u stands behind one that is not begun", group->number);
        }
        begun_are_over = !group->is_begun;
        count++;
    }
    return count == a->heap->group_count || broken(a, "the count of groups is wrong");
}

static bool counts_are_right(const audit *a)
{
    uint64_t live_bytes = 0;
    bool all_are = true;
    for (int i = 0; i < MEND_ZONE_COUNT; i++) {
        const mend_zone_counters *zone = &a->heap->counters.zone[i];
        all_are = all_are && a->live[i].blocks == zone->allocations - zone->frees &&
                  a->live[i].bytes == zone->live_bytes &&
                  a->live[i].requested_bytes == zone->requested_bytes;
        live_bytes += zone->live_bytes;
    }
    return (all_are && live_bytes == a->heap->counters.live_bytes) ||
           broken(a, "the counts of live blocks are wrong");
}

bool mend_observe_audit_sums(const mend_heap *heap, char finding[MEND_AUDIT_FINDING_BYTES])
{
    audit a = {.heap = heap, .finding = finding};
    uint64_t free_bytes = heap->zones[0].free_bytes + heap->zones[1].free_bytes;
    if (free_bytes + heap->chunks.unmapped_bytes + heap->counters.live_bytes !=
        heap->chunks.reserved_bytes) {
        return broken(&a, "live and free do not add up to reserved");
    }
    if (mend_heap_live_blocks(heap) + IN_CACHES(heap, count) != heap->blocks.count) {
        return broken(&a, "the counts of live blocks are wrong");
    }
    return true;
}

bool mend_observe_audit(const mend_heap *heap, char finding[MEND_AUDIT_FINDING_BYTES])
{
    audit a = {.heap = heap, .finding = finding};
    finding[0] = '\0';
    for (int zone = 0; zone < MEND_ZONE_COUNT; zone++) {
        if (!zone_is_right(&a, zone) || !space_is_right(&a, zone)) {
            return false;
        }
    }
    if (!chunks_are_right(&a) || !retired_are_right(&a) || !streams_are_right(&a) ||
        !nodes_are_right(&a) || !nothing_is_claimed(&a) || !groups_are_right(&a) ||
        !counts_are_right(&a)) {
        return false;
    }
    if (heap->cache_closings == 0 &&
        heap->cache_spares_chunks != (mend_heap_scarcity(heap) != MEND_AMPLE)) {
        return broken(&a, "the front cache does not know how scarce memory is");
    }
    return mend_observe_audit_sums(heap, finding);
}
