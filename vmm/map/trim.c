/*
 * Releasing memory: idle empty chunks, the largest first, and empty reservations. Three steps
 * without undo: chunks are withdrawn, so that they are mapped nowhere in the layout, and their
 * mappings retire. A flush unmaps these. Then the chunks are released. One that the driver does not
 * unmap or release stays an empty chunk, which may be mapped anywhere.
 */
#include "map/map.h"

static bool can_withdraw(mend_heap *heap, mend_chunk *chunk, bool may_unmap)
{
    return chunk->address == 0 ||
           (may_unmap && mend_layout_chunk_is_ready(heap, chunk, MEND_STREAM_UNKNOWN, 0));
}

/* Records and polls the fences of all streams, to find idle memory. Nothing may be unmapped during
 * a capture. */
static mend_result find_out(mend_heap *heap, uint32_t asking, bool *may_unmap)
{
    bool is_captured = false;
    *may_unmap = false;
    MEND_SLOTS_EACH(i, &heap->streams, 0) {
        MEND_TRY(mend_streams_close_epoch(&heap->streams, i));
    }
    mend_streams_poll(&heap->streams);
    MEND_TRY(mend_streams_find_capture(&heap->streams, asking, &is_captured));
    *may_unmap = !is_captured;
    return MEND_OK;
}

/* Takes a chunk out of the layout. Its mapping retires, and the next flush unmaps it. False if
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
    uint64_t bytes;         /* at least so many, or all there are */
    uint64_t idle_until_ns; /* 0: any. Chunks that a background trim has known as empty since
                             * then */
    bool may_unmap;
    bool is_own;     /* none that others may hold, from whose memory no chunk can be created */
    mend_plan *plan; /* none that it uses. NULL: no plan */
} choice;

static bool is_chosen(mend_heap *heap, mend_chunk *chunk, const choice *which)
{
    bool is_unused = which->idle_until_ns == 0 ||
                     (chunk->idle_since_ns != 0 && chunk->idle_since_ns <= which->idle_until_ns);
    return is_unused && !(which->is_own && chunk->memory.was_exported) &&
           can_withdraw(heap, chunk, which->may_unmap) &&
           (which->plan == NULL || !mend_plan_uses(which->plan, chunk));
}

/* Idle chunks, the largest first, linked by claim.next. *short_bytes: the bytes that they miss. */
static mend_chunk *choose_chunks(mend_heap *heap, const choice *which, uint64_t *short_bytes)
{
    mend_chunk *first = NULL;
    mend_chunk **end = &first;
    *short_bytes = which->bytes;
    mend_chunk *at = mend_chunk_empty_at_most(&heap->chunks, UINT64_MAX, UINT64_MAX);
    for (; at != NULL && *short_bytes > 0;
         at = mend_chunk_empty_at_most(&heap->chunks, at->size_bytes, at->memory.number - 1)) {
        if (is_chosen(heap, at, which)) {
            *end = at;
            end = &at->claim.next;
            *short_bytes -= mend_min_u64(*short_bytes, at->size_bytes);
        }
    }
    *end = NULL;
    return first;
}

/* The smallest one that is enough, or NULL. */
static mend_chunk *choose_one(mend_heap *heap, const choice *which)
{
    mend_chunk *at = mend_chunk_empty_at_least(&heap->chunks, which->bytes, 0);
    while (at != NULL && !is_chosen(heap, at, which)) {
        at = mend_chunk_empty_next(at);
    }
    if (at != NULL) {
        at->claim.next = NULL;
    }
    return at;
}

/* Withdraws the chosen chunks, until malloc fails, and releases the unmapped ones. The others stay,
 * as free memory. */
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
        const uint64_t size_bytes = withdrawn->size_bytes;
        const bool is_shared = withdrawn->memory.was_exported;
        assert(withdrawn->address == 0 && mend_chunk_is_empty(withdrawn));
        mend_retired *left = mend_retire_holds(heap, withdrawn);
        if (left == NULL) {
            mend_status status = mend_chunk_release(&heap->chunks, withdrawn, false);
            if (status == MEND_DRIVER_OK) {
                *released_bytes += is_shared ? 0 : size_bytes;
            } else {
                result = mend_driver_refused(heap, MEND_ANSWER(release, status));
            }
        } else if ((heap->retire.refused != MEND_DRIVER_OK || heap->retire.lacked_nodes) &&
                   mend_waits_drop_passed(mend_heap_wait_env(heap), &left->waits)) {
            const mend_status refused = heap->retire.refused;
            result = refused != MEND_DRIVER_OK
                         ? mend_refused(heap->driver, mend_status_result(refused), MEND_CALL_unmap,
                                        refused, "a free chunk of %llu bytes could not be unmapped",
                                        (unsigned long long)size_bytes)
                         : mend_no_host_memory("a trim");
        }
        withdrawn = next;
    }
    return chosen == NULL ? result : mend_no_host_memory("a trim");
}

/* The part of a release that others get first. Asks the driver, and releases `state`. */
static uint64_t wanted_by_others(mend_heap *heap)
{
    mend_others *others = heap->config.others;
    if (others == NULL) {
        return 0;
    }
    mend_mutex_unlock(&heap->state);
    const uint64_t wants_bytes = others->ask(others).bytes;
    mend_mutex_lock(&heap->state);
    return wants_bytes;
}

mend_result mend_trim_for(mend_heap *heap, uint32_t asking, mend_plan *plan, uint64_t all_bytes,
                          bool *goes_on)
{
    bool may_unmap;
    bool is_released = false;
    uint64_t wants_bytes = 0;
    uint64_t own_bytes = 0; /* of its own chunks, which alone are too few to release */
    const uint64_t passes = heap->streams.passes;
    mend_result result = find_out(heap, asking, &may_unmap);
    if (result == MEND_OK && plan->lacking_bytes != 0) {
        /* While others want memory, none of the device's is free for the creation. */
        wants_bytes = wanted_by_others(heap);
        const uint64_t given_bytes = wants_bytes > 0 ? plan->create_bytes + wants_bytes : 0;
        const uint64_t bytes = mend_max_u64(plan->lacking_bytes, given_bytes);
        const choice which = {.bytes = bytes, .may_unmap = may_unmap, .is_own = true, .plan = plan};
        uint64_t released_bytes = 0;
        uint64_t short_bytes = 0;
        const bool is_known = !heap->effective_limit.is_refused; /* else it may be less */
        mend_chunk *chosen = choose_one(heap, &which);
        if (chosen == NULL && all_bytes > 0) {
            chosen = choose_chunks(heap, &which, &short_bytes);
        }
        if (chosen != NULL && (short_bytes == 0 || !is_known)) {
            result = give(heap, chosen, &released_bytes);
        } else if (chosen != NULL) {
            own_bytes = mend_min_u64(bytes - short_bytes, plan->create_bytes);
        }
        is_released = released_bytes >= bytes || (!is_known && released_bytes > 0);
    }
    heap->counters.chunks_remade += is_released;
    *goes_on = is_released || heap->streams.passes != passes;
    if (!is_released && all_bytes > 0 &&
        (wants_bytes > 0 ||
         mend_budget_lacks_device_memory(heap, plan->create_bytes - own_bytes))) {
        mend_budget_note_lack(heap, plan->create_bytes > 0
                                        ? plan->create_bytes
                                        : mend_align_up(all_bytes, heap->device.granularity_bytes));
    }
    return heap->unlocking.lost != MEND_DRIVER_OK || result == MEND_ERROR_OUT_OF_HOST_MEMORY
               ? result
               : MEND_OK;
}

void mend_trim_between(mend_heap *heap, uint64_t from, uint64_t end, uint32_t asking)
{
    bool may_unmap;
    bool goes_on = find_out(heap, asking, &may_unmap) == MEND_OK && may_unmap;
    for (mend_chunk *chunk = mend_chunk_from(&heap->chunks, from), *next;
         goes_on && chunk != NULL && chunk->address < end; chunk = next) {
        next = mend_chunk_next(chunk);
        goes_on = !mend_chunk_is_empty(chunk) || !can_withdraw(heap, chunk, true) ||
                  withdraw(heap, chunk);
    }
    mend_retire_flush(heap, asking);
}

/* Both sides ascend by size, and are walked side by side, twice. First matching chunks are
 * withdrawn, so that one flush unmaps them all. Then the unmapped ones give their memory. */
mend_result mend_trim_give_to(mend_heap *heap, const mend_cluster sleepers[], size_t count,
                              uint64_t *given_bytes)
{
    bool may_unmap;
    const int share_types = heap->chunks.properties.share_types; /* of a new chunk */
    mend_result result = find_out(heap, MEND_STREAM_UNKNOWN, &may_unmap);
    for (int gives = 0; gives <= 1; gives++) {
        mend_chunk *at = mend_chunk_empty_at_least(&heap->chunks, 0, 0);
        for (size_t i = 0; i < count && at != NULL;) {
            mend_chunk *next = mend_chunk_empty_next(at);
            mend_chunk *sleeper = sleepers[i].chunk;
            if (sleeper->missing != MEND_MISSING_MEMORY || at->size_bytes > sleeper->size_bytes) {
                i++;
                continue;
            }
            bool fits = at->size_bytes == sleeper->size_bytes &&
                        (at->memory.share_types & share_types) == share_types &&
                        (gives ? at->address == 0 && mend_retire_holds(heap, at) == NULL
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
    return heap->unlocking.lost != MEND_DRIVER_OK ? result : MEND_OK;
}

/* Releases the chosen chunks above `keep_bytes`. */
static mend_result trim(mend_heap *heap, choice which, uint64_t keep_bytes,
                        uint64_t *released_bytes)
{
    uint64_t short_bytes;
    MEND_TRY(find_out(heap, MEND_STREAM_UNKNOWN, &which.may_unmap));
    which.bytes =
        heap->chunks.reserved_bytes - mend_min_u64(heap->chunks.reserved_bytes, keep_bytes);
    const mend_result result =
        give(heap, choose_chunks(heap, &which, &short_bytes), released_bytes);
    mend_headroom_forget(heap);
    mend_space_trim_but_oldest(&heap->space);
    return result;
}

mend_result mend_trim_to(mend_heap *heap, uint64_t keep_bytes, bool makes_room,
                         uint64_t *released_bytes)
{
    return trim(heap, (choice){.is_own = makes_room}, keep_bytes, released_bytes);
}

mend_result mend_trim_to_create(mend_heap *heap, uint64_t create_bytes, bool is_refused,
                                mend_lack *lack)
{
    mend_effective_limit_learn(heap);
    const uint64_t wanted_bytes = heap->chunks.reserved_bytes + create_bytes;
    const uint64_t limit_bytes = mend_budget_limit_of_chunks(heap);
    lack->limit_bytes = wanted_bytes - mend_min_u64(wanted_bytes, limit_bytes);
    uint64_t free_bytes = heap->shortage.device_free_bytes;
    if (is_refused && (heap->effective_limit.is_refused || free_bytes >= create_bytes)) {
        free_bytes = 0; /* the driver does not give what it reports */
    }
    lack->device_bytes = create_bytes - mend_min_u64(create_bytes, free_bytes);
    lack->device_bytes += lack->device_bytes > 0 ? wanted_by_others(heap) : 0;
    const uint64_t bytes = mend_max_u64(lack->limit_bytes, lack->device_bytes);
    uint64_t given_bytes = mend_chunks_empty_bytes(&heap->chunks);
    /* A driver that refuses although it reports enough may miss less than that. */
    const bool is_known = !is_refused || heap->shortage.device_free_bytes < create_bytes;
    if (bytes <= given_bytes || !is_known) {
        const uint64_t keep_bytes =
            heap->chunks.reserved_bytes - mend_min_u64(bytes, heap->chunks.reserved_bytes);
        MEND_TRY(mend_trim_to(heap, keep_bytes, true, &given_bytes));
    }
    lack->limit_bytes -= mend_min_u64(lack->limit_bytes, given_bytes);
    lack->device_bytes = given_bytes > 0 && !is_known
                             ? 0
                             : lack->device_bytes - mend_min_u64(lack->device_bytes, given_bytes);
    return MEND_OK;
}

mend_result mend_trim_unused(mend_heap *heap, uint64_t unused_ns, uint64_t keep_bytes,
                             uint64_t *released_bytes)
{
    uint64_t now_ns = heap->driver->clock_ns(heap->driver) + 1; /* 0 means none */
    uint64_t until_ns = now_ns > unused_ns ? now_ns - unused_ns : 0;
    assert(unused_ns > 0);
    *released_bytes = 0;
    bool any = false;
    mend_chunk *at = mend_chunk_empty_at_least(&heap->chunks, 0, 0);
    for (; at != NULL; at = mend_chunk_empty_next(at)) {
        at->idle_since_ns = at->idle_since_ns != 0 ? at->idle_since_ns : now_ns;
        any |= at->idle_since_ns <= until_ns;
    }
    return any ? trim(heap, (choice){.idle_until_ns = until_ns}, keep_bytes, released_bytes)
               : MEND_OK;
}
