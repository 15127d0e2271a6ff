/* Runs at a given capacity, and the search for the smallest one that is enough. */
#include "lab/replay/replay.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/align.h"
#include "base/error.h"
#include "lab/peers/policies.h"
#include "lab/replay/session.h"

/* The grid of the search: steps of 0.2 %, at least up to 1.100. */
enum { STEPS_IN_ONE = 500, LEAST_TOP_STEP = 50 };

typedef struct fit_search {
    const mend_trace *trace;
    const mend_peer_policy *policy;
    const mend_replay_options *options;
} fit_search;

static uint64_t step_capacity(const fit_search *search, uint64_t step)
{
    long double extra = (long double)search->trace->peak_live_bytes * (long double)step;
    return search->trace->peak_live_bytes + (uint64_t)ceill(extra / (long double)STEPS_IN_ONE);
}

static mend_result probe(const fit_search *search, uint64_t capacity_bytes, double factor,
                         mend_replay_result *result)
{
    char phase[32] = "unlimited";
    if (capacity_bytes != 0) {
        snprintf(phase, sizeof(phase), "fit %.3fx", factor);
    }
    mend_replay_options options = *search->options;
    options.sample_limit = 0;
    options.check_content = false;
    options.explain = false;
    return mend_replay_session(search->trace, search->policy, capacity_bytes, &options, true, phase,
                               result);
}

/* One run whose figures are reported. If it is to be explained, a first run finds the moments. Both
 * do the same, because nothing in them is random. */
static mend_result measure(const fit_search *search, uint64_t capacity_bytes,
                           mend_replay_result *result)
{
    mend_replay_options options = *search->options;
    if (options.explain) {
        mend_replay_result first;
        options.sample_limit = 0;
        mend_result outcome = mend_replay_session(search->trace, search->policy, capacity_bytes,
                                                  &options, true, "first run", &first);
        if (outcome != MEND_OK) {
            return outcome;
        }
        options.sample_limit = search->options->sample_limit;
        options.peaks = first.peaks;
    }
    return mend_replay_session(search->trace, search->policy, capacity_bytes, &options, false, "",
                               result);
}

static double factor_of(uint64_t step)
{
    return 1 + (double)step / (double)STEPS_IN_ONE;
}

/* The lowest step that has at least `bytes`. At least 0. */
static uint64_t step_that_holds(const fit_search *search, uint64_t bytes)
{
    uint64_t live_bytes = search->trace->peak_live_bytes;
    if (bytes <= live_bytes) {
        return 0;
    }
    long double steps =
        (long double)(bytes - live_bytes) * (long double)STEPS_IN_ONE / (long double)live_bytes;
    return (uint64_t)ceill(steps);
}

/*
 * The lowest point that a completed run at `step` proves. Points with the same number of pages are
 * the same device. And a policy that notices the limit only when memory is refused does the same at
 * every capacity from its peak of reserved bytes up to the capacity of this run.
 */
static uint64_t proven_step(const fit_search *search, uint64_t step,
                            const mend_replay_result *result)
{
    uint64_t least_bytes = result->capacity_bytes - result->page_bytes + 1;
    if (search->policy->limit_only_refuses) {
        least_bytes = mend_min_u64(least_bytes, result->peak_reserved_bytes);
    }
    return mend_min_u64(step, step_that_holds(search, least_bytes));
}

/* Scans from `top` downwards and stops at the first point that fails. */
static mend_result scan(const fit_search *search, uint64_t top, bool *found, uint64_t *best)
{
    *found = false;
    for (uint64_t step = top;; step--) {
        mend_replay_result result;
        mend_result outcome = probe(search, step_capacity(search, step), factor_of(step), &result);
        if (outcome != MEND_OK || !result.completed || result.problem[0] != 0) {
            return outcome;
        }
        step = proven_step(search, step, &result);
        *found = true;
        *best = step;
        if (step == 0) {
            return MEND_OK;
        }
    }
}

static mend_result run_fitted(const fit_search *search, mend_replay_result *result)
{
    if (search->trace->peak_live_bytes == 0) {
        return mend_fail(MEND_ERROR_INVALID_ARGUMENT, "nothing to fit: no byte is ever live");
    }
    mend_replay_result unlimited;
    mend_result outcome = probe(search, 0, 0, &unlimited);
    if (outcome != MEND_OK) {
        return outcome;
    }
    uint64_t top =
        mend_max_u64(LEAST_TOP_STEP, step_that_holds(search, unlimited.peak_reserved_bytes));
    bool found = false;
    uint64_t best = top;
    outcome = scan(search, top, &found, &best);
    if (outcome != MEND_OK) {
        return outcome;
    }
    outcome = measure(search, step_capacity(search, best), result);
    if (outcome == MEND_OK && found) {
        result->fitted = true;
        result->fit_capacity_bytes = result->capacity_bytes;
        result->fit_factor = factor_of(best);
    }
    return outcome;
}

bool mend_replay_knows_policy(const char *policy, mend_replay_device device)
{
    const mend_peer_policy *found = mend_peer_find_policy(policy);
    return found != NULL && !(found->is_real && device == MEND_REPLAY_SIM);
}

mend_result mend_replay_run(const mend_trace *trace, const char *policy,
                            const mend_capacity *capacity, const mend_replay_options *options,
                            mend_replay_result *result)
{
    if (!mend_replay_knows_policy(policy, options->device)) {
        return mend_fail(MEND_ERROR_INVALID_ARGUMENT, "no policy \"%s\" on this device", policy);
    }
    fit_search search = {trace, mend_peer_find_policy(policy), options};
    uint64_t capacity_bytes = 0;
    if (capacity->kind == MEND_CAPACITY_FIT) {
        return run_fitted(&search, result);
    }
    if (capacity->kind == MEND_CAPACITY_BYTES) {
        capacity_bytes = capacity->bytes;
    }
    if (capacity->kind == MEND_CAPACITY_FACTOR) {
        long double bytes = (long double)trace->peak_live_bytes * (long double)capacity->factor;
        if (bytes >= (long double)(UINT64_C(1) << 61)) {
            return mend_fail(MEND_ERROR_INVALID_ARGUMENT, "a capacity of more than 2^61 bytes");
        }
        capacity_bytes = mend_max_u64((uint64_t)ceill(bytes), 1);
    }
    return measure(&search, capacity_bytes, result);
}
