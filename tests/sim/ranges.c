#include "tests/sim/ranges.h"

#include "tests/sim/asleep.h"
#include "tests/sim/quotas.h"

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
    if (call->result != MEND_ERROR_OUT_OF_ADDRESS_SPACE) {
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

bool trial_create_range(trial *t, const operation *op)
{
    trial_range *range = &t->ranges[op->slot % TRIAL_RANGES];
    if (range->range != NULL) {
        return false;
    }
    /* From one page of the device to an eighth of its memory. */
    const uint64_t pages[] = {
        1, 1, 2, 3, 4, 8, 1 + t->config.device_pages / 32, 1 + t->config.device_pages / 8};
    trial_call call = {.kind = CALL_RANGE_CREATE,
                       .pool = op->alignment % t->pool_count,
                       .page_bytes = t->page_bytes * pages[op->size % 8]};
    call.size_bytes = call.page_bytes * (1 + op->amount % 40u) - op->alignment % 2;
    const mend_result made = trial_call_pool(t, op->thread % t->turns.count, &call);
    if (made == MEND_ERROR_OUT_OF_ADDRESS_SPACE) {
        trial_claim(t, TRIAL_REFUSED, t->config.address_devices != 0 || call.faulty,
                    "no addresses for a range where there are 128 TiB");
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
    TRIAL_EACH_BLOCK(trial_block, block, t) {
        if (block->live && block->range != 0 && block->address == address) {
            return block;
        }
    }
    return NULL;
}

/* ---- pages ---------------------------------------------------------------------------------- */

void trial_name_pages(const trial_range *range, const operation *op, trial_call *call)
{
    const uint64_t pages = range->size_bytes / range->page_bytes;
    const uint64_t first = op->size % pages;
    call->range = range->range;
    call->pool = range->pool;
    call->offset_bytes = first * range->page_bytes;
    call->size_bytes = mend_min_u64(1 + op->alignment, pages - first) * range->page_bytes;
}

void trial_use_pages(trial *t, const trial_range *range, const trial_call *call,
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

/* ---- pages in captured graphs ---------------------------------------------------------------- */

/* A graph may be launched whenever all pages that it uses are committed, whatever became of them
 * since its capture. */

bool trial_record_page(trial *t, const operation *op, const trial_block *page, int stream)
{
    trial_page_uses *uses = &t->streams[stream].page_uses;
    const bool writes = op->amount & 1;
    if (uses->count == TRIAL_PAGE_USES || t->streams[stream].origin != stream) {
        return false;
    }
    const uint64_t tag = writes ? ++t->last_tag : 0;
    trial_call call = {.kind = CALL_LAUNCH,
                       .stream = trial_handle(t, stream, op->amount & 16),
                       .work = {.kind = writes ? MEND_SIM_WORK_WRITE : MEND_SIM_WORK_TOUCH,
                                .address = page->address,
                                .size_bytes = page->size_bytes,
                                .tag = tag,
                                .finish_ns = mend_sim_now_ns(t->sim)}};
    if (trial_call_device(t, trial_thread_of(t, stream, op->thread), &call)) {
        uses->list[uses->count++] = (trial_page_use){page->address, page->size_bytes, tag};
    }
    return true;
}

static trial_block *page_of(trial *t, const trial_page_use *use)
{
    trial_block *page = trial_page_at(t, use->address);
    return page != NULL && page->size_bytes == use->size_bytes ? page : NULL;
}

bool trial_lead_pages(trial *t, const trial_page_uses *uses, int stream)
{
    bool can = true;
    for (uint32_t i = 0; i < uses->count; i++) {
        const trial_block *page = page_of(t, &uses->list[i]);
        can = can && page != NULL && !page->unmapped && !page->asleep &&
              !trial_is_in_capture(t, page) && (uses->list[i].tag == 0 || !page->frozen);
    }
    for (uint32_t i = 0; i < uses->count && can; i++) {
        trial_block *page = page_of(t, &uses->list[i]);
        can = trial_move_to(t, page, stream) &&
              (uses->list[i].tag == 0 || trial_join_readers(t, page, true));
    }
    return can;
}

void trial_note_pages(trial *t, const trial_page_uses *uses)
{
    for (uint32_t i = 0; i < uses->count; i++) {
        trial_block *page = page_of(t, &uses->list[i]);
        page->used = true;
        page->written = page->written || uses->list[i].tag != 0;
        page->tag = uses->list[i].tag != 0 ? uses->list[i].tag : page->tag;
    }
}

/* ---- decommits ------------------------------------------------------------------------------- */

/* All use of the committed pages precedes later work on the stream. */
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
bool trial_decommit(trial *t, const operation *op)
{
    const trial_range *range = trial_range_of(t, op);
    const int stream = op->stream % t->stream_count;
    trial_call call = {.kind = CALL_DECOMMIT};
    if (range == NULL || !trial_is_open(t, stream)) {
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
        trial_use_pages(t, range, &call, op, false);
    }
    call.stream = op->amount % 8 == 5 ? MEND_NO_STREAM : trial_handle(t, stream, op->amount & 16);
    if (trial_call_pool(t, trial_thread_of(t, stream, op->thread), &call) == MEND_OK) {
        leave_pages(t, range, &call);
    }
    return true;
}

static bool is_pinned(const trial *t, const trial_range *range)
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
        trial_use_pages(t, range, &call, op, false);
    }
    call.stream = op->amount % 8 == 5 ? MEND_NO_STREAM : trial_handle(t, stream, false);
    if (is_pinned(t, range)) {
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

bool trial_destroy_range(trial *t, const operation *op)
{
    trial_range *range = trial_range_of(t, op);
    return range != NULL && destroy(t, range, op->stream % t->stream_count, op);
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
