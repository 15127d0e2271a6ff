/* The audit: checks every invariant of the heap from scratch against the records of all rooms. */
#include "observe/observe.h"

#include "observe/audit_parts.h"
#include "policy/policy.h"
#include "users/users.h"

#define IN_CACHES(heap, figure)                                                                    \
    ((heap)->zones[MEND_ZONE_SMALL].cache.figure + (heap)->zones[MEND_ZONE_LARGE].cache.figure)

/* Every node taken from a slab is in use. */
static bool nodes_are_right(const mend_audit_walk *a)
{
    const mend_heap *heap = a->heap;
    return (a->spans == heap->nodes.spans.used_count && a->runs == heap->nodes.runs.used_count &&
            a->wait_nodes == heap->nodes.waits.used_count &&
            heap->chunks.owing.count[MEND_OWED_MAPPING] == heap->retire.nodes.used_count &&
            heap->chunks.all.count + heap->chunks.away_count +
                    heap->chunks.owing.count[MEND_OWED_ALIAS] ==
                heap->chunks.slab.used_count) ||
           mend_audit_broken(a, "nodes of spans, runs, waits, retired mappings or chunks are lost");
}

static bool nodes_of_addresses_are_right(const mend_audit_walk *a, const mend_space *space)
{
    return (space->gaps.count == space->gap_slab.used_count &&
            space->reservation_count == space->reservation_slab.used_count) ||
           mend_audit_broken(a, "nodes of gaps or reservations are lost");
}

/* No transaction is in progress; the other checks do not expect its claims. */
static bool nothing_is_claimed(const mend_audit_walk *a)
{
    const mend_heap *heap = a->heap;
    for (mend_tree_node *at = mend_tree_first(&heap->chunks.all); at != NULL;
         at = mend_tree_next(at)) {
        if (MEND_CONTAINER_OF(at, mend_chunk, by_number)->claimed_address != 0) {
            return mend_audit_broken(a, "a chunk is still claimed");
        }
    }
    if (heap->nodes.spans.promised_count != 0 ||
        heap->nodes.runs.promised_count != IN_CACHES(heap, promised) ||
        heap->nodes.waits.promised_count != 0) {
        return mend_audit_broken(a, "nodes are still promised");
    }
    return true;
}

/* Begun groups come before the others, and the counts are right. */
static bool groups_are_right(const mend_audit_walk *a)
{
    uint32_t count = 0;
    bool begun_are_over = false;
    const mend_list *end = &a->heap->groups.list;
    for (const mend_list *at = end->next; at != end; at = at->next) {
        const mend_group *group = MEND_CONTAINER_OF(at, mend_group, link);
        if (group->is_begun && begun_are_over) {
            return mend_audit_broken(a, "group %u comes after one that is not begun",
                                     group->number);
        }
        begun_are_over = !group->is_begun;
        count++;
    }
    return count == a->heap->groups.count || mend_audit_broken(a, "the count of groups is wrong");
}

static bool exports_are_right(const mend_audit_walk *a)
{
    return mend_exports_are_right(a->heap, a->exported) ||
           mend_audit_broken(a, "the exports are not the blocks that are marked");
}

static bool counts_are_right(const mend_audit_walk *a)
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
           mend_audit_broken(a, "the counts of live blocks are wrong");
}

/* A scope has the bytes of its own spans and of the scopes inside it. */
static bool scopes_are_right(const mend_audit_walk *a)
{
    const mend_scope_table *scopes = &a->heap->scopes;
    uint64_t own_bytes = 0;
    uint64_t own_blocks = 0;
    uint64_t live_bytes = 0;
    for (uint32_t i = 1; i < scopes->capacity; i++) {
        const mend_scope_figures *of = &scopes->of[i];
        own_bytes += mend_audit_weight_of(i) * of->own_bytes;
        own_blocks += mend_audit_weight_of(i) * of->own_blocks;
        live_bytes += mend_audit_weight_of(i) * (of->live_bytes - of->own_bytes) -
                      mend_audit_weight_of(of->around) * of->live_bytes;
    }
    return (own_bytes == a->scope_bytes && own_blocks == a->scope_blocks && live_bytes == 0) ||
           mend_audit_broken(a, "the counts of scopes are wrong");
}

bool mend_observe_audit_sums(const mend_heap *heap, char finding[MEND_AUDIT_FINDING_BYTES])
{
    mend_audit_walk a = {
        .heap = heap, .finding = finding, .finding_bytes = MEND_AUDIT_FINDING_BYTES};
    uint64_t free_bytes = 0;
    for (int zone = 0; zone < MEND_ZONE_COUNT; zone++) {
        free_bytes += heap->zones[zone].free_bytes;
    }
    if (free_bytes + heap->chunks.unmapped_bytes + heap->counters.live_bytes !=
        heap->chunks.reserved_bytes + heap->chunks.away_bytes + heap->chunks.host_bytes) {
        return mend_audit_broken(&a,
                                 "live and free do not add up to reserved, asleep and on the host");
    }
    if (mend_heap_live_blocks(heap) + IN_CACHES(heap, count) != heap->blocks.count) {
        return mend_audit_broken(&a, "the counts of live blocks are wrong");
    }
    return true;
}

bool mend_observe_audit(const mend_heap *heap, char finding[MEND_AUDIT_FINDING_BYTES])
{
    mend_audit_walk a = {
        .heap = heap, .finding = finding, .finding_bytes = MEND_AUDIT_FINDING_BYTES};
    finding[0] = '\0';
    for (int zone = 0; zone < MEND_ZONE_COUNT; zone++) {
        if (!mend_audit_zone(&a, zone)) {
            return false;
        }
    }
    if (!mend_audit_space(&a, &heap->space) || !mend_audit_space(&a, &heap->ranges.space) ||
        !mend_audit_ranges(&a) || !mend_audit_chunks(&a) || !mend_audit_aliases(&a) ||
        !mend_audit_retired(&a) || !mend_audit_imports(&a) || !exports_are_right(&a) ||
        !mend_audit_streams(&a) || !nodes_are_right(&a) ||
        !nodes_of_addresses_are_right(&a, &heap->space) ||
        !nodes_of_addresses_are_right(&a, &heap->ranges.space) || !nothing_is_claimed(&a) ||
        !groups_are_right(&a) || !counts_are_right(&a) || !scopes_are_right(&a)) {
        return false;
    }
    if (heap->caching.closings == 0 &&
        heap->caching.keeps_empty_chunks != mend_budget_spares_empty(heap)) {
        return mend_audit_broken(&a, "the front cache does not know how scarce memory is");
    }
    return mend_observe_audit_sums(heap, finding);
}
