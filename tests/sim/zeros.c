/*
 * Pages of ranges that read as zeros, in a trial. The model knows which ones were asked for and are
 * not committed since. A page that the pool has made readable is read by work in flight, which
 * commits must wait for, and by a look at its bytes; one that it could not map again must say so.
 */
#include "layout/ranges.h"
#include "pool/pool.h"
#include "tests/sim/ranges.h"
#include "tests/sim/rations.h"

#define LLU(value) ((unsigned long long)(value))

static uint64_t page_count(const trial_range *range)
{
    return range->size_bytes / range->page_bytes;
}

/* ---- the call -------------------------------------------------------------------------------- */

bool trial_may_answer_zeros(const trial *t, const trial_call *call, bool holds_capture)
{
    bool has_pins = false;
    for (int i = 0; i < TRIAL_RANGES; i++) {
        const trial_range *range = &t->ranges[i];
        has_pins |= range->range == call->range && trial_range_is_pinned(t, range);
    }
    switch (call->result) {
    case MEND_ERROR_CAPTURING:
        return holds_capture;
    case MEND_ERROR_PINNED:
        return has_pins;
    default:
        return call->result == MEND_ERROR_OUT_OF_MEMORY; /* judged by judge_refusal */
    }
}

/* The chunk of zeros takes a page. Without captures a trim finds all empty chunks idle. */
static void judge_refusal(trial *t, const trial_range *range, const trial_call *call)
{
    const bool is_certain = trial_knows_memory(t) && !trial_is_rationed(t) &&
                            !trial_any_was_exported(t, range->pool) && !trial_may_be_captured(t);
    trial_claim(t, TRIAL_REFUSED,
                call->result != MEND_ERROR_OUT_OF_MEMORY || !is_certain ||
                    mend_min_u64(trial_room(t, range->pool),
                                 trial_room_for_chunks(t, range->pool)) < range->page_bytes,
                "a page of %llu bytes for zeros is refused, and there is room for it",
                LLU(range->page_bytes));
}

/* Work that reads a page of zeros, on a stream that the pool's waits for the context cover. */
static void look(trial *t, const trial_range *range, uint64_t page, const operation *op)
{
    const int stream = op->stream % t->stream_count;
    const bool in_flight = (op->amount & 1) != 0;
    if (!trial_is_open(t, stream) || t->streams[stream].foreign ||
        (mend_zeros_of(range->range, page) & MEND_ZEROS_READABLE) == 0) {
        return;
    }
    trial_call call = {.kind = CALL_LAUNCH,
                       .stream = trial_handle(t, stream, op->amount & 16),
                       .work = {.kind = MEND_SIM_WORK_TOUCH,
                                .address = range->base + page * range->page_bytes,
                                .size_bytes = range->page_bytes,
                                .finish_ns = mend_sim_now_ns(t->sim) +
                                             (in_flight ? trial_duration(t, op->amount | 8u) : 0)}};
    trial_call_device(t, trial_thread_of(t, stream, op->thread), &call);
}

bool trial_map_zeros(trial *t, const operation *op)
{
    trial_range *range = trial_range_of(t, op);
    trial_call call = {.kind = CALL_ZEROS};
    if (range == NULL) {
        return false;
    }
    trial_name_pages(range, op, &call);
    t->had_any_zeros = true;
    const mend_result result = trial_call_pool(t, op->thread % t->turns.count, &call);
    judge_refusal(t, range, &call);
    const uint64_t first = call.offset_bytes / range->page_bytes;
    const uint64_t end = first + call.size_bytes / range->page_bytes;
    for (uint64_t page = first; page < end && result == MEND_OK; page++) {
        const bool is_committed = trial_page_at(t, range->base + page * range->page_bytes) != NULL;
        range->zeros |= is_committed ? 0 : UINT64_C(1) << page;
    }
    for (uint64_t page = 0; page < page_count(range) && !t->may_be_lost && !t->stopped; page++) {
        look(t, range, page, op);
    }
    return true;
}

/* ---- what holds after every step ------------------------------------------------------------- */

/* Where the bytes are kept, the first ones and the last ones are zeros. */
static bool shows_zeros(const trial *t, uint64_t address, uint64_t size_bytes)
{
    enum { SEEN_BYTES = 64 };
    mend_sim_place place = MEND_SIM_PLACE_INIT;
    if (mend_sim_look_up(t->sim, 0, address, size_bytes, &place) != MEND_OK ||
        !place.is_accessible) {
        return false;
    }
    const unsigned char *first = (const unsigned char *)(uintptr_t)address;
    const unsigned char *last = first + size_bytes - SEEN_BYTES;
    unsigned seen = 0;
    for (int i = 0; i < SEEN_BYTES && t->config.content != 0; i++) {
        seen |= first[i] | last[i];
    }
    return seen == 0;
}

static void judge_page(trial *t, const trial_range *range, uint64_t page)
{
    const unsigned bits = mend_zeros_of(range->range, page);
    const bool is_asked_for = (range->zeros >> page & 1) != 0;
    const uint64_t address = range->base + page * range->page_bytes;
    trial_claim(t, TRIAL_MODEL, ((bits & MEND_ZEROS_WANTED) != 0) == is_asked_for,
                "page %llu of a range %s as zeros", LLU(page),
                is_asked_for ? "was to read, and is not," : "reads, and was not to,");
    trial_claim(t, TRIAL_CONTENT,
                (bits & MEND_ZEROS_READABLE) == 0 || t->may_be_lost || t->stopped ||
                    shows_zeros(t, address, range->page_bytes),
                "page %llu of a range does not show zeros", LLU(page));
}

/* A page is lost only where something was refused, or may be, or a capture forbade the way back. */
void trial_judge_zeros(trial *t)
{
    t->zeros_excused |= trial_is_faulty(t) || t->captures > 0 || t->lacked_memory || t->refused ||
                        t->has_spoilt || t->foreign_bytes != 0 || t->quota_bytes != 0 ||
                        trial_is_rationed(t) || t->pool_count > 1 || t->config.vanish != 0 ||
                        t->disturbed;
    t->had_zeros = t->has_zeros || t->op->kind == OP_ZEROS;
    t->has_zeros = false;
    for (int i = 0; i < TRIAL_RANGES; i++) {
        const trial_range *range = &t->ranges[i];
        t->has_zeros |= range->zeros != 0;
        for (uint64_t page = 0; range->range != NULL && page < page_count(range); page++) {
            judge_page(t, range, page);
        }
        trial_claim(t, TRIAL_MODEL,
                    range->range == NULL || range->range->zeros_unsettled == 0 || t->zeros_excused,
                    "%llu pages lost their zeros, and nothing was refused",
                    LLU(range->range != NULL ? range->range->zeros_unsettled : 0));
    }
    t->had_zeros |= t->has_zeros;
}
