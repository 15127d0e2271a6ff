/*
 * Giving memory back: idle empty chunks go back to the driver, the largest first, and so do empty
 * reservations. Three steps, none of which is undone: chunks are withdrawn, so that they are mapped
 * nowhere in the layout, and their mappings retire; a flush unmaps these; then the chunks are
 * released. One that the driver does not unmap or release stays an empty chunk, which may be mapped
 * anywhere.
 */
#include "move/move.h"

#include "share/share.h"

static bool can_withdraw(mend_heap *heap, mend_chunk *chunk, bool may_unmap)
{
    return chunk->address == 0 ||
           (may_unmap && mend_layout_chunk_is_ready(heap, chunk, MEND_STREAM_UNKNOWN,
                                                    heap->streams.looks_ahead));
}

/* Records and polls the fences of all streams, to find out what is idle. */
static mend_result refresh_fences(mend_heap *heap)
{
    MEND_SLOTS_EACH(i, &heap->streams, 0) {
        MEND_TRY(mend_streams_close_epoch(&heap->streams, i));
    }
    mend_streams_poll(&heap->streams);
    return MEND_OK;
}

/* The same, and whether there is a capture, during which nothing is unmapped. */
static mend_result find_out(mend_heap *heap, uint32_t asking, bool *is_captured)
{
    *is_captured = false;
    MEND_TRY(refresh_fences(heap));
    return mend_streams_find_capture(&heap->streams, asking, is_captured);
}

/* Takes a chunk out of the layout; its mapping retires, and the next flush unmaps it. False if
 * malloc fails. */
static bool withdraw(mend_heap *heap, mend_chunk *chunk)
{
    if (!mend_layout_reserve(heap, 1) || !mend_retire_reserve(heap, 1)) {
        return false;
    }
    mend_step_claim(heap, chunk);
    mend_retire_claim(heap, chunk);
    return true;
}

/* Which chunks are withdrawn. */
typedef struct choice {
    uint64_t keep_bytes;    /* until at most this much would stay reserved */
    uint64_t idle_until_ns; /* 0: any. Those that a collection has known as empty since then */
    bool may_unmap;
    bool is_own; /* none that others may hold, from whose memory no chunk can be created */
    uint64_t from, size_bytes; /* those that are mapped there; 0: anywhere */
} choice;

static bool is_chosen(mend_heap *heap, mend_chunk *chunk, const choice *which)
{
    bool is_unused = which->idle_until_ns == 0 ||
                     (chunk->idle_since_ns != 0 && chunk->idle_since_ns <= which->idle_until_ns);
    return is_unused && !(which->is_own && chunk->memory.was_exported) &&
           (which->size_bytes == 0 || chunk->address - which->from < which->size_bytes) &&
           can_withdraw(heap, chunk, which->may_unmap);
}

/* Idle chunks, the largest first, linked by claim.next. */
static mend_chunk *choose_chunks(mend_heap *heap, const choice *which)
{
    uint64_t reserved_bytes = heap->chunks.reserved_bytes;
    mend_chunk *first = NULL;
    mend_chunk **end = &first;
    mend_chunk *at = mend_chunk_empty_at_most(&heap->chunks, UINT64_MAX, UINT64_MAX);
    for (; at != NULL && reserved_bytes > which->keep_bytes;
         at = mend_chunk_empty_at_most(&heap->chunks, at->size_bytes, at->memory.number - 1)) {
        if (is_chosen(heap, at, which)) {
            *end = at;
            end = &at->claim.next;
            reserved_bytes -= at->size_bytes;
        }
    }
    *end = NULL;
    return first;
}

/* Says why an idle chunk is still mapped after a flush. */
static mend_result not_unmapped(mend_heap *heap, uint64_t size_bytes)
{
    mend_status refused = heap->retire.refused;
    return refused != MEND_DRIVER_OK
               ? mend_refused(heap->driver, mend_status_result(refused), MEND_CALL_unmap, refused,
                              "a free chunk of %llu bytes could not be unmapped",
                              (unsigned long long)size_bytes)
               : mend_no_host_memory("a trim");
}

/* Withdraws the chosen chunks, those before malloc fails, and releases what is no longer mapped
 * then. The others stay, as free memory. */
static mend_result give(mend_heap *heap, mend_chunk *chosen, uint64_t *released_bytes)
{
    mend_result result = MEND_OK;
    mend_chunk *withdrawn = NULL;
    while (chosen != NULL && withdraw(heap, chosen)) {
        mend_chunk *next = chosen->claim.next;
        chosen->claim.next = withdrawn;
        withdrawn = chosen;
        chosen = next;
    }
    mend_retire_flush(heap, MEND_STREAM_UNKNOWN);
    *released_bytes = 0;
    while (withdrawn != NULL) {
        mend_chunk *next = withdrawn->claim.next;
        uint64_t size_bytes = withdrawn->size_bytes;
        assert(withdrawn->address == 0 && mend_chunk_is_empty(withdrawn));
        mend_retired *left = mend_retire_holds(heap, withdrawn->memory.handle);
        if (left == NULL) {
            mend_status status = mend_chunk_release(&heap->chunks, withdrawn, false);
            if (status == MEND_DRIVER_OK) {
                *released_bytes += size_bytes;
            } else {
                result = mend_driver_refused(heap, MEND_ANSWER(release, status));
            }
        } else if ((heap->retire.refused != MEND_DRIVER_OK || heap->retire.lacked_nodes) &&
                   mend_waits_drop_passed(mend_heap_wait_env(heap), &left->waits)) {
            result = not_unmapped(heap, size_bytes);
        }
        withdrawn = next;
    }
    return chosen == NULL ? result : mend_no_host_memory("a trim");
}

uint64_t mend_owed_to_others(mend_heap *heap, bool is_asked)
{
    uint64_t owed_bytes = 0;
    if (heap->config.ration != NULL) {
        mend_mutex_unlock(&heap->state); /* it asks the driver */
        owed_bytes = mend_ration_ask_owed(heap->config.ration, is_asked).bytes;
        mend_mutex_lock(&heap->state);
    }
    return owed_bytes;
}

/* What goes back is others' up to this; the pool could not create that again. */
static uint64_t owed_to_others(mend_heap *heap, bool is_asked)
{
    heap->shortage.owed_bytes = mend_owed_to_others(heap, is_asked);
    return heap->shortage.owed_bytes;
}

/* What the plan creates, once what it lacks has gone back. */
static uint64_t create_bytes_of(const mend_heap *heap, const mend_plan *plan)
{
    return plan->create_bytes > 0
               ? plan->create_bytes
               : plan->lacking_bytes + mend_budget_room_bytes(heap) - mend_budget_over_bytes(heap);
}

/* What must be given back for that. While the device owes others, it has nothing free for the pool,
 * whatever room the limit leaves. */
static uint64_t bytes_to_give(const mend_heap *heap, const mend_plan *plan, uint64_t owed_bytes)
{
    const uint64_t create_bytes = create_bytes_of(heap, plan);
    return owed_bytes > 0 ? mend_max_u64(plan->lacking_bytes, create_bytes + owed_bytes)
                          : plan->lacking_bytes;
}

/* Whether the plan lacks more than it says, because the device has less by now: what goes back must
 * be enough. Asked once in a search. */
static bool lacks_more(mend_heap *heap, mend_plan *plan)
{
    const uint64_t limit_bytes = mend_budget_limit(heap);
    mend_attainable_learn(heap);
    const uint64_t fall = limit_bytes - mend_min_u64(mend_budget_limit(heap), limit_bytes);
    plan->lacking_bytes += fall;
    return fall > 0;
}

/* Whether the chunk is idle, and no part of the plan. Not one that others may hold: another chunk
 * could not be created from its memory. */
static bool may_give(mend_heap *heap, mend_plan *plan, mend_chunk *at, bool may_unmap)
{
    return !at->memory.was_exported && can_withdraw(heap, at, may_unmap) &&
           !mend_plan_uses(plan, at);
}

/* At least as large as what is lacking. NULL: none. */
static mend_chunk *smallest_idle(mend_heap *heap, mend_plan *plan, uint64_t lacking_bytes,
                                 bool may_unmap, mend_trim_walk *walk)
{
    const bool goes_on = walk->least_bytes != 0 && lacking_bytes >= walk->least_bytes &&
                         lacking_bytes <= walk->up_bytes;
    mend_chunk *at = goes_on
                         ? mend_chunk_empty_at_least(&heap->chunks, walk->up_bytes, walk->up_number)
                         : mend_chunk_empty_at_least(&heap->chunks, lacking_bytes, 0);
    while (at != NULL && !may_give(heap, plan, at, may_unmap)) {
        at = mend_chunk_empty_next(at);
    }
    walk->least_bytes = goes_on ? walk->least_bytes : lacking_bytes;
    walk->up_bytes = at != NULL ? at->size_bytes : UINT64_MAX;
    walk->up_number = at != NULL ? at->memory.number : 0;
    if (at != NULL) {
        at->claim.next = NULL;
    }
    return at;
}

bool mend_trim_finds_one(mend_heap *heap, mend_plan *plan, bool may_unmap)
{
    const uint64_t bytes = bytes_to_give(heap, plan, heap->shortage.device_debt_bytes);
    return plan->lacking_bytes != 0 &&
           smallest_idle(heap, plan, bytes, may_unmap, &(mend_trim_walk){0}) != NULL;
}

/* Whether the device has so much in whole pages, where the driver does not say: it creates it, and
 * that is undone. If it does not take it back, what the caller has reserved is still there. */
static bool has_free(mend_heap *heap, uint64_t bytes)
{
    const uint64_t size_bytes = mend_align_down(bytes, heap->device.granularity_bytes);
    mend_slab *slab = &heap->chunks.slab;
    mend_chunk *chunk = NULL;
    if (size_bytes == 0) {
        return true;
    }
    if (heap->chunks.reserved_bytes + size_bytes > mend_budget_limit_of_chunks(heap) ||
        !mend_slab_reserve(slab, slab->free_count - slab->promised_count + 1) ||
        !mend_driver_did(heap, mend_chunk_create(&heap->chunks, size_bytes, false, &chunk))) {
        return false;
    }
    mend_step_undo_create(heap, chunk);
    return true;
}

/* What must go back so that `create_bytes` can be created, where the driver does not say what the
 * device has: what the limit lacks, if the device has the rest; all that can go, if it has the rest
 * then; or else everything. */
static uint64_t sure_bytes(mend_heap *heap, uint64_t limit_bytes, uint64_t create_bytes,
                           uint64_t spare_bytes, bool is_refused)
{
    if (!is_refused && has_free(heap, create_bytes - mend_min_u64(limit_bytes, create_bytes))) {
        return limit_bytes;
    }
    const bool may_do = spare_bytes > 0 && spare_bytes >= limit_bytes && spare_bytes < create_bytes;
    return may_do && has_free(heap, create_bytes - spare_bytes)
               ? spare_bytes
               : mend_max_u64(create_bytes, limit_bytes);
}

/* Only a lost context is a failure. */
static mend_result unless_lost(const mend_heap *heap, mend_result result)
{
    return heap->unlocking.lost != MEND_DRIVER_OK ? result : MEND_OK;
}

mend_result mend_trim_one(mend_heap *heap, uint32_t asking, mend_plan *plan, bool *released)
{
    *released = false;
    bool is_captured;
    mend_result result = find_out(heap, asking, &is_captured);
    if (result == MEND_OK) {
        uint64_t released_bytes = 0;
        const uint64_t bytes = bytes_to_give(heap, plan, owed_to_others(heap, false));
        mend_chunk *chunk = smallest_idle(heap, plan, bytes, !is_captured, &(mend_trim_walk){0});
        result = chunk != NULL ? give(heap, chunk, &released_bytes) : MEND_OK;
        *released = released_bytes > 0;
    }
    return unless_lost(heap, result);
}

/* The largest idle chunks, linked by claim.next, that together have what is lacking. NULL: they
 * have not. */
static mend_chunk *several_idle(mend_heap *heap, mend_plan *plan, const uint64_t all_bytes,
                                bool may_unmap, mend_trim_walk *walk)
{
    uint64_t lacking_bytes = all_bytes;
    const bool goes_on = lacking_bytes <= walk->most_bytes;
    mend_chunk *chosen = NULL;
    mend_chunk *at =
        mend_chunk_empty_at_most(&heap->chunks, goes_on ? walk->down_bytes : lacking_bytes - 1,
                                 goes_on ? walk->down_number : UINT64_MAX);
    while (at != NULL && lacking_bytes > 0) {
        if (may_give(heap, plan, at, may_unmap)) {
            at->claim.next = chosen;
            chosen = at;
            lacking_bytes -= mend_min_u64(lacking_bytes, at->size_bytes);
        }
        walk->down_bytes = at->size_bytes;
        walk->down_number = at->memory.number;
        at = mend_chunk_empty_at_most(&heap->chunks, at->size_bytes, at->memory.number - 1);
    }
    walk->most_bytes = goes_on ? walk->most_bytes : all_bytes;
    return lacking_bytes == 0 ? chosen : NULL;
}

/* Bytes of empty chunks, beside those of the plan, that could go back; and that are pages, where
 * the request has such. */
static uint64_t spare_bytes(mend_heap *heap, const mend_request *request, mend_plan *plan,
                            bool may_unmap)
{
    uint64_t bytes = 0;
    const uint64_t gap_bytes = mend_parts_largest_gap(heap, request->pages);
    mend_chunk *at = mend_chunk_empty_at_least(&heap->chunks, 0, 0);
    for (; at != NULL; at = mend_chunk_empty_next(at)) {
        const bool is_page = at->size_bytes <= gap_bytes && !mend_plan_uses(plan, at) &&
                             mend_pick_may(heap, request, plan, at);
        bytes += is_page || may_give(heap, plan, at, may_unmap) ? at->size_bytes : 0;
    }
    return bytes;
}

/* There is less to spare than the plan lacks with those that follow and what is owed. What the
 * device lacks of it, others could give, if the limit would be content with what there is. */
static void note_lack(mend_heap *heap, uint64_t limit_bytes, uint64_t all_bytes, uint64_t spare,
                      uint64_t owed_bytes)
{
    const uint64_t beyond_bytes = mend_budget_limit_of_chunks(heap) - mend_budget_hard_limit(heap);
    if (spare < all_bytes && spare + beyond_bytes >= limit_bytes) {
        const uint64_t bytes = all_bytes - spare; /* what is owed is known to be lacking besides */
        mend_budget_note_lack(heap, owed_bytes == 0      ? bytes + mend_budget_room_bytes(heap)
                                    : bytes > owed_bytes ? bytes - owed_bytes
                                                         : heap->device.granularity_bytes);
    }
}

/* Before anything goes back it is known that there is enough, for this plan and for those that
 * follow: the device may have less by now than when the plan was made, and others get what the pool
 * owes first. */
static mend_result give_for(mend_heap *heap, const mend_request *request, mend_plan *plan,
                            bool may_unmap, mend_trim_walk *walk, bool *released)
{
    const uint64_t owed_bytes = owed_to_others(heap, false);
    const uint64_t create_bytes = create_bytes_of(heap, plan);
    const bool is_within = create_bytes <= mend_budget_room_bytes(heap);
    uint64_t later_bytes = walk->later_bytes;
    uint64_t bytes = bytes_to_give(heap, plan, owed_bytes);
    if (!heap->shortage.device_is_asked || !heap->attainable.is_known) {
        const uint64_t spare = spare_bytes(heap, request, plan, may_unmap);
        const bool is_refused = mend_budget_was_refused(heap, create_bytes);
        if (spare >= bytes + later_bytes && lacks_more(heap, plan)) {
            bytes = bytes_to_give(heap, plan, owed_bytes);
        }
        if (heap->shortage.device_is_asked && !heap->attainable.is_known && owed_bytes == 0) {
            const uint64_t sure = sure_bytes(heap, is_within ? 0 : bytes + later_bytes,
                                             create_bytes + later_bytes, spare, is_refused);
            later_bytes = sure == bytes + later_bytes ? later_bytes : 0;
            bytes = sure - later_bytes;
        }
    }
    const uint64_t all_bytes = bytes + later_bytes;
    mend_chunk *chosen = NULL;
    if (later_bytes == 0 || spare_bytes(heap, request, plan, may_unmap) >= all_bytes) {
        chosen = smallest_idle(heap, plan, bytes, may_unmap, walk);
        chosen = chosen != NULL ? chosen : several_idle(heap, plan, bytes, may_unmap, walk);
    }
    mend_result result = MEND_OK;
    uint64_t released_bytes = 0;
    if (chosen != NULL) {
        result = give(heap, chosen, &released_bytes);
        walk->later_bytes = 0;
    } else {
        note_lack(heap, plan->lacking_bytes + later_bytes, all_bytes,
                  spare_bytes(heap, request, plan, may_unmap), owed_bytes);
    }
    *released = released_bytes >= bytes;
    if (*released) {
        heap->attainable.refused_bytes = 0;
    }
    return result;
}

/* What is idle is asked once for all plans of a request. */
mend_result mend_trim_for(mend_heap *heap, const mend_request *request, mend_plan *plan,
                          mend_trim_walk *walk, bool *released)
{
    *released = false;
    bool is_captured = false;
    mend_result result = walk->has_refreshed ? MEND_OK : refresh_fences(heap);
    walk->has_refreshed = true;
    if (result == MEND_OK) {
        result = mend_streams_find_capture(&heap->streams, request->stream, &is_captured);
    }
    if (result == MEND_OK && plan->lacking_bytes != 0) {
        result = give_for(heap, request, plan, !is_captured, walk, released);
    }
    return result == MEND_ERROR_OUT_OF_HOST_MEMORY ? result : unless_lost(heap, result);
}

mend_result mend_trim_between(mend_heap *heap, uint64_t from, uint64_t end, uint32_t asking)
{
    bool is_captured;
    mend_result result = MEND_OK;
    MEND_TRY(find_out(heap, asking, &is_captured));
    mend_chunk *chunk = is_captured ? NULL : mend_chunk_from(&heap->chunks, from);
    while (chunk != NULL && chunk->address < end && result == MEND_OK) {
        mend_chunk *next = mend_chunk_next(chunk);
        if (mend_chunk_is_empty(chunk) && can_withdraw(heap, chunk, true) &&
            !withdraw(heap, chunk)) {
            result = mend_no_host_memory("a trim");
        }
        chunk = next;
    }
    mend_retire_flush(heap, asking);
    return result;
}

/* Both sides ascend by size, and are walked side by side, twice: first as many chunks as fit are
 * withdrawn, so that one flush unmaps them all; then those that are unmapped give their memory. */
mend_result mend_trim_give_to(mend_heap *heap, const mend_cluster sleepers[], size_t count,
                              uint64_t *given_bytes)
{
    bool is_captured;
    const int share_types = heap->chunks.properties.share_types; /* of what would be created now */
    mend_result result = find_out(heap, MEND_STREAM_UNKNOWN, &is_captured);
    const bool may_unmap = result == MEND_OK && !is_captured;
    for (int gives = 0; gives <= 1; gives++) {
        mend_chunk *at = mend_chunk_empty_at_least(&heap->chunks, 0, 0);
        for (size_t i = 0; i < count && at != NULL;) {
            mend_chunk *next = mend_chunk_empty_next(at);
            mend_chunk *sleeper = sleepers[i].chunk;
            if (sleeper->missing != MEND_MISSING_MEMORY || at->size_bytes > sleeper->size_bytes) {
                i++;
                continue;
            }
            bool fits =
                at->size_bytes == sleeper->size_bytes &&
                (at->memory.share_types & share_types) == share_types &&
                (gives ? at->address == 0 && mend_retire_holds(heap, at->memory.handle) == NULL
                       : can_withdraw(heap, at, may_unmap) && withdraw(heap, at));
            if (fits && gives) {
                mend_chunk_take_memory(&heap->chunks, sleeper, at);
                *given_bytes += sleeper->size_bytes;
            }
            i += fits;
            at = next;
        }
        if (!gives) {
            mend_retire_flush(heap, MEND_STREAM_UNKNOWN);
        }
    }
    return unless_lost(heap, result); /* a flush that loses the context notes no failure */
}

bool mend_trim_addresses(mend_heap *heap, uint32_t asking)
{
    uint64_t taken_bytes = heap->space.taken_bytes;
    uint64_t address_bytes = heap->space.address_bytes;
    bool is_captured;
    if (find_out(heap, asking, &is_captured) == MEND_OK) {
        mend_chunk *chosen = choose_chunks(heap, &(choice){.may_unmap = !is_captured});
        while (chosen != NULL && withdraw(heap, chosen)) {
            chosen = chosen->claim.next;
        }
        mend_retire_flush(heap, asking);
    }
    mend_space_trim(&heap->space, 0);
    return heap->space.taken_bytes < taken_bytes || heap->space.address_bytes < address_bytes;
}

/* What goes back by the choice, at once. */
static uint64_t chosen_bytes(mend_heap *heap, const choice *which)
{
    uint64_t bytes = 0;
    mend_chunk *at = mend_chunk_empty_at_least(&heap->chunks, 0, 0);
    for (; at != NULL; at = mend_chunk_empty_next(at)) {
        const bool is_free = mend_retire_holds(heap, at->memory.handle) == NULL;
        bytes += is_free && is_chosen(heap, at, which) ? at->size_bytes : 0;
    }
    return bytes;
}

/* Before chunks are chosen. */
static mend_result prepare(mend_heap *heap, choice *which)
{
    bool is_captured;
    MEND_TRY(find_out(heap, MEND_STREAM_UNKNOWN, &is_captured));
    which->may_unmap = !is_captured;
    mend_retire_flush(heap, MEND_STREAM_UNKNOWN);
    return MEND_OK;
}

/* Gives back the chosen chunks. */
static mend_result trim(mend_heap *heap, const choice *which, uint64_t *released_bytes)
{
    const mend_result result = give(heap, choose_chunks(heap, which), released_bytes);
    mend_headroom_forget(heap);
    mend_space_trim_but_oldest(&heap->space);
    return result;
}

mend_result mend_trim_to(mend_heap *heap, uint64_t keep_bytes, bool makes_room,
                         uint64_t *released_bytes)
{
    choice which = {.keep_bytes = keep_bytes, .is_own = makes_room};
    MEND_TRY(prepare(heap, &which));
    if (makes_room && owed_to_others(heap, false) > 0) {
        which.keep_bytes = UINT64_MAX;
    }
    return trim(heap, &which, released_bytes);
}

/* What the limit and the device lack for a creation. What the pool owes, others get first. */
static mend_lack lack_for(mend_heap *heap, uint64_t create_bytes, int refusals)
{
    mend_attainable_learn(heap);
    const uint64_t owed_bytes = owed_to_others(heap, heap->attainable.is_known);
    const uint64_t limit_bytes = mend_budget_limit_of_chunks(heap);
    const uint64_t wanted_bytes = heap->chunks.reserved_bytes + create_bytes;
    const bool is_there =
        heap->attainable.is_known
            ? refusals < MEND_REFUSALS && create_bytes <= heap->shortage.device_free_bytes
            : refusals == 0;
    return (mend_lack){
        .limit_bytes = wanted_bytes - mend_min_u64(wanted_bytes, limit_bytes),
        .device_bytes = owed_bytes > 0 ? create_bytes + owed_bytes
                        : is_there     ? 0
                                       : mend_attainable_lack(heap, create_bytes),
    };
}

mend_result mend_trim_to_create(mend_heap *heap, uint64_t create_bytes, int refusals,
                                mend_lack *lack)
{
    choice own = {.is_own = true};
    MEND_TRY(prepare(heap, &own));
    mend_lack all = lack_for(heap, create_bytes, refusals);
    choice any = {.may_unmap = own.may_unmap};
    uint64_t own_bytes = chosen_bytes(heap, &own);
    /* Where what may go can only make room under the limit, the first creation finds out. */
    if (!heap->attainable.is_known && heap->shortage.owed_bytes == 0 &&
        (refusals > 0 || (all.limit_bytes > 0 && own_bytes >= all.limit_bytes))) {
        all.device_bytes = sure_bytes(heap, all.limit_bytes, create_bytes, own_bytes, refusals > 0);
    }
    uint64_t any_bytes = chosen_bytes(heap, &any);
    const bool is_enough =
        refusals <= MEND_REFUSALS && own_bytes >= all.device_bytes && any_bytes >= all.limit_bytes;
    mend_result result = MEND_OK;
    if (is_enough) {
        const uint64_t before_bytes = heap->chunks.reserved_bytes;
        own.keep_bytes = before_bytes - all.device_bytes;
        result = trim(heap, &own, &own_bytes);
        any.keep_bytes = before_bytes - all.limit_bytes;
        any_bytes = own_bytes;
        if (result == MEND_OK && own_bytes < all.limit_bytes) {
            result = trim(heap, &any, &any_bytes);
            any_bytes += own_bytes;
        }
    }
    if (refusals <= MEND_REFUSALS) {
        all.limit_bytes -= mend_min_u64(any_bytes, all.limit_bytes);
        all.device_bytes -= mend_min_u64(own_bytes, all.device_bytes);
    }
    *lack = all;
    return result;
}

/* Notes the time, above 0, in all empty chunks that have none. Whether one has been idle since
 * `until_ns` or before. */
static bool note_idle(mend_chunks *chunks, uint64_t now_ns, uint64_t until_ns)
{
    bool any = false;
    assert(now_ns > 0 && until_ns <= now_ns);
    mend_chunk *at = mend_chunk_empty_at_least(chunks, 0, 0);
    MEND_TREE_EACH(mend_chunk, parked, by_size, &chunks->parked) {
        parked->idle_since_ns = parked->idle_since_ns != 0 ? parked->idle_since_ns : now_ns;
    }
    for (; at != NULL; at = mend_chunk_empty_next(at)) {
        at->idle_since_ns = at->idle_since_ns != 0 ? at->idle_since_ns : now_ns;
        any |= at->idle_since_ns <= until_ns;
    }
    return any;
}

mend_result mend_trim_unused(mend_heap *heap, uint64_t unused_ns, uint64_t keep_bytes,
                             uint64_t *released_bytes)
{
    uint64_t now_ns = heap->driver->clock_ns(heap->driver) + 1; /* 0 means none */
    uint64_t until_ns = now_ns > unused_ns ? now_ns - unused_ns : 0;
    assert(unused_ns > 0);
    *released_bytes = 0;
    if (!note_idle(&heap->chunks, now_ns, until_ns)) {
        return MEND_OK;
    }
    choice which = {.keep_bytes = keep_bytes, .idle_until_ns = until_ns};
    MEND_TRY(prepare(heap, &which));
    return trim(heap, &which, released_bytes);
}
