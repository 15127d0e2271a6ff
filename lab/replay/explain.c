#include "lab/replay/explain.h"

static void note_peaks(mend_replay_peaks *peaks, uint64_t event, uint64_t live_bytes,
                       uint64_t reserved_bytes)
{
    uint64_t waste_bytes = reserved_bytes > live_bytes ? reserved_bytes - live_bytes : 0;
    if (reserved_bytes > peaks->reserved.bytes) {
        peaks->reserved.bytes = reserved_bytes;
        peaks->reserved.event = event;
    }
    if (waste_bytes > peaks->waste.bytes) {
        peaks->waste.bytes = waste_bytes;
        peaks->waste.event = event;
    }
}

/* The number of the live block at the address. */
static bool find_block(const mend_replay_view *view, uint64_t address, uint32_t *block)
{
    for (size_t i = 0; i < view->trace->block_count; i++) {
        if (view->uses[i].address == address) {
            *block = (uint32_t)i;
            return true;
        }
    }
    return false;
}

static mend_replay_owner describe_owner(const mend_replay_view *view, uint64_t address)
{
    mend_replay_owner owner = {0};
    uint32_t block;
    if (!find_block(view, address, &block)) {
        return owner;
    }
    for (size_t i = 0; i < view->trace->event_count; i++) {
        const mend_trace_event *event = &view->trace->events[i];
        if (event->block == block && event->is_alloc) {
            owner.allocated_at = i;
        } else if (event->block == block) {
            owner.is_freed = true;
            owner.freed_at = i;
        }
    }
    return owner;
}

static void take_moment(const mend_replay_view *view, uint64_t event, mend_replay_moment_kind kind,
                        mend_replay_result *result)
{
    if (view->peer->explain == NULL) {
        return;
    }
    const mend_trace_event *at = &view->trace->events[event];
    mend_replay_moment *moment = &result->explanation->moments[kind];
    mend_result outcome =
        view->peer->explain(view->peer, view->streams[at->stream], &moment->state);
    if (outcome != MEND_OK) {
        mend_replay_note_problem(result, "event %llu: the explanation gave %s",
                                 (unsigned long long)event, mend_result_name(outcome));
        return;
    }
    moment->applies = true;
    moment->event = event;
    moment->is_alloc = at->is_alloc;
    moment->size_bytes = at->size_bytes;
    for (size_t i = 0; i < moment->state.emptiest_count; i++) {
        moment->owners[i] = describe_owner(view, moment->state.emptiest[i].owner_address);
    }
}

/* Checks that this run does the same as the probe. */
static void expect_same(mend_replay_result *result, uint64_t event, uint64_t expected_bytes,
                        uint64_t bytes)
{
    if (bytes != expected_bytes) {
        mend_replay_note_problem(result, "event %llu: the second run differs from the first",
                                 (unsigned long long)event);
    }
}

void mend_replay_look(const mend_replay_view *view, uint64_t event, uint64_t live_bytes,
                      mend_replay_result *result)
{
    if (view->peer->explain == NULL) {
        return;
    }
    if (view->is_probe) {
        mend_peer_usage usage;
        view->peer->operations->get_usage(view->peer, &usage);
        note_peaks(&result->peaks, event, live_bytes, usage.reserved_bytes);
        return;
    }
    const mend_replay_peaks *peaks = &view->options->peaks;
    const mend_replay_moment *moments = result->explanation->moments;
    if (peaks->reserved.bytes > 0 && peaks->reserved.event == event) {
        take_moment(view, event, MEND_MOMENT_PEAK_RESERVED, result);
        const mend_explanation *state = &moments[MEND_MOMENT_PEAK_RESERVED].state;
        expect_same(result, event, peaks->reserved.bytes, state->reserved_bytes);
    }
    if (peaks->waste.bytes > 0 && peaks->waste.event == event) {
        take_moment(view, event, MEND_MOMENT_PEAK_WASTE, result);
        const mend_explanation *state = &moments[MEND_MOMENT_PEAK_WASTE].state;
        expect_same(result, event, peaks->waste.bytes, state->reserved_bytes - state->live_bytes);
    }
}

void mend_replay_look_at_end(const mend_replay_view *view, const mend_replay_costs *costs,
                             const mend_replay_costs *costs_at_half, mend_replay_result *result)
{
    mend_replay_explanation *explanation = result->explanation;
    explanation->knows_memory = view->peer->explain != NULL;
    explanation->costs = *costs;
    explanation->costs_second_half = *costs;
    mend_replay_costs_subtract(&explanation->costs_second_half, costs_at_half);
    if (!costs->is_complete) {
        mend_replay_note_problem(result, "no host memory to sort driver calls by their cause");
    }
    if (!result->completed && result->problem[0] == 0) {
        take_moment(view, result->failed_at_event, MEND_MOMENT_FAILURE, result);
    }
}
