#include "lab/replay/json.h"

#include <math.h>

#include "lab/replay/explain.h"
#include "lab/support/json.h"
#include "pool/pool.h"

/* ---- the explanation ------------------------------------------------------------------------- */

static const char *const zone_names[MEND_ZONES_OF_BLOCKS] = {"small", "large"};
static const char *const place_names[MEND_FREE_PLACES] = {"whole", "edge", "hole"};
static const char *const reason_names[MEND_FREE_REASONS] = {"idle", "own", "streams", "streamless",
                                                            "graph_pools"};
static const char *const count_names[MEND_EXPLAIN_OWNER_COUNTS] = {"1", "2", "3-4", "5+"};

static const char *const moment_names[MEND_MOMENT_COUNT] = {"peak_reserved", "peak_waste",
                                                            "failure"};
static const char *const cause_names[MEND_CAUSE_COUNT] = {
#define X(name, meaning) #name,
    MEND_REPLAY_CAUSES(X)
#undef X
};

static void print_free(mend_json *json, const mend_explanation *state, int zone)
{
    for (int place = 0; place < MEND_FREE_PLACES; place++) {
        mend_json_begin_object(json, place_names[place]);
        for (int reason = 0; reason < MEND_FREE_REASONS; reason++) {
            mend_json_integer(json, reason_names[reason], state->free_bytes[zone][place][reason]);
        }
        mend_json_end_object(json);
    }
}

/* The last class has no bound. */
static void print_bound(mend_json *json, const char *key, uint64_t bytes)
{
    mend_json_integer_if(json, key, bytes != UINT64_MAX, bytes);
}

/* The end of an object. */
static void print_partial(mend_json *json, const mend_partial_sum *sum)
{
    mend_json_integer(json, "chunks", sum->chunks);
    mend_json_integer(json, "free_bytes", sum->free_bytes);
    mend_json_end_object(json);
}

static void print_sum(mend_json *json, const char *key, const mend_partial_sum *sum)
{
    mend_json_begin_object(json, key);
    print_partial(json, sum);
}

static void print_zone(mend_json *json, const mend_explanation *state, int zone)
{
    mend_json_begin_object(json, zone_names[zone]);
    print_free(json, state, zone);
    mend_json_begin_array(json, "partial_by_size");
    for (size_t i = 0; i < MEND_EXPLAIN_CLASSES; i++) {
        const mend_partial_sum *sum = &state->by_owner_size[zone][i];
        if (sum->chunks == 0) {
            continue;
        }
        mend_json_begin_object(json, NULL);
        print_bound(json, "owner_up_to_bytes", mend_explain_class_bytes(i));
        print_partial(json, sum);
    }
    mend_json_end_array(json);
    mend_json_begin_object(json, "partial_by_owners");
    for (size_t i = 0; i < MEND_EXPLAIN_OWNER_COUNTS; i++) {
        print_sum(json, count_names[i], &state->by_owner_count[zone][i]);
    }
    mend_json_end_object(json);
    print_sum(json, "reached_into", &state->reached_into[zone]);
    mend_json_end_object(json);
}

static void print_emptiest(mend_json *json, const mend_partial_chunk *partial,
                           const mend_replay_owner *owner)
{
    mend_json_begin_object(json, NULL);
    mend_json_string(json, "zone", zone_names[partial->zone]);
    mend_json_integer(json, "chunk_bytes", partial->size_bytes);
    mend_json_integer(json, "free_bytes", partial->free_bytes);
    mend_json_integer(json, "owners", partial->owners);
    mend_json_integer(json, "owner_bytes", partial->owner_bytes);
    mend_json_integer(json, "held_bytes", partial->held_bytes);
    mend_json_integer(json, "allocated_at_event", owner->allocated_at);
    mend_json_integer_if(json, "freed_at_event", owner->is_freed, owner->freed_at);
    mend_json_end_object(json);
}

static void print_moment(mend_json *json, const char *key, const mend_replay_moment *moment)
{
    const mend_explanation *state = &moment->state;
    if (!moment->applies) {
        mend_json_null(json, key);
        return;
    }
    mend_json_begin_object(json, key);
    mend_json_integer(json, "event", moment->event);
    mend_json_string(json, "action", moment->is_alloc ? "allocate" : "free");
    mend_json_integer(json, "size_bytes", moment->size_bytes);
    mend_json_integer(json, "reserved_bytes", state->reserved_bytes);
    mend_json_integer(json, "live_bytes", state->live_bytes);
    mend_json_integer(json, "unmapped_bytes", state->unmapped_bytes);
    for (int zone = 0; zone < MEND_ZONES_OF_BLOCKS; zone++) {
        print_zone(json, state, zone);
    }
    mend_json_begin_array(json, "emptiest");
    for (size_t i = 0; i < state->emptiest_count; i++) {
        print_emptiest(json, &state->emptiest[i], &moment->owners[i]);
    }
    mend_json_end_array(json);
    mend_json_integer(json, "lent_bytes", state->lent_bytes);
    mend_json_integer(json, "usable_bytes", state->usable_bytes);
    mend_json_integer(json, "retired_mappings", state->retired_mappings);
    mend_json_integer(json, "retired_bytes", state->retired_bytes);
    mend_json_end_object(json);
}

static void print_sizes(mend_json *json, const mend_replay_costs *costs, size_t cause)
{
    mend_json_begin_array(json, "by_chunk_size");
    for (size_t i = 0; i < MEND_CAUSE_CLASSES; i++) {
        if (costs->by_size[cause][i].chunks == 0 && costs->by_size[cause][i].time_ns == 0) {
            continue;
        }
        mend_json_begin_object(json, NULL);
        print_bound(json, "up_to_bytes", mend_cause_class_bytes(i));
        mend_json_integer(json, "chunks", costs->by_size[cause][i].chunks);
        mend_json_number(json, "us", (double)costs->by_size[cause][i].time_ns / 1000, 3);
        mend_json_end_object(json);
    }
    mend_json_end_array(json);
}

static void print_costs(mend_json *json, const char *key, const mend_replay_costs *costs)
{
    mend_json_begin_object(json, key);
    for (size_t cause = 0; cause < MEND_CAUSE_COUNT; cause++) {
        mend_json_begin_object(json, cause_names[cause]);
        mend_json_number(json, "us", (double)costs->by_cause[cause].time_ns / 1000, 3);
        mend_json_integer(json, "calls", costs->by_cause[cause].calls);
        if (cause <= MEND_CAUSE_undoing) {
            print_sizes(json, costs, cause);
        }
        mend_json_end_object(json);
    }
    mend_json_end_object(json);
}

static void print_explanation(mend_json *json, const mend_replay_explanation *explanation)
{
    mend_json_begin_object(json, "explain");
    if (explanation->knows_memory) {
        mend_json_begin_object(json, "memory");
        for (size_t i = 0; i < MEND_MOMENT_COUNT; i++) {
            print_moment(json, moment_names[i], &explanation->moments[i]);
        }
        mend_json_end_object(json);
    } else {
        mend_json_null(json, "memory");
    }
    print_costs(json, "driver_time", &explanation->costs);
    print_costs(json, "driver_time_second_half", &explanation->costs_second_half);
    mend_json_end_object(json);
}

/* ---- the run ------------------------------------------------------------------------------- */

static void print_calls(mend_json *json, const char *key, const mend_replay_calls *calls)
{
    mend_json_begin_object(json, key);
#define X(call) mend_json_integer(json, #call, calls->call##_calls);
    MEND_REPLAY_CALLS(X)
#undef X
    mend_json_end_object(json);
}

static void print_placements(mend_json *json, const mend_peer_placements *placed)
{
    mend_json_begin_object(json, "placed");
#define X(name, counter) mend_json_integer(json, #name, placed->name);
    MEND_PEER_PLACEMENTS(X)
#undef X
    mend_json_end_object(json);
}

static void print_latency(mend_json *json, const char *key, const mend_replay_latency *latency)
{
    if (latency->calls == 0) {
        mend_json_null(json, key);
        return;
    }
    mend_json_begin_object(json, key);
    mend_json_integer(json, "mean", latency->mean_ns);
    mend_json_integer(json, "p50", latency->p50_ns);
    mend_json_integer(json, "p99", latency->p99_ns);
    mend_json_integer(json, "p999", latency->p999_ns);
    mend_json_integer(json, "max", latency->max_ns);
    mend_json_end_object(json);
}

/* NULL: not on a simulated device. */
static void print_by_list(mend_json *json, const char *name, const mend_replay_by_list *times)
{
    if (times == NULL) {
        mend_json_null(json, name);
        return;
    }
    mend_json_begin_object(json, name);
    for (size_t i = 0; i < MEND_REPLAY_LISTS; i++) {
        mend_json_number(json, mend_replay_lists[i], times->us[i], 3);
    }
    mend_json_end_object(json);
}

static void print_felt(mend_json *json, const mend_replay_result *result)
{
    const mend_replay_felt *felt = &result->felt;
    if (!result->is_felt) {
        mend_json_null(json, "felt");
        return;
    }
    mend_json_begin_object(json, "felt");
    mend_json_number(json, "longest_us", felt->longest_us, 1);
    mend_json_number(json, "p999_us", felt->p999_us, 1);
    mend_json_integer(json, "above_5_ms", felt->above_5_ms);
    mend_json_number(json, "gpu_bound_percent", felt->gpu_bound_percent, 3);
    mend_json_number(json, "host_bound_percent", felt->host_bound_percent, 3);
    mend_json_end_object(json);
}

void mend_replay_print_json(FILE *out, const mend_replay_row *row)
{
    const mend_replay_result *result = row->result;
    static const double none = NAN;
    bool simulated = row->options->device == MEND_REPLAY_SIM;
    mend_json writer = {.out = out};
    mend_json *json = &writer;
    mend_json_begin_object(json, NULL);
    mend_json_string(json, "trace", row->trace->name);
    mend_json_string(json, "policy", row->policy);
    mend_json_string(json, "device", simulated ? "sim" : "cuda");
    mend_json_string(json, "costs", simulated ? mend_replay_chosen_costs(row->options) : NULL);
    mend_json_string(json, "compared_costs",
                     simulated ? mend_replay_compared_costs(row->options) : NULL);
    mend_json_integer_if(json, "capacity_bytes", result->limited, result->capacity_bytes);
    mend_json_integer_if(json, "ballast_bytes", result->ballast_bytes > 0, result->ballast_bytes);
    mend_json_bool(json, "completed", result->completed);
    mend_json_integer_if(json, "failed_at_event", !result->completed, result->failed_at_event);
    mend_json_integer(json, "failed_in_recording", row->trace->failed_count);
    mend_json_bool(json, "recording_failed_last", row->trace->failed_last > 0);
    mend_json_integer(json, "failed_again", result->failed_again);
    mend_json_integer(json, "events", result->events);
    mend_json_integer(json, "peak_live_bytes", result->peak_live_bytes);
    mend_json_integer(json, "peak_reserved_bytes", result->peak_reserved_bytes);
    mend_json_integer_if(json, "fit_capacity_bytes", result->fitted, result->fit_capacity_bytes);
    mend_json_number(json, "fit_factor", result->fitted ? result->fit_factor : none, 3);
    mend_json_integer(json, "host_syncs", result->host_syncs);
    mend_json_integer(json, "bytes_copied", result->bytes_copied);
    mend_json_integer(json, "creates_refused", result->creates_refused);
    print_placements(json, &result->placed);
    mend_json_number(json, "driver_time_us", result->driver_time_us, 3);
    mend_json_number(json, "driver_time_second_half_us", result->driver_time_second_half_us, 3);
    mend_json_number(json, "compared_time_us", simulated ? result->compared_time_us : none, 3);
    mend_json_number(json, "compared_time_second_half_us",
                     simulated ? result->compared_time_second_half_us : none, 3);
    print_by_list(json, "driver_time_by_list_us", simulated ? &result->time_us : NULL);
    print_by_list(json, "driver_time_second_half_by_list_us",
                  simulated ? &result->time_second_half_us : NULL);
    print_calls(json, "driver_calls", &result->calls);
    print_calls(json, "driver_calls_second_half", &result->calls_second_half);
    print_felt(json, result);
    print_latency(json, "alloc_ns", &result->alloc_ns);
    print_latency(json, "free_ns", &result->free_ns);
    mend_json_integer_if(json, "mappings_peak", result->counts_mappings, result->mappings_peak);
    mend_json_integer_if(json, "content_errors", result->content_checked, result->content_errors);
    if (result->explanation != NULL) {
        print_explanation(json, result->explanation);
    }
    mend_json_end_object(json);
    fputc('\n', out);
    fflush(out);
}
