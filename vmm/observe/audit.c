#include "observe/audit.h"

#include <stdarg.h>
#include <stdio.h>

#include "observe/audit_parts.h"
#include "policy/budget.h"
#include "users/group.h"

#define IN_CACHES(heap, figure)                                                                    \
    ((heap)->zones[MEND_ZONE_SMALL].cache.figure + (heap)->zones[MEND_ZONE_LARGE].cache.figure)

bool mend_audit_broken(const mend_audit_walk *a, const char *format, ...)
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
static bool stamp_is_right(const mend_audit_walk *a, mend_stamp stamp, bool may_be_user)
{
    const mend_streams *streams = &a->heap->streams;
    if (stamp.stream >= streams->count) {
        return false;
    }
    const mend_stream_state *state = &streams->items[stamp.stream];
    if (stamp.epoch == 0) {
        return !may_be_user || state->known || state->group != 0 || state->has_ended ||
               streams->verify;
    }
    return mend_stamp_has_passed(streams, stamp) || mend_stamp_has_fence(streams, stamp) ||
           state->recordings > 0 || (stamp.epoch <= state->open_epoch && state->open);
}

/* What a user adds to a sum over all: sums over other users differ. */
static uint64_t mark_of(uint32_t stream)
{
    uint64_t mark = (stream + 1) * UINT64_C(0x9E3779B97F4A7C15);
    return (mark ^ (mark >> 29)) * UINT64_C(0xBF58476D1CE4E5B9);
}

bool mend_audit_waits(mend_audit_walk *a, const mend_waits *waits, uint64_t address)
{
    bool are_right = stamp_is_right(a, waits->first, false);
    for (const mend_wait *at = waits->others; at != NULL; at = at->next) {
        are_right = are_right && stamp_is_right(a, at->stamp, true);
        a->wait_nodes++;
        a->user_marks += at->stamp.epoch == 0 ? mark_of(at->stamp.stream) : 0;
    }
    return are_right ||
           mend_audit_broken(a, "0x%llx waits for what never comes", MEND_AUDIT_HEX(address));
}

/* Fences stand in order, behind what has passed and before the open epoch; those of a group are
 * recorded when it is released. */
static bool streams_are_right(const mend_audit_walk *a)
{
    const mend_streams *streams = &a->heap->streams;
    uint64_t events = streams->idle_event_count;
    for (uint32_t i = 0; i < streams->count; i++) {
        const mend_stream_state *state = &streams->items[i];
        uint64_t epoch = state->passed_epoch;
        for (size_t k = 0; k < state->fence_count; k++) {
            if (state->fences[k].epoch <= epoch) {
                return mend_audit_broken(a, "stream %u: the fence of epoch %llu is out of order", i,
                                         MEND_AUDIT_HEX(state->fences[k].epoch));
            }
            epoch = state->fences[k].epoch;
        }
        if (state->open_epoch <= epoch || state->awaited_epoch != 0) {
            return mend_audit_broken(a, "stream %u: epoch %llu is open and has a fence", i,
                                     MEND_AUDIT_HEX(epoch));
        }
        bool nothing_passed = state->fence_count == 0 && state->passed_epoch < state->first_epoch;
        if (state->group != 0 && !nothing_passed) {
            return mend_audit_broken(a, "stream %u: memory of a group became idle", i);
        }
        events += state->fence_count + state->recordings;
    }
    return events == streams->events_held || mend_audit_broken(a, "the counts of events are wrong");
}

/* Each stream counts the nodes that name it as a user, and nothing else does. */
static bool users_are_right(const mend_audit_walk *a)
{
    const mend_streams *streams = &a->heap->streams;
    uint64_t marks = 0;
    for (uint32_t i = 0; i < streams->count; i++) {
        marks += streams->items[i].users * mark_of(i);
    }
    return marks == a->user_marks ||
           mend_audit_broken(a, "the counts of users of blocks are wrong");
}

/* ---- counts and the whole
 * ------------------------------------------------------------------------
 */

/* Every node that was taken stands somewhere. */
static bool nodes_are_right(const mend_audit_walk *a)
{
    const mend_heap *heap = a->heap;
    return (a->spans == heap->span_slab.used_count && a->runs == heap->run_slab.used_count &&
            a->wait_nodes == heap->wait_slab.used_count &&
            heap->retired.count == heap->retired_slab.used_count &&
            heap->chunks.all.count == heap->chunks.slab.used_count) ||
           mend_audit_broken(a, "nodes of spans, runs, waits, retired mappings or chunks are lost");
}

static bool nodes_of_addresses_are_right(const mend_audit_walk *a)
{
    const mend_space *space = &a->heap->space;
    return (space->gaps.count == space->gap_slab.used_count &&
            space->reservation_count == space->reservation_slab.used_count) ||
           mend_audit_broken(a, "nodes of gaps or reservations are lost");
}

/* Nobody is in the midst of a transaction, whose claims would be missed elsewhere. */
static bool nothing_is_claimed(const mend_audit_walk *a)
{
    const mend_heap *heap = a->heap;
    for (mend_tree_node *at = mend_tree_first(&heap->chunks.all); at != NULL;
         at = mend_tree_next(at)) {
        if (MEND_CONTAINER_OF(at, mend_chunk, by_number)->claimed_address != 0) {
            return mend_audit_broken(a, "a chunk is claimed by nobody");
        }
    }
    if (heap->span_slab.promised_count != 0 ||
        heap->run_slab.promised_count != IN_CACHES(heap, promised) ||
        heap->wait_slab.promised_count != 0) {
        return mend_audit_broken(a, "nodes are promised to nobody");
    }
    return true;
}

/* Groups that are begun stand before the others, and all are counted. */
static bool groups_are_right(const mend_audit_walk *a)
{
    uint32_t count = 0;
    bool begun_are_over = false;
    const mend_list *end = &a->heap->groups;
    for (const mend_list *at = end->next; at != end; at = at->next) {
        const mend_group *group = MEND_CONTAINER_OF(at, mend_group, link);
        if (group->is_begun && begun_are_over) {
            return mend_audit_broken(a, "group %u stands behind one that is not begun",
                                     group->number);
        }
        begun_are_over = !group->is_begun;
        count++;
    }
    return count == a->heap->group_count || mend_audit_broken(a, "the count of groups is wrong");
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

bool mend_observe_audit_sums(const mend_heap *heap, char finding[MEND_AUDIT_FINDING_BYTES])
{
    mend_audit_walk a = {.heap = heap, .finding = finding};
    uint64_t free_bytes = heap->zones[0].free_bytes + heap->zones[1].free_bytes;
    if (free_bytes + heap->chunks.unmapped_bytes + heap->counters.live_bytes !=
        heap->chunks.reserved_bytes) {
        return mend_audit_broken(&a, "live and free do not add up to reserved");
    }
    if (mend_heap_live_blocks(heap) + IN_CACHES(heap, count) != heap->blocks.count) {
        return mend_audit_broken(&a, "the counts of live blocks are wrong");
    }
    return true;
}

bool mend_observe_audit(const mend_heap *heap, char finding[MEND_AUDIT_FINDING_BYTES])
{
    mend_audit_walk a = {.heap = heap, .finding = finding};
    finding[0] = '\0';
    for (int zone = 0; zone < MEND_ZONE_COUNT; zone++) {
        if (!mend_audit_zone(&a, zone)) {
            return false;
        }
    }
    if (!mend_audit_space(&a) || !mend_audit_chunks(&a) || !mend_audit_retired(&a) ||
        !streams_are_right(&a) || !users_are_right(&a) || !nodes_are_right(&a) ||
        !nodes_of_addresses_are_right(&a) || !nothing_is_claimed(&a) || !groups_are_right(&a) ||
        !counts_are_right(&a)) {
        return false;
    }
    if (heap->cache_closings == 0 &&
        heap->cache_keeps_empty_chunks != (mend_budget_pressure(heap) != MEND_PRESSURE_LOW)) {
        return mend_audit_broken(&a, "the front cache does not know how scarce memory is");
    }
    return mend_observe_audit_sums(heap, finding);
}
