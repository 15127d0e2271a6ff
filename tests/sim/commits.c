/* Commits of pages, of one range or of two in one step: their need, and the fitting size. */
#include "tests/sim/ranges.h"

#include "tests/sim/asleep.h"
#include "tests/sim/quotas.h"

#include "pool/pool.h"

#define LLU(value) ((unsigned long long)(value))

mend_result trial_call_commit(const trial_call *call)
{
    const mend_range_part parts[] = {{call->range, call->offset_bytes, call->size_bytes},
                                     call->second};
    return call->second.range == NULL
               ? mend_range_commit(call->range, call->offset_bytes, call->size_bytes, call->stream)
               : mend_range_commit_all(parts, sizeof(mend_range_part), 2, call->stream);
}

/* The one that a call names. NULL: none. */
static const trial_range *range_named(const trial *t, const mend_range *name)
{
    for (int i = 0; i < TRIAL_RANGES && name != NULL; i++) {
        if (t->ranges[i].range == name) {
            return &t->ranges[i];
        }
    }
    return NULL;
}

/* The next one of the same pool. NULL: there is no other. */
static const trial_range *next_range(const trial *t, const trial_range *range)
{
    for (int i = 1; i < TRIAL_RANGES; i++) {
        const trial_range *next = &t->ranges[(range - t->ranges + i) % TRIAL_RANGES];
        if (next->range != NULL && next->pool == range->pool) {
            return next;
        }
    }
    return NULL;
}

/* From the last slot on: most operations use the first ones. */
static trial_block *free_slot(trial *t)
{
    for (int i = TRIAL_BLOCKS - 1; i >= 0; i--) {
        if (!t->blocks[i].live) {
            return &t->blocks[i];
        }
    }
    return NULL;
}

/* The second range of a commit, as a separate call. */
static trial_call second_of(const trial_call *call)
{
    trial_call second = *call;
    second.range = call->second.range;
    second.offset_bytes = call->second.offset_bytes;
    second.size_bytes = call->second.size_bytes;
    second.second = (mend_range_part){.range = NULL};
    return second;
}

/* Of all parts of a commit: bytes, or pages. */
static uint64_t all_missing(trial *t, const trial_call *call, bool as_pages)
{
    uint64_t sum = 0;
    for (trial_call part = *call; part.range != NULL; part = second_of(&part)) {
        const trial_range *range = range_named(t, part.range);
        for (uint64_t at = 0; at < part.size_bytes; at += range->page_bytes) {
            const bool is_missing = trial_page_at(t, range->base + part.offset_bytes + at) == NULL;
            sum += !is_missing ? 0 : as_pages ? 1 : range->page_bytes;
        }
    }
    return sum;
}

/* Contents of pages that were committed before stay. */
static void enter_pages(trial *t, const trial_call *call)
{
    const uint64_t tag = trial_sleep_tag(call);
    for (trial_call part = *call; part.range != NULL; part = second_of(&part)) {
        const trial_range *range = range_named(t, part.range);
        for (uint64_t at = 0; at < part.size_bytes; at += range->page_bytes) {
            const uint64_t address = range->base + part.offset_bytes + at;
            trial_block *page = trial_page_at(t, address) == NULL ? free_slot(t) : NULL;
            if (page != NULL) {
                *page = (trial_block){.live = true,
                                      .pool = call->pool,
                                      .address = address,
                                      .size_bytes = range->page_bytes,
                                      .requested_bytes = range->page_bytes,
                                      .allocated_on = call->stream,
                                      .home = call->at,
                                      .graph_pool = NOBODY,
                                      .sleep_tag = tag != 0 ? tag : range->sleep_tag,
                                      .scope = trial_scope_at(t, call->pool, address),
                                      .range = 1 + (int)(range - t->ranges)};
                trial_expect_stack(t, page, 0);
                trial_count_alloc(t, page);
            }
        }
    }
}

uint64_t trial_needed(trial *t, const trial_call *call)
{
    return mend_max_u64(all_missing(t, call, false), call->needed_bytes);
}

bool trial_any_was_exported(const trial *t, int pool)
{
    const mend_tree *all = &t->pools[pool].pool->heap.chunks.all;
    bool any = false;
    MEND_TREE_EACH(const mend_chunk, chunk, memory.by_number, all) {
        any |= chunk->memory.was_exported;
    }
    return any;
}

bool trial_makes_chunks(const trial_call *call)
{
    return call->in_one_chunk || call->kind == CALL_COMMIT;
}

bool trial_can_make_chunks(trial *t, int pool)
{
    return !trial_may_be_captured(t) && !trial_any_was_exported(t, pool);
}

/* Of the same pages the first ones, as many as the report says would fit, without the help
 * of callbacks. */
static void commit_what_fits(trial *t, const operation *op, const trial_call *refused)
{
    const uint64_t page_bytes = range_named(t, refused->range)->page_bytes;
    const uint64_t fitting_bytes = refused->fitting_bytes;
    trial_call call = {.kind = CALL_COMMIT,
                       .at = refused->at,
                       .pool = refused->pool,
                       .range = refused->range,
                       .offset_bytes = refused->offset_bytes,
                       .second = {NULL, refused->second.offset_bytes, 0},
                       .stream = refused->stream};
    while (call.size_bytes < refused->size_bytes &&
           (call.size_bytes == 0 || all_missing(t, &call, false) < fitting_bytes)) {
        call.size_bytes += page_bytes;
    }
    while (call.second.size_bytes < refused->second.size_bytes &&
           all_missing(t, &call, false) < fitting_bytes) {
        call.second.range = refused->second.range;
        call.second.size_bytes += page_bytes; /* the same, or nothing would fit */
    }
    call.needed_bytes = all_missing(t, &call, false);
    if (call.needed_bytes != fitting_bytes || call.needed_bytes == 0) {
        return;
    }
    t->callbacks_rest = true;
    const mend_result result = trial_call_pool(t, trial_thread_of(t, call.at, op->thread), &call);
    t->callbacks_rest = false;
    trial_claim(t, TRIAL_REFUSED,
                result == MEND_OK || call.faulty || t->had_hidden_quota ||
                    !trial_can_make_chunks(t, call.pool),
                "%llu bytes of pages would fit, was said, and are refused", LLU(fitting_bytes));
    if (result == MEND_OK) {
        enter_pages(t, &call);
    }
}

bool trial_commit(trial *t, const operation *op)
{
    const trial_range *range = trial_range_of(t, op);
    const int stream = op->stream % t->stream_count;
    trial_call call = {.kind = CALL_COMMIT, .at = stream};
    if (range == NULL || !trial_is_open(t, stream)) {
        return false;
    }
    trial_name_pages(range, op, &call);
    const trial_range *next = (op->amount & 64) != 0 ? next_range(t, range) : NULL;
    if (next != NULL) {
        trial_call second = call;
        trial_name_pages(next, op, &second);
        call.second = (mend_range_part){next->range, second.offset_bytes, second.size_bytes};
    }
    call.needed_bytes = all_missing(t, &call, false);
    uint64_t free_slots = 0;
    for (int i = 0; i < TRIAL_BLOCKS; i++) {
        free_slots += !t->blocks[i].live;
    }
    if (all_missing(t, &call, true) > free_slots) {
        return false;
    }
    call.stream = op->amount % 16 == 15 ? MEND_NO_STREAM : trial_handle(t, stream, op->amount & 2);
    const mend_result result = trial_call_pool(t, trial_thread_of(t, stream, op->thread), &call);
    if (result == MEND_OK) {
        enter_pages(t, &call);
        for (trial_call part = call; part.range != NULL; part = second_of(&part)) {
            trial_use_pages(t, range_named(t, part.range), &part, op, op->amount & 1);
        }
    } else if (result == MEND_ERROR_OUT_OF_MEMORY && !call.faulty && (op->amount & 4) != 0) {
        commit_what_fits(t, op, &call);
    }
    return true;
}
