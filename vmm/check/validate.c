/* The validation: checks every invariant of the heap from scratch against the records of all rooms.
 * One walk counts objects in all files of the validation. At its end the counts must equal the
 * heap's. Needs both locks: in a transaction the sums alone must hold. */
#include "pool/pool.h"

#include "alloc/heap.h"
#include "check/check.h"
#include "check/validate_parts.h"
#include "map/map.h"
#include "mend/mend_frameworks.h"
#include "plan/policy.h"
#include "ranges/ranges.h"
#include "share/share.h"

#define CHUNK_OF(node) MEND_CONTAINER_OF(node, mend_chunk, by_address)

#define IN_CACHES(heap, figure)                                                                    \
    ((heap)->zones[MEND_ZONE_SMALL].cache.figure + (heap)->zones[MEND_ZONE_LARGE].cache.figure)

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
             "not exactly one of gap, chunk, retired and import at 0x%lx", address);
        *gaps += pieces[0] > 0;
        taken_bytes += pieces[0] > 0 ? 0 : size_bytes;
        address += size_bytes;
    }
    MUST(taken_bytes == reservation->taken_bytes,
         "the taken bytes of the reservation 0x%lx are wrong", reservation->address);
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

/* ---- ranges ---------------------------------------------------------------------------------- */

/* A chunk of the zone lies inside a page, is live as a whole or not at all, and is on the device.
 * Others lie in no range. The sums of each range match its chunks, which are neighbors in the tree.
 * Chunks outside of the ranges with chunks do not exist. */
static bool chunks_are_right(const mend_validate_walk *a, uint64_t bytes_of_ranges)
{
    uint64_t all_bytes = 0;
    const mend_tree_node *at = mend_tree_first(&a->heap->chunks.mapped);
    while (at != NULL) {
        const mend_chunk_sums *sums = CHUNK_OF(at)->sums;
        mend_chunk_sums found = {0};
        for (; at != NULL && CHUNK_OF(at)->sums == sums; at = mend_tree_next(at)) {
            const mend_chunk *chunk = CHUNK_OF(at);
            const bool sleeps = mend_chunk_sleeps(chunk);
            const mend_range *range = mend_range_at(a->heap, chunk->address);
            bool is_right = (range != NULL) == (chunk->zone == MEND_ZONE_RANGE) &&
                            sums == (range != NULL ? &range->sums : NULL);
            if (is_right && range != NULL) {
                const size_t page = mend_range_page_of(range, chunk->address);
                is_right =
                    chunk->address + chunk->size_bytes <= mend_range_page_start(range, page + 1) &&
                    chunk->live_bytes == (range->pages[page] != NULL ? chunk->size_bytes : 0);
            }
            MUST(is_right, "the chunk 0x%lx does not fit its page of a range", chunk->address);
            found.mapped_bytes += sleeps ? 0 : chunk->size_bytes;
            found.asleep_live_bytes += sleeps ? chunk->live_bytes : 0;
        }
        MUST(sums == NULL || (found.mapped_bytes == sums->mapped_bytes &&
                              found.asleep_live_bytes == sums->asleep_live_bytes),
             "the mapped bytes of a range are wrong");
        all_bytes += sums != NULL ? found.mapped_bytes + found.asleep_live_bytes : 0;
    }
    MUST(all_bytes == bytes_of_ranges, "a range without chunks has mapped bytes");
    return true;
}

static bool ranges_are_right(const mend_validate_walk *a)
{
    const mend_ranges *ranges = &a->heap->ranges;
    size_t deferred = 0;
    uint64_t all_committed = 0;
    uint64_t bytes = 0;
    MEND_TREE_EACH(const mend_range, range, by_address, &ranges->by_address) {
        deferred += range->deferred.kind != MEND_DEFERRED_NOTHING;
        bytes += range->sums.mapped_bytes + range->sums.asleep_live_bytes;
        const size_t pages = (size_t)(range->size_bytes / range->page_bytes);
        uint64_t committed = 0;
        for (size_t i = 0; i < pages; i++) {
            const mend_span *span = range->pages[i];
            MUST(span == NULL || (span->live && span->zone == MEND_ZONE_RANGE &&
                                  !span->of_graph_pool && span->size_bytes == range->page_bytes &&
                                  span->address == mend_range_page_start(range, i)),
                 "page %zu of the range 0x%lx is not its span", i, range->address);
            committed += span != NULL;
        }
        MUST(committed * range->page_bytes == range->committed_bytes &&
                 (committed == 0 || !range->is_closed),
             "the committed bytes of the range 0x%lx are wrong", range->address);
        MUST(range->deferred.kind ==
                 (range->is_closed ? MEND_DEFERRED_RANGE : MEND_DEFERRED_NOTHING),
             "deferred work of a range is not noted");
        all_committed += committed;
    }
    MUST(deferred == a->heap->chunks.deferred.count[MEND_DEFERRED_RANGE],
         "deferred work of ranges is wrong");
    MEND_LIST_EACH(const mend_reservation, reservation, link, &a->heap->range_space.reservations) {
        const mend_range *range = mend_range_at(a->heap, reservation->address);
        MUST(range != NULL && range->address == reservation->address &&
                 range->size_bytes + a->heap->range_space.page_bytes == reservation->size_bytes,
             "the reservation 0x%lx belongs to no range", reservation->address);
    }
    MUST(mend_tree_is_valid(&ranges->by_address) &&
             ranges->by_address.count == a->heap->range_space.reservations_by_address.count &&
             all_committed == a->live[MEND_ZONE_RANGE].blocks,
         "the counts of ranges and of their pages are wrong");
    return chunks_are_right(a, bytes);
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
             "the import at 0x%lx is wrong", import->address);
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
             a->records == heap->chunks.slab.used_count,
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
        !ranges_are_right(a) || !mend_validate_chunks(a)) {
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
    return imports_are_right(a) && mend_validate_streams(a) && counts_are_right(a) &&
           sums_are_right(a);
}

bool mend_pool_validate(mend_pool *pool, char finding[MEND_VALIDATE_FINDING_BYTES])
{
    assert(mend_mutex_none_is_held_from(MEND_RANK_GROW));
    mend_heap_lock_to_read(&pool->heap);
    bool is_right = mend_observe_validate(&pool->heap, finding);
    mend_heap_unlock_after_read(&pool->heap);
    return is_right;
}
