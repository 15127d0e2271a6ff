#include "tests/sim/ranges.h"

#include "tests/sim/asleep.h"
#include "tests/sim/rations.h"

#include "pool/pool.h"

#define LLU(value) ((unsigned long long)(value))

enum { RANGE_TAG = 2 };

/* ---- the calls ------------------------------------------------------------------------------- */

mend_result trial_call_range_create(trial_call *call, mend_pool *pool)
{
    mend_range_options options = MEND_RANGE_OPTIONS_INIT;
    options.page_bytes = call->page_bytes;
    options.tag = RANGE_TAG;
    return mend_range_create(pool, call->size_bytes, &options, &call->range);
}

/* An old mapping at the pages stays while the pool knows of a capture. */
bool trial_may_answer_range(const trial *t, const trial_call *call, bool holds_capture)
{
    if (call->kind == CALL_ZEROS) {
        return trial_may_answer_zeros(t, call, holds_capture);
    }
    if (call->result != MEND_ERROR_OUT_OF_ADDRESSES) {
        return false;
    }
    return call->faulty || (call->kind == CALL_COMMIT && holds_capture) ||
           (call->kind == CALL_RANGE_CREATE && t->config.address_devices != 0);
}

void trial_name_page(const trial *t, const trial_block *page, trial_call *call)
{
    const trial_range *range = &t->ranges[page->range - 1];
    call->range = range->range;
    call->offset_bytes = page->address - range->base;
    call->size_bytes = page->size_bytes;
}

/* ---- ranges ---------------------------------------------------------------------------------- */

trial_range *trial_range_of(trial *t, const operation *op)
{
    trial_range *range = &t->ranges[op->slot % TRIAL_RANGES];
    return range->range != NULL ? range : NULL;
}

/* From one page of the device to an eighth of its memory. */
static uint64_t page_bytes_of(const trial *t, uint8_t code)
{
    static const uint64_t pages[] = {1, 1, 2, 3, 4, 8};
    static const uint64_t parts[] = {32, 8};
    const uint64_t kind = code % 8;
    return t->page_bytes * (kind < 6 ? pages[kind] : 1 + t->config.device_pages / parts[kind - 6]);
}

static bool create_range(trial *t, const operation *op)
{
    trial_range *range = &t->ranges[op->slot % TRIAL_RANGES];
    if (range->range != NULL) {
        return false;
    }
    trial_call call = {.kind = CALL_RANGE_CREATE,
                       .pool = op->alignment % t->pool_count,
                       .page_bytes = page_bytes_of(t, op->size)};
    call.size_bytes = call.page_bytes * (1 + op->amount % 40u) - op->alignment % 2;
    const mend_result made = trial_call_pool(t, op->thread % t->turns.count, &call);
    if (made == MEND_ERROR_OUT_OF_ADDRESSES) {
        trial_judge_range_addresses(t, &call);
    }
    if (made != MEND_OK) {
        return true;
    }
    const uint64_t tag = trial_sleep_tag(&call);
    mend_range_info info = MEND_RANGE_INFO_INIT;
    const mend_result result = mend_range_get_info(call.range, &info);
    trial_claim(t, TRIAL_MODEL,
                result == MEND_OK && info.page_bytes == call.page_bytes &&
                    info.size_bytes == mend_align_up(call.size_bytes, call.page_bytes) &&
                    info.committed_bytes == 0 && info.mapped_bytes == 0 &&
                    info.pool == t->pools[call.pool].pool,
                "a new range is described otherwise than it was asked for");
    *range = (trial_range){.range = call.range,
                           .pool = call.pool,
                           .base = (uint64_t)(uintptr_t)info.base,
                           .size_bytes = info.size_bytes,
                           .page_bytes = info.page_bytes,
                           .sleep_tag = tag != 0 ? tag : RANGE_TAG};
    return true;
}

trial_block *trial_page_at(trial *t, uint64_t address)
{
    for (int i = 0; i < TRIAL_BLOCKS; i++) {
        trial_block *block = &t->blocks[i];
        if (block->live && block->range != 0 && block->address == address) {
            return block;
        }
    }
    return NULL;
}

/* ---- commits --------------------------------------------------------------------------------- */

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

static uint64_t free_slots(const trial *t)
{
    uint64_t count = 0;
    for (int i = 0; i < TRIAL_BLOCKS; i++) {
        count += !t->blocks[i].live;
    }
    return count;
}

void trial_name_pages(const trial_range *range, const operation *op, trial_call *call)
{
    const uint64_t pages = range->size_bytes / range->page_bytes;
    const uint64_t first = op->size % pages;
    call->range = range->range;
    call->pool = range->pool;
    call->offset_bytes = first * range->page_bytes;
    call->size_bytes = mend_min_u64(1 + op->alignment, pages - first) * range->page_bytes;
}

static uint64_t missing_bytes(trial *t, const trial_range *range, const trial_call *call)
{
    uint64_t bytes = 0;
    for (uint64_t at = 0; at < call->size_bytes; at += range->page_bytes) {
        const uint64_t address = range->base + call->offset_bytes + at;
        bytes += trial_page_at(t, address) == NULL ? range->page_bytes : 0;
    }
    return bytes;
}

/* Contents of pages that were committed before stay. */
static void enter_pages(trial *t, const trial_range *range, const trial_call *call)
{
    const uint64_t tag = trial_sleep_tag(call);
    for (uint64_t at = 0; at < call->size_bytes; at += range->page_bytes) {
        const uint64_t address = range->base + call->offset_bytes + at;
        trial_block *page = trial_page_at(t, address) == NULL ? free_slot(t) : NULL;
        if (page != NULL) {
            *page = (trial_block){.live = true,
                                  .pool = call->pool,
                                  .address = address,
                                  .size_bytes = range->page_bytes,
                                  .requested_bytes = range->page_bytes,
                                  .allocated_on = call->stream,
                                  .home = call->at,
                                  .group = NOBODY,
                                  .sleep_tag = tag != 0 ? tag : range->sleep_tag,
                                  .scope = trial_scope_at(t, call->pool, address),
                                  .range = 1 + (int)(range - t->ranges)};
            trial_count_alloc(t, page);
            t->ranges[page->range - 1].zeros &=
                ~(UINT64_C(1) << (address - range->base) / range->page_bytes);
        }
    }
}

/* Writes or compares, page by page. */
static void use_pages(trial *t, const trial_range *range, const trial_call *call,
                      const operation *op, bool writes)
{
    for (uint64_t at = 0; at < call->size_bytes; at += range->page_bytes) {
        const trial_block *page = trial_page_at(t, range->base + call->offset_bytes + at);
        operation use = *op;
        if (page != NULL) {
            use.slot = (uint8_t)(page - t->blocks);
            trial_use(t, &use, writes);
        }
    }
}

/* The pool hears of streams that use the pages later only, if at all. */
static bool may_name_no_stream(const trial *t)
{
    bool may = !t->config.knows_all && t->captures == 0;
    for (int i = 0; i < TRIAL_GROUPS; i++) {
        may = may && (t->groups[i].group == NULL || !t->groups[i].begun);
    }
    return may;
}

uint64_t trial_needed(trial *t, const trial_call *call)
{
    uint64_t bytes = 0;
    for (int i = 0; i < TRIAL_RANGES; i++) {
        const trial_range *range = &t->ranges[i];
        bytes += range->range == call->range ? missing_bytes(t, range, call) : 0;
    }
    return mend_max_u64(bytes, call->needed_bytes);
}

bool trial_any_was_exported(const trial *t, int pool)
{
    const mend_tree_node *at = mend_tree_first(&t->pools[pool].pool->heap.chunks.all);
    bool any = false;
    for (; at != NULL; at = mend_tree_next(at)) {
        any |= MEND_CONTAINER_OF(at, mend_chunk, by_number)->was_exported;
    }
    return any;
}

bool trial_can_make_pages(trial *t, const trial_call *call)
{
    const mend_stats stats = trial_stats(t, call->pool);
    return stats.reserved_bytes + stats.zero_chunk_bytes <= stats.limit_bytes &&
           !trial_holds_memory_for_graphs(t) && !trial_any_was_exported(t, call->pool) &&
           !trial_owes(t);
}

/* Of the same pages the first ones, as many as the report says would fit. Callbacks may have
 * changed what there is. */
static void commit_what_fits(trial *t, const operation *op, const trial_range *range,
                             const trial_call *refused)
{
    trial_call call = {.kind = CALL_COMMIT,
                       .at = refused->at,
                       .pool = refused->pool,
                       .range = refused->range,
                       .offset_bytes = refused->offset_bytes,
                       .stream = refused->stream};
    const uint64_t calls_before = trial_stats(t, call.pool).pressure_calls;
    while (call.size_bytes < refused->size_bytes &&
           (call.size_bytes == 0 || missing_bytes(t, range, &call) < refused->fitting_bytes)) {
        call.size_bytes += range->page_bytes;
    }
    call.needed_bytes = missing_bytes(t, range, &call);
    if (call.needed_bytes != refused->fitting_bytes || call.needed_bytes == 0) {
        return;
    }
    const mend_result result = trial_call_pool(t, trial_thread_of(t, call.at, op->thread), &call);
    trial_claim(t, TRIAL_REFUSED,
                result == MEND_OK || call.faulty || !trial_can_make_pages(t, &call) ||
                    t->foreign_bytes != 0 || trial_is_rationed(t) ||
                    trial_stats(t, call.pool).pressure_calls > calls_before,
                "%llu bytes of pages would fit, was said, and are refused",
                LLU(refused->fitting_bytes));
    if (result == MEND_OK) {
        enter_pages(t, range, &call);
    }
}

static bool commit(trial *t, const operation *op)
{
    const trial_range *range = trial_range_of(t, op);
    const int stream = op->stream % t->stream_count;
    trial_call call = {.kind = CALL_COMMIT, .at = stream};
    if (range == NULL || !trial_is_open(t, stream)) {
        return false;
    }
    trial_name_pages(range, op, &call);
    call.needed_bytes = missing_bytes(t, range, &call);
    if (call.needed_bytes / range->page_bytes > free_slots(t)) {
        return false;
    }
    call.stream = op->amount % 16 == 15 && may_name_no_stream(t)
                      ? MEND_NO_STREAM
                      : trial_handle(t, stream, op->amount & 2);
    const mend_result result = trial_call_pool(t, trial_thread_of(t, stream, op->thread), &call);
    if (result == MEND_OK) {
        enter_pages(t, range, &call);
        use_pages(t, range, &call, op, op->amount & 1);
    } else if (result == MEND_ERROR_OUT_OF_MEMORY && !call.faulty && (op->amount & 4) != 0) {
        commit_what_fits(t, op, range, &call);
    }
    return true;
}

/* ---- decommits ------------------------------------------------------------------------------- */

/* All use of the committed ones among the pages comes before what follows on the stream. */
static bool lead_to(trial *t, const trial_range *range, const trial_call *call, int stream)
{
    for (uint64_t at = 0; at < call->size_bytes; at += range->page_bytes) {
        trial_block *page = trial_page_at(t, range->base + call->offset_bytes + at);
        if (page != NULL && (trial_is_in_capture(t, page) || !trial_move_to(t, page, stream) ||
                             !trial_join_readers(t, page, false))) {
            return false;
        }
    }
    return true;
}

/* Another stream, which is declared, reads the pages, and goes on when they are free. */
static void share_pages(trial *t, const trial_range *range, const trial_call *call,
                        const operation *op)
{
    enum { DECLARED_AND_LONG = 3 };
    for (uint64_t at = 0; at < call->size_bytes; at += range->page_bytes) {
        const trial_block *page = trial_page_at(t, range->base + call->offset_bytes + at);
        if (page != NULL) {
            trial_share(t, &(operation){.slot = (uint8_t)(page - t->blocks),
                                        .stream = (uint8_t)(op->stream + 1),
                                        .thread = op->thread,
                                        .amount = DECLARED_AND_LONG});
        }
    }
}

static void leave_pages(trial *t, const trial_range *range, const trial_call *call)
{
    for (uint64_t at = 0; at < call->size_bytes; at += range->page_bytes) {
        trial_block *page = trial_page_at(t, range->base + call->offset_bytes + at);
        if (page != NULL) {
            trial_end_block(t, page);
        }
    }
}

/* Behind the last looks at the pages, if `op` says so: then they are in flight. */
static bool decommit(trial *t, const operation *op)
{
    const trial_range *range = trial_range_of(t, op);
    const int stream = op->stream % t->stream_count;
    trial_call call = {.kind = CALL_DECOMMIT};
    if (range == NULL || !trial_is_open(t, stream) || t->may_be_lost) {
        return false;
    }
    trial_name_pages(range, op, &call);
    if ((op->amount & 64) != 0) {
        share_pages(t, range, &call, op);
    }
    if (!lead_to(t, range, &call, stream)) {
        return false;
    }
    if ((op->amount & 32) != 0) {
        use_pages(t, range, &call, op, false);
    }
    call.stream = op->amount % 8 == 5 ? MEND_NO_STREAM : trial_handle(t, stream, op->amount & 16);
    if (trial_call_pool(t, trial_thread_of(t, stream, op->thread), &call) == MEND_OK) {
        leave_pages(t, range, &call);
    }
    return true;
}

bool trial_range_is_pinned(const trial *t, const trial_range *range)
{
    bool is = false;
    for (int i = 0; i < TRIAL_PINS; i++) {
        const trial_pinned *pin = &t->pins[i];
        is |= pin->size_bytes != 0 && pin->address < range->base + range->size_bytes &&
              range->base < pin->address + pin->size_bytes;
    }
    return is;
}

bool trial_is_ending(const trial *t, const trial_block *block)
{
    return block->range != 0 && block->range == t->ending;
}

/* With all its pages, whatever still runs. */
static bool destroy(trial *t, trial_range *range, int stream, const operation *op)
{
    trial_call call = {.kind = CALL_RANGE_DESTROY,
                       .pool = range->pool,
                       .range = range->range,
                       .size_bytes = range->size_bytes};
    if (!trial_is_open(t, stream) || !lead_to(t, range, &call, stream)) {
        return false;
    }
    if ((op->amount & 32) != 0) {
        use_pages(t, range, &call, op, false);
    }
    call.stream = op->amount % 8 == 5 ? MEND_NO_STREAM : trial_handle(t, stream, false);
    if (trial_range_is_pinned(t, range)) {
        call.expected = MEND_ERROR_INVALID_ARGUMENT;
    }
    t->ending = 1 + (int)(range - t->ranges);
    const mend_result result = trial_call_pool(t, trial_thread_of(t, stream, op->thread), &call);
    t->ending = 0;
    if (result == MEND_OK) {
        leave_pages(t, range, &call);
        *range = (trial_range){0};
    }
    return true;
}

static bool destroy_range(trial *t, const operation *op)
{
    trial_range *range = trial_range_of(t, op);
    return range != NULL && !t->may_be_lost && destroy(t, range, op->stream % t->stream_count, op);
}

/* Nothing is pinned or captured any more. Where the device is lost the pools end with theirs. */
void trial_end_ranges(trial *t)
{
    for (int i = 0; i < TRIAL_RANGES; i++) {
        trial_range *range = &t->ranges[i];
        if (range->range != NULL && t->outcome->verdict == TRIAL_HOLDS) {
            destroy(t, range, 0, &(operation){.amount = 0});
            trial_claim(t, TRIAL_LIVENESS, range->range == NULL || t->may_be_lost || t->stopped,
                        "in the end a range is not destroyed");
        }
    }
}

bool trial_range_operation(trial *t, const operation *op)
{
    switch (op->kind) {
    case OP_RANGE_CREATE:
        return create_range(t, op);
    case OP_COMMIT:
        return commit(t, op);
    case OP_DECOMMIT:
        return decommit(t, op);
    default:
        return destroy_range(t, op);
    }
}

/* ---- figures --------------------------------------------------------------------------------- */

trial_range_figures trial_look_at_ranges(const trial *t, int pool)
{
    trial_range_figures figures = {0};
    for (int i = 0; i < TRIAL_RANGES; i++) {
        const trial_range *range = &t->ranges[i];
        mend_range_info info = MEND_RANGE_INFO_INIT;
        if (range->range != NULL && range->pool == pool &&
            mend_range_get_info(range->range, &info) == MEND_OK) {
            figures.ranges++;
            figures.size_bytes += range->size_bytes;
            figures.asleep_bytes += info.asleep_bytes;
            figures.unused_bytes += info.mapped_bytes + info.asleep_bytes - info.committed_bytes;
        }
    }
    return figures;
}
