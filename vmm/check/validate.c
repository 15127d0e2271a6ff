/* The validation: checks every invariant of the heap from scratch against the records of all rooms.
 * One walk counts objects in all files of the validation. At its end the counts must equal the
 * heap's. Needs both locks: in a transaction the sums alone must hold. */
#include "pool/pool.h"

#include "alloc/users.h"
#include "check/check.h"
#include "check/validate_parts.h"
#include "mend/mend_frameworks.h"
#include "plan/policy.h"
#include "share/share.h"

#define IN_CACHES(heap, figure)                                                                    \
    ((heap)->zones[MEND_ZONE_SMALL].cache.figure + (heap)->zones[MEND_ZONE_LARGE].cache.figure)

/* Every node taken from a slab is in use, and no transaction is in progress, which would have
 * promises. */
static bool nodes_are_right(const mend_validate_walk *a)
{
    const mend_heap *heap = a->heap;
    const mend_nodes *nodes = &heap->nodes;
    MUST(a->spans == nodes->spans.used_count && a->runs == nodes->runs.used_count &&
             a->wait_nodes == nodes->waits.used_count &&
             heap->chunks.deferred.count[MEND_DEFERRED_MAPPING] == heap->retire.nodes.used_count &&
             heap->chunks.all.count + heap->chunks.away_count == heap->chunks.slab.used_count,
         "nodes of spans, runs, waits, retired mappings or chunks are lost");
    MUST(nodes->spans.promised_count == 0 && nodes->waits.promised_count == 0 &&
             nodes->runs.promised_count == IN_CACHES(heap, promised),
         "nodes are still promised");
    return true;
}

/* Begun graph pools come before the others, and the counts are right. */
static bool graph_pools_are_right(const mend_validate_walk *a)
{
    uint32_t count = 0;
    bool begun_are_over = false;
    MEND_LIST_EACH(const mend_graph_pool, graph_pool, link, &a->heap->graph_pools.list) {
        MUST(!graph_pool->is_begun || !begun_are_over,
             "graph pool %u comes after one that is not begun", graph_pool->number);
        begun_are_over = !graph_pool->is_begun;
        count++;
    }
    MUST(count == a->heap->graph_pools.count, "the count of graph pools is wrong");
    return true;
}

static bool counts_are_right(const mend_validate_walk *a)
{
    uint64_t live_bytes = 0;
    uint64_t births = 0;
    bool all_are = true;
    for (int i = 0; i < MEND_ZONE_COUNT; i++) {
        const mend_zone_counters *zone = &a->heap->zones[i].counters;
        all_are = all_are && a->live[i].blocks == zone->live_blocks &&
                  a->live[i].bytes == zone->live_bytes &&
                  a->live[i].requested_bytes == zone->requested_bytes;
        live_bytes += zone->live_bytes;
        births += zone->allocations;
    }
    MUST(all_are && live_bytes == a->heap->counters.live_bytes &&
             births == a->heap->counters.births,
         "the counts of live blocks are wrong");
    MUST(a->pending_blocks == a->heap->usage.pending_blocks[MEND_USAGE_ALL] &&
             a->pending_bytes == a->heap->usage.pending_bytes[MEND_USAGE_ALL],
         "the counts of pending memory are wrong");
    MUST(mend_exports_are_right(a->heap, a->exported),
         "the exports are not the blocks that are marked");
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
    bool is_right = true;
    finding[0] = '\0';
    for (int zone = 0; zone < MEND_ZONE_COUNT && is_right; zone++) {
        is_right = mend_validate_zone(a, zone);
    }
    if (!is_right || !mend_validate_space(a, &heap->space) ||
        !mend_validate_space(a, &heap->range_space) || !mend_validate_ranges(a) ||
        !mend_validate_chunks(a) || !mend_validate_retired(a) || !mend_validate_imports(a) ||
        !mend_validate_streams(a) || !nodes_are_right(a) || !graph_pools_are_right(a) ||
        !counts_are_right(a)) {
        return false;
    }
    MUST(heap->caching.closings > 0 ||
             heap->caching.keeps_empty_chunks == mend_budget_is_pressed(heap),
         "the front cache does not know how scarce memory is");
    return sums_are_right(a);
}

bool mend_pool_validate(mend_pool *pool, char finding[MEND_VALIDATE_FINDING_BYTES])
{
    assert(mend_mutex_none_is_held_from(MEND_RANK_GROW));
    mend_heap_lock_to_read(&pool->heap);
    bool is_right = mend_observe_validate(&pool->heap, finding);
    mend_heap_unlock_after_read(&pool->heap);
    return is_right;
}
